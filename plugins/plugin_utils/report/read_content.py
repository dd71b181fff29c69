# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of a report from the results of placement_info, drill_info and rollout, which may be damaged. Pure."""

from __future__ import annotations

import ipaddress
import typing as t
from collections import Counter, defaultdict
from dataclasses import replace
from urllib.parse import urlsplit

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import (
    has_vmis,
)
from ansible_collections.virt.placement.plugins.module_utils.kinds.vmi import VMI

from .content import (
    VERDICTS,
    AppliedRule,
    Content,
    ReportedFinding,
    ReportedInstance,
    ReportedNode,
    ReportedRisk,
    ReportedRule,
    by_problem,
)
from .drill import DrillContent, read_drill
from .moves import MovesContent, read_moves
from .results import ResultMap
from .words import BESIDE

_PLACEMENT = "hand over the result of virt.placement.placement_info with details: placement"
_ROLLOUT = "hand over the result of virt.placement.rollout, or leave it out"
_DRILL = "hand over the result of virt.placement.drill_info, or leave it out"


def read_content(
    placement: object,
    *,
    drill: object = None,
    rollout: object = None,
    cluster: str = "",
    time: str = "",
) -> Content:
    """Raises DamagedResult where a result is not what its module returns, or is about another cluster."""
    result = ResultMap(placement, "placement", _PLACEMENT)
    _refuse_failed(result)
    identity = result.map("cluster")
    uid = identity.text("uid")
    summary = result.map("summary")
    instances = (*_instances(result), *_satisfied(result))
    if summary.number("instances") != len(instances):
        raise result.damaged(
            f"placement.summary counts {summary.number('instances')} instances, but"
            f" {len(instances)} are listed"
        )
    nodes = _nodes(result, instances)
    read_drills, moves = _drill_of(drill, uid, nodes), _moves_of(rollout, uid)
    api = identity.text("api")
    return Content(
        cluster=cluster or _name(api, uid),
        api=api,
        uid=uid,
        time=time,
        counts={name: summary.number(name) for name in _COUNTS}
        | {name: summary.number(name) for name in BESIDE if summary.has(name)},
        instances=instances,
        nodes=nodes,
        rules=_with_moves(_rules(summary, instances, nodes), instances, nodes, moves),
        findings=_findings(result),
        risks=_risks(result),
        kept=tuple(
            f"{kept.text('kind')} {kept.text('namespace')}/{kept.text('name')}: {kept.text('reason')}"
            for kept in result.maps("do_not_move")
        ),
        waiting=_waiting(result, instances),
        gaps=tuple(
            f"cannot {gap.text('verb')} {gap.text('resource')}"
            + (f" in namespace {gap.text('namespace')}" if gap.text("namespace") else "")
            + f": {gap.text('reason')}"
            for gap in result.maps("permission_gaps")
        ),
        resting=_resting(result),
        new_members=tuple(
            f"{rule.text('rule')}: {rule.text('new_members')}"
            for rule in (result.maps("new_members") if result.has("new_members") else ())
            if rule.text("new_members") != "none"
        ),
        fewest_moves=_fewest_moves(summary),
        drill=read_drills,
        moves=moves,
    )


def _name(api: str, uid: str) -> str:
    """Of a cluster that was given none: the host of its API server, or a part of its UID where that is an address."""
    host = urlsplit(api).hostname or api
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"cluster {uid[:8]}" if uid else host


_COUNTS = ("instances", *VERDICTS, "misplaced", "constraint_removed", "down", "risks")


def _refuse_failed(result: ResultMap) -> None:
    if "failed" in result and result.flag("failed"):
        message = result.text("msg") if "msg" in result else "no message"
        raise result.damaged(f"{result.where} is of a task that failed ({message})")


def _same_cluster(result: ResultMap, uid: str) -> None:
    if "failed" in result and not result.has("cluster"):
        return  # it did not come as far as to ask
    other = result.map("cluster").text("uid")
    if uid and other and uid != other:
        raise result.damaged(
            f"{result.where} is about another cluster (UID {other}) than placement (UID {uid})"
        )


def _drill_of(drill: object, uid: str, nodes: t.Iterable[ReportedNode]) -> DrillContent | None:
    if drill is None:
        return None
    result = ResultMap(drill, "drill", _DRILL)
    _refuse_failed(result)
    _same_cluster(result, uid)
    return read_drill(result, {node.name: node.zone for node in nodes})


def _moves_of(rollout: object, uid: str) -> MovesContent | None:
    """Also those of a rollout that failed."""
    if rollout is None:
        return None
    result = ResultMap(rollout, "rollout", _ROLLOUT)
    _same_cluster(result, uid)
    return read_moves(result)


def _instances(result: ResultMap) -> t.Iterator[ReportedInstance]:
    for entry in result.maps("instances"):
        ref = entry.map("instance")
        workload = entry.map("workload") if entry.has("workload") else ref
        yield ReportedInstance(
            kind=ref.text("kind"),
            namespace=ref.text("namespace"),
            name=ref.text("name"),
            uid=entry.text("uid"),
            workload=(workload.text("kind"), workload.text("namespace"), workload.text("name")),
            node=entry.text("node"),
            verdict=_verdict(entry),
            rules=tuple(
                AppliedRule(
                    rule.text("rule"),
                    _verdict(rule),
                    rule.text("reason"),
                    rule.texts("better_nodes"),
                    rule.text("takes_effect"),
                    rule.flag("constraint_removed"),
                )
                for rule in entry.maps("rules")
            ),
            down=entry.flag("down"),
            constraint_removed=entry.flag("constraint_removed"),
        )


def _verdict(entry: ResultMap) -> str:
    verdict = entry.text("verdict")
    if verdict not in VERDICTS:
        raise entry.damaged(f"{entry.where}.verdict is {verdict!r}, which is no verdict")
    return verdict


def _satisfied(result: ResultMap) -> t.Iterator[ReportedInstance]:
    for entry in result.maps("satisfied_instances"):
        kind, namespace = entry.text("kind"), entry.text("namespace")
        yield ReportedInstance(
            kind=VMI if has_vmis(kind) else "Pod",
            namespace=namespace,
            name=entry.text("instance"),
            uid=entry.text("uid"),
            workload=(kind, namespace, entry.text("name")),
            node=entry.text("node"),
            verdict="satisfied",
            rules=tuple(AppliedRule(rule, "satisfied") for rule in entry.texts("rules")),
        )


def _nodes(result: ResultMap, instances: t.Sequence[ReportedInstance]) -> tuple[ReportedNode, ...]:
    """All nodes by name, also those of instances that are not in the list of nodes."""
    on_node: dict[str, list[ReportedInstance]] = defaultdict(list)
    for instance in instances:
        if instance.node:
            on_node[instance.node].append(instance)
    nodes = {}
    for entry in result.maps("nodes"):
        domains = entry.map("domains")
        nodes[entry.text("name")] = ReportedNode(
            entry.text("name"),
            domains.text("zone") if "zone" in domains else "",
            entry.texts("states"),
            entry.text("maintenance"),
        )
    for name in on_node.keys() - nodes.keys():
        nodes[name] = ReportedNode(name, "", ("not_listed",))
    return tuple(
        replace(nodes[name], instances=tuple(sorted(on_node[name], key=by_problem)))
        for name in sorted(nodes)
    )


def _rules(
    summary: ResultMap,
    instances: t.Sequence[ReportedInstance],
    nodes: t.Sequence[ReportedNode],
) -> list[ReportedRule]:
    """Those with a problem first, then by name."""
    zone_of = {node.name: node.zone for node in nodes}
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    zones: dict[str, Counter[str]] = defaultdict(Counter)
    for instance in instances:
        for rule in {rule.rule: rule for rule in instance.rules if rule.rule}.values():
            verdicts[rule.rule][rule.verdict] += 1
            if instance.node:
                zones[rule.rule][zone_of[instance.node]] += 1
    rules = {name: ReportedRule(name, verdicts[name], zones[name]) for name in verdicts}
    for entry in summary.maps("violated_rules"):
        name = entry.text("rule")
        affected, moves = entry.number_or_none("affected"), entry.number_or_none("moves_needed")
        rules[name] = ReportedRule(
            name,
            verdicts[name],
            zones[name],
            affected,
            violated=True,
            satisfiable=moves is not None or not entry.flag("moves_counted"),
            moves=moves,
        )
    return sorted(
        rules.values(), key=lambda rule: (not rule.violated, not rule.has_problem, rule.name)
    )


def _fewest_moves(summary: ResultMap) -> int | None:
    """A move may repair several rules, so their numbers are not added."""
    counted = [rule.number_or_none("moves_needed") for rule in summary.maps("violated_rules")]
    known = [moves for moves in counted if moves is not None]
    return max(known) if known and len(known) == len(counted) else None


def _with_moves(
    rules: t.Sequence[ReportedRule],
    instances: t.Sequence[ReportedInstance],
    nodes: t.Sequence[ReportedNode],
    moves: MovesContent | None,
) -> tuple[ReportedRule, ...]:
    """Planned moves come after what was read, moves that were made before it. A move counts where its
    instance is now on the node that it would leave, or that it went to."""
    if moves is None:
        return tuple(rules)
    zone_of = {node.name: node.zone for node in nodes}
    by_workload: dict[tuple[str, str, str], list[ReportedInstance]] = defaultdict(list)
    for instance in instances:
        by_workload[instance.workload].append(instance)
    changes: dict[str, Counter[str]] = defaultdict(Counter)
    for move in moves.moves:
        now = move.from_node if move.state == "planned" else move.to_node
        here = [x for x in by_workload[move.workload] if x.node == now]
        exact = [x for x in here if x.uid == move.uid] or here
        if move.state not in ("planned", "moved") or not exact or move.to_node not in zone_of:
            continue
        for name in {applied.rule for applied in exact[0].rules if applied.rule}:
            changes[name][zone_of[move.to_node]] += 1
            if move.from_node in zone_of:
                changes[name][zone_of[move.from_node]] -= 1
    planned = moves.planned
    moved = []
    for rule in rules:
        change = changes.get(rule.name)
        if change is None:
            moved.append(rule)
            continue
        sign = 1 if planned else -1
        other = {
            zone: rule.zones.get(zone, 0) + sign * change[zone] for zone in {*rule.zones, *change}
        }
        before, after = (rule.zones, other) if planned else (other, rule.zones)
        moved.append(replace(rule, before=before, after=after))
    return tuple(sorted(moved, key=lambda rule: not (rule.violated or rule.before is not None)))


def _findings(result: ResultMap) -> tuple[ReportedFinding, ...]:
    order = {"error": 0, "warning": 1, "info": 2}
    findings = [
        ReportedFinding(
            entry.text("name"),
            entry.text("severity"),
            entry.text("why"),
            entry.text("advice"),
            entry.texts("objects"),
        )
        for entry in result.maps("findings")
    ]
    return tuple(
        sorted(findings, key=lambda finding: (order.get(finding.severity, 3), finding.name))
    )


def _risks(result: ResultMap) -> tuple[ReportedRisk, ...]:
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for entry in result.maps("risks"):
        instance = entry.map("instance")
        alike[entry.text("kind"), entry.text("node"), entry.text("detail")].append(
            f"{instance.text('namespace')}/{instance.text('name')}"
        )
    return tuple(ReportedRisk(*what, tuple(names)) for what, names in sorted(alike.items()))


def _resting(result: ResultMap) -> tuple[str, ...]:
    if not result.has("resting_rules"):
        return ()
    return tuple(
        f"{rule.text('rule')} ({rule.text('type')})" for rule in result.maps("resting_rules")
    )


def _waiting(result: ResultMap, instances: t.Iterable[ReportedInstance]) -> tuple[str, ...]:
    """Pending entries that are no instances without a node: targets of migrations."""
    shown = {(x.kind, x.namespace, x.name) for x in instances if not x.node}
    lines = []
    for entry in result.maps("pending"):
        ref = entry.map("instance")
        key = (ref.text("kind"), ref.text("namespace"), ref.text("name"))
        if key not in shown:
            lines.append(f"{key[0]} {key[1]}/{key[2]}: {entry.text('reason')}")
    return tuple(lines)
