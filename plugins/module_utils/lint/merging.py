# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings put together: what is said of many objects alike is said once."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.finding import Finding
from ..model.objects import Ref

_RANK = {"error": 0, "warning": 1, "info": 2}


def merged(found: t.Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that say the same of different objects as one, the worst first."""
    alike: dict[tuple[str, ...], dict[Ref, None]] = {}
    first: dict[tuple[str, ...], Finding] = {}
    for finding in found:
        key = (finding.name, finding.severity, finding.why, finding.advice, finding.rule)
        first.setdefault(key, finding)
        alike.setdefault(key, {}).update(dict.fromkeys(finding.objects))
    together = (replace(first[key], objects=tuple(sorted(refs))) for key, refs in alike.items())
    return tuple(sorted(together, key=lambda x: (_RANK[x.severity], x.name, x.rule, x.why)))


def once(found: t.Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings without those of manifests that say of an object what a rule's finding says of it:
    the term stands there already, and the rule would take it over."""
    listed = tuple(found)
    said = {(f.name, f.why, ref) for f in listed if f.rule for ref in f.objects}
    kept = []
    for finding in listed:
        objects = finding.objects
        if not finding.rule and objects:
            objects = tuple(x for x in objects if (finding.name, finding.why, x) not in said)
        if objects or not finding.objects:
            kept.append(replace(finding, objects=objects))
    return merged(kept)
