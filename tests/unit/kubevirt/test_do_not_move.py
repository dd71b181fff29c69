# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects may have the label that keeps an instance where it is."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.aspects import DoNotMove
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Vmi,
    Workload,
)

LABEL = "placement.virt/do-not-move"
POOL, VM = Ref("VirtualMachinePool", "shop", "web"), Ref("VirtualMachine", "shop", "web-0")
VMI, POD = Ref("VirtualMachineInstance", "shop", "web-0"), Ref("Pod", "shop", "web-0")


def labels(of: Ref, labelled: Ref, value: str = "true") -> dict[str, str]:
    return {LABEL: value} if of == labelled else {}


@pytest.mark.parametrize(
    ("labelled", "value", "why"),
    [
        (POOL, "true", "its workload has the label"),
        (VM, "true", "its VM has the label"),
        (VM, "", "its VM has the label"),
        (VMI, "true", "its VMI has the label"),
        (VMI, "false", ""),
        (POD, "true", ""),
    ],
)
def test_label_of_a_vm_of_a_pool(labelled: Ref, value: str, why: str) -> None:
    objects = {
        ref: Workload(ref, ref.name, {"metadata": {"labels": labels(ref, labelled, value)}})
        for ref in (POOL, VM)
    }
    owner = Owner(VM.kind, VM.name, "u-vm")
    of_vmi = labels(VMI, labelled, value)
    vmi = Vmi(VMI, "u", "Running", "w1", of_vmi, {}, owner=owner)
    label = DoNotMove(objects)
    seen = label.obstacle(Instance(VMI, "u", POOL, None, vmi), Method.MIGRATE)
    kept = Obstacle("do_not_move", f"{why} {LABEL}", advice="remove the label")
    assert seen == (kept if why else None)


def test_label_of_a_plain_pod() -> None:
    pod = Pod("shop", "web-0", labels={LABEL: "true"})
    kept = DoNotMove({}).obstacle(Instance(POD, "u", None, pod), Method.RECREATE)
    assert str(kept) == f"the pod has the label {LABEL}"
