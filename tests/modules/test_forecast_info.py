# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module forecast_info against a real control plane: it answers, and writes nothing."""

from __future__ import annotations

import copy
import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import forecast_info, rules
from sandbox import Sandbox, node_faults, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
CREATED_BY = "kubevirt.io/created-by"


class Ask:
    """One namespace of a sandbox, and the module run on it. No run may write."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self._run = run_module

    def __call__(self, *, identity: str = "reader", **options: t.Any) -> dict[str, t.Any]:
        start = self.sandbox.audit.mark()
        params = {"kubeconfig": str(self.sandbox.kubeconfig(identity)), **options}
        result = self._run(forecast_info.main, params)
        assert self.sandbox.audit.writes(since=start) == []
        assert not result["changed"]
        return result

    def rules(self, *rules: JSON, **options: t.Any) -> dict[str, t.Any]:
        return self(namespace=self.namespace, rules=list(rules), **options)

    def write(self, *listed: JSON, **options: t.Any) -> dict[str, t.Any]:
        """Write rules, as the module rules does."""
        kubeconfig = str(self.sandbox.kubeconfig("mover"))
        params = {"kubeconfig": kubeconfig, "namespace": self.namespace, "rules": list(listed)}
        return self._run(rules.main, {**params, **options})

    def create(self, manifest: JSON) -> None:
        manifest = copy.deepcopy(manifest)
        manifest["metadata"]["namespace"] = self.namespace
        self.sandbox.api.create(self.sandbox.api.path(manifest["kind"], self.namespace), manifest)

    def machines(self, *names: str, **options: t.Any) -> None:
        for name in names:
            self.create(objects.virtual_machine(name, **options))

    def running(self, *names: str) -> dict[str, str]:
        """Wait until the machines run; their nodes."""
        found = {}
        for name in names:
            path = self.sandbox.api.path("VirtualMachineInstance", self.namespace, name)
            vmi = self.sandbox.api.wait(_runs, path, timeout=60)
            found[name] = vmi["status"]["nodeName"]
        return found


def _runs(vmi: JSON) -> bool:
    status = vmi.get("status") or {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return status.get("phase") == "Running" and conditions.get("LiveMigratable") == "True"


def apart(names: t.Sequence[str], over: str = "zone") -> JSON:
    return {
        "name": "apart",
        "workloads": [{"names": list(names)}],
        "keep_apart": {"topology_key": over},
    }


def anti_affinity(*, migratable: bool) -> JSON:
    term: JSON = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    if migratable:
        term["mismatchLabelKeys"] = [CREATED_BY]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"podAntiAffinity": required}}


@pytest.fixture
def ask(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> Ask:
    return Ask(six, run_module, namespace(six, "forecast"))


FOUR = ("web-a", "web-b", "web-c", "web-d")


def test_four_halted_vms_apart_in_three_zones_are_impossible(ask: Ask) -> None:
    ask.machines(*FOUR, run_strategy="Halted")

    result = ask.rules(apart(FOUR))

    assert result["forecast"] == "impossible"
    assert result["reasons"] == [
        "4 VMs (web-a, web-b, web-c, web-d) need 4 different zones (anti-affinity), and only 3"
        " (zone1, zone2, zone3) are feasible"
    ]
    assert (result["instances_to_schedule"], result["min_unschedulable"]) == (4, 1)
    (pending,) = result["pending"]
    assert not pending["certain"], "any of the four may be it"
    assert "node(s) didn't match pod anti-affinity rules" in pending["reason"]


def test_an_equal_term_of_their_own_is_no_second_reason(ask: Ask) -> None:
    ids = {"key": "vmi.kubevirt.io/id", "operator": "In", "values": list(FOUR)}
    term = {"labelSelector": {"matchExpressions": [ids]}, "topologyKey": ZONE}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    own = {"affinity": {"podAntiAffinity": required}}
    ask.machines(*FOUR, run_strategy="Halted", placement=own)

    result = ask.rules(apart(FOUR))

    assert result["reasons"] == [
        "4 VMs (web-a, web-b, web-c, web-d) need 4 different zones (anti-affinity), and only 3"
        " (zone1, zone2, zone3) are feasible"
    ]


def test_vms_that_no_rollout_moves_are_no_moves(ask: Ask) -> None:
    """One pair has the label do-not-move; then the node of the other pair dies."""
    api = ask.sandbox.api
    for names in (("a0", "a1"), ("b0", "b1")):
        ask.machines(*names, placement=_prefers("w1"))
        assert set(ask.running(*names).values()) == {"w1"}
    labels = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
    for name in ("a0", "a1"):
        api.patch(api.path("VirtualMachine", ask.namespace, name), labels)

    labelled = ask.rules(apart(["a0", "a1"]))
    before = ask.rules(apart(["b0", "b1"]))
    node_faults.node_down(api, "w1")
    try:
        api.wait(lambda node: "taints" in node["spec"], api.path("Node", name="w1"), timeout=60)
        after = ask.rules(apart(["b0", "b1"]))
        drained = ask(unavailable={"nodes": ["w1"]}, event="drain")
    finally:
        node_faults.node_up(api, "w1")

    assert (before["forecast"], len(before["moves"])) == ("guaranteed", 1)
    for result, reason in ((labelled, "do-not-move"), (after, "its node w1 is NotReady")):
        assert (result["forecast"], result["moves"]) == ("impossible", [])
        assert any(reason in text for text in result["reasons"])
    assert drained["forecast"] == "impossible"
    here = [x for x in drained["not_migratable"] if x["instance"]["namespace"] == ask.namespace]
    assert len(here) == 4
    assert all("its node w1 is NotReady" in each["reason"] for each in here)


def limit_pods(ask: Ask, count: int) -> None:
    api = ask.sandbox.api
    metadata = {"name": "compute", "namespace": ask.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    path = api.path("ResourceQuota", ask.namespace)
    api.create(path, {**quota, "spec": {"hard": {"pods": str(count)}}})
    api.wait(lambda q: (q.get("status") or {}).get("used", {}).get("pods"), f"{path}/compute")


@pytest.mark.parametrize(("pods", "answer"), [(2, "impossible"), (3, "guaranteed")])
def test_a_migration_needs_a_second_pod_in_the_quota(ask: Ask, pods: int, answer: str) -> None:
    ask.machines("web-a", "web-b", placement=_prefers("w1"))
    assert set(ask.running("web-a", "web-b").values()) == {"w1"}
    limit_pods(ask, pods)

    result = ask.rules(apart(["web-a", "web-b"]))
    drained = ask(unavailable={"nodes": ["w1"]}, event="drain")

    for forecast in (result, drained):
        assert forecast["forecast"] == answer
    if answer == "impossible":
        assert result["reasons"] == [
            f"VirtualMachineInstance {ask.namespace}/{name}: its live migration needs a second pod,"
            f" and ResourceQuota {ask.namespace}/compute allows 2 pods, and 3 are needed"
            for name in [result["not_migratable"][0]["instance"]["name"]]
        ]
        assert len(drained["not_migratable"]) == 2
        assert drained["moves"] == []


def test_new_instances_share_what_a_quota_has_left(ask: Ask) -> None:
    ask.machines(*FOUR[:3], run_strategy="Halted")
    limit_pods(ask, 2)

    result = ask.rules(apart(FOUR[:3]))

    assert (result["forecast"], result["min_unschedulable"]) == ("impossible", 1)
    assert "compute allows 2 pods, and 3 are needed" in result["reasons"][0]


@pytest.mark.tour
def test_three_halted_vms_apart_in_three_zones_are_guaranteed(ask: Ask) -> None:
    ask.machines(*FOUR[:3], run_strategy="Halted")

    result = ask.rules(apart(FOUR[:3]))

    assert (result["forecast"], result["reasons"], result["pending"]) == ("guaranteed", [], [])
    assert result["moves"] == []


def test_rule_that_running_vms_would_violate_names_the_moves(ask: Ask) -> None:
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "w1"}}
    ask.machines("web-a", "web-b", placement=pinned)
    assert set(ask.running("web-a", "web-b").values()) == {"w1"}

    result = ask.rules(apart(["web-a", "web-b"]))

    assert result["forecast"] == "impossible"
    assert result["reasons"] == [
        "2 VMs (web-a, web-b) need 2 different zones (anti-affinity), and only 1 (zone1) is feasible"
    ]


@pytest.mark.tour
def test_one_move_repairs_two_vms_in_one_zone(ask: Ask) -> None:
    ask.machines("web-a", "web-b", placement=_prefers("w1"))
    assert set(ask.running("web-a", "web-b").values()) == {"w1"}

    result = ask.rules(apart(["web-a", "web-b"]))

    assert result["forecast"] == "guaranteed", "any node of another zone will do"
    (move,) = result["moves"]
    record = {key: move[key] for key in ("kind", "namespace", "name", "method", "from_node")}
    assert record == {
        "kind": "VirtualMachine",
        "namespace": ask.namespace,
        "name": move["instance"],
        "method": "migrate",
        "from_node": "w1",
    }
    assert move["to_node"] == move["targets"][0]
    assert "w1" not in move["targets"]
    assert result["not_migratable"] == []


def _prefers(node: str) -> JSON:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    term = {"weight": 100, "preference": {"matchExpressions": [expression]}}
    wishes = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"affinity": {"nodeAffinity": wishes}}


@pytest.mark.parametrize("migratable", [True, False], ids=["migratable form", "plain form"])
def test_draining_a_node_under_a_zone_rule(ask: Ask, migratable: bool) -> None:
    ask.machines(*FOUR[:3], labels={"app": "web"}, placement=anti_affinity(migratable=migratable))
    nodes = ask.running(*FOUR[:3])

    result = ask(unavailable={"nodes": [nodes["web-a"]]})

    if migratable:
        assert result["forecast"] == "guaranteed"
        (move,) = [each for each in result["moves"] if each["instance"] == "web-a"]
        assert (move["method"], move["from_node"]) == ("migrate", nodes["web-a"])
        assert len(move["targets"]) == 1
    else:
        assert result["forecast"] == "impossible"
        (stuck,) = result["not_migratable"]
        assert stuck["instance"]["name"] == "web-a"
        assert len(stuck["if_restarted"]) == 1
        assert result["deadlock"]["remediation"]


def test_scaling_names_the_pods_that_would_be_pending(ask: Ask) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    placement = {"affinity": {"podAntiAffinity": required}}
    ask.create(objects.deployment("web", replicas=1, placement=placement))
    pods = ask.sandbox.api.path("Pod", ask.namespace)
    ask.sandbox.api.wait_list(pods, lambda found: any(p["spec"].get("nodeName") for p in found))

    enough = ask(namespace=ask.namespace, scale=[{"name": "web", "replicas": 3}])
    too_many = ask(namespace=ask.namespace, scale=[{"name": "web", "replicas": 5}])

    assert enough["forecast"] == "guaranteed"
    assert (too_many["forecast"], too_many["min_unschedulable"]) == ("impossible", 2)
    assert "need 3 different zones (anti-affinity), and only 2 " in too_many["reasons"][0]


def test_rules_that_cannot_hold_are_impossible_when_they_are_written_too(ask: Ask) -> None:
    ask.machines("web-a", "web-b", placement={"nodeSelector": {ZONE: "zone1"}})
    ask.machines("web-c")
    ask.running(*FOUR[:3])
    rule = {**apart(FOUR[:3]), "allow_findings": ["unsatisfiable"]}
    outlook = ask.rules(rule)

    written = ask.write(rule)
    again = ask.rules(rule)

    assert written["changed"]
    assert outlook["forecast"] == again["forecast"] == "impossible"
    assert outlook["reasons"] == again["reasons"]
    assert (
        "(web-a, web-b) need 2 different zones (anti-affinity), and only 1 " in again["reasons"][0]
    )
    assert {each["instance"] for each in again["skipped_instances"]} <= {"web-a", "web-b"}


def test_an_instance_that_is_pending_by_a_rule_is_placed_by_a_forecast_of_the_rule(
    ask: Ask,
) -> None:
    even = {
        "name": "apart",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "keep_apart": {"topology_key": "zone"},
    }
    ask.create(objects.deployment("web", replicas=2))
    assert ask.write(even, workload_rollout="allow")["changed"]
    deployment = ask.sandbox.api.path("Deployment", ask.namespace, "web")
    ask.sandbox.api.wait(_rolled_out, deployment, timeout=60)
    ask.sandbox.api.patch(deployment, {"spec": {"replicas": 5}})
    pods = ask.sandbox.api.path("Pod", ask.namespace)
    ask.sandbox.api.wait_list(pods, lambda found: sorted(map(_bound, found)) == [0, 0, 1, 1, 1])

    of_rule = ask.rules(even)
    of_scale = ask(namespace=ask.namespace, scale=[{"name": "web", "replicas": 5}])
    of_nothing = ask()

    for asked in (of_rule, of_scale):
        assert (asked["forecast"], asked["instances_to_schedule"], asked["min_unschedulable"]) == (
            "impossible",
            2,
            2,
        )
        assert len(asked["pending"]) == 2
        assert "node(s) didn't match pod anti-affinity rules" in asked["pending"][0]["reason"]
    assert (of_nothing["forecast"], of_nothing["instances_to_schedule"]) == ("guaranteed", 0)
    assert [x["code"] for x in of_nothing["outcome"]["done"]] == ["no_change"]
    (reason,) = [each for each in of_nothing["reasons"] if f"{ask.namespace}/web-" in each]
    assert reason.startswith("2 are pending now, without any change")


def _rolled_out(deployment: JSON) -> bool:
    status = deployment.get("status") or {}
    seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    counts = [status.get(name) for name in ("replicas", "updatedReplicas", "readyReplicas")]
    return seen and counts == [2, 2, 2]


def _bound(pod: JSON) -> int:
    return int(bool(pod["spec"].get("nodeName")))


def test_forecast_of_rules_reports_and_refuses_their_findings(ask: Ask) -> None:
    ask.machines(*FOUR[:2], labels={"app": "web"}, run_strategy="Halted")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE}]}
    without_selector = {
        "name": "as-harvester-saved-it",
        "workloads": [{"names": list(FOUR[:2])}],
        "terms": {"affinity": {"podAntiAffinity": required}},
    }
    plain = {
        "name": "plain",
        "workloads": [{"names": list(FOUR[:2])}],
        "terms": anti_affinity(migratable=False),
    }

    result = ask.rules(without_selector, plain)

    found = {(each["name"], each["severity"], each["rule"]) for each in result["findings"]}
    assert ("selector_matches_nothing", "error", "as-harvester-saved-it") in found
    assert ("blocks_live_migration", "warning", "plain") in found
    assert result["blocking_findings"] == ["selector_matches_nothing"]
    assert "blocks_live_migration" in str(result["warnings"])


def test_equal_spread_constraint_is_adopted_or_refused(ask: Ask) -> None:
    constraint = {
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash"],
    }
    ask.create(
        objects.deployment("web", replicas=3, placement={"topologySpreadConstraints": [constraint]})
    )
    even = {
        "name": "even",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "spread": {"topology_key": "zone"},
    }

    assert ask.rules(even)["blocking_findings"] == ["duplicate_spread"]
    assert ask.rules(even, adopt=True)["blocking_findings"] == []


def test_every_fault_is_named_at_once(ask: Ask) -> None:
    result = ask(
        unavailable={"zon": "zone1", "nodes": []},
        scale=[{"name": "web", "replicas": -1}],
        rules=[{"name": "x"}],
    )

    assert result["failed"]
    text = "\n".join(error_messages(result))
    for name in (
        "unavailable.zon",
        "did you mean",
        "unavailable.nodes",
        "replicas",
        "namespace",
    ):
        assert name in text


def test_what_the_cluster_does_not_have(ask: Ask) -> None:
    result = ask(
        unavailable={"nodes": ["w11"], "zone": "zone9"},
        scale=[{"namespace": ask.namespace, "name": "wep", "replicas": 2}],
    )

    assert result["failed"]
    assert len(error_messages(result)) == 3
    assert "w1" in error_messages(result)[0]
    assert "its values are 'zone1', 'zone2', 'zone3'" in error_messages(result)[1]


def test_faults_of_form_and_of_the_cluster_are_named_together(ask: Ask) -> None:
    result = ask(
        namespace=ask.namespace,
        unavailable={"nodes": ["w11"], "zoen": "zone1"},
        scale=[{"name": "wep", "replicas": 2}],
        rules=[
            {
                "name": "x",
                "workloads": [{"names": ["web-9"]}],
                "keep_apart": {"topology_key": "zone"},
            }
        ],
    )

    assert result["failed"]
    assert len(error_messages(result)) == len(set(error_messages(result))) == 4, error_messages(
        result
    )
    text = "\n".join(error_messages(result))
    for name in ("unavailable.zoen", "w11", "wep", "web-9"):
        assert name in text


def test_without_rights_a_forecast_warns_of_each_that_is_missing(ask: Ask) -> None:
    result = ask(identity="nobody")

    assert result["forecast"] == "unknown"
    _warned_of_what_is_missing(result)


def _warned_of_what_is_missing(result: dict[str, t.Any]) -> None:
    (warning,) = (str(x) for x in result["warnings"] if "UID of the cluster" not in str(x))
    assert warning.count("cannot ") == 1
    assert warning.count("the ClusterRole virt-placement-reader (rbac/reader.yml)") == 1
    for gap in result["permission_gaps"]:
        assert len(re.findall(f"{gap['verb']} {gap['resource']}( in |,|:)", warning)) == 1
