# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which new pods may admission change, hold or refuse, by what the cluster shows of it?

Levels of Pod Security, LimitRanges and webhooks act only when a pod is created. A pod that runs shows what LimitRanges
and webhooks made of it, as far as they are older; it does not show what PodSecurity makes of the next one. Nothing of
this is a proof: the server may exempt a controller, and a webhook may change the pod. Where the server was asked, its
answer counts. Conditions of workloads show what was refused already.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace
from functools import cached_property

from ..compliance.drift import DriftComparison
from ..kubevirt.launcher import guest_resources
from ..kubevirt.next_pod import OWN_LAUNCHER
from ..model.admission import LimitRange, PodMutator
from ..model.objects import Placement, Pod, Ref
from ..model.obstacle import Obstacle
from ..model.pod_security import BASELINE, ENFORCE, PRIVILEGED, enforced_level, refusing_level
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Workload
from ..scheduler.labels import matches
from ..view.view import view_of
from .change import ChangedCluster
from .conclusion import NO_CERTAINTY, NO_GUARANTEE, NO_PLACEMENT, Doubt
from .new_pods import first_pods, new_pods
from .simulation import PendingPod

_TERMS = ("affinity", "topologySpreadConstraints")


class PodAdmission:
    """What the objects of a snapshot show of pods that do not exist yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._comparison = snapshot.derived(DriftComparison)
        levels = ((x.name, enforced_level(x.labels)) for x in snapshot.namespaces)
        self._levels = {name: level for name, level in levels if level[0] != PRIVILEGED}
        self._ranges: dict[str, list[LimitRange]] = {}
        for limit_range in snapshot.limit_ranges or ():
            self._ranges.setdefault(limit_range.namespace, []).append(limit_range)

    def doubts(self, pending: t.Iterable[PendingPod]) -> tuple[Doubt, ...]:
        """Of the pods that do not exist yet and that the answer is about."""
        new = [x for x in pending if x.required and not x.pod.uid]
        workloads = dict.fromkeys(x.workload for x in new)
        known = map(self._workload, workloads)
        refused = (refused_doubt(x.ref, x.refusal) for x in known if x is not None and x.refusal)
        answers = [(x, self._refusal(x)) for x in new]
        by_server = (_refused_by_server(x, why) for x, why in answers if why)
        others = [x for x, why in answers if not why]
        return (
            *refused,
            *by_server,
            *self._of_levels(others),
            *self._of_limit_ranges(others),
            *self._of_policies(others),
            *dict.fromkeys(self._of_gates(others)),
        )

    def asked(self, pending: t.Iterable[PendingPod]) -> dict[str, Ref]:
        """What the server is to be asked for, by uid: running pods, and workloads with a template, where it is in doubt
        whether another pod of them is created as expected."""
        asked = {}
        for new in pending:
            before, template = self._before(new), self._template(new)
            if before is not None and self._forbidden(before):
                asked[before.uid] = before.ref
            webhooks = before is None and any(self._mutators_of(new.pod))
            if template is not None and (webhooks or self._unproven_ranges(new)):
                asked[template.uid] = template.ref
            elif before is not None and (self._unproven_ranges(new) or any(self._unproven(new))):
                asked[before.uid] = before.ref
        return asked

    def of_webhooks(self, first: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
        """Of pods of which nothing shows what the next one looks like."""
        if self._snapshot.pod_mutators is None and first:
            text = (
                "MutatingWebhookConfigurations and MutatingAdmissionPolicies could not be read, which may change new"
                " pods"
            )
            yield Doubt("admission_unknown", text)
        for pending in first:
            if names := sorted({str(x.source) for x in self._mutators_of(pending.pod)}):
                text = f"{listed(names)} may change the first pod of {pending.workload}"
                yield Doubt("admission_unknown", text, NO_CERTAINTY)

    def _refusal(self, pending: PendingPod) -> str | None:
        """The answer of a server that refuses a dry run of such a pod; None where it has none, or accepts it."""
        sources = (self._before(pending), self._template(pending))
        answers = (self._snapshot.dry_runs.get(x.uid) for x in sources if x is not None)
        return next((x for x in answers if isinstance(x, str)), None)

    def _before(self, pending: PendingPod) -> Pod | None:
        """The newest pod before this one, which shows what was made of it; None where there is none."""
        return pending.replaces or self._running.get(pending.workload)

    @cached_property
    def _running(self) -> t.Mapping[Ref | None, Pod]:
        """The newest pod with a node of each workload."""
        newest: dict[Ref | None, Pod] = {}
        for instance in view_of(self._snapshot).instances:
            pod, known = instance.pod, newest.get(instance.workload)
            if instance.workload is None or pod is None or not pod.node_name:
                continue
            if known is None or pod.created > known.created:
                newest[instance.workload] = pod
        return newest

    def _workload(self, ref: Ref | None) -> Workload | None:
        return self._snapshot.workloads_by_ref.get(ref) if ref is not None else None

    def _template(self, pending: PendingPod) -> Workload | None:
        """The workload of a pod, if its controller makes pods of the template alone, so that the server can be asked
        for one."""
        workload = self._workload(pending.workload)
        return workload if workload is not None and workload.kind.replaces_pods else None

    def _unproven_ranges(self, pending: PendingPod) -> list[LimitRange]:
        """The LimitRanges of which no pod shows what they make of this one: it would have to be younger than they are,
        and have the same requests and limits."""
        ranges = self._ranges.get(pending.pod.namespace, [])
        if not ranges or self._is_first(pending):
            return ranges
        before = self._before(pending)
        if before is not None and before.requests != pending.pod.requests:
            return ranges
        if self._sets_other_limits(pending):
            return ranges
        return [x for x in ranges if x.is_newer_than(self._shown_at(pending))]

    def _sets_other_limits(self, pending: PendingPod) -> bool:
        """Whether a template sets a limit that what runs does not have. A migration keeps those of the VMI. One that
        the template does not set may be of a LimitRange, which then sets it again."""
        before, workload = self._before(pending), self._workload(pending.workload)
        running, following = before.limits if before is not None else {}, pending.pod.limits
        if pending.vmi is not None and workload is not None and pending.reason != "migrate":
            running = guest_resources(pending.vmi.spec, "limits")
            following = guest_resources(workload.template.get("spec") or {}, "limits")
        return any(running.get(name) != amount for name, amount in following.items())

    def _is_first(self, pending: PendingPod) -> bool:
        """Whether nothing shows what was made of a pod before. One that is made of a running pod has its time."""
        return self._before(pending) is None and not pending.pod.created

    def _of_limit_ranges(self, new: t.Sequence[PendingPod]) -> t.Iterator[Doubt]:
        """They hold for every identity: where the server makes what is expected of a template, they are no doubt."""
        if self._snapshot.limit_ranges is None and new:
            yield Doubt(
                "admission_unknown",
                "LimitRanges could not be read, which may change or refuse new pods",
            )
        alike: dict[tuple[str, bool], dict[object, None]] = {}
        for pending in new:
            if not (ranges := self._unproven_ranges(pending)):
                continue
            template = self._template(pending)
            created = self._snapshot.dry_runs.get(template.uid) if template is not None else None
            if not isinstance(created, Pod) or created.requests != pending.pod.requests:
                key = listed(list(map(str, ranges))), self._is_first(pending)
                alike.setdefault(key, {})[pending.workload or pending.name] = None
        for (names, first), shown in alike.items():
            text = f"{names} may change or refuse the {'first' if first else 'next'} pod of {listed([*shown])}"
            if first:
                yield Doubt("admission_unknown", text)
            else:
                yield Doubt("admission_unknown", f"{text}: no running pod shows it", NO_CERTAINTY)

    def _of_policies(self, new: t.Sequence[PendingPod]) -> t.Iterator[Doubt]:
        """A policy may treat the identity of a dry run otherwise than a controller."""
        if self._snapshot.pod_validators is None and new:
            text = "ValidatingAdmissionPolicies could not be read, which may refuse new pods"
            yield Doubt("admission_unknown", text)
        alike: dict[tuple[str, bool, bool], dict[object, None]] = {}
        for pending in new:
            for policy in self._unproven(pending):
                key = str(policy), self._is_first(pending), self._has_other_terms(pending)
                alike.setdefault(key, {})[pending.workload or pending.name] = None
        for (policy_name, first, other_terms), shown in alike.items():
            text = f"{policy_name} may refuse the {'first' if first else 'next'} pod of {listed([*shown])}"
            if other_terms:
                text += ": the running one has other constraints"
            elif not first:
                text += ": it is newer than the running one"
            yield Doubt("admission_unknown", text)

    def _unproven(self, pending: PendingPod) -> t.Iterator[Ref]:
        """The ValidatingAdmissionPolicies of which no pod shows that they accept this one."""
        for validator in self._snapshot.pod_validators or ():
            parts = (validator.policy, validator.binding)
            if all(self._selects(x, pending.pod) for x in parts) and (
                self._is_first(pending)
                or validator.is_newer_than(self._shown_at(pending))
                or self._has_other_terms(pending)
            ):
                yield validator.policy.source

    def _shown_at(self, pending: PendingPod) -> str:
        """The time at which a pod was created that shows what was made of it, "" before the first one."""
        before = self._before(pending)
        return pending.pod.created or (before.created if before is not None else "")

    def _has_other_terms(self, pending: PendingPod) -> bool:
        """Whether a pod has not the terms, which rules write, of the one before. Drift leaves out what KubeVirt may
        give a pod, and a policy may refuse even that: what is written of affinity and spread is compared, too. Nothing
        shows which node selectors and tolerations admission adds again."""
        before, workload = self._before(pending), self._workload(pending.workload)
        if workload is not None and before is not None:
            drift = self._comparison.drift(workload, before, pending.vmi)
            if drift is not None and (drift.missing or drift.stale):
                return True
            if pending.vmi is not None:
                following = workload.template.get("spec") or {}
                return any(pending.vmi.spec.get(name) != following.get(name) for name in _TERMS)
        return before is not None and _terms(before) != _terms(pending.pod)

    def _of_gates(self, new: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
        """A running pod does not show the gate that it had."""
        for pending in new:
            for mutator in self._mutators_of(pending.pod):
                if mutator.adds_gate(pending.pod.labels):
                    text = (
                        f"{mutator.source} adds a scheduling gate to the next pod of"
                        f" {pending.workload or pending.name}, which gets a node once that is removed"
                    )
                    yield Doubt("scheduling_gates", text)

    def _mutators_of(self, pod: Pod) -> t.Iterator[PodMutator]:
        """Those that may change a new pod."""
        mutators = self._snapshot.pod_mutators or ()
        return (x for x in mutators if self._selects(x, pod))

    def _selects(self, mutator: PodMutator, pod: Pod) -> bool:
        namespace = self._snapshot.namespaces_by_name.get(pod.namespace)
        labels = namespace.labels if namespace is not None else {}
        selected = mutator.namespaces is None or matches(mutator.namespaces, labels)
        return selected and (mutator.pods is None or matches(mutator.pods, pod.labels))

    def _forbidden(self, pod: Pod) -> tuple[str, ...]:
        level, _version = self._levels.get(pod.namespace, (PRIVILEGED, ""))
        return pod.forbidden[level != BASELINE] if level != PRIVILEGED else ()

    def _of_levels(self, new: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
        """A doubt for each namespace and what its level forbids."""
        alike: dict[tuple[str, tuple[str, ...], bool, bool], dict[object, None]] = {}
        for pending in new:
            if names := self._forbidden(pending.pod):
                before = self._before(pending)
                accepted = before is not None and before.uid in self._snapshot.dry_runs
                key = pending.pod.namespace, names, accepted, not pending.pod.forbidden[0]
                alike.setdefault(key, {})[pending.workload or pending.name] = None
        for (namespace, names, accepted, is_baseline), shown in alike.items():
            level = ":".join(self._levels[namespace])
            text = (
                f"namespace {namespace} enforces PodSecurity {level}, which may refuse the next pod of"
                f" {listed([*shown])} ({listed(names)})"
            )
            if accepted:
                text += ", though it accepts a dry run of this identity"
            unsure = accepted or names == (OWN_LAUNCHER,)
            advice = _level_advice(namespace, level, BASELINE if is_baseline else PRIVILEGED)
            forbids = NO_GUARANTEE if unsure else NO_PLACEMENT
            yield Doubt("pod_security", text, forbids, advice=advice)


def _terms(pod: Pod) -> Placement:
    return replace(pod.placement, node_selector=(), tolerations=())


def _level_advice(namespace: str, level: str, admitting: str) -> str:
    """What admits a pod that a level refuses. `admitting`: the level that does, as far as it is known."""
    if not level:
        return ""
    admits = {"": "the message names what it forbids", PRIVILEGED: "privileged admits each pod"}
    what = admits.get(admitting, f"{admitting} would admit this pod")
    return f"Namespace {namespace} enforces PodSecurity {level} (label {ENFORCE}): {what}."


def _refused_by_server(pending: PendingPod, why: str) -> Doubt:
    text = (
        f"the API server refuses a dry run of the next pod of {pending.workload or pending.name} in namespace"
        f" {pending.pod.namespace}: {why}"
    )
    advice = _level_advice(pending.pod.namespace, *refusing_level(why))
    return Doubt("dry_run_refused", text, NO_PLACEMENT, advice=advice)


def refused_doubt(ref: Ref, why: Obstacle) -> Doubt:
    """The doubt about the pods of a workload of which one was refused. It counts where none is placed, too."""
    text = f"the last pod of {ref} was refused: {why}"
    advice = _level_advice(ref.namespace, *refusing_level(str(why)))
    return Doubt("pods_refused", text, NO_PLACEMENT, more_pods=True, advice=advice)


def doubts_of_refused(change: ChangedCluster, scaled: t.Container[Ref]) -> t.Iterator[Doubt]:
    """The doubts about workloads that a change makes larger or gives another template, also where it is not known
    that it makes a pod."""
    for workload in change.after.workloads:
        if (workload.ref in scaled or workload.ref in change.touched) and (why := workload.refusal):
            yield refused_doubt(workload.ref, why)


def doubts_of_webhooks(change: ChangedCluster) -> tuple[Doubt, ...]:
    """What webhooks and policies may make of the first pods of workloads."""
    first = first_pods(change) if change.after.pod_mutators != () else []
    return tuple(dict.fromkeys(PodAdmission(change.after).of_webhooks(first)))


def asked_of_server(change: ChangedCluster, *, drills: bool = False) -> dict[str, Ref]:
    """What a dry run would show of the pods that a change creates (`PodAdmission.asked`), with `drills` of those of any
    node, too. What is read about new pods is in the snapshot before the change."""
    pods = new_pods(change)
    if drills:
        pods += [
            PendingPod(x.pod, x.pod, "recreate", workload=x.workload)
            for x in view_of(change.before).instances
            if x.pod is not None and x.node_name
        ]
    return PodAdmission(change.before).asked(pods)
