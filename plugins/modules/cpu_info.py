#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_info
short_description: Show which VMs are bound to nodes by their CPU, and the CPU models that nodes have in common
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Shows which VMs cannot leave their node or zone by live migration, since other nodes lack a label that KubeVirt asks
    of the next node. Such labels name CPU models, CPU features, vendors, machine types and architectures.
  - Also shows the newest CPU model that all nodes of a vendor have in common, in the cluster and in each zone, what VMs
    would lose with it, which nodes differ from the others, and which labels a new node must have. vSphere calls this
    EVC.
  - Rules, taints, room and volumes do not count here. M(virt.placement.forecast_info) answers with all of them.
  - Reads only, and changes nothing.
options:
  namespaces:
    description:
      - Only VMs in these namespaces. An empty list selects nothing. All namespaces without it.
      - A single namespace is also the default of O(workloads[].namespace). With O(workloads), only those are shown.
    type: list
    elements: str
  exclude_namespaces:
    description:
      - Leave out VMs in these namespaces. Not with O(workloads).
    type: list
    elements: str
    default: []
  details:
    description:
      - Return all VMs, and all nodes in each list. Otherwise RV(vms) has those that are bound or unknown, with at most
        20 nodes in each list.
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
  - Needs the rights of the ClusterRole C(virt-placement-reader). RV(permission_gaps) names rights that are missing.
  - Nodes are those with the label C(kubevirt.io/schedulable), also while they are cordoned or down.
  - Labels do not say which features a CPU model has. What is not known from labels is returned as not known.
  - libvirt compares the CPU of the guest with the host at each migration, and may refuse a node that KubeVirt chose by
    its labels. RV(vms[].doubtful_nodes) has such nodes, as far as labels show it.
seealso:
  - module: virt.placement.forecast_info
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Read the CPU labels of nodes and the CPU models of VMs
  virt.placement.cpu_info:
  register: cpu

- name: Show them
  ansible.builtin.debug:
    msg: "{{ cpu.table.splitlines() }}"

- name: Fail if a VM of the shop cannot leave its node
  virt.placement.cpu_info:
    namespaces: [shop]
  register: shop
  failed_when: shop.counts.node > 0 or shop.counts.unknown > 0

- name: Show the newest CPU model that all nodes of a vendor have in common
  ansible.builtin.debug:
    msg: "{{ cpu.baselines | selectattr('zone', 'none') | items2dict(key_name='vendor', value_name='model') }}"
"""

RETURN = r"""
counts:
  description: How many VMs reach how far, and the number of nodes.
  returned: success
  type: dict
  contains:
    nodes:
      description: Nodes on which KubeVirt runs VMs.
      type: int
    vms:
      description: VMs that were compared with them, running and halted ones.
      type: int
    free:
      description:
        - VMs that reach another zone, or another node where the cluster has one zone. Halted VMs that a node takes.
      type: int
    zone:
      description: VMs that reach other nodes of their zone only.
      type: int
    node:
      description: VMs that cannot leave their node by live migration.
      type: int
    none:
      description: VMs without a node, which no node takes.
      type: int
    unknown:
      description: VMs of which that is not known. A list that could not be read counts as one more.
      type: int
    unproven:
      description: VMs of C(free) and C(zone) that get that far by RV(vms[].doubtful_nodes) alone.
      type: int
  sample: {nodes: 6, vms: 41, free: 30, zone: 3, node: 8, none: 0, unknown: 0, unproven: 0}
baselines:
  description:
    - What the nodes of one architecture and vendor have in common, first in the cluster, then in each zone.
    - Nodes without a label of a CPU model are left out. RV(odd_nodes) has them.
  returned: success
  type: list
  elements: dict
  contains:
    zone:
      description: The zone. Null for the whole cluster. Zones are left out if there is one only.
      type: str
    architecture:
      description: Architecture of the nodes.
      type: str
    vendor:
      description: Vendor of their CPUs. KubeVirt migrates no VM to a CPU of another vendor.
      type: str
    nodes:
      description: Names of the nodes.
      type: list
      elements: str
    model:
      description:
        - The newest of C(models), by the order in which the CPUs were released. Empty if there is none, or if the order
          of none is known.
      type: str
    models:
      description: The CPU models that each of these nodes can run, the newest first.
      type: list
      elements: str
    must_have:
      description:
        - The labels that a new node must have so that each VM that runs on these nodes can be migrated to it, and a VM
          with C(model) can start there.
      type: list
      elements: str
    must_not_have:
      description: Keys of labels that it must not have.
      type: list
      elements: str
  sample:
    - zone:
      architecture: amd64
      vendor: Intel
      nodes: [old1, old2, new1, new2]
      model: Broadwell-noTSX
      models: [Broadwell-noTSX, Haswell-noTSX]
      must_have:
        - cpu-feature.node.kubevirt.io/avx512_vnni=true
        - cpu-model-migration.node.kubevirt.io/Cascadelake-Server=true
        - cpu-model.node.kubevirt.io/Broadwell-noTSX=true
        - cpu-vendor.node.kubevirt.io/Intel=true
        - kubernetes.io/arch=amd64
        - machine-type.node.kubevirt.io/q35=true
      must_not_have: [node-labeller.kubevirt.io/obsolete-host-model]
vms:
  description: The VMs that are bound to a node or zone, without a node, or unknown. All VMs with O(details).
  returned: success
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
    instance:
      description: Name of its VirtualMachineInstance. Empty for a halted VM.
      type: str
    node:
      description: The node on which it runs. Empty without one.
      type: str
    model:
      description: Its CPU model, V(host-model) or V(host-passthrough). The one of the cluster where it names none.
      type: str
    next_model:
      description: Its CPU model after the next restart. Null where an instance type or a preference may decide it.
      type: str
    features:
      description: The CPU features that it names.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the feature.
          type: str
        policy:
          description: Its policy, V(require) where it names none.
          type: str
    reach:
      description:
        - V(free), it reaches another zone, or another node where the cluster has one zone.
        - V(zone), it reaches other nodes of its zone only.
        - V(node), it cannot leave its node by live migration.
        - V(none), no node takes it. It has none.
        - V(unknown), see RV(vms[].reason).
      type: str
    reason:
      description: Why that is unknown, or why KubeVirt does not migrate the VM wherever it could go. Empty otherwise.
      type: str
    reason_code:
      description:
        - The reason as a code. V(not_read) or V(no_right) where something cannot be read, V(not_modeled) where it is
          not known what KubeVirt makes of the VM, V(not_live_migratable) or V(no_target_pod) where KubeVirt does not
          migrate it.
        - What to do is in docs/troubleshooting.md, B(Why it is not known where a VM can go).
      type: str
    nodes:
      description: The nodes that it reaches. For a halted VM those on which it can start.
      type: list
      elements: str
    nodes_count:
      description: Their number.
      type: int
    doubtful_nodes:
      description:
        - Those of RV(vms[].nodes) for which KubeVirt may start a migration that libvirt then refuses.
        - For V(host-model) these are nodes that have no label of the CPU model with which the guest started, for
          V(host-passthrough) nodes with another CPU model or other features, or without such labels, as those of arm64.
        - For a VM with features of the policy V(optional), also nodes that lack one which its node has.
      type: list
      elements: str
    selects:
      description: The labels that KubeVirt asks of the next node, as V(key=value). V(!key) must not be there.
      type: list
      elements: str
    lacking:
      description: Those that other nodes lack, the most frequent first.
      type: list
      elements: dict
      contains:
        label:
          description: As in RV(vms[].selects).
          type: str
        nodes:
          description: The nodes without it, or with it for V(!key).
          type: list
          elements: str
        count:
          description: Their number.
          type: int
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db1
      instance: db1
      node: new1
      model: host-model
      next_model: host-model
      features: []
      reach: node
      reason: ""
      reason_code: ""
      nodes: []
      nodes_count: 0
      doubtful_nodes: []
      selects:
        - cpu-feature.node.kubevirt.io/avx512_vnni=true
        - cpu-model-migration.node.kubevirt.io/Cascadelake-Server=true
        - cpu-vendor.node.kubevirt.io/Intel=true
        - kubernetes.io/arch=amd64
        - machine-type.node.kubevirt.io/q35=true
        - "!node-labeller.kubevirt.io/obsolete-host-model"
      lacking:
        - label: cpu-feature.node.kubevirt.io/avx512_vnni=true
          nodes: [old1, old2]
          count: 2
model_changes:
  description:
    - The running VMs that would reach more nodes of their vendor with the model of RV(baselines), together with what
      they would lose. Nothing is changed.
    - A VM gets another CPU model at its next restart.
  returned: success
  type: list
  elements: dict
  contains:
    current:
      description: The present CPU model, with that of the node in parentheses.
      type: str
    model:
      description: The newest model that all nodes of the vendor have in common.
      type: str
    vms:
      description: The workloads.
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
        patch:
          description:
            - The JSON merge patch of the object that gives it the common model, for the option C(definition) of
              M(kubernetes.core.k8s).
            - It also has the number of sockets that the VM has anyway, where the template has none. Without it KubeVirt
              1.8 asks for a restart again after each restart.
            - Null for a VM that a pool, Argo CD, Flux or Helm manages. Change the template of the pool, or the source.
              KubeVirt refuses a model for a VM whose instance type names one.
          type: dict
    reaches:
      description: The number of nodes that they could run on then.
      type: int
    loses:
      description: CPU features that the node offers to the VM now, and that the common model does not have.
      type: list
      elements: str
    may_lose:
      description:
        - CPU features that the node offers to the VM now, where labels do not say whether the common model has them. A
          feature with the policy V(require) in the spec of the VM is kept.
      type: list
      elements: str
    unknown:
      description: Why more features may be lost. Empty if these are all.
      type: str
  sample:
    - current: host-model (Cascadelake-Server)
      model: Broadwell-noTSX
      vms:
        - kind: VirtualMachine
          namespace: shop
          name: db1
          patch: {spec: {template: {spec: {domain: {cpu: {model: Broadwell-noTSX, sockets: 1}}}}}}
      reaches: 4
      loses: [avx512_vnni]
      may_lose: [vme, vmx]
      unknown: ""
odd_nodes:
  description: The nodes that differ from the others.
  returned: success
  type: list
  elements: dict
  contains:
    node:
      description: Name of the node.
      type: str
    code:
      description:
        - V(older), at most half of the nodes, without which the others would have a newer model in common.
        - V(other_vendor), it has a CPU of another vendor than most nodes.
        - V(other_features), it has the same CPU model as others, and other features.
        - V(no_models), it has no label of a CPU model.
        - V(no_host_model), it has no label of its own CPU model.
        - V(obsolete_host_model), KubeVirt calls its own CPU model obsolete, and starts no VM with V(host-model) there.
      type: str
    why:
      description: What is different.
      type: str
  sample:
    - node: old1
      code: older
      why: >-
        without it and 1 node with the same models, the newest model of the others would be Cascadelake-Server; now the
        newest model of all is Broadwell-noTSX
findings:
  description:
    - C(blocks_live_migration), VMs that could be live-migrated but for these labels. It says whether the labels changed
      after the VMs started, as after an upgrade. There is one warning for all of them.
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
      description: The VMs.
      type: list
      elements: str
    rule:
      description: The rule that it is about, here always empty.
      type: str
  sample:
    - name: blocks_live_migration
      severity: warning
      why: >-
        VirtualMachine shop/db1 on node new1 cannot be live-migrated: 0 of the 2 other nodes has
        cpu-feature.node.kubevirt.io/avx512_vnni=true, which KubeVirt asks of the next node.
      advice: >-
        Add a node with these labels (cpu-feature.node.kubevirt.io/avx512_vnni=true), or give these VMs the CPU model
        Broadwell-noTSX, which such nodes have in common, and restart them.
      objects: [VirtualMachine shop/db1]
      rule: ""
permission_gaps:
  description: What could not be read. VMs that depend on it are V(unknown).
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
    - C(done) has V(vms), and V(node), V(zone), V(none), V(unknown) and V(unproven) where RV(counts) has such VMs.
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: vms, text: 5 VMs, objects: []}
      - {code: node, text: 2 bound to one node, objects: []}
    skipped: []
    next: []
table:
  description: All of it as text.
  returned: success
  type: str
  sample: |-
    41 VMs on 6 nodes: 8 bound to one node, 3 bound to one zone

    ZONE   CPU          NODES  BEST MODEL       OTHER COMMON MODELS
    (all)  amd64 AMD    2      EPYC-Rome        -
    (all)  amd64 Intel  4      Broadwell-noTSX  Haswell-noTSX
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

from ansible_collections.virt.placement.plugins.module_utils.flows.cpu_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    WORKLOADS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            exclude_namespaces={"type": "list", "elements": "str", "default": []},
            details={"type": "bool", "default": False},
            **WORKLOADS,
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
