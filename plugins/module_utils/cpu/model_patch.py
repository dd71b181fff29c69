# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which merge patch gives a workload another CPU model?

A running guest keeps its model until it is restarted, also through live migrations (KubeVirt, watch/vm/vm.go,
syncRestartRequired). With the model the patch has the number of sockets, where the template has none and no instance
type completes it: KubeVirt compares the number in the template with that of the VMI, which virt-api has completed
(watch/vm/vm.go, handleCPUChangeRequest of 1.8). Without it the VM would have the condition RestartRequired after each
restart, and no live update would reach it.
"""

from __future__ import annotations

from ..kubevirt.labels import needs_expansion
from ..kubevirt.launcher import completed_sockets
from ..model.json_pointer import JSON
from ..model.snapshot import Platform, Workload


def model_patch(workload: Workload, model: str, platform: Platform) -> dict[str, JSON]:
    """A JSON merge patch (RFC 7396) for the object of the workload, after which its template names the model."""
    spec = workload.template.get("spec") or {}
    cpu: dict[str, JSON] = {"model": model}
    named = (spec.get("domain") or {}).get("cpu") or {}
    if not named.get("sockets") and not needs_expansion(workload):
        cpu["sockets"] = completed_sockets(spec, platform)
    return {"spec": {"template": {"spec": {"domain": {"cpu": cpu}}}}}
