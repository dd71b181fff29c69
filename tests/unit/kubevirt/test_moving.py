# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which way of moving makes a declared placement effective: kind by kind, strategy by strategy."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    declared_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import (
    MoveOptions,
    Ways,
    can_migrate,
    move_options,
    propagating,
    takes_effect,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.pending_changes import (
    changes_since_start,
    staged_changes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    WORKLOAD_ROLLOUT_STOPPED,
    Obstacle,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Platform,
    Workload,
)
from tests.support import facts
from tests.support.cluster import cluster
from tests.support.pools import pool

LIVE = Platform(rollout_strategy="LiveUpdate")
STAGE = Platform(rollout_strategy="Stage")
AFFINITY = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"x": 1}]}}
SPREAD = [{"topologyKey": "zone", "maxSkew": 1}]


def machine(
    spec: dict[str, t.Any] | None = None,
    *,
    strategy: str = "Always",
    conditions: tuple[str, ...] = (),
) -> Workload:
    met = [{"type": kind, "status": "True"} for kind in conditions]
    return facts.vm("db", spec, status={"conditions": met}, runStrategy=strategy)


def running(spec: dict[str, t.Any] | None = None, **changed: t.Any) -> Instance:
    vmi = facts.vmi("db", **{"uid": "u1", "live_migratable": True, "spec": spec or {}, **changed})
    return Instance(vmi.ref, "u1", Ref("VirtualMachine", "shop", "db"), Pod("shop", "p"), vmi)


def effect(workload: Workload | None, instance: Instance, **given: t.Any) -> MoveOptions:
    platform = given.pop("platform", LIVE)
    ways = Ways(workload, instance.vmi, instance.pod, None, platform)
    found = move_options(workload, ways, **given)
    assert can_migrate(workload, ways) == (Method.MIGRATE in found.methods)
    return found


@pytest.mark.parametrize(
    ("declared", "effective"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"affinity": AFFINITY}, {"affinity": AFFINITY}, id="reached"),
        pytest.param({"affinity": AFFINITY}, {}, id="on-its-way"),
        pytest.param(
            {"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b", "c": "d"}}, id="more"
        ),
        pytest.param({"affinity": {"nodeAffinity": None}}, {}, id="empties-say-nothing"),
    ],
)
def test_change_that_live_update_propagates_needs_a_migration(
    declared: dict[str, t.Any], effective: dict[str, t.Any]
) -> None:
    found = effect(machine(declared), running(effective))
    assert found.methods == (Method.MIGRATE, Method.RESTART)


@pytest.mark.parametrize(
    ("workload", "platform", "reason"),
    [
        pytest.param(
            machine({"topologySpreadConstraints": SPREAD}),
            LIVE,
            "a change of topologySpreadConstraints takes effect at a restart",
            id="spread",
        ),
        pytest.param(
            machine({"affinity": AFFINITY}),
            STAGE,
            "the cluster's rollout strategy is Stage",
            id="stage",
        ),
        pytest.param(
            machine({"affinity": AFFINITY}, conditions=("RestartRequired",)),
            LIVE,
            "the VM has the condition RestartRequired, so nothing reaches the running instance",
            id="restart-required",
        ),
    ],
)
def test_change_that_live_update_does_not_propagate_needs_a_restart(
    workload: Workload, platform: Platform, reason: str
) -> None:
    found = effect(workload, running(), platform=platform)
    assert found == MoveOptions((Method.RESTART,), Obstacle("needs_restart", reason))


def test_a_restart_that_others_staged_does_not_hinder_a_migration_with_current_terms() -> None:
    workload = machine({"affinity": AFFINITY}, conditions=("RestartRequired",))
    assert effect(workload, running({"affinity": AFFINITY})).methods[0] is Method.MIGRATE


def test_restart_is_waited_for_while_volumes_are_being_changed() -> None:
    stuck = running(live_migratable=False)
    found = effect(machine(conditions=("VolumesChange",)), stuck)
    assert (found.methods, found.temporary, found.awaited) == ((), True, Method.RESTART)
    assert "KubeVirt refuses a restart while volumes are being changed" in str(found.obstacle)


def test_restart_is_waited_for_where_a_migration_has_no_target_pod() -> None:
    """KubeVirt before 1.6 makes none for host-model on a node without the label of its model."""
    hosted = running({"domain": {"cpu": {"model": "host-model"}}})
    old = Platform(kubevirt="v1.5.0", rollout_strategy="LiveUpdate")
    found = {
        conditions: move_options(
            machine(conditions=conditions),
            Ways(machine(conditions=conditions), hosted.vmi, hosted.pod, Node("w1"), old),
        )
        for conditions in ((), ("VolumesChange",))
    }
    assert found[()].methods == (Method.RESTART,)
    waits = found["VolumesChange",]
    assert (waits.methods, waits.temporary, waits.awaited) == ((), True, Method.RESTART)
    assert str(waits.obstacle).startswith("node w1 has no label host-model-cpu")


def test_vm_that_cannot_migrate_needs_a_restart() -> None:
    stuck = running(live_migratable=False, live_migratable_reason="DisksNotLiveMigratable")
    found = effect(machine(), stuck)
    assert found.methods == (Method.RESTART,)
    assert "DisksNotLiveMigratable" in str(found.obstacle)


def test_an_unknown_migratability_may_be_tried() -> None:
    assert effect(machine(), running(live_migratable=None)).methods[0] is Method.MIGRATE


@pytest.mark.parametrize("strategy", ["Once", "Halted", "WaitAsReceiver"])
def test_strategies_that_are_never_restarted(strategy: str) -> None:
    workload = machine({"topologySpreadConstraints": SPREAD}, strategy=strategy)
    found = effect(workload, running())
    assert found.methods == ()
    assert f"a VM with run strategy {strategy} is not restarted" in str(found.obstacle)
    assert not found.temporary


def test_running_true_is_run_strategy_always() -> None:
    manifest = {"spec": {"running": True}}
    assert Workload(Ref("VirtualMachine", "a", "b"), "", manifest).run_strategy == "Always"
    assert Workload(Ref("Deployment", "a", "b"), "", manifest).run_strategy == ""


def test_pending_change_beside_placement_is_not_applied_without_the_option() -> None:
    declared = {
        "topologySpreadConstraints": SPREAD,
        "domain": {"cpu": {"cores": 4}, "devices": {"disks": [{"name": "root"}, {"name": "new"}]}},
    }
    effective = {"domain": {"cpu": {"cores": 2}, "devices": {"disks": [{"name": "root", "x": 1}]}}}
    workload, instance = machine(declared), running(effective)

    found = effect(workload, instance)

    assert found.methods == ()
    assert "domain.cpu.cores, domain.devices.disks[new]" in str(found.obstacle)
    allowed = effect(workload, instance, apply_pending_changes=True)
    assert allowed.methods == (Method.RESTART,)


def test_defaults_of_kubevirt_are_no_pending_change() -> None:
    declared = {"domain": {"devices": {}}, "hostname": "", "volumes": [{"name": "a"}]}
    effective = {
        "domain": {"devices": {"rng": {}}, "machine": {"type": "q35"}},
        "volumes": [{"name": "a", "containerDisk": {"imagePullPolicy": "Always"}}],
    }
    instance = running(effective)
    assert instance.vmi is not None
    assert staged_changes(machine(declared), instance.vmi) == ()


def test_added_entry_of_a_list_without_names_is_a_pending_change() -> None:
    instance = running({"dnsConfig": {"nameservers": ["10.0.0.1"]}})
    declared = {"dnsConfig": {"nameservers": ["10.0.0.1", "10.0.0.2"]}}
    assert instance.vmi is not None
    assert staged_changes(machine(declared), instance.vmi) == ("dnsConfig.nameservers[1]",)


def test_a_replica_keeps_the_spec_it_was_made_with() -> None:
    ref = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")
    manifest = {"metadata": {}, "spec": {"template": {"spec": {"affinity": AFFINITY}}}}
    workload = Workload(ref, "u", manifest)

    assert effect(workload, running()).methods == (Method.RECREATE,)
    current = effect(workload, running({"affinity": AFFINITY}))
    assert current.methods == (Method.MIGRATE, Method.RECREATE)
    waiting = effect(workload, running({"affinity": AFFINITY}, phase="Scheduling"))
    assert waiting.methods == (Method.RECREATE,)


def test_replica_with_other_staged_changes_is_not_recreated() -> None:
    ref = Ref("VirtualMachineInstanceReplicaSet", "shop", "web")
    spec = {"domain": {"memory": {"guest": "8Gi"}}}
    workload = Workload(ref, "u", {"metadata": {}, "spec": {"template": {"spec": spec}}})

    current = effect(workload, running())
    assert current.methods == (Method.MIGRATE,)
    assert "domain.memory.guest" in str(current.refusal)
    fixed = effect(workload, running(live_migratable=False))
    assert (fixed.methods, "domain.memory.guest" in str(fixed.obstacle)) == ((), True)
    asked = effect(workload, running(), apply_pending_changes=True)
    assert asked.methods == (Method.MIGRATE, Method.RECREATE)


def deployment(**status: t.Any) -> Workload:
    manifest = {
        "metadata": {"generation": 2},
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 2, "updatedReplicas": 3, **status},
    }
    return Workload(Ref("Deployment", "shop", "web"), "u", manifest)


def pod_of(workload: Workload, **changed: t.Any) -> Instance:
    return Instance(Ref("Pod", "shop", "p"), "u1", workload.ref, Pod("shop", "p", **changed))


def test_a_pod_is_recreated_when_its_controller_is_at_rest() -> None:
    assert effect(deployment(), pod_of(deployment())).methods == (Method.RECREATE,)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"updatedReplicas": 1}, "the rollout of its workload is in progress"),
        ({"observedGeneration": 1}, "its controller has not seen the latest change yet"),
    ],
)
def test_workload_rollout_is_waited_for(status: dict[str, t.Any], reason: str) -> None:
    workload = deployment(**status)
    assert effect(workload, pod_of(workload)) == MoveOptions(
        (), Obstacle("in_progress", reason, True)
    )


def test_paused_workload_rollout_is_not_waited_for() -> None:
    def held(kind: str = "Deployment", status: t.Any = None, **spec: t.Any) -> MoveOptions:
        workload = deployment(**{"updatedReplicas": 1, **(status or {})})
        workload = Workload(
            Ref(kind, "shop", "web"),
            "u",
            {**workload.manifest, "spec": {"replicas": 3, **spec}},
        )
        return effect(workload, pod_of(workload))

    def stopped(text: str) -> MoveOptions:
        text = f"the rollout of its workload {text}"
        return MoveOptions((), Obstacle(WORKLOAD_ROLLOUT_STOPPED, text))

    paused = held(paused=True)
    assert paused == stopped("is paused (spec.paused): resume it first")
    condition = {"type": "Progressing", "status": "False", "message": "it has timed out"}
    stuck = held(status={"conditions": [condition]})
    assert stuck == stopped("is stuck: it has timed out")
    partition = {"updateStrategy": {"rollingUpdate": {"partition": 2}}}
    kept = held("StatefulSet", **partition)
    assert kept == stopped("is held by its partition (2)")
    assert held("StatefulSet", {"updatedReplicas": 0}, **partition).temporary
    assert held("StatefulSet", updateStrategy={"type": "OnDelete"}).methods == (Method.RECREATE,)
    lagging = held(status={"observedGeneration": 1, "conditions": [condition]}, paused=True)
    assert lagging.temporary, "the controller's status is about an older template"
    rested = held(status={"updatedReplicas": 3, "conditions": [condition]}, paused=True)
    assert rested.methods == (Method.RECREATE,)


@pytest.mark.parametrize("length", [63, 64])
def test_kubevirt_makes_no_migration_for_a_long_name(length: int) -> None:
    found = running()
    assert found.vmi is not None
    ref = Ref("VirtualMachineInstance", "shop", "x" * length)
    named = Instance(ref, found.uid, found.workload, found.pod, replace(found.vmi, ref=ref))
    options = effect(machine(), named)
    gentlest = Method.MIGRATE if length == 63 else Method.RESTART
    assert options.methods[0] is gentlest
    assert ("its name has 64 characters" in str(options.obstacle)) is (length == 64)


@pytest.mark.parametrize(
    ("claim", "gentlest"),
    [
        ({"resourceClaimName": "gpu-1"}, Method.RESTART),
        ({"resourceClaimTemplateName": "gpus"}, Method.MIGRATE),
    ],
)
def test_vm_with_a_resource_claim_of_its_own_name_cannot_migrate(
    claim: dict[str, str], gentlest: Method
) -> None:
    found = running()
    assert found.vmi is not None
    spec = {**found.vmi.spec, "resourceClaims": [{"name": "gpu", **claim}]}
    options = effect(machine(), replace(found, vmi=replace(found.vmi, spec=spec)))
    assert options.methods[0] is gentlest
    assert ("it uses the ResourceClaim gpu-1" in str(options.obstacle)) is (
        gentlest is Method.RESTART
    )


@pytest.mark.parametrize(
    ("workload", "instance", "temporary"),
    [
        pytest.param(None, running(), False, id="standalone-vmi"),
        pytest.param(
            Workload(Ref("StatefulSet", "shop", "db"), "u-set", {"metadata": {}}),
            running(),
            False,
            id="vmi-of-a-workload-that-makes-pods",
        ),
        pytest.param(machine(), running(terminating=True), True, id="ending"),
        pytest.param(machine(), running(phase="Scheduling"), True, id="starting"),
    ],
)
def test_nothing_to_move(workload: Workload | None, instance: Instance, temporary: bool) -> None:
    found = effect(workload, instance)
    assert found.methods == ()
    assert found.temporary is temporary
    assert found.obstacle is not None


def test_placement_that_live_update_brings_is_propagating() -> None:
    instance = running()
    assert instance.vmi is not None
    assert propagating(machine({"affinity": AFFINITY}), instance.vmi, LIVE)
    assert not propagating(machine({"affinity": AFFINITY}), instance.vmi, STAGE)
    assert not propagating(machine(), instance.vmi, LIVE)


def test_empty_placement_fields_of_a_template_are_no_difference() -> None:
    instance = running({"tolerations": []})
    declared: dict[str, t.Any] = {"affinity": {"podAffinity": {}}, "nodeSelector": {}}
    assert instance.vmi is not None
    assert not propagating(machine(declared), instance.vmi, LIVE)


SELECTED = {"nodeSelector": {"a": "b"}}


@pytest.mark.parametrize(
    ("workload", "instance", "platform", "expected"),
    [
        pytest.param(machine({"affinity": AFFINITY}), running(), LIVE, "migration", id="live"),
        pytest.param(
            machine({"affinity": AFFINITY}),
            running({"affinity": AFFINITY}),
            STAGE,
            "migration",
            id="reached-before-the-strategy-changed",
        ),
        pytest.param(machine({"affinity": AFFINITY}), running(), STAGE, "restart", id="stage"),
        pytest.param(
            machine({"affinity": AFFINITY}, conditions=("RestartRequired",)),
            running(),
            LIVE,
            "restart",
            id="restart-required",
        ),
        pytest.param(
            machine({"affinity": AFFINITY, "topologySpreadConstraints": SPREAD}),
            running(),
            LIVE,
            "restart",
            id="spread-waits",
        ),
        pytest.param(
            machine({"affinity": AFFINITY}),
            running(live_migratable=False),
            LIVE,
            "restart",
            id="not-migratable",
        ),
        pytest.param(machine(), running(SELECTED), STAGE, "restart", id="node-selector-removed"),
        pytest.param(
            machine({"affinity": AFFINITY}),
            running(phase="Scheduling"),
            LIVE,
            "migration",
            id="not-running-yet",
        ),
    ],
)
def test_template_takes_effect_on_a_vm_at_its_next(
    workload: Workload, instance: Instance, platform: Platform, expected: str
) -> None:
    assert takes_effect(workload, instance.vmi, platform) == expected


def test_keys_of_an_instancetype_wait_for_nothing() -> None:
    workload = machine()
    expanded = {**workload.manifest["spec"], "instancetype": {"name": "u1"}}
    manifest = {**workload.manifest, "spec": expanded}
    expanded_vm = replace(workload, manifest=manifest)

    assert takes_effect(expanded_vm, running(SELECTED).vmi, STAGE) == "migration"


def test_keys_of_the_instancetype_of_a_pool_wait_for_nothing() -> None:
    vm = {"instancetype": {"name": "u1"}, "template": {"spec": {}}}
    manifest = {"metadata": {}, "spec": {"virtualMachineTemplate": {"spec": vm}}}
    pool = Workload(Ref("VirtualMachinePool", "shop", "web"), "u-pool", manifest)

    assert takes_effect(pool, running(SELECTED).vmi, LIVE) == "migration"


def test_label_of_a_template_waits_for_a_restart_until_the_vmi_has_it() -> None:
    """KubeVirt carries no labels of a template to a running VMI; a migration's target pod gets
    those of the VMI."""
    instance = running()
    assert instance.vmi is not None
    labeled = replace(instance.vmi, labels={"tier": "db"})
    before = replace(instance.vmi, labels={"tier": "web"})
    template = {"metadata": {"labels": {"tier": "db"}}, "spec": {}}
    manifest = {"metadata": {}, "spec": {"runStrategy": "Always", "template": template}}
    workload = replace(machine(), manifest=manifest)

    assert takes_effect(workload, instance.vmi, LIVE, labels=["tier"]) == "restart"
    assert takes_effect(workload, before, LIVE, labels=["tier"]) == "restart"
    assert takes_effect(workload, labeled, LIVE, labels=["tier"]) == "migration"


def test_declared_fields_are_those_of_a_template_that_is_not_written_yet() -> None:
    after = {"affinity": AFFINITY}
    vmi = running(after).vmi

    assert takes_effect(machine(), vmi, STAGE) == "restart"
    assert takes_effect(machine(), vmi, STAGE, declared=after) == "migration"


def test_plain_pod_and_replica_are_recreated() -> None:
    replicas = replace(
        machine({"affinity": AFFINITY}),
        ref=Ref("VirtualMachineInstanceReplicaSet", "shop", "set"),
    )

    assert takes_effect(machine(), None, LIVE) == "recreate"
    assert takes_effect(None, running().vmi, LIVE) == "recreate"
    assert takes_effect(replicas, running().vmi, LIVE) == "recreate"
    assert takes_effect(replicas, running({"affinity": AFFINITY}).vmi, STAGE) == "migration"


STARTED: dict[str, t.Any] = {
    "runStrategy": "Always",
    "instancetype": {"kind": "VirtualMachineInstancetype", "name": "small"},
    "template": {
        "metadata": {
            "labels": {"tier": "db"},
            "annotations": {"hooks.kubevirt.io/hookSidecars": "[]"},
        },
        "spec": {
            "terminationGracePeriodSeconds": 180,
            "domain": {"cpu": {"sockets": 1}, "devices": {"disks": [{"name": "a"}, {"name": "b"}]}},
            "volumes": [{"name": "a"}, {"name": "b"}],
        },
    },
}


def changed_since_start(
    change: t.Callable[[t.Any], None],
    follow: t.Callable[[t.Any], None] = lambda _vmi: None,
    conditions: t.Sequence[t.Any] = (),
    rollout_strategy: str = "LiveUpdate",
    started: t.Mapping[str, t.Any] | None = None,
) -> tuple[str, ...]:
    """What a restart would apply after `change` to the VM's spec; the VMI followed with `follow`."""
    spec = copy.deepcopy(STARTED)
    vmi = copy.deepcopy(STARTED["template"])
    change(spec)
    follow(vmi)
    manifest = {"metadata": {}, "spec": spec, "status": {"conditions": conditions}}
    vm = Workload(Ref("VirtualMachine", "shop", "db"), "u", manifest)
    instance = facts.vmi("db", spec=vmi["spec"], **vmi["metadata"])
    platform = Platform(rollout_strategy=rollout_strategy)
    return changes_since_start(started or STARTED, vm, instance, platform)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda spec: spec["template"]["spec"]["volumes"].pop(), ("volumes[b]",)),
        (
            lambda spec: spec["template"]["spec"]["domain"]["devices"]["disks"].pop(),
            ("domain.devices.disks[b]",),
        ),
        (
            lambda spec: spec["template"]["spec"].pop("terminationGracePeriodSeconds"),
            ("terminationGracePeriodSeconds",),
        ),
        (lambda spec: spec["template"]["metadata"]["labels"].clear(), ("label tier",)),
        (
            lambda spec: spec["template"]["metadata"]["annotations"].clear(),
            ("annotation hooks.kubevirt.io/hookSidecars",),
        ),
        (
            lambda spec: spec["template"]["metadata"]["annotations"].update(
                {"hooks.kubevirt.io/hookSidecars": "[{}]", "team.example/any": "1"}
            ),
            ("annotation hooks.kubevirt.io/hookSidecars", "annotation team.example/any"),
        ),
        (lambda spec: spec["instancetype"].update(name="large"), ("instancetype",)),
        (lambda spec: spec.update(preference={"name": "fedora"}), ("preference",)),
        (
            lambda spec: spec["instancetype"].update(revisionName="web-small-v1beta1-41c3ae12-2"),
            ("instancetype.revisionName",),
        ),
        (
            lambda spec: spec["template"]["spec"]["domain"]["cpu"].update(sockets=4),
            ("domain.cpu.sockets",),
        ),
    ],
)
def test_change_since_the_start_of_a_vmi_is_named(
    change: t.Callable[[t.Any], None], named: tuple[str, ...]
) -> None:
    assert changed_since_start(change) == named


def test_placement_and_what_kubevirt_fills_in_are_no_pending_changes() -> None:
    def change(spec: t.Any) -> None:
        spec["runStrategy"] = "RerunOnFailure"
        spec["instancetype"]["revisionName"] = "db-small-v1beta1-41c3ae12-1"
        spec["template"]["spec"]["topologySpreadConstraints"] = SPREAD
        spec["template"]["spec"]["affinity"] = {"nodeAffinity": {}}
        spec["template"]["metadata"]["labels"]["placement.virt/group"] = "a"

    assert changed_since_start(change) == ()


def test_live_update_that_the_vmi_has_is_no_pending_change() -> None:
    def change(template: t.Any) -> None:
        template["spec"]["domain"]["cpu"]["sockets"] = 4
        template["metadata"]["labels"]["team"] = "a"
        template["metadata"]["annotations"]["descheduler.alpha.kubernetes.io/evict"] = ""

    assert changed_since_start(lambda spec: change(spec["template"]), change) == ()


@pytest.mark.parametrize("name", [1, 1.5, True, None, [1], {}, {"a": "b"}])
def test_name_in_a_controller_revision_that_is_no_text_names_the_whole_list(name: t.Any) -> None:
    started = copy.deepcopy(STARTED)
    started["template"]["spec"]["volumes"][0]["name"] = name

    def change(spec: t.Any) -> None:
        spec["template"]["spec"]["volumes"].pop()

    assert changed_since_start(change, started=started) == ("volumes",)


@pytest.mark.parametrize(
    ("placement", "rollout_strategy", "explained"),
    [
        ({}, "LiveUpdate", False),
        ({"affinity": AFFINITY}, "LiveUpdate", False),
        ({"topologySpreadConstraints": SPREAD}, "LiveUpdate", True),
        ({}, "Stage", False),
        ({"affinity": AFFINITY}, "Stage", True),
    ],
)
def test_restart_required_that_placement_does_not_explain_is_a_change_of_others(
    placement: dict[str, t.Any], rollout_strategy: str, explained: bool
) -> None:
    required = [{"type": "RestartRequired", "status": "True"}]

    changes = changed_since_start(
        lambda spec: spec["template"]["spec"].update(placement),
        conditions=required,
        rollout_strategy=rollout_strategy,
    )

    unexplained = ("what the condition RestartRequired stands for",)
    assert changes == (() if explained else unexplained)


def test_tolerations_wait_for_a_restart_before_kubevirt_1_4() -> None:
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    workload, instance = machine({"tolerations": tolerations}), running()
    gate = {"developerConfiguration": {"featureGates": ["VMLiveUpdateFeatures"]}}
    old = Platform(kubevirt="v1.3.1", rollout_strategy="LiveUpdate", configuration=gate)

    assert effect(workload, instance).methods[0] is Method.MIGRATE
    assert effect(workload, instance, platform=old).methods == (Method.RESTART,)


def test_pool_owns_no_vmi_itself() -> None:
    """It makes VirtualMachines: a VMI that names it as its owner is none of KubeVirt's."""
    made = cluster("ab")
    ref = pool(made, "web", ["n1"])
    owner = {"kind": ref.kind, "name": ref.name, "uid": "u", "controller": True}
    made.machines["web-0"]["metadata"]["ownerReferences"] = [owner]
    (found,) = declared_instances(made.snapshot())
    assert (found.ways.owner, found.can_migrate) == (None, False)
    assert str(found.move_options().obstacle) == "its VirtualMachine was not read"
