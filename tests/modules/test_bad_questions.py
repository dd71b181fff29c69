# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input beside rules: each module names every fault at once, with its option and index, and
writes nothing. What rules may have of them is in test_bad_rules.py."""

from __future__ import annotations

import json
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.input import shown
from ansible_collections.virt.placement.plugins.modules import (
    drill_info,
    forecast_info,
    node_labels,
    placement_info,
    rollout,
    rules_info,
    topology_info,
)
from sandbox import Sandbox
from tests.conftest import RunModule, error_messages

Options = dict[str, t.Any]

VALIDATION = Path(__file__).parents[1] / "conformance" / "cases" / "validation.json"
NO_SELECTOR = "is empty: name at least one label, since an empty selector matches every pod"
NO_KEY = "is not a valid label key: letters, digits, '-', '_' and '.', at most 63"
KINDS = {
    rollout: "VirtualMachine, VirtualMachineInstanceReplicaSet, VirtualMachinePool, Deployment,"
    " StatefulSet",
    placement_info: "VirtualMachine, VirtualMachineInstanceReplicaSet, VirtualMachinePool,"
    " Deployment, StatefulSet, DaemonSet, Pod",
    forecast_info: "Deployment, StatefulSet, VirtualMachineInstanceReplicaSet, VirtualMachinePool",
}


class Refused(t.Protocol):
    """How the fixture refused is called."""

    def __call__(self, module: types.ModuleType, **options: t.Any) -> list[str]:
        """The faults of a module that refuses the task and writes nothing."""


@pytest.fixture
def refused(six: Sandbox, run_module: RunModule) -> Refused:
    def run(module: types.ModuleType, **options: t.Any) -> list[str]:
        identity = {rollout: "mover", node_labels: "labeler"}.get(module, "reader")
        start = six.audit.mark()
        result = run_module(module.main, {"kubeconfig": str(six.kubeconfig(identity)), **options})
        assert result["failed"], result
        assert result["changed"] is False
        assert six.audit.writes(since=start) == []
        assert all(fault in result["msg"] for fault in error_messages(result))
        return error_messages(result)

    return run


def bad_keys(module: types.ModuleType, **others: t.Any) -> t.Any:
    keys = {"rack": "no key", "row": "", "hall": "/x", "site": None, "": "example.com/x"}
    faults = [
        "topology_keys.rack: must be a label key, not 'no key'",
        "topology_keys.row: must be a label key, not ''",
        "topology_keys.hall: must be a label key, not '/x'",
        "topology_keys.site: must be a label key, not null",
        "topology_keys: a name must not be empty",
    ]
    name = module.__name__.rpartition(".")[2]
    return pytest.param(module, {"topology_keys": keys, **others}, faults, id=f"{name}-keys")


def case(name: str, module: types.ModuleType, options: Options, *faults: str) -> t.Any:
    module_name = module.__name__.rpartition(".")[2]
    return pytest.param(module, options, list(faults), id=f"{module_name}-{name}")


def no_kind(module: types.ModuleType, kind: str, hint: str) -> str:
    return f"{kind!r} is not a kind of workload: use one of {KINDS[module]}{hint}"


MACHINE = "; did you mean 'VirtualMachine' or 'VirtualMachinePool'"

CASES = [
    bad_keys(topology_info),
    bad_keys(placement_info),
    bad_keys(rules_info),
    bad_keys(rollout, namespaces=["default"]),
    bad_keys(drill_info, domains_of=["zone"]),
    bad_keys(node_labels, nodes=["w1"], labels={"zone": "a"}),
    case(
        "empty selector and text",
        placement_info,
        {
            "workloads": [
                {"namespace": "default", "labels": {}},
                {"namespace": "default", "name": ""},
                {"namespace": "", "name": "x"},
                {"namespace": "default", "names": ["", "x"]},
            ]
        },
        f"workloads[0], labels: {NO_SELECTOR}",
        "workloads[1], name: must not be empty",
        "workloads[2], namespace: must not be empty",
        "workloads[3], names[0]: must not be empty",
    ),
    case(
        "workloads in short",
        rules_info,
        {
            "namespaces": ["default"],
            "workloads": ["", {"nme": "x"}, 7, {"kind": "Pods", "name": "x"}],
        },
        "workloads[0]: must not be empty",
        "workloads[1]: unknown option 'nme'; did you mean 'name'",
        "workloads[2]: must be the name of a VM, or a map of kind, namespace, name, names, labels",
        f"workloads[3], kind: {no_kind(placement_info, 'Pods', '; did you mean')}",
    ),
    case(
        "unknown namespaces",
        rules_info,
        {"namespaces": ["nowhere", "defalt"]},
        "namespaces: there is no namespace 'nowhere'",
        "namespaces: there is no namespace 'defalt'; did you mean 'default'?",
    ),
    case("empty namespace", placement_info, {"namespaces": [""]}, "namespaces[0]: must not be"),
    case(
        "kinds",
        placement_info,
        {
            "namespaces": ["default"],
            "workloads": [{"kind": "VirtualMachin", "name": "x"}, {"kind": "Pods", "name": ""}],
        },
        f"workloads[0], kind: {no_kind(placement_info, 'VirtualMachin', MACHINE)}",
        f"workloads[1], kind: {no_kind(placement_info, 'Pods', '; did you mean')}",
        "workloads[1], name: must not be empty",
    ),
    case(
        "unknown namespaces",
        rollout,
        {"namespaces": ["nowhere", "defalt"]},
        "namespaces: there is no namespace 'nowhere'",
        "namespaces: there is no namespace 'defalt'; did you mean 'default'?",
    ),
    case("empty namespace", rollout, {"namespaces": [""]}, "namespaces[0]: must not be empty"),
    case(
        "empty selector and text",
        rollout,
        {
            "namespaces": ["default"],
            "workloads": [{"labels": {}}, {"name": ""}, {"kind": "", "name": "x"}],
        },
        f"workloads[0], labels: {NO_SELECTOR}",
        "workloads[1], name: must not be empty",
        "workloads[2], kind: must not be empty",
    ),
    case(
        "kinds",
        rollout,
        {
            "namespaces": ["default"],
            "workloads": [
                {"kind": "Pod", "name": "x"},
                {"kind": "DaemonSet", "name": "x"},
                {"kind": "VirtualMachin", "name": "x"},
            ],
            "max_unavailable": 0,
        },
        "workloads[0], kind: a rule cannot be written to a Pod: name its owner",
        "workloads[1], kind: rules cannot be written to a DaemonSet",
        f"workloads[2], kind: {no_kind(rollout, 'VirtualMachin', '; did you mean')}",
        "max_unavailable: must be at least 1, not 0",
    ),
    case(
        "labels",
        rollout,
        {"namespaces": ["default"], "workloads": [{"labels": {"no good": "a b"}}]},
        "workloads[0], labels.no good: 'a b' is not a valid label value",
        f"workloads[0], labels: 'no good' {NO_KEY}",
    ),
    case(
        "unknown namespaces",
        forecast_info,
        {
            "namespace": "defalt",
            "rules": [{"name": "a", "workloads": [], "run_on": {"zone": "zone1"}}],
            "scale": [{"name": "web", "replicas": 2, "namespace": "nowhere"}],
        },
        "namespace: there is no namespace 'defalt'; did you mean 'default'?",
        "scale[0]: there is no namespace 'nowhere'",
    ),
    case(
        "kinds",
        forecast_info,
        {
            "namespace": "default",
            "scale": [
                {"kind": "Pod", "name": "web", "replicas": 2},
                {"kind": "DaemonSet", "name": "web", "replicas": -2},
                {"kind": "Deploymnt", "name": "web", "replicas": 2},
            ],
        },
        f"scale[0]: kind must be one of {KINDS[forecast_info]}, not 'Pod'",
        f"scale[1]: kind must be one of {KINDS[forecast_info]}, not 'DaemonSet'",
        "scale[1]: replicas must be 0 or more, not -2",
        f"scale[2]: kind must be one of {KINDS[forecast_info]}, not 'Deploymnt'; did you mean"
        " 'Deployment'?",
    ),
    case(
        "empty text",
        forecast_info,
        {
            "namespace": "",
            "unavailable": {"zone": "", "nodes": [""]},
            "scale": [{"name": "", "namespace": "default", "replicas": 1}],
        },
        "namespace: must not be empty: omit it",
        "unavailable.zone: must be a name or a list of names, not ''",
        "unavailable.nodes: must be a name or a list of names, not ''",
        "scale[0]: name must be that of a workload, not ''",
    ),
    case(
        "empty namespace of a workload",
        forecast_info,
        {"namespace": "default", "scale": [{"name": "web", "namespace": "", "replicas": 1}]},
        "scale[0]: namespace must not be empty: omit it",
    ),
    case(
        "keys",
        drill_info,
        {"domains_of": ["", "zon", "a b/c", "zone"]},
        "domains_of[0]: must be the name of a topology key, not ''",
        "domains_of[1]: topology key 'zon' is not declared: add it to topology_keys or write the full"
        " label key with its prefix; did you mean zone?",
        f"domains_of[2]: 'a b/c' {NO_KEY}",
    ),
]


@pytest.mark.parametrize(("module", "options", "faults"), CASES)
def test_every_fault_is_named_with_its_option(
    refused: Refused, module: types.ModuleType, options: Options, faults: list[str]
) -> None:
    found = refused(module, **options)
    for fault in faults:
        assert [each for each in found if each.startswith(fault)], (fault, found)
    assert len(found) == len(faults), found


class TestLabelsThatKubernetesRefuses:
    """Keys and values with the API server's own verdict (tests/conformance)."""

    @staticmethod
    def cases(what: str) -> list[tuple[str, bool]]:
        field = {"labelKey": "key", "labelValue": "value"}[what]
        listed = json.loads(VALIDATION.read_text())["cases"]
        found = [(c[field], c["expect"]["valid"]) for c in listed if c["what"] == what]
        assert {valid for _text, valid in found} == {True, False}
        return found

    def test_keys_of_the_vocabulary(self, refused: Refused) -> None:
        keys = self.cases("labelKey")
        named = {f"k{number}": key for number, (key, _valid) in enumerate(keys)}

        found = refused(topology_info, topology_keys=named)

        assert found == [
            f"topology_keys.k{number}: must be a label key, not {shown(key)}"
            for number, (key, valid) in enumerate(keys)
            if not valid
        ]

    def test_keys_of_node_labels(self, refused: Refused) -> None:
        keys = self.cases("labelKey")

        found = refused(node_labels, nodes=["w1"], remove=[key for key, _valid in keys])

        assert [fault.split(": ")[0] for fault in found] == [
            f"remove[{number}]" for number, (_key, valid) in enumerate(keys) if not valid
        ]
        near = "topology key '\"zone\"' is not declared"
        assert all(NO_KEY in fault or near in fault for fault in found)

    def test_values_of_node_labels(self, refused: Refused) -> None:
        """Space around a value is taken off before; an empty one is refused, whatever the API
        server says."""
        values = self.cases("labelValue")
        labels = {f"example.com/k{number}": value for number, (value, _valid) in enumerate(values)}

        found = refused(node_labels, nodes=["w1"], labels=labels)

        assert [fault.split(": ")[0] for fault in found] == [
            f"labels, example.com/k{number}"
            for number, (value, valid) in enumerate(values)
            if not value or not (valid or value == "a\n")
        ]
