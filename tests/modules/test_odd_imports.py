# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What odd exports become is accepted by the module rules, and by the API server in a dry run."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import drs_import, rules
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.shop import Shop

LONG = "x" * 70
VMS = ("a", "b", "c", "d", "e", "f", "v-1", "v" * 63)
GIVEN: dict[str, str] = {"V/1": "v-1", "v" * 70: "v" * 63}


def pair(name: str, together: bool, *vms: str, enabled: bool = True) -> dict[str, t.Any]:
    common = {"rule_name": name, "rule_type": "vm_vm_rule", "rule_mandatory": None}
    return {**common, "rule_enabled": enabled, "rule_affinity": together, "rule_vms": [*vms]}


def hosts(name: str, group: str, *vms: str, enabled: bool = True) -> dict[str, t.Any]:
    return {
        "rule_name": name,
        "rule_type": "vm_host_rule",
        "rule_enabled": enabled,
        "rule_mandatory": enabled,
        "rule_vm_group_name": f"VMs of {name}",
        "rule_vms": [*vms],
        "rule_affine_host_group_name": group,
        "rule_affine_hosts": ["esx1", "esx2"],
        "rule_anti_affine_host_group_name": f"not {group}" if enabled else None,
        "rule_anti_affine_hosts": ["esx3"] if enabled else [],
    }


ODD = {
    "drs_rule_info": {
        "Production": [
            pair("Web", False, "a", "d"),
            pair("web", False, "d", "e"),
            pair("web", False, "d", "f"),
            pair(LONG, False, "a", "V/1"),
            pair(f"{LONG}y", False, "v" * 70, "V/1"),
            pair("///", True, "a", "b"),
            pair("größe & co", True, "a", "b", "c"),
            pair("b with c", True, "c", "b"),
            pair("e with f", True, "e", "f"),
            pair("joins", True, "c", "f", enabled=False),
            pair("contrary", False, "a", "b", enabled=False),
            hosts("on/h", "H / 1", "a", "V/1"),
            hosts("at rest", LONG, "d", enabled=False),
        ]
    }
}


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "odd"), run_module)
    six.restore_nodes()


def test_rules_of_an_odd_export_are_accepted_at_rest_and_enabled(
    shop: Shop, run_module: RunModule
) -> None:
    shop.start(*(objects.virtual_machine(name, shop.namespace) for name in VMS))
    imported = run_module(
        drs_import.main,
        {
            "content": ODD,
            "namespace": shop.namespace,
            "vms": shop.api.list(shop.path("VirtualMachine")),
            "host_names": {f"esx{n}": f"w{n}" for n in (1, 2, 3)},
            "skip_rules": ["b with c"],  # it makes a cycle, which is refused
        },
    )
    assert not imported.get("failed"), imported
    for key, values in imported["node_labels"].items():
        for node in values["true"]:  # the policy of the sandbox has other keys
            shop.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {key: "true"}}})
    given = {"namespace": shop.namespace, "rule_set": "drs", "prune": True}
    (of_namespace,) = imported["namespaces"]
    enabled = [
        {**rule, "enabled": True} for rule in of_namespace["rules"] if rule["name"] != "contrary"
    ]

    for of_set in (of_namespace["rules"], enabled):
        result = shop.task_in_check_mode(rules.main, "mover", **given, rules=of_set)
        assert not result.get("failed"), result["errors"]


def test_disabled_rule_that_joins_two_groups_is_satisfied_once_it_is_enabled(
    shop: Shop, run_module: RunModule
) -> None:
    """Each of b and d follows another VM. The leader c has to follow a, or d could never be beside both."""
    for names, node in (("ab", "w1"), ("cd", "w2")):
        vms = [objects.virtual_machine(name, shop.namespace, cpu="100m") for name in names]
        shop.start(*vms, nodes=[node])
    exported = [
        pair("left", True, "a", "b"),
        pair("right", True, "c", "d"),
        pair("joins", True, "b", "d", enabled=False),
    ]
    content = {"drs_rule_info": {"Production": exported}}
    imported = run_module(drs_import.main, {"content": content, "namespace": shop.namespace})
    (of_namespace,) = imported["namespaces"]
    for enabled, nodes in ((False, 2), (True, 1)):
        given = [{**rule, "enabled": True} if enabled else rule for rule in of_namespace["rules"]]
        shop.done(rules.main, "mover", namespace=shop.namespace, rule_set="drs", rules=given)
        result = shop.roll(namespaces=[shop.namespace])

        assert not result.get("failed"), result
        assert len(set(shop.nodes().values())) == nodes, shop.nodes()
