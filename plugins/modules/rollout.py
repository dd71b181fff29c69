#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rollout
short_description: Move running instances until their placement rules hold
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Makes rules that were written to workloads effective for what is running, with as few moves as can be.
  - A move is a live migration of a virtual machine, a restart of it, or the deletion of an instance whose
    controller makes another one (pods leave through the eviction API, which respects disruption budgets).
  - Instances move in an order in which each of them finds a place; leaders before their followers; never two at
    once of a group that keeps apart. After each move the cluster is read and the rest is planned again.
  - A place that the scheduler could only make by preempting something is no place.
  - No virtual machine is started or stopped. One that is halted stays halted, one with run strategy C(Once) is not
    restarted.
  - While it goes on it prints a line for everything that changes, and it holds the Lease C(virt-placement) in
    C(kube-system), so that one run at a time disrupts a cluster. What is in flight is written to that Lease before
    it is begun. After a run that was killed the next one goes on with what is in flight, and plans the rest anew from
    what it sees, so that nothing is moved twice. One that was frozen and wakes up after that stops.
  - Before the first write it asks for every right that its moves need, and names all that are missing.
  - A roll-out of a Deployment's own that is under way is waited for. One that is paused or stuck is not; its pods are
    left, with the reason.
options:
  namespaces:
    description:
      - Move instances of all workloads in these namespaces.
      - One of O(namespaces) and O(workloads) is required. An empty list is nothing.
      - A single namespace is also the default for O(workloads[].namespace); then only the workloads named there
        are moved.
    type: list
    elements: str
  workloads:
    description:
      - Move instances of these workloads only. One of O(namespaces) and O(workloads) is required.
      - Name them by one of O(workloads[].name), O(workloads[].names) and O(workloads[].labels).
    type: list
    elements: dict
    suboptions:
      kind:
        description: Kind of workload. V(VirtualMachine), V(VirtualMachineInstanceReplicaSet) or V(Deployment).
        type: str
        default: VirtualMachine
      namespace:
        description: Its namespace, by default the only one in O(namespaces).
        type: str
      name:
        description: One name.
        type: str
      names:
        description: Several names.
        type: list
        elements: str
      labels:
        description: Labels of the template; all must be there.
        type: dict
  scope:
    description:
      - V(violating) moves instances that break a required rule, or that would not come up again where they are by
        what their workload declares.
      - V(unmet) also moves those for which a preferred rule is unmet and a node is open where it would be met.
        Each is tried once.
      - V(outdated) also moves those that are well placed and still run by terms of before.
      - V(all) moves every instance once. After such a run was killed the same one goes on where it stopped.
    type: str
    choices: [violating, unmet, outdated, all]
    default: violating
  allow:
    description:
      - The ways in which instances may be moved. The gentlest one that is allowed and possible is used.
      - V(migrate) keeps the virtual machine running. V(restart) restarts a VirtualMachine. V(recreate) deletes the
        instance of a replica set or evicts a pod, and its controller makes another.
      - What needs more than is allowed is left where it is and returned in RV(left), with the reason.
    type: list
    elements: str
    choices: [migrate, restart, recreate]
    default: [migrate]
  max_parallel:
    description:
      - Moves at once. V(0) is as many as KubeVirt migrates at once on the cluster and from one node, less those of
        others.
    type: int
    default: 0
  max_unavailable:
    description:
      - No restart or recreation begins while this many instances among those that may be moved are missing, not
        ready, or being replaced.
    type: int
    default: 1
  canary:
    description: Make this many moves first, and no other before they have ended. V(0) is no canary.
    type: int
    default: 0
  soak:
    description: Seconds to wait after the canary, and before moves away from another zone begin.
    type: int
    default: 0
  max_moves:
    description:
      - Stop after this many moves and return the others in RV(remaining), so that somebody can look before the
        next run. V(0) is no limit.
    type: int
    default: 0
  window:
    description:
      - Moves begin only between these times of day. Outside of the window the run ends and returns what it did not
        begin in RV(remaining).
      - The clock is that of the host on which the module runs.
    type: dict
    suboptions:
      start:
        description: Time of day such as V("22:00"). Quote it, YAML takes it for a number.
        type: str
        required: true
      end:
        description: Time of day. One before O(window.start) is on the next day.
        type: str
        required: true
      timezone:
        description: Name of a time zone such as V(Europe/Madrid).
        type: str
        default: UTC
  failures_allowed:
    description:
      - With more failed moves than this no other begins, those in flight are waited for, and the run fails.
      - An instance whose move failed is not tried again in the same run.
    type: int
    default: 0
  pin_target_zone:
    description:
      - Hold the target of each live migration to the zone that the plan counts on. KubeVirt forgets this when the
        migration has ended. Needs KubeVirt 1.6.
    type: bool
    default: false
  apply_pending_changes:
    description:
      - A restart also applies changes of the VirtualMachine that somebody else has staged, such as other devices.
        Unless this is set, virtual machines with such changes are left, and the changes are named.
    type: bool
    default: false
  timeout:
    description: Seconds for the whole run. When they are over it fails and names each instance that is left, and why.
    type: int
    default: 3600
  move_timeout:
    description: Seconds for one move. A migration that takes longer is cancelled, and the move has failed.
    type: int
    default: 600
  run:
    description:
      - What the action plugin hands from step to step of one run. Nothing for users, and in no result of a task.
    type: dict
    default: {}
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - The module does one step of some seconds. Its action plugin repeats the step and prints what changed, so
    C(async) is refused. With C(no_log) nothing is printed.
  - A migration or restart has no precondition in KubeVirt, and a run that was taken for dead may only be frozen. It
    sends nothing once it wakes up, and a migration that was on its way bears the same name as that of the run that
    took over. A restart that was on its way for longer than 20 seconds cannot be told from a new one.
  - Needs the rights of the ClusterRoles C(virt-placement-reader) and C(virt-placement-mover), and those of the
    Role of that name on the Lease.
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.placement
  - virt.placement.attributes
attributes:
  check_mode:
    support: full
    details:
      - Returns the moves that a run would make if the scheduler chose the likeliest nodes, and makes none.
      - Where there are any it fails as the run would if this identity lacks a right to make them.
  diff_mode:
    support: none
    details: Moves change no declared state.
  idempotent:
    support: full
    details: Where no rule is broken (and nothing else is in O(scope)) nothing is written.
"""

EXAMPLES = r"""
- name: Migrate what breaks a rule
  virt.placement.rollout:
    namespaces: [shop]

- name: See which moves that would be
  virt.placement.rollout:
    namespaces: [shop]
    allow: [migrate, recreate]
  check_mode: true
  register: plan

- name: Replace instances of one replica set at night, one to try, then at most two at a time
  virt.placement.rollout:
    workloads:
      - kind: VirtualMachineInstanceReplicaSet
        namespace: shop
        name: mssql2016
    allow: [recreate]
    canary: 1
    soak: 120
    max_unavailable: 2
    window:
      start: "22:00"
      end: "04:00"
      timezone: Europe/Madrid

- name: Bring everything back to where it prefers to be
  virt.placement.rollout:
    namespaces: [shop]
    scope: unmet
    allow: [migrate, recreate]
"""

RETURN = r"""
cluster:
  description: The cluster that was worked on.
  returned: always
  type: dict
  contains:
    api:
      description: URL of its API server.
      type: str
    uid:
      description:
        - UID of the namespace C(kube-system), which is the same for the life of a cluster.
        - Null where the server was not asked, did not answer, or does not let this identity read that namespace, as
          after options that were refused.
      type: str
moves:
  description:
    - The moves that were made, in the order in which they ended.
    - In check mode the moves that would be made, with C(targets), C(after) and C(reason) in place of what came of them.
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
      from: kni-worker4
      to: kni-worker2
      outcome: moved
      reason: ""
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
      description: Name of the instance that moved.
      type: str
    uid:
      description: UID of the instance that moved.
      type: str
    method:
      description: V(migrate), V(restart) or V(recreate).
      type: str
    from:
      description: The node that it left. Empty for an instance that was waiting for a node.
      type: str
    to:
      description: The node that it, or the instance in its place, runs on.
      type: str
    outcome:
      description: V(moved), V(failed), or V(gone) where the instance ended by itself.
      type: str
    reason:
      description: Why it failed. In check mode why it has to move.
      type: str
    seconds:
      description: How long it took.
      type: float
    targets:
      description:
        - In check mode the nodes open to it in its turn, 20 of them at most. The first is the one that the plan
          counts on.
      type: list
      elements: str
    after:
      description: In check mode the UIDs of instances whose moves must have ended before.
      type: list
      elements: str
left:
  description: Instances that ought to move and do not, with the reason.
  returned: always, unless the run could not begin
  type: list
  elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db1
      instance: db1
      uid: 5f0c7c0e-0a64-4a0e-9d0f-0d9d1f1f6c55
      node: w2
      reason: >-
        moving it takes restart (a change of topologySpreadConstraints takes effect at a
        restart), and allowed is migrate
not_enforced:
  description:
    - Instances that stand where their new terms allow them to and still run by terms of before. Nobody has to move
      for that; O(scope=outdated) moves them.
  returned: always, unless the run could not begin
  type: list
  elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db2
      instance: db2
      uid: 7d0e5e62-54a7-4a55-b1f5-0e0cf2a7ad0d
      node: w3
      takes_effect: migration
      reason: stands well; takes effect at its next migration
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
      description: Name of the instance.
      type: str
    uid:
      description: UID of the instance.
      type: str
    node:
      description: The node that it runs on.
      type: str
    takes_effect:
      description: What it takes, V(migration), V(restart) or V(recreate).
      type: str
    reason:
      description: The same in words.
      type: str
remaining:
  description: Moves that were not begun, because of O(max_moves), O(window) or a failure. Like RV(moves) in check mode.
  returned: always, unless the run could not begin
  type: list
  elements: dict
stopped:
  description: Why the run ended before all moves were made. Empty where it did not.
  returned: always, unless the run could not begin
  type: str
  sample: max_moves (2) is reached
cleared:
  description: Workloads all of whose instances run by their declared terms now, so that the way back was forgotten.
  returned: always
  type: list
  elements: str
  sample: [VirtualMachineInstanceReplicaSet shop/mssql2016]
progress:
  description: The lines that were printed.
  returned: always
  type: list
  elements: str
  sample:
    - "[1/1] VirtualMachine shop/db1 migrated: w4 (bcn) -> w2 (scu) in 2 s"
finished:
  description: Whether the run has ended. Always true, once the action plugin returns.
  returned: always, unless the run could not begin
  type: bool
faults:
  description: Everything that is wrong with the options, or every right that is missing. Nothing was moved.
  returned: when the options are refused, or a right is missing
  type: list
  elements: str
  sample: ["namespaces: there is no namespace 'shpo'; did you mean 'shop'?"]
errors:
  description: Why the run failed.
  returned: when a run fails that could begin
  type: list
  elements: str
  sample: ["not done within 3600 s; left: VirtualMachine shop/db1"]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.rollout import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task

WORKLOAD = {
    "kind": {"type": "str", "default": "VirtualMachine"},
    "namespace": {"type": "str"},
    "name": {"type": "str"},
    "names": {"type": "list", "elements": "str"},
    "labels": {"type": "dict"},
}

WINDOW = {
    "start": {"type": "str", "required": True},
    "end": {"type": "str", "required": True},
    "timezone": {"type": "str", "default": "UTC"},
}

OPTIONS: dict[str, dict[str, t.Any]] = {
    "namespaces": {"type": "list", "elements": "str"},
    "workloads": {"type": "list", "elements": "dict", "options": WORKLOAD},
    "scope": {
        "type": "str",
        "choices": ["violating", "unmet", "outdated", "all"],
        "default": "violating",
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
    "timeout": {"type": "int", "default": 3600},
    "move_timeout": {"type": "int", "default": 600},
    "run": {"type": "dict", "default": {}},
}


def main() -> None:
    run_task(AnsibleModule(argument_spec(**OPTIONS), supports_check_mode=True), run)


if __name__ == "__main__":
    main()
