# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""controller_setup against a stand-in for AWX, with the modules of awx.awx. No AWX can run in the tests."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from dev.commands import environment
from dev.importer import build
from tests.conftest import CHECKOUT
from tests.controller import PROJECT, Controller, Refused, refuse_rrule, refuse_survey

TOKEN = "t0ken-of-the-controller"
SECRET = "t0ken-of-the-cluster"
HOOK = "h00k-of-the-chat"
pytestmark = pytest.mark.packaged_modules

IN_PROCESS = Path(__file__).parent / "in_process"
MODULES = (
    CHECKOUT
    / "build"
    / "controller"
    / "ansible_collections"
    / "awx"
    / "awx"
    / "plugins"
    / "modules"
)
(_SETTINGS,) = re.findall(
    r"```yaml\n# settings.yml\n(.*?)```", (CHECKOUT / "docs" / "awx.md").read_text(), re.S
)
SETTINGS: dict[str, t.Any] = {
    **yaml.safe_load(_SETTINGS),
    "placement_controller_tokens": dict.fromkeys(
        ("reader", "labeler", "mover", "maintainer"), SECRET
    ),
    "placement_controller_notification_url": f"https://chat.example.com/{HOOK}",
    "placement_controller_maintenance_tasks": "/runner/project/reboot.yml",
    "placement_controller_choices_credential": "the controller",
}
MODULE_OF = {
    "controller_organizations": "organization",
    "controller_execution_environments": "execution_environment",
    "controller_credentials": "credential",
    "controller_projects": "project",
    "controller_inventories": "inventory",
    "controller_hosts": "host",
    "controller_groups": "group",
    "controller_notifications": "notification_template",
    "controller_templates": "job_template",
    "controller_workflows": "workflow_job_template",
    "controller_schedules": "schedule",
}


@pytest.fixture
def controller() -> t.Iterator[Controller]:
    with Controller(TOKEN, {path.name for path in PROJECT.iterdir()}) as controller:
        of_controller = controller.add(
            "credential_types", name="Red Hat Ansible Automation Platform"
        )
        controller.add(
            "credentials",
            name="the controller",
            organization=1,
            credential_type=of_controller["id"],
        )
        yield controller


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the collection as its archive installs it, without a network."""
    folder = tmp_path_factory.mktemp("installed")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command: list[str | Path] = [
        galaxy,
        "collection",
        "install",
        "--offline",
        "--no-deps",
        "-p",
        folder,
    ]
    done = subprocess.run(
        [*command, build(folder)],
        env=environment(ANSIBLE_COLLECTIONS_PATH=str(folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def set_up(
    folder: Path,
    url: str,
    *arguments: str,
    token: str = TOKEN,
    collections: Path | None = None,
    **settings: t.Any,
) -> tuple[int, str]:
    """Exit code and output of the playbook, of the checkout or of `collections`."""
    given = folder / "settings.yml"
    given.write_text(yaml.safe_dump({**SETTINGS, **settings}))
    command: list[str | Path] = [
        Path(sys.executable).with_name("ansible-playbook"),
        "virt.placement.controller_setup",
    ]
    env = environment(CONTROLLER_HOST=url, CONTROLLER_OAUTH_TOKEN=token, HOME=str(folder))
    if collections:
        ours, others = str(collections), env["ANSIBLE_COLLECTIONS_PATH"].split(os.pathsep)[1:]
        env["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join([ours, *others])
    done = subprocess.run(
        [*command, "-vv", "-e", f"@{given}", *arguments],
        env={**env, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_ACTION_PLUGINS": str(IN_PROCESS)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    for secret in (TOKEN, SECRET, HOOK):
        assert secret not in done.stdout + done.stderr
    return done.returncode, done.stdout + done.stderr


def refused_in_one_message(status: int, output: str) -> str:
    assert status != 0
    messages = re.findall(r'^fatal: .*"msg": ("(?:[^"\\]|\\.)*")', output, re.M)
    assert len(messages) == 1, output
    text: str = json.loads(messages[0])
    assert text.splitlines()[-1] == "Nothing was changed.", output
    return text


@pytest.mark.sweep
def test_second_run_changes_nothing(
    controller: Controller, tmp_path: Path, installed: Path
) -> None:
    """Of the archive of the collection, with nothing else of the checkout."""
    status, output = set_up(tmp_path, controller.url, collections=installed)
    assert status == 0, output
    writes = len(controller.writes)
    assert writes > 30

    for arguments in ((), ("--check",)):
        status, output = set_up(tmp_path, controller.url, *arguments, collections=installed)

        assert status == 0, output
        assert re.search(r"localhost +: ok=\d+ +changed=0 ", output), output
        assert len(controller.writes) == writes, controller.writes[writes:]
    assert_rules_are_approved(controller)
    assert_plans_are_approved(controller)


def nodes_in_order(controller: Controller, workflow: str) -> dict[str, t.Any]:
    """The nodes of a workflow by identifier. Each starts the next one."""
    number = controller.named("workflow_job_templates", workflow)["id"]
    nodes = [
        node
        for node in controller.objects["workflow_job_template_nodes"].values()
        if node["workflow_job_template"] == number
    ]
    after = [
        controller.links.get(("workflow_job_template_nodes", x["id"], "success_nodes"), [])
        for x in nodes
    ]
    assert after == [[node["id"]] for node in nodes[1:]] + [[]]
    return {node["identifier"]: node for node in nodes}


def approval_of(controller: Controller, node: dict[str, t.Any]) -> str:
    name: str = controller.objects["workflow_approval_templates"][node["approval"]]["name"]
    return name


def assert_plans_are_approved(controller: Controller) -> None:
    """The plan of a job in check mode goes through the approval to the job that carries it out."""
    for workflow, planning, approval, carrying_out in (
        ("rollout", "plan rollout", "approve the moves", "rollout"),
        ("service nodes", "plan maintenance", "approve the maintenance", "service nodes"),
    ):
        nodes = nodes_in_order(controller, f"Placement - {workflow} after approval")
        first, approve, last = nodes.values()
        assert approval_of(controller, approve) == f"Placement - {approval}"
        plan = controller.named("job_templates", f"Placement - {planning}")
        made = controller.named("job_templates", f"Placement - {carrying_out}")
        assert (plan["job_type"], made["job_type"]) == ("check", "run")
        assert first["unified_job_template"] == plan["id"]
        assert last["unified_job_template"] == made["id"]


def assert_rules_are_approved(controller: Controller) -> None:
    """What a person sees who starts the workflow: its order, credentials, questions."""
    nodes = nodes_in_order(controller, "Placement - apply after approval")
    assert list(nodes) == ["topology", "forecast", "approve", "apply", "verify"]
    assert approval_of(controller, nodes["approve"]) == "Placement - approve the forecast"
    forecast = controller.named("job_templates", "Placement - forecast")
    assert forecast["job_type"] == "check"
    assert nodes["forecast"]["unified_job_template"] == forecast["id"]
    (credential,) = controller.links["job_templates", forecast["id"], "credentials"]
    assert controller.objects["credentials"][credential]["name"] == "Placement - mover"
    assert json.loads(forecast["extra_vars"]) == {"placement_clusters": "clusters"}
    (group,) = controller.objects["groups"].values()
    assert group["name"] == "clusters"
    assert len(controller.links["groups", group["id"], "hosts"]) == 1
    assert len(controller.objects["schedules"]) == 3
    renewing = controller.named("job_templates", "Placement - renew choices")
    of_it = controller.links["job_templates", renewing["id"], "credentials"]
    names = {controller.objects["credentials"][x]["name"] for x in of_it}
    assert names == {"Placement - reader", "the controller"}


def test_check_mode_of_an_empty_controller_names_what_is_missing(
    controller: Controller, tmp_path: Path
) -> None:
    status, output = set_up(tmp_path, controller.url, "--check")

    assert status == 0, output
    assert "would create 1 inventories: Placement - clusters" in output
    assert "Placement - apply after approval" in output
    assert re.search(r"localhost +: ok=\d+ +changed=1 ", output), output
    assert controller.writes == []


@pytest.mark.parametrize(
    ("path", "token", "message"),
    [
        ("", "wrong", r"refuses CONTROLLER_OAUTH_TOKEN \(401\)"),
        ("/tower", TOKEN, r"no API of a controller at http://\S+/tower/api/v2/ \(404\)"),
    ],
)
def test_wrong_token_or_url_is_named(
    controller: Controller, tmp_path: Path, installed: Path, path: str, token: str, message: str
) -> None:
    """Of the archive of the collection, with nothing else of the checkout."""
    status, output = set_up(tmp_path, controller.url + path, token=token, collections=installed)

    assert re.search(message, refused_in_one_message(status, output))
    assert controller.writes == []


def test_template_of_another_organization_and_a_missing_credential_are_named(
    controller: Controller, tmp_path: Path
) -> None:
    lab = controller.add("organizations", name="Lab")
    controller.add("job_templates", name="Placement - apply", organization=lab["id"])

    status, output = set_up(
        tmp_path, controller.url, placement_controller_credentials=["the vault"]
    )

    text = refused_in_one_message(status, output)
    assert "unified_job_templates: 'Placement - apply' exists once in the organization Lab." in text
    assert "credentials: 'the vault' does not exist" in text
    assert "placement_controller_prefix" in text
    assert controller.writes == []


def test_each_field_is_an_option_of_its_module() -> None:
    """Also those that the playbook does not pass: other loaders do."""
    variables = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller.yml").read_text())
    of_objects = {
        "controller_execution_environments": "__placement_controller_environments",
        "controller_credentials": "__placement_controller_kubernetes",
        "controller_notifications": "__placement_controller_notifications",
        "controller_templates": "__placement_controller_templates",
        "controller_schedules": "__placement_controller_schedules",
    }
    optional = {
        "controller_templates": "__placement_controller_renewing",
        "controller_schedules": "__placement_controller_renewals",
    }
    assert {name for name in variables if name.startswith("controller_")} == set(MODULE_OF)
    for name, module in MODULE_OF.items():
        text = (MODULES / f"{module}.py").read_text()
        documentation = yaml.safe_load(re.findall(r"DOCUMENTATION = '''(.*?)'''", text, re.S)[0])
        objects = variables[of_objects.get(name, name)]
        if name in optional:
            objects = [*objects, *variables[optional[name]]]
        if isinstance(objects, str):
            continue  # hosts are what the user gives, with the inventory
        for item in objects:
            extra = {"simplified_workflow_nodes"} if name == "controller_workflows" else set()
            assert set(item) - extra <= set(documentation["options"]), (name, item["name"])


@pytest.mark.parametrize(
    "fault",
    [
        {"default": ["a"]},
        {"default": "c"},
        {"choices": []},
        {"type": "list"},
        {"required": "no"},
        {"question_name": None},
        {"min": 0.5},
        {"hint": "x"},
    ],
)
def test_stand_in_refuses_what_awx_refuses(fault: dict[str, t.Any]) -> None:
    question = {
        "question_name": "Which",
        "variable": "which",
        "required": False,
        "type": "multiselect",
        "choices": ["a", "b"],
        "default": "a\nb",
    }
    survey = {"name": "", "description": "", "spec": [question]}
    refuse_survey(survey)

    with pytest.raises(Refused):
        refuse_survey({**survey, "spec": [{**question, **fault}]})
    with pytest.raises(Refused):
        refuse_survey({**survey, "spec": [question, question]})
    with pytest.raises(Refused):
        refuse_rrule("DTSTART:20260101T030000 RRULE:FREQ=DAILY;INTERVAL=1")


def test_files_of_the_project_import_the_playbooks() -> None:
    for path in PROJECT.iterdir():
        plays = yaml.safe_load(path.read_text())
        assert (
            len(plays) == 1 or path.stem == "report"
        )  # it makes a folder, and sends what is there
        imported = [play.get("ansible.builtin.import_playbook") for play in plays]
        assert [name for name in imported if name] == [f"virt.placement.{path.stem}"]
    assert os.path.isfile(PROJECT / "apply.yml")


def test_each_file_of_the_project_is_run_by_a_test() -> None:
    tests = "".join(
        path.read_text()
        for suite in ("jobs", "integration", "modules")
        for path in (CHECKOUT / "tests" / suite).glob("test_*.py")
    )
    run = re.findall(r'\.play\(\s*str\(PROJECT / "(\w+\.yml)"\)', tests)
    assert set(run) == {path.name for path in PROJECT.iterdir()}
