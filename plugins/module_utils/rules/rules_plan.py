# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to workloads and to what runs, in which order, and which findings prevent it?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..kinds.vmi import VMIS
from ..model.findings import Finding, TaskError
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import Entry
from ..model.rule import Rule
from ..model.snapshot import Snapshot
from ..model.write import Write
from ..view.view import ClusterView
from .change import Recompute, WorkloadChange, of_change, recompute_held, with_hold
from .checks import is_refused, unchecked
from .draft import RequestedRules
from .labels_first import LabelNeeds, ordered_stages
from .policy_plan import NO_WRITES, WrittenPolicies
from .record import RuleSetChange
from .rules_request import RulesRequest

ExtraFindings = t.Callable[[Snapshot, tuple[Rule, ...], tuple[Write, ...]], t.Iterable[Finding]]
"""More checks, given the snapshot, the rules and the writes to come."""


class Restoration(t.NamedTuple):
    """What a state of the module rules that restores workloads plans, and adds to the result: from the workloads that
    are restored, as JSON, and the findings. `entries`: what it did and what it left, for people, by the changes that
    were made, in check mode or not."""

    plan: t.Callable[[Snapshot, RulesRequest, ExtraFindings | None], RulesPlan]
    result: t.Callable[[t.Any, t.Iterable[Finding]], dict[str, t.Any]]
    entries: t.Callable[
        [RulesPlan, t.Sequence[WorkloadChange], bool], tuple[list[Entry], list[Entry]]
    ]


@dataclass(frozen=True)
class RulesPlan:
    """`stages` are made one after the other: a label leaves pods and VMIs before the template
    and reaches them after it. `refused` are the errors among the findings that no rule allows:
    while there are any, nothing may be written. `needs`: which workloads are written only after the labels of others.
    `requested`: what the request wants of each workload. `recompute` serves a write whose object has
    changed meanwhile. `owner_of` leads from a VMI or pod that is written to to its workload.
    `about` counts the workloads that carry one of the rules, are to, or did; `members` are those
    that carry one afterwards, whether that takes a write or not. `held` as in `Holding.held_by`. `change`: what the
    undo records of the written workloads name; `continues`: whether an earlier task has begun it."""

    stages: tuple[tuple[Write, ...], ...]
    workloads: tuple[WorkloadChange, ...]
    findings: tuple[Finding, ...]
    refused: tuple[Finding, ...]
    recompute: Recompute
    owner_of: t.Mapping[Ref, Ref]
    needs: LabelNeeds
    requested: t.Mapping[Ref, RequestedRules] = field(default_factory=dict)
    about: int = 0
    members: frozenset[Ref] = frozenset()
    held: frozenset[Ref] = frozenset()
    change: RuleSetChange | None = None
    continues: bool = False

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(write for stage in self.stages for write in stage)

    def without(self, refs: frozenset[Ref]) -> RulesPlan:
        """The plan without what it writes to these workloads."""
        stages = (tuple(x for x in stage if x.target not in refs) for stage in self.stages)
        return replace(
            self,
            stages=tuple(stage for stage in stages if stage),
            workloads=tuple(change for change in self.workloads if change.ref not in refs),
            held=self.held - refs,
        )


@dataclass(frozen=True)
class Written:
    """What became of a plan. `done` are the writes that were made, in their order; `errors` has the other objects, with
    the reason. `refusal`: why the forecast refuses the plan, or rules cannot leave their policy. `changed_back`: terms
    that admission took out again. `uncertain`: the objects of errors that may have been written all the same.
    `policies`: for workloads that are created later."""

    plan: RulesPlan
    done: tuple[Write, ...] = ()
    errors: t.Mapping[Ref, TaskError] = field(default_factory=dict)
    refusal: TaskError | None = None
    changed_back: tuple[Finding, ...] = ()
    uncertain: frozenset[Ref] = frozenset()
    policies: WrittenPolicies = NO_WRITES

    @property
    def is_refused(self) -> bool:
        """Whether findings or `refusal` refuse the plan, so that nothing was written."""
        return bool(self.plan.refused or self.refusal)

    @property
    def changes(self) -> list[WorkloadChange]:
        """Those of the workloads that were written, or whose VMIs or pods were."""
        written = {self._workload(write.target) for write in self.done}
        return [change for change in self.plan.workloads if change.ref in written]

    def workloads(self) -> list[dict[str, JSON]]:
        """The change of each workload; in check mode and for refused plans, the planned one."""
        made: dict[Ref, list[Write]] = {}
        for write in self.done:
            made.setdefault(self._workload(write.target), []).append(write)
        return [
            change.as_json(made.get(change.ref, ()), refused=self.is_refused)
            for change in self.plan.workloads
            if self.is_refused or change.ref in made or change.ref in self.failed
        ]

    def change(self) -> dict[str, JSON] | None:
        """What an undo of this task is to be told. None where no workload was written, so that no record is of it."""
        change = self.plan.change
        written = {write.target for write in self.done} | self.uncertain
        if change is None or not any(ref in self.plan.requested for ref in written):
            return None
        return {"id": change.id, "continues": self.plan.continues}

    def held(self) -> list[dict[str, JSON]]:
        """The StatefulSets and pools whose own rollouts the rule set holds."""
        return self.as_workloads(self.plan.held)

    def as_workloads(self, refs: frozenset[Ref]) -> list[dict[str, JSON]]:
        """As the option workloads of a rollout takes them."""
        left = refs - self.failed
        return [ref._asdict() for ref in sorted(() if self.is_refused else left)]

    def counts(self) -> dict[str, int]:
        """How many workloads are changed, unchanged and failed."""
        changed = {self._workload(write.target) for write in self.done}
        planned = {change.ref for change in self.plan.workloads}
        left = planned if self.plan.refused else changed | self.failed
        return {
            "workloads": self.plan.about,
            "changed": len(changed),
            "unchanged": self.plan.about - len(left),
            "failed": len(self.failed),
        }

    @property
    def failed(self) -> set[Ref]:
        return set(map(self._workload, self.errors))

    def _workload(self, target: Ref) -> Ref:
        return self.plan.owner_of.get(target, target)


def plan_of_changes(
    view: ClusterView,
    request: RulesRequest,
    changes: t.Sequence[WorkloadChange],
    findings: t.Sequence[Finding],
    needs: LabelNeeds,
    recompute: Recompute,
    extra_findings: ExtraFindings | None,
) -> RulesPlan:
    """The plan that makes these changes of workloads, with all findings about them after the given ones."""
    changes = [with_hold(change, request, view) for change in changes]
    all_findings = [*findings]
    gap = view.snapshot.why_unreadable(VMIS, request.namespace)
    if gap is not None and any(change.workload.runs_vms for change in changes):
        all_findings.append(unchecked(gap, "Which VMIs run, and with which labels,"))
    expected = request.policies.expected_refs  # nothing of them runs that a write could restart
    for change in changes:
        all_findings += change.merged.findings
        all_findings += change.findings
        if change.ref not in expected:
            all_findings += of_change(change, request, view.snapshot)
    changed = tuple(change for change in changes if change.stages)
    stages = ordered_stages(needs, changed)
    if extra_findings is not None:
        writes = tuple(write for stage in stages for write in stage)
        all_findings += extra_findings(view.snapshot, request.rules, writes)
    platform = view.snapshot.platform
    return RulesPlan(
        stages=stages,
        workloads=changed,
        findings=tuple(all_findings),
        refused=tuple(
            x for x in all_findings if is_refused(x, request.rules, request.fail_on_findings)
        ),
        recompute=recompute_held(recompute, changed, request, platform),
        owner_of={relabel.target: change.ref for change in changed for relabel in change.relabels},
        needs=needs,
        held=request.holding.held_by(view, changed, f"{request.namespace}/{request.rule_set}"),
    )
