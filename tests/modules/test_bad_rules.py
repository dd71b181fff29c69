# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules with faults: the same message from each module that takes rules, and not a single write."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import forecast_info, lint_info, rules
from sandbox import Sandbox
from tests.conftest import RunModule, error_messages

from .rules_task import machine_and_deployment

JSON = t.Any
NAMESPACE = "bad-rules"
WHO: dict[str, t.Any] = {"workloads": [{"name": "web"}]}
GOOD: dict[str, t.Any] = {**WHO, "run_on": {"zone": "zone1"}}

RUN_AS = {rules: "mover", forecast_info: "reader"}
"""The others ask no server for anything."""

OF_FORM = [
    pytest.param(
        {"workloads": [{"name": "web", "namespace": "elsewhere"}], "run_on": {"zone": "a"}},
        "workloads[0].namespace: a rule is about workloads of its own namespace, bad-rules:"
        " write the ones in elsewhere in a task of theirs, or as target of from or with",
        id="foreign namespace",
    ),
    pytest.param(
        {**WHO, "run_on": {"zone": "a"}, "spread": {"topology_key": "zone"}},
        "has 2 rule types (run_on, spread): make one rule of each",
        id="two verbs",
    ),
    pytest.param(
        WHO,
        "has no rule type: give it one of run_on, avoid, keep_apart, keep_together, spread, terms,"
        " or a label",
        id="neither verb nor label",
    ),
    pytest.param(
        {"run_on": {"zone": "a"}},
        "workloads: is missing: name the workloads of the rule; an empty list means none",
        id="no workloads",
    ),
    pytest.param(
        {**GOOD, "preferred": True, "weight": 101},
        "weight: must be a whole number from 1 to 100, not 101",
        id="weight out of range",
    ),
    pytest.param(
        {**GOOD, "weight": 10},
        "weight: goes only with preferred: a required rule has no weight",
        id="weight without preferred",
    ),
    pytest.param(
        {**WHO, "spread": {"topology_key": "zone"}, "preferred": True, "weight": 5},
        "weight: does not go with spread: a spread constraint has no weight",
        id="weight of a spread",
    ),
    pytest.param(
        {**WHO, "label": {"no good": "x"}},
        "label: 'no good' is not a valid label key",
        id="label key",
    ),
    pytest.param(
        {**WHO, "label": {"tier": "a b"}},
        "label.tier: 'a b' is not a valid label value",
        id="label value",
    ),
    pytest.param(
        {**WHO, "label": {"kubevirt.io/created-by": "x"}},
        "label: 'kubevirt.io/created-by' is a label of KubeVirt and Kubernetes",
        id="label of KubeVirt",
    ),
    pytest.param(
        {**GOOD, "allow_findings": ["unsatisfiabl"]},
        "allow_findings: unknown finding 'unsatisfiabl'; did you mean 'unsatisfiable'",
        id="unknown finding",
    ),
    pytest.param(
        {"workloads": {"name": "web"}, "run_on": {"zone": "zone1"}},
        "workloads: must be a list of names of VMs, or of maps with name, names or labels, not a map",
        id="workloads are no list",
    ),
    pytest.param(
        {**WHO, "label": {"a": "1", "b": "2"}},
        "label: takes one key with its value, not 2",
        id="two labels",
    ),
    pytest.param(
        {**WHO, "keep_apart": {"topology_key": "zon"}},
        "keep_apart.topology_key: topology key 'zon' is not declared: add it to topology_keys or write"
        " the full label key with its prefix; did you mean zone?",
        id="undeclared bare key",
    ),
    pytest.param(
        {"workloads": [{"labels": {}}], "run_on": {"zone": "a"}},
        "workloads[0].labels: is empty: name at least one label, since an empty selector matches every pod",
        id="empty selector",
    ),
    pytest.param({**WHO, "run_on": {}}, "run_on: is empty", id="nothing to run on"),
    pytest.param({**WHO, "run_on": {"zone": []}}, "run_on.zone: is an empty list", id="no value"),
    pytest.param({**WHO, "run_on": {"zone": ""}}, "run_on.zone: must not be empty", id="empty"),
    pytest.param(
        {**WHO, "run_on": {"zone": True}},
        "run_on.zone: must be text, not the boolean true: quote it",
        id="boolean for text",
    ),
    pytest.param(
        {**WHO, "run_on": {"zone": 1.5}},
        "run_on.zone: must be text, not the number 1.5: quote it",
        id="float for text",
    ),
    pytest.param(
        {"workloads": [{"kind": "Pod", "name": "x"}], "run_on": {"zone": "a"}},
        "workloads[0].kind: a rule cannot be written to a Pod",
        id="kind without template",
    ),
    pytest.param(
        {"workloads": [{"kind": "DaemonSet", "name": "x"}], "run_on": {"zone": "a"}},
        "workloads[0].kind: rules cannot be written to a DaemonSet",
        id="kind that is only read",
    ),
    pytest.param(
        {"workloads": [{"kind": "VirtualMachin", "name": "x"}], "run_on": {"zone": "a"}},
        "workloads[0].kind: 'VirtualMachin' is not a kind of workload: use one of VirtualMachine,"
        " VirtualMachineInstanceReplicaSet, VirtualMachinePool, Deployment, StatefulSet; did you mean"
        " 'VirtualMachine' or 'VirtualMachinePool'?",
        id="misspelt kind",
    ),
    pytest.param(
        {"workloads": [{"name": "a", "labels": {"x": "y"}}], "run_on": {"zone": "a"}},
        "workloads[0]: must name workloads by one of name, names or labels, and has name and"
        " labels",
        id="two ways to name",
    ),
    pytest.param(
        {**WHO, "keep_apart": {"topolgy_key": "zone"}},
        "keep_apart: unknown option 'topolgy_key'; did you mean 'topology_key'?",
        id="unknown suboption",
    ),
    pytest.param(
        {**WHO, "keep_togehter": {"topology_key": "zone"}},
        "unknown option 'keep_togehter'; did you mean 'keep_together'",
        id="unknown option",
    ),
    pytest.param(
        {**WHO, "spread": {"topology_key": "zone", "max_skew": 0}},
        "spread.max_skew: must be a whole number of at least 1, not 0",
        id="max_skew",
    ),
    pytest.param(
        {**WHO, "keep_together": {"topology_key": "zone", "with": {"name": "a"}, "pods": {}}},
        "keep_together: takes with or pods, not both",
        id="two targets",
    ),
    pytest.param(
        {**WHO, "terms": {"affinity": {"podAffinty": {}}}},
        "terms.affinity: unknown field 'podAffinty'; did you mean 'podAffinity'",
        id="unknown field of a term",
    ),
    pytest.param(
        {**WHO, "terms": {"tolerations": [{"operator": "exists"}]}},
        "terms.tolerations[0].operator: supported values:",
        id="term that the API refuses",
    ),
    pytest.param({**WHO, "terms": {}}, "terms: is empty", id="no terms"),
    pytest.param(
        {**GOOD, "preferred": "perhaps"},
        "preferred: must be true or false, not 'perhaps'",
        id="no boolean",
    ),
]
OF_THE_CLUSTER = [
    pytest.param(
        {"workloads": [{"name": "wep"}], "run_on": {"zone": "a"}},
        "workloads[0]: there is no VirtualMachine 'wep' in namespace 'bad-rules'; did you mean"
        " 'web'?",
        id="unknown workload",
    ),
    pytest.param(
        {"workloads": [{"name": "cache"}], "run_on": {"zone": "a"}},
        "workloads[0]: there is no VirtualMachine 'cache' in namespace 'bad-rules'; there is a"
        " Deployment of that name, set kind",
        id="wrong kind",
    ),
    pytest.param(
        {**WHO, "keep_apart": {"topology_key": "zone", "from": {"name": "x", "namespace": "no"}}},
        "keep_apart.from: there is no namespace 'no'",
        id="unknown namespace of a target",
    ),
]


class Refused(t.Protocol):
    """How the fixture refused is called."""

    def __call__(self, module: types.ModuleType, *listed: JSON, **options: JSON) -> dict[str, JSON]:
        """The result of a module that refuses these rules and writes nothing."""


@pytest.fixture(scope="module")
def shop(six: Sandbox) -> t.Iterator[Sandbox]:
    """A namespace with one machine and one Deployment, which no test here may change."""
    with machine_and_deployment(six, NAMESPACE):
        yield six


@pytest.fixture
def refused(shop: Sandbox, run_module: RunModule) -> Refused:
    def run(module: types.ModuleType, *listed: JSON, **options: JSON) -> dict[str, JSON]:
        start = shop.audit.mark()
        params: dict[str, JSON] = {"namespace": NAMESPACE, "rules": list(listed), **options}
        if module in RUN_AS:
            params["kubeconfig"] = str(shop.kubeconfig(RUN_AS[module]))
        result = run_module(module.main, params)
        assert result["failed"]
        assert not result["changed"]
        assert not shop.audit.writes(since=start)
        assert all(fault in result["msg"] for fault in error_messages(result))
        return result

    return run


def of(*modules: types.ModuleType) -> pytest.MarkDecorator:
    names = [module.__name__.rpartition(".")[2] for module in modules]
    return pytest.mark.parametrize("module", modules, ids=names)


@of(rules, forecast_info, lint_info)
@pytest.mark.parametrize(("rule", "fault"), OF_FORM)
def test_a_fault_is_named_with_its_rule_and_index(
    refused: Refused, module: types.ModuleType, rule: dict[str, t.Any], fault: str
) -> None:
    _is_named(fault, refused(module, {"name": "good", **GOOD}, {"name": "bad", **rule}))


@of(rules, forecast_info)
@pytest.mark.parametrize(("rule", "fault"), OF_THE_CLUSTER)
def test_missing_workloads_and_labels_are_reported_with_the_other_errors(
    refused: Refused, module: types.ModuleType, rule: dict[str, t.Any], fault: str
) -> None:
    _is_named(fault, refused(module, {"name": "good", **GOOD}, {"name": "bad", **rule}))


def _is_named(fault: str, result: dict[str, t.Any]) -> None:
    found = [each for each in error_messages(result) if fault in each]
    assert found, error_messages(result)
    assert found[0].startswith("rules[1] bad")


@of(rules, forecast_info, lint_info)
def test_all_faults_of_all_rules_are_in_one_message(
    refused: Refused, module: types.ModuleType
) -> None:
    result = refused(
        module,
        {"name": "a", **GOOD},
        {"name": "a", "workloads": [{"name": "nobody"}], "run_on": {"zne": "x"}},
        {"workloads": [{"names": ["web", "wob"]}], "spread": {"topology_key": "zone"}},
        {"name": "late", "workloads": [{"name": "gone"}], "label": {"k": "v"}},
        "text",
    )
    of_the_cluster = ["rules[3] late, workloads[0]: there is no VirtualMachine 'gone'"]
    for part in (
        "rules[1] a: has the same name as rules[0]",
        "rules[1] a, run_on.zne: topology key 'zne' is not declared",
        "rules[2]: needs a name",
        *(of_the_cluster if module in RUN_AS else []),
        "rules[4]: must be a map of name, workloads,",
    ):
        assert part in result["msg"], part
    expected = 7 if module in RUN_AS else 4
    assert result["msg"].startswith(f"{expected} errors:\n- ")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"namespace": ""}, "namespace: must be a name without a slash, not ''"),
        (
            {"rule_set": ""},
            "rule_set: '' is not a valid name of a rule set: 1 to 63 letters (a-z, A-Z), digits, '-', '_' and '.',"
            " beginning and ending with a letter or digit",
        ),
        ({"rules": "[{"}, "rules: is not valid YAML"),
        ({"rules": "just words"}, "the YAML or JSON text of one, not 'just words'"),
        ({"topology_keys": {"rack": "no key"}}, "topology_keys.rack: must be a label key, not"),
    ],
    ids=["namespace", "rule_set", "no YAML", "no list", "topology"],
)
@of(rules, forecast_info, lint_info)
def test_the_options_beside_the_rules_are_checked(
    refused: Refused, module: types.ModuleType, options: dict[str, t.Any], fault: str
) -> None:
    (only,) = error_messages(refused(module, {"name": "a", **GOOD}, **options))
    assert fault in only
