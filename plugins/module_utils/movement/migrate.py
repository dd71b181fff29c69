# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a VMI by live migration: intended -> begun -> moved, or cancelled when it takes too long.

Pure. The migration object's name follows from run, VMI and attempt, so that a lost answer or a
killed run finds what it made instead of making it again.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import replace

from ..model import names
from ..model.pointer import JSON
from .entry import (
    CANCEL_PATIENCE,
    Answer,
    Ended,
    Entry,
    Outcome,
    Phase,
    Reply,
    Request,
    Seen,
    Settings,
    Step,
)

UNSCHEDULABLE_TIMEOUT = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"
"""Annotation on a migration: seconds until KubeVirt gives up on a target pod that no node takes
(default 300, in which it fills one of the cluster's few migration slots)."""

_API = "/apis/kubevirt.io/v1/namespaces"
_FINAL = ("Succeeded", "Failed")


def migration_name(entry: Entry, run: str) -> str:
    digest = hashlib.sha256(entry.uid.encode()).hexdigest()[:12]
    return f"placement-{run}-{digest}-{entry.attempt}"


def migration_path(entry: Entry, run: str) -> str:
    namespace = entry.instance.namespace
    return f"{_API}/{namespace}/virtualmachineinstancemigrations/{migration_name(entry, run)}"


def migration_body(entry: Entry, settings: Settings) -> dict[str, JSON]:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "name": migration_name(entry, settings.run),
            "namespace": entry.instance.namespace,
            "labels": {names.RUN: settings.run},
            "annotations": {UNSCHEDULABLE_TIMEOUT: str(int(settings.unschedulable_timeout))},
        },
        "spec": {
            "vmiName": entry.instance.name,
            **({"addedNodeSelector": dict(entry.pin)} if entry.pin else {}),
        },
    }


def advance(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    """What to do next with this migration."""
    if entry.phase is Phase.INTENDED:
        return _intended(entry, seen, now, settings)
    phase = _phase(seen.migration)
    if seen.migration is None or phase in _FINAL:
        in_time = now - entry.begun < settings.move_timeout
        return _ended(entry, seen, phase, in_time=in_time)
    if entry.phase is Phase.CANCELLING:
        if now - entry.begun < settings.move_timeout + CANCEL_PATIENCE:
            return Step(entry)
        reason = f"cancelled, and still {phase or 'queued'}; {entry.note}"
        return Step(entry, ended=Ended(Outcome.FAILED, reason=reason))
    entry = replace(entry, note=seen.pending or f"the migration is {phase or 'queued'}")
    if now - entry.begun < settings.move_timeout:
        return Step(entry)
    return _cancel(entry, seen.migration, settings)


def cancel(entry: Entry, seen: Seen, settings: Settings) -> Step:
    """Call the migration off, unless the guest is being copied already."""
    if seen.migration is None or _phase(seen.migration) in (*_FINAL, "Running"):
        return Step(entry)
    return _cancel(entry, seen.migration, settings)


def answered(entry: Entry, answer: Answer) -> Step:
    """What the API server said to the create or the delete."""
    if entry.phase is Phase.CANCELLING:
        return Step(entry)
    if answer.reply is Reply.ACCEPTED:
        return Step(replace(entry, phase=Phase.BEGUN, note=""))
    if answer.reply is Reply.REFUSED:
        return Step(entry, ended=Ended(Outcome.FAILED, reason=answer.reason))
    return Step(replace(entry, note=answer.reason))


def _intended(entry: Entry, seen: Seen, now: float, settings: Settings) -> Step:
    if seen.migration is not None:
        return advance(replace(entry, phase=Phase.BEGUN), seen, now, settings)
    if seen.instance is None:
        return Step(entry, ended=Ended(Outcome.GONE, reason="the instance ended before its move"))
    if now - entry.begun >= settings.move_timeout:
        reason = f"not begun within {int(settings.move_timeout)} s: {entry.note}"
        return Step(entry, ended=Ended(Outcome.FAILED, reason=reason))
    if seen.others_migrate:
        return Step(replace(entry, note="somebody else migrates it"))
    if seen.propagating:
        return Step(replace(entry, note="KubeVirt has not yet brought the placement to the VMI"))
    path = migration_path(entry, settings.run).rpartition("/")[0]
    return Step(entry, Request("create", path, migration_body(entry, settings)))


def _cancel(entry: Entry, migration: t.Mapping[str, JSON], settings: Settings) -> Step:
    uid = migration["metadata"]["uid"]
    request = Request(
        "delete", migration_path(entry, settings.run), {"preconditions": {"uid": uid}}
    )
    return Step(replace(entry, phase=Phase.CANCELLING), request)


def _ended(entry: Entry, seen: Seen, phase: str, *, in_time: bool) -> Step:
    vmi = seen.instance.vmi if seen.instance is not None else None
    if vmi is None:
        return Step(entry, ended=Ended(Outcome.GONE, reason="the instance ended during its move"))
    if vmi.node_name and vmi.node_name != entry.source:
        return Step(entry, ended=Ended(Outcome.MOVED, node=vmi.node_name))
    if phase == "Succeeded":
        note = "the migration succeeded, and the VMI does not say so"
        if in_time:
            return Step(replace(entry, note=note))
        return Step(entry, ended=Ended(Outcome.FAILED, reason=note))
    return Step(entry, ended=Ended(Outcome.FAILED, reason=_why(entry, seen, vmi.migration)))


def _why(entry: Entry, seen: Seen, state: t.Mapping[str, JSON]) -> str:
    """Why it failed: the VMI's word on this very migration, else what was last seen of it."""
    if entry.phase is Phase.CANCELLING:
        return f"cancelled because it took too long: {entry.note}"
    if seen.migration is None:
        return "the migration object was deleted: somebody cancelled it"
    mine = state.get("migrationUid") == seen.migration["metadata"]["uid"]
    said = state.get("failureReason") if mine else None
    return str(said or seen.pending or entry.note or "the migration failed, KubeVirt says not why")


def _phase(migration: t.Mapping[str, JSON] | None) -> str:
    return str(((migration or {}).get("status") or {}).get("phase") or "")
