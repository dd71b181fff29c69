# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a VMI by live migration: intended -> begun -> moved, or canceled when it takes too long.

Pure. The migration object's name follows from run, VMI and attempt, so that a run
recognizes its migration after a lost answer or a crash, and does not create a second one.
"""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import replace

from ..cluster.leader import silence_of
from ..kinds.vmi import KUBEVIRT_V1
from ..kubevirt.labels import UNSCHEDULABLE_TIMEOUT
from ..model import kinds as names
from ..model.json_pointer import JSON
from ..model.kinds import MIGRATIONS
from ..model.obstacle import NO_ANSWER, Obstacle
from .move import (
    CANCEL_PATIENCE,
    ApiCall,
    ApiReply,
    MoveRecord,
    MoveResult,
    MoveSettings,
    Observation,
    Outcome,
    Phase,
    ReplyStatus,
    StateMachine,
    Transition,
    without_move,
)

HANDOVER_PATIENCE = 330.0
"""Seconds beyond the time of a move in which virt-handler hands over a guest that has arrived. Where it missed the end
of the migration, it sees it at its next resync, after 300 s (kubevirt, cmd/virt-handler/virt-handler.go,
defaultDomainResyncPeriodSeconds)."""

RETRY_PATIENCE = 20.0
"""Seconds after which a target pod without a node is compared with what the nodes have room for now."""

FINAL = ("Succeeded", "Failed")
"""Phases of a migration that has ended."""

NOT_CANCELED = (*FINAL, "Running")
"""Phases of a migration that is not canceled any more."""

GOING_ON = "in_progress"
"""The code of a migration of which no more than its phase is known."""

ANSWER_PATIENCE = 20.0
"""Seconds after which a migration without a phase is named. A virt-controller that leads gives it one at once, Pending
or Failed, however many are queued (kubevirt, pkg/virt-controller/watch/migration/migration.go, processMigrationPhase).
A leader that has died is replaced within 15 s (client-go, leaderelection)."""


def migration_name(record: MoveRecord, run: str) -> str:
    digest = hashlib.sha256(record.uid.encode()).hexdigest()[:12]
    return f"placement-{run}-{digest}-{record.attempt}"


def migration_path(record: MoveRecord, run: str) -> str:
    namespace = record.instance.namespace
    return f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{MIGRATIONS}/{migration_name(record, run)}"


def migration_body(record: MoveRecord, settings: MoveSettings) -> dict[str, JSON]:
    return {
        "apiVersion": KUBEVIRT_V1,
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "name": migration_name(record, settings.run),
            "namespace": record.instance.namespace,
            "labels": {names.RUN: settings.run},
            "annotations": {UNSCHEDULABLE_TIMEOUT: str(int(settings.unschedulable_timeout))},
        },
        "spec": {
            "vmiName": record.instance.name,
            **({"addedNodeSelector": dict(record.node_selector)} if record.node_selector else {}),
        },
    }


def advance(
    record: MoveRecord, seen: Observation, now: float, settings: MoveSettings
) -> Transition:
    """What to do next with this migration."""
    if record.phase is Phase.INTENDED:
        return _intended(record, seen, now, settings)
    phase = phase_of(seen.migration)
    if seen.migration is None or phase in FINAL:
        in_time = now - record.begun < settings.move_timeout
        return _ended(record, seen, phase, in_time=in_time)
    if record.phase is Phase.GIVEN_UP:
        return Transition(record)
    if arrived := _node_of_guest(record, seen):
        vmi = seen.instance.vmi if seen.instance is not None else None
        handed_over = vmi is not None and vmi.node_name == arrived
        return _ends_late(record, arrived, now, settings, handed_over=handed_over)
    if record.phase is Phase.CANCELLING:
        if now - record.begun < settings.move_timeout + CANCEL_PATIENCE:
            return Transition(record)
        why = _unanswered(record, seen, now, settings) or record.obstacle
        note = f"its migration was canceled and is still {phase or 'queued'} ({why or ''})"
        code = why.code if why is not None else ""
        return Transition(replace(record, phase=Phase.GIVEN_UP, note=note, code=code))
    silence = _unanswered(record, seen, now, settings)
    before = phase in ("", "Pending")  # what KubeVirt migrates first; then the target pod
    also = seen.behind if before else seen.target if phase != "Running" else ""
    text = f"the migration is {phase or 'queued'}{f'; {also}' if also else ''}"
    going_on = Obstacle(GOING_ON, text, True)
    held_by = seen.quota or _pending(record, seen, now) or seen.refused or silence or going_on
    record = record.held_by(held_by)
    hopeless = seen.quota is not None and seen.alone
    timeout = settings.unschedulable_timeout if hopeless else settings.move_timeout
    if now - record.begun < timeout:
        return Transition(record)
    return _cancel(record, seen.migration, settings)


def _node_of_guest(record: MoveRecord, seen: Observation) -> str | None:
    """The node on which the guest runs already, though its migration has not ended; None where that is not so. The
    source's launcher has ended then, so that the target's is the only one; the VMI may name either node."""
    pod = seen.instance.pod if seen.instance is not None else None
    if pod is None or pod.phase != "Running" or phase_of(seen.migration) != "Running":
        return None
    return pod.node_name if pod.node_name not in ("", record.source) else None


def _ends_late(
    record: MoveRecord, node: str, now: float, settings: MoveSettings, *, handed_over: bool
) -> Transition:
    """Wait for the end of a migration whose guest has moved, in which there is nothing left to cancel. `handed_over`:
    the VMI names the node, too."""
    late = f"its VMI still names node {record.source}"
    soon, component = "virt-handler hands it over within 5 minutes", f"virt-handler on node {node}"
    if handed_over:
        late, component = "its migration has not ended", "virt-controller"
        soon = "virt-controller ends it"
    if now - record.begun < settings.move_timeout + HANDOVER_PATIENCE:
        note = f"its guest runs on node {node} already, and {late}: {soon}"
        return Transition(record.held_by(Obstacle("in_progress", note, True)))
    note = f"its guest runs on node {node}, and {late}: look at {component}"
    given_up = record.held_by(Obstacle("in_progress", note))
    return Transition(replace(given_up, phase=Phase.GIVEN_UP))


def _pending(record: MoveRecord, seen: Observation, now: float) -> Obstacle | None:
    """Why the target pod has no node. kube-scheduler's last word may be old: it tries a pod again when an event may
    have changed its answer, and takes some events for others (scheduler, queueing hints), else after 5 minutes."""
    if seen.pending is None or not seen.free_node or now - record.begun < RETRY_PATIENCE:
        return seen.pending
    text = (
        f"its target pod has no node, though node {seen.free_node} takes it now: kube-scheduler has not tried it"
        f" again. A new migration is tried at once: run again after this run. Its last answer: {seen.pending}"
    )
    return replace(seen.pending, text=text)


def cancel(record: MoveRecord, seen: Observation, settings: MoveSettings) -> Transition:
    """Call the migration off, unless the guest is being copied already."""
    if seen.migration is None or phase_of(seen.migration) in NOT_CANCELED:
        return Transition(record)
    return _cancel(record, seen.migration, settings)


def answered(record: MoveRecord, reply: ApiReply) -> Transition:
    """After the API server answered the create or the delete."""
    if record.phase is Phase.CANCELLING:
        return Transition(record)
    if reply.status is ReplyStatus.ACCEPTED:
        return Transition(replace(record.held_by(None), phase=Phase.BEGUN))
    if reply.status is ReplyStatus.REFUSED:
        failed = MoveResult(Outcome.FAILED, reason=reply.reason, refused=True)
        return Transition(record, ended=failed)
    return Transition(record.held_by(reply.reason))


MACHINE = StateMachine(advance, answered)


def _intended(
    record: MoveRecord, seen: Observation, now: float, settings: MoveSettings
) -> Transition:
    if seen.migration is not None:
        return advance(replace(record, phase=Phase.BEGUN), seen, now, settings)
    if seen.instance is None:
        return without_move(record, Outcome.GONE, "gone", "the instance ended before its move")
    if now - record.begun >= settings.move_timeout:
        text = f"not started within {int(settings.move_timeout)} s: {record.note}"
        return without_move(record, Outcome.FAILED, record.code, text)
    if seen.foreign_migration:
        return Transition(
            record.held_by(Obstacle("in_progress", "another migration of it is in flight", True))
        )
    if seen.propagating:
        text = "KubeVirt has not copied the new placement to the VMI yet"
        return Transition(record.held_by(Obstacle("in_progress", text, True)))
    path = migration_path(record, settings.run).rpartition("/")[0]
    return Transition(record, ApiCall("create", path, migration_body(record, settings)))


def _unanswered(
    record: MoveRecord, seen: Observation, now: float, settings: MoveSettings
) -> Obstacle | None:
    """That virt-controller does nothing with the migration, or nothing at all, and for how long; None where it may.
    The text is the same until the time of the move is over."""
    waited = now - record.begun
    if phase_of(seen.migration) or waited < ANSWER_PATIENCE:
        return seen.no_leader
    if record.code == NO_ANSWER and waited < settings.move_timeout:
        return Obstacle(NO_ANSWER, record.note)
    migration = migration_name(record, settings.run)
    return silence_of(f" to migration {migration} for {waited:.0f} s:", seen.kubevirt_namespace)


def _cancel(
    record: MoveRecord, migration: t.Mapping[str, JSON], settings: MoveSettings
) -> Transition:
    metadata, spec = migration["metadata"], migration.get("spec") or {}
    ours = (metadata.get("labels") or {}).get(names.RUN) == settings.run
    if not ours or spec.get("vmiName") != record.instance.name:
        text = f"the migration {metadata.get('name')} is not of this run: it is not canceled"
        return without_move(record, Outcome.FAILED, "moved_by_others", text)
    uid = metadata["uid"]
    request = ApiCall(
        "delete", migration_path(record, settings.run), {"preconditions": {"uid": uid}}
    )
    return Transition(replace(record, phase=Phase.CANCELLING), request)


def _ended(record: MoveRecord, seen: Observation, phase: str, *, in_time: bool) -> Transition:
    vmi = seen.instance.vmi if seen.instance is not None else None
    if vmi is None:
        return without_move(record, Outcome.GONE, "gone", "the instance ended during its move")
    if vmi.node_name and vmi.node_name != record.source:
        return Transition(record, ended=MoveResult(Outcome.MOVED, node=vmi.node_name))
    if phase == "Succeeded":
        text = "the migration succeeded, but the status of the VMI does not show it"
        unseen = Obstacle("in_progress", text, in_time)
        if in_time:
            return Transition(record.held_by(unseen))
        return Transition(record, ended=MoveResult(Outcome.FAILED, reason=unseen))
    return Transition(
        record, ended=MoveResult(Outcome.FAILED, reason=_failure(record, seen, vmi.migration))
    )


def _failure(record: MoveRecord, seen: Observation, state: t.Mapping[str, JSON]) -> Obstacle:
    """The VMI's word on this very migration, else what was last seen of it."""
    if record.phase is Phase.GIVEN_UP:
        return Obstacle(record.code, record.note)
    uid = seen.migration["metadata"]["uid"] if seen.migration is not None else None
    failure = state.get("failureReason") if state.get("migrationUid") == uid else None
    silent = "and KubeVirt gives no reason"
    warning = f"; newest warning: {seen.warning}" if seen.warning is not None else ""
    advice = f"{warning}. Look at virt-handler on the node of the target pod, and at its log"
    if record.phase is Phase.CANCELLING:
        canceled = f"canceled because it took too long: {record.note}"
        is_silent = record.code == GOING_ON and phase_of(seen.migration) == "Failed" and not failure
        return Obstacle(record.code, f"{canceled}, {silent}{advice}" if is_silent else canceled)
    if seen.migration is None:
        return Obstacle(
            "migration_failed", "its VirtualMachineInstanceMigration was deleted, which cancels it"
        )
    if failure:
        return Obstacle("migration_failed", str(failure))
    if known := seen.pending or seen.refused:
        return known
    if record.obstacle is not None and record.code != GOING_ON:
        return record.obstacle
    last = f"; last seen: {record.note}" if record.note else ""
    return Obstacle("migration_failed", f"the migration failed, {silent}{last}{advice}")


def phase_of(migration: t.Mapping[str, JSON] | None) -> str:
    return str(((migration or {}).get("status") or {}).get("phase") or "")
