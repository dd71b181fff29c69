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
    """What a code means, and what to do: sentences in Markdown. `python -m dev.codes` writes them into
    docs/troubleshooting.md, so that links are relative to docs/."""

    meaning: str
    advice: str


NO_ANSWER = "no_answer"

NO_RIGHT = "no_right"
NOT_READ = "not_read"
NOT_MODELED = "not_modeled"
NOT_IMPORTED = "not_imported"
NOT_COVERED = "not_covered"
NO_POLICY = "no_policy"
OUTSIDE_OF_WINDOW = "outside_of_window"

PENDING_CHANGES = "pending_changes"
WORKLOAD_ROLLOUT_STOPPED = "workload_rollout_stopped"
NO_HOLD = "no_hold"
NOT_STARTED = "not_started_again"
NO_NODE = "no_node"
NOT_FOUND = "not_found"

BARE_POD = "bare_pod"
DAEMONSET_MISSING = "daemonset_missing"
LOCAL_DATA_LOST = "local_data_lost"
STANDALONE_VMI = "standalone_vmi"
TOLERATES_CORDON = "tolerates_cordon"
NAMES_NODE = "names_node"
"""Names of findings of a drain, too: it takes the advice about them from CODES."""

INTERNAL: t.Final = frozenset(
    (
        *("canary", "soaking", "other_domain", "limit_reached", "other_run"),
        *("not_rebooted", "needless", NOT_IMPORTED, NOT_COVERED, NO_POLICY),
        *("pinned_to_node", "tied_to_node", NO_HOLD, NOT_STARTED),
    )
)
"""Codes that no result has: a run waits until what they name ends, or a finding has its own name for it."""

CODES: t.Final[t.Mapping[str, Described]] = {
    NO_ANSWER: Described(
        "virt-controller does not answer: its Lease was not renewed for 30 s, or it gives a migration no phase.",
        "Look at the Deployment `virt-controller`, its pods and logs. VMs run on where they are. Then run the task"
        " again.",
    ),
    "max_moves": Described(
        "As many moves as `max_moves` allows have begun.",
        "Check the VMs that have moved, then run the task again for the rest.",
    ),
    OUTSIDE_OF_WINDOW: Described(
        "The time of day is outside of `window`, so no move begins.",
        "Run the task again when the window opens, or change `window`.",
    ),
    "canary_not_ended": Described(
        "A canceled migration of the canary has not ended, so no other move begins.",
        "Look at it (`kubectl get vmim -n NAMESPACE`), and at virt-handler on the node of the VM. Then run the task"
        " again.",
    ),
    "canary": Described("The moves of the canary are still in flight.", "Wait."),
    "soaking": Described("The time of `soak` is not over.", "Wait."),
    "other_domain": Described(
        "Moves away from another topology domain are still in flight.", "Wait."
    ),
    "limit_reached": Described(
        "As many moves or migrations are in flight, or as many instances not Ready, as a limit allows.",
        "Wait.",
    ),
    "other_run": Described("Another run holds the Lease, or may hold it.", "Wait for that run."),
    "in_progress": Described(
        "Kubernetes, KubeVirt or another controller has not finished what it began, such as a migration or a workload"
        " rollout.",
        "Run the task again later. If it does not end, `kubectl describe` the object that the reason names. For a"
        " guest that changes memory faster than the network transfers it, raise the limits below"
        " `spec.configuration.migrations` of the KubeVirt object.",
    ),
    "other_move": Described(
        "The instance moves after another one, which has not moved.",
        "Do what the code of that one asks for, and run the task again.",
    ),
    "budget": Described(
        "A PodDisruptionBudget does not allow that the pod ends, or two of them select it.",
        "`kubectl get pdb -n NAMESPACE`. At 0 ALLOWED DISRUPTIONS make its pods Ready, add a replica, or agree on"
        " another budget with its owner. Of two budgets, delete one. [Operators](maintenance.md#budgets-of-operators)"
        " lift theirs.",
    ),
    NO_NODE: Described(
        "No node takes the next pod of the instance.",
        "[0/6 nodes are available](#06-nodes-are-available-5-nodes-didnt-match-pod-anti-affinity-rules) explains the"
        " reason. Free or add a node, or make the rule preferred.",
    ),
    "migration_failed": Described(
        "KubeVirt ended the migration without success, or another client deleted it.",
        "The VM runs on where it was. See the reason, then the logs of its virt-launcher pods and of virt-handler on"
        " both nodes. Run the task again.",
    ),
    "moved_by_others": Described(
        "The VM waits for the controller of its eviction strategy External, or another client migrates it.",
        "Look at that controller, and wait for its move. Then run the task again.",
    ),
    "gone": Described(
        "The instance ended before or during its move, or is not wanted any more.",
        "Nothing, unless it should run: then look at its owner.",
    ),
    "move_failed": Described(
        "A move of the instance failed in this run.",
        "Do what the code of its failed move in `moves` asks for, then run the task again.",
    ),
    "not_rebooted": Described(
        "The node was not rebooted, and `reboot_expected` is set.",
        "Reboot it, or leave `reboot_expected` out.",
    ),
    "node_not_ready": Described(
        "The node of the instance is NotReady, so no live migration is possible.",
        "Look at its kubelet. If it does not come back, make sure that its host is off, and fence it: then the VM"
        " starts on another node ([What happens on a node](forecasting.md#what-happens-on-a-node)).",
    ),
    "needless": Described("The VM is started, or KubeVirt is about to start it.", "Nothing."),
    "outcome_unknown": Described(
        "The connection was lost after a request was sent, or a request of an earlier run may still arrive.",
        "Run the task again: it reads what has happened and does the rest.",
    ),
    NO_RIGHT: Described(
        "The account has no right to read this. What depends on it is unknown.",
        "Apply `rbac/reader.yml`, and bind its ClusterRole to the account that the entry names.",
    ),
    NOT_READ: Described(
        "This could not be read, though no right is missing.",
        "Do what the reason names, then run the task again.",
    ),
    NOT_MODELED: Described(
        "The pod that KubeVirt or a controller makes next is not known in each part.",
        "Ask again once that pod exists. The reason names what is not known.",
    ),
    NOT_IMPORTED: Described(
        "The rule of another platform does nothing, or has no counterpart.",
        "See its reason in the report of the import.",
    ),
    NOT_COVERED: Described(
        "No policy can write the rule to workloads that are created later.",
        "Do what the reason names, or write the rules again after the workloads are created.",
    ),
    NO_POLICY: Described(
        "The rules of the set cannot be made into a policy for workloads that are created later.",
        "Do what the reason names.",
    ),
    "not_live_migratable": Described(
        "KubeVirt does not migrate this VM, or the instance is a pod.",
        "Remove what the reason names, such as a ReadWriteOnce volume or a host device. Or add `restart` to `allow`"
        " (of a drain: to `vm_policy`); for a pod or a VMI of a replica set `recreate`.",
    ),
    "no_target_pod": Described(
        "The node of the VM lacks the label of its CPU model, and KubeVirt before 1.6 then makes no target pod for"
        " host-model.",
        "Look at the virt-handler pod of this node: it sets the label. Or add `restart` to `allow`.",
    ),
    "pinned_to_node": Described(
        "The node selector and node affinity of the VM allow only the node that it runs on.",
        "Relax them, or restart the VM.",
    ),
    "tied_to_node": Described(
        "The VM and other VMs of its node require each other on one node.",
        "Make these terms preferred, or restart the VM.",
    ),
    "needs_restart": Described(
        "A live migration does not bring the new constraints to the running VMI.",
        "Add `restart` to `allow`; for a VMI of a replica set `recreate`. Or wait for the next restart.",
    ),
    PENDING_CHANGES: Described(
        "A restart or recreation would also apply other changes of the VM or workload.",
        "Agree on them with the owner. Set `apply_pending_changes: true` (of a drain: allow the finding"
        " `pending_changes`), or take the changes back.",
    ),
    "run_strategy": Described(
        "KubeVirt does not restart a VM with this run strategy.",
        "Set `spec.runStrategy` of the VM to `Always`, `Manual` or `RerunOnFailure`.",
    ),
    "not_running": Described(
        "The VM does not run, or has no pod or node yet.",
        "Start it (`virtctl start NAME -n NAMESPACE`). If it is Pending, `pending` of `placement_info` says why.",
    ),
    "terminating": Described(
        "The instance is being deleted.",
        "Run the task again once it is gone. If it stays, look at its finalizers and at the kubelet of its node.",
    ),
    WORKLOAD_ROLLOUT_STOPPED: Described(
        "The workload's own rollout is paused, held by a partition, or stuck.",
        "Resume it (`spec.paused: false`), set the partition to 0, or repair what the reason names. Then run the task"
        " again.",
    ),
    "changed_by_others": Described(
        "The VM of a pool has other placement than the template of its pool.",
        "Give `spec.template` of the VM that placement, then run the task again.",
    ),
    "not_movable": Described(
        "No controller creates the instance again elsewhere, as for a pod of a DaemonSet or a VMI without a VM.",
        "Leave it, or delete it and create it again by hand.",
    ),
    "previous_template": Described(
        "Replicas or VMs of the workload are not of its present template yet.",
        "[Run a rollout of the workload](#its-own-rollout-is-held-by-rules). A StatefulSet needs `recreate` in"
        " `allow`.",
    ),
    "damaged": Described(
        "The annotation `placement.virt/hold` cannot be read, so the previous strategy is not known.",
        "Set `spec.updateStrategy` by hand as the reason says, and remove the annotation.",
    ),
    "refused": Described(
        "The API server, admission, a ResourceQuota or KubeVirt refuses the request, the migration or the next pod.",
        "Correct what the reason names, such as the level of Pod Security, a webhook or a policy; a quota: [has no"
        " room for a second pod](#has-no-room-for-a-second-pod-or-exceeded-quota). Where the answer is missing,"
        " `kubectl get events -n NAMESPACE` has it.",
    ),
    "changed": Described(
        "The object was changed during the task, such as a VM that has moved or is being deleted.",
        "Run the task again.",
    ),
    NOT_STARTED: Described(
        "Nothing starts or creates the instance again once it has ended.",
        "Move it before its node fails or is drained, or start it by hand afterwards.",
    ),
    NO_HOLD: Described(
        "The rollout of the workload cannot be held.", "Set `workload_rollout` to `allow`."
    ),
    "too_few_domains": Described(
        "More instances must be apart than there are topology domains for them.",
        "Add a zone, label nodes that have none (`topology_info`), or make the rule preferred.",
    ),
    "blocked_by_each_other": Described(
        "Two instances have to move, and each needs what the other one prevents.",
        "Add or free a node for one of them, or stop one while the other one moves.",
    ),
    "violates_rule": Described(
        "After the move another instance would violate a rule.",
        "Move that instance first, or choose another node in `places`.",
    ),
    "bypassed_by_node_term": Described(
        "Another node selector term, which is OR-ed, allows nodes that the rule does not.",
        "Run the `rules` task again, or remove the other term.",
    ),
    "method_not_allowed": Described(
        "The instance can move, but only by a method that is not in `allow`.",
        "Add the method of the reason. `restart` ends the guest, `recreate` deletes a pod or a VMI.",
    ),
    "do_not_move": Described(
        "The label `placement.virt/do-not-move` keeps the instance where it is.",
        "Ask its owner. `kubectl label vm NAME -n NAMESPACE placement.virt/do-not-move-` removes it.",
    ),
    NOT_FOUND: Described(
        "No such VM, workload, node or namespace exists.",
        "Correct the name, or remove it from the task. The reason has the nearest name.",
    ),
    "no_own_hostname": Described(
        "No label `kubernetes.io/hostname` is of this node alone, so no migration can be held to it.",
        "`kubectl get nodes -L kubernetes.io/hostname`: give each node a value of its own.",
    ),
    "moved_already": Described(
        "This run has moved the instance, and moves none twice.",
        "Run the task again if the instance still has to move.",
    ),
    "not_in_plan": Described(
        "The approved plan has no move of this instance.",
        "If it is to move, have a new plan approved.",
    ),
    "unlike_plan": Described(
        "The instance would move by another method than the approved plan says, or from another node.",
        "Put back what has changed, or have a new plan approved.",
    ),
    BARE_POD: Described(
        "The pod has no controller, so none makes it again after its eviction.",
        "Delete it or give it a controller, or allow the finding `bare_pod` to evict it.",
    ),
    DAEMONSET_MISSING: Described(
        "The DaemonSet of the pod does not exist.",
        "Delete the pod, or allow the finding `daemonset_missing` to evict it.",
    ),
    LOCAL_DATA_LOST: Described(
        "An eviction of the pod would lose the data of its emptyDir volumes.",
        "Save the data, or allow the finding `local_data_lost` to evict it.",
    ),
    STANDALONE_VMI: Described(
        "No controller starts the VMI again if it ends.",
        "Give it a VirtualMachine, or allow the finding `standalone_vmi` to migrate it.",
    ),
    TOLERATES_CORDON: Described(
        "The pod tolerates the cordon, and the scheduler has placed its successor on the same node again and again.",
        "Remove the toleration of node.kubernetes.io/unschedulable from its template, or scale it down.",
    ),
    NAMES_NODE: Described(
        "The template of the workload names the node, or its controller places the pod there itself: each next pod is"
        " there again.",
        "Remove nodeName from its template, or scale it down.",
    ),
    "invalid_policy": Described(
        "The label `placement.virt/vm-policy` of the VM is not a list of policies.",
        "Set it to a policy, or to several in order of preference, with a dot between them, such as `migrate.stop`.",
    ),
    "refused_by_policy": Described(
        "The policy of the VM for maintenance is `refuse`, so a drain does not move it.",
        "Move or stop the VM by hand, or agree with its owner on another `vm_policy`, or label"
        " `placement.virt/vm-policy` of the VM.",
    ),
    "not_evictable": Described(
        "The policy `evict` is for VMs with the eviction strategy External, and the VM has another one.",
        "Let the VM leave by another policy, such as `migrate`: set `vm_policy`, or its label"
        " `placement.virt/vm-policy`.",
    ),
    "no_virtual_machine": Described(
        "No VirtualMachine owns the VMI, so it is not stopped or restarted.",
        "Let it leave by `migrate`: set `vm_policy`, or its label `placement.virt/vm-policy`.",
    ),
}
