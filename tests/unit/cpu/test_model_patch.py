# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The patch that gives a workload another CPU model."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cpu.model_patch import model_patch

from .labeled_nodes import labeled

CPU = {"model": "Broadwell-noTSX"}


@pytest.mark.parametrize(
    ("domain", "cpu"),
    [
        ({}, {**CPU, "sockets": 1}),
        ({"cpu": {"cores": 4}}, {**CPU, "sockets": 1}),
        ({"resources": {"requests": {"cpu": "2500m"}}}, {**CPU, "sockets": 3}),
        ({"cpu": {"model": "host-model", "sockets": 2}}, CPU),
    ],
)
def test_patch_has_the_sockets_that_the_vm_has_anyway(
    domain: dict[str, t.Any], cpu: dict[str, t.Any]
) -> None:
    made = labeled({"i1": "Broadwell-noTSX"})
    made.run("db", "i1", {"domain": domain})
    snapshot = made.snapshot()
    (vm,) = snapshot.workloads

    patch = model_patch(vm, "Broadwell-noTSX", snapshot.platform)

    assert patch == {"spec": {"template": {"spec": {"domain": {"cpu": cpu}}}}}
