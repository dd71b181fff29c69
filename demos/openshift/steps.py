# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's three parts by the collection's playbooks, from one worker that all VMs share. In between, maintenance of
a worker: a pair that leaves and comes home, a worker that another operator holds, and drains that cannot end. A
console writes the terms of a rule again."""

from __future__ import annotations

import pathlib
import typing as t

import yaml

from demos import board
from demos.effort import Effort
from demos.stage import PlayResult, Stage, Step, beyond, check, proves, variables
from sandbox import drain

FOLDER = pathlib.Path(__file__).parent
NAMESPACE = "affinity"
CLUSTER = "openshift"
COLUMNS = {"ZONE": "zone"}
PUBLISHED = Effort(commands=9, ended=4, migrations=0)
"""A label, three edits of affinity, one of a template's labels, and four restarts."""

LEADER, FOLLOWER, LONER = VMS = ("node-affinity-vm", "pod-affinity-vm", "pod-anti-affinity-vm")
WEST, EAST = "worker-0", "worker-1"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MIGRATIONS = "virtualmachineinstancemigrations"
MARK = "placement.virt/maintenance"
VM_NAME = "vm.kubevirt.io/name"
DESIRED_DRAIN = "machineconfiguration.openshift.io/desiredDrain"
FEDORA = {
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["fedora"]}]},
    "topologyKey": "kubernetes.io/hostname",
}
"""The lab's term."""


def nodes(stage: Stage) -> dict[str, str]:
    """The node of each VM."""
    return {seat.workload: seat.node for seat in board.seats(stage.sandbox, NAMESPACE)}


def expect(stage: Stage, leader: str, follower: str, loner: str) -> None:
    expected = dict(zip(VMS, (leader, follower, loner), strict=True))
    stage.until(lambda: nodes(stage), expected, f"VMs on {leader}, {follower} and {loner}")


def vm(stage: Stage, name: str) -> dict[str, t.Any]:
    return stage.sandbox.api.get(stage.sandbox.api.path("VirtualMachine", NAMESPACE, name))


def affinity(stage: Stage, name: str) -> t.Any:
    return vm(stage, name)["spec"]["template"]["spec"].get("affinity")


def instance(stage: Stage, name: str) -> dict[str, t.Any]:
    return stage.sandbox.api.get(stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE, name))


def migrations(stage: Stage, since: t.Any) -> list[str]:
    """The VMs that the collection asked to be live-migrated after `since`, in this order."""
    return [migration["spec"]["vmiName"] for migration in _created_migrations(stage, since)]


def check_pair_moves(stage: Stage, since: t.Any) -> None:
    """Both VMs left EAST for WEST and came back, and in each direction the first VM had its target pod before the
    second one was asked to follow."""
    made = _created_migrations(stage, since)
    moves = [
        (
            each["spec"]["vmiName"],
            each["status"]["migrationState"]["sourceNode"],
            each["status"]["migrationState"]["targetNode"],
            each["status"]["phase"],
        )
        for each in made
    ]
    expected = [
        (name, source, target, "Succeeded")
        for source, target in ((EAST, WEST), (WEST, EAST))
        for name in (LEADER, FOLLOWER)
    ]
    check(moves == expected, f"away and home, the first VM first, none failed: {moves}")
    pods = {
        pod["metadata"]["labels"].get("kubevirt.io/migrationJobUID"): pod["metadata"]
        for pod in stage.sandbox.api.list(stage.sandbox.api.path("Pod", NAMESPACE))
    }
    for ahead, behind in zip(made[::2], made[1::2], strict=True):
        target = pods[ahead["metadata"]["uid"]]["creationTimestamp"]
        asked = behind["metadata"]["creationTimestamp"]
        check(target <= asked, f"the second VM was asked at {asked}, before {target}")


def apply(stage: Stage, rules: str) -> PlayResult:
    result = stage.play("apply", variables(FOLDER, rules), identity="mover")
    check((result.rc, result.changed > 0) == (0, True), f"apply ended with rc {result.rc}")
    return result


def not_enforced(result: PlayResult) -> list[str]:
    """What verify says of VMs that still run without a rule."""
    lines = (line.partition("] ")[2] for line in result.stdout.splitlines())
    return [line for line in lines if line.startswith("not_enforced: ")]


def start_all_on_one_worker(stage: Stage) -> None:
    """The worst start: all three VMs are on the worker that will not be in zone east."""
    stage.sandbox.api.apply(yaml.safe_load((FOLDER / "cluster.yml").read_text())["items"])
    manifest = yaml.safe_load((FOLDER / "vm.yml").read_text())
    drain.cordon(stage.sandbox, EAST)
    for name in VMS:
        stage.sandbox.api.apply({**manifest, "metadata": {**manifest["metadata"], "name": name}})
        stage.sandbox.api.put(f"{_subresources(name)}/start", {})
    expect(stage, WEST, WEST, WEST)
    drain.uncordon(stage.sandbox, EAST)


@beyond
@proves("AC-O6")
def refuse_a_drain_that_terms_prevent(stage: Stage) -> None:
    """Terms that are written by hand: the first two VMs need each other on one node, and the third needs a zone
    without itself, which its next pod does not find while both workers are in one zone. None of the three can be
    live-migrated. A drain of their worker is refused before the cordon, with each VM and its term."""
    for node in (WEST, EAST):
        label_node(stage, node, {board.ZONE: "one"})
    terms = {
        LEADER: ("podAffinity", FOLLOWER, "kubernetes.io/hostname"),
        FOLLOWER: ("podAffinity", LEADER, "kubernetes.io/hostname"),
        LONER: ("podAntiAffinity", LONER, board.ZONE),
    }
    for name, (kind, other, key) in terms.items():
        term = {"labelSelector": {"matchLabels": {VM_NAME: other}}, "topologyKey": key}
        write_by_hand(stage, name, {kind: {REQUIRED: [term]}})
    wanted = {"placement_maintenance_nodes": [WEST], "placement_maintenance_reason": "demo"}
    refused = f"no_place: 3 of 3 instances of node {WEST} would have no node: "
    result = stage.play_refused("maintenance", wanted, refused, identity="maintainer-mover")
    for name, (kind, other, key) in terms.items():
        rules = "affinity" if kind == "podAffinity" else "anti-affinity"
        term_text = f"({VM_NAME} In ({other}) over {'zone' if key == board.ZONE else 'node'})"
        text = f"node(s) didn't match pod {rules} rules {term_text}"
        of_vm = result.stdout.partition(f"{name}: 0/3 nodes")[2].partition("; ")[0]
        check(text in of_vm, f"the refusal does not say of {name}: {text}")
    for name in terms:
        write_by_hand(stage, name, None)
    for node in (WEST, EAST):
        label_node(stage, node, {board.ZONE: None})


@proves("AC-O4")
def write_a_preference_without_moving_anything(stage: Stage) -> None:
    """The other worker gets the label zone=east, and the first VM the preference of part 1. No VM moves: verify names
    what is not enforced yet."""
    stage.play_twice("topology", variables(FOLDER, "topology.yml"), identity="labeler")
    before = {seat.uid for seat in board.seats(stage.sandbox, NAMESPACE)}
    wanted = {**variables(FOLDER, "part_1_rules.yml"), "placement_apply_rollout": False}
    result = stage.play("apply", wanted, identity="mover")
    check((result.rc, result.changed > 0) == (0, True), f"apply ended with rc {result.rc}")
    waiting = not_enforced(result)
    check(len(waiting) == 1, f"one VM is placed without its rule: {waiting}")
    for text in (f"{NAMESPACE}/{LEADER}:", "In (east) is not met", "from the next migration"):
        check(text in waiting[0], f"verify does not say: {text} ({waiting[0]})")
    check({s.uid for s in board.seats(stage.sandbox, NAMESPACE)} == before, "a VM was restarted")
    expect(stage, WEST, WEST, WEST)


@beyond
def forecast_the_parts_from_the_last_one(stage: Stage) -> None:
    """The parts backwards. On two workers their order decides: before the first VM has moved, part 3 sends the third
    one to the worker that the first one prefers. Check mode says so, and writes nothing."""
    mark = stage.sandbox.audit.mark()
    wanted = variables(FOLDER, "parts_backwards_rules.yml")
    result = stage.play("apply", wanted, identity="mover", check=True)
    check(result.rc == 0, f"apply ended with rc {result.rc}")
    check("Moves: 1." in result.stdout, "not one move is forecast")
    moved = f"would migrate VirtualMachine {NAMESPACE}/{LONER} from {WEST} to {EAST}"
    check(moved in result.stdout, f"the forecast does not say: {moved}")
    check(not stage.sandbox.audit.writes(since=mark), "check mode wrote something")
    expect(stage, WEST, WEST, WEST)


@proves("AC-O1", "S6")
def prefer_zone_east(stage: Stage) -> None:
    """Part 1: the VM moves to zone east by one live migration, and the preference is enforced. The lab restarts it."""
    mark = stage.sandbox.audit.mark()
    result = apply(stage, "part_1_rules.yml")
    check(not not_enforced(result), "verify passes, with nothing left that is not enforced")
    expect(stage, EAST, WEST, WEST)
    check(migrations(stage, mark) == [LEADER], "exactly one live migration")
    preference = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
    preferred = [{"weight": 75, "preference": preference}]
    expected = {"nodeAffinity": {REQUIRED.replace("required", "preferred"): preferred}}
    check(affinity(stage, LEADER) == expected, f"the lab's JSON: {affinity(stage, LEADER)}")


@proves("AC-O2", "S7")
def follow_the_first_vm(stage: Stage) -> None:
    """Part 2: the label is on template, VMI and pod at once, without a restart, and the second VM follows by one live
    migration."""
    mark = stage.sandbox.audit.mark()
    apply(stage, "part_2_rules.yml")
    expect(stage, EAST, EAST, WEST)
    check(migrations(stage, mark) == [FOLLOWER], "exactly one live migration")
    expected = {"podAffinity": {REQUIRED: [FEDORA]}}
    check(affinity(stage, FOLLOWER) == expected, f"the lab's JSON: {affinity(stage, FOLLOWER)}")
    template = vm(stage, LEADER)["spec"]["template"]
    labelled = [template, instance(stage, LEADER), *_pods(stage, LEADER)]
    labels = [(each["metadata"].get("labels") or {}).get("app") for each in labelled]
    check(labels == ["fedora"] * 3, f"the label is on template, VMI and pod: {labels}")
    check("app" not in (vm(stage, LEADER)["metadata"].get("labels") or {}), "one level too high")


@beyond
@proves("AC-O5", "S9")
def drain_the_pair_and_bring_it_home(stage: Stage) -> None:
    """Maintenance of the pair's worker: both leave it for the other one by live migration, the first VM first, no
    migration fails, and once the worker is in service both return. A second run for the same change does nothing."""
    mark = stage.sandbox.audit.mark()
    wanted = {"placement_maintenance_nodes": [EAST], "placement_maintenance_reason": "demo"}
    wanted["placement_maintenance_change_id"] = "CHG-1"
    stage.play_twice("maintenance", wanted, identity="maintainer-mover")
    expect(stage, EAST, EAST, WEST)
    check_pair_moves(stage, mark)
    node = stage.sandbox.api.get(f"/api/v1/nodes/{EAST}")
    check(not node["spec"].get("unschedulable"), f"{EAST} is cordoned")


@beyond
def leave_a_worker_to_the_operator_that_drains_it(stage: Stage) -> None:
    """The third VM leaves its worker for a maintenance. Meanwhile the Machine Config Operator asks for a drain of that
    worker. So the maintenance ends without an uncordon, and names the operator, which is about to reboot it."""
    wanted = {
        "placement_maintenance_nodes": [WEST],
        "placement_maintenance_reason": "demo",
        "placement_maintenance_return_home": "none",
    }
    drained = {**wanted, "placement_maintenance_state": "drained"}
    result = stage.play("maintenance", drained, identity="maintainer-mover")
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    expect(stage, EAST, EAST, EAST)
    want_drain(stage, "drain-1f")
    back = {**wanted, "placement_maintenance_state": "in_service"}
    result = stage.play("maintenance", back, identity="maintainer-mover")
    check("the Machine Config Operator" in result.stdout, "the operator is not named")
    node = stage.sandbox.api.get(f"/api/v1/nodes/{WEST}")
    check(node["spec"].get("unschedulable"), f"{WEST} was uncordoned under the operator")
    check(MARK not in node["metadata"]["annotations"], f"the maintenance of {WEST} has not ended")
    want_drain(stage, "uncordon-1f")
    drain.uncordon(stage.sandbox, WEST)


@proves("AC-O3")
def keep_the_third_vm_away(stage: Stage) -> None:
    """Part 3: the third VM shares the worker of the first at first, and leaves it by one live migration. Restarts never
    bring it back."""
    mark = stage.sandbox.audit.mark()
    apply(stage, "part_3_rules.yml")
    expect(stage, EAST, EAST, WEST)
    check(migrations(stage, mark) == [LONER], "exactly one live migration")
    expected = {"podAntiAffinity": {REQUIRED: [FEDORA]}}
    check(affinity(stage, LONER) == expected, f"the lab's JSON: {affinity(stage, LONER)}")
    for _restart in range(3):
        restart(stage, LONER)
        expect(stage, EAST, EAST, WEST)


def apply_all_parts_again(stage: Stage) -> None:
    """A second run of all three parts changes nothing, with no write in the audit log."""
    mark = stage.sandbox.audit.mark()
    result = stage.play(str(FOLDER / "lab.yml"), {}, identity="mover")
    check((result.rc, result.changed) == (0, 0), f"rc {result.rc}, changed {result.changed}")
    writes = stage.sandbox.audit.writes(since=mark)
    check(not writes, f"the second run wrote: {writes}")
    expect(stage, EAST, EAST, WEST)


@proves("AC-O6", "S8")
def refuse_what_cannot_end(stage: Stage) -> None:
    """On two workers the first VM has no other node than that of the third: neither a drain of its worker nor its
    restart while that is cordoned can end. Both are refused with the VM and the cause, and nothing is written."""
    mark = stage.sandbox.audit.mark()
    wanted = {"placement_maintenance_nodes": [EAST], "placement_maintenance_reason": "demo"}
    texts = "no_place", LEADER, "anti-affinity"
    stage.play_refused("maintenance", wanted, *texts, identity="maintainer-mover")
    drain.cordon(stage.sandbox, EAST)
    restarted = {
        "placement_rollout_workloads": [{"namespace": NAMESPACE, "name": LEADER}],
        "placement_rollout_scope": "all",
        "placement_rollout_allow": ["restart"],
    }
    result = stage.play("rollout", restarted, identity="mover")
    check("didn't satisfy existing pods anti-affinity rules" in result.stdout, "no reason is given")
    drain.uncordon(stage.sandbox, EAST)
    writes = [e for e in stage.sandbox.audit.writes(since=mark) if e.resource != "leases"]
    check(not writes, f"something was written: {writes}")
    expect(stage, EAST, EAST, WEST)


@beyond
def put_back_what_a_console_drops(stage: Stage) -> None:
    """A rule with `mismatchLabelKeys`, which the form of OpenShift's console does not know. The console writes the
    affinity again without it; the next run replaces that term, without any option, and nothing is left beside it."""
    rules = variables(FOLDER, "console_rules.yml")
    before = affinity(stage, LONER)
    apply(stage, "console_rules.yml")
    written = affinity(stage, LONER)
    terms = written["podAntiAffinity"][REQUIRED]
    (own,) = (term for term in terms if term not in before["podAntiAffinity"][REQUIRED])
    check(own.get("mismatchLabelKeys"), f"the rule's term has mismatchLabelKeys: {own}")
    save_by_console(stage, LONER)
    check(affinity(stage, LONER) != written, "the console drops mismatchLabelKeys")
    stage.play_twice("apply", rules, identity="mover")
    check(affinity(stage, LONER) == written, f"the rule's own term: {affinity(stage, LONER)}")
    expect(stage, EAST, EAST, WEST)


def write_by_hand(stage: Stage, name: str, terms: dict[str, t.Any] | None) -> None:
    """The affinity of a VM, as by the console; its VMI gets it without a restart."""
    path = stage.sandbox.api.path("VirtualMachine", NAMESPACE, name)
    stage.sandbox.api.patch(path, {"spec": {"template": {"spec": {"affinity": terms}}}})
    stage.until(
        lambda: instance(stage, name)["spec"].get("affinity"), terms, f"{name} has that affinity"
    )


def label_node(stage: Stage, node: str, labels: dict[str, str | None]) -> None:
    stage.sandbox.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})


def want_drain(stage: Stage, wanted: str) -> None:
    """As the Machine Config Operator asks for a drain or an uncordon of the worker."""
    body = {"metadata": {"annotations": {DESIRED_DRAIN: wanted}}}
    stage.sandbox.api.patch(f"/api/v1/nodes/{WEST}", body)


def save_by_console(stage: Stage, name: str) -> None:
    """The affinity dialog of OpenShift's console keeps matchExpressions and the topologyKey of a pod term (openshift/
    kubevirt-plugin, src/utils/components/AffinityModal)."""
    saved = affinity(stage, name)
    for term in saved["podAntiAffinity"][REQUIRED]:
        expressions = term["labelSelector"].get("matchExpressions") or []
        key = term["topologyKey"]
        term.clear()
        term.update(labelSelector={"matchExpressions": expressions}, topologyKey=key)
    body = {"spec": {"template": {"spec": {"affinity": saved}}}}
    stage.sandbox.api.patch(stage.sandbox.api.path("VirtualMachine", NAMESPACE, name), body)


def restart(stage: Stage, name: str) -> None:
    """By hand, as the lab does it."""
    before = instance(stage, name)["metadata"]["uid"]
    stage.sandbox.api.put(f"{_subresources(name)}/restart", {})
    stage.sandbox.api.wait(
        lambda vmi: vmi["metadata"]["uid"] != before and vmi["status"]["phase"] == "Running",
        stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE, name),
        timeout=60,
    )


def _created_migrations(stage: Stage, since: t.Any) -> list[dict[str, t.Any]]:
    """What the collection created after `since`, in this order, as it is now."""
    path = stage.sandbox.api.path("VirtualMachineInstanceMigration", NAMESPACE)
    by_name = {each["metadata"]["name"]: each for each in stage.sandbox.api.list(path)}
    return [
        by_name[event.name]
        for event in stage.sandbox.audit.writes(since=since)
        if event.resource == MIGRATIONS and event.verb == "create"
    ]


def _subresources(name: str) -> str:
    group = f"/apis/subresources.kubevirt.io/v1/namespaces/{NAMESPACE}"
    return f"{group}/virtualmachines/{name}"


def _pods(stage: Stage, name: str) -> list[dict[str, t.Any]]:
    """The running pods of a VM."""
    path = stage.sandbox.api.path("Pod", NAMESPACE)
    pods = stage.sandbox.api.list(path, labelSelector=f"vm.kubevirt.io/name={name}")
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


STEPS: tuple[Step, ...] = (
    start_all_on_one_worker,
    refuse_a_drain_that_terms_prevent,
    write_a_preference_without_moving_anything,
    forecast_the_parts_from_the_last_one,
    prefer_zone_east,
    follow_the_first_vm,
    drain_the_pair_and_bring_it_home,
    leave_a_worker_to_the_operator_that_drains_it,
    keep_the_third_vm_away,
    apply_all_parts_again,
    refuse_what_cannot_end,
    put_back_what_a_console_drops,
)
