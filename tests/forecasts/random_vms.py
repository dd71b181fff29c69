# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random VMs with whatever KubeVirt turns into requests and node labels of a pod, on the cluster `mixed`.

CPU models and features, dedicated CPUs with emulator threads, NUMA and realtime, huge pages, over-commit, I/O
threads, memory encryption, GPUs and host devices, in the template or in an instance type. Preferences
with CPU topologies, devices, machine types and Hyper-V features. Hostnames, one node or one zone by
nodeSelector, networks with a device, volumes bound to a zone and ephemeral ones on such, rules of their own, eviction
strategies, and every run strategy.
"""

from __future__ import annotations

import random
import typing as t

from sandbox import objects
from tests.volumes import bound_claim

from .test_scenarios import HOST, REQUIRED, ZONE, Stage

JSON = t.Any
NODES = ("old1", "old2", "new1", "new2", "amd1", "amd2")
ZONES = ("zone1", "zone2")
TYPES = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/{}/{}"
START = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/{}/start"
EVEN_PARITY = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity"
MACHINE_TYPE = "pc-q35-rhel9.6.0"
"""A machine type of which the nodes `new` have the label."""
VOLUMES = ("persistent", "ephemeral")
"""Kinds of volumes. The nodes of a sandbox attach no hotpluggable one."""
GPU = {"name": "g", "deviceName": "example.com/gpu"}


class RandomVm:
    """A halted VM by chance. `create` makes it, with the objects that it refers to, and `start` starts it."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance, self.name = chance, name
        self.zone = chance.choice([*ZONES, "", "", ""])
        self.volume = chance.choice(VOLUMES) if self._at(20) else ""
        self.instance_type = self._instance_type() if self._at(45) else None
        self.preference = self._preference() if self._at(40) else None
        self.run_strategy = chance.choice(
            ["Always", "Always", "RerunOnFailure", "Manual", "Manual", "Once"]
        )
        self.eviction = chance.choice(
            [*2 * ["LiveMigrate", "LiveMigrate", "LiveMigrateIfPossible", "None", ""], "External"]
        )
        self.by_subresource = self.run_strategy == "Manual" or (
            self.run_strategy == "Always" and self._at(50)
        )
        self.vm = self._vm()

    def create(self, stage: Stage) -> None:
        for plural, spec in (
            ("virtualmachineinstancetypes", self.instance_type),
            ("virtualmachinepreferences", self.preference),
        ):
            if spec is not None:
                kind = {
                    "virtualmachineinstancetypes": "VirtualMachineInstancetype",
                    "virtualmachinepreferences": "VirtualMachinePreference",
                }[plural]
                made: JSON = {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind}
                made |= {"metadata": {"name": self.name}, "spec": spec}
                stage.api.create(TYPES.format(stage.namespace, plural), made)
        if self.volume:
            bound_claim(stage, self.name, self.zone or ZONES[0])
        stage.create(self.vm)

    def start(self, stage: Stage) -> None:
        """Under Always also as users do it: `virtctl start` of a halted VM."""
        if self.run_strategy != "Always" or not self.by_subresource:
            path = stage.path("VirtualMachine", self.name)
            stage.api.patch(path, {"spec": {"runStrategy": self.run_strategy}})
        if self.by_subresource:
            stage.api.put(START.format(stage.namespace, self.name), {})

    def _at(self, percent: int) -> bool:
        return self.chance.random() * 100 < percent

    def _cpu(self, dedicated: str) -> JSON:
        """What a template and an instance type call alike but for dedicated CPUs."""
        chance = self.chance
        cpu: JSON = {}
        if self._at(40):
            models = ["Haswell-noTSX", "Cascadelake-Server", "EPYC-Rome", "host-passthrough"]
            cpu["model"] = chance.choice(models)
        if self._at(10):
            cpu["maxSockets"] = 32
        if self._at(15):
            cpu[dedicated] = True
            if self._at(40):
                cpu["isolateEmulatorThread"] = True
            if self._at(30):
                cpu["numa"] = {"guestMappingPassthrough": {}}
                if self._at(50):
                    cpu["realtime"] = {}
        return cpu

    def _features(self) -> JSON:
        return self.chance.choice(
            [
                [],
                [],
                [],
                [{"name": "vme"}],
                [{"name": "avx512_vnni", "policy": "require"}],
                [{"name": "vme", "policy": "forbid"}],
                [{"name": "vmx", "policy": "optional"}],
            ]
        )

    def _memory(self, cpu: JSON) -> JSON:
        chance = self.chance
        if "numa" not in cpu and self._at(75):
            return {"guest": chance.choice(["512Mi", "4Gi", "40Gi"])}
        size, guest = chance.choice([("2Mi", "1Gi"), ("2Mi", "6Gi"), ("1Gi", "4Gi")])
        return {"guest": guest, "hugepages": {"pageSize": size}}

    def _devices(self) -> JSON:
        chance = self.chance
        count = chance.choice([0, 0, 0, 0, 1, 2])
        if not count:
            return {}
        listed = [{**GPU, "name": f"g{number}"} for number in range(count)]
        return {chance.choice(["gpus", "hostDevices"]): listed}

    def _io_threads(self) -> JSON:
        if not self._at(10):
            return {}
        return {
            "ioThreadsPolicy": "supplementalPool",
            "ioThreads": {"supplementalPoolThreadCount": self.chance.choice([1, 4])},
        }

    def _annotations(self) -> JSON:
        return {EVEN_PARITY: ""} if self._at(40) else {}

    def _instance_type(self) -> JSON:
        chance = self.chance
        cpu = {"guest": chance.choice([1, 4, 20]), **self._cpu("dedicatedCPUPlacement")}
        memory = self._memory(cpu)
        if "hugepages" not in memory and self._at(20):
            memory["overcommitPercent"] = chance.choice([10, 50])
        spec = {"cpu": cpu, "memory": memory, **self._devices(), **self._io_threads()}
        if self.zone and self._at(70):
            spec["nodeSelector"] = {ZONE: self.zone}
        elif self._at(10):
            spec["nodeSelector"] = {HOST: chance.choice(NODES)}
        if self._at(10):
            spec["launchSecurity"] = {"sev": {}}
        elif "numa" not in cpu and memory["guest"] != "512Mi" and self._at(20):
            memory["maxGuest"] = "64Gi"
        if self._at(20):
            spec["schedulerName"] = "default-scheduler"
        if annotations := self._annotations():
            spec["annotations"] = annotations
        return spec

    def _preference(self) -> JSON:
        chance = self.chance
        cpu: JSON = {}
        topology = chance.choice(["sockets", "cores", "threads", "spread", "any"])
        if self._at(60):
            cpu["preferredCPUTopology"] = topology
            if topology == "spread":
                across = chance.choice(["SocketsCores", "CoresThreads", "SocketsCoresThreads"])
                cpu["spreadOptions"] = {"across": across, "ratio": 2}
        if self._at(30):
            cpu["preferredCPUFeatures"] = [{"name": "vme"}]
        of_type: JSON = self.instance_type["cpu"] if self.instance_type else {"guest": 2}
        uneven = topology == "spread" and of_type["guest"] % 2
        dedicated = topology == "threads" and "dedicatedCPUPlacement" in of_type
        if uneven or (dedicated and of_type["guest"] > 2):
            # virt-api refuses vCPUs that the ratio does not divide, and dedicated cores of more than two threads.
            for field in ("preferredCPUTopology", "spreadOptions"):
                cpu.pop(field, None)
        spec: JSON = {"cpu": cpu} if cpu else {}
        devices: JSON = {
            "preferredAutoattachGraphicsDevice": self._at(50),
            "preferredAutoattachSerialConsole": self._at(50),
            "preferredInterfaceModel": chance.choice(["virtio", "e1000e"]),
            "preferredTPM": {},
        }
        spec["devices"] = {key: value for key, value in devices.items() if self._at(30)}
        if self._at(20):
            spec["machine"] = {"preferredMachineType": chance.choice(["q35", MACHINE_TYPE])}
        if self._at(15):
            hyperv = chance.choice(["evmcs", "relaxed"])
            spec["features"] = {"preferredHyperv": {hyperv: {}}}
        if self._at(20):
            spec["preferredSubdomain"] = "db"
        if self._at(15):
            spec["preferredArchitecture"] = "amd64"
        if self.instance_type is not None and self._at(30):
            spec["requirements"] = {"cpu": {"guest": 1}, "memory": {"guest": "256Mi"}}
        if annotations := self._annotations():
            spec["annotations"] = annotations
        return spec

    def _vm(self) -> JSON:
        chance = self.chance
        vm = objects.virtual_machine(self.name, labels={"fleet": "a"}, run_strategy="Halted")
        metadata, spec = (vm["spec"]["template"][part] for part in ("metadata", "spec"))
        domain = spec["domain"]
        del domain["resources"]
        encrypted = self._at(10)
        if self.instance_type is not None:
            named = {"kind": "VirtualMachineInstancetype", "name": self.name}
            vm["spec"]["instancetype"] = named
            encrypted = "launchSecurity" in self.instance_type
        else:
            self._fill(domain)
            if encrypted:
                domain["launchSecurity"] = {"sev": {}}
            if self.zone and self._at(70):
                spec["nodeSelector"] = {ZONE: self.zone}
            elif self._at(10):
                spec["nodeSelector"] = {HOST: chance.choice(NODES)}
            if annotations := self._annotations():
                metadata["annotations"] = annotations
        if self.preference is not None:
            vm["spec"]["preference"] = {"kind": "VirtualMachinePreference", "name": self.name}
        if encrypted:
            domain["firmware"] = {"bootloader": {"efi": {"secureBoot": False}}}
        if self._at(10):
            on_network(spec)
        if self.volume:
            domain["devices"]["disks"].append({"name": "data", "disk": {"bus": "scsi"}})
            spec["volumes"].append({"name": "data", **volume_on(self.name, self.volume)})
        if self._at(30):
            term: JSON = {"labelSelector": {"matchLabels": {"fleet": "a"}}, "topologyKey": HOST}
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        if self._at(30):
            spec["hostname"] = chance.choice(["db", f"{self.name}-host"])
        if self._at(20):
            spec["subdomain"] = "shop"
        if self._at(5):
            spec["schedulerName"] = "default-scheduler"
            if self.instance_type is not None:
                self.instance_type.pop("schedulerName", None)
        if self.eviction:
            spec["evictionStrategy"] = self.eviction
        return vm

    def _fill(self, domain: JSON) -> None:
        """CPU, memory and devices of a VM without an instance type."""
        chance = self.chance
        cpu = self._cpu("dedicatedCpuPlacement")
        domain["cpu"] = {chance.choice(["cores", "sockets"]): chance.choice([1, 4, 20]), **cpu}
        if features := self._features():
            domain["cpu"]["features"] = features
        domain["memory"] = self._memory(cpu)
        domain["devices"] |= self._devices()
        domain |= self._io_threads()
        if "dedicatedCpuPlacement" in cpu:
            return
        requests: JSON = {}
        if self._at(30):
            requests["cpu"] = chance.choice(["250m", "12"])
        if "hugepages" not in domain["memory"] and self._at(30):
            requests["memory"] = "512Mi"
        if requests:
            domain["resources"] = {"requests": requests}
            if "memory" in requests and self._at(30):
                domain["resources"]["overcommitGuestOverhead"] = True


NETWORK = "br1"
BRIDGE = "bridge.network.kubevirt.io/br1"
"""A resource that the nodes `old` have, and the network that requests it."""
_CNI = "k8s.cni.cncf.io"


def create_network(stage: Stage) -> None:
    """A network on a bridge, as the bridge marker of the cluster network add-ons announces it to nodes."""
    names = {"plural": "network-attachment-definitions", "kind": "NetworkAttachmentDefinition"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition: JSON = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{_CNI}"},
        "spec": {"group": _CNI, "names": names, "scope": "Namespaced", "versions": [version]},
    }
    name = definition["metadata"]["name"]
    if stage.api.find(stage.api.path("CustomResourceDefinition", name=name)) is None:
        stage.api.define(definition)
    metadata = {"name": NETWORK, "annotations": {"k8s.v1.cni.cncf.io/resourceName": BRIDGE}}
    network = {"apiVersion": f"{_CNI}/v1", "kind": names["kind"], "metadata": metadata}
    networks = f"/apis/{_CNI}/v1/namespaces/{stage.namespace}/{names['plural']}"
    stage.api.create(networks, {**network, "spec": {"config": "{}"}})


def on_network(spec: JSON) -> None:
    """Put the VM of this template's spec on the network."""
    spec["networks"].append({"name": "data", "multus": {"networkName": NETWORK}})
    spec["domain"]["devices"]["interfaces"].append({"name": "data", "bridge": {}})


def volume_on(claim: str, kind: str) -> JSON:
    """The source of a VM's volume of this kind, or "hotpluggable", on a claim."""
    source: JSON = {"persistentVolumeClaim": {"claimName": claim}}
    if kind == "ephemeral":
        return {"ephemeral": source}
    if kind == "hotpluggable":
        source["persistentVolumeClaim"]["hotpluggable"] = True
    return source
