# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about placements that can be stored and of which no pod can be made.

KubeVirt's webhook checks less than the API server does when it is given the launcher pod, and a
manifest has been checked by nobody.
"""

from __future__ import annotations

import marshal
import typing as t

from ..model.finding import Finding
from ..model.objects import Labels
from ..model.pointer import JSON
from ..rules.slots import FIELDS
from ..scheduling.validation import ValidationError, validate_pod_placement
from .scene import Scene, Subject

_SAID_ELSEWHERE = "nodeSelectorTerms"
"""A required node affinity without terms is the finding empty_term."""

_SHOWN = 3


def findings(scene: Scene) -> t.Iterator[Finding]:
    known: dict[bytes, list[ValidationError]] = {}
    for subject in scene.subjects:
        if subject.spec is None:
            continue
        said = {name: subject.spec.get(name) for name in FIELDS}
        labels = subject.declared.labels
        key = marshal.dumps([said, dict(labels)], 2)
        if key not in known:
            known[key] = _errors(said, labels)
        if known[key]:
            yield _invalid(subject, known[key])


def _errors(said: t.Mapping[str, JSON], labels: Labels) -> list[ValidationError]:
    found = validate_pod_placement(said, labels)
    return [error for error in found if not error.field.endswith(_SAID_ELSEWHERE)]


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
