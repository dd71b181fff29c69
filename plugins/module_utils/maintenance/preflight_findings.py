# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of the findings of a maintenance. Pure, and without the forecast that some of them come from."""

from __future__ import annotations

from ..model.obstacle import NAMES_NODE, TOLERATES_CORDON
from .budget_findings import OF_BUDGETS
from .pods import DO_NOT_MOVE_FINDING, OF_PODS, PENDING_CHANGES

NOT_MIGRATABLE = "not_migratable"
NOT_RESTARTABLE = "not_restartable"
NOT_EVICTABLE = "not_evictable"
REFUSED_BY_POLICY = "refused_by_policy"
INVALID_POLICY = "invalid_policy"
NO_PLACE = "no_place"
PLACE_UNKNOWN = "place_unknown"
SHARED_DOMAIN = "shared_domain"
LAST_NODE_OF_DOMAIN = "last_node_of_domain"
POLICY_FALLBACK = "policy_fallback"
CONTROL_PLANE_QUORUM = "control_plane_quorum"
JOB_ON_NODE = "job_on_node"
HEALTH_CHECK = "health_check"
CONFIG_POOL_UPDATING = "config_pool_updating"
OTHER_MAINTENANCE = "other_maintenance"
KUBEVIRT_UPDATING = "kubevirt_updating"
NODE_NOT_READY = "node_not_ready"
OTHER_ZONE_NOT_READY = "other_zone_not_ready"
MIGRATION_REFUSED = "migration_refused"
BACKUP_RUNNING = "backup_running"
NOT_CHECKED = "not_checked"

PREFLIGHT_FINDINGS = frozenset(
    (
        *OF_PODS,
        *OF_BUDGETS,
        PENDING_CHANGES,
        NODE_NOT_READY,
        OTHER_ZONE_NOT_READY,
        NO_PLACE,
        PLACE_UNKNOWN,
        SHARED_DOMAIN,
        LAST_NODE_OF_DOMAIN,
        NOT_MIGRATABLE,
        MIGRATION_REFUSED,
        NOT_RESTARTABLE,
        NOT_EVICTABLE,
        POLICY_FALLBACK,
        DO_NOT_MOVE_FINDING,
        REFUSED_BY_POLICY,
        INVALID_POLICY,
        CONTROL_PLANE_QUORUM,
        JOB_ON_NODE,
        HEALTH_CHECK,
        CONFIG_POOL_UPDATING,
        OTHER_MAINTENANCE,
        KUBEVIRT_UPDATING,
        BACKUP_RUNNING,
        TOLERATES_CORDON,
        NAMES_NODE,
        NOT_CHECKED,
    )
)
"""All names, which `allow_findings` may contain."""
