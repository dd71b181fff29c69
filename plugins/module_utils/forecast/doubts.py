# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is not known of the pods of a forecast or of a drill, so that the answer claims less?

A doubt about a single pod that needs a node is added here: a function that takes the pod and the snapshot
and yields each Doubt, a line for it in POD_DOUBTS, and a line for its code in `conclusion.CODES`. It
then holds for forecasts, drills and the preflight of a drain.
"""

from __future__ import annotations

import typing as t
from collections import Counter

from ..compliance.pending import DEFAULT_SCHEDULER
from ..kubevirt.instances import replaced_once_gone
from ..kubevirt.labels import MIGRATION_JOB, adds_node_key, adds_toleration
from ..kubevirt.moving import held_by_pause, rolls_itself
from ..kubevirt.next_pod import (
    controlled_pod,
    doubt_about_first_pod,
    doubt_about_new_vm,
    unread_objects,
)
from ..kubevirt.ordinals import ordinal_of, previous_ordinals
from ..kubevirt.pools import (
    kept_at_scale_in,
    started_by_template,
    unavailable_of_pool,
    why_not_held,
)
from ..model.budget import BUDGETS
from ..model.objects import Pod
from ..model.rendering import listed
from ..model.snapshot import Snapshot, Unreadable, Workload
from ..model.topology import HOSTNAME
from ..scheduler.labels import matches
from ..scheduler.node_state import untolerated
from ..view.view import view_of
from .admission import PodAdmission, doubts_of_refused, doubts_of_webhooks
from .change import ChangedCluster
from .claims import of_claims, of_pod_spec
from .conclusion import NO_CERTAINTY, NO_GUARANTEE, Doubt
from .eviction import UNREACHABLE, EvictedInstance, other_revision
from .scaling import Scale, expanded_template, of_changed_template
from .simulation import PendingPod

DoubtsOfPod = t.Callable[[PendingPod, Snapshot], t.Iterator[Doubt]]
"""What is not known of a pod that needs a node. The snapshot is the cluster after the change."""


def of_admission(pending: PendingPod, _snapshot: Snapshot) -> t.Iterator[Doubt]:
    """The doubt about a pod that is created anew, where the running one has a node selector or a toleration that
    the next one has not by its template. What added it may do so again: a RuntimeClass, PodNodeSelector, the
    node selector of an OpenShift project, a webhook. A node selector closes nodes to the pod, so that a proof that it
    has none holds with it, too. One for a single node on the target of a migration is that of this migration alone
    (KubeVirt, addedNodeSelector)."""
    old, created = pending.replaces, pending.pod.placement
    if old is None or old.placement is created or pending.reason not in ("migrate", "recreate"):
        return
    declared = pending.vmi.spec if pending.vmi is not None else {}
    names = [
        f"node selector {key}={value}"
        for key, value in old.placement.node_selector
        if (key, value) not in created.node_selector
        and not adds_node_key(key)
        and not (key == HOSTNAME and MIGRATION_JOB in old.labels)
        and key not in (declared.get("nodeSelector") or ())
    ]
    tolerated = {entry.get("key") for entry in declared.get("tolerations") or ()}
    tolerations = [
        f"toleration of {toleration.key or 'any taint'}"
        for toleration in old.placement.tolerations
        if toleration not in created.tolerations
        and not adds_toleration(toleration)
        and (toleration.key or None) not in tolerated
    ]
    forbids = NO_CERTAINTY if tolerations else NO_GUARANTEE
    if names := [*names, *tolerations]:
        text = f"the running pod of {pending.name} has {listed(names)}, which its template does not have"
        yield Doubt("admission_differs", text, forbids)


POD_DOUBTS: t.Final[tuple[DoubtsOfPod, ...]] = (of_claims, of_pod_spec, of_admission)


def doubts_of_pods(
    pending: t.Iterable[PendingPod], snapshot: Snapshot, admission: PodAdmission
) -> tuple[Doubt, ...]:
    """The doubts about the pods that the answer is about. `admission` is that of the snapshot."""
    required = [pod for pod in pending if pod.required]
    doubts = (
        doubt for pod in required for function in POD_DOUBTS for doubt in function(pod, snapshot)
    )
    return tuple(dict.fromkeys((*doubts, *admission.doubts(required))))


def doubts_of_change(change: ChangedCluster, scale: t.Sequence[Scale] = ()) -> tuple[Doubt, ...]:
    """The doubts about what a change makes of the instances: the cluster may behave otherwise."""
    return (
        *_of_next_pods(change, scale),
        *(doubt for evicted in change.estimated for doubt in of_evicted(evicted)),
        *of_scale_down(change, scale),
        *of_pools(change),
        *of_paused(change, scale),
        *of_ordered_start(change, scale),
        *of_partition(change, scale),
        *(
            of_failed_nodes(change.pending)
            if change.lost_nodes and change.event == "failure"
            else ()
        ),
        *doubts_of_webhooks(change),
        *doubts_of_refused(change, {entry.workload for entry in scale}),
    )


def _of_next_pods(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[Doubt]:
    """Doubts about the first pods of workloads that start or grow."""
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in change.before.vmis}
    scaled = {entry.workload for entry in scale}
    for workload in change.after.workloads:
        ref = workload.ref
        halted = workload.kind.run_strategy and (ref.namespace, ref.name) not in running
        starts = halted and ref in change.affected
        why: str | None = None
        if starts or (ref in scaled and workload.runs_vms):
            expanded = expanded_template(change.before, workload)
            devices = change.before.network_devices.get(ref)
            why = doubt_about_new_vm(workload, expanded, change.before.platform, devices)
            if not why:
                known = change.before.expanded.get(ref)
                why = of_changed_template(change.before, workload, known).reason
        elif ref in scaled and all(x.workload != ref for x in view_of(change.before).instances):
            why = doubt_about_first_pod(workload)
            if unread := unread_objects(workload):
                refused = ", ".join(f"nothing read shows that its {name} exists" for name in unread)
                yield Doubt(
                    "next_pod_estimated", f"the first pod of {ref} may be refused: {refused}"
                )
        elif ref in scaled and any(x.workload == ref for x in change.pending if x.required):
            why = _unlike_running(change.before, workload)
        if why:
            text = f"the next pod of {ref} is an estimate: {why}"
            yield Doubt("next_pod_estimated", text, NO_CERTAINTY)


def _unlike_running(snapshot: Snapshot, workload: Workload) -> str | None:
    """A difference of the next pod of a workload that grows from those that run. What webhooks add to pods makes them
    request more than their template, never less."""
    asked = controlled_pod(workload, "", "").requests
    for instance in view_of(snapshot).instances:
        pod = instance.pod
        if instance.workload != workload.ref or pod is None:
            continue
        if why := other_revision(pod, workload):
            return f"{pod.name}: {why}" if workload.kind.ordinals else why
        if less := [name for name in asked if pod.requests.get(name, 0) < asked[name]]:
            return f"{pod.name} requests less {listed(less)} than its template"
    return None


def of_evicted(evicted: EvictedInstance) -> t.Iterator[Doubt]:
    """The doubts about an instance that leaves a lost node in a way that is not certain, or that a budget holds."""
    ref = evicted.instance.ref
    if evicted.doubt and not evicted.certain:
        yield Doubt(evicted.code, f"{ref} {evicted.doubt}", NO_CERTAINTY)
    elif not evicted.certain:
        text = f"KubeVirt has not reported whether {ref} can be live-migrated"
        yield Doubt("not_reported_migratable", text)
    if evicted.held_by:
        yield Doubt("disruption_budget", f"{ref} may stay on its node: {evicted.held_by}")


def of_schedulers(pending: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
    """The doubt about pods that kube-scheduler does not place: other filters may decide."""
    others = [x for x in pending if x.required and x.pod.scheduler_name != DEFAULT_SCHEDULER]
    if names := [x.name for x in others]:
        yield Doubt("other_scheduler", f"another scheduler places {listed(names)}", NO_CERTAINTY)


def of_failed_nodes(pending: t.Iterable[PendingPod]) -> t.Iterator[Doubt]:
    """The doubt about pods that tolerate the taints of a failed node: as long as its Node object exists, the scheduler
    may choose it, and nothing starts them there."""
    names = [
        pod.name
        for pod in pending
        if pod.required
        and next(untolerated(UNREACHABLE, pod.pod.placement.tolerations), None) is None
    ]
    if names:
        one = len(names) == 1
        text = (
            f"{listed(names)} {'tolerates' if one else 'tolerate'} the taints of a failed node, and the scheduler may"
            " choose that node again"
        )
        yield Doubt("tolerates_failure", text)


def of_scale_down(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[Doubt]:
    """The doubts about workloads that get fewer instances than they have."""
    scaled = {entry.workload for entry in scale}
    ending = [
        x
        for x in change.after.workloads
        if (x.ref in scaled and not x.kind.ordinals)
        or (x.ref in change.touched and rolls_itself(x))
    ]
    placed = (x.workload for x in view_of(change.before).instances if x.node_name) if ending else ()
    counts = Counter(placed)
    for workload in ending:
        if (workload.replicas or 0) >= counts[workload.ref]:
            continue
        if workload.kind.makes_vms and (kept := kept_at_scale_in(workload)):
            text = f"the scale-in strategy of {workload.ref} is {kept}, so that its controller ends no VM"
            yield Doubt("chosen_by_controller", text, NO_CERTAINTY)
        elif workload.replicas:
            text = f"the controller chooses which instances of {workload.ref} end"
            yield Doubt("chosen_by_controller", text, NO_CERTAINTY)


def of_ordered_start(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[Doubt]:
    """The doubt about a StatefulSet that starts and replaces its replicas in their order: one that is not ready holds
    the others (kubernetes pkg/controller/statefulset/stateful_set_control.go, processReplica)."""
    scaled = {entry.workload for entry in scale}
    new = {pending.workload for pending in change.pending if pending.required}
    ordered = {
        workload.ref: workload.ref in change.touched and rolls_itself(workload)
        for workload in change.after.workloads
        if workload.kind.ordinals
        and workload.ref in new.intersection(scaled | change.touched)
        and workload.spec.get("podManagementPolicy") != "Parallel"
    }
    for instance in view_of(change.before).instances if ordered else ():
        pod, workload = instance.pod, instance.workload
        if workload not in ordered or pod is None or pod.ready:
            continue
        if pod.node_name or ordered[workload]:
            verb = "replaces" if ordered[workload] else "starts"
            yield Doubt(
                "ordered_start", f"{workload} {verb} no replica before its {pod.ref} is ready"
            )


def of_partition(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[Doubt]:
    """The doubts about new replicas below the partition of a StatefulSet, which are made from the revision before its
    present template (kubernetes pkg/controller/statefulset/stateful_set_utils.go, newVersionedStatefulSetPod)."""
    scaled = {entry.workload for entry in scale}
    for workload in change.after.workloads:
        if workload.ref not in scaled or not workload.kind.ordinals:
            continue
        current = workload.status.get("currentRevision")
        if not current or current == workload.status.get("updateRevision"):
            continue
        below = previous_ordinals(workload)
        for pending in change.pending:
            ordinal = ordinal_of(pending.pod.name, workload.ref.name)
            if pending.workload == workload.ref and pending.required and ordinal in below:
                text = (
                    f"{pending.pod.name} is below the partition of {workload.ref}, and is made from revision {current},"
                    " which is not its present template"
                )
                yield Doubt("next_pod_estimated", text, NO_CERTAINTY)


def of_left_over(pending: t.Sequence[PendingPod], snapshot: Snapshot) -> t.Iterator[Doubt]:
    """The doubt about pods that may run on a failing node by then, and of which one that terminates stays there: it
    still counts for anti-affinity, so that its topology domain may be closed to others, and to its successor."""
    others = (*snapshot.pods, *(x.pod for x in pending))
    terms = {
        (term, pod.namespace)
        for pod in others
        for term in pod.placement.anti_affinity
        if term.topology_key != HOSTNAME
    }

    def counts(pod: Pod) -> bool:
        own = any(term.topology_key != HOSTNAME for term in pod.placement.anti_affinity)
        return own or any(
            matches(term.selector, pod.labels)
            and (bool(term.namespaces or term.namespace_selector) or namespace == pod.namespace)
            for term, namespace in terms
        )

    names = [x.name for x in pending if not replaced_once_gone(x.pod) and counts(x.pod)]
    if names:
        text = (
            f"{listed(names, 3)} may run on the node that fails, and a terminating pod there still counts for"
            " anti-affinity"
        )
        yield Doubt("stays_terminating", text)


def of_pools(change: ChangedCluster) -> t.Iterator[Doubt]:
    """The doubts about pools whose template is written: KubeVirt restarts their VMs, as many at a time as the pool
    allows (`kubevirt/pools`), where the placement that is known here moves only those that have to. It also starts
    stopped VMs, whose pods are not known here."""
    for workload in change.after.workloads:
        if not workload.kind.makes_vms or workload.ref not in change.touched:
            continue
        if started := started_by_template(workload, change.after):
            text = f"KubeVirt starts {listed(started)}, with the run strategy of {workload.ref}"
            yield Doubt("restarted_by_pool", text, more_pods=True)
        if rolls_itself(workload):
            text = f"KubeVirt restarts the VMs of {workload.ref}, {unavailable_of_pool(workload)}"
            if why_not_held(workload, change.after.platform) is None:
                text += ", unless workload_rollout is hold"
            yield Doubt("restarted_by_pool", text, more_pods=True)


def of_paused(change: ChangedCluster, scale: t.Sequence[Scale]) -> t.Iterator[Doubt]:
    """The doubts about workloads whose controllers do not scale them before they are resumed."""
    scaled = {entry.workload for entry in scale}
    for workload in change.before.workloads:
        if workload.ref in scaled and held_by_pause(workload):
            text = f"{workload.ref} is paused (spec.paused): it creates and ends no instance until it is resumed"
            yield Doubt("paused", text, NO_CERTAINTY)


def relevant_gaps(snapshot: Snapshot) -> tuple[Unreadable, ...]:
    """The lists that could not be read: no answer is claimed then. Without volumes if no pod has claims, and without
    disruption budgets, which are a doubt about each instance that a drain ends."""
    claims = any(pod.claims for pod in snapshot.pods)
    return tuple(
        gap
        for gap in snapshot.unreadable
        if (claims or not gap.resource.startswith("persistentvolume")) and gap.resource != BUDGETS
    )
