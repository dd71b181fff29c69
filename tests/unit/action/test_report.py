# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin report, in a play: what it writes, what it refuses, and what check mode says."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from tests.unit.action.plays import RunPlaybook, Task, played
from tests.unit.report.pages import parsed
from tests.unit.report.results import move, rollout_of, shop_drill, shop_placement

MODULE = Path(__file__).resolve().parents[3] / "plugins" / "modules" / "report.py"


def report(name: str, **options: t.Any) -> Task:
    task: Task = {
        "name": name,
        "virt.placement.report": {"placement": "{{ placement }}", **options},
        "register": name,
        "failed_when": False,
    }
    if name == "checked":
        task["check_mode"] = True
    return task


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def results(folder: Path, warm_playbook: RunPlaybook) -> dict[str, dict[str, t.Any]]:
    """What each task of one play returned."""
    data = {
        "placement": shop_placement(),
        "drill": shop_drill(),
        "rollout": rollout_of(move("web-3", "n4", "n5")),
        "damaged": {"cluster": {"api": "", "uid": ""}, "moves": [{"name": "web-3"}]},
        "skipped_task": {"changed": False, "skipped": True, "skip_reason": "Conditional result"},
    }
    (folder / "data.json").write_text(json.dumps(data))
    every = {name: f"{folder}/out.{suffix}" for name, suffix in SUFFIXES.items()}
    tasks = [
        report("checked", **{name: f"{folder}/checked.{x}" for name, x in SUFFIXES.items()}),
        report("written", **every, drill="{{ drill }}", rollout="{{ rollout }}", fail_on=[]),
        report("unwritable", html=f"{folder}/no/page.html", junit=f"{folder}/other.xml"),
        report("damaged_rollout", html=f"{folder}/damaged.html", rollout="{{ damaged }}"),
        report("skipped_drill", html=f"{folder}/skipped.html", drill="{{ skipped_task }}"),
        report("relative", html="page.html", prometheus=f"{folder}/out.txt"),
        report("no_path"),
        report("unknown_value", html=f"{folder}/x.html", fail_on=["violatd"]),
    ]
    names = [str(task["name"]) for task in tasks]
    outcomes = "{{ " + "{" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    done = played(
        folder,
        [
            {"ansible.builtin.include_vars": f"{folder}/data.json"},
            *tasks,
            {"ansible.builtin.copy": {"content": outcomes, "dest": f"{folder}/results.json"}},
        ],
        "-v",
        warm_playbook,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return t.cast("dict[str, dict[str, t.Any]]", json.loads((folder / "results.json").read_text()))


SUFFIXES = {"html": "html", "markdown": "md", "junit": "xml", "prometheus": "prom"}


def test_each_format_is_written(folder: Path, results: dict[str, dict[str, t.Any]]) -> None:
    result = results["written"]

    assert result["changed"]
    assert [(x["format"], x["changed"]) for x in result["files"]] == [
        (name, True) for name in SUFFIXES
    ]
    page = parsed((folder / "out.html").read_text())
    assert page.all("p", "answer")[0].text == result["answer"]
    assert (
        "cluster-of" not in page.text
        and "Placement of api.prod.example.com: 2 of 20 VMs" in page.text
    )
    assert {x.attributes.get("id") for x in page.all("h2")} >= {"drill", "moves"}
    assert 'failures="0"' in (folder / "out.xml").read_text()
    assert (folder / "out.md").read_text().startswith("# Placement of ")
    assert (folder / "out.prom").read_text().startswith("# HELP virt_placement_")


def test_check_mode_writes_nothing_and_names_the_files(
    folder: Path, results: dict[str, dict[str, t.Any]]
) -> None:
    assert results["checked"]["changed"]
    assert [x["path"] for x in results["checked"]["files"]] == [
        f"{folder}/checked.{suffix}" for suffix in SUFFIXES.values()
    ]
    assert list(folder.glob("checked.*")) == []


def test_other_files_are_written_where_a_path_cannot(
    folder: Path, results: dict[str, dict[str, t.Any]]
) -> None:
    result = results["unwritable"]

    assert result["msg"] == (
        f"html: cannot write {folder}/no/page.html: there is no folder {folder}/no. Name a path that the user who runs"
        " ansible-playbook may write."
    )
    assert [x["format"] for x in result["files"]] == ["junit"]
    assert (folder / "other.xml").is_file()
    assert result["answer"].startswith("2 of 20 VMs violate a required rule")


def test_damaged_result_is_one_message_and_no_file(
    folder: Path, results: dict[str, dict[str, t.Any]]
) -> None:
    result = results["damaged_rollout"]

    assert result["msg"] == (
        "rollout.moves[0] has no kind; hand over the result of virt.placement.rollout, or leave it out. No report was"
        " written."
    )
    assert result["answer"].startswith("2 of 20 VMs violate a required rule")
    assert not (folder / "damaged.html").exists()


def test_skipped_drill_is_none(folder: Path, results: dict[str, dict[str, t.Any]]) -> None:
    assert "msg" not in results["skipped_drill"]
    page = parsed((folder / "skipped.html").read_text())
    assert {x.attributes.get("id") for x in page.all("h2")} & {"drill", "moves"} == set()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "relative",
            ["html: must be an absolute path, but is 'page.html'.", "/out.txt must end in .prom"],
        ),
        ("no_path", ["one of the following is required: html, markdown, junit, prometheus"]),
        ("unknown_value", ["fail_on", "violatd", "preference_not_met"]),
    ],
)
def test_wrong_options_are_refused_before_a_file_is_written(
    results: dict[str, dict[str, t.Any]], name: str, texts: list[str]
) -> None:
    assert [text for text in texts if text not in results[name]["msg"]] == []
    assert not results[name].get("files")


def test_options_are_documented() -> None:
    (text,) = re.findall(r'^DOCUMENTATION = r"""(.*?)^"""', MODULE.read_text(), re.M | re.S)
    documented = yaml.safe_load(text)["options"]
    code = (MODULE.parents[1] / "action" / "report.py").read_text()

    assert set(re.findall(r'^    "(\w+)": \{"type"', code, re.M)) | {*SUFFIXES, "fail_on"} == set(
        documented
    )
    assert documented["fail_on"]["default"] == documented["fail_on"]["choices"][:5]
    assert re.findall(r'^    "(\w+)",$', code, re.M) == documented["fail_on"]["choices"]
