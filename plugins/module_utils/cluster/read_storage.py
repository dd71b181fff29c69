# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read claims and their volumes, and the classes and free volumes that claims without a volume need.

Little else is read: most pods that need a node take the place of a pod that runs, whose claims are bound. A right
that is missing is no failure here: the state of a claim says what is not known, or the snapshot what is missing.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..api.lists import list_converted
from ..api.parallel import read_together
from ..kubevirt.instances import claim_name
from ..model.json_pointer import JSON
from ..model.objects import ClaimTemplate
from ..model.snapshot import Snapshot, Workload
from ..model.storage import (
    VOLUMES,
    BoundVolume,
    Claim,
    ClaimKey,
    ClaimState,
    FreeVolume,
    Storage,
    StorageClass,
    attach_limits_from_manifest,
    bound_volume_from_manifest,
    claim_from_manifest,
    class_from_manifest,
    fields_of_volumes,
    free_volume_from_manifest,
)
from ..scheduler.claims import claim_state
from .identity import unreadable

_CLAIMS = "/api/v1/{}persistentvolumeclaims"
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

_SINGLE_READS = 20
"""The most claims, or volumes, that are read one by one: for more, whole lists are read."""

_FEW_NAMESPACES = 5
"""The most namespaces whose claims are listed one by one: for more, those of all are listed."""

_Value = t.TypeVar("_Value")


class _Volumes(t.NamedTuple):
    """Volumes by name, None for those that do not exist, and why others could not be read."""

    read: dict[str, BoundVolume | None]
    refused: tuple[Forbidden, ...] = ()


def claims_in(snapshot: Snapshot, namespaces: t.Collection[str]) -> set[ClaimKey]:
    """The claims that pods and workloads of some namespaces mount."""
    return {
        (pod.namespace, claim)
        for pod in snapshot.pods
        if pod.namespace in namespaces
        for claim in pod.claims
    } | claims_of(x for x in snapshot.workloads if x.ref.namespace in namespaces)


def claims_of(workloads: t.Iterable[Workload]) -> set[ClaimKey]:
    """The claims that the templates of workloads mount."""
    return {
        (workload.ref.namespace, name)
        for workload in workloads
        for volume in (workload.template.get("spec") or {}).get("volumes") or ()
        if (name := claim_name(volume))
    }


def with_claim_terms(
    api: ApiClient, snapshot: Snapshot, claims: t.Collection[ClaimKey]
) -> Snapshot:
    """The snapshot with what is known of the volumes that are bound to `claims`: VOLUME_FIELDS."""
    if not claims:
        return snapshot
    by_key = _claims(api, sorted(claims)) if len(claims) <= _SINGLE_READS else {}
    if len(by_key) == len(claims):
        names = {claim.volume for claim in by_key.values() if claim is not None and claim.volume}
        volumes = _volumes(api, names)
    else:  # too many, or one may not be read: volumes name their claims, too
        volumes = _all_volumes(api)
    bound = [x for x in volumes.read.values() if x is not None and x.claim is not None]
    gaps = dict.fromkeys((*snapshot.unreadable, *map(unreadable, volumes.refused)))
    return replace(snapshot, **fields_of_volumes(bound), unreadable=tuple(gaps))


def claim_states(
    api: ApiClient, needed: t.Mapping[ClaimKey, ClaimTemplate | None]
) -> dict[ClaimKey, ClaimState]:
    """The state of each claim that could be read. Raises ApiError, but not for a missing right."""
    claims = _claims(api, needed)
    classes: t.Mapping[str, StorageClass] | None = None
    volumes: tuple[FreeVolume, ...] | None = None
    if any(_lacks_volume(claim, needed[key]) for key, claim in claims.items()):
        listed_classes, listed_volumes = read_together(
            [
                functools.partial(_list, api, _CLASSES, class_from_manifest),
                functools.partial(_list, api, VOLUMES, free_volume_from_manifest),
            ]
        )
        if listed_classes is not None:
            classes = {storage_class.name: storage_class for storage_class in listed_classes}
        if listed_volumes is not None:
            volumes = tuple(listed_volumes)
    names = {claim.volume for claim in claims.values() if claim is not None and claim.bound}
    storage = Storage(_volumes(api, names).read, classes, volumes)
    return {key: claim_state(key, claims[key], needed[key], storage) for key in claims}


def attach_limits(api: ApiClient, drivers: t.Collection[str]) -> dict[str, dict[str, int]] | None:
    """The most volumes of these drivers that each node may attach. None where they could not be read."""
    listed = _list(api, _CSI_NODES, attach_limits_from_manifest)
    if listed is None:
        return None
    return {
        node: kept
        for node, by_driver in listed
        if (kept := {name: count for name, count in by_driver.items() if name in drivers})
    }


def _volumes(api: ApiClient, names: t.Collection[str]) -> _Volumes:
    """The volumes with these names."""
    if len(names) > _SINGLE_READS:
        every, refused = _all_volumes(api)
        return _Volumes({} if refused else {name: every.get(name) for name in names}, refused)
    names = sorted(names)
    answers = read_together([functools.partial(_volume, api, name) for name in names])
    read = {
        name: answer
        for name, answer in zip(names, answers, strict=True)
        if not isinstance(answer, Forbidden)
    }
    return _Volumes(read, tuple(x for x in answers if isinstance(x, Forbidden)))


def _all_volumes(api: ApiClient) -> _Volumes:
    try:
        listed = list_converted(
            api, VOLUMES, lambda x: (x["metadata"]["name"], bound_volume_from_manifest(x))
        )
        return _Volumes(dict(listed.items))
    except Forbidden as error:
        return _Volumes({}, (error,))


def _volume(api: ApiClient, name: str) -> BoundVolume | Forbidden | None:
    """By a list, for which the right `list` is enough. None where it does not exist."""
    escaped = re.sub(r"([\\,=])", r"\\\1", name)  # apimachinery, pkg/fields: EscapeValue
    params = {"fieldSelector": f"metadata.name={escaped}"}
    try:
        listed = list_converted(api, VOLUMES, bound_volume_from_manifest, params=params).items
    except Forbidden as error:
        return error
    return next(iter(listed), None)


def _lacks_volume(claim: Claim | None, template: ClaimTemplate | None) -> bool:
    if claim is None or claim.terminating:
        return template is not None and not template.data_volume
    return not claim.volume and not claim.lost


def _claims(api: ApiClient, needed: t.Collection[ClaimKey]) -> dict[ClaimKey, Claim | None]:
    """The claims that could be read; None for those that do not exist."""
    if len(needed) <= _SINGLE_READS:
        answers = read_together([functools.partial(_claim, api, key) for key in needed])
        return {
            key: answer
            for key, answer in zip(needed, answers, strict=True)
            if not isinstance(answer, Forbidden)
        }

    def convert(manifest: dict[str, JSON]) -> tuple[ClaimKey, Claim] | None:
        key = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        return (key, claim_from_manifest(manifest)) if key in needed else None

    namespaces = sorted({namespace for namespace, _name in needed})
    paths = [_CLAIMS.format(f"namespaces/{namespace}/") for namespace in namespaces]
    if len(paths) > _FEW_NAMESPACES:
        paths = [_CLAIMS.format("")]
    lists = read_together([functools.partial(_list, api, path, convert) for path in paths])
    if None in lists:
        return {}
    existing = {key: claim for listed in lists for key, claim in listed}
    return {key: existing.get(key) for key in needed}


def _claim(api: ApiClient, key: ClaimKey) -> Claim | Forbidden | None:
    path = _CLAIMS.format(f"namespaces/{key[0]}/")
    try:
        return claim_from_manifest(api.get(f"{path}/{key[1]}"))
    except NotFound:
        return None
    except Forbidden as error:
        return error


def _list(
    api: ApiClient, path: str, convert: t.Callable[[dict[str, JSON]], _Value | None]
) -> list[_Value] | None:
    """The converted items without None; None where they may not be read."""
    try:
        items = list_converted(api, path, convert).items
    except (Forbidden, NotFound):
        return None
    return [item for item in items if item is not None]
