# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forecasts say of rules for machines that run, and of rules that stand already."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import is_worse
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.forecast.unplaced import (
    pending_now,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    HOST,
    ZONE,
    affinity,
    apart,
    cluster,
    deployment,
    expression,
    keep_apart,
    machine,
    near,
    node_affinity,
    selector,
)
from tests.unit.planning import scenes
from tests.unit.planning.scenes import lost, names

# Rules for running machines.


def test_one_of_two_in_a_zone_moves() -> None:
    made = cluster("aabb")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert found.answer is ForecastResult.GUARANTEED, "both nodes of the other zone will do"
    assert len(found.moves) == 1
    assert set(found.moves[0].targets) <= {"n3", "n4"}


def test_one_move_is_no_certainty_where_some_node_would_not_do() -> None:
    """Nobody keeps web-b out of zone b yet, and there it would break the rule of db."""
    made = cluster("aabc")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]
    db = machine(made, "db", "n3", g="db")

    found = scenes.written(
        made,
        *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs),
        scenes.template_write(db, "affinity", keep_apart(g="web")),
    )

    assert (found.answer, len(found.moves)) == (ForecastResult.POSSIBLE, 1)


def test_move_is_only_possible_without_the_condition_live_migratable() -> None:
    made = cluster("ab")
    refs = [machine(made, name, "n1", g="web") for name in ("web-a", "web-b")]
    for vmi in made.machines.values():
        vmi["status"]["conditions"] = []

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert (found.answer, len(found.moves)) == (ForecastResult.POSSIBLE, 1)


def test_rule_that_all_vms_satisfy_causes_no_move() -> None:
    made = cluster("ab")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert (found.answer, found.moves, found.skipped) == (ForecastResult.GUARANTEED, (), ())


def test_cordon_causes_no_move() -> None:
    made = cluster("ab")
    ref = machine(made, "web-a", "n1", g="web")
    made.nodes["n1"]["spec"]["unschedulable"] = True

    found = scenes.written(made, scenes.template_write(ref, "affinity", keep_apart(g="web")))

    assert (found.answer, found.moves) == (ForecastResult.GUARANTEED, ())


def test_three_running_vms_apart_in_two_zones_are_impossible() -> None:
    made = cluster("aab")
    refs = [
        machine(made, name, node, g="web")
        for name, node in (("web-a", "n1"), ("web-b", "n2"), ("web-c", "n3"))
    ]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert "3 VMs (web-a, web-b, web-c) need 3 different zones" in found.reasons[0]


def test_terms_of_before_count_as_long_as_they_run() -> None:
    """Whoever has obeyed and stays keeps others away as before: nobody moves him."""
    made = cluster("aa")
    apart_before = {"affinity": keep_apart(over=HOST, g="web")}
    refs = [machine(made, name, "", apart_before, g="web") for name in ("web-a", "web-b")]
    made.start(refs[0], "n1")
    made.nodes["n2"]["status"]["allocatable"]["cpu"] = "0"

    found = scenes.written(made, *(scenes.template_write(ref, "affinity", {}) for ref in refs))

    assert (found.answer, names(found.pending)) == (ForecastResult.IMPOSSIBLE, ["web-b"])
    text = (
        "node(s) didn't satisfy existing pods anti-affinity rules (VM shop/web-a has anti-affinity to"
        " g In (web) over node)"
    )
    assert text in str(found.pending[0].reason)


def test_rule_is_possible_where_a_vm_drops_its_previous_terms_by_a_restart_in_place() -> None:
    made = cluster("ab")
    web = machine(made, "web-a", "n1", g="web")
    db = machine(made, "db-b", "n2", {"affinity": keep_apart(plain=True, g="web")})

    found = scenes.written(made, scenes.pinned(web, "b"), scenes.pinned(db, "b"))

    assert found.answer is ForecastResult.POSSIBLE


def test_rule_that_running_vms_do_not_have_yet_is_not_guaranteed() -> None:
    """The scheduler may start db-b beside web-a, whose new rule says otherwise; then web-a moves."""
    made = cluster("ab")
    web = machine(made, "web-a", "n1", g="web")
    db = machine(made, "db-b", "", g="db")

    found = scenes.written(
        made,
        scenes.template_write(web, "affinity", keep_apart(g="db")),
        scenes.template_write(db, "affinity", keep_apart(g="db")),
    )

    assert found.answer is ForecastResult.POSSIBLE
    assert found.reasons[0].startswith("not guaranteed: the scheduler may place other pods")


def test_affinity_of_the_first_pod_is_not_guaranteed_where_another_one_waits() -> None:
    """Any node satisfies the rule as long as the VM is the only pod that the rule selects."""
    made = cluster("ab")
    web = machine(made, "web", "n1", app="web")
    made.bare_pod("waits", "", app="web")
    write = scenes.template_write(web, "affinity", near(app="web"))

    alone = scenes.written(made, write)
    made.bare_pod("other", "n1", app="web")
    beside = scenes.written(made, write)

    assert (alone.answer, beside.answer) == (ForecastResult.POSSIBLE, ForecastResult.GUARANTEED)


def test_rule_without_mismatch_label_keys_names_vms_that_cannot_migrate() -> None:
    made = cluster("aabb")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n3"))]

    found = scenes.written(
        made,
        *(scenes.template_write(ref, "affinity", keep_apart(plain=True, g="web")) for ref in refs),
    )

    assert found.answer is ForecastResult.GUARANTEED
    assert names(found.not_migratable) == ["web-a", "web-b"]
    assert found.not_migratable[0].if_restarted


def test_affinity_to_pods_that_end_may_wait_five_minutes() -> None:
    """Seen with kube-scheduler 1.36: the last of them gone, nothing makes it look again at once."""
    made = cluster("aab")
    near = affinity({"labelSelector": selector(app="web"), "topologyKey": HOST})
    deployment(made, "web", ["n1", "n1"], near)

    found = lost(made, "n1")

    assert found.answer is ForecastResult.POSSIBLE
    assert "five minutes" in found.reasons[0]


# Rules that stand already.


def test_rule_that_two_pinned_vms_violate_is_impossible_before_and_after_the_write() -> None:
    made = cluster("aabbc")
    pinned = {"nodeSelector": {ZONE: "a"}}
    refs = [machine(made, name, "n1", pinned, g="web") for name in ("web-a", "web-b")]
    refs.append(machine(made, "web-c", "n3", g="web"))
    rule = [scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs]

    before, after = scenes.before_and_after(made, rule)

    assert before.answer is ForecastResult.IMPOSSIBLE
    assert (
        "(web-a, web-b) need 2 different zones (anti-affinity), and only 1 (a) is feasible"
        in before.reasons[0]
    )
    assert after == before


def test_a_move_that_is_due_is_named_until_it_is_made() -> None:
    made = cluster("aabb")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]
    rule = [scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs]

    before, after = scenes.before_and_after(made, rule)

    assert (before.answer, len(before.moves)) == (ForecastResult.GUARANTEED, 1)
    assert after == before


def test_members_that_wait_by_their_rule_are_to_be_placed() -> None:
    """Five replicas over three zones: before they were asked for, and when two of them wait."""
    made = cluster("aabbc")
    web = deployment(
        made, "web", ["n1", "n3", "n5"], {"affinity": keep_apart(plain=True, app="web")}
    )
    made.workloads[web]["spec"]["replicas"] = 5
    for _pod in range(2):
        made.start(web)
    snapshot = made.snapshot()

    silent = forecast(what_if(snapshot))
    found = forecast(what_if(snapshot, members=[web]))
    of_scale = forecast(what_if(snapshot, scale=[Scale(web, 5)]))

    assert (silent.answer, silent.instances_to_schedule) == (ForecastResult.GUARANTEED, 0)
    assert (found.answer, found.instances_to_schedule, found.min_unschedulable) == (
        ForecastResult.IMPOSSIBLE,
        2,
        2,
    )
    assert len(found.pending) == 2
    assert "node(s) didn't match pod anti-affinity rules" in str(found.pending[0].reason)
    assert (of_scale.answer, of_scale.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 2)


def test_pods_that_are_pending_without_a_change_are_reported() -> None:
    made = cluster("ab")
    web = deployment(made, "web", ["n1"], {"nodeSelector": {ZONE: "z"}})
    made.start(web)
    made.start(web)

    (line,) = pending_now(made.snapshot(), Topology.of())

    assert line.startswith("2 are pending now, without any change: shop/web-1, ")
    assert "0/2 nodes are available: " in line


def test_impossible_rule_beside_an_impossible_one_is_worse_than_without_it() -> None:
    made = cluster("ab")
    stuck = machine(made, "stuck", "", {"nodeSelector": {ZONE: "z"}})
    web = machine(made, "web", "n1")
    before, with_impossible, with_possible = (
        forecast(what_if(made.snapshot(), writes=writes, members={stuck, web}))
        for writes in ([], [scenes.pinned(web, "z")], [scenes.pinned(web, "b")])
    )

    assert {x.answer for x in (before, with_impossible, with_possible)} == {
        ForecastResult.IMPOSSIBLE
    }
    assert is_worse(with_impossible, before)
    assert not is_worse(before, with_impossible)
    assert not is_worse(with_possible, before)


# What is certain, and why something is only possible.


def test_not_migratable_is_uncertain_where_the_scheduler_may_choose_another_node() -> None:
    """db-a and db-b share zone d, and one of them has to go to zone b or c. web is in zone a and may use
    zone b only where no db is."""
    made = cluster("abcd")
    within = node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "b")]})["affinity"]
    web = machine(made, "web", "n1", {"affinity": within}, g="web")
    outside = node_affinity({"matchExpressions": [expression(ZONE, "NotIn", "a")]})["affinity"]
    dbs = [machine(made, name, "n4", {"affinity": outside}, g="db") for name in ("db-a", "db-b")]

    found = scenes.written(
        made,
        scenes.template_write(web, "affinity", {**within, **keep_apart(g="db")}),
        *(scenes.template_write(ref, "affinity", {**outside, **keep_apart(g="db")}) for ref in dbs),
    )

    (move,) = found.moves
    assert set(move.targets) == {"n2", "n3"}
    assert move.targets[0] == "n2", "there web could not migrate"
    assert [(x.instance.name, x.certain) for x in found.not_migratable] == [("web", False)]


def test_not_migratable_is_certain_where_no_choice_helps() -> None:
    made = cluster("ab")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]

    found = scenes.written(
        made,
        *(scenes.template_write(ref, "affinity", keep_apart(plain=True, g="web")) for ref in refs),
    )

    assert [(x.instance.name, x.certain) for x in found.not_migratable] == [
        ("web-a", True),
        ("web-b", True),
    ]


def test_impossible_for_want_of_another_rule_names_the_rules_of_the_vm() -> None:
    """db is in zone a, and app follows it; then app is to run in zone b."""
    made = cluster("ab")
    machine(made, "db", "n1", tier="db")
    app = machine(made, "app", "n1")
    made.write(app, "with-db", (TermLocation.AFFINITY, apart(plain=True, tier="db")))
    in_b = expression(ZONE, "In", "b")
    made.write(app, "in-b", (TermLocation.NODE_EXPRESSION, in_b))

    found, _later = scenes.before_and_after(made, [], [app])

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert any("(its rules: default/in-b, default/with-db)" in reason for reason in found.reasons)


def test_possible_forecast_after_two_moves_has_the_nodes_as_reason() -> None:
    made = cluster("aabbcc")
    refs = [machine(made, name, "n1", g="web") for name in ("web-a", "web-b", "web-c")]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs)
    )

    assert (found.answer, len(found.moves)) == (ForecastResult.POSSIBLE, 2)
    assert found.reasons == (
        "not guaranteed: the scheduler may choose other nodes than the plan; the rollout then makes a new"
        " plan, which may have more moves",
    )


def test_vms_with_affinity_to_each_other_are_to_follow_one_of_them() -> None:
    made = cluster("ab")
    in_b = node_affinity({"matchExpressions": [expression(ZONE, "In", "b")]})["affinity"]
    near = affinity({"labelSelector": selector(g="x"), "topologyKey": HOST})["affinity"]
    refs = [machine(made, name, "n1", g="x") for name in "ab"]

    found = scenes.written(
        made, *(scenes.template_write(ref, "affinity", {**near, **in_b}) for ref in refs)
    )

    assert found.deadlock is not None
    assert (
        found.deadlock.remediation[0] == "let the VMs follow one of them: `with` of keep_together"
    )
    assert not any(
        "add a node" in text.lower() for text in (*found.reasons, *found.deadlock.remediation)
    )
    assert "block each other: each has affinity to the other. Let one follow" in found.reasons[1]


def test_possible_after_one_move_names_the_node_that_would_not_do() -> None:
    made = cluster("aabc")
    refs = [machine(made, name, node, g="web") for name, node in (("web-a", "n1"), ("web-b", "n2"))]
    db = machine(made, "db", "n3", g="db")

    found = scenes.written(
        made,
        *(scenes.template_write(ref, "affinity", keep_apart(g="web")) for ref in refs),
        scenes.template_write(db, "affinity", keep_apart(g="web")),
    )

    assert found.answer is ForecastResult.POSSIBLE
    assert found.reasons == (
        "not guaranteed: VirtualMachine shop/db violates a rule if VirtualMachine shop/web-a gets node n3",
    )


@pytest.mark.parametrize("alone", [True, False])
def test_possible_names_a_vm_of_another_rule_that_the_plan_leaves_behind(alone: bool) -> None:
    """The app follows db by a rule that is not written now, so no move of it is planned."""
    made = cluster("abb")
    db = machine(made, "db", "n1", g="db")
    near = affinity({"labelSelector": selector(g="db"), "topologyKey": HOST})
    machine(made, "app", "n1", near, g="app")
    refs = [db] if alone else [db, machine(made, "web", "n1", g="web")]
    in_b = node_affinity({"matchExpressions": [expression(ZONE, "In", "b")]})["affinity"]

    found = scenes.written(made, *(scenes.template_write(ref, "affinity", in_b) for ref in refs))

    assert (found.answer, len(found.moves)) == (ForecastResult.POSSIBLE, len(refs))
    assert found.reasons == (
        "not guaranteed: after the planned moves VirtualMachine shop/app violates a rule, and no planned move"
        " repairs that: run a rollout of shop afterwards",
    )


def test_possible_forecast_counts_unschedulable_pods_of_an_unfavorable_choice() -> None:
    """One pod may use both nodes that are left, the other only one; each has room for one."""
    made = cluster("abc", migrates=False)
    for node in ("n2", "n3"):
        made.nodes[node]["status"]["allocatable"]["cpu"] = "1"
    machine(made, "free", "n1")
    in_b = node_affinity({"matchExpressions": [expression(ZONE, "In", "a", "b")]})
    machine(made, "narrow", "n1", in_b)

    found = lost(made, "n1")

    assert found.answer is ForecastResult.POSSIBLE
    assert found.reasons == (
        "not guaranteed: 1 of 2 is unschedulable if the scheduler chooses unfavorable nodes (narrow)",
    )


def test_staged_change_does_not_make_a_rule_impossible() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    made.machines["db"]["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False"}]
    made.template(ref)["spec"]["domain"] = {"memory": {"guest": "1Gi"}}

    assert scenes.written(made, scenes.pinned(ref, "b")).answer is not ForecastResult.IMPOSSIBLE


def prefer(zone: str) -> dict[str, object]:
    term = {"weight": 5, "preference": {"matchExpressions": [expression(ZONE, "In", zone)]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def test_missed_preference_is_named_and_moves_nothing_without_its_scope() -> None:
    made = cluster("aabb")
    db = machine(made, "db", "n1", g="db")
    change = what_if(made.snapshot(), writes=[scenes.template_write(db, "affinity", prefer("b"))])

    found = forecast(change)

    assert (found.answer, found.moves) == (ForecastResult.GUARANTEED, ())
    (missed,) = found.preferences_not_met
    assert (missed.node, missed.better) == ("n1", ("n3", "n4"))
    assert str(missed) == (
        f"not met: preferred node affinity {ZONE} In (b);"
        " scope preference_not_met moves it (better: n3, n4)"
    )


def test_moves_of_the_scope_are_among_those_of_the_forecast() -> None:
    made = cluster("aabb")
    db = machine(made, "db", "n1", g="db")
    change = what_if(made.snapshot(), writes=[scenes.template_write(db, "affinity", prefer("b"))])

    found = forecast(change, scope="preference_not_met")

    assert [move.targets for move in found.moves] == [("n3", "n4")]
    assert (found.optional_moves, found.preferences_not_met) == (1, ())
    assert found.answer is ForecastResult.GUARANTEED


def test_vm_that_only_the_scope_would_move_is_not_impossible() -> None:
    """A VM that cannot be moved and misses a preference violates nothing."""
    made = cluster("ab")
    db = machine(made, "db", "n1", g="db")
    made.workloads[db]["metadata"]["labels"] = {"placement.virt/do-not-move": "true"}
    change = what_if(made.snapshot(), writes=[scenes.template_write(db, "affinity", prefer("b"))])

    found = forecast(change, scope="preference_not_met")

    assert (found.answer, found.skipped) == (ForecastResult.GUARANTEED, ())
    assert [missed.node for missed in found.preferences_not_met] == ["n1"]


def test_pair_that_keeps_itself_on_a_drained_node_is_named_with_its_term() -> None:
    made = cluster("ab")
    for name, other in (("one", "two"), ("two", "one")):
        machine(made, name, "n1", {"affinity": near(HOST, app=other)}, app=name)

    found = lost(made, "n1")

    assert found.answer is ForecastResult.IMPOSSIBLE
    text = " ".join(found.reasons)
    assert "one" in text and "two" in text
    assert "node(s) didn't match pod affinity rules (app In (two) over node)" in text
