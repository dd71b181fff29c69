# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which other system holds a node for a maintenance of its own? Pure.

Such a system uncordons the node itself. Until then pods must not be placed there: it reboots the node, or drains
it again.
"""

from __future__ import annotations

import typing as t

from ..model.objects import Node, Taint
from ..scheduler.node_state import UNSCHEDULABLE_TAINT

DESIRED_DRAIN = "machineconfiguration.openshift.io/desiredDrain"
"""Annotation of the Machine Config Operator: drain-HASH while it wants the node drained, then uncordon-HASH
(machine-config-operator, pkg/daemon/constants/constants.go)."""

NODE_MAINTENANCE_TAINT = "medik8s.io/drain"
"""Taint of the Node Maintenance Operator, as long as a NodeMaintenance object names the node
(node-maintenance-operator, controllers/taint.go)."""

HARVESTER_REQUESTED = "harvesterhci.io/drain-requested"
HARVESTER_STATUS = "harvesterhci.io/maintain-status"
"""Annotations of Harvester: a maintenance was requested; it is running or completed
(harvester, pkg/util/drainhelper and pkg/controller/master/node)."""

HOLDING_ANNOTATIONS = (DESIRED_DRAIN, HARVESTER_REQUESTED, HARVESTER_STATUS)
"""What `held_by` reads of annotations."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint that an administrator or a fencing agent sets on a node that is shut down: its pods are deleted, and none may
run there until it is removed (kubernetes pkg/controller/podgc)."""

SHUT_DOWN = f"another client (taint {OUT_OF_SERVICE}, which says that the node is shut down)"
"""What `held_by` returns for that taint. Kubernetes does not remove it."""

_OF_NODE_STATE = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "readiness.k8s.io/",
)
"""Taints by which Kubernetes says what state a node is in, such as not-ready. They go by themselves."""

_LASTING_STATES = (
    UNSCHEDULABLE_TAINT.key,
    OUT_OF_SERVICE,
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
)
"""Those of them that a node may have long after its start (kubernetes, api core/v1 well_known_taints.go)."""

_OF_COMPONENTS = (
    "agent-not-ready",
    "network-unavailable",
    "not-ready",
    "uninitialized",
    "unregistered",
)
"""Names of taints that a component of the node removes once it is ready, whatever its prefix, such as
node.cilium.io/agent-not-ready, ebs.csi.aws.com/agent-not-ready, node.cluster.x-k8s.io/uninitialized."""


def held_by(node: Node, taints_before: t.Collection[str] | None = None) -> str | None:
    """The system that holds the node, and by which mark; None if there is none. With `taints_before`, the
    `lasting_taints` of an earlier time, a taint that came since then counts, too. They are None where they are not
    known."""
    if node.annotations.get(DESIRED_DRAIN, "").startswith("drain-"):
        return f"the Machine Config Operator (annotation {DESIRED_DRAIN})"
    if any(taint.key == NODE_MAINTENANCE_TAINT for taint in node.taints):
        return f"the Node Maintenance Operator (taint {NODE_MAINTENANCE_TAINT})"
    if any(taint.key == OUT_OF_SERVICE for taint in node.taints):
        return SHUT_DOWN
    for key in (HARVESTER_REQUESTED, HARVESTER_STATUS):
        if node.annotations.get(key):
            return f"Harvester (annotation {key})"
    if node.maintenance_mode:
        return "Harvester (condition MaintenanceMode)"
    if taints_before is None:
        return None
    new = [text for text in lasting_taints(node) if text not in taints_before]
    return f"another client (taint {', '.join(new)})" if new else None


def lasting_taints(node: Node) -> tuple[str, ...]:
    """Taints that keep pods away, without those that Kubernetes or a component of the node sets until it is ready."""
    return tuple(
        _text(taint)
        for taint in node.taints
        if taint.effect != "PreferNoSchedule" and not _goes_by_itself(taint)
    )


def startup_taints(node: Node) -> tuple[str, ...]:
    """Taints that keep pods away until Kubernetes or a component of the node has removed them after its start."""
    return tuple(
        _text(taint)
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
        and _goes_by_itself(taint)
        and taint.key not in _LASTING_STATES
    )


def _goes_by_itself(taint: Taint) -> bool:
    name = taint.key.rpartition("/")[2]
    return taint.key.startswith(_OF_NODE_STATE) or name in _OF_COMPONENTS


def _text(taint: Taint) -> str:
    return (
        f"{taint.key}={taint.value}:{taint.effect}"
        if taint.value
        else f"{taint.key}:{taint.effect}"
    )
