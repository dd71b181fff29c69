# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about placements that can be stored and of which no pod can be made.

KubeVirt's webhook checks less than the API server does when it is given the launcher pod, and a
manifest has been checked by nobody.
"""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..scheduling.validation import ValidationError, validate_pod_placement
from .scene import Scene, Subject

_SAID_ELSEWHERE = "nodeSelectorTerms"
"""A required node affinity without terms is the finding empty_term."""

_SHOWN = 3


def findings(scene: Scene) -> t.Iterator[Finding]:
    for subject in scene.subjects:
        if subject.spec is None:
            continue
        errors = [
            error
            for error in validate_pod_placement(subject.spec, subject.declared.labels)
            if not error.field.endswith(_SAID_ELSEWHERE)
        ]
        if errors:
            yield _invalid(subject, errors)


def _invalid(subject: Subject, errors: t.Sequence[ValidationError]) -> Finding:
    """No rule's: terms of rules are checked before they are written."""
    said = [f"{error.field} {error.detail or 'is required'}" for error in errors[:_SHOWN]]
    more = f" and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    return Finding(
        "invalid_placement",
        "error",
        f"The API server refuses pods made from its template: {'; '.join(said)}{more}.",
        "Correct the fields; what runs already stays, and can neither restart nor migrate.",
        (subject.ref,),
    )
