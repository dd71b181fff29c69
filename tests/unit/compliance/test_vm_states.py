# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verification names the VMs that do not run and those that cannot be live-migrated: in result, table and page."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kinds.virtual_machine import (
    VIRTUAL_MACHINE,
)
from ansible_collections.virt.placement.plugins.module_utils.kinds.vmi import VMIS
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.plugin_utils.report.markdown import markdown_text
from ansible_collections.virt.placement.plugins.plugin_utils.report.page import html_page
from ansible_collections.virt.placement.plugins.plugin_utils.report.read_content import (
    read_content,
)
from tests.support.cluster import Cluster, cluster, machine
from tests.unit.report.results import TIME, placement_of

PINNED = {"type": "LiveMigratable", "status": "False", "message": "PVC is not shared"}


@pytest.fixture
def made() -> Cluster:
    """Of five VMs two are off, and two have a disk on one node."""
    made = cluster("ab")
    for name in ("off-1", "off-2"):
        machine(made, name, "")
    for name, node in (("web", "n1"), ("disk-1", "n1"), ("disk-2", "n2")):
        machine(made, name, node)
    for name in ("disk-1", "disk-2"):
        made.machines[name]["status"]["conditions"] = [PINNED]
    return made


def test_vms_that_are_off_and_that_cannot_migrate_are_counted_and_named(made: Cluster) -> None:
    result = placement_of(made)

    assert (result["summary"]["not_running"], result["summary"]["not_migratable"]) == (2, 2)
    assert [vm["name"] for vm in result["not_running"]] == ["off-1", "off-2"]
    assert [(vm["name"], vm["node"]) for vm in result["not_migratable"]] == [
        ("disk-1", "n1"),
        ("disk-2", "n2"),
    ]
    lines = result["table"].splitlines()
    assert "not running, so not verified: shop/off-1, shop/off-2" in lines
    assert (
        lines.count(
            "no live migration: shop/disk-1 on n1, shop/disk-2 on n2: the instance is not live-migratable:"
            " PVC is not shared"
        )
        == 1
    )


def test_page_and_markdown_have_a_tile_for_each(made: Cluster) -> None:
    content = read_content(placement_of(made), time=TIME)

    page, text = html_page(content), markdown_text(content)
    for state, words in (("not_running", "■ 2"), ("not_migratable", "⇤ 2")):
        assert f'<li class="{state}"><b>{words}</b>' in page
        assert f"| {words.partition(' ')[0]} {state.replace('_', ' ')} | 2 |" in text


@pytest.mark.parametrize(
    ("resource", "counts"),
    [(VMIS, (None, None)), (VIRTUAL_MACHINE.plural, (None, 2))],
)
def test_what_could_not_be_read_is_unknown_and_not_zero(
    made: Cluster, resource: str, counts: tuple[t.Any, ...]
) -> None:
    gap = Unreadable(resource, "", "list", "forbidden")
    result = placement_of(made, unreadable=(gap,))

    assert (result["summary"]["not_running"], result["summary"]["not_migratable"]) == counts
    assert read_content(result, time=TIME).counts.get("not_running") is None


def test_result_of_an_older_release_has_no_such_tiles(made: Cluster) -> None:
    result = placement_of(made)
    for name in ("not_running", "not_migratable"):
        del result["summary"][name]
    assert 'class="not_running"' not in html_page(read_content(result, time=TIME))
