# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has become of the moves in flight? Read from a snapshot and a few objects beside it.

Also the nodes that migrations of other initiators leave, where their VMIs are in namespaces that
were not read.
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..api.lists import list_all
from ..cluster.refusals import PodRefusals
from ..compliance.declared import DeclaredReader
from ..kinds.registry import kind_of
from ..kinds.vmi import VMI
from ..kubevirt.instances import active_pod, owner_of
from ..kubevirt.labels import MIGRATION_JOB, PRIORITIES_SINCE, REJECTED_BY_QUOTA
from ..kubevirt.moving import outbound_nodes, propagating
from ..model.json_pointer import JSON
from ..model.kinds import instance_path, instances_path
from ..model.manifests import vmi_from_manifest
from ..model.objects import Pod, Ref
from ..model.obstacle import Obstacle
from ..model.plan import WITHOUT_SUCCESSOR, Method
from ..model.quota import quota_from_manifest
from ..model.rendering import listed
from ..model.snapshot import Instance, Migration, Snapshot, Workload
from ..scheduler.framework import without_preemption
from ..view.view import view_of
from .gates import VmiKey
from .journal import RunJournal, digest
from .migrate import FINAL, migration_path, phase_of
from .move import MoveRecord, Observation, Phase


class ForeignMigrations:
    """Migrations of other initiators. Reads each VMI outside of the snapshot once in a migration."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    def nodes(self, api: ApiClient, snapshot: Snapshot) -> dict[VmiKey, frozenset[str]]:
        """The outbound nodes of each migrating VMI outside of the snapshot. They are not looked for
        where the cluster takes no further migration anyway."""
        in_snapshot = {(m.ref.namespace, m.ref.name) for m in snapshot.vmis}
        if len(snapshot.migrations) >= snapshot.platform.migrations_per_cluster:
            return {}
        return {
            (migration.ref.namespace, migration.instance): nodes
            for migration in snapshot.migrations
            if (migration.ref.namespace, migration.instance) not in in_snapshot
            and (nodes := self._nodes_of(api, migration))
        }

    def _nodes_of(self, api: ApiClient, migration: Migration) -> frozenset[str]:
        if migration.uid not in self._known:
            vmi = Ref(VMI, migration.ref.namespace, migration.instance)
            try:
                status = api.get(instance_path(vmi)).get("status") or {}
            except (NotFound, Forbidden):
                status = {}
            node, state = status.get("nodeName") or "", status.get("migrationState") or {}
            self._known[migration.uid] = outbound_nodes(node, state)
        return self._known[migration.uid]


class Observer:
    """What one snapshot shows of moves in flight. Reads what a snapshot does not hold: our
    migrations, and why a pod has no node. `no_leader` is that of an Observation."""

    def __init__(
        self,
        api: ApiClient,
        snapshot: Snapshot,
        journal: RunJournal,
        no_leader: Obstacle | None = None,
        refused_pods: PodRefusals | None = None,
    ) -> None:
        self._api = api
        self._refused_pods = refused_pods or PodRefusals(api)
        self._no_leader = no_leader
        self._snapshot = snapshot
        self._journal = journal
        self.view = view_of(snapshot)
        self.instances = self.view.instances
        self.successors = self._match_successors()

    def observe(self, record: MoveRecord) -> Observation:
        instance = self._instance(record)
        if record.method is Method.MIGRATE:
            return self._observe_migration(record, instance)
        no_leader = self._no_leader if record.instance.is_vmi else None
        if record.method in WITHOUT_SUCCESSOR:
            return Observation(instance=instance, no_leader=no_leader)
        successor = self.successors.get(record.uid)
        return Observation(
            instance=instance,
            successor=successor,
            pending=self._why_pending(record, successor),
            refused=self._why_no_pod(record, instance, successor),
            surplus=self._has_enough(record),
            restart_queued=self._restart_queued(record),
            no_leader=no_leader,
        )

    def has_foreign_migration(self, instance: Instance, mine: str = "") -> bool:
        """Whether a migration of the VMI that is not ours is in flight, or an evacuation is due."""
        vmi = instance.vmi
        if vmi is None:
            return False
        return bool(vmi.evacuation_node_name) or any(
            migration.instance == vmi.ref.name
            and migration.ref.namespace == vmi.ref.namespace
            and migration.ref.name != mine
            for migration in self._snapshot.migrations
        )

    def propagating(self, instance: Instance) -> bool:
        vmi = instance.vmi
        vm = owner_of(vmi, self.view.snapshot.workloads_by_ref) if vmi is not None else None
        if vm is None or vmi is None:
            return False
        return propagating(vm, vmi, self._snapshot.platform)

    def _observe_migration(self, record: MoveRecord, instance: Instance | None) -> Observation:
        path = migration_path(record, self._journal.run)
        try:
            migration = self._api.get(path)
        except NotFound:
            migration = None
        ended = migration is None or phase_of(migration) in FINAL
        if record.phase is not Phase.INTENDED and ended:
            instance = self._instance(record, fresh=True)
        name = path.rpartition("/")[2]
        namespace = record.instance.namespace
        pending, refused = self._why_target_pending(record, migration)
        in_namespace = [r for r in self._journal.records if r.instance.namespace == namespace]
        return Observation(
            instance=instance,
            migration=migration,
            quota=self._refusing_quota(record, migration, instance),
            alone=len(in_namespace) == 1,
            pending=pending,
            refused=refused,
            foreign_migration=instance is not None and self.has_foreign_migration(instance, name),
            propagating=instance is not None and self.propagating(instance),
            kubevirt_namespace=self._snapshot.platform.kubevirt_namespace,
            no_leader=self._no_leader,
            behind=self._behind(record),
            target=self._target(record, migration),
            warning=self._warning(record, migration),
        )

    def _target(self, record: MoveRecord, migration: t.Mapping[str, JSON] | None) -> str:
        pod = self._target_pod(record, migration)
        if pod is None or not pod.node_name:
            return ""
        return f"its target pod {pod.name} is {pod.phase} on node {pod.node_name}"

    def _warning(
        self, record: MoveRecord, migration: t.Mapping[str, JSON] | None
    ) -> Obstacle | None:
        """The newest warning about a migration that has failed, where events may be read."""
        if migration is None or phase_of(migration) != "Failed":
            return None
        pod = self._target_pod(record, migration)
        uids = [record.uid, *([pod.uid] if pod is not None else ())]
        since = str(migration["metadata"].get("creationTimestamp") or "")
        return self._refused_pods.newest_warning(record.instance.namespace, uids, since)

    def _target_pod(self, record: MoveRecord, migration: t.Mapping[str, JSON] | None) -> Pod | None:
        uid = migration["metadata"].get("uid") if migration is not None else None
        pods = self.view.launcher_pods.get(record.uid, ())
        return next((pod for pod in pods if uid and pod.labels.get(MIGRATION_JOB) == uid), None)

    def _behind(self, record: MoveRecord) -> str:
        """The VMs that are evacuated: from KubeVirt 1.9 on their migrations have the priority 100 in its queue, and
        ours have 0 (pkg/virt-controller/watch/migration/migration.go). Only virt-controller may set it."""
        evacuated = [
            vmi.ref
            for vmi in self._snapshot.vmis
            if vmi.evacuation_node_name and not vmi.finished and vmi.uid != record.uid
        ]
        if not evacuated or self._snapshot.platform.kubevirt_release < PRIORITIES_SINCE:
            return ""
        return f"KubeVirt migrates VMs that are evacuated first: {listed(evacuated, 3)}"

    def _instance(self, record: MoveRecord, *, fresh: bool = False) -> Instance | None:
        """The instance with the record's uid, also while it is being deleted. With `fresh` a VMI is read now:
        the migration that was read may be ahead of the snapshot."""
        if not record.instance.is_vmi:
            pod = self.view.snapshot.pods_by_uid.get(record.uid)
            if pod is None or pod.finished:
                return None
            return Instance(pod.ref, pod.uid, record.workload, pod)
        vmi = self.view.snapshot.vmis_by_uid.get(record.uid)
        if fresh:
            try:
                vmi = vmi_from_manifest(self._api.get(instance_path(record.instance)))
            except NotFound:
                return None
        if vmi is None or vmi.uid != record.uid or vmi.finished:
            return None
        pod = active_pod(vmi, self.view.launcher_pods.get(vmi.uid, ()))
        return Instance(vmi.ref, vmi.uid, record.workload, pod, vmi)

    def _match_successors(self) -> dict[str, Instance]:
        """For each instance that we ended, by uid, its successor: the new instance of its workload that has its
        name, where the kind keeps names, else any one, assigned in the order in which the moves began."""
        successors: dict[str, Instance] = {}
        ended = [r for r in self._journal.records if r.method is not Method.MIGRATE]
        assigned: set[str] = set()
        settled = self._journal.settled
        for record in sorted(ended, key=lambda r: (r.phase is Phase.INTENDED, r.begun)):
            before = self._journal.known.get(record.workload, frozenset())
            keeps_name = kind_of(record.workload.kind).keeps_names
            fresh = (
                i
                for i in self.instances
                if i.workload == record.workload
                and (uid := digest(i.uid)) not in before
                and uid not in settled
                and i.uid not in assigned
                and i.uid != record.uid
                and (i.ref == record.instance or not keeps_name)
            )
            best = max(fresh, key=lambda i: (i.node_name != "", i.ref.name), default=None)
            if best is not None:
                successors[record.uid] = best
                assigned.add(best.uid)
        return successors

    def _has_enough(self, record: MoveRecord) -> bool:
        """The workload has as many instances as it asks for, or no longer exists."""
        workload = self.view.snapshot.workloads_by_ref.get(record.workload)
        if workload is None:
            return True
        count = len(self.view.instances_of(record.workload))
        return workload.replicas is not None and count >= workload.replicas

    def _restart_queued(self, record: MoveRecord) -> bool:
        """A restart is a queue of two requests in the VM's status, to stop the VMI of this uid and
        to start (KubeVirt, virt-api rest/lifecycle.go)."""
        vm = self.view.snapshot.workloads_by_ref.get(record.instance.vm)
        if record.method is not Method.RESTART or vm is None:
            return False
        requests = vm.status.get("stateChangeRequests") or ()
        return any(request.get("uid") == record.uid for request in requests)

    def _why_target_pending(
        self, record: MoveRecord, migration: t.Mapping[str, JSON] | None
    ) -> tuple[Obstacle | None, Obstacle | None]:
        """Why the target pod has no node, and why there is none."""
        if migration is None or phase_of(migration) not in ("Pending", "Scheduling"):
            return None, None
        namespace, metadata = record.instance.namespace, migration["metadata"]
        path = instances_path("Pod", namespace)
        chosen = {"labelSelector": f"{MIGRATION_JOB}={metadata['uid']}"}
        pods = list_all(self._api, path, params=chosen).items
        if not pods:
            since = str(metadata.get("creationTimestamp") or "")
            return None, self._refused_pods.newest(namespace, [record.uid], since)
        workload = self.view.snapshot.workloads_by_ref.get(record.workload)
        return next(filter(None, (why_unschedulable(pod, workload) for pod in pods)), None), None

    def _why_no_pod(
        self, record: MoveRecord, instance: Instance | None, successor: Instance | None
    ) -> Obstacle | None:
        """Why there is no new pod once the old one is gone: conditions of the workload, the VM and the new VMI, else
        events since the newest pod that the workload has."""
        if successor is not None:
            vmi = successor.vmi if successor.pod is None else None
            why = vmi.unsynchronized if vmi is not None else ""
            return Obstacle("refused", why, True) if why else None
        workload = self.view.snapshot.workloads_by_ref.get(record.workload)
        if instance is not None or workload is None:
            return None
        vm = self.view.snapshot.workloads_by_ref.get(record.instance.vm)
        if vm is None or vm.owner is None or vm.owner.uid != workload.uid:
            vm = workload
        if refused := vm.refusal or workload.refusal:  # a pool does not say it of its VM
            return refused
        pods = (x.pod for x in self.view.instances_of(workload.ref))
        since = max((pod.created for pod in pods if pod is not None), default="")
        # An event about a pod of a Deployment is of its ReplicaSet.
        owners = [uid for uid, ref in self._snapshot.controllers.items() if ref == workload.ref]
        return self._refused_pods.newest(workload.ref.namespace, owners or [workload.uid], since)

    def _refusing_quota(
        self,
        record: MoveRecord,
        migration: t.Mapping[str, JSON] | None,
        instance: Instance | None,
    ) -> Obstacle | None:
        """The ResourceQuota that refuses the target pod: KubeVirt sets a condition that does not name
        it (KubeVirt, virt-controller watch/migration)."""
        conditions = ((migration or {}).get("status") or {}).get("conditions") or ()
        if not any(x.get("type") == REJECTED_BY_QUOTA for x in conditions):
            return None
        text = "a ResourceQuota has no room for a second pod"
        pod = instance.pod if instance is not None else None
        try:
            items = list_all(
                self._api, f"/api/v1/namespaces/{record.instance.namespace}/resourcequotas"
            )
        except Forbidden as error:
            text = f"{text} (its name is unknown: {error.advise()})"
            return Obstacle("refused", text, True)
        quotas = filter(None, map(quota_from_manifest, items.items))
        for quota in quotas if pod is not None else ():
            if pod is not None and (exceeded := quota.exceeded_by(pod, quota.used)):
                text = f"{quota} has no room for a second pod: it allows {exceeded}"
                break
        return Obstacle("refused", text, True)

    def _why_pending(self, record: MoveRecord, successor: Instance | None) -> Obstacle | None:
        if successor is None or successor.pod is None or successor.pod.node_name:
            return None
        try:
            pod = self._api.get(instance_path(successor.pod.ref))
            return why_unschedulable(pod, self.view.snapshot.workloads_by_ref.get(record.workload))
        except NotFound:
            return None


def why_unschedulable(pod: t.Mapping[str, JSON], workload: Workload | None) -> Obstacle | None:
    """Why a pod has no node: the required rules of its workload, then kube-scheduler's words, which name none."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            text = without_preemption(condition.get("message") or condition.get("reason") or "")
            declared = DeclaredReader().declared(workload) if workload is not None else None
            of_rules = declared.rules if declared is not None else ()
            rules = [x.rule for x in of_rules if x.is_required]
            noun = "rule" if len(rules) == 1 else "rules"
            named = f" with its required {noun} {listed(rules)}" if rules else ""
            return Obstacle("no_node", f"the scheduler finds no node{named}: {text}", True)
    return None
