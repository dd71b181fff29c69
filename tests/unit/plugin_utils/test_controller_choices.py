# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surveys with the names of clusters as choices: what AWX takes, what the roles read, and what stays as it was."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.controller_choices import (
    CHOICES,
    LIMIT,
    ClusterNames,
    cluster_names,
    new_surveys,
    reading_faults,
    template_faults,
    with_choices,
)
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import (
    ROLES,
    read_options,
    specification,
)
from dev.surveys import SURVEYS
from dev.surveys import survey as made
from tests.controller import refuse_survey

NAMES = ClusterNames(
    nodes=("w1", "w2", "w10"),
    namespaces=("lab", "shop"),
    rule_sets=("web",),
    domains={"region": (), "zone": ("1", "b")},
)

MADE = {name: made(name) for name in SURVEYS}


def survey(name: str) -> dict[str, t.Any]:
    return copy.deepcopy(MADE[name])


def read(variable: str, answer: t.Any) -> tuple[t.Any, list[str]]:
    (role,) = (path for path in ROLES.iterdir() if variable.startswith(f"{path.name}_"))
    spec = specification(role / "meta" / "argument_specs.yml")
    options, errors = read_options({variable: answer}, {variable: spec[variable]})
    return options[variable], errors


def asked(name: str, variable: str, names: ClusterNames = NAMES) -> dict[str, t.Any]:
    (question,) = (x for x in survey(name)["spec"] if x["variable"] == variable)
    return with_choices(question, names)


def renewed(spec: dict[str, t.Any], names: ClusterNames = NAMES) -> dict[str, t.Any]:
    return {**spec, "spec": [with_choices(question, names) for question in spec["spec"]]}


@pytest.mark.parametrize("name", SURVEYS)
@pytest.mark.parametrize("names", [NAMES, ClusterNames()], ids=["names", "no names"])
def test_awx_takes_each_survey_and_its_renewal_changes_nothing(
    name: str, names: ClusterNames
) -> None:
    first = renewed(survey(name), names)
    refuse_survey(first)

    assert renewed(first, names) == first
    assert renewed(first, ClusterNames()) == renewed(survey(name), ClusterNames())


@pytest.mark.parametrize("name", SURVEYS)
def test_role_reads_each_choice(name: str) -> None:
    for question in renewed(survey(name))["spec"]:
        for choice in question.get("choices", []):
            answer = [choice] if question["type"] == "multiselect" else choice
            assert read(question["variable"], answer)[1] == [], question


def test_choices_of_each_kind() -> None:
    namespace = asked("apply", "placement_apply_namespace")
    assert (namespace["type"], namespace["choices"]) == ("multiplechoice", ["lab", "shop"])
    assert "default" not in namespace
    nodes = asked("drain", "placement_maintenance_nodes")
    assert (nodes["type"], nodes["choices"]) == ("multiselect", ["w1", "w2", "w10"])
    assert "YAML" not in nodes["question_description"]
    rule_set = asked("undo", "placement_undo_rule_set")
    assert (rule_set["choices"], rule_set["default"]) == (["default", "web"], "default")
    failing = asked("capacity", "placement_capacity_tolerate")
    assert failing["choices"] == ["node", "zone", "zone=1", "zone=b"]
    assert failing["default"] == "node"
    drilled = asked("drill", "placement_drill_domains_of")
    assert drilled["default"].splitlines() == drilled["choices"] == ["node", "zone"]


def test_domain_is_read_as_text_and_the_first_choice_as_no_answer() -> None:
    question = asked("maintenance", "placement_maintenance_topology")

    values = [read(question["variable"], choice)[0] for choice in question["choices"]]
    assert values == [{}, {"zone": "1"}, {"zone": "b"}]
    assert question["default"] == question["choices"][0]


def test_rollout_stays_a_text_for_the_rulebook() -> None:
    assert renewed(survey("rollout")) == survey("rollout")


@pytest.mark.parametrize("variable", CHOICES)
def test_too_many_names_are_a_text_again(variable: str) -> None:
    (name, *_more) = (x for x in SURVEYS for q in survey(x)["spec"] if q["variable"] == variable)
    many = tuple(f"x{number}" for number in range(LIMIT + 1))
    keys = dict.fromkeys(many, ("a",))
    names = ClusterNames(many, many, many, keys)

    (question,) = (x for x in survey(name)["spec"] if x["variable"] == variable)
    assert asked(name, variable, names) == question
    assert question["type"] in ("text", "textarea")


def test_what_was_changed_in_awx_stays() -> None:
    spec = survey("undo")
    spec["spec"].reverse()
    spec["spec"].append({**spec["spec"][0], "variable": "ticket", "type": "password"})
    spec["spec"][2]["question_name"] = "Where"

    new = renewed(spec)

    assert [x["variable"] for x in new["spec"]] == [x["variable"] for x in spec["spec"]]
    assert new["spec"][-1] == spec["spec"][-1]
    assert new["spec"][2]["question_name"] == "Where"
    password = {**spec["spec"][2], "type": "password"}
    assert with_choices(password, NAMES) == password


def test_optional_choice_without_a_default_stays_a_text() -> None:
    """The form would answer it with a name that was not chosen."""
    (question,) = (x for x in survey("undo")["spec"] if x["variable"] == "placement_undo_rule_set")
    question.pop("default")
    assert with_choices(question, NAMES) == question


def reading(**more: t.Any) -> dict[str, t.Any]:
    zones = {"a": {"nodes": ["w1"]}, "b": {"nodes": ["w2"]}}
    namespaces = ("shop", "kube-system", "openshift", "openshift-cnv", "default")
    return {
        "topology": {
            "domains": {"zone": zones, "node": {"h1": {"nodes": ["w1"]}}},
            "missing": {"zone": ["w3"]},
        },
        "rules": {"rules": [{"rule_set": "web"}], "permission_gaps": []},
        "namespaces": {"resources": [{"metadata": {"name": name}} for name in namespaces]},
        **more,
    }


def test_names_of_several_clusters_come_together() -> None:
    other = {"zone": {"c": {"nodes": ["x1"]}}, "rack": {"r1": {"nodes": ["x1"]}}}
    second = reading(topology={"domains": other, "missing": {}})

    assert cluster_names([reading(), second]) == ClusterNames(
        nodes=("w1", "w2", "w3", "x1"),
        namespaces=("default", "shop"),
        rule_sets=("web",),
        domains={"rack": ("r1",), "zone": ("a", "b", "c")},
    )


def test_unread_rules_are_named_with_their_host() -> None:
    gap = {"verb": "list", "resource": "virtualmachines", "namespace": "", "reason": "forbidden."}
    unread = reading(rules={"rules": [], "permission_gaps": [gap]})

    assert reading_faults({"prod": reading()}) == []
    assert reading_faults({"prod": unread}) == ["prod: list virtualmachines: forbidden."]


def listed(*names: str, **more: t.Any) -> dict[str, t.Any]:
    results = [{"name": name} for name in names]
    return {
        "item": "job_templates",
        "status": 200,
        "json": {"results": results, "next": None, **more},
    }


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (listed(), "has no template whose name begins with 'Placement - '. Run the playbook"),
        (listed("Placement - a", next="/api/"), "job_templates: more than 1 have names"),
        ({"item": "x", "status": 403, "url": "https://awx/api/v2/x/?name=1"}, "no right to read"),
        ({"item": "x", "status": -1, "msg": "timed out", "url": "https://awx/"}, "timed out"),
    ],
)
def test_templates_that_cannot_be_found_are_named(answer: dict[str, t.Any], message: str) -> None:
    (fault,) = template_faults([answer], "Default", "Placement")

    assert message in fault
    assert "?" not in fault


def test_only_surveys_that_change_are_written() -> None:
    answers = [
        {"item": {"type": "job_template", "name": name}, "json": spec}
        for name, spec in (("a", survey("verify")), ("b", renewed(survey("verify"))), ("c", {}))
    ]

    (changed,) = new_surveys(answers, NAMES)

    assert (changed["collection"], changed["name"]) == ("job_templates", "a")
    assert changed["changes"] == "placement_verify_namespaces: 2 choices"
    assert changed["survey_spec"] == renewed(survey("verify"))
    assert yaml.safe_load(yaml.safe_dump(changed)) == changed
