# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a drain that did not end leave in the cluster, and how is it undone before its nodes are in service?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..api.errors import TRANSIENT_ERRORS, ApiError, NotFound
from ..api.lists import list_all
from ..cluster import lease
from ..kinds.vmi import KUBEVIRT_V1, VMIS
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import MIGRATIONS, RUN
from ..model.objects import Node
from ..model.obstacle import Obstacle
from ..model.write import Write
from ..moves import journal as journals
from ..moves import takeover
from ..moves.context import StepContext
from ..moves.migrate import NOT_CANCELED, phase_of
from ..moves.recreate import SUBRESOURCES
from ..moves.state import RunState
from . import steering
from .mark import Mark

NODE_NAME = "kubevirt.io/nodeName"
"""Label of a VMI with the node that it runs on (KubeVirt, api core/v1 types.go)."""

EVACUATION = "kubevirt.io/evacuationMigration"
"""Annotation of a migration that KubeVirt makes for an evacuation: the node (api core/v1 types.go)."""

_VMIS = f"/apis/{KUBEVIRT_V1}/{VMIS}"
_MIGRATIONS = f"/apis/{KUBEVIRT_V1}/{MIGRATIONS}"


@dataclass(slots=True)
class ReturnState(RunState):
    """`undone` are lines about what earlier steps did. `checked`: the rights were. `starting` are the nodes that were
    uncordoned and had a startup taint. `started`: the VMs that were started again, as in a result."""

    checked: bool = False
    undone: list[str] = field(default_factory=list)
    starting: list[str] = field(default_factory=list)
    started: list[dict[str, JSON]] = field(default_factory=list)


class UndoOfDrain:
    """Undoes what drains of nodes left. What it wrote to nodes is in the context; `undone` of the state has lines about
    what else it did."""

    def __init__(self, context: StepContext, state: ReturnState) -> None:
        self._context, self._state = context, state
        self._api, self._lines = context.api, context.report.lines

    def undo(
        self, back: t.Sequence[tuple[Node, Mark]], all_nodes: t.Iterable[Node]
    ) -> Obstacle | None:
        """Undo what an unfinished drain of these nodes left: its journal, its taints of other nodes, its pending
        migrations, marks of evacuation. Returns why that has to wait. Raises InvalidInput with what could not be
        undone."""
        names = {node.name for node, _mark in back}
        if held_up := self._forget_moves(names):
            return held_up
        applied = steering.write_taints(self._api, left_steering(back, all_nodes))
        self._context.writes += applied.done
        self._lines += steering.lines(applied, steering.LEFT_BY_OTHERS, steering.REMOVE)
        errors: list[InputError] = []
        for node, mark in back:
            vmis = self.vmis_on(node)
            evacuated = [vmi for vmi in vmis if _is_evacuated(vmi, node)]
            if mark.cordoned:
                self._each(errors, "evacuation of VMI", self._cancel_evacuation, node, evacuated)
            else:  # an evacuation is of the client that cordoned the node
                self._lines += [
                    f"node {node.name}: evacuation of VMI {_name(vmi)} is left to the client that cordoned the node"
                    for vmi in evacuated
                ]
            keys = {(vmi["metadata"]["namespace"], vmi["metadata"]["name"]) for vmi in vmis}
            pending = [
                migration
                for migration in (self._list(_MIGRATIONS) if keys else ())
                if (migration["metadata"]["namespace"], migration["spec"]["vmiName"]) in keys
                and phase_of(migration) not in NOT_CANCELED
                and _of_drain(migration, node, mark)
            ]
            self._each(errors, "migration", self._delete_migration, node, pending)
        if errors:
            raise InvalidInput(errors)
        return None

    def vmis_on(self, node: Node) -> tuple[JSON, ...]:
        return self._list(_VMIS, f"{NODE_NAME}={node.name}")

    def _each(
        self,
        errors: list[InputError],
        what: str,
        undo: t.Callable[[Node, JSON], str],
        node: Node,
        objects: t.Iterable[JSON],
    ) -> None:
        for item in objects:
            try:
                line = undo(node, item)
            except NotFound:
                continue
            except TRANSIENT_ERRORS:
                raise
            except ApiError as error:
                why = f"{what} {_name(item)} could not be undone: {error}"
                errors.append(InputError(f"Node {node.name}", why, "api"))
                continue
            if line:
                self._lines.append(line)
                self._state.undone.append(line)
                self._state.changed = True

    def _cancel_evacuation(self, node: Node, vmi: JSON) -> str:
        namespace, name = vmi["metadata"]["namespace"], vmi["metadata"]["name"]
        path = f"{SUBRESOURCES}/{namespace}/virtualmachineinstances/{name}/evacuate/cancel"
        try:
            self._api.call_subresource(path, {"evacuationNodeName": node.name})
        except NotFound:  # the VMI, or what an older virt-api serves
            now = self._api.get(f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{VMIS}/{name}")
            if _is_evacuated(now, node):
                self._lines.append(
                    f"node {node.name}: VMI {namespace}/{name} stays marked for evacuation, since this"
                    " KubeVirt does not serve evacuate/cancel: it may still be migrated away"
                )
            return ""
        return f"node {node.name}: evacuation of VMI {_name(vmi)} canceled"

    def _delete_migration(self, node: Node, migration: JSON) -> str:
        metadata = migration["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        path = f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{MIGRATIONS}/{name}"
        self._api.delete(path, uid=metadata["uid"])
        return f"node {node.name}: pending migration {_name(migration)} deleted"

    def _list(self, path: str, selector: str = "") -> tuple[JSON, ...]:
        params = {"labelSelector": selector} if selector else {}
        try:
            return tuple(list_all(self._api, path, params=params).items)
        except NotFound:
            return ()

    def _forget_moves(self, nodes: t.Collection[str]) -> Obstacle | None:
        """Take moves away from these nodes out of the journal of a run that did not end. Returns why that
        has to wait."""
        reading = lease.read(self._api)
        journal = takeover.read_journal(reading)
        about = (
            [record for record in journal.records if record.source in nodes]
            if journal is not None
            else []
        )
        if journal is None or not about:
            return None
        judged = self._state.watch_lease(reading, self._context.elapsed)
        if judged.renewing:
            raise InvalidInput(
                [
                    InputError(
                        lease.NAME,
                        f"run {reading.holder} moves instances away from {', '.join(sorted(nodes))} and"
                        " is running: end it first",
                    )
                ]
            )
        if not judged.free:
            text = f"waiting up to {lease.DURATION} s to see whether run {reading.holder} has ended"
            return Obstacle("other_run", text, True)
        left = tuple(record for record in journal.records if record.source not in nodes)
        text = journals.write(replace(journal, records=left)) if left else ""
        held = lease.take(self._api, reading, journal.run, text)
        if held is None:
            return Obstacle("other_run", "waiting for another run, which has just begun", True)
        lease.release(self._api, held, text)
        return None


def _is_evacuated(vmi: JSON, node: Node) -> bool:
    return bool((vmi.get("status") or {}).get("evacuationNodeName") == node.name)


def _name(item: JSON) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _of_drain(migration: JSON, node: Node, mark: Mark) -> bool:
    """Whether a run of this collection made the migration, or KubeVirt for an evacuation that is
    canceled."""
    metadata = migration["metadata"]
    evacuated = (metadata.get("annotations") or {}).get(EVACUATION) == node.name
    return RUN in (metadata.get("labels") or {}) or (evacuated and mark.cordoned)


def left_steering(
    marked: t.Iterable[tuple[Node, Mark]], all_nodes: t.Iterable[Node]
) -> list[Write]:
    """The writes that take away the taints of the runs that drained these nodes and did not end."""
    return steering.taken_off(all_nodes, {mark.run for _node, mark in marked})
