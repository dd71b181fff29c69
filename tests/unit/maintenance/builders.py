# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of a drain share."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.maintenance.options import (
    MaintenanceOptions,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology

DRAIN_W1 = MaintenanceOptions(
    nodes=("w1",),
    labels=(),
    state="drained",
    reason="",
    change_id="",
    vm_policy=("migrate",),
    reboot_expected=False,
    max_nodes=1,
    window=None,
    allow_findings=frozenset(),
    run_timeout=60,
    move_timeout=60,
    topology=Topology.of({}),
)
