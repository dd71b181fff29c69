# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A generated cluster with its machines, read page by page into a Snapshot: see engine.write."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
    Vmi,
    Workload,
)

from .generator import JSON
from .machines import VIRTUAL_MACHINE

PAGE = 500
"""Pods in a line of the file."""

PLATFORM = Platform(kubernetes=(1, 36), kubevirt="v1.8.4", eviction_strategy="LiveMigrate")


class Reading:
    """What has been turned into values so far. `lines` is left where the pods begin."""

    def __init__(self, lines: t.Iterator[str]) -> None:
        self.nodes: list[JSON] = json.loads(next(lines))
        self._namespaces: list[JSON] = json.loads(next(lines))
        self._pods: list[Pod] = []
        self._workloads: list[Workload] = []
        self._instances: list[Vmi] = []

    def pods(self, page: t.Sequence[JSON]) -> None:
        self._pods += map(pod_from_manifest, page)

    def machines(self, vms: t.Iterable[JSON], vmis: t.Iterable[JSON]) -> None:
        self._workloads += [workload_from_manifest(VIRTUAL_MACHINE, each) for each in vms]
        self._instances += map(vmi_from_manifest, vmis)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            nodes=tuple(map(node_from_manifest, self.nodes)),
            pods=tuple(self._pods),
            namespaces=tuple(map(namespace_from_manifest, self._namespaces)),
            workloads=tuple(self._workloads),
            vmis=tuple(self._instances),
            platform=PLATFORM,
        )
