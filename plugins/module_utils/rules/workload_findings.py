# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reasons not to write to one workload, whatever the rule says."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.rule import RuleId
from ..model.snapshot import Workload
from ..systems.gitops import managed_by
from .change import Change
from .effect import RESTART, rolls_itself, spread_differs
from .inventory import Inventory
from .ownership import Ownership

CLONED = "cloned"
MANAGED_BY = "managed_by"
SELF_ROLLING = "self_rolling"
RESTART_REQUIRED = "restart_required"
UNREADABLE_OWNERSHIP = "unreadable_ownership"


def of_change(change: Change, inventory: Inventory, self_rolling: str) -> list[Finding]:
    """The findings about what is to be written to one workload."""
    workload, merged = change.workload, change.merged
    rules = (*merged.added, *merged.updated, *merged.removed)
    found: list[Finding] = []
    if merged.slots and rolls_itself(workload) and self_rolling == "refuse":
        found += _each(
            rules,
            workload,
            SELF_ROLLING,
            f"Writing to {workload.ref} starts its own roll-out at once.",
            "Set self_rolling to now if that is wanted.",
        )
    manager = managed_by(workload)
    if manager is not None and merged.slots:
        found += _each(
            rules,
            workload,
            MANAGED_BY,
            f"{workload.ref} is managed by {manager}, which would take a change back.",
            "Commit the patch that is returned to where the object comes from, and set adopt to"
            " true; or allow this finding.",
        )
    if change.takes_effect == RESTART and spread_differs(merged, inventory.machines_of(workload)):
        found += _each(
            rules,
            workload,
            RESTART_REQUIRED,
            f"{workload.ref} runs, and KubeVirt does not carry topologySpreadConstraints over to a"
            " running machine; until it is restarted, no other change of its placement counts"
            " either.",
            "Restart it, or use keep_apart, which live migration makes effective.",
            "warning",
        )
    return found


def copy_of_another(
    workload: Workload, ownership: Ownership, rules: t.Iterable[RuleId]
) -> list[Finding]:
    """A workload of the rules that carries another object's annotation."""
    return _each(
        rules,
        workload,
        CLONED,
        f"{workload.ref} carries the rules of another object (uid {ownership.uid}): it was cloned"
        " or restored with them.",
        "Allow this finding, and the terms of these rules become its own; or remove them first.",
    )


def copied_rules(
    workload: Workload, ownership: Ownership, rules: t.Iterable[RuleId]
) -> list[Finding]:
    """A workload that is none of the rules' and carries a copy of their terms."""
    return _each(
        rules,
        workload,
        CLONED,
        f"{workload.ref} carries a copy of the rule's terms (from uid {ownership.uid}); it was"
        " left as it is.",
        "Name it in the rule and allow this finding, or remove the terms and the annotation.",
        "warning",
    )


def unreadable_ownership(ref: Ref, error: Exception) -> Finding:
    """An object that may carry rules, for all one can tell."""
    return Finding(
        UNREADABLE_OWNERSHIP,
        "warning",
        f"{error}.",
        "It was left as it is, and may carry terms of these rules.",
        (ref,),
    )


def _each(
    rules: t.Iterable[RuleId],
    workload: Workload,
    name: str,
    why: str,
    advice: str,
    severity: t.Literal["error", "warning"] = "error",
) -> list[Finding]:
    return [Finding(name, severity, why, advice, (workload.ref,), r.name) for r in sorted(rules)]
