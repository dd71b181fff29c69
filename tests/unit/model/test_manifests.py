# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests to values: equal placements are one value."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model import manifests
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Requirement,
    Selector,
    Taint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.placement_manifests import (
    CREATED_BY,
    REQUIRED,
    merge_match_label_keys,
    placement_from_spec,
)

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
GROUP = Requirement("group", "In", ("g1",))


def launcher(uid: str, **metadata: JSON) -> JSON:
    """A launcher pod with keep_apart as the API server stores it."""
    own = {"key": CREATED_BY, "operator": "NotIn", "values": [uid]}
    apart = {
        "labelSelector": {"matchLabels": {"group": "g1"}, "matchExpressions": [own]},
        "mismatchLabelKeys": [CREATED_BY],
        "topologyKey": ZONE,
    }
    return {
        "metadata": {
            "name": f"virt-launcher-{uid}",
            "namespace": "shop",
            "labels": {"group": "g1", CREATED_BY: uid},
            **metadata,
        },
        "spec": {
            "affinity": {"podAntiAffinity": {REQUIRED: [apart]}},
            "containers": [{"name": "compute", "resources": {"requests": {"cpu": "1"}}}],
        },
    }


def test_pods_of_a_group_share_one_placement() -> None:
    first, second = map(pod_from_manifest, (launcher("uid-aaaa"), launcher("uid-bbbb")))
    assert first.placement is second.placement
    (term,) = first.placement.anti_affinity
    assert term.differs_in == CREATED_BY
    assert term.selector == Selector((GROUP,))


def test_placement_with_own_uid_outside_not_in_is_not_shared() -> None:
    """A migration target has anti-affinity to its own source pod."""

    def target(uid: str) -> JSON:
        manifest = launcher(uid)
        terms = manifest["spec"]["affinity"]["podAntiAffinity"][REQUIRED]
        terms.append({"labelSelector": {"matchLabels": {CREATED_BY: uid}}, "topologyKey": "host"})
        return manifest

    first, second = pod_from_manifest(target("uid-aaaa")), pod_from_manifest(target("uid-bbbb"))
    assert first.placement != second.placement
    assert first.placement.anti_affinity[0] == second.placement.anti_affinity[0]
    expected = Selector((Requirement(CREATED_BY, "In", ("uid-aaaa",)),))
    assert first.placement.anti_affinity[1].selector == expected
    assert pod_from_manifest(target("uid-aaaa")).placement is first.placement


def test_uid_of_another_vmi_stays_in_the_selector() -> None:
    manifest = launcher("uid-aaaa")
    manifest["metadata"]["labels"][CREATED_BY] = "uid-cccc"
    (term,) = pod_from_manifest(manifest).placement.anti_affinity
    assert term.differs_in == ""
    assert term.selector == Selector((GROUP, Requirement(CREATED_BY, "NotIn", ("uid-aaaa",))))


def test_pod_without_created_by_shares_no_placement_with_one_that_has_it() -> None:
    stranger = launcher("uid-dddd")
    del stranger["metadata"]["labels"][CREATED_BY]
    unshared = pod_from_manifest(stranger).placement
    assert unshared.anti_affinity[0].differs_in == ""
    assert pod_from_manifest(launcher("uid-dddd")).placement.anti_affinity[0].differs_in
    assert pod_from_manifest(copy.deepcopy(stranger)).placement is unshared


def test_merged_template_equals_the_stored_pod() -> None:
    template = launcher("uid-aaaa")["spec"]
    term = template["affinity"]["podAntiAffinity"][REQUIRED][0]
    del term["labelSelector"]["matchExpressions"]
    declared = placement_from_spec(template)
    labels = {"group": "g1", CREATED_BY: "uid-aaaa"}
    merged = merge_match_label_keys(declared, labels)
    assert merged == pod_from_manifest(launcher("uid-aaaa")).placement
    assert merge_match_label_keys(merged, labels) == merged
    assert merge_match_label_keys(declared, {}) == declared


def test_match_label_keys_are_merged_into_selectors() -> None:
    spec = {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [
                    {
                        "labelSelector": {},
                        "matchLabelKeys": ["rev", "none"],
                        "mismatchLabelKeys": ["tenant"],
                        "topologyKey": ZONE,
                    },
                    {"matchLabelKeys": ["rev"], "topologyKey": ZONE},
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "labelSelector": {},
                "matchLabelKeys": ["rev"],
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ],
    }
    merged = merge_match_label_keys(placement_from_spec(spec), {"rev": "2", "tenant": "t"})
    rev = Requirement("rev", "In", ("2",))
    first, second = merged.anti_affinity
    assert first.selector == Selector((rev, Requirement("tenant", "NotIn", ("t",))))
    assert second.selector is None
    assert merged.spread[0].selector == Selector((rev,))


def test_pod_fields_are_read_from_the_manifest() -> None:
    pod = pod_from_manifest(
        {
            "metadata": {
                "name": "p",
                "namespace": "shop",
                "uid": "u",
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 7201,
                "ownerReferences": [
                    {"kind": "Node", "name": "x"},
                    {
                        "apiVersion": "kubevirt.io/v1",
                        "kind": "VirtualMachineInstance",
                        "name": "vm",
                        "uid": "v",
                        "controller": True,
                    },
                ],
            },
            "spec": {
                "nodeName": "n1",
                "containers": [
                    {"name": "a", "ports": [{"containerPort": 1}, {"hostPort": 80}]},
                ],
                "initContainers": [
                    {"name": "i", "ports": [{"hostPort": 81}]},
                    {
                        "name": "s",
                        "restartPolicy": "Always",
                        "ports": [{"hostPort": 82, "protocol": "UDP", "hostIP": "10.0.0.1"}],
                    },
                ],
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "disk"}},
                    {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
                    {"name": "c", "emptyDir": {}},
                ],
                "priority": 7,
                "preemptionPolicy": "Never",
                "schedulingGates": [{"name": "example.com/gate"}],
            },
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )
    assert (pod.terminating, pod.ready, pod.finished, pod.may_preempt) == (True, True, False, False)
    assert (pod.deletion_grace, pod.lingers, pod.gated) == (7201, True, True)
    assert pod.owner == Owner("VirtualMachineInstance", "vm", "v", "kubevirt.io")
    assert pod.host_ports == (("TCP", "0.0.0.0", 80), ("UDP", "10.0.0.1", 82))
    assert pod.claims == ("disk", "p-b")
    assert pod.priority == 7


def test_resized_container_counts_with_its_highest_requests() -> None:
    manifest = launcher("uid-aaaa")
    status = {"name": "compute", "resources": {"requests": {"cpu": "1"}}}
    manifest["status"] = {"containerStatuses": [status]}
    assert pod_from_manifest(manifest).requests == {"cpu": 1000}
    status["resources"] = {"requests": {"cpu": "3"}}
    status["allocatedResources"] = {"cpu": "2"}
    assert pod_from_manifest(manifest).requests == {"cpu": 3000}
    status["resources"] = {"requests": {"cpu": "500m"}}
    assert pod_from_manifest(manifest).requests == {"cpu": 2000}


@pytest.mark.parametrize(
    "status", [{"resources": {"requests": {"cpu": "3"}}}, {"allocatedResources": {"cpu": "3"}}]
)
def test_container_that_is_being_resized_has_its_requests_in_one_field_of_its_status(
    status: JSON,
) -> None:
    manifest = launcher("uid-aaaa")
    manifest["status"] = {"containerStatuses": [{"name": "compute", **status}]}
    assert pod_from_manifest(manifest).requests == {"cpu": 3000}


def test_node_fields_are_read_from_the_manifest() -> None:
    node = node_from_manifest(
        {
            "metadata": {"name": "n1"},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": True},
            "status": {
                "allocatable": {"cpu": "2", "pods": "10"},
                "conditions": [{"type": "Ready", "status": "Unknown"}],
            },
        }
    )
    assert node.taints == (Taint("k", "", "NoSchedule"),)
    assert (node.unschedulable, node.ready) == (True, False)
    assert node.allocatable == {"cpu": 2000, "pods": 10}
    assert node.labels == {}


def vm(name: str) -> JSON:
    labels = {"group": "g1", "tier": "gold"}
    domain = {"cpu": {"cores": 2}, "devices": {"disks": [{"name": "root"}]}, "ioThreads": 4}
    volumes = [{"name": "root", "persistentVolumeClaim": {"claimName": f"{name}-root"}}]
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": {manifests.LAST_APPLIED: "{}", "note": "mine"},
            "generation": 70_000,
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "running": True,
            "template": {
                "metadata": {"labels": {**labels}},
                "spec": {"domain": domain, "hostname": name, "networks": [], "volumes": volumes},
            },
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "created": True},
    }


def kept(manifest: JSON) -> JSON:
    """What a Workload keeps of a manifest."""
    managers = [{"manager": entry["manager"]} for entry in manifest["metadata"]["managedFields"]]
    # without the key, a JSON Patch would take an object that has no other annotation for one with none
    annotations = {manifests.LAST_APPLIED: "", "note": "mine"}
    metadata = {**manifest["metadata"], "managedFields": managers, "annotations": annotations}
    return {**manifest, "metadata": metadata}


def test_vms_share_what_is_equal_and_differ_in_what_is_not() -> None:
    first, second = (workload_from_manifest("VirtualMachine", vm(name)) for name in ("a", "b"))
    assert (first.manifest, second.manifest) == (kept(vm("a")), kept(vm("b")))
    specs = first.template["spec"], second.template["spec"]
    assert specs[0]["domain"] is specs[1]["domain"]
    assert specs[0]["volumes"] != specs[1]["volumes"]
    assert first.template_labels is second.template_labels is first.labels


def test_vm_shares_with_its_vmi() -> None:
    template = vm("a")["spec"]["template"]
    running = vmi_from_manifest({"metadata": vm("a")["metadata"], "spec": template["spec"]})
    declared = workload_from_manifest("VirtualMachine", vm("a")).template["spec"]
    assert running.spec == declared == template["spec"]
    for field in ("domain", "volumes"):
        assert running.spec[field] is declared[field]


def test_values_are_the_same_once_the_caches_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "_LIMIT", 2)
    names = ("a", "b", "a")
    read = [workload_from_manifest("VirtualMachine", vm(name)).manifest for name in names]
    assert read == [kept(vm(name)) for name in names]
    pods = [pod_from_manifest(launcher(uid)) for uid in ("uid-a", "uid-b", "uid-a")]
    assert pods[0] == pods[2]


def test_maps_with_one_hash_are_not_mixed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "hash", lambda _value: 1, raising=False)
    monkeypatch.setattr(manifests, "_shared_maps", {})
    read = [workload_from_manifest("VirtualMachine", vm(name)).manifest for name in ("a", "b")]
    assert read == [kept(vm("a")), kept(vm("b"))]
