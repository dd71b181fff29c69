# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer of a forecast or of a drill: what proofs, a known placement and doubts allow to say.

Each part of a forecast (the pods that need a node, the running VMs that have to move, the instances that
cannot leave, the quotas) gives its Evidence. `conclude` makes the answer of all of them, and is the only
place that does. CODES has what may decide an answer.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.pod_security import ENFORCE
from ..model.rendering import TextEnum


class ForecastResult(TextEnum):
    """GUARANTEED: every placement sequence places all required pods. POSSIBLE: one sequence does, and it is
    not shown that every one does. IMPOSSIBLE: none does. UNKNOWN: none of these could be shown."""

    GUARANTEED = "guaranteed"
    POSSIBLE = "possible"
    UNKNOWN = "unknown"
    IMPOSSIBLE = "impossible"


WORSE: t.Final = tuple(ForecastResult)
"""The answers from best to worst."""

NO_GUARANTEE: t.Final = frozenset({ForecastResult.GUARANTEED})
"""For a doubt about something that can only make it worse: `guaranteed` becomes `possible`."""
NO_PROOF: t.Final = frozenset({ForecastResult.IMPOSSIBLE})
"""For a doubt about something that can only make it better: `impossible` becomes `unknown`."""
NO_CERTAINTY: t.Final = NO_GUARANTEE | NO_PROOF
"""For a doubt about something that may be better or worse than it was taken to be."""
NO_PLACEMENT: t.Final = NO_GUARANTEE | {ForecastResult.POSSIBLE}
"""For a doubt about whether the known placement may be made at all: the answer is `unknown` unless it is
`impossible`."""
NOTHING: t.Final = NO_PLACEMENT | NO_PROOF

_WEAKER: t.Final = {
    ForecastResult.GUARANTEED: ForecastResult.POSSIBLE,
    ForecastResult.POSSIBLE: ForecastResult.UNKNOWN,
    ForecastResult.IMPOSSIBLE: ForecastResult.UNKNOWN,
}


class CodeMeaning(t.NamedTuple):
    """What an answer with this code means, and the function of `forecast/` that gives it (`file.function`)."""

    text: str
    function: str


CODES: t.Final[t.Mapping[str, CodeMeaning]] = {
    # What shows that an answer is guaranteed.
    "nothing_to_place": CodeMeaning("no instance needs a node", "decide.evaluate"),
    "worst_case": CodeMeaning(
        "each instance has a node, whichever nodes the scheduler chooses for the others",
        "decide.evaluate",
    ),
    "every_choice": CodeMeaning("every choice of nodes was tried", "decide._searched"),
    "moves_satisfy_rules": CodeMeaning(
        "one VM moves, and no rule is violated whichever node it gets",
        "running_vms.ChangedVms.evaluate",
    ),
    # Proofs that it is impossible.
    "no_node": CodeMeaning("an instance has no feasible node", "infeasibility.examine"),
    "apart": CodeMeaning(
        "more instances with anti-affinity to each other than topology domains for them",
        "infeasibility._apart_proofs",
    ),
    "resources": CodeMeaning(
        "equal instances request more than is free on their feasible nodes",
        "infeasibility._resource_proofs",
    ),
    "no_moves_repair": CodeMeaning(
        "every sequence of single moves was tried, and none satisfies all rules",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "stays_on_node": CodeMeaning("an instance cannot leave its node", "eviction.blocked_evidence"),
    "quota": CodeMeaning("a ResourceQuota refuses a pod", "quota.quota_evidence"),
    # Doubts: why an answer claims less.
    "unreadable": CodeMeaning("a list of objects could not be read", "forecast.forecast"),
    "unfavorable_nodes": CodeMeaning(
        "instances are unschedulable if the scheduler chooses unfavorable nodes",
        "decide._searched",
    ),
    "search_limit": CodeMeaning(
        "not every choice of nodes was tried: the search has a limit", "decide._searched"
    ),
    "affinity_to_ended": CodeMeaning(
        "an instance has affinity to pods that are recreated at the same time",
        "decide.affinity_doubts",
    ),
    "affinity_to_replaced": CodeMeaning(
        "a pod has affinity to pods that a workload rollout ends first", "decide._searched"
    ),
    "beside_replaced": CodeMeaning(
        "a pod has affinity to pods that a workload rollout ends, and may be placed beside one of them",
        "decide.replaced_doubts",
    ),
    "old_pods_end": CodeMeaning(
        "a workload rollout may end old pods before new ones have a node",
        "forecast._Forecaster._rollout_doubts",
    ),
    "moves_free_nodes": CodeMeaning(
        "VMs may move to other nodes than planned and free capacity",
        "forecast._Forecaster._with_rules",
    ),
    "previous_constraints": CodeMeaning(
        "VMs that do not move still run with the previous constraints",
        "forecast._Forecaster._with_rules",
    ),
    "rules_of_placed_vms": CodeMeaning(
        "pods that end or are created may violate the rule of a VM that is placed already",
        "forecast._Forecaster._with_rules",
    ),
    "moves_violate_rules": CodeMeaning(
        "a rule may be violated after the planned moves",
        "running_vms.ChangedVms._doubt_of_moves",
    ),
    "several_moves": CodeMeaning(
        "the scheduler may choose other nodes for the moves than the plan",
        "running_vms.ChangedVms._doubt_of_moves",
    ),
    "moves_beside_others": CodeMeaning(
        "VMs move while other instances need a node", "running_vms.ChangedVms._doubt_of_moves"
    ),
    "moves_search_limit": CodeMeaning(
        "not every sequence of moves was tried: the search has a limit",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "terminating_pods_count": CodeMeaning(
        "pods that are terminating still count for the rules",
        "running_vms.ChangedVms._doubt_of_move",
    ),
    "no_planned_move": CodeMeaning(
        "some sequence of moves satisfies all rules, and the plan does not have it",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "obstacles_end": CodeMeaning(
        "what keeps a VM from moving ends by itself", "running_vms.ChangedVms._by_any_sequence"
    ),
    "others_may_help": CodeMeaning(
        "other pods end or get a node meanwhile, and a node may become feasible",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "moved_by_others": CodeMeaning(
        "another controller has to move a VM (eviction strategy External)",
        "eviction.blocked_evidence",
    ),
    "quota_unknown": CodeMeaning("a ResourceQuota may refuse a pod", "quota.quota_evidence"),
    "not_reported_migratable": CodeMeaning(
        "KubeVirt has not reported whether a VM can be live-migrated",
        "doubts.of_evicted",
    ),
    "ordered_start": CodeMeaning(
        "a StatefulSet starts its replicas in their order, and one of them is not ready",
        "doubts.of_ordered_start",
    ),
    "claim_unread": CodeMeaning("a claim could not be read", "claims.of_claims"),
    "claim_unbound": CodeMeaning(
        "a claim is not bound, and its volume or its node is not certain", "claims.of_claims"
    ),
    "claim_of_one_node": CodeMeaning(
        "a ReadWriteOnce claim may be in use on another node", "claims.of_claims"
    ),
    "volume_limit_unread": CodeMeaning(
        "how many volumes a node may attach is not known", "claims._limit_unread"
    ),
    "scheduling_gates": CodeMeaning(
        "a pod has scheduling gates, and gets a node once they are removed", "claims.of_pod_spec"
    ),
    "device_claims": CodeMeaning("a pod uses devices by resourceClaims", "claims.of_pod_spec"),
    "named_node": CodeMeaning(
        "a template names a node, and no scheduler checks it", "claims.of_pod_spec"
    ),
    "unmodeled_field": CodeMeaning(
        "a pod has a field that may matter for its node, and that no filter reads",
        "claims.of_pod_spec",
    ),
    "admission_differs": CodeMeaning(
        "the running pod has a node selector or a toleration that its template does not have",
        "doubts.of_admission",
    ),
    "admission_unknown": CodeMeaning(
        "a LimitRange, or a mutating webhook or policy, may change or refuse a pod, or could not be read",
        "admission.PodAdmission._of_limit_ranges",
    ),
    "pods_refused": CodeMeaning(
        "the API server refused the last pod of a workload, as its controller reports",
        "admission.refused_doubt",
    ),
    "pod_security": CodeMeaning(
        "the level of PodSecurity that a namespace enforces may refuse a pod",
        "admission.PodAdmission._of_levels",
    ),
    "dry_run_refused": CodeMeaning(
        "the API server refuses a dry run of a pod, made with this identity",
        "admission._refused_by_server",
    ),
    "next_pod_estimated": CodeMeaning(
        "the next pod of an instance may differ from the expected one, or be refused",
        "doubts.of_evicted",
    ),
    "disruption_budget": CodeMeaning(
        "a disruption budget does not allow now that an instance ends", "doubts.of_evicted"
    ),
    "other_scheduler": CodeMeaning(
        "another scheduler than kube-scheduler places a pod", "doubts.of_schedulers"
    ),
    "tolerates_failure": CodeMeaning(
        "a pod tolerates the taints of a failed node, and the scheduler may choose that node again",
        "doubts.of_failed_nodes",
    ),
    "stays_terminating": CodeMeaning(
        "a pod that has no node yet may be on the failing one, and stay there terminating",
        "doubts.of_left_over",
    ),
    "not_again_after_drain": CodeMeaning(
        "a VM is migrated to a node that may fail, and nothing starts it again then",
        "drained.drained",
    ),
    "restarted_by_pool": CodeMeaning(
        "a pool of VMs starts stopped VMs once its template is written, and unless it is held restarts the others",
        "doubts.of_pools",
    ),
    "paused": CodeMeaning(
        "a replica set or pool of VMs is paused, and is not scaled until it is resumed",
        "doubts.of_paused",
    ),
    "chosen_by_controller": CodeMeaning(
        "the controller chooses which instances end", "doubts.of_scale_down"
    ),
}


OF_ADMISSION: t.Final = frozenset({"dry_run_refused", "pod_security", "pods_refused"})
"""Codes of doubts about pods that may not be created at all."""


def advice_on_admission(codes: t.Container[str], levels: t.Iterable[str] | None = None) -> str:
    """What to do about doubts of `OF_ADMISSION`. `levels`: the advice of these doubts; None where only their codes are
    known, and their texts name the namespaces."""
    if levels is None and ("pod_security" in codes or "dry_run_refused" in codes):
        levels = (
            f"Where it names PodSecurity, the label {ENFORCE} of that namespace sets the level.",
        )
    unique = dict.fromkeys(filter(None, levels or ()))
    return " ".join(("Do what the refusal asks for first: no other node helps.", *unique))


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the model does not know. `code` is one of CODES, `text` ends the sentence "not guaranteed: ..." and
    names the object, `forbids` are the answers that it does not allow. `more_pods`: it is about pods that the change
    makes and that are not known, so that it counts where nothing else is placed, too. `advice`: what to do,
    where the text does not say so."""

    code: str
    text: str
    forbids: frozenset[ForecastResult] = NO_GUARANTEE
    more_pods: bool = False
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one part of a forecast shows: that every choice of nodes succeeds (`always`, a code), that none
    does (`never`, the codes of the proofs), or that one does (`witness`)."""

    always: str = ""
    never: tuple[str, ...] = ()
    witness: bool = False
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Conclusion:
    """`codes` made the answer; `doubts` are those among them that are doubts. `lowered`: without them it
    would be GUARANTEED or IMPOSSIBLE."""

    answer: ForecastResult
    codes: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


DELAYED: t.Final = ("affinity_to_ended",)
"""The codes of an answer that would be guaranteed, but for a delay: each choice of nodes places all, and one of them
may wait up to five minutes for the next try."""


def holds_at_last(answer: ForecastResult, codes: t.Sequence[str]) -> bool:
    """Whether each instance gets a node, whichever nodes the scheduler chooses, now or after a delay."""
    delayed = answer is ForecastResult.POSSIBLE and tuple(codes) == DELAYED
    return delayed or answer is ForecastResult.GUARANTEED


def conclude(*parts: Evidence) -> Conclusion:
    """The worst answer of the parts, each of them the strongest that its evidence and its doubts allow."""
    conclusions = [_conclusion(part) for part in parts]
    answer = worst_of(conclusion.answer for conclusion in conclusions)
    deciding = [conclusion for conclusion in conclusions if conclusion.answer is answer]
    codes = dict.fromkeys(code for conclusion in deciding for code in conclusion.codes)
    doubts = dict.fromkeys(doubt for conclusion in deciding for doubt in conclusion.doubts)
    return Conclusion(answer, tuple(codes), tuple(doubts))


def _conclusion(part: Evidence) -> Conclusion:
    placeable = part.witness or bool(part.always)
    answer = ForecastResult.POSSIBLE if placeable else ForecastResult.UNKNOWN
    codes = part.never or ((part.always,) if part.always else ())
    if codes:
        answer = ForecastResult.IMPOSSIBLE if part.never else ForecastResult.GUARANTEED
    while any(answer in doubt.forbids for doubt in part.doubts):
        answer = _WEAKER[answer]
    if answer in (ForecastResult.GUARANTEED, ForecastResult.IMPOSSIBLE):
        return Conclusion(answer, codes)
    better = ForecastResult.POSSIBLE if placeable else ForecastResult.IMPOSSIBLE
    forbidden = ForecastResult.GUARANTEED if answer is ForecastResult.POSSIBLE else better
    doubts = tuple(doubt for doubt in part.doubts if forbidden in doubt.forbids)
    return Conclusion(answer, tuple(dict.fromkeys(doubt.code for doubt in doubts)), doubts)


def worst_of(answers: t.Iterable[ForecastResult]) -> ForecastResult:
    """The worst answer; GUARANTEED if there is none."""
    return max(answers, key=WORSE.index, default=ForecastResult.GUARANTEED)
