# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kinds of workloads are there, and which of them are read, written and forecast?"""

from __future__ import annotations

import typing as t

from .daemon_set import DAEMON_SET
from .deployment import DEPLOYMENT
from .kind import Kind
from .pool import POOL
from .replica_set import REPLICA_SET
from .stateful_set import STATEFUL_SET
from .virtual_machine import VIRTUAL_MACHINE
from .vmi import KUBEVIRT_V1, VMI

DEFAULT_KIND = VIRTUAL_MACHINE.name
"""The kind of a workload that an option names without one."""

KINDS: t.Mapping[str, Kind] = {
    kind.name: kind
    for kind in (VIRTUAL_MACHINE, REPLICA_SET, POOL, DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
}

RULE_KINDS = tuple(kind.name for kind in KINDS.values() if kind.takes_rules)
"""What rules, rollouts and forecasts are about: instances of the others stay on their nodes."""

SCALABLE_KINDS = tuple(sorted(name for name in RULE_KINDS if KINDS[name].scales))
OPTIONAL_LISTS = tuple(kind.plural for kind in KINDS.values() if kind.makes_vms)
"""The lists without which a rollout or drain goes on: its VMs are read, which say that they are of a pool."""
KUBEVIRT_KINDS = tuple(kind.name for kind in KINDS.values() if kind.virtual_machines)


INSTANCES: t.Mapping[str, str] = {"Pod": "v1", VMI: KUBEVIRT_V1}
"""The kinds of instances, each with its API version."""

_OTHER = Kind("", "", "", virtual_machines=False, takes_rules=False)


def kind_of(name: str) -> Kind:
    """The kind of this name; for any other, as that of a Job or of a pod by itself, one of which nothing is known."""
    return KINDS.get(name, _OTHER)


def has_vmis(kind: str) -> bool:
    """Whether what objects of this kind run are VMIs; of a VMI itself, too."""
    return kind == VMI or kind in KUBEVIRT_KINDS
