# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checks exist, and what do they find: on a cluster, or in its state after a write?

A check is a function from LintInput to findings. The same findings about several objects are
merged into one.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..holds import write as holds
from ..model.findings import Finding
from ..model.gc import collector_paused
from ..model.objects import Ref
from ..model.rule import Rule
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..model.write import Write, written
from ..new_members import findings as new_members
from .affinity import (
    affinity_and_anti_affinity_to_same_vms,
    anti_affinity_among_followers,
    anti_affinity_of_leader,
    required_affinity_findings,
)
from .architecture import architecture_findings
from .budgets import budget_findings
from .capacity import domain_findings
from .label_places import findings as label_findings
from .lint_input import LintInput, lint_input_of
from .node_keys import findings as node_key_findings
from .node_terms import findings as node_term_findings
from .schedulers import scheduler_findings
from .selectors import findings as selector_findings
from .server import (
    gate_findings,
    instance_type_findings,
    invalid_template_findings,
    unsupported_field_findings,
)
from .similar_terms import findings as similar_term_findings
from .spread import spread_findings
from .volumes import findings as volume_findings
from .workloads import (
    count_findings,
    migration_findings,
    new_member_findings,
    node_name_findings,
    rollout_findings,
    too_many_terms,
    vmi_findings,
    workload_findings,
)

_RANK = {"error": 0, "warning": 1, "info": 2}


def merged(findings: t.Iterable[Finding]) -> tuple[Finding, ...]:
    """The same findings about different objects as one finding, the worst first."""
    alike: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.name, finding.severity, finding.why, finding.advice, finding.rule)
        alike.setdefault(key, []).append(finding)
    together = (
        replace(same[0], objects=tuple(sorted({ref for x in same for ref in x.objects})))
        for same in alike.values()
    )
    return tuple(sorted(together, key=lambda x: (_RANK[x.severity], x.name, x.rule, x.why)))


Check = t.Callable[[LintInput], t.Iterable[Finding]]

RULE_CHECKS: tuple[Check, ...] = (
    selector_findings,
    node_key_findings,
    node_term_findings,
    required_affinity_findings,
    domain_findings,
    anti_affinity_among_followers,
    affinity_and_anti_affinity_to_same_vms,
    anti_affinity_of_leader,
    migration_findings,
    spread_findings,
    rollout_findings,
    invalid_template_findings,
    unsupported_field_findings,
)
"""Checks of the terms that rules write."""

ALL_CHECKS: tuple[Check, ...] = (
    *RULE_CHECKS,
    label_findings,
    volume_findings,
    budget_findings,
    workload_findings,
    node_name_findings,
    holds.hold_findings,
    new_member_findings,
    new_members.policy_findings,
    count_findings,
    similar_term_findings,
    architecture_findings,
    scheduler_findings,
    vmi_findings,
    gate_findings,
    instance_type_findings,
)
"""A new check is a function from LintInput to findings, and an entry here. So is one of a capability."""

RequestCheck = t.Callable[[Snapshot, tuple[Rule, ...], tuple[Write, ...]], tuple[Finding, ...]]


def lint_of_writes(topology: Topology) -> RequestCheck:
    """The check that `plan_rules` takes as `extra_findings`: terms of the rules after the writes."""

    @collector_paused()
    def check(
        snapshot: Snapshot, rules: tuple[Rule, ...], writes: tuple[Write, ...]
    ) -> tuple[Finding, ...]:
        if not rules:  # only rules are removed, or a change is undone
            return ()
        after = lint_input_of(written(snapshot, writes), topology)
        return findings_about(after, rules)

    return check


def findings_about(lint_input: LintInput, rules: t.Iterable[Rule]) -> tuple[Finding, ...]:
    """The findings of RULE_CHECKS about terms of `rules` on the subjects that carry them."""
    ids = {str(rule.id): rule.id.name for rule in rules}
    carrying = tuple(
        subject
        for subject in lint_input.subjects
        if any(rule.rule in ids for rule in subject.declared.rules)
    )
    of_rules = replace(lint_input, subjects=carrying)
    findings = merged(finding for check in RULE_CHECKS for finding in check(of_rules))
    return tuple(finding for finding in findings if finding.rule in ids.values())


@collector_paused()
def all_findings(lint_input: LintInput) -> tuple[Finding, ...]:
    """Every finding about the subjects, the worst first."""
    return merged(finding for check in ALL_CHECKS for finding in check(lint_input))


@collector_paused()
def lint(
    snapshot: Snapshot,
    *,
    topology: Topology | None = None,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """The findings about `workloads` (None: about all) in `namespaces` (None: in all). What could
    not be read counts as not known, so that a missing right causes no finding."""
    lint_input = lint_input_of(
        snapshot,
        topology or Topology.of(),
        workloads=workloads,
        namespaces=namespaces,
    )
    of_pods = (
        finding
        for pod in snapshot.pods
        if pod.owner is None
        and workloads is None
        and (namespaces is None or pod.namespace in namespaces)
        for finding in too_many_terms(pod.ref, pod.placement)
    )
    return merged((*all_findings(lint_input), *of_pods))
