# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All families of findings over one scene."""

from __future__ import annotations

from ..model.finding import Finding
from . import request, server, workloads
from .merging import merged
from .scene import Scene

FAMILIES = (*request.FAMILIES, workloads, server)


def lint_scene(scene: Scene) -> tuple[Finding, ...]:
    """Every finding of a scene, the worst first."""
    return merged(finding for family in FAMILIES for finding in family.findings(scene))
