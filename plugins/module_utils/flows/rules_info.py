# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rules_info from its options to its result: read the cluster, list the rules of its workloads."""

from __future__ import annotations

import contextlib
import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ..api.client import ApiClient
from ..cluster.read_policies import with_policies
from ..cluster.reading import ReadScope, read_snapshot
from ..cluster.refusals import with_refused_workloads
from ..compliance.declared import DeclaredReader, RuleTerms
from ..compliance.judge import judge
from ..interface.arguments import topology_of
from ..interface.results import warn_unreadable
from ..interface.rule_table import declarations_yaml, rule_table
from ..kinds.vmi import VMIS
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import TO_MOVE, Entry, as_json, outcome, plural
from ..model.rule import RuleId
from ..model.snapshot import Unreadable, Workload
from ..model.topology import Topology
from ..model.verdict import RuleVerdict, Verdict, Verdicts
from ..rules.ownership import UnreadableAnnotation
from ..rules.ownership_index import OwnershipIndex
from ..rules.record import read_undo_record
from ..rules.registry import COVERAGE
from ..rules.stored_rules import StoredRules
from ..view.selection import look_up, question_of
from ..view.view import view_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every error of the options, and ApiError."""
    params = module.params
    topology = topology_of(params)
    query = question_of(params["namespaces"], params["workloads"], params["exclude_namespaces"])
    scope = ReadScope(namespaces=query.read, migrations="", volumes="claimed")
    snapshot = with_refused_workloads(api, read_snapshot(api, scope))
    snapshot = with_policies(api, snapshot, query.read, query.excluded)
    selected = look_up(query, snapshot)
    verdicts = judge(
        snapshot, topology=topology, workloads=selected.workloads, namespaces=selected.namespaces
    )
    workloads = [x for x in snapshot.workloads if selected.covers(x.ref)]
    reader = snapshot.derived(DeclaredReader)
    coverage = {name: make()(snapshot) for name, make in COVERAGE.items()}
    found = _rules_of(workloads, verdicts, reader)
    gaps = [*verdicts.unreadable, *_damaged(workloads, reader)]
    if query.workloads is None:
        gaps += [gap for each in coverage.values() for gap in each.unreadable]
    warn_unreadable(module.warn, gaps)
    # Only a policy that writes the rule lets it name workloads that do not exist.
    of_policies = {
        rule: x
        for each in coverage.values()
        for rule, x in each.rules.items()
        if (each.how(rule) == "policy" if rule in found else query.workloads is None)
    }
    stored = StoredRules(OwnershipIndex.of(view_of(snapshot)), snapshot, of_policies)
    rules = []
    for rule in sorted({*found, *stored.without_workload}):
        parts = found.get(rule) or _RuleParts()
        lists = ("nodes", "pods", VMIS)  # that the instances of a rule are found in
        known = not any(snapshot.why_unreadable(name, rule.namespace) for name in lists)
        entry = _rule(rule, parts, stored, topology, known=known)
        entry |= {name: each.how(rule) for name, each in coverage.items()}
        if params["declarations"]:
            entry["declaration"] = stored.declaration(rule, topology)
        rules.append(entry)
    return {
        "rules": rules,
        "permission_gaps": as_json(tuple(gaps)),
        "table": rule_table(rules, [*gaps, *(snapshot.policy_gaps if rules else ())]),
        **({"declarations_yaml": declarations_yaml(rules)} if params["declarations"] else {}),
        **entries(rules, complete=not gaps),
    }


def entries(rules: t.Sequence[t.Mapping[str, JSON]], *, complete: bool) -> dict[str, JSON]:
    """How many rules there are, which are violated, and what repairs them, for people."""
    more = "" if complete else ", and whether there are more is unknown"
    done = [Entry("rules", f"{plural(len(rules), 'rule')}{more}")]
    following = []
    if violated := tuple(rule["name"] for rule in rules if rule["violated"]):
        done.append(Entry("violated", "violated", violated))
        following.append(TO_MOVE)
    return outcome(done, following=following)


@dataclass
class _RuleParts:
    """What the workloads of a rule have of it."""

    workloads: list[dict[str, JSON]] = field(default_factory=list)
    terms: list[RuleTerms] = field(default_factory=list)


def _damaged(workloads: t.Iterable[Workload], reader: DeclaredReader) -> t.Iterator[Unreadable]:
    """The workloads whose annotation cannot be read, so that it is not known which rules they have."""
    for workload in sorted(workloads, key=lambda workload: workload.ref):
        ref, damage = workload.ref, reader.declared(workload).damaged
        if damage:
            yield Unreadable(f"rules of {ref.kind} {ref.name}", ref.namespace, "read", damage)


def _rules_of(
    workloads: t.Iterable[Workload], verdicts: Verdicts, reader: DeclaredReader
) -> dict[RuleId, _RuleParts]:
    """The rules of these workloads."""
    evaluated: dict[tuple[Ref | None, str], list[RuleVerdict]] = defaultdict(list)
    for instance in verdicts.instances:
        for verdict in instance.rules:
            evaluated[instance.workload, verdict.rule].append(verdict)
    running = Counter(instance.workload for instance in verdicts.instances)
    rules: dict[RuleId, _RuleParts] = defaultdict(_RuleParts)
    for workload in sorted(workloads, key=lambda workload: workload.ref):
        declared = reader.declared(workload)
        since = _written_since(workload)
        for terms in declared.rules:
            parts = rules[RuleId.parse(terms.rule)]
            parts.terms.append(terms)
            of_rule = evaluated[workload.ref, terms.rule]
            entry = _workload(workload.ref, of_rule, since.get(terms.rule))
            parts.workloads.append({**entry, "complete": not terms.removed})
        for name in declared.resting:
            parts = rules[RuleId.parse(name)]
            entry = _workload(workload.ref, (), since.get(name))
            entry |= {"resting": True, "instances": running[workload.ref]}
            parts.workloads.append(entry)
    return rules


def _written_since(workload: Workload) -> t.Mapping[str, str]:
    """Since when the workload has each of its rules as it is, where the record of the last change has that."""
    with contextlib.suppress(UnreadableAnnotation):
        record = read_undo_record(workload)
        if record is not None and not record.reverted:
            return record.since
    return {}


def _workload(
    workload: Ref, verdicts: t.Sequence[RuleVerdict], since: str | None
) -> dict[str, JSON]:
    return {
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "complete": True,
        "resting": False,
        "since": since,
        "instances": len(verdicts),
        "enforced": sum(verdict.enforced for verdict in verdicts),
        "violated": sum(verdict.placed is Verdict.VIOLATED for verdict in verdicts),
    }


def _rule(
    rule: RuleId,
    parts: _RuleParts,
    stored: StoredRules,
    topology: Topology,
    *,
    known: bool,
) -> dict[str, JSON]:
    terms, workloads = parts.terms, parts.workloads
    resting = any(workload["resting"] for workload in workloads) or stored.rests_in_policy(rule)
    instances = sum(workload["instances"] for workload in workloads)
    enforced = sum(workload["enforced"] for workload in workloads)
    since = [workload["since"] for workload in workloads]
    return {
        "namespace": rule.namespace,
        "rule_set": rule.rule_set,
        "name": rule.name,
        "type": stored.type_name(rule) or "",
        "preferred": stored.is_preferred(rule),
        "terms": list(dict.fromkeys(text for part in terms for text in part.described(topology))),
        "resting": resting,
        "since": min(since) if since and all(since) else None,
        "enforced": known
        and bool(workloads)
        and not resting
        and enforced == instances
        and all(x["complete"] for x in workloads),
        "violated": any(workload["violated"] for workload in workloads),
        "workloads": workloads,
    }
