# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What changes on which node, what is refused, and what the patches say."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model import kinds as names
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.node_labels.plan import (
    LabelledNode,
    LabelPlan,
    plan_labels,
    replan_node,
)
from ansible_collections.virt.placement.plugins.module_utils.node_labels.request import (
    LabelRequest,
    parse_label_request,
)

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def _parsed(
    keys: dict[str, str] | None = None, **options: t.Any
) -> tuple[LabelRequest, tuple[InputError, ...]]:
    unset = dict.fromkeys(("per_node", "per_value", "nodes", "selector", "labels"))
    params: dict[str, t.Any] = {
        **unset,
        "remove": [],
        "exclusive": [],
        "force": False,
        "follow": False,
    }
    params |= options
    return parse_label_request(params, Topology.of(keys))


def _parse(keys: dict[str, str] | None = None, **options: t.Any) -> LabelRequest:
    request, faults = _parsed(keys, **options)
    assert not faults
    return request


def _faults(keys: dict[str, str] | None = None, **options: t.Any) -> list[str]:
    return [str(fault) for fault in _parsed(keys, **options)[1]]


def _node(
    name: str,
    labels: dict[str, str] | None = None,
    note: dict[str, str] | str | None = None,
    managers: dict[str, list[str]] | None = None,
) -> LabelledNode:
    text = note if isinstance(note, str) else json.dumps(note)
    fields = [
        {
            "manager": manager,
            "operation": "Update",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, **{f"f:{key}": {} for key in keys}}}},
        }
        for manager, keys in (managers or {}).items()
    ]
    annotations = {"other": "x", **({names.NODE_LABELS: text} if note is not None else {})}
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": {"kubernetes.io/hostname": name, **(labels or {})},
        "annotations": annotations,
        "managedFields": [*fields, {"manager": "kwok", "subresource": "status"}],
    }
    return LabelledNode.of({"metadata": metadata})


def _plan(
    request: LabelRequest, *nodes: LabelledNode, selected: t.Collection[str] = ()
) -> LabelPlan:
    return plan_labels(request, {node.name: node for node in nodes}, selected)


class TestRequest:
    def test_names_of_the_vocabulary_become_keys(self) -> None:
        request = _parse(
            {"rack": "example.com/rack"},
            per_node={"w1": {"zone": "scu", "rack": "r1", "a.b/c": "d"}},
            remove=["performance", "old-key"],
        )
        assert request.per_node == {"w1": {ZONE: "scu", "example.com/rack": "r1", "a.b/c": "d"}}
        assert request.remove == ("performance", "old-key")

    def test_per_value_is_the_inverse_of_per_node(self) -> None:
        request = _parse(
            per_value={
                "zone": {"a": ["w1", "w2"], "b": "w3", 3: []},
                "performance": {"high": ["w1"]},
            }
        )
        assert request.per_node == {
            "w1": {ZONE: "a", "performance": "high"},
            "w2": {ZONE: "a"},
            "w3": {ZONE: "b"},
        }

    def test_errors_in_per_value_are_reported_together(self) -> None:
        per_value = {
            "zone": {"a": ["w1", ""], "b": ["w1"], "": ["w2"]},
            "zon": {"a": ["w1"]},
            "region": ["w1"],
        }
        assert _faults(per_value=per_value, labels={"zone": "c"}) == [
            "per_value, zone.a[1]: must not be empty",
            "per_value, zone.: must not be empty",
            "per_value, zon: topology key 'zon' is not declared: add it to topology_keys or write the"
            " full label key with its prefix; did you mean zone?",
            "per_value, region: must be a map of values to lists of nodes, not a list",
            "labels: only with nodes or selector: per_value has its own labels",
        ]
        (error,) = _faults(per_value={"zone": {"a": ["w1"], "b": ["w1"]}})
        assert error == "per_value, zone.b: w1 is also listed under 'a': keep one of the two"

    def test_a_whole_number_is_the_text_that_it_is_written_as(self) -> None:
        assert _parse(per_node={"w1": {"zone": 3}}).per_node == {"w1": {ZONE: "3"}}

    @pytest.mark.parametrize(
        ("value", "fault"),
        [
            (None, "must be text, not null: give a value, or leave the key out"),
            ("", "must not be empty"),
            (" ", "must not be empty"),
            (True, "must be text, not the boolean true: quote it if it is meant as text"),
            (1.5, "must be text, not the number 1.5: quote it if it is meant as text"),
            (["a"], "must be text, not a list: quote it if it is meant as text"),
        ],
        ids=str,
    )
    def test_values_that_yaml_may_have_made_of_something_else(
        self, value: t.Any, fault: str
    ) -> None:
        assert _faults(per_node={"w1": {"zone": value}}) == [f"per_node, w1.zone: {fault}"]

    def test_all_faults_are_named_at_once(self) -> None:
        found = _faults(
            per_node={"w1": {"zoen": "a", "bad key/x": "b"}, "w2": {"zone": "x" * 64}, "w3": "c"},
            remove=["regoin"],
            exclusive=["performence"],
        )
        assert [fault.split(":")[0] for fault in found] == [
            "per_node, w1.zoen",
            "per_node, w1.bad key/x",
            "per_node, w2.zone",
            "per_node, w3",
            "remove[0]",
            "exclusive[0]",
        ]
        assert "did you mean zone" in found[0]
        assert "is not a valid label key" in found[1]
        assert "is not a valid label value" in found[2]
        assert "did you mean region" in found[4]
        assert "did you mean performance" in found[5]

    def test_options_that_contradict_each_other(self) -> None:
        assert _faults(
            nodes=["w1", "w2", "w1"],
            labels={"zone": "a", ZONE: "b"},
            remove=["zone"],
            exclusive=["performance"],
        ) == [
            "nodes[2]: w1 is listed twice",
            f"labels, {ZONE}: the label {ZONE} is given twice, by name and by key",
            f"remove: {ZONE} is also given: remove it from one of the two",
        ]

    def test_a_key_without_values_is_not_removed_from_all_nodes(self) -> None:
        fault = (
            "exclusive: performance is set on no node here, so every node would lose it: use remove"
        )
        labels = {"performance": "high"}
        empty: tuple[dict[str, t.Any], ...] = (
            {"per_node": {"w1": {"zone": "a"}}},
            {"per_node": {}},
            {"nodes": [], "labels": labels},
        )
        for options in empty:
            (found,) = _faults(exclusive=["performance"], **options)
            assert found.startswith(fault)

    @pytest.mark.parametrize(
        ("text", "read"),
        [
            ("zone=scu", f"{ZONE}=scu"),
            ("!zone, zone notin (a, b),region", f"!{ZONE},{ZONE} notin (a, b),{REGION}"),
            ("a.b/c in (x,y)", "a.b/c in (x,y)"),
            ("performance!=high", "performance!=high"),
        ],
    )
    def test_a_selector_may_use_the_vocabulary(self, text: str, read: str) -> None:
        assert _parse(selector=text, labels={}).selector == read

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "must not be empty: an empty selector matches every node"),
            ("  ", "must not be empty: an empty selector matches every node"),
            ("zone=a,,b/c", "'' is not a requirement"),
            ("zoen=a", "topology key 'zoen' is not declared"),
        ],
    )
    def test_empty_selector(self, text: str, fault: str) -> None:
        (found,) = _faults(selector=text)
        assert found.startswith(f"selector: {fault}")


class TestPlan:
    def test_only_what_differs_is_written(self) -> None:
        request = _parse(per_node={"w1": {"zone": "scu"}, "w2": {"zone": "scu", "region": "r"}})
        plan = _plan(request, _node("w1", {ZONE: "scu"}), _node("w2", {ZONE: "scu"}), _node("w3"))
        (write,) = plan.writes
        assert (write.target, write.path) == (Ref("Node", "", "w2"), "/api/v1/nodes/w2")
        assert (write.before, write.after) == ({}, {REGION: "r"})
        assert write.patch() == [
            {"op": "test", "path": "/metadata/uid", "value": "uid-w2"},
            {
                "op": "test",
                "path": "/metadata/labels/topology.kubernetes.io~1region",
                "value": None,
            },
            {
                "op": "test",
                "path": "/metadata/annotations/placement.virt~1node-labels",
                "value": None,
            },
            {"op": "add", "path": "/metadata/labels/topology.kubernetes.io~1region", "value": "r"},
            {
                "op": "add",
                "path": "/metadata/annotations/placement.virt~1node-labels",
                "value": f'{{"{REGION}":"r","{ZONE}":"scu"}}',
            },
        ]

    def test_a_change_and_a_removal_test_what_was_read(self) -> None:
        request = _parse(nodes=["w1"], labels={"zone": "b"}, remove=["old"], force=True)
        note = {ZONE: "a", "old": "1", "kept": "2"}
        (write,) = _plan(request, _node("w1", {ZONE: "a", "old": "1"}, note)).writes
        assert (write.before, write.after) == ({ZONE: "a", "old": "1"}, {ZONE: "b"})
        tests = {str(test.pointer): test.value for test in write.tests}
        assert tests["/metadata/labels/old"] == "1"
        assert tests[f"/metadata/labels/{ZONE.replace('/', '~1')}"] == "a"
        assert json.loads(write.operations[-1].value) == {ZONE: "b", "kept": "2"}

    def test_removal_of_all_that_was_noted_removes_the_note(self) -> None:
        request = _parse(nodes=["w1"], remove=["old"])
        (write,) = _plan(request, _node("w1", {"old": "1"}, {"old": "1"})).writes
        assert write.operations[-1].op == "remove"

    def test_removal_of_what_was_never_noted_writes_no_note(self) -> None:
        (write,) = _plan(_parse(nodes=["w1"], remove=["old"]), _node("w1", {"old": "1"})).writes
        assert [str(op.pointer) for op in write.operations] == ["/metadata/labels/old"]

    def test_a_node_without_any_maps(self) -> None:
        bare = LabelledNode("w1", "u", None, None)
        (write,) = _plan(_parse(nodes=["w1"], labels={"zone": "a"}), bare).writes
        assert [op.as_json() for op in (*write.tests, *write.operations)] == [
            {"op": "test", "path": "/metadata/labels", "value": None},
            {"op": "test", "path": "/metadata/annotations", "value": None},
            {"op": "add", "path": "/metadata/labels", "value": {ZONE: "a"}},
            {
                "op": "add",
                "path": "/metadata/annotations",
                "value": {names.NODE_LABELS: f'{{"{ZONE}":"a"}}'},
            },
        ]

    def test_exclusive_keys_go_from_all_that_are_not_given_them(self) -> None:
        request = _parse(
            per_node={"w1": {"performance": "high"}, "w2": {"zone": "a"}},
            exclusive=["performance"],
            force=True,
        )
        nodes = [_node(name, {"performance": "low"}) for name in ("w1", "w2", "w3")]
        plan = _plan(request, *nodes, _node("w4"))
        assert {write.target.name: (write.before, write.after) for write in plan.writes} == {
            "w1": ({"performance": "low"}, {"performance": "high"}),
            "w2": ({"performance": "low"}, {ZONE: "a"}),
            "w3": ({"performance": "low"}, {}),
        }

    def test_removal_touches_only_the_nodes_that_are_meant(self) -> None:
        nodes = [_node("w1", {"old": "1"}), _node("w2", {"old": "1"})]
        plan = _plan(_parse(selector="a.b/c", remove=["old"]), *nodes, selected=["w2"])
        assert [write.target.name for write in plan.writes] == ["w2"]

    def test_nothing_named_is_nothing(self) -> None:
        for request in (_parse(per_node={}), _parse(nodes=[], labels={"zone": "a"})):
            assert _plan(request, _node("w1")) == LabelPlan((), (), ())

    def test_an_unknown_node_of_per_value_is_named_with_its_option(self) -> None:
        plan = _plan(_parse(per_value={"zone": {"a": ["w11"]}}), _node("w1"))
        assert [str(error) for error in plan.faults] == [
            "per_value: there is no node 'w11'; did you mean 'w1'?"
        ]

    def test_unknown_nodes_are_named_with_the_nearest(self) -> None:
        plan = _plan(_parse(nodes=["kni-worke", "zzz"]), _node("kni-worker"), _node("b"))
        assert [str(fault) for fault in plan.faults] == [
            "nodes: there is no node 'kni-worke'; did you mean 'kni-worker'?",
            "nodes: there is no node 'zzz'",
        ]

    def test_a_selector_that_matches_no_node_is_a_fault(self) -> None:
        plan = _plan(_parse(selector="zone=a", labels={"region": "b"}))
        assert [str(fault) for fault in plan.faults] == [f"selector: no node matches {ZONE}=a"]


class TestOwners:
    REQUEST: t.ClassVar[dict[str, t.Any]] = {"per_node": {"w1": {"zone": "b"}}}

    @pytest.mark.parametrize(
        ("manager", "refused"),
        [
            ("kubelet", True),
            ("k3s", True),
            ("cloud-controller-manager", True),
            ("aws-cloud-controller-manager", True),
            ("azure-cloud-node-manager", True),
            ("harvester-cloud-provider", True),
            ("virt-handler", True),
            ("kubectl-label", False),
            ("virt-placement", False),
            ("kubelet-csr-approver", False),
        ],
    )
    def test_what_the_platform_wrote_last(self, manager: str, refused: bool) -> None:
        node = _node("w1", {ZONE: "a"}, managers={manager: [ZONE]})
        faults = _plan(_parse(**self.REQUEST), node).faults
        assert bool(faults) == refused
        assert not _plan(_parse(**self.REQUEST, force=True), node).faults
        if refused:
            assert str(faults[0]) == (
                f"w1 {ZONE}: changing 'a' to 'b': it was last written by {manager}, which may"
                " write it again; set force to change it anyway"
            )

    def test_a_value_set_here_is_given_back_although_the_kubelet_overwrote_it(self) -> None:
        node = _node("w1", {ZONE: "a"}, {ZONE: "b"}, managers={"kubelet": [ZONE]})

        plan = _plan(_parse(**self.REQUEST), node)

        assert not plan.faults
        assert [write.after for write in plan.writes] == [{ZONE: "b"}]

    def test_another_key_of_the_platform_is_no_matter(self) -> None:
        node = _node("w1", {ZONE: "a", REGION: "r"}, managers={"kubelet": [REGION]})
        assert not _plan(_parse(**self.REQUEST), node).faults

    @pytest.mark.parametrize(
        "key",
        [
            "kubevirt.io/schedulable",
            "node-role.kubernetes.io/control-plane",
            "node-restriction.kubernetes.io/team",
            "shop.node-restriction.kubernetes.io/team",
            "shop.node.kubernetes.io/team",
            "node.kubernetes.io/exclude-from-external-load-balancers",
        ],
    )
    @pytest.mark.parametrize("labels", [{}, {"set": "x"}], ids=["new", "changed"])
    def test_labels_that_controllers_decide_by_need_force(
        self, key: str, labels: dict[str, str]
    ) -> None:
        node = _node("w1", dict.fromkeys([key], "x") if labels else {})
        options: dict[str, t.Any] = {"per_node": {"w1": {key: "b"}}}
        (fault,) = _plan(_parse(**options), node).faults
        assert f"w1 {key}" in str(fault)
        assert "Kubernetes or KubeVirt uses this label" in str(fault)
        assert not _plan(_parse(**options, force=True), node).faults

    def test_a_removal_is_a_change(self) -> None:
        node = _node("w1", {ZONE: "a"}, managers={"kubelet": [ZONE]})
        (fault,) = _plan(_parse(nodes=["w1"], remove=["zone"]), node).faults
        assert "taking 'a' away" in fault.message


class TestDisturbance:
    @pytest.mark.parametrize(
        ("labels", "note", "disturbs"),
        [
            pytest.param({}, None, False, id="a new label"),
            pytest.param({ZONE: "a"}, None, True, id="another value"),
            pytest.param({ZONE: "drift"}, {ZONE: "b"}, False, id="drift from what was set here"),
            pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="a change of mind"),
            pytest.param({ZONE: "a"}, "[broken", True, id="an unreadable note"),
            pytest.param({ZONE: "a"}, "[]", True, id="a note of another form"),
        ],
    )
    def test_what_may_disturb_others(
        self, labels: dict[str, str], note: t.Any, disturbs: bool
    ) -> None:
        plan = _plan(_parse(per_node={"w1": {"zone": "b"}}), _node("w1", labels, note))
        assert bool(plan.disturbing) == disturbs

    def test_a_node_that_changed_since_is_planned_again(self) -> None:
        request = _parse(per_node={"w1": {"zone": "b", "region": "r"}})
        accepted = _plan(request, _node("w1", {ZONE: "a"})).changes
        same = replan_node(request, _node("w1", {ZONE: "a", REGION: "r"}), accepted, meant=True)
        assert same is not None
        assert same.after == {ZONE: "b"}
        done = _node("w1", {ZONE: "b", REGION: "r"})
        assert replan_node(request, done, accepted, meant=True) is None

    @pytest.mark.parametrize(
        ("labels", "managers"),
        [({ZONE: "c"}, {}), ({ZONE: "a"}, {"kubelet": [ZONE]})],
        ids=["another value", "another owner"],
    )
    def test_labels_that_changed_since_the_plan_are_refused(
        self, labels: dict[str, str], managers: dict[str, list[str]]
    ) -> None:
        request = _parse(per_node={"w1": {"zone": "b"}})
        accepted = _plan(request, _node("w1", {ZONE: "a"})).changes
        with pytest.raises(InvalidInput):
            replan_node(request, _node("w1", labels, managers=managers), accepted, meant=True)
