# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""May any one of some topology domains fail, so that each VM and pod finds another node, and how many VMs more?

The drills answer it. A state is green only if each of these failures is proven to leave nothing without a node,
whichever nodes the scheduler chooses. A number of more VMs is proven in the same way: in each failure all of
them need a node together with what ends. So it does not matter where they run before: those on the other nodes are
where one order of placements would put them, too.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..forecast.conclusion import WORSE, Doubt, ForecastResult, holds_at_last
from ..forecast.doubts import of_left_over, relevant_gaps
from ..forecast.drained import drained
from ..forecast.drill import Drill, DrillEngine, DrillReport
from ..forecast.drill_table import SHOWN_ROWS, impact_lines, totals
from ..forecast.simulation import PendingPod
from ..kinds.virtual_machine import VIRTUAL_MACHINE
from ..kubevirt.instance_types import InstanceType
from ..kubevirt.instances import settled
from ..kubevirt.next_pod import doubt_about_new_vm, launcher_pod, planned_vmi
from ..model.gc import collector_paused
from ..model.objects import Ref
from ..model.quantity import cpu_text, memory_text
from ..model.rendering import TextEnum, listed, plural, table_text
from ..model.snapshot import Platform, Snapshot, Workload, unreadable_texts
from ..model.topology import Topology
from ..scheduler.framework import pod_key
from ..scheduler.nodes import NodeSet
from ..view.view import ClusterView, view_of

MOST_VMS = 200
"""More VMs are not counted."""


class CapacityState(TextEnum):
    """Whether each failure leaves every instance with a node: certainly, perhaps, certainly not, or not known."""

    GREEN = "green"
    POSSIBLE = "possible"
    RED = "red"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Tolerated:
    """One of the domains of a label key fails: one of `domains`, or any of them where that is empty."""

    key: str
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VmSize:
    """A VM as its owner sees it: CPUs and bytes of memory of the guest, and all else of its instance type, if it has
    one."""

    cores: int
    memory: int
    instance_type: InstanceType | None = None

    def __str__(self) -> str:
        size = f"{plural(self.cores, 'core')}, {memory_text(self.memory)}"
        return f"{self.instance_type}: {size}" if self.instance_type else size


@dataclass(frozen=True, slots=True)
class RoomForVms:
    """`at_least` so many VMs more are proven to leave the state green, `at_most` would by their requests alone.
    `doubt`: why the pod of such a VM is not known, so that none is proven. `limit`: the failure after which one more is
    not proven to have a node."""

    size: VmSize
    at_least: int
    at_most: int
    doubt: str = ""
    limit: Drill | None = None


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """`room` is None where it was not asked for, or is not known. `notes` hold for all failures."""

    state: CapacityState
    drills: DrillReport
    room: RoomForVms | None = None
    notes: tuple[str, ...] = ()

    @property
    def tightest(self) -> Drill | None:
        """The failure after which the least memory is free."""
        drills = self.drills.drills
        return min(drills, key=lambda x: (x.room[1], x.room[0], x.domain), default=None)


def capacity(
    snapshot: Snapshot,
    tolerated: t.Sequence[Tolerated],
    *,
    topology: Topology | None = None,
    size: VmSize | None = None,
    added: t.Collection[str] = (),
    out: t.Collection[str] = (),
    moving: t.Collection[str] = (),
) -> CapacityReport:
    """Fail each of the tolerated domains in turn. Where something that matters could not be read, the state is
    unknown, and so it is where there is no such domain. Nodes that are not ready already fail with each: their VMs
    need nodes, too, once they are fenced. Nodes without the label may fail with any of the domains, so the state is
    not green. `added` are the keys of pods that a change adds: each of them has to find a node, too. So have the
    instances of the nodes `out`, which are drained, and those with the uids `moving`, which rules move."""
    gaps = relevant_gaps(snapshot)
    if gaps:
        return CapacityReport(CapacityState.UNKNOWN, DrillReport("failure", unreadable=gaps))
    topology = topology or Topology.of()
    without = drained(settled(snapshot), out, moving)
    view = view_of(without.snapshot)
    engine = DrillEngine(view, "failure", topology)
    new = [replace(x, required=True) for x in engine.waiting if pod_key(x.pod) in added]
    groups = {
        "that the change adds": new,
        "that the rules move": without.by_rules,
        f"of the drained {_nodes(sorted(out))}" if out else "": without.moved,
    }
    more = _Others(groups, view.snapshot, without.doubts)
    engine.waiting = [x for x in engine.waiting if pod_key(x.pod) not in added]
    engine.waiting += _without_pods(view)
    table, not_ready = engine.index.table, engine.snapshot.not_ready_nodes
    down = table.where(name in not_ready for name in table.names)
    with collector_paused():
        losses = {
            (wanted.key, domain): nodes
            for wanted in tolerated
            for domain, nodes in table.domains(wanted.key).items()
            if (domain in wanted.domains if wanted.domains else engine.uses(table.names_of(nodes)))
        }
        drills = _drills(engine, losses, down, more)
        keys = list(dict.fromkeys(wanted.key for wanted in tolerated))
        without_label = {
            key: engine.used_without_key(key, down) for key in keys if table.with_key(key)
        }
        report = CapacityReport(
            _state(drills, any(without_label.values())),
            DrillReport("failure", tuple(drills)),
            notes=(
                *_notes(engine, without_label, table.names_of(down), sorted(out)),
                *_delays(drills, topology),
            ),
        )
        if size is None or report.state is CapacityState.UNKNOWN:
            return report
        by_room = sorted(drills, key=lambda drill: (drill.room[1], drill.room[0]))
        ordered = {drill: losses[drill.key, drill.domain] | down for drill in by_room}
        return replace(report, room=_room(engine, report, ordered, size, more.pods))


def _is_delayed(drill: Drill) -> bool:
    """Whether each instance finds a node after it, but one may wait some minutes."""
    return drill.answer is ForecastResult.POSSIBLE and holds_at_last(drill.answer, drill.codes)


def _drills(
    engine: DrillEngine,
    losses: t.Mapping[tuple[str, str], NodeSet],
    down: NodeSet,
    more: _Others,
) -> list[Drill]:
    """One for each loss, together with the nodes that are down already; the worst first."""
    drills = [
        _with_others(
            engine,
            replace(
                engine.lose(key, domain, nodes | down), nodes=engine.index.table.names_of(nodes)
            ),
            nodes | down,
            more,
        )
        for (key, domain), nodes in losses.items()
    ]
    return sorted(drills, key=lambda drill: drill.harm)


class _Others:
    """The pods that need a node beside those of a failure, by where they come from. `doubts`: what is not known of
    them."""

    def __init__(
        self,
        groups: t.Mapping[str, t.Sequence[PendingPod]],
        snapshot: Snapshot,
        doubts: tuple[Doubt, ...],
    ) -> None:
        self.pods = tuple(pending for pods in groups.values() for pending in pods)
        self.doubts = (*doubts, *of_left_over(self.pods, snapshot))
        parts = [
            f"the {plural(len(pods), 'instance')} {whence} ({listed([x.name for x in pods], 3)})"
            for whence, pods in groups.items()
            if pods
        ]
        self.text = f"with {' and '.join(parts)}"


def _with_others(engine: DrillEngine, drill: Drill, nodes: NodeSet, others: _Others) -> Drill:
    """The drill with the room that is left, and the answer if it is worse, where these pods need a node, too."""
    if not others.pods:
        return drill
    cpu, memory = engine.taken_by(others.pods)
    drill = replace(drill, room=(drill.room[0] - cpu, drill.room[1] - memory))
    conclusion = engine.conclusion_with(nodes, others.pods, others.doubts)
    if WORSE.index(conclusion.answer) <= WORSE.index(drill.answer):
        return drill
    why = [f"not certain: {doubt.text}" for doubt in conclusion.doubts]
    impossible = conclusion.answer is ForecastResult.IMPOSSIBLE
    return replace(
        drill,
        answer=conclusion.answer,
        min_unschedulable=max(drill.min_unschedulable, int(impossible)),
        codes=conclusion.codes,
        reasons=(*drill.reasons, f"{others.text} the forecast is {conclusion.answer}", *why),
    )


def _state(drills: t.Sequence[Drill], without_label: bool) -> CapacityState:
    answers = {drill.answer for drill in drills}
    if any(drill.is_certain for drill in drills):
        return CapacityState.RED
    if not drills or ForecastResult.UNKNOWN in answers:
        return CapacityState.UNKNOWN
    uncertain = without_label or not all(holds_at_last(x.answer, x.codes) for x in drills)
    return CapacityState.POSSIBLE if uncertain else CapacityState.GREEN


def _without_pods(view: ClusterView) -> t.Iterator[PendingPod]:
    """The launcher pods of VMIs that have none yet, as while their volumes are filled."""
    for instance in view.instances:
        vmi = instance.vmi
        if vmi is not None and instance.pod is None and not vmi.node_name:
            pod = launcher_pod(vmi, view.snapshot.platform, {})
            yield PendingPod(pod, vmi=vmi, workload=instance.workload, required=False)


def _notes(
    engine: DrillEngine,
    without_label: t.Mapping[str, t.Sequence[str]],
    down: t.Sequence[str],
    out: t.Sequence[str],
) -> t.Iterator[str]:
    if out:
        one = len(out) == 1
        yield (
            f"{_nodes(out)} {'counts' if one else 'count'} as drained: {'its' if one else 'their'} instances need other"
            " nodes beside those of each failure"
        )
    for key, names in without_label.items():
        if names:
            one = len(names) == 1
            yield (
                f"{_nodes(names)} {'has' if one else 'have'} no label {key}: with which of these domains"
                f" {'it fails' if one else 'they fail'} is not known. Set the label"
            )
    if down:
        are, count = ("is", "counts") if len(down) == 1 else ("are", "count")
        yield f"{_nodes(down)} {are} not ready already, and {count} as failed beside each of these failures"
    waiting = [pending.name for pending in engine.waiting if pending.reason == "start"]
    if waiting:
        one = len(waiting) == 1
        yield (
            f"{plural(len(waiting), 'instance')} {'has' if one else 'have'} no node already ({listed(waiting, 3)}):"
            f" {'it takes' if one else 'they take'} room, and the answer is not about {'it' if one else 'them'}"
        )


def _delays(drills: t.Sequence[Drill], topology: Topology) -> t.Iterator[str]:
    """The note about failures after which a pod may wait: it has affinity to pods that end with it (code
    affinity_to_ended)."""
    delayed = [f"{topology.name_of(x.key)} {x.domain}" for x in drills if _is_delayed(x)]
    if delayed:
        yield (
            f"up to five minutes later: after the failure of {listed(delayed, 3)} an instance with affinity to others"
            " that end with it may wait for the next try of the scheduler"
        )


def _nodes(names: t.Sequence[str]) -> str:
    """`node n1`, or `2 nodes (n1, n2)`."""
    return f"node {names[0]}" if len(names) == 1 else f"{len(names)} nodes ({listed(names, 3)})"


def _room(
    engine: DrillEngine,
    report: CapacityReport,
    losses: t.Mapping[Drill, NodeSet],
    size: VmSize,
    added: t.Sequence[PendingPod],
) -> RoomForVms:
    first = new_vm(size, 0, engine.snapshot.platform)
    requests = first.pod.requests
    most = MOST_VMS
    for drill in report.drills.drills:
        slots = sum(
            max(0, min(free["pods"], *(free.get(x, 0) // n for x, n in requests.items() if n)))
            for free in engine.free_without(drill.nodes)
        )
        by_total = [drill.room[i] // requests[x] for i, x in enumerate(("cpu", "memory"))]
        most = max(0, min(most, slots, *by_total))
    workload = _vm(size)
    doubt = doubt_about_new_vm(workload, None, engine.snapshot.platform) or ""
    if doubt or report.state is not CapacityState.GREEN:
        return RoomForVms(size, 0, most if report.state is CapacityState.GREEN else 0, doubt)
    pods = [new_vm(size, number, engine.snapshot.platform) for number in range(most)]

    # What holds for some VMs holds for fewer: they are the first ones of one of the orders.
    count, limit = most, None
    for drill, nodes in losses.items():
        held = _most_that_hold(engine, nodes, pods[:count], added)
        if held < count:
            count, limit = held, drill
    return RoomForVms(size, count, most, limit=limit)


def _most_that_hold(
    engine: DrillEngine,
    nodes: NodeSet,
    pods: t.Sequence[PendingPod],
    added: t.Sequence[PendingPod],
) -> int:
    """How many of these pods are proven to have a node after the loss of `nodes`, together with what ends there and
    with the pods that are added."""

    def holds(count: int) -> bool:
        conclusion = engine.conclusion_with(nodes, [*added, *pods[:count]])
        return holds_at_last(conclusion.answer, conclusion.codes)

    if not pods or holds(len(pods)):
        return len(pods)
    low, high = 0, len(pods) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _vm(size: VmSize) -> Workload:
    """It is in no namespace, so that no quota and no term of others is about it."""
    ref = Ref(VIRTUAL_MACHINE.name, "", "vm")
    if size.instance_type is not None:
        template = size.instance_type.template
    else:
        guest = {"cpu": {"cores": size.cores}, "memory": {"guest": str(size.memory)}}
        domain = {**guest, "devices": {}}
        template = {"metadata": {"labels": {}}, "spec": {"domain": domain}}
    return Workload(ref, "vm", {"metadata": {"name": "vm"}, "spec": {"template": template}})


def new_vm(size: VmSize, number: int, platform: Platform) -> PendingPod:
    """The launcher pod of a VM of this size that does not exist yet."""
    workload = _vm(size)
    vmi = planned_vmi(workload, f"vm-{number}")
    return PendingPod(launcher_pod(vmi, platform, workload.template), vmi=vmi)


def capacity_table(report: CapacityReport, topology: Topology) -> str:
    """The state, the room that is left, and the failures with an impact, the worst first."""
    drills = report.drills
    if drills.unreadable:
        return table_text(f"unknown: {text}" for text in unreadable_texts(drills.unreadable))
    return table_text(
        [
            *_heading(report, topology),
            *_room_lines(report, topology),
            *report.notes,
            *_lines(report, topology),
        ]
    )


def worst_failure(report: CapacityReport, topology: Topology) -> str:
    """What the worst failure leaves without a node, and what lacks. Without a failure that has an impact, the first
    remark about all of them, if there is one."""
    worst = next((drill for drill in report.drills.drills if drill.has_impact), None)
    if worst is None:
        gaps = (f"unknown: {text}" for text in unreadable_texts(report.drills.unreadable))
        return next(iter([*gaps, *report.notes]), "").rstrip(".")
    without = (*worst.pending, *worst.not_recreated)
    of_first = [blocked.message for blocked in worst.blocked if blocked.instance in without[:1]]
    message = next(iter([*of_first, *worst.reasons]), str(worst.answer)).rstrip(".")
    fails = f"If {topology.name_of(worst.key)} {worst.domain} fails"
    if without:
        cpu, memory = worst.missing
        requested = f" ({cpu_text(cpu)}, {memory_text(memory)} requested)" if cpu or memory else ""
        have = "has" if len(without) == 1 else "have"
        return f"{fails}, {listed(without, 3)} {have} no node{requested}: {message}"
    if worst.answer is ForecastResult.IMPOSSIBLE:
        return f"{fails}, an instance has no node: {message}"
    return f"{fails}, the forecast is {worst.answer} ({message})"


def _heading(report: CapacityReport, topology: Topology) -> t.Iterator[str]:
    drills = report.drills.drills
    failures = plural(len(drills), "failure")
    state = str(report.state).upper()
    if not drills:
        yield f"{state}: there is no such topology domain"
        return
    certain = sum(drill.is_certain for drill in drills)
    unknown = sum(drill.answer is ForecastResult.UNKNOWN for drill in drills)
    impact = sum(drill.has_impact and not _is_delayed(drill) for drill in drills)
    any_one = "this failure" if len(drills) == 1 else f"any one of {failures}"
    yield {
        CapacityState.GREEN: f"{state}: after {any_one} each instance finds a node",
        CapacityState.POSSIBLE: (
            f"{state}: after {impact} of {failures} instances can find nodes, but it is not certain that they do"
            if impact
            else f"{state}: after {any_one} each instance finds a node, but nodes without a label may fail, too"
        ),
        CapacityState.RED: (
            f"{state}: {certain} of {failures} {'leaves' if certain == 1 else 'leave'} instances without a node"
        ),
        CapacityState.UNKNOWN: f"{state}: for {unknown} of {failures} no choice of nodes was found",
    }[report.state]
    tightest = report.tightest
    if report.state is CapacityState.GREEN and tightest is not None:
        cpu, memory = tightest.room
        yield (
            f"least room is left without {topology.name_of(tightest.key)} {tightest.domain}:"
            f" {memory_text(memory)}, {cpu_text(cpu)}"
        )


def _room_lines(report: CapacityReport, topology: Topology) -> t.Iterator[str]:
    room = report.room
    if room is None:
        return
    vms = f"room for more VMs ({room.size})"
    if report.state is CapacityState.RED:
        yield f"{vms}: none while it is red: {_without_room(report, topology)}"
    elif report.state is CapacityState.POSSIBLE:
        yield f"{vms}: none that leaves it green: it is possible without them already"
    elif room.doubt:
        yield f"{vms}: unknown: {room.doubt}"
    else:
        yield f"{vms} that leaves it green: {_count(room)}"
        if room.limit is not None:
            fails = f"{topology.name_of(room.limit.key)} {room.limit.domain} fails"
            more = plural(room.at_least + 1, "more VM")
            yield f"with {more} it is not proven that each finds a node if {fails}"


def _without_room(report: CapacityReport, topology: Topology) -> str:
    """What the worst failure leaves without a node."""
    worst = next(drill for drill in report.drills.drills if drill.is_certain)
    refs = (*worst.pending, *worst.not_migratable, *worst.not_recreated)
    fails = f"if {topology.name_of(worst.key)} {worst.domain} fails"
    if not refs:
        return f"{fails}: {next(iter(worst.reasons), 'an instance has no node')}"
    return f"{listed(refs, 1)} {'has' if len(refs) == 1 else 'have'} no node already {fails}"


def _count(room: RoomForVms) -> str:
    if not room.at_most:
        return "none: a failure leaves too little"
    least = f"at least {room.at_least}" if room.at_least else "none is proven"
    if room.at_most == MOST_VMS:
        return f"{least}, more than {MOST_VMS} are not counted"
    return f"{least}, at most {room.at_most} by their requests" if room.limit else least


def _lines(report: CapacityReport, topology: Topology) -> t.Iterator[str]:
    drills = report.drills
    impact = [drill for drill in drills.drills if drill.has_impact and not _is_delayed(drill)]
    if not drills.drills:
        return
    if impact:
        yield from impact_lines(drills, impact, topology)
    for drill in impact[:SHOWN_ROWS]:
        cpu, memory = drill.missing
        if cpu or memory:
            perhaps = "" if drill.answer is ForecastResult.IMPOSSIBLE else "perhaps "
            yield (
                f"{perhaps}without a node if {topology.name_of(drill.key)} {drill.domain} fails: {cpu_text(cpu)},"
                f" {memory_text(memory)} are requested"
            )
    yield from totals(drills, impact, topology)
