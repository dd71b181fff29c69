# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes the writes of rules. Which are held back, since a label cannot be set or since admission would undo them?"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, DeadlineExceeded, NotFound, Unreachable
from ..cluster.access import require_write_rights
from ..cluster.patching import Replaced, apply, refusals, still_differs, try_writes
from ..interface.runner import task_error
from ..kinds.registry import RULE_KINDS
from ..model.findings import Finding, TaskError
from ..model.objects import Ref
from ..model.write import Write
from ..rules.changed_back import changed_back, changed_back_by_revert
from ..rules.labels_first import label_writes
from ..rules.policy_plan import PolicyPlan, WrittenPolicies
from ..rules.rules_plan import RulesPlan, Written
from .policy_writes import why_stopped, with_latecomers, write_policies


def write(api: ApiClient, plan: RulesPlan, policies: PolicyPlan, check: bool) -> Written:
    """Makes the writes of the plans, unless admission would undo them: those of policies first, and no others where a
    rule cannot leave its policy. A stage has what the
    server accepts of it, and what does not depend on an object that could not be written. Raises InvalidInput with all
    missing rights, and ApiError."""
    require_write_rights(api, plan.writes, role="mover")
    if again := changed_back_again(api, plan):
        refused_plan = replace(plan, findings=(*plan.findings, *again), refused=again)
        return Written(refused_plan, policies=WrittenPolicies(policies))
    done: list[Write] = []
    back: list[Finding] = []
    # Before the first write it is asked whether the server refuses a label that terms of other workloads select by.
    labels = label_writes(plan.needs, plan.workloads)
    refused = refused_writes(api, plan) if check else _refused(api, labels)
    errors = dict(refused)
    uncertain: set[Ref] = set()
    written_policies = write_policies(api, policies, check=check)
    if stopped := why_stopped(written_policies):
        return Written(plan, refusal=stopped, policies=written_policies)
    for stage in plan.stages:
        held = held_writes(plan, stage, errors, refused)
        errors = {**held, **errors}
        writes = [write for write in stage if write.target not in {*held, *refused}]
        applied = apply(api, writes, recompute=plan.recompute, check=check, compare=True)
        done += applied.done
        for ref, answer in applied.changed_back.items():
            if ref in plan.requested:
                back += changed_back(ref, answer, plan.requested[ref])
            elif ref.kind in RULE_KINDS:
                back.append(changed_back_by_revert(ref))
        errors |= {
            failed.write.target: task_error(failed.error, failed.write.target)
            for failed in applied.failed
            # A VMI or pod that has ended needs no label: its successor gets the template's.
            if failed.write.target not in plan.owner_of
            or not isinstance(failed.error, (NotFound, Replaced))
        }
        # An object that was to be read again and was not may have been written, for example.
        uncertain |= {
            x.write.target
            for x in applied.failed
            if isinstance(x.error, ApiError)
            and (x.error.outcome_unknown or isinstance(x.error, (Unreachable, DeadlineExceeded)))
        }
    return Written(
        plan,
        tuple(done),
        errors,
        changed_back=tuple(back),
        uncertain=frozenset(uncertain),
        policies=written_policies if check else with_latecomers(api, written_policies),
    )


def changed_back_again(api: ApiClient, plan: RulesPlan) -> tuple[Finding, ...]:
    """The findings about terms that rules have written before, that are gone, and that admission would take out
    again. Nothing is stored, so this is found in check mode, too."""
    writes = {
        change.ref: write
        for change in plan.workloads
        if change.merged.restored and (write := change.merged.write) is not None
    }
    return tuple(
        finding
        for ref, answer in try_writes(api, tuple(writes.values())).items()
        if not isinstance(answer, ApiError) and still_differs(plan.recompute, writes[ref], answer)
        for finding in changed_back(ref, answer, plan.requested[ref])
    )


def refused_writes(api: ApiClient, plan: RulesPlan) -> dict[Ref, TaskError]:
    """Why the server would refuse writes of the plan, for check mode. Of an object that is written twice only the
    first write can be tried, since nothing is stored."""
    first: dict[Ref, Write] = {}
    for write in plan.writes:
        first.setdefault(write.target, write)
    return _refused(api, tuple(first.values()))


def _refused(api: ApiClient, writes: t.Sequence[Write]) -> dict[Ref, TaskError]:
    refused = refusals(try_writes(api, writes))
    return {ref: task_error(error, ref) for ref, error in refused.items()}


def held_writes(
    plan: RulesPlan,
    stage: t.Iterable[Write],
    errors: t.Collection[Ref],
    refused: t.Collection[Ref],
) -> dict[Ref, TaskError]:
    """The writes of a stage that are held back, and why. VMIs and pods get no label that their workload does not
    have. A workload keeps a label while a VMI or pod of it has it, and gets no term that selects by a label which
    another workload of the rule does not get. `refused` are the objects that the server would not label."""
    failed = {plan.owner_of[ref]: ref for ref in errors if ref in plan.owner_of}
    unlabelled = {plan.owner_of.get(ref, ref): ref for ref in refused}
    held = {}
    for write in stage:
        if write.target in refused:
            continue
        workload = plan.owner_of.get(write.target, write.target)
        needs = plan.needs.labels.get(workload, {})
        lacking = next((ref for ref in needs if ref in {*unlabelled, *failed, *errors}), None)
        reason = ""
        if lacking is not None:
            which = unlabelled.get(lacking) or failed.get(lacking, lacking)
            reason = f"was not written, since {which} does not get the label {needs[lacking]}"
        elif workload in unlabelled:
            reason = f"was not written, since {unlabelled[workload]} cannot get its label"
        elif workload != write.target and workload in errors:
            reason = f"was not labelled, since {workload} was not written"
        elif write.target in failed:
            reason = (
                f"was not written, since {failed[write.target]} still has a label that would"
                " be forgotten: run again"
            )
        if reason:
            held[write.target] = TaskError("api", f"{write.target} {reason}", str(write.target))
    return held
