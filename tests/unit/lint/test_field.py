# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases from the field, each by its number: manifests as people had them, and what lint has to report."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.lint.offline import lint_manifests
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding

JSON = t.Any
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node(name: str, labels: JSON, *taints: str) -> JSON:
    spec = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOST: name, **labels}},
        "spec": spec,
    }


def workload(
    kind: str, name: str, replicas: int, labels: JSON, spec: JSON, **metadata: JSON
) -> JSON:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def by_name(manifests: t.Iterable[JSON]) -> dict[str, Finding]:
    found = lint_manifests(manifests)
    assert len({finding.name for finding in found}) == len(found), found
    return {finding.name: finding for finding in found}


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


def test_field_12_operator_exists_is_right() -> None:
    assert by_name(case_12({"key": CONTROL_PLANE, "operator": "Exists"})) == {}


def test_field_12_a_label_with_the_empty_value_is_avoided_by_a_value() -> None:
    found = by_name(case_12({"key": CONTROL_PLANE, "operator": "NotIn", "values": ["true"]}))

    value = found["no_node_has_value"]
    assert "keeps its pods off no node; nodes have it with the empty value" in value.why
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
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}}

    why = by_name([{**pod, "spec": {"containers": []}}])["invalid_placement"].why
    assert "metadata.labels app={{app}}: a valid label must" in why
    assert "metadata.labels uid={{uid}}: a valid label must" in why
