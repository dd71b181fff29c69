# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The shipped policies refuse what the roles are not for.

All suites run under them (`sandbox/identities.py`), so that they show what the policies let pass. Some
such requests are repeated here, beside those that differ from them by one field.
"""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from sandbox import ApiFailure, Sandbox, objects
from sandbox.identities import shipped
from sandbox.namespaces import delete_namespace

Object = dict[str, t.Any]
NAMESPACE = "policies"
OTHER = "not-limited"
MERGE = "application/merge-patch+json"


@dataclasses.dataclass(frozen=True)
class Scene:
    """One object of each kind that a role may patch, by kind."""

    sandbox: Sandbox
    paths: t.Mapping[str, str]

    def patch(self, identity: str, kind: str, body: Object) -> str:
        """Why this identity may not patch that object; empty where it may."""
        return self.request(identity, "PATCH", self.paths[kind], body, MERGE)

    def request(
        self,
        identity: str,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = "application/json",
    ) -> str:
        """The same of any request. All are dry runs, which pass the same policies."""
        api = self.sandbox.api_as(identity)
        try:
            query = {"dryRun": "All"}
            api.request(method, path, body, query=query, content_type=content_type)
        except ApiFailure as failure:
            return f"{failure.status} {failure.message}"
        return ""


@pytest.fixture(scope="module")
def scene(small: Sandbox) -> t.Iterator[Scene]:
    api = small.api
    api.create(api.path("Namespace"), {"metadata": {"name": NAMESPACE}})
    made = {
        "Deployment": objects.deployment("web", NAMESPACE, replicas=1),
        "StatefulSet": objects.stateful_set("log", NAMESPACE, replicas=0),
        "VirtualMachine": objects.virtual_machine("db", NAMESPACE),
        "VirtualMachinePool": objects.pool("pool", NAMESPACE, replicas=0),
        "VirtualMachineInstanceReplicaSet": objects.replica_set("set", NAMESPACE, replicas=1),
        "Pod": objects.pod("single", NAMESPACE),
    }
    for workload in made.values():
        api.create(api.collection_of(workload), workload)
    paths = {kind: api.path_of(workload) for kind, workload in made.items()}
    paths["Node"] = "/api/v1/nodes/w1"
    paths["VirtualMachineInstance"] = api.path("VirtualMachineInstance", NAMESPACE, "db")
    api.wait(lambda vmi: vmi["status"]["phase"] == "Running", paths["VirtualMachineInstance"])
    yield Scene(small, paths)
    delete_namespace(api, NAMESPACE)


def template(**parts: t.Any) -> Object:
    return {"spec": {"template": parts}}


def of_pool(**parts: t.Any) -> Object:
    """A change of the VirtualMachines that a pool makes."""
    return {"spec": {"virtualMachineTemplate": parts}}


def labels(**values: str | None) -> Object:
    return {"metadata": {"labels": {key.replace("__", "/"): x for key, x in values.items()}}}


def note(key: str) -> Object:
    return {"metadata": {"annotations": {f"placement.virt/{key}": "text"}}}


ZONE = {"metadata": {"labels": {"topology.kubernetes.io/zone": "z9"}}}
CORDON = {"spec": {"unschedulable": True}}
TAINT = {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}
STEERING = {"key": "placement.virt/serviced-later", "value": "r1", "effect": "PreferNoSchedule"}
IMAGE = {"name": "main", "image": "registry.example/other:1"}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True}
OWNED = {"metadata": {"ownerReferences": [OWNER]}}
FINALIZER = {"metadata": {"finalizers": ["example.com/never"]}}
PLACEMENT = {
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "nodeSelector": {"performance": "high"},
    "tolerations": [{"key": "fast", "operator": "Exists"}],
    "topologySpreadConstraints": None,
}
GROUP = {"labels": {"placement.virt/group-0123456789": "member"}}
ON_DELETE = {"type": "OnDelete", "rollingUpdate": None}
OPPORTUNISTIC: Object = {"opportunistic": {}}
REVISION = {"metadata": {"labels": {"kubevirt.io/vm-pool-revision-name": "pool-2"}}}
WORKLOADS = ("Deployment", "StatefulSet", "VirtualMachine", "VirtualMachineInstanceReplicaSet")
INSTANCES = ("Pod", "VirtualMachineInstance")

PASSES: list[tuple[str, str, Object]] = [
    ("labeler", "Node", ZONE),
    ("labeler", "Node", labels(performance="high")),
    ("labeler", "Node", note("node-labels")),
    ("maintainer", "Node", {**CORDON, **note("maintenance")}),
    ("maintainer", "Node", {"spec": {"taints": [STEERING]}}),
    *(
        ("mover", kind, body)
        for kind in WORKLOADS
        for body in (
            note("rules"),
            note("undo"),
            template(spec=PLACEMENT),
            template(metadata=GROUP),
        )
    ),
    ("mover", "StatefulSet", {**note("hold"), "spec": {"updateStrategy": ON_DELETE}}),
    ("mover", "VirtualMachinePool", {**note("hold"), "spec": {"updateStrategy": OPPORTUNISTIC}}),
    (
        "mover",
        "VirtualMachinePool",
        {**note("rules"), **of_pool(spec=template(spec=PLACEMENT)["spec"])},
    ),
    ("mover", "VirtualMachinePool", of_pool(spec=template(metadata=GROUP)["spec"])),
    ("mover", "VirtualMachineInstance", REVISION),
    *(("mover", kind, {"metadata": GROUP}) for kind in INSTANCES),
    *((role, kind, note("run")) for role in ("mover", "maintainer") for kind in INSTANCES),
]

STOPPED: list[tuple[str, str, Object, str]] = [
    ("labeler", "Node", labels(role="db"), "label role"),
    ("labeler", "Node", {"metadata": {"labels": {"kubernetes.io/os": None}}}, "kubernetes.io/os"),
    ("labeler", "Node", CORDON, "spec.unschedulable"),
    ("labeler", "Node", TAINT, "spec.taints"),
    ("labeler", "Node", {"spec": {"taints": [STEERING]}}, "taint placement.virt/serviced-later"),
    ("labeler", "Node", note("maintenance"), "annotation placement.virt/maintenance"),
    ("labeler", "Node", FINALIZER, "metadata.finalizers"),
    ("maintainer", "Node", ZONE, "label topology.kubernetes.io/zone"),
    ("maintainer", "Node", TAINT, "spec.taints"),
    *(
        ("maintainer", "Node", {"spec": {"taints": [{**STEERING, **other}]}}, "spec.taints")
        for other in (
            {"effect": "NoSchedule"},
            {"effect": "NoExecute"},
            {"key": "placement.virt/x"},
        )
    ),
    ("maintainer", "Node", note("node-labels"), "annotation placement.virt/node-labels"),
    ("mover", "Deployment", template(spec={"serviceAccountName": "admin"}), "serviceAccount"),
    (
        "mover",
        "Deployment",
        template(spec={"containers": [IMAGE]}),
        "spec.template.spec.containers",
    ),
    ("mover", "Deployment", template(metadata={"annotations": {"a": "b"}}), "metadata.annotations"),
    ("mover", "Deployment", template(metadata={"labels": {"team": "x"}}), "label team of the"),
    ("mover", "Deployment", {"spec": {"replicas": 0}}, "spec.replicas"),
    ("mover", "Deployment", {"spec": {"paused": True}}, "spec.paused"),
    ("mover", "StatefulSet", {"spec": {"replicas": 1}}, "spec.replicas"),
    ("mover", "VirtualMachinePool", {"spec": {"replicas": 1}}, "spec.replicas"),
    ("mover", "VirtualMachinePool", {"spec": {"paused": True}}, "spec.paused"),
    (
        "mover",
        "VirtualMachinePool",
        of_pool(spec={"runStrategy": "Halted"}),
        "spec.virtualMachineTemplate.spec.runStrategy",
    ),
    (
        "mover",
        "VirtualMachinePool",
        of_pool(metadata={"labels": {"team": "x"}}),
        "spec.virtualMachineTemplate.metadata",
    ),
    (
        "mover",
        "VirtualMachinePool",
        of_pool(spec=template(spec={"hostname": "x"})["spec"]),
        "spec.template.spec.hostname",
    ),
    ("maintainer", "VirtualMachineInstance", REVISION, "label kubevirt.io/vm-pool-revision-name"),
    ("mover", "VirtualMachine", {"spec": {"runStrategy": "Halted"}}, "spec.runStrategy"),
    ("mover", "VirtualMachine", template(spec={"hostname": "x"}), "spec.template.spec.hostname"),
    ("mover", "VirtualMachine", template(spec={"volumes": []}), "spec.template.spec."),
    (
        "mover",
        "VirtualMachine",
        template(spec={"domain": {"cpu": {"model": "host-model"}}}),
        "spec.template.spec.domain",
    ),
    ("mover", "VirtualMachineInstanceReplicaSet", {"spec": {"replicas": 0}}, "spec.replicas"),
    *(("mover", kind, labels(team="x"), "metadata.labels") for kind in WORKLOADS),
    *(("mover", kind, note("run"), "annotation placement.virt/run") for kind in WORKLOADS),
    *(("mover", kind, FINALIZER, "metadata.finalizers") for kind in WORKLOADS),
    *(("mover", kind, OWNED, "metadata.ownerReferences") for kind in (*WORKLOADS, *INSTANCES)),
    ("mover", "Pod", {"spec": {"activeDeadlineSeconds": 1}}, "spec"),
    *(
        (role, kind, body, part)
        for role in ("mover", "maintainer")
        for kind in INSTANCES
        for body, part in (
            (labels(team="x"), "label team"),
            (note("rules"), "annotation placement.virt/rules"),
        )
    ),
    *(
        ("maintainer", kind, {"metadata": GROUP}, "label placement.virt/group-")
        for kind in INSTANCES
    ),
]


@pytest.mark.parametrize(("identity", "kind", "body"), PASSES)
def test_policy_passes(scene: Scene, identity: str, kind: str, body: Object) -> None:
    assert scene.patch(identity, kind, body) == ""


@pytest.mark.parametrize(("identity", "kind", "body", "part"), STOPPED)
def test_policy_stops(scene: Scene, identity: str, kind: str, body: Object, part: str) -> None:
    refusal = scene.patch(identity, kind, body)
    assert refusal.startswith("403 ")
    assert "ValidatingAdmissionPolicy 'virt-placement-" in refusal
    changed, _of, may = refusal.partition("; of a ")
    assert part in changed
    assert f"virt-placement-{identity}" in may
    assert "ValidatingAdmissionPolicy" not in scene.patch("admin", kind, body)


def test_identity_of_two_roles_may_do_what_each_may(scene: Scene) -> None:
    for identity in ("labeler-mover", "maintainer-mover"):
        assert scene.patch(identity, "VirtualMachineInstance", {"metadata": GROUP}) == ""
    assert scene.patch("labeler-mover", "Node", ZONE) == ""
    assert "spec.unschedulable" in scene.patch("labeler-mover", "Node", CORDON)


def test_migrations_events_and_deletions_are_ours(scene: Scene) -> None:
    api = scene.sandbox.api
    migrations = api.path("VirtualMachineInstanceMigration", NAMESPACE)
    events = api.path("Event", NAMESPACE)
    migration = objects.migration("db", NAMESPACE, name="placement-1")
    ours = {
        **migration,
        "metadata": {**migration["metadata"], "labels": {"placement.virt/run": "r1"}},
    }
    about = {"kind": "VirtualMachine", "namespace": NAMESPACE, "name": "db"}
    event = {
        "metadata": {"name": "x"},
        "involvedObject": about,
        "type": "Normal",
        "reason": "Moved",
    }
    owned = f"{api.path('VirtualMachineInstance', NAMESPACE)}/db"
    for role in ("mover", "maintainer"):
        assert scene.request(role, "POST", migrations, ours) == ""
        assert "have the label placement.virt/run" in scene.request(
            role, "POST", migrations, migration
        )
        sent_by = {**event, "source": {"component": "virt-placement"}}
        assert scene.request(role, "POST", events, sent_by) == ""
        for foreign in (event, {**event, "source": {"component": "kubelet"}}):
            assert "Events of the component" in scene.request(role, "POST", events, foreign)
        assert scene.request(role, "DELETE", owned) == ""
    assert scene.request("admin", "POST", migrations, migration) == ""


def test_vmi_without_a_controller_is_not_deleted(scene: Scene) -> None:
    api = scene.sandbox.api
    vm = objects.virtual_machine("single", NAMESPACE)
    vmi = {
        **vm["spec"]["template"],
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
    }
    vmi["metadata"] = {**vmi["metadata"], "name": "single", "namespace": NAMESPACE}
    api.create(api.collection_of(vmi), vmi)
    for role in ("mover", "maintainer"):
        assert "only VMIs that have a controller" in scene.request(role, "DELETE", api.path_of(vmi))
    assert scene.request("admin", "DELETE", api.path_of(vmi)) == ""


def test_role_of_one_namespace_is_limited_there(scene: Scene) -> None:
    """Rights that another role grants in another namespace are not limited."""
    api = scene.sandbox.api
    api.create(api.path("Namespace"), {"metadata": {"name": OTHER}})
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "User", "name": scene.sandbox.username("nobody")}
    for namespace, role in (
        (NAMESPACE, "virt-placement-mover"),
        (NAMESPACE, "edit"),
        (OTHER, "edit"),
    ):
        ref = {"apiGroup": group, "kind": "ClusterRole", "name": role}
        body = {"metadata": {"name": f"test-{role}"}, "roleRef": ref, "subjects": [subject]}
        api.create(api.path("RoleBinding", namespace), body)
    free = objects.deployment("web", OTHER, replicas=0)
    api.create(api.collection_of(free), free)
    scale = {"spec": {"replicas": 0}}
    try:
        assert "spec.replicas" in scene.patch("nobody", "Deployment", scale)
        assert scene.patch("nobody", "Deployment", note("rules")) == ""
        assert scene.request("nobody", "PATCH", api.path_of(free), scale, MERGE) == ""
    finally:
        delete_namespace(api, OTHER)


def test_every_policy_is_bound_and_has_no_type_warnings(scene: Scene) -> None:
    api = scene.sandbox.api
    kinds = [item["kind"] for item in shipped("policies.yml")]
    assert (
        kinds.count("ValidatingAdmissionPolicy")
        == kinds.count("ValidatingAdmissionPolicyBinding")
        == 4
    )
    for item in shipped("policies.yml"):
        if item["kind"] == "ValidatingAdmissionPolicy":
            path = api.path(item["kind"], None, item["metadata"]["name"])
            seen = api.wait(lambda policy: policy["status"]["observedGeneration"], path)
            assert seen["status"].get("typeChecking", {}).get("expressionWarnings") is None


def test_maintainer_changes_its_own_taint_and_no_taint_of_others(scene: Scene) -> None:
    """Dry runs on a node that has a taint of another client and that of a drain."""
    other, hard = {"key": "mine", "effect": "NoSchedule"}, {**STEERING, "effect": "NoSchedule"}
    node = scene.paths["Node"]

    def refusal(*taints: Object) -> str:
        return scene.patch("maintainer", "Node", {"spec": {"taints": list(taints)}})

    scene.sandbox.api.patch(node, {"spec": {"taints": [other, STEERING]}})
    try:
        assert refusal(other) == "", "taken off"
        assert refusal(other, {**STEERING, "value": "r2"}) == "", "of another run"
        assert refusal(STEERING, other) == "", "the order of the others is the same"
        for taints in ((STEERING,), (), (other, hard), ({**other, "value": "x"}, STEERING)):
            assert "may not change all of: spec.taints" in refusal(*taints), taints
    finally:
        scene.sandbox.api.patch(node, {"spec": {"taints": None}})
