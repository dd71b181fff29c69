# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which placement fields of a VM reach its running VMI, and under which rollout strategy?"""

from __future__ import annotations

from ..model.snapshot import Platform

SPREAD_FIELD = "topologySpreadConstraints"
PLACEMENT_FIELDS = ("affinity", "nodeSelector", "tolerations", SPREAD_FIELD)

LIVE_UPDATE, STAGE = "LiveUpdate", "Stage"
"""Values of `vmRolloutStrategy`."""

LIVE_BY_DEFAULT_SINCE = (1, 6)
"""First KubeVirt in which LiveUpdate is the default (pkg/virt-config, IsVMRolloutStrategyLiveUpdate)."""

LIVE_WITHOUT_GATE_SINCE = (1, 5)
"""First KubeVirt in which LiveUpdate needs no feature gate VMLiveUpdateFeatures (pkg/virt-config/featuregate)."""

LIVE_TOLERATIONS_SINCE = (1, 4)
"""First KubeVirt in which tolerations are live (watch/vm/vm.go, handleTolerationsChangeRequest)."""


def rollout_strategy(platform: Platform) -> str:
    """The strategy that KubeVirt follows. An unknown version is taken for a new one."""
    configured, running = platform.rollout_strategy, platform.kubevirt_release
    if running == (0, 0) or running >= LIVE_BY_DEFAULT_SINCE:
        return configured or LIVE_UPDATE
    gates = (platform.configuration.get("developerConfiguration") or {}).get("featureGates") or ()
    if running < LIVE_WITHOUT_GATE_SINCE and "VMLiveUpdateFeatures" not in gates:
        return STAGE
    return configured or STAGE


def waiting_fields(platform: Platform) -> tuple[str, ...]:
    """The placement fields of a VM of which a change waits for its restart."""
    if rollout_strategy(platform) != LIVE_UPDATE:
        return PLACEMENT_FIELDS
    if (0, 0) < platform.kubevirt_release < LIVE_TOLERATIONS_SINCE:
        return ("tolerations", SPREAD_FIELD)
    return (SPREAD_FIELD,)
