# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Node object that was deleted in its maintenance, and one of its name that registered since (case 71)."""

from __future__ import annotations

import contextlib
import copy
import datetime
import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance import drained_nodes
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drained_nodes import (
    LIMIT,
    DrainedNode,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    encode,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from tests.fuzz import checks
from tests.fuzz.cluster import ZONE
from tests.support.api_server import Request
from tests.support.modules import run
from tests.unit.maintenance.test_kills import Killed, KubeVirt, maintain, three_zones

Object = dict[str, t.Any]
Labels = t.Mapping[str, "str | None"]
SERVICED, SERVICED_AT = "placement.virt/serviced", "placement.virt/serviced-at"
MOVED_AWAY, DRAINED = "placement.virt/moved-away", "placement.virt/drained"
LEASE = f"{checks.LEASE}/virt-placement"
W1 = "/api/v1/nodes/w1"


def lease(server: KubeVirt) -> dict[str, str]:
    return dict(server.objects[LEASE]["metadata"].get("annotations") or {})


def node_annotations(server: KubeVirt) -> dict[str, str]:
    return dict(server.objects[W1]["metadata"].get("annotations") or {})


def registered(old: Object, labels: Labels | None = None, *, uid: str = "new") -> Object:
    """What the kubelet registers: neither annotations nor our cordon."""
    kept = {**old["metadata"]["labels"], **(labels or {})}
    metadata = {"name": old["metadata"]["name"], "uid": uid, "resourceVersion": "1"}
    metadata["labels"] = {key: text for key, text in kept.items() if text is not None}
    return {**copy.deepcopy(old), "metadata": metadata, "spec": {}}


def reinstall(server: KubeVirt, labels: Labels | None = None) -> None:
    server.objects[W1] = registered(server.objects[W1], labels)


def drained(**options: t.Any) -> KubeVirt:
    server = three_zones()
    result = maintain(server, "drained", "w1", **options)
    assert not result.get("failed"), result["msg"]
    return server


def test_case_71_new_node_object_is_marked_as_serviced() -> None:
    server = drained()
    away = server.objects[W1]["metadata"]["annotations"]
    assert DRAINED in lease(server) and away
    reinstall(server)

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert back["progress"] == [
        "node w1: its Node object was deleted in its maintenance, and a new one has registered",
        "node w1: in service",
    ]
    (node,) = back["nodes"]
    assert (node["change_id"], node["state"], node["since"]) == ("CHG7", "in_service", None)
    assert node["serviced_at"] and [vm["name"] for vm in node["moved_away"]]
    assert server.objects[W1]["spec"] == {} and DRAINED not in lease(server)
    writes = len(server.writes)
    assert not maintain(server, "in_service", "w1", change_id="CHG7")["changed"]
    assert len(server.writes) == writes


@pytest.mark.parametrize("begins", ["drained", "in_service"])
def test_node_that_no_drain_has_emptied_is_not_marked_as_serviced(begins: str) -> None:
    """Neither one that was never in maintenance, nor one that was replaced before or after it."""
    server = three_zones() if begins == "in_service" else drained()
    if begins == "drained":
        maintain(server, "in_service", "w1", change_id="CHG6")
    reinstall(server)

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back["changed"] and SERVICED not in node_annotations(server)


def test_node_that_was_deleted_while_it_was_drained_is_not_marked_as_serviced() -> None:
    """What it moved away until then is known."""
    server = three_zones()
    server.kill_at, server.after = 9, True
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w1")
    server.dead, server.kill_at = False, 0
    assert '\\"draining\\"' in lease(server)[DRAINED]
    reinstall(server)

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert SERVICED not in node_annotations(server) and MOVED_AWAY in node_annotations(server)


def test_labels_that_the_new_object_lacks_are_named() -> None:
    server = drained()
    reinstall(server, {ZONE: "c", "kubernetes.io/hostname": None})

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    (warning,) = [line for line in back["progress"] if line.startswith("warning: ")]
    assert warning == (
        "warning: the new Node object w1 has not the labels of the old one: no kubernetes.io/hostname, which was w1;"
        f" {ZONE}=c, which was a. Set them again, by the playbook topology where it has set them"
    )


def test_new_object_without_the_label_of_virt_handler_is_not_back() -> None:
    server = drained()
    reinstall(server, {"kubevirt.io/schedulable": None})

    back = maintain(server, "in_service", "w1", change_id="CHG7", run_timeout=1)

    assert "is a new Node object without the label kubevirt.io/schedulable" in back["msg"]
    assert SERVICED not in node_annotations(server) and DRAINED in lease(server)


def test_new_object_that_is_cordoned_stays_so() -> None:
    server = drained()
    reinstall(server)
    server.objects[W1]["spec"] = {"unschedulable": True}

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert "node w1: maintenance has ended; it stays cordoned" in back["progress"][-1]
    assert server.objects[W1]["spec"] == {"unschedulable": True}
    assert node_annotations(server)[SERVICED] == "CHG7"


def test_object_that_was_not_read_is_not_written() -> None:
    """The node is deleted once more, just before it is written."""
    server = three_zones()
    maintain(server, "drained", "w1")
    reinstall(server)
    third = registered(server.objects[W1], uid="third")
    server.add_fault("PATCH", W1, lambda _request: server.objects.update({W1: third}), 1)

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert "Node w1" in back["msg"] and SERVICED not in node_annotations(server)
    again = maintain(server, "in_service", "w1", change_id="CHG7")
    assert not again.get("failed") and node_annotations(server)[SERVICED] == "CHG7"


def test_task_waits_for_the_new_object() -> None:
    server = drained()
    old = server.objects.pop(W1)

    back = maintain(server, "in_service", "w1", change_id="CHG7", run_timeout=1)
    assert back["msg"] == (
        "not back within 1 s (run_timeout): waiting: node w1 does not exist: its Node object was deleted in its"
        " maintenance, and none has registered since"
    )
    checked = {"nodes": ["w1"], "state": "in_service"}
    assert run("node_maintenance", server, checked, check=True)["gone"] == ["w1"]

    server.objects[W1] = registered(old)
    again = maintain(server, "in_service", "w1", change_id="CHG7")
    assert not again.get("failed") and node_annotations(server)[SERVICED] == "CHG7"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [1, 2, 3, 4])
def test_job_that_is_killed_as_it_takes_over_a_new_object_does_so_the_next_time(
    write: int, after: bool
) -> None:
    server = drained()
    reinstall(server)
    server.kill_at, server.after = len(server.writes) + write, after
    with contextlib.suppress(Killed):
        maintain(server, "in_service", "w1", change_id="CHG7")
    server.dead, server.kill_at = False, 0

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert node_annotations(server)[SERVICED] == "CHG7" and DRAINED not in lease(server)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("left", range(1, 9))
def test_drain_that_is_killed_near_its_end_and_goes_on_is_known_to_have_ended(
    left: int, after: bool
) -> None:
    """Of its last writes each, before or after it is made."""
    whole = three_zones()
    maintain(whole, "drained", "w1")
    server = three_zones()
    server.kill_at, server.after = len(whole.writes) - left, after
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w1")
    server.dead, server.kill_at = False, 0
    assert not maintain(server, "drained", "w1").get("failed")
    reinstall(server)

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert node_annotations(server)[SERVICED] == "CHG7"


def test_deleted_node_of_another_zone_is_a_warning_before_the_next_drain() -> None:
    server = drained()
    del server.objects[W1]

    checked = run("node_maintenance", server, {"nodes": ["w3"], "state": "drained"}, check=True)

    (finding,) = [x for x in checked["findings"] if x["name"] == "other_zone_not_ready"]
    assert finding["objects"] == ["Node w1"]
    assert "w1 (a, deleted in its maintenance)" in finding["why"]


def test_new_object_that_is_drained_again_keeps_what_the_first_drain_moved() -> None:
    """The job was killed before it put the new object in service."""
    server = drained()
    reinstall(server)

    assert not maintain(server, "drained", "w1").get("failed")
    back = maintain(server, "in_service", "w1", change_id="CHG7")

    (node,) = back["nodes"]
    assert [vm["name"] for vm in node["moved_away"]] and node["change_id"] == "CHG7"
    assert DRAINED not in lease(server)


def days_ago(days: int) -> str:
    then = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days)
    return f"{then:%Y-%m-%dT%H:%M:%SZ}"


def change_entry(server: KubeVirt, **fields: t.Any) -> None:
    """Of w1, on the Lease."""
    entries = json.loads(lease(server)[DRAINED])
    entries["w1"] |= fields
    annotations = {**lease(server), DRAINED: json.dumps(entries, separators=(",", ":"))}
    server.objects[LEASE] = copy.deepcopy(server.objects[LEASE])
    server.objects[LEASE]["metadata"]["annotations"] = annotations


def note_w2(server: KubeVirt) -> list[str]:
    """Another job drains w2."""
    maintain(server, "cordoned", "w2", max_nodes=2)
    manifests = [item for path, item in server.objects.items() if path.startswith("/api/v1/nodes/")]
    nodes = [node_from_manifest(manifest) for manifest in manifests]
    chosen = [node for node in nodes if node.name == "w2"]
    return drained_nodes.note(server.client(), chosen, nodes, Topology.of({}))


def test_host_that_is_repaired_for_longer_than_30_days_and_then_installed_anew_is_serviced() -> (
    None
):
    """Its Node object was there, and marked."""
    server = drained()
    old = drained_nodes.decode(lease(server)[DRAINED])["w1"].mark
    change_entry(server, mark=encode(replace(old, since=days_ago(35))))
    assert note_w2(server) == []
    assert set(drained_nodes.decode(lease(server)[DRAINED])) == {"w1", "w2"}
    reinstall(server)
    assert note_w2(server) == []

    back = maintain(server, "in_service", "w1", change_id="CHG7")

    assert not back.get("failed"), back["msg"]
    assert node_annotations(server)[SERVICED] == "CHG7"


def test_days_without_a_node_object_begin_when_a_drain_first_finds_that() -> None:
    server = drained()
    del server.objects[W1]

    note_w2(server)

    first = drained_nodes.decode(lease(server)[DRAINED])["w1"].missing
    assert first is not None and f"{first:%Y-%m-%d}" == days_ago(0)[:10]
    change_entry(server, missing=days_ago(3))
    note_w2(server)
    seen = drained_nodes.decode(lease(server)[DRAINED])["w1"].missing
    assert seen is not None and (first - seen).days >= 2, "the first time is kept"


@pytest.mark.parametrize("days", [29, 31])
def test_node_that_does_not_come_back_is_forgotten_with_a_warning(days: int) -> None:
    """A new node of its name has then nothing to do with it."""
    server = drained()
    old = drained_nodes.decode(lease(server)[DRAINED])["w1"].mark
    node = server.objects.pop(W1)
    name = next(iter(old.away))
    change_entry(server, missing=days_ago(days), mark=encode(replace(old, starts=(name,))))

    checked = run("node_maintenance", server, {"nodes": ["w3"], "state": "drained"}, check=True)
    lines = note_w2(server)

    waited_for = days == 29
    assert ("other_zone_not_ready" in {x["name"] for x in checked["findings"]}) == waited_for
    assert ("w1" in drained_nodes.decode(lease(server)[DRAINED])) == waited_for
    expected = (
        f"warning: node w1, which was deleted in its maintenance, does not exist since {days_ago(days)[:10]}: it is not"
        f" waited for any more, after 30 days. Start these VMs yourself, if they are not started: {name}"
    )
    assert lines == ([] if waited_for else [expected])
    server.objects[W1] = registered(node)
    back = maintain(server, "in_service", "w1", change_id="CHG7")
    assert (back["changed"], SERVICED in node_annotations(server)) == (waited_for, waited_for)


def test_node_that_came_back_is_waited_for_anew_when_it_is_deleted_again() -> None:
    server = drained()
    change_entry(server, missing=days_ago(31))

    assert note_w2(server) == []

    assert drained_nodes.decode(lease(server)[DRAINED])["w1"].missing is None


def test_drain_prints_that_a_node_is_not_waited_for_any_more() -> None:
    server = drained()
    del server.objects[W1]
    change_entry(server, missing=days_ago(31))

    result = maintain(server, "drained", "w3")

    assert not result.get("failed"), result["msg"]
    (warning,) = [line for line in server.progress if "is not waited for any more" in line]
    assert warning.startswith("warning: node w1, ")


def test_node_in_service_is_forgotten_by_the_next_drain() -> None:
    """The job was killed before it could: the mark is gone, and not that on the Lease."""
    server = drained()
    left = lease(server)[DRAINED]
    maintain(server, "in_service", "w1")
    server.objects[LEASE]["metadata"]["annotations"][DRAINED] = left

    maintain(server, "drained", "w2")

    assert set(drained_nodes.decode(lease(server)[DRAINED])) == {"w2"}


@pytest.mark.parametrize(
    "when", [("PATCH", W1), ("GET", "/api/v1/nodes")], ids=["uncordoned", "nodes-read"]
)
def test_node_that_another_job_drains_is_not_forgotten_by_the_one_before(
    when: tuple[str, str],
) -> None:
    """It drains w1 and notes it, once `when` was answered."""
    server = three_zones()
    maintain(server, "drained", "w1")
    first = lease(server)[DRAINED]
    run_of_first = drained_nodes.decode(first)["w1"].mark.run
    if when[0] == "GET":  # the mark is gone, and not that on the Lease
        maintain(server, "in_service", "w1")
        server.objects[LEASE]["metadata"]["annotations"][DRAINED] = first
    note = first.replace(run_of_first, "other")

    def drain(_request: Request) -> None:
        server.objects[LEASE] = copy.deepcopy(server.objects[LEASE])
        server.objects[LEASE]["metadata"]["annotations"][DRAINED] = note

    server.add_fault(*when, drain, 1, late=True)

    back = maintain(server, "in_service", "w1")

    assert not back.get("failed"), back["msg"]
    assert lease(server)[DRAINED] == note


def test_damaged_annotation_is_an_error_that_says_what_to_do() -> None:
    server = drained()
    server.objects[LEASE]["metadata"]["annotations"][DRAINED] = '{"w1": {"uid": 7}}'

    back = maintain(server, "in_service", "w1")

    assert "annotation placement.virt/drained: is damaged" in back["msg"]
    assert "remove it" in back["msg"]


def mark(*away: str, starts: t.Sequence[str] = ()) -> Mark:
    return Mark(
        run="r1",
        reason="firmware",
        phase=MaintenancePhase.DRAINED,
        boot_id="b1",
        cordoned=True,
        since="2026-11-29T10:00:00Z",
        away=dict.fromkeys(away, "Always"),
        starts=tuple(starts),
    )


def test_nodes_and_workloads_that_the_annotation_has_no_room_for_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = drained()
    assert not [line for line in server.progress if "has no room" in line]
    one = len(lease(server)[DRAINED])
    monkeypatch.setattr(drained_nodes, "LIMIT", one)

    lines = note_w2(server)

    assert set(drained_nodes.decode(lease(server)[DRAINED])) == {"w1"}
    annotation = (
        "Lease kube-system/virt-placement, annotation placement.virt/drained, has no room for"
    )
    assert lines == [
        f"warning: {annotation} the nodes w2. If one is installed anew in its maintenance, it is not marked as"
        " serviced, and its stopped VMs are not started again",
        f"warning: {annotation} all that was moved away from the nodes w1. If one is installed anew in its"
        " maintenance, these VMs do not return home",
    ]


@pytest.mark.parametrize(("nodes", "workloads"), [(3, 10), (20, 300), (400, 3)])
def test_annotation_ends_at_its_limit(nodes: int, workloads: int) -> None:
    names = [f"VirtualMachine/shop/vm-{n}" for n in range(workloads)]
    known = {
        f"w{n:03}": DrainedNode(f"u{n}", mark(*names, starts=names[:1]), {}) for n in range(nodes)
    }

    text = drained_nodes.encode(drained_nodes.fitted(known))
    read = drained_nodes.decode(text)

    assert len(text) <= LIMIT
    assert list(read) == sorted(known)[: len(read)] and len(read) >= min(nodes, 80)
    assert all(set(node.mark.away) >= {names[0]} for node in read.values())
    assert nodes > 3 or read == known


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"w1": 1}',
        '{"w1": {"uid": "u", "mark": "{}", "labels": {}, "missing": "soon"}}',
        '{"w1": {"uid": "u", "mark": "{}", "labels": {}}}',
        "[" * 3000,
    ],
)
def test_text_of_others_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is damaged"):
        drained_nodes.decode(text)
