#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Label nodes with the topology they stand in
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Gives nodes the labels that placement rules go by (region, zone, physical host, classes of performance), many nodes
    in one task, each with its own values.
  - Reads all nodes once, and writes only to those that differ. Every write is conditional, so that nobody else's
    change is lost.
  - Refuses all faults at once, before anything is written, those of the options together with the nodes that the
    cluster does not have. Where it cannot be reached, those of the options are told all the same.
options:
  per_node:
    description:
      - Labels of each node, a map of node names to maps of label keys and values.
      - A key is a name of O(topology_keys), or a label key with its prefix.
      - Values are strings. V(null), an empty string, a boolean and a number with a fraction are refused, since YAML
        may have made them of something else. Quote them.
      - Labels that are not named stay as they are.
    type: dict
  nodes:
    description:
      - Names of nodes that all get O(labels). An empty list is no node at all.
    type: list
    elements: str
  selector:
    description:
      - Label selector, as C(kubectl get nodes -l) takes it, of nodes that all get O(labels).
      - Keys are names of O(topology_keys), or label keys with their prefix.
      - A selector that is empty or that no node matches is refused.
    type: str
  labels:
    description:
      - Labels of the nodes in O(nodes) or of those that O(selector) chooses, with keys and values as in O(per_node).
    type: dict
  remove:
    description:
      - Label keys that are taken from the nodes that are meant.
      - A key without a prefix need not be declared in O(topology_keys), but one that looks like a misspelt name of it
        is refused.
    type: list
    elements: str
    default: []
  exclusive:
    description:
      - Label keys that only those nodes may carry that are given them here. They are taken from every other node of
        the cluster.
      - A key that is given to no node is refused. Use O(remove) for that.
    type: list
    elements: str
    default: []
  force:
    description:
      - Without it the module refuses to change or remove a label whose value was last written by the kubelet or a cloud
        controller, which may write it again.
      - Without it the module also refuses to change or remove a label that volumes, the required rules of workloads or
        pods on the node depend on.
      - Setting a label that a node does not have is always allowed. So is giving back a value that this module set and
        somebody else changed, as it is remembered in the annotation C(placement.virt/node-labels) of the node.
    type: bool
    default: false
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.attributes
  - virt.placement.placement
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows labels only.
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster roles C(virt-placement-reader) and C(virt-placement-labeller). Where something
    is to be written, the right to it is asked for before the first write, in check mode too.
seealso:
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Label nodes with region, zone and class
  virt.placement.node_labels:
    per_node:
      kni-worker: {region: iberia, zone: scu}
      kni-worker2: {region: iberia, zone: scu, performance: high}
      kni-worker3: {region: iberia, zone: izz}
    exclusive: [performance]

- name: Give all workers of a rack their rack
  virt.placement.node_labels:
    topology_keys:
      rack: example.com/rack
    selector: node-role.kubernetes.io/worker,example.com/row=7
    labels:
      rack: r7-2

- name: Take away a label that nobody uses any more
  virt.placement.node_labels:
    nodes: [kni-worker, kni-worker2]
    remove: [old-key]

- name: Show what would change, on the cluster that is meant and no other
  virt.placement.node_labels:
    cluster_uid: 9c1f3b8e-6a55-4a3c-8a3b-3d0b2f1d7c11
    per_node: "{{ node_topology }}"
  check_mode: true
  diff: true
"""

RETURN = r"""
nodes:
  description: Nodes whose labels changed, or would change in check mode, with only the labels that did.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
    before:
      description: The labels as they were; a label that was not there is missing.
      type: dict
    after:
      description: The labels as they are now; a label that was taken away is missing.
      type: dict
  sample:
    - name: kni-worker2
      before: {performance: low}
      after: {performance: high, topology.kubernetes.io/zone: scu}
counts:
  description: How many nodes came to be as wanted, and how many did not.
  returned: success
  type: dict
  contains:
    changed:
      description: Nodes that were changed.
      type: int
    changed_by_others:
      description: Nodes that were as wanted when their turn came.
      type: int
    failed:
      description: Nodes that could not be changed.
      type: int
  sample: {changed: 6, changed_by_others: 0, failed: 0}
writes:
  description: The changes that were made, or would be made in check mode.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
    namespace:
      description: Namespace of the object, empty for a node.
      type: str
    name:
      description: Name of the object.
      type: str
    patch:
      description:
        - The change as JSON Patch (RFC 6902).
        - It is sent with tests that the object is the one that was read, and that what is changed is still as it was.
      type: list
      elements: dict
  sample:
    - kind: Node
      namespace: ""
      name: kni-worker
      patch:
        - {op: add, path: /metadata/labels/topology.kubernetes.io~1zone, value: scu}
        - op: add
          path: /metadata/annotations/placement.virt~1node-labels
          value: '{"topology.kubernetes.io/zone":"scu"}'
cluster:
  description: The cluster that was worked on.
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
errors:
  description: Why the task failed. With errors of type V(input) or V(permission) nothing was written.
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
      message: "per_node: there is no node 'kni-worke'; did you mean 'kni-worker'?"
      object: "per_node"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.node_labels import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            per_node={"type": "dict"},
            nodes={"type": "list", "elements": "str"},
            selector={"type": "str"},
            labels={"type": "dict"},
            remove={"type": "list", "elements": "str", "default": [], "no_log": False},
            exclusive={"type": "list", "elements": "str", "default": []},
            force={"type": "bool", "default": False},
        ),
        mutually_exclusive=[("per_node", "nodes", "selector")],
        required_one_of=[("per_node", "nodes", "selector")],
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
