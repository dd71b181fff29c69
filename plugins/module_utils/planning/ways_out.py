# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What somebody may decide to do about a deadlock. Pure; nothing here is ever done unasked."""

from __future__ import annotations

import typing as t

from ..model.objects import Ref
from .proof_words import listed


def ways_out(instances_: t.Sequence[Ref], *, rolls: bool) -> tuple[str, ...]:
    if rolls:
        return (
            "set maxSurge 0 and maxUnavailable 1 for the roll-out, and back afterwards",
            "give the term matchLabelKeys: [pod-template-hash], so that old and new pods do not"
            " keep each other apart",
            "add a domain that its pods can use",
        )
    names = listed([ref.name for ref in instances_])
    return (
        f"free capacity, or add a node, in a domain that {names} may use",
        f"stop {names} at once and start them again: that is downtime",
        "make the rule preferred, move, and make it required again",
        "pin them for the move with temporary node labels and addedNodeSelector",
    )
