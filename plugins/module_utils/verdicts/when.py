# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen to a running instance before what is declared is in effect for it.

Sources: KubeVirt pkg/virt-controller/watch/vm/vm.go (under LiveUpdate affinity, nodeSelector and
tolerations reach a running VMI unless RestartRequired is set; topologySpreadConstraints and labels
never do), watch/replicaset/replicaset.go (a replica keeps the template that it was made from).
"""

from __future__ import annotations

import typing as t

from ..model.kinds import VIRTUAL_MACHINE
from ..model.platform import Platform
from ..rules.migratable import why_not_migratable
from .cases import Case
from .terms import Kind, Term

MIGRATION = "migration"
RESTART = "restart"
RECREATION = "recreation"

WORDS: t.Mapping[str, str] = {
    MIGRATION: "it takes effect at its next migration",
    RESTART: "it takes effect at its next restart",
    RECREATION: "it takes effect when the instance is made again",
}
_RANK = ("", MIGRATION, RESTART, RECREATION)
_FROZEN = (Kind.SPREAD, Kind.PREFERRED_SPREAD)


def takes_effect(case: Case, term: Term | None, platform: Platform) -> str:
    """One of the words above, for a term that is not in effect; None stands for a label."""
    vmi, workload = case.instance.vmi, case.workload
    if vmi is None or workload is None or case.gap is None:
        return RECREATION
    again = RESTART if workload.ref.kind == VIRTUAL_MACHINE.name else RECREATION
    if why_not_migratable(vmi):
        return again
    if case.gap.reached:
        return MIGRATION
    live = (
        again is RESTART
        and platform.rollout_strategy == "LiveUpdate"
        and term is not None
        and not any(each.kind in _FROZEN for each in (*case.gap.missing, *case.gap.stale))
        and not workload.condition("RestartRequired")
    )
    return MIGRATION if live else again


def worst(words: t.Iterable[str]) -> str:
    """The most that has to happen; empty where nothing has."""
    return max(words, key=_RANK.index, default="")
