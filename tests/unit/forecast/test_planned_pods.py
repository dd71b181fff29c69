# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned pods are not mistaken for real pods, whatever the names of these."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from tests.support.cluster import HOST, ZONE, cluster, keep_apart, machine
from tests.unit.planning import scenes
from tests.unit.planning.scenes import lost, names


def test_halted_vm_with_the_suffix_of_a_planned_pod_keeps_its_name() -> None:
    made = cluster("ab")
    machine(made, "web", "n1")
    halted = machine(made, "web-next", "")

    found = scenes.written(made, scenes.pinned(halted, "nowhere"))

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert found.reasons[0].startswith("VM web-next: ")
    assert names(found.pending) == ["web-next"]


def test_waiting_pod_with_the_suffix_of_a_planned_pod_replaces_nothing() -> None:
    made = cluster("ab")
    made.bare_pod("web", "n1")
    made.bare_pod("web-next", "")

    found = lost(made, "n1")

    assert (found.answer, found.instances_to_schedule, found.moves) == (
        ForecastResult.GUARANTEED,
        0,
        (),
    )
    assert [finding.objects[0].name for finding in found.findings] == ["web"]


def test_planned_pods_of_two_vms_that_would_share_a_name_are_both_placed() -> None:
    """The launcher pod of the one is called as that of the other would be with a suffix."""
    made = cluster("ab")
    machine(made, "web", "n1")
    halted = machine(made, "web-0", "")

    found = scenes.written(made, scenes.pinned(halted, "b"), lost_nodes=["n1"])

    assert (found.answer, found.instances_to_schedule) == (ForecastResult.GUARANTEED, 2)
    assert [move.instance.name for move in found.moves] == ["web"]


def test_drill_names_a_blocking_pod_whose_name_ends_in_next() -> None:
    made = cluster("ab", migrates=False)
    machine(made, "web", "n1", {"affinity": keep_apart(over=HOST, plain=True, g="web")})
    made.bare_pod("other-next", "n2", g="web")

    found = next(x for x in drill(made.snapshot(), [ZONE], event="drain").drills if x.has_impact)

    assert [blocked.pod and blocked.pod.name for blocked in found.blocked] == ["other-next"]
