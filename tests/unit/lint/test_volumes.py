# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling updates of pods that share a volume which one pod, or one node, can use."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    in_namespace,
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from tests.support.cluster import HOST, ZONE, Cluster, Object, anti_affinity, apart, node_affinity
from tests.support.manifests import manifest, workload
from tests.unit.lint.online_offline import deployment, manifests, online

KEY = ("shop", "data")
JSON = t.Any
MOUNTED: Object = {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}]}


SHOP = {"namespace": "shop"}


def claim(*modes: str, volume: str = "") -> JSON:
    spec: Object = {"accessModes": list(modes), "volumeName": volume}
    return manifest("PersistentVolumeClaim", "data", metadata=SHOP, spec=spec)


def within(key: str, value: str) -> Object:
    """The nodes that a volume is on."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def local_volume(**spec: t.Any) -> JSON:
    spec = {"nodeAffinity": within(HOST, "n1"), "local": {"path": "/data"}, **spec}
    return manifest("PersistentVolume", "local", spec=spec)


def web(replicas: int = 1, spec: Object | None = None, **more: t.Any) -> Cluster:
    cluster = Cluster("abc")
    deployment(cluster, "web", {**MOUNTED, **(spec or {})}, replicas=replicas, **more)
    return cluster


def found(cluster: Cluster, *modes: str) -> dict[str, Finding]:
    """The same on the cluster and in files."""
    listed = [*manifests(cluster, nodes=True), claim(*modes)]
    in_files = {finding.name: finding for finding in lint_manifests(listed)}
    on_cluster = online(cluster, access_modes={KEY: modes})
    assert in_files == on_cluster
    return on_cluster


def test_rolling_update_with_read_write_once_must_stay_on_the_node() -> None:
    finding = found(web(), "ReadWriteOnce")["volume_blocks_rollout"]

    assert finding.severity == "warning"
    assert finding.why == (
        "Its pods use the claim data, which is ReadWriteOnce, so the new pod of a rollout must run on the node of the"
        " old one, which is not stopped before the new one is Ready: on another node it waits for the volume forever."
    )
    assert finding.advice.startswith("Set strategy.type: Recreate, or maxSurge 0")


def test_rolling_update_with_read_write_once_pod_never_ends() -> None:
    finding = found(web(), "ReadWriteOncePod")["volume_blocks_rollout"]

    assert finding.severity == "error"
    assert "is ReadWriteOncePod, so the new pod of a rollout stays Pending" in finding.why


def test_two_pods_cannot_use_one_claim_of_one_pod() -> None:
    findings = found(web(2, strategy={"type": "Recreate"}), "ReadWriteOncePod")

    assert set(findings) == {"unsatisfiable"}
    assert "Only 1 of 2 pods can run: all use the claim data" in findings["unsatisfiable"].why


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "Recreate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        {"rollingUpdate": {"maxUnavailable": 1}},
    ],
)
def test_strategy_that_stops_the_old_pod_first_frees_the_volume(strategy: Object) -> None:
    for mode in ("ReadWriteOnce", "ReadWriteOncePod"):
        assert found(web(strategy=strategy), mode) == {}


@pytest.mark.parametrize("modes", [("ReadWriteMany",), ("ReadWriteOnce", "ReadWriteMany"), ()])
def test_volume_of_all_nodes_or_of_unknown_modes_blocks_no_rollout(modes: tuple[str, ...]) -> None:
    assert found(web(), *modes) == {}


def test_claim_that_is_not_known_has_no_finding() -> None:
    assert lint_manifests(manifests(web(), nodes=True)) == ()


def test_anti_affinity_forbids_the_only_node_of_the_volume() -> None:
    term = {**apart(HOST, plain=True, app="web")}
    finding = found(web(spec=anti_affinity(term)), "ReadWriteOnce")["volume_blocks_rollout"]

    assert finding.severity == "error"
    assert finding.why.endswith("and its anti-affinity forbids that node.")


def test_volume_of_one_node_is_named_with_its_node() -> None:
    on_n1 = (NodeTerm((Requirement(HOST, "In", ("n1",)),)),)
    modes = ("ReadWriteOnce",)
    cluster = web()
    named = [*manifests(cluster, nodes=True), claim(*modes, volume="local"), local_volume()]
    reference = local_volume(claimRef={"namespace": "shop", "name": "data"})
    referring = [*manifests(cluster, nodes=True), claim(*modes), reference]

    for findings in (
        online(cluster, access_modes={KEY: modes}, claim_terms={KEY: on_n1}).values(),
        lint_manifests(named),
        lint_manifests(referring),
    ):
        (finding,) = findings
        assert "is of node n1" in finding.why
        assert finding.why.endswith("without room for both on n1 the rollout waits forever.")


def test_other_kinds_stop_a_pod_before_they_start_the_next() -> None:
    cluster = web()
    ((ref, manifest),) = cluster.workloads.items()
    cluster.workloads = {ref._replace(kind="StatefulSet"): {**manifest, "kind": "StatefulSet"}}

    assert online(cluster, access_modes={KEY: ("ReadWriteOnce",)}) == {}


def test_claims_and_volumes_in_files_are_read_and_checked() -> None:
    bare = claim("ReadWriteOnce")
    del bare["metadata"]["namespace"]
    items = [("a", bare), ("b", local_volume()), ("c", {**bare, "spec": []})]
    read = read_manifests(Document(where, value) for where, value in items)

    assert [fault.where for fault in read.faults] == ["c (PersistentVolumeClaim data), spec"]
    assert read.passed_over == ()
    namespaces = [x["metadata"].get("namespace") for x in in_namespace(read.manifests, "shop")]
    assert namespaces == ["shop", None]


def stateful_set(node_terms: Object, replicas: int = 3, **more: t.Any) -> JSON:
    template = {"containers": [], **node_terms}
    spec = {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}], **more}
    labels = {"app": "db"}
    return workload("StatefulSet", "db", labels, template, metadata=SHOP, replicas=replicas, **spec)


def volume_in(zone: str, claim_name: str) -> JSON:
    reference = {"namespace": "shop", "name": claim_name}
    spec = {"claimRef": reference, "nodeAffinity": within(ZONE, zone)}
    return manifest("PersistentVolume", f"pv-{claim_name}", spec=spec)


VOLUMES_OF_DB = [volume_in(zone, f"data-db-{n}") for n, zone in enumerate("aba")]


@pytest.mark.parametrize("with_nodes", [False, True])
@pytest.mark.parametrize(
    "node_terms",
    [
        {"nodeSelector": {ZONE: "b"}},
        node_affinity(
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b", "c"]}]}
        ),
        node_affinity({"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["a"]}]}),
    ],
)
def test_replicas_whose_volumes_their_template_leaves_out(
    node_terms: Object, with_nodes: bool
) -> None:
    nodes = manifests(Cluster("abc"), nodes=True) if with_nodes else []
    (finding,) = lint_manifests([stateful_set(node_terms), *VOLUMES_OF_DB, *nodes])

    assert (finding.name, finding.severity) == ("unsatisfiable", "error")
    assert finding.why == (
        f"db-0 and db-2 can never run: the volumes of their claims data-db-0 and data-db-2 are bound to nodes with"
        f" {ZONE} In (a), and the node terms of the template leave these out."
    )
    assert finding.advice == "Allow these nodes, or move the volumes first."


def test_replicas_whose_volumes_the_template_allows() -> None:
    allowed = {"nodeSelector": {ZONE: "a"}}
    assert lint_manifests([stateful_set(allowed, 1), *VOLUMES_OF_DB]) == ()
    assert lint_manifests([stateful_set({}), *VOLUMES_OF_DB]) == ()
    only_b = stateful_set({"nodeSelector": {ZONE: "b"}}, 1, ordinals={"start": 1})
    assert lint_manifests([only_b, *VOLUMES_OF_DB]) == ()
    held = {"rollingUpdate": {"partition": 3}}
    of_another_template = stateful_set({"nodeSelector": {ZONE: "b"}}, updateStrategy=held)
    assert lint_manifests([of_another_template, *VOLUMES_OF_DB]) == ()


@pytest.mark.parametrize("affinity", [True, False])
def test_volume_with_zone_labels_is_named_by_its_zone(affinity: bool) -> None:
    volume = volume_in("a", "data-db-0")
    zone, region = ZONE, "topology.kubernetes.io/region"
    volume["metadata"]["labels"] = {zone: "a", region: "eu"}
    if not affinity:
        del volume["spec"]["nodeAffinity"]
    (finding,) = lint_manifests([stateful_set({"nodeSelector": {ZONE: "b"}}, 1), volume])

    assert (
        f"is bound to nodes with {zone} In (a) and {region} In (eu), and the node terms"
        in finding.why
    ), finding.why


def test_volume_of_a_shared_claim_is_checked_without_nodes() -> None:
    cluster = web(spec={"nodeSelector": {ZONE: "b"}}, strategy={"type": "Recreate"})
    (finding,) = lint_manifests([*manifests(cluster), claim(), volume_in("a", "data")])

    assert finding.why == (
        f"None of its pods can ever run: the volume of its claim data is bound to nodes with {ZONE} In (a), and its"
        " node terms leave these out."
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"volumeClaimTemplates": [{"spec": {}}]},
            "volumeClaimTemplates[0].metadata.name: must be a name",
        ),
        ({"volumeClaimTemplates": [None]}, "volumeClaimTemplates[0].metadata.name: must be a name"),
        ({"volumeClaimTemplates": {}}, "volumeClaimTemplates: must be a list"),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": "2"}}},
            "updateStrategy.rollingUpdate.partition: must be a whole number",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "few"}}},
            "updateStrategy.rollingUpdate.maxUnavailable: must be a number or a percentage",
        ),
        ({"ordinals": {"start": "x"}}, "ordinals.start: must be a whole number"),
    ],
)
def test_stateful_set_of_a_wrong_form_is_refused(more: Object, message: str) -> None:
    read = read_manifests([Document("a", stateful_set({}, **more))])
    assert message in str(read.faults[0])
