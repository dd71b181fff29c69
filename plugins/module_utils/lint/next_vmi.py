# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMI and which node labels do the next pods of a VM have, by its manifest and as far as the cluster is known?

A forecast makes the same placement of the same spec (kubevirt/next_pod, launcher_placement).
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..kubevirt.expansion import ExpandedVmi, KnownTypes
from ..kubevirt.labels import MACHINE_TYPE, SCHEDULABLE, needs_expansion
from ..kubevirt.launcher import CPU_MANAGER, CPU_MANAGER_BEFORE_1_8
from ..kubevirt.next_pod import launcher_placement, planned_vmi
from ..model.objects import Labels, NodeTerm, Placement, Requirement
from ..model.snapshot import Platform, Snapshot

if t.TYPE_CHECKING:
    from .lint_input import LintedWorkload

ARCH = "kubernetes.io/arch"

_NOT_VALID = (AttributeError, KeyError, TypeError, ValueError)
"""What reading the spec of a VMI raises where a field has another type, which only virt-api checks."""


@dataclass(frozen=True)
class NextPods:
    """What is known of a cluster: `snapshot` is None without one, `platform` where its release is not known, either.
    `nodes` are the labels of the nodes, empty where these are not known."""

    types: KnownTypes
    nodes: t.Sequence[Labels] = ()
    platform: Platform | None = None
    snapshot: Snapshot | None = None
    _carried: frozenset[str] = field(init=False)
    _domains: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        carried = frozenset(key for labels in self.nodes for key in labels)
        object.__setattr__(self, "_carried", carried)
        object.__setattr__(self, "_domains", frozenset(map(_domain, carried)))

    def vmi(self, subject: LintedWorkload) -> ExpandedVmi | None:
        """The next VMI of a subject; None where it has none, or its manifest is not known or not valid."""
        try:
            return self._vmi(subject)
        except _NOT_VALID:
            return None

    def _vmi(self, subject: LintedWorkload) -> ExpandedVmi | None:
        workload, spec = subject.workload, subject.spec
        if not subject.is_vm or spec is None:
            return None
        if workload is None:
            return ExpandedVmi(spec) if subject.ref.is_vmi else None
        if not needs_expansion(workload):
            return ExpandedVmi(spec)
        template = self.snapshot.expanded.get(workload.ref) if self.snapshot is not None else None
        if template is None and subject.vmis:
            template = {"spec": subject.vmis[0].spec}
        if template is not None:
            return ExpandedVmi(planned_vmi(workload, workload.ref.name, template).spec)
        return self.types.expanded(workload)

    def architecture(self, vmi: ExpandedVmi) -> str | None:
        """The architecture of the guest; None where the VM names none and the default is not known."""
        own = str(vmi.spec.get("architecture") or "")
        known = self.snapshot is not None and "preference" not in vmi.lacks
        default = self._platform.architecture if known else ""
        return (own or default).lower() or None

    def placement(self, subject: LintedWorkload, declared: Placement) -> Placement:
        """The placement of the next pods, from what the subject declares: with the node labels that KubeVirt asks for,
        without those of which it is not known whether nodes would have them."""
        vmi = self.vmi(subject)
        if vmi is None:
            return declared
        own = dict(declared.node_selector)
        dropped = {key for key, _value in subject.declared.placement.node_selector} - own.keys()
        spec = {**vmi.spec, "nodeSelector": own}
        try:
            whole = launcher_placement(declared, spec, self._platform)
        except _NOT_VALID:
            return declared
        added = [
            (key, value)
            for key, value in whole.node_selector
            if key not in own and key not in dropped and self._is_known(key, vmi)
        ]
        # a required term without the labels that KubeVirt excludes and no node has
        kept = {part for each in declared.node_terms or () for part in each.expressions}
        known_terms = whole.node_terms and tuple(
            replace(
                term,
                expressions=tuple(
                    x for x in term.expressions if x in kept or x.key in self._carried
                ),
            )
            for term in whole.node_terms
        )
        terms = known_terms if known_terms != (NodeTerm(),) else declared.node_terms
        return replace(declared, node_selector=(*own.items(), *added), node_terms=terms)

    @property
    def _platform(self) -> Platform:
        of_cluster = self.snapshot.platform if self.snapshot is not None else None
        return of_cluster or self.platform or Platform()

    def _is_known(self, key: str, vmi: ExpandedVmi) -> bool:
        """Whether nodes without a label would not take the pod: labels of a whole cluster were read, or Node manifests
        have labels of the kind. Without a cluster its defaults are not known."""
        if key == SCHEDULABLE:  # false while virt-handler does not report
            return False
        if key == ARCH:
            all_have = self.snapshot is not None or all(key in labels for labels in self.nodes)
            known = not self.nodes or (key in self._carried and all_have)
            return known and bool(self.architecture(vmi))
        if self.snapshot is None and key in (CPU_MANAGER, CPU_MANAGER_BEFORE_1_8):
            return False
        if key.startswith(MACHINE_TYPE) and self.snapshot is None:
            return False
        if "preference" in vmi.lacks and key.startswith(MACHINE_TYPE):
            return False
        return _domain(key) in self._domains


def _domain(key: str) -> str:
    return key.rpartition("/")[0] or key


def pairs_of(placement: Placement) -> tuple[Requirement, ...]:
    """The node selector as requirements."""
    return tuple(Requirement(key, "In", (value,)) for key, value in placement.node_selector)
