# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a run record as Events on workloads and nodes?

Events remain when the job's output is lost. The name of an Event follows from the run and from what it
is about, so that it is recorded once. A lost Event harms nothing: no error of it stops a run.
"""

from __future__ import annotations

import contextlib
import datetime
import typing as t

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..kinds.registry import INSTANCES, KINDS
from ..model.json_pointer import JSON
from ..model.kinds import FIELD_MANAGER, RUN
from ..model.write import Write
from .journal import digest
from .move import MoveRecord, MoveResult, Outcome

_MESSAGE_LIMIT = 1000


_OF_NODES = "default"
"""The namespace of Events about objects without one (apiserver validation of Events)."""


def record_event(api: ApiClient, run: str, record: MoveRecord, end: MoveResult) -> None:
    """An Event on the workload about a move that ended."""
    failed = end.outcome is Outcome.FAILED
    workload = record.workload if record.workload.kind in KINDS else record.instance
    kind = KINDS.get(workload.kind)
    result = end.reason or (f"{record.source} -> {end.node}" if end.node else record.source)
    about = {
        "apiVersion": kind.group_version if kind else INSTANCES[workload.kind],
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
    }
    once = f"{digest(record.uid)}-{record.attempt}-{end.outcome}"
    reason = "PlacementMoveFailed" if failed else "PlacementMoved"
    message = f"{record.method} of {record.instance}: {result}"
    _record(api, run, once, about, reason, message, failed=failed)


def record_node_event(api: ApiClient, run: str, write: Write, phase: str, why: str) -> None:
    """An Event on the node about a step of its maintenance."""
    about = {"apiVersion": "v1", "kind": "Node", "name": write.target.name, "uid": write.uid}
    message = f"maintenance: {phase}{f' ({why})' if why else ''}"
    once = f"{digest(write.uid)}-{phase.replace('_', '-')}"
    _record(api, run, once, about, "PlacementMaintenance", message)


def _record(
    api: ApiClient,
    run: str,
    once: str,
    about: t.Mapping[str, JSON],
    reason: str,
    message: str,
    *,
    failed: bool = False,
) -> None:
    namespace = about.get("namespace", _OF_NODES)
    now = timestamp()
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{FIELD_MANAGER}-{run}-{once}",
            "namespace": namespace,
            "annotations": {RUN: run},
        },
        "involvedObject": dict(about),
        "reason": reason,
        "message": message[:_MESSAGE_LIMIT],
        "type": "Warning" if failed else "Normal",
        "source": {"component": FIELD_MANAGER},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    with contextlib.suppress(ApiError):
        api.create(f"/api/v1/namespaces/{namespace}/events", body)


def timestamp() -> str:
    """Now, as the API writes times (RFC 3339)."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
