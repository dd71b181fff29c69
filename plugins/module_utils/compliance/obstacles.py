# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps a pod from its nodes, as a person knows it: the VMs, the rules, and the node that lacks the least.

kube-scheduler counts the nodes that each of its filters refuses. This adds the VMs and rules behind the filters.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import adds_anti_affinity
from ..model.objects import Labels, Node, Pod, PodTerm, Ref
from ..model.quantity import cpu_text, memory_text
from ..model.rendering import listed, plural
from ..scheduler.framework import FilterReason
from ..view.view import ClusterView
from .declared import DeclaredReader
from .violations import TermOwners, owning_rules, unmet_rules

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

REMEMBERED = 16
"""Reasons of nodes, at most, in which VMs and rules are looked for."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Refusals:
    """`reasons`: why nodes are refused for a pod, each with the name of the first node that it is about.
    `lacks`: what the node lacks that lacks the least; None where no node lacks cpu or memory."""

    reasons: tuple[tuple[FilterReason, str], ...] = ()
    lacks: str | None = None


class Obstacles:
    """Names what is behind the reasons of filters, for the pods of one cluster."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self.owners = TermOwners(view)

    def rules(
        self, workload: Ref | None, labels: Labels, reason: FilterReason, node: Node | None
    ) -> tuple[str, ...]:
        """The rules (namespace/set/name) that own what a filter checked on a node. `labels` are those of the pod that
        the filter refuses, an instance of `workload`."""
        if reason.kind == "existing-anti":
            return self.owners.of_other(reason)
        declaring = (
            self._view.snapshot.workloads_by_ref.get(workload) if workload is not None else None
        )
        if declaring is None:
            return ()
        declared = self._view.snapshot.derived(DeclaredReader).declared(declaring)
        if reason.kind == "node-affinity":
            return tuple(x.rule for x in unmet_rules(declared, node)) if node is not None else ()
        return owning_rules(reason, declared, labels)

    def text(self, pod: Pod, workload: Ref | None, refusals: Refusals) -> str | None:
        """What follows the words of kube-scheduler, None where nothing is known: `blocked by VM shop/db (rule
        shop/default/apart)`."""
        vms, rules = dict[str, None](), dict[str, None]()
        for reason, node in refusals.reasons:
            if isinstance(reason.term, PodTerm) and adds_anti_affinity(reason.term):
                continue
            if reason.kind == "existing-anti":
                continue  # its own text names both
            if reason.counterpart is not None:
                own = reason.named == pod.named
                vms[own_pod(reason.counterpart) if own else reason.named] = None
            owners = self.rules(
                workload, pod.labels, reason, self._view.snapshot.nodes_by_name.get(node)
            )
            rules.update(dict.fromkeys(owners))
        parts = [refusals.lacks] if refusals.lacks else []
        if blocking := blocked_by([*vms], [*rules]):
            parts.append(f"blocked by {blocking}")
        return "; ".join(parts) or None


def own_pod(pod: Ref) -> str:
    """The pod that an instance has left behind. It is named, since someone may have to delete it."""
    return f"its own pod {pod.namespace}/{pod.name}, which counts until it is deleted"


def blocked_by(vms: t.Sequence[str], rules: t.Sequence[str], others: int = 0) -> str:
    """What blocks an instance: VMs with the rules that are about them, or rules alone. Empty without any."""
    named = [f"rule {rule}" for rule in rules]
    more = others + len(vms[1:])
    blockers = [*vms[:1], *([plural(more, "other")] if more else [])]
    if not blockers:
        return listed(named, _NAMED)
    return f"{' and '.join(blockers)}{f' ({listed(named, _NAMED)})' if named else ''}"


def lacks_least(index: Index, nodes: t.Iterable[str], pod: Pod) -> str | None:
    """What the one of these nodes lacks that lacks the least; None where that is not cpu or memory."""
    short = []
    for name in nodes:
        free = index.resources.free(index.table.numbers[name])
        lack = {x: pod.requests.get(x, 0) - free.get(x, 0) for x in ("memory", "cpu")}
        if any(amount > 0 for amount in lack.values()):
            short.append((max(0, lack["memory"]), max(0, lack["cpu"]), name))
    if not short:
        return None
    memory, cpu, name = min(short)
    amounts = [memory_text(memory)] * bool(memory) + [cpu_text(cpu)] * bool(cpu)
    return f"node {name} lacks {' and '.join(amounts)}"
