# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The README of each role: what it does, an example, and where its variables are explained."""

from __future__ import annotations

import re

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import GIVEN_TO_TASKS
from dev.surveys import ROLES, plain

NAMES = sorted(path.name for path in ROLES.iterdir())


def readme(role: str) -> str:
    return (ROLES / role / "README.md").read_text()


def variables(role: str) -> set[str]:
    specs = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    return set(specs["argument_specs"]["main"]["options"])


@pytest.mark.parametrize("role", NAMES)
def test_readme_begins_with_a_play_of_the_role(role: str) -> None:
    (play,) = yaml.safe_load(re.findall("```yaml\n(.*?)```", readme(role), re.DOTALL)[0])
    (used,) = play["roles"]
    assert used["role"] == f"virt.placement.{role}"
    assert f"`ansible-doc -t role virt.placement.{role}`" in readme(role)


@pytest.mark.parametrize("role", NAMES)
def test_readme_names_only_variables_that_exist(role: str) -> None:
    used = set(re.findall(rf"\b{role}_\w+", readme(role)))
    assert sorted(used - variables(role) - set(GIVEN_TO_TASKS)) == []


@pytest.mark.parametrize("role", NAMES)
def test_links_of_readme_lead_to_files_and_headings(role: str) -> None:
    for target, anchor in re.findall(r"\]\((?!http)([^)#]+)#?([^)]*)\)", readme(role)):
        page = (ROLES / role / target).resolve().read_text()
        headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", x).lower().replace(" ", "-") for x in headings}
        assert not anchor or anchor in anchors, f"{target}#{anchor}"


def test_markup_of_ansible_is_markdown_in_surveys() -> None:
    text = "As O(virt.placement.rules#module:rules) with V(zone) of C(node)"
    assert plain(text) == "As `rules` of the module `rules` with `zone` of `node`"
