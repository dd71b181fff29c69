# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A template's placement parts while a merge works on them."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.snapshot import Workload
from .fingerprint import Fingerprint
from .slots import FIELDS


@dataclass
class Draft:
    """`root` is a copy of the template's metadata and of its placement fields, the only value in
    the merge that changes in place. `created` are the containers that are there because of us,
    `touched` the terms that were put in or taken out."""

    ref: Ref
    root: dict[str, JSON]
    created: set[str] = field(default_factory=set)
    touched: set[Fingerprint] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def placement_parts(workload: Workload) -> dict[str, JSON]:
    """The parts of the template that a merge may change: what is absent there is absent here."""
    template = workload.template
    spec = template.get("spec") or {}
    parts: dict[str, JSON] = {"spec": {name: spec[name] for name in FIELDS if name in spec}}
    if template.get("metadata") is not None:
        parts["metadata"] = template["metadata"]
    return copy.deepcopy(parts)
