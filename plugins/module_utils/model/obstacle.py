# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why is something not so now? A code that decisions are made by, and a sentence that people read.

A function that answers `Obstacle | None` says yes with None.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`code` is one of `CODES`. `text` is made where the facts are, and no code reads it. `temporary`: it ends by
    itself. `advice`: what to do, where the text does not say so."""

    code: str
    text: str
    temporary: bool = False
    advice: str = ""

    def __str__(self) -> str:
        return self.text

    def after(self, text: str) -> Obstacle:
        """The same obstacle, with what is to be read before it."""
        return replace(self, text=f"{text}; {self.text}")


class Described(t.NamedTuple):
    """What a code means, and what to do."""

    meaning: str
    advice: str


NO_ANSWER = "no_answer"

NO_RIGHT = "no_right"
NOT_READ = "not_read"
OUTSIDE_OF_WINDOW = "outside_of_window"

PENDING_CHANGES = "pending_changes"
WORKLOAD_ROLLOUT_STOPPED = "workload_rollout_stopped"
NO_HOLD = "no_hold"
NOT_STARTED = "not_started_again"
NO_NODE = "no_node"
NOT_FOUND = "not_found"

INTERNAL: t.Final = frozenset(
    (
        *("canary", "soaking", "other_domain", "limit_reached", "other_run"),
        *("not_rebooted", "needless"),
        *("pinned_to_node", "tied_to_node", NO_HOLD, NOT_STARTED),
    )
)
"""Codes that no result has: a run waits until what they name ends, or a finding has its own name for it."""

CODES: t.Final[t.Mapping[str, Described]] = {
    NO_ANSWER: Described(
        "virt-controller does not answer",
        "See Deployment virt-controller in the namespace of KubeVirt.",
    ),
    "max_moves": Described(
        "the number of moves that max_moves allows has begun", "Run the task again for the rest."
    ),
    OUTSIDE_OF_WINDOW: Described(
        "nothing is begun outside of the window", "Run the task again when the window opens."
    ),
    "canary_not_ended": Described(
        "a move of the canary was given up and has not ended",
        "See what the line about that move names, then run the task again.",
    ),
    "canary": Described("the moves of the canary are still in flight", "Wait."),
    "soaking": Described("the time of soak is not over", "Wait."),
    "other_domain": Described("moves away from another topology domain are in flight", "Wait."),
    "limit_reached": Described(
        "so many moves or migrations are in flight, or so many instances are not Ready, as a limit allows",
        "Wait.",
    ),
    "other_run": Described(
        "another run has the Lease, or may have it", "Wait until that run ends."
    ),
    "in_progress": Described(
        "Kubernetes, KubeVirt or a controller has not finished what it has begun",
        "Wait. If it does not end, see the object that the reason names.",
    ),
    "other_move": Described(
        "the instance moves after another one, which has not moved or is skipped",
        "See the reason of that instance, then run the task again.",
    ),
    "budget": Described(
        "a PodDisruptionBudget does not allow that the pod ends",
        "See that the pods of the budget are Ready, or change the budget.",
    ),
    "no_node": Described(
        "kube-scheduler finds no node for the next pod",
        "Free a node that the pod may use, or change the rule that keeps it from the others.",
    ),
    "migration_failed": Described(
        "KubeVirt ended the migration without success",
        "See the reason, and the log of virt-launcher; then run the task again.",
    ),
    "moved_by_others": Described(
        "another controller or client migrates or moves the VM",
        "See that this controller runs, and wait until it has moved the VM.",
    ),
    "gone": Described(
        "the instance has ended, or is not wanted any more", "Nothing is to be done."
    ),
    "move_failed": Described(
        "a move of the instance failed in this run", "See the failed move, then run the task again."
    ),
    "not_rebooted": Described(
        "the node was not rebooted, which was expected", "Reboot it, or leave reboot_expected out."
    ),
    "node_not_ready": Described(
        "the node is NotReady, or what takes VMs on it is not ready",
        "Wait, or see its kubelet and virt-handler.",
    ),
    "needless": Described(
        "the VM is started, or KubeVirt is about to do it", "Nothing is to be done."
    ),
    "outcome_unknown": Described(
        "the connection was lost, or a request of an earlier run may still arrive",
        "Run the task again: that is safe.",
    ),
    NO_RIGHT: Described("a right is missing", "Grant the right that the reason names."),
    NOT_READ: Described(
        "a list or an object cannot be read or asked for, though no right is missing",
        "The reason names what to do.",
    ),
    "not_live_migratable": Described(
        "KubeVirt migrates the VM to no other node, or the instance is a pod, which cannot migrate",
        "See the condition LiveMigratable of the VMI. Or add restart (for a pod or a VMI of a replica set: recreate) to"
        " allow.",
    ),
    "no_target_pod": Described(
        "KubeVirt makes no target pod for a migration from this node",
        "See why virt-handler does not set the label that the reason names.",
    ),
    "pinned_to_node": Described(
        "the node selector and node affinity of the VM allow only the node that it runs on",
        "Relax them, or restart the VM.",
    ),
    "tied_to_node": Described(
        "the VM and other VMs of its node require each other on one node",
        "Make these terms preferred, or restart the VM.",
    ),
    "needs_restart": Described(
        "the VMI gets the placement of its workload only as a new VMI",
        "Add restart (for a VMI of a replica set: recreate) to allow.",
    ),
    PENDING_CHANGES: Described(
        "a restart or recreation would also apply other changes of the template",
        "Apply these changes first, or set apply_pending_changes.",
    ),
    "run_strategy": Described(
        "KubeVirt does not restart a VM with this run strategy",
        "Set runStrategy to Always, Manual or RerunOnFailure.",
    ),
    "not_running": Described("the VM does not run, or its VMI is being started", "Start the VM."),
    "terminating": Described("the instance is being deleted", "Wait until it is gone."),
    WORKLOAD_ROLLOUT_STOPPED: Described(
        "the rollout of the workload is paused, held or stuck",
        "Resume it, or repair what the reason names.",
    ),
    "changed_by_others": Described(
        "something else has changed the object since", "Change it back, as the reason says."
    ),
    "not_movable": Described(
        "no controller makes the instance again on another node",
        "Move it by hand, or leave it where it is.",
    ),
    "previous_template": Described(
        "replicas or VMs of a workload that is held are not of its present template",
        "Run a rollout of the workload. A StatefulSet needs recreate in allow.",
    ),
    "damaged": Described(
        "an annotation of this collection is damaged", "Do by hand what the reason names."
    ),
    "refused": Described(
        "the API server, admission, a quota or KubeVirt refuses it",
        "Correct what the refusal names.",
    ),
    "changed": Described("the object was changed during the task", "Run the task again."),
    NOT_STARTED: Described(
        "nothing starts or creates the instance again once it has ended",
        "Move it before its node fails or is drained, or start it by hand afterwards.",
    ),
    NO_HOLD: Described(
        "the rollout of the workload cannot be held", "Set workload_rollout to allow."
    ),
    "too_few_domains": Described(
        "more instances must be apart than there are zones, or other topology domains, for them",
        "Add a topology domain, or make the rule preferred.",
    ),
    "blocked_by_each_other": Described(
        "two instances have to move, and each needs what the other one prevents",
        "Add a node that one of them may use, or stop one of them while the other one moves.",
    ),
    "violates_rule": Described(
        "after the move another instance would violate a rule",
        "Move that instance first, or choose another node.",
    ),
    "bypassed_by_node_term": Described(
        "another node selector term, which is OR-ed, allows nodes that the rule does not",
        "Write the rules again, or remove the other term.",
    ),
    "method_not_allowed": Described(
        "the instance could move by a method that is not in allow",
        "Add the method that the reason names to allow.",
    ),
    "do_not_move": Described(
        "the label placement.virt/do-not-move keeps the instance where it is", "Remove the label."
    ),
    NOT_FOUND: Described(
        "no such VM, node or namespace exists", "Correct the name, or remove it from the task."
    ),
    "no_own_hostname": Described(
        "no label kubernetes.io/hostname is of this node alone, so no migration can be held to the node",
        "Give each node the label with a value of its own.",
    ),
    "moved_already": Described(
        "this run has moved the instance", "Run the task again if it shall move once more."
    ),
    "not_in_plan": Described(
        "the approved plan has no move of this instance", "Have a new plan approved."
    ),
    "unlike_plan": Described(
        "the instance would move otherwise than the approved plan says", "Have a new plan approved."
    ),
}
