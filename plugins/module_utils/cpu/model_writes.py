# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which JSON Patch gives a VirtualMachine another CPU model?

With the model it also gets the number of sockets, where its template has none and no instance type completes it.
KubeVirt compares the number in the template with that of the VMI, which virt-api has completed (watch/vm/vm.go,
handleCPUChangeRequest of 1.8). Without it the VM would have the condition RestartRequired after each restart, and no
live update would reach it. The sockets go together with the model, so that a VM which was not restarted meanwhile is as
it was started.
"""

from __future__ import annotations

import typing as t

from ..kubevirt.labels import needs_expansion
from ..kubevirt.launcher import completed_sockets, model_of
from ..model.json_pointer import JSON, Pointer
from ..model.kinds import FIELD_MANAGER
from ..model.snapshot import Platform, Workload
from ..model.write import Operation, Write

CPU = Pointer(("spec", "template", "spec", "domain", "cpu"))


def model_write(vm: Workload, model: str, platform: Platform) -> Write | None:
    """The write after which the template names `model`, or none where it is empty. None where that is so already."""
    spec = vm.template.get("spec") or {}
    before = model_of(spec)
    if before == model:
        return None
    domain = spec.get("domain") or {}
    cpu = domain.get("cpu")
    after = {key: value for key, value in (cpu or {}).items() if key != "model"}
    if not model and _set_sockets(vm.manifest):
        after.pop("sockets", None)
    elif model:
        after["model"] = model
        if not after.get("sockets") and not needs_expansion(vm):
            after["sockets"] = completed_sockets(spec, platform)
    return Write(
        target=vm.ref,
        path=vm.path,
        uid=vm.uid,
        tests=(Operation("test", CPU, cpu),),
        operations=(_operation(cpu, after),),
        before={"model": before},
        after={"model": model, **_added(cpu or {}, after)},
    )


def _set_sockets(manifest: t.Mapping[str, JSON]) -> bool:
    """Whether this collection has set the sockets, and nothing else has since."""
    path = Pointer(tuple(f"f:{part}" for part in (*CPU.parts, "sockets")))
    owners = {
        entry.get("manager")
        for entry in manifest["metadata"].get("managedFields") or ()
        if path.read(entry.get("fieldsV1"), None) is not None
    }
    return owners == {FIELD_MANAGER}


def _operation(cpu: JSON, after: dict[str, JSON]) -> Operation:
    if not after:
        return Operation("remove", CPU)
    return Operation("add" if cpu is None else "replace", CPU, after)


def _added(cpu: t.Mapping[str, JSON], after: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """What the patch sets beside the model."""
    return {x: after[x] for x in after if x != "model" and after[x] != cpu.get(x)}
