# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases from the field, each by its number: manifests as people had them, and what lint has to report."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
    lint_rules,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from tests.support import manifests
from tests.support.cluster import HOST, REQUIRED, ZONE
from tests.support.manifests import manifest

JSON = t.Any
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def node(name: str, labels: JSON, *taints: str) -> JSON:
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return manifest("Node", name, metadata={"labels": {HOST: name, **labels}}, spec=spec)


def workload(
    kind: str, name: str, replicas: int, pod_labels: JSON, spec: JSON, **metadata: JSON
) -> JSON:
    return manifests.workload(kind, name, pod_labels, spec, metadata=metadata, replicas=replicas)


def by_name(listed: t.Iterable[JSON]) -> dict[str, Finding]:
    found = lint_manifests(listed)
    assert len({finding.name for finding in found}) == len(found), found
    return {finding.name: finding for finding in found}


EDGE_LABELS = {"app.kubernetes.io/name": "edge", "app.kubernetes.io/instance": "edge-prod"}


def case_10(operator: str = "podAntiAffinity") -> JSON:
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["edge"]}]}
    term = {"topologyKey": HOST, "labelSelector": selector}
    spec = {"affinity": {operator: {REQUIRED: [term]}}, "containers": []}
    return workload("Deployment", "edge", 3, EDGE_LABELS, spec, labels={"app": "edge"})


def test_field_10_anti_affinity_selects_by_a_label_of_the_object() -> None:
    found = by_name([case_10()])

    assert set(found) == {"selector_matches_nothing"}
    finding = found["selector_matches_nothing"]
    assert finding.severity == "warning"
    assert finding.why == (
        "The pod anti-affinity term over node selects app In (edge), and no template has such labels, so it has no"
        " effect: app=edge is a label of Deployment default/edge (metadata.labels) and not of its pods"
        " (spec.template.metadata.labels)."
    )
    assert finding.advice == (
        "Put the label into the template, or select by a label that the template has."
    )


def test_field_10_label_of_a_cron_job_is_none_of_its_pods() -> None:
    template = {"template": case_10()["spec"]["template"]}
    metadata = {"name": "edge", "labels": {"tier": "edge"}}
    job = {"spec": template, "metadata": {"labels": {"app": "edge"}}}
    cron = {"kind": "CronJob", "metadata": metadata, "spec": {"jobTemplate": job}}

    finding = by_name([{"apiVersion": "batch/v1", **cron}])["selector_matches_nothing"]
    assert finding.why.endswith(
        "app=edge is a label of CronJob default/edge (spec.jobTemplate.metadata.labels) and not of its pods"
        " (spec.jobTemplate.spec.template.metadata.labels)."
    )


def test_field_10_affinity_to_a_label_of_another_object() -> None:
    follower = case_10("podAffinity")
    follower["metadata"] = {"name": "log"}

    found = by_name([follower])
    assert "selector_matches_nothing" not in found, "its pods may stand in other files"
    edge = case_10()
    edge["spec"]["template"]["spec"] = {"containers": []}
    found = by_name([follower, edge])
    assert "app=edge is a label of Deployment default/edge" in found["selector_matches_nothing"].why


def test_field_10_label_that_some_template_has_selects_pods() -> None:
    other = workload("Deployment", "other", 1, {"app": "edge"}, {"containers": []})

    assert by_name([case_10(), other]) == {}


def test_field_10_spread_counts_a_label_of_the_object() -> None:
    edge = case_10()
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    edge["spec"]["template"]["spec"] = {
        "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": {"app": "edge"}}}]
    }

    finding = by_name([edge])["template_and_selector_disagree"]
    assert "app=edge is a label of Deployment default/edge (metadata.labels)" in finding.why
    del edge["metadata"]["labels"]
    finding = by_name([edge])["template_and_selector_disagree"]
    assert (
        "(it has app.kubernetes.io/name=edge, app.kubernetes.io/instance=edge-prod)" in finding.why
    )


def case_12(asked: JSON) -> list[JSON]:
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [asked]}]}}}
    tolerations = [{"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"}]
    spec = {"affinity": affinity, "tolerations": tolerations, "containers": []}
    return [
        node("boss-0", {CONTROL_PLANE: ""}, CONTROL_PLANE),
        node("hand-0", {}),
        workload("Deployment", "upgrader", 1, {"app": "upgrader"}, spec),
    ]


def test_field_12_label_with_the_empty_value_is_asked_for_with_a_value() -> None:
    found = by_name(case_12({"key": CONTROL_PLANE, "operator": "In", "values": ["true"]}))

    assert found["unsatisfiable"].severity == "error"
    value = found["no_node_has_value"]
    assert f"No node has {CONTROL_PLANE}=true" in value.why
    assert "nodes have it with the empty value" in value.why
    assert "use operator Exists" in value.advice


def test_field_12_rule_asks_for_a_value_where_nodes_have_none() -> None:
    """run_on takes no empty value."""
    rule = {"name": "on-boss", "workloads": [{"kind": "Deployment", "name": "upgrader"}]}
    read = read_rules(
        [{**rule, "run_on": {CONTROL_PLANE: "true"}}],
        namespace="default",
        rule_set="default",
        topology=Topology.of(),
    )
    upgrader = case_12({"key": CONTROL_PLANE, "operator": "Exists"})

    found = {x.name: x for x in lint_rules(read.rules, manifests=upgrader)}
    assert found["no_node_has_value"].advice == (
        f"Write a rule of type terms: node affinity that has {CONTROL_PLANE} with operator Exists."
    )


def test_field_12_operator_exists_is_right() -> None:
    assert by_name(case_12({"key": CONTROL_PLANE, "operator": "Exists"})) == {}


def test_field_12_a_label_with_the_empty_value_is_avoided_by_a_value() -> None:
    found = by_name(case_12({"key": CONTROL_PLANE, "operator": "NotIn", "values": ["true"]}))

    value = found["no_node_has_value"]
    assert "excludes no node; nodes have it with the empty value" in value.why
    assert "use operator DoesNotExist" in value.advice


def test_field_12_node_selector_with_a_value_where_nodes_have_none() -> None:
    upgrader = workload(
        "Deployment", "upgrader", 1, {"app": "upgrader"}, {"nodeSelector": {CONTROL_PLANE: "true"}}
    )
    found = by_name([node("boss-0", {CONTROL_PLANE: ""}), upgrader])

    assert f'{CONTROL_PLANE}: ""' in found["no_node_has_value"].advice
    assert f"{CONTROL_PLANE} In (true)" in found["unsatisfiable"].why


def test_field_12_empty_value_is_asked_for_where_nodes_have_one() -> None:
    found = by_name(
        [
            node("boss-0", {CONTROL_PLANE: "true"}),
            workload(
                "Deployment", "upgrader", 1, {"app": "a"}, {"nodeSelector": {CONTROL_PLANE: ""}}
            ),
        ]
    )

    assert f'No node has {CONTROL_PLANE}="", so' in found["no_node_has_value"].why
    assert f'{CONTROL_PLANE} In ("")' in found["unsatisfiable"].why


def test_wrong_labels_are_named_each_with_key_and_value() -> None:
    labels = {"app": "{{app}}", "uid": "{{uid}}"}
    pod = manifest("Pod", "a", metadata={"labels": labels})

    spec = {"containers": [], "nodeSelector": {"disk": "{{disk}}"}}
    why = by_name([{**pod, "spec": spec}])["invalid_placement"].why
    assert "spec.nodeSelector disk={{disk}}: a valid label must" in why
    assert "metadata.labels app={{app}}: a valid label must" in why
    assert "metadata.labels uid={{uid}}: a valid label must" in why


def case_16(*, replicas: int = 6, **constraint: JSON) -> list[JSON]:
    labels = {"app": "ticker"}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
        **constraint,
    }
    spec = {"topologySpreadConstraints": [spread], "containers": []}
    return [
        node("m0", {ZONE: "z1"}, CONTROL_PLANE),
        node("n2", {ZONE: "z2"}),
        node("n3", {ZONE: "z3"}),
        workload("StatefulSet", "ticker", replicas, labels, spec),
    ]


def test_field_16_spread_counts_a_zone_that_takes_none_of_the_pods() -> None:
    found = by_name(case_16())

    assert set(found) == {"spread_counts_unusable_domain"}
    finding = found["spread_counts_unusable_domain"]
    assert finding.severity == "error"
    assert finding.why == (
        f"zone z1 counts for the spread constraint with maxSkew 1 and takes none of these pods (the taint"
        f" {CONTROL_PLANE}:NoSchedule of m0 is not tolerated): at most 1 can run in each of the other 2 zones, so 2"
        " of 6 pods, and the rest stays Pending."
    )
    assert finding.advice.startswith("Set nodeTaintsPolicy: Honor in the constraint")


def test_field_16_honored_taints_are_right() -> None:
    assert set(by_name(case_16(nodeTaintsPolicy="Honor"))) == {"max_skew_misread"}


def test_field_16_as_many_pods_as_the_other_zones_take() -> None:
    assert set(by_name(case_16(replicas=2))) == {"spread_blocks_drain"}
    assert set(by_name(case_16(replicas=4, maxSkew=2))) == {"spread_blocks_drain"}
    assert (
        "4 of 5 pods"
        in by_name(case_16(replicas=5, maxSkew=2))["spread_counts_unusable_domain"].why
    )


def test_field_16_pods_that_tolerate_the_taint_run_there() -> None:
    manifests = case_16()
    tolerations = [{"key": CONTROL_PLANE, "operator": "Exists"}]
    manifests[-1]["spec"]["template"]["spec"]["tolerations"] = tolerations

    assert "spread_counts_unusable_domain" not in by_name(manifests)


def test_field_16_zone_that_node_affinity_leaves_out_counts_only_if_it_is_ignored() -> None:
    manifests = case_16(nodeTaintsPolicy="Honor")
    manifests[0] = node("m0", {ZONE: "z1"})
    spec = manifests[-1]["spec"]["template"]["spec"]
    for name in ("n2", "n3"):
        manifests[int(name[1]) - 1]["metadata"]["labels"]["example.com/disk"] = "ssd"
    spec["nodeSelector"] = {"example.com/disk": "ssd"}

    assert "spread_counts_unusable_domain" not in by_name(manifests)
    spec["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
    finding = by_name(manifests)["spread_counts_unusable_domain"]
    assert "nodeSelector and node affinity leave out m0" in finding.why
    assert finding.advice.startswith("Set nodeAffinityPolicy: Honor in")


def test_field_16_cordoned_zone_is_no_lasting_one() -> None:
    manifests = case_16()
    manifests[0] = node("m0", {ZONE: "z1"}, "node.kubernetes.io/unschedulable")

    assert "spread_counts_unusable_domain" not in by_name(manifests)


def test_field_16_pods_of_another_workload_may_fill_the_zone() -> None:
    manifests = case_16()
    tolerations = [{"key": CONTROL_PLANE, "operator": "Exists"}]
    other = workload("Deployment", "agent", 9, {"app": "ticker"}, {"tolerations": tolerations})

    assert "spread_counts_unusable_domain" not in by_name([*manifests, other])
