# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether any one node or zone may fail, how many more VMs have room then, and which VMs preempt others."""

from __future__ import annotations

import dataclasses
import random
import typing as t
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.module_utils.capacity.capacity import (
    MOST_VMS,
    CapacityReport,
    CapacityState,
    RoomForVms,
    Tolerated,
    VmSize,
    capacity,
    capacity_table,
    new_vm,
    worst_failure,
)
from ansible_collections.virt.placement.plugins.module_utils.flows import capacity_info
from ansible_collections.virt.placement.plugins.module_utils.flows import forecast as flow
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drained import drained
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import (
    Drill,
    DrillEngine,
    DrillReport,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import (
    drill as drill_of,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill_table import n_plus_1
from ansible_collections.virt.placement.plugins.module_utils.forecast.preemption import (
    preempting_vms,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.simulation import (
    PlacementSimulation,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instance_types import (
    InstanceType,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    cluster,
    deployment,
    expression,
    keep_apart,
    machine,
    node_affinity,
)

NODE = [Tolerated(HOST)]
SMALL = VmSize(4, 8 * 2**30)


def three(zones: str = "abc", *, apart: bool = False) -> Cluster:
    made = cluster(zones)
    for number in (1, 2, 3):
        spec = {"affinity": keep_apart(over=HOST, g="db")} if apart else None
        machine(made, f"db-{number}", f"n{number}", spec, g="db")
    return made


def name_of(pod: dict[str, t.Any]) -> str:
    """The VM of a launcher pod."""
    return str(pod["metadata"]["labels"]["vm.kubevirt.io/name"])


def table_of(report: CapacityReport) -> list[str]:
    return capacity_table(report, Topology.of()).splitlines()


def room_line(report: CapacityReport) -> str:
    (line,) = (line for line in table_of(report) if line.startswith("room for more VMs"))
    return line


def test_green_says_how_much_room_is_left_and_for_how_many_vms() -> None:
    """Each node has 16 CPUs, a VM of the cluster requests one, one of four cores four."""
    report = capacity(three().snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.GREEN
    assert report.room is not None
    assert worst_failure(report, Topology.of()) == ""
    assert (report.room.at_least, report.room.at_most, report.room.doubt) == (6, 6, "")
    assert table_of(report)[:3] == [
        "GREEN: after any one of 3 failures each instance finds a node",
        "least room is left without node n1: 125.0 GiB memory, 29.0 CPU",
        "room for more VMs (4 cores, 8.0 GiB memory) that leaves it green: at least 6",
    ]


def test_red_names_the_instances_and_what_they_request() -> None:
    report = capacity(three(apart=True).snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.RED
    assert report.room is not None
    assert (report.room.at_least, report.room.at_most) == (0, 0)
    lines = table_of(report)
    assert lines[0] == "RED: 3 of 3 failures leave instances without a node"
    assert "unschedulable if node n1 fails: VirtualMachineInstance shop/db-1" in lines
    assert "without a node if node n1 fails: 1.0 CPU, 1.0 GiB memory are requested" in lines
    assert room_line(report) == (
        "room for more VMs (4 cores, 8.0 GiB memory): none while it is red: VirtualMachineInstance shop/db-1 has no"
        " node already if node n1 fails"
    )
    assert report.drills.drills[0].missing == (1000, 2**30)
    first = "If node n1 fails, VirtualMachineInstance shop/db-1 has no node (1.0 CPU, 1.0 GiB memory requested): "
    assert worst_failure(report, Topology.of()).startswith(first)


def test_instance_that_no_controller_creates_again_is_red() -> None:
    made = three()
    made.bare_pod("lonely", "n2")

    report = capacity(made.snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.RED
    assert room_line(report).endswith(
        "none while it is red: Pod shop/lonely has no node already if node n2 fails"
    )
    assert worst_failure(report, Topology.of()).startswith(
        "If node n2 fails, Pod shop/lonely has no"
    )


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        (2, "none is proven, at most 1 by their requests"),
        (3, "none: a failure leaves too little"),
    ],
)
def test_green_without_room_for_one_more_says_none(cores: int, words: str) -> None:
    """The VM of n1 may take one of the two CPUs that are free on n3, or the one on n2."""
    made = three()
    for node, cpu in (("n1", "2"), ("n2", "2"), ("n3", "3")):
        made.nodes[node]["status"]["allocatable"]["cpu"] = cpu
    size = VmSize(cores, 8 * 2**30)

    report = capacity(made.snapshot(), [Tolerated(HOST, ("n1",))], size=size)

    assert report.state is CapacityState.GREEN
    assert room_line(report).endswith(f"that leaves it green: {words}")
    limit = "with 1 more VM it is not proven that each finds a node if node n1 fails"
    assert (limit in table_of(report)) is words.startswith("none is proven")


def test_answer_that_depends_on_the_scheduler_is_not_green() -> None:
    """One VM may use both nodes that are left, the other only one of them; each has room for one."""
    made = cluster("abc", migrates=False)
    for node in ("n2", "n3"):
        made.nodes[node]["status"]["allocatable"]["cpu"] = "1"
    machine(made, "free", "n1")
    pinned = node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "b")]})
    machine(made, "pinned", "n1", pinned)

    report = capacity(made.snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.POSSIBLE
    assert report.room is not None
    assert report.room.at_least == 0
    assert table_of(report)[0] == (
        "POSSIBLE: after 1 of 3 failures instances can find nodes, but it is not certain that they do"
    )
    assert room_line(report) == (
        "room for more VMs (4 cores, 8.0 GiB memory): none that leaves it green: it is possible without them already"
    )


def test_pod_that_may_wait_five_minutes_for_its_node_is_green_with_a_note() -> None:
    """Number 16 of issue 41: one rule keep_together made capacity never green."""
    made = cluster("abc", migrates=False)
    machine(made, "lead", "n1", g="lead")
    term = {"labelSelector": {"matchLabels": {"g": "lead"}}, "topologyKey": HOST}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    machine(made, "app", "n1", {"affinity": {"podAffinity": {required: [term]}}})

    report = capacity(made.snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.GREEN
    failed = next(x for x in report.drills.drills if x.domain == "n1")
    assert (failed.answer.value, failed.codes) == ("possible", ("affinity_to_ended",))
    assert report.notes == (
        "up to five minutes later: after the failure of node n1 an instance with affinity to others that end with it"
        " may wait for the next try of the scheduler",
    )
    assert table_of(report)[0] == "GREEN: after any one of 3 failures each instance finds a node"
    assert not any(line.startswith("FAILURE") for line in table_of(report))
    assert report.room is not None
    assert report.room.at_least > 0


def test_pod_that_waits_and_may_find_no_node_is_not_green() -> None:
    """The leader may choose the node without room for the other."""
    made = cluster("abc", migrates=False)
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"
    machine(made, "lead", "n1", g="lead")
    term = {"labelSelector": {"matchLabels": {"g": "lead"}}, "topologyKey": HOST}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    machine(made, "app", "n1", {"affinity": {"podAffinity": {required: [term]}}})
    assert capacity(made.snapshot(), NODE, size=SMALL).state is CapacityState.POSSIBLE


def test_control_plane_node_without_instances_is_no_failure() -> None:
    """Number 18 of issue 41. One that is named is, and so is one with an instance that leaves it."""
    made = three()
    made.node("control-1", {ZONE: "a"}, taints=[{"key": "node-role", "effect": "NoSchedule"}])

    def domains(*tolerated: Tolerated) -> set[str]:
        return {x.domain for x in capacity(made.snapshot(), tolerated).drills.drills}

    report = drill_of(made.snapshot(), [HOST], event="failure")
    assert str(n_plus_1(report)).startswith("N+1: yes, any one of 3 nodes may fail; ")
    assert domains(*NODE) == {"n1", "n2", "n3"}
    assert domains(Tolerated(HOST, ("control-1",))) == {"control-1"}
    tolerates = {"tolerations": [{"key": "node-role", "operator": "Exists"}]}
    machine(made, "tools", "control-1", tolerates)
    assert domains(*NODE) == {"n1", "n2", "n3", "control-1"}


def test_only_named_domains_fail() -> None:
    made = three("aabc", apart=True)  # n4 is free
    one = capacity(made.snapshot(), [Tolerated(ZONE, ("b",))])
    each = capacity(made.snapshot(), [Tolerated(ZONE)])

    assert (one.state, len(one.drills.drills)) == (CapacityState.GREEN, 1)
    assert (each.state, len(each.drills.drills)) == (CapacityState.RED, 3)


@pytest.mark.parametrize("resource", ["pods", "nodes", "virtualmachineinstances"])
def test_unread_list_and_missing_domain_are_unknown(resource: str) -> None:
    gap = Unreadable(resource, "", "list", "forbidden")
    unread = capacity(three().snapshot(unreadable=(gap,)), NODE, size=SMALL)
    nowhere = capacity(three().snapshot(), [Tolerated("example.com/rack")], size=SMALL)

    assert (unread.state, unread.room) == (CapacityState.UNKNOWN, None)
    assert worst_failure(unread, Topology.of()).startswith("unknown: cannot list ")
    assert (nowhere.state, nowhere.room) == (CapacityState.UNKNOWN, None)
    assert table_of(unread)[0].startswith("unknown: cannot list ")
    assert table_of(nowhere) == ["UNKNOWN: there is no such topology domain"]


def random_cluster(chance: random.Random) -> Cluster:
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(3, 5))))
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = chance.choice(["6", "9", "16"])
    for number in range(chance.randint(2, 6)):
        over = chance.choice(["", "", ZONE, HOST])
        spec = {"affinity": keep_apart(over=over, g=f"g{number % 2}")} if over else None
        machine(made, f"vm{number}", chance.choice(list(made.nodes)), spec, g=f"g{number % 2}")
    return made


def replayed(snapshot: Snapshot, lost: t.Collection[str], chance: random.Random) -> int:
    """How many pods have no node once these nodes have failed and the others chose theirs at random."""
    change = what_if(snapshot, lost_nodes=lost, event="failure")
    simulation = PlacementSimulation(view_of(change.after).new_index(), change.pending)
    while True:
        able = [n for n in simulation.waiting if simulation.feasible_nodes(n)]
        if not able:
            return len(simulation.waiting)
        number = chance.choice(able)
        names = simulation.table.names_of(simulation.feasible_nodes(number))
        simulation.place(number, chance.choice(names))


def start_vms(made: Cluster, count: int, chance: random.Random) -> None:
    """So many VMs more, each on a node that the scheduler might choose. AssertionError where one finds none."""
    snapshot = made.snapshot()
    pending = [new_vm(SMALL, number, snapshot.platform) for number in range(count)]
    simulation = PlacementSimulation(view_of(snapshot).new_index(), pending)
    for number, new in enumerate(pending):
        names = simulation.table.names_of(simulation.feasible_nodes(number))
        assert names, (number, count)
        node = chance.choice(names)
        simulation.place(number, node)
        name = f"new-{number}"
        machine(made, name, node)
        (pod,) = (x for x in made.pods.values() if name_of(x) == name)
        cpu, memory = (new.pod.requests[resource] for resource in ("cpu", "memory"))
        pod["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": f"{cpu}m", "memory": str(memory)}
        }


@pytest.mark.parametrize("seed", range(12))
def test_green_means_that_each_failure_finds_places_for_all(seed: int) -> None:
    """Also for the VMs that are said to have room, wherever they run when the node fails."""
    chance = random.Random(seed)
    made = random_cluster(chance)
    snapshot = made.snapshot()
    key = chance.choice([HOST, ZONE])
    report = capacity(snapshot, [Tolerated(key)], size=SMALL)
    if report.state is not CapacityState.GREEN:
        assert report.room is None or report.room.at_least == 0
        return
    assert report.room is not None
    assert report.room.at_least <= report.room.at_most
    start_vms(made, report.room.at_least, chance)
    full = made.snapshot()
    for drill in report.drills.drills:
        assert replayed(snapshot, drill.nodes, chance) == 0
        assert replayed(full, drill.nodes, chance) == 0


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"tolerate": []}, ["tolerate: is empty: name what may fail, such as node"]),
        ({"tolerate": ["zone="]}, ["tolerate[0]: 'zone=' has no value after '='"]),
        (
            {"tolerate": ["node", "zon"]},
            [
                "tolerate[1]: topology key 'zon' is not declared: add it to topology_keys or write the full label key"
                " with its prefix; did you mean zone?"
            ],
        ),
        (
            {"tolerate": ["zone=x"]},
            [f"tolerate[0]: no node has {ZONE}=x; its values are 'a', 'b', 'c'"],
        ),
        (
            {"tolerate": ["node", "example.com/rack"]},
            ["tolerate[1]: no node has the label example.com/rack"],
        ),
        (
            {"room_for": {"cores": 0}},
            [
                "room_for: needs memory, for example {cores: 4, memory: 8Gi}",
            ],
        ),
        (
            {"room_for": {"cores": 2, "instance_type": ""}},
            [
                "room_for: has an instance_type, and cores or memory, which come from it: leave them out",
                "room_for, instance_type: must not be empty: omit it",
            ],
        ),
        (
            {"room_for": {"instance_type": "u1.larg"}},
            [
                "room_for, instance_type: 'u1.larg': the cluster has none of that name; it has 'u1.large', 'ops/small',"
                " 'shop/small'"
            ],
        ),
        (
            {"room_for": {"instance_type": "small"}},
            [
                "room_for, instance_type: 'small': several namespaces have one: name it as 'ops/small', 'shop/small'"
            ],
        ),
        (
            {"unavailable": {"nodes": ["n9"]}},
            ["unavailable.nodes: there is no node 'n9'"],
        ),
        (
            {"room_for": {"cores": 0, "memory": "8 GB"}},
            [
                "room_for, cores: must be a whole number of at least 1, not 0",
                "room_for, memory: '8 GB' is no resource quantity, such as 500m, 2 or 4Gi",
            ],
        ),
    ],
)
def test_each_fault_of_the_options_is_named(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, t.Any], faults: list[str]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        run(monkeypatch, three(), **options)
    assert [str(fault) for fault in refused.value.errors] == faults


LARGE = InstanceType(
    "u1.large", spec={"cpu": {"guest": 4}, "memory": {"guest": "8Gi"}, "nodeSelector": {ZONE: "a"}}
)
TYPES = (
    LARGE,
    *(
        InstanceType("small", namespace, {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}})
        for namespace in ("ops", "shop")
    ),
)


def test_room_for_an_instance_type_counts_all_that_the_type_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """VMs of u1.large may only be in zone a: none has room once that node fails."""
    asked = {"tolerate": ["node=n2"], "room_for": {"instance_type": "u1.large"}}
    room = run(monkeypatch, three(), **asked)["room_for"]
    assert (room["instance_type"], room["cores"], room["memory_bytes"]) == (
        "u1.large",
        4,
        8 * 2**30,
    )
    sized = run(monkeypatch, three(), tolerate=["node=n2"], room_for={"cores": 4, "memory": "8Gi"})
    assert 0 < room["at_least"] < sized["room_for"]["at_least"]
    small = run(monkeypatch, three(), room_for={"instance_type": "shop/small"})
    assert small["room_for"]["instance_type"] == "shop/small"
    assert "room for more VMs (shop/small: 1 core, 1.0 GiB memory) that" in small["table"]


def run(monkeypatch: pytest.MonkeyPatch, made: Cluster, **options: t.Any) -> dict[str, t.Any]:
    monkeypatch.setattr(flow, "read_snapshot", lambda *_args: made.snapshot())
    monkeypatch.setattr(flow, "new_pod_fields", lambda *_args: {})
    monkeypatch.setattr(capacity_info, "instance_types", lambda _api: TYPES)
    params: dict[str, t.Any] = {
        "namespace": None,
        "rule_set": "default",
        "rules": [],
        "state": "present",
        "prune": False,
        "adopt": "false",
        "scale": [],
        "assume_node_labels": {},
        "topology_keys": {},
        "cluster_uid": None,
        "tolerate": ["node"],
        "room_for": None,
        "unavailable": None,
    }
    return capacity_info.run(mock.Mock(params={**params, **options}), mock.Mock())


PIN = {"name": "pin", "workloads": ["db-1"], "run_on": {"node": "n2"}}


@pytest.mark.parametrize(("node", "state"), [("n1", "green"), ("n2", "red")])
def test_vm_that_rules_move_needs_a_node_wherever_they_move_it(
    monkeypatch: pytest.MonkeyPatch, node: str, state: str
) -> None:
    """db-1 is on n1, and the rule allows n2 alone: once it has moved, n2 may not fail."""
    pinned = {"namespace": "shop", "rules": [PIN], "tolerate": [f"node={node}"]}

    result = run(monkeypatch, three(), **pinned)

    assert result["capacity"] == state
    assert state == "green" or (
        "with the 1 instance that the rules move (db-1) the forecast is impossible"
        in result["table"]
    )


def test_pod_that_a_rollout_of_rules_replaces_needs_a_node_after_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = three()
    deployment(made, "web", ["n1"], {})
    workloads = [{"kind": "Deployment", "name": "web"}]
    pinned = {"namespace": "shop", "rules": [{**PIN, "workloads": workloads}]}
    assert run(monkeypatch, made, **pinned)["capacity"] == "red"
    assert run(monkeypatch, made, **pinned, tolerate=["node=n1"])["capacity"] == "green"
    assert run(monkeypatch, made)["capacity"] == "green"


def test_result_has_the_answer_and_the_vms_that_preempt_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = three()
    for pod in made.pods.values():
        if name_of(pod) == "db-2":
            pod["spec"]["priority"] = 1000

    result = run(
        monkeypatch, made, tolerate=["node", "zone=a"], room_for={"cores": 4, "memory": "8Gi"}
    )

    assert (result["capacity"], result["counts"]["domains"]) == ("green", 4)
    assert result["room_for"]["at_least"] == 6
    (finding,) = result["findings"]
    assert (finding["name"], finding["objects"]) == (
        "preempts_vms",
        ["VirtualMachine shop/db-2"],
    )
    assert "has a higher priority than 2 other VMs, such as" in finding["why"]
    assert "A PriorityClass cannot be changed (create another one)" in finding["advice"]


def test_only_vms_below_one_that_may_preempt_are_lower() -> None:
    """db-3 has the highest priority and may not preempt, db-2 may."""
    made = three()
    for pod in made.pods.values():
        if name_of(pod) == "db-2":
            pod["spec"] |= {"priority": 10}
        if name_of(pod) == "db-3":
            pod["spec"] |= {"priority": 20, "preemptionPolicy": "Never"}
    (finding,) = preempting_vms(view_of(made.snapshot()).instances)
    assert "VirtualMachine shop/db-2 has a higher priority than 1 other VM, " in finding.why


def test_vm_that_may_not_preempt_has_no_finding() -> None:
    made = three()
    for pod in made.pods.values():
        if name_of(pod) == "db-2":
            pod["spec"] |= {"priority": 1000, "preemptionPolicy": "Never"}
    assert list(preempting_vms(view_of(made.snapshot()).instances)) == []


EVERYTHING = {"tolerations": [{"operator": "Exists"}]}


def test_vm_that_tolerates_the_failure_of_its_node_is_not_green() -> None:
    """The scheduler may choose the failed node again: here it is the only one with room."""
    made = cluster("ab")
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = "1"
    machine(made, "db-1", "n1", EVERYTHING)
    machine(made, "db-2", "n2")

    report = capacity(made.snapshot(), [Tolerated(HOST, ("n1",))], size=SMALL)

    assert report.state is CapacityState.POSSIBLE
    (failed,) = report.drills.drills
    assert failed.codes == ("tolerates_failure",)
    assert failed.reasons == (
        "not certain: db-1 tolerates the taints of a failed node, and the scheduler may choose that node again",
    )


def fail(made: Cluster, name: str) -> None:
    """The kubelet of a node is away."""
    taint = {"key": "node.kubernetes.io/unreachable"}
    effects = ({**taint, "effect": effect} for effect in ("NoSchedule", "NoExecute"))
    made.nodes[name]["spec"]["taints"] = list(effects)
    made.nodes[name]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]


def small(zones: str) -> Cluster:
    """Each node has room for one VM."""
    made = cluster(zones)
    for node in made.nodes.values():
        node["status"]["allocatable"]["cpu"] = "1"
    return made


def test_vms_of_a_node_that_is_down_already_need_nodes_beside_those_of_each_failure() -> None:
    made = small("abc")
    machine(made, "db-1", "n1")
    machine(made, "db-2", "n2")
    fail(made, "n1")

    report = capacity(made.snapshot(), NODE, size=SMALL)

    assert report.state is CapacityState.RED
    answers = {x.domain: (str(x.answer), x.nodes) for x in report.drills.drills}
    assert answers == {
        "n1": ("guaranteed", ("n1",)),
        "n2": ("impossible", ("n2",)),
        "n3": ("impossible", ("n3",)),
    }
    lines = table_of(report)
    assert lines[0] == "RED: 2 of 3 failures leave instances without a node"
    assert (
        "node n1 is not ready already, and counts as failed beside each of these failures" in lines
    )


@pytest.mark.parametrize("domains", [(), ("a",)])
def test_node_without_the_label_of_the_domains_keeps_the_answer_from_green(
    domains: tuple[str, ...],
) -> None:
    made = three()
    del made.nodes["n3"]["metadata"]["labels"][ZONE]

    report = capacity(made.snapshot(), [Tolerated(ZONE, domains)], size=SMALL)

    assert report.state is CapacityState.POSSIBLE
    assert report.room is not None
    assert (report.room.at_least, report.room.at_most) == (0, 0)
    failures = "any one of 2 failures" if not domains else "this failure"
    lines = table_of(report)
    assert lines[0] == (
        f"POSSIBLE: after {failures} each instance finds a node, but nodes without a label may fail, too"
    )
    assert (
        f"node n3 has no label {ZONE}: with which of these domains it fails is not known. Set the label"
        in lines
    )


def test_node_without_the_label_that_takes_no_pods_does_not_matter() -> None:
    made = three()
    made.node("control-1", taints=[{"key": "node-role", "effect": "NoSchedule"}])
    assert capacity(made.snapshot(), [Tolerated(ZONE)]).state is CapacityState.GREEN

    machine(
        made, "tools", "control-1", {"tolerations": [{"key": "node-role", "operator": "Exists"}]}
    )
    assert capacity(made.snapshot(), [Tolerated(ZONE)]).state is CapacityState.POSSIBLE


def test_room_does_not_subtract_what_may_move_to_a_tainted_node() -> None:
    made = cluster("abc")
    for name in ("n2", "n3"):
        made.nodes[name]["spec"]["taints"] = [{"key": "special", "effect": "NoSchedule"}]
    made.nodes["n2"]["spec"] = {"unschedulable": True}
    machine(made, "db", "n1", {"tolerations": [{"key": "special", "operator": "Exists"}]})

    report = capacity(made.snapshot(), [Tolerated(HOST, ("n1",))])

    assert report.state is CapacityState.GREEN
    assert table_of(report)[:2] == [
        "GREEN: after this failure each instance finds a node",
        "least room is left without node n1: 0.0 GiB memory, 0.0 CPU",
    ]


def test_red_counts_the_failures_that_are_certain_alone() -> None:
    """Node n2 has a pod that nothing creates again; after n1 it depends on the scheduler."""
    made = cluster("abc", migrates=False)
    for node in ("n2", "n3"):
        made.nodes[node]["status"]["allocatable"]["cpu"] = "1"
    machine(made, "free", "n1")
    pinned = node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "b")]})
    machine(made, "pinned", "n1", pinned)
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "2"
    made.bare_pod("lonely", "n2")

    lines = table_of(capacity(made.snapshot(), NODE))

    assert lines[0] == "RED: 1 of 3 failures leaves instances without a node"
    assert "perhaps without a node if node n1 fails: 1.0 CPU, 1.0 GiB memory are requested" in lines


def test_pods_that_wait_already_are_named() -> None:
    made = three()
    made.bare_pod("waits", "")
    assert (
        "1 instance has no node already (waits): it takes room, and the answer is not about it"
        in table_of(capacity(made.snapshot(), NODE))
    )


def test_more_vms_than_are_counted_have_no_upper_limit() -> None:
    size = VmSize(1, 2**20)
    report = capacity(three().snapshot(), NODE, size=size)
    assert report.room is not None
    full = dataclasses.replace(report, room=dataclasses.replace(report.room, at_most=MOST_VMS))
    assert table_of(full)[2].endswith(
        f"at least {report.room.at_least}, more than 200 are not counted"
    )


def test_room_counts_what_small_pods_request_beside_more_vms() -> None:
    """Without a zone, 20 VMs of one CPU and the new ones of four need 44 CPUs of 128 that are free."""
    made = cluster("a" * 4 + "b" * 4 + "c" * 4)
    for number in range(60):
        machine(made, f"db-{number}", f"n{number % 12 + 1}")

    report = capacity(made.snapshot(), [Tolerated(ZONE)], size=SMALL)

    assert report.state is CapacityState.GREEN
    assert report.room is not None
    assert (report.room.at_least, report.room.at_most) == (8, 16)


def test_vmi_that_has_no_pod_yet_takes_room() -> None:
    """Its volumes are being filled, say. Each of the three nodes has room for one VM."""
    made = small("abc")
    machine(made, "db-1", "n1")
    machine(made, "importing", "n2")
    made.machines["importing"]["status"] = {"phase": "Pending"}
    made.pods = {key: pod for key, pod in made.pods.items() if name_of(pod) != "importing"}
    assert capacity(made.snapshot(), NODE).state is CapacityState.GREEN

    machine(made, "db-2", "n2")
    report = capacity(made.snapshot(), NODE)

    assert report.state is CapacityState.POSSIBLE
    assert table_of(report)[1] == (
        "1 instance has no node already (importing): it takes room, and the answer is not about it"
    )


def test_room_is_searched_for_once_for_all_failures() -> None:
    made = cluster("abcdefgh")
    conclude = DrillEngine.conclusion_with

    with mock.patch.object(
        DrillEngine, "conclusion_with", autospec=True, side_effect=conclude
    ) as calls:
        report = capacity(made.snapshot(), NODE, size=SMALL)

    assert report.room is not None
    assert report.room.at_least == 28
    assert calls.call_count == 8


@pytest.mark.parametrize(("replicas", "answer"), [(3, "green"), (4, "red")])
def test_instances_that_a_change_adds_need_a_node_after_each_failure(
    monkeypatch: pytest.MonkeyPatch, replicas: int, answer: str
) -> None:
    made = small("abcd")
    deployment(made, "web", ["n1"], {"containers": [{"name": "c", "resources": ONE_CPU}]})
    scale = [{"kind": "Deployment", "namespace": "shop", "name": "web", "replicas": replicas}]

    result = run(monkeypatch, made, scale=scale)

    assert (result["capacity"], result["forecast"]) == (
        answer,
        "guaranteed" if answer == "green" else "impossible",
    )
    assert result["reasons"] == []
    left = "least room is left without node n1: 192.0 GiB memory, 0.0 CPU"
    assert (left in result["table"]) is (answer == "green")
    assert all("that the change adds (web" in str(x["reasons"]) for x in result["domains"])


ONE_CPU = {"requests": {"cpu": "1"}}


def test_drained_node_has_no_instances_and_takes_none() -> None:
    """Three nodes have room for one VM each, one of them is free: a drain takes the reserve."""
    made = small("abc")
    machine(made, "db-1", "n1")
    machine(made, "db-2", "n2")
    assert capacity(made.snapshot(), NODE).state is CapacityState.GREEN

    report = capacity(made.snapshot(), NODE, out=["n1"], size=SMALL)

    assert report.state is CapacityState.RED
    assert {x.domain: str(x.answer) for x in report.drills.drills} == {
        "n1": "guaranteed",
        "n2": "impossible",
        "n3": "impossible",
    }
    lines = table_of(report)
    assert lines[0] == "RED: 2 of 3 failures leave instances without a node"
    assert (
        "node n1 counts as drained: its instances need other nodes beside those of each failure"
        in lines
    )
    assert report.drills.drills[0].reasons[-1] == (
        "with the 1 instance of the drained node n1 (db-1) the forecast is impossible"
    )
    assert [x.min_down for x in report.drills.drills] == [1, 1, 0]
    assert not [line for line in lines if "no impact expected" in line]


def test_drained_free_node_leaves_room_where_there_is_enough() -> None:
    made = small("abcd")
    machine(made, "db-1", "n1")
    assert capacity(made.snapshot(), NODE, out=["n2"]).state is CapacityState.GREEN
    assert capacity(made.snapshot(), NODE, out=["n1", "n2"]).state is CapacityState.GREEN
    machine(made, "db-2", "n2")
    assert capacity(made.snapshot(), NODE, out=["n1", "n2"]).state is CapacityState.RED


def test_vm_that_is_not_started_again_is_no_longer_safe_after_a_drain() -> None:
    """It is migrated off n1, and perhaps to the node that fails."""
    made = three()
    made.workloads[machine(made, "once", "n1")]["spec"]["runStrategy"] = "Manual"
    zone_b = [Tolerated(ZONE, ("b",))]
    assert capacity(made.snapshot(), zone_b).state is CapacityState.GREEN

    report = capacity(made.snapshot(), zone_b, out=["n1"])

    assert report.state is CapacityState.POSSIBLE
    assert report.drills.drills[0].codes == ("not_again_after_drain",)


@pytest.mark.parametrize("apart_over", [ZONE, HOST])
def test_pod_that_moves_may_stay_on_the_failing_node_and_close_its_zone(apart_over: str) -> None:
    """Two zones of two nodes: n1 is drained, its pod goes to n2 or to zone b, and is ended there, if that fails."""
    made = cluster("aabb")
    deployment(made, "web", ["n1"], {"affinity": keep_apart(over=apart_over, app="web")})

    report = capacity(made.snapshot(), NODE, out=["n1"])

    expected = CapacityState.POSSIBLE if apart_over == ZONE else CapacityState.GREEN
    assert report.state is expected
    if apart_over == ZONE:
        assert {x.codes for x in report.drills.drills} == {("stays_terminating",)}


def test_room_for_more_vms_counts_the_instances_of_drained_nodes() -> None:
    made = three()
    before = capacity(made.snapshot(), NODE, size=SMALL).room
    after = capacity(made.snapshot(), NODE, size=SMALL, out=["n3"]).room
    assert before is not None
    assert after is not None
    assert (before.at_least, after.at_least) == (6, 3)


@pytest.mark.parametrize("seed", [0, 4, 5, 8, 10])
def test_green_while_nodes_are_drained_holds_wherever_the_drain_moves_vms(seed: int) -> None:
    chance = random.Random(seed)
    made = random_cluster(chance)
    snapshot = made.snapshot()
    key, lost = chance.choice([HOST, ZONE]), [chance.choice(list(made.nodes))]
    report = capacity(snapshot, [Tolerated(key)], out=lost)
    assert report.state is CapacityState.GREEN
    change = what_if(snapshot, lost_nodes=lost)
    simulation = PlacementSimulation(view_of(change.after).new_index(), change.pending)
    moved = {}
    for number in chance.sample(list(simulation.waiting), len(list(simulation.waiting))):
        names = simulation.table.names_of(simulation.feasible_nodes(number))
        node = chance.choice(names)
        simulation.place(number, node)
        moved[simulation.pending[number].name] = node
    for pod in made.pods.values():
        if name_of(pod) in moved:
            pod["spec"]["nodeName"] = moved[name_of(pod)]
    for name, node in moved.items():
        made.machines[name]["status"]["nodeName"] = node
    made.nodes[lost[0]]["spec"]["unschedulable"] = True
    for drill in report.drills.drills:
        assert replayed(made.snapshot(), drill.nodes, chance) == 0


@pytest.mark.parametrize("seed", range(12))
def test_green_with_rules_holds_wherever_they_move_vms(seed: int) -> None:
    chance = random.Random(seed)
    made = random_cluster(chance)
    snapshot = made.snapshot()
    names = chance.sample(sorted(made.machines), 2)
    uids = {made.machines[name]["metadata"]["uid"] for name in names}
    report = capacity(snapshot, [Tolerated(chance.choice([HOST, ZONE]))], moving=uids)
    if report.state is not CapacityState.GREEN:
        return
    without = drained(snapshot, [], uids)
    simulation = PlacementSimulation(view_of(without.snapshot).new_index(), without.by_rules)
    for number in range(len(names)):
        nodes = simulation.table.names_of(simulation.feasible_nodes(number))
        node = chance.choice(nodes)
        simulation.place(number, node)
        name = simulation.pending[number].name
        made.machines[name]["status"]["nodeName"] = node
        (pod,) = (x for x in made.pods.values() if name_of(x) == name)
        pod["spec"]["nodeName"] = node
    for drill in report.drills.drills:
        assert replayed(made.snapshot(), drill.nodes, chance) == 0


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (CapacityState.RED, "no room for more VMs with 4 cores while the capacity is red"),
        (
            CapacityState.POSSIBLE,
            "no room for more VMs with 4 cores while the capacity is possible",
        ),
        (CapacityState.GREEN, "room for no more VM with 4 cores that is proven"),
    ],
)
def test_entries_have_the_state_and_say_why_there_is_no_room(
    state: CapacityState, text: str
) -> None:
    room = RoomForVms(VmSize(4, 1), 0, 0)
    report = CapacityReport(
        state, DrillReport("failure", (Drill(HOST, "n1", (), ForecastResult.POSSIBLE),)), room
    )
    made = capacity_info.entries(report, ["node", "zone"])["outcome"]
    assert [": ".join([x["text"], *x["objects"]]) for x in made["done"]] == [
        f"capacity if any one of these fails (node, zone): {state}",
        "not guaranteed: n1 (possible)",
        text,
    ]
    steps = [x["text"] for x in made["next"]]
    assert bool(steps) == (state is not CapacityState.GREEN)
    assert all("let them run on more nodes, add" in x and "option tolerate" in x for x in steps)
