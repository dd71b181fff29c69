# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a VirtualMachine? KubeVirt makes one VMI of its name from its template, by its run strategy."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .kind import Kind
from .vmi import KUBEVIRT_V1, VM

VIRTUAL_MACHINE = Kind(
    VM,
    KUBEVIRT_V1,
    "virtualmachines",
    virtual_machines=True,
    selected=(),
    run_strategy=True,
    has_vm=True,
    keeps_names=True,
)


@dataclass(frozen=True, slots=True)
class RunStrategy:
    """What KubeVirt does with a VM of this run strategy. `restarted`: virt-api restarts it on request, and starts it
    after a stop (rest/lifecycle.go). `started`: it is started as soon as it has the strategy. `again`: when a VMI
    follows one that has ended (watch/vm/vm.go, syncRunStrategy)."""

    restarted: bool
    started: bool
    again: t.Literal["always", "if_failed", "never", "unknown"]


_RUN_STRATEGIES: t.Mapping[str, RunStrategy] = {
    "Always": RunStrategy(restarted=True, started=True, again="always"),
    "RerunOnFailure": RunStrategy(restarted=True, started=True, again="if_failed"),
    "Manual": RunStrategy(restarted=True, started=False, again="never"),
    "Once": RunStrategy(restarted=False, started=True, again="never"),
    "Halted": RunStrategy(restarted=False, started=False, again="never"),
}
_UNKNOWN = RunStrategy(restarted=False, started=False, again="unknown")


def run_strategy_named(name: object) -> RunStrategy:
    """The run strategy of this name."""
    return _RUN_STRATEGIES.get(str(name), _UNKNOWN)
