# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The witness of the fault sweeps reports each violated invariant."""

from __future__ import annotations

import datetime
import json
import typing as t

import pytest

witness = pytest.importorskip("tests.witness", reason="the sandbox's libraries are not installed")
audit = pytest.importorskip("sandbox.audit", reason="the sandbox's libraries are not installed")

Object = dict[str, t.Any]


def node(name: str, zone: str = "a", *, cordoned: bool = False, ours: bool | None = None) -> Object:
    marks = {} if ours is None else {witness.MARK: json.dumps({"cordoned": ours})}
    metadata = {"name": name, "uid": name, "labels": {witness.ZONE: zone}, "annotations": marks}
    return {"metadata": metadata, "spec": {"unschedulable": True} if cordoned else {}}


def vmi(uid: str = "u1", phase: str = "Running", **status: str) -> Object:
    return {"metadata": {"name": "db", "uid": uid}, "status": {"phase": phase, **status}}


def migration(name: str, phase: str = "Running", of: str = "db") -> Object:
    metadata = {"name": name, "uid": name}
    return {"metadata": metadata, "spec": {"vmiName": of}, "status": {"phase": phase}}


def begun(*vmis: str) -> list[tuple[str, str, Object]]:
    """A migration of each of these VMIs, one beside the other."""
    return [("Migration", "ADDED", migration(f"m-{name}", of=name)) for name in vmis]


def kept_apart(name: str, other: str) -> Object:
    """A VMI with a required anti-affinity to another."""
    expression = {"key": "vmi.kubevirt.io/id", "operator": "In", "values": [other]}
    term = {"labelSelector": {"matchExpressions": [expression]}, "topologyKey": witness.ZONE}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made = vmi(name)
    made["metadata"]["name"] = name
    return {**made, "spec": {"affinity": {"podAntiAffinity": terms}}}


def history(*changes: tuple[str, str, Object], nodes: t.Iterable[Object] = ()) -> t.Any:
    made = nodes or (node("w1"), node("w2", "b"), node("w3", cordoned=True))
    return witness.History(
        witness.by_name(made),
        {"db": {"metadata": {"name": "db"}, "spec": {"x": 1}}},
        witness.by_name([vmi(), kept_apart("db2", "web"), kept_apart("web", "nothing")]),
        [witness.Change(number, *change) for number, change in enumerate(changes)],
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param([("Node", "MODIFIED", node("w1", cordoned=True, ours=True))], "", id="ours"),
        pytest.param([("Node", "MODIFIED", node("w3"))], "not ours, was lifted", id="foreign"),
        pytest.param(
            [
                ("Node", "MODIFIED", node("w1", cordoned=True, ours=False)),
                ("Node", "MODIFIED", node("w1")),
            ],
            "not ours, was lifted",
            id="foreign with our mark",
        ),
        pytest.param(
            [
                ("Node", "MODIFIED", node("w1", cordoned=True, ours=True)),
                ("Node", "MODIFIED", node("w3", cordoned=True, ours=False)),
            ],
            "2 nodes in maintenance",
            id="two nodes",
        ),
        pytest.param(
            [
                ("Node", "MODIFIED", node("w1", cordoned=True, ours=True)),
                ("Node", "MODIFIED", node("w2", "b", cordoned=True, ours=True)),
            ],
            "nodes of two zones",
            id="two zones",
        ),
        pytest.param([("VMI", "DELETED", vmi())], "VMI db was deleted", id="deleted"),
        pytest.param([("VMI", "ADDED", vmi("u2"))], "was made anew", id="restarted"),
        pytest.param([("VMI", "MODIFIED", vmi(phase="Failed"))], "VMI db is Failed", id="failed"),
        pytest.param(
            [("Migration", "ADDED", migration("m1")), ("Migration", "ADDED", migration("m2"))],
            "two migrations at once",
            id="migrated twice",
        ),
        pytest.param(
            [
                ("Migration", "ADDED", migration("m1", "Succeeded")),
                ("Migration", "ADDED", migration("m2")),
            ],
            "",
            id="one after the other",
        ),
        pytest.param(begun("db", "web"), "", id="two at once"),
        pytest.param(begun("db", "web", "app"), "3 migrations at once", id="too many at once"),
        pytest.param(begun("web", "db2"), "are kept apart", id="kept apart"),
    ],
)
def test_invariant_that_is_violated_during_the_maintenance_is_reported(
    changes: list[tuple[str, str, Object]], message: str
) -> None:
    messages = history(*changes).violated_invariants()
    assert any(message in text for text in messages) if message else messages == []


def request(verb: str, what: str, name: str, uid: str = "", **fields: t.Any) -> t.Any:
    resource, _slash, subresource = what.partition("/")
    now = datetime.datetime.now(datetime.timezone.utc)
    made = {"code": 201, "dry_run": False, **fields}
    return audit.AuditEvent(
        now, "us", verb, resource, subresource, "shop", name, user_agent="", uri="", uid=uid, **made
    )


@pytest.mark.parametrize(
    ("requests", "wrong"),
    [
        pytest.param([request("create", "pods/eviction", "web", "p1")], "", id="right"),
        pytest.param([request("create", "pods/eviction", "web")], "without its UID", id="none"),
        pytest.param([request("delete", "pods", "web", "p2")], "of another object", id="other"),
        pytest.param([request("create", "pods/eviction", "web", "p1")] * 2, "twice", id="twice"),
        pytest.param(
            [request("create", "pods/eviction", "web", code=429)], "", id="refused by a budget"
        ),
        pytest.param([request("create", "pods/eviction", "web", dry_run=True)], "", id="preflight"),
        pytest.param(
            [request("update", "virtualmachines/restart", "db")], "restart", id="restarted"
        ),
    ],
)
def test_request_that_ends_another_object(requests: list[t.Any], wrong: str) -> None:
    seen = history()
    seen.pods["web"] = {"metadata": {"name": "web", "uid": "p1"}}
    found = seen.wrong_requests(requests)
    assert any(wrong in text for text in found) if wrong else found == []


REPORT = "[lab] 1 of 1 done: VirtualMachine shop/db migrated: w1 (a) -> w2 (b) in 4 s"
PATCH = request("patch", "nodes", "w1")


@pytest.mark.parametrize(
    ("outputs", "writes", "untrue"),
    [
        pytest.param([f"{REPORT}\nchanged=1"], [PATCH], "", id="true"),
        pytest.param(["killed", f"{REPORT}\nchanged=1"], [PATCH], "", id="true, run again"),
        pytest.param(
            [REPORT, f"{REPORT}\nchanged=1"], [PATCH], "reported as migrated 2", id="too many"
        ),
        pytest.param(["changed=1"], [PATCH], "is not reported", id="too few"),
        pytest.param([f"{REPORT}\nchanged=0"], [PATCH], "reports changed=False", id="unchanged"),
        pytest.param([f"{REPORT}\nchanged=1"], [], "reports changed=True", id="changed"),
    ],
)
def test_report_that_is_not_true(outputs: list[str], writes: list[t.Any], untrue: str) -> None:
    seen = history(
        ("Migration", "ADDED", migration("m1")),
        ("Migration", "MODIFIED", migration("m1", "Succeeded")),
    )
    found = seen.untrue(outputs, -1, writes)
    assert any(untrue in text for text in found) if untrue else found == []


def test_what_is_left_at_the_end() -> None:
    seen = history(
        ("VMI", "MODIFIED", vmi(evacuationNodeName="w1")),
        ("Migration", "ADDED", migration("m1")),
    )
    nodes = [node("w1", ours=True), node("w2", "c"), node("w3")]
    metadata = {"name": "db", "labels": {"team": "db"}}
    vms = {"db": {"metadata": metadata, "spec": {"x": 2}}}
    assert seen.violated_invariants_at_the_end(witness.by_name(nodes), vms) == [
        "node w1 still has the mark",
        "node w2 differs in a field that no maintenance may change",
        "node w3 differs in a field that no maintenance may change",
        "the spec of VM db was changed",
        "VM db has other labels, annotations or owners of fields",
        "VMI db still has a mark of evacuation",
        "migration m1 has not ended",
    ]


def test_untouched_cluster_violates_no_invariant() -> None:
    seen = history()
    assert seen.violated_invariants() == []
    assert seen.violated_invariants_at_the_end(seen.nodes, seen.vms) == []
