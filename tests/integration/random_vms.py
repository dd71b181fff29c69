# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random VMs with whatever KubeVirt turns into requests and node labels of a pod, on the cluster `mixed`.

CPU models and features, dedicated CPUs, huge pages, memory encryption, GPUs and host devices, each in the
template or in an instance type with a preference; volumes bound to a zone, rules of their own, eviction
and run strategies.
"""

from __future__ import annotations

import random
import typing as t

from sandbox import objects

from .test_scenarios import HOST, REQUIRED, ZONE, Stage

JSON = t.Any
NODES = ("old1", "old2", "new1", "new2", "amd1", "amd2")
ZONES = ("zone1", "zone2")
TYPES = "/apis/instancetype.kubevirt.io/v1beta1/namespaces/{}/{}"
GPU = {"name": "g", "deviceName": "example.com/gpu"}


class RandomVm:
    """A halted VM by chance. `create` makes it, with the objects that it refers to."""

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance, self.name = chance, name
        self.zone = chance.choice([*ZONES, "", "", ""])
        self.has_volume = chance.random() < 0.2
        self.instance_type = self._instance_type() if chance.random() < 0.4 else None
        self.preference = self._preference() if chance.random() < 0.3 else None
        self.run_strategy, self.eviction = chance.choice(
            [
                ("Always", "LiveMigrate"),
                ("Always", "LiveMigrate"),
                ("Always", "LiveMigrateIfPossible"),
                ("Always", "None"),
                ("Always", ""),
                ("RerunOnFailure", "LiveMigrate"),
            ]
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
        if self.has_volume:
            _bound_claim(stage, self.name, self.zone or ZONES[0])
        stage.create(self.vm)

    def _cpu(self) -> JSON:
        chance = self.chance
        cpu: JSON = {}
        if chance.random() < 0.4:
            models = ["Haswell-noTSX", "Cascadelake-Server", "EPYC-Rome", "host-passthrough"]
            cpu["model"] = chance.choice(models)
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
            ]
        )

    def _memory(self) -> JSON:
        chance = self.chance
        if chance.random() < 0.75:
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

    def _instance_type(self) -> JSON:
        chance = self.chance
        cpu = {"guest": chance.choice([1, 4, 20]), **self._cpu()}
        if chance.random() < 0.15:
            cpu["dedicatedCPUPlacement"] = True
        spec = {"cpu": cpu, "memory": self._memory(), **self._devices()}
        if self.zone and chance.random() < 0.7:
            spec["nodeSelector"] = {ZONE: self.zone}
        if chance.random() < 0.1:
            spec["launchSecurity"] = {"sev": {}}
        return spec

    def _preference(self) -> JSON:
        topology = self.chance.choice(["sockets", "cores"])
        cpu = {"preferredCPUTopology": topology, "preferredCPUFeatures": [{"name": "vme"}]}
        return self.chance.choice([{"cpu": cpu}, {"cpu": {"preferredCPUTopology": topology}}])

    def _vm(self) -> JSON:
        chance = self.chance
        vm = objects.virtual_machine(self.name, labels={"fleet": "a"}, run_strategy="Halted")
        spec = vm["spec"]["template"]["spec"]
        domain = spec["domain"]
        del domain["resources"]
        encrypted = chance.random() < 0.1
        if self.instance_type is not None:
            named = {"kind": "VirtualMachineInstancetype", "name": self.name}
            vm["spec"]["instancetype"] = named
            encrypted = "launchSecurity" in self.instance_type
        else:
            domain["cpu"] = {"cores": chance.choice([1, 4, 20]), **self._cpu()}
            if features := self._features():
                domain["cpu"]["features"] = features
            if chance.random() < 0.15:
                domain["cpu"]["dedicatedCpuPlacement"] = True
            domain["memory"] = self._memory()
            domain["devices"] |= self._devices()
            if encrypted:
                domain["launchSecurity"] = {"sev": {}}
            if self.zone and chance.random() < 0.7:
                spec["nodeSelector"] = {ZONE: self.zone}
            if chance.random() < 0.3 and not domain["cpu"].get("dedicatedCpuPlacement"):
                cpu = chance.choice(["250m", "12"])
                domain["resources"] = {"requests": {"cpu": cpu}}
        if self.preference is not None:
            vm["spec"]["preference"] = {"kind": "VirtualMachinePreference", "name": self.name}
        if encrypted:
            domain["firmware"] = {"bootloader": {"efi": {"secureBoot": False}}}
        if self.has_volume:
            domain["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
            claim = {"claimName": self.name}
            spec["volumes"].append({"name": "data", "persistentVolumeClaim": claim})
        if chance.random() < 0.3:
            term: JSON = {"labelSelector": {"matchLabels": {"fleet": "a"}}, "topologyKey": HOST}
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        if self.eviction:
            spec["evictionStrategy"] = self.eviction
        return vm


def _bound_claim(stage: Stage, name: str, zone: str) -> None:
    """A claim with a volume that only nodes of the zone reach."""
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    version = {"apiVersion": "v1", "kind": "PersistentVolume"}
    volume = f"{stage.namespace}-{name}"
    spec = {
        "accessModes": modes,
        "capacity": size,
        "storageClassName": "",
        "hostPath": {"path": "/data"},
        "claimRef": {"namespace": stage.namespace, "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    stage.api.create(
        stage.api.path("PersistentVolume"), {**version, "metadata": {"name": volume}, "spec": spec}
    )
    claim = {"accessModes": modes, "storageClassName": "", "volumeName": volume}
    stage.api.create(
        stage.path("PersistentVolumeClaim"),
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        | {"spec": {**claim, "resources": {"requests": size}}},
    )
    stage.api.wait(
        lambda bound: bound["status"].get("phase") == "Bound",
        stage.path("PersistentVolumeClaim", name),
    )


def delete_volumes(stage: Stage) -> None:
    for volume in stage.api.list(stage.api.path("PersistentVolume")):
        if volume["metadata"]["name"].startswith(stage.namespace):
            stage.api.delete(stage.api.path("PersistentVolume", name=volume["metadata"]["name"]))
