# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label keys of nodes: misspelt, missing, old, without a prefix, with one value."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    node_affinity,
    spread,
)
from tests.unit.lint.online_offline import deployment, manifests, offline, online


def article(cluster: Cluster, key: str) -> None:
    """Step B5 of the article: each blackbox beside a cache, one in each zone."""
    deployment(cluster, "cache", anti_affinity(apart(app="cache"), apart(ZONE, app="cache")))
    beside = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": key}
    labels: dict[str, t.Any] = {"kubevirt.io/domain": "blackbox"}
    spec = {**affinity(beside)}
    spec["affinity"].update(anti_affinity(apart(ZONE, **labels))["affinity"])
    cluster.workload(
        "VirtualMachineInstanceReplicaSet",
        "blackbox",
        {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    )


def test_the_articles_misspelt_key_is_on_no_node() -> None:
    cluster = Cluster()
    article(cluster, "topology.kubernetes.io/hostname")

    finding = online(cluster)["no_node_has_key"]
    assert finding.severity == "error"
    assert "leaves every pod of it Pending" in finding.why
    assert "kubernetes.io/hostname may be meant" in finding.advice
    assert [ref.name for ref in finding.objects] == ["blackbox"]


def test_the_articles_misspelt_key_is_known_without_a_cluster() -> None:
    cluster = Cluster()
    article(cluster, "topology.kubernetes.io/hostname")

    finding = offline(cluster)["no_node_has_key"]
    assert finding.severity == "error"
    assert "Kubernetes gives no node a label topology.kubernetes.io/hostname" in finding.why
    assert "kubernetes.io/hostname may be meant" in finding.advice


def test_the_articles_fixed_key_is_fine() -> None:
    cluster = Cluster()
    article(cluster, HOST)

    assert "no_node_has_key" not in online(cluster)
    assert "no_node_has_key" not in offline(cluster)
    assert set(offline(cluster)) <= {"depends_on_other_workload", "rollout_deadlock"}


@pytest.mark.parametrize(
    ("part", "severity"),
    [
        pytest.param(expression("example.com/disk", "In", "ssd"), "error", id="wanted"),
        pytest.param(expression("example.com/disk", "Exists"), "error", id="any value"),
        pytest.param(expression("example.com/disk", "NotIn", "hdd"), "warning", id="avoided"),
    ],
)
def test_a_node_expression_on_a_key_of_no_node(part: dict[str, object], severity: str) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", node_affinity({"matchExpressions": [part]}))

    assert online(cluster)["no_node_has_key"].severity == severity
    assert offline(cluster, nodes=True)["no_node_has_key"].severity == severity
    assert offline(cluster) == {}


def test_a_node_selector_on_a_key_of_no_node() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", {"nodeSelector": {"example.com/disk": "ssd"}})

    assert online(cluster)["no_node_has_key"].severity == "error"
    assert set(online(cluster)) == {"no_node_has_key"}


def test_a_topology_key_on_some_of_the_nodes_that_take_the_pods() -> None:
    cluster = Cluster()
    cluster.node("bare")
    cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert found["nodes_lack_key"].severity == "warning"
        assert found["nodes_lack_key"].why.startswith("bare would take its pods")


def test_nodes_that_do_not_take_the_pods_may_lack_the_key() -> None:
    cluster = Cluster()
    cluster.node("bare", taints=[{"key": "control-plane", "effect": "NoSchedule"}])
    cluster.run("db", "n1", anti_affinity(apart(tier="db")), tier="db")

    assert online(cluster) == {}
    assert offline(cluster, nodes=True) == {}


def test_a_deprecated_node_label_names_its_successor() -> None:
    cluster = Cluster()
    old = "failure-domain.beta.kubernetes.io/zone"
    for number, node in enumerate(cluster.nodes.values()):
        node["metadata"]["labels"][old] = f"z{number}"
    cluster.run("db", "n1", anti_affinity(apart(old, tier="db")), tier="db")

    for found in (online(cluster), offline(cluster)):
        assert ZONE in found["deprecated_node_label"].advice


def test_a_key_without_a_prefix_is_bare_unless_declared() -> None:
    cluster = Cluster()
    for number, node in enumerate(cluster.nodes.values()):
        node["metadata"]["labels"]["rack"] = f"r{number}"
    cluster.run("db", "n1", anti_affinity(apart("rack", tier="db")), tier="db")
    declared = Topology.of({"rack": "rack"})

    for found in (online(cluster), offline(cluster)):
        assert found["unprefixed_label_key"].severity == "warning"
    assert lint(cluster.snapshot(), topology=declared) == ()
    assert lint_manifests(manifests(cluster), topology=declared) == ()


@pytest.mark.parametrize("spec", [anti_affinity(apart(app="web")), spread(app="web")])
def test_a_key_with_one_domain_keeps_nothing_apart(spec: dict[str, object]) -> None:
    cluster = Cluster("aaa")
    deployment(cluster, "web", spec)

    for found in (online(cluster), offline(cluster, nodes=True)):
        assert found["single_domain"].severity == "warning"
    assert "single_domain" not in offline(cluster)


def test_vm_pinned_to_one_domain_is_kept_apart_from_vms_in_others() -> None:
    cluster = Cluster("abc")
    in_zone_a = node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]})
    one = {**anti_affinity(apart(app="web"))["affinity"], **in_zone_a["affinity"]}
    cluster.run("web-1", "n1", {"affinity": one}, app="web")
    cluster.run("web-2", "n2", anti_affinity(apart(app="web")), app="web")

    assert "single_domain" not in online(cluster)
    assert "single_domain" not in offline(cluster, nodes=True)


@pytest.mark.parametrize(
    ("operator", "useless"),
    [("NotIn", "excludes no node"), ("In", "allows no node")],
)
def test_a_value_that_no_node_has(operator: str, useless: str) -> None:
    cluster = Cluster()
    asked = node_affinity({"matchExpressions": [expression(ZONE, operator, "a", "B", "scuu")]})
    cluster.run("db", "n1", asked)
    cluster.nodes["n2"]["metadata"]["labels"][ZONE] = "scu"

    found = [f for f in lint(cluster.snapshot()) if f.name == "no_node_has_value"]

    assert [(f.severity, f.why, f.advice) for f in found] == [
        (
            "warning",
            f"No node has {ZONE}={value}, so this value {useless}; nodes have a, b, c, scu.",
            f"Label the nodes, or correct the value; {meant} may be meant.",
        )
        for value, meant in (("B", "b"), ("scuu", "scu"))
    ]


def test_a_preferred_value_that_no_node_has_has_no_effect() -> None:
    cluster = Cluster()
    preference = {"matchExpressions": [expression(ZONE, "In", "B")]}
    weighted = {"weight": 1, "preference": preference}
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    cluster.run("db", "n1", {"affinity": {"nodeAffinity": terms}})

    finding = online(cluster)["no_node_has_value"]

    assert finding.why.startswith(f"No node has {ZONE}=B, so this value has no effect; ")


def test_values_that_others_than_all_have_are_there() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "c")]}))
    assert "no_node_has_value" not in online(cluster)


@pytest.mark.parametrize(
    ("other", "severity"), [(ZONE, "warning"), ("topology.kubernetes.io/rack", "error")]
)
def test_key_on_no_node_is_an_error_unless_another_node_term_allows_nodes(
    other: str, severity: str
) -> None:
    cluster = Cluster()
    terms = [
        {"matchExpressions": [expression(key, "In", "a")]}
        for key in ("topology.kubernetes.io/row", other)
    ]
    cluster.run("db", "n1", node_affinity(*terms))

    for findings in (lint(cluster.snapshot()), lint_manifests(manifests(cluster))):
        found = [finding for finding in findings if finding.name == "no_node_has_key"]
        assert {finding.severity for finding in found} == {severity}
        for finding in found:
            alternatives = "allows nodes only by its other alternatives" in finding.why
            assert alternatives is (severity == "warning")


def test_key_that_no_node_can_have_is_no_error_where_nodes_must_not_have_it() -> None:
    cluster = Cluster()
    key = "topology.kubernetes.io/row"
    cluster.run("db", "n1", node_affinity({"matchExpressions": [expression(key, "NotIn", "a")]}))
    cluster.run("web", "n1", node_affinity({"matchExpressions": [expression(key, "DoesNotExist")]}))

    for found in (online(cluster), offline(cluster)):
        assert found["no_node_has_key"].severity == "warning"
        assert [ref.name for ref in found["no_node_has_key"].objects] == ["db"]


OLD_OS, OS = "beta.kubernetes.io/os", "kubernetes.io/os"


def on_linux(*keys: str) -> dict[str, t.Any]:
    """Each key in an alternative of its own, as charts for old and new nodes have it."""
    return node_affinity(*({"matchExpressions": [expression(key, "In", "linux")]} for key in keys))


def labelled(cluster: Cluster, *keys: str, nodes: t.Container[str] = ("n1", "n2", "n3")) -> None:
    for name, node in cluster.nodes.items():
        if name in nodes:
            node["metadata"]["labels"].update(dict.fromkeys(keys, "linux"))


def test_a_replaced_key_is_never_said_to_be_meant() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OLD_OS)
    cluster.run("db", "n1", on_linux("beta.kubernetes.io/oss"))

    assert "may be meant" not in online(cluster)["no_node_has_key"].why


def test_replaced_key_that_no_node_has_is_one_finding_with_its_successor() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OS)
    cluster.run("db", "n1", on_linux(OLD_OS))

    finding = online(cluster)["no_node_has_key"]
    assert set(online(cluster)) == {"no_node_has_key"}
    assert finding.severity == "error"
    assert f"Kubernetes has replaced it by {OS}, which nodes have" in finding.why
    assert finding.advice == f"Use {OS}."


def test_replaced_key_beside_its_successor_on_all_nodes() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OS, OLD_OS)
    cluster.run("db", "n1", on_linux(OLD_OS))

    finding = online(cluster)["deprecated_node_label"]
    assert finding.severity == "info"
    assert finding.advice == f"Use {OS}: each node with {OLD_OS} has it with the same value."


def test_replaced_key_whose_successor_some_nodes_lack() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OLD_OS)
    labelled(cluster, OS, nodes=("n1", "n2"))
    cluster.run("db", "n1", on_linux(OLD_OS))

    finding = online(cluster)["deprecated_node_label"]
    assert finding.severity == "warning"
    assert finding.advice == f"Label n3 with {OS} and the same value, then use {OS}."


def test_replaced_key_whose_successor_is_an_alternative_of_the_same_term() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OS)
    cluster.run("db", "n1", on_linux(OLD_OS, OS))

    for found in (online(cluster), offline(cluster)):
        finding = found["deprecated_node_label"]
        assert set(found) == {"deprecated_node_label"}
        assert finding.severity == "info"
        assert finding.advice.startswith(f"Remove {OLD_OS}: {OS} is beside it")


def test_replaced_key_that_is_required_together_with_its_successor() -> None:
    cluster = Cluster("abc")
    labelled(cluster, OS)
    both = node_affinity({"matchExpressions": [expression(x, "In", "linux") for x in (OLD_OS, OS)]})
    cluster.run("db", "n1", both)

    assert offline(cluster)["deprecated_node_label"].severity == "warning"
    assert offline(cluster)["deprecated_node_label"].advice.startswith(f"Remove {OLD_OS}")
    assert online(cluster)["no_node_has_key"].severity == "error"
    assert online(cluster)["no_node_has_key"].advice == f"Remove {OLD_OS}: {OS} is beside it."


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("topology.kubernetes.io/zones", ZONE),
        ("topology.kubernetes.io/Zone", ZONE),
        ("topolgy.kubernetes.io/zone", ZONE),
        ("topology.kubernets.io/zone", ZONE),
        ("topology.k8s.io/zone", ZONE),
        ("kubernetes.io/zone", ZONE),
        ("failure-domain.kubernetes.io/zone", ZONE),
        ("kubernetes.io/host-name", HOST),
        ("kubernetes.io/hostnames", HOST),
        ("kubernetes.io/hostame", HOST),
        ("kubernetes.io/host", HOST),
        ("topology.kubernetes.io/hostname", HOST),
        ("topology.kubernetes.io/regions", "topology.kubernetes.io/region"),
        ("kubernetes.io/architecture", "kubernetes.io/arch"),
    ],
)
def test_misspelt_key_of_kubernetes_is_reported_without_nodes(key: str, meant: str) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart(key, tier="db")), tier="db")

    finding = offline(cluster)["no_node_has_key"]
    assert key in finding.why
    assert finding.advice == f"Correct the key; {meant} may be meant."
    if not meant.endswith("region"):  # which no node has
        assert online(cluster)["no_node_has_key"].advice.endswith(f"; {meant} may be meant.")


@pytest.mark.parametrize(
    "key",
    [
        "topology.ebs.csi.aws.com/zone",
        "node-restriction.kubernetes.io/zone",
        "node.kubernetes.io/lifecycle",
        "node-role.kubernetes.io/controlplane",
        "node-role.kubernetes.io/worker",
        "feature.node.kubernetes.io/pci-10de.present",
        "cattle.io/os",
        "example.com/hostname",
        "kubernetes.io/role",
        "node.kubernetes.io/instance-type",
        "kops.k8s.io/instancegroup",
    ],
)
def test_key_that_others_put_on_nodes_is_not_taken_for_a_misspelt_one(key: str) -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart(key, tier="db")), tier="db")

    assert "no_node_has_key" not in offline(cluster)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("cattle.io/os", f"; {OS} may be meant"),
        ("kubernetes.io/role", ""),
        ("disk.example.com/type", ""),
    ],
)
def test_suggested_key_is_no_replaced_one_and_none_of_another_meaning(key: str, hint: str) -> None:
    cluster = Cluster("abc")
    labelled(cluster, OS, OLD_OS, "gpu.vendor.org/type")
    cluster.run("db", "n1", {"nodeSelector": {key: "linux"}})

    assert online(cluster)["no_node_has_key"].advice == (
        f"Label the nodes first, or correct the key{hint}."
    )


@pytest.mark.parametrize(
    ("value", "hint"), [("zone-d", ""), ("zone-4", ""), ("Zone-a", "; zone-a may be meant")]
)
def test_another_member_of_a_series_is_not_suggested(value: str, hint: str) -> None:
    cluster = Cluster("")
    for number, zone in enumerate(("zone-a", "zone-b", "zone-1", "zone-2")):
        cluster.node(f"n{number}", {ZONE: zone})
    cluster.run("db", "n1", {"nodeSelector": {ZONE: value}})

    assert online(cluster)["no_node_has_value"].advice == (
        f"Label the nodes, or correct the value{hint}."
    )


def test_bare_name_of_a_key_of_kubernetes_is_completed() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", anti_affinity(apart("hostname", tier="db")), tier="db")

    assert offline(cluster)["unprefixed_label_key"].advice.endswith(f"{HOST} may be meant.")
