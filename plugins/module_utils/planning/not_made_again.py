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


def not_made_again(before: Snapshot, after: Snapshot) -> t.Iterator[Finding]:
    """Instances of `before` that are gone in `after` and that nothing makes again."""
    left = {found.uid for found in instances(after)}
    nodes = {node.name: node for node in after.nodes}
    displacement = Displacement(before)
    for instance in instances(before):
        node = nodes.get(instance.node_name)
        if instance.uid in left or node is None or instance.pod is None:
            continue
        cause: Cause = "drain" if node.unschedulable else "failure"
        displaced = displacement.of(instance, cause)
        if displaced.fate is Fate.GONE:
            yield Finding(
                NOT_MADE_AGAIN,
                "warning",
                f"{instance.ref} would end with its node: {displaced.reason}.",
                "Move it by hand before, or give it a controller that makes it again.",
                (instance.ref,),
            )
