#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Move running VMs and pods until their placement rules hold
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Moves VMs and pods that violate a placement rule, with as few moves as possible.
  - Migrates VMs live unless O(allow) lets it restart VMs or recreate instances.
  - Starts moves in an order in which each instance finds a node. Reads the cluster again after each move, and plans
    the remaining moves again.
  - Restarts or recreates an instance only if the PodDisruptionBudgets of its pod allow that now, and waits for them.
    An instance whose budget never allows it is skipped. A live migration needs no budget.
  - Does not use nodes that would need preemption.
  - Skips instances with the label C(placement.virt/do-not-move), which their workload, the VM of a pool, or the VMI or
    pod itself has. Skips instances on a node that is not ready.
  - Never starts or stops a VM. A halted VM stays halted, and a VM with run strategy C(Once) is not restarted.
  - Prints a line for each move that starts or ends. One rollout at a time runs on a cluster.
  - After a rollout was killed, the next one continues with the moves in flight. No instance is moved twice.
  - Checks all rights before the first write, and names all that are missing.
  - Returns a plan in check mode. With O(plan) makes the moves of that plan and no others, so that what was approved is
    what happens.
  - Waits for the workload rollout of a Deployment, StatefulSet or VirtualMachinePool that is in progress, if
    O(workloads) names the workload, or if it has rules and is in O(namespaces). Prints how many pods a Deployment or
    StatefulSet has replaced, and how many VMs of a pool KubeVirt has restarted. VMs of a pool that stay stopped are
    not waited for. If a workload rollout is paused or stuck, its pods or VMs are skipped. A Deployment that
    is past its C(progressDeadlineSeconds) is a warning, as is a StatefulSet or pool of which no other pod or VM has
    become available with the present template for O(move_timeout). With O(plan) or O(places) the module does not wait
    for workloads whose pods or VMs it does not move.
  - Replaces the pods of a StatefulSet on which rules were written with
    O(virt.placement.rules#module:workload_rollout=hold), whatever O(scope) is, if O(allow) has V(recreate). When all
    are of the present template, its update strategy is given back.
  - Moves the VMs of such a VirtualMachinePool until each runs as its template declares, whatever O(scope) is. A live
    migration does where KubeVirt brings the change to running VMs. Else it takes V(restart) in O(allow). Then gives
    each VMI the revision of the pool by its label C(kubevirt.io/vm-pool-revision-name), so that KubeVirt restarts none,
    and gives the update strategy back. A VM that was started from a template that differs in more than placement keeps
    the hold until it is restarted.
options:
  namespaces:
    description:
      - Instances in these namespaces may move. One of O(namespaces), O(workloads), O(places) and O(plan) is required.
      - An empty list selects nothing.
      - A single namespace is also the default of O(workloads[].namespace). With O(workloads), only those move.
    type: list
    elements: str
  scope:
    description:
      - Which instances move.
      - V(violated) moves instances that violate a required rule where they run.
      - V(preference_not_met) also moves instances that do not meet a preferred rule, if a node is available where they
        would meet it. Each of them moves at most once.
      - V(not_enforced) moves what V(violated) moves, and also instances that are placed correctly but still run with
        previous constraints, because the rules changed after their pods were scheduled.
      - V(all) moves every instance once. A rollout with this scope that was killed, or ended by O(run_timeout),
        continues where it stopped.
    type: str
    choices: [violated, preference_not_met, not_enforced, all]
    default: violated
  allow:
    description:
      - Allowed methods. The least disruptive method that is allowed and possible is used.
      - V(migrate) migrates a VM live. V(restart) restarts a VirtualMachine. V(recreate) deletes the VMI of a replica
        set, or evicts a pod. Its controller creates a new one.
      - An instance that needs another method is returned in RV(skipped_instances), with the reason.
    type: list
    elements: str
    choices: [migrate, restart, recreate]
    default: [migrate]
  max_parallel:
    description:
      - Moves at the same time. V(0) means the limits of KubeVirt for parallel migrations, less the migrations that
        others have in flight.
      - A move waits as long as a move in flight may still get the only node with room for one of the two.
    type: int
    default: 0
  max_unavailable:
    description:
      - No restart or recreation starts while this number of the other selected instances are missing or not ready.
    type: int
    default: 1
  canary:
    description: Number of moves that must end before any other move starts. V(0) means no canary.
    type: int
    default: 0
  soak:
    description: Seconds to wait after the canary, and each time the moves go on to another source zone.
    type: int
    default: 0
  max_moves:
    description:
      - Stop after this number of moves, and return the other moves in RV(deferred). V(0) means no limit.
    type: int
    default: 0
  window:
    description:
      - Moves start only between these times of day. Outside of the window the rollout ends, and returns the moves that
        it did not start in RV(deferred).
      - The clock of the host that runs the module counts.
  failures_allowed:
    description:
      - Number of failed moves after which the rollout still continues. With one more, no other move starts, and the
        rollout fails when the moves in flight have ended.
      - After a failed move an instance is not moved again in the same rollout.
    type: int
    default: 0
  pin_target_zone:
    description:
      - Restrict the target of each live migration to the zone in the plan. The restriction ends with the migration.
        Needs KubeVirt 1.6.
    type: bool
    default: false
  apply_pending_changes:
    description:
      - A restart also applies other pending changes of a VirtualMachine, such as a new disk. So does the recreation
        of a VMI of a replica set. By default, VMs with such changes are not restarted or recreated. They are returned
        in RV(skipped_instances), with the changes.
    type: bool
    default: false
  fail_on_skipped:
    description:
      - Fail if an instance in O(scope) was skipped. By default there is a warning if skipped instances violate a rule.
      - All possible moves are made in either case. In check mode none are made, and the task fails as well.
    type: bool
    default: false
  require_rights:
    description:
      - Also fail if a right is missing for moving any selected instance by a method in O(allow). By default, the rights
        for the planned moves are checked.
      - In check mode this fails even if no move is planned.
      - Use it at the start of a job that moves instances later, so that a missing right ends the job first.
      - In check mode it prints no lines, and RV(progress) is empty.
    type: bool
    default: false
  plan:
    description:
      - The plan that this module returned in check mode (RV(plan)), unchanged. The rollout makes its moves by its
        methods and within its limits, and no other moves.
      - If the plan does not fit the cluster any more, the task fails before its first write, and names all that has
        changed. A move fits while a new plan of the cluster has it, too. It does not fit if it is not needed any more,
        is not possible any more, or its instance is gone.
      - A move that was made already is done, and no error. Other instances that violate a rule since are not moved.
        They are returned in RV(skipped_instances).
      - The scheduler chooses the target among the nodes that are available, as without a plan. A plan is refused if the
        node that it counts on is not available, except where an earlier move of the plan went to another node than
        planned. O(pin_target_zone) holds a migration to the zone of that node. The plan is refused if that node is in
        another zone now.
      - The plan has the values of O(namespaces), O(workloads), O(only), O(scope), O(allow), O(max_parallel),
        O(max_unavailable), O(canary), O(soak), O(max_moves), O(window), O(failures_allowed), O(pin_target_zone),
        O(apply_pending_changes), O(topology_keys) and O(places). Leave these options out, or give the same values.
      - A plan that was edited, of another cluster, or of another format is refused. Its checksum is no signature, so
        protect the plan as you protect the task.
      - If a move of the plan cannot be made after the rollout has started, the task fails in the end and names it.
      - In check mode the plan is compared with the cluster, and nothing is moved.
    type: dict
  places:
    description:
      - 'Map of VMs to the nodes that they are to run on, as when an administrator migrates VMs by hand. A VM is given
        as C(namespace/name), for example V({shop/db1: w3, shop/db2: w4}). Nothing else moves.'
      - Each VM is migrated live, once, and the migration is held to the node. Needs KubeVirt 1.6. Under an earlier
        release the task fails before its first write. A VM that runs there already is done.
      - Nodes are emptied before other VMs move there, and pods that are ending are waited for. Where VMs of the map
        need the same room, the first one gets it.
      - Two VMs that are to swap their nodes, which have no room for both, need a third node. The result names one, if
        it would help. No VM moves to another node than that of the map.
      - A VM is not moved if it would violate a required rule there, or if another instance would violate one that it
        obeys now. Preferred rules prevent no move. Where an instance of the map follows another one by a rule of
        affinity, it violates that rule until its own move ends.
      - A VM that cannot go is returned in RV(skipped_instances) and RV(places), with the reason. It may have no room
        there, a rule, a cordon, a taint, no live migration, or it is not running. Or there is no such VM or node. The
        others move, and the task fails in the end. In check mode it fails, too, after all was checked.
      - The rules of the VM are as before. A later rollout or maintenance may move it again.
      - Leave out O(namespaces), O(workloads), O(only), O(scope), O(allow) and O(pin_target_zone). An empty map moves
        nothing.
    type: dict
  step_state:
    description: What the task hands from one of its steps to the next. It sets this itself; do not set it.
    type: dict
    default: {}
  run_timeout:
    description:
      - Seconds for the whole rollout. After that it cancels migrations that have not started to copy, and fails. The
        message names each instance that did not move, and why.
    type: int
    default: 3600
  move_timeout:
    description:
      - Seconds for one move. A migration that takes longer is canceled, and the move has failed.
      - A StatefulSet or VirtualMachinePool that replaces its pods or restarts its VMs by itself is waited for as long,
        beginning again with each one that becomes available.
    type: int
    default: 600
  timeout:
    description:
      - Seconds for reading and evaluating the cluster before the rollout starts. O(run_timeout) limits the rollout
        itself.
    type: int
    default: 120
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - C(async) is refused, since the progress is printed while the task runs. With C(no_log) nothing is printed.
  - Needs the rights of the ClusterRoles C(virt-placement-reader) and C(virt-placement-mover), and of the Role
    C(virt-placement-mover) in C(kube-system).
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.placement
  - virt.placement.workloads
  - virt.placement.workloads.only
  - virt.placement.window
  - virt.placement.attributes
  - virt.placement.attributes.cluster
attributes:
  check_mode:
    support: full
    details:
      - Returns the moves that a rollout would make if the scheduler chose the likeliest nodes, and makes none.
      - If there are moves, it fails when this identity lacks a right to make them, as the rollout would.
  diff_mode:
    support: none
    details: Moves change no declared state.
  idempotent:
    support: partial
    details: If no rule is violated and O(scope) selects nothing else, nothing is written. With O(scope=all) each run
      moves all instances.
"""

EXAMPLES = r"""
- name: Migrate VMs that violate a rule
  virt.placement.rollout:
    namespaces:
      - shop

- name: Show the moves, and make none
  virt.placement.rollout:
    namespaces:
      - shop
    allow:
      - migrate
      - recreate
  check_mode: true
  register: plan

- name: Make exactly these moves
  virt.placement.rollout:
    plan: "{{ plan.plan }}"

- name: Migrate two VMs to nodes of your choice
  virt.placement.rollout:
    places:
      shop/sap-1: w3
      shop/sap-2: w4

- name: Recreate the instances of a replica set on weekend nights, first one, then two at a time
  virt.placement.rollout:
    workloads:
      - kind: VirtualMachineInstanceReplicaSet
        namespace: shop
        name: mssql2016
    allow:
      - recreate
    canary: 1
    soak: 120
    max_unavailable: 2
    window:
      start: "22:00"
      end: "04:00"
      days:
        - sat
        - sun
      timezone: Europe/Madrid

- name: Also move instances that do not meet a preferred rule
  virt.placement.rollout:
    namespaces:
      - shop
    scope: preference_not_met
    allow:
      - migrate
      - recreate
"""

RETURN = r"""
cluster:
  description: The cluster of this task.
  returned: always
  type: dict
  contains:
    api:
      description: URL of its API server.
      type: str
    uid:
      description:
        - UID of the namespace C(kube-system), which is the same for the life of a cluster.
        - Null if the server was not asked, did not answer, or does not let this identity read that namespace.
      type: str
    untested:
      description: Which releases of the server are newer than those that the collection is tested with.
      returned: with C(-v), if there are such
      type: str
    bytes_read:
      description: Bytes of all answers of the API server, as they were sent. They may be compressed with gzip.
      returned: with C(-vvv)
      type: int
moves:
  description:
    - The moves that were made, in the order in which they ended.
    - In check mode, the moves that a rollout would make.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: VirtualMachineInstanceReplicaSet
      namespace: shop
      name: mssql2016
      instance: mssql2016k7x9d
      uid: 0d7ff1a4-2f0b-4f0c-8a57-4c9a0c1d9b11
      method: recreate
      from_node: kni-worker4
      to_node: kni-worker2
      reason: ""
      state: moved
      seconds: 2.4
  contains:
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Namespace of the workload.
      type: str
    name:
      description: Name of the workload.
      type: str
    instance:
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    method:
      description: V(migrate), V(restart) or V(recreate).
      type: str
    from_node:
      description: The node that it left. Null for a pod that had no node.
      type: str
    to_node:
      description: The node that it, or its replacement, runs on. In check mode the likeliest node.
      type: str
    reason:
      description: Why the move failed. In check mode why the instance has to move.
      type: str
    reason_code:
      description:
        - Why the move failed or the instance is gone, as a code. Empty for why it moves.
        - V(budget), V(changed), V(gone), V(in_progress), V(migration_failed), V(moved_by_others), V(no_answer),
          V(no_node), V(outcome_unknown) or V(refused).
        - What to do is in docs/troubleshooting.md, B(Why a move failed).
      type: str
    state:
      description:
        - V(moved), V(failed), or V(gone) if the instance ended by itself. In check mode V(planned).
      type: str
    seconds:
      description: Duration of the move. Not in check mode.
      type: float
    targets:
      description: In check mode, the nodes that are available for this move, at most 20, the likeliest first.
      type: list
      elements: str
    after:
      description: In check mode, UIDs of the instances that must move before this one.
      type: list
      elements: str
skipped_instances:
  description:
    - Instances that O(scope) selects and that the rollout does not move, with the reason.
    - After O(run_timeout), and where a canceled migration does not end, also the instances with a move in flight.
  returned: always, unless the rollout could not start
  type: list
  elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db1
      instance: db1
      uid: 5f0c7c0e-0a64-4a0e-9d0f-0d9d1f1f6c55
      method: null
      from_node: w2
      to_node: null
      reason: >-
        a move needs restart (a change of topologySpreadConstraints takes effect at a restart),
        but allow is migrate: add restart to allow
      reason_code: method_not_allowed
  contains:
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Namespace of the workload.
      type: str
    name:
      description: Name of the workload.
      type: str
    instance:
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    method:
      description: Null.
      type: str
    from_node:
      description: The node that it runs on.
      type: str
    to_node:
      description: Null.
      type: str
    reason:
      description: Why it does not move.
      type: str
    reason_code:
      description:
        - For a move in flight, the codes of RV(moves). V(other_move) where it moves after an instance that does not.
        - Else why it does not move, as a code. V(not_live_migratable), V(no_target_pod), V(needs_restart),
          V(pending_changes), V(run_strategy), V(not_running), V(terminating), V(in_progress),
          V(workload_rollout_stopped), V(changed_by_others), V(not_movable), V(no_node), V(too_few_domains),
          V(blocked_by_each_other), V(violates_rule), V(bypassed_by_node_term), V(method_not_allowed), V(budget),
          V(do_not_move), V(node_not_ready), V(not_found), V(no_own_hostname), V(moved_already), V(move_failed),
          V(not_in_plan), V(unlike_plan) or V(not_read).
        - What to do is in docs/troubleshooting.md, B(Why an instance does not move).
      type: str
deferred:
  description:
    - Moves that did not start because of O(max_moves), O(window), O(run_timeout) or a failure. RV(stop_reason) or
      C(msg) has the reason.
  returned: always, unless the rollout could not start
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Namespace of the workload.
      type: str
    name:
      description: Name of the workload.
      type: str
    instance:
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    method:
      description: V(migrate), V(restart) or V(recreate).
      type: str
    from_node:
      description: The node that it runs on. Null for a pod that has no node.
      type: str
    to_node:
      description: The likeliest node.
      type: str
    reason:
      description: Why it has to move.
      type: str
    reason_code:
      description: Empty, since the reason is no obstacle.
      type: str
    state:
      description: V(planned).
      type: str
    targets:
      description: The nodes that are available for this move, at most 20, the likeliest first.
      type: list
      elements: str
    after:
      description: UIDs of the instances that must move before this one.
      type: list
      elements: str
not_enforced:
  description:
    - Instances that violate no required rule, now or after the planned moves, but still run with previous constraints.
      They need no move.
      O(scope=not_enforced) moves them.
  returned: always, unless the rollout could not start
  type: list
  elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db2
      instance: db2
      uid: 7d0e5e62-54a7-4a55-b1f5-0e0cf2a7ad0d
      node: w3
      when: now
      takes_effect: migration
      reason: placed correctly; enforced from the next migration
  contains:
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Namespace of the workload.
      type: str
    name:
      description: Name of the workload.
      type: str
    instance:
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    node:
      description: The node that it runs on.
      type: str
    when:
      description:
        - V(now) if the instance violates no required rule. V(after_moves) if it violates one now, and will not
          after the planned or deferred moves.
      type: str
    takes_effect:
      description: What enforces the new constraints. V(migration), V(restart) or V(recreate).
      type: str
    reason:
      description:
        - RV(not_enforced[].when) and RV(not_enforced[].takes_effect) as a sentence, with the preferred rules that its
          node does not meet.
      type: str
plan:
  description:
    - What O(plan) takes. It has all moves of a rollout, also those that O(max_moves) or O(window) would defer.
    - It holds names and labels of the cluster as plain text.
  returned: in check mode, unless O(require_rights) is set
  type: dict
  contains:
    format:
      description: Number of the format of the plan. A release reads only plans of its own format.
      type: int
    module:
      description: V(rollout).
      type: str
    cluster_uid:
      description: UID of the cluster that the plan is for.
      type: str
    options:
      description: The options of the task that decide what is moved, by which methods, and within which limits.
      type: dict
      contains:
        namespaces:
          description: As O(namespaces).
          type: list
          elements: str
        workloads:
          description: As O(workloads).
          type: list
          elements: raw
        only:
          description: As O(only).
          type: list
          elements: dict
          contains:
            kind:
              description: Kind of the workload.
              type: str
            namespace:
              description: Its namespace.
              type: str
            name:
              description: Its name.
              type: str
        scope:
          description: As O(scope).
          type: str
        allow:
          description: As O(allow).
          type: list
          elements: str
        max_parallel:
          description: As O(max_parallel).
          type: int
        max_unavailable:
          description: As O(max_unavailable).
          type: int
        canary:
          description: As O(canary).
          type: int
        soak:
          description: As O(soak).
          type: int
        max_moves:
          description: As O(max_moves).
          type: int
        window:
          description: As O(window).
          type: dict
          contains:
            start:
              description: Time of day.
              type: str
            end:
              description: Time of day.
              type: str
            timezone:
              description: Name of a time zone.
              type: str
            days:
              description: Days on which the window starts. Null for every day.
              type: list
              elements: str
        failures_allowed:
          description: As O(failures_allowed).
          type: int
        pin_target_zone:
          description: As O(pin_target_zone).
          type: bool
        apply_pending_changes:
          description: As O(apply_pending_changes).
          type: bool
        topology_keys:
          description: As O(topology_keys).
          type: dict
          contains:
            NAME:
              description: Label key of this topology name.
              type: str
        places:
          description: As O(places). Null for a rollout without it.
          type: dict
    moves:
      description: The moves in their order, as in RV(moves).
      type: list
      elements: dict
      contains:
        kind:
          description: Kind of the workload.
          type: str
        namespace:
          description: Namespace of the workload.
          type: str
        name:
          description: Name of the workload.
          type: str
        instance:
          description: Name of the VMI or pod.
          type: str
        instance_kind:
          description: V(VirtualMachineInstance) or V(Pod).
          type: str
        uid:
          description: UID of the VMI or pod.
          type: str
        method:
          description: V(migrate), V(restart) or V(recreate).
          type: str
        from_node:
          description: The node that it runs on. Null for a pod that has no node.
          type: str
        to_node:
          description: The likeliest node.
          type: str
        to_zone:
          description: Its zone. Empty if it is in none.
          type: str
        reason:
          description: Why it has to move.
          type: str
        after:
          description: UIDs of the instances that must move before this one.
          type: list
          elements: str
    checksum:
      description: Shows that the plan was not edited.
      type: str
held:
  description:
    - The StatefulSets and pools whose own rollouts stay held by rules when the task has ended, or would
      after these moves in check mode, with the reason.
  returned: if there is one
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
    reason:
      description: Why it stays held, and what to do.
      type: str
    reason_code:
      description:
        - The reason as a code. V(previous_template) where replicas or VMs have to be replaced first.
        - V(in_progress) and V(changed) where the task is to be run again.
        - V(workload_rollout_stopped), V(changed_by_others) and V(pending_changes) where something has to be changed
          first that the reason names.
        - V(damaged) and V(refused) where the strategy has to be set by hand.
        - What to do is in docs/troubleshooting.md, B(Why a workload stays held).
      type: str
  sample:
    - kind: StatefulSet
      namespace: shop
      name: db
      reason: >-
        StatefulSet shop/db stays held: 3 of 3 replicas are not of its present template. Its update strategy is OnDelete
        until a rollout with recreate in allow has replaced them
      reason_code: previous_template
places:
  description: The VMs of O(places), where they run when the task has ended.
  returned: with O(places), unless it is empty or the rollout could not start
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the VM.
      type: str
    name:
      description: Name of the VM.
      type: str
    from_node:
      description: The node that it ran on before. Null where it was not running.
      type: str
    to_node:
      description: The node of the map.
      type: str
    node:
      description: The node that it runs on now. Null where it is not running.
      type: str
    state:
      description: >-
        V(moved), or V(in_place) where it was there before. V(planned) in check mode. V(deferred) where the rollout
        ended before its move (RV(stop_reason)). Otherwise V(not_moved).
      type: str
    reason:
      description: Why it is not in its place. Empty where it is.
      type: str
  sample:
    - namespace: shop
      name: db1
      from_node: w1
      to_node: w3
      node: w3
      state: moved
      reason: ""
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) is V(nothing_to_move), and V(not_enforced) where RV(not_enforced) has instances. RV(moves) has what was
      moved.
    - C(skipped) has the workloads by RV(skipped_instances[].reason_code), RV(held[].reason_code) or RV(stop_code),
      and V(deferred) for moves that were not begun.
    - C(next) is V(deferred), V(skipped), V(not_in_plan) or V(held), as what was left needs it.
    - After a failure C(next) begins with V(nothing_written), with V(unfinished) after a write, with V(cluster_away)
      where the API server does not answer, or with V(failed) where it is unknown whether something was written.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: not_enforced, text: "2 instances placed correctly, enforced from the next migration", objects: []}
    skipped:
      - {code: not_allowed, text: "a move needs restart, which allow does not have", objects: [shop/db]}
    next: []
stop_reason:
  description: Why the rollout ended before all moves were made. Empty if all were made.
  returned: always, unless the rollout could not start
  type: str
  sample: max_moves (2) is reached
stop_code:
  description:
    - The reason that RV(stop_reason) names, as a code. V(max_moves), V(outside_of_window) or V(canary_not_ended).
    - Empty where there is none.
    - What to do is in docs/troubleshooting.md, B(Why a run begins no more moves).
  returned: always, unless the rollout could not start
  type: str
  sample: max_moves
progress:
  description: The lines that were printed.
  returned: success
  type: list
  elements: str
  sample:
    - "1 of 1 done: VirtualMachine shop/db1 migrated: w4 (bcn) -> w2 (scu) in 2 s"
finished:
  description: Whether the rollout has ended. Always true when the task returns.
  returned: always, unless the rollout could not start
  type: bool
errors:
  description: Why the rollout failed. With errors of type V(input) or V(permission) nothing was moved.
  returned: failure
  type: list
  elements: dict
  contains:
    type:
      description: One of V(input), V(permission) and V(api).
      type: str
    message:
      description: What is wrong, and what to do. RV(ignore:msg) has all messages.
      type: str
    object:
      description: The option, rule, right or Kubernetes object that is concerned. May be empty.
      type: str
  sample:
    - type: input
      message: "namespaces: there is no namespace 'shpo'; did you mean 'shop'?"
      object: "namespaces"
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.rollout import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    ONLY,
    WINDOW,
    WORKLOADS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task

OPTIONS: dict[str, dict[str, t.Any]] = {
    **WORKLOADS,
    "only": ONLY,
    "scope": {
        "type": "str",
        "choices": ["violated", "preference_not_met", "not_enforced", "all"],
        "default": "violated",
    },
    "allow": {
        "type": "list",
        "elements": "str",
        "choices": ["migrate", "restart", "recreate"],
        "default": ["migrate"],
    },
    "max_parallel": {"type": "int", "default": 0},
    "max_unavailable": {"type": "int", "default": 1},
    "canary": {"type": "int", "default": 0},
    "soak": {"type": "int", "default": 0},
    "max_moves": {"type": "int", "default": 0},
    "window": {"type": "dict", "options": WINDOW},
    "failures_allowed": {"type": "int", "default": 0},
    "pin_target_zone": {"type": "bool", "default": False},
    "apply_pending_changes": {"type": "bool", "default": False},
    "fail_on_skipped": {"type": "bool", "default": False},
    "require_rights": {"type": "bool", "default": False},
    "run_timeout": {"type": "int", "default": 3600},
    "move_timeout": {"type": "int", "default": 600},
    "plan": {"type": "dict"},
    "places": {"type": "dict"},
    "step_state": {"type": "dict", "default": {}},
}


def main() -> None:
    run_task(AnsibleModule(argument_spec(**OPTIONS), supports_check_mode=True), run, of_change=True)


if __name__ == "__main__":
    main()
