# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that modules share. Their documentation is the fragment `virt.placement.placement`."""

from __future__ import annotations

import typing as t

from ..api.connection import auth_argument_spec
from ..model.finding import Fault, Refused
from ..model.topology import Topology
from ..scheduling.syntax import is_label_key

Spec = dict[str, t.Any]


def argument_spec(**own: Spec) -> dict[str, Spec]:
    """The options of a module: authentication, what all share, and its `own`, which win."""
    shared: dict[str, Spec] = {
        "topology_keys": {"type": "dict", "default": {}, "no_log": False},
        "cluster_uid": {"type": "str"},
        "timeout": {"type": "int", "default": 120},
    }
    return {**auth_argument_spec(), **shared, **own}


def topology_of(params: t.Mapping[str, t.Any]) -> Topology:
    """The vocabulary of the task. Raises Refused for a key that is no label key, and where an empty
    `cluster_uid` would drop the safeguard that it stands for."""
    faults = [Fault("cluster_uid", "must not be empty; leave it out")] * (
        params["cluster_uid"] == ""
    )
    faults += [
        Fault(f"topology_keys.{name}", f"must be a label key, not {key!r}")
        for name, key in params["topology_keys"].items()
        if not isinstance(key, str) or not is_label_key(key)
    ]
    faults += [Fault("topology_keys", "a name must not be empty")] * ("" in params["topology_keys"])
    if faults:
        raise Refused(faults)
    return Topology.of(params["topology_keys"])
