# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads in a namespace of a sandbox, and what roll-outs did to them."""

from __future__ import annotations

import contextlib
import datetime
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import JOURNAL
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.modules import rollout
from sandbox import Sandbox, drain, objects
from sandbox.admin_api import AdminApi
from sandbox.identities import shipped

Object = dict[str, t.Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/virt-placement"

PATIENCE = 600
"""Seconds for what should succeed: a machine that is busy may take many times as long."""


def forget_runs(api: AdminApi) -> None:
    """The Lease as it ships: a run that a test has left unfinished would be taken over by the next one."""
    api.delete(LEASE)
    api.apply(shipped("lease.yml"))


class Shop:
    """Workloads in a namespace of their own, and roll-outs of them as the identity mover."""

    def __init__(self, sandbox: Sandbox, namespace: str, run_module: t.Any) -> None:
        self.sandbox, self.api, self.namespace = sandbox, sandbox.api, namespace
        self._run_module = run_module

    def task(self, main: t.Callable[[], None], identity: str, **options: t.Any) -> Object:
        """The result of a module that has no steps."""
        kubeconfig = str(self.sandbox.kubeconfig(identity))
        return t.cast(Object, self._run_module(main, {"kubeconfig": kubeconfig, **options}))

    def task_in_check_mode(
        self, main: t.Callable[[], None], identity: str, **options: t.Any
    ) -> Object:
        kubeconfig = str(self.sandbox.kubeconfig(identity))
        params = {"kubeconfig": kubeconfig, **options}
        return t.cast(Object, self._run_module(main, params, check=True))

    def done(self, main: t.Callable[[], None], identity: str, **options: t.Any) -> Object:
        """The result of a module that has no steps and does not fail."""
        result = self.task(main, identity, **options)
        assert not result.get("failed"), result
        return result

    def path(self, kind: str, name: str | None = None) -> str:
        return self.api.path(kind, self.namespace, name)

    def instances(self) -> dict[str, Object]:
        """VMIs by name that stay."""
        found = self.api.list(self.path("VirtualMachineInstance"))
        return {i["metadata"]["name"]: i for i in found if not _ends(i)}

    def nodes(self) -> dict[str, str]:
        return {name: vmi["status"].get("nodeName", "") for name, vmi in self.instances().items()}

    def uids(self) -> set[str]:
        return {vmi["metadata"]["uid"] for vmi in self.instances().values()}

    def zones(self) -> list[str]:
        return sorted(self.zone(node) for node in self.nodes().values())

    def zone(self, node: str) -> str:
        return t.cast(str, self.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][ZONE])

    def nodes_of(self, zone: str) -> list[str]:
        nodes = self.api.list("/api/v1/nodes")
        return [x["metadata"]["name"] for x in nodes if x["metadata"]["labels"].get(ZONE) == zone]

    def start(self, *wanted: Object, nodes: t.Collection[str] | None = None) -> None:
        """Create workloads and wait until they run; on `nodes` only, where those are given."""
        there = sum(not _ends(pod) for pod in self.api.list(self.path("Pod")))
        with self._cordoned_all_but(nodes):
            for workload in wanted:
                self.api.create(self.api.collection_of(workload), workload)
            self.wait_ready(there + sum(w["spec"].get("replicas", 1) for w in wanted))

    def wait_ready(self, count: int) -> None:
        """Until that many pods of the namespace are Ready and no others are left."""
        self.api.wait_list(
            self.path("Pod"),
            lambda pods: (
                len([p for p in pods if not _ends(p) and _ready(p)]) >= count
                and all(_ready(p) for p in pods if not _ends(p))
            ),
            PATIENCE,
        )
        # the VMI learns of its node a moment after its pod is ready
        self.api.wait_list(
            self.path("VirtualMachineInstance"),
            lambda vmis: all(vmi["status"].get("nodeName") for vmi in vmis if not _ends(vmi)),
            PATIENCE,
        )

    def ended_migrations(self) -> list[Object]:
        """All migrations, once each is final and has its times: KubeVirt writes these one sync after the phase."""
        return self.api.wait_list(
            self.path("VirtualMachineInstanceMigration"),
            lambda migrations: all(
                x["status"]["phase"] in ("Succeeded", "Failed")
                and x["status"]["migrationState"]["endTimestamp"]
                for x in migrations
            ),
            PATIENCE,
        )

    def add_budget(self, name: str, labels: t.Mapping[str, str], **spec: t.Any) -> None:
        """A PodDisruptionBudget over pods with these labels, once its pods are counted."""
        budget = objects.disruption_budget(name, self.namespace, labels=labels)
        del budget["spec"]["maxUnavailable"]
        budget["spec"].update(spec)
        self.api.create(self.api.collection_of(budget), budget)
        self.wait_counted(name)

    def change_budget(self, name: str, **spec: t.Any) -> None:
        """Patch a PodDisruptionBudget, and wait until its pods are counted for the new spec."""
        self.api.patch(self.path("PodDisruptionBudget", name), {"spec": spec})
        self.wait_counted(name)

    def wait_counted(self, name: str) -> None:
        """Until the disruption controller has counted the pods of a budget as they are."""

        def counted(budget: Object) -> bool:
            labels = budget["spec"]["selector"]["matchLabels"].items()
            selector = ",".join(f"{key}={value}" for key, value in labels)
            pods = self.api.list(self.path("Pod"), labelSelector=selector)
            healthy = sum(_ready(pod) for pod in pods if not _ends(pod))
            status = budget["status"]
            seen = (status["observedGeneration"], status["expectedPods"], status["currentHealthy"])
            return seen == (budget["metadata"]["generation"], len(pods), healthy)

        self.api.wait(counted, self.path("PodDisruptionBudget", name), PATIENCE)

    def patch_template(self, kind: str, name: str, spec: Object) -> None:
        self.api.patch(self.path(kind, name), {"spec": {"template": {"spec": spec}}})

    def roll(self, check: bool = False, seconds: float = 2 * PATIENCE, **options: t.Any) -> Object:
        """Steps until the run has ended, as the action plugin makes them."""
        params: Object = {
            "kubeconfig": str(self.sandbox.kubeconfig("mover")),
            "namespaces": [self.namespace],
            "run_timeout": PATIENCE,
            "move_timeout": PATIENCE // 2,
            **options,
        }
        return self.steps(rollout.main, params, ("moves", "progress"), check=check, seconds=seconds)

    def steps(
        self,
        main: t.Callable[[], None],
        params: Object,
        gathered: t.Sequence[str],
        *,
        check: bool = False,
        diff: bool = False,
        seconds: float = 2 * PATIENCE,
    ) -> Object:
        """Steps of a module until it has ended; `gathered` are the lists of all steps together."""
        run: Object = {}
        lists: dict[str, list[t.Any]] = {name: [] for name in gathered}
        began = time.monotonic()
        while True:
            result = self._run_module(main, {**params, "step_state": run}, check=check, diff=diff)
            for name, items in lists.items():
                items += result.get(name) or []
            if result.get("failed") or result["finished"]:
                return {**result, **lists}
            assert time.monotonic() - began < seconds, lists["progress"]
            run = {**result["step_state"], "elapsed": time.monotonic() - began}

    def disruptions(self, since: t.Any, *, refused: bool = True) -> list[tuple[str, str]]:
        """What was deleted, evicted, restarted or migrated by the collection, from the audit log;
        with `refused` also what the API server did not do."""
        return [
            (event.verb, f"{event.resource}/{event.subresource}".strip("/"))
            for event in self.sandbox.audit.writes(since=since)
            if (refused or event.code < 300)
            and (
                event.verb == "delete"
                or event.subresource in ("eviction", "restart")
                or event.resource == "virtualmachineinstancemigrations"
            )
        ]

    def annotations(self, machine: str) -> dict[str, str]:
        found = self.api.get(self.path("VirtualMachine", machine))["metadata"]
        return t.cast("dict[str, str]", found.get("annotations") or {})

    def fewest_ready(self, work: t.Callable[[], object]) -> int:
        """The fewest VMIs that were Ready at once while `work` went on, seen ten times a second."""
        seen = []

        def look() -> None:
            seen.append(sum(_ready(vmi) for vmi in self.instances().values()))

        with _beside(look, every=0.1):
            work()
        return min(seen)

    @contextlib.contextmanager
    def meanwhile(
        self, *, until: t.Callable[[], bool], do: t.Callable[[], object]
    ) -> t.Iterator[None]:
        """Does something once as soon as a condition holds, beside what the block does."""

        def look() -> bool:
            if not until():
                return False
            do()
            return True

        with _beside(look, every=0.05):
            yield

    def lease(self) -> Object:
        return self.api.get(LEASE)

    def lease_is_free(self) -> bool:
        """Whether the Lease has no holder, or a dead one that left nothing in flight: a run with nothing to
        do cannot know that, and leaves such a Lease to the next run that has."""
        lease = self.lease()
        text = (lease["metadata"].get("annotations") or {}).get(JOURNAL) or ""
        return not (lease["spec"]["holderIdentity"] and text and journals.read(text).records)

    def hold_lease(self, run: str) -> None:
        """As a run that has just renewed."""
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": run, "renewTime": now, "leaseTransitions": 7}
        self.api.patch(LEASE, {"spec": spec})

    @contextlib.contextmanager
    def another_run(self, run: str) -> t.Iterator[None]:
        """A run that renews the Lease as long as it lasts."""
        self.hold_lease(run)
        try:
            with _beside(lambda: self.hold_lease(run), every=0.5):
                yield
        finally:
            self.api.patch(LEASE, {"spec": {"holderIdentity": ""}})

    def _cordoned_all_but(
        self, nodes: t.Collection[str] | None
    ) -> contextlib.AbstractContextManager[None]:
        names = [node["metadata"]["name"] for node in self.api.list("/api/v1/nodes")]
        shut = [name for name in names if nodes is not None and name not in nodes]
        return drain.cordoned(self.sandbox, shut)


@contextlib.contextmanager
def _beside(step: t.Callable[[], bool | None], *, every: float) -> t.Iterator[None]:
    """Takes a step every so many seconds beside what the block does, until one says True. What a
    step raises is raised at the end of the block."""
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(every) and not step():
            pass

    with ThreadPoolExecutor(1) as thread:
        walk = thread.submit(go_on)
        try:
            yield
        finally:
            ended.set()
    walk.result()


def _ends(manifest: Object) -> bool:
    final = manifest.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return final or "deletionTimestamp" in manifest["metadata"]


def _ready(manifest: Object) -> bool:
    conditions = manifest.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
