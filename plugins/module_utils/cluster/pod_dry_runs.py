# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What would the API server make of the next pod? Asked as a dry run, where this identity may create pods.

No role of `rbac/` may: others are not asked for. The answer is about this identity: the server may exempt another one.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, Forbidden
from ..kinds.registry import KINDS
from ..model.json_pointer import JSON
from ..model.kinds import instance_path, instances_path
from ..model.manifests import pod_from_manifest
from ..model.objects import Pod, Ref
from ..model.rendering import one_line
from .access import Right, missing_rights

MOST = 50
"""Pods and templates that are asked for."""

PATIENCE = 5.0
"""Seconds for which a dry run that fails is asked again: a webhook that times out would hold up each of them."""


def pod_dry_runs(api: ApiClient, asked: t.Mapping[str, Ref]) -> dict[str, Pod | str]:
    """Another pod like each of these running ones, or the next pod of a workload's template, as the server would create
    it, or why the server refuses it. Both are by the uid of what was asked for. Those that could not be asked for are
    left out. Raises ApiError, but not for a missing right."""
    if not asked:
        return {}
    asked = dict(list(asked.items())[:MOST])
    rights = {x.namespace: Right("create", "", "pods", "", x.namespace) for x in asked.values()}
    missing = {right.namespace for right in missing_rights(api, rights.values())}
    asking = api.under(api.deadline)
    asking.policy = replace(api.policy, patience=min(PATIENCE, api.policy.patience))
    answers = {
        uid: _answer(asking, ref, uid) for uid, ref in asked.items() if ref.namespace not in missing
    }
    return {uid: answer for uid, answer in answers.items() if answer is not None}


def _answer(api: ApiClient, ref: Ref, uid: str) -> Pod | str | None:
    kind = KINDS.get(ref.kind)
    try:
        found = api.get(kind.path(ref.namespace, ref.name) if kind else instance_path(ref))
        if found["metadata"].get("uid") != uid:
            return None
        body = first_manifest(found) if kind else next_manifest(found)
        created = api.create(instances_path("Pod", ref.namespace), body, dry_run=True)
    except Forbidden as error:
        # The right is there; a quota may have room once the running pod has ended.
        return None if error.refuses_request else one_line(error.message)
    except ApiError:
        return None
    return pod_from_manifest(created)


def first_manifest(workload: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """A pod of the template of a Deployment or a StatefulSet, with a claim for each template of one."""
    metadata, template = workload["metadata"], workload["spec"]["template"]
    of_pod = template.get("metadata") or {}
    kept = {key: of_pod[key] for key in ("labels", "annotations") if key in of_pod}
    named = {"namespace": metadata["namespace"], "generateName": f"{metadata['name'][:50]}-"}
    made = [x["metadata"]["name"] for x in workload["spec"].get("volumeClaimTemplates") or ()]
    volumes = [x for x in template["spec"].get("volumes") or () if x.get("name") not in made]
    volumes += ({"name": x, "persistentVolumeClaim": {"claimName": x}} for x in made)
    spec = {**template["spec"], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**kept, **named}, "spec": spec}


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
