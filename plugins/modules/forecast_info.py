#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: forecast_info
short_description: Forecast whether pods and VMs are schedulable after a change
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Forecasts a change before it is made, such as new rules, drained or failed nodes, or scaled workloads. Shows which
    instances would be unschedulable and why, which VMs could not be live-migrated, and which moves are needed.
  - RV(forecast) is V(guaranteed), V(possible), V(impossible) or V(unknown). RV(reasons) explains every answer but
    V(guaranteed).
  - The changes of O(rules), O(scale) and O(unavailable) are combined.
  - The forecast covers the instances that the change concerns. These are all instances of the workloads in O(rules),
    the instances on unavailable nodes, and new and pending instances of the workloads in O(scale).
  - Without any change nothing is forecast. RV(forecast) is V(guaranteed) then, and RV(reasons) lists only the instances
    that are pending now.
options:
  unavailable:
    description:
      - The nodes that become unavailable, all of them together.
      - C(nodes) is a list of node names. Any other key is a topology name or label key, with a domain or a list of
        domains, such as C(zone=a).
    type: dict
  event:
    description:
      - With V(drain) the nodes are cordoned and their pods evicted. VMs are live-migrated or restarted, as their
        eviction strategy says.
      - With V(failure) the nodes are unreachable. Their pods stay terminating there and still count for anti-affinity.
        Their controllers create new ones. VMs are down until the node is fenced, and the forecast is about the cluster
        after that.
      - The default of M(virt.placement.drill_info) is V(failure).
    type: str
    choices: [drain, failure]
    default: drain
  scope:
    description:
      - The O(virt.placement.rollout#module:scope) of the rollout that is to follow O(rules). Its moves are among
        RV(moves), and RV(optional_moves) counts those that no required rule needs.
    type: str
    choices: [violated, preference_not_met, not_enforced, all]
    default: violated
  workload_rollout:
    description:
      - The O(virt.placement.rules#module:workload_rollout) with which O(rules) are to be written, V(hold) or another
        one. With V(hold) the forecast is about the rollout that ends the holds.
    type: str
    choices: [allow, hold]
    default: allow
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.what_if
  - virt.placement.assume_node_labels
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
  - PyYAML, where O(rules) is text
notes:
  - Needs the rights of the ClusterRole C(virt-placement-reader). Where a right is missing, the forecast is V(unknown).
  - Pods, requests and limits are counted against each ResourceQuota. A live migration needs a second pod.
  - Not part of the forecast are disruption budgets and the time that volumes need to detach. Nodes that would need
    preemption are not used.
  - A halted VM that a rule is about counts as an instance to schedule.
  - A rollout that a rule starts, as for a Deployment, is followed with the surge of its strategy.
seealso:
  - module: virt.placement.drill_info
  - module: virt.placement.rules
  - module: virt.placement.placement_info
  - module: virt.placement.rollout
"""

EXAMPLES = r"""
- name: Forecast the drain of a node
  virt.placement.forecast_info:
    unavailable:
      nodes: [kni-worker2]

- name: Forecast the failure of a zone
  virt.placement.forecast_info:
    unavailable:
      zone: a
    event: failure

- name: Forecast new rules
  virt.placement.forecast_info:
    namespace: shop
    rules:
      - name: web-one-per-zone
        workloads:
          - names: [web-a, web-b, web-c]
        keep_apart:
          topology_key: zone
  register: outlook

- name: Stop where the rules cannot be satisfied
  ansible.builtin.assert:
    that: outlook.forecast in ['guaranteed', 'possible']
    fail_msg: "{{ outlook.reasons | join('; ') }}"

- name: Forecast six replicas
  virt.placement.forecast_info:
    namespace: shop
    scale:
      - name: web
        replicas: 6
"""

RETURN = r"""
forecast:
  description:
    - V(guaranteed) means that all instances are schedulable, whichever nodes the scheduler chooses.
    - V(possible) means that they are schedulable with some choices of nodes. RV(reasons) says what can fail.
    - V(impossible) means that at least one instance is unschedulable, whichever nodes the scheduler chooses.
    - V(unknown) means that none of these could be shown. RV(reasons) says why.
  returned: success
  type: str
  sample: impossible
codes:
  description:
    - Which proofs or doubts made RV(forecast), as codes that are the same in every release.
    - What to do is in docs/troubleshooting.md, B(Codes of forecasts).
  returned: success
  type: list
  elements: str
  sample: [apart]
reasons:
  description:
    - Why the forecast is not V(guaranteed), and what can fail where it is V(possible).
    - Without a change, which instances are pending now.
  returned: success
  type: list
  elements: str
  sample:
    - "4 VMs (web-a, web-b, web-c, web-d) need 4 different zones (anti-affinity), and only 3 (a, b, c) are feasible"
worsened_by_rules:
  description:
    - Whether the forecast of the same workloads is better if O(rules) are not written. If it is impossible in both
      cases, whether the rules add instances that have no node, or should move and cannot.
    - V(false) also if they are written already.
  returned: success
  type: bool
  sample: true
policy_digest:
  description:
    - Digest of the policy for workloads that are created later as it would be after the task, with the rules that
      other tasks have put into it, also where the task leaves it as it is.
    - Empty where there is none then.
    - An approved forecast is not accepted for another policy.
  returned: success
  type: str
  sample: ""
policy_rules:
  description:
    - Rules that this policy would have, without those that rest or that no policy can write.
    - Where an approved forecast is for another policy, the refusal names the rules that differ.
  returned: success
  type: list
  elements: str
  sample: []
policy_rules_removed:
  description:
    - Rules that would leave this policy, by O(prune), O(state) or O(new_members), or rest in it.
    - An approved forecast is not accepted for others.
  returned: success
  type: list
  elements: str
  sample: []
instances_to_schedule:
  description: How many instances need a node. Those of them that are pending now are included.
  returned: success
  type: int
  sample: 4
min_unschedulable:
  description: How many instances are unschedulable at least, whichever nodes the scheduler chooses.
  returned: success
  type: int
  sample: 1
down_until_fenced:
  description:
    - VMs that stay down until their failed node is fenced. KubeVirt starts a VM again only when its old pod is gone.
    - RV(forecast) is about the cluster after that.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Its kind.
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
  sample: []
pending:
  description:
    - Instances that would have no node. If RV(forecast) is V(possible), those of one unfavorable choice of nodes, else
      those of the best choice that was found.
  returned: success
  type: list
  elements: dict
  contains:
    workload:
      description: The workload. Null where it is not known.
      type: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
    instance:
      description: The instance. The name of one that does not exist yet ends with C(-next).
      type: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
    reason:
      description: Why it has no node, in the words of kube-scheduler.
      type: str
    reason_code:
      description:
        - The reason as a code. V(no_node), or V(refused) where a ResourceQuota refuses the pod.
        - What to do is in docs/troubleshooting.md, B(Why an instance has no node).
      type: str
    certain:
      description: Whether this instance is unschedulable whichever nodes the scheduler chooses. If not, it may be
        another one.
      type: bool
    preemption_candidates:
      description:
        - At most 20 workloads of lower priority with pods that the scheduler may preempt for it. The forecast does not
          count their pods as pending.
        - The priority of a workload without pods counts as 0, unless its template has it as a number.
      type: list
      elements: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
  sample:
    - workload: {kind: VirtualMachine, namespace: shop, name: web-d}
      instance: {kind: VirtualMachineInstance, namespace: shop, name: web-d}
      reason: >-
        0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules (app In (web) over zone); blocked by VM
        shop/web-a and 2 others (rule shop/default/web-one-per-zone)
      certain: false
      preemption_candidates: []
not_migratable:
  description:
    - VMs that could not be live-migrated. With O(rules) also those that need not move now.
  returned: success
  type: list
  elements: dict
  contains:
    workload:
      description: The workload. Null where it is not known.
      type: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
    instance:
      description: The instance.
      type: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
    node:
      description: The node that it runs on.
      type: str
    reason:
      description: What prevents a live migration.
      type: str
    reason_code:
      description:
        - The reason as a code. V(no_node), V(refused) by a ResourceQuota, V(not_live_migratable), V(node_not_ready), or
          V(moved_by_others) where another controller has to move the VM.
        - What to do is in docs/troubleshooting.md, B(Why a VM cannot be live-migrated).
      type: str
    if_restarted:
      description: At most 20 nodes that would be feasible if it were restarted.
      type: list
      elements: str
    certain:
      description: Whether this holds whichever nodes the scheduler chooses. If not, it may be another instance.
      type: bool
  sample: []
moves:
  description: The fewest moves that satisfy the rules, or the moves off the unavailable nodes, in their order.
  returned: success
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
      description: Name of the instance.
      type: str
    uid:
      description: UID of the instance.
      type: str
    method:
      description: V(migrate), V(restart) or V(recreate).
      type: str
    from_node:
      description: The node that it leaves.
      type: str
    to_node:
      description: The node that the plan counts on. The scheduler may choose another one of RV(moves[].targets).
      type: str
    reason:
      description: Why it moves.
      type: str
    reason_code:
      description: Empty, since the reason is no obstacle.
      type: str
    targets:
      description: At most 20 nodes that are feasible when its turn comes.
      type: list
      elements: str
    after:
      description: UIDs of the instances that must move first.
      type: list
      elements: str
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: web-b
      instance: web-b
      uid: 6f0c2d0e-5a51-4c7b-9a4e-3d8f6d1f2b11
      method: migrate
      from_node: worker2
      to_node: worker3
      reason: keep_apart of shop/default/web-one-per-zone is violated
      targets: [worker3, worker4]
      after: []
optional_moves:
  description: How many of RV(moves) only O(scope) asks for, and no required rule.
  returned: success
  type: int
  sample: 0
preferences_not_met:
  description:
    - VMs of the workloads in O(rules) that run on a node which does not meet one of their preferred rules, after
      RV(moves). Only a rollout with the scope V(preference_not_met) moves them for that.
  returned: success
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
      description: Name of the instance.
      type: str
    uid:
      description: UID of the instance.
      type: str
    node:
      description: The node that it runs on after RV(moves).
      type: str
    reason:
      description: What is not met, and what moves it.
      type: str
    better_nodes:
      description: The nodes that are feasible and meet a preferred rule that its node does not meet.
      type: list
      elements: str
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db
      instance: db
      uid: 6f0c2d0e-5a51-4c7b-9a4e-3d8f6d1f2b11
      node: worker2
      reason: >-
        not met: preferred node affinity zone In (east) (rule default/db-east); scope preference_not_met moves it
        (better: worker1)
      better_nodes: [worker1]
skipped_instances:
  description: Instances that violate a rule and for which no move was found.
  returned: success
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
      description: Name of the instance.
      type: str
    uid:
      description: UID of the instance.
      type: str
    method:
      description: Null, since no method is possible.
      type: str
    from_node:
      description: The node that it runs on.
      type: str
    to_node:
      description: Null.
      type: str
    reason:
      description: Which rule it violates, and why it does not move.
      type: str
    reason_code:
      description:
        - Why it does not move, as a code. V(not_live_migratable), V(no_target_pod), V(needs_restart),
          V(run_strategy), V(not_running), V(terminating), V(in_progress), V(workload_rollout_stopped),
          V(changed_by_others), V(not_movable), V(no_node), V(too_few_domains), V(blocked_by_each_other),
          V(bypassed_by_node_term), V(do_not_move), V(node_not_ready) or V(not_found).
        - What to do is in docs/troubleshooting.md, B(Why an instance does not move).
      type: str
  sample: []
deadlock:
  description: Set where there is capacity, but no single move leads there. Null otherwise.
  returned: success
  type: dict
  contains:
    instances:
      description: The instances that block each other.
      type: list
      elements: dict
      contains:
        kind:
          description: Its kind.
          type: str
        namespace:
          description: Its namespace.
          type: str
        name:
          description: Its name.
          type: str
    reason:
      description: What blocks them.
      type: str
    remediation:
      description: What an administrator can do. No module does it by itself.
      type: list
      elements: str
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(forecast), or V(no_change) where nothing would change, so that nothing is forecast. What is to do
      about it is the advice of RV(findings).
    - After a failure C(next) has V(nothing_written), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: forecast, text: "forecast: guaranteed", objects: []}
    skipped: []
    next: []
findings:
  description:
    - Findings about the rules, as M(virt.placement.rules) reports them, about the workloads after the change, and about
      instances that no controller recreates.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, the same in every release.
      type: str
    severity:
      description: V(error), V(warning) or V(info).
      type: str
    why:
      description: What is wrong.
      type: str
    advice:
      description: What to do.
      type: str
    objects:
      description: The objects that it is about.
      type: list
      elements: str
    rule:
      description: Name of the rule.
      type: str
  sample: []
blocking_findings:
  description: Names of the findings for which M(virt.placement.rules) refuses to write the rules.
  returned: success
  type: list
  elements: str
  sample: []
permission_gaps:
  description: Lists that could not be read. If there are any, the forecast is V(unknown).
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
    namespace:
      description: The namespace. Empty for all namespaces.
      type: str
    verb:
      description: The verb that is missing.
      type: str
    reason:
      description: The answer of the server, and what to do.
      type: str
    account:
      description: The account that lacks the right. Empty where no right is missing.
      type: str
    reason_code:
      description:
        - The reason as a code, V(no_right) where a right is missing, else V(not_read).
        - What to do is in docs/troubleshooting.md, B(What could not be read).
      type: str
  sample: []
cluster:
  description: The cluster that was read.
  returned: always
  type: dict
  contains:
    api:
      description: URL of the API server.
      type: str
    uid:
      description:
        - UID of the namespace C(kube-system), which is the same for the life of a cluster.
        - Null where the server was not asked, did not answer, or does not let this identity read that namespace, as
          after options that were refused.
      type: str
    untested:
      description: Which releases of the server are newer than those that the collection is tested with.
      returned: with C(-v), if there are such
      type: str
    bytes_read:
      description: Bytes of all answers of the API server, as they were sent. They may be compressed with gzip.
      returned: with C(-vvv)
      type: int
  sample: {api: "https://api.example.com:6443", uid: 9c1f3b8e-6a55-4a3c-8a3b-3d0b2f1d7c11}
errors:
  description: Why the task failed.
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
      message: "unavailable.nodes: there is no node 'worker9'; did you mean 'worker2'?"
      object: "unavailable.nodes"
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.forecast import run
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NODE_EVENTS
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
    what_if_options,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task
from ansible_collections.virt.placement.plugins.module_utils.planning.plan_request import Scope


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            **what_if_options(),
            workload_rollout={"type": "str", "default": "allow", "choices": ["allow", "hold"]},
            unavailable={"type": "dict"},
            event={"type": "str", "default": "drain", "choices": list(NODE_EVENTS)},
            scope={"type": "str", "default": "violated", "choices": list(t.get_args(Scope))},
        ),
        supports_check_mode=True,
    )
    run_task(module, run, of_change=True)


if __name__ == "__main__":
    main()
