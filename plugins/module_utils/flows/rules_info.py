# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rules_info from its options to its result: read the cluster, list the rules of its workloads."""

from __future__ import annotations

import typing as t
from collections import defaultdict

from ..api.client import ApiClient
from ..cluster.reading import ReadScope, read_snapshot
from ..compliance.declared import DeclaredReader
from ..compliance.judge import judge
from ..interface.arguments import topology_of
from ..interface.results import warn_unreadable
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import as_json, columns
from ..model.rule import RuleId
from ..model.verdict import RuleVerdict, Verdict
from ..view.selection import look_up, question_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every error of the options, and ApiError."""
    params = module.params
    topology = topology_of(params)
    query = question_of(params["namespaces"], params["workloads"], params["exclude_namespaces"])
    snapshot = read_snapshot(api, ReadScope(namespaces=query.read))
    selected = look_up(query, snapshot)
    verdicts = judge(
        snapshot, topology=topology, workloads=selected.workloads, namespaces=selected.namespaces
    )
    evaluated: dict[tuple[Ref | None, str], list[RuleVerdict]] = defaultdict(list)
    for instance in verdicts.instances:
        for verdict in instance.rules:
            evaluated[instance.workload, verdict.rule].append(verdict)
    reader = DeclaredReader()
    workloads_of: dict[RuleId, list[dict[str, JSON]]] = defaultdict(list)
    for workload in sorted(snapshot.workloads, key=lambda workload: workload.ref):
        if not selected.covers(workload.ref):
            continue
        declared = reader.declared(workload)
        if declared.damaged:
            module.warn(declared.damaged)
        for rule in declared.rules:
            workloads_of[RuleId.parse(rule.rule)].append(
                _workload(
                    workload.ref, evaluated[workload.ref, rule.rule], complete=not rule.removed
                )
            )
    warn_unreadable(module.warn, verdicts.unreadable)
    rules = [_rule(rule, workloads) for rule, workloads in sorted(workloads_of.items())]
    return {
        "rules": rules,
        "permission_gaps": as_json(verdicts.unreadable),
        "table": _table(rules),
    }


def _workload(
    workload: Ref, verdicts: t.Sequence[RuleVerdict], *, complete: bool
) -> dict[str, JSON]:
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "complete": complete,
        "instances": len(verdicts),
        "enforced": sum(verdict.enforced for verdict in verdicts),
        "violated": sum(verdict.placed is Verdict.VIOLATED for verdict in verdicts),
    }


def _rule(rule: RuleId, workloads: list[dict[str, JSON]]) -> dict[str, JSON]:
    instances = sum(workload["instances"] for workload in workloads)
    enforced = sum(workload["enforced"] for workload in workloads)
    return {
        "namespace": rule.namespace,
        "rule_set": rule.rule_set,
        "name": rule.name,
        "enforced": enforced == instances and all(x["complete"] for x in workloads),
        "violated": any(workload["violated"] for workload in workloads),
        "workloads": workloads,
    }


def _table(rules: t.Sequence[t.Mapping[str, JSON]]) -> str:
    rows = [("NAMESPACE", "RULE SET", "RULE", "WORKLOADS", "INSTANCES", "ENFORCED", "VIOLATED")]
    for rule in rules:
        counted = (
            str(sum(workload[count] for workload in rule["workloads"]))
            for count in ("instances", "enforced", "violated")
        )
        number = str(len(rule["workloads"]))
        rows.append((rule["namespace"], rule["rule_set"], rule["name"], number, *counted))
    return "\n".join(columns(rows))
