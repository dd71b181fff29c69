# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What virt-handler sets on its node: labels of its heartbeat and of the node labeller, and devices.

Sources: KubeVirt, pkg/virt-handler/heartbeat/heartbeat.go and pkg/virt-handler/node-labeller/node_labeller.go. A real
node of libvirt 11 and QEMU 10 has some 300 labels; here are those of each kind.
"""

from __future__ import annotations

import typing as t

HEARTBEAT = "kubevirt.io/heartbeat"
"""Annotation of virt-handler on its node. virt-controller takes it for dead after five minutes without one, and
judges no node without the annotation (pkg/virt-controller/watch/node/node.go, isNodeUnresponsive)."""

SCHEDULABLE = "kubevirt.io/schedulable"

LABELS: t.Final[dict[str, str]] = {
    SCHEDULABLE: "true",
    "cpumanager": "false",
    "kubevirt.io/cpumanager": "false",
    "machine-type.node.kubevirt.io/q35": "true",
    "machine-type.node.kubevirt.io/pc-q35-9.2": "true",
    "machine-type.node.kubevirt.io/pc-q35-10.0": "true",
}
"""On each node, whatever its CPU is."""

HOST_CPU = "host-model-cpu.node.kubevirt.io/"

_MODELS = ("Westmere", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server")

CPU_LABELS: t.Final[dict[str, str]] = dict.fromkeys(
    (
        "cpu-vendor.node.kubevirt.io/Intel",
        f"{HOST_CPU}Skylake-Server",
        "host-model-required-features.node.kubevirt.io/vmx",
        *(f"cpu-model-migration.node.kubevirt.io/{model}" for model in _MODELS),
        *(f"cpu-model.node.kubevirt.io/{model}" for model in _MODELS),
        # from libvirt 10 on
        *(f"cpu-model.node.kubevirt.io/{model}-v1" for model in _MODELS),
        *(f"cpu-model-migration.node.kubevirt.io/{model}-v1" for model in _MODELS),
        *(f"cpu-feature.node.kubevirt.io/{name}" for name in ("aes", "avx2", "avx512f", "vmx")),
    ),
    "true",
)
"""Those of its CPU, where a cluster file does not say which one it has."""

DEVICES: t.Final[dict[str, str]] = {
    f"devices.kubevirt.io/{name}": "1k" for name in ("kvm", "tun", "vhost-net")
}
