# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workshop's lesson by the collection's playbooks, and its later form from a node that both share."""

from __future__ import annotations

import pathlib
import typing as t

import yaml

from demos import board
from demos.effort import Effort
from demos.stage import PlayResult, Stage, Step, beyond, check, proves, variables
from sandbox import drain

FOLDER = pathlib.Path(__file__).parent
NAMESPACE = "checkout"
CLUSTER = "eks"
COLUMNS = {"ZONE": board.ZONE}
PUBLISHED = Effort(commands=13, ended=2, migrations=0)
"""Two kustomizations with two waits, four times kubectl scale, two listings; for the later form two deletions and a
kustomization."""

CHECKOUT, REDIS = "checkout", "checkout-redis"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART = "2 node(s) didn't match pod anti-affinity rules"
BESIDE = "1 node(s) didn't match pod affinity rules"


def nodes(stage: Stage, workload: str) -> list[str]:
    return board.nodes_of(stage.sandbox, NAMESPACE, workload)


def create_on_one_node(stage: Stage) -> None:
    """Both Deployments, one pod each, on the first node: the others are cordoned while they start."""
    first, *others = [node.name for node in stage.sandbox.cluster.nodes]
    for node in others:
        drain.cordon(stage.sandbox, node)
    for name in (CHECKOUT, "checkout_redis"):
        stage.sandbox.api.apply(yaml.safe_load((FOLDER / f"{name}.yml").read_text()))
    stage.until(lambda: (nodes(stage, CHECKOUT), nodes(stage, REDIS)), ([first], [first]), "shared")
    for node in others:
        drain.uncordon(stage.sandbox, node)


def share_a_node(stage: Stage) -> None:
    """The worst start: checkout and its redis have one replica each, and both are on one node."""
    stage.sandbox.api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    create_on_one_node(stage)


def scaler(stage: Stage) -> dict[str, str]:
    """Who scales Deployments is the user, by kubernetes.core."""
    return {"scaler_kubeconfig": str(stage.sandbox.kubeconfig("admin"))}


def run(stage: Stage, playbook: str, **options: t.Any) -> PlayResult:
    """A playbook of this folder as the mover."""
    return stage.play(str(FOLDER / playbook), {**scaler(stage), **options}, identity="mover")


def run_twice(stage: Stage, playbook: str, **options: t.Any) -> PlayResult:
    """The second run changes nothing."""
    return stage.play_twice(str(FOLDER / playbook), {**scaler(stage), **options}, identity="mover")


def refuse_a_rollout_that_nobody_asked_for(stage: Stage) -> None:
    """A rule for a Deployment starts its rollout. So it is refused until that is allowed, and nothing is written."""
    wanted = {**scaler(stage), "workload_rollout": "refuse"}
    stage.play_refused(str(FOLDER / "lesson.yml"), wanted, "workload_rollout", identity="mover")


@proves("AC-E1", "AC-E2", "AC-E5")
def pair_checkout_with_its_redis(stage: Stage) -> None:
    """Two checkout pods on two nodes, and each of two redis pods on a node with one of them. A second run of all of it
    changes nothing."""
    run_twice(stage, "lesson.yml")
    stage.until(lambda: len(set(nodes(stage, CHECKOUT))), 2, "two checkout pods on two nodes")
    pairs = nodes(stage, CHECKOUT)
    check(len(pairs) == 2, f"two checkout pods run (on {pairs})")
    stage.until(lambda: nodes(stage, REDIS), pairs, "each redis beside a checkout pod, one a node")


@proves("AC-E3")
def ask_for_a_third_redis(stage: Stage) -> None:
    """The forecast says before scaling what the scheduler says afterwards: two nodes have a redis, one has no checkout.
    The playbook stops there. Scaled all the same, exactly one pod waits, and verify says why."""
    result = run(stage, "scale.yml", scale={REDIS: 3})
    check(result.rc != 0, "a third redis was not refused")
    check(APART in result.stdout and BESIDE in result.stdout, "the forecast has not these counts")
    check(len(nodes(stage, REDIS)) == 2, "the refused playbook scaled")

    result = run(stage, "scale.yml", scale={REDIS: 3}, even_if_impossible=True)
    check(result.rc != 0, "verify passed with a Pending pod")
    check("Verification failed: 1 pending." in result.stdout, "verify does not count the pod")
    check(APART in result.stdout and BESIDE in result.stdout, "verify does not say why it waits")
    (pod,) = waiting(stage)
    conditions = pod["status"]["conditions"]
    (message,) = (c["message"] for c in conditions if c["type"] == "PodScheduled")
    check(APART in message and BESIDE in message, f"the scheduler says otherwise: {message}")
    check(len(nodes(stage, REDIS)) == 3 and "" in nodes(stage, REDIS), "the other two have nodes")


@proves("AC-E4", "S23")
def go_back_to_two(stage: Stage) -> None:
    """The pod that waited is the one that goes: none is Pending, and verify finds every rule satisfied. A second run
    changes nothing."""
    before = nodes(stage, REDIS)
    result = run_twice(stage, "scale.yml", scale={REDIS: 2})
    check("Verification passed" in result.stdout, "verify does not pass")
    stage.until(lambda: len(waiting(stage)), 0, "no pod is Pending")
    check(nodes(stage, REDIS) == [node for node in before if node], "the running pods stayed")


@proves("S25")
def change_a_template_where_every_node_is_taken(stage: Stage) -> None:
    """Three checkout pods on three nodes, one a node, and a new template. Old and new pods do not keep each other
    apart, so the workload rollout ends with its own strategy. Without matchLabelKeys it would wait for ever."""
    path = stage.sandbox.api.path("Deployment", NAMESPACE, CHECKOUT)
    everywhere = sorted(node.name for node in stage.sandbox.cluster.nodes)
    before = stage.sandbox.api.patch(path, {"spec": {"replicas": 3}})
    stage.until(lambda: nodes(stage, CHECKOUT), everywhere, "a checkout pod on each node")
    pods = {seat.uid for seat in board.seats(stage.sandbox, NAMESPACE) if seat.workload == CHECKOUT}
    released = {"metadata": {"annotations": {"example.com/release": "2"}}}
    changed = stage.sandbox.api.patch(path, {"spec": {"template": released}})

    def done() -> bool:
        status = stage.sandbox.api.get(path)["status"]
        seen = [status.get(key) for key in ("observedGeneration", "updatedReplicas", "replicas")]
        return bool(seen == [changed["metadata"]["generation"], 3, 3] and not waiting(stage))

    stage.until(done, True, "the workload rollout has ended")
    stage.until(lambda: nodes(stage, CHECKOUT), everywhere, "a checkout pod on each node again")
    left = pods & {seat.uid for seat in board.seats(stage.sandbox, NAMESPACE)}
    check(not left, "a pod of the old template is left")
    after = stage.sandbox.api.get(path)["spec"]["strategy"]
    check(after == before["spec"]["strategy"], f"the strategy was changed: {after}")


def start_anew(stage: Stage) -> None:
    """Both Deployments without rules, from a node that both share."""
    for name in (CHECKOUT, REDIS):
        stage.sandbox.api.delete(stage.sandbox.api.path("Deployment", NAMESPACE, name))
    path = stage.sandbox.api.path("Pod", NAMESPACE)
    stage.until(lambda: stage.sandbox.api.list(path), [], "all pods are gone")
    create_on_one_node(stage)


def refuse_the_order_as_printed(stage: Stage) -> None:
    """The later lesson requires checkout beside redis. Applied to checkout alone, from a node that both share, its
    terms would stop the rollout for ever, which is why that lesson deletes both Deployments first. Here the terms are
    refused before anything is written."""
    start_anew(stage)
    wanted = variables(FOLDER, "pairs_as_printed.yml")
    texts = "2 node(s) didn't match pod affinity", "1 node(s) didn't match pod anti-affinity"
    stage.play_refused("apply", wanted, *texts, identity="mover")


@proves("AC-E6", "S24")
def pair_them_from_a_shared_node(stage: Stage) -> None:
    """Both rules in one list, from the node that both share: one pair, and after scaling two pairs on two nodes, with
    no deletion by hand and no eviction. A second run changes nothing."""
    check(nodes(stage, CHECKOUT) == nodes(stage, REDIS), "both do not share a node at first")
    mark = stage.sandbox.audit.mark()
    stage.play_twice("apply", variables(FOLDER, "pairs_rules.yml"), identity="mover")
    expect_pairs(stage, 1)
    result = run(stage, "scale.yml", scale={REDIS: 2, CHECKOUT: 2})
    check(result.rc == 0, f"the playbook scale ended with rc {result.rc}")
    expect_pairs(stage, 2)
    check_nothing_ended(stage, mark)


def expect_pairs(stage: Stage, number: int) -> None:
    """So many nodes with one checkout pod and one redis pod each, and no other pod, also none that waits."""

    def pairs() -> tuple[int, int, bool, int]:
        checkout, redis = nodes(stage, CHECKOUT), nodes(stage, REDIS)
        return len(checkout), len(set(checkout)), checkout == redis, len(waiting(stage))

    what = "one pair on one node" if number == 1 else f"{number} pairs on {number} nodes"
    stage.until(pairs, (number, number, True, 0), what)


def check_nothing_ended(stage: Stage, since: t.Any) -> None:
    """Neither a pod nor a Deployment was deleted or evicted by the collection."""
    writes = stage.sandbox.audit.writes(since=since)
    ended = [event for event in writes if event.resource == "pods" or "delete" in event.verb]
    check(not any(event.resource != "leases" for event in ended), f"something was ended: {ended}")


@beyond
def cure_a_rollout_that_is_stuck(stage: Stage) -> None:
    """The printed terms, applied to checkout by hand: its new pod waits for ever, and the old one stays. The rules
    for checkout with `adopt: similar` take the place of these terms, and the rollout ends with a pair, with no deletion
    by hand and no eviction. A second run changes nothing."""
    start_anew(stage)
    (printed,) = variables(FOLDER, "pairs_as_printed.yml")["placement_apply_rules"]
    path = stage.sandbox.api.path("Deployment", NAMESPACE, CHECKOUT)
    by_hand = {"spec": {"template": {"spec": {"affinity": printed["terms"]["affinity"]}}}}
    stage.sandbox.api.patch(path, by_hand)
    stage.until(lambda: len(waiting(stage)), 1, "the new checkout pod waits")
    mark = stage.sandbox.audit.mark()
    wanted = {**variables(FOLDER, "pairs_rules.yml"), "placement_apply_adopt": "similar"}
    # Were redis replaced at the same time, the waiting pod could get the node that its new one opens, and stay.
    key = "placement_apply_rules"
    wanted[key] = [rule for rule in wanted[key] if rule["workloads"][0]["name"] == CHECKOUT]
    stage.play_twice("apply", wanted, identity="mover")
    expect_pairs(stage, 1)
    affinity = stage.sandbox.api.get(path)["spec"]["template"]["spec"]["affinity"]
    terms = [affinity[place][REQUIRED] for place in ("podAffinity", "podAntiAffinity")]
    check([len(each) for each in terms] == [1, 1], f"one term in each place: {terms}")
    check_nothing_ended(stage, mark)


def waiting(stage: Stage) -> list[dict[str, t.Any]]:
    path = stage.sandbox.api.path("Pod", NAMESPACE)
    names = board.without_node(stage.sandbox, NAMESPACE)
    return [pod for pod in stage.sandbox.api.list(path) if pod["metadata"]["name"] in names]


STEPS: tuple[Step, ...] = (
    share_a_node,
    refuse_a_rollout_that_nobody_asked_for,
    pair_checkout_with_its_redis,
    ask_for_a_third_redis,
    go_back_to_two,
    change_a_template_where_every_node_is_taken,
    refuse_the_order_as_printed,
    pair_them_from_a_shared_node,
    cure_a_rollout_that_is_stuck,
)
