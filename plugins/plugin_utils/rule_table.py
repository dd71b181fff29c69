# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of rules_info as lines: what each rule is about, and whether it holds."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import columns, listed

Rule = t.Mapping[str, t.Any]

NAMED = 5
"""Workloads that are named, of each rule."""


def rule_lines(rules: t.Sequence[Rule]) -> list[str]:
    if not rules:
        return ["no rules"]
    rows = [("RULE", "TYPE", "STATE", "WORKLOADS")]
    for rule in rules:
        names = [workload["name"] for workload in rule["workloads"]]
        kind = f"{rule['type'] or '-'}{', preferred' if rule['preferred'] else ''}"
        name = f"{rule['namespace']}/{rule['rule_set']}/{rule['name']}"
        rows.append((name, kind, state_of(rule), listed(names, NAMED)))
    return columns(rows)


def state_of(rule: Rule) -> str:
    """The worst of what is known of the rule: removed, violated, not enforced, enforced. A rule that rests has no
    other state."""
    workloads = rule["workloads"]
    resting = sum(workload["resting"] for workload in workloads)
    if resting:
        return "rests" if resting == len(workloads) else f"rests on {resting} of {len(workloads)}"
    instances = sum(workload["instances"] for workload in workloads)
    violated = sum(workload["violated"] for workload in workloads)
    enforced = sum(workload["enforced"] for workload in workloads)
    if not all(workload["complete"] for workload in workloads):
        return "terms removed"
    if violated:
        return f"violated by {violated} of {instances}"
    if not rule["enforced"] and enforced == instances:
        return "unknown: not everything could be read"
    if not instances:
        return "nothing runs"
    return "enforced" if rule["enforced"] else f"enforced by {enforced} of {instances}"
