# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published situations, forecast and then carried out on a real control plane.

Each is known from a reference system or an issue of Kubernetes: what forecast_info says beforehand
is what the scheduler then does, and nobody is ever ended to make room.

The names of situations, S4 and so on, are those of demos/criteria.md, and the tests' names begin with them. More of
them: test_scenarios_zones.py, test_scenarios_losses.py (a node that fails, a zone that is drained) and
test_fencing.py (VMs of a node that fails, before and after it is fenced)."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import (
    capacity_info,
    drill_info,
    forecast_info,
    placement_info,
    rules,
)
from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

from .random_cluster import preempted

JSON = t.Any
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CREATED_BY = "kubevirt.io/created-by"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MIGRATION = "VirtualMachineInstanceMigration"
NODES = ("w1", "w2", "w3")


class Stage:
    """One namespace of a sandbox: what is forecast there, and what happens."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox, self.api, self.namespace = sandbox, sandbox.api, namespace
        self._run = run_module

    def forecast(self, **options: t.Any) -> dict[str, t.Any]:
        params = {"kubeconfig": str(self.sandbox.kubeconfig("reader")), **options}
        found = self._run(forecast_info.main, params)
        assert not found.get("failed"), found
        return found

    def drill(self, **options: t.Any) -> dict[str, t.Any]:
        params = {"kubeconfig": str(self.sandbox.kubeconfig("reader")), **options}
        drilled = self._run(drill_info.main, params)
        assert not drilled.get("failed"), drilled
        return drilled

    def capacity(self, **options: t.Any) -> dict[str, t.Any]:
        params = {"kubeconfig": str(self.sandbox.kubeconfig("reader")), **options}
        found = self._run(capacity_info.main, params)
        assert not found.get("failed"), found
        return found

    def write(self, *listed: JSON, **options: t.Any) -> dict[str, t.Any]:
        params = {"kubeconfig": str(self.sandbox.kubeconfig("mover")), **options}
        return self._run(rules.main, {**params, "namespace": self.namespace, "rules": list(listed)})

    def verdicts(self) -> dict[str, t.Any]:
        """What placement_info says of all instances here."""
        params = {"kubeconfig": str(self.sandbox.kubeconfig("reader"))}
        options = {"namespaces": [self.namespace], "details": "all"}
        found = self._run(placement_info.main, {**params, **options})
        assert not found.get("failed"), found
        return found

    def end(self) -> None:
        """Nobody had to make room for another; the nodes are as they were."""
        self.sandbox.restore_nodes()
        assert preempted(self.sandbox, self.namespace) == set()

    def path(self, kind: str, name: str = "") -> str:
        return self.api.path(kind, self.namespace, name or None)

    def create(self, manifest: JSON) -> None:
        made = copy.deepcopy(manifest)
        made["metadata"]["namespace"] = self.namespace
        self.api.create(self.path(made["kind"]), made)

    def machine(self, name: str, node: str, placement: JSON, **labels: str) -> None:
        """A machine that runs on `node`: the others are cordoned while it starts."""
        spec = {"evictionStrategy": "LiveMigrate", **placement}
        self._only(node)
        self.create(objects.virtual_machine(name, labels=labels, placement=spec))
        assert self.node_of(name) == node
        self.sandbox.restore_nodes()

    def _only(self, node: str) -> None:
        for each in NODES:
            if each != node:
                drain.cordon(self.sandbox, each)

    def node_of(self, name: str) -> str:
        vmi = self.api.wait(_may_migrate, self.path("VirtualMachineInstance", name), timeout=60)
        return str(vmi["status"]["nodeName"])

    def placed(self, count: int) -> list[str]:
        """The nodes of the pods once so many have one or were refused; empty for the refused."""
        pods = self.api.wait_list(
            self.path("Pod"),
            lambda found: (
                len(alive := _alive(found)) == count
                and all(pod["spec"].get("nodeName") or _is_refused(pod) for pod in alive)
            ),
            timeout=60,
        )
        return sorted(pod["spec"].get("nodeName", "") for pod in _alive(pods))

    def scale(self, name: str, replicas: int) -> None:
        self.api.patch(self.path("Deployment", name), {"spec": {"replicas": replicas}})


def _alive(pods: t.Iterable[JSON]) -> list[JSON]:
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def _is_refused(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def _may_migrate(vmi: JSON) -> bool:
    status = vmi.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return status.get("phase") == "Running" and conditions.get("LiveMigratable") == "True"


@pytest.fixture
def stage(small: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> t.Iterator[Stage]:
    """Three nodes in three zones."""
    begun = Stage(small, run_module, namespace(small, "scenario"))
    yield begun
    begun.end()


def anti_affinity(over: str = HOST, **labels: str) -> JSON:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": over}
    return {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}


def web(replicas: int, placement: JSON, **more: JSON) -> JSON:
    made = objects.deployment("web", replicas=replicas, placement=placement)
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 0
    made["spec"].update(more)
    return made


def spread(policy: str) -> JSON:
    constraint = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "nodeTaintsPolicy": policy,
    }
    return {"topologySpreadConstraints": [constraint]}


def test_s4_rules_that_would_do_nothing_are_refused_and_nothing_is_patched(stage: Stage) -> None:
    rack = {"metadata": {"labels": {"example.com/rack": "r1"}}}
    stage.api.patch(stage.api.path("Node", name="w1"), rack)
    stage.create(objects.virtual_machine("db", labels={"tier": "db"}, run_strategy="Halted"))
    wanted = {
        "nobody": {"topologyKey": ZONE},
        "everybody": {"topologyKey": ZONE, "labelSelector": {}},
        "no-node": {"topologyKey": "example.com/row", "labelSelector": _tier()},
        "some-nodes": {"topologyKey": "example.com/rack", "labelSelector": _tier()},
    }
    listed = [
        {
            "name": name,
            "workloads": [{"name": "db"}],
            "terms": {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}},
        }
        for name, term in wanted.items()
    ]
    start = stage.sandbox.audit.mark()

    result = stage.write(*listed)

    assert result["failed"]
    found = {(each["name"], each["rule"]) for each in result["findings"]}
    assert found >= {
        ("selector_matches_nothing", "nobody"),
        ("selector_matches_everything", "everybody"),
        ("no_node_has_key", "no-node"),
        ("nodes_lack_key", "some-nodes"),
    }
    assert stage.sandbox.audit.writes(since=start) == []


def _tier() -> JSON:
    return {"matchLabels": {"tier": "db"}}


def test_s10_two_apart_on_two_nodes_hold_a_drain_up_until_a_node_is_added(stage: Stage) -> None:
    stage.machine("db-a", "w1", anti_affinity(g="db"), g="db")
    stage.machine("db-b", "w2", anti_affinity(g="db"), g="db")
    drain.cordon(stage.sandbox, "w3")

    before = stage.forecast(unavailable={"nodes": ["w1"]})

    assert before["forecast"] == "impossible"
    assert [each["instance"]["name"] for each in before["not_migratable"]] == ["db-a"]
    drain.cordon(stage.sandbox, "w1")
    stage.create(objects.migration("db-a", name="held"))
    assert stage.placed(3) == ["", "w1", "w2"]

    stage.api.delete(stage.path(MIGRATION, "held"))
    assert stage.placed(2) == ["w1", "w2"]
    stage.sandbox.restore_nodes()
    after = stage.forecast(unavailable={"nodes": ["w1"]})

    assert after["forecast"] == "guaranteed", after
    (move,) = after["moves"]
    assert (move["method"], move["targets"]) == ("migrate", ["w3"])
    drain.cordon(stage.sandbox, "w1")
    stage.create(objects.migration("db-a"))
    path = stage.path("VirtualMachineInstance", "db-a")
    stage.api.wait(lambda vmi: vmi["status"]["nodeName"] == "w3", path, timeout=60)


def test_drain_waits_for_another_controller_where_the_eviction_strategy_is_external(
    stage: Stage,
) -> None:
    stage.machine("db", "w1", {"evictionStrategy": "External"})

    found = stage.forecast(unavailable={"nodes": ["w1"]})

    assert (found["forecast"], found["moves"]) == ("unknown", []), found
    (instance,) = found["not_migratable"]
    assert (instance["instance"]["name"], instance["certain"]) == ("db", False)
    assert "its eviction strategy is External" in found["reasons"][0]
    with pytest.raises(TimeoutError, match="virt-launcher-db"):
        drain.drain(stage.sandbox, "w1", timeout=10)
    vmi = stage.api.get(stage.path("VirtualMachineInstance", "db"))
    assert vmi["status"]["evacuationNodeName"] == "w1", "KubeVirt has marked it"
    assert stage.api.list(stage.path(MIGRATION)) == [], "and leaves the migration to others"
    stage.create(objects.migration("db"))
    drain.drain(stage.sandbox, "w1")
    assert stage.node_of("db") in ("w2", "w3")


def test_s10_a_pair_that_must_share_a_node_cannot_leave_it(stage: Stage) -> None:
    term = {"labelSelector": {"matchLabels": {"g": "pair"}}, "topologyKey": HOST}
    together = {"affinity": {"podAffinity": {REQUIRED: [term]}}}
    stage.machine("a", "w1", together, g="pair")
    stage.machine("b", "w1", together, g="pair")

    found = stage.forecast(unavailable={"nodes": ["w1"]})

    assert found["forecast"] == "impossible"
    assert sorted(each["instance"]["name"] for each in found["not_migratable"]) == ["a", "b"]
    drain.cordon(stage.sandbox, "w1")
    for name in ("a", "b"):
        stage.create(objects.migration(name))
    assert stage.placed(4) == ["", "", "w1", "w1"]


def test_s14_a_spread_takes_any_number_and_one_a_host_does_not(stage: Stage) -> None:
    stage.create(web(3, spread("Honor")))
    assert stage.placed(3) == ["w1", "w2", "w3"]
    for replicas, most in ((4, 2), (6, 2)):
        asked = [{"name": "web", "replicas": replicas}]
        found = stage.forecast(namespace=stage.namespace, scale=asked)
        assert found["forecast"] == "guaranteed"
        stage.scale("web", replicas)
        nodes = stage.placed(replicas)
        assert max(nodes.count(node) for node in NODES) == most
        assert "" not in nodes


def test_s14_the_fourth_of_one_a_host_waits(stage: Stage) -> None:
    stage.create(web(3, anti_affinity(app="web")))
    assert stage.placed(3) == ["w1", "w2", "w3"]

    asked = [{"name": "web", "replicas": 4}]
    found = stage.forecast(namespace=stage.namespace, scale=asked)

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1)
    stage.scale("web", 4)
    assert stage.placed(4) == ["", "w1", "w2", "w3"]


@pytest.mark.parametrize("policy", ["Ignore", "Honor"])
def test_s15_a_drained_domain_counts_unless_taints_are_honoured(stage: Stage, policy: str) -> None:
    stage.create(web(3, spread(policy)))
    assert stage.placed(3) == ["w1", "w2", "w3"]

    found = stage.forecast(unavailable={"nodes": ["w3"]})

    strands = policy == "Ignore"
    assert found["forecast"] == ("impossible" if strands else "guaranteed")
    assert found["min_unschedulable"] == (1 if strands else 0)
    drain.drain(stage.sandbox, "w3")
    if strands:
        assert stage.placed(3) == ["", "w1", "w2"]
    else:
        assert sorted(set(stage.placed(3))) == ["w1", "w2"]


@pytest.mark.parametrize("room", [False, True], ids=["a new pod first", "an old pod first"])
def test_s25_workload_rollout_without_capacity_waits_and_with_capacity_ends(
    stage: Stage, room: bool
) -> None:
    rolling = {"maxSurge": 0 if room else 1, "maxUnavailable": 1 if room else 0}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    stage.create(web(3, anti_affinity(app="web"), strategy=strategy))
    assert stage.placed(3) == ["w1", "w2", "w3"]
    rule = {
        "name": "somewhere",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "run_on": {"node": list(NODES)},
    }

    found = stage.forecast(namespace=stage.namespace, rules=[rule])

    assert found["forecast"] in (("guaranteed", "possible") if room else ("impossible",)), found
    assert found["min_unschedulable"] == (0 if room else 1)
    stage.write(rule, workload_rollout="allow")
    path = stage.path("Deployment", "web")
    if not room:
        assert "maxSurge 0" in found["deadlock"]["remediation"][0]
        assert stage.placed(4) == ["", "w1", "w2", "w3"]
        stage.api.wait(lambda each: each["status"].get("updatedReplicas") == 1, path)
        return
    stage.api.wait(lambda each: each["status"].get("updatedReplicas") == 3, path, timeout=60)
    assert stage.placed(3) == ["w1", "w2", "w3"]


# The article: six workers in three zones, one of two in each is fast.

ARTICLE = {
    "kni-worker": ("scu", ""),
    "kni-worker2": ("scu", "high"),
    "kni-worker3": ("bcn", ""),
    "kni-worker4": ("bcn", "high"),
    "kni-worker5": ("sab", ""),
    "kni-worker6": ("sab", "high"),
}
FAST = ["kni-worker2", "kni-worker4", "kni-worker6"]


@pytest.fixture
def databases(
    article: Sandbox, run_module: RunModule, namespace: MakeNamespace
) -> t.Iterator[Stage]:
    """The article's cluster with its labels."""
    for name, (zone, performance) in ARTICLE.items():
        labels = {ZONE: zone, **({"performance": performance} if performance else {})}
        article.api.patch(article.api.path("Node", name=name), {"metadata": {"labels": labels}})
    begun = Stage(article, run_module, namespace(article, "databases"))
    yield begun
    begun.end()


def mssql(stage: Stage, placement: JSON) -> None:
    """Three databases on the fast nodes: alike in load, the scheduler gives one to each."""
    fast = {"nodeSelector": {"performance": "high"}, "evictionStrategy": "None", **placement}
    stage.create(objects.replica_set("mssql", replicas=3, placement=fast, memory="16Gi"))
    assert stage.placed(3) == FAST


def test_s18_without_a_rule_two_share_a_zone(databases: Stage) -> None:
    mssql(databases, {})

    found = databases.forecast(unavailable={"nodes": ["kni-worker2"]})

    assert (found["forecast"], found["min_unschedulable"]) == ("guaranteed", 0), found
    (move,) = found["moves"]
    assert (move["method"], sorted(move["targets"])) == ("recreate", FAST[1:])
    drain.drain(databases.sandbox, "kni-worker2")
    nodes = databases.placed(3)
    assert sorted(set(nodes)) == FAST[1:]
    assert {ARTICLE[node][0] for node in nodes} == {"bcn", "sab"}

    rule = {
        "name": "one-a-zone",
        "workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "mssql"}],
        "keep_apart": {"topology_key": "zone"},
    }
    written = databases.write(rule)
    assert written["changed"], written
    judged = databases.verdicts()["instances"]
    doubled = max(nodes, key=nodes.count)
    verdicts = sorted((each["node"], each["verdict"]) for each in judged)
    (alone,) = set(FAST[1:]) - {doubled}
    assert verdicts == sorted([(doubled, "violated")] * 2 + [(alone, "not_enforced")])


def test_s22_with_the_rule_one_waits_for_its_zone(databases: Stage) -> None:
    mssql(databases, anti_affinity(ZONE, **{"kubevirt.io/domain": "mssql"}))

    found = databases.forecast(unavailable={"nodes": ["kni-worker2"]})

    assert (found["forecast"], found["min_unschedulable"]) == ("impossible", 1)
    assert len(found["pending"]) == 1
    drain.drain(databases.sandbox, "kni-worker2")
    assert databases.placed(3) == ["", *FAST[1:]]
    drain.uncordon(databases.sandbox, "kni-worker2")
    databases.api.wait_list(
        databases.path("Pod"),
        lambda pods: sorted(p["spec"].get("nodeName", "") for p in _alive(pods)) == FAST,
        timeout=60,
    )
