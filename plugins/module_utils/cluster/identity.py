# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster is this: its uid, its versions and the configuration of KubeVirt?"""

from __future__ import annotations

import re
import typing as t

from ..api.client import ApiClient
from ..api.errors import ApiError, Forbidden, NotFound
from ..api.lists import list_all
from ..kinds.vmi import KUBEVIRT_V1
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.obstacle import NO_RIGHT, NOT_READ
from ..model.snapshot import Platform, Unreadable

Minor = tuple[int, int]


KUBEVIRT_PATH = f"/apis/{KUBEVIRT_V1}/kubevirts"
"""KubeVirt refuses a second object, in any namespace (pkg/virt-operator/webhooks, kubevirt-create-admitter.go)."""


OLDEST_KUBERNETES, NEWEST_KUBERNETES = (1, 31), (1, 36)
OLDEST_KUBEVIRT, NEWEST_KUBEVIRT = (1, 4), (1, 8)
"""The releases between which the collection is tested: docs/compatibility.md. mismatchLabelKeys of pod
affinity, which rules for VMs need, is on by default from Kubernetes 1.31."""


def platform_and_gaps(api: ApiClient) -> tuple[Platform, tuple[Unreadable, ...]]:
    """The platform, and the objects about it that are forbidden: their fields have KubeVirt's defaults.

    `kubevirt` is None where KubeVirt is not installed, and "" where its version is not known. Raises
    InvalidInput for a server that is too old. A server that is newer than the tested ones gets a remark.
    """
    gaps: list[Unreadable] = []

    def unless_forbidden(read: t.Callable[[], JSON], otherwise: JSON) -> JSON:
        try:
            return read()
        except Forbidden as error:
            gaps.append(unreadable(error))
            return otherwise

    uid = unless_forbidden(api.cluster_uid, "")
    version = unless_forbidden(lambda: api.get("/version"), {})
    try:
        installed = unless_forbidden(lambda: list_all(api, KUBEVIRT_PATH).items, ({},))
    except NotFound:
        installed = ()
    fields = _kubevirt_fields(installed[0]) if installed else {}
    platform = Platform(uid=uid, api=api.host, kubernetes=_release(version), **fields)
    if faults := too_old(platform):
        raise InvalidInput(faults)
    if (newer := newer_than_tested(platform)) and newer not in api.remarks:
        api.remarks.append(newer)
    return platform, tuple(gaps)


def too_old(platform: Platform) -> tuple[InputError, ...]:
    """Why this server is refused; empty if it is not, or if its releases are not known."""
    return tuple(
        InputError(
            "cluster",
            f"{name} {_text(seen)} of {platform.api} is too old: {_text(oldest)} or newer is needed."
            f" Nothing was written. Upgrade {name}; docs/compatibility.md has the releases that are supported",
        )
        for name, seen, oldest, _newest in _releases(platform)
        if (0, 0) < seen < oldest
    )


def newer_than_tested(platform: Platform) -> str | None:
    """One line about the releases of this server that are newer than the tested ones; None if none is."""
    newer = [
        f"{name} {_text(seen)} is newer than {_text(newest)}, the newest that is tested"
        for name, seen, _oldest, newest in _releases(platform)
        if seen > newest
    ]
    return "; ".join(newer) or None


def _releases(platform: Platform) -> tuple[tuple[str, Minor, Minor, Minor], ...]:
    """Name, release of the server, oldest and newest release that are tested."""
    return (
        ("Kubernetes", platform.kubernetes, OLDEST_KUBERNETES, NEWEST_KUBERNETES),
        ("KubeVirt", platform.kubevirt_release, OLDEST_KUBEVIRT, NEWEST_KUBEVIRT),
    )


def _text(minor: Minor) -> str:
    return "{}.{}".format(*minor)


def unreadable(error: ApiError) -> Unreadable:
    """The Unreadable entry for a request that is forbidden, or whose version is not served."""
    request = error.request
    account = (error.account or "") if isinstance(error, Forbidden) else ""
    code = NO_RIGHT if isinstance(error, Forbidden) and error.lacks_right else NOT_READ
    return Unreadable(
        request.resource, request.namespace, request.verb, error.advise(), account, code
    )


def _kubevirt_fields(kubevirt: t.Mapping[str, JSON]) -> dict[str, t.Any]:
    """The fields of a Platform from the KubeVirt object; missing ones have defaults."""
    configuration = (kubevirt.get("spec") or {}).get("configuration") or {}
    migrations = configuration.get("migrations") or {}
    named = {
        "kubevirt_namespace": (kubevirt.get("metadata") or {}).get("namespace"),
        "kubevirt": (kubevirt.get("status") or {}).get("observedKubeVirtVersion") or "",
        "rollout_strategy": configuration.get("vmRolloutStrategy"),
        "eviction_strategy": configuration.get("evictionStrategy"),
        "migrations_per_cluster": migrations.get("parallelMigrationsPerCluster"),
        "migrations_per_node": migrations.get("parallelOutboundMigrationsPerNode"),
        "configuration": configuration,
        "architecture": (kubevirt.get("status") or {}).get("defaultArchitecture"),
    }
    return {name: value for name, value in named.items() if value is not None}


def _release(version: t.Mapping[str, JSON]) -> tuple[int, int]:
    """(major, minor); providers write minor as `31+`."""
    parts = [re.match(r"\d+", str(version.get(name) or "")) for name in ("major", "minor")]
    major, minor = (int(part.group()) if part else 0 for part in parts)
    return major, minor
