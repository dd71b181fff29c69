# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels and terms do rules put into the templates of manifests, and of objects that do not exist yet?

For what is written elsewhere than on a cluster: an overlay of kustomize, a repository that Argo CD applies, the
machine pool of a guest cluster (`vmAffinity` of Harvester's node driver), the template of a pool.
"""

from __future__ import annotations

import typing as t

from ..kinds.registry import RULE_KINDS
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rule import Rule, WorkloadSelector
from ..model.snapshot import Platform, Workload
from ..model.write import written
from ..rules.change import EXTERNALLY_MANAGED, labels_of_terms
from ..rules.checks import UNSUPPORTED_BY_SERVER
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.plan import is_named, plan_rules
from ..rules.record import read_undo_record
from ..rules.rules_plan import RulesPlan
from ..rules.term_slots import FIELDS
from .offline_rules import offline_snapshot, references_of, stand_ins_for, written_request


def rendered_rules(
    rules: t.Sequence[Rule], manifests: t.Iterable[Workload], platform: Platform
) -> list[dict[str, JSON]]:
    """One entry for each manifest that rules are about, and for each name or set of labels that no manifest has.

    A workload for which a rule cannot be written has no entry: a finding says why."""
    if not rules:
        return []
    workloads = {w.ref: w for w in manifests if _is_writable(w)}
    selectors: dict[Ref, WorkloadSelector] = {}
    for rule in rules:
        for reference in references_of(rule):
            for stand_in in _missing(reference, workloads):
                selectors[stand_in.ref] = reference
                workloads[stand_in.ref] = stand_in
    snapshot = offline_snapshot(tuple(workloads.values()), None, platform)
    plan = plan_rules(snapshot, written_request(rules))
    after = written(snapshot, plan.writes).workloads_by_ref
    partly_refused = (x for x in plan.refused if x.name not in _RENDERED)
    refused = {ref for finding in partly_refused for ref in finding.objects}
    return [
        _entry(after[ref], plan, selectors.get(ref))
        for ref in sorted(plan.members)
        if ref not in refused
    ]


def _is_writable(workload: Workload) -> bool:
    if workload.ref.kind not in RULE_KINDS or not isinstance(workload.template.get("spec"), dict):
        return False
    try:
        read_ownership(workload)
        read_undo_record(workload)
    except UnreadableAnnotation:
        return False
    return True


def _missing(
    reference: WorkloadSelector, workloads: t.Mapping[Ref, Workload]
) -> t.Iterator[Workload]:
    """Stand-ins for what a reference names and no manifest is."""
    if reference.labels is not None and any(
        is_named((reference,), workload) for workload in workloads.values()
    ):
        return
    yield from (x for x in stand_ins_for(reference) if x.ref not in workloads)


_RENDERED = (EXTERNALLY_MANAGED, UNSUPPORTED_BY_SERVER)
"""Errors that concern a write to the cluster, or that say which field was left out."""


def _entry(
    workload: Workload, plan: RulesPlan, reference: WorkloadSelector | None
) -> dict[str, JSON]:
    requested = plan.requested[workload.ref]
    chosen = dict(reference.labels or {}) if reference is not None else {}
    spec = workload.template["spec"]
    return {
        "rules": [rule.name for rule, terms in requested.listed.items() if terms is not None],
        "api_version": workload.kind.group_version,
        "kind": workload.ref.kind,
        "namespace": workload.ref.namespace,
        "name": "" if chosen else workload.ref.name,
        "labels": {**chosen, **dict(labels_of_terms(requested))},
        "placement": {name: spec[name] for name in FIELDS if name in spec},
    }
