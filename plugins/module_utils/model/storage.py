# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""PersistentVolumeClaims, StorageClasses and free volumes, and what the scheduler makes of a claim."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .json_pointer import JSON
from .objects import ClaimTemplate, NodeTerm, Requirement
from .placement_manifests import node_term_from_json

ClaimKey = tuple[str, str]
"""The namespace and the name of a PersistentVolumeClaim."""

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"

VOLUMES = "/api/v1/persistentvolumes"
VOLUME_FIELDS = ("claim_terms", "access_modes", "drivers")
"""The fields of a Snapshot that its volumes give it."""

EXCLUSIVE = "ReadWriteOncePod"
"""Access mode of a claim that one pod at a time may use."""

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations of a default class (kubernetes pkg/volume/util/storageclass.go)."""

IN_TREE = "kubernetes.io/"
"""Begins the provisioner of a plugin that was once in Kubernetes itself. kube-scheduler takes its volumes for those of
the CSI driver that replaces it, on nodes whose CSINode says so (k8s.io/csi-translation-lib). That is not modeled."""

_IN_TREE = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cinder",
    "gcePersistentDisk",
    "portworxVolume",
    "vsphereVolume",
)
"""Fields of a PersistentVolume's spec, one for each such plugin."""

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_BOUND = "pv.kubernetes.io/bind-completed"


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim. `bound`: for good (volumebinding/binder.go, isPVCFullyBound). `class_name` is
    None where it names no class."""

    volume: str = ""
    bound: bool = False
    lost: bool = False
    terminating: bool = False
    class_name: str | None = None
    access_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StorageClass:
    """`waits`: a volume is made or chosen once a pod has a node (WaitForFirstConsumer). `provisions`: volumes are
    made. `allowed_topologies`: on which nodes; empty for all."""

    name: str
    waits: bool = False
    provisions: bool = True
    allowed_topologies: tuple[NodeTerm, ...] = ()
    default: bool = False
    created: str = ""
    provisioner: str = ""


@dataclass(frozen=True, slots=True)
class FreeVolume:
    """A PersistentVolume that a claim may be bound to: any of its class, or only `claim`. `terms` are empty where
    each node reaches it."""

    name: str
    class_name: str = ""
    claim: ClaimKey | None = None
    terms: tuple[NodeTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundVolume:
    """A PersistentVolume. `terms` are empty where each node reaches it; `driver` where it counts for no CSI driver.
    `claim` is None where it is not bound (yet)."""

    terms: tuple[NodeTerm, ...] = ()
    driver: str = ""
    claim: ClaimKey | None = None
    access_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Storage:
    """What was read about claims. `bound`: the volumes of bound claims by their names, None for those that do not
    exist; a volume that could not be read is not there. `classes` and `free` are None where they were not needed or
    could not be read."""

    bound: t.Mapping[str, BoundVolume | None] = field(default_factory=dict)
    classes: t.Mapping[str, StorageClass] | None = None
    free: tuple[FreeVolume, ...] | None = None

    @property
    def default_class(self) -> str | None:
        """The class of a claim that names none; None where there is none. The newest of several (kubernetes
        pkg/volume/util/storageclass.go, GetDefaultClass)."""
        defaults = [x for x in (self.classes or {}).values() if x.default]
        newest = max((x.created for x in defaults), default="")
        return min((x.name for x in defaults if x.created == newest), default=None)


@dataclass(frozen=True, slots=True)
class ClaimState:
    """What a claim means for a pod that needs a node. `terms`: it may run on these nodes only; None for any.
    `refusal`: it may run on none, in the scheduler's
    words. `doubt`: why more may keep it from running. `exclusive`: no second pod may use the claim. `one_node`: no
    pod of another node may. `driver`: the CSI driver of its volume, or of the one that its class makes."""

    terms: tuple[NodeTerm, ...] | None = None
    refusal: str = ""
    doubt: str = ""
    exclusive: bool = False
    one_node: bool = False
    driver: str = ""


def uses_of(access_modes: t.Collection[str]) -> tuple[bool, bool]:
    """`exclusive` and `one_node` of a claim with these access modes."""
    return EXCLUSIVE in access_modes, bool(access_modes) and _SHARED.isdisjoint(access_modes)


def claim_from_manifest(manifest: t.Mapping[str, JSON]) -> Claim:
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    volume = spec.get("volumeName") or ""
    return Claim(
        volume=volume,
        bound=bool(volume) and _BOUND in (metadata.get("annotations") or {}),
        lost=(manifest.get("status") or {}).get("phase") == "Lost",
        terminating=metadata.get("deletionTimestamp") is not None,
        class_name=spec.get("storageClassName"),
        access_modes=tuple(spec.get("accessModes") or ()),
    )


def class_from_manifest(manifest: t.Mapping[str, JSON]) -> StorageClass:
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    provisioner = manifest.get("provisioner") or ""
    return StorageClass(
        name=metadata["name"],
        waits=manifest.get("volumeBindingMode") == "WaitForFirstConsumer",
        provisions=provisioner not in ("", _NO_PROVISIONER),
        allowed_topologies=tuple(
            NodeTerm(
                tuple(
                    Requirement(label["key"], "In", tuple(label.get("values") or ()))
                    for label in term.get("matchLabelExpressions") or ()
                )
            )
            for term in manifest.get("allowedTopologies") or ()
        ),
        default=any(annotations.get(key) == "true" for key in _DEFAULT_CLASS),
        created=metadata.get("creationTimestamp") or "",
        provisioner=provisioner,
    )


def free_volume_from_manifest(manifest: t.Mapping[str, JSON]) -> FreeVolume | None:
    """None for a volume that is bound, released or about to be deleted."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    claim = spec.get("claimRef") or {}
    phase = (manifest.get("status") or {}).get("phase") or "Pending"
    taken = phase not in ("Pending", "Available") or bool(claim.get("uid"))
    if taken or metadata.get("deletionTimestamp") is not None:
        return None
    return FreeVolume(
        name=metadata["name"],
        class_name=spec.get("storageClassName") or "",
        claim=(claim.get("namespace") or "", claim["name"]) if claim else None,
        terms=volume_terms(manifest),
    )


def bound_volume_from_manifest(manifest: t.Mapping[str, JSON]) -> BoundVolume:
    spec, phase = manifest["spec"], (manifest.get("status") or {}).get("phase")
    claim = spec.get("claimRef") or {}
    in_tree = next((f"{IN_TREE}{name}" for name in _IN_TREE if spec.get(name)), "")
    return BoundVolume(
        volume_terms(manifest),
        in_tree or (spec.get("csi") or {}).get("driver") or "",
        (claim["namespace"], claim["name"]) if claim and phase == "Bound" else None,
        tuple(spec.get("accessModes") or ()),
    )


def volume_of_a_claim(manifest: t.Mapping[str, JSON]) -> BoundVolume | None:
    """None for a volume that is not bound."""
    volume = bound_volume_from_manifest(manifest)
    return volume if volume.claim is not None else None


def fields_of_volumes(volumes: t.Collection[BoundVolume]) -> dict[str, t.Any]:
    """VOLUME_FIELDS of a Snapshot, from volumes that are bound to a claim."""
    return {
        "claim_terms": {volume.claim: volume.terms for volume in volumes if volume.terms},
        "access_modes": {volume.claim: volume.access_modes for volume in volumes},
        "drivers": {volume.claim: volume.driver for volume in volumes if volume.driver},
    }


def attach_limits_from_manifest(
    manifest: t.Mapping[str, JSON],
) -> tuple[str, dict[str, int]] | None:
    """The node of a CSINode, and the most volumes of each driver that has a limit there."""
    limits = {
        driver["name"]: int(count)
        for driver in (manifest.get("spec") or {}).get("drivers") or ()
        if (count := (driver.get("allocatable") or {}).get("count")) is not None
    }
    return (manifest["metadata"]["name"], limits) if limits else None


_BETA = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_TOPOLOGY = (*_BETA, *_BETA.values())


def volume_terms(manifest: t.Mapping[str, JSON]) -> tuple[NodeTerm, ...]:
    """The node terms of a PersistentVolume, and what its zone and region labels ask of a node that has any of these
    labels (scheduler plugin volumezone). None where each node reaches it."""
    affinity = (manifest["spec"].get("nodeAffinity") or {}).get("required") or {}
    terms = tuple(map(node_term_from_json, affinity.get("nodeSelectorTerms") or ()))
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    for key in _TOPOLOGY:
        if key in labels:
            alternatives = _topology_terms(key, tuple(labels[key].split("__")))
            terms = tuple(
                NodeTerm((*term.expressions, *other.expressions), term.fields)
                for term in terms or (NodeTerm(),)
                for other in alternatives
            )
    return terms


def _topology_terms(key: str, values: tuple[str, ...]) -> tuple[NodeTerm, ...]:
    """A node is in one of the zones, or has no such label at all."""
    terms = [
        NodeTerm(tuple(Requirement(name, "DoesNotExist") for name in _TOPOLOGY)),
        NodeTerm((Requirement(key, "In", values),)),
    ]
    if key in _BETA:
        without = Requirement(key, "DoesNotExist")
        terms.append(NodeTerm((without, Requirement(_BETA[key], "In", values))))
    return tuple(terms)


def claims_of_manifests(
    claims: t.Iterable[t.Mapping[str, JSON]], volumes: t.Iterable[t.Mapping[str, JSON]]
) -> tuple[dict[ClaimKey, tuple[NodeTerm, ...]], dict[ClaimKey, tuple[str, ...]]]:
    """The node terms and the access modes of claims, by manifests of these and of volumes. A claim names its
    volume, or a volume its claim; which volume is chosen for another claim is not known."""
    terms_by_volume: dict[str, tuple[NodeTerm, ...]] = {}
    terms: dict[ClaimKey, tuple[NodeTerm, ...]] = {}
    modes: dict[ClaimKey, tuple[str, ...]] = {}
    for volume in volumes:
        terms_by_volume[volume["metadata"]["name"]] = volume_terms(volume)
        if reference := volume["spec"].get("claimRef"):
            key = reference.get("namespace") or "default", reference.get("name") or ""
            terms[key] = volume_terms(volume)
    for manifest in claims:
        metadata, claim = manifest["metadata"], claim_from_manifest(manifest)
        key = metadata["namespace"], metadata["name"]
        modes[key] = claim.access_modes
        if claim.volume in terms_by_volume:
            terms[key] = terms_by_volume[claim.volume]
    return {key: found for key, found in terms.items() if found}, modes


def claim_template(claim: str, spec: t.Mapping[str, JSON], volume: str = "") -> ClaimTemplate:
    """A claim that is made from the spec of a PersistentVolumeClaim."""
    modes = tuple(spec.get("accessModes") or ())
    return ClaimTemplate(claim, spec.get("storageClassName"), modes, volume)


def volumes_of_pod(
    pod_name: str, spec: t.Mapping[str, JSON]
) -> tuple[tuple[str, ...], tuple[ClaimTemplate, ...], tuple[str, ...]]:
    """The names of the claims of a pod, the claims that are made for it, and the names of its emptyDir volumes."""
    claims: list[str] = []
    made: list[ClaimTemplate] = []
    empty_dirs: list[str] = []
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            claims.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            name = volume["name"]
            claims.append(f"{pod_name}-{name}")
            template = (volume["ephemeral"] or {}).get("volumeClaimTemplate") or {}
            made.append(claim_template(claims[-1], template.get("spec") or {}, name))
        elif volume.get("emptyDir") is not None:
            empty_dirs.append(volume["name"])
    return tuple(claims), tuple(made), tuple(empty_dirs)
