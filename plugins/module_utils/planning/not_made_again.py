# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who ends with a lost node for good. Pure."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.snapshot import Snapshot
from ..verdicts.instances import instances
from .displaced import Cause, Displacement, Fate

NOT_MADE_AGAIN = "not_made_again"


def not_made_again(
    before: Snapshot, after: Snapshot, lost_nodes: t.Container[str], cause: Cause
) -> t.Iterator[Finding]:
    """Instances of `before` on these nodes that are gone in `after` and that nothing makes again."""
    left = {found.uid for found in instances(after)}
    displacement = Displacement(before)
    for instance in instances(before):
        if instance.uid in left or instance.node_name not in lost_nodes or instance.pod is None:
            continue
        displaced = displacement.of(instance, cause)
        if displaced.fate is Fate.GONE:
            yield Finding(
                NOT_MADE_AGAIN,
                "warning",
                f"{instance.ref} would end with its node: {displaced.reason}.",
                "Move it by hand before, or give it a controller that makes it again.",
                (instance.ref,),
            )
