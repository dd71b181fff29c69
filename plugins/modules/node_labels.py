#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_labels
short_description: Label nodes with region, zone and other topology keys
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Labels nodes with the topology keys that placement rules use, such as region, zone and performance, many nodes
    in one task. Writes only to nodes that differ.
  - If another client changes one of these labels between reading and writing, the node is read again before it is
    written.
  - The module names all errors of its input at once, before it writes anything. Nodes that do not exist are among them.
options:
  per_value:
    description:
      - Labels by value, a map of label keys to maps of a value to the nodes that get it.
      - A key is a name of O(topology_keys), or a label key with its prefix.
      - Labels that are not named stay as they are.
    type: dict
  per_node:
    description:
      - Labels by node, a map of node names to maps of label keys to values.
      - Values are text. V(null), an empty string, a boolean and a number with a fraction are refused, because YAML
        may have read them as another type. Quote them.
    type: dict
  nodes:
    description:
      - Names of nodes that all get O(labels). An empty list means no node.
    type: list
    elements: str
  selector:
    description:
      - Label selector of nodes that all get O(labels), in the form of C(kubectl get nodes -l).
      - Keys are names of O(topology_keys), or label keys with their prefix.
      - A selector that is empty or that no node matches is refused.
    type: str
  labels:
    description:
      - Labels of the nodes in O(nodes), or of those that O(selector) matches. Keys and values as in O(per_node).
    type: dict
  remove:
    description:
      - Label keys to remove from the nodes that the task names or selects.
      - A key without a prefix need not be declared in O(topology_keys). One that looks like a misspelt name of it is
        refused.
    type: list
    elements: str
    default: []
  exclusive:
    description:
      - Label keys that only the nodes in this task may have. They are removed from all other nodes of the cluster.
      - A key that the task gives to no node is refused. Use O(remove) for that.
    type: list
    elements: str
    default: []
  force:
    description:
      - Change and remove labels that are refused otherwise. These are labels that the kubelet or a cloud
        controller wrote last, labels on which a volume, a required rule, or a pod on the node depends, and labels
        that Cluster API copies from the node's Machine. It names them in the annotation
        C(cluster.x-k8s.io/labels-from-machine) of the node.
      - Also add, change and remove V(kubevirt.io/schedulable), V(node-role.kubernetes.io/*),
        V(node-restriction.kubernetes.io/*) and V(node.kubernetes.io/*), and labels of subdomains of these.
        Kubernetes and KubeVirt tell nodes apart by them.
      - Not needed to add any other label, nor to restore a value that this module wrote and the kubelet or a cloud
        controller has overwritten.
    type: bool
    default: false
  follow:
    description:
      - The labels say where nodes are, such as the host of a VM, and follow what happened. Rules and pods that depend
        on a label do not prevent its change then, and O(force) is not needed.
      - RV(dependents) has the workloads that may have to move since.
      - A label on which a volume depends is refused all the same, and so are labels that others own.
    type: bool
    default: false
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.placement
attributes:
  check_mode:
    support: full
    details: Asks the server by dry runs, so that what an admission policy would refuse fails here, too.
  diff_mode:
    support: full
    details: Shows labels only.
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster roles C(virt-placement-reader) and C(virt-placement-labeler). A missing right is
    reported before the first write, in check mode too.
  - The node's annotation C(placement.virt/node-labels) records the labels that this module wrote.
seealso:
  - module: virt.placement.topology_info
"""

EXAMPLES = r"""
- name: Label three zones
  virt.placement.node_labels:
    per_value:
      zone:
        scu: [kni-worker, kni-worker2]
        bcn: [kni-worker3, kni-worker4]
        sab: [kni-worker5, kni-worker6]

- name: Label nodes with region, zone and performance, and remove performance from all other nodes
  virt.placement.node_labels:
    per_node:
      kni-worker:
        region: iberia
        zone: scu
      kni-worker2:
        region: iberia
        zone: scu
        performance: high
    exclusive: [performance]

- name: Label the workers of one rack
  virt.placement.node_labels:
    topology_keys:
      rack: example.com/rack
    selector: node-role.kubernetes.io/worker,example.com/row=7
    labels:
      rack: r7-2

- name: Remove a label
  virt.placement.node_labels:
    nodes: [kni-worker, kni-worker2]
    remove: [old-key]

- name: Label nodes of one cluster only
  virt.placement.node_labels:
    cluster_uid: 9c1f3b8e-6a55-4a3c-8a3b-3d0b2f1d7c11
    per_value: "{{ zones_and_nodes }}"
  register: labels

- name: Write rules, in check mode as if the labels were written
  virt.placement.rules:
    namespace: shop
    rules: "{{ shop_rules }}"
    assume_node_labels: "{{ labels.planned }}"
"""

RETURN = r"""
nodes:
  description: Nodes with changed labels, or with labels that would change in check mode. Other labels are left out.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
    before:
      description: The labels before, without those that the node did not have.
      type: dict
    after:
      description: The labels after, without those that were removed.
      type: dict
  sample:
    - name: kni-worker2
      before: {performance: low}
      after: {performance: high, topology.kubernetes.io/zone: scu}
planned:
  description:
    - The labels of the nodes that differ, as they are after the task, for
      O(virt.placement.rules#module:assume_node_labels) and the same option of other modules. Null is a label that
      is removed.
    - With it, check mode of a play can go on as if the labels were written.
  returned: success
  type: dict
  sample:
    kni-worker2: {performance: high, topology.kubernetes.io/zone: scu, old-key: null}
dependents:
  description:
    - With O(follow), the workloads whose required rules depend on a label that changed, for
      O(virt.placement.rollout#module:workloads). Empty if no label changed that a node had before.
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
  sample:
    - {kind: Deployment, namespace: shop, name: web}
counts:
  description: How many nodes were changed.
  returned: success
  type: dict
  contains:
    changed:
      description: Nodes that were changed; in check mode, that would be.
      type: int
    unchanged:
      description: Nodes of the task that have the labels already.
      type: int
    failed:
      description: Nodes that could not be changed.
      type: int
  sample: {changed: 2, unchanged: 4, failed: 0}
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) is V(labeled), V(labels_removed) or V(unchanged). C(skipped) is empty, since RV(errors) has the nodes that
      could not be changed.
    - C(next) is V(rollout) where RV(dependents) has workloads.
    - After a failure C(next) begins with V(nothing_written), with V(unfinished) after a write, with V(cluster_away)
      where the API server does not answer, or with V(failed) where it is unknown whether something was written.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: labeled, text: labeled nodes, objects: [kni-worker, kni-worker2]}
    skipped: []
    next: []
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
        - It is sent with C(test) operations, so it fails if the node was replaced or these labels changed since
          they were read.
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
  description: Why the task failed. C(next) of RV(outcome) says whether something was written.
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
            per_value={"type": "dict"},
            per_node={"type": "dict"},
            nodes={"type": "list", "elements": "str"},
            selector={"type": "str"},
            labels={"type": "dict"},
            remove={"type": "list", "elements": "str", "default": [], "no_log": False},
            exclusive={"type": "list", "elements": "str", "default": []},
            force={"type": "bool", "default": False},
            follow={"type": "bool", "default": False},
        ),
        mutually_exclusive=[("per_value", "per_node", "nodes", "selector")],
        required_one_of=[("per_value", "per_node", "nodes", "selector")],
        supports_check_mode=True,
    )
    run_task(module, run, of_change=True)


if __name__ == "__main__":
    main()
