# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides in docs/ and demos/ name playbooks, variables, choices and files that exist."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.plugin_utils.controller import SETTINGS
from dev import docs

CHECKOUT = Path(__file__).resolve().parents[2]
PLAYBOOKS = {path.stem for path in (CHECKOUT / "playbooks").glob("*.yml")}
ROLES = {path.name.removeprefix("placement_") for path in (CHECKOUT / "roles").iterdir()}
GUIDES = [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
    *sorted((CHECKOUT / "demos").glob("*/README.md")),
]


def options(role: str) -> dict[str, t.Any]:
    path = CHECKOUT / "roles" / role / "meta" / "argument_specs.yml"
    specs: dict[str, t.Any] = yaml.safe_load(path.read_text())["argument_specs"]
    return dict(specs["main"]["options"])


def test_archive_of_the_collection_is_in_the_build_context() -> None:
    """ansible-builder 3.2 copies the file below `_build`, which is /build in the image."""
    (block,) = re.findall(
        r"^```yaml\n# execution-environment.yml, with the archive\n(.*?)^```$",
        (CHECKOUT / "docs" / "awx.md").read_text(),
        re.M | re.S,
    )
    definition = yaml.safe_load(block)
    (copied,) = definition["additional_build_files"]
    (collection,) = definition["dependencies"]["galaxy"]["collections"]
    assert collection == {"name": f"/build/{copied['dest']}/{copied['src']}", "type": "file"}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_playbooks_and_role_variables_exist(guide: Path) -> None:
    text = guide.read_text()
    variables = {name for path in PLAYBOOKS & ROLES for name in options(f"placement_{path}")}

    settings = set(re.findall(r"\bplacement_controller_\w+", text))
    assert settings <= {f"placement_controller_{name}" for name in SETTINGS}
    assert set(re.findall(r"ansible-playbook virt\.placement\.(\w+)", text)) <= PLAYBOOKS
    named = re.findall(rf"\bplacement_(?:{'|'.join(sorted(PLAYBOOKS & ROLES))})_\w+", text)
    made = {"placement_drill_result", "placement_maintenance_node", "placement_topology_result"}
    assert set(named) - made <= variables


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_links_lead_to_files(guide: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)", guide.read_text())

    assert [link for link in links if not (guide.parent / link).exists()] == []


def anchors(guide: Path) -> set[str]:
    """Those that GitHub gives the headings."""
    text = re.sub(r"^```.*?^```", "", guide.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_links_lead_to_headings(guide: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]*\.md|)#([^)]+)\)", guide.read_text())

    assert [
        (file, anchor)
        for file, anchor in links
        if anchor not in anchors(guide.parent / file if file else guide)
    ] == []


def test_guide_of_molecule_has_the_variables_of_its_playbooks() -> None:
    played = "".join(
        (CHECKOUT / "playbooks" / f"sandbox_{name}.yml").read_text() for name in ("up", "down")
    )
    asked = set(re.findall(r"\b(placement_sandbox_\w+) \| default\(", played))
    text = (CHECKOUT / "docs" / "molecule.md").read_text()
    assert set(re.findall(r"^\| `(placement_sandbox_\w+)` \|", text, re.M)) == asked
    assert set(re.findall(r"\bplacement_sandbox_\w+", text)) == asked


def test_site_has_each_guide_in_its_navigation_once() -> None:
    pages = [page for pages in docs.NAVIGATION.values() for page in pages]
    guides = [str(guide.relative_to(CHECKOUT).with_suffix("")) for guide in GUIDES]
    assert sorted(pages) == sorted([*guides, f"{docs.REFERENCE}/index"])


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        (
            "[role](../roles/placement_undo/README.md#variables)",
            "[role](../collections/virt/placement/placement_undo_role.rst)",
        ),
        ("[Undo](undo.md#the-record)", "[Undo](undo.md#the-record)"),
        ("[examples](../rbac/examples)", "examples"),
        ("[KubeVirt](https://kubevirt.io)", "[KubeVirt](https://kubevirt.io)"),
    ],
)
def test_link_of_a_guide_leads_to_a_page_of_the_site(
    link: str, on_the_site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "SOURCE", tmp_path)
    (page := tmp_path / "docs" / "awx.md").parent.mkdir()
    (tmp_path / "docs" / "undo.md").touch()
    assert docs.with_links_of_the_site(link, page) == on_the_site
