# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replicas on different ESXi hosts: labels from Cluster API's objects, the published constraint without a selector, a
rule that works, one replica a host, a drain, a vMotion, and a host that only the control plane has."""

from __future__ import annotations

import collections
import contextlib
import pathlib
import re
import typing as t

import yaml

from demos import board
from demos.effort import Effort
from demos.stage import PlayResult, Stage, Step, beyond, check, proves, variables
from demos.tkg import management
from sandbox import Sandbox, drain

FOLDER = pathlib.Path(__file__).parent
NAMESPACE = "default"
CLUSTER = "tkg"
HOST = "node.cluster.x-k8s.io/esxi-host"
COLUMNS = {"ESXI HOST": HOST}
PUBLISHED = Effort(commands=5, ended=0, migrations=0)
"""The variable that enables it, the pod of a controller, machines, nodes, and a Deployment. What a vMotion or a drain
breaks stays so."""

IPV6 = "fd00::3"
HOSTS = {
    "shop-cp-1": "esx-1",
    "shop-cp-2": "esx-1",
    "shop-cp-3": "esx-2",
    "shop-md-0-1": "esx-1",
    "shop-md-0-2": "esx-1",
    "shop-md-0-3": "esx-2",
    "shop-md-0-4": "esx-2",
    "shop-md-0-5": IPV6,
}
"""The host of each node's VM, at first."""
LABELS = {node: "fd00--3.ipv6-literal" if host == IPV6 else host for node, host in HOSTS.items()}
FIRST, LAST = "shop-md-0-1", "shop-md-0-5"
DATABASE, PUBLISHED_APP = "database", "published"
REVISION = "pod-template-hash"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
RECREATED = {
    "placement_rollout_namespaces": [NAMESPACE],
    "placement_rollout_allow": ["recreate"],
    "placement_rollout_topology_keys": {"esx": HOST},
}
_managements: dict[Sandbox, Sandbox] = {}
"""The management cluster of each workload cluster that runs."""


@contextlib.contextmanager
def beside(sandbox: Sandbox) -> t.Iterator[None]:
    """The management cluster."""
    with Sandbox.start("management") as other:
        _managements[sandbox] = other
        yield
        del _managements[sandbox]


def management_of(stage: Stage) -> Sandbox:
    """The management cluster beside the workload cluster."""
    return _managements[stage.sandbox]


def play_hosts(stage: Stage, *, check_mode: bool = False) -> PlayResult:
    """The playbook that reads the management cluster, labels nodes of the workload cluster, and moves what has to."""
    kubeconfig = management_of(stage).kubeconfig("capi-reader")
    wanted = {"management_kubeconfig": str(kubeconfig)}
    playbook, identity = str(FOLDER / "hosts.yml"), "labeler-mover"
    return stage.play(playbook, wanted, identity=identity, check=check_mode)


def follow_hosts(stage: Stage, *, check_mode: bool = False) -> PlayResult:
    result = play_hosts(stage, check_mode=check_mode)
    check(result.rc == 0, f"the playbook hosts ended with rc {result.rc}")
    return result


def labels(stage: Stage) -> dict[str, str]:
    nodes = stage.sandbox.api.list("/api/v1/nodes")
    found = {node["metadata"]["name"]: node["metadata"]["labels"].get(HOST, "") for node in nodes}
    return t.cast("dict[str, str]", found)


def hosts(stage: Stage, workload: str = "web") -> list[int]:
    """How many replicas each host has, the most first."""
    known = labels(stage)
    nodes = board.nodes_of(stage.sandbox, NAMESPACE, workload)
    counts = collections.Counter(known[node] for node in nodes if node)
    return sorted((counts[host] for host in set(known.values())), reverse=True)


def expect(stage: Stage, *counts: int, workload: str = "web") -> None:
    text = f"replicas of {workload} a host: {'/'.join(map(str, counts))}"
    stage.until(lambda: hosts(stage, workload), list(counts), text)


def expect_pending(stage: Stage, *counts: int, workload: str) -> None:
    """So many replicas a host, and exactly one more without a node."""
    expect(stage, *counts, workload=workload)
    waiting = board.without_node(stage.sandbox, NAMESPACE)
    check([x.rpartition("-")[0].rpartition("-")[0] for x in waiting] == [workload], f"{waiting}")


def create_deployment(stage: Stage, name: str, replicas: int, **placement: t.Any) -> None:
    """One like `web`, with another placement."""
    made = yaml.safe_load((FOLDER / "web.yml").read_text())
    template, labels = made["spec"]["template"], {"app": name}
    made["metadata"]["name"] = name
    made["spec"] |= {"replicas": replicas, "selector": {"matchLabels": labels}}
    template["metadata"]["labels"] = labels
    del template["spec"]["topologySpreadConstraints"]
    template["spec"] |= placement
    stage.sandbox.api.apply(made)


def scale(stage: Stage, name: str, replicas: int) -> None:
    path = stage.sandbox.api.path("Deployment", NAMESPACE, name)
    stage.sandbox.api.patch(path, {"spec": {"replicas": replicas}})


@proves("AC-T1", "AC-T2", "AC-T3", "S12", "S13")
def label_nodes_with_their_hosts(stage: Stage) -> None:
    """The nodes have no label of a host. It comes from the VM of each node's Machine, in the management cluster; one
    host is known by its IPv6 address. Two control-plane nodes share a host, since node anti-affinity is off: the
    variable that enables it is named. Once it is on, the group without a cluster module is named. A second run changes
    nothing."""
    other = management_of(stage)
    management.create(other, HOSTS)
    check(set(labels(stage).values()) == {""}, "no node has the label")
    result = follow_hosts(stage)
    check(labels(stage) == LABELS, f"each node has the host of its VM: {labels(stage)}")
    for text in ("nodes_share_host", "shop-cp-1, shop-cp-2 on esx-1", "EXP_NODE_ANTI_AFFINITY"):
        check(text in result.stdout, f"the playbook does not say: {text}")
    for row in ("esx-1 +shop-md-0-1, shop-md-0-2", "esx-2 +shop-md-0-3, shop-md-0-4"):
        check(re.search(row, result.stdout), f"the table of hosts has no row: {row}")
    check("node anti-affinity: disabled" in result.stdout, "it is off")

    management.enable_anti_affinity(other)
    mark = stage.sandbox.audit.mark()
    again = follow_hosts(stage)
    check("node anti-affinity: enabled" in again.stdout, "it is on")
    named = "without a cluster module: MachineDeployment shop-md-0"
    check(named in again.stdout, "the group without a cluster module is not named")
    check(again.changed == 0, f"the second run changed {again.changed} task(s)")
    check(not stage.sandbox.audit.writes(since=mark), "the second run wrote something")


def find_the_constraint_without_a_selector(stage: Stage) -> None:
    """The worst start: three replicas on one node, with the published constraint. Its selector is left out, so that it
    counts no pod. verify fails and names it; nothing is written."""
    workers = [node for node in HOSTS if "-md-" in node]
    for node in workers[1:]:
        drain.cordon(stage.sandbox, node)
    stage.sandbox.api.apply(yaml.safe_load((FOLDER / "web.yml").read_text()))
    expect(stage, 3, 0, 0)
    for node in workers[1:]:
        drain.uncordon(stage.sandbox, node)
    mark = stage.sandbox.audit.mark()
    wanted = {
        "placement_verify_namespaces": [NAMESPACE],
        "placement_verify_fail_on": ["violated", "pending", "error_finding"],
    }
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc != 0, "verify passed")
    check("selector_matches_nothing" in result.stdout, "the finding is missing")
    check(not stage.sandbox.audit.writes(since=mark), "something was written")


@proves("AC-T4", "S14")
def spread_over_hosts(stage: Stage) -> None:
    """The rule takes the place of that constraint: one replica a host. Four replicas are 2/1/1, six are 2/2/2: a spread
    limits the difference and not the number. What a return to three leaves skewed, rollout repairs."""
    stage.play_twice("apply", variables(FOLDER, "spread_rules.yml"), identity="mover")
    expect(stage, 1, 1, 1)
    deployment = stage.sandbox.api.path("Deployment", NAMESPACE, "web")
    spec = stage.sandbox.api.get(deployment)["spec"]["template"]["spec"]
    (constraint,) = spec["topologySpreadConstraints"]
    check(constraint["labelSelector"], f"one constraint, with a selector: {constraint}")
    for replicas, counts in ((4, (2, 1, 1)), (6, (2, 2, 2))):
        scale(stage, "web", replicas)
        expect(stage, *counts)
    scale(stage, "web", 3)
    stage.until(lambda: sum(hosts(stage)), 3, "three replicas are left, wherever they are")
    stage.play_twice("rollout", RECREATED, identity="mover")
    expect(stage, 1, 1, 1)


@beyond
@proves("S14")
def require_a_host_of_its_own_for_each_replica(stage: Stage) -> None:
    """The text says that its constraint limits one replica a host. The rule that does is refused before the write for
    four replicas on three hosts. With the same term written by hand three run, one a host, and exactly one is
    Pending."""
    create_deployment(stage, DATABASE, 4)
    stage.until(lambda: sum(hosts(stage, DATABASE)), 4, "four replicas run")
    texts = "4 pods", "only 3 ("
    stage.play_refused("apply", variables(FOLDER, "apart_rules.yml"), *texts, identity="mover")

    selector = {"matchLabels": {"app": DATABASE}}
    hard = {"topologyKey": HOST, "labelSelector": selector, "matchLabelKeys": [REVISION]}
    affinity = {"podAntiAffinity": {REQUIRED: [hard]}}
    path = stage.sandbox.api.path("Deployment", NAMESPACE, DATABASE)
    stage.sandbox.api.patch(path, {"spec": {"template": {"spec": {"affinity": affinity}}}})
    expect_pending(stage, 1, 1, 1, workload=DATABASE)
    scale(stage, DATABASE, 0)


@beyond
@proves("AC-T5", "S15")
def drain_the_only_node_of_a_host(stage: Stage) -> None:
    """The published constraint, with a selector, counts hosts that are drained: a drain that would leave its replica
    Pending is refused before the cordon. The replica of the rule goes to another host, 2/1/0, since the rule honors
    taints; back in service the replicas are 1/1/1 again, by one eviction. A second run changes nothing."""
    selector = {"matchLabels": {"app": PUBLISHED_APP}}
    published = {
        "topologyKey": HOST,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    create_deployment(stage, PUBLISHED_APP, 3, topologySpreadConstraints=[published])
    expect(stage, 1, 1, 1, workload=PUBLISHED_APP)
    refuse_to_drain(stage)
    scale(stage, PUBLISHED_APP, 0)
    stage.until(lambda: sum(hosts(stage, PUBLISHED_APP)), 0, "it is out of the way")

    wanted = {
        "placement_maintenance_nodes": [LAST],
        "placement_maintenance_reason": "demo",
        "placement_maintenance_return_home_allow": ["recreate"],
        "placement_maintenance_topology_keys": {"esx": HOST},
    }
    drained = {**wanted, "placement_maintenance_state": "drained"}
    result = stage.play("maintenance", drained, identity="maintainer-mover")
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    expect(stage, 2, 1, 0)
    mark = stage.sandbox.audit.mark()
    back = {**wanted, "placement_maintenance_state": "in_service"}
    stage.play_twice("maintenance", back, identity="maintainer-mover")
    expect(stage, 1, 1, 1)
    check(evictions(stage, mark) == 1, "one eviction brings the replica home")


@beyond
@proves("AC-T6", "S16")
def repair_what_a_vmotion_broke(stage: Stage) -> None:
    """vSphere moves the VM of a node with a replica to a host that has one already. Check mode names the drift, and
    writes nothing. Then the label follows, and one eviction repairs what that violates. A second run changes
    nothing."""
    nodes = board.nodes_of(stage.sandbox, NAMESPACE, "web")
    moved = next(node for node in nodes if node != LAST)
    other = next(
        host for node, host in HOSTS.items() if node in nodes and node not in (moved, LAST)
    )
    spare = "esx-1" if other == "esx-2" else "esx-2"
    check(HOSTS[moved] == spare, "the VM leaves its host")
    management.move(management_of(stage), moved, other)
    mark = stage.sandbox.audit.mark()
    drift = follow_hosts(stage, check_mode=True)
    check(drift.changed == 1, f"check mode names one change ({drift.changed})")
    for text in (f"Node {moved}", f'-    "{HOST}": "{spare}"', f'+    "{HOST}": "{other}"'):
        check(text in drift.stdout, f"check mode does not show: {text}")
    check(not stage.sandbox.audit.writes(since=mark), "check mode wrote something")

    result = follow_hosts(stage)
    check(labels(stage)[moved] == other, "the label follows")
    check("1 move planned" in result.stdout, "the one move is not named")
    expect(stage, 1, 1, 1)
    check(evictions(stage, mark) == 1, "one eviction")
    mark = stage.sandbox.audit.mark()
    again = follow_hosts(stage)
    check(again.changed == 0, f"the second run changed {again.changed} task(s)")
    check(not stage.sandbox.audit.writes(since=mark), "the second run wrote something")


@beyond
def leave_a_host_of_the_control_plane_alone(stage: Stage) -> None:
    """vSphere moves a control-plane VM to a host that has no other VM of the cluster. No replica can run there. The
    rule does not count that host: six replicas are 2/2/2. The published constraint counts it, so that exactly one of
    four is Pending."""
    management.move(management_of(stage), "shop-cp-3", "esx-9")
    follow_hosts(stage)
    check(labels(stage)["shop-cp-3"] == "esx-9", "the label follows")
    scale(stage, "web", 6)
    expect(stage, 2, 2, 2, 0)
    scale(stage, PUBLISHED_APP, 4)
    expect_pending(stage, 1, 1, 1, 0, workload=PUBLISHED_APP)


def refuse_to_drain(stage: Stage) -> None:
    """A drain of the last worker leaves the replica of the published constraint without a node."""
    wanted = {"placement_maintenance_nodes": [LAST], "placement_maintenance_reason": "demo"}
    texts = (
        f"no_place: 1 of 2 instances of node {LAST} would have no node: ",
        f"{PUBLISHED_APP}-",
        "topology spread constraint",
    )
    stage.play_refused("maintenance", wanted, *texts, identity="maintainer-mover")


def evictions(stage: Stage, since: t.Any) -> int:
    writes = stage.sandbox.audit.writes(since=since)
    return sum(event.subresource == "eviction" and event.code < 400 for event in writes)


STEPS: tuple[Step, ...] = (
    label_nodes_with_their_hosts,
    find_the_constraint_without_a_selector,
    spread_over_hosts,
    require_a_host_of_its_own_for_each_replica,
    drain_the_only_node_of_a_host,
    repair_what_a_vmotion_broke,
    leave_a_host_of_the_control_plane_alone,
)
