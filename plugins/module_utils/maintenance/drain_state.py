# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one step of a drain hands to the next one, beside what is in the journal and in the marks. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.obstacle import Obstacle
from ..moves.state import RunState


@dataclass(slots=True)
class DrainState(RunState):
    """`nodes` are those of the run, with their uids, `marked` those with a cordon and a mark. `checked`: the findings
    about them were reported. `cordoned`: this run has cordoned them. `totals` and `left` are the numbers of pods on
    each node at the beginning, and as they were reported last. `not_ready` are the nodes reported so. `restarts` says,
    by node and kind/namespace/name of the workload, why a restart or a recreation failed. `not_begun` are those that
    the window keeps from being begun beside the nodes of the run. `passed_over` has the policies that are not used, by
    uid of the VMI. `placed`: those by which a VM would have no node are among them. `there` and
    `returned` are those of `returns.count`. `steers`: the run has put the taint of `steering` on nodes, or tried to.
    `steered` are those that may have it."""

    nodes: dict[str, str] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    checked: bool = False
    cordoned: bool = False
    totals: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    not_ready: list[str] = field(default_factory=list)
    restarts: dict[str, dict[str, str]] = field(default_factory=dict)
    not_begun: list[str] = field(default_factory=list)
    passed_over: dict[str, dict[str, Obstacle]] = field(default_factory=dict)
    placed: bool = False
    there: dict[str, dict[str, str]] = field(default_factory=dict)
    returned: dict[str, dict[str, int]] = field(default_factory=dict)
    steers: bool = False
    steered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The step before has handed over JSON."""
        self.passed_over = {
            uid: {
                policy: why if isinstance(why, Obstacle) else Obstacle(**why)
                for policy, why in policies.items()
            }
            for uid, policies in self.passed_over.items()
        }
