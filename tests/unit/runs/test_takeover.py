# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task goes on with after another one, what it must be allowed, and its last look."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.movement.entry import Entry
from ansible_collections.virt.placement.plugins.module_utils.runs import sending, takeover
from ansible_collections.virt.placement.plugins.module_utils.runs.journal import Journal
from ansible_collections.virt.placement.plugins.module_utils.runs.needed_rights import (
    needed_rights,
)
from tests.unit.runs.test_pace import parameters

VMI = Ref("VirtualMachineInstance", "shop", "db")
POD = Ref("Pod", "shop", "web-1")
DB = Ref("VirtualMachine", "shop", "db")
ENTRY = Entry(VMI, "u1", DB, Method.MIGRATE, "w1", 1, 0.0)
DONE = frozenset({"d"})


def test_a_run_that_left_nothing_in_flight_is_over() -> None:
    asked = parameters()
    unfinished = Journal("r1", asked.request, done=DONE, failed=2)
    journal = takeover.continued(unfinished, asked)
    assert journal.run != "r1"
    assert (journal.request, journal.done, journal.failed) == (asked.request, frozenset(), 0)
    assert takeover.told(unfinished, journal) == []


@pytest.mark.parametrize("same", [True, False])
def test_what_is_in_flight_goes_on_under_its_run(same: bool) -> None:
    asked = parameters()
    request = asked.request if same else "another"
    unfinished = Journal("r1", request, entries=(ENTRY,), done=DONE, failed=2)
    journal = takeover.continued(unfinished, asked)
    assert (journal.run, journal.entries) == ("r1", (ENTRY,))
    assert (journal.done, journal.failed) == (frozenset(), 0)
    word = "continuing run r1" if same else "taking over the moves in flight of run r1"
    assert takeover.told(unfinished, replace(journal, request=request if same else "x"))[
        0
    ].startswith(word)


def test_a_run_of_all_instances_goes_on_where_it_stopped() -> None:
    asked = parameters(scope="all")
    again = takeover.continued(Journal("r1", asked.request, done=DONE), asked)
    assert (again.run, again.done) == ("r1", DONE)
    assert takeover.continued(Journal("r1", "another", done=DONE), asked).done == frozenset()


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (sending.Sight("7", "w1", terminating=False), ""),
        (sending.Sight("7", "", terminating=False), ""),
        (sending.Sight("7", "w2", terminating=False), "it runs on w2 now"),
        (sending.Sight("7", "w1", terminating=True), "it is being deleted"),
    ],
)
def test_a_last_look_finds_what_has_changed(seen: sending.Sight, why: str) -> None:
    assert seen.why_not(ENTRY) == why


def test_one_that_had_no_node_and_has_one_now_has_changed() -> None:
    waiting = replace(ENTRY, source="")
    assert sending.Sight("7", "w2", terminating=False).why_not(waiting) == "it runs on w2 now"


@pytest.mark.parametrize(
    ("move", "asked"),
    [
        (
            (Method.MIGRATE, VMI),
            {
                "get virtualmachineinstances.kubevirt.io in namespace shop",
                *(
                    f"{verb} virtualmachineinstancemigrations.kubevirt.io in namespace shop"
                    for verb in ("create", "delete", "get")
                ),
            },
        ),
        (
            (Method.RESTART, VMI),
            {
                "get virtualmachineinstances.kubevirt.io in namespace shop",
                "update virtualmachines/restart.subresources.kubevirt.io in namespace shop",
            },
        ),
        (
            (Method.RECREATE, VMI),
            {
                f"{verb} virtualmachineinstances.kubevirt.io in namespace shop"
                for verb in ("get", "patch", "delete")
            },
        ),
        (
            (Method.RECREATE, POD),
            {
                "get pods in namespace shop",
                "patch pods in namespace shop",
                "create pods/eviction in namespace shop",
            },
        ),
    ],
)
def test_what_a_move_needs(move: t.Any, asked: set[str]) -> None:
    lease = "leases.coordination.k8s.io virt-placement in namespace kube-system"
    found = {str(right) for right in needed_rights([move, move], (), lease_exists=True)}
    assert found == {*asked, f"get {lease}", f"patch {lease}"}


def test_what_the_lease_and_the_journals_need() -> None:
    found = {str(right) for right in needed_rights((), [DB], lease_exists=False)}
    assert "create leases.coordination.k8s.io in namespace kube-system" in found
    assert "patch virtualmachines.kubevirt.io in namespace shop" in found
