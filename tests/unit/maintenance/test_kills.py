# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A maintenance of three nodes in three zones with thirteen VMs is killed at a write, and begun again. One VM cannot
be migrated: kube-scheduler would start it on a node that is serviced later.

The API server is in this process, and so is what KubeVirt does with migrations: tests/faults does the same
on a real control plane. The witness shares no code with the collection.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import os
import typing as t

import pytest

from tests.fuzz import cluster
from tests.support import modules
from tests.support.api_server import ApiServer, Reply, Request, status

witness = pytest.importorskip("tests.witness", reason="the sandbox's libraries are not installed")

Object = dict[str, t.Any]

ZONES = {"w1": "a", "w2": "a", "w3": "b", "w4": "b", "w5": "c", "w6": "c"}
SERVICED = ("w1", "w3", "w5")
KINDS = {
    "nodes": "Node",
    "virtualmachineinstances": "VMI",
    "virtualmachineinstancemigrations": "Migration",
}
CHANGE = "CHG0042"
RESTARTED = "w3-restarted"
WRITES = 80
"""More than a whole maintenance makes."""

EVERY = 1 if os.environ.get("PLACEMENT_EVERY_WRITE") else 6
"""`make faults` tries every write."""


class Killed(BaseException):
    """The process that sends this request is gone."""


class KubeVirt(ApiServer):
    """Carries out migrations, each some readings after it was made. `kill_at` is the number of the write at
    which the client is killed, before or after it is done; of a dead client nothing is accepted. With `fails`
    the client is not killed, and the answer is 500.
    `loses_puts`: the client is killed when it asks for a subresource, and the request is lost."""

    def __init__(self, objects: t.Mapping[str, Object]) -> None:
        super().__init__(objects)
        self.kill_at, self.after, self.dead, self.fails = 0, False, False, False
        self.puts: list[str] = []
        self.restarted: list[str] = []
        self.loses_puts = False
        self.changes: list[t.Any] = []
        self.made: dict[str, int] = {}
        self.readings = 0
        self.progress: list[str] = []
        self._versions = itertools.count(2)

    def serve(self, request: Request) -> Reply:
        method, path = request.method, request.path
        if self.dead:
            raise Killed
        if method == "GET" and path.endswith("/nodes"):
            self._proceed()
        if method == "PUT" and not request.dry_run:
            self.puts.append(path)
            if self.loses_puts:
                self._kill()
        is_write = method != "GET" and not request.dry_run and "accessreviews" not in path
        kills = is_write and len(self.writes) + 1 == self.kill_at
        if kills and not self.after:
            return self._kill()
        reply = super().serve(request)
        if is_write and reply.status < 300:
            self._record(method, path, reply.value)
            if path.endswith("/restart"):
                self._make_anew(path)
        return self._kill() if kills else reply

    def reboot(self, node: str) -> None:
        path = f"/api/v1/nodes/{node}"
        info = self.objects[path]["status"]["nodeInfo"]
        self._change(path, "status", {"nodeInfo": {"bootID": f"{info['bootID']}+"}})

    def of(self, plural: str) -> dict[str, Object]:
        return {
            item["metadata"]["name"]: copy.deepcopy(item)
            for path, item in self.objects.items()
            if path.split("/")[-2] == plural
        }

    def _kill(self) -> Reply:
        self.kill_at = 0
        if self.fails:
            return status(500, message="etcdserver: leader changed")
        self.dead = True
        raise Killed

    def _record(self, method: str, path: str, answer: Object) -> None:
        if method == "POST" and path.endswith("migrations"):
            path = f"{path}/{answer['metadata']['name']}"
            self.objects[path] = {**answer, "status": {"phase": "Scheduling"}}
            self.made[path] = self.readings
        kind = {"POST": "ADDED", "DELETE": "DELETED"}.get(method, "MODIFIED")
        if path in self.objects:
            self._change(path, "metadata", {"resourceVersion": str(next(self._versions))}, kind)

    def _change(self, path: str, part: str, values: Object, kind: str = "MODIFIED") -> None:
        item = copy.deepcopy(self.objects[path])
        item[part] = {**(item.get(part) or {}), **values}
        version = next(self._versions)
        item["metadata"]["resourceVersion"] = str(version)
        self.objects[path] = item
        plural = path.split("/")[-2]
        if plural in KINDS:
            self.changes.append(witness.Change(version, KINDS[plural], kind, item))

    def _proceed(self) -> None:
        self.readings += 1
        for path, made in list(self.made.items()):
            if path not in self.objects:
                del self.made[path]
            elif self.readings >= made + 3:
                del self.made[path]
                self._migrate(path)
            elif self.readings == made + 1:
                self._change(path, "status", {"phase": "Running"})

    def _migrate(self, path: str) -> None:
        migration = self.objects[path]
        vmi_name = migration["spec"]["vmiName"]
        vmis = path.replace("instancemigrations", "instances").rpartition("/")[0]
        vmi = self.objects[f"{vmis}/{vmi_name}"]
        source = vmi["status"]["nodeName"]
        target = next(
            name
            for name, node in self.of("nodes").items()
            if name != source and not node["spec"].get("unschedulable")
        )
        self._place(f"{vmis}/{vmi_name}", target)
        self._change(path, "status", {"phase": "Succeeded"})

    def _place(self, path: str, target: str) -> None:
        """The next pod of a VMI, on the node."""
        vmi = self.objects[path]
        name, uid = vmi["metadata"]["name"], vmi["metadata"]["uid"]
        old = next(
            at
            for at, pod in self.objects.items()
            if at.split("/")[-2] == "pods" and pod["metadata"]["name"].endswith(f"{name}-x1")
        )
        pod = copy.deepcopy(self.objects[old])
        pod["metadata"]["uid"] += "+"
        pod["metadata"]["labels"][cluster.CREATED_BY] = uid
        pod["metadata"]["ownerReferences"][0]["uid"] = uid
        pod["spec"]["nodeName"] = target
        self.objects[old] = pod
        labels = {**vmi["metadata"]["labels"], "kubevirt.io/nodeName": target}
        self._change(path, "metadata", {"labels": labels})
        active = {pod["metadata"]["uid"]: target}
        self._change(path, "status", {"nodeName": target, "activePods": active})

    def _make_anew(self, path: str) -> None:
        """kube-scheduler takes the last node by name: those with a soft taint only if there is no other."""
        name = path.split("/")[-2]
        self.restarted.append(name)
        vmi = f"/apis/kubevirt.io/v1/namespaces/shop/virtualmachineinstances/{name}"
        nodes = self.of("nodes")
        open_nodes = [name for name, node in nodes.items() if not node["spec"].get("unschedulable")]
        target = max(open_nodes, key=lambda name: (not nodes[name]["spec"].get("taints"), name))
        self._change(vmi, "metadata", {"uid": self.objects[vmi]["metadata"]["uid"] + "+"})
        self._place(vmi, target)


def three_zones() -> KubeVirt:
    """Four VMs on each node that is to be serviced; w6 is cordoned by another client."""
    made = list(cluster._platform())
    made.append(cluster._object("v1", "Namespace", "shop"))
    for node in cluster._nodes():
        if node["metadata"]["name"] == "w1":
            for name, zone in ZONES.items():
                item = copy.deepcopy(node)
                labels = {**item["metadata"]["labels"], cluster.HOSTNAME: name, cluster.ZONE: zone}
                item["metadata"] |= {"name": name, "uid": f"node-{name}", "labels": labels}
                item["spec"] = {"unschedulable": True} if name == "w6" else {}
                item["status"]["nodeInfo"] = {"bootID": f"boot-{name}"}
                made.append(item)
    for node_name in SERVICED:
        for number in range(4):
            made += cluster._virtual_machine("shop", f"{node_name}-{number}", node_name)
    return KubeVirt({cluster.path_of(item): item for item in copy.deepcopy(made)})


def with_restarted_vm() -> KubeVirt:
    """A thirteenth VM on w3, which leaves by a restart."""
    vm, *rest = cluster._virtual_machine("shop", RESTARTED, "w3")
    vm["metadata"]["labels"]["placement.virt/vm-policy"] = "restart"
    more = {cluster.path_of(item): item for item in copy.deepcopy([vm, *rest])}
    return KubeVirt({**three_zones().objects, **more})


def maintain(server: KubeVirt, state: str, node: str, **options: t.Any) -> Object:
    """Steps until the task has ended. Between two of them the time is over for which a Lease is held."""
    run: Object = {}
    for number in range(1, 30):
        given = {"nodes": [node], "state": state, "step_state": run, **options}
        result = modules.run("node_maintenance", server, given, reconciles=math.inf)
        server.progress += result.get("progress") or []
        if result.get("failed") or result["finished"]:
            return result
        run = {**result["step_state"], "elapsed": 25.0 * number}
    raise AssertionError(f"{state} of {node} has not ended: {result['progress']}")


def service(server: KubeVirt, **options: t.Any) -> None:
    """What the role placement_maintenance does: a node in maintenance first, and none that is done. `options` are those
    of the drains."""
    nodes = server.of("nodes")
    annotations = {name: nodes[name]["metadata"].get("annotations") or {} for name in SERVICED}
    todo = [name for name in SERVICED if annotations[name].get(witness.SERVICED) != CHANGE]
    todo.sort(key=lambda name: witness.MARK not in annotations[name])
    for name in todo:
        later = todo[todo.index(name) + 1 :]
        drained = maintain(server, "drained", name, serviced_later=later, **options)
        assert not drained.get("failed"), drained["msg"]
        assert not [
            vmi for vmi in server.of("virtualmachineinstances").values() if _is_on(vmi, name)
        ]
        server.reboot(name)
        back = maintain(server, "in_service", name, reboot_expected=True, change_id=CHANGE)
        assert not back.get("failed"), back["msg"]


def _is_on(vmi: Object, node: str) -> bool:
    return bool(vmi["status"]["nodeName"] == node)


def writes_of(kill_at: int, *, after: bool, fails: bool = False) -> int:
    """A maintenance that is killed at a write and begun again; how many writes were made by the first. With `fails`
    the write is answered with 500, and the first one has to end well."""
    server = with_restarted_vm()
    history = witness.History(
        server.of("nodes"),
        server.of("virtualmachines"),
        server.of("virtualmachineinstances"),
        server.changes,
    )
    boots = {name: node["status"]["nodeInfo"] for name, node in history.nodes.items()}
    server.kill_at, server.after, server.fails = kill_at, after, fails
    with contextlib.suppress(Killed):
        service(server)
    first, server.dead = len(server.writes), False
    service(server)

    expected = [f"VMI {RESTARTED} was made anew"]
    assert set(history.violated_invariants(max_nodes=1)) == set(expected)
    assert server.restarted == [RESTARTED], "once"
    assert not fails or first == len(server.writes), "the first one has done all"
    assert (
        history.violated_invariants_at_the_end(server.of("nodes"), server.of("virtualmachines"))
        == []
    )
    nodes = server.of("nodes")
    assert all(nodes[name]["status"]["nodeInfo"] != boots[name] for name in SERVICED)
    assert [name for name, node in nodes.items() if node["spec"].get("unschedulable")] == ["w6"]
    (lease,) = server.of("leases").values()
    assert lease["spec"]["holderIdentity"] == ""
    done = len(server.writes)
    service(server)
    assert len(server.writes) == done, "a second run writes nothing"
    return first


def test_maintenance_that_is_not_killed_makes_fewer_writes_than_the_sweep_has() -> None:
    assert 40 < writes_of(0, after=False) < WRITES


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES, EVERY))
def test_maintenance_killed_at_a_write_and_begun_again(write: int, after: bool) -> None:
    writes_of(write, after=after)


@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize("write", range(1, WRITES, EVERY))
def test_maintenance_goes_on_where_a_write_is_answered_with_500(write: int, done: bool) -> None:
    """kubectl drain and kubernetes.core's drain end there."""
    writes_of(write, after=done, fails=True)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 20, 2 if EVERY > 1 else 1))
def test_taint_of_a_killed_drain_goes_with_its_undo(write: int, after: bool) -> None:
    server = with_restarted_vm()
    server.kill_at, server.after = write, after
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w3", serviced_later=["w5"])
    server.dead, server.kill_at = False, 0

    undone = maintain(server, "in_service", "w3")

    assert not undone.get("failed"), undone["msg"]
    assert not [name for name, node in server.of("nodes").items() if node["spec"].get("taints")]
    done = len(server.writes)
    assert not maintain(server, "in_service", "w3")["changed"]
    assert len(server.writes) == done


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, 9))
def test_taint_of_a_drain_that_is_killed_again_goes_with_its_undo(write: int, after: bool) -> None:
    """The mark has the run that was killed last, and says nothing about the one before."""
    server = with_restarted_vm()
    server.kill_at, server.after = 5, True
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w3", serviced_later=["w5"])
    assert server.of("nodes")["w5"]["spec"].get("taints"), "killed before its journal has a move"
    server.dead = False
    server.kill_at, server.after = len(server.writes) + write, after
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w3", serviced_later=["w5"])
    server.dead, server.kill_at = False, 0

    undone = maintain(server, "in_service", "w3")

    assert not undone.get("failed"), undone["msg"]
    assert not [name for name, node in server.of("nodes").items() if node["spec"].get("taints")]


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_move_that_was_not_sent_is_not_made_by_a_method_that_the_next_run_does_not_allow(
    policy: str,
) -> None:
    """The journal has the move; the request of the killed run did not arrive."""
    server = three_zones()
    server.loses_puts = True
    with contextlib.suppress(Killed):
        maintain(server, "drained", "w1", vm_policy=policy, allow_findings=["pending_changes"])
    assert server.puts, "the first run asked for a restart or a stop"

    server.dead, server.loses_puts, server.puts = False, False, []
    drained = maintain(server, "drained", "w1", vm_policy="migrate")
    assert not drained.get("failed"), drained["msg"]
    assert server.puts == []
    assert not [vmi for vmi in server.of("virtualmachineinstances").values() if _is_on(vmi, "w1")]
