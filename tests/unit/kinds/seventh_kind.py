# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What works on one more kind, a ReplicaSet that no Deployment made: run by tests/unit/test_seventh_kind.py, in a
copy of the checkout that has this kind."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.module_utils.cluster.reading import (
    ReadScope,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import (
    KINDS,
    RULE_KINDS,
    SCALABLE_KINDS,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.moves.observe import Observer
from ansible_collections.virt.placement.plugins.module_utils.moves.rights import needed_rights
from ansible_collections.virt.placement.plugins.module_utils.repository.documents import Document
from ansible_collections.virt.placement.plugins.module_utils.repository.manifests import (
    read_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import (
    lint_manifests,
)
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import HOST, Cluster, Object, anti_affinity
from tests.unit.cluster.test_scopes import cluster_of, read
from tests.unit.compliance.judged import judge
from tests.unit.moves.played import Played
from tests.unit.moves.test_reconcile import NO_API
from tests.unit.rules.builders import applied, plan
from tests.unit.scheduler.reference import World

KIND = "ReplicaSet"
WEB = Ref(KIND, "shop", "web")
FRONT = Ref("Deployment", "shop", "front")


def owned(name: str, owner: Object, kind: str, labels: t.Mapping[str, str]) -> Object:
    """The metadata of what an object controls."""
    controller = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "labels": dict(labels),
        "ownerReferences": [controller],
    }


class Shop(Cluster):
    """Six nodes in three zones, the ReplicaSet web with pods on these nodes, and a Deployment with one of its own."""

    def __init__(self, *nodes: str) -> None:
        super().__init__()
        self.created = 0
        self.web = self._replica_set({"name": "web", "uid": "uid-web", "namespace": "shop"}, "web")
        self.web["spec"]["replicas"] = len(nodes)
        for node in nodes:
            self.create(self.web, node)
        front = copy.deepcopy(self.web)
        front["metadata"] = {"name": "front", "uid": "uid-front", "namespace": "shop"}
        front["spec"]["replicas"] = 1
        front["spec"]["selector"] = {"matchLabels": {"app": "front"}}
        front["spec"]["template"]["metadata"]["labels"] = {"app": "front"}
        self.workloads = {WEB: self.web, FRONT: front}
        hashed = {"app": "front", "pod-template-hash": "5c"}
        self.front = self._replica_set(owned("front-5c", front, "Deployment", hashed), "front")
        self.front["spec"]["template"]["metadata"]["labels"] = hashed
        self.create(self.front, "n6")

    @staticmethod
    def _replica_set(metadata: Object, app: str) -> Object:
        template = {"metadata": {"labels": {"app": app}}, "spec": {}}
        selector = {"matchLabels": {"app": app}}
        spec = {"replicas": 1, "selector": selector, "template": template}
        return {"metadata": metadata, "spec": spec, "status": {}}

    def create(self, owner: Object, node: str) -> Object:
        """One more pod of a ReplicaSet, from its template as it is now."""
        template = copy.deepcopy(owner["spec"]["template"])
        name = f"{owner['metadata']['name']}-{self.created}"
        self.created += 1
        metadata = owned(name, owner, KIND, template["metadata"]["labels"])
        pod = self._add_pod(metadata, template["spec"], node)
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True" if node else "False"}]
        return pod

    def write(self, *rules: Object) -> None:  # type: ignore[override]
        """Make the writes of these rules."""
        for write in plan(self.snapshot(), *rules).writes:
            self.workloads[write.target] = applied(self.workloads[write.target], write)
        self.web = self.workloads[WEB]

    def snapshot(self, **changes: t.Any) -> Snapshot:
        server = cluster_of(
            {
                "/api/v1/nodes": [*self.nodes.values()],
                "/api/v1/namespaces": [*self.namespaces.values()],
                "/api/v1/pods": [*self.pods.values()],
                "/apis/apps/v1/deployments": [self.workloads[FRONT]],
                "/apis/apps/v1/replicasets": [self.web, self.front],
            }
        )
        return replace(read(server, ReadScope(None, RULE_KINDS)), **changes)


def apart(*members: Object) -> Object:
    return {"name": "apart", "workloads": [*members], "keep_apart": {"topology_key": "zone"}}


BY_NAME = {"kind": KIND, "name": "web"}
BY_LABELS = {"kind": KIND, "labels": {"app": "web"}}


def test_kind_is_known_by_its_registry_line() -> None:
    assert KIND in RULE_KINDS and KIND in SCALABLE_KINDS


def test_replica_set_of_a_deployment_is_no_workload() -> None:
    snapshot = Shop("n1").snapshot()
    assert set(snapshot.workloads_by_ref) == {WEB, FRONT}
    instances = view_of(snapshot).instances
    assert {x.ref.name: x.workload for x in instances} == {"web-0": WEB, "front-5c-1": FRONT}


@pytest.mark.parametrize("member", [BY_NAME, BY_LABELS])
def test_rule_is_written_to_the_template_of_its_pods(member: Object) -> None:
    shop = Shop("n1", "n2")
    (write,) = plan(shop.snapshot(), apart(member)).writes
    assert write.target == WEB
    template = KINDS[KIND].template
    assert any(op.pointer.parts[: len(template)] == template for op in write.operations)
    shop.write(apart(member))
    assert not plan(shop.snapshot(), apart(member)).writes


def test_verdicts_are_about_its_pods() -> None:
    shop = Shop("n1", "n2", "n3")
    shop.write(apart(BY_NAME))
    verdicts = judge(shop.snapshot(), namespaces=None)
    states = {x.instance.name: str(x.verdict) for x in verdicts.instances}
    assert states["web-0"] == states["web-1"] == "violated"
    assert states["web-2"] != "violated"


@pytest.mark.parametrize(
    ("replicas", "answer"), [(3, ForecastResult.GUARANTEED), (4, ForecastResult.IMPOSSIBLE)]
)
def test_forecast_of_its_scale(replicas: int, answer: ForecastResult) -> None:
    shop = Shop()
    shop.write(apart(BY_NAME))
    for node in ("n1", "n3"):
        shop.create(shop.web, node)
    shop.web["spec"]["replicas"] = 2
    assert forecast(what_if(shop.snapshot(), scale=[Scale(WEB, replicas)])).answer is answer


def test_forecast_of_a_lost_node() -> None:
    shop = Shop("n1", "n3")
    found = forecast(what_if(shop.snapshot(), lost_nodes=["n1"], event="drain"))
    assert found.answer is ForecastResult.GUARANTEED
    assert found.instances_to_schedule == 1


class PlayedRollout(Played):
    """A pod that is evicted is gone at once, and its ReplicaSet creates another."""

    moves = 0

    def begin(self, record: MoveRecord) -> None:
        assert (record.method, record.workload) == (Method.RECREATE, WEB)
        assert self.moves < len(self.shop.pods), "one pod moves again"
        self.moves += 1
        del self.shop.pods["shop", record.instance.name]
        self.new_pod = self.shop.create(self.shop.web, "")

    @property
    def shop(self) -> Shop:
        return t.cast(Shop, self.made)

    def happens(self) -> None:
        """The scheduler binds the new pod. Only one is in flight, and none while the lists settle."""
        assert len(self.journal.records) <= 1
        for record in self.journal.records:
            pod = self.new_pod
            found = Observer(NO_API, self.snapshot(), self.journal).successors[record.uid]
            assert found.uid == pod["metadata"]["uid"]
            world = World([*self.made.nodes.values()], [*self.made.pods.values()], [])
            self.bind(pod, min(world.feasible(pod)))
            pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            self.moved(record, {**pod, "status": {}}, pod["spec"]["nodeName"])


def test_rollout_evicts_its_pods_one_by_one_and_ends() -> None:
    shop = Shop("n1", "n2", "n3")
    shop.write({"name": "where", "workloads": [BY_NAME], "run_on": {"zone": "c"}})
    played = PlayedRollout(shop, max_unavailable=1, allow=["recreate"])
    for _step in range(20):
        played.reconcile()
        played.happens()
    assert (played.over, played.moves) == (True, 3), played.why
    nodes = {pod["spec"]["nodeName"] for pod in shop.pods.values()}
    assert nodes <= {"n5", "n6"} and len(shop.pods) == 4


def test_rollout_of_a_named_one_needs_the_right_to_evict() -> None:
    shop = Shop("n1")
    shop.write({"name": "where", "workloads": [BY_NAME], "run_on": {"zone": "c"}})
    played = PlayedRollout(shop, allow=["recreate"], workloads=[{**BY_NAME, "namespace": "shop"}])
    (move,) = played.view().plan(played.journal).moves
    rights = {str(right) for right in needed_rights([(move.method, move.instance)])}
    assert any("pods/eviction" in right for right in rights), rights


def test_lint_knows_its_manifest() -> None:
    affinity = anti_affinity({"labelSelector": {"matchLabels": {"app": "no"}}, "topologyKey": HOST})
    shop = Shop()
    shop.web["spec"]["template"]["spec"] |= {**affinity, "containers": []}
    manifest = {"apiVersion": "apps/v1", "kind": KIND, **shop.web}
    read = read_manifests([Document("web.yml", manifest)])
    assert not read.faults and not read.passed_over
    findings = lint_manifests(read.manifests)
    assert {ref for finding in findings for ref in finding.objects} == {WEB}
    broken = {**manifest, "spec": {**manifest["spec"], "replicas": "three"}}
    (fault,) = read_manifests([Document("web.yml", broken)]).faults
    assert "spec.replicas" in str(fault)


@pytest.mark.parametrize(
    ("file", "verb"), [("reader.yml", "list"), ("reader.yml", "watch"), ("mover.yml", "patch")]
)
def test_shipped_roles_grant_it(file: str, verb: str) -> None:
    listed = yaml.safe_load(Path("rbac", file).read_text())
    roles = listed.get("items") or [listed]
    rules = [rule for role in roles for rule in role.get("rules") or ()]
    kind = KINDS[KIND]
    assert any(
        kind.group in rule["apiGroups"]
        and kind.plural in rule["resources"]
        and verb in rule["verbs"]
        for rule in rules
    )
