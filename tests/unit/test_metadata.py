# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that describe the collection agree with what is in it, and with each other."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
#: folders that ship, with the kinds of files in them; and single files
SHIPPED_FOLDERS: dict[str, set[str]] = {
    "docs": {".md", ".yml"},
    "extensions/audit": {".yml"},
    "extensions/eda": {".yml"},
    "extensions/patterns": {".json", ".md", ".yml"},
    "meta": {".txt", ".yml"},
    "playbooks": {".yml"},
    "plugins": {".j2", ".py"},
    "rbac": {".yml"},
    "roles": {".j2", ".md", ".yml"},
}
SHIPPED_FILES = {
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "changelogs/changelog.yaml",
    "requirements.txt",
}
WRITTEN_BY_THE_BUILD = {"FILES.json", "MANIFEST.json"}
STRAY = (
    "notes.txt",
    ".env",
    "kubeconfig.yml",
    "plugins/token.txt",
    "docs/.vault",
    "rbac/ca.key",
    "my/play.yml",
)
NOT_COPIED = (
    ".git",
    ".venv",
    "build",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    "__pycache__",
)


#: modules that reach no cluster: they have no options of a connection, which the action groups would set
OFFLINE = {"drs_import", "report"}


def load(name: str) -> t.Any:
    return yaml.safe_load((CHECKOUT / name).read_text())


def names_in(folder: str) -> set[str]:
    return {file.stem for file in (CHECKOUT / folder).glob("*.py")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in the archive that would be published of a checkout with stray files."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "checkout"
    shutil.copytree(CHECKOUT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED), symlinks=True)
    for name in STRAY:
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("password: secret\n")
    galaxy = Path(sys.executable).with_name("ansible-galaxy")
    command = [str(galaxy), "collection", "build", str(copy), "--output-path", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = folder.glob("virt-placement-*.tar.gz")
    with tarfile.open(archive) as content:
        return {member.name for member in content if member.isfile()}


def test_just_what_users_run_is_built(built: set[str]) -> None:
    in_folders = {
        str(file.relative_to(CHECKOUT))
        for folder, suffixes in SHIPPED_FOLDERS.items()
        for file in (CHECKOUT / folder).rglob("*")
        if file.suffix in suffixes and "__pycache__" not in file.parts
    }
    assert len(in_folders) > 200
    assert built == in_folders | SHIPPED_FILES | WRITTEN_BY_THE_BUILD


@pytest.mark.parametrize("group", ["all", "auth"])
def test_an_action_group_holds_every_module_that_reaches_a_cluster(group: str) -> None:
    members = load("meta/runtime.yml")["action_groups"][group]
    assert [name for name in members if isinstance(name, str)] == sorted(
        names_in("plugins/modules") - OFFLINE
    )


def test_the_auth_group_reaches_kubernetes_core() -> None:
    first = load("meta/runtime.yml")["action_groups"]["auth"][0]
    assert first == {"metadata": {"extend_group": ["kubernetes.core.k8s"]}}


def test_options_of_the_connection_are_documented_as_in_kubernetes_core() -> None:
    """Whatever release of it is installed here: these tests run with each that is pinned."""
    of_core = importlib.import_module(
        "ansible_collections.kubernetes.core.plugins.doc_fragments.k8s_auth_options"
    )
    ours = importlib.import_module(
        "ansible_collections.virt.placement.plugins.doc_fragments.auth_options"
    )
    texts = [yaml.safe_load(x.ModuleDocFragment.DOCUMENTATION) for x in (ours, of_core)]
    for option in texts[1]["options"].values():
        option.pop("version_added", None)  # a release of theirs
    assert texts[0] == texts[1]


@pytest.mark.parametrize("module", sorted(names_in("plugins/modules")))
def test_documentation_of_a_module_needs_no_other_collection(module: str) -> None:
    """Galaxy's importer has this collection alone, and leaves out modules whose documentation it cannot read."""
    text = (CHECKOUT / "plugins" / "modules" / f"{module}.py").read_text()
    (documentation,) = re.findall(r'^DOCUMENTATION = r"""(.*?)^"""', text, re.M | re.S)
    fragments = yaml.safe_load(documentation)["extends_documentation_fragment"]
    assert {name.rpartition(".")[0].split(".")[0] for name in fragments} == {"virt"}


def test_every_module_that_reaches_a_cluster_has_an_action_plugin_that_authenticates() -> None:
    assert names_in("plugins/action") - OFFLINE == names_in("plugins/modules") - OFFLINE


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
    pins = (CHECKOUT / "dev" / "requirements-unit-2.16.txt").read_text().split()
    assert floor.replace(">=", "==") in pins


def test_readme_starts_with_a_read_only_command_and_names_demo_and_test_once() -> None:
    blocks = re.findall(
        r"^```console\n(.*?)^```$", (CHECKOUT / "README.md").read_text(), re.M | re.S
    )
    commands = [[line.split("#")[0].strip() for line in block.splitlines()] for block in blocks]

    assert commands[0][-1] == "ansible-playbook virt.placement.verify"
    assert commands[1] == ["make demo", "make test"]


@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_targets_need_only_prepare(target: str) -> None:
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
def test_pins_are_exact_have_hashes_and_name_no_address(pins: Path) -> None:
    pin = re.compile(
        r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; [^\\\n]+)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    )
    text = pins.read_text()
    assert text
    assert pin.sub("", text) == ""


def test_installation_requires_the_hashes() -> None:
    """Each call of pip that installs or downloads what a file of pins names."""
    calls = [
        (file.name, call)
        for file in (CHECKOUT / "dev").glob("*.py")
        for call in re.findall(r'"-r",\s+(?:pins|GO_PINS)\b', file.read_text())
    ]
    assert sorted(name for name, _call in calls) == [
        "binaries.py",
        "environments.py",
        "environments.py",
    ]
    for name in ("binaries.py", "environments.py"):
        source = (CHECKOUT / "dev" / name).read_text()
        wanted = sum(name == other for other, _call in calls)
        assert source.count('"--require-hashes"') == wanted


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
    internal = [option for option in documentation.get("options", {}) if option.startswith("_")]
    assert internal == [], "ansible-doc lists it before the documented options"
