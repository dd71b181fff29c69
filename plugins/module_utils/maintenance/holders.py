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

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Taint that an administrator or a fencing agent sets on a node that is shut down: its pods are deleted, and none may
run there until it is removed (kubernetes pkg/controller/podgc)."""


class Holder(t.NamedTuple):
    """A system, and the mark of a node that it holds: an annotation whose value begins so, a taint of any value, or the
    condition MaintenanceMode. `meaning`: of the mark, as a clause."""

    system: str
    annotation: str = ""
    begins: str = ""
    taint: str = ""
    meaning: str = ""
    advice: str = "Let that end first: it may reboot the node, and it uncordons it."

    def holds(self, node: Node) -> bool:
        """Whether the node has the mark."""
        if self.taint:
            return any(taint.key == self.taint for taint in node.taints)
        if self.annotation:
            value = node.annotations.get(self.annotation)
            return bool(value and value.startswith(self.begins))
        return node.maintenance_mode

    def __str__(self) -> str:
        if self.taint:
            return f"{self.system} (taint {self.taint}{self.meaning})"
        mark = f"annotation {self.annotation}" if self.annotation else "condition MaintenanceMode"
        return f"{self.system} ({mark})"


HOLDERS = (
    Holder(
        "the Machine Config Operator",
        annotation="machineconfiguration.openshift.io/desiredDrain",
        begins="drain-",
    ),
    Holder("the Node Maintenance Operator", taint="medik8s.io/drain"),
    Holder(
        "another client",
        taint=OUT_OF_SERVICE,
        meaning=", which says that the node is shut down",
        advice=f"Remove the taint {OUT_OF_SERVICE} once the node runs again, unless the agent that set it does so.",
    ),
    Holder("Harvester", annotation="harvesterhci.io/drain-requested"),
    Holder("Harvester", annotation="harvesterhci.io/maintain-status"),
    Holder("Harvester"),
)
"""A row for each mark; the first that a node has is named. Sources: the Machine Config Operator writes drain-HASH while
it wants the node drained, then uncordon-HASH (machine-config-operator, pkg/daemon/constants/constants.go). The taint of
the Node Maintenance Operator stays as long as a NodeMaintenance object names the node (node-maintenance-operator,
controllers/taint.go). Harvester: a maintenance was requested; it is running or completed (harvester,
pkg/util/drainhelper and pkg/controller/master/node)."""

HOLDING_ANNOTATIONS = tuple(holder.annotation for holder in HOLDERS if holder.annotation)
"""What `held_by` reads of annotations."""

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


def holder_of(node: Node) -> Holder | None:
    """The system that holds the node, by a mark that is its own; None if there is none."""
    return next((holder for holder in HOLDERS if holder.holds(node)), None)


def held_by(node: Node, taints_before: t.Collection[str] | None = None) -> str | None:
    """The system that holds the node, and by which mark; None if there is none. With `taints_before`, the
    `lasting_taints` of an earlier time, a taint that came since then counts, too. They are None where they are not
    known."""
    if (holder := holder_of(node)) is not None:
        return str(holder)
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
