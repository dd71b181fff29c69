# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be published."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

from dev.importer import undocumented
from dev.release import unset_addresses

CHECKOUT = Path(__file__).resolve().parents[2]
GALAXY = (CHECKOUT / "galaxy.yml").read_text()


def test_release_refuses_addresses_that_are_examples() -> None:
    repository = "https://git.example.com/virt/placement"
    text = f"# of example.com\nname: placement\nrepository: {repository}\nissues: {repository}/issues\n"
    assert unset_addresses(text) == [
        f"galaxy.yml has 'repository: {repository}': put the address of the public repository there",
        f"galaxy.yml has 'issues: {repository}/issues': put the address of the public repository there",
    ]
    assert unset_addresses(text.replace("git.example.com", "git.placement.virt")) == []


def test_galaxy_gets_the_repository_that_its_importer_asks_for() -> None:
    assert "\nrepository: https://" in GALAXY


def test_pages_and_documentation_name_no_version_but_the_one_of_galaxy() -> None:
    def numbers(version: str) -> list[int]:
        return [int(number) for number in version.split(".")]

    version = yaml.safe_load(GALAXY)["version"]
    guide = (CHECKOUT / "docs" / "awx.md").read_text()
    assert {*re.findall(r"virt-placement-(\d[\d.]*)\.tar\.gz", guide)} == {version}
    assert {*re.findall(r"virt\.placement\n +version: (.*)", guide)} == {version}
    documented = [
        *(CHECKOUT / "plugins").rglob("*.py"),
        *(CHECKOUT / "roles").glob("*/meta/argument_specs.yml"),
    ]
    added = {
        number
        for file in documented
        for number in re.findall(r'^ *version_added: "?([\d.]+)', file.read_text(), re.M)
    }
    assert added
    assert not [number for number in added if numbers(number) > numbers(version)]


def test_changelog_has_the_version_of_galaxy_or_fragments_for_the_next() -> None:
    changelogs = CHECKOUT / "changelogs"
    releases = yaml.safe_load((changelogs / "changelog.yaml").read_text())["releases"]
    version = yaml.safe_load(GALAXY)["version"]
    assert version in releases or list((changelogs / "fragments").glob("*.yml"))


def test_module_without_options_in_the_result_of_the_importer_is_named() -> None:
    def content(name: str, kind: str = "module", doc: t.Any = None) -> dict[str, t.Any]:
        return {"content_name": name, "content_type": kind, "doc_strings": doc}

    documented = {"doc": {"options": [{"name": "host"}]}}
    contents = [
        content("rules", doc=documented),
        content("rollout"),
        content("drill_info", doc={"doc": None}),
        content("placement_apply", "role"),
    ]
    names = ["drill_info", "lint_info", "rollout", "rules"]
    assert undocumented({"docs_blob": {"contents": contents}}, names) == [
        f"galaxy-importer: no documentation of module {name}"
        for name in ("drill_info", "lint_info", "rollout")
    ]
