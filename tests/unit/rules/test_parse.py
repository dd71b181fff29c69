# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what users, templates and surveys write to rules."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    RawTerms,
    Rule,
    RunOn,
    Spread,
    WorkloadSelector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import (
    RULE_TYPES,
    read_rules,
)
from ansible_collections.virt.placement.plugins.modules import rules, rules_info
from tests.parsed import parsed
from tests.unit.lint.documented import DOCUMENTED

ZONE = "topology.kubernetes.io/zone"
WHO = {"workloads": [{"name": "a"}]}
VM = "VirtualMachine"


def _parse(*rules: t.Any, absent: bool = False, **keys: str) -> tuple[Rule, ...]:
    return parsed(rules, rule_set="s", topology=Topology.of(keys), absent=absent)


def _faults(rule: t.Any) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        _parse(rule)
    return [str(fault) for fault in refused.value.errors]


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (
            {"run_on": {"zone": "a", "x.io/y": ["b", "b", 3]}},
            RunOn(((ZONE, ("a",)), ("x.io/y", ("3", "b")))),
        ),
        ({"avoid": {"performance": "high"}}, Avoid((("performance", ("high",)),))),
        ({"keep_apart": {"topology_key": "zone"}}, KeepApart(ZONE)),
        ({"keep_apart": "zone"}, KeepApart(ZONE)),
        ({"keep_apart": "x.io/rack"}, KeepApart("x.io/rack")),
        (
            {"keep_apart": {"topology_key": "zone", "from": "b"}},
            KeepApart(ZONE, (WorkloadSelector(VM, "shop", ("b",)),)),
        ),
        (
            {"keep_apart": {"topology_key": "zone", "from": ["c", {"labels": {"x": "y"}}, "b"]}},
            KeepApart(
                ZONE,
                (
                    WorkloadSelector(VM, "shop", ("c", "b")),
                    WorkloadSelector(VM, "shop", labels={"x": "y"}),
                ),
            ),
        ),
        ({"keep_together": "zone"}, KeepTogether(ZONE)),
        (
            {"keep_together": {"topology_key": "zone", "with": "b"}},
            KeepTogether(ZONE, WorkloadSelector(VM, "shop", ("b",))),
        ),
        ({"spread": "zone"}, Spread(ZONE, 1)),
        (
            {"keep_apart": {"topology_key": "zone", "from": {"name": "b"}}},
            KeepApart(ZONE, (WorkloadSelector(VM, "shop", ("b",)),)),
        ),
        (
            {"keep_apart": {"topology_key": "zone", "pods": [{"labels": {"a": "b"}}]}},
            KeepApart(ZONE, (PodSelector({"a": "b"}, ("shop",)),)),
        ),
        (
            {
                "keep_together": {
                    "topology_key": "zone",
                    "with": {"labels": {"a": "b"}, "namespace": "o"},
                }
            },
            KeepTogether(ZONE, WorkloadSelector(VM, "o", labels={"a": "b"})),
        ),
        (
            {"keep_together": {"topology_key": "zone", "with": {"name": "b"}}},
            KeepTogether(ZONE, WorkloadSelector(VM, "shop", ("b",))),
        ),
        ({"spread": {"topology_key": "zone", "max_skew": "2"}}, Spread(ZONE, 2)),
        (
            {"terms": {"tolerations": [{"key": "a", "operator": "Exists", "value": None}]}},
            RawTerms({"tolerations": [{"key": "a", "operator": "Exists"}]}),
        ),
    ],
)
def test_each_verb(verb: dict[str, t.Any], expected: t.Any) -> None:
    (rule,) = _parse({"name": "r", **WHO, **verb})
    assert rule.rule_type == expected
    assert rule.workloads == (WorkloadSelector(VM, "shop", ("a",)),)


@pytest.mark.parametrize(
    ("given", "preferred", "weight"),
    [
        ({}, False, 100),
        ({"preferred": True}, True, 100),
        ({"preferred": "True", "weight": " 10 "}, True, 10),
        ({"preferred": "yes", "weight": 1}, True, 1),
        ({"preferred": "no"}, False, 100),
    ],
)
def test_numbers_and_booleans_may_be_text(
    given: dict[str, t.Any], preferred: bool, weight: int
) -> None:
    (rule,) = _parse({"name": "r", **WHO, "avoid": {"zone": "a"}, **given})
    assert (rule.preferred, rule.weight) == (preferred, weight)


@pytest.mark.parametrize(
    ("weight", "fault"),
    [
        (True, "must be a whole number from 1 to 100, not the boolean true"),
        ("ten", "must be a whole number from 1 to 100, not 'ten'"),
        (1.5, "must be a whole number from 1 to 100, not the number 1.5"),
        (None, "must be a whole number from 1 to 100, not null"),
        (0, "must be a whole number from 1 to 100, not 0"),
        ("101", "must be a whole number from 1 to 100, not 101"),
        ([], "must be a whole number from 1 to 100, not a list"),
    ],
)
def test_a_weight_that_is_none(weight: t.Any, fault: str) -> None:
    rule = {"name": "r", **WHO, "avoid": {"zone": "a"}, "preferred": True, "weight": weight}
    assert _faults(rule) == [f"rules[0] r, weight: {fault}"]


def test_empty_list_means_no_workload() -> None:
    (rule,) = _parse({"name": "r", "workloads": [], "avoid": {"zone": "a"}})
    assert rule.workloads == ()
    (rule,) = _parse({"name": "r", "workloads": [{"names": []}], "avoid": {"zone": "a"}})
    assert rule.workloads == (WorkloadSelector(VM, "shop", ()),)


def test_workloads_by_name_are_vms() -> None:
    workloads = ["a", " b ", {"kind": "Deployment", "name": "c"}]
    (rule,) = _parse({"name": "r", "workloads": workloads, "spread": "zone"})
    assert rule.workloads == (
        WorkloadSelector(VM, "shop", ("a",)),
        WorkloadSelector(VM, "shop", ("b",)),
        WorkloadSelector("Deployment", "shop", ("c",)),
    )


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ({"workloads": ["a", "a"]}, ["workloads: has 'a' more than once"]),
        ({"workloads": ["a", ""]}, ["workloads[1]: must not be empty"]),
        (
            {"workloads": ["a", None]},
            [
                "workloads[1]: must be the name of a VM, or a map of kind, namespace, name, names,"
                " labels, not null"
            ],
        ),
        (
            {**WHO, "keep_apart": "zon"},
            [
                "keep_apart: topology key 'zon' is not declared: add it to topology_keys or write the"
                " full label key with its prefix; did you mean zone?"
            ],
        ),
        (
            {**WHO, "keep_apart": "host"},
            [
                "keep_apart: topology key 'host' is not declared: add it to topology_keys or write the"
                " full label key with its prefix; did you mean node?"
            ],
        ),
        (
            {**WHO, "keep_apart": ["zone"]},
            [
                "keep_apart: must be a topology key such as zone, or a map of topology_key, from, pods,"
                " not a list"
            ],
        ),
        ({**WHO, "spread": ""}, ["spread: must not be empty"]),
        (
            {**WHO, "keep_apart": {"topology_key": "zone", "from": ["b", 1.5, {"nam": "c"}]}},
            [
                "keep_apart.from[1]: must be the name of a VM, or a map of kind, namespace, name,"
                " names, labels, not the number 1.5",
                "keep_apart.from[2]: unknown option 'nam'; did you mean 'name'?",
            ],
        ),
    ],
)
def test_errors_in_a_shorthand(rule: dict[str, t.Any], errors: list[str]) -> None:
    rule = {"run_on": {"zone": "a"}} | rule if len(rule) == 1 else rule
    assert _faults({"name": "r", **rule}) == [f"rules[0] r, {error}" for error in errors]


def test_names_of_keys_are_those_of_the_task() -> None:
    (rule,) = _parse({"name": "r", **WHO, "keep_apart": {"topology_key": "rack"}}, rack="x.io/rack")
    assert rule.rule_type == KeepApart("x.io/rack")


def test_key_under_two_names_is_refused() -> None:
    rule = {"name": "r", **WHO, "run_on": {"zone": "a", ZONE: "b"}}
    assert _faults(rule) == [
        f"rules[0] r, run_on.{ZONE}: is the key {ZONE}, which is also given under another name"
    ]


def test_an_absent_rule_needs_only_its_name() -> None:
    (rule,) = _parse({"name": "r"}, absent=True)
    assert rule.everywhere
    (rule,) = _parse({"name": "r", **WHO, "avoid": {"zone": "a"}}, absent=True)
    assert not rule.everywhere


def test_workload_of_another_namespace_is_not_looked_up() -> None:
    """It is refused, and nothing else is said of it: only the namespace of the rules is read."""
    raw = [
        {"name": "r", "workloads": ["a", {"namespace": "o", "name": "b"}], "avoid": {"zone": "a"}}
    ]
    parsed = read_rules(raw, namespace="shop", rule_set="s", topology=Topology.of())
    assert [broken.workloads for broken in parsed.broken] == [
        (WorkloadSelector(VM, "shop", ("a",)),)
    ]
    assert len(parsed.faults) == 1


def test_invalid_rule_keeps_its_workloads() -> None:
    raw = [{"name": "r", "workloads": [{"name": "a"}, {"nme": "b"}], "avoid": {"zn": "a"}}]
    parsed = read_rules(raw, namespace="shop", rule_set="s", topology=Topology.of())
    assert [rule.workloads for rule in parsed.broken] == [(WorkloadSelector(VM, "shop", ("a",)),)]
    assert [fault.where for fault in parsed.faults] == [
        "rules[0] r, avoid.zn",
        "rules[0] r, workloads[1]",
    ]


_WITHOUT_KEY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"a": "b"}}},
    ]
}


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ({"nme": "r", **WHO, "spread": {"topology_key": "zone"}}, "rules[0]: unknown option 'nme'"),
        (
            {"name": "r", "workload": [{"name": "a"}], "spread": {"topology_key": "zone"}},
            "rules[0] r: unknown option 'workload'",
        ),
        (
            {"name": "r", **WHO, "sprad": {"topology_key": "zone"}},
            "rules[0] r: unknown option 'sprad'",
        ),
        ({"name": "r", **WHO, "lable": {"a": "b"}}, "rules[0] r: unknown option 'lable'"),
        (
            {"name": "r", **WHO, "keep_apart": {"topology_key": "zone", "preferred": True}},
            "rules[0] r, keep_apart: preferred is an option of the rule: write it beside keep_apart",
        ),
        (
            {"name": "r", **WHO, "spread": {"topolgy_key": "zone"}},
            "rules[0] r, spread: unknown option 'topolgy_key'",
        ),
        (
            {"name": "r", **WHO, "avoid": {"zone": "a"}, "prefered": True, "weight": 3},
            "rules[0] r: unknown option 'prefered'",
        ),
        (
            {
                "name": "r",
                **WHO,
                "keep_apart": {"topology_key": "zone", "pods": {"label": {"a": "b"}}},
            },
            "rules[0] r, keep_apart.pods: unknown option 'label'",
        ),
        (
            {
                "name": "r",
                "workloads": [{"kind": "VirtualMachin", "name": "a"}],
                "label": {"a": "b"},
            },
            "rules[0] r, workloads[0].kind: 'VirtualMachin' is not a kind of workload: use one of"
            " VirtualMachine, VirtualMachineInstanceReplicaSet, VirtualMachinePool, Deployment, StatefulSet; did you"
            " mean 'VirtualMachine'",
        ),
        (
            {"name": "r", "workloads": [{"names": ["a", "b", " a"]}], "label": {"a": "b"}},
            "rules[0] r, workloads[0].names: has 'a' more than once",
        ),
        (
            {"name": "r", **WHO, "terms": {"affinity": {"podAntiAffinity": _WITHOUT_KEY}}},
            "rules[0] r, terms.affinity.podAntiAffinity."
            "requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: can not be empty",
        ),
        (
            {"name": "r", **WHO, "label": {"a": "b"}, "preferred": True},
            "rules[0] r, preferred: needs a rule type: a label alone prefers nothing",
        ),
    ],
)
def test_one_mistake_is_one_fault(rule: t.Any, fault: str) -> None:
    (found,) = _faults(rule)
    assert found.startswith(fault)
    assert "?;" not in found
    assert "?." not in found


@pytest.mark.parametrize("kind", ["DaemonSe", "Po"])
def test_no_kind_is_proposed_that_would_be_refused(kind: str) -> None:
    rule = {"name": "r", "workloads": [{"kind": kind, "name": "a"}], "label": {"a": "b"}}
    (found,) = _faults(rule)
    proposed = found.partition("did you mean")[2]
    assert not [each for each in ("DaemonSet", "'Pod'") if each in proposed]


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "5", "x" * 63])
def test_a_name_is_what_a_label_value_is(name: str) -> None:
    assert _parse({"name": name, **WHO, "avoid": {"zone": "a"}})[0].id.name == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a/b", "'a/b' is not a valid name of a rule: 1 to 63 letters"),
        ("rocket \U0001f680", "'rocket \U0001f680' is not a valid name of a rule"),
        ("-a", "'-a' is not a valid name of a rule"),
        ("two words", "'two words' is not a valid name of a rule"),
        ("x" * 64, "is not a valid name of a rule"),
        (5, "must be text, not the number 5: quote it"),
        (True, "must be text, not the boolean true: quote it"),
        (1.5, "must be text, not the number 1.5: quote it"),
        ("", "must not be empty"),
    ],
)
def test_a_name_that_annotations_do_not_take(name: t.Any, fault: str) -> None:
    (found,) = _faults({"name": name, **WHO, "avoid": {"zone": "a"}})
    assert found.startswith("rules[0], name: ")
    assert fault in found


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_each_finding_that_is_documented_can_be_allowed(name: str) -> None:
    (rule,) = _parse({"name": "r", **WHO, "avoid": {"zone": "a"}, "allow_findings": [name]})
    assert rule.allow_findings == {name}


@pytest.mark.parametrize(
    ("name", "hint"),
    [("unsatisfiabel", "; did you mean 'unsatisfiable'"), ("zzz", "; docs/findings.md lists them")],
)
def test_a_finding_that_there_is_not_cannot_be_allowed(name: str, hint: str) -> None:
    rule = {"name": "r", **WHO, "avoid": {"zone": "a"}, "allow_findings": ["unsatisfiable", name]}
    (found,) = _faults(rule)
    assert found.startswith(f"rules[0] r, allow_findings: unknown finding {name!r}{hint}")


@pytest.mark.parametrize(
    "key",
    [
        "kubevirt.io",
        "kubevirt.io/created-by",
        "vm.kubevirt.io/name",
        "vmi.kubevirt.io/id",
        "pod-template-hash",
        "controller-uid",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-name",
        "topology.kubernetes.io/zone",
        "placement.virt/group-x",
    ],
)
def test_a_label_by_which_others_know_their_pods_is_refused(key: str) -> None:
    rule = {"name": "r", **WHO, "label": {key: "x"}}
    (found,) = _faults(rule)
    assert found.startswith(f"rules[0] r, label: {key!r} is a label of ")
    assert _parse(rule, absent=True)[0].label == (key, "x")


@pytest.mark.parametrize(
    "key", ["tier", "harvesterhci.io/machineSetName", "app.kubernetes.io/name", "mykubevirt.io/x"]
)
def test_other_labels_are_for_rules_to_give(key: str) -> None:
    assert _parse({"name": "r", **WHO, "label": {key: "x"}})[0].label == (key, "x")


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_NODE_TERM = f"terms.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0]"


def _node_terms(term: t.Any) -> t.Any:
    return {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [term]}}}}


@pytest.mark.parametrize(
    ("terms", "fault"),
    [
        ("x", "terms: must be a map of affinity, nodeSelector, tolerations,"),
        ({"affinty": {}}, "terms: unknown field 'affinty'; did you mean 'affinity'?"),
        ({"nodeSelector": {"a": 1}}, "terms.nodeSelector.a: must be text, not the number 1"),
        ({"tolerations": {}}, "terms.tolerations: must be a list, not a map"),
        ({"tolerations": [None]}, "terms.tolerations[0]: must be a map of key, operator,"),
        (
            {
                "affinity": {
                    "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}
                }
            },
            "terms.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a"}]},
            "terms.topologySpreadConstraints[0].maxSkew",
        ),
        ({"tolerations": []}, "terms: is empty"),
        (
            {"tolerations": [{"key": "a", "operator": "exists"}]},
            'terms.tolerations[0].operator: supported values: "Equal", "Exists", not \'exists\'',
        ),
        (
            _node_terms({"matchExpressions": [{"key": "a", "operator": "in", "values": ["b"]}]}),
            f"{_NODE_TERM}.matchExpressions[0].operator: not a valid selector operator: 'in'; use one"
            " of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (
            _node_terms({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}),
            f"{_NODE_TERM}.matchFields[0].operator: not a valid selector operator: 'Exists'; use one"
            " of In, NotIn",
        ),
    ],
)
def test_terms_are_checked_as_the_api_would(terms: t.Any, fault: str) -> None:
    found = _faults({"name": "r", **WHO, "terms": terms})
    assert any(each.startswith(f"rules[0] r, {fault}") for each in found), found


def test_numbers_inside_terms_may_be_text() -> None:
    constraint = {"maxSkew": "1", "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    (rule,) = _parse({"name": "r", **WHO, "terms": {"topologySpreadConstraints": [constraint]}})
    assert isinstance(rule.rule_type, RawTerms)
    assert rule.rule_type.fields["topologySpreadConstraints"][0]["maxSkew"] == 1


@pytest.mark.parametrize(
    ("raw", "seen"), [({"name": "x"}, "a map"), ("words", "'words'"), (None, "null")]
)
def test_rules_that_are_no_list(raw: t.Any, seen: str) -> None:
    parsed = read_rules(raw, namespace="shop", rule_set="s", topology=Topology.of())
    assert [str(fault) for fault in parsed.faults] == [
        f"rules: must be a list of rules, or the YAML or JSON text of one, not {seen}"
    ]


def test_workloads_are_a_list() -> None:
    (found,) = _faults({"name": "r", "workloads": {"name": "a"}, "avoid": {"zone": "a"}})
    assert found == (
        "rules[0] r, workloads: must be a list of names of VMs, or of maps with name, names or labels, not a map"
    )


def test_each_rule_type_is_an_option_and_documented() -> None:
    """The argument spec and the documentation of `rules`, and what `rules_info` says of a rule's type."""
    documented = yaml.safe_load(rules.DOCUMENTATION)["options"]["rules"]["suboptions"]
    assert [name for name in RULE_TYPES if name not in rules.RULE_OPTIONS] == []
    assert [name for name in RULE_TYPES if name not in documented] == []
    assert [name for name in RULE_TYPES if f"V({name})" not in rules_info.RETURN] == []
