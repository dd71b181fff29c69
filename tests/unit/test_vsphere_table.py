# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables for people who know vSphere, in docs/from-vsphere.md, name what there is."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.conftest import CHECKOUT

MODULES = ("capacity_info", "cpu_info", "drs_import", "node_maintenance")
RULE_TYPES = ("keep_apart", "keep_together", "run_on", "avoid")
PAGE = (CHECKOUT / "docs" / "from-vsphere.md").read_text()


def rows(text: str) -> list[str]:
    """The rows of all tables whose first column is vSphere."""
    found: list[str] = []
    for table in re.findall(r"^\| vSphere \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.M):
        found += table.splitlines()
    return found


TABLE = rows(PAGE)


def words(row: str) -> set[str]:
    """What is printed as code."""
    return set(re.findall(r"`([^`]+)`", row))


def test_page_has_a_table() -> None:
    assert len(TABLE) > 15


@pytest.mark.parametrize("name", [*MODULES, *RULE_TYPES])
def test_each_module_and_rule_type_has_a_line(name: str) -> None:
    assert any(name in words(row) for row in TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split("|")[1].strip()[:40])
def test_variables_playbooks_and_modules_of_a_line_exist(row: str) -> None:
    for word in words(row):
        if variable := re.match(r"placement_[a-z]+_\w+", word):
            assert variable[0] in VARIABLES, word
    for name in re.findall(r"[Pp]laybook `(\w+)`", row):
        assert (CHECKOUT / "playbooks" / f"{name}.yml").is_file(), name
    for name in re.findall(r"module `(\w+)`", row):
        assert (CHECKOUT / "plugins" / "modules" / f"{name}.py").is_file(), name


def test_links_of_the_lines_lead_to_a_heading() -> None:
    for file, heading in re.findall(r"\]\(([\w./-]*\.md)?#([\w-]+)\)", "\n".join(TABLE)):
        target = (CHECKOUT / "docs" / file).read_text() if file else PAGE
        titles = re.findall(r"^#+ (.*)$", target, re.M)
        assert heading in {anchor(title) for title in titles}, (file, heading)


def anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def variables() -> set[str]:
    names: set[str] = set()
    for path in (CHECKOUT / "roles").glob("*/meta/argument_specs.yml"):
        specs = yaml.safe_load(path.read_text())["argument_specs"]
        names |= {name for spec in specs.values() for name in spec.get("options", {})}
    return names


VARIABLES = variables()
