# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read claims, and the classes and free volumes that the claims without a volume need.

Nothing else is read: most pods that need a node take the place of a pod that runs, whose claims are bound. A right
that is missing is no failure here: the state of the claim says what is not known.
"""

from __future__ import annotations

import functools
import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..api.lists import list_converted
from ..model.json_pointer import JSON
from ..model.objects import ClaimTemplate
from ..model.storage import (
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
    free_volume_from_manifest,
)
from ..scheduler.claims import claim_state
from .reading import SINGLE_READS, field_selector_of, read_together

_CLAIMS = "/api/v1/{}persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"

_FEW_NAMESPACES = 5
"""The most namespaces whose claims are listed one by one: for more, those of all are listed."""

_Value = t.TypeVar("_Value")


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
                functools.partial(_list, api, _VOLUMES, free_volume_from_manifest),
            ]
        )
        if listed_classes is not None:
            classes = {storage_class.name: storage_class for storage_class in listed_classes}
        if listed_volumes is not None:
            volumes = tuple(listed_volumes)
    storage = Storage(_bound_volumes(api, claims.values()), classes, volumes)
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


def _bound_volumes(
    api: ApiClient, claims: t.Iterable[Claim | None]
) -> dict[str, BoundVolume | None]:
    """The volumes of bound claims; None for those that do not exist."""
    names = sorted({claim.volume for claim in claims if claim is not None and claim.bound})
    if len(names) > SINGLE_READS:
        listed = _list(api, _VOLUMES, _named_volume)
        existing = dict(listed or ())
        return {} if listed is None else {name: existing.get(name) for name in names}
    answers = read_together([functools.partial(_volume, api, name) for name in names])
    return {
        name: answer
        for name, answer in zip(names, answers, strict=True)
        if not isinstance(answer, Forbidden)
    }


def _named_volume(manifest: dict[str, JSON]) -> tuple[str, BoundVolume]:
    return manifest["metadata"]["name"], bound_volume_from_manifest(manifest)


def _volume(api: ApiClient, name: str) -> BoundVolume | Forbidden | None:
    params = {"fieldSelector": field_selector_of(name)}
    try:
        listed = list_converted(api, _VOLUMES, bound_volume_from_manifest, params=params).items
    except Forbidden as error:
        return error
    return next(iter(listed), None)


def _lacks_volume(claim: Claim | None, template: ClaimTemplate | None) -> bool:
    if claim is None or claim.terminating:
        return template is not None and not template.data_volume
    return not claim.volume and not claim.lost


def _claims(api: ApiClient, needed: t.Collection[ClaimKey]) -> dict[ClaimKey, Claim | None]:
    """The claims that could be read; None for those that do not exist."""
    if len(needed) <= SINGLE_READS:
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
