# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts to the nodes of a map that are played: stopped between two VMs, and with VMs of a pool."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.plan import Plan
from tests.support.cluster import Cluster, cluster, machine, near
from tests.support.pools import pool
from tests.unit.moves.played import Played


def to(made: Cluster, places: dict[str, str], *, max_moves: int = 0) -> Played:
    asked = {f"shop/{name}": node for name, node in places.items()}
    return Played(made, places=asked, namespaces=None, max_moves=max_moves)


BOTH = {"web": "n2", "db": "n2"}


def target_and_follower() -> Cluster:
    made = cluster("ab")
    machine(made, "db", "n1", app="db")
    machine(made, "web", "n1", {"affinity": near(app="db")}, app="web")
    return made


def test_rollout_that_was_stopped_after_the_target_continues_with_its_follower() -> None:
    made = target_and_follower()
    stopped = to(made, BOTH, max_moves=1)
    stopped.play_to_the_end()
    assert stopped.nodes() == {"db": "n2", "web": "n1"}
    (left,) = stopped.plan.moves
    assert (left.instance.name, left.reason) == (
        "web",
        "n2 was asked for, and until then it violates a rule: no pod that matches its pod affinity is in zone 'a'"
        " (pod affinity over zone to app In (db))",
    )

    again = to(made, BOTH)
    again.play_to_the_end()
    assert again.nodes() == BOTH
    assert again.plan.skipped == ()


@pytest.mark.parametrize("moment", range(10))
def test_rollout_that_was_killed_is_continued_from_its_journal(moment: int) -> None:
    made = target_and_follower()
    killed = to(made, BOTH)
    for _event in range(moment):
        killed.reconcile()
        killed.happens()
    again = to(made, BOTH)
    again.journal = killed.journal
    again.play_to_the_end()
    assert again.nodes() == BOTH


def test_vm_of_a_pool_goes_to_its_node_and_the_others_stay() -> None:
    made = cluster("abc")
    pool(made, "web", ["n1", "n1", "n2"])
    played = to(made, {"web-0": "n3"})
    assert played.reconcile() == ["web-0"]
    played.play_to_the_end()
    assert played.nodes() == {"web-0": "n3", "web-1": "n1", "web-2": "n2"}
    assert played.plan == Plan()
