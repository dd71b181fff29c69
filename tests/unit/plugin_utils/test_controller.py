# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What controller_setup refuses before it writes, one message for each fault."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.controller import (
    SETTINGS,
    connection_faults,
    controller_fault,
    existing_objects,
    kinds_of,
    missing_objects,
    name_faults,
    setting_faults,
)

CHECKOUT = Path(__file__).resolve().parents[3]
URL = "https://awx.example.com/api/v2/"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n"
RIGHT: dict[str, t.Any] = {
    "host": "https://awx.example.com",
    "token": "t0ken",
    "organization": "Default",
    "prefix": "Placement",
    "project_url": "https://git.example.com/team/placement.git",
    "clusters": [{"name": "prod", "variables": {"placement_cluster_uid": "9c1f"}}],
    "cluster_url": "https://api.example.com:6443",
    "cluster_ca_cert": CERTIFICATE,
    "tokens": dict.fromkeys(("reader", "labeler", "mover", "maintainer"), "s3cret"),
    "credentials": [],
    "verify_rrule": "DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1",
    "drill_rrule": "DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1",
    "choices_rrule": "DTSTART;TZID=UTC:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1",
    "topology_keys": {},
}

START = "DTSTART;TZID=Europe/Berlin:20260101T030000"
DAILY = "RRULE:FREQ=DAILY;INTERVAL=1"
RRULES = ("verify_rrule", "drill_rrule", "choices_rrule")
DEFAULTS = ("host", "token", "organization", "prefix", "credentials", "topology_keys", *RRULES)


def faults(**settings: t.Any) -> list[str]:
    values = {f"placement_controller_{name}": x for name, x in {**RIGHT, **settings}.items()}
    return setting_faults(values, values)


def test_each_setting_has_its_default_in_the_variables_file() -> None:
    content = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller.yml").read_text())
    prefix = "placement_controller_"
    assert [x.removeprefix(prefix) for x in content if x.startswith(prefix)] == list(SETTINGS)


def test_right_settings_have_no_fault() -> None:
    assert faults() == []
    assert faults(tokens={}, clusters=[{"name": "prod"}, {"name": "lab"}]) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"token": ""}, "CONTROLLER_OAUTH_TOKEN: not set."),
        ({"host": ""}, "CONTROLLER_HOST: not set."),
        ({"host": "awx.example.com"}, "CONTROLLER_HOST: is no URL."),
        ({"project_url": ""}, "placement_controller_project_url: required."),
        ({"prefix": "a,b"}, "placement_controller_prefix: must be a text without a comma"),
        ({"clusters": []}, "placement_controller_clusters: required"),
        ({"clusters": "prod"}, "placement_controller_clusters: must be a list of maps with a name"),
        ({"clusters": [{"name": "a"}, {"name": "a"}], "tokens": {}}, "the name 'a' is there twice"),
        ({"clusters": [{"name": "a", "vars": {}}]}, "has the unknown key 'vars'"),
        ({"clusters": [{"name": "a"}, {"name": "b"}]}, "has 2 clusters"),
        ({"tokens": {"reader": "s3cret"}}, "no token for labeler, mover, maintainer"),
        (
            {"tokens": {**RIGHT["tokens"], "moover": "s3cret"}},
            "placement_controller_tokens: 1 unknown key.",
        ),
        ({"tokens": "s3cret"}, "placement_controller_tokens: must be a map with the keys"),
        ({"cluster_ca_cert": "/etc/ca.crt"}, "placement_controller_cluster_ca_cert: required"),
        ({"cluster_url": ""}, "placement_controller_cluster_url: required"),
        ({"maintenance_tasks": "reboot.yml"}, "must be an absolute path"),
        ({"topology_keys": "rack"}, "must be a map of topology name to label key"),
        ({"clusters": [{"name": "a", "variables": "key: s3cret"}]}, "must be a map"),
        ({"cluster_url": "api.example.com:6443"}, "placement_controller_cluster_url: is no URL"),
        ({"notification_url": "chat"}, "placement_controller_notification_url: is no URL"),
        ({"verify_rrule": "RRULE:FREQ=DAILY"}, "has no DTSTART, INTERVAL="),
        ({"drill_rrule": f"DTSTART:20260101T030000 {DAILY}"}, "is no schedule that AWX takes"),
        ({"drill_rrule": f"DTSTART;TZID=UTC:03:00 {DAILY}"}, "is no schedule that AWX takes"),
        ({"drill_rrule": f"{START} RRULE:FREQ=SECONDLY;INTERVAL=1"}, "MINUTELY to YEARLY"),
        ({"image": "a", "execution_environment": "b"}, "give one of them"),
        ({"projct_url": "x"}, "Did you mean placement_controller_project_url?"),
    ],
)
def test_wrong_setting_is_named(settings: dict[str, t.Any], message: str) -> None:
    (fault,) = faults(**settings)

    assert message in fault
    assert "s3cret" not in fault


@pytest.mark.parametrize(
    "settings",
    [
        {"host": "user:s3cret@awx"},
        {"clusters": "s3cret"},
        {"clusters": [{"name": "a"}, "s3cret"]},
        {"clusters": [{"variables": {"placement_api_key": "s3cret"}}]},
        {"clusters": [{"name": "a", "variables": "s3cret"}]},
        {"tokens": {**RIGHT["tokens"], "s3cret": "mover"}},
        {"tokens": ["s3cret"]},
        {"cluster_url": "s3cret"},
        {"cluster_ca_cert": "s3cret"},
        {"notification_url": "hooks.example.com/s3cret"},
        {"credentials": "s3cret"},
        {"topology_keys": "s3cret"},
    ],
    ids=str,
)
def test_no_message_has_a_value_that_may_be_a_secret(settings: dict[str, t.Any]) -> None:
    found = faults(**settings)
    assert found
    assert "s3cret" not in " ".join(found)


@pytest.mark.parametrize(
    "answer",
    [{"status": 401}, {"status": 404}, {"status": -1, "msg": "https://me:s3cret@awx is away"}],
    ids=str,
)
def test_password_of_a_url_is_in_no_message(answer: dict[str, t.Any]) -> None:
    fault = str(controller_fault(answer, "https://me:s3cret@awx.example.com/api/v2/"))
    assert "https://awx" in fault
    assert "s3cret" not in fault


def test_objects_that_the_controller_lacks_are_named() -> None:
    def answer(key: str, *names: str) -> dict[str, t.Any]:
        return {"item": {"key": key}, "json": {"results": [{"name": name} for name in names]}}

    requested = {"inventories": ["a"], "credentials": ["b", "c", "d"], "organizations": ["e"]}
    answers = [answer("inventories", "a"), answer("credentials", "c"), answer("organizations")]
    assert missing_objects(answers, requested) == [
        "would create 2 credentials: b, d",
        "would create 1 organizations: e",
    ]


@pytest.mark.parametrize(
    "rule",
    [
        f"{START} {DAILY}",
        f"DTSTART:20260101T030000Z {DAILY}",
        f"{START}\n{DAILY};BYHOUR=3\n",
        f"{START} RRULE:INTERVAL=2;FREQ=WEEKLY;BYDAY=MO,TU {DAILY}",
    ],
)
def test_schedule_that_awx_takes_is_right(rule: str) -> None:
    assert faults(verify_rrule=rule) == []


def test_settings_in_the_guide_are_right_and_complete() -> None:
    guide = (CHECKOUT / "docs" / "awx.md").read_text()
    (block,) = re.findall(r"^```yaml\n# settings.yml\n(.*?)^```$", guide, re.M | re.S)
    given = yaml.safe_load(block)
    others = {f"placement_controller_{name}": RIGHT[name] for name in DEFAULTS}
    assert setting_faults({**others, **given}, given) == []
    assert [name for name in SETTINGS if f"| `placement_controller_{name}`" not in guide] == [
        "drill_rrule",  # in one row with verify_rrule
        "choices_rrule",
    ]


def test_template_name_that_is_given_twice_is_named() -> None:
    values = {f"placement_controller_{name}": x for name, x in RIGHT.items()}
    values["controller_templates"] = [{"name": "a"}, {"name": "b"}]
    values["controller_workflows"] = [{"name": "b"}]

    (fault,) = setting_faults(values, values)

    assert "the name 'b' is there twice" in fault


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"status": 401}, "refuses CONTROLLER_OAUTH_TOKEN (401)"),
        ({"status": 404}, "CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX=/api/controller/"),
        ({"status": -1, "msg": "Connection refused"}, f"answers at {URL}: Connection refused."),
        ({"status": 200, "content": "<html>"}, "is no controller"),
        ({"status": 200, "json": {"results": []}}, "is no controller"),
        ({"status": 502, "msg": "Bad Gateway"}, f"The server at {URL} answers: Bad Gateway. Check"),
        ({"status": 403}, f"The server at {URL} answers: status 403. Check"),
    ],
)
def test_answer_of_a_wrong_controller_is_named(answer: dict[str, t.Any], message: str) -> None:
    assert message in str(controller_fault(answer, URL))


def test_user_of_the_token_is_the_right_answer() -> None:
    assert controller_fault({"status": 200, "json": {"results": [{"id": 1}]}}, URL) is None


def found(*organizations: str | None, kinds: str = "") -> list[dict[str, t.Any]]:
    items = [
        {"name": "Placement - apply", "summary_fields": {"organization": {"name": x}} if x else {}}
        for x in organizations
    ]
    for item, kind in zip(items, kinds.split(), strict=False):
        item["type"] = kind
    return [{"item": {"key": "unified_job_templates"}, "status": 200, "json": {"results": items}}]


def test_name_must_exist_once_in_the_organization_or_not_at_all() -> None:
    assert name_faults(found(), "Default") == []
    assert name_faults(found("Default"), "Default") == []
    name = "unified_job_templates: 'Placement - apply' exists"
    (fault, advice) = name_faults(found("Lab"), "Default")
    assert fault == f"{name} once in the organization Lab."
    assert "in the organization Default, or not at all" in advice
    assert name_faults(found("Default", None), "Default")[:-1] == [
        f"{name} once in the organization Default and once in no organization."
    ]


def test_objects_of_one_name_are_told_apart_by_their_kind() -> None:
    """Job templates, workflows and projects of an organization may have the same name."""
    faults = name_faults(found("Default", "Default", kinds="job_template project"), "Default")
    assert faults[0] == (
        "unified_job_templates: 'Placement - apply' exists once in the organization Default (job template) and once in"
        " the organization Default (project)."
    )


@pytest.mark.parametrize("kind", ["project", "workflow_job_template", "inventory_source"])
def test_object_of_another_kind_that_has_the_name_of_a_template_is_named(kind: str) -> None:
    """AWX finds what a workflow launches by its name alone: beside the new template there would be two."""
    kinds = {"unified_job_templates": {"Placement - apply": "job_template"}}
    assert name_faults(found("Default", kinds="job_template"), "Default", kinds=kinds) == []
    assert name_faults(found("Default"), "Default", kinds=kinds) == []  # it names no kind
    (fault, advice) = name_faults(found("Default", kinds=kind), "Default", kinds=kinds)
    assert fault == (
        "unified_job_templates: 'Placement - apply' exists once in the organization Default"
        f" ({kind.replace('_', ' ')}), and is to be a job template."
    )
    assert "Rename or delete the others" in advice


def test_each_name_has_the_kind_of_its_variable() -> None:
    values = {
        "controller_projects": [{"name": "project"}],
        "controller_templates": [{"name": "apply"}],
        "controller_workflows": [{"name": "approved"}],
        "controller_credentials": [{"name": "mover"}],
    }
    assert kinds_of(values) == {
        "unified_job_templates": {
            "project": "project",
            "apply": "job_template",
            "approved": "workflow_job_template",
        }
    }


def test_names_that_could_not_be_read_are_the_fault() -> None:
    url = f"{URL}credentials/?page_size=200"
    answer = {"item": {"key": "credentials"}, "url": url, "status": 502, "msg": "Bad Gateway"}
    (fault,) = name_faults([*found("Lab"), answer], "Default", {"credentials": ["vault"]})
    assert fault == (
        f"The server at {URL}credentials/ answers: Bad Gateway. Check CONTROLLER_HOST, and whether the controller runs."
    )


def test_choices_need_the_connection_alone() -> None:
    values = {f"placement_controller_{name}": RIGHT[name] for name in DEFAULTS}
    assert connection_faults(values) == []
    faults = connection_faults({**values, "placement_controller_token": ""})
    assert [fault.partition(":")[0] for fault in faults] == ["CONTROLLER_OAUTH_TOKEN"]


def credentials(*organizations: str) -> list[dict[str, t.Any]]:
    items = [
        {"name": "vault", "summary_fields": {"organization": {"name": x}}} for x in organizations
    ]
    return [{"item": {"key": "credentials"}, "status": 200, "json": {"results": items}}]


def test_credential_that_must_be_there_is_named_if_it_is_not() -> None:
    settings = {"credentials": ["vault"], "choices_credential": "awx", "project_credential": ""}
    values = {f"placement_controller_{name}": x for name, x in settings.items()}
    assert existing_objects(values) == {"credentials": ["awx", "vault"]}

    vault = {"credentials": ["vault"]}
    assert name_faults(credentials("Lab"), "Default", vault) == []
    twice, _advice = name_faults(credentials("Lab", "Default"), "Default", vault)
    assert twice.startswith("credentials: 'vault' exists once in the organization Lab and once")
    (missing,) = name_faults(credentials("Default"), "Default", {"credentials": ["vault", "git"]})
    assert missing.startswith("credentials: 'git' does not exist")


def test_execution_environment_that_must_be_there_is_named_if_it_is_not() -> None:
    """It may be of no organization."""
    existing = existing_objects({"placement_controller_execution_environment": "placement"})
    assert existing == {"execution_environments": ["placement"]}

    def answers(*names: str) -> list[dict[str, t.Any]]:
        items = [{"name": name, "summary_fields": {}} for name in names]
        asked = {"item": {"key": "execution_environments"}}
        return [{**asked, "status": 200, "json": {"results": items}}]

    assert name_faults(answers("placement"), "Default", existing) == []
    (missing,) = name_faults(answers(), "Default", existing)
    assert missing.startswith("execution_environments: 'placement' does not exist")
