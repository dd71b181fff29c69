#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: placement_info
short_description: Show which instances violate their placement rules, and why
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Reports for each running instance whether the node that it runs on satisfies the rules of its workload, and which
    nodes would satisfy them.
  - Also reports instances without a node and the reason, the fewest moves that repair each violated rule, risks, and
    findings about the rules themselves.
  - An instance is a VirtualMachineInstance (VMI) with its launcher pod, or a pod.
  - A verdict is what kube-scheduler would decide for the same node now. All required constraints count, also those
    that no rule of this collection wrote, and the anti-affinity of other workloads in the same namespace.
  - In contrast to kube-scheduler, anti-affinity of workloads in other namespaces is reported as a risk only.
    Otherwise a tenant there could make C(rollout) move VMs here.
  - The verdict is about the constraints that the workload declares. RV(instances[].rules[].enforced) says whether the
    running pod was scheduled with them.
  - Changes nothing.
options:
  namespaces:
    description:
      - Report instances in these namespaces. An empty list selects nothing.
      - Without O(namespaces) and O(workloads), instances in all namespaces are reported.
      - A single namespace is also the default of O(workloads[].namespace). With O(workloads), only those are reported.
    type: list
    elements: str
  exclude_namespaces:
    description:
      - Leave out instances in these namespaces. Not with O(workloads).
    type: list
    elements: str
    default: []
  details:
    description:
      - V(problems) returns the instances that are down or have another verdict than V(satisfied), and at most 20 nodes
        in each list.
      - V(placement) returns what V(problems) returns, the other instances in short, in RV(satisfied_instances), and
        RV(nodes). M(virt.placement.report) needs it.
      - V(all) returns every instance, with all its feasible nodes, and RV(nodes).
      - V(summary) returns counts only.
    type: str
    choices: [problems, placement, all, summary]
    default: problems
  columns:
    description:
      - The topology names or label keys that RV(table) has a column for, left of the nodes. The nodes are sorted by
        them.
    type: list
    elements: str
    default: [zone]
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.placement
  - virt.placement.workloads
  - virt.placement.workloads.only
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster role C(virt-placement-reader). Where a right is missing, the verdicts that need it
    are V(unknown), and RV(permission_gaps) names it.
  - All pods and nodes of the cluster are read, since pods in other namespaces can have anti-affinity with the selected
    instances.
seealso:
  - module: virt.placement.rules
  - module: virt.placement.rollout
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Check placement in one namespace
  virt.placement.placement_info:
    namespaces: [shop]
  register: placement

- name: Show which instances run where, and what is wrong
  ansible.builtin.debug:
    msg: "{{ placement.table.splitlines() }}"

- name: Stop where a required rule is violated
  ansible.builtin.assert:
    that:
      - placement.summary.violated == 0
      - placement.summary.unknown == 0

- name: Show all nodes that are feasible for the database
  virt.placement.placement_info:
    namespaces: [shop]
    workloads:
      - kind: VirtualMachineInstanceReplicaSet
        name: mssql2016
    details: all

- name: Count the verdicts of the whole cluster
  virt.placement.placement_info:
    details: summary
"""

RETURN = r"""
summary:
  description: The number of instances with each verdict. The verdict of an instance is the worst of its rules.
  returned: success
  type: dict
  contains:
    instances:
      description: Instances that were checked.
      type: int
    satisfied:
      description: Instances that run where all their rules are satisfied, and that were scheduled with these rules.
      type: int
    preference_not_met:
      description: Instances on a node that does not satisfy a preferred rule.
      type: int
    not_enforced:
      description:
        - Instances on a node that satisfies the required rules, which changed after the pod was scheduled (a rule was
          added, changed or removed).
        - They are placed correctly. The next migration or restart enforces the change, or the next restart alone,
          where no live migration does (RV(instances[].rules[].takes_effect)).
      type: int
    pending:
      description: Instances without a node, and workloads whose pods the API server refuses.
      type: int
    unknown:
      description:
        - Instances for which something could not be read. A list that could not be read counts as one instance.
      type: int
    violated:
      description:
        - Instances on a node that does not satisfy a required rule.
        - Also instances with node terms of their own beside those of a rule. Kubernetes ORs them, so the scheduler may
          ignore the rule.
      type: int
    preference_missed:
      description:
        - Instances on nodes that do not meet one of their preferred rules, enforced or not. Those with a worse verdict
          count, too.
        - O(virt.placement.rollout#module:scope=preference_not_met) moves those for which a better node is feasible.
      type: int
    misplaced:
      description: Instances that have to move, since their node does not satisfy a required rule.
      type: int
    constraint_removed:
      description:
        - Instances of workloads from which a constraint of a rule was removed. No move enforces the rule.
        - Write the rules again with M(virt.placement.rules).
      type: int
    down:
      description: Instances on a node that is not Ready. A VM is down until the node is fenced or is back.
      type: int
    risks:
      description: The number of entries that RV(risks) has with O(details=all).
      type: int
    not_running:
      description: VMs that do not run. No verdict is about them. Null where they could not be read.
      type: int
    not_migratable:
      description: Running VMs that KubeVirt cannot migrate live. Null where they could not be read.
      type: int
    violated_rules:
      description: The violated required rules.
      type: list
      elements: dict
      contains:
        rule:
          description: Namespace, rule set and name of the rule, or the constraint where no rule owns it.
          type: str
        affected:
          description: Instances on a node that does not satisfy it. Null for a constraint that no rule owns.
          type: int
        moves_needed:
          description: The fewest moves that repair it. Null where it cannot be satisfied or was not counted, see
            RV(summary.violated_rules[].moves_counted).
          type: int
        moves_counted:
          description: False where it is unknown how many moves repair it, because too many instances and constraints
            are involved.
          type: bool
  sample:
    instances: 9
    satisfied: 6
    preference_not_met: 1
    not_enforced: 0
    pending: 0
    unknown: 0
    violated: 2
    preference_missed: 0
    misplaced: 2
    constraint_removed: 0
    down: 0
    risks: 0
    not_running: 1
    not_migratable: 0
    violated_rules:
      - {rule: shop/database/database-one-per-zone, affected: 2, moves_needed: 1, moves_counted: true}
not_running:
  description: The VMs that do not run. Empty with O(details=summary).
  returned: success
  type: list
  elements: dict
  contains: &ref
    kind:
      description: Its kind.
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
not_migratable:
  description: The running VMIs that KubeVirt cannot migrate live. Empty with O(details=summary).
  returned: success
  type: list
  elements: dict
  contains:
    <<: *ref
    node:
      description: Its node. Empty where it has none.
      type: str
    reason:
      description: The reason.
      type: str
instances:
  description: The instances, see O(details).
  returned: success
  type: list
  elements: dict
  contains:
    workload:
      description: The workload that the instance belongs to.
      type: dict
      contains: *ref
    instance:
      description: The VMI or pod.
      type: dict
      contains: *ref
    uid:
      description: Its UID.
      type: str
    node:
      description: Its node. Empty where it has none.
      type: str
    domains:
      description: For each name of O(topology_keys), the topology domain of its node.
      type: dict
    verdict:
      description: >-
        V(satisfied), V(preference_not_met), V(not_enforced), V(pending), V(unknown) or V(violated).
      type: str
    misplaced:
      description: Whether the instance has to move, since its node does not satisfy a required rule.
      type: bool
    constraint_removed:
      description: Whether a constraint of one of its rules was removed from its workload.
      type: bool
    down:
      description: Whether its node is not Ready.
      type: bool
    rules:
      description: A verdict for each rule that applies to the instance, and for each constraint that no rule owns.
      type: list
      elements: dict
      contains:
        rule:
          description: >-
            Namespace, rule set and name of the rule, separated by slashes. Empty for a constraint that no rule of this
            collection owns; RV(instances[].rules[].reason) describes it. For the anti-affinity of another workload
            it is that workload's rule.
          type: str
        verdict:
          description: The verdict for this rule, one of those of RV(instances[].verdict).
          type: str
        reason:
          description: Why the verdict is not V(satisfied). Empty where it is.
          type: str
        better_nodes:
          description: Feasible nodes that satisfy the rule.
          type: list
          elements: str
        enforced:
          description: Whether the running pod was scheduled with the rule as it is now.
          type: bool
        if_enforced:
          description: The verdict that the instance would have on its node if the rule were enforced.
          type: str
        takes_effect:
          description: >-
            What has to happen to the instance before the rule is enforced, V(migration), V(restart) or V(recreate).
            Empty where it is enforced, and where the rule has to be written again first.
          type: str
        constraint_removed:
          description: Whether a constraint of the rule was removed from the workload. Write the rule again then.
          type: bool
    feasible_if_restarted:
      description: >-
        Nodes that the scheduler could choose if the instance were restarted now. For instances that violate nothing
        only with O(details=all).
      type: list
      elements: str
    feasible_if_migrated:
      description: >-
        Nodes that the scheduler could choose if the instance were live-migrated now, while its source pod still runs.
        For instances that violate nothing only with O(details=all).
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
      constraint_removed: false
      down: false
      rules:
        - rule: shop/database/database-on-fast-nodes
          verdict: satisfied
          reason: ""
          better_nodes: []
          enforced: true
          if_enforced: satisfied
          takes_effect: ""
          constraint_removed: false
        - rule: shop/database/database-one-per-zone
          verdict: violated
          reason: >-
            VirtualMachineInstance shop/mssql2016b2v5w is in the same zone 'bcn' (pod anti-affinity over zone to
            kubevirt.io/domain In (mssql2016))
          better_nodes: [kni-worker2]
          enforced: true
          if_enforced: violated
          takes_effect: ""
          constraint_removed: false
      feasible_if_restarted: [kni-worker2]
      feasible_if_migrated: [kni-worker2]
satisfied_instances:
  description:
    - The instances that RV(instances) leaves out, with O(details=placement). Their verdict is V(satisfied), and their
      nodes are Ready.
    - Empty with any other value of O(details).
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
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    node:
      description: Its node.
      type: str
    rules:
      description: The rules that apply to it, each as namespace, rule set and name.
      type: list
      elements: str
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db1
      instance: db1
      uid: 5f0c7c0e-0a64-4a0e-9d0f-0d9d1f1f6c55
      node: kni-worker2
      rules: [shop/database/database-one-per-zone]
nodes:
  description:
    - All nodes of the cluster, also those without instances, with O(details=placement) and O(details=all).
    - Empty with any other value of O(details), and where nodes could not be read.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    domains:
      description: For each name of O(topology_keys), the topology domain that it is in.
      type: dict
    states:
      description: >-
        V(in_maintenance) by this collection, V(cordoned) by another system, V(not_ready). Empty if nothing is special
        about it.
      type: list
      elements: str
    maintenance:
      description: The phase, the beginning and the reason of its maintenance. Empty if it is in none.
      type: str
  sample:
    - name: kni-worker3
      domains: {region: iberia, zone: bcn, node: kni-worker3}
      states: [cordoned]
      maintenance: ""
pending:
  description:
    - Instances without a node, and migrations with a target pod that has none.
    - Also a workload whose pods the API server refuses (condition C(ReplicaFailure), event C(FailedCreate) of a
      StatefulSet or DaemonSet), in place of its instances, and a VM that is to run and that KubeVirt does not start
      (condition C(Failure)).
  returned: success
  type: list
  elements: dict
  contains:
    workload:
      description: The workload.
      type: dict
      contains: *ref
    instance:
      description: The VMI or pod.
      type: dict
      contains: *ref
    reason:
      description: Why no node is feasible, in the words of kube-scheduler.
      type: str
  sample:
    - workload: {kind: VirtualMachine, namespace: shop, name: db3}
      instance: {kind: VirtualMachineInstance, namespace: shop, name: db3}
      reason: "0/7 nodes are available: 6 Insufficient memory, 1 node(s) were unschedulable"
risks:
  description:
    - What may go wrong although no rule is violated, for example an instance on a cordoned node, to which it could not
      return.
  returned: success
  type: list
  elements: dict
  contains:
    instance:
      description: The VMI or pod.
      type: dict
      contains: *ref
    node:
      description: Its node.
      type: str
    kind:
      description: >-
        V(cordoned), V(taint), V(not_ready), V(not_schedulable_for_kubevirt), V(resources), V(too_many_pods), V(ports),
        V(node_name), V(unknown_domain), or V(other_namespace) for a pod of another namespace whose anti-affinity keeps
        this instance from its node once it is restarted.
      type: str
    detail:
      description: What was seen.
      type: str
  sample:
    - instance: {kind: VirtualMachineInstance, namespace: shop, name: db1}
      node: kni-worker3
      kind: cordoned
      detail: node kni-worker3 is cordoned
do_not_move:
  description:
    - Instances that no module moves, since they have the label C(placement.virt/do-not-move). M(virt.placement.rollout)
      skips them. M(virt.placement.node_maintenance) refuses to drain their nodes, unless a VM also has the label
      C(placement.virt/vm-policy).
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
      description: Name of the VMI or pod.
      type: str
    uid:
      description: UID of the VMI or pod.
      type: str
    node:
      description: Its node. Empty if it has none.
      type: str
    reason:
      description: Which object has the label.
      type: str
resting_rules:
  description: Rules with C(enabled=false) of the selected workloads. No verdict is about them.
  returned: success
  type: list
  elements: dict
  contains:
    rule:
      description: The rule, as namespace, rule set and name.
      type: str
    type:
      description: Its rule type, as RV(virt.placement.rules_info#module:rules[].type).
      type: str
    workloads:
      description: How many workloads know the rule.
      type: int
  sample:
    - rule: shop/default/web-one-per-zone
      type: keep_apart
      workloads: 3
new_members:
  description:
    - How workloads that are created later get each rule of the selected workloads. The policies are those that
      M(virt.placement.rules) writes with O(virt.placement.rules#module:new_members).
    - Rules that only a policy has, since no workload of theirs exists yet, are listed, too, but not with O(workloads).
  returned: success
  type: list
  elements: dict
  contains:
    rule:
      description: The rule, as namespace, rule set and name.
      type: str
    new_members:
      description:
        - V(policy) where a policy of the API server writes the rule to them, V(warn) where one warns of them, V(none)
          where they have no rule until rules are written again.
        - V(unknown) where the policies cannot be read, or another client changed the policy.
      type: str
  sample:
    - rule: shop/default/web-one-per-zone
      new_members: policy
problems:
  description: What fails a verification, by state, with the texts that the roles print.
  returned: success
  type: list
  elements: dict
  contains:
    state:
      description:
        - V(violated), V(pending), V(unknown), V(down), V(preference_not_met), V(not_enforced), V(constraint_removed)
          or V(error_finding), for RV(findings) with the severity V(error).
      type: str
    count:
      description: How many instances, lists that could not be read, or findings.
      type: int
    text:
      description: How many, the first of them, and why.
      type: str
    lines:
      description: More, a line each. They name what RV(table) does not, at most 20 of each state.
      type: list
      elements: str
    elsewhere:
      description: The instances in this state of other workloads than O(only).
      type: list
      elements: str
  sample:
    - state: pending
      count: 1
      text: "1 pending: VirtualMachineInstance shop/db: 0/6 nodes are available"
      lines: ["Verification failed: 1 pending."]
      elsewhere: []
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(instances), and where there are such V(violated_rules), V(not_running), V(not_migratable) and
      V(not_enabled).
    - C(skipped) is V(no_namespace), with the namespaces of O(only) that do not exist.
    - C(next) is V(rule_not_on_new_member), V(rollout), V(violated) where no move repairs the rules,
      V(constraint_removed), V(pending) and V(down), by what fails. Where nothing does, it is V(preference_not_met)
      and V(not_enforced), by what a rollout would make better.
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: instances, text: "5 instances: 3 satisfied, 2 violated", objects: []}
    skipped: []
    next:
      - {code: rollout, text: "to move what violates a rule: playbook rollout", objects: []}
findings:
  description:
    - What is wrong, or may be, with the constraints themselves. C(docs/findings.md) explains each finding and its fix.
    - The task has one warning for each name of a finding, except for the severity V(info).
    - C(selector_matches_nothing), C(selector_matches_everything), C(template_and_selector_disagree) and
      C(negative_namespace_selector) are about label selectors.
    - C(no_node_has_key), C(nodes_lack_key), C(no_node_has_value), C(single_domain), C(deprecated_node_label) and
      C(unprefixed_label_key) are about node labels.
    - C(empty_node_term) and C(unsatisfiable) are about what no node satisfies.
    - C(mutual_affinity), C(depends_on_other_workload), C(blocks_live_migration), C(restart_required),
      C(rollout_deadlock), C(max_skew_misread) and C(spread_blocks_drain) are about what terms do to moves.
    - C(volume_blocks_rollout) is about a rollout whose new pods need the volume of the old ones.
    - C(workload_rollout_held) is about a StatefulSet or pool whose own rollout is held by rules.
    - C(names_node) and C(other_scheduler) are about pods that kube-scheduler does not place.
    - C(architecture_mismatch) is about VMs that ask for nodes of another architecture than that of their guest.
    - C(label_on_pod_only) is about a label that terms select by and that the next restart loses.
    - C(evacuation_goes_on) is about VMIs that KubeVirt goes on migrating away from a node that is in service.
    - C(spread_counts_unusable_domain) is about a spread constraint that leaves pods Pending.
    - C(too_many_terms) is about a pod with more than 32 of them.
    - C(bypassed_by_node_term), C(copied_annotation), C(externally_managed) and C(unsupported_by_server) are about
      rules that have not the effect that was written.
    - C(rule_not_on_new_member) is about a workload that a rule selects by its labels, or that a rule of a policy for
      new members names, and that lacks the rule.
    - C(invalid_placement) is about templates of which the API server makes no pod.
    - C(new_members_not_covered), C(policy_stale), C(policy_of_no_rule) and C(policy_refused) are about the policies of
      rule sets, by which workloads that are created later get the rules.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding.
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
      description: The rule that it is about. Empty for constraints that no rule owns.
      type: str
  sample:
    - name: selector_matches_nothing
      severity: error
      why: >-
        The pod anti-affinity term over zone has no labelSelector, which selects no pod, so it
        has no effect.
      advice: Give it a labelSelector that the labels of the pods' template satisfy.
      objects: [VirtualMachine shop/rke2-pool1-1]
      rule: ""
permission_gaps:
  description: What could not be read. Verdicts that need it are V(unknown).
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
    namespace:
      description: The namespace. Empty for all.
      type: str
    verb:
      description: The missing verb.
      type: str
    reason:
      description: The message of the API server, and what to do.
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
table:
  description: Zones, nodes and workloads as a text table, followed by a line for each problem.
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
      message: "namespaces: there is no namespace 'shpo'; did you mean 'shop'?"
      object: "namespaces"
"""


from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    ONLY,
    WORKLOADS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            exclude_namespaces={"type": "list", "elements": "str", "default": []},
            **WORKLOADS,
            details={
                "type": "str",
                "choices": ["problems", "placement", "all", "summary"],
                "default": "problems",
            },
            columns={"type": "list", "elements": "str", "default": ["zone"]},
            only=ONLY,
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
