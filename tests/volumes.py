# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims with volumes that only the nodes of one zone reach."""

from __future__ import annotations

import typing as t

from sandbox.admin_api import AdminApi

from .shop import ZONE


class Place(t.Protocol):
    """Where a claim is created: a namespace of a sandbox."""

    api: AdminApi
    namespace: str

    def path(self, kind: str, name: str = ...) -> str:
        """Of a kind in the namespace, or of one object."""


def bound_claim(
    place: Place, name: str, zone: str, mode: str = "ReadWriteMany", source: t.Any = None
) -> None:
    """A claim with a volume that only nodes of the zone reach."""
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    size, modes = {"storage": "1Gi"}, [mode]
    version = {"apiVersion": "v1", "kind": "PersistentVolume"}
    volume = f"{place.namespace}-{name}"
    spec = {
        "accessModes": modes,
        "capacity": size,
        "storageClassName": "",
        **(source or {"hostPath": {"path": "/data"}}),
        "claimRef": {"namespace": place.namespace, "name": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    place.api.create(
        place.api.path("PersistentVolume"), {**version, "metadata": {"name": volume}, "spec": spec}
    )
    claim = {"accessModes": modes, "storageClassName": "", "volumeName": volume}
    place.api.create(
        place.path("PersistentVolumeClaim"),
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}}
        | {"spec": {**claim, "resources": {"requests": size}}},
    )
    place.api.wait(
        lambda bound: bound["status"].get("phase") == "Bound",
        place.path("PersistentVolumeClaim", name),
    )


def delete_volumes(place: Place) -> None:
    for volume in place.api.list(place.api.path("PersistentVolume")):
        if volume["metadata"]["name"].startswith(place.namespace):
            place.api.delete(place.api.path("PersistentVolume", name=volume["metadata"]["name"]))
