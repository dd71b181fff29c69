# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a run write next to a Deployment whose own rollout is held, and why does it wait or leave it?

A Deployment that is resumed replaces its pods by itself. A run resumes one at a time, while no move is in flight, with
a strategy within its limits and within the disruption budgets, which do not bind the controller. No move begins until
all pods of that Deployment are replaced (`releasing`). All that a run has to know of it is on the object: the next run
finds it. Pure.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..cluster.access import Right
from ..compliance.pending import no_good_node_text
from ..compliance.violations import TermOwners
from ..kubevirt.disruption import Allowance, Budgets
from ..kubevirt.instances import instances
from ..kubevirt.moving import why_stuck
from ..kubevirt.next_pod import pod_as_declared
from ..model.json_pointer import JSON
from ..model.kinds import HOLD, POD_TEMPLATE_HASH
from ..model.objects import Pod
from ..model.plan import Method
from ..model.snapshot import Snapshot
from ..model.write import Write
from ..moves.gates import instances_of_run, load_of, workloads_of
from ..planning.movable_instances import InstanceSelection, MovableInstance, why_kept
from ..rules.paused_hold import (
    PausedHold,
    end_of,
    limited_strategy,
    paused_hold_of,
    release_of,
)
from ..scheduler.framework import pod_key
from ..scheduler.index import Index
from ..view.view import ClusterView
from .approved_releases import why_not_approved
from .options import RolloutOptions

BY_HAND = f"Resume it and set its strategy by hand, and remove the annotation {HOLD}"


class HoldView(t.Protocol):
    """What is needed of a reading of the cluster."""

    @property
    def snapshot(self) -> Snapshot:
        """What was read."""

    @property
    def selection(self) -> InstanceSelection:
        """The instances that the rollout is about."""

    @property
    def candidates(self) -> tuple[MovableInstance, ...]:
        """The instances that may be moved."""

    @property
    def budgets(self) -> Budgets:
        """The budgets of their pods."""

    @property
    def index(self) -> Index | None:
        """The index of the scheduler; None where it was not needed."""


@dataclass(frozen=True, slots=True)
class HoldStep:
    """What comes next for one hold. `write`: what is written, and `strategy` where that releases the Deployment.
    `waiting`: what is waited for first. `kept`: why the hold stays, and what to do; `failed`: its pods were not
    replaced. One of `write`, `waiting` and `kept` is set."""

    hold: PausedHold
    write: Write | None = None
    strategy: JSON = None
    waiting: str = ""
    kept: str = ""
    failed: bool = False

    @property
    def releases(self) -> bool:
        """Whether the write makes the controller replace pods."""
        return self.strategy is not None

    def as_json(self) -> dict[str, JSON]:
        """A release, as check mode returns it."""
        rolling = self.strategy.get("rollingUpdate") or {}
        return {
            **self.hold.ref._asdict(),
            "replicas": self.hold.workload.replicas or 0,
            "max_surge": rolling.get("maxSurge"),
            "max_unavailable": rolling.get("maxUnavailable", self.hold.room.unavailable),
        }

    def __str__(self) -> str:
        """About a hold that a run finds."""
        ref = self.hold.ref
        if self.kept:
            return self.kept
        if not self.hold.is_held:
            end = (
                "strategy is given back"
                if self.hold.strategy_is_limited
                else "annotation is removed"
            )
            return f"{ref}: its own rollout was held by rules; {self.waiting or f'its {end}'}"
        if self.waiting:
            return f"{ref}: its own rollout is held by rules; {self.waiting}"
        if not self.releases:
            return f"{ref}: its own rollout is held by rules, and there is no pod to replace: it is resumed"
        count = self.hold.behind
        return (
            f"{ref}: its own rollout is held by rules, and {count} of {self.hold.workload.replicas} replicas"
            f" {'is' if count == 1 else 'are'} not of its present template; it is resumed with"
            f" {_words(self.strategy)}, and its strategy is given back after the last one"
        )

    @property
    def done(self) -> str:
        """The line about the write, once it is made."""
        ref = self.hold.ref
        if self.releases:
            return f"{ref}: its own rollout is resumed with {_words(self.strategy)}"
        if self.hold.is_held:
            return f"{ref}: its own rollout is resumed, and replaces no pod"
        if self.hold.strategy_is_limited:
            return f"{ref}: its pods are replaced, and its strategy is as before the hold"
        return f"{ref}: its annotation {HOLD} is removed, its strategy stays as it is"


def paused_holds_of(snapshot: Snapshot, selection: InstanceSelection) -> tuple[PausedHold, ...]:
    """The holds of the selected Deployments that stay."""
    by_name = selection.workloads
    found = (
        hold
        for workload in snapshot.workloads
        if (hold := paused_hold_of(workload)) is not None
        and not workload.manifest["metadata"].get("deletionTimestamp")
        and (hold.ref in by_name or (not by_name and hold.ref.namespace in selection.namespaces))
    )
    return tuple(sorted(found, key=lambda hold: hold.ref))


def rights_of(steps: t.Iterable[HoldStep]) -> set[Right]:
    """The rights to end the holds."""
    holds = [step.hold for step in steps]
    return {
        Right("patch", hold.workload.kind.group, hold.workload.kind.plural, "", hold.ref.namespace)
        for hold in holds
    }


def releasing(holds: t.Iterable[PausedHold]) -> str:
    """The first Deployment that replaces its pods within limits, in words: no move begins beside it."""
    return next((_progress(hold) for hold in holds if _goes_on(hold)), "")


def hold_steps(
    holds: t.Sequence[PausedHold], view: HoldView, options: RolloutOptions
) -> tuple[HoldStep, ...]:
    """What comes next for each of the holds. One that replaces its pods comes before the next one is released."""
    busy = releasing(holds)
    return tuple(
        _held_step(hold, view, options, busy) if hold.is_held else _released_step(hold)
        for hold in holds
    )


def busy_uids(
    steps: t.Iterable[HoldStep], candidates: t.Iterable[MovableInstance]
) -> frozenset[str]:
    """The uids of pods that their Deployments replace, in this run: they are neither moved nor skipped."""
    refs = {step.hold.ref for step in steps if not step.kept}
    return frozenset(x.uid for x in candidates if x.workload is not None and x.workload.ref in refs)


def kept_uids(
    steps: t.Iterable[HoldStep], candidates: t.Iterable[MovableInstance]
) -> dict[str, str]:
    """The pods of Deployments that stay held, by uid, with the reason."""
    kept = {step.hold.ref: step.kept for step in steps if step.kept}
    return {
        x.uid: kept[x.workload.ref]
        for x in candidates
        if x.workload is not None and x.workload.ref in kept
    }


def _words(strategy: JSON) -> str:
    rolling = strategy.get("rollingUpdate")
    if not rolling:
        return f"its strategy {strategy.get('type')}"
    return f"maxSurge {rolling['maxSurge']} and maxUnavailable {rolling['maxUnavailable']}"


def _goes_on(hold: PausedHold) -> bool:
    """Whether its controller replaces its pods, as a run has let it."""
    released = not hold.is_held and not hold.workload.paused and hold.strategy_is_limited
    return released and not hold.replaced and not (hold.seen and why_stuck(hold.workload))


def _progress(hold: PausedHold) -> str:
    if not hold.seen:
        return f"the controller of {hold.ref} has not seen the latest change yet"
    wanted = hold.workload.replicas or 0
    left = min(hold.behind, wanted)
    text = f"{hold.ref} replaces its pods: {wanted - left} of {wanted}"
    return text if left else f"{text}, and some are not available yet"


def _released_step(hold: PausedHold) -> HoldStep:
    """What comes next for a Deployment that is not held any more, or whose annotation is damaged."""
    if hold.record is None:
        return HoldStep(
            hold, kept=f"{hold.ref} stays as it is: its annotation {HOLD} is damaged. {BY_HAND}"
        )
    if not hold.strategy_is_limited or hold.replaced:
        return HoldStep(hold, write=end_of(hold))
    if hold.workload.paused:
        return HoldStep(
            hold,
            kept=f"{hold.ref} keeps the strategy of a rollout: it was paused by another client (spec.paused) before"
            " all of its pods were replaced. Resume it, and run the rollout again",
        )
    stuck = why_stuck(hold.workload) if hold.seen else ""
    if stuck:
        return HoldStep(
            hold,
            kept=f"{_progress(hold)}, and it does not go on: {stuck.rstrip('.')}. Look at its pods that are not"
            " available, and run the rollout again, which gives its strategy back",
            failed=True,
        )
    return HoldStep(hold, waiting=_progress(hold))


def _held_step(hold: PausedHold, view: HoldView, options: RolloutOptions, busy: str) -> HoldStep:
    if not hold.seen:
        return HoldStep(hold, waiting=_progress(hold))
    if not hold.behind:
        return HoldStep(hold, write=end_of(hold))
    if why := _why_not_released(hold, view, options):
        return HoldStep(hold, kept=f"{hold.ref} stays held: {why}")
    if busy:
        return HoldStep(hold, waiting=busy)
    most, surges = _most_unavailable(hold, view, options), _has_room(hold, view, beside=True)
    strategy = limited_strategy(hold, most.pods, surges=surges)
    if strategy is None:
        return _no_strategy(hold, most)
    if not (strategy.get("rollingUpdate") or {}).get("maxSurge") and (
        text := _why_no_node(hold, view, options)
    ):
        return HoldStep(hold, kept=f"{hold.ref} stays held: its next pod has no node: {text}")
    return HoldStep(hold, write=release_of(hold, strategy), strategy=strategy)


def _no_strategy(hold: PausedHold, most: _Most) -> HoldStep:
    """Where no strategy keeps as many pods available as there have to be."""
    room = hold.room
    if most.why and most.ends:
        return HoldStep(hold, waiting=f"{hold.ref} stays paused until then: {most.why}")
    why = most.why
    if not why:
        why = f"its strategy Recreate ends {room.unavailable} pods at a time, and max_unavailable is {most.pods}"
        why += ". Change one of them"
    elif room.surge:
        why += ", and no node has room for one more pod (maxSurge)"
    return HoldStep(hold, kept=f"{hold.ref} stays held: {why}")


def _why_not_released(hold: PausedHold, view: HoldView, options: RolloutOptions) -> str:
    """Why this run does not let the Deployment replace its pods, with what to do; empty where it does."""
    count = hold.behind
    left = f"{count} of {hold.workload.replicas} replicas {'is' if count == 1 else 'are'} not of its present template"
    if Method.RECREATE not in options.allow:
        return f"{left}. It is paused (spec.paused) until a rollout with recreate in allow has replaced them"
    if options.max_moves:
        return f"{left}, and its controller does not stop after max_moves. Run a rollout without it"
    if why := why_not_approved(hold, options.approved):
        return f"{left}, and {why}"
    workloads = {hold.ref: hold.workload}
    for movable in _pods_of(hold, view):
        if why := why_kept(movable.instance, workloads):
            return f"{why}: remove the label"
    return ""


class _Most(t.NamedTuple):
    """How many pods of a Deployment may be unavailable at a time. `why` not more, and whether that `ends` by itself."""

    pods: int
    why: str
    ends: bool = True


def _most_unavailable(hold: PausedHold, view: HoldView, options: RolloutOptions) -> _Most:
    """Its own pods count as its controller counts them."""
    snapshot, selection = view.snapshot, view.selection
    here = instances(snapshot, selection.all_namespaces)
    in_scope = instances_of_run(here, selection, ())
    load = load_of(snapshot, (), in_scope, workloads_of(snapshot, selection))
    own = load_of(snapshot, (), [x for x in in_scope if x.workload == hold.ref], [hold.ref])
    others = load.unavailable - own.unavailable
    limit = options.max_unavailable
    pods = (hold.workload.replicas or 0) if limit is None else max(0, limit - others)
    why = f"max_unavailable is reached, not ready: {', '.join(load.named)}" if others else ""
    most = _Most(pods, why)
    for movable in _pods_of(hold, view):
        if not movable.pod.ready:
            continue
        answer = view.budgets.disruption(movable.pod)
        if answer.allowance in (Allowance.NEVER, Allowance.UNKNOWN):
            return _Most(0, answer.why, ends=False)
        allowed = [budget.allowed for budget in view.budgets.of(movable.pod)] if answer else [0]
        if allowed and min(allowed) < most.pods:
            most = _Most(max(0, min(allowed)), answer.why or f"a budget allows {min(allowed)}")
    return most


def _pods_of(hold: PausedHold, view: HoldView) -> list[MovableInstance]:
    return [x for x in view.candidates if x.workload is not None and x.workload.ref == hold.ref]


def _next_pods(hold: PausedHold, view: HoldView) -> t.Iterator[tuple[Pod, Pod]]:
    """Each running pod, and the one of the present template in its place: of another revision."""
    for movable in _pods_of(hold, view):
        declared = movable.declared
        if declared is None or not movable.pod.node_name:
            continue
        labels = {**movable.pod.labels}
        if POD_TEMPLATE_HASH in labels:
            labels[POD_TEMPLATE_HASH] += "-next"
        pod = pod_as_declared(
            replace(movable.pod, labels=labels), None, declared.placement, declared.labels
        )
        yield movable.pod, replace(pod, name=f"{pod.name}-next", uid="", node_name="")


def _has_room(hold: PausedHold, view: HoldView, *, beside: bool) -> bool:
    """Whether the next pod finds a node `beside` all that run, or else in place of one of the Deployment."""
    if view.index is None:
        return False
    return any(
        view.index.feasible_set(pod, without=None if beside else pod_key(old))
        for old, pod in _next_pods(hold, view)
    )


def _why_no_node(hold: PausedHold, view: HoldView, options: RolloutOptions) -> str:
    """Why no pod of the present template finds a node once one of the others has ended; empty where one does."""
    if view.index is None or _has_room(hold, view, beside=False):
        return ""
    for old, pod in _next_pods(hold, view):
        owners = TermOwners(ClusterView(view.snapshot))
        with view.index.without(pod_key(old)):
            return no_good_node_text(view.index, view.index.pod_info(pod), options.topology, owners)
    return ""
