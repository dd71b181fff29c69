# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of an API group does the server serve? Asked once, after the first list that it does not serve."""

from __future__ import annotations

import threading
import typing as t

from ..api.client import ApiClient
from ..api.errors import ApiRequest, Forbidden, NotFound, UnservedVersion

_DISCOVERY = "/apis"
"""The APIGroupList of the server (apiserver, pkg/endpoints/discovery). The ClusterRole system:discovery, which
every authenticated identity has, grants it."""

_Read = t.TypeVar("_Read")


class ServedVersions:
    """The versions that a server serves. Several threads may use it."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._versions: t.Mapping[str, t.Sequence[str]] | None = None

    def read(self, path: str, read: t.Callable[[str], _Read], older: t.Sequence[str] = ()) -> _Read:
        """The result of `read` for the path, or for the path in the first of the `older` versions that is served.

        Raises NotFound if the kind cannot exist in this cluster, UnservedVersion if it may exist in a version
        that is not known here, and the other ApiErrors of a read.
        """
        try:
            return read(path)
        except NotFound:
            _root, api, group, version, *rest = path.split("/")
            if api != "apis":
                raise
            request = ApiRequest("GET", path)
            served = self._of(group, request)
            for other in older:
                if other in served:
                    return read("/".join(("", api, group, other, *rest)))
            if not served or version in served:
                raise
            known = " and ".join((version, *older))
            raise UnservedVersion(
                request,
                f"the server serves {group} in {' and '.join(served)} only, and this release of virt.placement"
                f" reads {known}: install a release that reads {served[0]}",
            ) from None

    def _of(self, group: str, request: ApiRequest) -> t.Sequence[str]:
        with self._lock:
            if self._versions is None:
                self._versions = self._discovered(request)
            return self._versions.get(group, ())

    def _discovered(self, request: ApiRequest) -> t.Mapping[str, t.Sequence[str]]:
        """The versions of each group, the preferred one first."""
        unserved = f"the server does not serve {'/'.join(request.path.split('/')[2:4])}"
        try:
            answer = self._api.get(_DISCOVERY)
        except NotFound:
            raise UnservedVersion(
                request,
                f"{unserved}, and {_DISCOVERY}, which names the versions that it serves, was not found: check that"
                " host is the address of an API server, and that nothing in between hides this path",
            ) from None
        except Forbidden:
            raise UnservedVersion(
                request,
                f"{unserved}, and this identity may not read at {_DISCOVERY} which versions it serves: bind the"
                " ClusterRole system:discovery to it",
            ) from None
        groups = answer.get("groups") if isinstance(answer, dict) else None
        if groups is None:
            raise UnservedVersion(
                request,
                f"{unserved}, and the answer of {_DISCOVERY}, which names the versions that it serves, has no groups:"
                " check that host is the address of an API server, and that nothing in between answers for it",
            )
        return {
            group["name"]: [version["version"] for version in group.get("versions") or ()]
            for group in groups
        }
