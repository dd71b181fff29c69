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
    """What an answer with this code means and what to do, as sentences in Markdown; `python -m dev.codes` writes them
    into docs/troubleshooting.md, by `group`. `function` of `forecast/` gives the code (`file.function`)."""

    meaning: str
    advice: str
    group: str
    function: str


CODES: t.Final[t.Mapping[str, CodeMeaning]] = {
    "nothing_to_place": CodeMeaning(
        "No instance needs a node.",
        "Nothing.",
        "proven",
        "decide.evaluate",
    ),
    "worst_case": CodeMeaning(
        "Each instance has a node, whichever nodes the scheduler chooses for the others.",
        "Nothing.",
        "proven",
        "decide.evaluate",
    ),
    "every_choice": CodeMeaning(
        "Every choice of nodes was tried. With `guaranteed` each one places all instances, with `impossible` none"
        " does.",
        "With `impossible`: free or add a node for those in `pending`, or make a rule preferred.",
        "proven",
        "decide._searched",
    ),
    "moves_satisfy_rules": CodeMeaning(
        "One VM moves, and no rule is violated whichever node it gets.",
        "Nothing.",
        "proven",
        "running_vms.ChangedVms.evaluate",
    ),
    "no_node": CodeMeaning(
        "An instance has no feasible node.",
        "`reasons` has [kube-scheduler's words](#06-nodes-are-available-5-nodes-didnt-match-pod-anti-affinity-rules)."
        " Free or add a node, or make the rule preferred.",
        "no_node",
        "infeasibility.examine",
    ),
    "apart": CodeMeaning(
        "More instances have anti-affinity to each other than there are topology domains for them.",
        "Add a zone or a node, label nodes that have no zone, or make the rule preferred.",
        "no_node",
        "infeasibility._apart_proofs",
    ),
    "resources": CodeMeaning(
        "Equal instances request more together than is free on their feasible nodes.",
        "Free CPU or memory there, add a node, or scale down. `reasons` has the numbers.",
        "no_node",
        "infeasibility._resource_proofs",
    ),
    "no_moves_repair": CodeMeaning(
        "Every sequence of single moves was tried, and none satisfies all rules.",
        "Only members of the rules of this task move: give the other rules of these VMs in `placement_apply_rules`,"
        " too. A VM that one rule keeps together with another VM, and a second rule apart from it, has no node"
        " (`rules_info`): remove one rule, or add a node.",
        "no_node",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "stays_on_node": CodeMeaning(
        "An instance cannot leave its node, so a drain of the node does not end.",
        "`not_migratable` has the instance and what keeps it. Remove that, or let `node_maintenance` restart or stop"
        " the VM: `vm_policy`.",
        "stays",
        "eviction.blocked_evidence",
    ),
    "moved_by_others": CodeMeaning(
        "The eviction strategy of a VM is External, so another controller has to move it.",
        "Look at what that controller does at a drain, or migrate the VM before.",
        "stays",
        "eviction.blocked_evidence",
    ),
    "not_reported_migratable": CodeMeaning(
        "The VMI has no condition LiveMigratable yet, or its node may keep it from migrating.",
        "Ask again in a minute. If the condition stays missing, look at virt-handler of its node.",
        "stays",
        "doubts.of_evicted",
    ),
    "may_stay_off": CodeMeaning(
        "A VM that a drain ends may not be started again.",
        "Start the VM after the drain, or give it the run strategy `Always` before.",
        "stays",
        "eviction.Evictions._vmi",
    ),
    "disruption_budget": CodeMeaning(
        "A PodDisruptionBudget does not allow now that an instance ends.",
        "`kubectl get pdb -n NAMESPACE`: make its pods Ready, or add a replica.",
        "stays",
        "doubts.of_evicted",
    ),
    "obstacles_end": CodeMeaning(
        "What keeps a VM from moving ends by itself, such as a migration.",
        "Make the forecast again when what `skipped_instances` names has ended.",
        "stays",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "quota": CodeMeaning(
        "A ResourceQuota refuses a pod. No other node helps.",
        "Raise the ResourceQuota that `reasons` names, or specify in the template the amounts that it asks for.",
        "quota",
        "quota.quota_evidence",
    ),
    "quota_unknown": CodeMeaning(
        "A ResourceQuota may refuse a pod: what it counts of the pod is not known.",
        "Specify in the template what `reasons` names, such as its memory limit, or raise the quota.",
        "quota",
        "quota.quota_evidence",
    ),
    "unreadable": CodeMeaning(
        "A list of objects could not be read, so nothing is claimed.",
        "Apply `rbac/reader.yml`, and bind its ClusterRole to the account in `permission_gaps`.",
        "unread",
        "forecast.forecast",
    ),
    "claim_unread": CodeMeaning(
        "A PersistentVolumeClaim of a pod could not be read.",
        "Apply `rbac/reader.yml`, which has the right to get `persistentvolumeclaims`.",
        "unread",
        "claims.of_claims",
    ),
    "volume_limit_unread": CodeMeaning(
        "How many volumes a node may attach is not known.",
        "Apply `rbac/reader.yml`, which has the right to list `csinodes`. For an in-tree driver no forecast is"
        " certain.",
        "unread",
        "claims._limit_unread",
    ),
    "unfavorable_nodes": CodeMeaning(
        "Instances are unschedulable if the scheduler chooses unfavorable nodes for others.",
        "`pending` has one such case. Free capacity there, or limit the choice of the others by a rule.",
        "choice",
        "decide._searched",
    ),
    "search_limit": CodeMeaning(
        "Not every choice of nodes was tried: the search has a limit.",
        "Ask about fewer rules or nodes at a time. More free capacity may need no search.",
        "choice",
        "decide._searched",
    ),
    "affinity_to_ended": CodeMeaning(
        "An instance has affinity to pods that are recreated at the same time.",
        "If this is the only code, it gets a node within five minutes. Or make the affinity preferred.",
        "choice",
        "decide.affinity_doubts",
    ),
    "affinity_to_replaced": CodeMeaning(
        "A pod has affinity to pods that a workload rollout ends first.",
        "Write one rule after the other, or make the affinity preferred.",
        "rollout",
        "decide._searched",
    ),
    "beside_replaced": CodeMeaning(
        "A pod with affinity to pods that a workload rollout ends may be placed beside one of them.",
        "Write one rule after the other: the second one when the first rollout is done.",
        "rollout",
        "decide.replaced_doubts",
    ),
    "old_pods_end": CodeMeaning(
        "A workload rollout may end old pods before new ones have a node.",
        "`maxUnavailable: 0` of a Deployment. For a StatefulSet `workload_rollout: hold` replaces only the pods that"
        " have to move.",
        "rollout",
        "forecast._Forecaster._rollout_doubts",
    ),
    "ordered_start": CodeMeaning(
        "A StatefulSet starts or replaces its replicas in their order, and one of them is not Ready.",
        "Make that replica Ready first: `kubectl describe pod` has what it lacks.",
        "rollout",
        "doubts.of_ordered_start",
    ),
    "restarted_by_pool": CodeMeaning(
        "KubeVirt starts stopped VMs of a pool once its template is written, and restarts the others unless it is"
        " held.",
        "`workload_rollout: hold`: only VMs that violate the rule move. Stopped VMs start nevertheless.",
        "rollout",
        "doubts.of_pools",
    ),
    "paused": CodeMeaning(
        "A replica set or pool of VMs is paused, and is not scaled until it is resumed.",
        "Resume it (`spec.paused: false`), then scale it.",
        "rollout",
        "doubts.of_paused",
    ),
    "chosen_by_controller": CodeMeaning(
        "The controller of a workload chooses which instances end, or ends none.",
        "Scale it down first, then make the forecast of the rest. For a pool see `spec.scaleInStrategy`.",
        "rollout",
        "doubts.of_scale_down",
    ),
    "moves_free_nodes": CodeMeaning(
        "VMs may move to other nodes than planned and free capacity for the instance.",
        "Roll out the rules, which plans anew after each move. Then make the forecast again.",
        "moves",
        "forecast._Forecaster._with_rules",
    ),
    "previous_constraints": CodeMeaning(
        "VMs that do not move still run with the previous constraints, so other pods may be placed against the new"
        " rules.",
        "After the write, run `rollout` with `placement_rollout_scope: not_enforced`.",
        "moves",
        "forecast._Forecaster._with_rules",
    ),
    "rules_of_placed_vms": CodeMeaning(
        "Pods that end or are created may violate the rule of a VM that is placed already.",
        "Run `placement_info` afterwards; `rollout` moves the VMs that violate a rule then.",
        "moves",
        "forecast._Forecaster._with_rules",
    ),
    "moves_violate_rules": CodeMeaning(
        "A rule may be violated after the planned moves.",
        "Run `rollout` in the namespace of the VM that `reasons` names.",
        "moves",
        "running_vms.ChangedVms._doubt_of_moves",
    ),
    "several_moves": CodeMeaning(
        "Several VMs move, and the scheduler may choose other nodes than the plan.",
        "Roll out, which plans anew after each move. `placement_rollout_max_moves` limits the moves.",
        "moves",
        "running_vms.ChangedVms._doubt_of_moves",
    ),
    "moves_beside_others": CodeMeaning(
        "VMs move while other instances need a node.",
        "Wait until the other instances have their nodes, then make the forecast again.",
        "moves",
        "running_vms.ChangedVms._doubt_of_moves",
    ),
    "moves_search_limit": CodeMeaning(
        "Not every sequence of moves, or not every node for a move, was tried: the search has a limit.",
        "Declare fewer rules at a time.",
        "moves",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "terminating_pods_count": CodeMeaning(
        "Pods that are terminating still count for the rules.",
        "Make the forecast again when they are gone.",
        "moves",
        "running_vms.ChangedVms._doubt_of_move",
    ),
    "no_planned_move": CodeMeaning(
        "Some sequence of moves satisfies all rules, and the plan does not have it.",
        "Roll out. What is left then, move with `places` of `rollout`.",
        "moves",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "others_may_help": CodeMeaning(
        "No sequence of moves satisfies all rules now, but other pods end or get a node meanwhile.",
        "Make the forecast again when they have.",
        "moves",
        "running_vms.ChangedVms._by_any_sequence",
    ),
    "claim_unbound": CodeMeaning(
        "A claim is not bound, and its volume or its node is not certain.",
        "Bind the claim first, or see each case in [Claims and volumes](forecasting.md#claims-and-volumes).",
        "claims",
        "claims.of_claims",
    ),
    "claim_of_one_node": CodeMeaning(
        "A ReadWriteOnce claim may be in use on another node, where the new pod waits for its volume.",
        "End the pod that `reasons` names, or use ReadWriteMany.",
        "claims",
        "claims.of_claims",
    ),
    "scheduling_gates": CodeMeaning(
        "A pod has scheduling gates, and gets a node once they are removed.",
        "`spec.schedulingGates` of the pod has their names. Look at the controller that removes them, such as Kueue.",
        "fields",
        "claims.of_pod_spec",
    ),
    "device_claims": CodeMeaning(
        "A pod uses devices by `resourceClaims`. No filter here reads which node has them.",
        "`kubectl get resourceslices` shows the devices of each node.",
        "fields",
        "claims.of_pod_spec",
    ),
    "named_node": CodeMeaning(
        "A template names a node (`nodeName`), and no scheduler checks it.",
        "Remove `nodeName`. A node selector, or a rule `run_on`, lets the scheduler check the node.",
        "fields",
        "claims.of_pod_spec",
    ),
    "unmodeled_field": CodeMeaning(
        "A pod has a field that may matter for its node, and that no filter here reads.",
        "`reasons` names the field. Check by hand which nodes it allows.",
        "fields",
        "claims.of_pod_spec",
    ),
    "other_scheduler": CodeMeaning(
        "Another scheduler than kube-scheduler places a pod.",
        "`spec.schedulerName` of the pod names it. Look at its configuration.",
        "fields",
        "doubts.of_schedulers",
    ),
    "admission_differs": CodeMeaning(
        "The running pod has a node selector or a toleration that its template does not have.",
        "Find what adds it (a RuntimeClass, `openshift.io/node-selector` of the namespace, a webhook), and write it"
        " into the template.",
        "next_pod",
        "doubts.of_admission",
    ),
    "admission_unknown": CodeMeaning(
        "A LimitRange, a mutating webhook or an admission policy may change or refuse a pod, or could not be read.",
        "Check what the one in `reasons` does with this pod. An account that may create pods asks by a dry run: [What"
        " admission refuses](forecasting.md#what-admission-refuses).",
        "next_pod",
        "admission.PodAdmission._of_limit_ranges",
    ),
    "pods_refused": CodeMeaning(
        "The API server refused the last pod of a workload, as its controller reports.",
        "Do what the refusal in `reasons` asks for: no other node helps.",
        "next_pod",
        "admission.refused_doubt",
    ),
    "pod_security": CodeMeaning(
        "The level of Pod Security that a namespace enforces may refuse a pod.",
        "`reasons` has the level and what it forbids. Change the template, or the label"
        " `pod-security.kubernetes.io/enforce` of the namespace.",
        "next_pod",
        "admission.PodAdmission._of_levels",
    ),
    "dry_run_refused": CodeMeaning(
        "The API server refuses a dry run of a pod, made with this identity.",
        "Do what the refusal in `reasons` asks for: no other node helps. Where it does not concern the controller of"
        " the workload, the pod is created nevertheless.",
        "next_pod",
        "admission._refused_by_server",
    ),
    "next_pod_estimated": CodeMeaning(
        "The next pod of an instance may differ from the expected one, or be refused.",
        "`reasons` names what is not known. Grant the right to read it, or restart the instance first, so that it runs"
        " with its present template.",
        "next_pod",
        "eviction.Evictions._vmi",
    ),
    "tolerates_failure": CodeMeaning(
        "A pod tolerates the taints of a failed node, and the scheduler may choose that node again.",
        "Fence the node ([What happens on a node](forecasting.md#what-happens-on-a-node)), or remove the toleration.",
        "failure",
        "doubts.of_failed_nodes",
    ),
    "stays_terminating": CodeMeaning(
        "A pod that has no node yet may be on the failing one, stay there terminating, and count for anti-affinity.",
        "Fence the node when it fails: [What happens on a node](forecasting.md#what-happens-on-a-node).",
        "failure",
        "doubts.of_left_over",
    ),
    "not_again_after_drain": CodeMeaning(
        "A VM is migrated to a node that may fail, and nothing starts it again then.",
        "Set `spec.runStrategy: Always`, or start it by hand after a failure.",
        "failure",
        "drained.drained",
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
    return answer is ForecastResult.GUARANTEED or (
        answer is ForecastResult.POSSIBLE and tuple(codes) == DELAYED
    )


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
