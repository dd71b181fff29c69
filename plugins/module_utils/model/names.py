# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every name that the collection writes to a cluster. Nothing else spells them out."""

from __future__ import annotations

PREFIX = "placement.virt/"

RULES = f"{PREFIX}rules"
"""Annotation on a workload: which rule put which terms there, and the uid of the object."""

JOURNAL = f"{PREFIX}journal"
"""Annotation on a workload: the terms that were last effective, until a roll-out ends well."""

NODE_LABELS = f"{PREFIX}node-labels"
"""Annotation on a node: the labels that were set by us, with their values."""

GROUP = f"{PREFIX}group-"
"""Label on template, VMI and pod of a group that no label of its own tells apart; a digest follows."""

RUN = f"{PREFIX}run"
"""Annotation and label on what a run creates or changes: the id of the run."""

LEASE_NAMESPACE = "kube-system"
LEASE = "virt-placement"
"""The one Lease of a cluster, held by whoever disrupts."""

FIELD_MANAGER = "virt-placement"
