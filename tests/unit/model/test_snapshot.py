# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of a workload, and why it gets no further pod."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload

NOT_YET = {"type": "Ready", "status": "False", "reason": "Starting"}
WAITS = {"type": "RestartRequired", "status": "True"}


def machine(**manifest: t.Any) -> Workload:
    return Workload(Ref("VirtualMachine", "shop", "db"), "uid", {"metadata": {}, **manifest})


def test_condition_is_returned_by_type_and_status() -> None:
    workload = machine(status={"conditions": [NOT_YET, WAITS]})

    assert workload.condition("RestartRequired") == WAITS
    assert workload.condition("Ready") is None
    assert workload.condition("Ready", "False") == NOT_YET
    assert workload.condition("Progressing", "False") is None


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": [{}]}], ids=str)
def test_object_without_conditions_has_none(status: t.Any) -> None:
    assert machine(status=status).condition("RestartRequired") is None
    assert machine().condition("RestartRequired") is None


def condition(kind: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": "True", **more}


@pytest.mark.parametrize(
    ("kind", "status", "text"),
    [
        ("Deployment", {}, None),
        (
            "Deployment",
            {"conditions": [condition("ReplicaFailure", message="no\nroom")]},
            "no room",
        ),
        (
            "VirtualMachinePool",
            {"conditions": [condition("ReplicaFailure", reason="Quota")]},
            "Quota",
        ),
        ("Deployment", {"conditions": [condition("ReplicaFailure")]}, "ReplicaFailure"),
        ("Deployment", {"conditions": [{**condition("ReplicaFailure"), "status": "False"}]}, None),
        ("VirtualMachine", {"conditions": [condition("Failure", message="quota")]}, "quota"),
        ("VirtualMachine", {"created": True, "conditions": [condition("Failure")]}, None),
    ],
)
def test_refusal_is_what_the_controller_of_a_workload_reports(
    kind: str, status: t.Any, text: str | None
) -> None:
    manifest = {"metadata": {}, "status": status}
    refusal = Workload(Ref(kind, "shop", "web"), "uid", manifest).refusal
    assert (refusal and (refusal.code, refusal.text)) == (text and ("refused", text))
