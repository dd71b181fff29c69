# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which replicas does a StatefulSet have, and which claims does each of them use?

Source: kubernetes pkg/controller/statefulset/stateful_set_utils.go (getStartOrdinal, getPodName,
getPersistentVolumeClaimName, updateStorage, updateIdentity, newVersionedStatefulSetPod).
"""

from __future__ import annotations

from dataclasses import replace

from ..model.objects import ClaimTemplate, Pod
from ..model.snapshot import Workload
from ..model.storage import claim_template

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
"""Labels of the pods of a StatefulSet (apps/v1)."""


def wanted_ordinals(workload: Workload) -> range:
    """The numbers of the replicas that a StatefulSet wants."""
    return _ordinals(workload, workload.replicas or 0)


def previous_ordinals(workload: Workload) -> range:
    """The numbers of the replicas that its partition keeps on the revision before the present template; none for
    another kind."""
    return _ordinals(workload, workload.kind.partition(workload.spec))


def keeps_all(workload: Workload) -> bool:
    """Whether its partition keeps all replicas on the revision before the present template."""
    return len(previous_ordinals(workload)) >= max(1, len(wanted_ordinals(workload)))


def keeps_revision(workload: Workload, pod: Pod) -> bool:
    """Whether the pod after this one is made from the revision before the present template, too: its number is below
    the partition."""
    return ordinal_of(pod.name, workload.ref.name) in previous_ordinals(workload)


def is_of_other_revision(workload: Workload, pod: Pod) -> bool:
    """Whether a pod of a StatefulSet was made from another template than the present one, as far as its controller has
    seen it."""
    running = pod.labels.get("controller-revision-hash")
    update = workload.status.get("updateRevision")
    return bool(running and update) and running != update


def _ordinals(workload: Workload, count: int) -> range:
    ordinals = workload.spec.get("ordinals") or {}
    start = int(ordinals.get("start") or 0)
    return range(start, start + count)


def ordinal_of(pod: str, stateful_set: str) -> int:
    """The number in the name of a pod; -1 for a name that is not one of this StatefulSet's."""
    parent, _dash, number = pod.rpartition("-")
    return int(number) if parent == stateful_set and number.isdecimal() else -1


def claims_of_replica(workload: Workload, ordinal: int) -> tuple[ClaimTemplate, ...]:
    """The claims that a replica uses, which stay when it ends and are made where they do not exist."""
    templates = workload.spec.get("volumeClaimTemplates") or ()
    return tuple(
        claim_template(
            f"{template['metadata']['name']}-{workload.ref.name}-{ordinal}",
            template.get("spec") or {},
        )
        for template in templates
    )


def replica_of(workload: Workload, pod: Pod, ordinal: int, model: Pod | None) -> Pod:
    """`pod` as the replica with this number. `model` is the replica that it was made like, or None: its own claims
    are not those of another replica."""
    name = f"{workload.ref.name}-{ordinal}"
    pod = pod.renamed(name)
    own = claims_of_replica(workload, ordinal)
    others: set[str] = set()
    if model is not None:
        number = ordinal_of(model.name, workload.ref.name)
        others = {template.claim for template in claims_of_replica(workload, number)}
    shared = tuple(claim for claim in pod.claims if claim not in others)
    labels = {**pod.labels, POD_NAME: name}
    if model is None or POD_INDEX in model.labels:
        labels[POD_INDEX] = str(ordinal)
    return replace(
        pod,
        labels=labels,
        claims=(*shared, *(template.claim for template in own)),
        made_claims=(*pod.made_claims, *own),
    )
