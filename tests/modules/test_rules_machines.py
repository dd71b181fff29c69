# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on virtual machines that run: what reaches them at once, and by which label they are told
from others."""

from __future__ import annotations

import hashlib
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.terms import name_label

from .rules_task import RulesTask, anti_affinity

ZONE = "topology.kubernetes.io/zone"
VM = "VirtualMachine"
VMI = "VirtualMachineInstance"
LONG = "a-machine-whose-name-is-as-long-as-people-make-them-for-big-systems-70"
NAMES: dict[str, tuple[tuple[str, dict[str, t.Any]], ...]] = {
    "plain": (("web-a", {}), ("web-b", {}), ("web-c", {})),
    "own hostnames": (("h-a", {"hostname": "alpha"}), ("h-b", {"hostname": "beta"}), ("h-c", {})),
    "one hostname": (("s-a", {"hostname": "same"}), ("s-b", {"hostname": "same"}), ("s-c", {})),
    "dots": (("dot.a.example", {}), ("dot.b.example", {}), ("dot.c", {})),
    "long": ((LONG, {}), ("short-b", {}), ("short-c", {})),
}


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "rules"))


def _start(task: RulesTask, machines: t.Iterable[tuple[str, dict[str, t.Any]]]) -> dict[str, t.Any]:
    names = []
    for name, placement in machines:
        task.create(objects.virtual_machine(name, placement=placement))
        names.append(name)
    return task.running(*names)


def _zone(task: RulesTask, vmi: t.Any) -> str:
    return _zone_of(task, vmi["status"]["nodeName"])


def _zone_of(task: RulesTask, node_name: str) -> str:
    node = task.api.get(f"/api/v1/nodes/{node_name}")
    return str(node["metadata"]["labels"][ZONE])


def _rolled_out(task: RulesTask, name: str, replicas: int) -> dict[str, t.Any]:
    """The pods of a StatefulSet, once its rollout has ended."""

    def done(found: t.Any) -> bool:
        status = found.get("status") or {}
        ready = status.get("readyReplicas"), status.get("updatedReplicas")
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return seen and ready == (replicas, replicas)

    task.api.wait(done, task.api.path("StatefulSet", task.namespace, name), timeout=60)
    pods = task.api.list(task.api.path("Pod", task.namespace))
    return {pod["metadata"]["name"]: pod for pod in pods}


def _wait_for_affinity(task: RulesTask, path: str, wanted: t.Any) -> None:
    task.api.wait(lambda vmi: vmi["spec"]["affinity"] == wanted, path)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.tour
def test_keep_apart_reaches_running_vms_live_and_allows_migrations(
    task: RulesTask, kind: str
) -> None:
    before = _start(task, NAMES[kind])
    labels = {name: task.launcher(vmi)["metadata"]["labels"] for name, vmi in before.items()}
    start = task.sandbox.audit.mark()
    rule = {
        "name": "apart",
        "workloads": [{"names": list(before)}],
        "keep_apart": {"topology_key": "zone"},
    }
    result = task(rule)
    assert result["counts"]["changed"] == 3
    effects = {each["name"]: each["takes_effect"] for each in result["workloads"]}
    assert effects == {name: "restart" if name == LONG else "migration" for name in before}
    assert not result["findings"]
    resources = {write.resource for write in task.sandbox.audit.writes(since=start)}
    assert resources == {"virtualmachines"}

    for name in before:
        affinity = task.get(VM, name)["spec"]["template"]["spec"]["affinity"]
        path = task.api.path(VMI, task.namespace, name)
        _wait_for_affinity(task, path, affinity)
    # KubeVirt cannot migrate a machine with such a long name; the others keep away from it.
    movable = [name for name in before if name != LONG]
    for name in movable:
        task.migrate(name)
    zones = {name: _zone(task, task.get(VMI, name)) for name in before}
    assert len(set(zones.values())) == 3
    for name in movable:
        node = task.get(VMI, name)["status"]["nodeName"]
        after = task.migrate(name)
        assert after["status"]["nodeName"] != node
        assert _zone(task, after) == zones[name], "it stays in its zone, the others are taken"
        assert after["metadata"]["uid"] == before[name]["metadata"]["uid"]
        kept = task.launcher(after)["metadata"]["labels"]
        assert not [key for key in kept if key.startswith("placement.virt/")]
        label = name_label(task.sandbox)
        assert kept[label] == labels[name][label]
    assert not task(rule)["changed"]


def test_a_long_name_is_selected_as_kubevirt_shortens_it(task: RulesTask) -> None:
    task.create(objects.virtual_machine(LONG, run_strategy="Halted"))
    workloads = [{"name": LONG}]
    task({"name": "apart", "workloads": workloads, "keep_apart": {"topology_key": "zone"}})
    expression = anti_affinity(task.get(VM, LONG))[0]["labelSelector"]["matchExpressions"][0]
    short = f"{LONG[:54]}-{hashlib.sha1(LONG.encode()).hexdigest()[:8]}"
    assert expression == {"key": "vmi.kubevirt.io/id", "operator": "In", "values": [short]}


def _drop_label(task: RulesTask, vmi: t.Any, key: str) -> None:
    """As if KubeVirt had made the pod before it knew the label."""
    pod = task.launcher(vmi)["metadata"]["name"]
    patch = {"metadata": {"labels": {key: None}}}
    task.api.patch(task.api.path("Pod", task.namespace, pod), patch)


def test_vms_without_id_label_are_selected_by_their_unique_hostnames(
    task: RulesTask,
) -> None:
    machines = _start(task, NAMES["own hostnames"])
    _drop_label(task, machines["h-a"], "vmi.kubevirt.io/id")
    workloads = [{"names": ["h-a", "h-b"]}]
    task({"name": "apart", "workloads": workloads, "keep_apart": {"topology_key": "zone"}})
    selector = anti_affinity(task.get(VM, "h-a"))[0]["labelSelector"]
    assert selector["matchExpressions"] == [
        {"key": "vm.kubevirt.io/name", "operator": "In", "values": ["alpha", "beta"]}
    ]


def test_vms_with_equal_labels_get_a_group_label_that_is_removed_with_the_rule(
    task: RulesTask,
) -> None:
    machines = _start(task, NAMES["one hostname"])
    for vmi in machines.values():
        _drop_label(task, vmi, "vmi.kubevirt.io/id")
    workloads = [{"names": ["s-a", "s-c"]}]
    rule = {"name": "apart", "workloads": workloads, "keep_apart": {"topology_key": "zone"}}
    foretold = task(rule, check=True)
    start = task.sandbox.audit.mark()
    made = task(rule)
    assert made["writes"] == foretold["writes"]
    kinds = [write["kind"] for write in made["writes"]]
    assert kinds == [VM, VM, VMI, VMI, "Pod", "Pod"], "the template first, the pods last"
    assert len(task.sandbox.audit.writes("mover", start)) == 6
    label = anti_affinity(task.get(VM, "s-a"))[0]["labelSelector"]["matchExpressions"][0]
    assert label["key"].startswith("placement.virt/group-")
    for name in ("s-a", "s-c"):
        vmi = task.get(VMI, name)
        carried = [
            task.get(VM, name)["spec"]["template"]["metadata"]["labels"],
            vmi["metadata"]["labels"],
            task.launcher(vmi)["metadata"]["labels"],
        ]
        assert [each.get(label["key"]) for each in carried] == ["member"] * 3
        assert vmi["metadata"]["uid"] == machines[name]["metadata"]["uid"]
    assert not task(rule)["changed"]
    # A group that has a label keeps it, even if its pods come to carry their ids.
    assert label["key"] not in task.get(VMI, "s-b")["metadata"]["labels"]

    gone = task({"name": "apart"}, state="absent")
    kinds = [write["kind"] for write in gone["writes"]]
    assert kinds == ["Pod", "Pod", VMI, VMI, VM, VM], "the template last: it remembers the label"
    for name in ("s-a", "s-c"):
        vmi, machine = task.get(VMI, name), task.get(VM, name)
        annotations = dict(machine["metadata"]["annotations"])
        del annotations["placement.virt/undo"]  # what would undo the removal
        seen = [annotations, machine["spec"], vmi["metadata"]["labels"]]
        seen.append(task.launcher(vmi)["metadata"]["labels"])
        assert "placement.virt" not in json.dumps(seen)


def test_a_label_of_the_user_reaches_template_instance_and_pod(task: RulesTask) -> None:
    machines = _start(task, NAMES["plain"])
    label = {"harvesterhci.io/machineSetName": "guests-pool1"}
    names = ["web-a", "web-b"]
    rule = {"name": "pool", "workloads": [{"names": names}], "label": label}
    made = task(rule)
    assert {each["takes_effect"] for each in made["workloads"]} == {"now"}
    for name in names:
        vmi = task.get(VMI, name)
        for labels in (
            task.get(VM, name)["spec"]["template"]["metadata"]["labels"],
            vmi["metadata"]["labels"],
            task.launcher(vmi)["metadata"]["labels"],
        ):
            assert labels.items() >= label.items()
        assert vmi["metadata"]["uid"] == machines[name]["metadata"]["uid"]
    assert not task(rule)["changed"]
    after = task.migrate("web-a")
    assert task.launcher(after)["metadata"]["labels"].items() >= label.items()
    # Somebody takes it off a pod: the next run heals that, and nothing else.
    _drop_label(task, after, "harvesterhci.io/machineSetName")
    healed = task(rule)
    assert [write["kind"] for write in healed["writes"]] == ["Pod"]
    assert healed["counts"]["changed"] == 1


@pytest.mark.parametrize(
    ("label", "finding"),
    [
        pytest.param({"kubevirt.io": "x"}, "is a label of KubeVirt and Kubernetes", id="kubevirt"),
        pytest.param({"team": "web"}, "label_conflict", id="of somebody"),
    ],
)
def test_a_label_that_others_gave_a_running_pod_stays(
    task: RulesTask, label: dict[str, str], finding: str
) -> None:
    """KubeVirt would take the pod for none of its own, and start the machine anew."""
    before = _start(task, [("web-a", {})])["web-a"]
    pod = task.launcher(before)["metadata"]["name"]
    theirs = {"metadata": {"labels": {"team": "db"}}}
    labels = task.api.patch(task.api.path("Pod", task.namespace, pod), theirs)["metadata"]["labels"]
    rule = {"name": "group", "workloads": [{"name": "web-a"}], "label": label}
    start = task.sandbox.audit.mark()
    for check in (True, False):
        refused = task(rule, check=check)
        assert refused["failed"]
        assert finding in refused["msg"]
    assert finding != "label_conflict" or f"{pod} runs with the label team=db" in refused["msg"]
    assert not task({"name": "group"}, state="absent")["changed"]
    assert not task.sandbox.audit.writes("mover", start)
    after = task.get(VMI, "web-a")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    remaining = task.launcher(after)["metadata"]["labels"]
    # virt-controller adds this one to a launcher pod some time after its start
    remaining.pop("kubevirt.io/nodeName", None)
    labels.pop("kubevirt.io/nodeName", None)
    assert remaining == labels


def test_a_label_of_a_rule_gets_another_value(task: RulesTask) -> None:
    before = _start(task, [("web-a", {})])["web-a"]
    rule = {"name": "group", "workloads": [{"name": "web-a"}], "label": {"tier": "web"}}
    assert task(rule)["changed"]
    made = task({**rule, "label": {"tier": "api"}})
    assert [write["kind"] for write in made["writes"]] == ["Pod", VMI, VM, VMI, "Pod"]
    after = task.get(VMI, "web-a")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    for seen in (after, task.launcher(after)):
        assert seen["metadata"]["labels"]["tier"] == "api"


def test_adopted_node_selector_reaches_a_running_vm_live(
    task: RulesTask,
) -> None:
    selected = {"nodeSelector": {ZONE: "zone2"}}
    before = _start(task, [("sel-a", selected)])["sel-a"]
    rule = {"name": "nodes", "workloads": [{"name": "sel-a"}], "run_on": {"zone": "zone2"}}
    result = task(rule, adopt=True)
    assert [each["takes_effect"] for each in result["workloads"]] == ["migration"]
    spec = task.get(VM, "sel-a")["spec"]["template"]["spec"]
    assert "nodeSelector" not in spec
    path = task.api.path(VMI, task.namespace, "sel-a")
    _wait_for_affinity(task, path, spec["affinity"])
    task.api.wait(lambda vmi: not vmi["spec"].get("nodeSelector"), path)
    after = task.migrate("sel-a")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["nodeName"] != before["status"]["nodeName"]
    assert _zone(task, after) == "zone2"


@pytest.mark.tour
def test_spread_on_a_running_vm_reports_that_it_needs_a_restart(task: RulesTask) -> None:
    machines = _start(task, NAMES["plain"])
    rule = {
        "name": "even",
        "workloads": [{"names": list(machines)}],
        "spread": {"topology_key": "zone", "max_skew": "1"},
    }
    result = task(rule)
    assert {each["takes_effect"] for each in result["workloads"]} == {"restart"}
    assert {each["name"] for each in result["findings"]} == {"restart_required"}
    assert len(result["warnings"]) == 1, "one warning for each name of a finding"
    constraint = task.get(VM, "web-a")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [(c["whenUnsatisfiable"], c["nodeTaintsPolicy"]) for c in constraint] == [
        ("DoNotSchedule", "Honor")
    ]
    for name, vmi in machines.items():
        assert task.get(VMI, name)["metadata"]["uid"] == vmi["metadata"]["uid"]


def test_labels_that_running_pods_lack_are_a_finding(task: RulesTask) -> None:
    task.create(objects.virtual_machine("web-a", labels={"tier": "web"}))
    task.running("web-a")
    label = {"op": "add", "path": "/spec/template/metadata/labels/new", "value": "yes"}
    task.patch(VM, "web-a", [label])
    rule = {
        "name": "even",
        "workloads": [{"labels": {"new": "yes"}}],
        "keep_apart": {"topology_key": "zone"},
    }
    result = task(rule)
    assert [each["name"] for each in result["findings"]] == ["selector_misses_members"]
    assert result["counts"]["changed"] == 1


def test_vms_with_one_feasible_zone_cannot_be_kept_apart(task: RulesTask) -> None:
    machines = _start(task, [(name, {"nodeSelector": {ZONE: "zone1"}}) for name in ("a", "b")])
    task.create(objects.deployment("web", replicas=4))
    apart = {"keep_apart": {"topology_key": "zone"}}
    rules = [
        {"name": "pair", "workloads": [{"names": list(machines)}], **apart},
        {"name": "web", "workloads": [{"kind": "Deployment", "name": "web"}], **apart},
    ]
    start = task.sandbox.audit.mark()

    found = task(*rules, workload_rollout="allow")

    assert found["failed"]
    errors = [f for f in found["findings"] if f["severity"] == "error"]
    assert [(f["name"], f["rule"]) for f in errors] == [
        ("unsatisfiable", "pair"),
        ("unsatisfiable", "web"),
    ]
    assert (
        "2 VMs have anti-affinity over zone, but only 1 zone can run them (zone1)." in found["msg"]
    )
    assert "Their nodeSelector or node affinity excludes zone2, zone3." in found["msg"]
    assert "4 instances have anti-affinity over zone, but only 3 zones can run them" in found["msg"]
    assert task.sandbox.audit.writes(since=start) == []


def test_rules_whose_own_forecast_is_impossible_are_refused(task: RulesTask) -> None:
    """Two VMs of one node that no rollout may move."""
    on_w1 = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["w1"]}
    weighted = {"weight": 1, "preference": {"matchExpressions": [on_w1]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    _start(task, [(name, {"affinity": {"nodeAffinity": preferred}}) for name in ("a", "b")])
    for name in ("a", "b"):
        label = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
        task.api.patch(task.api.path(VM, task.namespace, name), label)
    rule = {"name": "apart", "workloads": ["a", "b"], "keep_apart": "zone"}
    start = task.sandbox.audit.mark()

    refused = task.after_forecast(rule, fail_on_forecast=["impossible"])
    checked = task.after_forecast(rule, check=True, fail_on_forecast=["impossible"])
    untouched = task.sandbox.audit.writes(since=start)
    written = task(rule)
    again = task.after_forecast({**rule, "preferred": True}, fail_on_forecast=["impossible"])

    assert "the forecast of these rules is impossible" in refused["msg"]
    assert "do-not-move" in refused["msg"]
    assert [error["type"] for error in refused["errors"]] == ["finding"]
    assert [each["changed"] for each in refused["workloads"]] == [False, False]
    assert checked["failed"]
    assert untouched == []
    assert written["counts"]["changed"] == 2
    assert not again.get("failed"), "it is no worse than what is there"


@pytest.fixture
def disk(task: RulesTask) -> t.Iterator[t.Callable[[str, str], None]]:
    """Makes a claim that is bound to a disk in a zone."""
    made = []

    def make(claim: str, zone: str) -> None:
        name = f"{claim}-{task.namespace}"
        size = {"storage": "1Gi"}
        shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        nodes = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
        volume = {
            **shared,
            "capacity": size,
            "local": {"path": "/data"},
            "claimRef": {"namespace": task.namespace, "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [nodes]}},
        }
        version = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        task.api.create(task.api.path("PersistentVolume"), {**version, "spec": volume})
        made.append(name)
        spec = {**shared, "resources": {"requests": size}, "volumeName": name}
        version = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim}}
        path = task.api.path("PersistentVolumeClaim", task.namespace)
        task.api.create(path, {**version, "spec": spec})

    yield make
    for name in made:
        task.api.delete(task.api.path("PersistentVolume", name=name))


def test_a_rule_against_the_zone_of_a_bound_volume_is_refused(
    task: RulesTask, disk: t.Callable[[str, str], None]
) -> None:
    """The real scheduler lets the VM run in the zone of its volume only."""
    disk("data", "zone1")
    machine = objects.virtual_machine("db")
    spec = machine["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "data", "disk": {"bus": "virtio"}})
    spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    task.create(machine)
    vmi = task.running("db")["db"]

    refused = task({"name": "elsewhere", "workloads": ["db"], "run_on": {"zone": "zone2"}})
    written = task({"name": "here", "workloads": ["db"], "run_on": {"zone": "zone1"}})

    assert _zone(task, vmi) == "zone1"
    assert refused["failed"]
    assert "rule elsewhere, unsatisfiable" in refused["msg"]
    assert "the volume of its claim data is bound to nodes with" in refused["msg"]
    assert not written.get("failed"), written["msg"]


def test_vms_with_an_equal_term_of_their_own_are_counted_once(
    task: RulesTask, run_module: RunModule
) -> None:
    """Two VMs over three zones: the real scheduler has placed both by their own terms."""
    ids = {"key": "vmi.kubevirt.io/id", "operator": "In", "values": ["a", "b"]}
    term = {"labelSelector": {"matchExpressions": [ids]}, "topologyKey": ZONE}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    own = {"affinity": {"podAntiAffinity": required}}
    machines = _start(task, [(name, own) for name in ("a", "b")])
    assert len({_zone(task, vmi) for vmi in machines.values()}) == 2
    rule = {"name": "apart", "workloads": ["a", "b"], "keep_apart": "zone"}

    written = task(rule)

    assert "unsatisfiable" not in [f["name"] for f in written["findings"]]
    assert not written.get("failed"), written["msg"]
    assert written["counts"]["changed"] == 2
    reader = {"kubeconfig": str(task.sandbox.kubeconfig("reader"))}
    info = run_module(placement_info.main, {**reader, "namespaces": [task.namespace]})
    assert "unsatisfiable" not in [f["name"] for f in info["findings"]]


def test_keep_together_of_vms_that_are_kept_apart_is_refused(
    task: RulesTask,
) -> None:
    machines = _start(task, [(name, {}) for name in ("a", "b", "c")])
    apart = {"name": "apart", "workloads": [{"names": list(machines)}]}
    assert not task({**apart, "keep_apart": {"topology_key": "zone"}}).get("failed")
    pair = {
        "name": "pair",
        "workloads": [{"names": ["a", "b"]}],
        "keep_together": {"topology_key": "zone"},
    }
    start = task.sandbox.audit.mark()

    found = task(pair)

    assert found["failed"]
    assert "has affinity to VirtualMachine" in found["msg"]
    assert (
        "and anti-affinity to the same over zone (rules default/apart and default/pair)"
        in found["msg"]
    )
    assert task.sandbox.audit.writes(since=start) == []


def test_replicas_of_a_stateful_set_are_replaced_beside_their_disks(
    task: RulesTask, run_module: RunModule, disk: t.Callable[[str, str], None]
) -> None:
    """The controller replaces one replica after the other, each in the zone of its disk, and nothing else runs."""
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    of_disk = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **size}
    claims = [{"metadata": {"name": "data"}, "spec": of_disk}]
    for number in range(3):
        disk(f"data-db-{number}", f"zone{number + 1}")
    manifest = objects.stateful_set("db", replicas=3)
    manifest["spec"] |= {"volumeClaimTemplates": claims, "podManagementPolicy": "Parallel"}
    task.create(manifest)
    _rolled_out(task, "db", 3)
    before = task.get("StatefulSet", "db")["spec"]
    only = {"workloads": [{"kind": "StatefulSet", "name": "db"}]}
    apart = {"name": "apart", **only, "keep_apart": "zone"}
    start = task.sandbox.audit.mark()

    of_forecast: dict[str, t.Any] = {
        "workload_rollout": "allow",
        "fail_on_forecast": ["impossible"],
    }
    pin = {"name": "pin", **only, "run_on": {"zone": "zone1"}}
    elsewhere = task.after_forecast(pin, **of_forecast)
    refused = task(apart)
    untouched = task.sandbox.audit.writes("mover", start)
    written = task.after_forecast(apart, **of_forecast)
    pods = _rolled_out(task, "db", 3)
    reader = {"kubeconfig": str(task.sandbox.kubeconfig("reader"))}
    verdicts = run_module(placement_info.main, {**reader, "namespaces": [task.namespace]})
    again = task(apart)
    removed = task({"name": "apart"}, state="absent", workload_rollout="allow")

    assert "the forecast of these rules is impossible" in elsewhere["msg"]
    assert "starts_workload_rollout" in refused["msg"]
    assert untouched == []
    assert [each["takes_effect"] for each in written["workloads"]] == ["workload_rollout"]
    assert {name: _zone_of(task, pod["spec"]["nodeName"]) for name, pod in pods.items()} == {
        f"db-{number}": f"zone{number + 1}" for number in range(3)
    }
    (term,) = anti_affinity({"spec": {"template": pods["db-0"]}})
    assert term == {
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db"]}]},
        "topologyKey": ZONE,
    }
    assert verdicts["summary"]["satisfied"] == 3, verdicts
    assert (again["changed"], again["writes"]) == (False, [])
    assert [each["removed"] for each in removed["workloads"]] == [["apart"]]
    assert task.get("StatefulSet", "db")["spec"] == before
    writes = [write.verb for write in task.sandbox.audit.writes("mover", start)]
    assert writes == ["patch", "patch"]
