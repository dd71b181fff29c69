# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes Events: what was done, told where an administrator looks, also after the job is lost."""

from __future__ import annotations

import datetime

from ..api.errors import ApiError
from ..api.requests import Api
from ..model.kinds import KINDS
from ..model.names import FIELD_MANAGER, RUN
from ..model.objects import Ref

MESSAGE_LIMIT = 1000


def event(
    api: Api, about: Ref, reason: str, message: str, run: str, *, warning: bool, once: str
) -> bool:
    """Record an Event about a workload; False where it could not be recorded. `once` names it
    within the run: it is not recorded again.

    An Event that is lost harms nothing, so no error of it stops a run.
    """
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{FIELD_MANAGER}-{run}-{once}",
            "namespace": about.namespace,
            "annotations": {RUN: run},
        },
        "involvedObject": {
            "apiVersion": KINDS[about.kind].group_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
        },
        "reason": reason,
        "message": message[:MESSAGE_LIMIT],
        "type": "Warning" if warning else "Normal",
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        api.create(f"/api/v1/namespaces/{about.namespace}/events", body)
    except ApiError:
        return False
    return True
