# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which moves empty a node, in which order, and what stays with a reason."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import (
    ATTEMPTS,
    DrainView,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_report import (
    what_is_left,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_state import (
    DrainState,
)
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Node,
    Owner,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Method,
    Move,
    Plan,
    SkippedInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Vmi,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import (
    RunJournal,
    digest,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.moves.move_source import Wait
from tests.support import facts

JSON = dict[str, t.Any]


def pod(name: str, owner: Owner | None, near: str = "", **fields: t.Any) -> Pod:
    spec: JSON = {"nodeName": "w1", "containers": []}
    if near:
        selector = {"matchLabels": {"app": near}}
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAffinity": affinity}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": {"app": name}}
    manifest = {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    return replace(pod_from_manifest(manifest), owner=owner, **fields)


def of_deployment(name: str, near: str = "", **fields: t.Any) -> Pod:
    return pod(name, Owner("ReplicaSet", f"{name}-1", f"u-{name}-1"), near, **fields)


def snapshot(*pods: Pod, vms: t.Iterable[tuple[Vmi, Workload | None]] = ()) -> Snapshot:
    launchers = [
        pod(f"virt-launcher-{x.ref.name}", Owner(x.ref.kind, x.ref.name, x.uid)) for x, _vm in vms
    ]
    return Snapshot(
        nodes=(Node("w1"), Node("w2")),
        pods=(*pods, *launchers),
        vmis=tuple(x for x, _vm in vms),
        workloads=tuple(vm for _vmi, vm in vms if vm is not None),
        controllers={f"u-{x.name}-1": Ref("Deployment", "shop", x.name) for x in pods},
    )


def vm(
    strategy: str = "Always",
    labels: JSON | None = None,
    kind: str = "VirtualMachine",
    **of_vmi: t.Any,
) -> tuple[Vmi, Workload]:
    ref = Ref(kind, "shop", "db")
    metadata = {"name": "db", "namespace": "shop", "uid": "u-vm", "labels": labels or {}}
    workload = Workload(ref, "u-vm", {"metadata": metadata, "spec": {"runStrategy": strategy}})
    owner = Owner(kind, "db", "u-vm")
    return facts.vmi("db", **{"owner": owner, "live_migratable": True, **of_vmi}), workload


def plan(
    of: Snapshot, policy: str = "migrate", journal: RunJournal | None = None, **view: t.Any
) -> Plan:
    policies = tuple(policy.split())
    return DrainView(of, frozenset({"w1"}), policies, **view).plan(journal)


POLICY = "placement.virt/vm-policy"
STAYS = "placement.virt/do-not-move"
STUCK: JSON = {"live_migratable": False, "live_migratable_reason": "DisksNotLiveMigratable"}


@pytest.mark.parametrize(
    ("policy", "made", "outcome"),
    [
        ("migrate", vm(), "migrate"),
        ("migrate", vm(**STUCK), "the instance is not live-migratable: DisksNotLiveMigratable"),
        ("restart", vm(), "restart"),
        ("restart", vm("Once"), "a VM with run strategy Once is not restarted"),
        ("restart", vm(kind="VirtualMachineInstanceReplicaSet"), "recreate"),
        ("stop", vm("Once"), "stop"),
        ("refuse", vm(), "its vm_policy is 'refuse'"),
        ("migrate", vm(labels={POLICY: "stop"}), "stop"),
        ("stop", vm(labels={POLICY: "migrate"}), "migrate"),
        (
            "migrate",
            vm(labels={POLICY: "evikt"}),
            "its vm_policy is 'evikt': 'evikt' is not a policy; did you mean 'evict'?",
        ),
        ("migrate", vm(phase="Scheduling"), "its VM is starting"),
        ("migrate restart", vm(), "migrate"),
        ("migrate restart", vm(**STUCK), "restart"),
        ("restart stop", vm("Once"), "stop"),
        (
            "migrate restart",
            vm("Once", **STUCK),
            "migrate: the instance is not live-migratable: DisksNotLiveMigratable;"
            " restart: a VM with run strategy Once is not restarted",
        ),
        ("migrate", vm(labels={POLICY: "migrate.stop"}, **STUCK), "stop"),
        ("evict", vm(eviction_strategy="External"), "evict"),
        ("evict migrate", vm(eviction_strategy="LiveMigrate"), "migrate"),
        (
            "evict",
            vm(eviction_strategy="LiveMigrate"),
            "its eviction strategy is LiveMigrate, and vm_policy evict is for External",
        ),
        ("migrate", vm(labels={STAYS: "true"}), f"its workload has the label {STAYS}"),
        ("migrate", vm(labels={STAYS: "false"}), "migrate"),
        ("migrate", vm(labels={STAYS: "true", POLICY: "stop"}), "stop"),
        (
            "migrate",
            vm(labels={POLICY: "stop.refuse"}),
            "its vm_policy is 'stop.refuse': 'refuse' must be alone",
        ),
    ],
)
def test_vm_leaves_by_its_policy(policy: str, made: tuple[Vmi, Workload], outcome: str) -> None:
    result = plan(snapshot(vms=[made]), policy)
    methods = [str(move.method) for move in result.moves]
    assert methods + [str(skipped.reason) for skipped in result.skipped] == [outcome]


@pytest.mark.parametrize(
    ("policy", "made", "code"),
    [
        ("migrate", vm(**STUCK), "not_live_migratable"),
        ("restart migrate", vm("Once", **STUCK), "run_strategy"),
        ("refuse", vm(), "refused_by_policy"),
        ("migrate", vm(labels={POLICY: "evikt"}), "invalid_policy"),
        ("evict", vm(eviction_strategy="LiveMigrate"), "not_evictable"),
        ("stop", vm(kind="VirtualMachineInstanceReplicaSet"), "no_virtual_machine"),
        ("restart", vm(kind="Deployment"), "no_virtual_machine"),
        ("restart", vm(kind="VirtualMachinePool"), "no_virtual_machine"),
        ("migrate", vm(labels={STAYS: "true"}), "do_not_move"),
        ("migrate", vm(phase="Scheduling"), "not_running"),
        ("migrate", vm(terminating=True), "terminating"),
    ],
)
def test_vm_that_does_not_leave_has_a_code(
    policy: str, made: tuple[Vmi, Workload], code: str
) -> None:
    (skipped,) = plan(snapshot(vms=[made]), policy).skipped
    assert isinstance(skipped.reason, Obstacle)
    assert skipped.reason.code == code


def test_code_of_several_policies_is_that_of_the_changes_that_can_be_allowed() -> None:
    why = Obstacle("pending_changes", "a restart would also apply cpu")
    of = snapshot(vms=[vm(**STUCK)])
    (skipped,) = plan(of, "migrate restart", why_no_restart=lambda _vm, _platform: why).skipped
    stuck = "the instance is not live-migratable: DisksNotLiveMigratable"
    assert skipped.reason == Obstacle("pending_changes", f"migrate: {stuck}; restart: {why}")


def test_policies_that_are_passed_over_reach_the_next_step() -> None:
    state = DrainState(passed_over={"u-db": {"migrate": Obstacle("no_node", "no node")}})
    state_of_step = json.loads(json.dumps(state.as_json()))
    assert DrainState.read(state_of_step).passed_over == state.passed_over


STRATEGY = "harvesterhci.io/maintain-mode-strategy"


@pytest.mark.parametrize(
    ("policy", "labels", "outcome"),
    [
        ("migrate", {STRATEGY: "ShutdownAndRestartAfterEnable"}, "restart"),
        ("migrate", {STRATEGY: "ShutdownAndRestartAfterDisable"}, "stop"),
        ("migrate", {STRATEGY: "Shutdown"}, "stop"),
        ("restart", {STRATEGY: "Migrate"}, "restart"),
        ("restart", {STRATEGY: "shutdown"}, "restart"),
        ("restart", {STRATEGY: "Shutdown", POLICY: "migrate"}, "migrate"),
        ("migrate", {STRATEGY: "Shutdown", STAYS: "true"}, f"its workload has the label {STAYS}"),
    ],
)
def test_strategy_of_harvester_is_the_policy_of_a_vm_without_one(
    policy: str, labels: dict[str, str], outcome: str
) -> None:
    result = plan(snapshot(vms=[vm(labels=labels)]), policy)
    methods = [str(move.method) for move in result.moves]
    assert methods + [str(skipped.reason) for skipped in result.skipped] == [outcome]


def test_strategy_of_harvester_is_named_as_the_reason_and_started_again_after_the_work() -> None:
    stopped = vm(labels={STRATEGY: "ShutdownAndRestartAfterDisable"})
    view = DrainView(snapshot(vms=[stopped]), frozenset({"w1"}), ("migrate",))
    (move,) = view.plan().moves
    once = vm("Once", labels={STRATEGY: "ShutdownAndRestartAfterEnable"})
    (skipped,) = plan(snapshot(vms=[once])).skipped

    assert move.reason == (
        f"node w1 is being drained (its label {STRATEGY} is ShutdownAndRestartAfterDisable)"
    )
    assert {node: list(names) for node, names in view.starts.items()} == {
        "w1": [f"VirtualMachine/{stopped[1].ref.namespace}/{stopped[1].ref.name}"]
    }
    assert str(skipped.reason) == (
        "a VM with run strategy Once is not restarted"
        f" (its label {STRATEGY} is ShutdownAndRestartAfterEnable)"
    )


def test_move_says_why_not_by_a_better_policy() -> None:
    (move,) = plan(snapshot(vms=[vm(**STUCK)]), "migrate stop").moves
    assert move.reason == (
        "node w1 is being drained (not migrate: the instance is not live-migratable:"
        " DisksNotLiveMigratable)"
    )


@pytest.mark.parametrize("policy", ["restart", "migrate restart", "restart stop"])
def test_vm_whose_volumes_are_being_changed_is_waited_for(policy: str) -> None:
    """virt-api refuses a restart meanwhile, with 409."""
    vmi, workload = vm(**STUCK)
    condition = {"type": "VolumesChange", "status": "True"}
    changing = replace(
        workload, manifest={**workload.manifest, "status": {"conditions": [condition]}}
    )
    result = plan(snapshot(vms=[(vmi, changing)]), policy)
    assert not result.moves
    assert [(str(x.reason), x.temporary) for x in result.skipped] == [
        (
            "KubeVirt refuses a restart while volumes are being changed (condition VolumesChange)",
            True,
        )
    ]
    (stopped,) = plan(snapshot(vms=[(vmi, changing)]), "stop_and_start").moves
    assert str(stopped.method) == "stop"


def test_policy_that_is_passed_over_is_not_used_and_the_last_one_is_again() -> None:
    no_node = Obstacle("no_node", "no node")
    one = {"u-db": {"migrate": no_node}}
    (move,) = plan(snapshot(vms=[vm()]), "migrate restart", passed_over=one).moves
    assert str(move.method) == "restart"
    both = {"u-db": {"migrate": no_node, "restart": no_node}}
    (move,) = plan(snapshot(vms=[vm()]), "migrate restart", passed_over=both).moves
    assert str(move.method) == "restart"


def test_vm_whose_migrations_failed_is_restarted_where_the_list_has_it() -> None:
    journal = RunJournal("r1", "q", tried={digest("u-db"): 3}, lost=frozenset({digest("u-db")}))
    failed = {"u-db": {"migrate": Obstacle("move_failed", "its migration failed 3 times")}}
    of = snapshot(vms=[vm()])
    (skipped,) = plan(of, "migrate restart", journal).skipped
    assert str(skipped.reason) == "its migration failed 3 times"
    (move,) = plan(of, "migrate restart", journal, passed_over=failed).moves
    assert str(move.method) == "restart"


def test_pod_with_the_label_is_not_evicted() -> None:
    web = of_deployment("web")
    kept = replace(web, labels={**web.labels, STAYS: "true"})
    (skipped,) = plan(snapshot(kept)).skipped
    assert str(skipped.reason) == f"the pod has the label {STAYS}"


@pytest.mark.parametrize(
    "strategy", ["", "None", "LiveMigrateIfPossible", "LiveMigrate", "External"]
)
def test_eviction_strategy_changes_nothing(strategy: str) -> None:
    (move,) = plan(snapshot(vms=[vm(eviction_strategy=strategy)])).moves
    assert str(move.method) == "migrate"


def test_standalone_vmi_is_migrated_where_that_is_allowed() -> None:
    alone = snapshot(vms=[(vm()[0], None)])
    alone = replace(alone, vmis=(replace(alone.vmis[0], owner=None),))
    (skipped,) = plan(alone).skipped
    assert "standalone_vmi" in str(skipped.reason)
    (move,) = plan(alone, allowed=frozenset({"standalone_vmi"})).moves
    assert str(move.method) == "migrate"


def test_target_is_recreated_before_its_followers_are_evicted() -> None:
    moves = {
        move.instance.name: move
        for move in plan(snapshot(of_deployment("app", "db"), of_deployment("db"))).moves
    }
    assert (str(moves["db"].method), moves["db"].after) == ("recreate", ())
    assert (str(moves["app"].method), moves["app"].after) == ("evict", ("u-db",))


def test_circle_of_affinities_has_an_order() -> None:
    circle = snapshot(of_deployment("a", "b"), of_deployment("b", "c"), of_deployment("c", "a"))
    after = {move.uid: set(move.after) for move in plan(circle).moves}
    gone: set[str] = set()
    while after:
        free = {uid for uid, uids in after.items() if uids <= gone}
        assert free, "no move may begin"
        gone |= free
        after = {uid: uids for uid, uids in after.items() if uid not in free}


class CountedUid(str):
    hashes = 0

    def __hash__(self) -> int:
        CountedUid.hashes += 1
        return super().__hash__()


def hashes(count: int) -> int:
    """Of a plan for pods that all have affinity to each other."""
    names = [f"p{number:02}" for number in range(count)]
    pods = [of_deployment(x, "x", labels={"app": "x"}, uid=CountedUid(x)) for x in names]
    CountedUid.hashes = 0
    after = {move.uid: move.after for move in plan(snapshot(*pods)).moves}
    assert {uid: sorted(uids) for uid, uids in after.items()} == {
        name: names[:number] for number, name in enumerate(names)
    }
    return CountedUid.hashes


def test_plan_for_pods_with_affinity_to_each_other_takes_one_look_at_each_pair() -> None:
    assert hashes(40) < 5 * hashes(20)


def test_failed_migration_is_begun_again_some_times() -> None:
    one = snapshot(vms=[vm()])
    journal = RunJournal("r1", "", lost=frozenset({digest("u-db")}))
    again = replace(journal, tried={digest("u-db"): ATTEMPTS - 1})
    assert len(plan(one, journal=again).moves) == 1
    spent = replace(journal, tried={digest("u-db"): ATTEMPTS})
    (skipped,) = plan(one, journal=spent).skipped
    assert skipped.reason == Obstacle("move_failed", "its migration failed 3 times")
    assert not skipped.temporary


def test_what_belongs_to_the_node_or_has_finished_is_not_left() -> None:
    daemon = pod("agent", Owner("DaemonSet", "agent", "u-set"))
    finished = of_deployment("job", phase="Succeeded")
    view = DrainView(
        snapshot(daemon, finished, of_deployment("web")), frozenset({"w1"}), ("migrate",)
    )
    workload = Workload(
        Ref("DaemonSet", "shop", "agent"), "u-set", {"metadata": {"name": "agent"}, "spec": {}}
    )
    view = replace(view, snapshot=replace(view.snapshot, workloads=(workload,)))
    assert view.left == {"w1": 1}
    assert [move.instance.name for move in view.plan().moves] == ["web"]


def test_terminating_pod_is_waited_for() -> None:
    (skipped,) = plan(snapshot(of_deployment("web", terminating=True))).skipped
    assert (str(skipped.reason), skipped.temporary) == ("it is terminating", True)


def evicted(name: str) -> Move:
    ref, web = Ref("Pod", "shop", name), Ref("Deployment", "shop", "web")
    return Move(ref, f"u-{name}", web, Method.EVICT, "w1", (), "")


BUDGET = "The disruption budget web needs 1 healthy pods and has 0 currently (in namespace shop)"


def test_field_24_each_cause_is_named_once_at_the_timeout() -> None:
    moves = tuple(map(evicted, ("a", "b", "c")))
    sent = [
        MoveRecord(x.instance, x.uid, x.workload, x.method, "w1", 1, 0.0, note=BUDGET)
        for x in moves[:2]
    ]
    texts = what_is_left(sent, Plan(moves), Wait(Obstacle("budget", BUDGET), moves[0].uid))

    assert texts == [
        f"Pod shop/a on w1, Pod shop/b on w1: {BUDGET}",
        "Pod shop/c on w1: not started",
    ]


def test_cause_of_a_move_that_waits_has_its_name_once() -> None:
    moves = tuple(map(evicted, ("a", "b")))
    why = Obstacle("terminating", "it is terminating")
    skipped = SkippedInstance(Ref("Pod", "shop", "t"), "u-t", None, "w1", why)
    waiting = Wait(Obstacle("budget", BUDGET), moves[0].uid, "Deployment shop/web (a)")

    assert what_is_left((), Plan(moves, (skipped,)), waiting) == [
        f"Pod shop/a on w1: {BUDGET}",
        "Pod shop/b on w1: not started",
        "Pod shop/t on w1: it is terminating",
    ]
    assert what_is_left(
        (), Plan(moves), Wait(Obstacle("limit_reached", "2 migrations are in flight"))
    ) == ["Pod shop/a on w1, Pod shop/b on w1: 2 migrations are in flight"]
