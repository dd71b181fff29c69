#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: drs_import
short_description: Turn exported rules of vSphere DRS or Proxmox into rules for VMs on KubeVirt
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Reads the rules, groups and VM overrides of a DRS cluster from files, and returns rules, node labels and VM labels.
  - Also reads the HA rules of Proxmox VE 9. What this page says of DRS and vCenter holds for Proxmox, too, except where
    it names Proxmox.
  - Reaches neither vCenter nor a Kubernetes cluster, and writes nothing. M(virt.placement.node_labels) and
    M(virt.placement.rules) apply the result. The role P(virt.placement.placement_drs_import#role) writes it to files.
  - RV(report) has each rule of the export in one of three columns. It is carried over, or carried over with a decision
    that the export does not make, or it has no counterpart.
  - The module names all errors of its input at once, each with the line of the file or the rule.
options:
  files:
    description:
      - Files on the host that runs the module. All of them together describe one DRS cluster, or several of
        which O(cluster) names one. CSV is refused with what its columns lack.
      - The results of C(community.vmware.vmware_drs_rule_info) and C(community.vmware.vmware_drs_group_info), also of a
        task with a loop over clusters, as JSON or YAML, or as C(ansible -m), C(ansible-playbook -v) and the callbacks
        C(json) and C(jsonl) print them.
      - The output of C(Get-DrsRule), C(Get-DrsVMHostRule) and C(Get-DrsClusterGroup) of PowerCLI as JSON, all three of
        them. C(docs/from-vsphere.md) has a snippet that saves them in one file.
      - The file of C(Export-DrsRule), of the PowerShell module C(DRSRule).
      - The output of C(govc object.collect -json CLUSTER configurationEx), with that of
        C(govc object.collect -json -type m / name) for the names of VMs, and with C(-type h) for those of hosts.
        Where it lacks the types of rules, also that of C(govc cluster.rule.ls -l -json -cluster CLUSTER). For all
        clusters at once, C(govc object.collect -json -type c / configurationEx name).
      - The output of C(govc cluster.override.info -json -cluster CLUSTER), beside any of these, for VM overrides.
      - For Proxmox the results of C(community.proxmox.proxmox_cluster_ha_rules_info) and, for the names of VMs,
        C(community.proxmox.proxmox_vm_info), or what C(pvesh get /cluster/ha/rules --output-format json) and
        C(pvesh get /cluster/resources --output-format json) print. C(/etc/pve/ha/rules.cfg) has the rules, too.
    type: list
    elements: path
    default: []
  content:
    description:
      - What such a file would hold, for example the result that a task of C(community.vmware) registered, or a list
        of such results. JSON text is accepted.
    type: raw
  cluster:
    description: Name of the DRS cluster. Needed if the export has several clusters.
    type: str
  namespace:
    description: Namespace of the VMs for which O(vms) and O(vm_names) have none.
    type: str
    default: default
  vms:
    description:
      - The VMs of the Kubernetes cluster, as VirtualMachine objects that C(kubernetes.core.k8s_info) returns, or as
        maps.
      - A VM is found by the annotations C(original-ID) and C(openshift.io/display-name), which Forklift leaves on it,
        then by the name that Forklift would give it. O(vm_names) has precedence over the name alone. Who may write a
        VM may write its annotations. So a VM that has the name, and no annotations of Forklift, is taken before one
        that has the name in its annotations, and RV(report) has that as a decision.
      - If it is not given, VMs have the names that Forklift would give them, and it is not checked that they exist.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the VM.
        type: str
      namespace:
        description: Its namespace, O(namespace) by default.
        type: str
      display_name:
        description: Its name in vCenter.
        type: str
      original_id:
        description: Its MoRef in vCenter, for example V(vm-66).
        type: str
      metadata:
        description: Metadata of a VirtualMachine object. The other fields of the object are not read.
        type: dict
  vm_names:
    description:
      - The names of VMs that are not found by themselves. A map of the name or MoRef in vCenter, or of an id in
        Proxmox such as V(vm:100), to V(name) or V(namespace/name).
    type: dict
    default: {}
  missing_vms:
    description:
      - What to do if O(vms) lacks a VM of a rule. V(fail) names each of them, V(leave_out) makes rules for the others,
        for example while VMs still migrate from vCenter.
      - V(expect) names it in the rules as O(vm_names) does, or as Forklift would in O(namespace). A VM with its name in
        another namespace is another VM, unless annotations of Forklift say otherwise. Module
        M(virt.placement.rules) takes such names with O(virt.placement.rules#module:new_members=policy), and the VM has
        its rules from the moment it is created.
    type: str
    choices: [fail, leave_out, expect]
    default: fail
  nodes:
    description:
      - The nodes of the Kubernetes cluster, as names, or as Node objects that C(kubernetes.core.k8s_info) returns.
      - A host of a host group is the node with the same name, in any case of letters.
      - If a host group has all of them, a rule that keeps VMs on it does nothing, and is not written.
    type: list
    elements: raw
  host_names:
    description: Nodes that are not named as their hosts. A map of the name of a host to the name of a node.
    type: dict
    default: {}
  host_groups:
    description:
      - What host groups are on the Kubernetes cluster. A map of the name of a host group to the list of its nodes,
        which get a label for the group. The nodes of a rule of Proxmox are a group with the name of the rule.
      - Instead of the list a map with C(labels) names one label that the nodes have already, such as C(zone) with the
        value V(a).
    type: dict
    default: {}
  label_prefix:
    description: Prefix of the node labels for host groups, a DNS name.
    type: str
    default: drs.placement.virt
  leaders:
    description:
      - Names of VMs, in vCenter, that other VMs follow. Affinity rules become rules with C(keep_together) in which all
        VMs but one follow a VM of their rule, because VMs that require each other on one node can never migrate.
      - By default it is a VM that must run on some hosts, else one that should, else the VM that most of these rules
        name.
    type: list
    elements: str
    default: []
  skip_rules:
    description: Names of rules of the export that are left out.
    type: list
    elements: str
    default: []
  enable_rules:
    description: Names of rules that are disabled in the export, and are carried over as enabled rules. The others rest.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - virt.placement.attributes
  - virt.placement.attributes.info
requirements:
  - python >= 3.10
notes:
  - VM-VM rules become required rules, whatever the export says of C(mandatory), since DRS enforces each of them.
    VM-host rules are required for C(must), and preferred for C(should).
  - Of Proxmox, rules of resource affinity are required. Rules of node affinity are required with C(strict), else
    preferred. Containers and priorities of nodes have no counterpart.
  - VMs whose DRS automation is V(manual) or disabled get the label C(placement.virt/do-not-move).
  - docs/from-vsphere.md in the collection goes from an export to a cluster on which all rules are satisfied.
seealso:
  - module: virt.placement.rules
  - module: virt.placement.node_labels
  - module: virt.placement.lint_info
"""

EXAMPLES = r"""
- name: Import two rules as vmware_drs_rule_info returns them
  virt.placement.drs_import:
    namespace: shop
    nodes: [kni-worker, kni-worker2]
    host_names:
      esx1.example.com: kni-worker
      esx2.example.com: kni-worker2
    content:
      drs_rule_info:
        Production:
          - rule_name: web apart
            rule_type: vm_vm_rule
            rule_affinity: false
            rule_enabled: true
            rule_mandatory: false
            rule_vms: [WEB_1, WEB_2]
          - rule_name: database licenses
            rule_type: vm_host_rule
            rule_enabled: true
            rule_mandatory: true
            rule_vm_group_name: databases
            rule_vms: [DB]
            rule_affine_host_group_name: licensed
            rule_affine_hosts: [esx1.example.com, esx2.example.com]
            rule_anti_affine_host_group_name:
            rule_anti_affine_hosts: []
  register: imported

- name: Label the nodes of the host groups
  virt.placement.node_labels:
    per_value: "{{ imported.node_labels }}"
  when: imported.node_labels | length > 0

- name: Write the rules of each namespace
  virt.placement.rules:
    namespace: "{{ item.namespace }}"
    rule_set: drs
    prune: true
    rules: "{{ item.rules }}"
  loop: "{{ imported.namespaces }}"
  loop_control:
    label: "{{ item.namespace }}"

- name: Label the VMs that DRS does not move
  kubernetes.core.k8s:
    state: patched
    api_version: kubevirt.io/v1
    kind: VirtualMachine
    namespace: "{{ item.namespace }}"
    name: "{{ item.name }}"
    definition:
      metadata:
        labels: "{{ item.labels }}"
  loop: "{{ imported.vm_labels }}"
  loop_control:
    label: "{{ item.namespace }}/{{ item.name }}"

- name: Import two rules of Proxmox as proxmox_cluster_ha_rules_info returns them
  virt.placement.drs_import:
    namespace: shop
    host_names:
      pve1: kni-worker
      pve2: kni-worker2
    content:
      - rules:
          - rule: web-apart
            type: resource-affinity
            affinity: negative
            resources: ["vm:100", "vm:101"]
            disable: false
          - rule: licensed
            type: node-affinity
            nodes: [pve1, pve2]
            strict: true
            resources: ["vm:100"]
            disable: false
      - proxmox_vms:
          - vmid: 100
            name: web1.example.com
          - vmid: 101
            name: web2.example.com

- name: Read the VMs of the cluster
  kubernetes.core.k8s_info:
    api_version: kubevirt.io/v1
    kind: VirtualMachine
  register: vms

- name: Import what govc printed, with a table for VMs and one for host groups
  virt.placement.drs_import:
    files:
      - "{{ playbook_dir }}/config.json"
      - "{{ playbook_dir }}/vms.json"
      - "{{ playbook_dir }}/hosts.json"
    vms: "{{ vms.resources }}"
    vm_names:
      legacy: shop/legacy-2
    host_groups:
      licensed: [kni-worker, kni-worker2]
      site A:
        labels:
          zone: scu
"""

RETURN = r"""
drs_cluster:
  description: Name of the DRS cluster. Empty if the export does not name it.
  returned: success
  type: str
  sample: Production
namespaces:
  description:
    - The rules by namespace, for O(virt.placement.rules#module:rules). Disabled rules are among them, at rest.
    - A rule whose VMs are in several namespaces is several rules.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: The namespace.
      type: str
    rules:
      description: Its rules, as O(virt.placement.rules#module:rules) takes them.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the rule, made of its name in vCenter.
          type: str
        workloads:
          description: Names of VMs.
          type: list
          elements: str
        keep_apart:
          description: For anti-affinity rules.
          type: raw
        keep_together:
          description: For affinity rules.
          type: raw
        run_on:
          description: For VM-host rules of the kinds must and should run on.
          type: raw
        avoid:
          description: For VM-host rules of the kinds must not and should not run on.
          type: raw
        preferred:
          description: True for the kinds should and should not. Otherwise it is missing.
          type: bool
        enabled:
          description: False for rules that are disabled in the export. Otherwise it is missing.
          type: bool
  sample:
    - namespace: shop
      rules:
        - name: web-apart
          workloads: [web-1, web-2]
          keep_apart: node
node_labels:
  description: A label for each host group, for O(virt.placement.node_labels#module:per_value).
  returned: success
  type: dict
  sample:
    drs.placement.virt/licensed:
      "true": [kni-worker, kni-worker2]
vm_labels:
  description: Labels for VMs whose DRS automation is manual or disabled.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the VM.
      type: str
    name:
      description: Name of the VM.
      type: str
    labels:
      description: Its labels.
      type: dict
  sample:
    - namespace: shop
      name: legacy
      labels:
        placement.virt/do-not-move: "true"
expected_vms:
  description: VMs of the rules that are not on the cluster yet, with O(missing_vms=expect).
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the VM.
      type: str
    name:
      description: Name that it will have.
      type: str
  sample:
    - {namespace: shop, name: web-3}
report:
  description: Each part of the export in one of three columns.
  returned: success
  type: dict
  contains:
    carried_over:
      description: What is carried over as it is.
      type: list
      elements: dict
      contains: &part
        kind:
          description: V(rule), V(host_group), V(override), or the kind of another setting of the cluster.
          type: str
        name:
          description: Its name in vCenter.
          type: str
        where:
          description: Where it is in the export.
          type: str
        became:
          description: What was made of it. Empty without a counterpart.
          type: str
        decisions:
          description: What the export does not say.
          type: list
          elements: dict
          contains:
            code:
              description:
                - V(required), a VM-VM rule is required.
                - V(leader), the VM that others follow.
                - V(namespaces), the VMs are in several namespaces.
                - V(missing_vms), VMs are not on the cluster yet, and left out.
                - V(expected_vms), VMs are not on the cluster yet, and the rule names them.
                - V(rests), a disabled rule has C(enabled=false).
                - V(enabled), a disabled rule is carried over as an enabled rule.
                - V(left_out), the containers of a rule of Proxmox, or the priorities of its nodes, have no counterpart.
              type: str
            taken:
              description: What was decided.
              type: str
            otherwise:
              description: How to decide otherwise.
              type: str
        reason:
          description: Why it has no counterpart, or why it is left out.
          type: str
        advice:
          description: What to do then. May be empty.
          type: str
    decisions:
      description: What is carried over with a decision. RV(report.decisions[].decisions) has it with its default.
      type: list
      elements: dict
      contains: *part
    no_counterpart:
      description: What is not carried over.
      type: list
      elements: dict
      contains: *part
  sample:
    carried_over: []
    decisions:
      - kind: rule
        name: web apart
        where: "content, drs_rule_info.Production[0]"
        became: "shop/web-apart: keep_apart"
        decisions:
          - code: required
            taken: It is required, since DRS enforces each VM-VM rule.
            otherwise: "Write preferred: true into the rule if it is a wish only."
        reason: ""
        advice: ""
    no_counterpart: []
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(rules), how many rules the exports have. C(next) has V(apply), what the labels and rules are for.
    - After a failure C(next) has V(failed).
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: rules, text: 12 rules of DRS read, objects: []}
    skipped: []
    next:
      - code: apply
        text: read the report, then launch the playbooks topology and apply with these labels and rules
        objects: []
table:
  description: The report as text.
  returned: success
  type: str
  sample: |-
    CARRIED OVER: 1
      rule  database licenses  shop/database-licenses: run_on
    CARRIED OVER WITH A DECISION: 0
    NO COUNTERPART: 1
      rule  lone rule  It has 1 VM, so that it does nothing.
counts:
  description: Numbers of rules of the DRS cluster.
  returned: success
  type: dict
  contains:
    rules:
      description: All rules of the export.
      type: int
    carried_over:
      description: Those in this column of RV(report).
      type: int
    decisions:
      description: Those in this column of RV(report).
      type: int
    no_counterpart:
      description: Those in this column of RV(report).
      type: int
  sample: {rules: 1, carried_over: 0, decisions: 1, no_counterpart: 0}
errors:
  description: Why the task failed.
  returned: failure
  type: list
  elements: dict
  contains:
    type:
      description: Always V(input).
      type: str
    message:
      description: What is wrong, and what to do. RV(ignore:msg) has all messages.
      type: str
    object:
      description: The option, the file with its line, or the rule.
      type: str
  sample:
    - type: input
      message: "cluster: 'Prod' is not in the export, which has Production; did you mean 'Production'?"
      object: cluster
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.drs_import import run
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_offline


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "path", "default": []},
            "content": {"type": "raw"},
            "cluster": {"type": "str"},
            "namespace": {"type": "str", "default": "default"},
            "vms": {"type": "list", "elements": "dict"},
            "vm_names": {"type": "dict", "default": {}},
            "missing_vms": {
                "type": "str",
                "choices": ["fail", "leave_out", "expect"],
                "default": "fail",
            },
            "nodes": {"type": "list", "elements": "raw"},
            "host_names": {"type": "dict", "default": {}},
            "host_groups": {"type": "dict", "default": {}},
            "label_prefix": {"type": "str", "default": "drs.placement.virt"},
            "leaders": {"type": "list", "elements": "str", "default": []},
            "skip_rules": {"type": "list", "elements": "str", "default": []},
            "enable_rules": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    run_offline(module, run, names_cluster=False)


if __name__ == "__main__":
    main()
