# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a verification say of the instances that fail it, and of what is to do about them? Pure."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.moving import next_event
from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.kinds import INSTANCE_LISTS
from ..model.objects import Ref
from ..model.rendering import TO_MOVE, Entry, listed, one_line, outcome, plural
from ..model.verdict import InstanceVerdict, RuleVerdict, Verdict, Verdicts
from .vm_states import VmStates

DOWN, REMOVED = "down", "constraint_removed"
NEW_MEMBER = "rule_not_on_new_member"

SHOWN = 20
"""Instances that are named, of each state."""


@dataclass(frozen=True)
class Problem:
    """The instances in a state that may fail a verification. `text`: how many, the first of them and why. `lines`:
    more. `elsewhere`: those of other workloads than the ones that are verified."""

    state: str
    count: int
    text: str
    lines: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()


def problems(
    verdicts: Verdicts, findings: t.Sequence[Finding], only: t.Container[Ref] | None = None
) -> t.Iterator[Problem]:
    """One for each state that has instances. The lines name instances that the table does not. `only`: the workloads
    that are verified, and not the lists and findings of all."""
    for state in _STATES:
        found = [x for x in verdicts.instances if _is_in(x, state)]
        bad = [x for x in found if only is None or x.workload in only]
        lists = _unread_lists(verdicts) if state == Verdict.UNKNOWN and only is None else []
        also = f", since {_joined(lists)} could not be read" if lists else ""
        count = len(bad) + len(lists)
        # The table of placement_info names the others with the cause; it counts what is not enforced.
        lines = [
            _sentence(x, state)
            for x in bad[:SHOWN]
            if state != DOWN
            and (state == Verdict.NOT_ENFORCED or state not in {rule.verdict for rule in x.rules})
        ]
        if bad and state == Verdict.VIOLATED:
            lines.append(_advice(verdicts, findings, bad))
        if bad and state == REMOVED:
            text = "Constraints of these rules were removed from workloads. Write the rules again"
            lines.append(f"{text}: playbook apply or module rules.")
        elsewhere = tuple(_placed(x) for x in found if only is not None and x.workload not in only)
        if count or elsewhere:
            example = [_cause(x, state) for x in bad[:1]]
            yield _problem(state, count, also, example, lines, elsewhere)
    errors = [_finding(x) for x in findings if x.severity == "error"]
    if errors:
        yield _problem("error_finding", len(errors), "", errors[:1], errors[:SHOWN], ())


def _problem(
    state: str,
    count: int,
    also: str,
    example: t.Sequence[str],
    lines: t.Sequence[str],
    elsewhere: tuple[str, ...],
) -> Problem:
    such = (", such as " if count > 1 else ": ") if example else "."
    first = f"Verification failed: {count} {state}{also}."
    text = f"{count} {state}{also}{such}{''.join(example)}"
    return Problem(state, count, one_line(text), tuple(map(one_line, [first, *lines])), elsewhere)


def entries(
    verdicts: Verdicts,
    findings: t.Sequence[Finding],
    states: VmStates,
    resting: t.Sequence[t.Mapping[str, JSON]],
    gone: t.Sequence[str] = (),
) -> dict[str, JSON]:
    """The verdicts in numbers, and what is to do about them, for people. `gone`: namespaces that were deleted."""
    text = "does not exist any more: moves in it are over, and nothing of it is verified"
    skipped = [Entry("no_namespace", text, tuple(f"namespace {x}" for x in gone))] if gone else []
    return outcome(_done(verdicts, states, resting), skipped, _following(verdicts, findings))


def _done(
    verdicts: Verdicts, states: VmStates, resting: t.Sequence[t.Mapping[str, JSON]]
) -> t.Iterator[Entry]:
    names = (*_NUMBERED, REMOVED, DOWN)
    numbers = {name: sum(_is_in(x, name) for x in verdicts.instances) for name in names}
    counts = [f"{number} {name}" for name, number in numbers.items() if number]
    if lists := _unread_lists(verdicts):
        counts.append(f"whether there are more is unknown: {_joined(lists)} could not be read")
    instances = plural(len(verdicts.instances), "instance")
    yield Entry("instances", f"{instances}: {', '.join(counts) or 'none with a rule'}")
    if verdicts.moves_needed:
        yield Entry("violated_rules", "violated rules", tuple(sorted(verdicts.moves_needed)))
    if states.not_running:
        count = plural(len(states.not_running), "VM")
        yield Entry("not_running", f"{count} not running, so not verified")
    if states.not_migratable:
        count = plural(len(states.not_migratable), "running VM")
        yield Entry("not_migratable", f"{count} cannot be live-migrated")
    if rules := tuple(str(rule["rule"]) for rule in resting):
        text = f"{plural(len(rules), 'rule')} not enabled, so not verified"
        yield Entry("not_enabled", text, rules)


def _following(verdicts: Verdicts, findings: t.Sequence[Finding]) -> t.Iterator[Entry]:
    """What a violation needs; where there is no problem, what makes the placement better."""
    found = [state for state in _STATES if any(_is_in(x, state) for x in verdicts.instances)]
    if members := new_members(findings):
        text = "write the rules again with the playbook apply: they are not on"
        yield Entry(NEW_MEMBER, f"{text} {listed(members, 4)}")
    if Verdict.VIOLATED in found and no_move_repairs(verdicts):
        text = "change the violated rules, or add nodes or labels: no move repairs them"
        yield Entry("violated", text)
    elif Verdict.VIOLATED in found:
        yield TO_MOVE
    if REMOVED in found:
        text = "constraints of rules were removed: write the rules again with the playbook apply"
        yield Entry(REMOVED, text)
    if Verdict.PENDING in found:
        text = "for what has no node: free or add a node, or change its rules; the lines above have the reasons"
        yield Entry("pending", text)
    if DOWN in found:
        text = "for what is down: bring its node back, or fence it once it is surely off; KubeVirt then starts VMs"
        yield Entry(DOWN, f"{text} elsewhere")
    if not set(found) <= {Verdict.PREFERENCE_NOT_MET, Verdict.NOT_ENFORCED}:
        return
    rollout = "playbook rollout with placement_rollout_namespaces and placement_rollout_scope:"
    missed = [
        x
        for x in verdicts.instances
        if any(rule.placed is Verdict.PREFERENCE_NOT_MET for rule in x.rules)
    ]
    if missed:
        text = f"for {plural(len(missed), 'instance')} on nodes that do not meet a preferred rule"
        yield Entry("preference_not_met", f"{text}: {rollout} preference_not_met")
    late = [x for x in verdicts.instances if _is_in(x, Verdict.NOT_ENFORCED)]
    if late:
        event = next_event([rule.takes_effect for rule in x.rules] for x in late)
        text = f"to enforce the rules of {plural(len(late), 'instance')} before {event}"
        yield Entry("not_enforced", f"{text}: {rollout} not_enforced{_restarts(late)}")


def new_members(findings: t.Iterable[Finding]) -> list[str]:
    """The workloads that a rule selects and that lack it."""
    return [str(ref) for x in findings if x.name == NEW_MEMBER for ref in x.objects]


def no_move_repairs(verdicts: Verdicts) -> bool:
    """Whether a rollout could repair none of the violated rules. False where it is not known of some of them."""
    moves = verdicts.moves_needed.values()
    return bool(moves) and all(count is None for count in moves)


def _is_in(instance: InstanceVerdict, state: str) -> bool:
    if state in (DOWN, REMOVED):
        return bool(getattr(instance, state))
    return str(instance.verdict) == state


def _unread_lists(verdicts: Verdicts) -> list[str]:
    """The lists of what runs that could not be read, of each namespace."""
    return [gap.resource for gap in verdicts.unreadable if gap.resource in INSTANCE_LISTS]


def _joined(lists: t.Iterable[str]) -> str:
    *others, last = dict.fromkeys(lists)
    return f"{', '.join(others)} and {last}" if others else last


def _advice(
    verdicts: Verdicts, findings: t.Iterable[Finding], bad: t.Sequence[InstanceVerdict]
) -> str:
    if no_move_repairs(verdicts):
        return (
            'No move repairs these rules as the cluster is now: the lines with "cannot be satisfied" name them.'
            " Change the rules, or add nodes or labels."
        )
    namespaces = ", ".join(sorted({x.instance.namespace for x in bad}))
    move = f"To move every VM that violates a rule, run the playbook rollout for {namespaces}"
    if members := new_members(findings):
        first = "First write the rules again with the playbook apply, since"
        return f"{first} {listed(members, 4)} lack them. {move}{_restarts(bad)}."
    return f"{move}{_restarts(bad)}."


def _restarts(instances: t.Iterable[InstanceVerdict]) -> str:
    """What a rollout needs beside its scope, where a live migration enforces nothing."""
    needs = {rule.takes_effect for x in instances for rule in x.rules}
    methods = ["migrate", *(method for method in ("restart", "recreate") if method in needs)]
    if len(methods) == 1:
        return ""
    return (
        f"; some need more than a live migration, placement_rollout_allow: [{', '.join(methods)}]"
    )


def _finding(finding: Finding) -> str:
    rule = f" (rule {finding.rule})" if finding.rule else ""
    objects = f" of {', '.join(map(str, finding.objects[:3]))}" if finding.objects else ""
    return f"{finding.name}{rule}{objects}: {finding.why} {finding.advice}"


def _placed(instance: InstanceVerdict) -> str:
    return f"{instance.instance} on {instance.node or 'no node'}"


def _sentence(instance: InstanceVerdict, state: str) -> str:
    rules = [
        rule.rule
        for rule in instance.rules
        if rule.rule and (rule.verdict == state or (state == REMOVED and rule.constraint_removed))
    ]
    named = f"{'rule' if len(rules) == 1 else 'rules'} {', '.join(rules)}" if rules else ""
    return f"{_name(instance)} {_STATES[state](named)}."


def _cause(instance: InstanceVerdict, state: str) -> str:
    """An instance in this state with its cause, as the table has it."""
    causes = (x for x in instance.rules if x.verdict == state and x.reason)
    rule: RuleVerdict | None = next(causes, None)
    if rule is None:
        return _sentence(instance, state)
    named = f" rule {rule.rule}:" if rule.rule else ""
    return f"{_name(instance)}:{named} {rule.reason}"


def _name(instance: InstanceVerdict) -> str:
    return f"{instance.instance}{f' on {instance.node}' if instance.node else ''}"


_NUMBERED = (
    Verdict.SATISFIED,
    Verdict.VIOLATED,
    Verdict.PENDING,
    Verdict.UNKNOWN,
    Verdict.PREFERENCE_NOT_MET,
    Verdict.NOT_ENFORCED,
)

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
"""What follows the name of an instance, by the state that may fail a verification, with the rules that are in it."""
