#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: drill_info
short_description: Forecast which single failure leaves instances without a node
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Forecasts the failure or drain of each node, each zone or each domain of another topology key, one after the other.
    Shows the domains with an impact, the worst first.
  - With O(rules) or O(scale) the forecast is about the cluster after that change.
options:
  domains_of:
    description:
      - Topology names or full label keys, such as V(node) and V(zone). Each of their domains fails in turn.
      - A key that no node has is left out, with a warning, if some node has another one of them.
    type: list
    elements: str
    required: true
  event:
    description:
      - With V(failure) the nodes are unreachable. Their pods stay terminating there and still count for anti-affinity.
        Their controllers create new ones. VMs are down until the node is fenced, and the forecast is about the cluster
        after that.
      - With V(drain) the nodes are cordoned and their pods evicted. VMs are live-migrated or restarted, as their
        eviction strategy says.
    type: str
    choices: [drain, failure]
    default: failure
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
  - Needs the rights of the ClusterRole C(virt-placement-reader). Where a right is missing, the forecast is V(unknown).
  - Pods, requests and limits are counted against each ResourceQuota. A live migration needs a second pod.
  - Not part of the forecast are disruption budgets and the time that volumes need to detach. Nodes that would need
    preemption are not used.
seealso:
  - module: virt.placement.forecast_info
  - module: virt.placement.placement_info
"""

EXAMPLES = r"""
- name: Forecast the failure of each node and each zone
  virt.placement.drill_info:
    domains_of: [node, zone]
  register: drill

- name: Show the failures with an impact
  ansible.builtin.debug:
    msg: "{{ drill.table.splitlines() }}"

- name: Forecast the drain of each rack
  virt.placement.drill_info:
    domains_of: [rack]
    event: drain
    topology_keys:
      rack: example.com/rack
"""

RETURN = r"""
forecast:
  description: The worst forecast of all domains, as RV(virt.placement.forecast_info#module:forecast).
  returned: success
  type: str
  sample: impossible
reasons:
  description: Why RV(forecast) is V(unknown) for all domains. Empty where every list could be read.
  returned: success
  type: list
  elements: str
  sample: []
event:
  description: What happens to each domain, O(event).
  returned: success
  type: str
  sample: failure
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
left_out:
  description: Label keys of O(domains_of) that no node has. The task fails where no node has any of them.
  returned: success
  type: list
  elements: str
  sample: []
counts:
  description: Numbers of domains.
  returned: success
  type: dict
  contains:
    domains:
      description: Domains that were tried. V(0) where a list could not be read.
      type: int
    impact:
      description: Topology domains in RV(domains).
      type: int
  sample:
    domains: 9
    impact: 1
n_plus_1:
  description:
    - Whether any one node may fail (N+1), in one sentence, with the room that is left without the worst one.
    - If not, the worst failure, with what the node lacks that lacks the least.
    - It is not certain while a node with instances is not ready already.
    - Empty without the nodes in O(domains_of), without O(event=failure), or if something could not be read.
  returned: success
  type: str
  sample: "N+1: no for 6 of 6 nodes; without node w1: node w3 lacks 12.0 GiB memory for sap-4"
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) has V(n_plus_1) or V(worst_forecast), then V(with_impact), V(not_guaranteed) and V(unknown) for the
      domains by what is known of their loss, or V(no_impact).
    - C(next) is V(make_room), V(raise_quota) or V(admission), by what keeps instances from having a node.
    - After a failure C(next) has V(failed), or V(cluster_away) where the API server does not answer.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: worst_forecast, text: "worst forecast: impossible", objects: []}
      - {code: with_impact, text: with an impact, objects: [zone-a (impossible)]}
    skipped: []
    next:
      - code: make_room
        text: for what the lines above name, add nodes or room, or change the rules; then launch the same job again
        objects: []
table:
  description:
    - The topology domains that have an impact when they fail, as text.
    - The first line is RV(n_plus_1), where there is one.
  returned: success
  type: str
  sample: |-
    N+1: yes, any one of 6 nodes may fail; least room is left without node worker3: 34.0 GiB memory, 12.0 CPU
    FAILURE  INSTANCES  ALL SCHEDULABLE  DOWN UNTIL FENCED  DOWN AFTER FENCING  REASON
    zone a   3          impossible       1                  1                   db1 is blocked by VM shop/db2
    unschedulable if zone a fails: VirtualMachineInstance shop/db1
    8 of 9 failures: no impact after fencing, not listed above
    down until fenced: up to 1 VM, if zone a fails
findings:
  description:
    - Findings about the rules, as M(virt.placement.rules) reports them, about the workloads after the change, and about
      instances that no controller recreates.
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
      message: "domains_of: no node has the label example.com/rack"
      object: "domains_of"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.drill_info import run
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NODE_EVENTS
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
    what_if_options,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            **what_if_options(),
            domains_of={"type": "list", "elements": "str", "required": True},
            event={"type": "str", "default": "failure", "choices": list(NODE_EVENTS)},
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
