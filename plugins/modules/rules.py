#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: rules
short_description: Declare where virtual machines and other workloads belong
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Writes rules as placement terms into the templates of workloads (node affinity, pod affinity and
    anti-affinity, topology spread constraints, tolerations), many workloads in one task.
  - What others wrote there is left byte for byte as it is. Taking the last rule away leaves the placement
    fields as they were before the first.
  - Nothing is moved, started, stopped or restarted. RV(workloads[].takes_effect) says what has to happen before
    a change counts for what runs, and M(virt.placement.rollout) does it.
  - All faults of the input are named at once, before anything is written. So are findings about rules that
    would have no effect or do harm.
  - The workloads are of the kinds C(VirtualMachine), C(VirtualMachineInstanceReplicaSet) and C(Deployment).
    C(StatefulSet) and C(VirtualMachinePool) are not supported yet, and a rule about one is refused as a fault of the
    input. C(Pod) and C(DaemonSet) are refused, too.
options:
  namespace:
    description:
      - Namespace of the rules and of their workloads.
    type: str
    required: true
  rule_set:
    description:
      - Name of the list of rules. A rule is identified by namespace, set and name, so that several playbooks
        can put rules on the same workloads.
    type: str
    default: default
  rules:
    description:
      - The rules, a list of maps, or the YAML or JSON text of one, as surveys deliver it.
      - Numbers and booleans may come as text. A text that YAML would read as something else has to be quoted.
      - C(name) (required) is the name of the rule, unique in the set. It is text of 1 to 63 letters, digits, C(-),
        C(_) and C(.), as the values of labels are.
      - C(workloads) (required unless O(state=absent)) are those that the rule is about, a list of maps with
        C(kind) (V(VirtualMachine) unless it is given) and one of C(name), C(names) and C(labels). C(labels) are
        compared with the labels of the I(template). Membership is made exact, a workload that is no longer
        listed loses the terms of the rule; an empty list is nobody.
      - C(run_on), a map of keys to a value or a list of values, keeps the workloads on nodes that have one of
        the values for each key.
      - C(avoid), a map of the same form, keeps them off nodes that have one of the values. Nodes without the
        key stay allowed.
      - C(keep_apart) keeps instances in different domains of C(topology_key), from each other, or only from
        C(from) (one reference to workloads or a list of them, each with an optional C(namespace)) or C(pods) (a
        map of C(labels) and optionally C(namespaces)). Virtual machines can still be migrated inside their
        domain. Old and new pods of a Deployment do not keep each other apart.
      - C(keep_together) keeps instances in one domain of C(topology_key), with each other, or beside C(with)
        (one reference to workloads) or C(pods). The members follow the target, which gets no term itself.
      - C(spread) keeps the numbers of instances in the domains of C(topology_key) from differing by more than
        C(max_skew) (V(1) unless it is given).
      - C(terms) are the fields C(nodeSelector), C(affinity), C(tolerations) and C(topologySpreadConstraints) of
        a pod, as Kubernetes writes them.
      - C(label), a map of one key to its value, is a label that the workloads get in their templates and on what
        runs, and that then tells the group from other pods. It may stand beside one of the verbs above, or alone.
        The keys of KubeVirt, of Kubernetes (but for V(app.kubernetes.io/)) and of this collection are refused, and
        no label that a running pod or machine has with another value is ever overwritten.
      - C(preferred) makes C(run_on), C(avoid), C(keep_apart), C(keep_together) or C(spread) a wish and not a
        condition. C(weight), from V(1) to V(100) (default), weighs wishes against each other; C(spread) has
        none.
      - C(allow_findings) is a list of names of findings that are accepted for this rule. A name that is none is
        refused.
      - A key is a name of O(topology_keys), or a label key with its prefix.
    type: raw
    default: []
  state:
    description:
      - With V(present) the rules are made so.
      - With V(absent) they are taken away, found by their names, from every workload of the namespace, or only
        from those that a rule names in C(workloads). Names that nobody carries change nothing, as in a second run;
        where none of them is carried the C(workloads) of RV(counts) are V(0).
    type: str
    choices: [present, absent]
    default: present
  prune:
    description:
      - Take away every rule of the set in this namespace that is not in O(rules).
    type: bool
    default: false
  adopt:
    description:
      - Take over terms that stand in a template already and say the same, instead of writing them a second
        time. They are taken away with the rule then.
      - A key of a C(nodeSelector) that says the same as a required C(run_on) goes, and the rule's own expression says
        it from then on. Taking the rule away does not bring it back.
    type: bool
    default: false
  workload_rollout:
    description:
      - What to do where writing the template starts the workload's own roll-out, as it does for a Deployment.
      - V(refuse) refuses with the finding C(starts_workload_rollout), V(allow) writes.
    type: str
    choices: [refuse, allow]
    default: refuse
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.attributes
  - virt.placement.placement
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows the placement fields and labels that differ, and the names of the rules.
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
  - PyYAML, where O(rules) is text
notes:
  - Needs the rights of the cluster roles C(virt-placement-reader) and C(virt-placement-mover). Where something
    is to be written, the rights to all of it are asked for before the first write, in check mode too.
  - Which rule put which terms on an object stands in its annotation C(placement.virt/rules). The terms that
    were effective before the first change stand in C(placement.virt/undo) until M(virt.placement.rollout)
    ends well.
  - A finding of severity C(error) refuses the request, unless C(allow_findings) of its rule names the finding.
  - These findings are about a rule and its workloads, C(copied_annotation), C(empty_node_term),
    C(externally_managed), C(multiple_required_affinity), C(mutual_affinity), C(no_matching_workloads),
    C(no_node_has_key), C(starts_workload_rollout) and C(unsupported_by_server). The findings of
    M(virt.placement.placement_info) about terms come with them, such as C(unsatisfiable).
  - C(duplicate_spread), C(label_conflict), C(node_selector_conflict) and C(node_terms_conflict) cannot be allowed,
    since such a term cannot be written.
seealso:
  - module: virt.placement.node_labels
  - module: virt.placement.rollout
  - module: virt.placement.placement_info
"""

EXAMPLES = r"""
- name: Keep a database on fast nodes, one instance in each zone
  virt.placement.rules:
    namespace: shop
    rules:
      - name: database-on-fast-nodes
        workloads: [{kind: VirtualMachineInstanceReplicaSet, name: mssql2016}]
        run_on: {performance: high}
      - name: database-one-per-zone
        workloads: [{kind: VirtualMachineInstanceReplicaSet, name: mssql2016}]
        keep_apart: {topology_key: zone}

- name: Keep three virtual machines in different zones, and their helpers beside one of them
  virt.placement.rules:
    namespace: shop
    rule_set: web
    rules:
      - name: web-one-per-zone
        workloads: [{names: [web-a, web-b, web-c]}]
        keep_apart: {topology_key: zone}
      - name: helpers-follow
        workloads: [{names: [helper-1, helper-2]}]
        keep_together: {with: {name: web-a}, topology_key: node}

- name: Keep a cache off fast nodes if possible, and let its roll-out begin
  virt.placement.rules:
    namespace: shop
    rule_set: cache
    workload_rollout: allow
    rules:
      - name: cache-prefers-slow-nodes
        workloads: [{kind: Deployment, name: varnish-cache}]
        avoid: {performance: high}
        preferred: true
        weight: 10

- name: Spread the machines of a pool by a label of their own
  virt.placement.rules:
    namespace: guests
    rules:
      - name: pool1-apart
        workloads: [{names: [pool1-a, pool1-b]}]
        label: {harvesterhci.io/machineSetName: guests-rke2-pool1}
        keep_apart: {topology_key: node}
        preferred: true

- name: Say it as Kubernetes does
  virt.placement.rules:
    namespace: shop
    rules:
      - name: legacy-tolerates-maintenance
        workloads: [{name: legacy}]
        terms:
          tolerations:
            - {key: example.com/maintenance, operator: Exists, effect: NoSchedule}

- name: Take a rule away from whoever carries it
  virt.placement.rules:
    namespace: shop
    state: absent
    rules:
      - name: database-one-per-zone

- name: Show what the rules of a survey would change
  virt.placement.rules:
    namespace: shop
    rule_set: survey
    rules: "{{ survey_rules }}"
    prune: true
  check_mode: true
  diff: true
"""

RETURN = r"""
workloads:
  description: Workloads that change, in check mode or where the request is refused those that would.
  returned: always, unless the input is refused
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
    changed:
      description: Whether it was changed; in check mode, whether it would be.
      type: bool
    added:
      description: Names of the rules that it carries now and did not before.
      type: list
      elements: str
    updated:
      description: Names of the rules whose terms are others now, or were put back.
      type: list
      elements: str
    removed:
      description: Names of the rules that it no longer carries.
      type: list
      elements: str
    takes_effect:
      description:
        - What has to happen before the change counts for what runs.
        - One of V(now), V(migration), V(restart), V(recreate), V(workload_rollout) and V(start).
      type: str
    patch:
      description:
        - The change of the workload that was made, or would be, as JSON Patch (RFC 6902). It is sent with tests that
          the workload is the one that was read, and that what is changed is still as it was.
        - Where the request is refused it is empty, but for a workload that somebody else manages. Then it is what
          to commit there.
      type: list
      elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: web-a
      changed: true
      added: [web-one-per-zone]
      updated: []
      removed: []
      takes_effect: migration
      patch: []
findings:
  description: What was noticed about the rules and their workloads.
  returned: always, unless the input is refused
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, the same in every release.
      type: str
    severity:
      description: An V(error) refuses the request unless the rule allows it; others are V(warning) and V(info).
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
      description: Name of the rule.
      type: str
  sample:
    - name: no_node_has_key
      severity: error
      why: >-
        No node has the label topology.kubernetes.io/hostname, so the pod affinity term leaves every pod of it
        Pending.
      advice: Label the nodes first, or correct the key; kubernetes.io/hostname may be meant.
      objects: [VirtualMachine shop/blackbox]
      rule: blackbox-beside-cache
counts:
  description: How many workloads the rules are about, and what became of them.
  returned: always, unless the input is refused
  type: dict
  contains:
    workloads:
      description: Workloads that carry one of the rules, are to carry one, or carried one.
      type: int
    changed:
      description: Workloads that were changed; in check mode, that would be.
      type: int
    unchanged:
      description: Workloads that are as wanted, or were when their turn came.
      type: int
    failed:
      description: Workloads that could not be written, in full or in part.
      type: int
  sample: {workloads: 3, changed: 1, unchanged: 2, failed: 0}
writes:
  description: The objects that were written, or would be written in check mode, in their order.
  returned: always, unless the input is refused
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
    namespace:
      description: Namespace of the object.
      type: str
    name:
      description: Name of the object.
      type: str
    patch:
      description:
        - The change of a label on what runs, as JSON Patch (RFC 6902), sent with tests like that of a workload.
        - The patch of a workload stands in RV(workloads[].patch).
      returned: for a running machine or pod
      type: list
      elements: dict
  sample: []
errors:
  description: Why the request was refused, or what could not be written and why.
  returned: when the request is refused by findings, or something could not be written
  type: list
  elements: str
  sample: ["rule blackbox-beside-cache, no_node_has_key: No node has the label topology.kubernetes.io/hostname ..."]
faults:
  description:
    - Everything that is wrong with the input, and the findings that refuse rules with nothing wrong in them. Or every
      right that is missing. Nothing was written.
  returned: when the input is refused, or the right to a write is missing
  type: list
  elements: str
  sample: ["rules[0] web, keep_apart.topology_key: topology key 'zon' is not declared: ..."]
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
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import (
    STATES,
    WORKLOAD_ROLLOUT,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            namespace={"type": "str", "required": True},
            rule_set={"type": "str", "default": "default"},
            rules={"type": "raw", "default": []},
            state={"type": "str", "default": "present", "choices": list(STATES)},
            prune={"type": "bool", "default": False},
            adopt={"type": "bool", "default": False},
            workload_rollout={
                "type": "str",
                "default": "refuse",
                "choices": list(WORKLOAD_ROLLOUT),
            },
        ),
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
