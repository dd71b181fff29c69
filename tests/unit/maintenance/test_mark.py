# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark on a node: what is written, and what a damaged one leads to."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    DamagedMark,
    MaintenancePhase,
    Mark,
    begun,
    decode,
    encode,
    mark_of,
    mark_write,
    node_as_json,
    unmark_write,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MOVED_AWAY
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node
from ansible_collections.virt.placement.plugins.module_utils.model.write import patched

KEY = "placement.virt/maintenance"
MARK = Mark("r1", "firmware", MaintenancePhase.DRAINING, "boot", True, "2026-11-22T19:00:00Z")


def node(*, unschedulable: bool = False, **annotations: str) -> Node:
    marks = {KEY: annotations["mark"]} if "mark" in annotations else {"other": "x"}
    return Node("w1", uid="u1", annotations=marks, unschedulable=unschedulable, boot_id="boot")


def manifest(of: Node) -> dict[str, t.Any]:
    spec = {"unschedulable": True} if of.unschedulable else {}
    metadata = {"name": of.name, "uid": of.uid, "annotations": dict(of.annotations)}
    return {"metadata": metadata, "spec": spec}


def start(of: Node, mark: Mark | None = None, phase: str = "draining") -> Mark:
    return begun(of, mark, run="r2", phase=MaintenancePhase(phase), reason="disk", now="now")


def test_mark_is_read_as_it_was_written() -> None:
    assert decode(encode(MARK)) == MARK


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 4000,
        "x" * 5000,
        json.dumps({"run": "r1"}),
        encode(MARK).replace('"draining"', '"asleep"'),
        encode(MARK).replace("true", "1"),
        encode(MARK).replace('"r1"', "7"),
        encode(MARK)[:-1] + ',"more":1}',
        encode(MARK)[:-1] + ',"down":["db"]}',
        encode(MARK)[:-1] + ',"down":{"db":"is Pending"}}',
        encode(MARK)[:-1] + ',"down":{"VirtualMachine/shop/db":1}}',
        encode(MARK)[:-1] + ',"away":["VirtualMachine/shop/db"]}',
    ],
)
def test_damaged_mark_says_what_to_do(text: str) -> None:
    with pytest.raises(DamagedMark, match=f"annotation {KEY} is damaged .*: check whether"):
        decode(text)


def test_cordon_and_mark_are_one_conditional_patch() -> None:
    write = mark_write(node(), start(node()))
    assert write is not None
    assert [(op["op"], op["path"]) for op in write.patch()] == [
        ("test", "/metadata/uid"),
        ("test", "/spec/unschedulable"),
        ("test", "/metadata/annotations/placement.virt~1maintenance"),
        ("add", "/spec/unschedulable"),
        ("add", "/metadata/annotations/placement.virt~1maintenance"),
    ]
    written = patched(manifest(node()), (*write.tests, *write.operations))
    mark = decode(written["metadata"]["annotations"][KEY])
    assert (mark.cordoned, mark.run, mark.reason, mark.boot_id) == (True, "r2", "disk", "boot")


def test_node_without_annotations_gets_them() -> None:
    bare = Node("w1", uid="u1")
    write = mark_write(bare, start(bare))
    assert write is not None
    written = patched({"metadata": {"uid": "u1"}, "spec": {}}, (*write.tests, *write.operations))
    assert set(written["metadata"]["annotations"]) == {KEY}


def test_foreign_cordon_is_not_ours() -> None:
    cordoned = node(unschedulable=True)
    mark = start(cordoned)
    assert mark.cordoned is False
    marked = node(unschedulable=True, mark=encode(mark))
    write = unmark_write(marked, mark)
    assert write is not None
    written = patched(manifest(marked), (*write.tests, *write.operations))
    assert written["spec"] == {"unschedulable": True}
    assert KEY not in written["metadata"]["annotations"]


def test_own_cordon_goes_with_the_mark() -> None:
    marked = node(unschedulable=True, mark=encode(MARK))
    write = unmark_write(marked, MARK)
    assert write is not None
    assert patched(manifest(marked), write.operations)["spec"] == {}


def test_cordon_that_another_client_has_lifted_is_not_lifted_again() -> None:
    """During the work: a patch that removes what is not there would fail."""
    marked = node(mark=encode(MARK))
    write = unmark_write(marked, MARK)
    assert write is not None
    assert patched(manifest(marked), (*write.tests, *write.operations))["spec"] == {}


def test_workloads_that_are_down_are_read_as_they_were_written() -> None:
    down = replace(MARK, down={"VirtualMachine/shop/db": "0/6 nodes are available"})
    assert decode(encode(down)) == down


@pytest.mark.parametrize("character", ["n", '"', "\U0001f600"])
@pytest.mark.parametrize("count", [1, 100, 300, 1000, 5000])
def test_mark_has_room_for_any_number_of_workloads_that_are_down(
    count: int, character: str
) -> None:
    """Reasons become shorter, then the rest of the names becomes a number."""
    names = [f"VirtualMachine/shop/{number:060}" for number in range(count)]
    mark = replace(MARK, down=dict.fromkeys(names, character * 300))
    text = encode(mark)
    assert len(text) < 32 * 1024 + 256
    down = decode(text).down
    assert list(down) == names[: len(down)]
    assert encode(replace(mark, down={**down, **mark.down})) == text, (
        "the same when it is written again"
    )
    if count <= 300:
        assert list(down) == names
        reasons = {why.removesuffix("...") for why in down.values()}
        assert all(why and why in character * 300 for why in reasons)
    else:
        assert len(down) > 250
        assert set(down.values()) == {f"one of {count} that do not run"}


def test_change_that_was_done_is_recorded_when_the_mark_goes() -> None:
    marked = node(unschedulable=True, mark=encode(MARK))
    write = unmark_write(marked, replace(MARK, phase=MaintenancePhase.DRAINED), "CHG1", "now")
    assert write is not None
    annotations = patched(manifest(marked), write.operations)["metadata"]["annotations"]
    assert annotations == {
        "placement.virt/serviced": "CHG1",
        "placement.virt/serviced-at": "now",
    }


def test_run_that_continues_keeps_the_beginning_of_the_maintenance() -> None:
    marked = node(unschedulable=True, mark=encode(MARK))
    mark = start(marked, mark_of(marked), "drained")
    assert (mark.run, mark.since, mark.reason) == ("r2", MARK.since, MARK.reason)
    assert mark.phase is MaintenancePhase.DRAINED


def test_boot_of_a_node_is_the_one_with_which_it_was_drained() -> None:
    """A crash during the drain is no reboot that the work has made."""
    before = replace(MARK, boot_id="boot before")
    marked = node(unschedulable=True, mark=encode(before))
    assert start(marked, before, "draining").boot_id == "boot before"
    assert start(marked, before, "drained").boot_id == "boot"
    drained = replace(before, phase=MaintenancePhase.DRAINED)
    assert start(marked, drained, "cordoned") == drained


def test_cordoned_does_not_set_a_drained_node_back() -> None:
    marked = node(unschedulable=True, mark=encode(MARK))
    assert mark_write(marked, start(marked, MARK, "cordoned")) is None


def test_cordon_that_was_lifted_since_is_made_again_and_ours() -> None:
    foreign = Mark("r1", "", MaintenancePhase.CORDONED, "boot", False, "now")
    marked = node(mark=encode(foreign))
    assert start(marked, foreign).cordoned is True


def test_lifted_cordon_ended_the_maintenance_so_a_later_reboot_has_to_be_proved() -> None:
    before = replace(MARK, boot_id="boot before")
    mark = start(node(mark=encode(before)), before)
    assert mark == Mark("r2", "disk", MaintenancePhase.DRAINING, "boot", True, "now", taints=())


def test_change_is_not_recorded_of_a_node_that_was_never_empty() -> None:
    marked = node(unschedulable=True, mark=encode(MARK))
    write = unmark_write(marked, MARK, "CHG1")
    assert write is not None
    assert patched(manifest(marked), write.operations)["metadata"]["annotations"] == {}


AWAY = {"VirtualMachine/shop/db": "", "VirtualMachine/shop/batch": "Always"}


def after_maintenance(mark: Mark, **annotations: str) -> Node:
    """The node after `mark` was taken off."""
    marked = node(unschedulable=True, mark=encode(mark))
    marked = replace(marked, annotations={**marked.annotations, **annotations})
    write = unmark_write(marked, mark)
    assert write is not None
    return node_from_manifest(patched(manifest(marked), (*write.tests, *write.operations)))


def test_node_remembers_what_its_last_maintenance_moved_away_and_stopped() -> None:
    mark = replace(MARK, away=AWAY)
    for known in (node(unschedulable=True, mark=encode(mark)), after_maintenance(mark)):
        as_json = node_as_json(known, "zone")
        assert [item["name"] for item in as_json["moved_away"]] == ["db"]
        stopped = {"kind": "VirtualMachine", "namespace": "shop", "name": "batch"}
        assert as_json["stopped"] == [{**stopped, "run_strategy": "Always"}]


def test_maintenance_that_moved_nothing_away_forgets_the_one_before() -> None:
    after = after_maintenance(MARK, **{MOVED_AWAY: json.dumps(AWAY)})
    assert MOVED_AWAY not in after.annotations
    assert node_as_json(after, "zone")["moved_away"] == []


def test_run_that_continues_a_drain_adds_to_what_is_known() -> None:
    mark = replace(MARK, away=AWAY)
    marked = node(unschedulable=True, mark=encode(mark))
    later = {"VirtualMachine/shop/late": "", "VirtualMachine/shop/batch": ""}
    draining = MaintenancePhase.DRAINING
    new = begun(marked, mark, run="r2", phase=draining, reason="", now="", away=later)
    assert new.away == {**later, **AWAY}


@pytest.mark.parametrize("text", ["", "[]", '{"db":""}', '{"VirtualMachine/shop/db":1}'])
def test_damaged_record_of_the_last_maintenance_names_no_workload(text: str) -> None:
    known = replace(node(), annotations={MOVED_AWAY: text})
    assert node_as_json(known, "zone")["moved_away"] == []


def test_workloads_that_left_a_node_have_a_limit() -> None:
    many = {f"VirtualMachine/shop/{'x' * 200}{number:04}": "" for number in range(1000)}
    draining = MaintenancePhase.DRAINING
    new = begun(node(), None, run="r", phase=draining, reason="", now="", away=many)
    assert 250 < len(new.away) < 350
    assert list(new.away) == sorted(many)[: len(new.away)]
