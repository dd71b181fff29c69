# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each mistake has its finding, and each fix removes it."""

from __future__ import annotations

import re
import types
import typing as t

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.flows.lint import run
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    FINDING_NAMES,
    OF_POLICIES,
    OF_RUNNING_PODS,
    ONLY_ON_A_CLUSTER,
)
from tests.unit.lint.documented import DOCUMENTED, MISTAKE_OF

NEEDS_ANNOTATION = ("bypassed_by_node_term", "copied_annotation", "rule_not_on_new_member")
"""Findings that depend on the annotation of a rule: it has fingerprints, which only `rules` writes."""
NEEDS_RUNNING_VM = ("restart_required",)
LINTED = [name for name in MISTAKE_OF if name != "invalid_manifest"]
"""That one needs a folder: see test_repository."""
NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"w{number}",
            "labels": {
                "kubernetes.io/hostname": f"w{number}",
                "topology.kubernetes.io/region": "iberia",
                "topology.kubernetes.io/zone": "aabbcc"[number - 1],
                "performance": "low" if number % 2 else "high",
            },
        },
    }
    for number in range(1, 7)
]


def web(spec: dict[str, t.Any]) -> dict[str, t.Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
    }


def findings(text: str) -> set[str]:
    """The names of the findings that lint_info reports for the YAML of an example."""
    documents = list(yaml.safe_load_all(text))
    rules = [rule for document in documents if isinstance(document, list) for rule in document]
    objects = [document for document in documents if not isinstance(document, list)]
    manifests = [document if "kind" in document else web(document) for document in objects]
    if rules and not manifests:
        manifests = [web({})]
    version = re.search(r'# kubernetes_version: "(.+)"', text)
    params: dict[str, t.Any] = {
        "exclude_namespaces": [],
        "files": [],
        "exclude": [],
        "manifests": [*NODES, *manifests],
        "rules": rules,
        "namespace": "default",
        "rule_set": "default",
        "topology_keys": {},
        "cluster_uid": None,
        "timeout": 60,
        "kubernetes_version": version[1] if version else None,
        "kubevirt_version": "1.8.4" if version else None,
        "assume_node_labels": {},
        "new_members": "none",
    }
    module = types.SimpleNamespace(params=params, warn=lambda text: None)
    return {finding["name"] for finding in run(t.cast(t.Any, module))["findings"]}


def test_each_finding_is_documented() -> None:
    assert set(DOCUMENTED) == FINDING_NAMES


def test_findings_without_a_mistake_need_a_cluster() -> None:
    assert FINDING_NAMES - MISTAKE_OF.keys() == {
        *OF_POLICIES,
        *OF_RUNNING_PODS,
        *ONLY_ON_A_CLUSTER,
        *NEEDS_ANNOTATION,
        *NEEDS_RUNNING_VM,
    }


@pytest.mark.parametrize("name", LINTED)
def test_example_has_the_finding(name: str) -> None:
    assert name in findings(MISTAKE_OF[name].example)


@pytest.mark.parametrize("name", [name for name in LINTED if MISTAKE_OF[name].fix])
def test_fix_removes_the_finding(name: str) -> None:
    assert name not in findings(MISTAKE_OF[name].fix)
