# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_labels against a real control plane, with the rights that are shipped for it."""

from __future__ import annotations

import json
import typing as t

import jsonpatch
import pytest

from ansible_collections.virt.placement.plugins.modules import node_labels
from sandbox import Sandbox, objects
from tests.conftest import RunModule, error_messages

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NOTE = "placement.virt/node-labels"

BLOG = {
    "kni-worker": {"region": "iberia", "zone": "scu"},
    "kni-worker2": {"region": "iberia", "zone": "scu", "performance": "high"},
    "kni-worker3": {"region": "iberia", "zone": "izz"},
    "kni-worker4": {"region": "iberia", "zone": "izz", "performance": "high"},
    "kni-worker5": {"region": "iberia", "zone": "bmx"},
    "kni-worker6": {"region": "iberia", "zone": "bmx", "performance": "high"},
}
FULL = {"region": REGION, "zone": ZONE, "performance": "performance"}

Result = dict[str, t.Any]


class Label(t.Protocol):
    """How the fixture label is called."""

    def __call__(
        self, check: bool = False, diff: bool = False, identity: str = "labeler", **options: t.Any
    ) -> Result:
        raise NotImplementedError


@pytest.fixture
def label(article: Sandbox, run_module: RunModule) -> t.Iterator[Label]:
    """Runs the module on the article's nodes, which are as at the start after each test."""

    def run(
        check: bool = False, diff: bool = False, identity: str = "labeler", **options: t.Any
    ) -> Result:
        params = {"kubeconfig": str(article.kubeconfig(identity)), **options}
        return run_module(node_labels.main, params, check=check, diff=diff)

    yield run
    article.restore_nodes()
    for node in article.api.list("/api/v1/nodes"):
        if NOTE in node["metadata"]["annotations"]:
            forget = {"metadata": {"annotations": {NOTE: None}}}
            article.api.patch(f"/api/v1/nodes/{node['metadata']['name']}", forget)


def _labels(sandbox: Sandbox, node: str) -> dict[str, str]:
    found: dict[str, str] = sandbox.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
    return found


def _set(sandbox: Sandbox, node: str, labels: dict[str, str | None], manager: str = "") -> None:
    sandbox.api.request(
        "PATCH",
        f"/api/v1/nodes/{node}",
        {"metadata": {"labels": labels}},
        query={"fieldManager": manager} if manager else {},
        content_type="application/merge-patch+json",
    ).raise_for_status()


@pytest.mark.tour
def test_the_article_is_labelled_in_one_task_and_a_second_run_reads_one_list(
    article: Sandbox, label: Label
) -> None:
    start = article.audit.mark()
    result = label(per_node=BLOG, exclusive=["performance"])
    assert result["changed"]
    assert result["counts"] == {"changed": 6, "unchanged": 0, "failed": 0}
    (done,) = result["outcome"]["done"]
    assert (done["code"], sorted(done["objects"])) == ("labeled", sorted(BLOG))
    for node, labels in BLOG.items():
        seen = _labels(article, node)
        assert {name: seen.get(key) for name, key in FULL.items()} == {
            **dict.fromkeys(FULL),
            **labels,
        }
    written = [write.name for write in article.audit.writes("labeler", start)]
    assert sorted(written) == sorted(BLOG), "each once, and no other node"

    again = article.audit.mark()
    result = label(per_node=BLOG, exclusive=["performance"])
    assert (result["changed"], result["nodes"], result["writes"]) == (False, [], [])
    assert [entry["code"] for entry in result["outcome"]["done"]] == ["unchanged"]
    requests = article.audit.requests(again, article.username("labeler"))
    assert sorted((seen.verb, seen.resource) for seen in requests) == [
        ("get", "namespaces"),
        ("list", "nodes"),
    ]


@pytest.mark.parametrize(
    ("before", "options", "written"),
    [
        ({}, {"per_node": BLOG}, sorted(BLOG)),
        ({"per_node": BLOG}, {"per_node": BLOG}, []),
        (
            {"per_node": BLOG},
            {"nodes": ["kni-worker", "kni-worker3"], "remove": ["zone", "performance"]},
            ["kni-worker", "kni-worker3"],
        ),
        (
            {"per_node": BLOG},
            {
                "nodes": ["kni-worker", "kni-worker2"],
                "labels": {"performance": "high"},
                "exclusive": ["performance"],
            },
            ["kni-worker", "kni-worker4", "kni-worker6"],
        ),
        (
            {"per_node": BLOG},
            {"selector": f"{ZONE}=bmx", "labels": {"region": "aragon"}},
            ["kni-worker5", "kni-worker6"],
        ),
    ],
    ids=["first", "again", "remove", "exclusive", "change"],
)
@pytest.mark.tour
def test_check_mode_names_exactly_the_writes_that_are_then_made(
    article: Sandbox, label: Label, before: Result, options: Result, written: list[str]
) -> None:
    """The audit log says which nodes were written, and each node afterwards is what the foretold
    patch makes of it."""
    if before:
        label(**before)
    start = article.audit.mark()
    foretold = label(check=True, diff=True, **options)
    assert foretold["changed"] == bool(written)
    assert not article.audit.writes(since=start)
    seen = {name: article.api.get(f"/api/v1/nodes/{name}") for name in written}

    made = label(diff=True, **options)

    assert not made.get("failed"), made.get("msg")
    for part in ("changed", "writes", "diff", "nodes", "counts"):
        assert made[part] == foretold[part], part
    audited = article.audit.writes(since=start)
    assert sorted((each.verb, each.resource, each.name, each.code) for each in audited) == [
        ("patch", "nodes", name, 200) for name in written
    ]
    assert sorted(write["name"] for write in foretold["writes"]) == written
    for write in foretold["writes"]:
        expected = jsonpatch.apply_patch(seen[write["name"]], write["patch"])["metadata"]
        found = article.api.get(f"/api/v1/nodes/{write['name']}")["metadata"]
        assert found["labels"] == expected["labels"]
        assert found["annotations"].get(NOTE) == expected["annotations"].get(NOTE)


def test_the_difference_shows_labels_only(label: Label) -> None:
    result = label(diff=True, nodes=["kni-worker"], labels={"zone": "scu"})
    assert result["diff"] == [
        {
            "before_header": "Node kni-worker",
            "before": {},
            "after_header": "Node kni-worker",
            "after": {ZONE: "scu"},
        }
    ]
    assert "diff" not in label(nodes=["kni-worker2"], labels={"zone": "scu"})


def test_labels_that_were_set_are_recorded_on_the_node(article: Sandbox, label: Label) -> None:
    label(per_node={"kni-worker": {"zone": "scu"}})
    label(per_node={"kni-worker": {"performance": "low"}})
    annotations = article.api.get("/api/v1/nodes/kni-worker")["metadata"]["annotations"]
    assert json.loads(annotations[NOTE]) == {ZONE: "scu", "performance": "low"}
    label(nodes=["kni-worker"], remove=["zone", "performance"])
    assert NOTE not in article.api.get("/api/v1/nodes/kni-worker")["metadata"]["annotations"]
    assert ZONE not in _labels(article, "kni-worker")


def test_a_value_that_the_kubelet_overwrote_is_given_back(article: Sandbox, label: Label) -> None:
    wanted = {"kni-worker": {"zone": "scu"}}
    label(per_node=wanted)
    _set(article, "kni-worker", {ZONE: "cloud-a"}, manager="kubelet")

    result = label(per_node=wanted)

    assert not result.get("failed"), result["msg"]
    assert _labels(article, "kni-worker")[ZONE] == "scu"


def test_a_selector_chooses_nodes_and_exclusive_takes_from_the_others(
    article: Sandbox, label: Label
) -> None:
    label(per_node=BLOG)
    result = label(
        selector="zone in (scu, izz),performance=high",
        labels={"performance": "high"},
        exclusive=["performance"],
    )
    assert {node["name"]: (node["before"], node["after"]) for node in result["nodes"]} == {
        "kni-worker6": ({"performance": "high"}, {})
    }


def test_labels_of_other_hands_stay(article: Sandbox, label: Label) -> None:
    _set(article, "kni-worker", {"example.com/row": "7"})
    before = _labels(article, "kni-worker")
    label(nodes=["kni-worker"], labels={"zone": "scu"})
    assert _labels(article, "kni-worker") == {**before, ZONE: "scu"}


BAD_INPUT: dict[str, tuple[Result, list[str]]] = {
    "unknown node": (
        {"per_node": {"kni-worke": {"zone": "a"}}},
        [
            "per_node: there is no node 'kni-worke'; did you mean 'kni-worker' or 'kni-worker6' or"
            " 'kni-worker5'?"
        ],
    ),
    "unknown node beside an undeclared key": (
        {"per_node": {"kni-workerr2": {"zone": "a"}, "kni-worker": {"zon": "a"}}},
        [
            "per_node, kni-worker.zon: topology key 'zon' is not declared: add it to"
            " topology_keys or write the full label key with its prefix; did you mean zone?",
            "per_node: there is no node 'kni-workerr2'; did you mean 'kni-worker2' or 'kni-worker' or"
            " 'kni-worker6'?",
        ],
    ),
    "unknown node with an undeclared key": (
        {"nodes": ["kni-workerr2"], "labels": {"zon": "a"}, "exclusive": ["zone"]},
        [
            "labels, zon: topology key 'zon' is not declared: add it to"
            " topology_keys or write the full label key with its prefix; did you mean zone?",
            "nodes: there is no node 'kni-workerr2'; did you mean 'kni-worker2' or 'kni-worker' or"
            " 'kni-worker6'?",
        ],
    ),
    "selector that matches nothing beside an undeclared key": (
        {"selector": "zone=none", "labels": {"zon": "a"}},
        [
            "labels, zon: topology key 'zon' is not declared: add it to"
            " topology_keys or write the full label key with its prefix; did you mean zone?",
            f"selector: no node matches {ZONE}=none",
        ],
    ),
    "undeclared key": (
        {"per_node": {"kni-worker": {"zoen": "a"}}},
        [
            "per_node, kni-worker.zoen: topology key 'zoen' is not declared: add it to"
            " topology_keys or write the full label key with its prefix; did you mean zone?"
        ],
    ),
    "values that are no strings": (
        {"per_node": {"kni-worker": {"zone": None, "region": True, "performance": 1.5}}},
        [
            "per_node, kni-worker.zone: must be text, not null: give a value, or leave the key out",
            "per_node, kni-worker.region: must be text, not the boolean true: quote it if it is"
            " meant as text",
            "per_node, kni-worker.performance: must be text, not the number 1.5: quote it if it is"
            " meant as text",
        ],
    ),
    "empty value": (
        {"nodes": ["kni-worker"], "labels": {"zone": ""}},
        ["labels, zone: must not be empty"],
    ),
    "empty selector": (
        {"selector": "", "labels": {"zone": "a"}},
        [
            "selector: must not be empty: an empty selector matches every node",
        ],
    ),
    "selector that matches nothing": (
        {"selector": "zone=none", "labels": {"region": "a"}},
        [f"selector: no node matches {ZONE}=none"],
    ),
    "selector that is none": (
        {"selector": "zone in scu", "labels": {"region": "a"}},
        ["selector: unable to parse requirement: found 'scu' expected: '('"],
    ),
    "empty node name": (
        {"nodes": [""], "labels": {"zone": "a"}},
        ["nodes[0]: '' is not the name of a node"],
    ),
    "a vocabulary that is none": (
        {"topology_keys": {"rack": 7}, "nodes": ["kni-worker"], "labels": {"zone": "a"}},
        ["topology_keys.rack: must be a label key, not the number 7"],
    ),
}


@pytest.mark.parametrize(("options", "faults"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_refused_with_nothing_written(
    article: Sandbox, label: Label, options: Result, faults: list[str]
) -> None:
    start = article.audit.mark()
    result = label(**options)
    assert result["failed"]
    assert not result["changed"]
    assert error_messages(result) == faults
    assert all(fault in result["msg"] for fault in faults)
    assert not article.audit.writes(since=start)


def test_one_bad_node_stops_all_and_all_faults_are_named(article: Sandbox, label: Label) -> None:
    _set(article, "kni-worker", {REGION: "cloud"}, manager="aws-cloud-controller-manager")
    _set(article, "kni-worker2", {ZONE: "x"})
    article.api.apply(
        objects.deployment(
            "web",
            labels={"app": "web"},
            replicas=0,
            placement={"nodeSelector": {ZONE: "x"}},
        )
    )
    start = article.audit.mark()
    result = label(per_node={**BLOG, "kni-worker9": {"zone": "a"}})
    assert [fault.split(": ")[0] for fault in error_messages(result)] == [
        "per_node",
        f"kni-worker {REGION}",
        f"kni-worker2 {ZONE}",
    ]
    assert not article.audit.writes(since=start)
    article.api.delete(article.api.path("Deployment", "default", "web"))


class TestProtection:
    def test_a_value_of_the_kubelet(self, article: Sandbox, label: Label) -> None:
        _set(article, "kni-worker", {ZONE: "cloud-a"}, manager="kubelet")
        result = label(nodes=["kni-worker"], labels={"zone": "scu"})
        assert error_messages(result) == [
            f"kni-worker {ZONE}: changing 'cloud-a' to 'scu': it was last written by kubelet,"
            " which may write it again; set force to change it anyway"
        ]
        assert label(nodes=["kni-worker"], labels={"zone": "scu"}, force=True)["changed"]
        assert not label(nodes=["kni-worker"], labels={"zone": "scu"})["changed"]

    def test_a_rule_a_volume_and_a_pod(
        self, article: Sandbox, label: Label, namespace: t.Any
    ) -> None:
        where = namespace(article)
        _set(article, "kni-worker", {ZONE: "old", "rack": "r1", "row": "1"})
        term = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": ZONE}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        article.api.apply(
            objects.virtual_machine(
                "db", where, placement={"affinity": apart}, run_strategy="Halted"
            )
        )
        article.api.apply(_volume_and_claim(where))
        article.api.wait(
            lambda volume: volume["status"]["phase"] == "Bound", "/api/v1/persistentvolumes/disk"
        )
        article.api.apply(objects.pod("p", where, placement={"nodeSelector": {"row": "1"}}))
        article.api.wait(
            lambda pod: pod["spec"].get("nodeName") == "kni-worker",
            article.api.path("Pod", where, "p"),
        )
        keys = {"rack": "rack", "row": "row"}
        options: Result = {
            "nodes": ["kni-worker"],
            "labels": {"zone": "new", "rack": "r2"},
            "remove": ["row"],
            "topology_keys": keys,
        }
        start = article.audit.mark()
        faults = error_messages(label(**options))
        assert len(faults) == 3
        assert (
            f"taking '1' away: these depend on the label: Pod {where}/p on the node." in faults[1]
        )
        assert f"the volume of PersistentVolumeClaim {where}/data." in faults[0]
        assert f"these depend on the label: VirtualMachine {where}/db." in faults[2]
        assert not article.audit.writes(since=start)
        assert label(force=True, **options)["changed"]
        article.api.delete("/api/v1/persistentvolumes/disk")

    def test_healing_drift_is_no_change(
        self, article: Sandbox, label: Label, namespace: t.Any
    ) -> None:
        label(nodes=["kni-worker"], labels={"zone": "scu"})
        selector = {"nodeSelector": {ZONE: "scu"}}
        article.api.apply(
            objects.deployment("web", namespace(article), labels={"app": "w"}, placement=selector)
        )
        _set(article, "kni-worker", {ZONE: "drift"})
        result = label(nodes=["kni-worker"], labels={"zone": "scu"})
        assert result["nodes"] == [
            {"name": "kni-worker", "before": {ZONE: "drift"}, "after": {ZONE: "scu"}}
        ]
        faults = error_messages(label(nodes=["kni-worker"], labels={"zone": "izz"}))
        assert "these depend on the label: Deployment" in faults[0]

    def test_a_new_label_needs_no_list_of_its_dependants(
        self, article: Sandbox, label: Label
    ) -> None:
        start = article.audit.mark()
        label(per_node=BLOG)
        requests = article.audit.requests(start, article.username("labeler"))
        assert sorted((seen.verb, seen.resource) for seen in requests) == [
            ("create", "selfsubjectaccessreviews"),
            ("get", "namespaces"),
            ("list", "nodes"),
            *[("patch", "nodes")] * len(BLOG),
        ]


def _volume_and_claim(namespace: str) -> list[Result]:
    expression = {"key": "rack", "operator": "In", "values": ["r1"]}
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            **shared,
            "capacity": size,
            "local": {"path": "/data"},
            "claimRef": {"namespace": namespace, "name": "data"},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            },
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": "data"},
        "spec": {**shared, "resources": {"requests": size}, "volumeName": "disk"},
    }
    return [volume, claim]


def test_invalid_options_are_reported_without_a_server(run_module: RunModule) -> None:
    access = {"host": "https://127.0.0.1:1", "api_key": "some-token", "timeout": 2}
    options = {"per_node": {"w1": {"zon": "a"}, "w2": {"zone": ""}}}
    result = run_module(node_labels.main, {**access, **options})
    assert result["failed"]
    assert [fault.split(": ")[0] for fault in error_messages(result)] == [
        "per_node, w1.zon",
        "per_node, w2.zone",
        "nodes of the cluster",
    ]
    assert "not checked for more errors: cannot list nodes: " in error_messages(result)[-1]
    assert "Connection refused" in error_messages(result)[-1]


def test_the_cluster_that_is_meant(article: Sandbox, label: Label) -> None:
    uid = article.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    result = label(cluster_uid=uid, nodes=["kni-worker"], labels={"zone": "scu"})
    assert result["cluster"] == {"api": article.url, "uid": uid}


@pytest.mark.parametrize("check", [False, True])
def test_the_right_to_write_is_asked_for_before_the_first_write(
    article: Sandbox, label: Label, check: bool
) -> None:
    start = article.audit.mark()
    result = label(check=check, identity="reader", per_node=BLOG)
    assert (result["failed"], result["changed"]) == (True, False)
    assert error_messages(result) == [
        "rights: this identity may not patch nodes: grant this identity the ClusterRole"
        " virt-placement-labeler (rbac/labeler.yml); this identity is virt-placement:reader"
    ]
    assert not article.audit.writes(since=start)


def test_admission_policy_is_named_as_the_reason(article: Sandbox, label: Label) -> None:
    forbidden: t.Any = {"nodes": ["kni-worker"], "labels": {"example.com/owner": "me"}}
    foretold, result = label(check=True, **forbidden), label(**forbidden)
    assert (result["failed"], result["changed"]) == (True, False)
    assert error_messages(foretold) == error_messages(result), "check mode asks the server"
    (message,) = error_messages(result)
    assert "'virt-placement-nodes'" in message
    assert "may not change all of: " in message
    assert "label example.com/owner" in message
    assert "extend the policy" in message
    assert "grant" not in message


def test_rights_are_not_asked_for_where_nothing_is_to_be_written(
    article: Sandbox, label: Label
) -> None:
    label(per_node=BLOG)
    start = article.audit.mark()
    assert not label(identity="reader", per_node=BLOG)["changed"]
    seen = article.audit.requests(start, article.username("reader"))
    assert {each.resource for each in seen} == {"nodes", "namespaces"}


def test_without_any_right_one_request_is_made(article: Sandbox, label: Label) -> None:
    start = article.audit.mark()
    label(identity="nobody", nodes=["kni-worker"], labels={"zone": "scu"})
    requests = article.audit.requests(start, article.username("nobody"))
    assert [seen.verb for seen in requests] == ["list"]
