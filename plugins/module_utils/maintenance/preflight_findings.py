# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of the findings of a maintenance. Pure, and without the forecast that some of them come from."""

from __future__ import annotations

from ..model.obstacle import (
    BARE_POD,
    DAEMONSET_MISSING,
    LOCAL_DATA_LOST,
    NAMES_NODE,
    STANDALONE_VMI,
    TOLERATES_CORDON,
)

PENDING_CHANGES = "pending_changes"
"""Finding: a restart of the VM would also apply changes that are not about placement."""

ALLOW_PENDING_CHANGES = f"allow the finding {PENDING_CHANGES}"
"""What a user of a drain does to apply them."""

DO_NOT_MOVE_FINDING = "do_not_move"
"""Finding: a label keeps the VM or the pod where it is."""

PDB_IMPOSSIBLE = "pdb_impossible"
PDB_BLOCKS = "pdb_blocks"
PDB_DELEGATED = "pdb_delegated"
EVICTION_FAILS = "eviction_fails"

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
        BARE_POD,
        DAEMONSET_MISSING,
        LOCAL_DATA_LOST,
        STANDALONE_VMI,
        PDB_IMPOSSIBLE,
        PDB_BLOCKS,
        PDB_DELEGATED,
        EVICTION_FAILS,
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
