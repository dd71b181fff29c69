# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A webhook takes a term of a rule out of the write again, as Harvester's does with terms of matchFields alone."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.cluster.patching import still_differs
from ansible_collections.virt.placement.plugins.module_utils.rules.changed_back import changed_back
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import is_refused
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan

from .builders import applied, plan, request, snapshot, vm, workload
from .test_harvester import APART, ZONES, _mutated

JSON = t.Any
NAMED = {"key": "metadata.name", "operator": "In", "values": ["w1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}
RULE: JSON = {
    "name": "here",
    "workloads": [{"name": "a"}],
    "terms": {"affinity": {"nodeAffinity": {REQUIRED: TERMS}}},
}


def answered(rule: JSON) -> tuple[RulesPlan, JSON]:
    """The plan of a rule for one VM, and the answer of the API server to its write."""
    found = plan(snapshot(workload(_mutated(vm("a").manifest))), rule)
    (write,) = found.writes
    manifest = copy.deepcopy(dict(found.workloads[0].workload.manifest))
    return found, _mutated(applied(manifest, write))


def test_answer_without_the_term_is_a_finding_that_nothing_allows() -> None:
    found, answer = answered(RULE)
    (write,) = found.writes

    assert still_differs(found.recompute, write, answer)
    (finding,) = changed_back(write.target, answer, found.requested[write.target])
    assert (finding.name, finding.severity, finding.rule) == ("changed_by_webhook", "error", "here")
    assert '"key": "metadata.name"' in finding.why
    assert "use run_on with kubernetes.io/hostname" in finding.advice
    assert "for a policy kubectl get mutatingadmissionpolicies" in finding.advice
    allowed = request({**RULE, "allow_findings": ["changed_by_webhook"]}).rules
    assert is_refused(finding, allowed)


def test_second_run_knows_that_the_term_was_written_before() -> None:
    _found, answer = answered(RULE)

    (again,) = plan(snapshot(workload(answer)), RULE).workloads

    assert [term.location.value for term in again.merged.restored] == ["node-field"]


def test_expressions_that_a_webhook_adds_beside_ours_are_no_finding() -> None:
    for rule in (ZONES, APART):
        found, answer = answered(rule)
        (write,) = found.writes
        assert not still_differs(found.recompute, write, answer)


def test_first_write_of_a_rule_restores_nothing() -> None:
    found, _answer = answered(ZONES)
    assert [change.merged.restored for change in found.workloads] == [()]
