# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drills: what each single loss comes to, sorted, and the same as a forecast made anew."""

from __future__ import annotations

import random
import re
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.drill_info import drills_as_json
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.decide import (
    NOT_ALL_TRIED,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import (
    Drill,
    DrillReport,
    drill,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill_table import (
    table,
    totals,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import (
    NODE_EVENTS,
    NodeEvent,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    affinity,
    apart,
    cluster,
    deployment,
    expression,
    keep_apart,
    machine,
    node_affinity,
    selector,
    spread,
)


def test_zone_with_the_most_impact_comes_first() -> None:
    made = cluster("aabbcc")
    for name, node in (("web-a", "n1"), ("web-b", "n3"), ("web-c", "n5")):
        machine(made, name, node, {"affinity": keep_apart(g="web")}, g="web")
    machine(made, "loose-a", "n1")
    made.bare_pod("lonely", "n2")

    found = drill(made.snapshot(), [ZONE, HOST], event="failure").drills

    assert (found[0].key, found[0].domain, found[0].min_down) == (ZONE, "a", 2)
    assert [ref.name for ref in found[0].pending] == ["web-a"]
    assert [ref.name for ref in found[0].not_recreated] == ["lonely"]
    assert len(found) == 9
    text = table(DrillReport("failure", found), Topology.of()).splitlines()
    assert text[0] == (
        "N+1: no for 1 of 6 nodes; without node n2: lonely is not recreated: no controller recreates this pod"
    )
    assert re.split(r"  +", text[1]) == [
        "FAILURE",
        "INSTANCES",
        "ALL SCHEDULABLE",
        "DOWN UNTIL FENCED",
        "DOWN AFTER FENCING",
        "REASON",
    ]
    assert re.split(r"  +", text[2])[:5] == ["zone a", "2", "impossible", "2", "2"]
    assert "unschedulable if zone a fails: VirtualMachineInstance shop/web-a" in text
    assert "not recreated if node n2 fails: Pod shop/lonely" in text
    assert text[-2:] == [
        "5 of 9 failures: no impact after fencing, not listed above",
        "down until fenced: up to 2 VMs, if zone a fails",
    ]


def test_n_plus_1_says_what_is_left_or_what_lacks() -> None:
    made = cluster("abc", migrates=False)
    for node in made.nodes.values():
        node["status"]["allocatable"] |= {"memory": "16Gi"}
    machine(made, "db", "n1")
    for pod in made.pods.values():
        pod["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"memory": "12Gi"}}}]

    report = drill(made.snapshot(), [HOST], event="failure")

    line = table(report, Topology.of()).splitlines()[0]
    assert line.startswith(
        "N+1: yes, any one of 3 nodes may fail; least room is left without node n1: 20.0 GiB"
    )

    for name in ("n2", "n3"):
        made.nodes[name]["status"]["allocatable"]["memory"] = "8Gi"

    report = drill(made.snapshot(), [HOST], event="failure")

    assert table(report, Topology.of()).splitlines()[0] == (
        "N+1: no for 1 of 3 nodes; without node n1: node n2 lacks 4.0 GiB memory for db"
    )


def test_n_plus_1_is_not_certain_while_a_node_with_vms_is_down() -> None:
    made = cluster("abc", migrates=False)
    machine(made, "db", "n1")
    machine(made, "web", "n2")
    keys = ({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},)
    made.nodes["n1"]["spec"]["taints"] = list(keys)

    line = table(drill(made.snapshot(), [HOST], event="failure"), Topology.of()).splitlines()[0]

    assert line == (
        "N+1: not certain: n1 is not ready already, and instances there need nodes beside those of another failure. The"
        " playbook capacity counts them"
    )


def test_every_domain_is_in_the_result_with_an_impact_or_without() -> None:
    made = cluster("abcd")
    for name, node in (("web-a", "n1"), ("web-b", "n2"), ("web-c", "n3"), ("loose", "n4")):
        pinned = {} if name == "loose" else {"nodeSelector": {HOST: node}}
        machine(made, name, node, pinned)

    result = drills_as_json(drill(made.snapshot(), [HOST], event="failure"), Topology.of())

    assert result["event"] == "failure"
    assert sorted(domain["domain"] for domain in result["domains"]) == ["n1", "n2", "n3"]
    assert result["without_impact"] == [
        {
            "topology_key": HOST,
            "domain": "n4",
            "nodes": ["n4"],
            "instances_to_schedule": 1,
            "down_until_fenced": 1,
        }
    ]
    assert result["counts"] == {"domains": 4, "impact": 3}


def test_drain_with_more_vms_that_cannot_migrate_comes_first() -> None:
    made = cluster("abc")
    for name, node in (("web-a", "n1"), ("web-b", "n2"), ("web-c", "n2")):
        machine(made, name, node, {"nodeSelector": {HOST: node}})

    found = drill(made.snapshot(), [HOST], event="drain").drills

    assert [(x.domain, len(x.not_migratable)) for x in found] == [("n2", 2), ("n1", 1), ("n3", 0)]


def test_pod_finds_a_node_that_a_migration_in_flight_leaves() -> None:
    made = cluster("abc", migrates=False)
    machine(made, "web", "n1", {"nodeSelector": {HOST: "n2"}})
    machine(made, "db", "n2")
    made.launcher("db", "")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "1"

    found = drill(made.snapshot(), [HOST], event="drain").drills

    assert {x.domain: x.answer for x in found}["n1"] is ForecastResult.GUARANTEED


def test_drill_without_impact_has_one_line() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")

    report = drill(made.snapshot(), [HOST], event="drain")

    assert table(report, Topology.of()) == "2 of 2 drains: no impact"


@pytest.mark.parametrize(
    ("zones", "summary"),
    [
        ("ab", "2 drains: instances are down or not migratable"),
        ("abc", "1 of 3 drains: no impact, not listed above"),
    ],
)
def test_drains_with_an_impact_are_summed_up_only_where_all_have_one(
    zones: str, summary: str
) -> None:
    made = cluster(zones)
    for name, node in (("web-a", "n1"), ("web-b", "n2")):
        machine(made, name, node, {"nodeSelector": {HOST: node}})

    lines = table(drill(made.snapshot(), [HOST], event="drain"), Topology.of()).splitlines()

    assert [line for line in lines if "drains" in line] == [summary]


def test_rows_that_are_not_shown_are_no_impact_where_only_the_guarantee_lacks() -> None:
    ref = Ref("VirtualMachine", "shop", "db")
    certain = Drill(HOST, "n0", ("n0",), ForecastResult.IMPOSSIBLE, pending=(ref,))
    certain = replace(certain, min_unschedulable=1)
    maybe = replace(certain, answer=ForecastResult.POSSIBLE, pending=(), min_unschedulable=0)

    def more(*drills: Drill) -> str:
        lines = table(DrillReport("failure", drills), Topology.of()).splitlines()
        return next(line for line in lines if line.startswith("and "))

    assert more(*[certain] * 22) == "and 2 more with an impact"
    assert more(*[certain] * 20, *[maybe] * 3) == "and 3 more that are not guaranteed"
    assert more(*[certain] * 21, maybe) == "and 1 more with an impact, 1 that is not guaranteed"


def test_drill_with_a_gap_has_no_failures() -> None:
    gap = Unreadable("pods", "", "list", "forbidden")

    found = drill(cluster("ab").snapshot(unreadable=(gap,)), [HOST], event="drain")

    assert (found.drills, found.unreadable) == ((), (gap,))


def test_spread_that_honours_taints_is_drilled_like_the_rest() -> None:
    made = cluster("abc")
    rule = {**spread(ZONE, app="web")["topologySpreadConstraints"][0], "nodeTaintsPolicy": "Honor"}
    deployment(made, "web", ["n1", "n2", "n3"], {"topologySpreadConstraints": [rule]})

    found = drill(made.snapshot(), [ZONE], event="drain").drills

    assert {each.answer for each in found} == {ForecastResult.GUARANTEED}


def three_zones_with_a_vm_each() -> tuple[Cluster, list[Ref]]:
    """Three VMs that a rule keeps apart by zone."""
    made, vms = cluster("aabbcc"), []
    for name, node in (("web-a", "n1"), ("web-b", "n3"), ("web-c", "n5")):
        ref = machine(made, name, "", g="web")
        made.write(ref, "apart", (TermLocation.ANTI_AFFINITY, apart(g="web")))
        made.workloads[ref]["spec"]["runStrategy"] = "Always"
        made.start(ref, node)
        vms.append(ref)
    return made, vms


def test_rule_that_is_preferred_now_blocks_nothing_and_is_not_named() -> None:
    """The pods were scheduled when it was required, so they still repel each other."""
    made, vms = three_zones_with_a_vm_each()
    weighted = {"weight": 1, "podAffinityTerm": apart(g="web")}
    for ref in vms:
        made.write(ref, "apart", (TermLocation.PREFERRED_ANTI_AFFINITY, weighted))

    found = drill(made.snapshot(), [ZONE], event="failure").drills[0]

    (blocked,) = found.blocked
    assert blocked.pod is not None
    assert (blocked.filter, blocked.rules) == ("InterPodAffinity", ())


def test_blocked_instance_names_the_pod_and_the_rule_that_block_it() -> None:
    made, _vms = three_zones_with_a_vm_each()

    found = drill(made.snapshot(), [ZONE], event="failure").drills[0]

    (blocked,) = found.blocked
    assert (found.domain, blocked.instance.name, blocked.filter) == (
        "a",
        "web-a",
        "InterPodAffinity",
    )
    assert blocked.pod is not None
    assert (blocked.pod.kind, blocked.pod.namespace) == ("Pod", "shop")
    assert blocked.pod.name.startswith(("virt-launcher-web-b", "virt-launcher-web-c"))
    assert blocked.rules == ("shop/default/apart",)
    assert "web-a is blocked by VM shop/web-c and 1 other (rule shop/default/apart)" in table(
        DrillReport("failure", (found,)), Topology.of()
    )


def test_every_rule_that_blocks_an_instance_is_named() -> None:
    """The last node of its zone has the database, which another rule keeps away from it."""
    made, _vms = three_zones_with_a_vm_each()
    database = machine(made, "db", "", g="db")
    made.write(database, "alone", (TermLocation.ANTI_AFFINITY, apart(HOST, g="web")))
    made.workloads[database]["spec"]["runStrategy"] = "Always"
    made.start(database, "n2")

    lost = drill(made.snapshot(), [HOST], event="failure").drills[0]

    (blocked,) = lost.blocked
    assert (lost.domain, blocked.instance.name, blocked.others) == ("n1", "web-a", 2)
    assert blocked.rules == ("shop/default/apart", "shop/default/alone")


def test_terminating_pod_of_a_failed_node_keeps_its_replacement_out_of_its_zone() -> None:
    made = cluster("aabb")
    deployment(made, "web", ["n1", "n3"], {"affinity": keep_apart(plain=True, app="web")})

    node = drill(made.snapshot(), [HOST], event="failure").drills[0]

    (blocked,) = node.blocked
    assert (node.domain, blocked.own) == ("n1", True)
    assert "is blocked by its own pod shop/web-" in blocked.message
    assert blocked.message.endswith("which counts until it is deleted")


def test_drill_names_the_vms_that_are_down_until_their_node_is_fenced() -> None:
    made = cluster("aabb")
    for name, node in (("web-a", "n1"), ("web-b", "n3")):
        spec = {"affinity": keep_apart(plain=True, g="web")}
        machine(made, name, node, spec, g="web")

    report = drill(made.snapshot(), [HOST], event="failure")

    by_node = {x.domain: [ref.name for ref in x.down_until_fenced] for x in report.drills}
    assert by_node == {"n1": ["web-a"], "n2": [], "n3": ["web-b"], "n4": []}
    text = table(report, Topology.of())
    assert text.startswith("N+1: yes, any one of 4 nodes may fail; ")
    assert text.partition("\n")[2] == (
        "4 of 4 failures: no impact after fencing\ndown until fenced: up to 1 VM, if node n1 fails"
    )


@pytest.mark.parametrize("grace", [30, 315360000])
@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_launcher_pod_that_terminates_is_gone_once_its_failed_node_is_fenced(
    grace: int, ready: str
) -> None:
    made = cluster("aa")
    machine(made, "gone", "n1", g="web")
    machine(made, "web", "n1", {"affinity": keep_apart(plain=True, g="web")}, g="web")
    made.nodes["n1"]["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    pod = next(pod for (_namespace, name), pod in made.pods.items() if "gone" in name)
    ended = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
    pod["metadata"] |= ended
    made.machines["gone"]["metadata"] |= ended

    drills = drill(made.snapshot(), [HOST], event="failure").drills

    answers = {each.domain: (each.answer.value, each.pending) for each in drills}
    assert answers["n1"] == ("guaranteed", ())


def test_a_spread_and_a_node_filter_block_without_a_pod() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}))
    found = drill(made.snapshot(), [ZONE], event="drain").drills[0]
    (blocked,) = found.blocked
    assert (blocked.instance.name, blocked.filter, blocked.pod) == ("db", "NodeAffinity", None)
    text = "db: node(s) didn't match Pod's node affinity/selector (topology.kubernetes.io/zone=a)"
    assert blocked.message == text


def test_vm_that_cannot_be_evicted_is_blocked_by_eviction() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["status"]["conditions"] = [
        {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    ]
    found = drill(made.snapshot(), [HOST], event="drain").drills[0]
    assert [(each.instance.name, each.filter) for each in found.blocked] == [("db", "Eviction")]


def test_drill_table_with_a_gap_is_unknown() -> None:
    gap = Unreadable("pods", "", "list", "forbidden")

    text = table(DrillReport("drain", unreadable=(gap,)), Topology.of())

    assert text == f"unknown: {gap}"


@pytest.mark.parametrize("known", [True, False])
def test_failure_with_a_possible_forecast_has_its_reason(known: bool) -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["status"]["conditions"] = (
        [{"type": "LiveMigratable", "status": "True"}] if known else []
    )

    lost = next(
        x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.instances_to_schedule
    )

    assert lost.answer is (ForecastResult.GUARANTEED if known else ForecastResult.POSSIBLE)
    assert lost.reasons == (
        ()
        if known
        else ("not guaranteed: KubeVirt has not reported whether these can be live-migrated: db",)
    )


def test_failure_with_an_incomplete_search_reports_that() -> None:
    """Eight pairs that keep apart, just enough room, and more choices than anybody can look at."""
    made = cluster("abcdefghi")
    for name in list(made.nodes)[1:]:
        made.nodes[name]["status"]["allocatable"]["cpu"] = "2"
    for number in range(16):
        group = f"g{number % 8}"
        machine(made, f"vm{number}", "n1", {"affinity": keep_apart(over=HOST, g=group)}, g=group)

    lost = next(
        x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.instances_to_schedule
    )

    assert (lost.answer, lost.at_risk, lost.blocked) == (ForecastResult.POSSIBLE, (), ())
    summary = table(DrillReport("drain", (lost,)), Topology.of()).splitlines()[-1]
    assert summary == "1 drain: no impact expected, but not guaranteed"
    fenced = replace(lost, down_until_fenced=(Ref("VirtualMachine", "shop", "vm0"),))
    assert table(DrillReport("failure", (fenced,)), Topology.of()).splitlines()[-2:] == [
        "1 failure: no impact expected after fencing, but not guaranteed",
        f"down until fenced: up to 1 VM, if node {lost.domain} fails",
    ]
    assert lost.reasons == (f"not guaranteed: {NOT_ALL_TRIED}",)
    assert NOT_ALL_TRIED in table(DrillReport("drain", (lost,)), Topology.of())
    lost_alone = what_if(made.snapshot(), lost_nodes=["n1"], event="drain")
    assert forecast(lost_alone).reasons == (f"not guaranteed: {NOT_ALL_TRIED}",)


def test_pod_with_affinity_to_a_pod_that_ends_is_named() -> None:
    made = cluster("abb")
    near = {"labelSelector": selector(app="web"), "topologyKey": HOST}
    deployment(made, "web", ["n1"], {})
    deployment(made, "app", ["n1"], affinity(near))

    lost = drill(made.snapshot(), [HOST], event="drain").drills[0]

    assert (lost.domain, lost.answer) == ("n1", ForecastResult.POSSIBLE)
    assert lost.reasons[0].startswith(
        "not guaranteed: app-1 has affinity to pods that are recreated at"
    )


def random_cluster(seed: int) -> Cluster:
    chance = random.Random(seed)
    made = cluster("".join(chance.choice("abc") for _node in range(chance.randint(3, 5))))
    nodes = list(made.nodes)
    for node in nodes:
        made.nodes[node]["status"]["allocatable"]["cpu"] = chance.choice(["2", "3", "16"])
    for number in range(chance.randint(2, 5)):
        spec: t.Any = chance.choice(
            [
                {},
                {"affinity": keep_apart(plain=chance.random() < 0.3, g="web")},
                {"affinity": keep_apart(over=HOST, plain=chance.random() < 0.3, g="web")},
            ]
        )
        machine(made, f"vm{number}", chance.choice(nodes), spec, g="web")
    honour = chance.choice(["Honor", "Ignore"])
    rule = {**spread(ZONE, app="app")["topologySpreadConstraints"][0], "nodeTaintsPolicy": honour}
    places = [chance.choice(nodes) for _node in range(chance.randint(1, 3))]
    deployment(made, "app", places, {"topologySpreadConstraints": [rule]})
    return made


def end_some(made: Cluster, seed: int) -> None:
    """Some pods terminate, a few of them for years, as do the VMIs of some; and a node may be down."""
    chance = random.Random(seed)
    if chance.random() < 0.3:
        node = made.nodes[chance.choice(list(made.nodes))]
        node["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    for pod in made.pods.values():
        if chance.random() < 0.4:
            ended = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
            pod["metadata"] |= ended
            pod["metadata"]["deletionGracePeriodSeconds"] = chance.choice([30, 315360000])
            vmi = pod["metadata"]["labels"].get("vm.kubevirt.io/name", "")
            left = chance.choice(["stays", "ends", "gone"])
            if vmi and left == "ends":
                made.machines[vmi]["metadata"] |= ended
            elif vmi and left == "gone":
                del made.machines[vmi]


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("event", NODE_EVENTS)
@pytest.mark.parametrize("seed", range(25))
def test_drill_has_the_result_of_the_forecast_of_the_same_failure(
    seed: int, event: NodeEvent, ending: bool
) -> None:
    made = random_cluster(seed)
    if ending:
        end_some(made, seed)
    snapshot = made.snapshot()

    for each in drill(snapshot, [ZONE, HOST], event=event).drills:
        found = forecast(what_if(snapshot, lost_nodes=each.nodes, event=event))
        assert each.answer is found.answer, (each, found)
        assert not each.has_impact or each.blocked or each.reasons, each
        assert each.min_down == found.min_unschedulable, (each, found)
        if found.answer is ForecastResult.IMPOSSIBLE:
            without = len(found.pending) + len(found.not_migratable)
            assert len(each.pending) + len(each.not_migratable) == without, (each, found)


def test_drill_names_the_instance_at_risk() -> None:
    """One VM may use both nodes that are left, the other only one of them; each has room for one."""
    made = cluster("abc", migrates=False)
    for node in ("n2", "n3"):
        made.nodes[node]["status"]["allocatable"]["cpu"] = "1"
    machine(made, "free", "n1")
    pinned = node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "b")]})
    machine(made, "pinned", "n1", pinned)

    found = next(
        x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.instances_to_schedule
    )

    assert found.answer is ForecastResult.POSSIBLE
    assert [ref.name for ref in found.at_risk] == ["pinned"]
    assert (found.pending, found.not_migratable, found.min_down) == ((), (), 0)
    assert [blocked.instance.name for blocked in found.blocked] == ["pinned"]


def test_drill_counts_the_nodes_that_each_filter_refuses() -> None:
    made = cluster("abc")
    machine(made, "db", "n1", node_affinity({"matchExpressions": [expression(ZONE, "In", "a")]}))

    found = next(
        x for x in drill(made.snapshot(), [HOST], event="drain").drills if x.instances_to_schedule
    )

    assert found.reasons == (
        "VM db: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector"
        " (topology.kubernetes.io/zone=a)",
    )


def test_totals_call_a_drill_unknown_that_is() -> None:
    drills = [
        Drill(HOST, "n1", ("n1",), ForecastResult.UNKNOWN, instances_to_schedule=1),
        Drill(HOST, "n2", ("n2",), ForecastResult.POSSIBLE, instances_to_schedule=1),
    ]
    lines = list(totals(DrillReport("failure", tuple(drills)), drills, Topology.of()))
    assert lines == [
        "1 failure: no impact expected, but not guaranteed",
        "1 failure: unknown, no choice of nodes was found",
    ]
