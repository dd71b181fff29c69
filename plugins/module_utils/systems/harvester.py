# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Harvester's webhook writes into the affinity of every VirtualMachine by itself.

On each write it takes these expressions out of all required node terms and puts them in again:
one for each cluster network and one for dedicated CPUs. A change of them is refused. It also
always writes `affinity`, at least `{}` (Harvester pkg/webhook/resources/virtualmachine/mutator.go).
"""

from __future__ import annotations

import typing as t

from ..model.pointer import JSON

_NETWORK_PREFIX = "network.harvesterhci.io/"
_DEDICATED_CPU = "cpumanager"


def is_own_expression(expression: t.Mapping[str, JSON]) -> bool:
    """Whether a node expression belongs to Harvester: nobody else's to change or to judge."""
    key = expression.get("key")
    return isinstance(key, str) and (key.startswith(_NETWORK_PREFIX) or key == _DEDICATED_CPU)
