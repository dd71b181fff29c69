# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The form of what stands in files, and manifests as they would stand on a cluster."""

from __future__ import annotations

import copy
import datetime
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    ReadManifests,
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
    lint_rules,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from sandbox import objects
from tests.parsed import parsed
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    anti_affinity,
    apart,
    expression,
    spread,
)
from tests.support.manifests import workload
from tests.unit.lint.online_offline import deployment, manifests

JSON = t.Any


def vm(spec: JSON, **metadata: JSON) -> JSON:
    template = {"domain": {}, **spec}
    return workload("VirtualMachine", "db", {"tier": "db"}, template, metadata=metadata)


def read_items(items: t.Iterable[tuple[str, JSON]]) -> ReadManifests:
    """Each item with its place."""
    return read_manifests(Document(where, value) for where, value in items)


def names(*items: JSON) -> set[str]:
    read = read_items([(str(number), item) for number, item in enumerate(items)])
    assert not read.faults, read.faults
    return {finding.name for finding in lint_manifests(read.manifests)}


def test_lists_are_opened_and_other_documents_passed_over() -> None:
    bad = vm(anti_affinity({"topologyKey": ZONE}))
    items = [
        ("a", {"kind": "List", "items": [bad, {"kind": "Service", "metadata": {"name": "x"}}]}),
        ("b", {"replicaCount": 3}),
    ]

    read = read_items(items)

    assert (len(read.manifests), len(read.passed_over), read.faults) == (1, 2, ())


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param([1], "must be a Kubernetes object, not a list", id="no object"),
        pytest.param({"kind": "Node"}, "metadata.name: must be a name, not null", id="no name"),
        pytest.param(
            vm({}, labels={"on": True}),
            "(VirtualMachine db), metadata.labels.on: must be text, not the boolean true",
            id="a label that is no text",
        ),
        pytest.param(
            vm({"affinity": {"podAntiAfinity": {}}}),
            "spec.template.spec.affinity: unknown field 'podAntiAfinity'; did you mean"
            " 'podAntiAffinity'",
            id="a field that Kubernetes has not",
        ),
        pytest.param(vm({"nodeSelector": []}), "nodeSelector: must be a map", id="another form"),
        pytest.param(
            vm({"topologySpreadConstraints": [{"maxSkew": "1", "topologyKey": ZONE}]}),
            "topologySpreadConstraints[0].maxSkew: must be a number, not '1'",
            id="a quoted number",
        ),
        pytest.param(
            vm({"tolerations": [None]}),
            "spec.tolerations[0]: must be a map of key, operator, value, effect, tolerationSeconds, not null",
            id="a null in a list",
        ),
        pytest.param({**vm({}), "spec": []}, "spec: must be a map, not a list", id="no spec"),
        pytest.param(
            {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": "three"}},
            "spec.replicas: must be a whole number, not 'three'",
            id="replicas",
        ),
        pytest.param(
            {"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"replicas": -1}},
            "spec.replicas: must be 0 or more, not -1",
            id="fewer replicas than none",
        ),
        pytest.param(
            {
                "kind": "Deployment",
                "metadata": {"name": "x"},
                "spec": {"strategy": {"rollingUpdate": {"maxSurge": "few"}}},
            },
            "maxSurge: must be a number or a percentage, not 'few'",
            id="maxSurge",
        ),
        pytest.param(
            {
                "kind": "VirtualMachine",
                "metadata": {"name": "x"},
                "spec": {"template": {"metadata": {"labels": {datetime.date(2026, 1, 2): "y"}}}},
            },
            "spec.template.metadata.labels: the key 2026-01-02 must be text: quote it",
            id="a date as the key of a label",
        ),
        pytest.param(
            {"kind": "Node", "metadata": {"name": "x"}, "status": {"allocatable": {"cpu": "?"}}},
            "cannot be read as a Node",
            id="a quantity",
        ),
        pytest.param(
            {"kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": [{"key": ["a"]}]}},
            "cannot be read as a Node",
            id="a taint",
        ),
        pytest.param(
            {"kind": "Deployment", "metadata": {"name": "x", "ownerReferences": {"kind": "y"}}},
            "cannot be read as a Deployment",
            id="owners",
        ),
    ],
)
def test_value_of_another_type_is_refused_with_its_path(item: JSON, message: str) -> None:
    read = read_items([("web.yml", item)])

    (fault,) = read.faults
    assert str(fault).startswith("web.yml")
    assert message in str(fault)
    assert read.manifests == ()


def test_field_that_is_null_is_as_one_that_is_missing() -> None:
    """Kubernetes takes the default for it."""
    strategy = {"rollingUpdate": {"maxSurge": None, "maxUnavailable": None}}
    web = objects.deployment("web", replicas=1)
    with_nulls = {**web, "spec": {**web["spec"], "replicas": None, "strategy": strategy}}

    read = read_items([("web.yml", with_nulls)])

    assert read.faults == ()
    assert lint_manifests(read.manifests) == lint_manifests([web])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("nodeSelecter", "nodeSelector"),
        ("nodeselector", "nodeSelector"),
        ("affinty", "affinity"),
        ("Tolerations", "tolerations"),
        ("topologySpreadConstraint", "topologySpreadConstraints"),
    ],
)
def test_misspelled_placement_field_is_reported(key: str, meant: str) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {key: {}}}

    faults = read_items([("m.yml", vm({key: {}})), ("m.yml", pod)]).faults

    assert [str(fault) for fault in faults] == [
        f"m.yml ({where}: unknown field '{key}'; did you mean '{meant}'?"
        for where in ("VirtualMachine db), spec.template.spec", "Pod p), spec")
    ]


POD_SPEC = """activeDeadlineSeconds automountServiceAccountToken containers dnsConfig dnsPolicy
    enableServiceLinks ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname
    hostnameOverride imagePullSecrets initContainers nodeName os overhead preemptionPolicy priority
    priorityClassName readinessGates resourceClaims resources restartPolicy runtimeClassName
    schedulerName schedulingGates schedulingGroup securityContext serviceAccount serviceAccountName
    setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds volumes
    workloadRef"""
MACHINE_SPEC = """accessCredentials architecture dnsConfig dnsPolicy domain evictionStrategy hostname
    livenessProbe networks priorityClassName readinessProbe resourceClaims schedulerName
    startStrategy subdomain terminationGracePeriodSeconds utilityVolumes volumes"""


def test_known_fields_of_pods_and_vmis_are_not_reported() -> None:
    """core/v1 PodSpec and kubevirt.io/v1 VirtualMachineInstanceSpec."""
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {**dict.fromkeys(POD_SPEC.split()), "containers": []},
    }

    read = read_items([("p", pod), ("m", vm(dict.fromkeys(MACHINE_SPEC.split())))])

    assert (read.faults, len(read.manifests)) == ((), 2)


def test_every_fault_is_named() -> None:
    read = read_items([("a", [1]), ("b", vm({"tolerations": {}})), ("c", vm({}))])

    assert [fault.where.split(" ")[0] for fault in read.faults] == ["a", "b"]
    assert len(read.manifests) == 1


def test_a_vmi_or_pod_without_owner_is_linted() -> None:
    spec = anti_affinity({"topologyKey": ZONE})
    for kind in ("VirtualMachineInstance", "Pod"):
        item = {"kind": kind, "metadata": {"name": "db"}, "spec": {**spec, "containers": []}}
        assert names(item) == {"selector_matches_nothing"}


def test_a_plain_term_over_zone_blocks_the_migration_of_a_vmi_without_owner() -> None:
    item = {
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "db", "labels": {"tier": "db"}},
        "spec": anti_affinity(apart(plain=True, tier="db")),
    }

    assert names(item) == {"blocks_live_migration"}


def test_in_git_an_object_has_no_uid_and_is_no_copy() -> None:
    cluster = Cluster()
    ref = cluster.vm("db")
    cluster.write(ref, "in-a", (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a")))
    (manifest,) = copy.deepcopy(manifests(cluster))
    assert lint_manifests([manifest]) == ()

    del manifest["metadata"]["uid"]

    assert lint_manifests([manifest]) == ()


def test_on_a_cluster_its_pods_may_be_selected() -> None:
    cluster = Cluster()
    cluster.run("db", "n1", tier="db")
    app = vm(affinity(apart(HOST, plain=True, tier="db")))
    app["metadata"]["name"] = "app"
    app["spec"]["template"]["metadata"]["labels"] = {}

    def found(tier: str) -> set[str]:
        app["metadata"]["namespace"] = "shop"
        (term,) = app["spec"]["template"]["spec"]["affinity"]["podAffinity"].values()
        term[0]["labelSelector"]["matchLabels"]["tier"] = tier
        return {finding.name for finding in lint_manifests([app], cluster=cluster.snapshot())}

    assert found("db") == {"depends_on_other_workload"}
    assert found("cache") == {"selector_matches_nothing"}


def test_on_a_cluster_a_manifest_takes_the_place_of_its_object() -> None:
    """What runs of that was started without the constraint."""
    cluster = Cluster()
    cluster.run("db", "n1", tier="db")
    new = vm(spread(tier="db"), namespace="shop")

    found = {finding.name for finding in lint_manifests([new], cluster=cluster.snapshot())}

    assert "restart_required" in found


def test_on_a_cluster_keys_are_those_of_its_nodes() -> None:
    cluster = Cluster()
    deployment(cluster, "web", spread("example.com/rack", app="web"))
    listed = manifests(cluster)

    assert "no_node_has_key" not in {finding.name for finding in lint_manifests(listed)}
    found = lint_manifests(listed, cluster=cluster.snapshot())
    assert "no_node_has_key" in {finding.name for finding in found}


def test_rules_know_the_nodes_that_are_among_the_manifests() -> None:
    rule = {
        "name": "apart",
        "workloads": [{"names": ["a", "b"]}],
        "keep_apart": {"topology_key": "zone"},
    }
    rules = parsed([rule])
    cluster = Cluster("aaa")

    assert lint_rules(rules) == ()
    (found,) = lint_rules(rules, manifests=manifests(cluster, nodes=True))
    assert (found.name, found.rule) == ("single_domain", "apart")
