# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a task ask of a rule set, and what is wrong with its options?"""

from __future__ import annotations

from dataclasses import dataclass

from ..model.admission_policy import MUTATING, deletion
from ..model.findings import InputError
from ..model.input import nearest
from ..model.rule import Rule
from ..view.view import ClusterView
from .change import NO_HOLDING, WORKLOAD_ROLLOUT, Holding
from .policy_plan import NO_POLICIES, NONE, PolicyPlan

STATES = ("present", "absent")
"""Those of rules; undo adds its own."""


@dataclass(frozen=True)
class RulesRequest:
    """`fail_on_findings`: names and severities of findings that refuse the request like errors. `faults` are
    the errors of the rules as they were parsed, `broken` the rules that have them: their workloads are looked
    up, so that every error is reported at once. `adopt_similar` counts only with `adopt`. `at`: when the request is
    made (RFC 3339). `undoes`: with state reverted, the only change that is undone (`RuleSetChange.id`); empty for the
    last one, whichever it is. `new_members`: what workloads that are created later get; `policies`: what that makes of
    the policies of the set."""

    namespace: str
    rule_set: str
    rules: tuple[Rule, ...]
    state: str = "present"
    prune: bool = False
    adopt: bool = False
    adopt_similar: bool = False
    workload_rollout: str = "refuse"
    holding: Holding = NO_HOLDING
    fail_on_findings: tuple[str, ...] = ()
    faults: tuple[InputError, ...] = ()
    broken: tuple[Rule, ...] = ()
    at: str = ""
    undoes: str = ""
    new_members: str = NONE
    policies: PolicyPlan = NO_POLICIES

    @property
    def removes_rules(self) -> bool:
        """Whether rules go, or rest."""
        return self.state != "present" or self.prune or not all(x.enabled for x in self.rules)


def option_faults(
    request: RulesRequest, view: ClusterView, states: tuple[str, ...] = STATES
) -> list[InputError]:
    """What is wrong with the options beside the rules."""
    faults = []
    for option, value, allowed in (
        ("state", request.state, states),
        ("workload_rollout", request.workload_rollout, WORKLOAD_ROLLOUT),
    ):
        if value not in allowed:
            faults.append(InputError(option, f"must be one of {', '.join(allowed)}, not {value!r}"))
    if request.prune and request.state == "absent":
        faults.append(
            InputError(
                "prune", "goes with state present: an empty list of rules removes the whole set"
            )
        )
    if request.undoes and request.state in STATES:
        faults.append(InputError("change", "goes with state reverted, which it restricts: omit it"))
    reported = any(fault.where == "namespace" for fault in request.faults)
    if not reported and is_missing(request.namespace, view):
        hint = nearest(request.namespace, view.snapshot.namespaces_by_name)
        text = f"there is no namespace {request.namespace!r}{hint}"
        kinds = {policy.kind for policy in view.snapshot.policies or ()}
        if kinds or request.policies.unread:
            is_any = "" if kinds else ", if there is one"
            text += (
                f"{'' if hint else '.'} To delete its policy for new members{is_any}, run"
                f" {deletion(request.namespace, kinds or [MUTATING])}"
            )
        faults.append(InputError("namespace", text))
    return faults


def is_missing(namespace: str, view: ClusterView) -> bool:
    """Whether there is no such namespace, as far as namespaces could be read."""
    return (
        namespace not in view.snapshot.namespaces_by_name
        and view.snapshot.why_unreadable("namespaces", "") is None
    )
