# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""placement_info from its options to its result: read the cluster, judge every instance, lint."""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict

from ..api.client import ApiClient
from ..cluster.read_policies import with_policies
from ..cluster.reading import ReadScope, read_snapshot
from ..cluster.refusals import with_refused_workloads
from ..compliance.declared import DeclaredReader
from ..compliance.judge import judge
from ..compliance.problems import entries, problems
from ..compliance.vm_states import NO_VMS, VmStates, vm_states
from ..interface.arguments import topology_of
from ..interface.results import warn_once, warn_unreadable
from ..kubevirt.aspects import DoNotMove
from ..lint.registry import lint
from ..maintenance.mark import DamagedMark, is_marked, mark_of
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import INSTANCE_LISTS
from ..model.objects import Node, Ref
from ..model.plan import Method
from ..model.rendering import as_json, columns, listed, one_line, plural, table_text
from ..model.rule import RuleId
from ..model.snapshot import Snapshot, Workload, unreadable_texts
from ..model.topology import Topology, UndeclaredKey
from ..model.verdict import UNCOUNTED, InstanceVerdict, RuleVerdict, Verdict, Verdicts
from ..planning.moves_needed import moves_needed
from ..rules.registry import COVERAGE
from ..view.selection import look_up, question_of, without_missing
from ..view.view import view_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    shown_keys = column_keys(module.params["columns"], topology)
    details = module.params["details"]
    question = question_of(
        module.params["namespaces"],
        module.params["workloads"],
        module.params["exclude_namespaces"],
    )
    scope = ReadScope(namespaces=question.read, migrations="", volumes="claimed")
    snapshot = with_refused_workloads(api, read_snapshot(api, scope))
    listed_only = module.params["only"]
    only = None if listed_only is None else {Ref(**entry) for entry in listed_only}
    gone: tuple[str, ...] = ()
    if only is not None:
        question, gone = without_missing(question, snapshot)
    snapshot = with_policies(api, snapshot, question.read, question.excluded)
    selected = look_up(question, snapshot)
    options: dict[str, t.Any] = {
        "topology": topology,
        "workloads": selected.workloads,
        "namespaces": selected.namespaces,
    }
    verdicts = judge(snapshot, details=details == "all", count_moves=moves_needed, **options)
    kept = kept_by_label(verdicts, snapshot)
    reader = snapshot.derived(DeclaredReader)
    workloads = [x for x in snapshot.workloads if selected.covers(x.ref)]
    resting = resting_rules(workloads, reader)
    coverage = _coverage(workloads, snapshot, all_rules=question.workloads is None)
    new = [*_covered(coverage)]
    if any(coverage.values()):
        new += [f"unknown: {text}" for text in unreadable_texts(snapshot.policy_gaps)]
    states = vm_states(snapshot, selected.covers)
    findings = lint(snapshot, **options)
    warn_once(module.warn, findings)
    warn_unreadable(module.warn, verdicts.unreadable)
    return {
        "summary": {**summary(verdicts), **states.counts()},
        **_lists(verdicts, snapshot.nodes, topology, details),
        **(NO_VMS if details == "summary" else states).as_json(),
        "do_not_move": [{**_in_short(instance), "reason": why} for instance, why in kept],
        "resting_rules": resting,
        **coverage,
        "findings": [finding.as_json() for finding in findings],
        "permission_gaps": as_json(verdicts.unreadable),
        "table": table(verdicts, snapshot.nodes, shown_keys, kept, resting, states, new),
        "problems": as_json(tuple(problems(verdicts, findings, only))),
        **entries(verdicts, findings, states, resting, gone),
    }


def _lists(
    verdicts: Verdicts, nodes: t.Iterable[Node], topology: Topology, details: str
) -> dict[str, t.Any]:
    """The lists that depend on `details`."""
    shown = () if details == "summary" else verdicts.instances
    return {
        "instances": [
            instance_as_json(instance)
            for instance in shown
            if details == "all" or _has_problem(instance)
        ],
        "satisfied_instances": [
            {**_in_short(instance), "rules": sorted({x.rule for x in instance.rules if x.rule})}
            for instance in (shown if details == "placement" else ())
            if not _has_problem(instance)
        ],
        "nodes": nodes_as_json(nodes, topology) if details in ("placement", "all") else [],
        "pending": as_json(verdicts.pending) if shown else [],
        "risks": as_json(verdicts.risks) if shown else [],
    }


_ALL_NODES = 100
"""In a larger cluster the table leaves out nodes without instances."""
_NAMED = 6


def summary(verdicts: Verdicts) -> dict[str, JSON]:
    """How many instances have each verdict, and how many moves repair each violated rule.

    A list of instances that could not be read counts as one more unknown, so that it does not look
    like an empty one.
    """
    counted = Counter(instance.verdict for instance in verdicts.instances)
    gaps = sum(gap.resource in INSTANCE_LISTS for gap in verdicts.unreadable)
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
        "preference_missed": sum(
            any(rule.placed is Verdict.PREFERENCE_NOT_MET for rule in instance.rules)
            for instance in verdicts.instances
        ),
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


def _has_problem(instance: InstanceVerdict) -> bool:
    return instance.down or instance.verdict is not Verdict.SATISFIED


def _in_short(verdict: InstanceVerdict) -> dict[str, JSON]:
    owner = verdict.workload or verdict.instance
    return {
        "kind": owner.kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "instance": verdict.instance.name,
        "uid": verdict.uid,
        "node": verdict.node,
    }


def nodes_as_json(nodes: t.Iterable[Node], topology: Topology) -> list[JSON]:
    """Each node by name, with what keeps instances away from it."""
    return [
        {
            "name": node.name,
            "domains": {
                name: one_line(node.labels[key])
                for name, key in topology.keys.items()
                if key in node.labels
            },
            "states": [word.replace(" ", "_") for word in _states(node)],
            "maintenance": one_line(_maintenance(node)),
        }
        for node in sorted(nodes, key=lambda node: node.name)
    ]


def _rule_as_json(verdict: RuleVerdict) -> dict[str, JSON]:
    return {
        "rule": verdict.rule,
        "verdict": str(verdict.verdict),
        "reason": one_line(verdict.reason),
        "better_nodes": list(verdict.better_nodes),
        "enforced": verdict.enforced,
        "if_enforced": str(verdict.placed),
        "takes_effect": verdict.takes_effect,
        "constraint_removed": verdict.constraint_removed,
    }


Kept = t.Sequence[tuple[InstanceVerdict, str]]
"""Instances that a label keeps where they are, and which label of which object."""


def kept_by_label(verdicts: Verdicts, snapshot: Snapshot) -> Kept:
    """Those of the instances that no module moves."""
    known = {instance.uid: instance for instance in view_of(snapshot).instances}
    label = DoNotMove(snapshot.workloads_by_ref)
    kept = []
    for verdict in verdicts.instances:
        instance = known.get(verdict.uid)
        why = label.obstacle(instance, Method.MIGRATE) if instance is not None else None
        if why is not None:
            kept.append((verdict, str(why)))
    return kept


def resting_rules(workloads: t.Iterable[Workload], reader: DeclaredReader) -> list[dict[str, JSON]]:
    """The rules that are not enabled, with their types and the number of their workloads. No verdict is about them."""
    found = Counter(
        entry for workload in workloads for entry in reader.declared(workload).resting.items()
    )
    return [
        {"rule": one_line(rule), "type": one_line(kind), "workloads": count}
        for (rule, kind), count in sorted(found.items())
    ]


Coverage = t.Mapping[str, list[dict[str, JSON]]]
"""For each field of a rule that a capability adds: its value for each rule."""


def _coverage(workloads: t.Iterable[Workload], snapshot: Snapshot, *, all_rules: bool) -> Coverage:
    """How workloads that are created later get the rules of these ones, with `all_rules` those of policies, too."""
    reader = snapshot.derived(DeclaredReader)
    declared = [reader.declared(workload) for workload in workloads]
    names = {x for each in declared for x in (*(y.rule for y in each.rules), *each.resting)}
    found: dict[str, list[dict[str, JSON]]] = {}
    for field, make in COVERAGE.items():
        covered = make()(snapshot)
        of_field = {*names, *(map(str, covered.rules) if all_rules else ())}
        found[field] = [
            {"rule": one_line(x), field: covered.how(RuleId.parse(x))} for x in sorted(of_field)
        ]
    return found


def column_keys(names: t.Sequence[str], topology: Topology) -> dict[str, str]:
    """The label key of each column, by its heading. Raises InvalidInput for a name that is not declared."""
    keys: dict[str, str] = {}
    faults = []
    for number, name in enumerate(names):
        try:
            keys[name.upper() if "/" not in name else name] = topology.resolve(name)
        except UndeclaredKey as error:
            faults.append(InputError(f"columns[{number}]", str(error)))
    if faults:
        raise InvalidInput(faults)
    return keys


def table(
    verdicts: Verdicts,
    nodes: t.Sequence[Node],
    shown: t.Mapping[str, str],
    kept: Kept = (),
    resting: t.Sequence[t.Mapping[str, JSON]] = (),
    states: VmStates = NO_VMS,
    of_new_members: t.Iterable[str] = (),
) -> str:
    """The domains of each node, the node and its instances, then a line for each problem. `shown`: heading to label
    key."""
    by_node: dict[str, Counter[str]] = defaultdict(Counter)
    for instance in verdicts.instances:
        ref = instance.workload or instance.instance
        by_node[instance.node][f"{ref.namespace}/{ref.name}"] += 1
    keys = tuple(shown.values())
    rows = [(*shown, "NODE", "INSTANCES")]
    for node in sorted(
        nodes, key=lambda node: (*(node.labels.get(k, "") for k in keys), node.name)
    ):
        if node.name in by_node or len(nodes) <= _ALL_NODES:
            runs = _runs(by_node.get(node.name, Counter()))
            domains = (node.labels.get(key, "-") for key in keys)
            rows.append((*domains, f"{node.name}{_state(node)}", runs))
    if by_node.get(""):
        rows.append((*("-" for _key in keys), "(no node)", _runs(by_node[""])))
    by_name = sorted(nodes, key=lambda node: node.name)
    maintenance = [f"maintenance: {text}" for node in by_name if (text := _maintenance(node))]
    lines = [*maintenance, *_kept(kept), *states.lines(), *_resting(resting)]
    lines += [*of_new_members, *_problems(verdicts)]
    return table_text([*columns(rows), *lines])


def _runs(counted: Counter[str]) -> str:
    names = [f"{name} x{count}" if count > 1 else name for name, count in sorted(counted.items())]
    return listed(names, _NAMED)


def _state(node: Node) -> str:
    named = _states(node)
    return f" ({', '.join(named)})" if named else ""


def _states(node: Node) -> list[str]:
    marked = is_marked(node)
    states = {
        "in maintenance": marked,
        "cordoned": node.unschedulable and not marked,
        "not ready": not node.ready,
    }
    return [word for word, holds in states.items() if holds]


def _maintenance(node: Node) -> str:
    """The maintenance of a node by this collection, with the reason of its mark; empty without one."""
    try:
        mark = mark_of(node)
    except DamagedMark as error:
        return f"node {node.name}: {error}"
    if mark is None:
        return ""
    reason = mark.reason or "no reason was given"
    return f"node {node.name} is {mark.phase} since {mark.since}: {reason}"


def _kept(kept: Kept) -> t.Iterator[str]:
    for verdict, why in kept:
        where = f" on {verdict.node}" if verdict.node else ""
        yield f"do not move: {verdict.instance}{where}: {why}"


def _resting(rules: t.Iterable[t.Mapping[str, JSON]]) -> t.Iterator[str]:
    for rule in rules:
        workloads = plural(rule["workloads"], "workload")
        yield f"not verified: rule {rule['rule']} ({rule['type']}, {workloads}) is not enabled"


_COVERED = {
    "policy": "get {} by a policy when they are created",
    "warn": "warn when they are created without {}",
    "unknown": "whether a policy gives them {} is unknown",
}


def _covered(coverage: Coverage) -> t.Iterator[str]:
    for field, entries_of_rules in coverage.items():
        for value, text in _COVERED.items():
            names = [x["rule"] for x in entries_of_rules if x[field] == value]
            if names:
                rules = f"{'rule' if len(names) == 1 else 'rules'} {listed(names, _NAMED)}"
                yield f"{field.replace('_', ' ')}: {text.format(rules)}"


def _problems(verdicts: Verdicts) -> t.Iterator[str]:
    not_enforced: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for instance in verdicts.instances:
        where = f" on {instance.node}" if instance.node else ""
        if instance.down:
            yield f"down: {instance.instance}{where}: node {instance.node} is not Ready"
        alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
        for rule in instance.rules:
            if rule.verdict is not Verdict.SATISFIED:
                reason = rule.cause or rule.reason
                alike[str(rule.verdict), reason, rule.better_nodes].append(rule.rule)
        for (verdict, reason, better), rules in alike.items():
            noun = "rules" if len(rules) > 1 else "rule"
            names = f" {noun} {', '.join(rules)}:" if all(rules) else ""
            nodes = f"; better: {listed(better, _NAMED)}" if better else ""
            if verdict == str(Verdict.NOT_ENFORCED):
                not_enforced[names, reason][str(instance.workload or instance.instance)] += 1
            else:
                yield f"{verdict}: {instance.instance}{where}:{names} {reason}{nodes}"
    waiting = {instance.instance for instance in verdicts.instances if not instance.node}
    for pending in verdicts.pending:  # the others are migrations whose target has no node
        if pending.instance not in waiting:
            yield f"{Verdict.PENDING}: {pending.instance}: {pending.reason}"
    for (names, reason), counted in not_enforced.items():
        yield f"{Verdict.NOT_ENFORCED}: {_runs(counted)}:{names} {reason}"
    names_of_rules = {rule.rule for instance in verdicts.instances for rule in instance.rules}
    for name, moves in sorted(verdicts.moves_needed.items()):
        needed = (
            "cannot be satisfied"
            if moves is None
            else "the number of moves that would repair it is unknown: too many instances and constraints"
            if moves == UNCOUNTED
            else f"{plural(moves, 'move')} would repair it; other rules may need more"
        )
        yield f"violated {'rule' if name in names_of_rules else 'constraint'} {name}: {needed}"
    for text in unreadable_texts(verdicts.unreadable):
        yield f"unknown: {text}"
