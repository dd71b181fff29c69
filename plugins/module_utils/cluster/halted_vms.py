# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do instance types, preferences and networks add to the templates of halted VMs?"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from functools import partial

from ..api.client import METADATA, ApiClient
from ..api.errors import Forbidden, NotFound, ServerFault
from ..kubevirt.labels import needs_expansion
from ..kubevirt.launcher import NETWORK_DEVICE, multus_networks
from ..model import kinds
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.snapshot import Snapshot, Unreadable
from .identity import unreadable
from .reading import read_together


def with_expanded_templates(
    api: ApiClient, snapshot: Snapshot, workloads: t.Collection[Ref]
) -> Snapshot:
    """The snapshot with the templates of the halted VMs among `workloads` as virt-api expands them, where
    they have an instance type or a preference, and with the devices of their Multus networks. A running VM's
    VMI and pod show that. What cannot be expanded becomes an entry of `unreadable`."""
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in snapshot.vmis}
    halted = {
        workload.ref: workload
        for workload in snapshot.workloads
        if workload.ref in workloads
        and workload.ref.kind == kinds.VIRTUAL_MACHINE.name
        and (workload.ref.namespace, workload.ref.name) not in running
    }
    unread = [
        ref for ref, vm in halted.items() if needs_expansion(vm) and ref not in snapshot.expanded
    ]
    answers = dict(
        zip(unread, read_together([partial(_expanded, api, x) for x in unread]), strict=True)
    )
    expanded = {
        **snapshot.expanded,
        **{ref: answer for ref, answer in answers.items() if isinstance(answer, dict)},
    }
    networks = {
        ref: names
        for ref, vm in halted.items()
        if ref not in snapshot.network_devices
        and (names := multus_networks(expanded.get(ref, vm.template), ref.namespace))
    }
    named = {name for names in networks.values() for name in names}
    found = read_together([partial(_device, api, *name) for name in named])
    devices = dict(zip(named, found, strict=True))
    if not unread and not networks:
        return snapshot
    gaps = dict.fromkeys(answer for answer in answers.values() if isinstance(answer, Unreadable))
    read = {
        ref: tuple(device for name in names if (device := devices[name]))
        for ref, names in networks.items()
        if all(devices[name] is not None for name in names)
    }
    return replace(
        snapshot,
        expanded=expanded,
        network_devices={**snapshot.network_devices, **read},
        unreadable=(*snapshot.unreadable, *gaps),
    )


_NETWORK = "/apis/k8s.cni.cncf.io/v1/namespaces/{}/network-attachment-definitions/{}"


def _device(api: ApiClient, namespace: str, name: str) -> str | None:
    """The resource that a pod on this network requests; empty for none, None where it is not known."""
    try:
        metadata = api.get(_NETWORK.format(namespace, name), accept=METADATA)["metadata"]
    except (Forbidden, NotFound):
        return None
    return str((metadata.get("annotations") or {}).get(NETWORK_DEVICE) or "")


_EXPANDED = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/{}/expand-spec"


def _expanded(api: ApiClient, vm: Ref) -> dict[str, JSON] | Unreadable | None:
    """The template of a VM with its instance type and preference; None where it is gone."""
    try:
        answer = api.get(_EXPANDED.format(vm.namespace, vm.name))
    except NotFound:
        return None
    except Forbidden as error:
        return unreadable(error)
    except ServerFault as error:
        if not error.is_status:
            raise
        resource = f"instance type and preference of {vm.name}"
        return Unreadable(resource, vm.namespace, "get", error.message)
    template: dict[str, JSON] = answer["spec"]["template"]
    return template
