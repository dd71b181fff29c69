# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the API server create another pod like a running one? Asked as a dry run, where this identity may create pods.

No role of `rbac/` may: others are not asked for. The answer is about this identity: the server may exempt another one.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, Forbidden
from ..model.json_pointer import JSON
from ..model.kinds import instance_path, instances_path
from ..model.objects import Ref
from ..model.rendering import one_line
from .access import Right, missing_rights

MOST = 50
"""Pods that are asked for."""

PATIENCE = 5.0
"""Seconds for which a dry run that fails is asked again: a webhook that times out would hold up each of them."""


def refused_pods(api: ApiClient, pods: t.Mapping[str, Ref]) -> dict[str, str]:
    """Why the server refuses a pod like each of these, which are by their uids; empty where it accepts one. Those that
    could not be asked for are left out. Raises ApiError, but not for a missing right."""
    asked = dict(list(pods.items())[:MOST])
    rights = {x.namespace: Right("create", "", "pods", "", x.namespace) for x in asked.values()}
    missing = {right.namespace for right in missing_rights(api, rights.values())}
    asking = api.under(api.deadline)
    asking.policy = replace(api.policy, patience=min(PATIENCE, api.policy.patience))
    answers = {
        uid: _answer(asking, ref, uid) for uid, ref in asked.items() if ref.namespace not in missing
    }
    return {uid: answer for uid, answer in answers.items() if answer is not None}


def _answer(api: ApiClient, ref: Ref, uid: str) -> str | None:
    try:
        pod = api.get(instance_path(ref))
        if pod["metadata"].get("uid") != uid:
            return None
        api.create(instances_path("Pod", ref.namespace), next_manifest(pod), dry_run=True)
    except (
        Forbidden
    ) as error:  # the right is there; a quota may have room once the running pod has ended
        return None if error.refuses_request else one_line(error.message)
    except ApiError:
        return None
    return ""


def next_manifest(pod: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """A pod like a running one that no node has."""
    metadata = pod["metadata"]
    owners = [
        {key: value for key, value in owner.items() if key != "blockOwnerDeletion"}
        for owner in metadata.get("ownerReferences") or ()
    ]
    kept = {key: metadata[key] for key in ("namespace", "labels", "annotations") if key in metadata}
    spec = {key: value for key, value in pod["spec"].items() if key not in _OF_ITSELF}
    named = {"generateName": f"{metadata['name'][:50]}-", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **named}, "spec": spec}


_OF_ITSELF = ("nodeName", "ephemeralContainers", "priority", "preemptionPolicy")
"""Fields of a spec that a pod got later, or that the server computes."""
