# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cluster is: its identity, versions, and the settings of KubeVirt that decisions need."""

from __future__ import annotations

import re
import typing as t

from ..api.errors import Forbidden, NotFound
from ..api.lists import list_all
from ..api.requests import Api
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.snapshot import Unreadable
from .identity import cluster_uid

KUBEVIRT_PATH = "/apis/kubevirt.io/v1/kubevirts"


def read_platform(api: Api) -> Platform:
    """See `platform_and_gaps`, which this is without the gaps."""
    return platform_and_gaps(api)[0]


def platform_and_gaps(api: Api) -> tuple[Platform, tuple[Unreadable, ...]]:
    """The platform, and what of it may not be read: those fields are as KubeVirt ships them.

    `kubevirt` is None where KubeVirt is not installed, and "" where its version is not known.
    """
    uid, no_uid = _unless_forbidden(lambda: cluster_uid(api), "")
    nothing: dict[str, JSON] = {}
    version, no_version = _unless_forbidden(lambda: api.get("/version"), nothing)
    installed, no_kubevirt = _unless_forbidden(lambda: _kubevirt(api), nothing)
    fields = {} if installed is None else _kubevirt_fields(installed)
    return (
        Platform(uid=uid, api=api.host, kubernetes=_release(version), **fields),
        (*no_uid, *no_version, *no_kubevirt),
    )


_Read = t.TypeVar("_Read")


def _unless_forbidden(
    read: t.Callable[[], _Read], otherwise: _Read
) -> tuple[_Read, tuple[Unreadable, ...]]:
    try:
        return read(), ()
    except Forbidden as error:
        return otherwise, (unreadable(error),)


def unreadable(error: Forbidden) -> Unreadable:
    """The gap that a refused request leaves."""
    request = error.request
    return Unreadable(request.resource, request.namespace, request.verb, error.advise())


def _kubevirt(api: Api) -> JSON:
    """The KubeVirt object, None where there is none. There is one for a cluster."""
    try:
        found = list_all(api, KUBEVIRT_PATH).items
    except NotFound:
        return None
    return found[0] if found else None


def _kubevirt_fields(kubevirt: t.Mapping[str, JSON]) -> dict[str, t.Any]:
    """The fields of a Platform that the KubeVirt object gives; what it leaves out has defaults."""
    configuration = (kubevirt.get("spec") or {}).get("configuration") or {}
    migrations = configuration.get("migrations") or {}
    named = {
        "kubevirt": (kubevirt.get("status") or {}).get("observedKubeVirtVersion") or "",
        "rollout_strategy": configuration.get("vmRolloutStrategy"),
        "eviction_strategy": configuration.get("evictionStrategy"),
        "migrations_per_cluster": migrations.get("parallelMigrationsPerCluster"),
        "migrations_per_node": migrations.get("parallelOutboundMigrationsPerNode"),
    }
    return {name: value for name, value in named.items() if value is not None}


def _release(version: t.Mapping[str, JSON]) -> tuple[int, int]:
    """(major, minor); providers write minor as `31+`."""
    parts = [re.match(r"\d+", str(version.get(name) or "")) for name in ("major", "minor")]
    major, minor = (int(part.group()) if part else 0 for part in parts)
    return major, minor
