# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the instance types of a cluster, those of namespaces and those of the cluster itself."""

from __future__ import annotations

from ..api.client import ApiClient
from ..api.errors import NotFound
from ..api.lists import list_converted
from ..kubevirt.instance_types import InstanceType, instance_type_from_manifest
from .served_versions import ServedVersions

_GROUP = "/apis/instancetype.kubevirt.io/v1beta1"
_KINDS = ("virtualmachineclusterinstancetypes", "virtualmachineinstancetypes")


def instance_types(api: ApiClient) -> tuple[InstanceType, ...]:
    """All of them; none where the server does not know the kinds. Raises ApiError, also for a missing right."""
    served = ServedVersions(api)

    def read(path: str) -> tuple[InstanceType, ...]:
        return list_converted(api, path, instance_type_from_manifest).items

    try:
        lists = [served.read(f"{_GROUP}/{kind}", read, older=("v1",)) for kind in _KINDS]
    except NotFound:
        return ()
    return tuple(x for listed in lists for x in listed)
