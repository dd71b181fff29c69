# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a workload object says of itself."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload

NOT_YET = {"type": "Ready", "status": "False", "reason": "Starting"}
WAITS = {"type": "RestartRequired", "status": "True"}


def machine(**manifest: t.Any) -> Workload:
    return Workload(Ref("VirtualMachine", "shop", "db"), "uid", {"metadata": {}, **manifest})


def test_a_condition_is_found_by_its_type_and_status() -> None:
    found = machine(status={"conditions": [NOT_YET, WAITS]})

    assert found.condition("RestartRequired") == WAITS
    assert found.condition("Ready") is None
    assert found.condition("Ready", "False") == NOT_YET
    assert found.condition("Progressing", "False") is None


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": [{}]}], ids=str)
def test_an_object_that_says_nothing_has_no_condition(status: t.Any) -> None:
    assert machine(status=status).condition("RestartRequired") is None
    assert machine().condition("RestartRequired") is None
