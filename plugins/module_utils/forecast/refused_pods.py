# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which new pods may admission refuse or hold, by what the cluster shows of it?

The level of Pod Security that a namespace enforces may refuse a pod like one that runs, since it is asked only when a
pod is created. It is no proof: the API server may exempt a controller, and a webhook may change the pod. Conditions of
workloads show what was refused already.
"""

from __future__ import annotations

import typing as t

from ..compliance.pending import why_refused
from ..kubevirt.next_pod import OWN_LAUNCHER
from ..model.admission import PodMutator
from ..model.objects import Labels, Pod, Ref
from ..model.pod_security import BASELINE, PRIVILEGED, enforced_level
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..scheduler.labels import matches
from .change import ChangedCluster
from .conclusion import NO_GUARANTEE, NO_PLACEMENT, Doubt
from .simulation import PendingPod


class PodAdmission:
    """What the namespaces and workloads of a snapshot show of pods that do not exist yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        levels = ((x.name, enforced_level(x.labels)) for x in snapshot.namespaces)
        self._levels = {name: level for name, level in levels if level[0] != PRIVILEGED}
        self._namespaces = {x.name: x.labels for x in snapshot.namespaces}
        self._mutators = snapshot.pod_mutators or ()
        self._dry_runs = snapshot.dry_runs
        self._refused = {x.ref: why for x in snapshot.workloads if (why := why_refused(x))}

    def doubts(self, pending: t.Iterable[PendingPod]) -> tuple[Doubt, ...]:
        """Of the pods that do not exist yet and that the answer is about."""
        new = [x for x in pending if x.required and not x.pod.uid]
        workloads = dict.fromkeys(x.workload for x in new)
        refused = (
            refused_doubt(ref, self._refused[ref]) for ref in workloads if ref in self._refused
        )
        return (*refused, *self._of_levels(new), *dict.fromkeys(self._of_gates(new)))

    def _of_gates(self, new: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
        """A running pod does not show the gate that it had."""
        for pending in new if self._mutators else ():
            pod = pending.pod
            for mutator in mutators_of(pod, self._mutators, self._namespaces):
                if mutator.adds_gate(pod.labels):
                    text = (
                        f"{mutator.source} adds a scheduling gate to the next pod of"
                        f" {pending.workload or pending.name}, which gets a node once that is removed"
                    )
                    yield Doubt("gating_webhook", text)

    def doubtful(self, running: t.Iterable[Pod]) -> dict[str, Ref]:
        """The pods with a node, by uid, that the level of their namespace may refuse if they were created now."""
        placed = (x for x in running if x.uid and x.node_name)
        return {pod.uid: pod.ref for pod in placed if self._forbidden(pod)}

    def _forbidden(self, pod: Pod) -> tuple[str, ...]:
        level, _version = self._levels.get(pod.namespace, (PRIVILEGED, ""))
        return pod.forbidden[level != BASELINE] if level != PRIVILEGED else ()

    def _of_levels(self, new: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
        """A doubt for each namespace and what its level forbids. Where the server was asked, its answer counts."""
        alike: dict[tuple[str, tuple[str, ...], bool], dict[object, None]] = {}
        for pending in new:
            names, what = self._forbidden(pending.pod), pending.workload or pending.name
            old = pending.replaces.uid if pending.replaces is not None else ""
            answer = self._dry_runs.get(old)
            if names and answer:
                text = (
                    f"the API server refuses a dry run of the next pod of {what} in namespace"
                    f" {pending.pod.namespace}: {answer}"
                )
                yield Doubt("dry_run_refused", text, NO_PLACEMENT)
            elif names:
                accepted = answer is not None
                alike.setdefault((pending.pod.namespace, names, accepted), {})[what] = None
        for (namespace, names, accepted), shown in alike.items():
            level = ":".join(self._levels[namespace])
            text = (
                f"namespace {namespace} enforces PodSecurity {level}, which may refuse the next pod of"
                f" {listed([*shown])} ({listed(names)})"
            )
            if accepted:
                text += ", though it accepts a dry run of this identity"
            unsure = accepted or names == (OWN_LAUNCHER,)
            yield Doubt("pod_security", text, NO_GUARANTEE if unsure else NO_PLACEMENT)


def refused_doubt(ref: Ref, why: str) -> Doubt:
    """The doubt about the pods of a workload of which one was refused. It counts where none is placed, too."""
    text = f"the last pod of {ref} was refused (condition ReplicaFailure): {why}"
    return Doubt("pods_refused", text, NO_PLACEMENT, more_pods=True)


def doubts_of_refused(change: ChangedCluster, scaled: t.Container[Ref]) -> t.Iterator[Doubt]:
    """The doubts about workloads that a change makes larger or gives another template, also where it is not known
    that it makes a pod."""
    for workload in change.after.workloads:
        if (workload.ref in scaled or workload.ref in change.touched) and (
            why := why_refused(workload)
        ):
            yield refused_doubt(workload.ref, why)


def mutators_of(
    pod: Pod, mutators: t.Iterable[PodMutator], namespaces: t.Mapping[str, Labels]
) -> t.Iterator[PodMutator]:
    """Those that may change a new pod. `namespaces`: name to labels."""
    for mutator in mutators:
        of_namespace = mutator.namespaces
        if of_namespace is not None and not matches(
            of_namespace, namespaces.get(pod.namespace, {})
        ):
            continue
        if mutator.pods is None or matches(mutator.pods, pod.labels):
            yield mutator
