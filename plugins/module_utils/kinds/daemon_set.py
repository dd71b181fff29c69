# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a DaemonSet? It has a pod on each node that its template fits, and is only read."""

from __future__ import annotations

from .kind import Kind

DAEMON_SET = Kind(
    "DaemonSet",
    "apps/v1",
    "daemonsets",
    virtual_machines=False,
    older_groups=("extensions",),
    takes_rules=False,
    per_node=True,
    refused_by_events=True,
)
