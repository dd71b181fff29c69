# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who counts on the label of a node."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    NodeTerm,
    Pod,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    placement_from_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.node_labels.plan import (
    LabelChange,
    LabelledNode,
    dependent_faults,
    dependent_workloads,
    plan_labels,
)
from ansible_collections.virt.placement.plugins.module_utils.node_labels.request import (
    LabelRequest,
)

ZONE = "topology.kubernetes.io/zone"
NODES = (Node("w1", labels={ZONE: "a"}), Node("w2", labels={ZONE: "b"}))
MOVE = LabelChange("w1", ZONE, "a", "b", healing=False)


def _node_rule(values: list[str], key: str = ZONE, kind: str = "required") -> dict[str, t.Any]:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    if kind == "required":
        return {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
                }
            }
        }
    preferred = [{"weight": 1, "preference": term}]
    return {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    }


def _pod_rule(kind: str, key: str = ZONE) -> dict[str, t.Any]:
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(action: str) -> dict[str, t.Any]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {}}]}


def _machine(spec: dict[str, t.Any], name: str = "db") -> t.Any:
    manifest = {
        "metadata": {"namespace": "shop", "name": name, "uid": name},
        "spec": {"template": {"spec": spec}},
    }
    return workload_from_manifest("VirtualMachine", manifest)


def _texts(snapshot: Snapshot, *changes: LabelChange) -> list[str]:
    return [str(fault) for fault in dependent_faults(snapshot, changes or (MOVE,))]


@pytest.mark.parametrize(
    ("spec", "depends"),
    [
        pytest.param(_node_rule(["a"]), True, id="allowed before, not after"),
        pytest.param(_node_rule(["b"]), True, id="allowed after, not before"),
        pytest.param(_node_rule(["a", "b"]), False, id="allowed both ways"),
        pytest.param(_node_rule(["c"]), False, id="allowed neither way"),
        pytest.param(_node_rule(["a"], kind="preferred"), False, id="a preference"),
        pytest.param(_node_rule(["a"], key="rack"), False, id="another key"),
        pytest.param({"nodeSelector": {ZONE: "a"}}, True, id="nodeSelector"),
        pytest.param(_pod_rule("podAntiAffinity"), True, id="apart"),
        pytest.param(_pod_rule("podAffinity"), True, id="together"),
        pytest.param(_pod_rule("podAffinity", "rack"), False, id="together over another key"),
        pytest.param(_spread("DoNotSchedule"), True, id="spread"),
        pytest.param(_spread("ScheduleAnyway"), False, id="preferred spread"),
        pytest.param({}, False, id="no rule"),
    ],
)
def test_rules_and_pods_on_the_node(spec: dict[str, t.Any], depends: bool) -> None:
    workloads = (_machine(spec),)
    found = _texts(Snapshot(nodes=NODES, workloads=workloads))
    expected = (
        f"w1 {ZONE}: changing 'a' to 'b': these depend on the label: VirtualMachine shop/db."
        " Remove the rules or move the pods first, or set force"
    )
    assert found == ([expected] if depends else [])
    placement = placement_from_spec(spec)
    here, there = (
        Pod("shop", "p", node_name=node, placement=placement, phase="Running")
        for node in ("w1", "w2")
    )
    ended = Pod("shop", "p", node_name="w1", placement=placement, phase="Succeeded")
    assert len(_texts(Snapshot(nodes=NODES, pods=(here,)))) == depends
    assert not _texts(Snapshot(nodes=NODES, pods=(there, ended)))


@pytest.mark.parametrize(("value", "depends"), [("a", True), ("c", False)])
def test_volumes(value: str, depends: bool) -> None:
    terms = (NodeTerm((Requirement(ZONE, "In", (value,)),)),)
    found = _texts(Snapshot(nodes=NODES, claim_terms={("shop", "data"): terms}))
    assert bool(found) == depends
    if depends:
        assert "the volume of PersistentVolumeClaim shop/data." in found[0]


def test_many_dependants_are_counted() -> None:
    machines = tuple(_machine({"nodeSelector": {ZONE: "a"}}, f"vm{n}") for n in range(5))
    (found,) = _texts(Snapshot(nodes=NODES, workloads=machines))
    assert "shop/vm0" in found
    assert "vm3" not in found
    assert "and 2 more" in found


def test_of_many_dependants_the_volumes_are_named_first() -> None:
    """Rules and instances can be moved, data cannot."""
    machines = tuple(_machine({"nodeSelector": {ZONE: "a"}}, f"vm{n}") for n in range(5))
    terms = (NodeTerm((Requirement(ZONE, "In", ("a",)),)),)
    claims = {("shop", "data"): terms}
    (found,) = _texts(Snapshot(nodes=NODES, workloads=machines, claim_terms=claims))
    assert (
        "the label: the volume of PersistentVolumeClaim shop/data, VirtualMachine shop/vm0,"
        in found
    )
    assert "and 3 more" in found


def test_each_change_is_a_fault_of_its_own() -> None:
    snapshot = Snapshot(nodes=NODES, workloads=(_machine(_pod_rule("podAffinity")),))
    other = LabelChange("w2", ZONE, "b", None, healing=False)
    assert [text.split(":")[0] for text in _texts(snapshot, MOVE, other)] == [
        f"w1 {ZONE}",
        f"w2 {ZONE}",
    ]


def test_all_changes_of_a_node_are_weighed_together() -> None:
    """A key that is renamed while rules name both: the node is allowed before and after."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": ["x"]}]}
        for key in ("old", "example.com/new")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    rule = _machine({"affinity": {"nodeAffinity": required}})
    snapshot = Snapshot(nodes=(Node("w1", labels={"old": "x"}),), workloads=(rule,))
    removed = LabelChange("w1", "old", "x", None, healing=False)
    added = LabelChange("w1", "example.com/new", None, "x", healing=False)

    assert len(_texts(snapshot, removed)) == 1
    assert _texts(snapshot, removed, added) == []
    assert _texts(snapshot, added) == []


def test_list_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    gap = Unreadable("pods", "", "list", "grant list on pods")
    settings = Unreadable("kubevirts", "", "list", "grant list on kubevirts")
    (found,) = _texts(Snapshot(nodes=NODES, unreadable=(gap, settings)))
    assert found == (
        "dependants: it is unknown which objects depend on these labels: cannot list pods in all namespaces:"
        " grant list on pods; or set force"
    )


def test_follow_reports_the_workloads_and_refuses_only_for_volumes() -> None:
    depends, other = _machine(_pod_rule("podAntiAffinity")), _machine(_node_rule(["a", "b"]), "web")
    pod = Pod(
        "shop", "p", "p", node_name="w1", placement=placement_from_spec(_spread("DoNotSchedule"))
    )
    requirement = Requirement(ZONE, "In", ("a",))
    claims = {("shop", "data"): (NodeTerm((requirement,)),)}
    snapshot = Snapshot(nodes=NODES, workloads=(depends, other), pods=(pod,))

    assert len(_texts(snapshot)) == 1
    assert dependent_faults(snapshot, (MOVE,), follow=True) == ()
    assert dependent_workloads(snapshot, (MOVE,)) == (depends.ref,)
    with_volume = Snapshot(nodes=NODES, claim_terms=claims)
    (fault,) = dependent_faults(with_volume, (MOVE,), follow=True)
    assert "the volume of PersistentVolumeClaim shop/data" in str(fault)


def test_new_label_has_no_dependents() -> None:
    added = LabelChange("w1", "example.com/host", None, "esx-1", healing=False)
    rule = _machine(_pod_rule("podAntiAffinity", "example.com/host"))
    assert dependent_workloads(Snapshot(nodes=NODES, workloads=(rule,)), (added,)) == ()


def test_label_that_cluster_api_copies_is_refused_by_the_name_of_its_machine() -> None:
    key = "node.cluster.x-k8s.io/esxi-host"
    annotations = {
        "cluster.x-k8s.io/labels-from-machine": f"example.com/pool,{key}",
        "cluster.x-k8s.io/machine": "prod-md-0-x7k",
    }
    node = LabelledNode("n1", "u", {key: "esx-1"}, annotations)

    def faults(value: str, **options: t.Any) -> list[str]:
        request = LabelRequest(per_node={"n1": {key: value}}, **options)
        return [str(fault) for fault in plan_labels(request, {"n1": node}, ()).faults]

    (fault,) = faults("esx-2", follow=True)
    assert "changing 'esx-1' to 'esx-2': Cluster API copies it from Machine prod-md-0-x7k" in fault
    assert faults("esx-1") == []
    assert faults("esx-2", force=True) == []
