# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of specs: numbers, strategies, requests, and what decides whether a VM can be migrated."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from .cluster import WORKLOADS, Object, Objects, of_kind, template_of
from .values import Draw, counts, names, quantities, texts


def optional_fields(**fields: st.SearchStrategy[t.Any]) -> st.SearchStrategy[Object]:
    """An object with some of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _named_items(**fields: st.SearchStrategy[t.Any]) -> st.SearchStrategy[list[Object]]:
    return st.lists(st.fixed_dictionaries({"name": names, **fields}), max_size=2)


_amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities, max_size=2)
_features = st.fixed_dictionaries(
    {"name": st.one_of(names, texts)},
    optional={"policy": st.sampled_from(["require", "forbid", ""])},
)
_interfaces: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {"name": names}, optional={"sriov": st.just({})}
)
_cpu = optional_fields(
    cores=counts,
    sockets=counts,
    threads=counts,
    maxSockets=counts,
    dedicatedCpuPlacement=st.booleans(),
    isolateEmulatorThread=st.booleans(),
    model=st.sampled_from(["host-model", "host-passthrough", "Skylake", "x y"]),
    features=st.lists(_features, max_size=2),
    numa=st.just({"guestMappingPassthrough": {}}),
    realtime=st.just({}),
)
_memory = optional_fields(
    guest=quantities,
    maxGuest=quantities,
    hugepages=st.fixed_dictionaries({"pageSize": st.sampled_from(["2Mi", "1Gi", "", "x"])}),
    overcommit=st.just({"percent": 200}),
)
_devices = optional_fields(
    gpus=_named_items(deviceName=names),
    hostDevices=_named_items(deviceName=names),
    interfaces=st.lists(_interfaces, max_size=2),
    autoattachVSOCK=st.booleans(),
    tpm=st.just({"persistent": True}),
)
_vmi_domain_specs = optional_fields(
    cpu=_cpu,
    memory=_memory,
    resources=optional_fields(
        requests=_amounts, limits=_amounts, overcommitGuestOverhead=st.booleans()
    ),
    ioThreadsPolicy=st.sampled_from(["shared", "auto", "supplementalPool"]),
    ioThreads=optional_fields(supplementalPoolThreadCount=counts),
    machine=optional_fields(type=names),
    firmware=st.just({"bootloader": {"efi": {}}}),
    launchSecurity=st.sampled_from([{}, {"sev": {}}, {"sev": {"policy": {}}}]),
    devices=_devices,
)


@st.composite
def spec_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from([x for x in of_kind(objects) if "spec" in objects[x]]))]
    spec, kind = item["spec"], item["kind"]
    if kind in WORKLOADS and kind != "VirtualMachine" and draw(st.booleans()):
        spec["replicas"] = draw(st.one_of(counts, st.none()))
    if kind in _OF_KIND:
        _OF_KIND[kind](draw, item)
    pod_or_vmi_spec = template_of(item)["spec"] if kind in WORKLOADS else spec
    if "containers" in pod_or_vmi_spec:
        _change_pod(draw, pod_or_vmi_spec)
    if "domain" in pod_or_vmi_spec:
        _change_vmi(draw, pod_or_vmi_spec)


def _change_vm(draw: Draw, item: Object) -> None:
    spec = item["spec"]
    strategies = ["Always", "Halted", "Manual", "RerunOnFailure", "Once"]
    spec["runStrategy"] = draw(st.sampled_from(strategies))
    for name in ("instancetype", "preference"):
        if draw(st.booleans()):
            spec[name] = {"name": draw(names), "kind": "VirtualMachineInstancetype"}
    if draw(st.booleans()):
        spec["dataVolumeTemplates"] = [{"metadata": {"name": draw(names)}, "spec": {}}]


def _change_pool(draw: Draw, item: Object) -> None:
    if draw(st.booleans()):
        strategies: list[Object] = [{}, {"opportunistic": {}}, {"proactive": {}}]
        item["spec"]["updateStrategy"] = draw(st.sampled_from(strategies))


def _change_deployment(draw: Draw, item: Object) -> None:
    count_or_percent = st.one_of(counts, st.sampled_from(["0%", "100%", "2147483647%", "25%"]))
    rolling = st.fixed_dictionaries(
        {
            "rollingUpdate": optional_fields(
                maxSurge=count_or_percent, maxUnavailable=count_or_percent
            )
        }
    )
    strategies = st.one_of(st.none(), st.just({"type": "Recreate"}), rolling)
    item["spec"]["strategy"] = draw(strategies)
    item["spec"]["paused"] = draw(st.booleans())


def _change_stateful_set(draw: Draw, item: Object) -> None:
    if draw(st.booleans()):
        item["spec"]["updateStrategy"] = {
            "type": draw(st.sampled_from(["OnDelete", "RollingUpdate"])),
            "rollingUpdate": {"partition": draw(counts)},
        }


def _change_migration(draw: Draw, item: Object) -> None:
    item["spec"]["vmiName"] = draw(names)
    phases = [{}, {"phase": "Pending"}, {"phase": "Running"}, {"phase": "Failed"}]
    item["status"] = draw(st.sampled_from(phases))


def _change_quota(draw: Draw, item: Object) -> None:
    limited = st.sampled_from(["pods", "requests.cpu", "limits.memory", "count/x", "cpu"])
    hard = draw(st.dictionaries(limited, quantities, max_size=3))
    item["spec"]["hard"] = hard
    item["status"] = {"hard": hard, "used": {}}
    if draw(st.booleans()):
        item["spec"]["scopes"] = [draw(st.sampled_from(["Terminating", "BestEffort", "x"]))]


_OF_KIND: t.Mapping[str, t.Callable[[Draw, Object], None]] = {
    "VirtualMachine": _change_vm,
    "VirtualMachinePool": _change_pool,
    "Deployment": _change_deployment,
    "StatefulSet": _change_stateful_set,
    "VirtualMachineInstanceMigration": _change_migration,
    "ResourceQuota": _change_quota,
}


def _change_pod(draw: Draw, spec: Object) -> None:
    resource_names = st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi", "x"])
    port = draw(st.sampled_from([0, 80, 65535]))
    spec["containers"] = [
        {
            "name": "c",
            "resources": {
                "requests": draw(st.dictionaries(resource_names, quantities, max_size=2))
            },
            "ports": [{"hostPort": port, "containerPort": 80}],
        }
    ]
    if draw(st.booleans()):
        spec["schedulerName"] = draw(names)
    if draw(st.booleans()):
        spec["priority"] = draw(st.sampled_from([0, 10**9, -(2**31)]))
    if draw(st.booleans()):
        spec["volumes"] = [
            {"name": "v", "persistentVolumeClaim": {"claimName": draw(names)}},
            {"name": "e", "ephemeral": {}},
        ]


def _change_vmi(draw: Draw, spec: Object) -> None:
    """The spec of a VMI, or of the template of one."""
    spec["domain"] = draw(_vmi_domain_specs)
    strategies = ["LiveMigrate", "LiveMigrateIfPossible", "None", "External"]
    spec["evictionStrategy"] = draw(st.sampled_from(strategies))
    if draw(st.booleans()):
        spec.pop("networks", None)
    if draw(st.booleans()):
        spec["volumes"] = [
            {"name": "r", "containerDisk": {"image": "x"}},
            {"name": "d", "dataVolume": {"name": draw(names)}},
        ]
