# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a rule write to objects of one kind that are created later?"""

from __future__ import annotations

from dataclasses import dataclass

from ..kinds.kind import Kind
from ..model.objects import Labels
from ..model.rule import RuleId
from ..rules.ownership import OwnedRule
from ..rules.term_slots import TemplateTerm


@dataclass(frozen=True)
class NewMember:
    """The objects of a kind that a rule chooses, by `names`, or by the `labels` of their templates. Each of them gets
    the `terms`, and its annotation `stored` beside their fingerprints. `allowed` are the findings that the rule
    allows."""

    rule: RuleId
    kind: Kind
    terms: tuple[TemplateTerm, ...]
    stored: OwnedRule
    names: tuple[str, ...] = ()
    labels: Labels | None = None
    allowed: frozenset[str] = frozenset()
