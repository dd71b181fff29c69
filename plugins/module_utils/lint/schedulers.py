# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pods does another scheduler place than kube-scheduler's default profile?"""

from __future__ import annotations

import typing as t

from ..model.findings import Finding
from .lint_input import LintInput

_DEFAULT = "default-scheduler"


def scheduler_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """The name may come from an instance type."""
    for subject in lint_input.subjects:
        vmi = lint_input.next_pods.vmi(subject)
        spec = vmi.spec if vmi is not None else subject.spec or {}
        name = spec.get("schedulerName")
        if isinstance(name, str) and name not in ("", _DEFAULT):
            own = (subject.spec or {}).get("schedulerName") == name
            scheduler = f"scheduler {name}" if own else f"scheduler {name} of its instance type"
            yield subject.finding(
                None,
                "other_scheduler",
                "info",
                f"The {scheduler} places its pods. What is found here is true of kube-scheduler.",
                "Look whether that scheduler has the same filters.",
            )
