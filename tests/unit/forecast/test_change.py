# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The snapshot after a change: which pods run where, which are pending, and what is unchanged."""

from __future__ import annotations

import copy

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import (
    NODE_EVENTS,
    NodeEvent,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import HOTPLUG
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.write import (
    Operation,
    PatchTestFailed,
    patched,
)
from tests.support.cluster import (
    HOST,
    cluster,
    deployment,
    expression,
    keep_apart,
    machine,
    node_affinity,
)
from tests.unit.planning import scenes

values = st.recursive(
    st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["x", "y"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b/c", "d~e"]), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(before=values, after=values)
def test_patch_equals_the_result_of_jsonpatch(before: object, after: object) -> None:
    value, wanted = {"root": before}, {"root": after}
    patch = jsonpatch.make_patch(value, wanted)
    supported = [step for step in patch if step["op"] in ("add", "replace", "remove")]
    kept = copy.deepcopy(value)
    operations = [
        Operation(step["op"], _pointer(step["path"]), step.get("value")) for step in supported
    ]
    if len(supported) == len(list(patch)):
        assert patched(value, operations) == wanted
    assert value == kept


def _pointer(path: str) -> Pointer:
    parts = path.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))


def test_failed_test_operation_is_an_error() -> None:
    absent = Operation("test", Pointer(("a",)), None)
    assert patched({}, [absent]) == {}
    with pytest.raises(PatchTestFailed, match="/a is 1"):
        patched({"a": 1}, [absent])
    with pytest.raises(ValueError, match="nothing at /a/b"):
        patched({"a": {}}, [Operation("remove", Pointer(("a", "b")))])


def unbound(snapshot: Snapshot) -> list[Pod]:
    return [pod for pod in snapshot.pods if not pod.node_name]


def test_running_vms_count_as_declared_and_halted_vms_are_pending() -> None:
    made = cluster("aab")
    running = machine(made, "web-a", "n1", g="web")
    machine(made, "web-b", "n2", g="web")
    halted = machine(made, "web-c", "", g="web")
    rule = keep_apart(g="web")
    writes = [scenes.template_write(ref, "affinity", rule) for ref in (running, halted)]
    before = made.snapshot()

    after = what_if(before, writes=writes).after

    (placed,) = unbound(after)
    assert placed.labels["vmi.kubevirt.io/id"] == "web-c"
    assert placed.placement.anti_affinity
    misplaced = [verdict.instance.name for verdict in judge(after).instances if verdict.misplaced]
    assert "web-a" in misplaced
    assert before == made.snapshot(), "a snapshot never changes"


def test_drain_keeps_the_source_of_a_migration_and_removes_pods() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    deployment(made, "web", ["n1"], {})

    after = what_if(made.snapshot(), lost_nodes=["n1"]).after

    assert after.nodes[0].unschedulable
    assert [taint.key for taint in after.nodes[0].taints] == ["node.kubernetes.io/unschedulable"]
    names = sorted((pod.name, pod.node_name) for pod in after.pods)
    assert [node for _name, node in names] == ["n1", "", ""]
    assert [name.endswith("-next") for name, _node in names] == [False, True, True]


def test_failure_leaves_the_pod_of_a_deployment_terminating_on_its_node() -> None:
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})

    after = what_if(made.snapshot(), lost_nodes=["n1"], event="failure").after

    old, new = after.pods
    assert (old.terminating, old.node_name, new.node_name) == (True, "n1", "")
    assert {taint.effect for taint in after.nodes[0].taints} == {"NoSchedule", "NoExecute"}
    assert not after.nodes[0].ready


def test_failure_leaves_no_launcher_pod_once_its_node_is_fenced() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    (old,) = made.snapshot().pods

    change = what_if(made.snapshot(), lost_nodes=["n1"], event="failure")

    (new,) = change.after.pods
    assert new.node_name == ""
    assert old.labels["kubevirt.io/created-by"] != new.labels["kubevirt.io/created-by"]
    assert [ref.name for ref in change.fenced] == ["db"]


def test_pod_of_a_stateful_set_on_a_failed_node_does_not_block_the_one_after_it() -> None:
    """That one has the same name: it is created once the node is fenced and nothing is left of the old one."""
    made = cluster("aa")
    deployment(made, "db", ["n1"], {"affinity": keep_apart(plain=True, app="db")})
    (pod,) = made.pods.values()
    pod["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet"

    found = scenes.lost(made, "n1", event="failure")
    (drilled, _other) = drill(made.snapshot(), [HOST], event="failure").drills

    assert (found.answer, found.down_until_fenced) == (ForecastResult.GUARANTEED, ())
    assert (drilled.answer, drilled.down_until_fenced) == (ForecastResult.GUARANTEED, ())


@pytest.mark.parametrize(("zones", "answer"), [("ab", "possible"), ("a", "unknown")])
def test_nothing_is_certain_of_a_pod_that_another_scheduler_places(zones: str, answer: str) -> None:
    made = cluster(zones)
    deployment(made, "web", ["n1"], {"schedulerName": "batch"})

    change = what_if(made.snapshot(), lost_nodes=["n1"])
    found = forecast(change, doubts=doubts_of_change(change))
    drilled = drill(made.snapshot(), [HOST], event="drain").drills[0]

    assert (found.answer.value, drilled.answer.value) == (answer, answer)
    assert found.reasons[-1].endswith("another scheduler places web-0")
    assert (found.codes, drilled.codes) == (("other_scheduler",), ("other_scheduler",))


def test_vm_that_cannot_leave_its_node_is_certain_whatever_another_scheduler_does() -> None:
    made = cluster("ab")
    machine(made, "x" * 64, "n1")  # too long a name for a migration
    deployment(made, "web", ["n1"], {"schedulerName": "batch"})

    change = what_if(made.snapshot(), lost_nodes=["n1"])
    found = forecast(change, doubts=doubts_of_change(change))
    drilled = drill(made.snapshot(), [HOST], event="drain").drills[0]

    assert (found.answer.value, drilled.answer.value) == ("impossible", "impossible")
    assert (found.codes, drilled.codes) == (("stays_on_node",), ("stays_on_node",))


def test_no_move_is_certain_of_a_vm_that_another_scheduler_places() -> None:
    made = cluster("ab")
    db = machine(made, "db", "n1", {"schedulerName": "batch"})

    found = scenes.written(made, scenes.pinned(db, "b"))

    assert found.answer is ForecastResult.POSSIBLE
    assert found.reasons[-1].endswith("another scheduler places it")


@pytest.mark.parametrize("event", NODE_EVENTS)
def test_pod_that_attaches_a_volume_of_a_vm_is_not_to_be_placed(event: NodeEvent) -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    host = expression(HOST, "In", "n1")
    attachment = made.bare_pod("hp", "n1", node_affinity({"matchExpressions": [host]}))
    attachment["metadata"]["labels"] = dict([HOTPLUG])
    launcher = {"kind": "Pod", "name": "virt-launcher-db", "uid": "u-l", "controller": True}
    attachment["metadata"]["ownerReferences"] = [launcher]

    change = what_if(made.snapshot(), lost_nodes=["n1"], event=event)

    assert [pending.instance.name for pending in change.pending] == ["db"]
    assert not change.blocked and not change.not_recreated


@pytest.mark.parametrize(("replicas", "pods"), [(0, 0), (1, 1), (2, 2), (5, 5)])
def test_scaling_creates_the_requested_number_of_pods(replicas: int, pods: int) -> None:
    made = cluster("ab")
    ref = deployment(made, "web", ["n1", "n2"], {})

    after = what_if(made.snapshot(), scale=[Scale(ref, replicas)]).after

    assert len(after.pods) == pods
    assert len({pod.name for pod in after.pods}) == pods
    assert all(pod.requests == after.pods[0].requests for pod in after.pods)


def test_unknown_node_or_workload_is_an_error() -> None:
    made = cluster("a")
    ref = machine(made, "db", "n1")
    write = scenes.template_write(ref, "affinity", {})
    del made.workloads[ref]
    with pytest.raises(KeyError, match="n9"):
        what_if(made.snapshot(), lost_nodes=["n9"])
    with pytest.raises(KeyError, match="shop/db"):
        what_if(made.snapshot(), writes=[write])


@pytest.mark.parametrize(("seconds", "created"), [({}, 0), ({"tolerationSeconds": 300}, 1)])
def test_pod_that_tolerates_the_failure_of_its_node_for_good_has_no_successor(
    seconds: dict[str, int], created: int
) -> None:
    made = cluster("a")
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", **seconds}
    deployment(made, "web", ["n1"], {"tolerations": [toleration]})
    snapshot = made.snapshot()

    changed = what_if(snapshot, lost_nodes=["n1"], event="failure")
    (node,) = drill(snapshot, [HOST], event="failure").drills

    assert len(changed.pending) == created
    assert [pod.terminating for pod in changed.after.pods if pod.node_name] == [bool(created)]
    assert node.instances_to_schedule == created


@pytest.mark.parametrize("event", NODE_EVENTS)
def test_a_plain_pod_of_a_vm_is_expected_again_whatever_the_run_strategy(event: NodeEvent) -> None:
    """KubeVirt makes VMIs: what has made this pod is not known."""
    made = cluster("ab")
    machine(made, "db", "")
    pod = made.bare_pod("agent", "n1")
    owner = {"kind": "VirtualMachine", "name": "db", "uid": "virtualmachine-db", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    change = what_if(made.snapshot(), lost_nodes=["n1"], event=event)
    assert [x.pod.name for x in change.pending] == ["agent-next"]
