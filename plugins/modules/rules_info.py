#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: rules_info
short_description: List placement rules, their workloads, and whether they are enforced
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Lists the rules that M(virt.placement.rules) wrote, with their terms and workloads, and how many running instances
    enforce or violate each rule.
  - Lists the rules that only a policy for new members has, too, such as those about VMs that are still to be imported.
    Not with O(workloads).
  - An instance enforces a rule if its running pod was scheduled with the rule's terms.
  - Changes nothing.
options:
  namespaces:
    description:
      - List rules in these namespaces. An empty list selects nothing. All namespaces without it.
      - A single namespace is also the default of O(workloads[].namespace). With O(workloads), only those are listed.
    type: list
    elements: str
  exclude_namespaces:
    description:
      - Leave out rules in these namespaces. Not with O(workloads).
    type: list
    elements: str
    default: []
  declarations:
    description:
      - Return each rule as O(virt.placement.rules#module:rules) takes it, too, in RV(rules[].declaration). So rules can
        be kept in Git, or written to another cluster.
    type: bool
    default: false
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.placement
  - virt.placement.workloads
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster role C(virt-placement-reader). RV(permission_gaps) names rights that are missing.
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
"""

EXAMPLES = r"""
- name: List the rules of a namespace
  virt.placement.rules_info:
    namespaces: [shop]
  register: placement_rules

- name: Show them
  ansible.builtin.debug:
    msg: "{{ placement_rules.table.splitlines() }}"

- name: Read rules to keep them in Git
  virt.placement.rules_info:
    namespaces: [shop]
    declarations: true
  register: shop

- name: Show them
  ansible.builtin.debug:
    msg: "{{ shop.rules | map(attribute='declaration') | select }}"

- name: List the rules of one VM
  virt.placement.rules_info:
    workloads:
      - namespace: shop
        name: db1
"""

RETURN = r"""
rules:
  description: The rules, sorted by namespace, rule set and name.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the rule and of its workloads.
      type: str
    rule_set:
      description: Rule set of the rule.
      type: str
    name:
      description: Name of the rule.
      type: str
    type:
      description:
        - The rule type, from the annotation C(placement.virt/rules) of the rule's workloads. V(run_on), V(avoid),
          V(keep_apart), V(keep_together), V(spread), V(terms), or V(label) for a label alone. Of a rule that no
          workload has, from that annotation of its policy.
        - Empty where the workloads have different types, as after an interrupted change.
      type: str
    preferred:
      description: Whether the rule is preferred on one of its workloads.
      type: bool
    resting:
      description:
        - Whether workloads have the rule with C(enabled=false), so that they have none of its terms. After an
          interrupted change these may be some of its workloads, see RV(rules[].workloads[].resting).
      type: bool
    new_members:
      description:
        - How workloads that are created later get the rule. V(policy) where a policy of the API server writes it to
          them, V(warn) where one warns of them, V(none) where they have no rule until rules are written again.
        - V(unknown) where the policies cannot be read, or another client changed the policy.
      type: str
    terms:
      description: The terms of the rule on its workloads, in words.
      type: list
      elements: str
    enforced:
      description:
        - Whether all workloads still have the terms of the rule, and all their running instances enforce it.
          V(false) for a rule that rests, and for one that no workload has.
        - V(false) where nodes, pods or VMIs of the namespace could not be read, see RV(permission_gaps).
      type: bool
    violated:
      description:
        - Whether an instance violates the rule where it runs, enforced or not. What RV(permission_gaps) names is not
          counted.
      type: bool
    since:
      description:
        - When the rule was written as it is, by the clock of the job that did it (RFC 3339, UTC). With several
          workloads, the earliest of RV(rules[].workloads[].since).
        - Null where that is not known of each workload, as after an undo, or of what an earlier release has written.
      type: str
    declaration:
      description:
        - The rule as it was declared, from the annotation C(placement.virt/rules) of its workloads, without
          C(allow_findings). Written as it is, it changes nothing of the workloads that have the rule, except that
          it restores lost terms. Workloads that were named are those that have the rule.
        - Of a rule that no workload has, or that a policy writes with the same options, as the policy has it, with
          C(allow_findings) and with workloads that do not exist yet. Write it with
          O(virt.placement.rules#module:new_members) as RV(rules[].new_members) says.
        - Null where the workloads have different options, as after an interrupted change, or where something else has
          changed the options so that M(virt.placement.rules) refuses them. Write the rule again then.
        - Null, too, where a label key of the rule is the name of another key in O(topology_keys). Give O(topology_keys)
          as where the rule was written.
      returned: if O(declarations=true)
      type: dict
    workloads:
      description: Workloads of the rule. Empty where only a policy for new members has it.
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
        complete:
          description: Whether the workload still has the terms of the rule. False if something else removed them.
          type: bool
        resting:
          description: Whether the rule rests on the workload.
          type: bool
        since:
          description: When the rule of the workload was written as it is. Null where that is not known.
          type: str
        instances:
          description: Running instances of the workload.
          type: int
        enforced:
          description: How many of them enforce the rule.
          type: int
        violated:
          description: How many of them violate it where they run.
          type: int
  sample:
    - namespace: shop
      rule_set: default
      name: db-one-per-zone
      type: keep_apart
      preferred: false
      resting: false
      since: "2026-03-02T21:14:09Z"
      new_members: none
      terms: [pod anti-affinity over zone to vmi.kubevirt.io/id In (db1)]
      enforced: false
      violated: true
      workloads:
        - kind: VirtualMachine
          namespace: shop
          name: db1
          complete: true
          resting: false
          since: "2026-03-02T21:14:09Z"
          instances: 1
          enforced: 0
          violated: 1
permission_gaps:
  description:
    - What could not be read, also a damaged annotation of a workload or of a policy for new members. Rules of these are
      not listed.
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
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(rules), and V(violated) with the violated rules. Then C(next) has V(rollout).
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: rules, text: 3 rules, objects: []}
    skipped: []
    next: []
declarations_yaml:
  description:
    - The rules as variables of the playbook C(virt.placement.apply), in YAML, a document for each rule set. Texts in
      which Ansible would evaluate a template have the tag C(!unsafe).
    - A rule set with a policy for new members has C(placement_apply_new_members), so that the playbook keeps its rules
      in the policy. The option is for all rules of a set, so comments name rules of which RV(rules[].new_members)
      differs.
  returned: if O(declarations=true)
  type: str
  sample: |
    ---
    placement_apply_namespace: shop
    placement_apply_rule_set: default
    placement_apply_rules:
    - name: db-one-per-zone
      workloads:
      - db
      keep_apart: zone
table:
  description: The rules as a text table, and a line for each of what could not be read.
  returned: success
  type: str
  sample: |-
    RULE                          TYPE        STATE               SINCE       WORKLOADS
    shop/default/db-one-per-zone  keep_apart  violated by 1 of 1  2026-03-02  db
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

from ansible_collections.virt.placement.plugins.module_utils.flows.rules_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    WORKLOADS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            exclude_namespaces={"type": "list", "elements": "str", "default": []},
            declarations={"type": "bool", "default": False},
            **WORKLOADS,
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
