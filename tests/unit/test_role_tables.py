# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README of each role holds the table of its variables as dev/role_tables.py writes it."""

from __future__ import annotations

import re

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import GIVEN_TO_TASKS
from dev.role_tables import BEGIN, END, ROLES, table, with_table

NAMES = sorted(path.name for path in ROLES.iterdir())


@pytest.mark.parametrize("role", NAMES)
def test_the_table_is_up_to_date(role: str) -> None:
    readme = (ROLES / role / "README.md").read_text()
    assert with_table(role, readme) == readme, "run python -m dev.role_tables"


@pytest.mark.parametrize("role", NAMES)
def test_a_table_holds_no_markup_of_ansible(role: str) -> None:
    assert not re.search(r"\b(?:[COVPMELUI]|RV)\(", table(role))


@pytest.mark.parametrize("role", NAMES)
def test_the_readme_names_only_variables_that_exist(role: str) -> None:
    text = (ROLES / role / "README.md").read_text().split(BEGIN)[0]
    used = set(re.findall(rf"\b{role}_\w+", text))
    known = {*re.findall(r"^\| `(\w+)`", table(role), re.M), *GIVEN_TO_TASKS}
    assert sorted(used - known) == []


def test_a_readme_without_the_comments_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        with_table("placement_verify", f"# placement_verify\n{END}\n")
