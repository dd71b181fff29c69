# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom a rule is about: its workloads and its targets, looked up in a snapshot."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault
from ..model.objects import Labels
from ..model.rule import KeepApart, KeepTogether, PodSelector, Rule, Target, WorkloadSelector
from ..model.snapshot import Workload
from .inventory import Inventory, plural
from .references import SUPPORTED
from .values import nearest


@dataclass(frozen=True)
class Members:
    """Workloads that a reference leads to. `labels` are those that chose them, None if names did."""

    workloads: tuple[Workload, ...]
    labels: Labels | None = None


@dataclass(frozen=True)
class Found:
    """One target of a rule: workloads of one namespace, or pods of one namespace by labels."""

    namespace: str
    members: Members | None = None
    pods: Labels | None = None


@dataclass(frozen=True)
class Resolved:
    rule: Rule
    carriers: Members
    targets: tuple[Found, ...] = ()


def resolve(rule: Rule, inventory: Inventory, faults: list[Fault]) -> Resolved:
    """The rule with its workloads and targets; what cannot be found is added to `faults`."""
    found = [
        _members(reference, inventory, f"{rule.where}, workloads[{index}]", faults)
        for index, reference in enumerate(rule.workloads)
    ]
    targets = [
        target
        for where, other in targets_of(rule)
        for target in _found(other, inventory, f"{rule.where}, {where}", faults)
    ]
    return Resolved(rule, _union(found), tuple(targets))


def targets_of(rule: Rule) -> list[tuple[str, Target]]:
    """Whom the verb names beside the workloads of the rule, and where."""
    verb = rule.verb
    if isinstance(verb, KeepApart):
        return [("keep_apart.from", other) for other in verb.others]
    if isinstance(verb, KeepTogether) and verb.target is not None:
        return [("keep_together.leader" if verb.leader else "keep_together.with", verb.target)]
    return []


def without_kubevirt(where: str, kind: str) -> Fault:
    """What is wrong with naming a kind of KubeVirt where that is not installed."""
    return Fault(where, f"KubeVirt is not installed on this cluster, so there is no {kind}")


def _found(target: Target, inventory: Inventory, where: str, faults: list[Fault]) -> list[Found]:
    if isinstance(target, PodSelector):
        for namespace in target.namespaces:
            _check_namespace(namespace, inventory, where, faults)
        return [Found(namespace, pods=target.labels) for namespace in target.namespaces]
    members = _members(target, inventory, where, faults)
    return [Found(target.namespace, members)]


def _members(
    reference: WorkloadSelector, inventory: Inventory, where: str, faults: list[Fault]
) -> Members:
    kind, namespace = reference.kind, reference.namespace
    gap = inventory.gap(plural(kind), namespace)
    if gap is not None:
        faults.append(Fault(where, str(gap)))
        return Members(())
    if inventory.snapshot.platform.kubevirt is None and kind.startswith("VirtualMachine"):
        faults.append(without_kubevirt(where, kind))
        return Members(())
    if not _check_namespace(namespace, inventory, where, faults):
        return Members(())
    of_kind = [
        workload
        for ref, workload in sorted(inventory.workloads.items())
        if (ref.kind, ref.namespace) == (kind, namespace)
    ]
    if reference.labels is not None:
        wanted = reference.labels.items()
        return Members(
            tuple(w for w in of_kind if wanted <= dict(w.template_labels).items()),
            reference.labels,
        )
    by_name = {workload.ref.name: workload for workload in of_kind}
    for name in reference.names:
        if name not in by_name:
            faults.append(Fault(where, _unknown(reference, name, by_name, inventory)))
    return Members(tuple(by_name[name] for name in reference.names if name in by_name))


def _check_namespace(namespace: str, inventory: Inventory, where: str, faults: list[Fault]) -> bool:
    """Whether the namespace is there, as far as namespaces could be read."""
    if namespace in inventory.namespaces or inventory.gap("namespaces", ""):
        return True
    hint = nearest(namespace, inventory.namespaces)
    faults.append(Fault(where, f"there is no namespace {namespace!r}{hint}"))
    return False


def _unknown(
    reference: WorkloadSelector, name: str, known: t.Iterable[str], inventory: Inventory
) -> str:
    hint = nearest(name, known)
    others = [
        ref.kind
        for ref in inventory.workloads
        if (ref.namespace, ref.name) == (reference.namespace, name) and ref.kind in SUPPORTED
    ]
    if others:
        hint = f"; there is a {' and a '.join(sorted(others))} of that name, say so with kind"
    return f"there is no {reference.kind} {name!r} in namespace {reference.namespace!r}{hint}"


def _union(groups: t.Sequence[Members]) -> Members:
    """All members once. The labels are kept where all were chosen by the same ones."""
    workloads = {workload.ref: workload for group in groups for workload in group.workloads}
    first = groups[0].labels if groups else None
    same = all(group.labels == first for group in groups)
    return Members(tuple(workloads.values()), first if same else None)
