# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels that terms select by, at the wrong level of an object, or on a running pod only."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from tests.support.cluster import HOST, ZONE, Cluster, Object, anti_affinity, apart, spread
from tests.unit.lint.online_offline import deployment, offline, online


def apart_by(**labels: str) -> Object:
    """A plain term over the nodes, which a rollout does not wait for."""
    return anti_affinity({**apart(HOST, plain=True, **labels), "matchLabelKeys": ["app"]})


@pytest.mark.parametrize(
    ("place", "path"),
    [
        (("metadata", "labels"), "metadata.labels"),
        (("spec", "template", "labels"), "spec.template.labels"),
        (("spec", "template", "spec", "labels"), "spec.template.spec.labels"),
        (("spec", "template", "metadata", "annotations"), "spec.template.metadata.annotations"),
    ],
)
def test_label_at_the_wrong_level_is_named_with_its_place(place: list[str], path: str) -> None:
    cluster = Cluster()
    deployment(cluster, "web", apart_by(tier="front"))
    (here,) = t.cast("t.Iterable[Object]", cluster.workloads.values())
    for part in place:
        here = here.setdefault(part, {})
    here["tier"] = "front"

    for found in (online(cluster), offline(cluster)):
        finding = found["selector_matches_nothing"]
        assert finding.severity == "warning"
        assert f"tier=front is a label of Deployment shop/web ({path})" in finding.why


def test_label_of_a_virtual_machine_is_none_of_its_pod() -> None:
    cluster = Cluster()
    ref = cluster.run("db", "n1", anti_affinity(apart(HOST, tier="db")))
    cluster.workloads[ref]["metadata"]["labels"] = {"tier": "db"}

    for found in (online(cluster), offline(cluster)):
        assert "tier=db is a label of VirtualMachine shop/db (metadata.labels)" in (
            found["selector_matches_nothing"].why
        )


def test_label_of_the_vms_of_a_pool_is_none_of_their_pods() -> None:
    cluster = Cluster()
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": anti_affinity(apart(HOST, tier="db")),
    }
    vm = {"metadata": {"labels": {"tier": "db"}}, "spec": {"template": template}}
    selector = {"matchLabels": {"tier": "db"}}
    spec = {"replicas": 2, "selector": selector, "virtualMachineTemplate": vm}
    cluster.workload("VirtualMachinePool", "db", spec)

    finding = offline(cluster)["selector_matches_nothing"]
    assert "(spec.virtualMachineTemplate.metadata.labels) and not of its pods" in finding.why
    assert "(spec.virtualMachineTemplate.spec.template.metadata.labels)" in finding.why


def labelled_by_hand(cluster: Cluster) -> Object:
    """A Deployment with the label tier on one of two pods, which its term selects by."""
    deployment(cluster, "web", spread(tier="front"), replicas=2)
    (ref,) = cluster.workloads
    pod = cluster.start(ref, "n1", "web-1")
    cluster.start(ref, "n3", "web-2")
    pod["metadata"]["labels"]["tier"] = "front"
    return pod


def only_on_pod(cluster: Cluster) -> list[Finding]:
    return [x for x in lint(cluster.snapshot()) if x.name == "label_on_pod_only"]


def test_label_that_only_the_running_pod_has_is_lost_with_it() -> None:
    cluster = Cluster()
    labelled_by_hand(cluster)

    (finding,) = only_on_pod(cluster)
    assert finding.severity == "warning"
    assert finding.why == (
        "Pod shop/web-1 has tier=front, by which terms of Deployment shop/web select it. The template of Deployment"
        " shop/web lacks it, so the next restart loses it, unless an admission webhook adds it to every new pod."
    )
    assert finding.advice == (
        "Put it into spec.template.metadata.labels, or select by labels that stand there."
    )


def test_label_of_the_template_is_not_lost() -> None:
    cluster = Cluster()
    labelled_by_hand(cluster)
    (ref,) = cluster.workloads
    cluster.template(ref)["metadata"]["labels"]["tier"] = "front"

    assert only_on_pod(cluster) == []


def test_label_that_no_term_selects_by_does_not_matter() -> None:
    cluster = Cluster()
    labelled_by_hand(cluster)
    (ref,) = cluster.workloads
    cluster.template(ref)["spec"] = spread(app="web")

    assert only_on_pod(cluster) == []


@pytest.mark.parametrize(
    "status",
    [
        {"replicas": 2, "updatedReplicas": 1},
        {"observedGeneration": 1},
    ],
)
def test_pods_of_an_earlier_template_during_a_rollout_are_no_surprise(status: Object) -> None:
    cluster = Cluster()
    labelled_by_hand(cluster)
    (workload,) = cluster.workloads.values()
    workload["metadata"]["generation"] = 2
    workload["status"] = status

    assert only_on_pod(cluster) == []


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1, "desiredGeneration": 3}], ids=str)
def test_label_that_only_the_launcher_pod_of_a_vm_has(status: Object) -> None:
    """A change of a VM starts no rollout: what its status has observed is the generation that its VMI started with."""
    cluster = Cluster()
    db = cluster.vm("db")
    cluster.workloads[db]["metadata"]["generation"] = 3
    cluster.workloads[db]["status"] = status
    pod = cluster.start(db, "n1")
    pod["metadata"]["labels"]["tier"] = "db"
    cluster.run("app", "n2", anti_affinity(apart(HOST, tier="db")))

    (finding,) = only_on_pod(cluster)
    assert finding.objects == (db,)
    assert "by which terms of VirtualMachine shop/app select it" in finding.why


def test_labels_that_controllers_and_kubevirt_add_come_back() -> None:
    cluster = Cluster()
    added: list[dict[str, t.Any]] = [{"vmi.kubevirt.io/id": "db"}, {"pod-template-hash": "5d4f8"}]
    cluster.run("db", "n1")
    cluster.run("app", "n3", anti_affinity(*(apart(ZONE, **labels) for labels in added)))
    deployment(cluster, "web", {})
    cluster.start(next(ref for ref in cluster.workloads if ref.kind == "Deployment"), "n5")

    assert only_on_pod(cluster) == []
