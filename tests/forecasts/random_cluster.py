# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster by a seed, what is changed in it, and the sandbox on which that is played.

A case has nodes and Deployments of its own. The change is a drained node, more copies of a
Deployment, or a rule that is written on one. In every third one Deployment ranks above the other
and would end pods for a place. In every second a drained node's pods end all at once, else each
when what comes after the one before has found a place or none.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
import typing as t

from ansible_collections.virt.placement.plugins.modules import rules
from sandbox import Sandbox, cluster_file, nodes, objects
from sandbox.processes import PidFile, alive
from tests.conftest import RunModule

JSON = t.Any
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NAMESPACE = "random"
SETTLED = 0.6
"""Seconds for which nothing must change."""
URGENT, PATIENT = "urgent", "patient"
"""Classes above all other pods: one ends lower ones to get a place, one does not."""
SEEN = 0.2
"""Seconds after which the scheduler knows what is gone."""


def make_priority_classes(sandbox: Sandbox) -> None:
    policies = {URGENT: "PreemptLowerPriority", PATIENT: "Never"}
    for name, policy in policies.items():
        body = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": policy}
        sandbox.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)


def preempted(sandbox: Sandbox, namespace: str = NAMESPACE) -> set[str]:
    """The uids of the pods for which the scheduler ended others."""
    seen = sandbox.api.list(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    notes = [event["note"] for event in seen if event.get("reason") == "Preempted"]
    return {re.sub("Preempted by pod ([^ ]+) on node .*", r"\1", note) for note in notes}


@contextlib.contextmanager
def all_at_once(sandbox: Sandbox) -> t.Iterator[None]:
    """What is deleted meanwhile is made again only when all of it is gone: one by one, the first
    would be placed while the others still count."""
    known = (PidFile(sandbox.directory).read() or {})["processes"]["kube-controller-manager"]
    assert alive(known)
    os.kill(known["pid"], signal.SIGSTOP)
    try:
        yield
        time.sleep(SEEN)
    finally:
        os.kill(known["pid"], signal.SIGCONT)


def deployment_of(pod: str) -> str:
    return pod.rsplit("-", 2)[0]


class Case:
    """A cluster, and what is changed in it, by a seed."""

    cpus: t.ClassVar[tuple[str, ...]] = ("1", "2", "3")
    """Of a node."""
    sizes: t.ClassVar[tuple[int, int]] = (3, 5)
    """The least and the most nodes."""
    replicas: t.ClassVar[tuple[int, int]] = (2, 5)
    """The least and the most pods of a Deployment."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.urgent = seed % 3 == 0
        prefix = f"c{seed}"
        zones = chance.sample(["za", "zb", "zc"], chance.randint(2, 3))
        entries = [
            {
                "name": f"{prefix}-{number}",
                "labels": {ZONE: chance.choice(zones)},
                "allocatable": {
                    "cpu": chance.choice(self.cpus),
                    "pods": chance.choice(["3", "9", "110"]),
                },
            }
            for number in range(chance.randint(*self.sizes))
        ]
        content = {"kubevirt": False, "nodes": entries}
        self.nodes = cluster_file.parse(prefix, content).nodes
        self.deployments = [
            self._deployment(f"{prefix}-{letter}", f"{prefix}-a")
            for letter in "ab"[: 2 if self.urgent else chance.randint(1, 2)]
        ]
        self._rank()
        self.lost = chance.choice(self.nodes).name
        self.change = chance.choice(["drain", "scale", "rule"])
        self.grown = chance.randint(1, 3)
        self.rule = self._new_rule(sorted(set(zones)))
        self.at_once = seed % 2 == 0

    def _deployment(self, name: str, first: str) -> JSON:
        cpu = self.chance.choice(["100m", "500m", "1"])
        replicas = self.chance.randint(*self.replicas)
        made = objects.deployment(
            name, NAMESPACE, replicas=replicas, placement=self._rule(name, first), cpu=cpu
        )
        made["spec"]["strategy"] = {"type": "Recreate"}
        made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
        return made

    def _rank(self) -> None:
        """One Deployment above the other, in many cases."""
        named = URGENT if self.urgent else self.chance.choice(["", PATIENT])
        if named and len(self.deployments) > 1:
            ranked = self.chance.choice([self.deployments[0], *self.deployments])
            ranked["spec"]["template"]["spec"]["priorityClassName"] = named

    @property
    def names(self) -> set[str]:
        """Of all Deployments."""
        return {each["metadata"]["name"] for each in self.deployments}

    @property
    def in_rank(self) -> list[JSON]:
        """The Deployments, those above others first."""
        return sorted(
            self.deployments,
            key=lambda each: "priorityClassName" not in each["spec"]["template"]["spec"],
        )

    def below(self, names: set[str]) -> set[str]:
        """The Deployments whose pods one of these may end, to have their place."""
        classes = {
            each["metadata"]["name"]: each["spec"]["template"]["spec"].get("priorityClassName")
            for each in self.deployments
        }
        if URGENT not in {classes[name] for name in names}:
            return set()
        return {name for name, its in classes.items() if its is None}

    def _rule(self, name: str, first: str) -> JSON:
        key = self.chance.choice([ZONE, HOST])
        own = {"matchLabels": {"app": name}}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        kind = self.chance.choice(
            ["none", "apart", "apart", "spread", "spread", "beside", "away", "away"]
        )
        if kind == "none":
            return {}
        if kind == "spread":
            constraint = {
                "topologyKey": key,
                "maxSkew": self.chance.randint(1, 2),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": own,
                "nodeTaintsPolicy": self.chance.choice(["Honor", "Ignore"]),
            }
            return {"topologySpreadConstraints": [constraint]}
        selector = own if kind == "apart" else {"matchLabels": {"app": first}}
        field = "podAffinity" if kind == "beside" else "podAntiAffinity"
        return {"affinity": {field: {required: [{"labelSelector": selector, "topologyKey": key}]}}}

    def _new_rule(self, zones: list[str]) -> JSON:
        """A rule for the first Deployment, which then rolls out by itself. It has one constraint
        over a key at most, so it gets no second one."""
        chance, target = self.chance, self.deployments[0]
        others = [
            {"kind": "Deployment", "name": d["metadata"]["name"]} for d in self.deployments[1:]
        ]
        over = chance.choice(["zone", "node"])
        verbs: list[JSON] = [
            {"keep_apart": {"topology_key": over}},
            {"run_on": {"zone": chance.sample(zones, chance.randint(1, len(zones)))}},
            {"avoid": {"zone": chance.choice(zones)}},
            *({"keep_apart": {"topology_key": over, "from": other}} for other in others),
        ]
        if not target["spec"]["template"]["spec"].get("topologySpreadConstraints"):
            verbs.append({"spread": {"topology_key": over}})
        named = {"kind": "Deployment", "name": target["metadata"]["name"]}
        return {"name": "new", "workloads": [named], **chance.choice(verbs)}

    def asks_about(self, pod: str) -> bool:
        """Whether a pod is to be placed though it has waited before: it is of what is scaled."""
        scaled = self.deployments[0]["metadata"]["name"]
        return self.change == "scale" and deployment_of(pod) == scaled

    @property
    def question(self) -> JSON:
        if self.change == "drain":
            return {"unavailable": {"nodes": [self.lost]}}
        if self.change == "rule":
            return {"namespace": NAMESPACE, "rules": [self.rule]}
        target = self.deployments[0]
        replicas = target["spec"]["replicas"] + self.grown
        named = {"name": target["metadata"]["name"], "replicas": replicas}
        return {"namespace": NAMESPACE, "scale": [named]}


class Stage:
    """Plays one case on the sandbox."""

    def __init__(self, sandbox: Sandbox, case: Case) -> None:
        self.sandbox, self.api, self.case = sandbox, sandbox.api, case
        self.pods = self.api.path("Pod", NAMESPACE)
        self.expected = 0
        self.affected: set[str] = set()
        """Deployments with pods that have to find a place."""
        self.on_lost: list[str] = []
        """The pods on the node that is drained, if one is."""
        self._first: set[str] = set()

    def begin(self) -> set[str]:
        """Make the cluster, high ranks first, so that none has to make room for another; the names
        of the pods that have no place from the start."""
        self.api.create_all([nodes.node_object(node) for node in self.case.nodes])
        for node in self.case.nodes:
            self.api.wait(is_free, self.api.path("Node", name=node.name))
        self.expected = 0
        for made in self.case.in_rank:
            self.api.create(self.api.collection_of(made), made)
            self.expected += made["spec"]["replicas"]
            waiting = self.settle()
        pods = self.api.list(self.pods)
        if used := {pod["spec"].get("nodeName", "") for pod in pods} - {""}:
            self.case.lost = self.case.chance.choice(sorted(used))
        self._first = {pod["metadata"]["uid"] for pod in pods}
        self.affected = {self.case.deployments[0]["metadata"]["name"]}
        if self.case.change == "drain":
            lost = [pod for pod in pods if pod["spec"].get("nodeName") == self.case.lost]
            self.on_lost = [pod["metadata"]["name"] for pod in lost]
            self.affected = set(map(deployment_of, self.on_lost))
        return waiting

    def change(self, run_module: RunModule, allowed: list[str]) -> None:
        if self.case.change == "rule":
            self._write(run_module, allowed)
            return
        if self.case.change == "scale":
            target = self.case.deployments[0]
            (scaled,) = self.case.question["scale"]
            path = self.api.path("Deployment", NAMESPACE, target["metadata"]["name"])
            self.api.patch(path, {"spec": {"replicas": scaled["replicas"]}})
            self.expected += scaled["replicas"] - target["spec"]["replicas"]
            return
        path = self.api.path("Node", name=self.case.lost)
        self.api.patch(path, {"spec": {"unschedulable": True}})
        self.api.wait(_has_cordon_taint, path)
        if self.case.at_once:
            on_node = f"?fieldSelector=spec.nodeName={self.case.lost}"
            with all_at_once(self.sandbox):
                self.api.delete(f"{self.pods}{on_node}", gracePeriodSeconds=0)
        else:
            self._evict_one_by_one()

    def _evict_one_by_one(self) -> None:
        pods = [p for p in self.api.list(self.pods) if p["spec"].get("nodeName") == self.case.lost]
        self.case.chance.shuffle(pods)
        for pod in pods:
            path = self.api.path("Pod", NAMESPACE, pod["metadata"]["name"])
            self.api.delete(path, gracePeriodSeconds=0)
            self.settle()

    def _write(self, run_module: RunModule, allowed: list[str]) -> None:
        """Write the rule, and wait until the pods are those of the new template."""
        path = self.api.path("Deployment", NAMESPACE, self.case.deployments[0]["metadata"]["name"])
        params = {
            "kubeconfig": str(self.sandbox.kubeconfig("mover")),
            "namespace": NAMESPACE,
            "rules": [{**self.case.rule, "allow_findings": allowed}],
            "workload_rollout": "allow",
        }
        written = run_module(rules.main, params)
        assert written["changed"], written
        self.api.wait(_is_rolled_out, path)

    def settle(self, *, patience: float = 20, placed: bool = False, left_over: int = 0) -> set[str]:
        """Wait until every pod has a node or was refused; the names of those without a node.
        `placed`: wait for all to have one, as long as there is patience. `left_over` pods beside them cannot end."""
        deadline, last, since = time.monotonic() + patience, None, time.monotonic()
        while True:
            seen = self.api.list(self.pods)
            alive = [pod for pod in seen if "deletionTimestamp" not in pod["metadata"]]
            state = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in alive}
            waiting = {name for name, node in state.items() if not node}
            if state != last:
                last, since = state, time.monotonic()
            decided = all(pod["spec"].get("nodeName") or _is_refused(pod) for pod in alive)
            ending = len(seen) - len(alive)
            complete = len(alive) == self.expected and ending == left_over and decided
            if complete and not waiting:
                return waiting
            quiet = time.monotonic() - since > SETTLED and not placed
            if (complete and quiet) or time.monotonic() > deadline:
                assert complete, f"not settled after {patience} s: {state}"
                return waiting
            time.sleep(0.15)

    def owners(self) -> dict[str, str]:
        """The Deployment of each pod, by uid."""
        found = (pod["metadata"] for pod in self.api.list(self.pods))
        return {pod["uid"]: deployment_of(pod["name"]) for pod in found}

    def made_on(self) -> list[str]:
        """The nodes of the pods that were made by the change."""
        pods = self.api.list(self.pods)
        return [p["spec"]["nodeName"] for p in pods if p["metadata"]["uid"] not in self._first]

    def end(self) -> None:
        for made in self.case.deployments:
            path = self.api.path("Deployment", NAMESPACE, made["metadata"]["name"])
            self.api.delete(path, propagationPolicy="Background")
        self.api.wait_list(self.api.path("ReplicaSet", NAMESPACE), lambda found: not found)
        self.api.delete(self.pods, gracePeriodSeconds=0)
        self.api.wait_list(self.pods, lambda found: not found)
        for node in self.case.nodes:
            self.api.delete(self.api.path("Node", name=node.name))


def _is_rolled_out(deployment: JSON) -> bool:
    status = deployment["status"]
    seen = status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    updated = status.get("updatedReplicas") == status.get("replicas")
    return bool(seen and updated and status.get("replicas") == deployment["spec"]["replicas"])


def is_free(node: JSON) -> bool:
    return nodes.is_ready(node) and not node["spec"].get("taints")


def _has_cordon_taint(node: JSON) -> bool:
    keys = {taint["key"] for taint in node["spec"].get("taints") or ()}
    return "node.kubernetes.io/unschedulable" in keys


def _is_refused(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
