# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The soft taint by which a drain steers restarted VMs away from nodes that the same job services later.

kube-scheduler only scores by PreferNoSchedule: no pod is kept away, so no forecast reads the taint. A drain has it on
those nodes while it holds the Lease, with its run as the value. A run that is killed leaves it beside a node whose
mark has the same run: who continues or undoes that drain takes it away.
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..api.transport import Deadline
from ..cluster.patching import Applied, apply
from ..cluster.reading import NODES_ONLY, read_snapshot
from ..model.findings import InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import SERVICED_LATER
from ..model.manifests import node_from_manifest
from ..model.objects import Node, Taint
from ..model.rendering import listed
from ..model.write import END_OF_LIST, Operation, Write
from ..moves.state import StepReport
from .mark import TAINTS, taints_test

if t.TYPE_CHECKING:
    from .drain_plan import DrainView
    from .drain_state import DrainState

EFFECT = "PreferNoSchedule"
TAINT = f"{SERVICED_LATER}:{EFFECT}"

LIMIT = 5.0
"""Seconds that the end of a drain may take for its taints: it may end since the server does not answer."""

STEERS = f"VMs that are restarted avoid nodes that are serviced later (taint {TAINT}):"
LEFT_BY_OTHERS = f"taint {TAINT}, which a maintenance that was killed has left, removed from"
GRANT = (
    "the drain goes on, and VMs may be restarted again on these nodes: apply rbac/maintainer.yml and"
    " rbac/policies.yml of this release, or leave serviced_later out (placement_maintenance_steer_restarts: false)"
)
REMOVE = f"remove it: kubectl taint node NODE {TAINT}-"


def steering_run(node: Node) -> str | None:
    """The run whose taint the node has; None if it has none."""
    return next((x.value for x in node.taints if _is_ours(x)), None)


def _is_ours(taint: Taint) -> bool:
    return (taint.key, taint.effect) == (SERVICED_LATER, EFFECT)


def nodes_to_avoid(view: DrainView, later: t.Collection[str]) -> frozenset[str]:
    """Those of `later` that get the taint in this drain: none unless a VM is restarted, and another node takes it."""
    if not later or not view.restarts:
        return frozenset()
    takes_pods = frozenset(
        node.name
        for node in view.snapshot.nodes
        if node.ready and not node.unschedulable and node.name not in view.nodes
    )
    avoided = takes_pods.intersection(later)
    return avoided if avoided < takes_pods else frozenset()


def steering_write(node: Node, run: str) -> Write | None:
    """The write after which the node has the taint of this run, with "" that of none; None if it is so. All other
    taints stay as they are, in their order."""
    before = steering_run(node) or ""
    place = next((n for n, taint in enumerate(node.taints) if _is_ours(taint)), None)
    taint = {"key": SERVICED_LATER, "value": run, "effect": EFFECT}
    if before == run and (run or place is None):
        return None
    if place is None:
        end = Operation("add", TAINTS / END_OF_LIST, taint)
        operation = end if node.taints else Operation("add", TAINTS, [taint])
    elif run:
        operation = Operation("replace", TAINTS / str(place), taint)
    else:
        only = len(node.taints) == 1
        operation = Operation("remove", TAINTS if only else TAINTS / str(place))
    return Write(
        target=node.ref,
        path=f"/api/v1/nodes/{node.name}",
        uid=node.uid,
        tests=(taints_test(node),),
        operations=(operation,),
        before={"serviced_later": before or None},
        after={"serviced_later": run or None},
    )


def put_on(nodes: t.Iterable[Node], names: t.Container[str], run: str) -> list[Write]:
    """The writes that put the taint of the run on these nodes."""
    writes = (steering_write(node, run) for node in nodes if node.name in names)
    return [write for write in writes if write is not None]


def taken_off(
    nodes: t.Iterable[Node], runs: t.Collection[str] | None = None, keep: t.Container[str] = ()
) -> list[Write]:
    """The writes that take the taint of these runs, None for all, off the nodes, but for those to `keep`."""
    writes = (
        steering_write(node, "")
        for node in nodes
        if node.name not in keep and (runs is None or steering_run(node) in runs)
    )
    return [write for write in writes if write is not None]


def write_taints(api: ApiClient, writes: t.Sequence[Write]) -> Applied:
    """A node that got the taint of another run meanwhile keeps that."""

    def recompute(write: Write, manifest: JSON) -> Write | None:
        node = node_from_manifest(manifest)
        run, before = write.after["serviced_later"], write.before["serviced_later"]
        if not run and steering_run(node) != before:
            return None
        return steering_write(node, run or "")

    return apply(api, writes, recompute=recompute)


def lines(applied: Applied, words: str, advice: str) -> list[str]:
    """A line of `words` and the nodes that were written, if there are words, and a warning about those that could not
    be."""
    done = sorted(write.target.name for write in applied.done)
    texts = [f"{words} {listed(done)}"] if done and words else []
    if applied.failed:
        names = listed(sorted(failure.write.target.name for failure in applied.failed))
        texts.append(not_changed(names, str(applied.failed[0].error), advice))
    return texts


def would_be_taken_off(writes: t.Sequence[Write]) -> list[str]:
    """The line of check mode."""
    names = sorted(write.target.name for write in writes)
    return [f"taint {TAINT} would be removed from {listed(names)}"] if names else []


def not_changed(names: str, why: str, advice: str) -> str:
    return f"warning: taint {TAINT} of {names} could not be changed: {why}; {advice}"


class Steering:
    """The taints of one drain. `later`: names of the nodes that its job services later. What it writes is in the state
    and the report of the drain, and returned."""

    def __init__(self, later: frozenset[str], state: DrainState, report: StepReport) -> None:
        self._later, self._state, self._report = later, state, report

    def planned(self, view: DrainView, run: str) -> list[Write]:
        """What a drain that begins now would write."""
        avoided, nodes = nodes_to_avoid(view, self._later), view.snapshot.nodes
        return [*taken_off(nodes, keep=avoided), *put_on(nodes, avoided, run)]

    def end_of_others(self, api: ApiClient, view: DrainView) -> list[Write]:
        """Take away the taints of other runs: the drain holds the Lease, so those were killed. Before its mark replaces
        theirs, which name these runs; so also where the drain puts its own."""
        return self._write(api, taken_off(view.snapshot.nodes), LEFT_BY_OTHERS, REMOVE)

    def begin(self, api: ApiClient, view: DrainView, run: str) -> list[Write]:
        """Put the taint on where a VM is going to be restarted; once a run. It goes on where that is refused."""
        avoided = nodes_to_avoid(view, self._later)
        if not avoided:
            return []
        self._state.steers, self._state.steered = True, sorted(avoided)
        return self._write(api, put_on(view.snapshot.nodes, avoided, run), STEERS, GRANT)

    def end(self, api: ApiClient, run: str) -> list[Write]:
        """Take the taint of this run away. What could not be read or written is named."""
        names, self._state.steered = listed(self._state.steered), []
        api = api.under(Deadline(LIMIT))
        try:
            nodes = read_snapshot(api, NODES_ONLY).nodes
        except (ApiError, InvalidInput) as error:
            self._report.lines.append(not_changed(names, str(error), REMOVE))
            return []
        return self._write(api, taken_off(nodes, {run}), "", REMOVE)

    def _write(
        self, api: ApiClient, writes: t.Sequence[Write], words: str, advice: str
    ) -> list[Write]:
        applied = write_taints(api, writes)
        self._report.changed |= bool(applied.done)
        self._report.lines += lines(applied, words, advice)
        return list(applied.done)
