#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_maintenance
short_description: Drain nodes and put them back in service, one topology domain at a time
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Cordons nodes, moves all VMs and pods away from them, and puts the nodes back in service.
  - Migrates VMs live. A VM is not evicted unless O(vm_policy) says so, so an eviction strategy that would stop the VM
    has no effect.
  - Evicts pods through the eviction API, and waits for PodDisruptionBudgets. Restarts or stops a VM only if the
    PodDisruptionBudgets of its pod allow that. A live migration needs none.
  - Refuses a drain before it cordons, if a VM or pod could not leave. A task that continues an earlier drain is not
    refused because of such VMs and pods. It lists them at its end. Other findings still refuse it, for example if the
    control plane would lose its quorum.
  - Puts nodes of one topology domain (zone) at a time into maintenance, and not more than O(max_nodes).
  - Uncordons only nodes that this module cordoned and that no other system holds. A cordon of another client stays.
  - After a task was killed, the next one continues. O(state=in_service) undoes a drain that did not end.
  - Prints a line for each move that starts or ends. One rollout or maintenance at a time runs on a cluster.
options:
  nodes:
    description:
      - Names of nodes. An empty list means no node. The task is successful then, and C(skipped) of RV(outcome) says so.
      - If one does not exist, the task fails. O(state=in_service) puts the others in service before it fails.
      - One of O(nodes), O(topology) and O(plan) is required.
      - With O(plan) it may name some nodes of the plan. If it is omitted, all nodes of the plan are drained.
    type: list
    elements: str
  topology:
    description:
      - A map of one topology name, or one label key, to its value or to a list of values. O(topology_keys) adds names.
      - All nodes in these topology domains are selected, in the order of the values. A drain refuses nodes of several
        topology domains. O(state=in_service) takes them together.
    type: dict
  state:
    description:
      - V(cordoned) makes the nodes unschedulable. Nothing on them is moved.
      - V(drained) also moves all VMs and pods away, and waits until their volumes are detached. Pods of a DaemonSet,
        static pods and pods that have finished stay.
      - V(in_service) waits until each node is back, and uncordons it. A node is back if it is Ready and KubeVirt can
        start VMs on it. The task also waits for selected nodes that were not in
        maintenance.
      - If a Node object was deleted after its drain had begun, V(in_service) waits until a new one of its name has
        registered, as after a new installation of the host. The new one gets O(change_id), too. A warning names the
        labels that it lacks.
      - V(in_service) then waits until an uncordoned node has no startup taint, such as
        C(node.cilium.io/agent-not-ready).
      - V(in_service) deletes migrations that have not started to copy, and cancels evacuations.
    type: str
    choices: [cordoned, drained, in_service]
    required: true
  reason:
    description: Why, in a few words. The annotation C(placement.virt/maintenance) of the nodes has it.
    type: str
    default: ""
  change_id:
    description:
      - With O(state=in_service), the identifier of the change that was done, such as the number of a change request.
      - The annotation C(placement.virt/serviced) of the nodes has it, and RV(nodes[].change_id) returns it. So a second
        job can leave out the nodes that are done.
    type: str
    default: ""
  vm_policy:
    description:
      - How VMs leave the nodes. One of the values below, or a list of them in order of preference. Each VM leaves by
        the first one that is possible for it. C([migrate, restart]) migrates what can be migrated, and restarts the
        rest.
      - V(migrate) migrates them live.
      - V(restart) restarts them on other nodes, and recreates VMIs of replica sets. A restart applies all pending
        changes of a VM, so it is not possible if a VM has pending changes other than of its placement.
        O(allow_findings) with V(pending_changes) allows it.
      - V(stop) stops them. They are not started again.
      - V(stop_and_start) stops them, and O(state=in_service) starts them again once their node is in service. It needs
        a run strategy under which V(restart) is possible, and is not possible where V(restart) is not because of
        pending changes.
      - V(evict) hands VMs with the eviction strategy C(External) to their controller. It asks for the eviction, and
        waits until O(run_timeout) for the VM to leave. It is not possible for other VMs.
      - V(refuse) refuses to drain a node with a VM. It must be alone.
      - The drain is refused if no value is possible for a VM.
      - A value is not possible either if the VM would have no node, or after it failed in this task. V(migrate) fails
        after three attempts. The finding C(policy_fallback) names each VM that does not leave by the first value.
      - The label C(placement.virt/vm-policy) of a VM, or of its VMI, takes precedence. Several values have a dot
        between them, such as C(migrate.stop).
      - A VM without it may have Harvester's label C(harvesterhci.io/maintain-mode-strategy). Then
        C(ShutdownAndRestartAfterEnable) is V(restart), C(ShutdownAndRestartAfterDisable) is V(stop_and_start), and
        C(Shutdown) is V(stop). With C(Migrate), Harvester's default, the values of this option count.
      - A VM or pod with the label C(placement.virt/do-not-move) does not leave, so the drain is refused. A VM leaves
        if it also has its own label C(placement.virt/vm-policy).
    type: list
    elements: str
    default: [migrate]
  reboot_expected:
    description:
      - With O(state=in_service), also wait until the nodes have rebooted since they were drained. Compares
        C(status.nodeInfo.bootID).
    type: bool
    default: false
  max_nodes:
    description:
      - How many nodes may be in maintenance at the same time. Nodes that earlier tasks put into maintenance count.
    type: int
    default: 1
  assume_in_service:
    description:
      - In check mode, work as if these nodes were in service again, for example those that an earlier task with
        O(state=in_service) would put in service. Only in check mode.
    type: list
    elements: str
    default: []
  serviced_later:
    description:
      - Names of nodes that a later task drains, in a maintenance of several nodes. With O(state=drained) VMs that are
        restarted, and VMIs that are recreated, then start on other nodes if there is room. Without this option a VM may
        start on one of these nodes, and is restarted again when that node is drained.
      - The nodes have the taint C(placement.virt/serviced-later) with the effect C(PreferNoSchedule) until the drain
        has ended. The taint keeps no pod away. It is not used if no VM is restarted, or if no other node takes pods.
      - If the taint is refused, the drain goes on without it, and a warning says what to grant.
      - Names of nodes that do not exist are ignored.
    type: list
    elements: str
    default: []
  window:
    description:
      - Times of day between which a maintenance begins. Outside of the window the task ends before it cordons a node,
        and RV(stop_reason) has the reason. A maintenance that has begun continues. Selected nodes that were not begun
        are then left out, and RV(stop_reason) is set, too.
      - The clock of the host that runs the module counts.
  allow_findings:
    description:
      - Names of findings that do not refuse the drain. docs/maintenance.md explains each finding.
      - If V(bare_pod), V(local_data_lost) or V(daemonset_missing) is allowed, such pods are evicted. With
        V(standalone_vmi), such VMIs are migrated. With V(pending_changes), such VMs may be restarted.
    type: list
    elements: str
    default: []
  delegated_budgets:
    description:
      - PodDisruptionBudgets that an operator lifts by itself once the node is cordoned, or whose pods it then moves.
        They do not refuse the drain. The drain cordons, evicts, and waits until the budget allows it. All other
        budgets refuse the drain as before.
      - An entry is the API group of the operator, which owns the budget or the pod, such as V(longhorn.io). Or it is a
        label selector of pods or of budgets, such as V(app=store,tier=db).
      - A text is a list of one entry, so that a selector of several labels stays one.
      - KubeVirt, CloudNativePG, Rook and Longhorn are known without it.
    type: raw
    default: []
  plan:
    description:
      - The plan that this module returned in check mode (RV(plan)), unchanged. With O(state=drained) the nodes of the
        plan are drained, and their VMs leave as the plan says.
      - If the plan does not fit the cluster any more, the task fails before its first write, and names all that has
        changed.
      - "For a node of the plan: it is gone, or was replaced by another one of its name."
      - "For a VM: the plan does not have it, or it would leave in another way now."
      - A new finding of severity error or warning makes a plan stale, too. C(pdb_blocks), C(shared_domain),
        C(policy_fallback), and C(not_migratable) as a warning do not count.
      - Nothing is left to do for a VM that has left its node, or is gone. A VM that was restarted since counts as the
        same VM. It may be on any node of the plan, since the maintenance of another node may have moved it there.
      - The nodes to which VMs go are a forecast. The plan does not rely on them, since the scheduler chooses them.
      - The plan does not rely on pods that belong to no VM. Pods that came since are evicted like others, as far as
        their PodDisruptionBudgets allow. A new pod of the same workload is not a new finding.
      - A VM that starts on the node afterwards is not moved. A VM whose method fails is not moved by another one. The
        task fails in the end and names them.
      - The plan has the values of O(vm_policy), O(max_nodes), O(allow_findings), O(delegated_budgets),
        O(reboot_expected), O(window) and O(topology_keys). Omit these options, or give the same values.
      - A plan that was edited, of another cluster, or of another format is refused. Its checksum is no signature, so
        protect the plan as you protect the task.
      - A task that continues a killed one with the same plan continues.
      - In check mode the plan is compared with the cluster, and nothing is moved.
    type: dict
  run_timeout:
    description:
      - Seconds for the task. After that it fails and names each VM and pod that did not leave, or each node that is
        not back, and why. Migrations that have not started to copy are canceled.
    type: int
    default: 3600
  move_timeout:
    description:
      - Seconds for one migration or restart. A migration that takes longer is canceled and started again, at most
        three times.
    type: int
    default: 600
  timeout:
    description:
      - Seconds for reading and evaluating the cluster before the task starts. O(run_timeout) limits the task itself.
    type: int
    default: 120
  step_state:
    description: What the task hands from one of its steps to the next. It sets this itself; do not set it.
    type: dict
    default: {}
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - C(async) is refused, since the progress is printed while the task runs. With C(no_log) nothing is printed.
  - Needs the rights of the ClusterRoles C(virt-placement-reader) and C(virt-placement-maintainer), and of the Role
    C(virt-placement-maintainer) in C(kube-system).
seealso:
  - module: virt.placement.rollout
  - module: virt.placement.forecast_info
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.placement
  - virt.placement.window
  - virt.placement.attributes
  - virt.placement.attributes.cluster
attributes:
  check_mode:
    support: full
    details:
      - Returns the moves of a drain and its plan, and makes none. It fails if the drain would be refused.
  diff_mode:
    support: full
    details: Shows the cordon and the phase of the maintenance of each node, and the taint of O(serviced_later).
  idempotent:
    support: full
    details: Nothing is written to nodes that are in O(state) already.
"""

EXAMPLES = r"""
- name: Drain a node
  virt.placement.node_maintenance:
    nodes: [kni-worker2]
    state: drained
    reason: firmware

- name: Drain a node, and stop the VMs that cannot be migrated
  virt.placement.node_maintenance:
    nodes: [kni-worker2]
    state: drained
    vm_policy: [migrate, stop]

- name: Put it back in service; this waits until somebody has rebooted it
  virt.placement.node_maintenance:
    nodes: [kni-worker2]
    state: in_service
    reboot_expected: true

- name: Show what a drain of a zone would move
  virt.placement.node_maintenance:
    topology:
      zone: scu
    max_nodes: 2
    state: drained
  check_mode: true
  register: planned

- name: Drain these nodes as it was approved
  virt.placement.node_maintenance:
    plan: "{{ planned.plan }}"
    state: drained
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
nodes:
  description: The nodes of the task, as they were read last.
  returned: always, unless the task could not start
  type: list
  elements: dict
  sample:
    - name: worker2
      zone: a
      state: drained
      cordoned: true
      ours: true
      held_by: null
      reason: firmware
      since: "2026-11-22T19:00:00Z"
      boot_id: 0f0c1c3e-3c65-4d0c-9d2b-5b7c2f4a6a10
      change_id: null
      serviced_at: null
      moved_away:
        - kind: VirtualMachine
          namespace: shop
          name: db1
      stopped: []
      starts_again: []
  contains:
    name:
      description: Name of the node.
      type: str
    zone:
      description: Its zone. Null if it has none.
      type: str
    state:
      description:
        - V(in_service), V(cordoned), V(draining) or V(drained).
        - A node that another client cordoned is V(cordoned) too.
      type: str
    cordoned:
      description: Whether the node is unschedulable, whichever client cordoned it.
      type: bool
    ours:
      description: Whether this module cordoned the node.
      type: bool
    held_by:
      description:
        - Another system that has the node in a maintenance of its own, such as the Machine Config Operator, or a taint
          that the node got since its maintenance began. Null if there is none.
        - Such a node stays cordoned when its maintenance ends.
      type: str
    reason:
      description: The O(reason) of the maintenance. Null outside of a maintenance.
      type: str
    since:
      description: When the maintenance began. Null outside of a maintenance.
      type: str
    boot_id:
      description: C(status.nodeInfo.bootID) of the node.
      type: str
    change_id:
      description: The O(change_id) that was recorded last. Null if there is none.
      type: str
    serviced_at:
      description: When the maintenance with that O(change_id) ended. Null if there is none.
      type: str
    moved_away:
      description:
        - The workloads that the maintenance of the node moved away. After a maintenance, those of the last one.
        - Instances without a workload are not listed.
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
    stopped:
      description: The VMs that the maintenance of the node stopped, by O(vm_policy), and did not start again.
      type: list
      elements: dict
      contains:
        kind:
          description: V(VirtualMachine).
          type: str
        namespace:
          description: Namespace of the VM.
          type: str
        name:
          description: Name of the VM.
          type: str
        run_strategy:
          description: Its run strategy before it was stopped.
          type: str
    starts_again:
      description: The VMs that the maintenance of the node stopped, and that are started once it is in service.
      type: list
      elements: dict
      contains:
        kind:
          description: V(VirtualMachine).
          type: str
        namespace:
          description: Namespace of the VM.
          type: str
        name:
          description: Name of the VM.
          type: str
        run_strategy:
          description: Its run strategy before it was stopped.
          type: str
gone:
  description: >-
    With O(state=in_service), the names of nodes of the task whose Node objects were deleted in their maintenance. The
    task waits for new ones. Empty for other states.
  returned: always, unless the task could not start
  type: list
  elements: str
  sample: []
started:
  description: >-
    With O(state=in_service), the VMs that were started again, or would be in check mode. Empty for other states.
  returned: always, unless the task could not start
  type: list
  elements: dict
  contains:
    kind:
      description: V(VirtualMachine).
      type: str
    namespace:
      description: Namespace of the VM.
      type: str
    name:
      description: Name of the VM.
      type: str
    run_strategy:
      description: Its run strategy before it was stopped.
      type: str
writes:
  description: The changes of nodes that were made, or would be made in check mode.
  returned: always, unless the task could not start
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
    namespace:
      description: Empty, since a node has no namespace.
      type: str
    name:
      description: Name of the node.
      type: str
    patch:
      description:
        - The change as JSON Patch (RFC 6902).
        - It is sent with C(test) operations, so it fails if the node was replaced, or its cordon or mark changed, since
          they were read.
      type: list
      elements: dict
moves:
  description:
    - The moves that were made, in the order in which they ended.
    - In check mode, the moves that a drain would make.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db1
      instance: db1
      uid: 0d7ff1a4-2f0b-4f0c-8a57-4c9a0c1d9b11
      method: migrate
      from_node: worker2
      to_node: worker1
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
      description: V(migrate), V(restart), V(stop), V(recreate) or V(evict).
      type: str
    from_node:
      description: The node that it left.
      type: str
    to_node:
      description: The node that it runs on now. Null for V(evict) and V(stop), and in check mode.
      type: str
    reason:
      description:
        - Why the move failed. In check mode why the instance has to move, and why not by a better O(vm_policy).
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
      description: In check mode, an empty list.
      type: list
      elements: str
    after:
      description: In check mode, UIDs of the instances that must move before this one.
      type: list
      elements: str
skipped_instances:
  description: >-
    VMs and pods that a drain does not move, with the reason. Pods that would come back to the node are among them,
    and do not fail the drain.
  returned: always, unless the task could not start
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
        - The reason as a code.
        - For a move in flight, the codes of RV(moves). V(other_move) where it moves after an instance that does not.
        - V(move_failed) where its moves have failed, V(budget) where budgets never allow that it ends.
        - V(terminating), V(in_progress) or V(not_running) where the drain waits for what Kubernetes or KubeVirt does.
        - V(bare_pod), V(daemonset_missing), V(local_data_lost), V(standalone_vmi) or V(pending_changes) where
          O(allow_findings) can allow it, by the same name.
        - V(do_not_move), V(tolerates_cordon) or V(names_node) where it is left on its node.
        - V(not_live_migratable), V(no_target_pod), V(run_strategy), V(no_virtual_machine), V(not_evictable),
          V(refused_by_policy) or V(invalid_policy) where no policy of the VM is possible, of the first one.
        - V(not_in_plan) or V(unlike_plan) where the plan does not have it so.
        - What to do is in docs/troubleshooting.md, B(Why an instance does not move).
      type: str
deferred:
  description: Moves that did not start because of O(run_timeout).
  returned: always, unless the task could not start
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
      description: V(migrate), V(restart), V(stop), V(recreate) or V(evict).
      type: str
    from_node:
      description: The node that it runs on.
      type: str
    to_node:
      description: Null.
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
      description: An empty list.
      type: list
      elements: str
    after:
      description: UIDs of the instances that must move before this one.
      type: list
      elements: str
findings:
  description:
    - The findings of the preflight. Those of severity V(error) were accepted by O(allow_findings), or are about VMs and
      pods of a drain that continues.
    - With O(state=in_service), C(evacuation_goes_on) names VMIs that KubeVirt goes on migrating away from the nodes.
    - Empty for O(state=cordoned), and where nothing had to be done.
    - docs/maintenance.md explains each, and docs/findings.md C(evacuation_goes_on).
  returned: always, unless the task could not start
  type: list
  elements: dict
  sample:
    - name: last_node_of_domain
      severity: warning
      why: "No node but worker2 takes pods in zone a: nothing is scheduled there during the maintenance."
      advice: If other nodes of zone a are cordoned, put them in service first.
      objects: [Node worker2]
      rule: ""
  contains:
    name:
      description: Name of the finding, the same in every release.
      type: str
    severity:
      description: V(error), V(warning) or V(info).
      type: str
    why:
      description: What was seen.
      type: str
    advice:
      description: What to do.
      type: str
    objects:
      description: The objects that it is about.
      type: list
      elements: str
    rule:
      description: Always empty.
      type: str
    codes:
      description:
        - Which proofs or doubts made the forecast of the drain, as RV(virt.placement.forecast_info#module:codes).
        - What to do is in docs/troubleshooting.md, B(Codes of forecasts).
      returned: for C(no_place) and C(place_unknown)
      type: list
      elements: str
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has the VMs that were started again, V(started), that stay stopped until their node is in service,
      V(stopped), and that the maintenance has stopped and nothing starts, V(not_started). RV(nodes) and RV(moves) have
      the rest.
    - C(skipped) has the workloads by RV(skipped_instances[].reason_code), and V(deferred) for moves that were not
      begun, or V(none_named) where O(nodes) is empty.
    - C(next) is V(not_started) for each of these VMs. In check mode it is V(place_unknown) where a drain would wait.
    - After a failure C(next) begins with V(nothing_written), with V(unfinished) after a write, with V(cluster_away)
      where the API server does not answer, or with V(failed) where it is unknown whether something was written.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: stopped, text: stopped until the node is in service, objects: [shop/batch]}
    skipped:
      - {code: not_allowed, text: "a move needs restart, which allow does not have", objects: [shop/db]}
    next: []
stop_reason:
  description: Why the maintenance, or that of some of the nodes, did not begin. Empty if all did, or had to do nothing.
  returned: always, unless the task could not start
  type: str
  sample: outside of the window from 22:00 to 04:00 UTC
stop_code:
  description:
    - V(outside_of_window) where RV(stop_reason) has a reason, else empty.
    - What to do is in docs/troubleshooting.md, B(Why a run begins no more moves).
  returned: always, unless the task could not start
  type: str
  sample: outside_of_window
plan:
  description:
    - What O(plan) takes. The nodes that are drained, and each VM and pod that leaves them, with its method.
    - It holds names and labels of the cluster as plain text.
    - Outside of O(window) it is the plan of a drain that begins now. The task fails if that would be refused.
  returned: in check mode with O(state=drained)
  type: dict
  contains:
    format:
      description: Number of the format of the plan. A release reads only plans of its own format.
      type: int
    module:
      description: V(node_maintenance).
      type: str
    cluster_uid:
      description: UID of the cluster that the plan is for.
      type: str
    options:
      description: The options of the task that decide what leaves, in which way, and within which limits.
      type: dict
      contains:
        vm_policy:
          description: As O(vm_policy).
          type: list
          elements: str
        max_nodes:
          description: As O(max_nodes).
          type: int
        allow_findings:
          description: As O(allow_findings).
          type: list
          elements: str
        delegated_budgets:
          description: As O(delegated_budgets).
          type: raw
        reboot_expected:
          description: As O(reboot_expected).
          type: bool
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
        topology_keys:
          description: As O(topology_keys).
          type: dict
          contains:
            NAME:
              description: Label key of this topology name.
              type: str
    nodes:
      description: The nodes in the order in which they are drained.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the node.
          type: str
        uid:
          description: UID of the node.
          type: str
    findings:
      description: The findings of severity error or warning that were there.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the finding.
          type: str
        objects:
          description: What it is about. For a pod or a VM, its workload.
          type: list
          elements: str
    moves:
      description: The VMs and pods that leave, as in RV(moves).
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
          description: V(migrate), V(restart), V(stop), V(recreate) or V(evict).
          type: str
        vm_policy:
          description: The value of O(vm_policy), or of the VM's own label, by which a VM leaves. Only for VMs.
          type: str
        owner_uid:
          description: UID of the VirtualMachine or replica set. Empty for a VMI without one. Only for VMs.
          type: str
        from_node:
          description: The node that it leaves.
          type: str
        to_node:
          description: The likeliest node, a forecast. Null if no node is known.
          type: str
        reason:
          description: Why it has to move, and why not by a better O(vm_policy).
          type: str
        after:
          description: UIDs of the instances that must move before this one.
          type: list
          elements: str
    checksum:
      description: Shows that the plan was not edited.
      type: str
progress:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
  sample:
    - "node worker2 (a): 3 of 11 left"
finished:
  description: Whether the task has ended. Always true when it returns.
  returned: always, unless the task could not start
  type: bool
errors:
  description: Why the task failed. With errors of type V(input), V(permission) or V(finding) nothing was begun.
  returned: failure
  type: list
  elements: dict
  contains:
    type:
      description: One of V(input), V(permission), V(finding) and V(api).
      type: str
    message:
      description: What is wrong, and what to do. RV(ignore:msg) has all messages.
      type: str
    object:
      description: The option, node, right, Kubernetes object or finding that is concerned. May be empty.
      type: str
  sample:
    - type: input
      message: "nodes: there is no node 'worker9'; did you mean 'worker2'?"
      object: "nodes"
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.node_maintenance import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    WINDOW,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task

OPTIONS: dict[str, dict[str, t.Any]] = {
    "nodes": {"type": "list", "elements": "str"},
    "topology": {"type": "dict"},
    "state": {"type": "str", "choices": ["cordoned", "drained", "in_service"], "required": True},
    "reason": {"type": "str", "default": ""},
    "change_id": {"type": "str", "default": ""},
    "vm_policy": {"type": "list", "elements": "str", "default": ["migrate"]},
    "reboot_expected": {"type": "bool", "default": False},
    "max_nodes": {"type": "int", "default": 1},
    "assume_in_service": {"type": "list", "elements": "str", "default": []},
    "serviced_later": {"type": "list", "elements": "str", "default": []},
    "window": {"type": "dict", "options": WINDOW},
    "allow_findings": {"type": "list", "elements": "str", "default": []},
    "delegated_budgets": {"type": "raw", "default": []},
    "plan": {"type": "dict"},
    "run_timeout": {"type": "int", "default": 3600},
    "move_timeout": {"type": "int", "default": 600},
    "step_state": {"type": "dict", "default": {}},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec(**OPTIONS),
        mutually_exclusive=[("nodes", "topology"), ("topology", "plan")],
        required_one_of=[("nodes", "topology", "plan")],
        supports_check_mode=True,
    )
    run_task(module, run, of_change=True)


if __name__ == "__main__":
    main()
