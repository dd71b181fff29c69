#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: capi_hosts_info
short_description: Show the physical hosts of a cluster's nodes, as Cluster API or KubeVirt knows them
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Shows the host of each node of a cluster whose nodes are VMs, and the groups of nodes that share a host. A group is
    a control plane, a MachineDeployment or a pool of VMs.
  - Returns the labels of the nodes for M(virt.placement.node_labels), so that rules can keep pods on different hosts.
  - For vSphere it also reports whether cluster modules keep the nodes of a group on different hosts, and if not, why.
  - Runs against the cluster that creates the VMs. That is the management cluster of Cluster API, or the KubeVirt
    cluster under the nodes. The nodes to be labeled are in another cluster.
  - A node whose host is not certain is left out of RV(node_labels), and a finding names it.
  - Changes nothing.
options:
  cluster:
    description: Name of the Cluster whose nodes are shown.
    type: str
    required: true
  namespace:
    description: Namespace of its machines. Needed if clusters in several namespaces have this name.
    type: str
  source:
    description:
      - V(vsphere) reads Machines and VSphereVMs of Cluster API.
      - V(kubevirt) reads the VMIs of guest clusters on KubeVirt, such as those of Harvester's node driver and of
        cluster-api-provider-kubevirt. A node has the name of its VMI, and its host is the node of the VMI.
    type: str
    choices: [vsphere, kubevirt]
    default: vsphere
  label:
    description:
      - Key of the node label in RV(node_labels), a name of O(topology_keys) or a label key with its prefix.
      - The default is the label that Cluster API copies from Machines to Nodes.
    type: str
    default: node.cluster.x-k8s.io/esxi-host
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster role C(virt-placement-capi-reader) (C(rbac/capi-reader.yml)) in that cluster.
seealso:
  - module: virt.placement.node_labels
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Read the hosts of the nodes from the management cluster
  virt.placement.capi_hosts_info:
    context: management
    cluster: prod
  register: physical_hosts

- name: Show hosts
  ansible.builtin.debug:
    msg: "{{ physical_hosts.table.splitlines() }}"

- name: Label the nodes of the workload cluster with their hosts
  virt.placement.node_labels:
    context: prod
    per_node: "{{ physical_hosts.node_labels }}"
    follow: true
  register: labels

- name: Move what violates rules since a host has changed
  virt.placement.rollout:
    context: prod
    namespaces: "{{ labels.dependents | map(attribute='namespace') | unique }}"
    workloads: "{{ labels.dependents }}"
    allow: [migrate, recreate]
  when: labels.dependents | length > 0

- name: Read the hosts of a guest cluster on Harvester
  virt.placement.capi_hosts_info:
    context: harvester
    source: kubevirt
    cluster: guest1
    label: example.com/physical-host
  register: physical_hosts
"""

RETURN = r"""
ok:
  description: Whether the host of each node is known, so that no finding has severity V(error).
  returned: success
  type: bool
node_labels:
  description:
    - The label of each node with its host, for O(virt.placement.node_labels#module:per_node).
    - The value is that of the Machine's own label, else made of the host as cluster-api-provider-vsphere does it. An
      IPv6 address has C(-) for C(:) and ends with C(.ipv6-literal), and a name is cut to 63 characters.
  returned: success
  type: dict
  sample:
    prod-md-0-x7k: {node.cluster.x-k8s.io/esxi-host: esx-1}
groups:
  description: Control planes, MachineDeployments and pools.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: V(KubeadmControlPlane), V(MachineDeployment) or V(MachinePool).
      type: str
    name:
      description: Name of the group.
      type: str
    nodes:
      description: Nodes whose host is known.
      type: list
      elements: str
    hosts:
      description: Their hosts, as label values.
      type: list
      elements: str
    shared:
      description: Hosts with more than one of these nodes, with the nodes.
      type: dict
    more_nodes_than_hosts:
      description: Whether there are more nodes than hosts of the cluster, so that some have to share one.
      type: bool
    module_uuid:
      description: UUID of the cluster module in vSphere. Empty if there is none.
      type: str
  sample:
    - kind: MachineDeployment
      name: md-0
      nodes: [prod-md-0-x7k, prod-md-0-z2p]
      hosts: [esx-1]
      shared: {esx-1: [prod-md-0-x7k, prod-md-0-z2p]}
      more_nodes_than_hosts: false
      module_uuid: ""
anti_affinity:
  description:
    - Whether cluster modules of vSphere keep the nodes of a group on different hosts. vSphere treats that as a
      preference.
    - One of V(enabled), V(disabled), V(opted_out), V(vcenter_too_old) and V(unknown).
  returned: with O(source=vsphere)
  type: str
  sample: disabled
reason:
  description: Why RV(anti_affinity) has this value, and the variable to set.
  returned: with O(source=vsphere)
  type: str
  sample: >-
    the feature gate NodeAntiAffinity of capv-controller-manager is off: set EXP_NODE_ANTI_AFFINITY to true and upgrade
    the provider with clusterctl
node_labeling:
  description:
    - Whether nodes get the label of their host without this collection. V(superseded) means that Cluster API copies
      it from the Machine, and no feature gate is needed.
    - One of V(enabled), V(superseded), V(disabled) and V(unknown).
  returned: with O(source=vsphere)
  type: str
  sample: superseded
missing_modules:
  description: Groups without a cluster module.
  returned: with O(source=vsphere)
  type: list
  elements: str
  sample: [MachineDeployment md-0]
versions:
  description: Releases of the controllers, from the tags of their images. Empty if not known.
  returned: with O(source=vsphere)
  type: dict
  contains:
    vsphere:
      description: Release of cluster-api-provider-vsphere.
      type: str
    cluster_api:
      description: Release of Cluster API.
      type: str
  sample: {vsphere: v1.12.0, cluster_api: v1.9.5}
findings:
  description:
    - What is wrong, or may be. There is one warning for each name of a finding.
    - C(nodes_share_host), nodes of a group are on one host.
    - C(machine_without_node), a Machine has no node yet.
    - C(node_of_two_machines), two Machines have one node.
    - C(host_unknown), the VM of a Machine is gone, or does not say where it runs.
    - C(host_not_label_value), the name of a host cannot be the value of a label.
    - C(host_label_outdated), the label of a Machine is not the host of its VM.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, the same in every release.
      type: str
    severity:
      description: V(error) or V(warning). A node of an error is not in RV(node_labels).
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
      description: The rule that it is about, here always empty.
      type: str
  sample:
    - name: nodes_share_host
      severity: warning
      why: "Nodes of KubeadmControlPlane prod share a host: prod-a, prod-b on esx-1."
      advice: >-
        If that host fails, they fail together. Move one of the VMs with vMotion or a live migration, or replace its
        Machine.
      objects: [Node prod-a, Node prod-b]
      rule: ""
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(next) has the advice of RV(findings) whose severity is not V(info), with the name of the finding as the code.
      C(done) is empty.
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done: []
    skipped: []
    next:
      - {code: nodes_lack_key, text: Set the label on these nodes., objects: [Node w1]}
table:
  description: Groups and hosts with their nodes, as a text table.
  returned: success
  type: str
  sample: |-
    GROUP                   HOST   NODES
    MachineDeployment md-0  esx-1  prod-md-0-x7k, prod-md-0-z2p
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
      message: "cluster: no machine belongs to a cluster 'prd'; did you mean 'prod'?"
      object: cluster
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.capi.objects import (
    HOST_KEY,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.capi_hosts_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            cluster={"type": "str", "required": True},
            namespace={"type": "str"},
            source={"type": "str", "default": "vsphere", "choices": ["vsphere", "kubevirt"]},
            label={"type": "str", "default": HOST_KEY},
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
