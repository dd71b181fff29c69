# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests as users write them, with the least words."""

from __future__ import annotations

import typing as t

JSON = t.Any

VERSIONS = {
    "Deployment": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    "StatefulSet": "apps/v1",
    "VirtualMachine": "kubevirt.io/v1",
    "VirtualMachineClusterInstancetype": "instancetype.kubevirt.io/v1beta1",
    "VirtualMachinePreference": "instancetype.kubevirt.io/v1beta1",
}
"""The API version of a kind; v1 where there is none."""


def manifest(kind: str, name: str, *, metadata: JSON = None, **fields: JSON) -> JSON:
    """An object with this metadata beside its name."""
    known = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind}
    return {**known, "metadata": {"name": name, **(metadata or {})}, **fields}


def workload(
    kind: str, name: str, labels: JSON, template: JSON, *, metadata: JSON = None, **spec: JSON
) -> JSON:
    """A workload whose pods have these labels, by which all but a VM select them; `template` is the spec of its
    template."""
    selector = {} if kind == "VirtualMachine" else {"selector": {"matchLabels": labels}}
    inner = {"metadata": {"labels": labels}, "spec": template}
    return manifest(kind, name, metadata=metadata, spec={**selector, "template": inner, **spec})
