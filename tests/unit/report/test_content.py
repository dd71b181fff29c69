# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that are damaged, of another module or of another cluster are refused, each with one clear message."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.report.results import DamagedResult

from .results import move, placement_of, rollout_of, shop, shop_content, shop_drill, shop_placement

PLACEMENT = "hand over the result of virt.placement.placement_info with details: placement"


def without(result: dict[str, t.Any], key: str) -> dict[str, t.Any]:
    return {name: value for name, value in result.items() if name != key}


def changed(result: dict[str, t.Any], *path: t.Any) -> dict[str, t.Any]:
    """The result with the last of `path` as the value at the others."""
    *keys, last, value = path
    place: t.Any = result
    for key in keys:
        place = place[key]
    place[last] = value
    return result


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"placement": {"msg": "hello"}}, "placement has no cluster; "),
        ({"placement": ["x"]}, "placement is a list, not a map; "),
        ({"placement": without(shop_placement(), "nodes")}, "placement has no nodes; "),
        (
            {"placement": placement_of(shop(), "problems")},
            "placement.summary counts 20 instances, but 5 are listed; ",
        ),
        (
            {"placement": {"failed": True, "msg": "forbidden"}},
            "placement is of a task that failed (forbidden); ",
        ),
        (
            {"placement": changed(shop_placement(), "summary", "violated", "2")},
            "placement.summary.violated is the text '2', not a number; ",
        ),
        (
            {"placement": changed(shop_placement(), "instances", 1, "verdict", "fine")},
            "placement.instances[1].verdict is 'fine', which is no verdict; ",
        ),
        (
            {"placement": changed(shop_placement(), "instances", 0, "rules", None)},
            "placement.instances[0].rules is null, not a list; ",
        ),
        ({"drill": {"domains": []}}, "drill has no cluster; "),
        ({"drill": without(shop_drill(), "without_impact")}, "drill has no without_impact; "),
        (
            {"drill": {**shop_drill(), "without_impact": []}},
            "drill.counts has 10 domains, but 2 are listed; ",
        ),
        (
            {"drill": {**shop_drill(), "cluster": {"api": "", "uid": "other"}}},
            "drill is about another cluster (UID other) than placement",
        ),
        (
            {"rollout": {**rollout_of(), "cluster": {"api": "", "uid": "other"}}},
            "rollout is about another cluster (UID other) than placement",
        ),
        ({"rollout": rollout_of({"name": "web-3"})}, "rollout.moves[0] has no kind; "),
        (
            {"rollout": rollout_of({**move("web-3", "n4", "n5"), "seconds": "2"})},
            "rollout.moves[0].seconds is the text '2', not a number; ",
        ),
    ],
)
def test_damaged_result_is_refused(results: dict[str, t.Any], message: str) -> None:
    with pytest.raises(DamagedResult) as refused:
        shop_content(**results)

    assert str(refused.value).startswith(message)
    (option,) = results
    module = {"placement": "placement_info", "drill": "drill_info"}.get(option, option)
    assert f"hand over the result of virt.placement.{module}" in str(refused.value)


def test_all_details_are_enough() -> None:
    content = shop_content(placement=placement_of(shop(), "all"))

    assert {(x.name, x.node, x.verdict) for x in content.instances} == {
        (x.name, x.node, x.verdict) for x in shop_content().instances
    }
    assert content.rules == shop_content().rules


def test_rollout_that_could_not_start_has_its_reason() -> None:
    content = shop_content(rollout={"failed": True, "msg": "the Lease is held by another run"})

    assert content.moves is not None
    assert (content.moves.moves, content.moves.not_moved) == ((), ())
    assert content.moves.stop_reason == "the Lease is held by another run"


def test_migration_without_a_target_is_pending_although_its_vm_runs() -> None:
    made = shop()
    made.launcher("web-1", "")
    content = shop_content(placement=placement_of(made))

    (line,) = content.waiting
    assert line.startswith("VirtualMachineInstance shop/web-1: migration target: ")


@pytest.mark.parametrize(
    ("api", "name"),
    [
        ("https://api.prod.example.com:6443", "api.prod.example.com"),
        ("https://10.0.0.1:6443", "cluster 9c1f3b8e"),
        ("https://[fd00::1]:6443", "cluster 9c1f3b8e"),
    ],
)
def test_cluster_without_a_name_is_called_by_its_host_or_uid(api: str, name: str) -> None:
    placement = shop_placement()
    placement["cluster"] = {**placement["cluster"], "api": api}
    assert shop_content(placement=placement, drill=None, cluster="").cluster == name
    assert shop_content(placement=placement, drill=None, cluster="prod").cluster == "prod"
