# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A saved placement is read as a map, and the places of a result become a table."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.places.places import (
    NoPlacement,
    read_placement,
    table,
    with_moves,
)

JSON = t.Any


def saved(tmp_path: Path, content: JSON) -> str:
    path = tmp_path / "placement.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def in_short(kind: str, name: str, node: str) -> JSON:
    return {"kind": kind, "namespace": "shop", "name": name, "instance": name, "node": node}


def in_full(kind: str, name: str, node: str) -> JSON:
    ref = {"kind": kind, "namespace": "shop", "name": name}
    return {"instance": ref, "node": node}


def test_vms_of_a_result_of_placement_info(tmp_path: Path) -> None:
    result: JSON = {
        "nodes": [{"name": "w1"}],
        "instances": [
            in_full("VirtualMachineInstance", "db1", "w1"),
            in_full("VirtualMachineInstance", "waiting", ""),
            in_full("Pod", "web-1", "w1"),
        ],
        "satisfied_instances": [
            in_short("VirtualMachine", "db2", "w2"),
            in_short("Deployment", "web", "w2"),
        ],
    }
    assert read_placement(saved(tmp_path, result)) == ({"shop/db1": "w1", "shop/db2": "w2"}, "")
    result["cluster"] = {"api": "https://prod:6443", "uid": "c1"}
    assert read_placement(saved(tmp_path, result)).cluster_uid == "c1"


def test_map_in_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    assert read_placement(saved(tmp_path, {"shop/db1": "w1"})).places == {"shop/db1": "w1"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON: its lists and maps are nested too deeply"),
        ([], "it has no map"),
        ({"instances": [], "satisfied_instances": [], "nodes": []}, "with details: placement"),
        ({"instances": [{}], "nodes": [{}]}, "damaged result of placement_info"),
    ],
)
def test_file_without_a_whole_placement_is_refused(tmp_path: Path, content: JSON, why: str) -> None:
    with pytest.raises(NoPlacement, match=why):
        read_placement(saved(tmp_path, content))


@pytest.mark.parametrize(
    "content",
    [
        {"apiVersion": "v1", "token": "s3cret"},
        {"shop/db": ["s3cret"]},
        {"shop/db": "s3cret token"},
        {"s3cret/db/x": "w1"},
        {"instances": [in_full("VirtualMachineInstance", "db", "S3cret")], "nodes": [{}]},
        {"instances": ["s3cret"], "nodes": ["s3cret"]},
    ],
)
def test_nothing_of_another_file_is_in_the_message(tmp_path: Path, content: JSON) -> None:
    with pytest.raises(NoPlacement, match=r"is not a placement|is a damaged result") as refused:
        read_placement(saved(tmp_path, content))
    assert "s3cret" not in str(refused.value).lower()


def test_link_in_a_folder_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "placement.json").symlink_to(saved(tmp_path, {"shop/db": "w1"}))
    with pytest.raises(NoPlacement, match="is a link in a folder that others may write"):
        read_placement(str(shared / "placement.json"))


def test_device_is_refused() -> None:
    with pytest.raises(NoPlacement, match="it is a device and no regular file"):
        read_placement("/dev/zero")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoPlacement, match="No such file"):
        read_placement(str(tmp_path / "none.json"))


def place(name: str, state: str, node: str, to: str, reason: str = "") -> JSON:
    names = {"namespace": "shop", "name": name, "from_node": node, "to_node": to, "node": node}
    return {**names, "state": state, "reason": reason}


def test_table_has_the_node_before_the_move_and_what_became_of_it() -> None:
    places = [
        place("db1", "in_place", "w2", "w2"),
        place("db2", "in_place", "w2", "w2"),
        place("db3", "not_moved", "w1", "w4", "its move failed in this rollout"),
        place("db4", "not_moved", "w1", "w5", "w5 is cordoned"),
    ]
    moves = [
        {"namespace": "shop", "instance": "db1", "from_node": "w1", "state": "moved", "reason": ""},
        {
            "namespace": "shop",
            "instance": "db3",
            "from_node": "w1",
            "state": "failed",
            "reason": "x",
        },
    ]
    assert table(with_moves(places, moves)) == [
        "VM        from  to  result",
        "shop/db3  w1    w4  NOT moved: x",
        "shop/db4  w1    w5  NOT moved: w5 is cordoned",
        "shop/db1  w1    w2  moved",
        "shop/db2  w2    w2  there already",
    ]


def test_long_table_is_cut() -> None:
    places = [place(f"db{n}", "in_place", "w1", "w1") for n in range(60)]
    lines = table(places)
    assert (len(lines), lines[-1]) == (52, "and 10 more, see places in the result")
