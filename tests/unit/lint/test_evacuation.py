# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A VMI whose evacuation was given up, and the node uncordoned (case 64)."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.evacuation import (
    evacuation_findings,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import MAINTENANCE
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform, Vmi
from tests.support.cluster import Cluster
from tests.unit.lint.online_offline import online

NAME = "evacuation_goes_on"
VMI = Vmi(
    ref=Ref("VirtualMachineInstance", "depot", "depot-1"),
    uid="u1",
    phase="Running",
    node_name="n3",
    labels={},
    spec={},
    eviction_strategy="LiveMigrate",
    evacuation_node_name="n3",
)
NODE = Node("n3")


def test_case_64_vm_is_named_with_what_ends_it() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1")
    cluster.machines["db"]["status"]["evacuationNodeName"] = "n1"

    finding = online(cluster)[NAME]

    assert (finding.severity, finding.objects) == ("warning", (ref,))
    assert finding.why == (
        "VMI shop/db is marked for evacuation from node n1, which is in service: KubeVirt goes on migrating it until it"
        " has left this node."
    )
    assert finding.advice == (
        """To end it, cancel the evacuation (`echo '{"evacuationNodeName": "n1"}' | kubectl replace --raw"""
        " /apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/db/evacuate/cancel -f -`), then"
        " delete its pending migration (`kubectl delete vmim -n shop -l kubevirt.io/vmi-name=db`)."
    )


def test_vm_that_is_not_marked_has_no_finding() -> None:
    cluster = Cluster()
    cluster.run("db", "n1")
    assert NAME not in online(cluster)


@pytest.mark.parametrize(
    ("changes", "node", "named"),
    [
        ({}, NODE, True),
        ({"evacuation_node_name": ""}, NODE, False),
        ({"node_name": "n4"}, NODE, False),
        ({"phase": "Succeeded"}, NODE, False),
        ({"eviction_strategy": "External"}, NODE, False),
        ({}, replace(NODE, unschedulable=True), False),
        ({}, replace(NODE, ready=False), False),
        ({}, replace(NODE, annotations={MAINTENANCE: "{}"}), False),
        ({}, Node("n4"), False),
    ],
)
def test_evacuation_goes_on_from_nodes_in_service_alone(
    changes: dict[str, t.Any], node: Node, named: bool
) -> None:
    found = list(
        evacuation_findings([replace(VMI, **changes)], [node], Platform(kubevirt="v1.8.4"))
    )
    assert [finding.name for finding in found] == ([NAME] if named else [])


@pytest.mark.parametrize(("release", "cancels"), [("v1.6.3", False), ("v1.7.0", True), ("", True)])
def test_advice_can_be_followed_on_the_release(release: str, cancels: bool) -> None:
    (finding,) = evacuation_findings([VMI], [NODE], Platform(kubevirt=release))
    assert ("evacuate/cancel" in finding.advice) is cancels
    assert ("restart its VM" in finding.advice) is not cancels
