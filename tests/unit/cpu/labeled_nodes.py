# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of four generations of Intel and two of AMD, with the labels of KubeVirt's node labeller, and VMs on them."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.cpu.report import (
    CpuReport,
    cpu_report,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.launcher import (
    launcher_node_expressions,
    launcher_node_selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import REQUIRED, SCHEDULABLE, ZONE, Cluster

JSON = t.Any

MODEL = "cpu-model.node.kubevirt.io/"
MIGRATION = "cpu-model-migration.node.kubevirt.io/"
FEATURE = "cpu-feature.node.kubevirt.io/"
VENDOR = "cpu-vendor.node.kubevirt.io/"
HOST = "host-model-cpu.node.kubevirt.io/"
REQUIRES = "host-model-required-features.node.kubevirt.io/"
OBSOLETE = "node-labeller.kubevirt.io/obsolete-host-model"

INTEL = (
    "Haswell-noTSX",
    "Broadwell-noTSX",
    "Skylake-Server-noTSX-IBRS",
    "Cascadelake-Server-noTSX",
)
AMD = ("EPYC-Rome", "EPYC-Milan")
_FEATURES = {
    "Haswell-noTSX": "avx2",
    "Broadwell-noTSX": "adx",
    "Skylake-Server-noTSX-IBRS": "avx512f",
    "Cascadelake-Server-noTSX": "avx512vnni",
    "EPYC-Rome": "clwb",
    "EPYC-Milan": "vaes",
}
"""A feature that each generation has beyond the one before."""
_REQUIRED = {"Cascadelake-Server-noTSX": "avx512vnni", "EPYC-Milan": "vaes"}


def labels_of(model: str) -> dict[str, str]:
    """Of a node with this CPU. Each knows the models of all its vendor's, and can run those up to its own."""
    vendor, generations = ("Intel", INTEL) if model in INTEL else ("AMD", AMD)
    usable = generations[: generations.index(model) + 1]
    keys = [f"{MODEL}{x}" for x in usable]
    keys += [f"{FEATURE}{_FEATURES[x]}" for x in usable]
    keys += [f"{MIGRATION}{x}" for x in generations]
    keys += [f"{VENDOR}{vendor}", f"{HOST}{model}", f"{FEATURE}x2apic"]
    keys += [f"{REQUIRES}{name}" for name in ("x2apic", _REQUIRED.get(model)) if name]
    return dict.fromkeys(keys, "true")


def labeled(nodes: t.Mapping[str, str], zones: t.Mapping[str, str] | None = None) -> Cluster:
    """A cluster of nodes with these CPU models, all in zone a unless `zones` has another one."""
    made = Cluster("")
    for name, model in nodes.items():
        made.node(name, {ZONE: (zones or {}).get(name, "a"), **labels_of(model)})
    return made


def run_vm(
    made: Cluster, name: str, node: str, model: str = "host-model", *features: JSON, **selected: str
) -> Ref:
    """A running VM. Its pod selects what virt-controller put into it at its start, and `selected`, dots and slashes as
    `__` for keys, of an earlier migration."""
    cpu = {"model": model, "features": list(features)} if features else {"model": model}
    ref = made.run(name, node, {"domain": {"cpu": cpu}})
    spec = made.machines[name]["spec"]
    platform = made.more["platform"]
    (pod,) = (
        x for x in made.pods.values() if x["metadata"]["labels"]["vmi.kubevirt.io/id"] == name
    )
    pod["spec"]["nodeSelector"] = {
        SCHEDULABLE: "true",
        **launcher_node_selector(spec, platform),
        **selected,
    }
    absent = launcher_node_expressions(spec, platform)
    if absent:
        expressions = [{"key": key, "operator": operator} for key, operator in absent]
        terms = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: terms}}
    return ref


def report_of(made: Cluster, **changes: JSON) -> CpuReport:
    """About all VMs of a cluster."""
    view = view_of(dataclasses.replace(made.snapshot(), **changes))
    return cpu_report(view, lambda _ref: True, ZONE)


def relabel(made: Cluster, node: str, *removed: str, **added: str) -> None:
    """Change labels of a node, as an upgrade does."""
    labels = made.nodes[node]["metadata"]["labels"]
    for key in removed:
        del labels[key]
    labels.update(added)
