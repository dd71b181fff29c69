# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surveys of AWX are those of the roles, and the roles read what these surveys deliver."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import (
    ROLES,
    read_options,
    specification,
)
from dev.surveys import (
    CHECKOUT,
    PATTERNS,
    PATTERNS_OF,
    SURVEYS,
    SURVEYS_FILE,
    pattern_files,
    survey,
    surveys_file,
)
from tests.controller import refuse_survey

QUESTIONS: dict[str, dict[str, t.Any]] = {
    f"{name}-{question['variable']}": question
    for name in SURVEYS
    for question in survey(name)["spec"]
}


def of_type(kind: str) -> list[str]:
    return [key for key, question in QUESTIONS.items() if question["type"] == kind]


PROJECT = CHECKOUT / "docs" / "examples" / "controller-project"
VARIABLES = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller.yml").read_text())
TEMPLATES = VARIABLES["__placement_controller_templates"]
RULES = "[{name: one-per-zone, workloads: [web], keep_apart: zone}]"


def read(question: dict[str, t.Any], answer: t.Any) -> tuple[t.Any, list[str]]:
    """What the role reads as the variable of the question, and what it reports."""
    variable = question["variable"]
    (role,) = (path for path in ROLES.iterdir() if variable.startswith(f"{path.name}_"))
    spec = specification(role / "meta" / "argument_specs.yml")
    options, errors = read_options({variable: answer}, {variable: spec[variable]})
    return options[variable], errors


def given(question: dict[str, t.Any]) -> dict[str, t.Any]:
    variable = question["variable"]
    (role,) = (path for path in ROLES.iterdir() if variable.startswith(f"{path.name}_"))
    return dict(specification(role / "meta" / "argument_specs.yml")[variable])


def test_surveys_are_up_to_date() -> None:
    assert SURVEYS_FILE.read_text() == surveys_file(), "run python -m dev.surveys"
    for file, text in pattern_files().items():
        assert file.read_text() == text, "run python -m dev.surveys"


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_default_in_the_form_is_that_of_the_role(question: dict[str, t.Any]) -> None:
    value = question.get("default", "")
    if question["type"] == "multiselect":  # AWX splits it into a list for the form
        value = value.splitlines()
    read_value, errors = read(question, value)

    assert errors == ([] if value or not given(question).get("required") else errors)
    assert read_value == given(question).get("default")


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_empty_answer_is_the_default_or_named(question: dict[str, t.Any]) -> None:
    value, errors = read(question, "")

    assert value == given(question).get("default")
    required = f"{question['variable']}: required, and not given."
    assert errors == ([required] if given(question).get("required") else [])


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_each_choice_is_read(question: dict[str, t.Any]) -> None:
    for choice in question.get("choices", []):
        assert read(question, [choice] if question["type"] == "multiselect" else choice)[1] == []


@pytest.mark.parametrize("key", of_type("textarea"))
def test_text_for_a_list_or_a_map(key: str) -> None:
    question = QUESTIONS[key]
    several = given(question)["type"] == "list"
    rules = question["variable"] == "placement_apply_rules"
    text = RULES if rules else "[shop, lab]" if several else "{zone: {a: [w1]}}"
    if given(question).get("elements") == "path":
        text = f"[{SURVEYS_FILE}]"  # a file that is there
    value, errors = read(question, text)
    assert errors == []
    assert value == yaml.safe_load(text)

    for wrong in ("[shop", "shop: [", "5"):
        _value, (error,) = read(question, wrong)
        assert error.startswith(f"{question['variable']}: ")
        assert "not valid YAML" in error or "must be a" in error
    _value, (error,) = read(question, "shop, lab" if several else "[shop]")
    assert "must be a" in error
    if several and not rules:
        assert error.endswith("Write it in brackets: [shop, lab].")


@pytest.mark.parametrize("key", of_type("integer"))
def test_smallest_number_is_that_of_the_role(key: str) -> None:
    question = QUESTIONS[key]
    assert read(question, question["min"])[1] == []
    assert len(read(question, question["min"] - 1)[1]) == 1
    assert len(read(question, "many")[1]) == 1


@pytest.mark.parametrize("name", PATTERNS_OF)
def test_pattern_is_complete(name: str) -> None:
    """The schema of patterns, and the rule `pattern` of ansible-lint 25 (src/ansiblelint/rules/pattern.py)."""
    folder = PATTERNS / f"placement_{name}"
    content = json.loads((folder / "meta" / "pattern.json").read_text())
    assert {path.name for path in PATTERNS.iterdir()} == {f"placement_{x}" for x in PATTERNS_OF}
    assert set(content) == {
        *("schema_version", "name", "title", "description", "short_description", "tags"),
        "aap_resources",
    }
    assert content["name"] == folder.name
    assert re.fullmatch("[a-z0-9_]{1,64}", content["name"])
    assert len(content["title"]) <= 64
    assert not content["short_description"].endswith(".")
    assert (folder / "README.md").is_file()
    assert set(content["aap_resources"]["controller_project"]) == {"name", "description"}
    (template,) = content["aap_resources"]["controller_job_templates"]
    (play,) = yaml.safe_load((folder / "playbooks" / template["playbook"]).read_text())
    assert play["ansible.builtin.import_playbook"] == f"virt.placement.{name}"
    assert {"name", "description", "playbook"} <= set(template)
    refuse_survey(template["survey"])  # a controller gets it
    for question in template["survey"]["spec"]:
        assert set(question) - {"choices", "default"} == {
            *("type", "question_name", "question_description", "variable", "required"),
        }
        assert re.fullmatch("[a-z0-9_]{1,64}", question["variable"])
        assert isinstance(question["required"], bool)
        assert isinstance(question.get("default", ""), str)
        assert isinstance(question.get("choices", []), list)


@pytest.mark.parametrize(
    "template", TEMPLATES, ids=lambda template: template["name"].split(" - ")[1]
)
def test_job_template_asks_for_what_its_role_needs(template: dict[str, t.Any]) -> None:
    (name,) = re.findall(r"placement_controller_surveys\.(\w+)", template["survey_spec"])
    role = f"placement_{Path(template['playbook']).stem}"
    spec = specification(ROLES / role / "meta" / "argument_specs.yml")
    asked = {question["variable"] for question in survey(name)["spec"]}
    always = set(template["extra_vars"]) - {"placement_clusters"}

    assert asked | always <= set(spec)
    assert not asked & always
    assert {x for x, option in spec.items() if option.get("required")} <= asked | always
    assert (PROJECT / template["playbook"]).is_file()


def test_scheduled_templates_need_no_answer() -> None:
    """AWX refuses the schedule of a template with a required question."""
    for name in ("verify", "drill"):
        assert [x["variable"] for x in survey(name)["spec"] if x["required"]] == []


def test_workflow_asks_what_its_jobs_need() -> None:
    asked = {question["variable"] for question in survey("workflow")["spec"]}
    for role in ("placement_topology", "placement_apply", "placement_verify"):
        spec = specification(ROLES / role / "meta" / "argument_specs.yml")
        assert {name for name, option in spec.items() if option.get("required")} <= asked
