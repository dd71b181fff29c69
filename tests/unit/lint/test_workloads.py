# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a workload is, what its rules are worth, and what the server can do."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import HOST, ZONE, Cluster, anti_affinity, apart, expression, spread
from tests.support.manifests import manifest, workload
from tests.unit.lint.online_offline import deployment, manifests, offline, online

IN_A = (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a"))


def test_a_foreign_or_term_bypasses_a_rule() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", IN_A)
    (required,) = cluster.template(ref)["spec"]["affinity"]["nodeAffinity"].values()
    required["nodeSelectorTerms"].append({"matchExpressions": [expression(HOST, "Exists")]})

    for found in (online(cluster), offline(cluster)):
        assert {name: (f.severity, f.rule) for name, f in found.items()} == {
            "bypassed_by_node_term": ("error", "in-a")
        }


def test_a_copy_carries_the_rules_of_another() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", IN_A)
    cluster.workloads[ref]["metadata"]["uid"] = "another"

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"copied_annotation"}


@pytest.mark.parametrize(
    ("where", "key"),
    [("labels", "argocd.argoproj.io/instance"), ("annotations", "meta.helm.sh/release-name")],
)
def test_rules_on_an_externally_managed_object(where: str, key: str) -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", IN_A)
    cluster.workloads[ref]["metadata"].setdefault(where, {})[key] = "shop"

    for found in (online(cluster), offline(cluster)):
        assert set(found) == {"externally_managed"}
        assert key in found["externally_managed"].why


def test_rules_that_came_with_an_externally_managed_object_stay() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", IN_A)
    metadata = cluster.workloads[ref]["metadata"]
    metadata["labels"] = {"argocd.argoproj.io/instance": "shop"}
    del metadata["annotations"][UNDO]  # a policy wrote them at its creation, or its source has them

    assert online(cluster) == offline(cluster) == {}


def test_externally_managed_object_without_rules_has_no_finding() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.workloads[ref]["metadata"]["labels"] = {"argocd.argoproj.io/instance": "shop"}

    assert online(cluster) == {}
    assert offline(cluster) == {}


@pytest.mark.parametrize(
    ("kubernetes", "kubevirt", "lacks"),
    [
        pytest.param((1, 33), "v1.8.4", False, id="both new"),
        pytest.param((1, 30), "v1.8.4", True, id="an old Kubernetes"),
        pytest.param((1, 33), "v1.2.0", True, id="an old KubeVirt"),
    ],
)
def test_mismatch_label_keys_on_an_old_server(
    kubernetes: tuple[int, int], kubevirt: str, lacks: bool
) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")
    platform = Platform(kubernetes=kubernetes, kubevirt=kubevirt)

    assert ("unsupported_by_server" in online(cluster, platform=platform)) is lacks
    assert ("unsupported_by_server" in offline(cluster, platform=platform)) is lacks
    assert "unsupported_by_server" not in offline(cluster)


def test_taints_policy_on_an_old_server() -> None:
    cluster = Cluster()
    constraint = {**spread(tier="db")["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}
    ref = cluster.vm("db", {"topologySpreadConstraints": [constraint]}, tier="db")
    platform = Platform(kubernetes=(1, 25), kubevirt="v1.8.4")

    for found in (online(cluster, platform=platform), offline(cluster, platform=platform)):
        assert "nodeTaintsPolicy" in found["unsupported_by_server"].why
        assert found["unsupported_by_server"].objects == (ref,)


def pod_on(node: str, **metadata: str) -> t.Any:
    spec = {"nodeName": node, "containers": []}
    return manifest("Pod", "probe", metadata=metadata, spec=spec)


def test_manifest_of_a_pod_that_names_its_node() -> None:
    (finding,) = lint_manifests([pod_on("n1")])

    assert (finding.name, finding.severity) == ("names_node", "warning")
    assert finding.why == (
        "It names node n1 (nodeName), so kube-scheduler does not place it, and checks none of the constraints."
    )
    assert lint_manifests([pod_on("n1", uid="1")]) == (), "the scheduler chose its node"


def test_template_that_names_a_node_which_does_not_exist() -> None:
    cluster = Cluster("abc")
    deployment(cluster, "web", {"nodeName": "gone"})
    (finding,) = lint_manifests(manifests(cluster, nodes=True))

    assert (finding.name, finding.severity) == ("names_node", "error")
    assert finding.why.endswith(
        "There is no such node, so its pods cannot run, and the garbage collector deletes them."
    )


def test_vm_has_no_node_name() -> None:
    vm = workload("VirtualMachine", "vm", {}, {"domain": {}, "nodeName": "n1"})
    (fault,) = read_manifests([Document("a", vm)]).faults
    assert "spec.template.spec: unknown field 'nodeName': for a VM use nodeSelector with" in str(
        fault
    )
