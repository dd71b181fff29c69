# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks in docs/examples and the first example of each module, as they stand there, on the
cluster that `make sandbox-up` starts."""

from __future__ import annotations

import ast
import json
import pathlib
import re
import typing as t

import pytest
import yaml

from demos.stage import PlayResult, Stage
from sandbox import Sandbox
from tests.conftest import CHECKOUT

EXAMPLES = CHECKOUT / "docs" / "examples"
ZONE = "topology.kubernetes.io/zone"
FAST = ("kni-worker2", "kni-worker4", "kni-worker6")
ALWAYS = {"maintenance_window": {"start": "00:00", "end": "23:59", "timezone": "UTC"}}
JOBS = (
    "label_three_zones.yml",
    "keep_three_vms_apart.yml",
    "pin_to_fast_nodes.yml",
    "keep_app_with_database.yml",
    "nightly_verify.yml",
    "rollout_in_a_window.yml",
)
ROLE_OF = {
    "node_labels": "labeler",
    "node_maintenance": "maintainer",
    "rollout": "mover",
    "rules": "mover",
}
"""The identity with the rights that a module needs beside those of the reader."""

DISRUPTIVE = ("node_maintenance", "rollout")
"""Modules whose first example runs in check mode here."""
FIRST = ("node_labels", "rules")
"""Modules whose first example others build on."""
MODEL = {"cpu-model.node.kubevirt.io/Broadwell-noTSX": "true"}
"""The CPU model that an example sets."""
NO_PLAYBOOK = {"alerts.yml"}
"""Rules for Prometheus (tests/unit/test_events.py)."""
ELSEWHERE = {"capi_hosts_info"}
"""Reads a management cluster of Cluster API; the demo tkg has one."""


@pytest.fixture
def stage() -> t.Iterator[Stage]:
    """A cluster with the VMs of the shop."""
    with Sandbox.start("article") as sandbox:
        stage = Stage(sandbox, "shop", quiet=True)
        create_shop(stage)
        yield stage


def create_shop(stage: Stage) -> None:
    play(stage, "create.yml", identity="admin")  # kubernetes.core alone


def play(
    stage: Stage, name: str, identity: str = "labeler-mover", *, check: bool = False
) -> PlayResult:
    variables = ALWAYS if name == "rollout_in_a_window.yml" else {}
    result = stage.play(str(EXAMPLES / name), variables, identity=identity, check=check)
    assert result.rc == 0, result.stdout
    return result


def play_changes_nothing(stage: Stage, name: str) -> None:
    mark = stage.sandbox.audit.mark()
    again = play(stage, name)
    assert again.changed == 0, again.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


def test_readme_play_places_the_shop_and_a_second_run_writes_nothing(stage: Stage) -> None:
    uids = {name: vmi["metadata"]["uid"] for name, vmi in vmis(stage).items()}
    mark = stage.sandbox.audit.mark()
    check = play(stage, "place.yml", check=True)
    forecast = re.search(r"Forecast: (guaranteed|possible)\. Moves: (\d+)\.", check.stdout)
    assert forecast, check.stdout
    assert check.stdout.count("would migrate VirtualMachine shop/") == int(forecast[2])
    assert stage.sandbox.audit.writes(since=mark) == []

    play(stage, "place.yml")

    assert_shop_is_placed(stage)
    assert {name: vmi["metadata"]["uid"] for name, vmi in vmis(stage).items()} == uids
    play_changes_nothing(stage, "place.yml")


def test_each_job_works_and_its_second_run_writes_nothing(stage: Stage) -> None:
    for name in JOBS:
        play(stage, name)
        play_changes_nothing(stage, name)

    assert_shop_is_placed(stage)
    assert_vms_are_grouped(stage)


@pytest.mark.packaged_modules
def test_first_example_of_each_module_runs_unchanged(stage: Stage, tmp_path: pathlib.Path) -> None:
    modules = {path.stem: path for path in (CHECKOUT / "plugins" / "modules").glob("*.py")}
    for node in stage.sandbox.api.list("/api/v1/nodes"):
        labels = {"metadata": {"labels": MODEL}}
        stage.sandbox.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", labels)
    for name in (*FIRST, *sorted(set(modules) - set(FIRST) - ELSEWHERE)):
        tasks = examples(modules[name])[: 2 if name == "report" else 1]
        if name == "report":
            tasks = json.loads(
                json.dumps(tasks)
                .replace("/srv/www", str(tmp_path))
                .replace("/srv/ci", str(tmp_path))
            )
        assert f"virt.placement.{name}" in tasks[-1]
        interpreter = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        play = {"hosts": "localhost", "gather_facts": False, "vars": interpreter, "tasks": tasks}
        playbook = tmp_path / f"{name}.yml"
        playbook.write_text(yaml.safe_dump([play], sort_keys=False))

        identity = ROLE_OF.get(name, "reader")
        result = stage.play(str(playbook), {}, identity=identity, check=name in DISRUPTIVE)

        assert result.rc == 0, (name, result.stdout)


def examples(module: pathlib.Path) -> list[dict[str, t.Any]]:
    """The tasks of the module's EXAMPLES. A report begins with a reading by another module."""
    (text,) = (
        ast.literal_eval(statement.value)
        for statement in ast.parse(module.read_text()).body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and statement.targets[0].id == "EXAMPLES"
    )
    tasks: list[dict[str, t.Any]] = yaml.safe_load(text)
    return tasks


def assert_shop_is_placed(stage: Stage) -> None:
    node = {name: vmi["status"]["nodeName"] for name, vmi in vmis(stage).items()}
    assert node["db"] in FAST
    assert node["app"] == node["db"]
    zones = {
        stage.sandbox.api.get(f"/api/v1/nodes/{node[f'web-{n}']}")["metadata"]["labels"][ZONE]
        for n in (1, 2, 3)
    }
    assert zones == {"scu", "bcn", "sab"}


def assert_vms_are_grouped(stage: Stage) -> None:
    """group_vms.yml names the VMs of one zone in its last play, and writes nothing."""
    mark = stage.sandbox.audit.mark()
    grouped = play(stage, "group_vms.yml", identity="reader")
    assert grouped.changed == 0
    assert stage.sandbox.audit.writes(since=mark) == []
    named = re.findall(r"(shop-[\w-]+) is \w+ on (kni-worker\d?)", grouped.stdout)
    zones = {
        name: stage.sandbox.api.get(f"/api/v1/nodes/{vmi['status']['nodeName']}")["metadata"][
            "labels"
        ][ZONE]
        for name, vmi in vmis(stage).items()
    }
    assert {name for name, _node in named} == {
        f"shop-{x}" for x, zone in zones.items() if zone == "scu"
    }


def vmis(stage: Stage) -> dict[str, t.Any]:
    path = stage.sandbox.api.path("VirtualMachineInstance", "shop")
    return {vmi["metadata"]["name"]: vmi for vmi in stage.sandbox.api.list(path)}


def test_readme_shows_the_example_as_it_is() -> None:
    readme = (CHECKOUT / "README.md").read_text()
    example = (EXAMPLES / "place.yml").read_text().removeprefix("---\n")
    assert f"```yaml\n{example}```" in readme


def test_each_example_is_a_job_or_prepares_one() -> None:
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - NO_PLAYBOOK
    assert files == {*JOBS, "create.yml", "place.yml", "group_vms.yml"}
