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
from ..model.storage import Claim, ClaimKey, ClaimState, FreeVolume, Storage, StorageClass, uses_of

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
    if claim is not None and claim.bound:
        state = _bound(name, claim.volume, storage)
    elif claim is not None and claim.volume:
        state = ClaimState(doubt=f"claim {name} is not bound to its volume {claim.volume} yet")
    else:
        state = _unbound(key, claim, template, storage)
    modes = claim.access_modes if claim is not None else template.access_modes if template else ()
    exclusive, one_node = uses_of(modes)
    return replace(state, exclusive=exclusive, one_node=one_node)


def _bound(name: str, volume: str, storage: Storage) -> ClaimState:
    """The state of a claim that is bound to a volume."""
    if volume not in storage.bound:
        return ClaimState(doubt=f"volume {volume} of claim {name} could not be read")
    bound_volume = storage.bound[volume]
    if bound_volume is None:
        return ClaimState(refusal=f"{NO_BOUND_VOLUME} ({name}: {volume})")
    return ClaimState(bound_volume.terms or None, driver=bound_volume.driver)


def _unbound(
    key: ClaimKey, claim: Claim | None, template: ClaimTemplate | None, storage: Storage
) -> ClaimState:
    """The state of a claim that has no volume."""
    name = key[1]
    subject = f"claim {name} is not bound" if claim is not None else f"claim {name} does not exist"
    named = claim.class_name if claim is not None else template.class_name if template else None
    class_name = storage.default_class if named is None else named
    storage_class = (storage.classes or {}).get(class_name or "")
    provisions = storage_class is not None and storage_class.provisions
    driver = storage_class.provisioner if storage_class is not None and provisions else ""
    if claim is None and template is not None and template.data_volume:
        doubt = f"{subject} yet: its DataVolume makes it, and a volume on nodes not known now"
        return ClaimState(doubt=doubt, driver=driver)
    if storage.classes is None:
        return ClaimState(doubt=f"{subject}, and StorageClasses could not be read")
    if storage.free is None:
        return ClaimState(doubt=f"{subject}, and free volumes could not be read", driver=driver)
    own = [x for x in storage.free if x.claim == key]
    free = own or [x for x in storage.free if x.claim is None and x.class_name == class_name]
    if storage_class is not None and provisions:
        terms, doubt = _provisioned(storage_class, own, free)
        return ClaimState(terms, doubt=f"{subject} yet{doubt}", driver=driver)
    if free:
        doubt = f"{subject} yet, and only a volume that exists can be bound to it"
        return ClaimState(_terms_of(free), doubt=doubt)
    why = f"no free volume of StorageClass {class_name}" if class_name else "no free volume"
    if class_name and storage_class is None:
        why = f"StorageClass {class_name} does not exist"
    elif not class_name and named is None:
        why = "it names no StorageClass, and there is no default one"
    waits = storage_class is not None and storage_class.waits
    return ClaimState(refusal=f"{NO_VOLUME if waits else NOT_BOUND} ({name}: {why})")


def _provisioned(
    storage_class: StorageClass, own: t.Sequence[FreeVolume], free: t.Sequence[FreeVolume]
) -> tuple[tuple[NodeTerm, ...] | None, str]:
    """The nodes of a volume that a class makes, unless one of `free` is bound to the claim, and the end of the
    doubt about that. `own` are free volumes that are reserved for the claim."""
    made = f"StorageClass {storage_class.name} makes its volume"
    if own:
        return _terms_of(own), f", and volume {own[0].name} is reserved for it"
    if not storage_class.waits:
        return None, f": {made} first, on nodes that are not known now"
    allowed = storage_class.allowed_topologies
    return (allowed if allowed and not free else None), f": {made} once a node is chosen"


def _terms_of(volumes: t.Sequence[FreeVolume]) -> tuple[NodeTerm, ...] | None:
    """The nodes that reach one of the volumes; None for all."""
    if any(not volume.terms for volume in volumes):
        return None
    return tuple(dict.fromkeys(term for volume in volumes for term in volume.terms))
