# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances fail a verification, and what a passed one says."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import next_event
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import INSTANCE_LISTS
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed, plural

Result = dict[str, t.Any]

SHOWN = 20
"""Instances that are named, of each state."""


@dataclass(frozen=True)
class FailedState:
    """`reason`: how many instances are in a state that fails, the first of them and why, in one text. `lines`: more."""

    reason: str
    lines: list[str]


def failed_states(
    result: Result, fail_on: t.Sequence[str], only: t.Sequence[Result] | None = None
) -> list[FailedState]:
    """For each state that fails, its number, and the first instances with their rules unless the table names them. It
    names what could not be read, too. `result` is that of placement_info. `only`: workloads that alone are verified."""
    failed: list[FailedState] = []
    instances = [
        instance for instance in result["instances"] if only is None or instance["workload"] in only
    ]
    for problem in fail_on:
        bad = [x for x in instances if x["verdict"] == problem or x.get(problem)]
        listed = result.get("findings") or () if problem == "error_finding" else ()
        findings = [x for x in listed if x["severity"] == "error"]
        count = len(bad) if only is not None else result["summary"].get(problem, 0)
        count = len(findings) if problem == "error_finding" else count
        if not count:
            continue
        lists = unread_lists(result) if problem == "unknown" and only is None else []
        also = f", since {named_lists(lists)} could not be read" if lists else ""
        lines = [f"Verification failed: {count} {problem}{also}."]
        examples = [*map(_finding, findings[:1]), *(_cause(x, problem) for x in bad[:1])]
        such = (", such as " if count > 1 else ": ") if examples else "."
        failed.append(FailedState(f"{count} {problem}{also}{such}{''.join(examples)}", lines))
        lines += [
            _sentence(instance, problem)
            for instance in bad[:SHOWN]
            if not _is_in_table(instance, problem)
        ]
        if problem == "violated":
            lines.append(_advice(result, bad))
        if problem == "constraint_removed":
            lines.append(
                "Constraints of these rules were removed from workloads. Write the rules again: playbook apply or"
                " module rules."
            )
        lines += [_finding(finding) for finding in findings[:SHOWN]]
    if failed and only is not None:
        failed[-1].lines.extend(_not_moved(result, fail_on, only))
    return failed


def _is_in_table(instance: Result, problem: str) -> bool:
    """Whether the table of placement_info names the instance with the cause. What is not enforced is counted there."""
    of_rules = {rule["verdict"] for rule in instance["rules"]} - {"not_enforced"}
    return problem == "down" or problem in of_rules


def unread_lists(result: Result) -> list[str]:
    """The lists of what runs that could not be read, of each namespace."""
    gaps = [gap["resource"] for gap in result.get("permission_gaps") or ()]
    return [name for name in gaps if name in INSTANCE_LISTS]


def named_lists(lists: t.Iterable[str]) -> str:
    *others, last = dict.fromkeys(lists)
    return f"{', '.join(others)} and {last}" if others else last


def new_members(result: Result) -> list[str]:
    """The workloads that a rule selects and that lack it, since they are newer than the rule."""
    return [
        name
        for finding in result.get("findings") or ()
        if finding["name"] == "rule_not_on_new_member"
        for name in finding["objects"]
    ]


def _advice(result: Result, bad: t.Sequence[Result]) -> str:
    if no_move_repairs(result["summary"]):
        return (
            'No move repairs these rules as the cluster is now: the lines with "cannot be satisfied" name them.'
            " Change the rules, or add nodes or labels."
        )
    namespaces = sorted({instance["instance"]["namespace"] for instance in bad})
    members = new_members(result)
    first = (
        f"First write the rules again with the playbook apply, since {listed(members, 4)} lack them. "
        if members
        else ""
    )
    return (
        f"{first}To move every VM that violates a rule, run the playbook rollout for"
        f" {', '.join(namespaces)}.{_restarts({**result, 'instances': bad})}"
    )


def no_move_repairs(summary: Result) -> bool:
    """Whether a rollout could repair none of the violated rules. False where it is not known of some of them."""
    rules = summary.get("violated_rules") or []
    return bool(rules) and all(x["moves_counted"] and x["moves_needed"] is None for x in rules)


def _finding(finding: Result) -> str:
    rule = f" (rule {finding['rule']})" if finding["rule"] else ""
    objects = f" of {', '.join(finding['objects'][:3])}" if finding["objects"] else ""
    return f"{finding['name']}{rule}{objects}: {finding['why']} {finding['advice']}"


def _name(instance: Result) -> str:
    ref = instance["instance"]
    return f"{ref['kind']} {ref['namespace']}/{ref['name']}"


def _sentence(instance: Result, problem: str) -> str:
    node = f" on {instance['node']}" if instance.get("node") else ""
    rules = [
        rule["rule"]
        for rule in instance["rules"]
        if rule["rule"]
        and (
            problem == rule["verdict"]
            or (problem == "constraint_removed" and rule.get("constraint_removed"))
        )
    ]
    noun = "rule" if len(rules) == 1 else "rules"
    named = f"{noun} {', '.join(rules)}" if rules else ""
    return f"{_name(instance)}{node} {_STATES[problem](named)}."


def _cause(instance: Result, problem: str) -> str:
    """An instance in this state with its cause, as the table has it."""
    rule = next((x for x in instance["rules"] if x["verdict"] == problem and x.get("reason")), None)
    if rule is None:
        return _sentence(instance, problem)
    node = f" on {instance['node']}" if instance.get("node") else ""
    named = f" rule {rule['rule']}:" if rule["rule"] else ""
    return f"{_name(instance)}{node}:{named} {rule['reason']}"


_STATES: t.Mapping[str, t.Callable[[str], str]] = {
    "violated": lambda rules: f"violates {rules or 'a required constraint'}",
    "pending": lambda _rules: "has no node",
    "unknown": lambda rules: f"is not known to obey {rules or 'its rules'}",
    "down": lambda _rules: "is down, since its node is not Ready",
    "preference_not_met": lambda rules: f"does not meet {rules or 'a preferred constraint'}",
    "not_enforced": lambda rules: f"runs with the previous constraints{rules and ' of ' + rules}",
    "constraint_removed": lambda rules: (
        f"lacks a constraint of {rules or 'a rule'}, which was removed from its workload"
    ),
}
"""What follows the name of an instance, by the state that fails the verification, with the rules that are in it."""


def _restarts(result: Result) -> str:
    """What a rollout needs beside its scope, where a live migration enforces nothing."""
    needs = {rule.get("takes_effect") for x in result["instances"] for rule in x["rules"]}
    methods = ["migrate", *(method for method in ("restart", "recreate") if method in needs)]
    if len(methods) == 1:
        return ""
    return (
        f" Some need more than a live migration: placement_rollout_allow: [{', '.join(methods)}]."
    )


def _effects(result: Result) -> t.Iterator[list[str]]:
    """Of each instance whose rules are not enforced."""
    for instance in result["instances"]:
        if instance["verdict"] == "not_enforced":
            yield [rule.get("takes_effect") for rule in instance["rules"]]


def _not_moved(
    result: Result, fail_on: t.Sequence[str], only: t.Sequence[Result]
) -> t.Iterator[str]:
    """The instances that a job did not move, and that would fail a verification of all."""
    for problem in fail_on:
        others = [
            instance
            for instance in result["instances"]
            if instance["workload"] not in only
            and (instance["verdict"] == problem or instance.get(problem))
        ]
        if others:
            names = listed([f"{_name(x)} on {x.get('node') or 'no node'}" for x in others], 8)
            yield f"Not moved by this job, and {problem}: {names}."


def passed(
    result: Result, fail_on: t.Sequence[str], only: t.Sequence[Result] | None = None
) -> list[str]:
    lines = []
    if fail_on:
        which = "no instance" if only is None else "no instance that this job moved"
        lines.append(
            f"Verification passed: {which} is in one of these states: {', '.join(fail_on)}."
        )
    if only is not None:
        lines += _not_moved(result, fail_on, only)
    missed = result["summary"].get("preference_missed", 0)
    if missed and only is None:
        lines.append(
            f"{plural(missed, 'instance')} on nodes that do not meet a preferred rule."
            " Nothing required is violated. To move what can be better placed, run the playbook rollout with"
            " placement_rollout_namespaces and placement_rollout_scope: preference_not_met."
        )
    count = result["summary"].get("not_enforced", 0)
    if count and only is None:
        lines.append(
            f"{count} not_enforced: changes of rules take effect at {next_event(_effects(result))}. To make them"
            " take effect now, run the playbook rollout with placement_rollout_namespaces and"
            f" placement_rollout_scope: not_enforced.{_restarts(result)}"
        )
    return lines
