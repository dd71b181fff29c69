# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters by hand."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node(name: str, zone: str = "", *, cpu: str = "4", pods: str = "9", **spec: JSON) -> Node:
    labels = {HOST: name, **({ZONE: zone} if zone else {})}
    return node_from_manifest(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": pods}},
        }
    )


def pod(
    name: str,
    node_name: str = "",
    *,
    labels: dict[str, str] | None = None,
    cpu: str = "0",
    metadata: JSON = None,
    status: JSON = None,
    **spec: JSON,
) -> Pod:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return pod_from_manifest(
        {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "labels": labels or {},
                **(metadata or {}),
            },
            "spec": {"containers": [container], "nodeName": node_name, **spec},
            "status": status or {},
        }
    )


def index(nodes: t.Iterable[Node], pods: t.Iterable[Pod] = (), **more: t.Any) -> Index:
    shop = {"metadata": {"name": "shop", "labels": {"team": "t1"}}}
    return Index(nodes, pods, [namespace_from_manifest(shop)], **more)


def apart(labels: dict[str, str], key: str = ZONE, **more: JSON) -> JSON:
    """Affinity with one required anti-affinity term."""
    return {"podAntiAffinity": {REQUIRED: [term(labels, key, **more)]}}


def term(labels: dict[str, str], key: str = ZONE, **more: JSON) -> JSON:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}
