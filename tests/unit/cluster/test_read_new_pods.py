# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a forecast reads for pods that do not exist yet: no list that is not needed, and no failure without a right."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.read_new_pods import (
    new_pod_fields,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.new_pods import (
    needs_of_change,
)
from ansible_collections.virt.placement.plugins.module_utils.model.admission import PodMutator
from ansible_collections.virt.placement.plugins.module_utils.model.new_pod_needs import NewPodNeeds
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    ClaimTemplate,
    NodeTerm,
    Ref,
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.model.storage import ClaimState
from tests.support.api_server import ApiServer
from tests.support.cluster import cluster, machine
from tests.unit.planning.scenes import pinned

from .test_scopes import CLAIMS, VOLUMES, cluster_of, forbid

JSON = t.Any
STORAGE = "/apis/storage.k8s.io/v1"
CLASSES, CSI_NODES = f"{STORAGE}/storageclasses", f"{STORAGE}/csinodes"
LIMIT_RANGES = "/api/v1/limitranges"
GROUP = "admissionregistration.k8s.io"
WEBHOOKS = f"/apis/{GROUP}/v1/mutatingwebhookconfigurations"
POLICIES = f"/apis/{GROUP}/v1/mutatingadmissionpolicies"
VALIDATING = f"/apis/{GROUP}/v1/validatingadmissionpolicies"
BINDINGS = f"/apis/{GROUP}/v1/validatingadmissionpolicybindings"
KEY = ("a", "data")


def bound_claim(name: str, zone: str, **spec: JSON) -> tuple[JSON, JSON]:
    """A claim and its volume."""
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    reference = {"namespace": "a", "name": name}
    claim = {
        "metadata": {**reference, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"volumeName": f"pv-{name}"},
    }
    of_volume = {"claimRef": reference, "nodeAffinity": affinity, **spec}
    return claim, {
        "metadata": {"name": f"pv-{name}"},
        "spec": of_volume,
        "status": {"phase": "Bound"},
    }


def read(server: ApiServer, claims: JSON = None, **options: JSON) -> dict[str, t.Any]:
    return new_pod_fields(server.client(), NewPodNeeds(claims or {}, **options))


def lists(server: ApiServer) -> list[str]:
    return [request.path for request in server.seen]


def test_drills_read_the_limit_ranges_of_all_pods_that_run() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    server = cluster_of({"/api/v1/namespaces/shop/limitranges": []})
    change = what_if(made.snapshot())
    api = server.client()
    assert new_pod_fields(api, needs_of_change(change)) == {}
    needs = needs_of_change(change, drills=True)
    nothing = {"limit_ranges": (), "pod_mutators": (), "pod_validators": ()}
    assert new_pod_fields(api, needs) == nothing


def test_what_changes_or_refuses_pods_is_read_for_vms_that_rules_move() -> None:
    """No pod is pending: the target pod of a live migration is made once a rollout moves the VM."""
    made = cluster("ab")
    db = machine(made, "db", "n1")
    server = cluster_of({})
    change = what_if(made.snapshot(), writes=[pinned(db, "b")])
    assert not change.pending
    fields = new_pod_fields(server.client(), needs_of_change(change))
    assert fields.keys() == {"limit_ranges", "pod_mutators", "pod_validators"}
    assert {WEBHOOKS, POLICIES, VALIDATING, BINDINGS} <= set(lists(server))


def test_policies_are_read_in_the_version_that_is_served_if_any() -> None:
    """The lists of kube-apiserver 1.36, of 1.34 with the feature gate, and of 1.34 without it."""
    rule = {"operations": ["CREATE"], "apiGroups": [""], "resources": ["pods"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}}
    policy = {"metadata": {"name": "defaults"}, "spec": spec}

    source = Ref("MutatingAdmissionPolicy", "", "defaults")
    for version, mutators in (
        ("v1", (PodMutator(source),)),
        ("v1beta1", (PodMutator(source),)),
        ("v1alpha1", ()),
    ):
        server = cluster_of({POLICIES.replace("/v1/", f"/{version}/"): [policy]})
        server.served[GROUP] = ["v1"] if version == "v1" else ["v1", "v1beta1"]
        for other in {"v1", "v1beta1"} - {version}:
            server.add_fault("GET", POLICIES.replace("/v1/", f"/{other}/"), 404)
        assert read(server, mutators=True)["pod_mutators"] == mutators, version


def test_validating_policies_are_those_that_a_binding_makes_deny_pods() -> None:
    def policy(name: str, *resources: str) -> JSON:
        """Its status was written last."""
        rule = {"operations": ["CREATE"], "apiGroups": [""], "resources": list(resources)}
        status = {"time": "2026-01-09T00:00:00Z", "subresource": "status"}
        metadata: JSON = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        metadata["managedFields"] = [{"time": "2026-01-02T00:00:00Z"}, status]
        return {"metadata": metadata, "spec": {"matchConstraints": {"resourceRules": [rule]}}}

    def binding(name: str, action: str, **matching: JSON) -> JSON:
        metadata = {"name": f"of-{name}", "managedFields": [{"time": "2026-01-03T00:00:00Z"}]}
        spec = {"policyName": name, "validationActions": [action], "matchResources": matching}
        return {"metadata": metadata, "spec": spec}

    other = [{"operations": ["UPDATE"], "apiGroups": [""], "resources": ["pods"]}]
    policies = [policy(x, "pods") for x in ("denies", "audits", "unbound", "updates")]
    bindings = [
        binding("denies", "Deny", namespaceSelector={"matchLabels": {"env": "prod"}}),
        binding("audits", "Audit"),
        binding("updates", "Deny", resourceRules=other),
        binding("nodes", "Deny"),
        binding("deleted", "Deny"),
    ]
    server = cluster_of({VALIDATING: [*policies, policy("nodes", "nodes")], BINDINGS: bindings})
    (found,) = read(server, mutators=True)["pod_validators"]
    assert found.policy == PodMutator(Ref("ValidatingAdmissionPolicy", "", "denies"))
    assert found.binding.namespaces == Selector((Requirement("env", "In", ("prod",)),))
    assert found.changed == "2026-01-03T00:00:00Z"


def test_nothing_is_read_where_nothing_is_needed() -> None:
    server = cluster_of({})
    assert read(server) == {}
    assert server.seen == []


def test_a_bound_claim_needs_its_volume_and_no_class() -> None:
    claim, volume = bound_claim("data", "z1")
    server = cluster_of({CLAIMS: [claim], VOLUMES: [volume]})
    terms = (NodeTerm((Requirement("zone", "In", ("z1",)),)),)
    assert read(server, {KEY: None})["claim_states"] == {KEY: ClaimState(terms)}
    assert lists(server) == [f"/api/v1/namespaces/a/{CLAIMS.rpartition('/')[2]}/data", VOLUMES]


def test_a_claim_without_a_volume_needs_classes_and_free_volumes() -> None:
    storage_class = {
        "metadata": {"name": "made"},
        "provisioner": "csi",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    server = cluster_of({CLASSES: [storage_class]})
    found = read(server, {KEY: ClaimTemplate("data", "made")})
    assert "StorageClass made makes its volume" in found["claim_states"][KEY].doubt
    assert {CLASSES, VOLUMES, CSI_NODES} <= set(lists(server))
    assert read(cluster_of({}), {KEY: None})["claim_states"] == {
        KEY: ClaimState(refusal='persistentvolumeclaim "data" not found')
    }


def test_many_claims_of_a_namespace_are_one_list() -> None:
    pairs = [bound_claim(f"data-{number}", "z1") for number in range(30)]
    server = cluster_of({CLAIMS: [claim for claim, _x in pairs], VOLUMES: [x for _c, x in pairs]})
    needed = {("a", f"data-{number}"): None for number in range(31)}
    states = read(server, needed)["claim_states"]
    assert len(states) == 31
    assert states["a", "data-30"].refusal == 'persistentvolumeclaim "data-30" not found'
    assert len(server.seen) == 2


def test_volume_limits_are_read_for_drivers_of_the_claims() -> None:
    claim, volume = bound_claim("data", "z1", csi={"driver": "csi", "volumeHandle": "x"})
    drivers = [{"name": "csi", "allocatable": {"count": 2}}, {"name": "nfs"}]
    csi_node = {"metadata": {"name": "n1"}, "spec": {"drivers": drivers}}
    server = cluster_of({CLAIMS: [claim], VOLUMES: [volume], CSI_NODES: [csi_node]})
    found = read(server, {KEY: None}, drivers={("a", "other"): "csi"})
    assert found["attach_limits"] == {"n1": {"csi": 2}}
    assert found["drivers"] == {KEY: "csi", ("a", "other"): "csi"}


def test_volume_limits_are_read_for_claims_of_pods_that_move() -> None:
    drivers = {("a", "held"): "csi", ("a", "other"): "nfs"}
    server = cluster_of({})
    found = read(server, drivers=drivers, moved={("a", "held")})
    assert found == {"attach_limits": {}, "drivers": drivers}
    assert lists(server) == [CSI_NODES]
    assert read(cluster_of({}), drivers=drivers, moved={("b", "no driver")}) == {}


@pytest.mark.parametrize(
    "forbidden",
    [CLAIMS, VOLUMES, CLASSES, CSI_NODES, LIMIT_RANGES, WEBHOOKS, POLICIES, VALIDATING, BINDINGS],
)
def test_a_missing_right_is_no_failure(forbidden: str) -> None:
    claim, volume = bound_claim("data", "z1", csi={"driver": "csi", "volumeHandle": "x"})
    server = cluster_of({CLAIMS: [claim], VOLUMES: [volume]})
    forbid(server, forbidden)
    needed = {KEY: None, ("a", "made"): ClaimTemplate("made", "x")}
    found = read(server, needed, namespaces={"a"}, mutators=True)
    states = found["claim_states"]
    assert (found["limit_ranges"] is None) == (forbidden == LIMIT_RANGES)
    assert (found["pod_mutators"] is None) == (forbidden in (WEBHOOKS, POLICIES))
    assert (found["pod_validators"] is None) == (forbidden in (VALIDATING, BINDINGS))
    if forbidden == CLAIMS:
        assert states == {}
    elif forbidden == VOLUMES:
        assert "could not be read" in states[KEY].doubt
    elif forbidden == CLASSES:
        assert "StorageClasses could not be read" in states["a", "made"].doubt
    elif forbidden == CSI_NODES:
        assert found["attach_limits"] is None
