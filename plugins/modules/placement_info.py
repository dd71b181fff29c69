#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: placement_info
short_description: Judge where instances run against the rules that they carry
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Says of each running instance, virtual machine or pod, and of each rule, whether the rule holds where the instance
    runs, exactly as the scheduler would see it. Take this one out, it asks, may it come back to its node?
  - What is judged is what the workload declares, also terms that no rule of this collection wrote. Whether the running
    pod was scheduled with that is said beside it, so that what is in the right place by luck is told from what is held
    there.
  - Anybody's required anti-affinity keeps anybody out, so all pods and nodes of the cluster are read, whatever is
    asked about.
  - Also says what may go wrong though no rule is broken, why instances are pending, and what lint finds about the
    terms.
  - Reads, and writes nothing.
options:
  namespaces:
    description:
      - Judge the instances in these namespaces. An empty list is nothing.
      - Left out, and O(workloads) too, all namespaces are judged.
      - A single namespace is also the default for O(workloads[].namespace); then only the workloads named there are
        judged.
    type: list
    elements: str
  workloads:
    description:
      - Judge the instances of these workloads only. An empty list is nothing.
      - Name them by one of O(workloads[].name), O(workloads[].names) and O(workloads[].labels). What cannot be found is
        an error.
    type: list
    elements: dict
    suboptions:
      kind:
        description:
          - Kind of workload. V(VirtualMachine), V(VirtualMachineInstanceReplicaSet), V(VirtualMachinePool),
            V(Deployment), V(StatefulSet), V(DaemonSet), or V(Pod) for a pod without an owner.
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
  details:
    description:
      - V(problems) returns instances with any other verdict than V(satisfied), and names at most 20 nodes in each list.
      - V(all) returns every instance, with all nodes that are open to it.
      - V(summary) returns no instances, pending ones or hazards, but counts them.
    type: str
    choices: [problems, all, summary]
    default: problems
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.attributes
  - virt.placement.attributes.info
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster role C(virt-placement-reader). What may not be read makes verdicts V(unknown), and
    the missing right is in RV(unreadable).
seealso:
  - module: virt.placement.rules
  - module: virt.placement.rollout
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Judge everything in one namespace
  virt.placement.placement_info:
    namespaces: [shop]
  register: placement

- name: Show who runs where and what is wrong
  ansible.builtin.debug:
    msg: "{{ placement.table.splitlines() }}"

- name: Go on only where no required rule is broken
  ansible.builtin.assert:
    that:
      - placement.summary.violated == 0
      - placement.summary.unknown == 0

- name: Where else could the database run
  virt.placement.placement_info:
    namespaces: [shop]
    workloads:
      - kind: VirtualMachineInstanceReplicaSet
        name: mssql2016
    details: all

- name: Count only, over the whole cluster
  virt.placement.placement_info:
    details: summary
"""

RETURN = r"""
summary:
  description: How many instances have which verdict. An instance has the worst verdict of its rules.
  returned: success
  type: dict
  contains:
    instances:
      description: How many instances were judged.
      type: int
    satisfied:
      description: All rules hold where they run, and the running pods were scheduled with them.
      type: int
    preference_not_met:
      description: A preferred rule does not hold where they run.
      type: int
    not_enforced:
      description:
        - Required rules hold where they run, but the running pod was scheduled without what is declared now. They are
          in the right place by luck.
      type: int
    pending:
      description: They have no node.
      type: int
    unknown:
      description: Something that is needed could not be read. A list of instances that could not be read counts as one.
      type: int
    violated:
      description: A required rule does not hold where they run, or a foreign node term takes its force away.
      type: int
    misplaced:
      description: Instances that must move for a required rule to hold.
      type: int
    hazards:
      description: How many hazards there are.
      type: int
    broken:
      description:
        - For each broken rule how many instances it affects, and the fewest moves that would heal it; null where no
          arrangement would. A term that no rule owns is described, and its instances are not counted.
      type: list
      elements: dict
  sample:
    instances: 9
    satisfied: 6
    preference_not_met: 1
    not_enforced: 0
    pending: 0
    unknown: 0
    violated: 2
    misplaced: 2
    hazards: 0
    broken:
      - {rule: shop/database/database-one-per-zone, affected: 2, moves_needed: 1}
instances:
  description: The judged instances, see O(details).
  returned: success
  type: list
  elements: dict
  contains:
    workload:
      description: Kind, namespace and name of the workload whose template it is made from.
      type: dict
    instance:
      description: Kind, namespace and name of the virtual machine instance or pod.
      type: dict
    uid:
      description: Its UID.
      type: str
    node:
      description: The node that it runs on, empty where it has none.
      type: str
    domains:
      description: For each name in O(topology_keys) the domain of its node.
      type: dict
    verdict:
      description: >-
        V(satisfied), V(preference_not_met), V(not_enforced), V(pending), V(unknown) or V(violated).
      type: str
    misplaced:
      description: A required rule is broken where it runs, so it must move.
      type: bool
    rules:
      description: A verdict for each rule that it is under, and for each term that no rule owns.
      type: list
      elements: dict
      contains:
        rule:
          description: >-
            Namespace, set and name of the rule with slashes between. Empty for what no rule of this collection owns,
            which RV(instances[].rules[].reason) then describes. A term of another workload that keeps this one away is
            named by the rule of the other.
          type: str
        verdict:
          description: The verdict on this rule.
          type: str
        reason:
          description: Why. Empty where the rule simply holds.
          type: str
        better_nodes:
          description: Nodes where it would hold, and that are open to the instance.
          type: list
          elements: str
        in_effect:
          description: Whether the running pod was scheduled with it.
          type: bool
        as_declared:
          description: The verdict on the place alone, in effect or not.
          type: str
        takes_effect:
          description: >-
            V(migration), V(restart) or V(recreate), what has to happen to the instance before the rule is in effect.
            Empty where it is, and where only writing the rules again would help.
          type: str
    feasible_if_restarted:
      description: >-
        Nodes that are open to it if it is restarted now. Of instances that are not broken only with O(details=all).
      type: list
      elements: str
    feasible_if_migrated:
      description: >-
        Nodes that are open to it if it is live-migrated now, while it still runs where it is. Of instances that are not
        broken only with O(details=all).
      type: list
      elements: str
  sample:
    - workload: {kind: VirtualMachineInstanceReplicaSet, namespace: shop, name: mssql2016}
      instance: {kind: VirtualMachineInstance, namespace: shop, name: mssql2016k7x9d}
      uid: 0d7ff1a4-2f0b-4f0c-8a57-4c9a0c1d9b11
      node: kni-worker4
      domains: {region: iberia, zone: bcn, node: kni-worker4, performance: high}
      verdict: violated
      misplaced: true
      rules:
        - rule: shop/database/database-on-fast-nodes
          verdict: satisfied
          reason: ""
          better_nodes: []
          in_effect: true
          as_declared: satisfied
          takes_effect: ""
        - rule: shop/database/database-one-per-zone
          verdict: violated
          reason: >-
            VirtualMachineInstance shop/mssql2016b2v5w is in the same zone 'bcn' (pod anti-affinity over zone to
            kubevirt.io/domain In (mssql2016))
          better_nodes: [kni-worker2]
          in_effect: true
          as_declared: violated
          takes_effect: ""
      feasible_if_restarted: [kni-worker2]
      feasible_if_migrated: [kni-worker2]
pending:
  description: Instances without a node, and migrations whose target has none, with the reason.
  returned: success
  type: list
  elements: dict
  sample:
    - workload: {kind: VirtualMachine, namespace: shop, name: db3}
      instance: {kind: VirtualMachineInstance, namespace: shop, name: db3}
      reason: "0/7 nodes are available: 6 Insufficient memory, 1 node(s) were unschedulable"
hazards:
  description:
    - What is true today though no rule is broken. An instance that moves away could not come back, or nothing keeps it
      apart where it is.
    - Kinds are C(cordoned), C(taint), C(not_ready), C(not_schedulable_for_kubevirt), C(resources), C(too_many_pods),
      C(ports), C(node_name) and C(unknown_domain).
  returned: success
  type: list
  elements: dict
  sample:
    - instance: {kind: VirtualMachineInstance, namespace: shop, name: db1}
      node: kni-worker3
      kind: cordoned
      detail: node kni-worker3 is cordoned
findings:
  description:
    - What is wrong with the terms themselves, or may be. There is one warning for each name of a finding that is not
      V(info).
    - C(selector_matches_nothing), C(selector_matches_everything), C(template_and_selector_disagree) and
      C(negative_namespace_selector) are about label selectors.
    - C(no_node_has_key), C(nodes_lack_key), C(no_node_has_value), C(single_domain), C(deprecated_node_label) and
      C(unprefixed_label_key) are about node labels.
    - C(empty_node_term) and C(unsatisfiable) are about what no node satisfies.
    - C(mutual_affinity), C(depends_on_other_workload), C(blocks_live_migration), C(restart_required),
      C(rollout_deadlock), C(max_skew_misread) and C(spread_blocks_drain) are about what terms do to moves.
    - C(bypassed_by_node_term), C(copied_annotation), C(externally_managed) and C(unsupported_by_server) are about
      rules that are not enforced as written.
    - C(invalid_placement) is about templates of which the API server makes no pod.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, which stays the same from release to release.
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
      description: Name of the rule that it is about, empty for terms that no rule owns.
      type: str
  sample:
    - name: selector_matches_nothing
      severity: error
      why: >-
        The pod anti-affinity term over topology.kubernetes.io/zone has no labelSelector, which selects no pod, so it
        has no effect.
      advice: Give it a labelSelector that the labels of the pods' template satisfy.
      objects: [VirtualMachine shop/rke2-pool1-1]
      rule: ""
unreadable:
  description: What could not be read. Verdicts that rest on it are V(unknown).
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
table:
  description: Zone, node and workloads for people, a line for each problem at the end.
  returned: success
  type: str
  sample: |-
    ZONE  NODE         INSTANCES
    bcn   kni-worker4  shop/mssql2016 x2
    sab   kni-worker6  shop/mssql2016
    scu   kni-worker2
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

from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task

WORKLOAD: dict[str, dict[str, t.Any]] = {
    "kind": {"type": "str", "default": "VirtualMachine"},
    "namespace": {"type": "str"},
    "name": {"type": "str"},
    "names": {"type": "list", "elements": "str"},
    "labels": {"type": "dict"},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            namespaces={"type": "list", "elements": "str"},
            workloads={"type": "list", "elements": "dict", "options": WORKLOAD},
            details={
                "type": "str",
                "choices": ["problems", "all", "summary"],
                "default": "problems",
            },
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
