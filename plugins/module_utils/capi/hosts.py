# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""On which physical hosts are the nodes of a cluster, which groups share a host, and does vSphere keep them apart?"""

from __future__ import annotations

import typing as t
from collections import Counter, defaultdict
from dataclasses import dataclass

from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import columns, listed, table_text
from ..scheduler.labels import is_label_value
from .objects import CONTROL_PLANE, Controller, Group, HostedNode, VSphereSettings, host_label

NODE_ANTI_AFFINITY = "NodeAntiAffinity"
NODE_LABELING = "NodeLabeling"
VARIABLE = "EXP_NODE_ANTI_AFFINITY"
"""The variable of clusterctl that sets the gate (cluster-api-provider-vsphere, config/base/manager)."""

_LABELING_SUPERSEDED = (1, 7), (1, 4)
"""From these releases of cluster-api-provider-vsphere and Cluster API on, Cluster API copies the label itself."""


class Answer(t.NamedTuple):
    """A verdict with its reason."""

    state: str
    reason: str


def anti_affinity(controller: Controller | None, settings: VSphereSettings | None) -> Answer:
    """Whether cluster modules keep the nodes of a group on different hosts: enabled, disabled, opted_out,
    vcenter_too_old or unknown."""
    if controller is None:
        return Answer(
            "unknown", "there is no Deployment capv-controller-manager, or it cannot be read"
        )
    if not controller.gates.get(NODE_ANTI_AFFINITY, False):
        return Answer(
            "disabled",
            f"the feature gate {NODE_ANTI_AFFINITY} of capv-controller-manager is off: set {VARIABLE} to true and"
            " upgrade the provider with clusterctl",
        )
    if settings is None:
        return Answer("unknown", "the VSphereCluster of the cluster was not found")
    if settings.disabled:
        return Answer("opted_out", "spec.disableClusterModule of the VSphereCluster is true")
    major = settings.vcenter.partition(".")[0]
    if not major.isdecimal():
        return Answer("unknown", "status.vCenterVersion of the VSphereCluster is not set")
    if int(major) < 7:
        return Answer(
            "vcenter_too_old", f"vCenter is {settings.vcenter}, and cluster modules need 7.0"
        )
    return Answer("enabled", f"the feature gate {NODE_ANTI_AFFINITY} is on")


def node_labeling(vsphere: Controller | None, core: Controller | None) -> str:
    """How nodes get the label of their host: enabled, superseded (Cluster API copies it), disabled or unknown."""
    if vsphere is None or vsphere.release == (0, 0):
        return "unknown"
    labels_itself = vsphere.gates.get(NODE_LABELING, False)
    if vsphere.release < _LABELING_SUPERSEDED[0]:
        return "enabled" if labels_itself else "disabled"
    if core is None or core.release == (0, 0):
        return "unknown"
    if core.release >= _LABELING_SUPERSEDED[1]:
        return "superseded"
    return "enabled" if labels_itself else "disabled"


@dataclass(frozen=True)
class HostReport:
    """`node_labels` has each node whose host is known for certain."""

    node_labels: t.Mapping[str, t.Mapping[str, str]]
    groups: tuple[dict[str, JSON], ...]
    findings: tuple[Finding, ...]
    table: str

    @property
    def ok(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)


def host_report(
    machines: t.Sequence[HostedNode], key: str, settings: VSphereSettings | None
) -> HostReport:
    """The nodes of one cluster. `settings` None: nothing has modules."""
    findings: list[Finding] = []
    usable = list(_usable(machines, findings))
    values = {machine.node: machine.value for machine in usable}
    by_group: dict[Group, list[HostedNode]] = defaultdict(list)
    for machine in machines:
        by_group[machine.group].append(machine)
    groups = []
    rows: list[tuple[str, str, str]] = []
    for group in sorted(by_group, key=lambda x: (x.kind, x.name)):
        nodes = sorted(x.node for x in by_group[group] if x.node in values)
        groups.append(_group(group, nodes, values, settings))
        findings += _shared(group, nodes, values)
        rows += (
            (f"{group.kind} {group.name}", host, ", ".join(on_host))
            for host, on_host in _by_host(nodes, values).items()
        )
    return HostReport(
        {node: {key: values[node]} for node in sorted(values)},
        tuple(groups),
        tuple(findings),
        table_text(columns([("GROUP", "HOST", "NODES"), *rows])),
    )


def _usable(machines: t.Sequence[HostedNode], findings: list[Finding]) -> t.Iterator[HostedNode]:
    """The machines with one node and one host; the others are findings."""
    count = Counter(machine.node for machine in machines if machine.node)
    doubled: dict[str, list[Ref]] = defaultdict(list)
    for machine in machines:
        if count[machine.node] > 1:
            doubled[machine.node].append(machine.ref)
        elif (fault := _fault(machine)) is not None:
            findings.append(fault)
        else:
            findings += _outdated(machine)
            yield machine
    for node, refs in doubled.items():
        findings.append(
            Finding(
                "node_of_two_machines",
                "error",
                f"Node {node} is the node of {listed(refs)}.",
                "It is left out. Delete the Machine that is not the node's own.",
                tuple(refs),
            )
        )


def _fault(machine: HostedNode) -> Finding | None:
    """Why a machine has no node, or no host that can be a label."""
    if not machine.node:
        return _finding(
            "machine_without_node",
            "warning",
            f"{machine.ref} has no node yet: status.nodeRef is empty.",
            "Run again when it has joined the cluster, or look at its conditions.",
            machine.ref,
        )
    if not machine.value:
        return _finding(
            "host_unknown",
            "error",
            f"The host of {machine.ref} (node {machine.node}) is unknown: {machine.missing}.",
            "Its node is left out. See the conditions of the object, and run again.",
            machine.ref,
        )
    if not is_label_value(machine.value):
        return _finding(
            "host_not_label_value",
            "error",
            f"The host {machine.host or machine.label!r} of {machine.ref} (node {machine.node}) is not a valid"
            f" label value, and neither is {machine.value!r} which is made of it.",
            "Its node is left out. Rename the host, or label the node by hand.",
            machine.ref,
        )
    return None


def _outdated(machine: HostedNode) -> t.Iterator[Finding]:
    if machine.label and machine.host and machine.label != host_label(machine.host):
        yield _finding(
            "host_label_outdated",
            "warning",
            f"{machine.ref} has the label {machine.label}, and its VM is on {host_label(machine.host)}.",
            "The label was taken. Run again after the controllers have reconciled the Machine.",
            machine.ref,
        )


def _finding(name: str, severity: t.Any, why: str, advice: str, ref: Ref) -> Finding:
    return Finding(name, severity, why, advice, (ref,))


def _by_host(nodes: t.Iterable[str], values: t.Mapping[str, str]) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        hosts[values[node]].append(node)
    return dict(sorted(hosts.items()))


def _group(
    group: Group,
    nodes: t.Sequence[str],
    values: t.Mapping[str, str],
    settings: VSphereSettings | None,
) -> dict[str, JSON]:
    hosts = _by_host(nodes, values)
    modules = settings.modules if settings is not None else {}
    return {
        "kind": group.kind,
        "name": group.name,
        "nodes": list(nodes),
        "hosts": list(hosts),
        "shared": {host: on_host for host, on_host in hosts.items() if len(on_host) > 1},
        "more_nodes_than_hosts": len(nodes) > len(set(values.values())),
        "module_uuid": modules.get((group.kind == CONTROL_PLANE, group.name), ""),
    }


def _shared(
    group: Group, nodes: t.Sequence[str], values: t.Mapping[str, str]
) -> t.Iterator[Finding]:
    shared = {host: x for host, x in _by_host(nodes, values).items() if len(x) > 1}
    if not shared:
        return
    texts = [f"{', '.join(on_host)} on {host}" for host, on_host in shared.items()]
    yield Finding(
        "nodes_share_host",
        "warning",
        f"Nodes of {group.kind} {group.name} share a host: {listed(texts)}.",
        "If that host fails, they fail together. Move one of the VMs with vMotion or a live migration, or replace its"
        " Machine.",
        tuple(Ref("Node", "", node) for on_host in shared.values() for node in on_host),
    )


def missing_modules(groups: t.Iterable[t.Mapping[str, JSON]]) -> list[str]:
    """The groups without a cluster module."""
    return [f"{x['kind']} {x['name']}" for x in groups if not x["module_uuid"]]
