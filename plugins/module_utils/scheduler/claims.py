# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does kube-scheduler answer to a pod with a claim that is missing, lost or not bound?

Source: scheduler plugin volumebinding, podHasPVCs, GetPodVolumeClaims, checkVolumeProvisions; kubernetes
pkg/controller/volume/persistentvolume for what binds a claim. A claim that has no volume yet gets one of
the free volumes of its class, or one that the class's provisioner makes: neither is sure to happen.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.objects import ClaimTemplate, NodeTerm
from ..model.storage import Claim, ClaimKey, ClaimState, FreeVolume, Storage, uses_of

NOT_BOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_BOUND_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def claim_state(
    key: ClaimKey, claim: Claim | None, template: ClaimTemplate | None, storage: Storage
) -> ClaimState:
    """The state of a claim; `template` is what it is made from where it does not exist, or None."""
    name = key[1]
    if claim is not None and claim.lost:
        text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.volume}"'
        return ClaimState(refusal=text)
    if claim is not None and claim.terminating:
        if template is None:
            return ClaimState(refusal=f'persistentvolumeclaim "{name}" is being deleted')
        claim = None  # made again
    if claim is None and template is None:
        return ClaimState(refusal=f'persistentvolumeclaim "{name}" not found')
    modes = claim.access_modes if claim is not None else template.access_modes if template else ()
    exclusive, one_node = uses_of(modes)
    if claim is not None and claim.bound:
        return replace(_bound(name, claim.volume, storage), exclusive=exclusive, one_node=one_node)
    if claim is not None and claim.volume:
        return ClaimState(
            doubt=f"claim {name} is not bound to its volume {claim.volume} yet",
            exclusive=exclusive,
            one_node=one_node,
        )
    terms, refusal, doubt = _unbound(key, claim, template, storage)
    driver = _provisioner(claim, template, storage)
    return ClaimState(terms, refusal, doubt, exclusive, one_node, driver)


def _provisioner(claim: Claim | None, template: ClaimTemplate | None, storage: Storage) -> str:
    """What makes the volume of a claim; a CSI driver in most cases."""
    named = claim.class_name if claim is not None else template.class_name if template else None
    name = storage.default_class if named is None else named
    storage_class = (storage.classes or {}).get(name)
    provisions = storage_class is not None and storage_class.provisions
    return storage_class.provisioner if provisions and storage_class is not None else ""


def _bound(name: str, volume: str, storage: Storage) -> ClaimState:
    """The state of a claim that is bound to a volume."""
    if volume not in storage.bound:
        return ClaimState(doubt=f"volume {volume} of claim {name} could not be read")
    found = storage.bound[volume]
    if found is None:
        return ClaimState(refusal=f"{NO_BOUND_VOLUME} ({name}: {volume})")
    return ClaimState(found.terms or None, driver=found.driver)


def _unbound(
    key: ClaimKey, claim: Claim | None, template: ClaimTemplate | None, storage: Storage
) -> tuple[tuple[NodeTerm, ...] | None, str, str]:
    """The nodes, the refusal and the doubt of a claim that has no volume."""
    name = key[1]
    subject = f"claim {name} is not bound" if claim is not None else f"claim {name} does not exist"
    if claim is None and template is not None and template.data_volume:
        return (
            None,
            "",
            f"{subject} yet: its DataVolume makes it, and a volume on nodes not known now",
        )
    named = claim.class_name if claim is not None else template.class_name if template else None
    if storage.classes is None:
        return None, "", f"{subject}, and StorageClasses could not be read"
    class_name = storage.default_class if named is None else named
    storage_class = storage.classes.get(class_name)
    if storage.free is None:
        return None, "", f"{subject}, and free volumes could not be read"
    own = [x for x in storage.free if x.claim == key]
    free = own or [x for x in storage.free if x.claim is None and x.class_name == class_name]
    if storage_class is None or not storage_class.provisions:
        if free:
            return (
                _terms_of(free),
                "",
                f"{subject} yet, and only a volume that exists can be bound to it",
            )
        why = f"no free volume of StorageClass {class_name}" if class_name else "no free volume"
        if class_name and storage_class is None:
            why = f"StorageClass {class_name} does not exist"
        elif not class_name and named is None:
            why = "it names no StorageClass, and there is no default one"
        waits = storage_class is not None and storage_class.waits
        return None, f"{NO_VOLUME if waits else NOT_BOUND} ({name}: {why})", ""
    made = f"StorageClass {class_name} makes its volume"
    if own:
        return _terms_of(own), "", f"{subject} yet, and volume {own[0].name} is reserved for it"
    if not storage_class.waits:
        return None, "", f"{subject} yet: {made} first, on nodes that are not known now"
    allowed = storage_class.allowed_topologies
    return (
        (allowed if allowed and not free else None),
        "",
        f"{subject} yet: {made} once a node is chosen",
    )


def _terms_of(volumes: t.Sequence[FreeVolume]) -> tuple[NodeTerm, ...] | None:
    """The nodes that reach one of the volumes; None for all."""
    if any(not volume.terms for volume in volumes):
        return None
    return tuple(dict.fromkeys(term for volume in volumes for term in volume.terms))
