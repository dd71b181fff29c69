# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors find the workloads they name; what they do not find is an error with the nearest names."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.rule import WorkloadSelector
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.view.selection import (
    WorkloadLookup,
    look_up,
    question_of,
)
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import Cluster

VM = "VirtualMachine"


def select(selector: WorkloadSelector, **changed: t.Any) -> tuple[tuple[Ref, ...], list[str]]:
    """The selected references, and the errors."""
    cluster = Cluster("a")
    for name in ("db2", "db1"):
        cluster.vm(name, tier="db")
    cluster.vm("web", tier="web")
    cluster.workload("Deployment", "front", {"template": {"metadata": {"labels": {}}}})
    cluster.bare_pod("alone", "n1", tier="db")
    errors: list[InputError] = []
    lookup = WorkloadLookup(view_of(cluster.snapshot(**changed)), errors)
    return lookup.select(selector, "workloads[0]"), [str(error) for error in errors]


def test_names_select_in_their_order() -> None:
    found = (Ref(VM, "shop", "web"), Ref(VM, "shop", "db1"))
    assert select(WorkloadSelector(VM, "shop", ("web", "db1"))) == (found, [])


def test_labels_select_by_template_in_the_order_of_names() -> None:
    found = (Ref(VM, "shop", "db1"), Ref(VM, "shop", "db2"))
    assert select(WorkloadSelector(VM, "shop", labels={"tier": "db"})) == (found, [])
    assert select(WorkloadSelector(VM, "shop", labels={"tier": "none"})) == ((), [])


def test_bare_pods_are_selected_by_their_own_labels() -> None:
    found = (Ref("Pod", "shop", "alone"),)
    assert select(WorkloadSelector("Pod", "shop", labels={"tier": "db"})) == (found, [])


@pytest.mark.parametrize(
    ("kind", "name", "hint"),
    [
        (VM, "wep", "; did you mean 'web'?"),
        (VM, "front", "; there is a Deployment of that name, set kind"),
        ("Deployment", "web", "; there is a VirtualMachine of that name, set kind"),
        (VM, "zzzzzz", ""),
    ],
)
def test_unknown_name_is_an_error_with_a_hint(kind: str, name: str, hint: str) -> None:
    found, errors = select(WorkloadSelector(kind, "shop", (name,)))

    assert found == ()
    assert errors == [f"workloads[0]: there is no {kind} {name!r} in namespace 'shop'{hint}"]


def test_unreadable_kind_is_an_error_and_its_workloads_are_not_reported_missing() -> None:
    unreadable = (Unreadable("virtualmachines", "shop", "list", "grant it"),)
    found, errors = select(WorkloadSelector(VM, "shop", ("none",)), unreadable=unreadable)

    assert (found, errors) == (
        (),
        ["workloads[0]: cannot list virtualmachines in namespace shop: grant it"],
    )


def test_vm_without_kubevirt_is_an_error() -> None:
    found, errors = select(WorkloadSelector(VM, "shop", ("db1",)), platform=Platform())

    assert found == ()
    assert errors == [
        "workloads[0]: KubeVirt is not installed on this cluster, so it has no VirtualMachine"
    ]


def test_unknown_namespace_is_an_error_once() -> None:
    errors: list[InputError] = []
    lookup = WorkloadLookup(view_of(Cluster("a").snapshot()), errors)

    assert lookup.check_namespace("shop", "namespaces")
    assert not lookup.check_namespace("shpo", "namespaces")
    assert not lookup.check_namespace("shpo", "namespaces")
    assert [str(error) for error in errors] == [
        "namespaces: there is no namespace 'shpo'; did you mean 'shop'?"
    ]


def test_excluded_namespaces_are_left_out() -> None:
    cluster = Cluster("a")
    query = question_of(None, None, ["shop"])
    assert query.read is None

    selected = look_up(query, cluster.snapshot())

    assert selected.namespaces is not None
    assert "shop" not in selected.namespaces
    assert not selected.covers(Ref("Deployment", "shop", "web"))
    assert look_up(question_of(["shop"], None, []), cluster.snapshot()).namespaces == ("shop",)


@pytest.mark.parametrize(
    ("listed", "read"),
    [
        (["db1", "db2"], [(VM, "db1"), (VM, "db2")]),
        ("db1", [(VM, "db1")]),
        (["db1", {"kind": "Deployment", "name": "web"}], [(VM, "db1"), ("Deployment", "web")]),
        ([{"names": ["db1", "db2"]}, {"name": "db3"}], [(VM, "db1", "db2"), (VM, "db3")]),
        ([{"kind": "Pod", "name": "alone"}], [("Pod", "alone")]),
        ([], []),
    ],
)
def test_a_query_takes_the_workloads_of_rules_in_short(listed: t.Any, read: list[t.Any]) -> None:
    query = question_of(["shop"], listed)

    assert query.workloads is not None
    assert [(x.kind, *x.names) for x in query.workloads] == read
    assert {x.namespace for x in query.workloads} <= {"shop"}


@pytest.mark.parametrize(
    ("namespaces", "listed", "errors"),
    [
        (["shop"], ["db1", "db1"], ["workloads: has 'db1' more than once"]),
        (["shop"], [""], ["workloads[0]: must not be empty"]),
        (["shop"], [{"nme": "db1"}], ["workloads[0]: unknown option 'nme'; did you mean 'name'"]),
        (["shop", "web"], ["db1"], ["workloads[0], namespace: is missing"]),
        (["shop"], [{"kind": "Pods", "name": "a"}], ["workloads[0], kind: 'Pods' is not a kind"]),
        (["shop"], [7], ["workloads[0]: must be the name of a VM, or a map of kind, namespace"]),
    ],
)
def test_each_error_of_a_query_names_its_workload(
    namespaces: list[str], listed: t.Any, errors: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        question_of(namespaces, listed)

    messages = [str(error) for error in caught.value.errors]
    for message, beginning in zip(messages, errors, strict=True):
        assert message.startswith(beginning)
