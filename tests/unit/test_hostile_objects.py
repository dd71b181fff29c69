# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a tenant writes into its objects: a result in time, and nothing changes for others.

A sample of what `python -m tests.fuzz --minutes 60` does for long.
"""

from __future__ import annotations

import copy
import functools
import itertools
import json
import os
import random
import typing as t
from operator import itemgetter
from unittest import mock

import pytest

from tests.fuzz import checks, values
from tests.fuzz.cluster import OTHERS, RULES, TENANT, ZONE, Object, Objects, of_kind
from tests.fuzz.examples import Search
from tests.fuzz.placements import PREFERRED, REQUIRED
from tests.fuzz.values import PREFIX
from tests.support import api_server, modules
from tests.support.api_server import ApiServer

OWNERSHIP = {"version": 1, "created": []}
VMS = f"/apis/kubevirt.io/v1/namespaces/{TENANT}/virtualmachines"
LISTED: checks.Task = ("rules_info", {"declarations": True}, True)


def test_objects_by_chance_end_no_task_and_change_nothing_for_others() -> None:
    search = Search()
    search.batch(int(os.environ.get("PLACEMENT_SEED") or random.randrange(10**6)), size=40)
    assert search.examples >= 40
    assert not search.faults, "\n".join(search.faults.values())


@pytest.fixture
def objects() -> Objects:
    return copy.deepcopy(checks.base())


def anti_affinity(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def against_others(number: int) -> Object:
    """A term that each pod of the others matches; no two numbers have an equal one."""
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"}]
    return {
        "topologyKey": ZONE,
        "namespaces": [OTHERS],
        "labelSelector": {"matchExpressions": expressions},
    }


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize("terms", [1, 60])
def test_anti_affinity_to_pods_of_others_violates_and_moves_nothing_of_theirs(
    objects: Objects, terms: int, running: bool
) -> None:
    placement = anti_affinity(*map(against_others, range(terms)))
    objects[f"{VMS}/web0"]["spec"]["template"]["spec"] |= placement
    if running:
        for path, item in objects.items():
            if path.startswith(f"/api/v1/namespaces/{TENANT}/pods/virt-launcher-web0"):
                item["spec"] |= placement
    for task in checks.TASKS:
        checks.check_others(task, objects)
    planned, _writes = checks.check(("rollout", {"namespaces": [OTHERS]}, True), objects)
    assert [move["name"] for move in planned["moves"]] == ["web0"]
    judged, _writes = checks.check(("placement_info", {}, True), objects)
    risks = {
        (r["kind"], r["instance"]["namespace"], r["instance"]["name"]) for r in judged["risks"]
    }
    assert ("other_namespace", OTHERS, "db0") in risks
    assert {(kind, namespace) for kind, namespace, _name in risks} == {("other_namespace", OTHERS)}


def test_a_pod_with_many_terms_beside_many_pods_stalls_nothing(objects: Objects) -> None:
    """Each term matches each pod, and no two are equal: see CPU_SECONDS of tests.support.modules."""
    template = objects[f"/api/v1/namespaces/{OTHERS}/pods/cache-h1-0"]
    for number in range(150):
        name = f"other-{number}"
        metadata = {"name": name, "namespace": OTHERS, "uid": name, "labels": {"app": "other"}}
        spec = {"nodeName": f"w{number % 4 + 1}", "containers": []}
        pod = {**template, "metadata": metadata, "spec": spec}
        objects[f"/api/v1/namespaces/{OTHERS}/pods/{name}"] = pod
    name = f"/api/v1/namespaces/{TENANT}/pods/virt-launcher-web0-x1"
    objects[name]["spec"] |= anti_affinity(*map(against_others, range(200)))
    del objects[name]["metadata"]["ownerReferences"]
    result, _writes = checks.check(("placement_info", {}, True), objects)
    (found,) = [x for x in result["findings"] if x["name"] == "too_many_terms"]
    assert found["objects"] == [f"Pod {TENANT}/virt-launcher-web0-x1"]
    for task in (
        ("lint_info", {"online": True, "rules": RULES, "namespace": OTHERS}, True),
        ("rules", {"namespace": OTHERS, "rules": RULES}, True),
        ("forecast_info", {"unavailable": {"nodes": ["w1"]}}, True),
        ("drill_info", {"domains_of": ["node"]}, True),
        ("cpu_info", {"details": True}, True),
        ("capacity_info", {"room_for": {"cores": 2, "memory": "4Gi"}}, True),
        ("rollout", {"namespaces": [OTHERS]}, True),
        ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, True),
    ):
        checks.check(task, objects)


def own(number: int) -> Object:
    """A term that each pod of the tenant matches; no two numbers have an equal one."""
    expressions = [{"key": f"k{number}", "operator": "DoesNotExist"}]
    return {"topologyKey": ZONE, "labelSelector": {"matchExpressions": expressions}}


def preferred(*terms: Object) -> Object:
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {"podAntiAffinity": {PREFERRED: weighted}}}


def spread(*terms: Object, action: str) -> Object:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": action}
    return {"topologySpreadConstraints": [{**constraint, **term} for term in terms]}


@pytest.mark.parametrize(
    "placement",
    [
        anti_affinity,
        preferred,
        functools.partial(spread, action="ScheduleAnyway"),
    ],
    ids=["anti-affinity", "preferred", "soft spread"],
)
def test_many_pods_with_many_terms_stall_nothing(
    objects: Objects, placement: t.Callable[..., Object]
) -> None:
    """No two terms are equal, and each matches each pod: see CPU_SECONDS of tests.support.modules."""
    template = objects[f"/api/v1/namespaces/{OTHERS}/pods/cache-h1-0"]
    pods, terms = 30, 100
    for pod in range(pods):
        name = f"own-{pod}"
        metadata = {"name": name, "namespace": TENANT, "uid": name, "labels": {"app": "own"}}
        spec = {"nodeName": f"w{pod % 4 + 1}", "containers": []}
        spec |= placement(*(own(pod * terms + number) for number in range(terms)))
        objects[f"/api/v1/namespaces/{TENANT}/pods/{name}"] = {
            **template,
            "metadata": metadata,
            "spec": spec,
        }
    checks.check(("placement_info", {}, True), objects)
    checks.check(("forecast_info", {"unavailable": {"nodes": ["w1"]}}, True), objects)


@pytest.mark.parametrize("name", ["..", ".", "", "../x", "a/b", "a/../../b", "a,b=c"])
def test_invalid_object_names_match_no_object(objects: Objects, name: str) -> None:
    for path, item in list(objects.items()):
        if path.startswith(f"/api/v1/namespaces/{TENANT}/pods/"):
            claim = {"name": "root", "persistentVolumeClaim": {"claimName": name}}
            item["spec"]["volumes"] = [*(item["spec"].get("volumes") or ()), claim]
        if path.startswith(f"{VMS}/"):
            networks = [{"name": "other", "multus": {"networkName": name}}]
            claim = {"name": "root", "persistentVolumeClaim": {"claimName": name}}
            item["spec"]["template"]["spec"] |= {"networks": networks, "volumes": [claim]}
    vms = [{"name": "fast", "workloads": ["web0", "off0"], "run_on": {"performance": "high"}}]
    for task in (
        ("rollout", {"namespaces": [OTHERS]}, True),
        ("rollout", {"namespaces": [TENANT]}, True),
        ("rules", {"namespace": TENANT, "rules": vms}, True),
        ("forecast_info", {"namespace": TENANT, "rules": vms}, True),
    ):
        result, _writes = checks.check(task, objects)
        assert "failed" not in result, result


@pytest.mark.parametrize("depth", [500, 2500, 9000])
def test_deep_json_in_an_unknown_field_is_lost_alone(objects: Objects, depth: int) -> None:
    """The API server keeps unknown fields of a template's metadata, up to 10,000 maps and lists deep."""
    pools = f"/apis/pool.kubevirt.io/v1beta1/namespaces/{TENANT}/virtualmachinepools"
    (pool,) = [path for path in objects if path.startswith(pools)]
    objects[pool]["spec"]["virtualMachineTemplate"]["metadata"]["deep"] = "DEEP"
    objects[f"{VMS}/web0"]["spec"]["template"]["metadata"]["deep"] = "DEEP"

    def dumped(value: t.Any) -> str:
        lists = depth // 2
        deep = "[" * lists + '{"a": ' * lists + '"]"' + "}" * lists + "]" * lists
        return encoded(value).replace('"DEEP"', deep)

    encoded = json.dumps
    with mock.patch.object(api_server, "json", mock.Mock(dumps=dumped, loads=json.loads)):
        for task in OF_OTHERS:
            checks.check_others(task, objects)
        rules = [{"name": "apart", "workloads": ["web0", "web1"], "keep_apart": "zone"}]
        checks.check(("rules", {"namespace": TENANT, "rules": rules}, True), objects)
        result, _writes = checks.check(("placement_info", {"details": "all"}, True), objects)
    assert result["permission_gaps"] == []


def test_an_annotation_with_thousands_of_fingerprints_stalls_nothing(objects: Objects) -> None:
    vm = objects[f"{VMS}/web0"]
    marks = [f"node-expression:{number:010x}.000000" for number in range(6000)]
    of_rule = {"terms": marks, "declared": {"run_on": {"k": "v"}}}
    text = json.dumps(
        {**OWNERSHIP, "uid": vm["metadata"]["uid"], "rules": {f"{TENANT}/b/c": of_rule}}
    )
    vm["metadata"]["annotations"] = {"placement.virt/rules": text}
    expressions = [{"key": f"k{number}", "operator": "Exists"} for number in range(2000)]
    terms = [{"matchExpressions": [expression]} for expression in expressions]
    required = {REQUIRED: {"nodeSelectorTerms": terms}}
    vm["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    checks.check_others(("placement_info", {}, True), objects)


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("Pod", "VirtualMachineInstance"),
        ("Pod", "ReplicaSet"),
        ("Pod", "StatefulSet"),
        ("VirtualMachineInstance", "VirtualMachine"),
        ("VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"),
    ],
)
def test_objects_of_others_as_owners_change_nothing_for_them(
    objects: Objects, kind: str, owner: str
) -> None:
    of_others = (
        item
        for item in objects.values()
        if (item["kind"], item["metadata"].get("namespace")) == (owner, OTHERS)
    )
    for path, target in zip(of_kind(objects, kind), itertools.cycle(list(of_others)), strict=False):
        reference = {name: target["metadata"][name] for name in ("name", "uid")}
        reference |= {"apiVersion": target["apiVersion"], "kind": owner, "controller": True}
        objects[path]["metadata"]["ownerReferences"] = [reference]
    for task in checks.TASKS:
        checks.check_apart(task, objects)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Widget", "My_Widget"), ("Widget", "a/b"), ("Wid get", "x"), ("Widget", "x" * 300_000)],
    ids=["capitals", "slash", "space", "long"],
)
def test_owners_that_cannot_be_do_not_keep_the_journal_from_being_read(
    objects: Objects, kind: str, name: str
) -> None:
    owner = {"apiVersion": "example.com/v1", "kind": kind, "name": name, "uid": "u1"}
    for path in of_kind(objects, "Pod"):
        if path.startswith(f"/api/v1/namespaces/{TENANT}/"):
            objects[path]["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    drain = {"nodes": ["w1"], "state": "drained", "allow_findings": ["bare_pod", "no_place"]}
    cluster = ApiServer(objects)
    assert "journal" not in str(modules.run("node_maintenance", cluster, drain).get("errors"))
    assert [path for _method, path in map(itemgetter(0, 1), cluster.writes) if "eviction" in path]
    again = modules.run("rollout", cluster, {"namespaces": [OTHERS]})
    assert "journal" not in str(again.get("errors"))


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        [1],
        {"spec": "text"},
        {"spec": {"template": "text"}},
        {"spec": {"template": ["x"]}},
    ],
)
def test_a_revision_of_another_form_ends_no_task(objects: Objects, data: t.Any) -> None:
    name = "revision-start-vm-x-1"
    vmi = objects[f"{VMS.replace('machines', 'machineinstances')}/web0"]
    vmi["status"]["virtualMachineRevisionName"] = name
    vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False"}]
    metadata = {"name": name, "namespace": TENANT, "uid": "r1"}
    path = f"/apis/apps/v1/namespaces/{TENANT}/controllerrevisions/{name}"
    objects[path] = {"kind": "ControllerRevision", "metadata": metadata, "data": data}
    rollout = {"namespaces": [TENANT, OTHERS], "allow": ["restart"], "scope": "all"}
    checks.check(("rollout", rollout, True), objects)
    drain = {"nodes": ["w1"], "state": "drained", "vm_policy": "restart"}
    result, _writes = checks.check(("node_maintenance", drain, True), objects)
    assert "missing or damaged" in result["msg"]


@pytest.mark.parametrize("name", [1, [1]])
def test_a_revision_that_is_nested_too_deeply_or_has_odd_names_ends_no_task(
    objects: Objects, name: t.Any
) -> None:
    deep = functools.reduce(lambda inner, _level: {"a": inner}, range(600), {"name": name})
    for path in of_kind(objects, "ControllerRevision"):
        objects[path] |= {
            "data": {"spec": {"template": {"spec": {"domain": deep, "volumes": [{"name": name}]}}}}
        }
    for path in of_kind(objects, "VirtualMachineInstance"):
        vmi = objects[path]
        vmi["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False"}]
        vmi["spec"] = {**vmi["spec"], "domain": {"cpu": {"cores": 7}}, "volumes": [{"name": "b"}]}
    drain = {"nodes": ["w1"], "state": "drained", "vm_policy": "restart"}
    result, _writes = checks.check(("node_maintenance", drain, True), objects)
    assert "a restart would also apply" in str(result)


def test_thousands_of_tolerations_stall_nothing(objects: Objects) -> None:
    tolerations = [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(4000)]
    for path in of_kind(objects, "Pod", "VirtualMachineInstance"):
        objects[path]["spec"]["tolerations"] = tolerations
    for path in of_kind(objects, "VirtualMachine"):
        objects[path]["spec"]["template"]["spec"]["tolerations"] = tolerations
    for task in (
        ("placement_info", {"details": "all"}, True),
        ("forecast_info", {"namespace": TENANT, "rules": RULES}, True),
    ):
        checks.check(task, objects)


def test_half_a_character_in_a_rule_name_is_damage(objects: Objects) -> None:
    annotations = objects[f"{VMS}/web0"]["metadata"]["annotations"]
    text = annotations[f"{PREFIX}rules"]
    annotations[f"{PREFIX}rules"] = text.replace("web-apart", "\\ud800x")
    assert annotations[f"{PREFIX}rules"] != text
    for task in (("placement_info", {"details": "all"}, True), LISTED):
        checks.check_others(task, objects)


def test_a_reason_with_line_breaks_has_no_lines_of_its_own(objects: Objects) -> None:
    forged = "reason\nTASK [forged] ***\nok: [localhost]"
    condition = {"type": "LiveMigratable", "status": "False", "reason": "x", "message": forged}
    for path in of_kind(objects, "VirtualMachineInstance"):
        objects[path]["status"]["conditions"] = [condition]
    for task in (
        ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, True),
        ("rollout", {"namespaces": [TENANT], "scope": "all"}, True),
        ("rollout", {"namespaces": [TENANT], "scope": "not_enforced"}, True),
    ):
        checks.check(task, objects)


FORGED = f"x\n{values.FORGED} \u202e\x9b2J"


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {FORGED: "y"}},
        {"tolerations": [{"key": FORGED, "operator": "Exists"}]},
        {"schedulerName": FORGED},
        {"domain": {"cpu": {"features": [{"name": FORGED}]}}},
        {
            "domain": {
                "cpu": {"model": FORGED},
                "devices": {"gpus": [{"name": "g", "deviceName": FORGED}]},
            }
        },
    ],
    ids=["nodeSelector", "toleration", "schedulerName", "feature", "model"],
)
def test_names_with_line_breaks_and_colors_forge_no_line_of_a_table_or_reason(
    objects: Objects, spec: Object
) -> None:
    objects[f"{VMS}/off0"]["spec"]["runStrategy"] = "Always"
    for path in of_kind(objects, "VirtualMachine", "VirtualMachineInstance"):
        item = objects[path]
        if path.startswith(f"{VMS}/"):
            item = item["spec"]["template"]
        elif f"/{TENANT}/" not in path or not path.endswith("/db0"):
            continue
        item["spec"] = {**item["spec"], **spec}
    for task in (
        ("placement_info", {"details": "all"}, True),
        ("forecast_info", {"namespace": TENANT, "rules": RULES}, True),
        ("forecast_info", {"unavailable": {"nodes": ["w1"]}}, True),
        ("drill_info", {"domains_of": ["node"]}, True),
        ("rules", {"namespace": TENANT, "rules": RULES}, True),
        ("rollout", {"namespaces": [TENANT], "scope": "all"}, True),
        ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, True),
    ):
        checks.check(task, objects)


OF_OTHERS: tuple[checks.Task, ...] = (
    ("placement_info", {"details": "all"}, True),
    ("lint_info", {"online": True}, True),
    ("forecast_info", {"namespace": OTHERS, "rules": RULES}, True),
    ("rules", {"namespace": OTHERS, "rules": RULES, "workload_rollout": "allow"}, True),
    LISTED,
    ("rollout", {"namespaces": [OTHERS]}, False),
    ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, True),
    ("node_labels", {"per_node": {"w1": {"zone": "b"}}}, True),
)
BOMBS = ("[" * 100_000, '{"version":' * 20_000, "1" * 200_000)


@pytest.mark.parametrize("bomb", BOMBS, ids=["lists", "maps", "number"])
@pytest.mark.parametrize("name", ["rules", "undo"])
def test_a_damaged_annotation_is_a_finding_on_its_object_alone(
    objects: Objects, name: str, bomb: str
) -> None:
    objects[f"{VMS}/web0"]["metadata"]["annotations"] |= {f"{PREFIX}{name}": bomb}
    for task in OF_OTHERS:
        checks.check_others(task, objects)
    result, _writes = checks.check(("placement_info", {}, True), objects)
    (found,) = [x for x in result["findings"] if x["name"] == "invalid_rules_annotation"]
    assert found["objects"] == [f"VirtualMachine {TENANT}/web0"]


@pytest.mark.parametrize("bomb", BOMBS, ids=["lists", "maps", "number"])
@pytest.mark.parametrize(
    ("path", "names"),
    [
        (f"{checks.LEASE}/virt-placement", ("journal", "run")),
        ("/api/v1/nodes/w1", ("maintenance", "node-labels")),
    ],
    ids=["lease", "node"],
)
def test_damaged_annotations_of_the_lease_and_of_nodes_end_no_task_with_a_traceback(
    objects: Objects, path: str, names: tuple[str, ...], bomb: str
) -> None:
    annotations = {f"{PREFIX}{name}": bomb for name in names}
    objects[path]["metadata"]["annotations"] = annotations
    for task in OF_OTHERS:
        result, _writes = checks.check(task, objects)
        reads_them = task[0] in ("rollout", "node_maintenance", "node_labels")
        assert reads_them or "failed" not in result


def of_tenant(objects: Objects, rules: Object, **more: t.Any) -> Object:
    """The annotations of the tenant's web0, once it has written these rules itself."""
    vm = objects[f"{VMS}/web0"]
    content = {**OWNERSHIP, "uid": vm["metadata"]["uid"], "rules": rules, **more}
    annotations: Object = vm["metadata"]["annotations"]
    annotations[f"{PREFIX}rules"] = json.dumps(content)
    return annotations


@pytest.mark.parametrize(
    "rules",
    [
        {f"{OTHERS}/default/web-apart": {"terms": []}},
        {f"{OTHERS}/default/forged": {"terms": ["toleration:ab.cd"], "declared": {"terms": {}}}},
        {f"{TENANT}/default/r{number}": {"terms": []} for number in range(10_000)},
        {f"{TENANT}/default/{{{{ 1 }}}}": {"terms": []}},
        {f"{TENANT}/default/untyped": {"terms": ["toleration:ab.cd"]}},
    ],
    ids=["rule of others", "forged rule of others", "10000 rules", "template", "no type"],
)
def test_rules_that_options_refuse_are_a_finding_and_no_rules(
    objects: Objects, rules: Object
) -> None:
    of_tenant(objects, rules)
    listed, _writes = checks.check(LISTED, objects)
    of_others = {x["name"]: x for x in listed["rules"] if x["namespace"] == OTHERS}
    assert "forged" not in of_others
    assert [x["namespace"] for x in of_others["web-apart"]["workloads"]].count(TENANT) == 0
    carriers = [(w["namespace"], w["name"]) for x in listed["rules"] for w in x["workloads"]]
    assert (TENANT, "web0") not in carriers
    judged, _writes = checks.check(("placement_info", {"details": "all"}, True), objects)
    named = {
        (x["workload"]["namespace"], rule["rule"])
        for x in judged["instances"]
        for rule in x["rules"]
    }
    refused = {(TENANT, name) for name in rules}
    assert not named & refused
    findings = [x for x in judged["findings"] if x["name"] == "invalid_rules_annotation"]
    assert [x["objects"] for x in findings] == [[f"VirtualMachine {TENANT}/web0"]]
    for task in OF_OTHERS:
        checks.check_others(task, objects)


@pytest.mark.parametrize("number", ["9" * 4300, "9" * 5000, "1000000000", "18446744073709551616"])
def test_number_of_a_change_ends_no_task_of_the_namespace(objects: Objects, number: str) -> None:
    """A tenant may write some VMs of a namespace whose rules others declare."""
    path = next(x for x in objects if f"/namespaces/{OTHERS}/virtualmachines/" in x)
    record = {
        "version": 1,
        "uid": objects[path]["metadata"]["uid"],
        "placement": {},
        "labels": {},
        "rules": None,
        "change": {"rule_set": f"{OTHERS}/default", "number": 1, "request": "a"},
        "written": {"fields": {}, "labels": {}, "rules": ""},
    }
    text = json.dumps(record).replace('"number": 1', f'"number": {number}')
    metadata = objects[path]["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), f"{PREFIX}undo": text}
    of_another = [x for x in RULES if objects[path]["metadata"]["name"] not in str(x)]
    written, _writes = checks.check(
        ("rules", {"namespace": OTHERS, "rules": of_another, "workload_rollout": "allow"}, False),
        objects,
    )
    assert not written.get("failed"), written.get("msg")
    for task in (LISTED, ("placement_info", {}, True)):
        result, _writes = checks.check(task, objects)
        assert not result.get("failed"), result.get("msg")
    checks.check(("rules", {"namespace": OTHERS, "state": "reverted"}, True), objects)
