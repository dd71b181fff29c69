# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where are instances in the API, and which names does the collection write to a cluster?"""

from __future__ import annotations

from ..kinds.vmi import KUBEVIRT_V1, VMI, VMIS
from .objects import Ref

MIGRATIONS = "virtualmachineinstancemigrations"
INSTANCE_LISTS = ("pods", VMIS, "nodes")
"""The lists of what runs, and where: each that could not be read is one more unknown."""


def instances_path(kind: str, namespace: str) -> str:
    """The API path of the VMIs of a namespace; of its pods for any other `kind`."""
    if kind == VMI:
        return f"/apis/{KUBEVIRT_V1}/namespaces/{namespace}/{VMIS}"
    return f"/api/v1/namespaces/{namespace}/pods"


def instance_path(instance: Ref) -> str:
    """The API path of a VMI or a pod."""
    return f"{instances_path(instance.kind, instance.namespace)}/{instance.name}"


PREFIX = "placement.virt/"

DO_NOT_MOVE = f"{PREFIX}do-not-move"
"""Label on a workload: a rollout skips its instances."""

RULES = f"{PREFIX}rules"
"""Annotation on a workload: which rule put which terms there, and the uid of the object."""

UNDO = f"{PREFIX}undo"
"""Annotation on a workload: the undo record, which is the placement before the last change of the rules."""

HOLD = f"{PREFIX}hold"
"""Annotation on a StatefulSet or pool: its update strategy before a write of rules set its own rollout aside
(`holds/hold.py`)."""

JOURNAL = f"{PREFIX}journal"
"""Annotation on the Lease: the state of the run."""

DRAINED = f"{PREFIX}drained"
"""Annotation on the Lease: the marks of the nodes that are drained (`maintenance/drained_nodes.py`)."""

MAINTENANCE = f"{PREFIX}maintenance"
"""Annotation on a node: the mark of its maintenance (`maintenance/mark.py`)."""

SERVICED = f"{PREFIX}serviced"
"""Annotation on a node: the `change_id` of the maintenance that was done last."""

SERVICED_AT = f"{PREFIX}serviced-at"
"""Annotation on a node: when that maintenance ended (RFC 3339)."""

MOVED_AWAY = f"{PREFIX}moved-away"
"""Annotation on a node: the workloads that its last maintenance moved away or stopped (`maintenance/mark.py`)."""

START_AGAIN = f"{PREFIX}start-again"
"""Annotation on a node: the VMs that its last maintenance stopped and that are to be started, with their run
strategies (`maintenance/start_again.py`)."""

SERVICED_LATER = f"{PREFIX}serviced-later"
"""Taint of a node that the job of a drain services later; its value is the run (`maintenance/steering.py`)."""

NODE_LABELS = f"{PREFIX}node-labels"
"""Annotation on a node: the labels that node_labels set, with their values."""

GROUP = f"{PREFIX}group-"
"""Prefix of the label that a group gets if no other label selects exactly its pods; a digest
follows. The label is on template, VMI and pod."""

HOLDER = f"{PREFIX}holder"
"""Annotation of the Lease: account, host and job of the run that took it last, in words."""

RUN = f"{PREFIX}run"
"""Annotation and label on what a run creates or changes: the id of the run."""

LEASE_NAMESPACE = "kube-system"
LEASE = "virt-placement"
"""The one Lease of a cluster, held by the run that disrupts workloads."""

FIELD_MANAGER = "virt-placement"
