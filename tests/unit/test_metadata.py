# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that describe the collection agree with what is in it, and with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
SHIPPED = {
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MANIFEST.json",
    "README.md",
    "changelogs",
    "docs",
    "extensions",
    "meta",
    "playbooks",
    "plugins",
    "rbac",
    "requirements.txt",
    "roles",
}


def load(name: str) -> t.Any:
    return yaml.safe_load((CHECKOUT / name).read_text())


def names_in(folder: str) -> set[str]:
    return {file.stem for file in (CHECKOUT / folder).glob("*.py")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names in the tarball that would be published."""
    folder = tmp_path_factory.mktemp("built")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command: list[str | Path] = [
        galaxy,
        "collection",
        "build",
        str(CHECKOUT),
        "--output-path",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.glob("virt-placement-*.tar.gz")
    with tarfile.open(archive) as content:
        return content.getnames()


def test_only_what_users_run_is_built(built: list[str]) -> None:
    assert {name.split("/")[0] for name in built} <= SHIPPED
    assert not [name for name in built if name.startswith("extensions/molecule")]
    assert not [name for name in built if "__pycache__" in name or name.endswith(".pyc")]


def test_every_plugin_role_and_playbook_is_built(built: list[str]) -> None:
    wanted = [
        str(file.relative_to(CHECKOUT))
        for folder in ("plugins", "roles", "playbooks", "rbac", "meta")
        for file in (CHECKOUT / folder).rglob("*")
        if file.suffix in {".py", ".yml", ".txt"} and "__pycache__" not in file.parts
    ]
    assert wanted
    assert sorted(set(wanted) - set(built)) == []


@pytest.mark.parametrize("group", ["all", "auth"])
def test_an_action_group_holds_every_module(group: str) -> None:
    members = load("meta/runtime.yml")["action_groups"][group]
    assert [name for name in members if isinstance(name, str)] == sorted(
        names_in("plugins/modules")
    )


def test_the_auth_group_reaches_kubernetes_core() -> None:
    first = load("meta/runtime.yml")["action_groups"]["auth"][0]
    assert first == {"metadata": {"extend_group": ["kubernetes.core.k8s"]}}


def test_every_module_has_an_action_plugin_that_authenticates() -> None:
    assert names_in("plugins/action") == names_in("plugins/modules")


def test_galaxy_asks_for_at_least_the_oldest_tested_dependency() -> None:
    galaxy = load("galaxy.yml")
    assert (galaxy["namespace"], galaxy["name"]) == ("virt", "placement")
    assert galaxy["dependencies"] == {"kubernetes.core": ">=6.1.0"}
    assert load("meta/runtime.yml")["requires_ansible"] == ">=2.16.0"


def test_execution_environments_get_the_same_requirements() -> None:
    environment = load("meta/execution-environment.yml")["dependencies"]
    assert set(environment) == {"python", "system"}
    ours = (CHECKOUT / environment["python"]).read_text()
    assert ours == (CHECKOUT / "requirements.txt").read_text()
    assert (CHECKOUT / environment["system"]).is_file()


def test_the_oldest_client_allowed_is_the_oldest_tested() -> None:
    (floor,) = (CHECKOUT / "requirements.txt").read_text().split()
    pins = (CHECKOUT / "dev" / "requirements-unit-2.16.txt").read_text().splitlines()
    assert floor.replace(">=", "==") in pins


def test_readme_starts_with_a_read_only_command_and_names_demo_and_test_once() -> None:
    blocks = re.findall(
        r"^```console\n(.*?)^```$", (CHECKOUT / "README.md").read_text(), re.M | re.S
    )
    commands = [[line.split("#")[0].strip() for line in block.splitlines()] for block in blocks]

    assert commands[0][-1] == "ansible-playbook virt.placement.verify"
    assert commands[1] == ["make demo", "make test"]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_nothing_comes_before_the_two_commands(target: str) -> None:
    """A fresh clone has no environment yet: the command makes its own."""
    makefile = (CHECKOUT / "Makefile").read_text()
    (needs,) = re.findall(rf"^{target}:(.*?)(?:##.*)?$", makefile, re.M)
    assert needs.split() == ["prepare"]
    (recipe,) = re.findall(r"^prepare:.*\n((?:\t.*\n)+)", makefile, re.M)
    assert recipe == '\t@"$(PYTHON)" dev/prepare.py\n'


def test_nothing_is_ignored() -> None:
    ignored = [*CHECKOUT.glob("tests/sanity/ignore*"), *CHECKOUT.glob(".ansible-lint-ignore")]
    assert ignored == []


@pytest.mark.parametrize(
    "pins", sorted((CHECKOUT / "dev").glob("requirements-*.txt")), ids=lambda pins: pins.name
)
def test_pins_are_exact_and_name_no_address(pins: Path) -> None:
    lines = [line for line in pins.read_text().splitlines() if line]
    assert lines
    assert [line for line in lines if line.count("==") != 1 or "/" in line or " @ " in line] == []


@pytest.mark.parametrize("name", sorted(names_in("plugins/modules")))
def test_a_module_begins_with_what_it_does_in_at_most_two_sentences(name: str) -> None:
    source = (CHECKOUT / "plugins" / "modules" / f"{name}.py").read_text()
    match = re.search(r'DOCUMENTATION = r"""(.*?)"""', source, re.DOTALL)
    assert match is not None
    documentation = yaml.safe_load(match[1])
    sentences = re.split(r"(?<=[.])\s+", documentation["description"][0])
    assert len(sentences) <= 2
    assert all(len(sentence.split()) <= 32 for sentence in sentences)
    verb = sentences[0].split()[0]
    assert verb.endswith("s"), f"{name} does something: a verb, not {verb!r}"
