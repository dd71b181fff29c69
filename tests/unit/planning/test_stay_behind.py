# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who would have no place, and whose pods the scheduler would end to make one."""

from __future__ import annotations

import pytest

from .scenes import HOST, cluster, deployment, keep_apart, lost


@pytest.mark.parametrize(
    ("priority", "more", "may_end"),
    [(1000, {}, ["low"]), (0, {}, []), (1000, {"preemptionPolicy": "Never"}, [])],
)
def test_whose_pods_would_be_ended_for_one_without_a_place(
    priority: int, more: dict[str, str], may_end: list[str]
) -> None:
    made = cluster("aa")
    spec = {"affinity": keep_apart(over=HOST, team="a")}
    labels = {"team": "a"}
    deployment(made, "high", ["n1"], {**spec, "priority": priority, **more}, labels)
    deployment(made, "low", ["n2"], {**spec, "priority": 0}, labels)

    found = lost(made, "n1")

    (pending,) = found.pending
    assert pending.certain
    assert [ref.name for ref in pending.may_end] == may_end
