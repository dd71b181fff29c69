# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout, step by step in this process, on a real control plane. The audit log is the witness."""

from __future__ import annotations

import datetime
import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info, rules
from sandbox import Sandbox, drain, node_faults, objects
from sandbox.fault_proxy import Rule, delay, sigkill
from tests.conftest import error_messages
from tests.shop import PATIENCE, ZONE, Object, Shop
from tests.terms import keep_machines_apart, pair_on_one_node
from tests.volumes import bound_claim, delete_volumes
from tests.witness import fewest_available, watching

OTHERS = ("w2", "w3", "w4", "w5", "w6")
SLOW = {"sandbox.virt/migration-seconds": "8"}


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "rollout"), run_module)
    for node in six.api.list("/api/v1/nodes"):
        if node["spec"].get("unschedulable"):
            drain.uncordon(six, node["metadata"]["name"])


def cordon_others(shop: Shop) -> None:
    for node in OTHERS:
        drain.cordon(shop.sandbox, node)


def three_in_one_zone(shop: Shop, faults: Object | None = None) -> list[str]:
    names = ["a0", "a1", "a2"]
    machines = [objects.virtual_machine(name, shop.namespace, annotations=faults) for name in names]
    shop.start(*machines, nodes=shop.nodes_of("zone1"))
    return names


def migrations_since(shop: Shop, mark: t.Any) -> list[tuple[datetime.datetime, datetime.datetime]]:
    """When each was asked for and when it ended, in the order of the asking. Ends are in whole
    seconds, never later than they were."""
    kind = "virtualmachineinstancemigrations"
    asked = sorted(w.time for w in shop.sandbox.audit.writes(since=mark) if w.resource == kind)
    made = shop.ended_migrations()
    made.sort(key=lambda migration: str(migration["metadata"]["creationTimestamp"]))
    ends = [migration["status"]["migrationState"]["endTimestamp"] for migration in made]
    times = [datetime.datetime.fromisoformat(end.replace("Z", "+00:00")) for end in ends]
    return list(zip(asked, times, strict=True))


@pytest.mark.tour
def test_three_vms_in_one_zone_are_spread_over_zones_by_migrations(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    before = shop.uids()
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    assert shop.uids() == before
    migrations = [("create", "virtualmachineinstancemigrations")]
    assert shop.disruptions(mark) == migrations * 2
    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]
    assert result["changed"] is True

    mark = shop.sandbox.audit.mark()
    again = shop.roll()

    assert again["changed"] is False
    assert again["moves"] == []
    assert shop.sandbox.audit.writes(since=mark) == []


def test_never_two_of_a_group_are_in_flight(shop: Shop) -> None:
    keep_machines_apart(shop, three_in_one_zone(shop, SLOW))
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]
    (first, ended), (second, _end) = migrations_since(shop, mark)
    assert ended - first >= datetime.timedelta(seconds=3), "too short to measure"
    assert second >= ended


def test_two_groups_move_side_by_side(shop: Shop) -> None:
    groups = (["p0", "p1"], ["q0", "q1"])
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=SLOW)
        for group in groups
        for name in group
    ]
    shop.start(*machines, nodes=["w1"])
    for group in groups:
        keep_machines_apart(shop, group)
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert sorted(move["name"][0] for move in result["moves"]) == ["p", "q"]
    (_first, ended), (second, _end) = migrations_since(shop, mark)
    assert second < ended


def test_vms_apart_by_zone_still_migrate_within_their_zone(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    shop.roll()
    zones = {name: shop.zone(node) for name, node in shop.nodes().items()}
    before = shop.nodes()

    for name in names:
        migration = objects.migration(name, shop.namespace, name=f"again-{name}")
        shop.api.create(shop.path("VirtualMachineInstanceMigration"), migration)
        path = shop.path("VirtualMachineInstanceMigration", f"again-{name}")
        shop.api.wait(lambda seen: seen["status"]["phase"] == "Succeeded", path)

    after = shop.nodes()
    assert all(after[name] != before[name] for name in names)
    assert {name: shop.zone(node) for name, node in after.items()} == zones


@pytest.mark.tour
def test_check_mode_names_the_moves_and_makes_none(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()

    planned = shop.roll(check=True)

    assert planned["changed"] is True
    assert shop.sandbox.audit.writes(since=mark) == []
    made = shop.roll()
    assert sorted(m["method"] for m in planned["moves"]) == ["migrate", "migrate"]
    assert sorted(m["uid"] for m in planned["moves"]) == sorted(m["uid"] for m in made["moves"])
    assert planned["moves"][1]["after"] == [planned["moves"][0]["uid"]]


@pytest.mark.tour
def test_approved_plan_is_made_exactly_or_refused_before_the_first_write(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    plan = shop.roll(check=True)["plan"]
    first, second = plan["moves"]

    def refused(change: str) -> None:
        mark = shop.sandbox.audit.mark()
        result = shop.roll(plan=plan)
        assert change in result["msg"], result["msg"]
        assert result["moves"] == []
        assert shop.sandbox.audit.writes(since=mark) == []

    drain.cordon(shop.sandbox, first["to_node"])
    refused(f"{first['to_node']} is cordoned")
    drain.uncordon(shop.sandbox, first["to_node"])

    shop.start(objects.virtual_machine("b0", shop.namespace), nodes=[first["from_node"]])
    before = shop.nodes()
    made = shop.roll(plan=plan)
    assert not made.get("failed"), made.get("msg")
    assert {move["uid"] for move in made["moves"]} == {first["uid"], second["uid"]}
    after = shop.nodes()
    assert {name for name in after if after[name] != before[name]} == {
        first["name"],
        second["name"],
    }
    again = shop.roll(plan=plan)
    assert (again["moves"], again["changed"]) == ([], False)


def test_vms_migrate_to_the_nodes_of_a_map_and_back_to_a_saved_placement(shop: Shop) -> None:
    shop.start(
        *(objects.virtual_machine(x, shop.namespace) for x in ("sap1", "sap2")), nodes=["w1"]
    )
    before = {f"{shop.namespace}/{name}": node for name, node in shop.nodes().items()}
    sap1, sap2 = before
    asked = {sap1: "w3", sap2: "w5", f"{shop.namespace}/sap3": "w4"}
    uids = shop.uids()
    mark = shop.sandbox.audit.mark()

    planned = shop.roll(check=True, namespaces=None, places=asked)
    assert [(move["from_node"], move["to_node"]) for move in planned["moves"]] == [
        ("w1", "w3"),
        ("w1", "w5"),
    ]
    assert [x["state"] for x in planned["places"]] == ["planned", "planned", "not_moved"]
    assert shop.sandbox.audit.writes(since=mark) == []
    made = shop.roll(namespaces=None, plan=planned["plan"])
    assert not made.get("failed"), made.get("msg")
    assert (shop.nodes(), shop.uids()) == ({"sap1": "w3", "sap2": "w5"}, uids)

    keep_machines_apart(shop, ["sap1", "sap2"])
    mark = shop.sandbox.audit.mark()
    refused = shop.roll(namespaces=None, places={sap1: "w6", sap2: "w5"})
    (skipped,) = refused["skipped_instances"]
    assert "not possible on w6: node(s) didn't match pod anti-affinity rules" in skipped["reason"]
    assert shop.sandbox.audit.writes(since=mark) == []

    back = shop.roll(namespaces=None, places={sap1: "w1", sap2: "w3"})
    assert not back.get("failed"), back.get("msg")
    assert shop.nodes() == {"sap1": "w1", "sap2": "w3"}
    mark = shop.sandbox.audit.mark()
    again = shop.roll(namespaces=None, places={sap1: "w1", sap2: "w3"})
    assert (again["moves"], again["changed"]) == ([], False)
    assert shop.sandbox.audit.writes(since=mark) == []


def test_vm_that_cannot_migrate_is_skipped_with_the_reason(shop: Shop) -> None:
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in ("b0", "b1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["b0", "b1"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert not result.get("failed")
    assert shop.sandbox.audit.writes(since=mark) == []
    assert {left["name"] for left in result["skipped_instances"]} == {"b0", "b1"}
    assert "DisksNotLiveMigratable" in result["skipped_instances"][0]["reason"]
    assert "a move needs restart" in result["skipped_instances"][0]["reason"]
    skipped_lines = [line for line in result["progress"] if " is skipped: " in line]
    assert len(skipped_lines) == 2 and all("a move needs restart" in line for line in skipped_lines)


def test_vm_that_foreign_node_term_lets_past_its_rule_is_skipped_with_reason(
    shop: Shop, run_module: t.Any
) -> None:
    shop.start(objects.virtual_machine("b0", shop.namespace), nodes=["w1"])
    zone = shop.zone("w1")
    other = next(name for name in ("zone1", "zone2", "zone3") if name != zone)
    rule = {"name": "on", "workloads": [{"names": ["b0"]}], "run_on": {"zone": other}}
    written = run_module(
        rules.main,
        {
            "kubeconfig": str(shop.sandbox.kubeconfig("mover")),
            "namespace": shop.namespace,
            "rules": [rule],
        },
    )
    assert written["changed"], written
    template = shop.api.get(shop.path("VirtualMachine", "b0"))["spec"]["template"]["spec"]
    affinity = template["affinity"]["nodeAffinity"]
    (required,) = affinity.values()
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    required["nodeSelectorTerms"].append({"matchExpressions": [expression]})
    shop.patch_template("VirtualMachine", "b0", {"affinity": {"nodeAffinity": affinity}})
    mark = shop.sandbox.audit.mark()

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert result["moves"] == []
    (skipped,) = result["skipped_instances"]
    assert skipped["name"] == "b0"
    assert f"rule {shop.namespace}/default/on" in skipped["reason"]
    assert "write the rules again" in skipped["reason"]
    assert shop.disruptions(mark) == []


def test_vm_with_rule_in_each_of_its_own_node_terms_is_moved_into_the_zone_of_the_rule(
    shop: Shop, run_module: t.Any
) -> None:
    zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2", "zone3"]}
    linux = {"key": "kubernetes.io/os", "operator": "Exists"}
    terms = [{"matchExpressions": [part]} for part in (zones, linux)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    machine = objects.virtual_machine("b0", shop.namespace)
    machine["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    shop.start(machine, nodes=["w1"])
    other = next(zone for zone in ("zone1", "zone2", "zone3") if zone != shop.zone("w1"))
    rule = {"name": "on", "workloads": [{"names": ["b0"]}], "run_on": {"zone": other}}
    mover = str(shop.sandbox.kubeconfig("mover"))
    written = run_module(
        rules.main, {"kubeconfig": mover, "namespace": shop.namespace, "rules": [rule]}
    )
    assert written["changed"], written

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert result["skipped_instances"] == []
    assert [(move["name"], move["state"]) for move in result["moves"]] == [("b0", "moved")]
    assert shop.zones() == [other]


@pytest.mark.tour
def test_a_restart_moves_what_cannot_migrate_where_it_is_allowed(shop: Shop) -> None:
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in ("b0", "b1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["b0", "b1"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert shop.disruptions(mark) == [("update", "virtualmachines/restart")]
    assert len(set(shop.zones())) == 2


def test_restart_does_not_apply_what_others_took_out_of_the_template(shop: Shop) -> None:
    """A lacking disk, grace period and label show in nothing that the VMI has: only in what it was started
    from."""
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in ("b0", "b1")
    ]
    for vm in machines:
        vm["spec"]["template"]["metadata"].setdefault("labels", {})["team"] = "blue"
        spec = vm["spec"]["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = 17
        spec["domain"]["devices"]["disks"].append({"name": "scratch", "disk": {"bus": "virtio"}})
        spec["volumes"].append({"name": "scratch", "emptyDisk": {"capacity": "1Gi"}})
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["b0", "b1"])
    for name in ("b0", "b1"):
        spec = shop.api.get(shop.path("VirtualMachine", name))["spec"]["template"]["spec"]
        less: Object = {
            "domain": {"devices": {"disks": spec["domain"]["devices"]["disks"][:-1]}},
            "volumes": spec["volumes"][:-1],
            "terminationGracePeriodSeconds": None,
        }
        shop.patch_template("VirtualMachine", name, less)
        labels = {"spec": {"template": {"metadata": {"labels": {"team": None}}}}}
        shop.api.patch(shop.path("VirtualMachine", name), labels)
    uids, mark = shop.uids(), shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert (result["moves"], shop.uids(), shop.disruptions(mark)) == ([], uids, [])
    assert len(result["skipped_instances"]) == 2
    for skipped in result["skipped_instances"]:
        assert (
            "other pending changes (domain.devices.disks[scratch], terminationGracePeriodSeconds,"
            " volumes[scratch], label team)" in (skipped["reason"])
        )

    result = shop.roll(allow=["restart"], apply_pending_changes=True)
    assert [move["state"] for move in result["moves"]] == ["moved"]


def test_restart_does_not_apply_staged_annotations_and_labels(shop: Shop) -> None:
    """virt-controller sets RestartRequired for none of them, and the VMI of a restart has them all."""
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    names = ["b0", "b1"]
    vms = [
        objects.virtual_machine(name, shop.namespace, annotations={**stuck, "backup": "daily"})
        for name in names
    ]
    shop.start(*vms, nodes=["w1"])
    keep_machines_apart(shop, names)
    staged = {"annotations": {KEPT: "true", "backup": None}, "labels": {"team": "blue"}}
    for name in names:
        path = shop.path("VirtualMachine", name)
        shop.api.patch(path, {"spec": {"template": {"metadata": staged}}})
    uids, mark = shop.uids(), shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert (result["moves"], shop.uids(), shop.disruptions(mark)) == ([], uids, []), result
    named = f"(label team, annotation backup, annotation {KEPT})"
    assert [named in x["reason"] for x in result["skipped_instances"]] == [True, True], result
    assert not any(map(requires_restart, shop.api.list(shop.path("VirtualMachine"))))

    (move,) = shop.roll(allow=["restart"], apply_pending_changes=True)["moves"]
    vmi = shop.api.get(shop.path("VirtualMachineInstance", move["name"]))
    assert vmi["metadata"]["annotations"][KEPT] == "true"
    assert vmi["metadata"]["labels"]["team"] == "blue"
    assert "backup" not in vmi["metadata"]["annotations"]


KEPT = "kubevirt.io/keep-launcher-alive-after-failure"


def test_restart_does_not_apply_an_exchanged_instance_type_or_preference(shop: Shop) -> None:
    """`revised` names the revision of its instance type that another VM got after a change of the type. `returned`
    had another type for a while, and has the changed one since."""
    create_types(shop, "Instancetype", slow=TYPE, fast={**TYPE, "ioThreadsPolicy": "shared"})
    create_types(
        shop, "Preference", tablet={}, fixed={"devices": {"preferredDisableHotplug": True}}
    )
    vms = {name: typed_vm(shop, name) for name in ("typed", "preferring", "revised", "returned")}
    vms["preferring"]["spec"]["preference"] = {"kind": f"{KIND}Preference", "name": "tablet"}
    shop.start(*vms.values(), nodes=["w1"])
    keep_machines_apart(shop, list(vms))
    paths = {name: shop.path("VirtualMachine", name) for name in (*vms, "donor")}
    shop.api.patch(types(shop, "Instancetype", "slow"), {"spec": {"ioThreadsPolicy": "shared"}})
    shop.api.create(shop.path("VirtualMachine"), typed_vm(shop, "donor", "Halted"))
    donor = shop.api.wait(revision_of, paths["donor"])
    revised = {"instancetype": {"revisionName": revision_of(donor)}}
    for name, spec in (
        ("typed", {"instancetype": {"name": "fast"}}),
        ("preferring", {"preference": {"name": "fixed"}}),
        ("revised", revised),
    ):
        shop.api.patch(paths[name], {"spec": spec})
    shop.api.patch(paths["returned"], {"spec": {"instancetype": {"name": "fast"}}})
    shop.api.wait(lambda vm: "-fast-" in revision_of(vm), paths["returned"])
    shop.api.patch(paths["returned"], {"spec": {"instancetype": {"name": "slow"}}})
    shop.api.wait(lambda vm: "-slow-" in revision_of(vm), paths["returned"])
    shop.api.wait(requires_restart, paths["returned"])
    shop.api.wait(requires_restart, paths["typed"])
    shop.api.wait(lambda vm: revision_of(vm) == revision_of(donor), paths["revised"])
    uids, mark = shop.uids(), shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert (result["moves"], shop.uids(), shop.disruptions(mark)) == ([], uids, []), result
    reasons = {x["name"]: x["reason"] for x in result["skipped_instances"]}
    assert "other pending changes (instancetype)" in reasons["typed"]
    assert "other pending changes (preference)" in reasons["preferring"]
    assert "other pending changes (instancetype.revisionName)" in reasons["revised"]
    assert "other pending changes (instancetype.revisionName)" in reasons["returned"]


def test_restart_required_by_another_change_is_not_applied(shop: Shop) -> None:
    """virt-controller sets it where the template names the eviction strategy that the VMI has from the cluster.
    The affinity of the rule, the only other change, needs no restart."""
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    names = ["b0", "b1"]
    vms = [objects.virtual_machine(name, shop.namespace, annotations=stuck) for name in names]
    shop.start(*vms, nodes=["w1"])
    keep_machines_apart(shop, names)
    for name in names:
        shop.patch_template("VirtualMachine", name, {"evictionStrategy": "LiveMigrate"})
        shop.api.wait(requires_restart, shop.path("VirtualMachine", name))
    uids, mark = shop.uids(), shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart"])

    assert (result["moves"], shop.uids(), shop.disruptions(mark)) == ([], uids, []), result
    for skipped in result["skipped_instances"]:
        assert "what the condition RestartRequired stands for" in skipped["reason"]
    assert len(result["skipped_instances"]) == 2


KIND = "VirtualMachine"
TYPE: Object = {"cpu": {"guest": 1}, "memory": {"guest": "1Gi"}}


def typed_vm(shop: Shop, name: str, run_strategy: str = "Always") -> Object:
    """A VM of the instance type `slow` that cannot migrate."""
    stuck = {"sandbox.virt/not-migratable": "DisksNotLiveMigratable"}
    vm = objects.virtual_machine(name, shop.namespace, annotations=stuck, run_strategy=run_strategy)
    vm["spec"]["instancetype"] = {"kind": f"{KIND}Instancetype", "name": "slow"}
    del vm["spec"]["template"]["spec"]["domain"]["resources"]
    return vm


def types(shop: Shop, kind: str, name: str = "") -> str:
    """The path of instance types or preferences, or of one."""
    group = f"/apis/instancetype.kubevirt.io/v1beta1/namespaces/{shop.namespace}"
    return f"{group}/{KIND.lower()}{kind.lower()}s/{name}".rstrip("/")


def create_types(shop: Shop, kind: str, **specs: Object) -> None:
    for name, spec in specs.items():
        made = {"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": f"{KIND}{kind}"}
        shop.api.create(types(shop, kind), {**made, "metadata": {"name": name}, "spec": spec})


def revision_of(vm: Object) -> str:
    """The ControllerRevision with the instance type of a VM, once virt-controller has stored it."""
    reference = (vm.get("status") or {}).get("instancetypeRef") or {}
    return str((reference.get("controllerRevisionRef") or {}).get("name") or "")


def requires_restart(vm: Object) -> bool:
    conditions = vm["status"].get("conditions") or ()
    return any(x["type"] == "RestartRequired" and x["status"] == "True" for x in conditions)


def test_vms_with_the_label_do_not_move_are_skipped_with_a_warning_or_a_failure(shop: Shop) -> None:
    names = pair_on_one_node(shop)
    label = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
    for name in names:
        shop.api.patch(shop.path("VirtualMachine", name), label)
    mark = shop.sandbox.audit.mark()

    result = shop.roll()
    refused = shop.roll(fail_on_skipped=True)

    assert not result.get("failed"), result.get("msg")
    assert {skipped["name"] for skipped in result["skipped_instances"]} == set(names)
    for skipped in result["skipped_instances"]:
        assert "its workload has the label placement.virt/do-not-move" in skipped["reason"]
    (warning,) = result["warnings"]
    assert "2 instances still violate a rule: VirtualMachine" in str(warning)
    assert "do-not-move" not in str(warning), "the lines have the reasons"
    assert sum("do-not-move" in line for line in result["progress"]) == 2
    assert refused["failed"]
    assert refused["msg"].startswith("2 instances were skipped (fail_on_skipped): VirtualMachine")
    assert "warnings" not in refused
    assert "do-not-move" not in refused["msg"]
    assert sum("do-not-move" in line for line in refused["progress"]) == 2
    assert shop.sandbox.audit.writes(since=mark) == []


def test_vms_on_a_node_that_is_not_ready_are_skipped_with_the_state_of_the_node(shop: Shop) -> None:
    names = pair_on_one_node(shop)
    node_faults.node_down(shop.api, "w1")
    mark = shop.sandbox.audit.mark()
    try:
        shop.api.wait(lambda node: "unreachable" in str(node["spec"]), "/api/v1/nodes/w1")
        result = shop.roll()
    finally:
        node_faults.node_up(shop.api, "w1")

    assert not result.get("failed"), result.get("msg")
    assert result["moves"] == []
    assert {skipped["name"] for skipped in result["skipped_instances"]} == set(names)
    for skipped in result["skipped_instances"]:
        assert "its node w1 is NotReady" in skipped["reason"]
    assert shop.disruptions(mark) == []


def test_halted_vms_stay_halted(shop: Shop) -> None:
    halted = objects.virtual_machine("h0", shop.namespace, run_strategy="Halted")
    shop.api.create(shop.api.collection_of(halted), halted)
    keep_machines_apart(shop, ["h0"])
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart", "recreate"], scope="all")

    assert result["moves"] == []
    assert shop.sandbox.audit.writes(since=mark) == []
    assert shop.api.get(shop.path("VirtualMachine", "h0"))["spec"]["runStrategy"] == "Halted"


def test_once_is_not_restarted(shop: Shop) -> None:
    annotations = {"sandbox.virt/not-migratable": "HostDeviceNotLiveMigratable"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=annotations, run_strategy="Once")
        for name in ("o0", "o1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["o0", "o1"])

    result = shop.roll(allow=["migrate", "restart"])

    assert result["moves"] == []
    assert "run strategy Once is not restarted" in result["skipped_instances"][0]["reason"]


def test_failed_migration_fails_the_run_with_the_reason(shop: Shop) -> None:
    failing = {"sandbox.virt/migration-fails": "1"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=failing) for name in ("f0", "f1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["f0", "f1"])

    result = shop.roll()

    assert result["failed"]
    (move,) = result["moves"]
    assert result["msg"].startswith(
        "1 move failed, and failures_allowed is 0: migrate of VirtualMachine"
        f" {shop.namespace}/{move['name']}: {move['reason']}."
    )
    assert [move["state"] for move in result["moves"]] == ["failed"]
    assert result["moves"][0]["reason"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_all_failed_moves_are_named_whenever_they_failed(shop: Shop) -> None:
    """One fails at once, the other a step later."""
    pairs = {("f0", "f1"): "1", ("g0", "g1"): "7"}
    failing = {"sandbox.virt/migration-fails": "1"}
    machines = [
        objects.virtual_machine(
            name, shop.namespace, annotations={**failing, "sandbox.virt/migration-seconds": seconds}
        )
        for names, seconds in pairs.items()
        for name in names
    ]
    shop.start(*machines, nodes=["w1"])
    for names in pairs:
        keep_machines_apart(shop, names)

    result = shop.roll()

    assert [move["state"] for move in result["moves"]] == ["failed", "failed"], result["progress"]
    assert result["msg"].startswith("2 moves failed, and failures_allowed is 0: ")
    for move in result["moves"]:
        named = f"migrate of VirtualMachine {shop.namespace}/{move['name']}: {move['reason']}"
        assert named in result["msg"]


def test_lease_of_a_running_run_is_not_taken(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    with shop.another_run("r-other"):
        mark = shop.sandbox.audit.mark()
        result = shop.roll()
        writes = shop.sandbox.audit.writes(since=mark)

    assert result["failed"]
    assert "is held by run r-other, which is running" in result["msg"]
    assert writes == []


def test_run_that_does_not_renew_its_lease_is_taken_over(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    shop.hold_lease("r-dead")

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert any("waiting up to" in line and "r-dead" in line for line in result["progress"])
    assert shop.zones() == ["zone1", "zone2", "zone3"]


def test_scope_not_enforced_moves_vms_that_are_placed_correctly(shop: Shop) -> None:
    machine = objects.virtual_machine("c0", shop.namespace)
    shop.start(machine)
    keep_machines_apart(shop, ["c0"])

    assert shop.roll()["moves"] == []
    assert [m["state"] for m in shop.roll(scope="not_enforced")["moves"]] == ["moved"]
    assert shop.roll(scope="not_enforced")["moves"] == []


def test_max_moves_returns_the_rest(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)

    result = shop.roll(max_moves=1)

    assert len(result["moves"]) == 1
    assert len(result["deferred"]) == 1
    assert result["stop_reason"] == "max_moves (1) is reached"
    assert not result.get("failed")
    assert len(shop.roll(max_moves=1)["moves"]) == 1
    assert shop.zones() == ["zone1", "zone2", "zone3"]


def test_the_time_is_over_names_what_is_left_and_cancels(shop: Shop) -> None:
    slow = {"sandbox.virt/migration-seconds": "60"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=slow) for name in ("s0", "s1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["s0", "s1"])

    result = shop.roll(run_timeout=20, move_timeout=20)

    assert result["failed"]
    assert "s0" in result["msg"] or "s1" in result["msg"]
    assert "could not be released" not in result["msg"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_timeout_of_all_modules_does_not_limit_a_rollout(shop: Shop) -> None:
    """As module_defaults of group/virt.placement.all set it."""
    slow = {"sandbox.virt/migration-seconds": "10"}
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=slow) for name in ("t0", "t1")
    ]
    shop.start(*machines, nodes=["w1"])
    keep_machines_apart(shop, ["t0", "t1"])

    result = shop.roll(timeout=6)

    assert not result.get("failed"), result.get("msg")
    states = [
        move["state"] for move in result["moves"] if move["namespace"] == shop.namespace
    ]  # a run of another namespace that ended early is taken over
    assert states == ["moved"], result["progress"]


def test_all_option_errors_are_reported_together_and_nothing_is_written(shop: Shop) -> None:
    mark = shop.sandbox.audit.mark()

    result = shop.roll(
        workloads=[{"kind": "VirtualMachine"}],
        max_unavailable=0,
        window={"start": "25:00", "end": "04:00", "days": []},
    )

    assert result["failed"]
    faults = "\n".join(error_messages(result))
    assert "workloads[0]" in faults
    assert "max_unavailable: must be at least 1" in faults
    assert "window.start: '25:00' is no time of day" in faults
    assert "window.days: must not be empty" in faults
    assert shop.sandbox.audit.writes(since=mark) == []


def test_unknown_workloads_and_namespaces_are_named(shop: Shop) -> None:
    result = shop.roll(workloads=[{"name": "nobody"}, {"name": "noone", "namespace": "nowhere"}])

    assert result["failed"]
    assert "there is no VirtualMachine 'nobody'" in result["msg"]
    assert "there is no namespace 'nowhere'" in result["msg"]


@pytest.mark.tour
def test_undo_after_a_rollout_restores_templates_and_verdicts(
    shop: Shop, run_module: t.Any
) -> None:
    """A rollout leaves the undo record: what violates the rules of before can be moved back."""
    names = three_in_one_zone(shop)

    def written(**options: t.Any) -> t.Any:
        params = {"kubeconfig": str(shop.sandbox.kubeconfig("mover")), "namespace": shop.namespace}
        result = run_module(rules.main, {**params, **options})
        assert not result.get("failed"), result.get("msg")
        return result

    def templates() -> dict[str, t.Any]:
        return {
            name: shop.api.get(shop.path("VirtualMachine", name))["spec"]["template"]
            for name in names
        }

    before = templates()
    apart = [{"name": "apart", "workloads": [{"names": names}], "keep_apart": "zone"}]
    for max_moves in (1, 0):  # a partial rollout, then a whole one
        written(rules=apart)
        rolled = shop.roll(max_moves=max_moves)
        assert not rolled.get("failed"), rolled.get("msg")
        assert len(rolled["moves"]) == 1
        assert all("placement.virt/undo" in shop.annotations(name) for name in names)

        undone = written(state="reverted")

        assert undone["counts"]["changed"] == 3
        assert templates() == before
        assert not any("placement.virt/rules" in shop.annotations(name) for name in names)
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    mark = shop.sandbox.audit.mark()
    assert written(state="reverted")["changed"] is False
    assert shop.roll()["moves"] == [], "nothing violates the rules of before"
    assert shop.sandbox.audit.writes(since=mark) == []


def test_cordon_causes_no_move(shop: Shop) -> None:
    machine = objects.virtual_machine("c0", shop.namespace)
    shop.start(machine, nodes=["w1"])
    drain.cordon(shop.sandbox, "w1")
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["migrate", "restart", "recreate"])

    assert result["moves"] == []
    assert result["skipped_instances"] == []
    assert shop.sandbox.audit.writes(since=mark) == []


def test_a_place_that_is_gone_before_the_move_begins_is_not_tried(shop: Shop) -> None:
    """The migration is not sent; the next look finds no node open."""
    names = pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()
    rule = Rule(
        "POST", "virtualmachineinstancemigrations", sigkill(lambda: cordon_others(shop)), nth=1
    )
    with shop.sandbox.fault_proxy([rule]) as proxy:
        result = shop.roll(kubeconfig=str(proxy.kubeconfig("mover")))

    assert not result.get("failed"), result.get("msg")
    assert result["moves"] == []
    assert {left["name"] for left in result["skipped_instances"]} == set(names)
    assert shop.disruptions(mark) == []


def test_unschedulable_target_is_canceled_soon_with_the_schedulers_message(
    shop: Shop,
) -> None:
    """The place is taken between the last look and the scheduler's."""
    pair_on_one_node(shop)
    rule = Rule("POST", "virtualmachineinstancemigrations", delay(seconds=3), nth=1)
    with (
        shop.sandbox.fault_proxy([rule]) as proxy,
        shop.meanwhile(
            until=lambda: any(seen.action == "delay" for seen in proxy.requests),
            do=lambda: cordon_others(shop),
        ),
    ):
        kubeconfig = str(proxy.kubeconfig("mover"))
        result = shop.roll(kubeconfig=kubeconfig, move_timeout=60)

    assert result["failed"]
    (move,) = result["moves"]
    assert move["state"] == "failed"
    assert "nodes are available" in move["reason"]
    assert move["seconds"] < 60, "its time was not over"


def test_several_workloads_by_name_leave_others_alone(shop: Shop) -> None:
    names = three_in_one_zone(shop)
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()

    result = shop.roll(workloads=[{"names": names[:1]}])

    assert {move["name"] for move in result["moves"]} == {names[0]}
    assert len(shop.disruptions(mark)) == 1


def test_max_unavailable_bounds_what_is_away(shop: Shop) -> None:
    made = objects.replica_set("web", shop.namespace, replicas=4)
    shop.start(made)
    spec = {"nodeSelector": {"kubernetes.io/os": "linux"}}
    for node in shop.api.list("/api/v1/nodes"):
        name = node["metadata"]["name"]
        labels = {"kubernetes.io/os": "linux"}
        shop.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    shop.patch_template("VirtualMachineInstanceReplicaSet", "web", spec)
    before = shop.uids()
    least = shop.fewest_ready(lambda: shop.roll(allow=["recreate"], scope="not_enforced"))

    assert len(before & shop.uids()) == 0
    assert least >= 3, f"only {least} of 4 were Ready at one time"


@pytest.mark.tour
def test_held_stateful_set_is_replaced_replica_by_replica(shop: Shop, run_module: t.Any) -> None:
    """No replica is replaced before a rollout may do that. One that may not leaves the hold to the next one."""
    db = objects.stateful_set("db", shop.namespace, replicas=3)
    shop.start(db, nodes=["w1", "w2"])
    path = shop.path("StatefulSet", "db")
    before = shop.api.get(path)
    mover = {"kubeconfig": str(shop.sandbox.kubeconfig("mover")), "namespace": shop.namespace}
    rule = {"name": "apart", "workloads": [{"kind": "StatefulSet", "name": "db"}]}
    options = {"rules": [rule | {"keep_apart": "zone"}], "workload_rollout": "hold"}
    pods = pods_by_name(shop)
    mark = shop.sandbox.audit.mark()

    written = run_module(rules.main, mover | options)
    may_not = shop.roll(fail_on_skipped=False)
    kept = pods_by_name(shop)
    held = shop.sandbox.audit.writes("mover", mark)
    result = shop.roll(allow=["recreate"])
    after = shop.api.get(path)
    replaced = pods_by_name(shop)
    disruptions = shop.disruptions(mark)
    end = shop.sandbox.audit.mark()
    again = shop.roll(allow=["recreate"])

    assert [each["takes_effect"] for each in written["workloads"]] == ["recreate"], written
    assert any("its own rollout is held by rules" in line for line in may_not["progress"])
    assert {name: pod["metadata"]["uid"] for name, pod in kept.items()} == {
        name: pod["metadata"]["uid"] for name, pod in pods.items()
    }
    assert "statefulsets" in {write.resource for write in held}
    assert not result.get("failed"), result.get("msg")
    assert {move["instance"] for move in result["moves"]} == {"db-0", "db-1", "db-2"}
    assert disruptions == [("create", "pods/eviction")] * 3
    assert any("its update strategy is RollingUpdate again" in x for x in result["progress"])
    zones = sorted(shop.zone(pod["spec"]["nodeName"]) for pod in replaced.values())
    assert zones == ["zone1", "zone2", "zone3"]
    assert after["spec"]["updateStrategy"] == before["spec"]["updateStrategy"]
    assert "placement.virt/hold" not in after["metadata"]["annotations"]
    assert (again["moves"], again["changed"]) == ([], False)
    assert shop.sandbox.audit.writes("mover", end) == []
    assert {pod["metadata"]["uid"] for pod in pods_by_name(shop).values()} == {
        pod["metadata"]["uid"] for pod in replaced.values()
    }, "the controller replaces nothing once it has its strategy back"


def test_held_stateful_set_is_replaced_where_the_disk_of_each_replica_is(
    shop: Shop, run_module: t.Any
) -> None:
    """Each replica goes to the node that the rule asks for in the zone of its disk, and one is down at a time. Where
    the rule leaves no node in a zone, its replica keeps running."""
    zones = {zone: sorted(shop.nodes_of(zone)) for zone in ("zone1", "zone2", "zone3")}
    db = objects.stateful_set("db", shop.namespace, replicas=3)
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"name": "data"}, "spec": {**claim, "storageClassName": ""}}
    db["spec"]["volumeClaimTemplates"] = [template]
    for number, zone in enumerate(zones):
        bound_claim(shop, f"data-db-{number}", zone)
    shop.start(db, nodes=[nodes[0] for nodes in zones.values()])
    wanted = {f"db-{n}": nodes[1] for n, nodes in enumerate(zones.values())}
    assert {n: p["spec"]["nodeName"] for n, p in pods_by_name(shop).items()} != wanted

    two, three = list(wanted.values())[:2], list(wanted.values())
    write_held(shop, run_module, disks_rule(two))
    planned = shop.roll(check=True, allow=["recreate"], fail_on_skipped=False)
    write_held(shop, run_module, disks_rule(three))
    mark = shop.sandbox.audit.mark()
    with watching(shop.sandbox, shop.namespace) as history:
        shop.roll(allow=["recreate"])
    end = shop.sandbox.audit.mark()
    again = shop.roll(allow=["recreate"])

    assert [x["instance"] for x in planned["skipped_instances"]] == ["db-2"]
    reason = planned["skipped_instances"][0]["reason"]
    assert "didn't match PersistentVolume's node affinity" in reason, reason
    assert {n: p["spec"]["nodeName"] for n, p in pods_by_name(shop).items()} == wanted
    assert fewest_available(history) == 2
    assert shop.disruptions(mark) == [("create", "pods/eviction")] * 3
    assert (
        "placement.virt/hold"
        not in shop.api.get(shop.path("StatefulSet", "db"))["metadata"]["annotations"]
    )
    assert (again["moves"], again["changed"]) == ([], False)
    assert shop.sandbox.audit.writes("mover", end) == []
    delete_volumes(shop)


def disks_rule(nodes: list[str]) -> Object:
    workloads = [{"kind": "StatefulSet", "name": "db"}]
    return {"name": "here", "workloads": workloads, "run_on": {"node": nodes}}


def keep_replicas_apart(shop: Shop, kind: str) -> Object:
    """Write a rule for `web`, whose controller replaces its pods at once."""
    rule = {"name": "apart", "workloads": [{"kind": kind, "name": "web"}], "keep_apart": "zone"}
    return shop.done(
        rules.main,
        "mover",
        namespace=shop.namespace,
        rules=[rule],
        workload_rollout="allow",
    )


@pytest.mark.parametrize(
    ("kind", "made"), [("Deployment", objects.deployment), ("StatefulSet", objects.stateful_set)]
)
def test_rollout_ends_when_controller_has_replaced_the_pods(
    shop: Shop, kind: str, made: t.Callable[..., Object]
) -> None:
    """What is judged right after it is how the rule is kept. No pod is evicted, and a second run writes nothing."""
    shop.start(made("web", shop.namespace, replicas=3), nodes=["w1", "w2"])
    shop.api.patch(shop.path(kind, "web"), {"spec": {"minReadySeconds": 8}})
    before = {pod["metadata"]["uid"] for pod in shop.api.list(shop.path("Pod"))}
    mark = shop.sandbox.audit.mark()

    keep_replicas_apart(shop, kind)
    result = shop.roll()
    judged = shop.done(placement_info.main, "reader", namespaces=[shop.namespace], details="all")
    pods = shop.api.list(shop.path("Pod"))
    end = shop.sandbox.audit.mark()
    again = shop.roll()

    assert not result.get("failed"), result.get("msg")
    waits = [line for line in result["progress"] if line.startswith("waiting: ")]
    assert any(f"{kind} {shop.namespace}/web replaces its pods: " in line for line in waits), (
        result["progress"]
    )
    assert (result["moves"], result["skipped_instances"]) == ([], [])
    summary = judged["summary"]
    assert (summary["violated"], summary["pending"], summary["unknown"]) == (0, 0, 0), summary
    running = {p["metadata"]["uid"]: p for p in pods if "deletionTimestamp" not in p["metadata"]}
    assert not before.intersection(running), "a pod of the template before"
    assert sorted(shop.zone(pod["spec"]["nodeName"]) for pod in running.values()) == [
        "zone1",
        "zone2",
        "zone3",
    ]
    assert shop.disruptions(mark) == []
    assert (again["moves"], again["changed"]) == ([], False)
    assert not any(line.startswith("waiting: ") for line in again["progress"])
    assert shop.sandbox.audit.writes("mover", end) == []


def wait_unschedulable(shop: Shop, number: int) -> None:
    """Until kube-scheduler has found no node for so many pods of the namespace."""

    def is_unschedulable(pod: Object) -> bool:
        conditions = pod.get("status", {}).get("conditions") or []
        return any((c["type"], c["status"]) == ("PodScheduled", "False") for c in conditions)

    shop.api.wait_list(
        shop.path("Pod"), lambda pods: sum(map(is_unschedulable, pods)) == number, PATIENCE
    )


def test_deployment_whose_new_pod_finds_no_node_is_named_when_the_time_is_over(shop: Shop) -> None:
    shop.start(objects.deployment("web", shop.namespace, replicas=3))
    shop.patch_template("Deployment", "web", {"nodeSelector": {"no-node-has": "this"}})
    wait_unschedulable(shop, 1)

    named = [{"kind": "Deployment", "name": "web"}]
    result = shop.roll(workloads=named, run_timeout=15)

    text = f"Deployment {shop.namespace}/web replaces its pods: 1 of 3"
    assert result["failed"]
    assert result["msg"].startswith("not done within 15 s (run_timeout). ")
    assert f"still going on: {text} (Pod {shop.namespace}/web-" in result["msg"]
    assert "is Pending: 0/6 nodes are available" in result["msg"]
    assert f"waiting: {text}" in result["progress"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


def test_rollout_ends_when_kubevirt_has_restarted_the_vms_of_a_pool(shop: Shop) -> None:
    """What is judged right after it is how the rule is kept. No VM is moved, and a second run writes nothing."""
    slow = {"sandbox.virt/shutdown-seconds": "20"}
    pool = objects.pool("web", shop.namespace, replicas=3, annotations=slow)
    shop.start(pool, nodes=["w1", "w2"])
    before = shop.uids()
    mark = shop.sandbox.audit.mark()

    keep_replicas_apart(shop, "VirtualMachinePool")
    result = shop.roll()
    judged = shop.done(placement_info.main, "reader", namespaces=[shop.namespace], details="all")
    instances = shop.instances()
    end = shop.sandbox.audit.mark()
    again = shop.roll()

    assert not result.get("failed"), result.get("msg")
    waits = [line for line in result["progress"] if line.startswith("waiting: ")]
    text = f"VirtualMachinePool {shop.namespace}/web "
    assert any(text in line for line in waits), result["progress"]
    assert (result["moves"], result["skipped_instances"]) == ([], [])
    summary = judged["summary"]
    assert (summary["violated"], summary["pending"], summary["unknown"]) == (0, 0, 0), summary
    assert [vmi["status"]["phase"] for vmi in instances.values()] == ["Running"] * 3
    assert not before.intersection(shop.uids()), "a VMI of the template before"
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    assert shop.disruptions(mark) == []
    assert (again["moves"], again["changed"]) == ([], False)
    assert not any(line.startswith("waiting: ") for line in again["progress"])
    assert shop.sandbox.audit.writes("mover", end) == []


def test_vm_of_a_pool_that_finds_no_node_is_named_when_the_time_is_over(shop: Shop) -> None:
    shop.start(objects.pool("web", shop.namespace, replicas=2))
    path = shop.path("VirtualMachinePool", "web")
    placement = {"nodeSelector": {"no-node-has": "this"}}
    template = {"spec": {"template": {"spec": placement}}}
    shop.api.patch(path, {"spec": {"virtualMachineTemplate": template}})
    wait_unschedulable(shop, 2)

    named = [{"kind": "VirtualMachinePool", "name": "web"}]
    result = shop.roll(workloads=named, run_timeout=15)

    text = (
        f"VirtualMachinePool {shop.namespace}/web restarts its VMs: 2 of 2, and 2 are not available"
    )
    assert result["failed"]
    assert result["msg"].startswith("not done within 15 s (run_timeout). ")
    assert f"still going on: {text} yet (Pod {shop.namespace}/virt-launcher-web-" in result["msg"]
    assert "is Pending: 0/6 nodes are available" in result["msg"]
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("kind", ["VirtualMachinePool", "StatefulSet"])
def test_workload_rollout_without_progress_is_a_warning_after_the_time_of_a_move(
    shop: Shop, kind: str
) -> None:
    """Of pods and VMs that are not replaced yet, those that violate a rule are skipped."""
    make = objects.pool if kind == "VirtualMachinePool" else objects.stateful_set
    web = make("web", shop.namespace, replicas=2)
    if kind == "VirtualMachinePool":
        web["spec"]["maxUnavailable"] = 1
    shop.start(web, nodes=["w1"])
    template: Object = {"template": {"spec": {"nodeSelector": {"no-node-has": "this"}}}}
    if kind == "VirtualMachinePool":
        template = {"virtualMachineTemplate": {"spec": template}}
    shop.api.patch(shop.path(kind, "web"), {"spec": template})
    wait_unschedulable(shop, 1)

    named = [{"kind": kind, "name": "web"}]
    result = shop.roll(workloads=named, move_timeout=6, fail_on_skipped=False)

    assert not result.get("failed"), result.get("msg")
    (warning,) = (str(x) for x in result["warnings"] if "does not go on" in str(x))
    assert "with its present template for 6 s (move_timeout). " in warning
    assert "is Pending: 0/6 nodes are available" in warning
    reasons = [x["reason"] for x in result["skipped_instances"]]
    assert any("the rollout of its workload is stuck" in reason for reason in reasons), reasons
    assert shop.lease_is_free()


REVISION = "kubevirt.io/vm-pool-revision-name"
POOL_RULE = {
    "name": "apart",
    "workloads": [{"kind": "VirtualMachinePool", "name": "web"}],
    "keep_apart": "zone",
}


def write_held(shop: Shop, run_module: t.Any, rule: Object) -> Object:
    mover = {"kubeconfig": str(shop.sandbox.kubeconfig("mover")), "namespace": shop.namespace}
    written: Object = run_module(rules.main, {**mover, "rules": [rule], "workload_rollout": "hold"})
    assert not written.get("failed"), written.get("msg")
    return written


def of_controllers(shop: Shop, mark: t.Any) -> list[tuple[str, str]]:
    """What anything but the collection has deleted."""
    resources = ("virtualmachineinstances", "virtualmachines")
    return [
        (event.user, event.resource)
        for event in shop.sandbox.audit.requests(since=mark)
        if event.verb == "delete" and event.resource in resources and not event.dry_run
    ]


def test_held_pool_is_moved_without_a_restart(shop: Shop, run_module: t.Any) -> None:
    """By default KubeVirt would delete all three VMIs. A run that may not move them leaves the hold to the next one."""
    web = objects.pool("web", shop.namespace, replicas=3)
    shop.start(web, nodes=["w1", "w2"])
    path = shop.path("VirtualMachinePool", "web")
    before, uids = shop.api.get(path), shop.uids()
    mark = shop.sandbox.audit.mark()

    written = write_held(shop, run_module, POOL_RULE)
    nothing = write_held(shop, run_module, POOL_RULE)
    result = shop.roll()
    after = shop.api.get(path)
    again = shop.roll()
    again_written = write_held(shop, run_module, {**POOL_RULE, "enabled": True})

    assert [each["takes_effect"] for each in written["workloads"]] == ["migration"], written
    assert nothing["writes"] == []
    assert not result.get("failed"), result.get("msg")
    assert not result.get("warnings")
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    assert any("its update strategy is proactive again" in x for x in result["progress"])
    assert "updateStrategy" not in after["spec"]
    assert "placement.virt/hold" not in after["metadata"]["annotations"]
    assert before["spec"]["selector"] == after["spec"]["selector"]
    assert (again["moves"], again["changed"], again_written["writes"]) == ([], False, [])
    assert shop.uids() == uids, "no VM has restarted"
    assert of_controllers(shop, mark) == []


@pytest.mark.sweep
@pytest.mark.parametrize("strategy", [None, {"proactive": {}}])
def test_held_pool_of_six_is_restarted_within_the_limit(
    shop: Shop, run_module: t.Any, strategy: Object | None
) -> None:
    """A spread constraint reaches no running VM: each restarts once. The pool does nothing for a minute afterwards."""
    web = objects.pool("web", shop.namespace, replicas=6)
    web["spec"] |= {} if strategy is None else {"updateStrategy": strategy}
    shop.start(web)
    path, uids = shop.path("VirtualMachinePool", "web"), shop.uids()
    rule = {**POOL_RULE, "spread": "zone"}
    del rule["keep_apart"]
    mark = shop.sandbox.audit.mark()
    written = write_held(shop, run_module, rule)
    results: list[Object] = []

    least = shop.fewest_ready(
        lambda: results.append(shop.roll(allow=["restart"], max_unavailable=2))
    )

    (result,) = results
    assert [each["takes_effect"] for each in written["workloads"]] == ["restart"], written
    assert not result.get("failed"), result.get("msg")
    assert least >= 4, f"only {least} of 6 were Ready at one time"
    restarts = [("update", "virtualmachines/restart")] * 6
    assert shop.disruptions(mark) == restarts, result["skipped_instances"]
    after = shop.api.get(path)
    assert after["spec"].get("updateStrategy") == strategy
    assert "placement.virt/hold" not in after["metadata"]["annotations"]
    restarted = shop.uids()
    assert not restarted & uids
    end = shop.sandbox.audit.mark()
    time.sleep(60)
    assert shop.uids() == restarted
    assert of_controllers(shop, end) == []


@pytest.mark.sweep
def test_next_run_continues_a_held_pool_whose_first_vmi_has_the_revision(
    shop: Shop, run_module: t.Any
) -> None:
    """As a run leaves it that is killed between two labels."""
    web = objects.pool("web", shop.namespace, replicas=3)
    shop.start(web, nodes=["w1", "w2"])
    uids, mark = shop.uids(), shop.sandbox.audit.mark()
    write_held(shop, run_module, POOL_RULE)
    first = sorted(shop.instances())[0]
    vm = shop.api.wait(
        lambda found: found["metadata"]["labels"][REVISION] != "web-1",
        shop.path("VirtualMachine", first),
    )
    revision = vm["metadata"]["labels"][REVISION]
    labels = {"metadata": {"labels": {REVISION: revision}}}
    shop.api.patch(shop.path("VirtualMachineInstance", first), labels)

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert any("own rollout is held by rules" in line for line in result["progress"])
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    time.sleep(15)
    assert shop.uids() == uids
    assert of_controllers(shop, mark) == []


def pods_by_name(shop: Shop) -> dict[str, Object]:
    return {pod["metadata"]["name"]: pod for pod in shop.api.list(shop.path("Pod"))}
