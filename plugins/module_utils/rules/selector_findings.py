# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a group's selector selects the running pods that it is meant for, and no others."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.rule import Rule
from ..model.snapshot import Unreadable, Workload
from ..scheduling.selectors import matches
from .group_selector import Selection
from .inventory import Inventory

SELECTOR_MISSES_MEMBERS = "selector_misses_members"
SELECTOR_MATCHES_OTHERS = "selector_matches_others"
NOT_CHECKED = "not_checked"


def selector_findings(
    rule: Rule, selection: Selection, inventory: Inventory
) -> t.Iterator[Finding]:
    """Members that the selector misses, and pods of others that it selects."""
    gap = inventory.gap("pods", selection.namespace)
    if gap is not None:
        yield unchecked(gap, f"Which running pods the selector of rule {rule.id.name} selects")
        return
    if not selection.members:
        return
    selector = selection.selector()
    own = {pod.uid: (w, pod) for w in selection.members for pod in inventory.pods_of(w)}
    missed = [w for w, pod in own.values() if not matches(selector, pod.labels)]
    if missed and selection.label is None:
        yield _misses(rule, selection, missed)
    others = [
        pod.ref
        for pod in inventory.pods.get(selection.namespace, ())
        if pod.uid not in own and not pod.terminating and matches(selector, pod.labels)
    ]
    if others:
        yield matches_others(rule, selection, others)


def _misses(rule: Rule, selection: Selection, missed: t.Sequence[Workload]) -> Finding:
    refs = tuple(dict.fromkeys(workload.ref for workload in missed))
    return Finding(
        SELECTOR_MISSES_MEMBERS,
        "warning",
        f"Running pods of {_some(refs)} do not carry {_selector_text(selection)}, so the rule does"
        " not count them.",
        "Restart them, so that they get the labels of their templates, or choose the workloads by"
        " name.",
        refs,
        rule.id.name,
    )


def matches_others(rule: Rule, selection: Selection, others: t.Sequence[Ref]) -> Finding:
    """`others` are pods that the selection selects and is not about, or what makes such pods."""
    return Finding(
        SELECTOR_MATCHES_OTHERS,
        "warning",
        f"{_selector_text(selection)} also selects {_some(others)}, which the rule is not about.",
        "Use labels that only the workloads of the rule have, or give the rule a label.",
        tuple(others),
        rule.id.name,
    )


def _selector_text(selection: Selection) -> str:
    return " and ".join(
        f"{e['key']} {e['operator']} [{', '.join((e.get('values') or ())[:3])}"
        f"{', ...' if len(e.get('values') or ()) > 3 else ''}]"
        for e in selection.expressions
    )


def _some(refs: t.Sequence[Ref]) -> str:
    shown = ", ".join(map(str, refs[:3]))
    return f"{shown} and {len(refs) - 3} more" if len(refs) > 3 else shown


def unchecked(gap: Unreadable, what: str) -> Finding:
    """Something could not be read, so a check was not made."""
    return Finding(
        NOT_CHECKED,
        "warning",
        f"{what} was not checked: {gap}.",
        "Grant the right that is named, or check it by hand.",
    )
