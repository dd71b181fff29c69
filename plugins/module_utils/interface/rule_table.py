# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as text: what each is about, whether it holds, and how it is declared."""

from __future__ import annotations

import itertools
import typing as t

from ..model.rendering import columns, listed, one_line, table_text
from ..model.snapshot import Unreadable, unreadable_texts
from .pasted_text import has_plain_keys, is_plain, variables_yaml

Rule = t.Mapping[str, t.Any]

NAMED = 5
"""Workloads that are named, of each rule."""


def rule_table(rules: t.Sequence[Rule], gaps: t.Iterable[Unreadable] = ()) -> str:
    """A line for each rule, and one for each of what could not be read: workloads there may have other rules."""
    shows_new = any(rule.get("new_members", "none") != "none" for rule in rules)
    heading = ("NEW MEMBERS",) if shows_new else ()
    rows = [("RULE", "TYPE", "STATE", "SINCE", *heading, "WORKLOADS")]
    for rule in rules:
        names = [workload["name"] for workload in rule["workloads"]]
        kind = f"{rule['type'] or '-'}{', preferred' if rule['preferred'] else ''}"
        name = f"{rule['namespace']}/{rule['rule_set']}/{rule['name']}"
        since = str(rule["since"] or "")[: len("2026-03-02")]
        new = (rule["new_members"],) if shows_new else ()
        rows.append((name, kind, state_of(rule), since, *new, listed(names, NAMED)))
    unknown = [f"unknown: {text}" for text in unreadable_texts(gaps)]
    lines = columns(rows) if rules else [] if unknown else ["no rules"]
    return table_text([*lines, *unknown])


def state_of(rule: Rule) -> str:
    """The worst of what is known of the rule: removed, violated, not enforced, enforced. A rule that rests, or that no
    workload has, has no other state."""
    workloads = rule["workloads"]
    resting = sum(workload["resting"] for workload in workloads)
    if rule["resting"]:
        all_of_them = resting == len(workloads)
        return "not enabled" if all_of_them else f"not enabled on {resting} of {len(workloads)}"
    if not workloads:
        return "no workload"
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


def declarations_yaml(rules: t.Sequence[Rule]) -> str:
    """The rules as variables of the playbook apply, in YAML: a document for each namespace and rule set. One with
    policies keeps them."""
    lines = []
    for (namespace, rule_set), group in itertools.groupby(
        rules, lambda rule: (rule["namespace"], rule["rule_set"])
    ):
        rules_of_set = list(group)
        printed = [rule for rule in rules_of_set if _fault(rule) is None]
        how = _new_members(rules_of_set)
        variables = {
            "placement_apply_namespace": namespace,
            "placement_apply_rule_set": rule_set,
            **({} if how == "none" else {"placement_apply_new_members": how}),
            "placement_apply_rules": [rule["declaration"] for rule in printed],
        }
        lines += ["---", *variables_yaml(variables)]
        lines += _other_coverage(rules_of_set, how)
        lines += [
            one_line(f"# left out, since {why}: {rule['name']} ({state_of(rule)})")
            for rule in rules_of_set
            if (why := _fault(rule))
        ]
    return "".join(f"{line}\n" for line in lines)


def _new_members(rules: t.Sequence[Rule]) -> str:
    """The option without which the playbook takes its rules out of their policy."""
    covered = {rule.get("new_members") for rule in rules}
    return next((x for x in ("policy", "warn") if x in covered), "none")


def _other_coverage(rules: t.Sequence[Rule], how: str) -> list[str]:
    """Comments about rules that the option, which is for all rules of a set, gives to new members or takes from them
    unlike now."""
    names: dict[str, list[str]] = {}
    for rule in rules:
        names.setdefault(rule.get("new_members", "none"), []).append(rule["name"])
    return [
        one_line(f"# new_members of these was {was}: {listed(names[was], NAMED)}")
        for was in sorted(names)
        if was != how
    ]


def _fault(rule: Rule) -> str | None:
    """What keeps a rule from being printed as a declaration."""
    if not all(is_plain(rule[part]) for part in ("rule_set", "name")):
        return "its name is no name of a rule"
    if not rule["declaration"]:
        return "its workloads have different options, or such that cannot be written"
    if not has_plain_keys(rule["declaration"]):
        return "its terms have a key that is no key of a label"
    return None
