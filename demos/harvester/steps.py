# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pool of guest-cluster VMs, one a host: the rule of the published recording, which does nothing, and one that works;
soft and hard while a host is cordoned; what Harvester's webhook writes; two pools and a Deployment in one rule; its
maintenance mode."""

from __future__ import annotations

import contextlib
import pathlib
import re
import typing as t

from demos import board
from demos.effort import Effort
from demos.harvester import maintenance_mode, webhook
from demos.stage import PlayResult, Stage, Step, beyond, check, proves, variables
from sandbox import Sandbox, drain, objects
from sandbox.definitions import Definition, define

FOLDER = pathlib.Path(__file__).parent
MAINTENANCE, MAINTAINER = str(FOLDER / "maintenance.yml"), "maintainer-mover"
NAMESPACE = "default"
CLUSTER = "harvester"
COLUMNS = {"ZONE": board.ZONE}
PUBLISHED = Effort(commands=8, ended=3, migrations=0)
"""Three labels of hosts, a pool that is created, a host cordoned, the pool created anew; two looks at VMs and nodes."""

HOSTS = ["node1", "node2", "node3"]
POOL = ["guest-pool1-1", "guest-pool1-2", "guest-pool1-3"]
LABEL = {"harvesterhci.io/machineSetName": "default-guest-pool1"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SOFT = {
    "weight": 1,
    "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": LABEL},
    },
}
"""What the node driver writes (docker-machine-driver-harvester 0.6.6 and later)."""
NETWORK = Definition(
    "k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition"
)
VLAN = "vlan1"
NETWORKS = {f"{NAMESPACE}/{VLAN}": "mgmt"}
OWN: list[dict[str, t.Any]] = [
    {"key": key, "operator": "In", "values": ["true"]}
    for key in ("network.harvesterhci.io/mgmt", "cpumanager")
]
"""What Harvester's webhook adds for a VLAN and for dedicated CPUs."""
ROUTER, BALANCER = "router", "balancer"
OTHERS = ["guest-pool2-1", "guest-pool3-1"]
"""A VM of each of two more pools."""


@contextlib.contextmanager
def beside(sandbox: Sandbox) -> t.Iterator[None]:
    """Harvester's webhook and its maintenance mode."""
    with webhook.answering(sandbox, NETWORKS), maintenance_mode.watching(sandbox):
        yield


def create_pool(stage: Stage, labels: dict[str, str], affinity: t.Any) -> None:
    """The VMs of a pool, as the node driver creates them."""
    for name in POOL:
        placement = {"affinity": affinity, "terminationGracePeriodSeconds": 0}
        made = objects.virtual_machine(name, NAMESPACE, labels=labels, placement=placement)
        made["metadata"]["labels"] = labels
        stage.sandbox.api.apply(made)


def delete_vms(stage: Stage, *names: str) -> None:
    api = stage.sandbox.api
    for name in names:
        api.delete(api.path("VirtualMachine", NAMESPACE, name))
    for name in names:
        api.wait_gone(api.path("VirtualMachineInstance", NAMESPACE, name), 60)
        api.wait_gone(api.path("VirtualMachine", NAMESPACE, name), 60)


def nodes(stage: Stage) -> list[str]:
    """The nodes of the pool's VMs that run."""
    seats = board.seats(stage.sandbox, NAMESPACE)
    return sorted(seat.node for seat in seats if seat.workload in POOL)


def vm(stage: Stage, name: str) -> dict[str, t.Any]:
    return stage.sandbox.api.get(stage.sandbox.api.path("VirtualMachine", NAMESPACE, name))


def template(stage: Stage, name: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", vm(stage, name)["spec"]["template"])


def instance(stage: Stage, name: str) -> dict[str, t.Any]:
    return stage.sandbox.api.get(stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE, name))


def check_label(manifest: dict[str, t.Any]) -> None:
    """The label of the pool is there."""
    labels = manifest["metadata"].get("labels") or {}
    check(LABEL.items() <= labels.items(), f"the label of the pool is missing: {labels}")


def pending(stage: Stage) -> list[str]:
    return board.without_node(stage.sandbox, NAMESPACE)


def label_the_hosts(stage: Stage) -> None:
    """A zone for each host."""
    stage.play_twice("topology", variables(FOLDER, "topology.yml"), identity="labeler")


@proves("AC-H1", "AC-H4", "S4")
def find_the_rule_that_does_nothing(stage: Stage) -> None:
    """The recording's rule requires one VM a zone, but has no selector, so that it selects no pod. The VMs spread by
    the driver's soft term alone. verify fails and names the rule; nothing is written. The rule with a selector takes
    its place; the driver's term, its label on VMs and templates, and all VMs stay as they are."""
    dead = {"topologyKey": board.ZONE}
    create_pool(stage, LABEL, {"podAntiAffinity": {REQUIRED: [dead], PREFERRED: [SOFT]}})
    stage.until(lambda: nodes(stage), HOSTS, "one VM a host, by the soft term")
    mark = stage.sandbox.audit.mark()
    wanted = {"placement_verify_namespaces": [NAMESPACE]}
    wanted |= {"placement_verify_fail_on": ["violated", "pending", "error_finding"]}
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc != 0, "verify passed")
    check("selector_matches_nothing" in result.stdout, "the finding is missing")
    check(not stage.sandbox.audit.writes(since=mark), "something was written")

    before = board.seats(stage.sandbox, NAMESPACE)
    stage.play_twice("apply", variables(FOLDER, "hard_rules.yml"), identity="mover")
    ((key, value),) = LABEL.items()
    selector = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    for name in POOL:
        terms = template(stage, name)["spec"]["affinity"]["podAntiAffinity"]
        check([each["labelSelector"] for each in terms[REQUIRED]] == [selector], f"{name}: {terms}")
        check(terms[PREFERRED] == [SOFT], f"the driver's term alone: {terms[PREFERRED]}")
        for labelled in (vm(stage, name), template(stage, name), instance(stage, name)):
            check_label(labelled)
    check(board.seats(stage.sandbox, NAMESPACE) == before, "a VM moved, or was restarted")
    check(nodes(stage) == HOSTS, "one VM a host")


@proves("AC-H1", "S1")
def spread_a_pool_of_an_older_driver(stage: Stage) -> None:
    """The worst start: no label, no rule, all on one host. The label and the driver's exact term are written, and two
    live migrations put one VM on each host. A second run writes nothing."""
    delete_vms(stage, *POOL)
    for node in HOSTS[1:]:
        drain.cordon(stage.sandbox, node)
    create_pool(stage, {}, None)
    stage.until(lambda: nodes(stage), HOSTS[:1] * 3, "all VMs on node1")
    for node in HOSTS[1:]:
        drain.uncordon(stage.sandbox, node)
    mark = stage.sandbox.audit.mark()
    stage.play_twice("apply", variables(FOLDER, "pool_rules.yml"), identity="mover")
    stage.until(lambda: nodes(stage), HOSTS, "one VM a host")
    moved = live_migrations(stage, mark)
    check(len(moved) == 2, f"two live migrations ({len(moved)})")
    for name in POOL:
        written = template(stage, name)
        check(written["spec"]["affinity"] == {"podAntiAffinity": {PREFERRED: [SOFT]}}, f"{written}")
        check_label(written)
        check_label(instance(stage, name))


@proves("AC-H2", "S2")
def create_the_pool_anew_beside_a_cordoned_host(stage: Stage) -> None:
    """Soft: no VM on the cordoned host, none Pending. verify names what is not met, and passes."""
    delete_vms(stage, *POOL)
    drain.cordon(stage.sandbox, "node2")
    create_pool(stage, LABEL, {"podAntiAffinity": {PREFERRED: [SOFT]}})
    stage.until(lambda: len(nodes(stage)), 3, "three VMs run")
    check(set(nodes(stage)) == {"node1", "node3"}, f"none on node2: {nodes(stage)}")
    check(not pending(stage), "none is Pending")
    wanted = {"placement_verify_namespaces": [NAMESPACE]}
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc == 0, f"verify ended with rc {result.rc}")
    check("preference_not_met" in result.stdout, "verify does not name what is not met")
    missed = "2 instances on nodes that do not meet a preferred rule"
    check(missed in result.stdout, "verify does not count the two that share a host")


@proves("AC-H3", "S3")
def require_a_zone_that_is_not_there(stage: Stage) -> None:
    """Hard: refused before the write, with the zone that is missing. A pool that is created with the rule has exactly
    one VM Pending, verify fails and names it; once the host is in service it starts."""
    texts = "need 3 different zones", "Cordoned: node2 (zone zone2)"
    stage.play_refused("apply", variables(FOLDER, "hard_rules.yml"), *texts, identity="mover")

    delete_vms(stage, *POOL)
    hard = {"topologyKey": board.ZONE, "labelSelector": {"matchLabels": LABEL}}
    hard["mismatchLabelKeys"] = ["kubevirt.io/created-by"]
    create_pool(stage, LABEL, {"podAntiAffinity": {REQUIRED: [hard]}})
    stage.until(lambda: len(nodes(stage)), 2, "two VMs run")
    stage.until(lambda: len(pending(stage)), 1, "exactly one is Pending")
    wanted = {"placement_verify_namespaces": [NAMESPACE]}
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc != 0, "verify passed")
    check("1 node(s) were unschedulable" in result.stdout, "verify does not name the cause")
    missing = re.search(r"zone2 +node2 \(cordoned\)", result.stdout)
    check(missing, "verify does not show the zone that is missing")
    drain.uncordon(stage.sandbox, "node2")
    stage.until(lambda: nodes(stage), HOSTS, "the third VM starts on node2")


@beyond
@proves("AC-H5", "S5")
def keep_what_the_webhook_writes(stage: Stage) -> None:
    """A VM on a VLAN with dedicated CPUs: Harvester's expressions for both stay beside ours, in one term. In the same
    run two more pools and a Deployment, which share a host, get one rule, and each has a host of its own: by one live
    migration, and the rollout of the Deployment. A second run writes nothing."""
    drain.cordon(stage.sandbox, HOSTS[1])
    create_router(stage)
    drain.cordon(stage.sandbox, HOSTS[2])
    create_guests(stage)
    for node in HOSTS[1:]:
        drain.uncordon(stage.sandbox, node)
    mark = stage.sandbox.audit.mark()
    stage.play_twice("apply", variables(FOLDER, "guests_rules.yml"), identity="mover")
    written = template(stage, ROUTER)["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    (term,) = written["nodeSelectorTerms"]
    zones = {"key": board.ZONE, "operator": "In", "values": ["zone1", "zone3"]}
    expressions = sorted(term["matchExpressions"], key=lambda each: str(each["key"]))
    expected = sorted([*OWN, zones], key=lambda each: str(each["key"]))
    check(expressions == expected, f"all three expressions, each once: {expressions}")
    stage.until(lambda: sorted(guests(stage).values()), HOSTS, "pools and Deployment one a host")
    check(len(live_migrations(stage, mark)) == 1, "one live migration")


def create_router(stage: Stage) -> None:
    """A VM on a VLAN with dedicated CPUs, as Harvester's webhook leaves it."""
    _create_network(stage)
    made = objects.virtual_machine(ROUTER, NAMESPACE, cpu="1")
    spec = made["spec"]["template"]["spec"]
    spec["domain"]["cpu"] = {"cores": 1, "dedicatedCpuPlacement": True}
    spec["domain"]["devices"]["interfaces"].append({"name": VLAN, "bridge": {}})
    spec["networks"].append({"name": VLAN, "multus": {"networkName": f"{NAMESPACE}/{VLAN}"}})
    stage.sandbox.api.apply(made)
    before = template(stage, ROUTER)["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    check(before == {"nodeSelectorTerms": [{"matchExpressions": OWN}]}, f"Harvester's: {before}")
    wait_running(stage, ROUTER)


def create_guests(stage: Stage) -> None:
    """A VM of each of two more pools, and a Deployment."""
    for name, pool in zip(OTHERS, ("default-guest-pool2", "default-guest-pool3"), strict=True):
        labels = dict.fromkeys(LABEL, pool)
        stage.sandbox.api.apply(objects.virtual_machine(name, NAMESPACE, labels=labels))
    stage.sandbox.api.apply(objects.deployment(BALANCER, NAMESPACE, replicas=1))
    shared = dict.fromkeys((*OTHERS, BALANCER), HOSTS[0])
    stage.until(lambda: guests(stage), shared, "pools and Deployment share a host")


def guests(stage: Stage) -> dict[str, str]:
    """The nodes of the other pools' VMs and of the Deployment."""
    seats = board.seats(stage.sandbox, NAMESPACE)
    return {seat.workload: seat.node for seat in seats if seat.workload in (*OTHERS, BALANCER)}


def wait_running(stage: Stage, name: str) -> None:
    stage.sandbox.api.wait(
        lambda vmi: vmi["status"].get("phase") == "Running",
        stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE, name),
        timeout=60,
    )


def live_migrations(stage: Stage, since: t.Any) -> list[str]:
    return [
        event.name
        for event in stage.sandbox.audit.writes(since=since)
        if event.verb == "create" and event.resource == "virtualmachineinstancemigrations"
    ]


@beyond
def find_what_the_webhook_takes_back(stage: Stage) -> None:
    """A term that has only matchFields is dropped by Harvester's webhook. The write fails with that finding. So does a
    second run, which writes nothing: the write is not made again at each run for ever."""
    before = template(stage, POOL[0])["spec"]["affinity"]
    wanted = {**variables(FOLDER, "fields_rules.yml"), "placement_apply_forecast": False}
    for run in ("first", "second"):
        mark = stage.sandbox.audit.mark()
        result = stage.play("apply", wanted, identity="mover")
        check(result.rc != 0, f"{run} run: a rule without effect was accepted")
        check("changed_by_webhook" in result.stdout, f"{run} run: the finding is missing")
    check(not stage.sandbox.audit.writes(since=mark), "the second run wrote something")
    check(template(stage, POOL[0])["spec"]["affinity"] == before, "the affinity is as it was")


def of_host(stage: Stage, host: str) -> dict[str, str]:
    """A maintenance of a host. Harvester is asked by its administrator, by kubernetes.core."""
    return {"host": host, "harvester_kubeconfig": str(stage.sandbox.kubeconfig("admin"))}


def maintain(stage: Stage, host: str) -> PlayResult:
    return stage.play(MAINTENANCE, of_host(stage, host), identity=MAINTAINER)


@proves("AC-H6")
def refuse_the_maintenance_of_a_pinned_vm(stage: Stage) -> None:
    """A VM that is pinned to its host: the maintenance is refused with its name, and no cordon is left behind."""
    pinned = {"nodeSelector": {"kubernetes.io/hostname": "node1"}}
    stage.sandbox.api.apply(objects.virtual_machine("pinned", NAMESPACE, placement=pinned))
    wait_running(stage, "pinned")
    stage.play_refused(MAINTENANCE, of_host(stage, "node1"), "pinned", identity=MAINTAINER)
    node = stage.sandbox.api.get("/api/v1/nodes/node1")
    check(not node["spec"].get("unschedulable"), "node1 is cordoned")
    requested = (node["metadata"].get("annotations") or {}).get(maintenance_mode.REQUESTED)
    check(not requested, "Harvester was asked all the same")


@beyond
def use_the_maintenance_mode_behind_the_checks(stage: Stage) -> None:
    """Harvester's own maintenance mode, after the same checks. With a hard rule three VMs need three hosts, so those
    are gone; the pool with the soft one leaves the host by live migration. A second run changes nothing."""
    delete_vms(stage, *POOL, *OTHERS)
    stage.sandbox.api.delete(stage.sandbox.api.path("Deployment", NAMESPACE, BALANCER))
    stage.until(lambda: guests(stage), {}, "the other pools and the Deployment are gone")
    create_pool(stage, LABEL, {"podAntiAffinity": {PREFERRED: [SOFT]}})
    stage.until(lambda: nodes(stage), HOSTS, "one VM a host")
    uids = {seat.uid for seat in board.seats(stage.sandbox, NAMESPACE)}
    result = maintain(stage, "node3")
    check(result.rc == 0, f"the playbook maintenance ended with rc {result.rc}")
    stage.until(lambda: len(nodes(stage)), 3, "all VMs of the pool run")
    check("node3" not in nodes(stage), "no VM is left on node3")
    after = {seat.uid for seat in board.seats(stage.sandbox, NAMESPACE)}
    check(after == uids, "a VM was restarted")
    mark = stage.sandbox.audit.mark()
    again = maintain(stage, "node3")
    check((again.rc, again.changed) == (0, 0), f"the second run changed {again.changed} task(s)")
    written = [*stage.sandbox.audit.writes("admin", mark), *stage.sandbox.audit.writes(since=mark)]
    check(not written, f"the second run wrote: {written}")


def _create_network(stage: Stage) -> None:
    """The definition of the kind, and a VLAN of the cluster network mgmt."""
    define(stage.sandbox.api, NETWORK)
    labels = {"network.harvesterhci.io/clusternetwork": "mgmt"}
    made = {
        "apiVersion": f"{NETWORK.group}/{NETWORK.version}",
        "kind": NETWORK.kind,
        "metadata": {"name": VLAN, "labels": labels},
        "spec": {"config": "{}"},
    }
    stage.sandbox.api.create(NETWORK.collection(NAMESPACE), made)


STEPS: tuple[Step, ...] = (
    label_the_hosts,
    find_the_rule_that_does_nothing,
    spread_a_pool_of_an_older_driver,
    create_the_pool_anew_beside_a_cordoned_host,
    require_a_zone_that_is_not_there,
    keep_what_the_webhook_writes,
    find_what_the_webhook_takes_back,
    refuse_the_maintenance_of_a_pinned_vm,
    use_the_maintenance_mode_behind_the_checks,
)
