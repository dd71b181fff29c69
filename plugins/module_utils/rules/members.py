# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads and pods is a rule about, and which label selector selects exactly the pods of a group?

The selector is the first of these that applies: the rule's `label`; the template labels that the workloads were
chosen by; for VirtualMachines the VMI's name, if every running pod carries it, or the hostname, if no
other pod or VM has it; the own selector of a replica set, a Deployment, a StatefulSet or a pool; else a label of ours.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kubevirt.labels import VM_HOSTNAME, VMI_ID, VMI_ID_SINCE, hostname, vmi_id
from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.kinds import GROUP
from ..model.objects import Labels, Selector
from ..model.placement_manifests import selector_from_json
from ..model.rule import (
    KeepApart,
    KeepTogether,
    PodSelector,
    Rule,
    RuleId,
    Target,
    WorkloadSelector,
)
from ..model.snapshot import Workload
from ..scheduler.labels import matches
from ..view.selection import WorkloadLookup
from ..view.view import ClusterView
from .ownership import Ownership
from .term_slots import TermLocation, digest, pair


@dataclass(frozen=True)
class Members:
    """Workloads that a reference leads to. `labels` are those that chose them, None if names did."""

    workloads: tuple[Workload, ...]
    labels: Labels | None = None


@dataclass(frozen=True)
class ResolvedTarget:
    """One target of a rule: workloads of one namespace, or pods of one namespace by labels."""

    namespace: str
    members: Members | None = None
    pods: Labels | None = None


@dataclass(frozen=True)
class Resolved:
    rule: Rule
    members: Members
    targets: tuple[ResolvedTarget, ...] = ()


def resolve(rule: Rule, view: ClusterView, faults: list[InputError], advice: str = "") -> Resolved:
    """The rule with its workloads, in an order that does not depend on how they are named, and its targets; what cannot
    be found is added to `faults`, with the `advice`. Labels do not choose the VMs of a pool, which get its template."""
    groups = [
        _members(reference, view, f"{rule.where}, workloads[{index}]", faults, advice)
        for index, reference in enumerate(rule.workloads)
    ]
    targets = [
        target
        for where, named in targets_of(rule)
        for target in _resolved_targets(named, view, f"{rule.where}, {where}", faults, advice)
    ]
    workloads = {
        workload.ref: workload
        for group in groups
        for workload in group.workloads
        if group.labels is None or workload.pool is None
    }
    labels = groups[0].labels if groups else None
    if any(group.labels != labels for group in groups):
        labels = None  # those that choose all of them
    in_order = tuple(workloads[ref] for ref in sorted(workloads))
    return Resolved(rule, Members(in_order, labels), tuple(targets))


def targets_of(rule: Rule) -> list[tuple[str, Target]]:
    """The targets that the rule type names beside the workloads of the rule, with their options."""
    rule_type = rule.rule_type
    if isinstance(rule_type, KeepApart):
        pods = [target for target in rule_type.targets if isinstance(target, PodSelector)]
        workloads = [target for target in rule_type.targets if target not in pods]
        return [*_numbered("keep_apart.from", workloads), *_numbered("keep_apart.pods", pods)]
    if isinstance(rule_type, KeepTogether) and rule_type.target is not None:
        option = "pods" if isinstance(rule_type.target, PodSelector) else "with"
        return [(f"keep_together.{option}", rule_type.target)]
    return []


def _numbered(option: str, targets: t.Sequence[Target]) -> list[tuple[str, Target]]:
    """The option of each target: with the number in its list if there are several."""
    if len(targets) == 1:
        return [(option, targets[0])]
    return [(f"{option}[{number}]", target) for number, target in enumerate(targets)]


def _resolved_targets(
    target: Target, view: ClusterView, where: str, faults: list[InputError], advice: str
) -> list[ResolvedTarget]:
    if isinstance(target, PodSelector):
        for namespace in target.namespaces:
            WorkloadLookup(view, faults).check_namespace(namespace, where)
        return [ResolvedTarget(namespace, pods=target.labels) for namespace in target.namespaces]
    members = _members(target, view, where, faults, advice)
    return [ResolvedTarget(target.namespace, members)]


def _members(
    reference: WorkloadSelector,
    view: ClusterView,
    where: str,
    faults: list[InputError],
    advice: str,
) -> Members:
    lookup = WorkloadLookup(view, faults, advice)
    available = lookup.why_unavailable(reference.kind, reference.namespace) is None
    if available and not lookup.check_namespace(reference.namespace, where):
        return Members(())
    workloads = (view.snapshot.workloads_by_ref[ref] for ref in lookup.select(reference, where))
    return Members(tuple(workloads), reference.labels)


MEMBER = "member"
"""The value of a group label of ours."""

Expression = dict[str, JSON]
Owned = t.Callable[[Workload], Ownership]


@dataclass(frozen=True)
class Selection:
    """`expressions` select the group in `namespace`. `label` has to be put on `members` for that,
    where it is not None."""

    namespace: str
    expressions: tuple[Expression, ...]
    members: tuple[Workload, ...] = ()
    label: tuple[str, str] | None = None

    @property
    def json(self) -> JSON:
        return {"matchExpressions": list(self.expressions)}

    def selector(self) -> Selector:
        return t.cast("Selector", selector_from_json(self.json))


@dataclass(frozen=True)
class GroupSelectorBuilder:
    """Chooses selections in one snapshot. `owned` reads the ownership of a workload."""

    view: ClusterView
    owned: Owned

    def group(self, resolved: Resolved) -> Selection:
        """The selection of a rule's own workloads."""
        rule, members = resolved.rule, resolved.members
        if rule.label is not None:
            return Selection(
                rule.id.namespace, expressions_of(dict([rule.label])), members.workloads, rule.label
            )
        return self.of(members, rule.id, "group", rule.id.namespace)

    def target(self, target: ResolvedTarget, rule: RuleId, role: str) -> Selection:
        """The selection of one target."""
        if target.pods is not None:
            return Selection(target.namespace, expressions_of(target.pods))
        return self.of(target.members or Members(()), rule, role, target.namespace)

    def of(self, members: Members, rule: RuleId, role: str, namespace: str) -> Selection:
        """The selection of some workloads of one namespace. `role` distinguishes the labels of ours
        that one rule may need."""
        workloads = members.workloads
        label = (f"{GROUP}{digest([str(rule), role], 10)}", MEMBER)
        if members.labels is not None:
            return Selection(namespace, expressions_of(members.labels), workloads)
        term = pair(TermLocation.LABEL, *label)
        fingerprint = term.fingerprint
        # A group that has a label of ours keeps it, so that no run changes it back and forth.
        if any(self.owned(workload).owned(fingerprint) for workload in workloads):
            return Selection(namespace, expressions_of(dict([label])), workloads, label)
        vms = all(w.kind.run_strategy for w in workloads)
        expressions = self._of_vms(workloads) if vms else _own_selectors(workloads)
        if expressions is None:
            return Selection(namespace, expressions_of(dict([label])), workloads, label)
        return Selection(namespace, expressions, workloads)

    def _of_vms(self, vms: t.Sequence[Workload]) -> tuple[Expression, ...] | None:
        ids = {vm.ref: vmi_id(vm.ref.name) for vm in vms}
        makes_ids = self.view.snapshot.platform.kubevirt_release >= VMI_ID_SINCE
        if self._on_pods(vms, VMI_ID, lambda m: ids[m.ref], makes_ids):
            return (_in(VMI_ID, ids.values()),)
        if self._own_hostnames(vms) and self._on_pods(vms, VM_HOSTNAME, hostname, True):
            return (_in(VM_HOSTNAME, map(hostname, vms)),)
        return None

    def _on_pods(
        self,
        vms: t.Iterable[Workload],
        key: str,
        value: t.Callable[[Workload], str],
        otherwise: bool,
    ) -> bool:
        """Whether each running pod carries the value; `otherwise` where none runs."""
        carried = [pod.labels.get(key) == value(vm) for vm in vms for pod in self.view.pods_of(vm)]
        return all(carried) if carried else otherwise

    def _own_hostnames(self, vms: t.Sequence[Workload]) -> bool:
        """Whether no other pod or VM of the namespace has, or will have, one of the hostnames."""
        ours = {vm.ref for vm in vms}
        pods = {pod.uid for vm in vms for pod in self.view.pods_of(vm)}
        namespaces = {vm.ref.namespace for vm in vms}
        foreign = {
            hostname(vm)
            for vm in self.view.snapshot.workloads_by_ref.values()
            if vm.kind.run_strategy and vm.ref.namespace in namespaces and vm.ref not in ours
        }
        foreign |= {
            pod.labels.get(VM_HOSTNAME, "")
            for namespace in namespaces
            for pod in self.view.pods_by_namespace.get(namespace, ())
            if pod.uid not in pods
        }
        return foreign.isdisjoint(map(hostname, vms))


def _in(key: str, values: t.Iterable[str]) -> Expression:
    return {"key": key, "operator": "In", "values": sorted({*values})}


def expressions_of(labels: Labels) -> tuple[Expression, ...]:
    """The expressions that select by labels."""
    return tuple(_in(key, [value]) for key, value in sorted(labels.items()))


def own_selector(workload: Workload) -> tuple[Expression, ...] | None:
    """The selector of a replica set or a Deployment, as expressions: a form of a console that
    drops matchLabels would leave a selector of everything. That of a pool is about its VMs, and counts
    where their pods have the same labels."""
    selector = workload.spec.get("selector") or {}
    expressions = (
        *expressions_of(selector.get("matchLabels") or {}),
        *(selector.get("matchExpressions") or ()),
    )
    if workload.kind.makes_vms and not matches(
        selector_from_json(selector), workload.template_labels
    ):
        return None
    return expressions or None


def _own_selectors(workloads: t.Sequence[Workload]) -> tuple[Expression, ...] | None:
    """One selector for all: that of the only one, or one key with the values of each."""
    if any(workload.kind.run_strategy for workload in workloads):
        return None
    selectors = [own_selector(workload) for workload in workloads]
    if len(selectors) == 1:
        return selectors[0]
    single = [s[0] for s in selectors if s and len(s) == 1 and s[0]["operator"] == "In"]
    if len(single) < len(selectors) or len({part["key"] for part in single}) != 1:
        return None
    return (_in(single[0]["key"], [value for part in single for value in part["values"]]),)
