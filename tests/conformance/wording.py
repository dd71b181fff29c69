# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine's failures in the words of the case files, and the scheduler's words in ours.

The engine says kinds; only here are message texts of Kubernetes read, and only to compare.
"""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Taint
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import (
    FilterReason,
    FilterStatus,
)

from .world import ENFORCED

SUCCESS = ("Success", ())
Outcome = tuple[str, tuple[str, ...]]
"""A code, and the reasons in the short words of the README, sorted."""

CODES = {"U": "Unschedulable", "UU": "UnschedulableAndUnresolvable"}

_TEXTS = {
    "node(s) didn't match pod affinity rules": "affinity",
    "node(s) didn't match pod anti-affinity rules": "anti",
    "node(s) didn't satisfy existing pods anti-affinity rules": "existing-anti",
    "node(s) didn't match pod topology spread constraints": "skew",
    "node(s) didn't match pod topology spread constraints (missing required label)": (
        "missing-label"
    ),
    "node(s) didn't match Pod's node affinity/selector": "node-affinity",
    "node(s) didn't match scheduler-enforced node affinity": "enforced-node-affinity",
    "pod affinity terms conflict": "name-conflict",
    "node(s) were unschedulable": "cordoned",
    "node(s) didn't have free ports for the requested pod ports": "ports",
    "node(s) didn't match the requested node name": "node-name",
    "node(s) had untolerated taint(s)": "taint",
}


def outcome(failure: FilterStatus | None) -> Outcome:
    """What the engine says of one filter and one node."""
    if failure is None:
        return SUCCESS
    return str(failure.code), tuple(sorted(set(map(_short, failure.reported))))


def wanted(expected: t.Mapping[str, t.Any]) -> Outcome:
    """What a case expects: `{code, reasons}` in the scheduler's words or `{code, why}`."""
    code = CODES.get(expected["code"], expected["code"])
    if "why" in expected:
        return code, tuple(sorted(set(expected["why"])))
    return code, tuple(sorted({_kind(text) for text in expected.get("reasons") or ()}))


def without_taint(one: Outcome) -> Outcome:
    """Releases from 1.35 on do not name the taint."""
    return one[0], tuple("taint" if each.startswith("taint ") else each for each in one[1])


def _short(reason: FilterReason) -> str:
    if isinstance(reason.term, Taint):
        return f"taint {{{reason.term.key}: {reason.term.value}}}"
    if reason.kind == "resources":
        return f"Insufficient {reason.term}"
    if reason.term == ENFORCED:
        return "enforced-node-affinity"
    return "Too many pods" if reason.kind == "too-many-pods" else reason.kind


def _kind(text: str) -> str:
    if text.startswith("node(s) had untolerated taint {"):
        return text.removeprefix("node(s) had untolerated ")
    if text.startswith("parsing pod: "):
        return "invalid"
    return _TEXTS.get(text, text)
