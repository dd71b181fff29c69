#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: capacity_info
short_description: Forecast whether a node or zone may fail, and how many more VMs have room then
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Forecasts whether any one of the named nodes, zones or other topology domains may fail, so that each VM and pod
    finds another node. vSphere calls this HA admission control.
  - Nothing is reserved, and no VM is kept from starting.
  - Names the instances without a node, what blocks them, and what they request.
  - With O(room_for) it counts how many more VMs of a size have room while that stays true.
  - With O(rules) or O(scale) the answer is about the cluster after that change. Instances that violate one of the rules
    have moved by then, and it is not known to which node. They have to find a node after each failure, too, and so do
    instances that O(scale) adds. All others are where they run now.
options:
  tolerate:
    description:
      - What must be able to fail, one at a time. A topology name or label key, such as V(node) or V(zone), stands for
        each of its domains. V(zone=a) stands for that domain alone.
    type: list
    elements: str
    default: [node]
  unavailable:
    description:
      - Nodes that are drained meanwhile, as during a maintenance. Their VMs and pods need other nodes beside those of
        each failure.
      - C(nodes) is a list of node names. Any other key is a topology name or label key, with a domain or a list of
        domains, such as C(zone=a).
      - Whether the drain can end is a question for M(virt.placement.forecast_info).
    type: dict
  room_for:
    description:
      - Count how many more VMs of this size or instance type have room. They have no rules, and no volumes that bind
        them.
      - A number is proven with each of the failures. VMs that are halted now take no room, and ResourceQuotas do not
        count.
    type: dict
    suboptions:
      cores:
        description: CPUs of the guest. Required without O(room_for.instance_type).
        type: int
      memory:
        description: Memory of the guest, such as V(8Gi). Required without O(room_for.instance_type).
        type: str
      instance_type:
        description:
          - Name of an instance type of the cluster, such as V(u1.large), instead of O(room_for.cores) and
            O(room_for.memory). Its devices, huge pages and node selector count, too. What a preference adds, such as
            the memory of a TPM, does not.
          - V(shop/small) is the type of a namespace. Its name alone will do, if no other one has it.
        type: str
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.what_if
  - virt.placement.assume_node_labels
  - virt.placement.placement
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
  - PyYAML, where O(rules) is text
notes:
  - Needs the rights of the ClusterRole C(virt-placement-reader). Where a right is missing, the answer is V(unknown).
  - VMs of a failed node are down until it is fenced. The answer is about the time after that.
  - Nodes that are not ready already count as failed beside each failure. Their VMs need nodes, too, once they are
    fenced.
  - VMs and pods that wait for a node already are not counted as without a node, but may take the room of others.
  - Nodes that would need preemption are not used.
  - A node that takes no pods and has none that would leave it is no failure, as a control plane node with its taint. It
    is where it is named.
seealso:
  - module: virt.placement.drill_info
  - module: virt.placement.forecast_info
"""

EXAMPLES = r"""
- name: Fail unless any one node may fail
  virt.placement.capacity_info:
  register: capacity
  failed_when: capacity.capacity != 'green'

- name: Count the VMs with 4 cores that still have room if any one zone may fail
  virt.placement.capacity_info:
    tolerate: [zone]
    room_for:
      cores: 4
      memory: 8Gi
  register: capacity

- name: Show it
  ansible.builtin.debug:
    msg: "{{ capacity.table.splitlines() }}"
"""

RETURN = r"""
capacity:
  description:
    - V(green), after each of these failures every instance finds another node, whichever nodes the scheduler chooses.
      RV(reasons) names failures after which an instance with affinity to others may wait five minutes for its node.
    - V(red), at least one of them leaves an instance without a node, or one that no controller recreates.
    - V(possible), every instance can find a node, but it may not, or what happens is not certain. So it is where nodes
      lack the label of a domain, since they may fail with any.
    - V(unknown), no choice of nodes was found for a failure, no node has such a domain, or a list could not be read.
  returned: success
  type: str
  sample: red
worst:
  description:
    - What the worst of the failures leaves without a node, and what lacks. Roles with a variable C(keep_room_for) fail
      with it.
    - Where no failure has an impact, the first of RV(reasons), or an empty text.
  returned: success
  type: str
  sample: >-
    If zone a fails, VirtualMachineInstance shop/db1 has no node (1.0 CPU, 2.0 GiB memory requested): VM db1 needs a
    zone of its own (anti-affinity), and none is feasible
room_for:
  description: How many VMs of the size in O(room_for) have room. Null without that option, and where it is not known.
  returned: success
  type: dict
  contains:
    instance_type:
      description: The instance type. Empty where O(room_for) has a size.
      type: str
    cores:
      description: CPUs of the guest.
      type: int
    memory_bytes:
      description: Memory of the guest.
      type: int
    at_least:
      description: So many VMs more are proven to leave RV(capacity) V(green). V(0) where it is not V(green) now.
      type: int
    at_most:
      description: So many have room by their requests alone. At most 200 are counted.
      type: int
    doubt:
      description: Why the pod of such a VM is not known, so that none is proven. Empty otherwise.
      type: str
  sample: {instance_type: "", cores: 4, memory_bytes: 8589934592, at_least: 14, at_most: 16, doubt: ""}
forecast:
  description: The worst forecast of all failures, as RV(virt.placement.forecast_info#module:forecast).
  returned: success
  type: str
  sample: impossible
reasons:
  description:
    - What holds for all domains. Lists that could not be read, so that RV(capacity) is V(unknown).
    - Nodes without the label of a domain, so that it is V(possible) at best, and nodes that are not ready already.
    - Instances that have no node already. They take room, but the answer is not about them.
  returned: success
  type: list
  elements: str
  sample: []
without_impact:
  description: The topology domains that have no impact when they fail. RV(domains) has the others.
  returned: success
  type: list
  elements: dict
  contains:
    topology_key:
      description: Label key of the domain.
      type: str
    domain:
      description: Value of the label.
      type: str
    nodes:
      description: Names of its nodes.
      type: list
      elements: str
    instances_to_schedule:
      description: How many instances need another node. Each finds one.
      type: int
    down_until_fenced:
      description: How many VMs stay down until their failed node is fenced.
      type: int
  sample:
    - topology_key: topology.kubernetes.io/zone
      domain: b
      nodes: [worker3, worker4]
      instances_to_schedule: 3
      down_until_fenced: 1
domains:
  description: The topology domains that have an impact when they fail, or may have one, the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    topology_key:
      description: Label key of the domain.
      type: str
    domain:
      description: Value of the label.
      type: str
    nodes:
      description: Names of its nodes.
      type: list
      elements: str
    forecast:
      description: The forecast for the loss of this domain.
      type: str
    codes:
      description:
        - Which proofs or doubts made it, as RV(virt.placement.forecast_info#module:codes).
        - What to do is in docs/troubleshooting.md, B(Codes of forecasts).
      type: list
      elements: str
    instances_to_schedule:
      description: How many instances need another node.
      type: int
    min_unschedulable:
      description: How many of them are unschedulable at least, whichever nodes the scheduler chooses.
      type: int
    pending:
      description: Instances without a node, after the best choice of nodes that was found.
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
    at_risk:
      description: Instances without a node after an unfavorable choice, where a better one may exist.
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
    not_migratable:
      description: VMs that cannot be live-migrated off a drained node, after the best choice of nodes that was found.
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
    not_recreated:
      description: Instances that no controller recreates.
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
    down_until_fenced:
      description: VMs that stay down until their failed node is fenced.
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
    missing:
      description: What the instances without a node request together, after the choice of nodes of C(blocked).
      type: dict
      contains:
        cpu_millicores:
          description: CPU in thousandths.
          type: int
        memory_bytes:
          description: Memory in bytes.
          type: int
    reasons:
      description: Why the forecast is not V(guaranteed). Empty only where RV(domains[].blocked) says it.
      type: list
      elements: str
    blocked:
      description: What blocks each instance without a node. It may be about one choice of nodes among several.
      type: list
      elements: dict
      contains:
        instance:
          description: The instance.
          type: dict
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
        filter:
          description:
            - The scheduler's filter that refuses the last nodes, for example V(InterPodAffinity). V(NoNode) where there
              is no other node, V(Eviction) where the instance must not be evicted.
          type: str
        pod:
          description: The pod that the filter refers to. Null without such a pod.
          type: dict
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
        others:
          description: Number of other pods that the filter refers to.
          type: int
        rules:
          description: The rules that own the constraints, as namespace, rule set and name.
          type: list
          elements: str
        reason:
          description: Why the nodes are not feasible, or why the instance must not be evicted.
          type: str
        message:
          description: All of it in a sentence.
          type: str
  sample:
    - topology_key: topology.kubernetes.io/zone
      domain: a
      nodes: [worker1, worker2]
      forecast: impossible
      codes: [apart]
      instances_to_schedule: 3
      min_unschedulable: 1
      pending:
        - kind: VirtualMachineInstance
          namespace: shop
          name: db1
      at_risk: []
      not_migratable: []
      not_recreated: []
      down_until_fenced:
        - kind: VirtualMachineInstance
          namespace: shop
          name: db1
      missing: {cpu_millicores: 1000, memory_bytes: 2147483648}
      reasons: ["VM db1 needs a zone of its own (anti-affinity), and none is feasible"]
      blocked:
        - instance:
            kind: VirtualMachineInstance
            namespace: shop
            name: db1
          filter: InterPodAffinity
          pod:
            kind: Pod
            namespace: shop
            name: virt-launcher-db2
          others: 0
          rules: [shop/default/db-one-per-zone]
          reason: "node(s) didn't match pod anti-affinity rules (app In (db) over zone)"
          message: db1 is blocked by VM shop/db2 (rule shop/default/db-one-per-zone)
counts:
  description: Numbers of domains.
  returned: success
  type: dict
  contains:
    domains:
      description: Failures that were tried. V(0) where a list could not be read.
      type: int
    impact:
      description: Topology domains in RV(domains).
      type: int
  sample:
    domains: 9
    impact: 1
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(capacity), V(with_impact), V(not_guaranteed) and V(unknown) for the domains by what is known of
      their loss, and V(room_for).
    - C(next) is V(make_room), V(raise_quota) or V(admission), by what keeps instances from having a node. It is empty
      where RV(capacity) is V(green).
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: capacity, text: "capacity if any one of these fails (node): green", objects: []}
    skipped: []
    next: []
table:
  description: The state, the room that is left, and the failures with an impact as text.
  returned: success
  type: str
  sample: |-
    GREEN: after any one of 6 failures each instance finds a node
    least room is left without node worker3: 34.0 GiB memory, 12.0 CPU
    room for more VMs (4 cores, 8.0 GiB memory) that leaves it green: at least 14, at most 16 by their requests
    with 15 more VMs it is not proven that each finds a node if node worker3 fails
    6 of 6 failures: no impact after fencing
findings:
  description:
    - Findings about the rules, as M(virt.placement.rules) reports them.
    - V(preempts_vms) is about VMs for which kube-scheduler ends other VMs, since their priority is higher.
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
      description: What is wrong.
      type: str
    advice:
      description: What to do.
      type: str
    objects:
      description: The objects that it is about.
      type: list
      elements: str
    rule:
      description: Name of the rule.
      type: str
  sample: []
blocking_findings:
  description: Names of the findings for which M(virt.placement.rules) refuses to write the rules.
  returned: success
  type: list
  elements: str
  sample: []
permission_gaps:
  description: Lists that could not be read. If there are any, the forecast is V(unknown).
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
    namespace:
      description: The namespace. Empty for all namespaces.
      type: str
    verb:
      description: The verb that is missing.
      type: str
    reason:
      description: The answer of the server, and what to do.
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
      message: "tolerate[0]: no node has the label example.com/rack"
      object: "tolerate[0]"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.capacity_info import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
    what_if_options,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            **what_if_options(),
            tolerate={"type": "list", "elements": "str", "default": ["node"]},
            unavailable={"type": "dict"},
            room_for={
                "type": "dict",
                "options": {
                    "cores": {"type": "int"},
                    "memory": {"type": "str"},
                    "instance_type": {"type": "str"},
                },
            },
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
