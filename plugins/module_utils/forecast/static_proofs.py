# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is there no arrangement at all in which some running VMs and the pods that need a node obey their rules?

The running VMs are placed, too, as if they had no node yet.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..compliance.instances import DeclaredInstance
from ..compliance.obstacles import Obstacles
from ..compliance.pending import PendingReasons
from ..compliance.violations import violations
from ..model.plan import Method
from ..model.rule import RuleId
from ..model.topology import Topology
from ..scheduler.index import Index
from ..view.view import ClusterView
from .bounds import reachable_nodes
from .explain import ProofWords
from .infeasibility import ProofResult, examine
from .simulation import ROLLOUT, PendingPod, PlacementSimulation


@dataclass(frozen=True, slots=True)
class StaticProofs:
    """`texts` are none where nothing was proven, `codes` are those of the proofs. Of the pending pods (`never`
    has their numbers) at least `least` stay without a node, among them all of `never`."""

    codes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    least: int = 0
    never: frozenset[int] = frozenset()


def static_proofs(
    view: ClusterView,
    vms: t.Sequence[DeclaredInstance],
    pending: t.Sequence[PendingPod],
    topology: Topology,
) -> StaticProofs:
    """The proofs against any placement of `vms` and `pending` together. What leaves meanwhile closes no
    node, and is counted as long as that helps some pod."""
    every = [*map(without_node, vms), *map(at_last, pending)]
    simulation = _static_simulation(view, vms, pending, every)
    reachable = reachable_nodes(simulation)
    with simulation.index.without(*(pod.source for pod in every)):
        for number, vm in enumerate(vms):
            if _may_stay(view, simulation.index, vm):
                reachable[number] |= 1 << simulation.table.numbers[vm.node]
    all_proofs = examine(simulation, reachable).proofs
    proofs = tuple(proof for proof in all_proofs if proof.kind != "resources")
    first = len(vms)
    of_pending = ProofResult(tuple(x for x in proofs if min(x.pods) >= first), {})
    waiting = PendingReasons(simulation.index, topology, Obstacles(view))

    def reason(number: int) -> str:
        pod = every[number].pod
        if number >= first:
            return waiting.reason(pod, every[number].workload)
        vm = vms[number]
        workload = vm.workload.ref if vm.workload is not None else None
        return f"{waiting.reason(pod, workload)}{rules_of(vm)}"

    words = ProofWords(topology, every, reason)
    never = frozenset(number - first for number in of_pending.never)
    codes = tuple(dict.fromkeys(proof.kind for proof in proofs))
    texts = tuple(words.text(proof) for proof in proofs)
    return StaticProofs(codes, texts, of_pending.least, never)


def rules_of(vm: DeclaredInstance) -> str:
    """The rules of a VM in brackets, if it has several: any of them may be the cause that it has no node."""
    rules = vm.declared.rules if vm.declared is not None else ()
    names = [RuleId.parse(rule.rule).in_namespace for rule in rules]
    return f" (its rules: {', '.join(names)})" if len(names) > 1 else ""


def _static_simulation(
    view: ClusterView,
    vms: t.Sequence[DeclaredInstance],
    pending: t.Sequence[PendingPod],
    every: t.Sequence[PendingPod],
) -> PlacementSimulation:
    """VMs that may move end where they run, and so do the old pods of a rollout. Only the pending pods
    ever see them there: the VMs themselves are evaluated in the end."""
    rollout = [x.replaces for x in pending if x.reason in ROLLOUT and x.replaces is not None]
    ends = [*(vm.pod for vm in vms), *rollout]
    ended_uids = {pod.uid for pod in ends if pod.uid}
    pods = (pod for pod in view.snapshot.pods if pod.uid not in ended_uids)
    ending = [pod for pod in view.snapshot.terminating_pods if pod.uid not in ended_uids]
    ended = [*ending, *ends] if pending else ending
    return PlacementSimulation(view.new_index(pods), every, ended=ended)


def without_node(vm: DeclaredInstance) -> PendingPod:
    return PendingPod(vm.next_pod(Method.RECREATE), vmi=vm.instance.vmi)


def at_last(pending: PendingPod) -> PendingPod:
    """A pod of a rollout may open nodes to others, but it is another question whether it has one."""
    if pending.reason not in ROLLOUT:
        return pending
    return replace(pending, reason="start", required=False)


def _may_stay(view: ClusterView, index: Index, vm: DeclaredInstance) -> bool:
    """Whether nothing but others of its kind keeps a running VM off its own node: a cordon or too little
    room moves no VM."""
    failures = index.failures(vm.next_pod(Method.RECREATE), vm.node)
    node = view.snapshot.nodes_by_name[vm.node]
    violated = violations(vm.declared_pod, vm.declared, node, failures)
    return {reason.kind for status in violated for reason in status.reasons} <= {"skew", "affinity"}
