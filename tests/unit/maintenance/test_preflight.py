# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands against a maintenance, check by check: object, constraint, what to do."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import (
    Forecast,
    UnschedulableInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.disruption import Delegation
from ansible_collections.virt.placement.plugins.module_utils.maintenance.budget_findings import (
    WOULD_EVICT,
    EvictionAnswer,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.places import (
    place_findings,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight import (
    Automation,
    PreflightInput,
    preflight,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight_findings import (
    CONFIG_POOL_UPDATING,
    HEALTH_CHECK,
    PREFLIGHT_FINDINGS,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.refusals import (
    refusal,
    refusing,
    warning_lines,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.vm_ways import VM_POLICY
from ansible_collections.virt.placement.plugins.module_utils.model.admission import (
    limit_range_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.budget import DisruptionBudget
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Ref,
    Requirement,
    Selector,
    Taint,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    PENDING_CHANGES,
    Obstacle,
)
from ansible_collections.virt.placement.plugins.module_utils.model.quota import Quota
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Unreadable,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import (
    Cluster,
    cluster,
    deployment,
    keep_apart,
    machine,
    near,
    replica_set,
)
from tests.unit.maintenance.test_options import options

JSON = t.Any
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KIND = "VirtualMachineInstance"
APP_WEB = Selector((Requirement("app", "In", ("web",)),))
ALSO_CPU = Obstacle(PENDING_CHANGES, "also cpu")


def view(made: Cluster, *nodes: str, policy: str = "migrate", **changes: t.Any) -> DrainView:
    """A drain of a cluster whose pods are Ready."""
    snapshot = made.snapshot(**changes)
    snapshot = replace(snapshot, pods=tuple(replace(pod, ready=True) for pod in snapshot.pods))
    return DrainView(snapshot, frozenset(nodes or ("n1",)), tuple(policy.split()))


def check(made: Cluster, *nodes: str, **given: t.Any) -> dict[str, Finding]:
    """The findings about these nodes by name, the first of each; n1 if none is named."""
    policy = given.pop("vm_policy", "migrate")
    drain = view(made, *nodes, policy=policy, budgets=given.pop("budgets", ()))
    drain = replace(drain, delegation=given.pop("delegation", Delegation.known()))
    findings = preflight(PreflightInput(drain, **given))
    assert {finding.name for finding in findings} <= PREFLIGHT_FINDINGS
    return {finding.name: finding for finding in reversed(findings)}


def errors(made: Cluster, *nodes: str, **given: t.Any) -> list[str]:
    return [name for name, x in check(made, *nodes, **given).items() if x.severity == "error"]


def test_preflight_knows_what_a_limit_range_and_an_unreadable_limit_do_to_the_next_pods() -> None:
    """What the forecast of the same drain says."""
    made = cluster("ab")
    deployment(made, "web", ["n1"], {"containers": [{"name": "a"}]})
    metadata = {"namespace": "shop", "name": "limits"}
    spec = {"limits": [{"type": "Container", "min": {"cpu": "2"}}]}
    newer = limit_range_from_manifest({"metadata": metadata, "spec": spec})
    found = preflight(PreflightInput(view(made, limit_ranges=(newer,))))
    (place,) = [x for x in found if x.name == "place_unknown"]
    assert (place.severity, place.codes) == ("info", ("admission_unknown",))
    assert (
        "LimitRange shop/limits may change or refuse the next pod of Deployment shop/web"
        in place.why
    )
    found = preflight(PreflightInput(view(made, limit_ranges=None)))
    (place,) = [x for x in found if x.name == "place_unknown"]
    assert (place.severity, place.codes) == ("info", ("admission_unknown",))


def unmigratable(made: Cluster, *names: str) -> None:
    condition = {"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable"}
    for name in names:
        made.machines[name]["status"]["conditions"] = [condition]


def budget(name: str = "web", **changed: t.Any) -> DisruptionBudget:
    found = DisruptionBudget(Ref("PodDisruptionBudget", "shop", name), APP_WEB, 0, 2, 1, 2)
    return replace(found, **changed)


def owned_by(group: str) -> Cluster:
    """A cluster with a pod of a controller of this API group on n1."""
    made = cluster("ab")
    owner = {"apiVersion": f"{group}/v1", "kind": "Engine", "name": "a", "uid": "a"}
    pod = made.bare_pod("engine", "n1", app="web")
    pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def web(*nodes: str) -> Cluster:
    made = cluster("abc")
    deployment(made, "web", nodes or ("n1", "n2"), {})
    return made


def test_nothing_stands_against_a_node_that_empties() -> None:
    made = web()
    machine(made, "db", "n1")

    assert [name for name in check(made) if name != "last_node_of_domain"] == []


def test_errors_refuse_unless_they_are_allowed() -> None:
    made = cluster("ab")
    made.bare_pod("tool", "n1")
    findings = preflight(PreflightInput(view(made)))

    assert [finding.name for finding in refusing(findings, ())] == ["bare_pod"]
    assert refusing(findings, ("bare_pod",)) == ()


def test_refusal_names_each_finding_and_that_no_node_was_cordoned() -> None:
    made = cluster("ab")
    made.bare_pod("tool", "n1", {"volumes": [{"name": "data", "emptyDir": {}}]})
    first, last = refusal(refusing(preflight(PreflightInput(view(made))), ())).errors

    assert str(first).startswith("bare_pod: Pod shop/tool on node n1 is not evicted: ")
    assert str(last).startswith("local_data_lost: ")
    assert str(last).endswith(" No node was cordoned.")
    assert last.type == "finding"


# S10, S11, S15, S18, S22: places.


def test_ac_o6_two_vms_apart_on_two_nodes_have_no_place_and_vm_and_term_are_named() -> None:
    made = cluster("ab")
    for name, node in (("db1", "n1"), ("db2", "n2")):
        machine(made, name, node, {"affinity": keep_apart(over=HOST, app="db")}, app="db")
    finding = check(made)["no_place"]

    assert finding.severity == "error"
    assert [ref.name for ref in finding.objects] == ["db1"]
    assert finding.why.startswith("1 of 1 instances of node n1 would have no node: VM db1: ")
    assert "didn't match pod anti-affinity rules (app In (db) over node)" in finding.why
    assert finding.as_json()["codes"] == ["no_node"]
    made.node("n3")
    assert "no_place" not in check(made)


def test_vm_without_place_keeps_its_name_that_ends_like_that_of_a_next_pod() -> None:
    made = cluster("a")
    machine(made, "db-next", "n1")
    finding = check(made)["no_place"]
    assert [ref.name for ref in finding.objects] == ["db-next"]


def test_ac_o6_vms_that_need_each_other_have_no_place_and_vms_and_terms_are_named() -> None:
    made = cluster("ab")
    for name, other in (("a", "b"), ("b", "a")):
        machine(made, name, "n1", {"affinity": near(HOST, app=other)}, app=name)

    assert errors(made) == ["no_place"]
    finding = check(made)["no_place"]
    assert [ref.name for ref in finding.objects] == ["a", "b"]
    for name, other in (("a", "b"), ("b", "a")):
        reason = f"didn't match pod affinity rules (app In ({other}) over node)"
        assert reason in finding.why.partition(f" {name}: ")[2].partition(";")[0]


def test_ac_o6_every_vm_of_several_causes_is_named_with_its_term() -> None:
    """The proof is about the third VM alone."""
    made = cluster("aa")
    for name, other in (("a", "b"), ("b", "a")):
        machine(made, name, "n1", {"affinity": near(HOST, app=other)}, app=name)
    machine(made, "c", "n1", {"affinity": keep_apart(plain=True, app="c")}, app="c")
    finding = check(made)["no_place"]

    assert finding.why.startswith("3 of 3 instances of node n1 would have no node: VM c: ")
    assert "didn't match pod anti-affinity rules (app In (c) over zone)" in finding.why
    for name, other in (("a", "b"), ("b", "a")):
        reason = f"didn't match pod affinity rules (app In ({other}) over node)"
        assert reason in finding.why.partition(f" {name}: ")[2].partition(";")[0]


def test_reasons_are_added_for_those_that_the_proof_does_not_explain() -> None:
    """By the facts of the forecast: a name in the reason of another VM is no reason."""
    without = [
        UnschedulableInstance(
            Ref("VirtualMachine", "shop", name),
            None,
            Obstacle("no_node", f"why of {name}"),
            certain,
        )
        for name, certain in (("a", True), ("b", True), ("c", True), ("d", False), ("e", False))
    ]
    a, b, _c, d, _e = (x.instance for x in without)
    result = Forecast(
        ForecastResult.IMPOSSIBLE,
        ("VM a: VM shop/e has anti-affinity", "2 VMs (b, d) need more cpu"),
        tuple(without),
        explained=frozenset({a}),
        proven=frozenset({a, b, d}),
    )
    (finding,) = place_findings(view(cluster("ab")), result)
    why = "VM a: VM shop/e has anti-affinity; 2 VMs (b, d) need more cpu; b: why of b; c: why of c; e: why of e."
    assert finding.why.partition(" no node: ")[2] == why


def test_ac_o6_vm_that_the_term_of_another_keeps_away_is_named_with_that_vm_and_term() -> None:
    """The lab's end on two workers: the leader has no required term of its own."""
    made = cluster("ab")
    machine(made, "leader", "n1", app="fedora")
    machine(made, "follower", "n1", {"affinity": near(HOST, app="fedora")})
    machine(made, "loner", "n2", {"affinity": keep_apart(over=HOST, app="fedora")})
    finding = check(made)["no_place"]

    assert [ref.name for ref in finding.objects] == ["leader", "follower"]
    assert finding.why.startswith("2 of 2 instances of node n1 would have no node: VM leader: ")
    assert (
        "1 node(s) didn't satisfy existing pods anti-affinity rules (VM shop/loner has anti-affinity to"
        " app In (fedora) over node)"
    ) in finding.why


def test_ac_o6_rule_of_what_keeps_a_vm_away_is_named() -> None:
    """A VM, and a Deployment of another namespace."""
    made = cluster("abc")
    machine(made, "leader", "n1", app="fedora")
    term = keep_apart(over=HOST, plain=True, app="fedora")["podAntiAffinity"][REQUIRED][0]
    loner = machine(made, "loner", "")
    made.write(loner, "away", (TermLocation.ANTI_AFFINITY, term))
    made.start(loner, "n2")
    made.namespace("tools")
    template = {"metadata": {"labels": {"app": "probe"}}, "spec": {}}
    probe = made.workload("Deployment", "probe", {"template": template, "replicas": 1}, "tools")
    far = {**term, "namespaces": ["shop"]}
    made.write(probe, "far", (TermLocation.ANTI_AFFINITY, far))
    made.start(probe, "n3", "probe-1")
    why = check(made)["no_place"].why

    assert (
        "(VM shop/loner has anti-affinity to app In (fedora) over node by rule shop/default/away)"
        in why
    )
    assert (
        "(Pod tools/probe-1 has anti-affinity to app In (fedora) in shop over node by rule tools/default/far)"
        in why
    )


@pytest.mark.parametrize(("plain", "expected"), [(True, ["no_place"]), (False, [])])
def test_ac_o6_one_vm_a_zone_moves_in_its_zone_only_without_its_own_source(
    plain: bool, expected: list[str]
) -> None:
    made = cluster("aabbcc")
    for name, node in (("db1", "n1"), ("db2", "n3"), ("db3", "n5")):
        machine(made, name, node, {"affinity": keep_apart(plain=plain, app="db")}, app="db")

    assert errors(made) == expected
    if plain:
        why = check(made)["no_place"].why
        assert "VM db1: 0/6 nodes are available: 5 node(s) didn't match pod anti-affinity" in why
        assert "(app In (db) over zone)" in why


def test_two_in_one_zone_are_forecast() -> None:
    made = cluster("abc")
    replica_set(made, "mssql", ("n1", "n2", "n3"), {})
    finding = check(made)["shared_domain"]

    assert finding.severity == "warning"
    assert "mssql will have 2 in one zone (b or c), and has at most 1 of its 3" in finding.why


def test_vms_that_leave_as_their_policy_says_are_forecast_so() -> None:
    """A VM with eviction strategy None is migrated, not killed; a stopped VM needs no place."""
    made = cluster("ab", migrates=False)
    for name, node in (("db1", "n1"), ("db2", "n2")):
        machine(made, name, node, {"affinity": keep_apart(over=HOST, app="db")}, app="db")

    assert errors(made) == ["no_place"]
    assert errors(made, vm_policy="restart") == ["no_place"]
    assert errors(made, vm_policy="stop") == []


def test_restarted_manual_vm_needs_a_place() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1", {"nodeSelector": {HOST: "n1"}})
    made.workloads[ref]["spec"]["runStrategy"] = "Manual"

    assert errors(made, vm_policy="restart") == ["no_place"]


def test_place_that_is_not_guaranteed_is_said_with_its_reason() -> None:
    made = cluster("ab")
    template = {"metadata": {"labels": {"app": "web"}}}
    gated = {**template, "spec": {"schedulingGates": [{"name": "example.com/gate"}]}}
    made.start(made.workload("Deployment", "web", {"template": gated, "replicas": 1}), "n1")
    finding = check(made)["place_unknown"]
    assert (finding.severity, finding.why) == (
        "info",
        "All instances of node n1 can find a node (not guaranteed: web-0 has scheduling gates, and gets a node once"
        " they are removed).",
    )


def test_place_is_unknown_where_lists_are_missing() -> None:
    made = web()
    gap = Unreadable("namespaces", "", "list", "grant this identity the verb 'list'")
    findings = preflight(PreflightInput(view(made, unreadable=(gap,)), gaps=(gap,)))
    by_name = {finding.name: finding for finding in findings}

    assert by_name["place_unknown"].severity == "error"
    assert by_name["not_checked"].why == "Not checked: cannot list namespaces."


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("no_right", "Grant the missing rights."),
        ("not_read", "The reason names what to do."),
    ],
)
def test_right_is_asked_for_only_where_one_is_missing(code: str, advice: str) -> None:
    """By its code, whatever the sentence is."""
    gap = Unreadable("virtualmachinepools", "", "list", "some sentence", "", code)
    findings = preflight(PreflightInput(view(web(), unreadable=(gap,))))

    assert [x.advice for x in findings if x.name == "place_unknown"] == [advice]


# VMs.


def test_vm_that_cannot_be_migrated_is_named_with_its_eviction_strategy() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    unmigratable(made, "db")
    finding = check(made)["not_migratable"]

    assert errors(made) == ["not_migratable"]
    assert finding.objects == (Ref(KIND, "shop", "db"),)
    assert "DisksNotLiveMigratable" in finding.why
    assert "(its own eviction strategy, or else the cluster's, is LiveMigrate)" in finding.why
    made.machines["db"]["spec"]["evictionStrategy"] = "None"
    assert "cluster's, is None)" in check(made)["not_migratable"].why
    assert errors(made, vm_policy="restart") == []


def test_vm_without_a_target_pod_in_an_old_kubevirt_is_named_with_the_label_that_is_missing() -> (
    None
):
    made = cluster("ab")
    machine(made, "db", "n1", {"domain": {"cpu": {"model": "host-model"}}})
    assert errors(made) == []
    made.more["platform"] = Platform(kubernetes=(1, 31), kubevirt="v1.4.0")

    assert errors(made) == ["not_migratable"]
    assert "node n1 has no label host-model-cpu.node" in check(made)["not_migratable"].why
    assert errors(made, vm_policy="restart") == []


def test_vm_that_does_not_say_whether_it_migrates_is_a_warning() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["status"]["conditions"] = []

    assert check(made)["not_migratable"].severity == "warning"


def test_label_of_a_vm_goes_before_the_policy_of_the_task() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    labels = made.workloads[ref]["metadata"].setdefault("labels", {})
    labels[VM_POLICY] = "refuse"
    assert errors(made) == ["refused_by_policy"]
    labels[VM_POLICY] = "explode"
    assert "its vm_policy is 'explode'" in check(made)["invalid_policy"].why
    labels[VM_POLICY] = "migrate"
    assert errors(made, vm_policy="refuse") == []


def test_advice_names_the_label_alone_where_a_label_decides() -> None:
    strategy = "harvesterhci.io/maintain-mode-strategy"
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    made.workloads[ref]["spec"]["runStrategy"] = "Once"
    made.workloads[ref]["metadata"]["labels"] = {strategy: "ShutdownAndRestartAfterEnable"}

    finding = check(made)["not_restartable"]

    assert f"(its label {strategy} is ShutdownAndRestartAfterEnable)" in finding.why
    assert finding.advice == f"Set the label {VM_POLICY} to migrate or stop."
    made.workloads[ref]["metadata"]["labels"][VM_POLICY] = "stop"
    assert errors(made) == []


def test_advice_names_the_policies_that_are_possible_for_the_vm() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    unmigratable(made, "db")
    remove = f"Remove the obstacle, or set vm_policy or the label {VM_POLICY} to "
    assert check(made)["not_migratable"].advice == f"{remove}restart, stop_and_start or stop."
    made.workloads[ref]["spec"]["runStrategy"] = "Once"
    assert check(made)["not_migratable"].advice == f"{remove}stop."
    budgets = (budget(healthy=1, desired=1, expected=1),)
    machine(made, "till", "n1", app="web")
    unmigratable(made, "till")
    found = preflight(PreflightInput(view(made, budgets=budgets)))
    (till,) = [x for x in found if x.name == "not_migratable" and "till" in x.why]
    assert till.advice == "Remove the obstacle, or end it by hand for the maintenance."


def test_vm_that_may_run_on_its_node_alone_is_not_told_to_restart() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"nodeSelector": {HOST: "n1"}})
    unmigratable(made, "db")
    assert check(made)["not_migratable"].advice.endswith(" to stop_and_start or stop.")


def test_vm_that_is_not_restarted_is_an_error_under_restart() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1")
    made.workloads[ref]["spec"]["runStrategy"] = "Once"

    assert errors(made, vm_policy="restart") == ["not_restartable"]
    finding = check(made, vm_policy="restart")["not_restartable"]
    assert "a VM with run strategy Once is not restarted" in finding.why
    assert errors(made, vm_policy="stop") == []


def test_restart_that_would_apply_other_changes_is_an_error() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    asked = PreflightInput(
        replace(
            view(made, policy="restart"),
            why_no_restart=lambda *_: ALSO_CPU,
        )
    )
    (finding,) = [x for x in preflight(asked) if x.severity == "error"]
    assert (finding.name, "also cpu" in finding.why) == ("pending_changes", True)
    allowed = replace(asked, view=replace(asked.view, allowed=frozenset({"pending_changes"})))
    assert [x.name for x in preflight(allowed) if x.severity == "error"] == ["pending_changes"]
    assert refusing(preflight(allowed), allowed.view.allowed) == ()


def with_allowed(made: Cluster, name: str, **given: t.Any) -> list[str]:
    """The errors of a drain that allows one finding, without that finding."""
    policy, budgets = given.pop("vm_policy", "migrate"), given.pop("budgets", ())
    drained = view(made, policy=policy, budgets=budgets)
    allowed = frozenset({name})
    drained = replace(
        drained,
        allowed=allowed,
        why_no_restart=lambda *_: ALSO_CPU,
    )
    findings = preflight(PreflightInput(drained, **given))
    assert name in {finding.name for finding in findings}
    return [finding.name for finding in refusing(findings, allowed)]


def test_what_an_allowed_finding_lets_leave_is_checked_like_the_rest() -> None:
    """Else the drain begins, and never ends."""
    made = cluster("ab")
    deployment(made, "web", ("n1",), {"volumes": [{"name": "cache", "emptyDir": {}}]})
    assert with_allowed(made, "local_data_lost") == []
    assert with_allowed(made, "local_data_lost", budgets=(budget(desired=2),)) == ["pdb_impossible"]

    made = cluster("ab")
    machine(made, "db", "n1", {"nodeSelector": {HOST: "n1"}})
    assert with_allowed(made, "pending_changes", vm_policy="restart") == ["no_place"]


def test_vmi_without_a_controller_that_is_allowed_has_to_be_migratable() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["metadata"].pop("ownerReferences", None)
    assert with_allowed(made, "standalone_vmi") == []
    unmigratable(made, "db")
    assert with_allowed(made, "standalone_vmi") == ["not_migratable"]


def test_instance_of_a_replica_set_with_other_staged_changes_is_not_recreated() -> None:
    made = cluster("ab")
    ref = replica_set(made, "mssql", ("n1",), {})
    made.template(ref)["spec"]["domain"] = {"memory": {"guest": "8Gi"}}
    assert errors(made, vm_policy="restart") == ["pending_changes"]


def test_node_that_is_not_ready_is_an_error() -> None:
    made = web()
    snapshot = made.snapshot()
    nodes = tuple(replace(x, ready=x.name != "n1") for x in snapshot.nodes)
    asked = PreflightInput(
        DrainView(replace(snapshot, nodes=nodes), frozenset({"n1"}), ("migrate",))
    )
    (finding,) = [x for x in preflight(asked) if x.name == "node_not_ready"]
    assert finding.severity == "error"
    assert finding.why.startswith("Node n1 is not Ready: ")


def test_node_of_another_zone_that_is_not_ready_is_a_warning() -> None:
    snapshot = cluster("aab").snapshot()
    nodes = tuple(replace(x, ready=x.name == "n2") for x in snapshot.nodes)

    def findings(node: str) -> list[Finding]:
        asked = DrainView(replace(snapshot, nodes=nodes), frozenset({node}), ("migrate",))
        return [x for x in preflight(PreflightInput(asked)) if x.name == "other_zone_not_ready"]

    (finding,) = findings("n2")
    assert (finding.severity, finding.objects) == ("warning", (Ref("Node", "", "n3"),))
    assert finding.why.startswith("Nodes of other zones are not Ready: n3 (b). With node n2, ")
    assert [x.objects for x in findings("n3")] == [(Ref("Node", "", "n1"),)]


def test_instance_of_a_replica_set_is_recreated_and_not_stopped() -> None:
    made = cluster("ab")
    replica_set(made, "mssql", ("n1",), {})

    assert errors(made, vm_policy="restart") == []
    assert errors(made, vm_policy="stop") == ["not_restartable"]


def test_quota_without_room_for_a_second_launcher() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.more["quotas"] = (Quota("shop", "small", {"pods": 1}, {"pods": 1}),)

    assert errors(made) == ["no_place"]
    finding = check(made)["no_place"]
    assert finding.why == (
        "1 of 1 instances of node n1 would have no node: VirtualMachineInstance shop/db: its live migration needs a"
        " second pod, and ResourceQuota shop/small allows 1 pods, and 2 are needed."
    )
    assert finding.advice.startswith(
        "Raise the ResourceQuota that is named, or end pods of its namespace: for that no other node helps. Or let db"
    )
    assert errors(made, vm_policy="restart") == []


def test_pod_that_a_quota_refuses_is_named_by_its_workload() -> None:
    made = cluster("ab")
    deployment(made, "web", ("n1", "n1"), {"containers": [{"name": "main"}]})
    made.more["quotas"] = (Quota("shop", "small", {"limits.cpu": 1000}, {"limits.cpu": 0}),)

    finding = check(made)["no_place"]

    assert finding.why == (
        "2 of 2 instances of node n1 would have no node: the next pod of Deployment shop/web: ResourceQuota shop/small"
        " refuses a pod with a container that does not specify limits.cpu."
    )
    assert finding.advice.endswith("for that no other node helps.")
    assert [x.name for x in finding.objects] == ["web-0", "web-1"]


def test_no_room_and_a_quota_are_told_apart_and_each_reason_stands_once() -> None:
    made = cluster("ab")
    requests = {"cpu": "100m", "memory": "3Gi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    deployment(made, "web", ("n1", "n1"), spec)
    made.nodes["n2"]["status"]["allocatable"]["memory"] = "1Gi"
    room = "Add or free a node that they may use, or relax their rules."
    finding = check(made)["no_place"]
    assert (finding.why.count("Insufficient memory"), finding.advice) == (2, room)
    assert "-next" not in finding.why

    made.more["quotas"] = (Quota("shop", "small", {"limits.cpu": 1000}, {"limits.cpu": 0}),)
    finding = check(made)["no_place"]
    assert finding.why.count("does not specify limits.cpu") == 1
    assert finding.advice.startswith(f"{room} Raise the ResourceQuota that is named")


def test_case_63_namespace_that_may_refuse_the_target_pod_is_named_before_the_cordon() -> None:
    made = cluster("ab")
    machine(made, "vault-1", "n1")
    made.namespace("shop", **{"pod-security.kubernetes.io/enforce": "restricted"})

    finding = check(made)["place_unknown"]

    assert finding.severity == "warning"
    assert "namespace shop enforces PodSecurity restricted:latest" in finding.why
    assert "VirtualMachine shop/vault-1" in finding.why
    assert finding.advice.startswith("The drain would wait for a pod that is not created")
    by = "(label pod-security.kubernetes.io/enforce)"
    enforces = f"Namespace shop enforces PodSecurity restricted:latest {by}"
    assert finding.advice.endswith(f"{enforces}: baseline would admit this pod.")

    # What the server itself refuses would end at the limit of the run, with the node cordoned.
    (pod,) = made.snapshot().pods
    lacking = 'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type)'
    answer = f'violates PodSecurity "restricted:latest": {lacking}'
    made.more["dry_runs"] = {pod.uid: answer}
    refused = check(made)["place_unknown"]
    assert refused.severity == "error"
    assert "VirtualMachine shop/vault-1 in namespace shop: violates PodSecurity" in refused.why
    enforces = f"Namespace shop enforces PodSecurity restricted {by}"
    assert refused.advice.endswith(f"{enforces}: baseline would admit this pod.")

    made.more["dry_runs"] = {pod.uid: f'{answer}, hostPath volumes (volume "a")'}
    assert check(made)["place_unknown"].advice.endswith("the message names what it forbids.")
    made.more["dry_runs"] = {pod.uid: 'admission webhook "w" denied the request'}
    assert check(made)["place_unknown"].advice.endswith("no other node helps.")


def test_all_that_leaves_must_fit_together() -> None:
    """Each of the two pods would find room alone."""
    made = cluster("aa")
    requests = {"cpu": "100m", "memory": "3Gi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    deployment(made, "web", ("n1", "n1"), spec)
    allocatable = made.nodes["n2"]["status"]["allocatable"]
    allocatable["memory"] = "4Gi"

    finding = check(made)["no_place"]
    assert finding.why.startswith("1 of 2 instances of node n1 would have no node: ")
    assert "2 pods (web-0, web-1) need more memory than is free" in finding.why
    allocatable["memory"] = "8Gi"
    assert errors(made) == []


# Disruption budgets: impossible, blocked now, delegated.


def test_budget_that_never_allows_is_impossible() -> None:
    finding = check(web(), budgets=(budget(desired=2),))["pdb_impossible"]

    assert finding.severity == "error"
    assert "PodDisruptionBudget shop/web" in finding.why
    assert finding.why.endswith("never allows a disruption: 2 of 2 pods are healthy, 2 must be.")


def unready(*nodes: str) -> Finding:
    """What is found of two pods of which those on these nodes are not Ready."""
    drain = view(web(), budgets=(budget(healthy=2 - len(nodes)),))
    pods = (replace(x, ready=x.node_name not in nodes) for x in drain.snapshot.pods)
    drain = replace(drain, snapshot=replace(drain.snapshot, pods=tuple(pods)))
    return next(x for x in preflight(PreflightInput(drain)) if x.name == "pdb_blocks")


def test_field_24_pods_that_are_not_ready_behind_a_budget_are_named_with_the_ways_out() -> None:
    both = unready("n1", "n2")
    assert "0 of 2 pods are healthy, 1 must be. Not Ready: Pod shop/web" in both.why
    assert " on n1, Pod shop/web" in both.why and both.why.endswith(" on n2.")
    assert (
        "With unhealthyPodEvictionPolicy: AlwaysAllow in the spec of the budget, web" in both.advice
    )
    assert both.advice.endswith("Or delete what is not Ready.")
    other = unready("n2")
    assert "AlwaysAllow" not in other.advice, "a Ready pod needs the budget under every policy"
    assert "delete them, so that their controller makes new ones" in other.advice


def test_two_budgets_for_one_pod_are_impossible() -> None:
    both = (budget("one", allowed=1), budget("two", allowed=1))
    finding = check(web(), budgets=both)["pdb_impossible"]

    assert "is selected by 2 PodDisruptionBudgets (one, two)" in finding.why


def test_budget_that_blocks_now_is_a_warning() -> None:
    finding = check(web(), budgets=(budget(healthy=1),))["pdb_blocks"]

    assert finding.severity == "warning"
    assert "allows no disruption now: 1 of 2 pods are healthy, 1 must be" in finding.why


def test_budget_of_an_operator_is_delegated() -> None:
    of_operator = budget(desired=2, owner=Owner("Cluster", "db", "u", "postgresql.cnpg.io"))
    finding = check(web(), budgets=(of_operator,))["pdb_delegated"]

    assert finding.severity == "info"
    assert errors(web(), budgets=(of_operator,)) == []


def test_field_44_budget_of_a_pod_of_a_storage_operator_is_delegated() -> None:
    """It has no owner itself, and the operator deletes it once the node is cordoned."""
    owned = owned_by("longhorn.io")
    one = budget(healthy=1, desired=1, expected=1)
    findings = check(owned, budgets=(one,))

    assert findings["pdb_delegated"].severity == "info"
    assert "longhorn.io" in findings["pdb_delegated"].why
    assert "do not delete the budget" in findings["pdb_delegated"].advice
    assert errors(owned, budgets=(one,)) == []


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"delegated_budgets": ["store.example.com"]}, id="group-of-the-pod"),
        pytest.param({"delegated_budgets": ["app=web"]}, id="label-of-the-pod"),
        pytest.param({"delegated_budgets": ["tier=db,kind=store"]}, id="labels-of-the-budget"),
    ],
)
def test_budget_that_the_user_names_is_delegated_and_no_other(given: JSON) -> None:
    made = owned_by("store.example.com")
    labels = {"tier": "db", "kind": "store"}
    one = budget(healthy=1, desired=1, expected=1, labels=labels)
    refused = check(made, budgets=(one,))["pdb_impossible"]
    assert "add store.example.com to delegated_budgets" in refused.advice
    assert "minAvailable" not in refused.advice

    delegation = options(**given).delegation
    assert errors(made, budgets=(one,), delegation=delegation) == []
    deployment(made, "api", ("n1",), {})
    others = budget("api", desired=2, selector=Selector((Requirement("app", "In", ("api",)),)))
    assert errors(made, budgets=(one, others), delegation=delegation) == ["pdb_impossible"]


def test_advice_about_the_last_replica_keeps_its_protection() -> None:
    one = budget(healthy=1, desired=1, expected=1)
    advice = check(web("n1"), budgets=(one,))["pdb_impossible"].advice

    assert advice == "Scale Deployment shop/web up, so that another pod serves meanwhile."
    advice = check(web("n1"), budgets=(replace(one, keeps_all=True),))["pdb_impossible"].advice
    assert advice.endswith("as it is, it keeps all of its pods, however many there are.")


LONE = budget(healthy=1, desired=1, expected=1)
DOWNTIME = (
    "No other VM serves meanwhile: agree on its downtime with the owner of the budget, who sets minAvailable to 0 for"
    " that time."
)


def advice_about_vm(made: Cluster, **given: t.Any) -> str:
    given = {"vm_policy": "restart", "budgets": (LONE,), **given}
    return check(made, **given)["pdb_impossible"].advice


def test_lone_vm_behind_a_budget_is_migrated_or_its_downtime_agreed() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1", app="web")
    advice = advice_about_vm(made)
    assert advice.startswith(
        f"Put migrate first in vm_policy or the label {VM_POLICY}, since a live migration needs no budget. Or: no other"
    )
    assert "cale" not in advice
    made.workloads[ref]["metadata"].setdefault("labels", {})[VM_POLICY] = "restart"
    assert advice_about_vm(made).startswith(f"Put migrate first in the label {VM_POLICY}, since")


def test_vm_behind_a_budget_that_cannot_migrate_is_not_told_to() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", app="web")
    unmigratable(made, "db")
    assert advice_about_vm(made) == (
        "It cannot be migrated instead, which would need no budget: the instance is not live-migratable:"
        f" DisksNotLiveMigratable. {DOWNTIME}"
    )


def test_vm_that_old_kubevirt_does_not_migrate_is_told_of_the_label() -> None:
    made = cluster("ab")
    machine(made, "db", "n1", {"domain": {"cpu": {"model": "host-model"}}}, app="web")
    platform = Platform(kubevirt="v1.4.0")
    drain = view(made, policy="restart", budgets=(LONE,), platform=platform)
    (found,) = [x for x in preflight(PreflightInput(drain)) if x.name == "pdb_impossible"]
    assert "no label host-model-cpu.node.kubevirt.io/MODEL" in found.advice
    assert "live migration needs" not in found.advice


def test_vms_that_can_and_cannot_migrate_behind_one_budget_are_told_apart() -> None:
    made = cluster("ab")
    for name in ("db-0", "db-1"):
        machine(made, name, "n1", app="web")
    unmigratable(made, "db-0")
    drain = view(made, policy="restart", budgets=(budget(desired=2),))
    found = [x for x in preflight(PreflightInput(drain)) if x.name == "pdb_impossible"]
    assert len(found) == 2
    cannot, can = sorted(found, key=lambda x: x.advice)
    assert "shop/db-0" in cannot.why and cannot.advice.startswith("It cannot be migrated")
    assert "shop/db-1" in can.why and can.advice.startswith("Put migrate first")
    assert can.advice.endswith("so that one of its 2 pods may be down.")


def test_replica_set_of_vms_behind_a_budget_is_scaled() -> None:
    made = cluster("ab")
    replica_set(made, "web", ("n1",), {})
    advice = advice_about_vm(made)
    assert advice.endswith(
        "Or: scale VirtualMachineInstanceReplicaSet shop/web up, so that another pod serves meanwhile."
    )


def test_bare_pod_behind_a_budget_is_not_scaled() -> None:
    made = cluster("ab")
    made.bare_pod("tool", "n1", app="web")
    drain = replace(view(made, budgets=(LONE,)), allowed=frozenset({"bare_pod"}))
    (found,) = [x for x in preflight(PreflightInput(drain)) if x.name == "pdb_impossible"]
    assert found.advice.startswith("No other pod serves meanwhile: agree on its downtime")


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_field_21_budget_stands_against_what_ends_a_vm(policy: str) -> None:
    made = cluster("ab")
    for name in ("till-0", "till-1"):
        machine(made, name, "n1", app="web")
    never = check(made, vm_policy=policy, budgets=(budget(desired=2),))["pdb_impossible"]
    assert "VirtualMachineInstance shop/till-0" in never.why
    assert never.why.endswith("never allows a disruption: 2 of 2 pods are healthy, 2 must be.")
    assert "a live migration needs no budget" in never.advice
    blocks = check(made, vm_policy=policy, budgets=(budget(healthy=1),))["pdb_blocks"]
    assert blocks.severity == "warning"
    assert errors(made, vm_policy=policy, budgets=(budget(allowed=1),)) == []
    assert errors(made, budgets=(budget(desired=2),)) == []  # live migration


@pytest.mark.parametrize(
    "harmless",
    [
        pytest.param(budget(allowed=1), id="allows-one"),
        pytest.param(
            budget(desired=2, selector=Selector((Requirement("app", "In", ("x",)),))),
            id="of-other-pods",
        ),
        pytest.param(
            budget(desired=2, ref=Ref("PodDisruptionBudget", "x", "web")), id="other-namespace"
        ),
    ],
)
def test_budget_that_does_not_matter(harmless: DisruptionBudget) -> None:
    assert set(check(web(), budgets=(harmless,))) <= {"last_node_of_domain", "shared_domain"}


def test_budget_of_pods_on_other_nodes_does_not_matter() -> None:
    made = web("n2", "n3")

    assert errors(made, budgets=(budget(desired=2),)) == []


def test_budget_does_not_count_for_a_pod_that_the_server_would_evict() -> None:
    """Such as one that is not Ready, under unhealthyPodEvictionPolicy AlwaysAllow."""
    made = web()
    evicted = {pod.uid: WOULD_EVICT for pod in made.snapshot().pods}

    assert errors(made, budgets=(budget(desired=2),), evictions=evicted) == []


def test_budget_counts_for_a_pod_of_which_the_server_gave_no_answer() -> None:
    """Such as one with a webhook that takes no dry run: it is asked before the budget."""
    assert errors(web(), budgets=(budget(desired=2),), evictions={}) == ["pdb_impossible"]


def test_refusals_of_the_server_are_reported() -> None:
    made = web()
    uid = next(pod.uid for pod in made.snapshot().pods if pod.node_name == "n1")
    waits = {uid: EvictionAnswer("the budget web needs 2 healthy pods", True)}
    fails = {uid: EvictionAnswer("a webhook says no", False)}

    assert "budget web needs 2" in check(made, evictions=waits)["pdb_blocks"].why
    assert errors(made, evictions=fails) == ["eviction_fails"]
    assert errors(made, evictions=waits, budgets=(budget(desired=2),)) == ["pdb_impossible"]
    allows = budget(allowed=1)
    assert "budget web needs 2" in check(made, evictions=waits, budgets=(allows,))["pdb_blocks"].why


def test_evictions_that_a_webhook_fails_are_one_finding_with_the_pods_counted() -> None:
    """Also where its text names the pod."""
    made = cluster("ab")
    deployment(made, "web", ["n1"] * 6, {"containers": [{"name": "a"}]})
    pods = [pod for pod in made.snapshot().pods if pod.node_name == "n1"]
    hangs = 'failed calling webhook "evict.example.com": context deadline exceeded'
    fails = {pod.uid: EvictionAnswer(hangs, False) for pod in pods[:4]}
    denies = 'admission webhook "evict.example.com" denied the request: {} stays'
    fails |= {pod.uid: EvictionAnswer(denies.format(pod.name), False) for pod in pods[4:]}
    found = preflight(PreflightInput(view(made), evictions=fails))
    hanging, denying = (x for x in found if x.name == "eviction_fails")

    named = ", ".join(str(pod.ref) for pod in pods[:4])
    assert hanging.why == (
        f"The API server refuses the eviction of 4 pods ({named}) on node n1: {hangs}."
    )
    assert len(hanging.objects) == 4
    assert denying.why.startswith("The API server refuses the eviction of 2 pods (")


def test_migrations_that_the_server_refuses_are_named_with_its_text_once() -> None:
    made = cluster("ab")
    for name in ("a", "b", "c"):
        machine(made, name, "n1")
    uids = {vmi.ref.name: vmi.uid for vmi in made.snapshot().vmis}
    text = "a policy denied request: Frozen until Monday."
    drain = view(made)
    inputs = PreflightInput(
        drain,
        migrations={
            uids[name]: Obstacle("refused", why)
            for name, why in zip("abc", (text, text, "no"), strict=True)
        },
    )
    both, other = (x for x in preflight(inputs) if x.name == "migration_refused")

    assert both.severity == "error"
    assert both.why == (
        f"The API server refuses the migration of {KIND} shop/a, {KIND} shop/b on node n1: {text}"
    )
    assert other.why.endswith("shop/c on node n1: no.")
    assert both.advice == (
        f"Change what refuses it, or set vm_policy or the label {VM_POLICY} to restart, stop_and_start or stop."
    )
    assert errors(made, migrations={}) == []


# Nodes and other automation.


def control_plane(*down: str) -> Cluster:
    made = cluster("")
    for number in (1, 2, 3):
        name = f"cp{number}"
        labels = {"node-role.kubernetes.io/control-plane": ""}
        made.node(name, labels, unschedulable=name in down)
    return made


def test_quorum_of_the_control_plane() -> None:
    assert errors(control_plane(), "cp1") == []
    finding = check(control_plane("cp3"), "cp1")["control_plane_quorum"]
    assert finding.why == (
        "Without node cp1, 1 of 3 control-plane nodes are in service, and etcd needs 2."
    )
    assert errors(control_plane(), "cp1", "cp2") == ["control_plane_quorum"]


@pytest.mark.parametrize(
    ("members", "down", "drained", "advice"),
    [
        (3, ["cp3"], ["cp1"], "Bring node cp3 into service first, and take one at a time."),
        (3, [], ["cp1", "cp2"], "Take one at a time."),
        (
            9,
            [f"cp{x}" for x in range(2, 9)],
            ["cp1"],
            "Bring nodes cp2, cp3, cp4, cp5, cp6, cp7, cp8 into service first, and take at most 4 at a time.",
        ),
        (5, [], ["cp1", "cp2", "cp3"], "Take at most 2 at a time."),
        (1, [], ["cp1"], "Add control-plane nodes until there are three, or allow the finding"),
        (2, [], ["cp1"], "Add control-plane nodes until there are three, or allow the finding"),
    ],
)
def test_advice_on_quorum_can_be_followed(
    members: int, down: list[str], drained: list[str], advice: str
) -> None:
    """There are no others to bring into service where there is one."""
    made = cluster("a")
    for number in range(1, members + 1):
        name = f"cp{number}"
        labels = {HOST: name, "node-role.kubernetes.io/control-plane": ""}
        made.node(name, labels, unschedulable=name in down)
    assert check(made, *drained)["control_plane_quorum"].advice.startswith(advice)


@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        ("migrate", "KubeVirt holds its migration until the backup has ended"),
        ("restart", "the drain would abort it"),
        ("stop", "the drain would abort it"),
    ],
)
def test_backup_of_a_vm_is_an_error_before_its_drain(policy: str, effect: str) -> None:
    made = cluster("ab")
    for name in ("a", "b", "c"):
        machine(made, name, "n1")
    running = {"backupName": "nightly", "startTimestamp": "2026-11-29T01:00:00Z"}
    ended = {**running, "completed": True}
    for name, status in (("a", running), ("b", ended)):
        tracking = {"state": "Enabled", "backupStatus": status}
        made.machines[name]["status"]["changedBlockTracking"] = tracking

    findings = preflight(PreflightInput(view(made, policy=policy)))

    (finding,) = [x for x in findings if x.name == "backup_running"]
    assert (finding.severity, finding.objects) == ("error", (Ref(KIND, "shop", "a"),))
    assert finding.why == f"{KIND} shop/a on node n1 is being backed up (nightly), and {effect}."


@pytest.mark.parametrize("tracking", [None, {}, {"backupStatus": None}, {"backupStatus": {}}])
def test_vm_without_a_backup_has_no_such_finding(tracking: JSON) -> None:
    made = cluster("ab")
    machine(made, "a", "n1")
    made.machines["a"]["status"]["changedBlockTracking"] = tracking
    assert "backup_running" not in check(made)


def test_last_node_of_a_domain_is_a_warning() -> None:
    made = cluster("aab")

    assert "last_node_of_domain" not in check(made, "n1")
    finding = check(made, "n3")["last_node_of_domain"]
    assert (finding.severity, finding.objects) == ("warning", (Ref("Node", "", "n3"),))
    assert "takes pods in zone b: nothing is scheduled" in finding.why
    made.nodes["n2"]["spec"]["unschedulable"] = True
    assert "zone a" in check(made, "n1")["last_node_of_domain"].why


def test_pod_of_this_job_is_on_the_node() -> None:
    made = cluster("ab")
    deployment(made, "awx", ("n1",), {})
    name = next(pod.name for pod in made.snapshot().pods)

    assert errors(made, job_pod=("shop", name)) == ["job_on_node"]
    assert errors(made, job_pod=("", name)) == ["job_on_node"]
    assert errors(made, job_pod=("other", name)) == []
    assert errors(made, "n2", job_pod=("shop", name)) == []


@pytest.mark.parametrize(
    ("finding", "reboot", "severity"),
    [
        (HEALTH_CHECK, True, "error"),
        (HEALTH_CHECK, False, "warning"),
        (CONFIG_POOL_UPDATING, False, "error"),
    ],
)
def test_other_automation_that_covers_the_node(finding: str, reboot: bool, severity: str) -> None:
    ref = Ref("NodeHealthCheck", "", "workers")
    automation = (Automation(finding, ref, frozenset({"n1"}), "it remediates"),)
    made = cluster("ab")
    seen = check(made, automation=automation, reboot_expected=reboot)[finding]

    assert seen.severity == severity
    assert seen.why == "NodeHealthCheck workers covers node n1: it remediates."
    assert errors(made, "n2", automation=automation, reboot_expected=True) == []


def test_node_that_another_system_drains_is_an_error_also_where_a_drain_continues() -> None:
    drained = {"machineconfiguration.openshift.io/desiredDrain": "drain-1f"}
    plain = view(cluster("ab"))
    nodes = tuple(
        replace(node, annotations=drained) if node.name == "n1" else node
        for node in plain.snapshot.nodes
    )
    held = replace(plain, snapshot=replace(plain.snapshot, nodes=nodes))
    (finding,) = set(preflight(PreflightInput(held))) - set(preflight(PreflightInput(plain)))

    assert (finding.name, finding.severity) == ("other_maintenance", "error")
    assert "Node n1 is in another maintenance: the Machine Config Operator" in finding.why
    assert refusing([finding], (), continues=True) == (finding,)


def test_node_that_was_declared_shut_down_needs_its_taint_removed() -> None:
    taint = Taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")
    plain = view(cluster("ab"))
    nodes = tuple(
        replace(node, taints=(taint,)) if node.name == "n1" else node
        for node in plain.snapshot.nodes
    )
    held = replace(plain, snapshot=replace(plain.snapshot, nodes=nodes))
    (finding,) = [x for x in preflight(PreflightInput(held)) if x.name == "other_maintenance"]

    assert f"taint {taint.key}, which says that the node is shut down" in finding.why
    assert finding.advice.startswith(f"Remove the taint {taint.key} once the node runs again")


def test_update_of_kubevirt_is_an_error() -> None:
    finding = check(cluster("ab"), kubevirt_update="from v1.7.0 to v1.8.4")["kubevirt_updating"]

    assert finding.why == "KubeVirt is being updated: from v1.7.0 to v1.8.4."


def test_pod_that_tolerates_the_cordon_is_a_warning() -> None:
    made = cluster("ab")
    deployment(made, "agent", ("n1",), {"tolerations": [{"operator": "Exists"}]})

    assert check(made)["tolerates_cordon"].severity == "warning"


def test_every_finding_is_an_error_with_something_to_do() -> None:
    made = cluster("ab")
    made.bare_pod("tool", "n1", {"volumes": [{"name": "data", "emptyDir": {}}]})
    finding = check(made)["bare_pod"]

    assert finding.why == (
        "Pod shop/tool on node n1 is not evicted: no controller makes it again, and the data of its"
        " emptyDir volumes is lost (data)."
    )
    assert finding.advice
    assert errors(made) == ["local_data_lost", "bare_pod"]


def test_policy_that_a_budget_never_allows_is_passed_over() -> None:
    made = cluster("abc")
    machine(made, "db", "n1", app="web")
    one = budget(healthy=1, desired=1, expected=1)
    fallback = check(made, vm_policy="restart migrate", budgets=(one,))

    assert "leaves by vm_policy migrate: not restart: " in fallback["policy_fallback"].why
    assert "PodDisruptionBudget shop/web" in fallback["policy_fallback"].why
    lines = [line for line in warning_lines(fallback.values()) if "policy_fallback" in line]
    assert lines == [
        "warning: policy_fallback: 1 VM leaves by another vm_policy than the first one, which is not possible:"
        " VirtualMachineInstance shop/db. The lines of the moves say why."
    ], "the line of the move has the reason"
    assert "pdb_impossible" not in fallback
    assert errors(made, vm_policy="restart stop", budgets=(one,)) == ["pdb_impossible"]


def test_vm_that_no_other_node_may_take_is_told_the_policies_that_are_possible() -> None:
    made = cluster("ab")
    ref = machine(made, "db", "n1", {"nodeSelector": {HOST: "n1"}})
    down = f" Or let db be down for a time: set the label {VM_POLICY} of the VM to"
    assert check(made)["no_place"].advice.endswith(
        f"{down} stop_and_start, or vm_policy to [migrate, stop_and_start], which does that only with VMs that have no"
        " better way."
    )
    made.workloads[ref]["metadata"].setdefault("labels", {})[VM_POLICY] = "migrate"
    assert check(made)["no_place"].advice.endswith(f"{down} stop_and_start.")
    made.workloads[ref]["spec"]["runStrategy"] = "Once"
    assert check(made)["no_place"].advice.endswith(f"{down} stop.")
    replicas = cluster("ab")
    replica_set(replicas, "web", ("n1",), {"nodeSelector": {HOST: "n1"}})
    assert "down for a time" not in check(replicas)["no_place"].advice


def test_vm_that_is_handed_to_its_controller_is_not_sent_to_a_forecast() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.machines["db"]["spec"]["evictionStrategy"] = "External"
    advice = check(made, vm_policy="evict migrate")["place_unknown"].advice
    assert advice.startswith("See that the controller of that strategy runs")


def test_node_that_is_not_ready_is_one_finding_and_not_a_lack_of_nodes() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.nodes["n1"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert errors(made) == ["node_not_ready"]
    machine(made, "other", "n1", {"nodeSelector": {HOST: "n1"}})
    assert "node_not_ready" in errors(made)


def test_budget_whose_pods_cannot_be_counted_never_allows_though_its_status_is_about_no_spec() -> (
    None
):
    made = cluster("ab")
    machine(made, "db", "n1", app="web")
    uncounted = budget(observed=False, sync_error="no scale subresource", healthy=0, expected=0)
    finding = check(made, vm_policy="restart", budgets=(uncounted,))["pdb_impossible"]
    assert "the server cannot count its pods (no scale subresource)" in finding.why
    assert "Or: set minAvailable of the budget to a number" in finding.advice
