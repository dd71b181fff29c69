# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the templates of halted VMs leave out: instance types and preferences, and the devices of networks.

A running VM's VMI and pod show that.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from functools import partial

from ..api.client import METADATA, ApiClient
from ..api.errors import Forbidden, NotFound, ServerFault
from ..api.parallel import read_together
from ..kubevirt.labels import needs_expansion
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.snapshot import Snapshot, Unreadable, Workload
from .identity import unreadable

_EXPANDED = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/{}/expand-spec"
_NETWORK = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions/{}"
_NETWORK_DEVICE = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation on a NetworkAttachmentDefinition: the resource that a pod on the network requests."""


def with_expanded_templates(
    api: ApiClient,
    snapshot: Snapshot,
    workloads: t.Collection[Ref],
    running: t.Collection[Ref] = (),
) -> Snapshot:
    """The snapshot with the templates of the halted VMs among `workloads`, and of those that may be `running`, as
    virt-api expands them, where they have an instance type or a preference; and with the devices of the Multus networks
    of the halted ones. What cannot be expanded becomes an entry of `unreadable`. The same object where nothing was
    read."""
    halted = _halted(snapshot, workloads)
    unread = [
        vm.ref
        for vm in snapshot.workloads
        if (vm.ref in halted or vm.ref in running)
        and needs_expansion(vm)
        and vm.ref not in snapshot.expanded
    ]
    answers = read_together([partial(_expanded, api, ref) for ref in unread])
    templates = {
        ref: answer for ref, answer in zip(unread, answers, strict=True) if isinstance(answer, dict)
    }
    expanded = {**snapshot.expanded, **templates}
    networks = _networks(
        {ref: expanded.get(ref, vm.template) for ref, vm in halted.items()}, snapshot
    )
    if not unread and not networks:
        return snapshot
    gaps = dict.fromkeys(answer for answer in answers if isinstance(answer, Unreadable))
    return replace(
        snapshot,
        expanded=expanded,
        network_devices={**snapshot.network_devices, **_network_devices(api, networks)},
        unreadable=(*snapshot.unreadable, *gaps),
    )


def _halted(snapshot: Snapshot, workloads: t.Collection[Ref]) -> dict[Ref, Workload]:
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in snapshot.vmis}
    return {
        workload.ref: workload
        for workload in snapshot.workloads
        if workload.ref in workloads
        and workload.kind.run_strategy
        and (workload.ref.namespace, workload.ref.name) not in running
    }


def _networks(
    halted: t.Mapping[Ref, JSON], snapshot: Snapshot
) -> dict[Ref, tuple[tuple[str, str], ...]]:
    """Namespace and name of the Multus networks in the templates of halted VMs of which no devices are read yet. What
    knows launcher pods is imported where there is such a VM."""
    unread = halted.keys() - snapshot.network_devices.keys()
    if not unread:
        return {}
    from ..kubevirt.launcher import multus_networks

    networks = {ref: multus_networks(halted[ref], ref.namespace) for ref in halted if ref in unread}
    return {ref: names for ref, names in networks.items() if names}


def _network_devices(
    api: ApiClient, networks: t.Mapping[Ref, t.Collection[tuple[str, str]]]
) -> dict[Ref, tuple[str, ...]]:
    """The devices of the networks (namespace and name) of each VM; without VMs of which one is not known."""
    named = {name for names in networks.values() for name in names}
    resources = read_together([partial(_device, api, *name) for name in named])
    devices = dict(zip(named, resources, strict=True))
    return {
        ref: tuple(device for name in names if (device := devices[name]))
        for ref, names in networks.items()
        if all(devices[name] is not None for name in names)
    }


def _expanded(api: ApiClient, vm: Ref) -> dict[str, JSON] | Unreadable | None:
    """The template of a VM with its instance type and preference; None where it is gone."""
    resource = f"instance type and preference of {vm.name}"
    try:
        answer = api.get(_EXPANDED.format(vm.namespace, vm.name))
    except NotFound as error:
        if error.is_status:
            return None
        reason = "the server does not serve the subresource expand-spec of VMs"
        return Unreadable(resource, vm.namespace, "get", reason)
    except Forbidden as error:
        return unreadable(error)
    except ServerFault as error:
        if not error.is_status:
            raise
        return Unreadable(resource, vm.namespace, "get", error.message)
    template: dict[str, JSON] = answer["spec"]["template"]
    return template


def _device(api: ApiClient, namespace: str, name: str) -> str | None:
    """The resource that a pod on this network requests; empty for none, None where it is not known."""
    try:
        metadata = api.get(_NETWORK.format(namespace, name), accept=METADATA)["metadata"]
    except (Forbidden, NotFound):
        return None
    return str((metadata.get("annotations") or {}).get(_NETWORK_DEVICE) or "")
