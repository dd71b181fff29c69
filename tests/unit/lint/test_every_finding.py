# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each finding is found on a cluster and, where it can be, without one; and it is
gone once it is mended."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.lint.topology import topology_report
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    OF_NODE_LABELS,
    OF_RULES,
    OF_TERMS,
    ONLY_ON_A_CLUSTER,
    Finding,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
    lint_nodes,
    lint_rules,
    without_findings_of_rules,
)
from tests.support.cluster import Cluster
from tests.unit.lint import rule_examples
from tests.unit.lint.documented import DOCUMENTED
from tests.unit.lint.examples import EXAMPLES, SOUND, Build
from tests.unit.lint.online_offline import manifests

OFFLINE = [*OF_TERMS, *OF_NODE_LABELS]


def grown(build: Build, zones: str) -> Cluster:
    cluster = Cluster(zones)
    build(cluster)
    return cluster


Look = t.Callable[[str, Cluster, Platform], t.Sequence[Finding]]


def online(name: str, cluster: Cluster, platform: Platform) -> t.Sequence[Finding]:
    snapshot = cluster.snapshot(platform=platform)
    if name in OF_NODE_LABELS:
        return topology_report(snapshot.nodes, Topology.of()).findings
    return lint(snapshot)


def offline(name: str, cluster: Cluster, platform: Platform) -> t.Sequence[Finding]:
    """With no more than what the documents say it takes."""
    takes = DOCUMENTED[name].offline
    listed = manifests(cluster, nodes=takes == "nodes")
    known = platform if takes == "versions" else None
    return [*lint_manifests(listed, platform=known), *lint_nodes(listed)]


def names(found: t.Iterable[Finding]) -> set[str]:
    return {finding.name for finding in found}


ABOUT_NO_OBJECT = ("no_matching_workloads", "check_skipped", "unknown_rule")
"""They are about what is not there, or could not be read."""
OF_TOPOLOGY = dict.fromkeys(("no_node_has_key", "single_domain"), frozenset({"info", "warning"}))
"""What topology_info says of keys that no rule asks for: see docs/findings.md."""
SENTENCE = re.compile(r"\S.*[^.]\.", re.DOTALL)


def is_as_documented(finding: Finding, *, of_labels: bool = False) -> None:
    """Its severity is one that the documents name; it says why and what to do in sentences each,
    and names the objects that it is about."""
    severities = DOCUMENTED[finding.name].severities
    if of_labels:
        severities = OF_TOPOLOGY.get(finding.name, severities)
    assert finding.severity in severities, finding
    assert SENTENCE.fullmatch(finding.why), finding
    assert SENTENCE.fullmatch(finding.advice), finding
    bare = finding.name in ABOUT_NO_OBJECT or (of_labels and finding.name == "no_node_has_key")
    assert bool(finding.objects) is not bare, finding
    assert len(set(finding.objects)) == len(finding.objects), finding


def test_there_is_an_example_of_each() -> None:
    assert set(EXAMPLES) == set(OFFLINE)


@pytest.mark.parametrize("look", [online, offline])
@pytest.mark.parametrize("name", OFFLINE)
def test_finding_is_as_documented(name: str, look: Look) -> None:
    example = EXAMPLES[name]
    found = look(name, grown(example.bad, example.zones), example.platform)

    assert name in names(found)
    for finding in found:
        is_as_documented(finding, of_labels=look is online and name in OF_NODE_LABELS)


@pytest.mark.parametrize("look", [online, offline])
@pytest.mark.parametrize("name", OFFLINE)
def test_corrected_cluster_does_not_have_the_finding(name: str, look: Look) -> None:
    """Without nodes to count, a skew of one may always be meant as a maximum."""
    example = EXAMPLES[name]
    before = names(look(name, grown(example.bad, example.zones), example.platform))
    cluster = grown(example.good, example.zones)
    if name == "max_skew_misread" and look is offline:
        found = names(lint_manifests(manifests(cluster, nodes=True)))
    else:
        found = names(look(name, cluster, SOUND))

    assert found <= before - {name}, "no other finding takes its place"


def asked_offline(name: str, request: rule_examples.Ask) -> list[tuple[str, str]]:
    """All as documented. Names and rules of what is wrong, with no more than what the documents say it takes."""
    assert isinstance(request, rule_examples.Asked)
    takes = DOCUMENTED[name].offline
    listed = request.manifests if "manifests" in takes else []
    found = without_findings_of_rules(
        (*lint_rules(request.rules, manifests=listed), *lint_manifests(listed))
    )
    for finding in found:
        is_as_documented(finding)
    return [(finding.name, finding.rule) for finding in found if finding.severity != "info"]


def test_there_is_a_request_for_each_that_takes_rules() -> None:
    assert set(rule_examples.EXAMPLES) == {*OF_RULES, *ONLY_ON_A_CLUSTER}


@pytest.mark.parametrize("name", [*OF_RULES, *ONLY_ON_A_CLUSTER])
def test_request_has_only_this_finding(name: str) -> None:
    found = rule_examples.EXAMPLES[name].bad()

    assert names(found) == {name}
    for finding in found:
        is_as_documented(finding)


@pytest.mark.parametrize("name", [*OF_RULES, *ONLY_ON_A_CLUSTER])
def test_corrected_request_has_no_finding(name: str) -> None:
    found = rule_examples.EXAMPLES[name].good()

    assert [finding.name for finding in found if finding.severity != "info"] == []


@pytest.mark.parametrize("name", OF_RULES)
def test_finding_in_rules_and_manifests_is_reported_once(name: str) -> None:
    found = asked_offline(name, rule_examples.EXAMPLES[name].bad)

    assert name in dict(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("name", OF_RULES)
def test_corrected_rules_and_manifests_do_not_have_the_finding(name: str) -> None:
    before = dict(asked_offline(name, rule_examples.EXAMPLES[name].bad))
    found = dict(asked_offline(name, rule_examples.EXAMPLES[name].good))

    assert set(found) <= set(before) - {name}, "no other finding takes its place"


ASKED = [
    name
    for name in ONLY_ON_A_CLUSTER
    if isinstance(rule_examples.EXAMPLES[name].bad, rule_examples.Asked)
]


@pytest.mark.parametrize("name", ASKED)
def test_finding_that_needs_a_cluster_is_not_reported_without_one(name: str) -> None:
    assert name not in dict(asked_offline(name, rule_examples.EXAMPLES[name].bad))


def test_a_pod_that_nothing_makes_again_is_not_claimed_without_a_cluster() -> None:
    metadata = {"name": "lonely", "namespace": "shop"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}

    assert "not_recreated" not in {finding.name for finding in lint_manifests([pod])}
