# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be read about pods that do not exist yet, beside the snapshot that shows what runs."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .objects import ClaimTemplate
from .storage import ClaimKey


@dataclass(frozen=True)
class NewPodNeeds:
    """`claims` are those that must be read, each with the template that makes it where it does not exist; None where
    nothing does. `moved` are bound claims of pods that move, `drivers` those of all bound claims. `namespaces` are
    those of the pods, for LimitRanges. With `mutators` what changes or refuses new pods is read, with `priority_class`
    which class they have by default."""

    claims: t.Mapping[ClaimKey, ClaimTemplate | None] = field(default_factory=dict)
    moved: t.Collection[ClaimKey] = ()
    drivers: t.Mapping[ClaimKey, str] = field(default_factory=dict)
    namespaces: t.Collection[str] = ()
    mutators: bool = False
    priority_class: bool = False
