# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes a rule void, harmful or somebody else's business: looked for before it is written."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding, Severity
from ..model.kinds import VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.rule import KeepApart, KeepTogether, PodSelector, Rule, SpreadOver
from ..model.topology import HOSTNAME
from .compile import Compiled
from .inventory import Inventory
from .key_findings import key_findings
from .members import Resolved, targets_of
from .selector_findings import selector_findings

MUTUAL_AFFINITY = "mutual_affinity"
SERVER_LACKS_FEATURE = "server_lacks_feature"
NO_MEMBERS = "no_members"
SINGLE_MEMBER = "single_member"
STRICT_NEEDS_HOLD = "strict_needs_hold"

IMPLIES: t.Mapping[str, str] = {NO_MEMBERS: "selector_matches_nothing"}
"""What lint would say of the same cause."""


def of_rule(resolved: Resolved, compiled: Compiled, inventory: Inventory) -> list[Finding]:
    """The findings of one rule by itself."""
    rule = resolved.rule
    return [
        *key_findings(rule, inventory, tuple(each.ref for each in compiled.carriers)),
        *_nobody(resolved),
        *single_member(rule),
        *_lacking(compiled),
        *_strict(compiled),
        *_mutual(resolved, inventory),
        *(
            finding
            for selection in compiled.selections
            for finding in selector_findings(rule, selection, inventory)
        ),
    ]


def between_rules(resolved: t.Sequence[Resolved], inventory: Inventory) -> list[Finding]:
    """Required keep_together rules over one node that need each other's workloads."""
    needing = [each for each in resolved if _ties(each, inventory) and each.targets]
    found = []
    for one in needing:
        others = [other for other in needing if other is not one and _cross(one, other)]
        if others:
            names = " and ".join(other.rule.id.name for other in others)
            found.append(_mutual_finding(one, f"it and {names} tie the workloads to each other"))
    return found


def _nobody(resolved: Resolved) -> t.Iterator[Finding]:
    rule = resolved.rule
    for reference in rule.workloads:
        if reference.labels is not None and not resolved.carriers.workloads:
            yield _no_members(rule, f"No {reference.kind} has {_text(reference.labels)}", "error")
    needed = isinstance(rule.verb, KeepTogether) and not rule.preferred
    for target in resolved.targets:
        members = target.members
        if members is not None and members.labels is not None and not members.workloads:
            seen = f"No target in namespace {target.namespace} has {_text(members.labels)}"
            yield _no_members(rule, seen, "error" if needed else "warning")


def _no_members(rule: Rule, seen: str, severity: Severity) -> Finding:
    return Finding(
        NO_MEMBERS,
        severity,
        f"{seen} in its template's labels.",
        "Correct the labels: those of the template count, not those of the object.",
        rule=rule.id.name,
    )


def single_member(rule: Rule) -> t.Iterator[Finding]:
    """A group of one machine, told by the rule alone: of those chosen by labels there may be more
    one day, and whoever else has the label of a rule belongs to its group."""
    chosen = [*rule.workloads, *(target for _where, target in targets_of(rule))]
    if not isinstance(rule.verb, (KeepApart, SpreadOver)) or rule.label:
        return
    group = set()
    for each in chosen:
        if isinstance(each, PodSelector) or each.labels is not None:
            return
        group |= {Ref(each.kind, each.namespace, name) for name in each.names}
    if len(group) != 1:
        return
    (only,) = group
    if only.kind == VIRTUAL_MACHINE.name:
        yield Finding(
            SINGLE_MEMBER,
            "warning",
            f"{only} is the only member of the group, and runs once at most, so there is nobody"
            " to keep it apart from.",
            "Name the other members too, or say with from whom to keep it apart from.",
            (only,),
            rule.id.name,
        )


def _text(labels: t.Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _lacking(compiled: Compiled) -> t.Iterator[Finding]:
    rule = compiled.rule
    for name in compiled.lacking:
        harm = _HARM[name]
        yield Finding(
            SERVER_LACKS_FEATURE,
            "warning" if rule.preferred else "error",
            f"The server does not know {name}, so it was left out: {harm}.",
            "Update Kubernetes and KubeVirt, make the rule preferred, or allow this finding.",
            tuple(workload.ref for workload in compiled.carriers),
            rule.id.name,
        )


_HARM: t.Mapping[str, str] = {
    "mismatchLabelKeys": "a machine cannot be live-migrated inside its own domain",
    "matchLabelKeys": "old and new pods of a roll-out keep each other out of their domains",
    "nodeTaintsPolicy": "domains whose nodes are all drained still count as empty ones",
}


def _strict(compiled: Compiled) -> t.Iterator[Finding]:
    verb, rule = compiled.rule.verb, compiled.rule
    rolling = tuple(w.ref for w in compiled.carriers if w.kind.self_rolling)
    if isinstance(verb, KeepApart) and verb.strict and rolling and not rule.preferred:
        yield Finding(
            STRICT_NEEDS_HOLD,
            "error",
            "With strict, old and new pods keep each other apart too, so a roll-out stands still"
            " where there are no more domains than replicas.",
            "Leave strict out: then only pods of one revision keep apart.",
            rolling,
            rule.id.name,
        )


def _mutual(resolved: Resolved, inventory: Inventory) -> t.Iterator[Finding]:
    if not _ties(resolved, inventory):
        return
    if not resolved.targets:
        yield _mutual_finding(resolved, "every member needs a pod of the group beside it")
        return
    targets = _targets(resolved)
    if targets and targets <= _carriers(resolved):
        yield _mutual_finding(resolved, "its target is one of its own workloads")


def _ties(resolved: Resolved, inventory: Inventory) -> bool:
    """Whether a rule requires virtual machines to share a node."""
    rule, verb = resolved.rule, resolved.rule.verb
    machines = any(w.kind.virtual_machines for w in resolved.carriers.workloads)
    return (
        isinstance(verb, KeepTogether)
        and not rule.preferred
        and machines
        and _single_nodes(verb.over, inventory)
    )


def _single_nodes(key: str, inventory: Inventory) -> bool:
    """Whether no domain of the key has a second node."""
    domains = [node.labels[key] for node in inventory.snapshot.nodes if key in node.labels]
    return key == HOSTNAME or (bool(domains) and len(set(domains)) == len(domains))


def _cross(one: Resolved, other: Resolved) -> bool:
    """Whether each has a target among the workloads of the other."""
    return bool(_targets(one) & _carriers(other)) and bool(_targets(other) & _carriers(one))


def _carriers(resolved: Resolved) -> set[Ref]:
    return {workload.ref for workload in resolved.carriers.workloads}


def _targets(resolved: Resolved) -> set[Ref]:
    members = [target.members for target in resolved.targets if target.members is not None]
    return {workload.ref for each in members for workload in each.workloads}


def _mutual_finding(resolved: Resolved, because: str) -> Finding:
    return Finding(
        MUTUAL_AFFINITY,
        "error",
        f"The machines could never be live-migrated: {because}, and no other node has one.",
        "Choose one workload as leader (keep_together: {leader: ..., over: ...}), which the others"
        " follow, or make the rule preferred.",
        tuple(workload.ref for workload in resolved.carriers.workloads),
        resolved.rule.id.name,
    )
