# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which volumes are still attached to the nodes of a drain, though their pods have left?"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import NotFound
from ..api.lists import list_all
from ..model.obstacle import Obstacle
from ..model.snapshot import Snapshot

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"


def attached_volumes(
    api: ApiClient, snapshot: Snapshot, nodes: t.Container[str]
) -> Obstacle | None:
    """The volumes that are still attached to the nodes. Volumes of pods that belong to a node
    stay attached."""
    stay = {
        (pod.namespace, claim)
        for pod in snapshot.pods
        if pod.node_name in nodes and not pod.finished
        for claim in pod.claims
    }
    attached = []
    for item in list_all(api, ATTACHMENTS).items:
        spec = item["spec"]
        if spec.get("nodeName") in nodes:
            volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
            if not volume or _claim(api, volume) not in stay:
                attached.append(f"{volume or item['metadata']['name']} to {spec['nodeName']}")
    text = f"volumes are still attached: {', '.join(sorted(attached))}"
    return Obstacle("in_progress", text, True) if attached else None


def _claim(api: ApiClient, volume: str) -> tuple[str, str]:
    """Namespace and name of the claim of a volume; empty where there is none."""
    try:
        persistent = api.get(f"/api/v1/persistentvolumes/{volume}")
    except NotFound:
        return "", ""
    claim = persistent["spec"].get("claimRef") or {}
    return claim.get("namespace", ""), claim.get("name", "")
