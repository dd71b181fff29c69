# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""In-tree volumes as kube-scheduler sees them: of their CSI driver, on nodes with its labels."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.storage import (
    bound_volume_from_manifest,
    class_from_manifest,
)

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"


def volume(source: JSON, *keys: str, **labels: str) -> JSON:
    """A volume that only nodes with these label keys reach, each with the value a."""
    expressions = [{"key": key, "operator": "In", "values": ["a"]} for key in keys]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return {
        "metadata": {"name": "pv", "labels": labels},
        "spec": {**source, **({"nodeAffinity": affinity} if keys else {})},
    }


def expected(*keys: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm(tuple(Requirement(key, "In", ("a",)) for key in keys)),)


@pytest.mark.parametrize("key", [ZONE, BETA])
def test_zone_of_an_in_tree_volume_is_that_of_its_driver(key: str) -> None:
    """As csi-translation-lib translates it: aws_ebs_test.go, in_tree_volume_test.go."""
    found = bound_volume_from_manifest(volume({"awsElasticBlockStore": {"volumeID": "vol-1"}}, key))
    assert found.driver == "ebs.csi.aws.com"
    assert found.terms == expected("topology.ebs.csi.aws.com/zone")


def test_driver_without_zones_and_csi_volumes_keep_their_terms() -> None:
    found = bound_volume_from_manifest(volume({"azureDisk": {"diskName": "x"}}, ZONE))
    assert (found.driver, found.terms) == ("disk.csi.azure.com", expected(ZONE))
    found = bound_volume_from_manifest(volume({"csi": {"driver": "csi"}}, ZONE))
    assert (found.driver, found.terms) == ("csi", expected(ZONE))
    assert bound_volume_from_manifest(volume({"nfs": {"server": "x"}})).driver == ""


def test_zone_label_without_node_affinity_is_a_term_of_the_driver() -> None:
    labeled = volume({"gcePersistentDisk": {"pdName": "x"}}, **{ZONE: "a"})
    for term in bound_volume_from_manifest(labeled).terms:
        assert term.expressions[0] == Requirement("topology.gke.io/zone", "In", ("a",))


def test_class_of_an_in_tree_plugin_makes_volumes_of_its_driver() -> None:
    manifest = {"metadata": {"name": "gold"}, "provisioner": "kubernetes.io/vsphere-volume"}
    assert class_from_manifest(manifest).provisioner == "csi.vsphere.vmware.com"
