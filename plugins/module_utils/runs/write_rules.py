# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the rules of a request: one reading, one plan, one patch for each object that differs."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..api.errors import NotFound
from ..api.requests import Api
from ..cluster.apply import Failed, Replaced, apply
from ..cluster.read import Scope, read_snapshot
from ..cluster.rights import require_write_rights
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.rule import KeepApart, KeepTogether, PodSelector, Rule, Target
from ..model.write import Write
from ..rules.references import SUPPORTED
from ..rules.request import ExtraFindings, RulesPlan, RulesRequest, plan_rules


@dataclass(frozen=True)
class Written:
    """`done` are the writes that were made, in their order; `errors` say of which objects not, and
    why."""

    plan: RulesPlan
    done: tuple[Write, ...] = ()
    errors: t.Mapping[Ref, str] = field(default_factory=dict)

    def workloads(self) -> list[dict[str, JSON]]:
        """What changed on each workload, or would."""
        made: dict[Ref, list[Write]] = {}
        for write in self.done:
            made.setdefault(self._workload(write.target), []).append(write)
        refused = bool(self.plan.refused)
        return [
            change.as_json(made.get(change.ref, ()), refused=refused)
            for change in self.plan.workloads
            if refused or change.ref in made or change.ref in self._failed()
        ]

    def counts(self) -> dict[str, int]:
        """How many workloads came to what."""
        changed = {self._workload(write.target) for write in self.done}
        planned = {change.ref for change in self.plan.workloads}
        left = planned if self.plan.refused else changed | self._failed()
        return {
            "workloads": self.plan.about,
            "changed": len(changed),
            "unchanged": self.plan.about - len(left),
            "failed": len(self._failed()),
        }

    def _failed(self) -> set[Ref]:
        return set(map(self._workload, self.errors))

    def _workload(self, target: Ref) -> Ref:
        return self.plan.owner_of.get(target, target)


def write_rules(
    api: Api, request: RulesRequest, *, check: bool, extra_findings: ExtraFindings | None = None
) -> Written:
    """Makes the rules as `request` wants them; in check mode nothing is sent, and nothing is where
    the plan has findings that refuse it. Raises Refused with all faults or all missing rights, and
    ApiError."""
    snapshot = read_snapshot(api, scope_of(request))
    plan = plan_rules(snapshot, request, extra_findings=extra_findings)
    if plan.refused:
        return Written(plan)
    require_write_rights(api, plan.writes, role="mover")
    done: list[Write] = []
    errors: dict[Ref, str] = {}
    for stage in plan.stages:
        held = _held(plan, stage, errors)
        errors = {**held, **errors}
        writes = [write for write in stage if write.target not in held]
        applied = apply(api, writes, recompute=plan.recompute, check=check)
        done += applied.done
        errors |= {
            failed.write.target: str(failed.error)
            for failed in applied.failed
            if not _ended_meanwhile(plan, failed)
        }
    return Written(plan, tuple(done), errors)


def scope_of(request: RulesRequest) -> Scope:
    """What a plan of the request has to know."""
    namespaces = {request.namespace, *(n for rule in request.rules for n in _namespaces(rule))}
    return Scope(namespaces=tuple(sorted(namespaces)), kinds=SUPPORTED, volumes=False)


def _namespaces(rule: Rule) -> t.Iterator[str]:
    """Namespaces of the targets that are workloads; pods are read everywhere."""
    verb = rule.verb
    targets: tuple[Target, ...]
    if isinstance(verb, KeepApart):
        targets = verb.others
    elif isinstance(verb, KeepTogether) and verb.target is not None:
        targets = (verb.target,)
    else:
        return
    yield from (each.namespace for each in targets if not isinstance(each, PodSelector))


def _held(plan: RulesPlan, stage: t.Iterable[Write], errors: t.Mapping[Ref, str]) -> dict[Ref, str]:
    """The writes of a stage that are held back, and why: nothing is labelled for a workload that
    does not say so, and a workload does not forget a label while a VMI or pod of it has it."""
    still_labelled = {plan.owner_of[ref]: ref for ref in errors if ref in plan.owner_of}
    held = {}
    for write in stage:
        owner = plan.owner_of.get(write.target)
        if owner in errors:
            held[write.target] = f"{write.target} was not labelled, since {owner} was not written"
        elif write.target in still_labelled:
            held[write.target] = (
                f"{write.target} was not written, since {still_labelled[write.target]} still has a"
                " label that would be forgotten: run again"
            )
    return held


def _ended_meanwhile(plan: RulesPlan, failed: Failed) -> bool:
    """A VMI or pod that is gone needs no label any more: its successor gets the template's."""
    gone = isinstance(failed.error, (NotFound, Replaced))
    return gone and failed.write.target in plan.owner_of
