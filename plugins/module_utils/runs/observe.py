# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot, and a few objects read beside it, say of the moves in flight."""

from __future__ import annotations

import typing as t

from ..api.errors import NotFound
from ..api.lists import list_all
from ..api.requests import Api
from ..model.kinds import MACHINE_INSTANCE, VIRTUAL_MACHINE, instance_path, instances_path
from ..model.objects import Ref
from ..model.plan import Method
from ..model.pointer import JSON
from ..model.snapshot import Instance, MachineInstance, Snapshot, Workload
from ..movement.entry import Entry, Phase, Seen
from ..movement.migrate import migration_path
from ..planning.effects import propagating
from ..verdicts.instances import active_pod, instances, launcher_pods
from .budget import replicas
from .journal import Journal, digest

MIGRATION_JOB = "kubevirt.io/migrationJobUID"
"""Label on a migration's target pod: the uid of the migration (KubeVirt, services/template.go)."""


class Observer:
    """One snapshot, asked about moves. Reads what a snapshot does not hold: our migrations, and
    why a pod has no node."""

    def __init__(self, api: Api, snapshot: Snapshot, journal: Journal) -> None:
        self._api = api
        self._snapshot = snapshot
        self._journal = journal
        self.instances = instances(snapshot)
        self._workloads = {found.ref: found for found in snapshot.workloads}
        self._machines = {vmi.uid: vmi for vmi in snapshot.machine_instances}
        self._pods = {pod.uid: pod for pod in snapshot.pods}
        self._launchers = launcher_pods(snapshot)
        self.successors = self._match_successors()

    def seen(self, entry: Entry) -> Seen:
        instance = self._instance(entry)
        if entry.method is Method.MIGRATE:
            return self._seen_migrating(entry, instance)
        successor = self.successors.get(entry.uid)
        return Seen(
            instance=instance,
            successor=successor,
            pending=self._why_pending(successor),
            surplus=self._has_enough(entry),
            queued=self._restart_queued(entry),
        )

    def workload(self, ref: Ref) -> Workload | None:
        return self._workloads.get(ref)

    def others_migrate(self, instance: Instance, mine: str = "") -> bool:
        """Somebody else's migration of the VMI is in flight, or an evacuation is about to be."""
        vmi = instance.vmi
        if vmi is None:
            return False
        return bool(vmi.evacuation_node_name) or any(
            found.instance == vmi.ref.name
            and found.ref.namespace == vmi.ref.namespace
            and found.ref.name != mine
            for found in self._snapshot.migrations
        )

    def propagating(self, instance: Instance) -> bool:
        workload = self._workloads.get(instance.workload) if instance.workload else None
        if workload is None or instance.vmi is None:
            return False
        if workload.ref.kind != VIRTUAL_MACHINE.name:
            return False
        return propagating(workload, instance.vmi, self._snapshot.platform)

    def _seen_migrating(self, entry: Entry, instance: Instance | None) -> Seen:
        path = migration_path(entry, self._journal.run)
        try:
            migration = self._api.get(path)
        except NotFound:
            migration = None
        name = path.rpartition("/")[2]
        return Seen(
            instance=instance,
            migration=migration,
            pending=self._why_target_pending(entry, migration),
            others_migrate=instance is not None and self.others_migrate(instance, name),
            propagating=instance is not None and self.propagating(instance),
        )

    def _instance(self, entry: Entry) -> Instance | None:
        """The instance with the entry's uid, also while it is being deleted."""
        if entry.instance.kind == MACHINE_INSTANCE:
            vmi = self._machines.get(entry.uid)
            return None if vmi is None or vmi.phase in _ENDED else self._of_machine(vmi, entry)
        pod = self._pods.get(entry.uid)
        if pod is None or pod.finished:
            return None
        return Instance(pod.ref, pod.uid, entry.workload, pod)

    def _of_machine(self, vmi: MachineInstance, entry: Entry) -> Instance:
        pod = active_pod(vmi, self._launchers.get(vmi.uid, ()))
        return Instance(vmi.ref, vmi.uid, entry.workload, pod, vmi)

    def _match_successors(self) -> dict[str, Instance]:
        """For each instance that we took away the one that came in its place: new ones of its
        workload, given out in the order in which the moves began."""
        found: dict[str, Instance] = {}
        waiting = [e for e in self._journal.entries if e.method is not Method.MIGRATE]
        taken: set[str] = set()
        for entry in sorted(waiting, key=lambda e: (e.phase is Phase.INTENDED, e.begun)):
            known = self._journal.known.get(entry.workload, frozenset())
            fresh = (
                i
                for i in self.instances
                if i.workload == entry.workload
                and digest(i.uid) not in known
                and i.uid not in taken
                and i.uid != entry.uid
            )
            best = max(fresh, key=lambda i: (i.node_name != "", i.ref.name), default=None)
            if best is not None:
                found[entry.uid] = best
                taken.add(best.uid)
        return found

    def _has_enough(self, entry: Entry) -> bool:
        """The workload has what it wants without another instance, or is gone itself."""
        workload = self._workloads.get(entry.workload)
        if workload is None:
            return True
        wanted = replicas(workload)
        there = sum(i.workload == entry.workload for i in self.instances)
        return wanted is not None and there >= wanted

    def _restart_queued(self, entry: Entry) -> bool:
        """A restart is a queue of two requests in the VM's status, to stop the VMI of this uid and
        to start (KubeVirt, virt-api rest/lifecycle.go)."""
        workload = self._workloads.get(entry.workload)
        if entry.method is not Method.RESTART or workload is None:
            return False
        requests = (workload.manifest.get("status") or {}).get("stateChangeRequests") or ()
        return any(found.get("uid") == entry.uid for found in requests)

    def _why_target_pending(self, entry: Entry, migration: t.Mapping[str, JSON] | None) -> str:
        phase = ((migration or {}).get("status") or {}).get("phase")
        if migration is None or phase not in ("Pending", "Scheduling"):
            return ""
        path = instances_path("Pod", entry.instance.namespace)
        chosen = {"labelSelector": f"{MIGRATION_JOB}={migration['metadata']['uid']}"}
        pods = list_all(self._api, path, params=chosen).items
        return next(filter(None, map(_unschedulable, pods)), "")

    def _why_pending(self, successor: Instance | None) -> str:
        if successor is None or successor.pod is None or successor.pod.node_name:
            return ""
        try:
            return _unschedulable(self._api.get(instance_path(successor.pod.ref)))
        except NotFound:
            return ""


_ENDED = ("Succeeded", "Failed")


def _unschedulable(pod: t.Mapping[str, JSON]) -> str:
    """The scheduler's own words on why a pod has no node, for people."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""
