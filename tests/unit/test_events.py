# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alert rules use metrics that exist, and the rulebook launches job templates that exist, with their answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.report.metrics import metrics
from dev.surveys import survey
from tests.unit.report.results import shop_content

CHECKOUT = Path(__file__).resolve().parents[2]
RULEBOOK = CHECKOUT / "extensions" / "eda" / "rulebooks" / "repair.yml"
GUIDE = CHECKOUT / "docs" / "events.md"
PROMTOOL = shutil.which("promtool")

#: metrics of others, with the release in which they were looked up
KUBEVIRT = {  # docs/observability/metrics.md of KubeVirt 1.4.0 and 1.8.4
    "kubevirt_vmi_migrations_in_pending_phase",
    "kubevirt_vmi_migrations_in_scheduling_phase",
    "kubevirt_vmi_non_evictable",
}
KUBE_STATE_METRICS = {"kube_node_status_condition"}  # docs/metrics/cluster/node-metrics.md of 2.13


#: metric of the report -> its labels, as far as a small cluster has samples
METRICS = {
    name: {"cluster", *(label for labels, _value in samples for label in labels)}
    for name, _help, samples in metrics(shop_content())
}


def alerts() -> dict[str, dict[str, t.Any]]:
    content = yaml.safe_load((CHECKOUT / "docs" / "examples" / "alerts.yml").read_text())
    rules = [rule for group in content["groups"] for rule in group["rules"]]
    named = {rule["alert"]: rule for rule in rules}
    assert len(named) == len(rules)
    return named


def ruleset() -> dict[str, t.Any]:
    (content,) = yaml.safe_load(RULEBOOK.read_text())
    return t.cast("dict[str, t.Any]", content)


def templates() -> dict[str, dict[str, t.Any]]:
    """Job templates of controller_setup, by the name after the prefix."""
    content = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller.yml").read_text())
    return {
        entry["name"].split(" - ")[1]: entry
        for entry in content["__placement_controller_templates"]
    }


@pytest.mark.parametrize("alert", alerts().values(), ids=alerts())
def test_alert_uses_metrics_that_exist(alert: dict[str, t.Any]) -> None:
    used = set(re.findall(r"\b(?:virt_placement|kubevirt|kube)_\w+", alert["expr"]))
    assert used
    assert used <= {f"virt_placement_{name}" for name in METRICS} | KUBEVIRT | KUBE_STATE_METRICS
    assert set(alert) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert set(alert["labels"]) == {"severity"}
    assert set(alert["annotations"]) == {"summary", "description"}


@pytest.mark.parametrize("alert", alerts().values(), ids=alerts())
def test_alert_names_only_verdicts_and_labels_that_exist(alert: dict[str, t.Any]) -> None:
    for name, text in re.findall(r"virt_placement_(\w+)\{([^}]*)\}", alert["expr"]):
        assert set(re.findall(r"(\w+)=", text)) <= METRICS[name]
    assert set(re.findall(r'verdict="(\w+)"', alert["expr"])) <= {"violated", "pending"}


@pytest.mark.parametrize("alert", alerts())
def test_alert_is_explained(alert: str) -> None:
    assert f"| `{alert}` |" in GUIDE.read_text()


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not here: it is in Debian's prometheus")
@pytest.mark.parametrize(
    "arguments",
    [("check", "docs/examples/alerts.yml"), ("test", "tests/unit/alerts.test.yml")],
    ids=["check", "test"],
)
def test_prometheus_takes_the_rules_and_fires_the_alerts(arguments: tuple[str, str]) -> None:
    """The second file has series of metrics, and the alerts that fire. All passed with 2.42."""
    command, file = arguments
    done = subprocess.run(
        [str(PROMTOOL), command, "rules", CHECKOUT / file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_played_to_prometheus() -> None:
    content = yaml.safe_load((CHECKOUT / "tests" / "unit" / "alerts.test.yml").read_text())
    played = [case["alertname"] for x in content["tests"] for case in x["alert_rule_test"]]
    assert set(played) == set(alerts())


def test_webhook_wants_a_token_and_listens_on_loopback() -> None:
    (source,) = ruleset()["sources"]
    assert source["eda.builtin.webhook"]["token"] == "{{ placement_webhook_token }}"
    assert (
        source["eda.builtin.webhook"]["host"]
        == "{{ placement_webhook_host | default('127.0.0.1') }}"
    )
    assert source["filters"] == [{"eda.builtin.event_splitter": {"splitter_key": "payload.alerts"}}]


@pytest.mark.parametrize("rule", ruleset()["rules"], ids=["violated", "node-back"])
def test_rule_launches_a_template_with_answers_of_its_survey(rule: dict[str, t.Any]) -> None:
    assert set(re.findall(r'alertname == "(\w+)"', rule["condition"])) <= set(alerts())
    assert rule["throttle"]["group_by_attributes"][0] == "event.labels.cluster"

    (launched,) = rule["action"].values()
    name = launched["name"].removeprefix("{{ placement_prefix | default('Placement') }} - ")
    template = templates()[name]
    (of,) = re.findall(r"placement_controller_surveys\.(\w+)", template["survey_spec"])
    questions = {question["variable"]: question for question in survey(of)["spec"]}
    answers = launched["job_args"]["extra_vars"]
    required = {variable for variable, question in questions.items() if question["required"]}
    assert required <= set(answers) <= set(questions)
    for variable, answer in answers.items():
        assert isinstance(answer, str)  # AWX refuses a list for a text area
        assert answer in questions[variable].get("choices", [answer])
    assert template["ask_limit_on_launch"] is True


HOSTILE = (
    "all",
    "ungrouped",
    "a,b",
    "*",
    "!a",
    "~.*",
    "",
    "a b",
    "{{ x }}",
    "a\nb",
    "[a]",
    "&a",
    "a:b",
)


@pytest.mark.parametrize("rule", ruleset()["rules"], ids=["violated", "node-back"])
def test_labels_of_alerts_are_checked_before_a_job(rule: dict[str, t.Any]) -> None:
    """tests/jobs/test_rulebook.py sends such alerts to ansible-rulebook, whose expressions are those of Java."""
    used = set(re.findall(r"event\.labels\.(\w+)", str(rule["action"])))
    expressions = dict(re.findall(r'event\.labels\.(\w+) is regex\("(.*?)"\)', rule["condition"]))
    assert set(expressions) == used
    excluded = dict(re.findall(r"event\.labels\.(\w+) not in (\[.*?\])", rule["condition"]))
    for label, expression in expressions.items():
        passing = [x for x in HOSTILE if re.search(expression, x)]
        assert passing == (["all", "ungrouped"] if passing else [])
        assert not passing or label == "namespace" or json.loads(excluded[label]) == passing
        assert re.search(expression, "prod-1")


def test_text_with_a_list_is_no_list_for_the_rulebook() -> None:
    """ansible-rulebook turns text that is a Python literal, such as `['shop']`, into a value, which AWX refuses."""
    for rule in ruleset()["rules"]:
        text = rule["action"]["run_job_template"]["job_args"]["extra_vars"]
        assert text["placement_rollout_namespaces"].startswith("[{{ ")


def test_variables_of_the_rulebook_are_documented() -> None:
    used = set(re.findall(r"\b(placement_\w+)(?= \||(?: \}\}))", RULEBOOK.read_text()))
    documented = set(re.findall(r"^\| `(placement_\w+)` \|", GUIDE.read_text(), re.M))
    assert used == documented


def test_rulebook_fits_its_schema() -> None:
    """That of ansible-rulebook, which ansible-lint has."""
    lint = pytest.importorskip("ansiblelint", reason="not in the environments of unit tests")
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(lint.__file__).parent / "schemas" / "rulebook.json").read_text())
    jsonschema.validate(yaml.safe_load(RULEBOOK.read_text()), schema)
