# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint of what stands on a cluster."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from .cluster_scene import scene_of
from .report import lint_scene


def lint(
    snapshot: Snapshot,
    *,
    topology: Topology | None = None,
    workloads: t.Collection[Ref] | None = None,
    namespaces: t.Collection[str] | None = None,
) -> tuple[Finding, ...]:
    """The findings about `workloads` (None: about all) in `namespaces` (None: in all). What could
    not be read counts as not known, so that nothing is found for want of a right."""
    return lint_scene(
        scene_of(snapshot, topology or Topology.of(), workloads=workloads, namespaces=namespaces)
    )
