# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload with claims by a seed, a scale of it, and the sandbox on which that is played.

What is drawn: the claims of running and of new replicas (bound to a zone, not bound, missing), their class and access
mode, the first ordinal, the order in which replicas start, LimitRanges, scheduling gates, and a rule.
"""

from __future__ import annotations

import random
import time
import typing as t

from sandbox import Sandbox, objects

JSON = t.Any
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("zone1", "zone2", "zone3")
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
WAITS, IMMEDIATE, LOCAL, MISSING = "waits", "immediate", "local", "no-such-class"
QUIET = 2.0
"""Seconds for which nothing must change."""
PATIENCE = 25.0


def make_classes(sandbox: Sandbox) -> None:
    for name, mode, provisioner in (
        (WAITS, "WaitForFirstConsumer", "csi.example.com"),
        (IMMEDIATE, "Immediate", "csi.example.com"),
        (LOCAL, "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    ):
        sandbox.api.create(
            CLASSES,
            {"metadata": {"name": name}, "volumeBindingMode": mode, "provisioner": provisioner},
        )


class Case:
    """A StatefulSet or a Deployment `db`, and what is scaled."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.kind = chance.choice(["StatefulSet", "StatefulSet", "Deployment"])
        self.first = chance.choice([0, 0, 3])
        self.replicas = chance.randint(0, 2)
        self.wanted = chance.choice(
            [self.replicas + 1, self.replicas + 2, max(0, self.replicas - 1)]
        )
        self.storage_class = chance.choice([WAITS, IMMEDIATE, LOCAL, MISSING, MISSING])
        self.mode = chance.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])
        self.claims = self._claims()
        self.limit_range = self._limit_range()
        self.gated = chance.random() < 0.1
        self.workload = self._workload()

    @property
    def question(self) -> JSON:
        return {"kind": self.kind, "name": "db", "replicas": self.wanted}

    def _claims(self) -> dict[str, str]:
        """Each claim that exists to the zone of its volume; empty for one that is not bound."""
        if self.kind == "Deployment":
            drawn = self.chance.choice([*ZONES, *ZONES, ""])
            missing = not self.replicas and self.chance.random() < 0.3
            return {} if missing else {"data": drawn}
        claims = {}
        for number in range(max(self.replicas, self.wanted)):
            name = f"data-db-{self.first + number}"
            if number < self.replicas:
                claims[name] = ZONES[number % 3]
            elif (drawn := self.chance.choice([*ZONES, "", "missing"])) != "missing":
                claims[name] = drawn
        return claims

    def _limit_range(self) -> JSON:
        return self.chance.choice(
            [
                *[None] * 5,
                {"default": {"cpu": "1"}, "defaultRequest": {"cpu": "700m"}},
                {"max": {"cpu": "2"}},
                {"max": {"cpu": "50m"}},
                {"min": {"memory": "64Mi"}, "default": {"memory": "256Mi"}},
            ]
        )

    def _workload(self) -> JSON:
        make = objects.stateful_set if self.kind == "StatefulSet" else objects.deployment
        placement = self._rule()
        if self.kind == "Deployment":
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
            placement["volumes"] = [volume]
        made = make("db", replicas=self.replicas, placement=placement, cpu="100m")
        spec, pod = made["spec"], made["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = 0
        if self.chance.random() < 0.4:
            pod["containers"][0].pop("resources", None)
        if self.kind == "StatefulSet":
            claim = {"accessModes": [self.mode], "resources": {"requests": {"storage": "1Gi"}}}
            claim["storageClassName"] = self.storage_class
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
            spec["ordinals"] = {"start": self.first}
            spec["podManagementPolicy"] = self.chance.choice(["OrderedReady", "Parallel"])
        return made

    def _rule(self) -> JSON:
        key, own = self.chance.choice([ZONE, HOST]), {"matchLabels": {"app": "db"}}
        drawn = self.chance.choice(["none", "none", "apart", "spread", "zone"])
        if drawn == "none":
            return {}
        if drawn == "zone":
            return {"nodeSelector": {ZONE: self.chance.choice(ZONES)}} if not self.replicas else {}
        if drawn == "spread":
            constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            return {"topologySpreadConstraints": [{**constraint, "labelSelector": own}]}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        term = {"labelSelector": own, "topologyKey": key}
        return {"affinity": {"podAntiAffinity": {required: [term]}}}


class Stage:
    """Plays one case in a namespace of its own."""

    def __init__(self, sandbox: Sandbox, case: Case, namespace: str) -> None:
        self.api, self.case, self.namespace = sandbox.api, case, namespace
        self.pods = self.api.path("Pod", namespace)

    def begin(self) -> None:
        """Create the claims and the workload. What changes the next pods comes after the first ones have run."""
        for name, zone in self.case.claims.items():
            self._claim(name, zone)
        made = self.case.workload
        made["metadata"]["namespace"] = self.namespace
        if self.case.gated and self.case.kind == "StatefulSet":  # its running pods stay
            made["spec"]["updateStrategy"] = {"type": "OnDelete"}
        self.api.create(self.api.collection_of(made), made)
        self.settle()
        if self.case.limit_range:
            limit = {"type": "Container", **self.case.limit_range}
            self.api.create(
                f"/api/v1/namespaces/{self.namespace}/limitranges",
                {"metadata": {"name": "limits"}, "spec": {"limits": [limit]}},
            )
        if self.case.gated and (self.case.kind == "StatefulSet" or not self.case.replicas):
            spec: JSON = {"template": {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}}}
            self.api.patch(self.api.path_of(made), {"spec": spec})

    def change(self) -> int:
        """Scale; how many replicas have no node then."""
        path = self.api.path_of(self.case.workload)
        self.api.patch(path, {"spec": {"replicas": self.case.wanted}})
        time.sleep(1)
        return self.case.wanted - self.settle()

    def settle(self) -> int:
        """Wait until nothing changes; the number of pods with a node."""
        deadline, last, since = time.monotonic() + PATIENCE, None, time.monotonic()
        while True:
            pods = [x for x in self.api.list(self.pods) if "deletionTimestamp" not in x["metadata"]]
            state = {x["metadata"]["name"]: x["spec"].get("nodeName", "") for x in pods}
            if state != last:
                last, since = state, time.monotonic()
            if time.monotonic() - since > QUIET or time.monotonic() > deadline:
                return sum(1 for node in state.values() if node)
            time.sleep(0.2)

    def _claim(self, name: str, zone: str) -> None:
        size = {"storage": "1Gi"}
        storage_class = "" if zone else self.case.storage_class
        spec: JSON = {
            "accessModes": [self.case.mode],
            "storageClassName": storage_class,
            "resources": {"requests": size},
        }
        if zone:
            volume = f"{self.namespace}-{name}"
            terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
            affinity = {"required": {"nodeSelectorTerms": terms}}
            of_volume = {
                "accessModes": [self.case.mode],
                "capacity": size,
                "storageClassName": "",
                "claimRef": {"namespace": self.namespace, "name": name},
                "csi": {"driver": "csi.example.com", "volumeHandle": volume},
                "nodeAffinity": affinity,
            }
            made = {"metadata": {"name": volume}, "spec": of_volume}
            self.api.create(self.api.path("PersistentVolume"), made)
            spec["volumeName"] = volume
        path = self.api.path("PersistentVolumeClaim", self.namespace)
        self.api.create(path, {"metadata": {"name": name}, "spec": spec})
        if zone:
            self.api.wait(
                lambda claim: claim["status"].get("phase") == "Bound",
                self.api.path("PersistentVolumeClaim", self.namespace, name),
            )

    def end(self) -> None:
        self.api.delete(self.api.path_of(self.case.workload), propagationPolicy="Background")
        self.api.wait_list(self.pods, lambda found: not found)
        for volume in self.api.list(self.api.path("PersistentVolume")):
            name = volume["metadata"]["name"]
            if name.startswith(f"{self.namespace}-"):
                self.api.delete(self.api.path("PersistentVolume", name=name))
