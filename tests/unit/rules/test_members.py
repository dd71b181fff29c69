# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The label by which a selector selects exactly the VMs of a group."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    hostname,
    vmi_id,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
    Workload,
)

from .builders import applied, plan, running, snapshot, vm

ID = "vmi.kubevirt.io/id"
HOSTNAME = "vm.kubevirt.io/name"
OLD = Platform(uid="c", kubernetes=(1, 34), kubevirt="v1.6.2")
RULE = {"name": "r", "workloads": [{"names": ["a", "b"]}], "keep_apart": {"topology_key": "zone"}}


def _key(seen: Snapshot) -> tuple[str, tuple[str, ...]]:
    found = plan(seen, RULE).workloads[0].merged.after
    terms = found["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = terms[0]["labelSelector"]["matchExpressions"]
    return expression["key"], tuple(expression["values"])


def _pair(**options: t.Any) -> tuple[Workload, Workload]:
    return vm("a", **options), vm("b", **options)


def test_the_id_where_every_running_pod_carries_it() -> None:
    a, b = _pair()
    assert _key(snapshot(a, b, run=[running(a), running(b)])) == (ID, ("a", "b"))
    assert _key(snapshot(a, b, run=[running(a)], platform=OLD)) == (ID, ("a", "b"))


def test_the_id_where_nothing_runs_and_kubevirt_makes_it() -> None:
    assert _key(snapshot(*_pair())) == (ID, ("a", "b"))
    assert _key(snapshot(*_pair(), platform=OLD)) == (HOSTNAME, ("a", "b"))


def test_the_hostname_where_a_pod_is_older_than_the_id() -> None:
    a, b = _pair()
    seen = snapshot(a, b, run=[running(a), running(b, without=(ID,))])
    assert _key(seen) == (HOSTNAME, ("a", "b"))


def test_hostnames_are_those_of_the_guests() -> None:
    a, b = vm("a", placement={"hostname": "alpha"}), vm("b")
    seen = snapshot(a, b, run=[running(a, without=(ID,)), running(b)])
    assert _key(seen) == (HOSTNAME, ("alpha", "b"))


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(lambda: ([vm("c", placement={"hostname": "a"})], []), id="a halted machine"),
        pytest.param(
            lambda: ([], [running(vm("a-later", placement={"hostname": "a"}))]), id="a stray pod"
        ),
    ],
)
def test_group_label_is_used_if_another_vm_has_the_hostname(others: t.Any) -> None:
    a, b = _pair()
    workloads, run = others()
    seen = snapshot(a, b, *workloads, run=[running(a, without=(ID,)), running(b), *run])
    key, values = _key(seen)
    assert key.startswith("placement.virt/group-")
    assert values == ("member",)


def test_a_group_that_has_a_label_of_ours_keeps_it() -> None:
    a, b = _pair(placement={"hostname": "same"})
    c = vm("c", placement={"hostname": "same"})
    first = plan(snapshot(a, b, c, run=[running(a, without=(ID,)), running(b)]), RULE)
    writes = {write.target.name: write for write in first.writes if write.target.kind == a.ref.kind}
    after = [
        Workload(each.ref, each.uid, applied(dict(each.manifest), writes[each.ref.name]))
        for each in (a, b)
    ]
    run = [running(each) for each in after]
    again = plan(snapshot(*after, c, run=run), RULE)
    assert not again.writes, "the pods carry their ids by now, and still nothing changes"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", "a"),
        ("x" * 63, "x" * 63),
        # as KubeVirt 1.8.4 labels the pod of a machine of this name
        (
            "a-machine-whose-name-is-as-long-as-people-make-them-for-big-systems-70",
            "a-machine-whose-name-is-as-long-as-people-make-them-fo-965cbd45",
        ),
    ],
)
def test_selector_by_vmi_id(name: str, expected: str) -> None:
    assert vmi_id(name) == expected
    assert len(vmi_id(name)) <= 63


@pytest.mark.parametrize(
    ("name", "own", "expected"),
    [("a.b.c", None, "a"), ("x" * 70, None, "x" * 63), ("a", "host", "host")],
)
def test_selector_by_hostname(name: str, own: str | None, expected: str) -> None:
    placement = {"hostname": own} if own else {}
    assert hostname(vm(name, placement=placement)) == expected
