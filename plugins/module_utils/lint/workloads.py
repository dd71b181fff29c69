# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about whose a workload is, and whether the rules on it are in force as written."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..systems.gitops import managed_by
from ..verdicts.findings import findings_of_workload
from .scene import Scene


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        yield from findings_of_workload(subject.declared)
        manager = managed_by(subject.workload) if subject.workload is not None else None
        if manager is not None and subject.declared.rules:
            yield subject.finding(
                None,
                "managed_by",
                "warning",
                f"It carries rules and is managed by {manager}, which may take them back.",
                "Put the terms where the object comes from, and let the rules adopt them.",
            )
