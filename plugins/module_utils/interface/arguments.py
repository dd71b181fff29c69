# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that modules share, and how they are read.

Their documentation is the fragment `virt.placement.placement`.
"""

from __future__ import annotations

import typing as t

from ..api.connection import auth_argument_spec
from ..model.findings import InputError, InvalidInput
from ..model.input import shown
from ..model.json_pointer import JSON
from ..model.topology import Topology
from ..scheduler.labels import is_label_key

Spec = dict[str, t.Any]


def argument_spec(**own: Spec) -> dict[str, Spec]:
    """The options of a module: authentication, shared options, and its `own`, which take precedence."""
    shared: dict[str, Spec] = {
        "topology_keys": {"type": "dict", "default": {}, "no_log": False},
        "cluster_uid": {"type": "str"},
        "timeout": {"type": "int", "default": 120},
    }
    return {**auth_argument_spec(), **shared, **own}


ASSUME_NODE_LABELS: dict[str, Spec] = {
    "assume_node_labels": {"type": "dict", "default": {}, "no_log": False}
}
"""Their documentation is the fragment `virt.placement.assume_node_labels`."""


WINDOW: dict[str, Spec] = {
    "start": {"type": "str", "required": True},
    "end": {"type": "str", "required": True},
    "days": {
        "type": "list",
        "elements": "str",
        "choices": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"],
    },
    "timezone": {"type": "str", "default": "UTC"},
}
"""Keys of the option `window`, which `moves.window.parse_window` reads."""


WORKLOADS: dict[str, Spec] = {
    "namespaces": {"type": "list", "elements": "str"},
    "workloads": {"type": "list", "elements": "raw"},
}
"""Their documentation is the fragment `virt.placement.workloads`; view/selection reads them."""

ONLY: Spec = {
    "type": "list",
    "elements": "dict",
    "options": {name: {"type": "str", "required": True} for name in ("kind", "namespace", "name")},
}
"""Of what is selected, the workloads that a job of the role placement_maintenance has moved."""


ADOPT_OPTION: Spec = {"type": "str", "default": "false", "choices": ["false", "true", "similar"]}
"""Ansible takes true and false without quotes for these texts."""


def what_if_options() -> dict[str, Spec]:
    """Options of the modules that forecast. Their documentation is the fragment `virt.placement.what_if`,
    and that of ASSUME_NODE_LABELS."""
    scaled: dict[str, Spec] = {
        "kind": {"type": "str", "default": "Deployment"},
        "namespace": {"type": "str"},
        "name": {"type": "str", "required": True},
        "replicas": {"type": "int", "required": True},
    }
    return {
        "namespace": {"type": "str"},
        "rule_set": {"type": "str", "default": "default"},
        "rules": {"type": "raw", "default": []},
        "state": {
            "type": "str",
            "default": "present",
            "choices": ["present", "absent", "reverted"],
        },
        "prune": {"type": "bool", "default": False},
        "adopt": ADOPT_OPTION,
        "new_members": {
            "type": "str",
            "default": "none",
            "choices": ["none", "policy", "warn"],
        },
        "scale": {"type": "list", "elements": "dict", "options": scaled},
        **ASSUME_NODE_LABELS,
    }


def topology_of(params: t.Mapping[str, t.Any]) -> Topology:
    """The vocabulary of the task. Raises InvalidInput for an invalid label key, and for an empty
    `cluster_uid`, which would disable the check of the cluster."""
    faults = [InputError("cluster_uid", "must not be empty: omit it")] * (
        params["cluster_uid"] == ""
    )
    faults += [
        InputError(f"topology_keys.{name}", f"must be a label key, not {shown(key)}")
        for name, key in params["topology_keys"].items()
        if not isinstance(key, str) or not is_label_key(key)
    ]
    faults += [InputError("topology_keys", "a name must not be empty")] * (
        "" in params["topology_keys"]
    )
    if faults:
        raise InvalidInput(faults)
    return Topology.of(params["topology_keys"])


def rules_data(value: JSON) -> JSON:
    """`value`, parsed if it is YAML or JSON text, as from a survey. Raises InvalidInput."""
    if not isinstance(value, str):
        return value
    from ..api.yaml_text import InvalidYaml, PyYamlMissing, load_yaml

    try:
        return load_yaml(value)
    except PyYamlMissing as error:
        raise InvalidInput([InputError("rules", f"is text, and {error}")]) from error
    except InvalidYaml as error:
        raise InvalidInput([InputError("rules", f"is not valid YAML: {error}")]) from error
