# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which eviction strategy does a VMI have, and what does KubeVirt do then when its pod is to be evicted?

Source: KubeVirt, api/core/v1/types.go (EvictionStrategy) and the webhook pod-eviction-admitter.
"""

from __future__ import annotations

from ..model.snapshot import Platform, Vmi

NONE = "None"
"""The eviction ends the VMI, whether or not it could migrate."""

LIVE_MIGRATE = "LiveMigrate"
"""The eviction becomes a live migration, or is refused."""

LIVE_MIGRATE_IF_POSSIBLE = "LiveMigrateIfPossible"
"""The eviction becomes a live migration, and ends a VMI that cannot migrate."""

EXTERNAL = "External"
"""The eviction is refused, and evacuationNodeName is set: another controller has to move the VMI."""


def eviction_strategy(vmi: Vmi, platform: Platform) -> str:
    """The strategy of the VMI, or else the cluster's."""
    return vmi.eviction_strategy or platform.eviction_strategy or NONE
