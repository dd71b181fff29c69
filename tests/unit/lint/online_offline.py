# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint one cluster in both ways: read from its API, and as manifests in files."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.cluster import Cluster

FindingsByName = dict[str, Finding]


def online(cluster: Cluster, **changes: t.Any) -> FindingsByName:
    """Findings by name. Fails if two have the same name."""
    return _by_name(lint(cluster.snapshot(**changes)))


def offline(
    cluster: Cluster, *, nodes: bool = False, platform: Platform | None = None
) -> FindingsByName:
    """Findings of the manifests of the workloads, and with `nodes` of the nodes. Fails if two have the same
    name."""
    return _by_name(lint_manifests(manifests(cluster, nodes=nodes), platform=platform))


def manifests(cluster: Cluster, *, nodes: bool = False) -> list[dict[str, t.Any]]:
    versions = {"VirtualMachine": "kubevirt.io/v1", "Deployment": "apps/v1"}
    manifests = [
        {"apiVersion": versions.get(ref.kind, "v1"), **manifest}
        for ref, manifest in cluster.workloads.items()
    ]
    manifests += [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"accessModes": list(modes)},
        }
        for name, modes in cluster.claims.items()
    ]
    if nodes:
        manifests += [{"kind": "Node", **manifest} for manifest in cluster.nodes.values()]
    return manifests


def _by_name(findings: t.Iterable[Finding]) -> FindingsByName:
    by_name: FindingsByName = {}
    for finding in findings:
        assert finding.name not in by_name, (by_name[finding.name], finding)
        assert finding.why.endswith(".") and finding.advice.endswith("."), finding
        by_name[finding.name] = finding
    return by_name


def deployment(
    cluster: Cluster, name: str, spec: dict[str, t.Any], replicas: int = 3, **more: t.Any
) -> None:
    """A Deployment whose pods have the label app."""
    cluster.workload(
        "Deployment",
        name,
        {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            **more,
        },
    )
