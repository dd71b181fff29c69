# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How are verdicts shown? As data for playbooks and as a table for people."""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict

from ..model.json_pointer import JSON
from ..model.kinds import VMIS
from ..model.objects import Node
from ..model.rendering import as_json, columns
from ..model.snapshot import unreadable_texts
from ..model.topology import Topology
from ..model.verdict import UNCOUNTED, InstanceVerdict, RuleVerdict, Verdict, Verdicts
from . import terms as wording

_INSTANCE_LISTS = ("pods", VMIS)
_ALL_NODES = 100
"""In a larger cluster the table leaves out nodes without instances."""
_NAMED = 6


def summary(verdicts: Verdicts) -> dict[str, JSON]:
    """How many instances have each verdict, and how many moves repair each violated rule.

    A list of instances that could not be read counts as one more unknown, so that it does not look
    like an empty one.
    """
    counted = Counter(instance.verdict for instance in verdicts.instances)
    gaps = sum(gap.resource in _INSTANCE_LISTS for gap in verdicts.unreadable)
    affected = Counter(
        rule.rule or None
        for instance in verdicts.instances
        for rule in instance.rules
        if rule.placed is Verdict.VIOLATED
    )
    return {
        "instances": len(verdicts.instances),
        **{str(verdict): counted[verdict] for verdict in Verdict},
        str(Verdict.UNKNOWN): counted[Verdict.UNKNOWN] + gaps,
        "misplaced": sum(instance.misplaced for instance in verdicts.instances),
        "constraint_removed": sum(x.constraint_removed for x in verdicts.instances),
        "down": sum(instance.down for instance in verdicts.instances),
        "risks": len(verdicts.risks),
        "violated_rules": [
            {
                "rule": rule,
                "affected": affected.get(rule),
                "moves_needed": None if moves == UNCOUNTED else moves,
                "moves_counted": moves != UNCOUNTED,
            }
            for rule, moves in sorted(verdicts.moves_needed.items())
        ],
    }


def instance_as_json(verdict: InstanceVerdict) -> dict[str, JSON]:
    return {
        "workload": as_json(verdict.workload),
        "instance": as_json(verdict.instance),
        "uid": verdict.uid,
        "node": verdict.node,
        "domains": dict(verdict.domains),
        "verdict": str(verdict.verdict),
        "misplaced": verdict.misplaced,
        "constraint_removed": verdict.constraint_removed,
        "down": verdict.down,
        "rules": [_rule_as_json(rule) for rule in verdict.rules],
        "feasible_if_restarted": list(verdict.feasible_if_restarted),
        "feasible_if_migrated": list(verdict.feasible_if_migrated),
    }


def _rule_as_json(verdict: RuleVerdict) -> dict[str, JSON]:
    return {
        "rule": verdict.rule,
        "verdict": str(verdict.verdict),
        "reason": verdict.reason,
        "better_nodes": list(verdict.better_nodes),
        "enforced": verdict.enforced,
        "if_enforced": str(verdict.placed),
        "takes_effect": verdict.takes_effect,
        "constraint_removed": verdict.constraint_removed,
    }


def table(verdicts: Verdicts, nodes: t.Sequence[Node], topology: Topology) -> str:
    """Zone, node and its instances, then a line for each problem."""
    by_node: dict[str, Counter[str]] = defaultdict(Counter)
    for instance in verdicts.instances:
        by_node[instance.node][_short(instance)] += 1
    zone = topology.keys["zone"]
    rows = [("ZONE", "NODE", "INSTANCES")]
    for node in sorted(nodes, key=lambda node: (node.labels.get(zone, ""), node.name)):
        if node.name in by_node or len(nodes) <= _ALL_NODES:
            runs = _runs(by_node.get(node.name, Counter()))
            rows.append((node.labels.get(zone, "-"), f"{node.name}{_state(node)}", runs))
    if by_node.get(""):
        rows.append(("-", "(no node)", _runs(by_node[""])))
    return "\n".join([*columns(rows), *_problems(verdicts)])


def _short(verdict: InstanceVerdict) -> str:
    """Namespace and name of the workload: its instances are counted."""
    ref = verdict.workload or verdict.instance
    return f"{ref.namespace}/{ref.name}"


def _runs(counted: Counter[str]) -> str:
    names = [f"{name} x{count}" if count > 1 else name for name, count in sorted(counted.items())]
    return wording.listed(names, _NAMED)


def _state(node: Node) -> str:
    states = [
        word
        for word, holds in (("cordoned", node.unschedulable), ("not ready", not node.ready))
        if holds
    ]
    return f" ({', '.join(states)})" if states else ""


def _problems(verdicts: Verdicts) -> t.Iterator[str]:
    not_enforced: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for instance in verdicts.instances:
        where = f" on {instance.node}" if instance.node else ""
        if instance.down:
            yield f"down: {instance.instance}{where}: node {instance.node} is not Ready"
        alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
        for rule in instance.rules:
            if rule.verdict is not Verdict.SATISFIED:
                alike[str(rule.verdict), rule.reason, rule.better_nodes].append(rule.rule)
        for (verdict, reason, better), rules in alike.items():
            names = f" {', '.join(rules)}:" if all(rules) else ""
            nodes = f"; better: {wording.listed(better, _NAMED)}" if better else ""
            if verdict == str(Verdict.NOT_ENFORCED):
                not_enforced[names, reason][str(instance.workload or instance.instance)] += 1
            else:
                yield f"{verdict}: {instance.instance}{where}:{names} {reason}{nodes}"
    for (names, reason), instances in not_enforced.items():
        yield f"{Verdict.NOT_ENFORCED}: {_runs(instances)}:{names} {reason}"
    for name, moves in sorted(verdicts.moves_needed.items()):
        needed = (
            "cannot be satisfied"
            if moves is None
            else "how many moves would repair it is unknown: too many instances and constraints"
            if moves == UNCOUNTED
            else f"{moves} {'move' if moves == 1 else 'moves'} would repair it"
        )
        yield f"moves: {name}: {needed}"
    for text in unreadable_texts(verdicts.unreadable):
        yield f"unknown: {text}"
