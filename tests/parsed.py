# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as a test writes them down, for the engine."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.rule import Rule
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules


def parsed(
    rules: t.Sequence[t.Any],
    *,
    namespace: str = "shop",
    rule_set: str = "default",
    topology: Topology | None = None,
    absent: bool = False,
) -> tuple[Rule, ...]:
    """See read_rules. Raises InvalidInput with every fault."""
    found = read_rules(
        list(rules),
        namespace=namespace,
        rule_set=rule_set,
        topology=topology or Topology.of(),
        absent=absent,
    )
    if found.faults:
        raise InvalidInput(found.faults)
    return found.rules
