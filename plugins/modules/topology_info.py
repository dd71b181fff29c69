#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: topology_info
short_description: Show zones, regions and other topology domains with their nodes
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Shows the topology domains that node labels define, such as zones, with their nodes. Also shows nodes that lack a
    label, and what is wrong with the labels.
  - Reads nodes only, and changes nothing.
options: {}
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.assume_node_labels
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster role C(virt-placement-reader).
seealso:
  - module: virt.placement.node_labels
"""

EXAMPLES = r"""
- name: Read topology
  virt.placement.topology_info:
  register: topology

- name: Show topology
  ansible.builtin.debug:
    msg: "{{ topology.table.splitlines() }}"

- name: Read topology with the physical hosts of the nodes
  virt.placement.topology_info:
    topology_keys:
      host: example.com/physical-host
  register: topology

- name: Check that every node that takes pods has each label
  ansible.builtin.assert:
    that: topology.findings | selectattr('name', 'equalto', 'topology_incomplete') | list | length == 0
"""

RETURN = r"""
domains:
  description:
    - A map of each topology name to a map of its domains.
    - Each domain has C(nodes), a list of their names, C(count), and C(takes_pods), how many of them take pods.
  returned: success
  type: dict
  sample:
    zone:
      scu: {nodes: [kni-worker, kni-worker2], count: 2, takes_pods: 2}
      izz: {nodes: [kni-worker3], count: 1, takes_pods: 1}
    performance:
      high: {nodes: [kni-worker2], count: 1, takes_pods: 1}
missing:
  description: A map of each topology name to the names of all nodes without that label.
  returned: success
  type: dict
  sample:
    zone: [kni-control-plane]
    performance: [kni-control-plane, kni-worker, kni-worker3]
counts:
  description: Number of nodes.
  returned: success
  type: dict
  contains:
    nodes:
      description: All nodes.
      type: int
    takes_pods:
      description: Nodes that are not cordoned and have no taint V(NoSchedule) or V(NoExecute).
      type: int
  sample: {nodes: 4, takes_pods: 3}
findings:
  description:
    - What is wrong with the labels, or may be. There is one warning for each name of a finding that is not V(info).
    - C(topology_incomplete), nodes that take pods lack a label that others have.
    - C(no_node_has_key), no node that takes pods has the label.
    - C(single_domain), there is only one domain.
    - C(duplicate_hostname), several nodes have the same host name.
    - C(zone_in_two_regions), the nodes of a zone name different regions.
    - C(deprecated_node_label), nodes have a label that Kubernetes has replaced.
    - C(similar_domain_names), two domains differ in spelling only.
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
      description: The rule that it is about, here always empty.
      type: str
  sample:
    - name: topology_incomplete
      severity: warning
      why: kni-worker5 takes pods and has no label topology.kubernetes.io/zone (zone).
      advice: >-
        keep_apart has no effect there, and spread and keep_together never use it: label these nodes too.
      objects: [Node kni-worker5]
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
  description: The domains as a text table. A dash stands for nodes without the label.
  returned: success
  type: str
  sample: |-
    KEY   DOMAIN  COUNT  NODES
    zone  izz     1      kni-worker3
          scu     2      kni-worker, kni-worker2
          -       1      kni-control-plane
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
      message: "topology_keys.rack: must be a label key, not 'no key'"
      object: "topology_keys.rack"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.topology_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    ASSUME_NODE_LABELS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(**ASSUME_NODE_LABELS), supports_check_mode=True
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
