# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instance types: which template has a VM that names one and no preference?

Source: KubeVirt 1.8, pkg/instancetype/apply (cpu.go, memory.go, gpu.go, hostdevices.go, iothreads.go,
launchsecurity.go, nodeselector.go, scheduler.go, annotations.go).
"""

from __future__ import annotations

import struct
import typing as t
from dataclasses import dataclass, field

from ..model.json_pointer import JSON
from ..model.quantity import parse_quantity, whole_units

_CPU = {
    "model": "model",
    "dedicatedCPUPlacement": "dedicatedCpuPlacement",
    "isolateEmulatorThread": "isolateEmulatorThread",
    "numa": "numa",
    "realtime": "realtime",
    "maxSockets": "maxSockets",
}
"""What an instance type calls the fields of a VMI's CPU."""


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A VirtualMachineInstancetype, or a VirtualMachineClusterInstancetype, which has no namespace."""

    name: str
    namespace: str = ""
    spec: t.Mapping[str, JSON] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def cpus(self) -> int:
        return int(self.spec["cpu"]["guest"])

    @property
    def memory(self) -> int:
        """Bytes of memory of the guest."""
        return whole_units("memory", parse_quantity(self.spec["memory"]["guest"]))

    @property
    def template(self) -> dict[str, JSON]:
        """Of a VM of this type that has nothing else. Its CPUs are sockets, as without a preference."""
        cpu, memory = self.spec["cpu"], self.spec["memory"]
        domain: dict[str, JSON] = {
            "cpu": {
                "cores": 1,
                "sockets": self.cpus,
                "threads": 1,
                **{_CPU[name]: value for name, value in cpu.items() if name in _CPU},
            },
            "memory": {x: memory[x] for x in ("guest", "maxGuest", "hugepages") if memory.get(x)},
            "devices": {x: self.spec[x] for x in ("gpus", "hostDevices") if self.spec.get(x)},
        }
        if percent := memory.get("overcommitPercent"):
            # KubeVirt computes with 32 bits.
            asked = _short(_short(self.memory) * _short(1 - _short(_short(percent) / 100)))
            domain["resources"] = {"requests": {"memory": str(int(asked))}}
        for name in ("ioThreadsPolicy", "ioThreads", "launchSecurity"):
            if self.spec.get(name):
                domain[name] = self.spec[name]
        spec: dict[str, JSON] = {"domain": domain}
        for name in ("nodeSelector", "schedulerName"):
            if self.spec.get(name):
                spec[name] = self.spec[name]
        annotations = dict(self.spec.get("annotations") or {})
        return {"metadata": {"labels": {}, "annotations": annotations}, "spec": spec}


def instance_type_from_manifest(manifest: t.Mapping[str, JSON]) -> InstanceType:
    metadata = manifest["metadata"]
    return InstanceType(metadata["name"], metadata.get("namespace") or "", manifest["spec"])


def _short(number: float) -> float:
    return float(struct.unpack("f", struct.pack("f", number))[0])
