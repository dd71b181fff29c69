#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: forecast_info
short_description: Say what would come of new rules, lost nodes or scaled workloads before it is done
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Says whether every instance would find a place if rules were written, nodes were drained or failed, or workloads
    were scaled, each alone or together. The scheduler's own filters decide.
  - The answer is about those whom the question concerns, and about nobody else. Every member of O(rules) is concerned,
    whether the rule has still to be written or stands already, so that the same rules get the same answer as long as
    nothing has moved. Its machines that break a rule now have to move, and its instances that are Pending now are to
    be placed. Beside them who is on the nodes of O(unavailable) is concerned, and of the workloads in O(scale) who
    would be new and who is Pending now. With O(state=absent) and O(prune) it is those whose templates would change.
  - Without any question nobody is concerned, so that the answer is V(guaranteed). Who is Pending already stands in
    RV(reasons) then; M(virt.placement.placement_info) says whether rules hold now.
  - RV(forecast) is one of four answers. V(guaranteed) holds whatever the scheduler chooses, in whatever order.
    V(possible) means that some way leads there, and that it depends on choices or was not shown for all of them.
    V(impossible) comes with a proof in words. V(unknown) means that the search came to its limit,
    that something could not be read, that machines which have to move may make room or be in the way otherwise than
    planned, or that a rule may be broken by who leaves or comes later. RV(reasons) says which. Nothing is claimed
    beyond what was shown.
  - Also says who would be pending and why, who cannot be live-migrated, and which moves would be made, in their order.
    Where only more than one move at a time would help it says so, and names ways out; none of them is taken.
  - With O(drill) each domain of a key is lost in turn, and the losses are sorted by how much they hurt.
  - Halted virtual machines that a rule is about count as to be placed. A template change that starts a workload's own
    roll-out is followed with the surge that its strategy allows; of a roll-out that has begun only who is Pending
    counts. A place that exists only by preemption is none.
  - Reads, and writes nothing.
options:
  namespace:
    description:
      - Namespace of the rules and of the workloads in O(scale).
      - Required with rules.
    type: str
  rule_set:
    description: The rule set, as in M(virt.placement.rules).
    type: str
    default: default
  rules:
    description:
      - What if these rules were written, or, where they stand already, obeyed. A list of maps, or the YAML or JSON text
        of one, in the form that M(virt.placement.rules) takes.
    type: raw
    default: []
  state:
    description:
      - With V(present) the rules would be written.
      - With V(absent) they would be taken away.
    type: str
    choices: [present, absent]
    default: present
  prune:
    description: Every rule of the set in this namespace that is not in O(rules) would be taken away.
    type: bool
    default: false
  adopt:
    description: Terms that are there already and say the same would become the rules', as in M(virt.placement.rules).
    type: bool
    default: false
  unavailable:
    description:
      - What is lost, all of it together. C(nodes) is a list of nodes; any other key is a name of O(topology_keys), or
        a label key with its prefix, with a domain or a list of domains.
    type: dict
  event:
    description:
      - With V(drain) the nodes are cordoned, and what runs there is evicted. Virtual machines migrate where their
        eviction strategy says so, and are started again elsewhere otherwise.
      - With V(failure) the nodes stay as unreachable ones. What ran there stays bound to them, terminating, so that it
        still counts for anyone's anti-affinity, and is made again elsewhere.
      - The role P(virt.placement.placement_drill#role) asks about V(failure) unless it is told otherwise; here the
        default is V(drain), since whoever takes a single node out on purpose drains it.
    type: str
    choices: [drain, failure]
    default: drain
  scale:
    description: Workloads that would have another number of instances.
    type: list
    elements: dict
    suboptions:
      kind:
        description: Kind of the workload. V(Deployment), V(StatefulSet) or V(VirtualMachineInstanceReplicaSet).
        type: str
        default: Deployment
      namespace:
        description: Its namespace, O(namespace) by default.
        type: str
      name:
        description: Its name.
        type: str
        required: true
      replicas:
        description: How many instances it would have.
        type: int
        required: true
  drill:
    description:
      - Keys of which each domain is lost by itself, one after the other, for example V(node) and V(zone).
      - Each answer is in RV(drill), the worst of them in RV(forecast). Cannot stand beside O(unavailable).
    type: list
    elements: str
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.attributes
  - virt.placement.attributes.info
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
  - PyYAML, where O(rules) is text
notes:
  - Needs the rights of the cluster role C(virt-placement-reader). Where something may not be read the answer is
    V(unknown), and each missing right is a warning and in RV(permission_gaps).
  - An answer holds in whatever order what is lost ends or migrates, all at once or one by one with each placed before
    the next leaves. A spread that counts drained nodes may let an early one in where it refuses a late one, then it
    says V(possible).
  - Migrations that have found their nodes are taken to be over, and what is being deleted to have gone, in whatever
    order. What else happens meanwhile is not foreseen. Disruption budgets, quotas, volumes that take time to detach and
    what comes of pods that are ended by preemption are left out of account. Whose these may be is in
    RV(pending[].preemption_candidates).
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
  - module: virt.placement.rollout
"""

EXAMPLES = r"""
- name: Would these rules leave anybody without a place
  virt.placement.forecast_info:
    namespace: shop
    rules:
      - name: web-one-per-zone
        workloads: [{names: [web-a, web-b, web-c]}]
        keep_apart: {topology_key: zone}
  register: outlook

- name: Go on only where it is possible at all
  ansible.builtin.assert:
    that: outlook.forecast in ['guaranteed', 'possible']
    fail_msg: "{{ outlook.reasons | join('; ') }}"

- name: Can this node be drained
  virt.placement.forecast_info:
    unavailable:
      nodes: [worker2]

- name: What if a whole zone fails
  virt.placement.forecast_info:
    unavailable:
      zone: scu
    event: failure

- name: Is there room for six instances
  virt.placement.forecast_info:
    namespace: shop
    scale:
      - name: web
        replicas: 6

- name: Which single failure hurts most
  virt.placement.forecast_info:
    drill: [node, zone]
    event: failure
  register: drilled

- name: Show the losses that hurt
  ansible.builtin.debug:
    msg: "{{ drilled.table.splitlines() }}"
"""

RETURN = r"""
forecast:
  description:
    - V(guaranteed), whatever the scheduler chooses; V(possible), some course leads there; V(impossible), none does; or
      V(unknown).
    - Where machines have to move for a rule it is V(guaranteed) only if one move is needed, and any node that is open
      to it will do.
    - With O(drill) the answer for the worst single loss.
  returned: success
  type: str
  sample: impossible
reasons:
  description:
    - Why it is impossible, or why nothing better can be said. Empty where the answer stands for itself.
    - Where nothing was asked, who is Pending already, with the reason.
  returned: success
  type: list
  elements: str
  sample: ["these 4 VMs (web-a, web-b, web-c, web-d) keep apart over zone and can only use 3 zones (z1, z2, z3)"]
instances_to_schedule:
  description: How many instances would have to find a place, those who are concerned and Pending now among them.
  returned: without O(drill)
  type: int
  sample: 4
min_unschedulable:
  description: At least how many would stay pending, whatever is chosen.
  returned: without O(drill)
  type: int
  sample: 1
pending:
  description: >-
    Instances that would have no node. Where RV(forecast) is V(possible), those of one bad course, else those of the
    best course that was found.
  returned: without O(drill)
  type: list
  elements: dict
  contains:
    workload:
      description: Kind, namespace and name of the workload.
      type: dict
    instance:
      description: Kind, namespace and name of the instance. What does not exist yet ends with C(-next).
      type: dict
    reason:
      description: What stands against the nodes.
      type: str
    certain:
      description: Whether that is so whatever is chosen and in whatever order, or somebody else may stay instead.
      type: bool
    preemption_candidates:
      description:
        - Workloads of lower priority of which the scheduler may end pods to make room for it, at most 20.
        - Who is ended and finds no other place is Pending then; that is not counted.
        - The priority of a workload that has no pod yet is not known, unless its template has it as a number. It counts
          as 0.
      type: list
      elements: dict
  sample:
    - workload: {kind: VirtualMachine, namespace: shop, name: web-d}
      instance: {kind: VirtualMachineInstance, namespace: shop, name: web-d}
      reason: "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules (app In (web) over zone)"
      certain: false
      preemption_candidates: []
not_migratable:
  description: >-
    Instances that could not be live-migrated, with the term that stands against it. Of those that a rule touches also
    some that need not move now.
  returned: without O(drill)
  type: list
  elements: dict
  contains:
    workload:
      description: Kind, namespace and name of the workload.
      type: dict
    instance:
      description: Kind, namespace and name of the instance.
      type: dict
    node:
      description: The node that it runs on.
      type: str
    reason:
      description: What stands against a migration.
      type: str
    if_restarted:
      description: Nodes that would be open to it while it is away.
      type: list
      elements: str
    certain:
      description: Whether that is so whatever is chosen and in whatever order, or somebody else may stay instead.
      type: bool
  sample: []
moves:
  description: The fewest moves after which the rules hold, or the moves off the unavailable nodes, in their order.
  returned: without O(drill)
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
      description: The node that the plan counts on. The scheduler decides.
      type: str
    reason:
      description: Why it moves.
      type: str
    targets:
      description: The nodes that are feasible in its turn, at most 20.
      type: list
      elements: str
    after:
      description: UIDs of the instances whose moves must end first.
      type: list
      elements: str
  sample: []
skipped:
  description: Instances that violate a rule and for which no move was found.
  returned: without O(drill)
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
      description: Always null, since no method is possible.
      type: str
    from_node:
      description: The node that it runs on.
      type: str
    to_node:
      description: Always null.
      type: str
    reason:
      description: Which rule it violates, and why it does not move.
      type: str
  sample: []
deadlock:
  description: Where there is room, and no single move leads there. Null otherwise.
  returned: without O(drill)
  type: dict
  contains:
    instances:
      description: Who stands in each other's way.
      type: list
      elements: dict
    reason:
      description: What was seen.
      type: str
    remediation:
      description: What somebody may decide to do. None of it is ever done without being asked for.
      type: list
      elements: str
drill:
  description: The losses that hurt, the worst first.
  returned: with O(drill)
  type: list
  elements: dict
  contains:
    key:
      description: Label key of the domain that is lost.
      type: str
    domain:
      description: The domain.
      type: str
    nodes:
      description: Its nodes.
      type: list
      elements: str
    forecast:
      description: As RV(forecast), for this loss.
      type: str
    displaced:
      description: How many instances have to find a place.
      type: int
    down:
      description: How many surely stay without one, whoever that is, or end for good.
      type: int
    pending:
      description: Instances that stay without a place, in the best course that was found.
      type: list
      elements: dict
    at_risk:
      description: Instances that do in a bad case, where it is possible that all have a place, or unknown.
      type: list
      elements: dict
    not_migratable:
      description: Instances that cannot be live-migrated off, in the best course that was found.
      type: list
      elements: dict
    gone:
      description: Instances that nothing makes again.
      type: list
      elements: dict
    reasons:
      description: Why. Empty only where RV(drill[].blocked) says it.
      type: list
      elements: str
    blocked:
      description:
        - What is in the way of each instance that stays without a place or on its node. Where that depends on choices
          it is said of one bad course.
      type: list
      elements: dict
      contains:
        instance:
          description: Kind, namespace and name of the instance.
          type: dict
        by:
          description:
            - The scheduler's filter that takes the last nodes away, for example V(InterPodAffinity); V(NoNode) where
              there is no other node at all, V(Eviction) where the instance may not leave its node in the first place.
          type: str
        pod:
          description: Kind, namespace and name of the pod in the way. Null where it is none.
          type: dict
        rules:
          description: The rules behind the term that is in the way, as namespace/set/name. Empty where there is none.
          type: list
          elements: str
        reason:
          description: What stands against the nodes, or against leaving.
          type: str
        text:
          description: The same in a sentence, with the pod and the rules.
          type: str
  sample:
    - key: topology.kubernetes.io/zone
      domain: z1
      nodes: [worker1, worker2]
      forecast: impossible
      displaced: 3
      down: 1
      pending: [{kind: VirtualMachineInstance, namespace: shop, name: web-a}]
      at_risk: []
      not_migratable: []
      gone: []
      reasons: ["this VM (web-a) keeps apart over zone and can only use 0 zones"]
      blocked:
        - instance: {kind: VirtualMachineInstance, namespace: shop, name: web-a}
          by: InterPodAffinity
          pod: {kind: Pod, namespace: shop, name: virt-launcher-web-b-x7k2p}
          rules: []
          reason: in a zone with a pod that it keeps away from (app In (web))
          text: web-a is blocked by pod virt-launcher-web-b-x7k2p in shop
counts:
  description: How many losses were tried, and how many of them hurt.
  returned: with O(drill)
  type: dict
  contains:
    losses:
      description: Domains that were lost in turn, 0 where something could not be read.
      type: int
    hurting:
      description: Those that are in RV(drill).
      type: int
  sample: {losses: 7, hurting: 1}
table:
  description: The losses that hurt, for people. Where something could not be read, that nobody can say, and why.
  returned: with O(drill)
  type: str
  sample: |-
    LOST     INSTANCES  ANSWER      DOWN  STUCK  WHY
    zone z1  3          impossible  1     0      web-a is blocked by pod virt-launcher-web-b-x7k2p in shop
    6 of 7 losses hurt nothing
findings:
  description:
    - What is wrong with the rules, or may be, as M(virt.placement.rules) would say it, lint of what would stand
      afterwards among it, and instances that nothing would make again.
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
      description: What was seen.
      type: str
    advice:
      description: What to do.
      type: str
    objects:
      description: Where it was seen.
      type: list
      elements: str
    rule:
      description: Name of the rule.
      type: str
  sample: []
blocking_findings:
  description: Names of the findings for which M(virt.placement.rules) would refuse to write these rules.
  returned: success
  type: list
  elements: str
  sample: []
permission_gaps:
  description: What could not be read. Then the forecast is V(unknown).
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
    namespace:
      description: The namespace, empty for all.
      type: str
    verb:
      description: The verb that is missing.
      type: str
    reason:
      description: What the server said, and what to do.
      type: str
  sample: []
faults:
  description: Everything that is wrong with the input.
  returned: when the input is refused
  type: list
  elements: str
  sample: ["unavailable.nodes: there is no node 'worker9'; did you mean 'worker2'?"]
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
  sample: {api: "https://api.example.com:6443", uid: 9c1f3b8e-6a55-4a3c-8a3b-3d0b2f1d7c11}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.forecast import run
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NODE_EVENTS
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import STATES

SCALED: dict[str, dict[str, t.Any]] = {
    "kind": {"type": "str", "default": "Deployment"},
    "namespace": {"type": "str"},
    "name": {"type": "str", "required": True},
    "replicas": {"type": "int", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            namespace={"type": "str"},
            rule_set={"type": "str", "default": "default"},
            rules={"type": "raw", "default": []},
            state={"type": "str", "default": "present", "choices": list(STATES)},
            prune={"type": "bool", "default": False},
            adopt={"type": "bool", "default": False},
            unavailable={"type": "dict"},
            event={"type": "str", "default": "drain", "choices": list(NODE_EVENTS)},
            scale={"type": "list", "elements": "dict", "options": SCALED},
            drill={"type": "list", "elements": "str", "no_log": False},
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
