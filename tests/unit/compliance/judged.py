# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""judge with its count of moves, verdicts by name, and the three VMs that most tests begin with."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.compliance import judge as judging
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import (
    InstanceVerdict,
    RuleVerdict,
    Verdicts,
)
from ansible_collections.virt.placement.plugins.module_utils.planning.moves_needed import (
    moves_needed,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import Cluster, apart

APART = (TermLocation.ANTI_AFFINITY, apart(tier="db"))
RULE = "shop/default/apart"

judge = functools.partial(judging.judge, count_moves=moves_needed)


def of(verdicts: Verdicts, name: str) -> InstanceVerdict:
    found = [v for v in verdicts.instances if v.instance.name == name]
    assert len(found) == 1, verdicts.instances
    return found[0]


def rule(verdicts: Verdicts, name: str, rule_name: str = RULE) -> RuleVerdict:
    found = [v for v in of(verdicts, name).rules if v.rule == rule_name]
    assert len(found) == 1, of(verdicts, name)
    return found[0]


def three(cluster: Cluster, nodes: t.Sequence[str], *, rule_first: bool = True) -> list[Ref]:
    """db1 to db3, kept apart over zone by a rule that was there before they started, or not."""
    refs = [cluster.vm(f"db{number}", tier="db") for number in (1, 2, 3)]
    for ref, node in zip(refs, nodes, strict=True):
        if rule_first:
            cluster.write(ref, "apart", APART)
        cluster.start(ref, node)
        if not rule_first:
            cluster.write(ref, "apart", APART)
    return refs
