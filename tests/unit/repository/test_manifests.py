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
from tests.support.manifests import manifest, workload
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


def form(kind: str, name: str, template: JSON, *, app: str = "", **spec: JSON) -> JSON:
    """One manifest of a workload; a repository has one of the same name for each environment."""
    body: JSON = {"domain": {}} if kind == "VirtualMachine" else {"containers": [{"name": "a"}]}
    return workload(kind, name, {"app": app or name}, {**body, **template}, **spec)


def test_each_manifest_of_one_name_is_checked_with_its_own_terms() -> None:
    blocked = anti_affinity(apart(HOST, plain=True, app="web"))

    test, production = (form("Deployment", "web", x, replicas=3) for x in ({}, blocked))

    assert names(test) == set()
    for listed in ((test, production), (production, test)):
        assert names(*listed) == {"rollout_deadlock"}


def test_a_term_that_selects_pods_of_the_same_name_in_another_manifest_misses_its_own() -> None:
    test = form("StatefulSet", "db", spread(app="db"))
    production = form("StatefulSet", "db", spread(app="db"), app="db-prod")

    assert "template_and_selector_disagree" not in names(test)
    assert "template_and_selector_disagree" in names(test, production)


def test_instances_of_manifests_of_one_name_count_once() -> None:
    nodes = [
        manifest("Node", f"w{number}", metadata={"labels": {HOST: f"w{number}"}})
        for number in range(3)
    ]
    apart_vms = anti_affinity(apart(HOST, app="db"))
    vms = [form("VirtualMachine", x, apart_vms, app="db", runStrategy="Always") for x in "ab"]
    budget = manifest(
        "PodDisruptionBudget",
        "web",
        spec={"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    )
    web = form("Deployment", "web", {}, replicas=2)

    assert names(*nodes, *vms, *vms) == set()
    assert names(budget, web, web) == {"budget_never_allows"}


def test_workloads_of_which_one_manifest_alone_needs_the_other_can_start() -> None:
    near_a, near_b = (affinity(apart(HOST, plain=True, app=x)) for x in "ab")
    first = [form("Deployment", "a", near_b), form("Deployment", "b", {})]
    second = [form("Deployment", "a", {}), form("Deployment", "b", near_a)]
    both = [form("Deployment", "a", near_b), form("Deployment", "b", near_a)]

    assert names(*first, *second) == {"depends_on_other_workload"}
    assert names(*both, *both) == {"mutual_affinity"}


def test_a_workload_may_be_the_first_of_its_own_group_in_one_manifest_alone() -> None:
    grouped = affinity(apart(ZONE, plain=True, app="web"))

    listed = [form("Deployment", "web", x, replicas=2) for x in (grouped, {})]

    assert "mutual_affinity" not in names(*listed)


def test_a_vm_near_and_apart_in_different_manifests_can_run() -> None:
    leader = form("VirtualMachine", "leader", {})
    near = affinity(apart(HOST, plain=True, app="leader"))
    away = anti_affinity(apart(HOST, plain=True, app="leader"))
    follower, other = (form("VirtualMachine", "app", x) for x in (near, away))

    assert "unsatisfiable" not in names(leader, follower, other)
    assert "unsatisfiable" not in names(leader, other, follower)


@pytest.mark.parametrize("backwards", [False, True])
def test_largest_manifest_of_a_name_counts(backwards: bool) -> None:
    """The last one decided: a mistake of production was hidden by what was read after it, and a test was blamed."""
    nodes = [
        manifest("Node", f"w{number}", metadata={"labels": {HOST: f"w{number}"}})
        for number in range(3)
    ]
    budget = manifest(
        "PodDisruptionBudget",
        "web",
        spec={"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    )
    web = [form("Deployment", "web", {}, replicas=x) for x in (3, 1)]
    apart_pods = anti_affinity(apart(HOST, app="db"))
    db = [form("StatefulSet", "db", apart_pods, replicas=x) for x in (5, 1)]
    order = -1 if backwards else 1

    assert names(budget, *web[::order]) == set()
    assert names(*nodes, *db[::order]) == {"unsatisfiable"}


def test_objects_with_a_placeholder_as_name_are_different_ones() -> None:
    budget = manifest(
        "PodDisruptionBudget",
        "web",
        spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    )
    web = [form("Deployment", "${NAME}", {}, app="web", replicas=1) for _number in range(2)]

    assert "budget_never_allows" not in names(budget, *web)


def test_vm_avoids_the_one_that_follows_it_in_one_environment_alone() -> None:
    node = manifest("Node", "w0", metadata={"labels": {HOST: "w0"}})
    pod = manifest("Pod", "p", metadata={"uid": "u"}, spec={"nodeName": "w0", "containers": []})
    near, away = affinity(apart(HOST, app="db")), anti_affinity(apart(HOST, app="web"))
    web = form("VirtualMachine", "web", near, runStrategy="Always")
    db = [form("VirtualMachine", "db", x, runStrategy="Always") for x in ({}, away)]

    assert "unsatisfiable" in names(node, pod, web, db[1])
    assert "unsatisfiable" not in names(node, pod, web, *db)
