# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster this is."""

from __future__ import annotations

from ..api.requests import METADATA, Api

IDENTITY_PATH = "/api/v1/namespaces/kube-system"
"""Its uid is the cluster's: the namespace is as old as the cluster and cannot be deleted."""


def cluster_uid(api: Api) -> str:
    """The uid of the cluster. Raises ApiError."""
    return str(api.get(IDENTITY_PATH, accept=METADATA)["metadata"]["uid"])
