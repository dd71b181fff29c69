# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim means for a pod, by what exists of it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    ClaimTemplate,
    Node,
    NodeTerm,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.storage import (
    BoundVolume,
    Claim,
    ClaimState,
    FreeVolume,
    Storage,
    StorageClass,
    claim_from_manifest,
    class_from_manifest,
    free_volume_from_manifest,
    volume_terms,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.claims import claim_state
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_affinity import (
    nodes_of_terms,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduler.nodes import NodeTable

JSON = t.Any
KEY = ("shop", "data")
Z1 = (NodeTerm((Requirement("zone", "In", ("z1",)),)),)
Z2 = (NodeTerm((Requirement("zone", "In", ("z2",)),)),)
WAITS = StorageClass("waits", waits=True)
IMMEDIATE = StorageClass("immediate")
LOCAL = StorageClass("local", waits=True, provisions=False)
ZONAL = StorageClass("zonal", waits=True, allowed_topologies=Z1)
CLASSES = {x.name: x for x in (WAITS, IMMEDIATE, LOCAL, ZONAL)}


def state(
    claim: Claim | None,
    template: ClaimTemplate | None = None,
    free: tuple[FreeVolume, ...] = (),
    **storage: JSON,
) -> ClaimState:
    known: JSON = {
        "classes": CLASSES,
        "free": free,
        "bound": {"pv": BoundVolume(Z1, "csi")},
        **storage,
    }
    return claim_state(KEY, claim, template, Storage(**known))


def made(class_name: str | None, *modes: str) -> ClaimTemplate:
    return ClaimTemplate("data", class_name, modes)


@pytest.mark.parametrize(
    ("claim", "refusal"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (
            Claim("gone", lost=True),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
        (
            Claim("pv", bound=True, terminating=True),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (
            Claim(class_name="no-such-class"),
            "pod has unbound immediate PersistentVolumeClaims (data: StorageClass no-such-class does not exist)",
        ),
        (
            Claim(),
            "pod has unbound immediate PersistentVolumeClaims (data: it names no StorageClass, and there is no"
            " default one)",
        ),
        (
            Claim(class_name="local"),
            "node(s) didn't find available persistent volumes to bind (data: no free volume of StorageClass local)",
        ),
    ],
)
def test_a_claim_that_keeps_a_pod_from_every_node(claim: Claim | None, refusal: str) -> None:
    assert state(claim) == ClaimState(refusal=refusal)


def test_a_bound_claim_lets_its_pod_run_where_its_volume_is() -> None:
    assert state(Claim("pv", bound=True)) == ClaimState(Z1, driver="csi")
    assert state(Claim("pv", bound=True), bound={"pv": BoundVolume()}) == ClaimState()
    assert "non-existent pv(s)" in state(Claim("pv", bound=True), bound={"pv": None}).refusal
    assert "could not be read" in state(Claim("pv", bound=True), bound={}).doubt


def test_field_29_a_claim_that_does_not_exist_follows_its_class() -> None:
    waiting = state(None, made("waits"))
    assert (waiting.terms, waiting.refusal) == (None, "")
    assert "StorageClass waits makes its volume once a node is chosen" in waiting.doubt
    assert state(None, made("zonal")).terms == Z1
    immediate = state(None, made("immediate"))
    assert (immediate.terms, immediate.refusal) == (None, "")
    assert "on nodes that are not known now" in immediate.doubt
    assert "StorageClass no-such-class does not exist" in state(None, made("no-such-class")).refusal


def test_a_claim_without_a_class_gets_the_newest_default_class() -> None:
    old = StorageClass("old", default=True, created="2025-01-01T00:00:00Z")
    new = StorageClass("new", default=True, created="2026-01-01T00:00:00Z", waits=True)
    found = state(None, made(None), classes={"old": old, "new": new})
    assert "StorageClass new makes its volume" in found.doubt
    assert state(None, made("")).refusal, "the empty name asks for a volume without a class"


def test_free_volumes_are_where_an_unbound_claim_may_be() -> None:
    free = (FreeVolume("a", "local", None, Z1), FreeVolume("b", "local", None, Z2))
    found = state(Claim(class_name="local"), None, free)
    assert (found.terms, found.refusal) == ((*Z1, *Z2), "")
    assert "only a volume that exists can be bound to it" in found.doubt
    other = (FreeVolume("a", "local", ("shop", "other"), Z1),)
    assert state(Claim(class_name="local"), None, other).refusal, "it is reserved for another claim"
    own = (FreeVolume("a", "by-hand", KEY, Z2),)
    assert state(None, made("by-hand"), own).terms == Z2
    outside = (FreeVolume("a", "zonal", None, Z2),)
    assert state(None, made("zonal"), outside).terms is None, (
        "a free volume may be outside of allowedTopologies"
    )


def test_what_could_not_be_read_is_a_doubt() -> None:
    assert "StorageClasses could not be read" in state(None, made("waits"), classes=None).doubt
    found = claim_state(KEY, None, made("waits"), Storage(classes=CLASSES))
    assert "free volumes could not be read" in found.doubt


def test_access_modes_say_how_many_pods_may_use_a_claim() -> None:
    for modes, expected in (
        (("ReadWriteOncePod",), (True, True)),
        (("ReadWriteOnce",), (False, True)),
        (("ReadWriteOnce", "ReadWriteMany"), (False, False)),
        ((), (False, False)),
    ):
        found = state(Claim("pv", bound=True, access_modes=modes))
        assert (found.exclusive, found.one_node) == expected


def test_claims_classes_and_volumes_are_read_from_their_manifests() -> None:
    metadata = {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"volumeName": "pv", "storageClassName": "local", "accessModes": ["ReadWriteOnce"]}
    claim = {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}
    assert claim_from_manifest(claim) == Claim(
        "pv", bound=True, class_name="local", access_modes=("ReadWriteOnce",)
    )
    expressions = [{"key": "zone", "values": ["z1"]}]
    storage_class = {
        "metadata": {
            "name": "zonal",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": expressions}],
    }
    assert class_from_manifest(storage_class) == StorageClass(
        "zonal",
        waits=True,
        allowed_topologies=Z1,
        default=True,
        provisioner="csi.example.com",
    )
    volume: JSON = {"metadata": {"name": "pv"}, "spec": {}, "status": {"phase": "Available"}}
    assert free_volume_from_manifest(volume) == FreeVolume("pv")
    volume["spec"]["claimRef"] = {"namespace": "shop", "name": "data"}
    assert free_volume_from_manifest(volume) == FreeVolume("pv", claim=KEY)
    volume["status"]["phase"] = "Bound"
    assert free_volume_from_manifest(volume) is None


def test_zone_labels_of_a_volume_bind_it_to_nodes_of_the_zone() -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    nodes = {
        "a": {zone: "za", region: "r"},
        "b": {zone: "zb", region: "r"},
        "other": {zone: "za", region: "s"},
        "none": {},
    }
    table = NodeTable(Node(name, labels=labels) for name, labels in nodes.items())

    def reached(**labels: str) -> tuple[str, ...]:
        named = {
            key.replace("zone", zone).replace("region", region): x for key, x in labels.items()
        }
        terms = volume_terms({"metadata": {"name": "pv", "labels": named}, "spec": {}})
        return table.names_of(nodes_of_terms(terms, table, with_fields=False))

    assert reached(zone="za") == ("a", "other", "none")
    assert reached(zone="za__zb", region="r") == ("a", "b", "none")
    beta = {"metadata": {"labels": {"failure-domain.beta.kubernetes.io/zone": "zb"}}, "spec": {}}
    found = nodes_of_terms(volume_terms(beta), table, with_fields=False)
    assert table.names_of(found) == ("b", "none")
