#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: rules
short_description: Declare where VMs and other workloads run
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Declares on which nodes VirtualMachines (VMs) and other workloads may run, which of them run apart and which run
    together. Writes what differs into the workloads' templates, many workloads in one task.
  - Nothing is moved, started, stopped or restarted. RV(workloads[].takes_effect) says what has to happen before a
    change applies to what is running, and M(virt.placement.rollout) does it.
  - What others wrote into a template stays as it is. Removing the last rule restores the placement fields to what they
    were before the first one, but for terms that a rule took over with O(adopt), which are not restored.
  - The module names all errors of its input at once, before it writes anything. Rules that would have no effect, or do
    harm, are findings; a finding of severity C(error) refuses the task.
options:
  namespace:
    description: Namespace of the rules and of their workloads.
    type: str
    required: true
  rule_set:
    description:
      - Name of the list of rules. A rule is identified by namespace, rule set and name, so that several playbooks
        can put rules on the same workloads.
    type: str
    default: default
  rules:
    description:
      - The rules. YAML or JSON text of such a list is accepted, as surveys deliver it.
      - Each rule has one of C(run_on), C(avoid), C(keep_apart), C(keep_together), C(spread) and C(terms), or a C(label)
        alone, which only labels the workloads.
      - A topology key is a name from O(topology_keys), such as V(zone), or a label key with its prefix.
    type: raw
    default: []
    suboptions:
      name:
        description:
          - Name of the rule, unique in its rule set. 1 to 63 letters, digits, C(-), C(_) and C(.), as in the values of
            labels.
        type: str
        required: true
      workloads:
        description:
          - The workloads of the rule, a list. The name of a VM is short for a map with that C(name).
          - Required unless O(state=absent).
          - The list is exact. A workload that is no longer in it loses the terms of the rule, and an empty list
            means no workload.
        type: list
        elements: raw
        suboptions:
          kind:
            description: Kind of the workloads.
            type: str
            choices:
              - VirtualMachine
              - VirtualMachineInstanceReplicaSet
              - VirtualMachinePool
              - Deployment
              - StatefulSet
            default: VirtualMachine
          namespace:
            description:
              - Namespace of the workloads, O(namespace) by default. In C(from) and C(with) it may be another one.
            type: str
          name:
            description: Name of one workload. Each map has one of C(name), C(names) and C(labels).
            type: str
          names:
            description: Names of several workloads.
            type: list
            elements: str
          labels:
            description:
              - Labels of the workloads' I(templates). New workloads with these labels join when the task runs again.
            type: dict
      run_on:
        description:
          - Run only on nodes that have one of the values. A map of topology keys to a value or a list of values;
            nodes must match each key.
        type: dict
      avoid:
        description:
          - Do not run on nodes that have one of the values. A map as in C(run_on). Nodes without the key stay allowed.
        type: dict
      keep_apart:
        description:
          - No two instances run in the same topology domain, for example in the same zone. A topology key alone is
            short for a map with that C(topology_key).
          - VMs can still be migrated inside their domain. Old and new pods of a Deployment do not keep each other
            apart.
        type: raw
        suboptions:
          topology_key:
            description: The topology key, for example V(zone) or V(node).
            type: str
            required: true
          from:
            description:
              - Keep the workloads apart from these, and not from each other. One workload or a list, each as in
                C(workloads).
            type: raw
          pods:
            description: Keep the workloads apart from the pods with these labels. One map or a list of maps.
            type: raw
            suboptions:
              labels:
                description: Labels of the pods.
                type: dict
                required: true
              namespaces:
                description: Namespaces of the pods, O(namespace) by default.
                type: list
                elements: str
      keep_together:
        description:
          - Instances run in one topology domain. A topology key alone is short for a map with that C(topology_key).
          - With C(with) or C(pods) the workloads follow the target. The target itself is not changed. Without them all
            workloads of the rule follow each other. If C(topology_key) is then V(node), these VMs could never be
            migrated. This is the finding C(mutual_affinity).
        type: raw
        suboptions:
          topology_key:
            description: The topology key, for example V(zone) or V(node).
            type: str
            required: true
          with:
            description: The target, one workload as in C(workloads).
            type: raw
          pods:
            description: The target, pods by their labels.
            type: dict
            suboptions:
              labels:
                description: Labels of the pods.
                type: dict
                required: true
              namespaces:
                description: The namespace of the pods, exactly one, O(namespace) by default.
                type: list
                elements: str
      spread:
        description:
          - The numbers of instances in the topology domains differ by C(max_skew) at most. A topology key alone is
            short for a map with that C(topology_key).
        type: raw
        suboptions:
          topology_key:
            description: The topology key, for example V(zone) or V(node).
            type: str
            required: true
          max_skew:
            description: The largest difference. It is not the largest number of instances in a domain.
            type: int
            default: 1
      terms:
        description:
          - Placement fields of a pod as Kubernetes writes them, C(nodeSelector), C(affinity), C(tolerations) and
            C(topologySpreadConstraints).
        type: dict
      label:
        description:
          - One label and its value. The workloads get it in their templates and on what is running, and terms of
            the rule select by it.
          - Keys of KubeVirt, of Kubernetes (except C(app.kubernetes.io/)) and of this collection are refused. A
            label that a running pod or VMI has with another value is never overwritten.
        type: dict
      preferred:
        description:
          - The scheduler prefers nodes that satisfy the rule, and uses other nodes if there are none. Not for C(terms).
        type: bool
        default: false
      weight:
        description:
          - Weighs preferred rules against each other, from V(1) to V(100). V(100) where it is not given. Only with
            C(preferred), and not for C(spread).
        type: int
      enabled:
        description:
          - With V(false) the rule rests. Its workloads have none of its terms and labels, but still know the rule, and
            M(virt.placement.rules_info) lists it. With V(true) they get the same terms again.
          - A rule that rests is checked for valid options and for workloads that exist, and has no other findings.
          - To disable a rule that workloads have, its name is enough. C(workloads) and the rule type may be omitted
            then.
        type: bool
        default: true
      allow_findings:
        description: Names of findings that are accepted for this rule, those of severity C(error) included.
        type: list
        elements: str
  state:
    description:
      - With V(present) the rules are written.
      - With V(absent) they are removed by name, from each workload of the namespace, or only from those that
        C(workloads) of a rule names. Names that no workload has change nothing.
      - With V(reverted) the placement fields and labels of the workloads become what they were before the last change
        of the rule set, with the rules that it removed and without those that it added. A task that was run again with
        the same rules for the same workloads is the same change. O(rules), O(prune) and O(adopt) do not go with it.
      - A workload that others have changed since is left as it is, and named by the finding C(not_reverted). So is one
        with a label that other workloads require. If there is no other workload, the task fails. It also fails if no
        workload has a record of the rule set.
      - A second task with V(reverted) changes nothing. There is no undo of the undo. Write the rules again.
    type: str
    choices: [present, absent, reverted]
    default: present
  change:
    description:
      - With O(state=reverted), undo only this change, as RV(change.id) of the task that made it. The task fails before
        it writes if another change of the rule set is the last one by now.
    type: str
  prune:
    description: Remove each rule of the rule set in this namespace that is not in O(rules), also from its policy for
      workloads that are created later.
    type: bool
    default: false
  adopt:
    description:
      - With V(true), a rule takes over terms that are in a template already and are equal to its own. They are removed
        with the rule.
      - A C(nodeSelector) entry that equals a required C(run_on) is replaced by the rule's term. Removing the rule
        does not bring the entry back.
      - V(similar) does the same, and the rule's term also replaces similar terms. Such a term is in the same place
        (required or preferred; affinity, anti-affinity or spread) over the same topology key and about the same
        namespaces. Its selector is missing, or it selects exactly the pods that the rule's term selects.
        C(matchLabelKeys), C(mismatchLabelKeys), C(nodeTaintsPolicy) and the weight may differ. Removing the rule does
        not bring the term back. O(state=reverted) does, until the next change of rules on the workload.
      - Without V(similar), the finding C(similar_term) names such a term.
      - A term of a rule that a console wrote again without C(mismatchLabelKeys) needs no option. It is replaced.
    type: str
    choices: ['false', 'true', similar]
    default: 'false'
  workload_rollout:
    description:
      - What to do if the write makes a controller replace running pods, as for a Deployment or StatefulSet, or restart
        running VMs, as for a VirtualMachinePool. By default KubeVirt restarts all VMs of a pool at once.
      - V(refuse) refuses with the finding C(starts_workload_rollout), V(allow) writes.
      - V(hold) is for a StatefulSet or a VirtualMachinePool. The same write sets its update strategy to C(OnDelete) or
        C(opportunistic), so that nothing is replaced by that, and keeps the strategy that it had in the annotation
        C(placement.virt/hold). M(virt.placement.rollout) then replaces the pods, which needs V(recreate) in its
        O(virt.placement.rollout#module:allow), or moves the VMs, within its limits, and gives the strategy back.
      - A hold of a Deployment is refused, since it has no strategy that replaces nothing. Limit its rollout by
        C(spec.strategy.rollingUpdate), and use V(allow).
      - A hold of a StatefulSet with a C(partition) of its own is refused, as is that of a pool before KubeVirt 1.7,
        which has no strategy for it, or of one whose strategy updates some of its VMs only (C(selectors)).
      - A StatefulSet with the strategy C(OnDelete), or with a C(partition) above all its replicas, replaces no pod by
        itself, and neither does a Deployment that is paused, or a pool with the strategy C(opportunistic). The option
        does not concern them. It does concern a pool that is paused, which restarts its VMs once it is resumed.
    type: str
    choices: [refuse, allow, hold]
    default: refuse
  new_members:
    description:
      - What workloads of the namespace get that are created later, and that O(rules) name or choose by labels.
      - With V(none) they get nothing until this task runs again.
      - With V(policy) the API server gives them at their creation what this task would write, by a
        MutatingAdmissionPolicy and its binding for namespace and rule set. That needs Kubernetes 1.36. O(rules) may
        name workloads that do not exist yet.
      - With V(warn) the client that creates such a workload gets a warning, by a ValidatingAdmissionPolicy. That needs
        Kubernetes 1.30.
      - The option is about the rules of the task. With V(none) they are taken out of a policy that has them. Rules that
        are not listed stay in it, unless O(prune=true). With O(state=absent) rules leave it, too, and a policy without
        rules is deleted. A rule that rests stays in it without its terms.
      - Without the right to write policies, the rules are written and RV(new_members.manifests) are for an
        administrator. But where rules are to leave a policy, or to rest, the task fails before it writes, since the
        policy would go on giving them to new workloads.
      - With O(state=reverted) the policy is deleted, since it may have rules that the last change added.
      - The policy is written before the workloads, and changes nothing of those that exist. It is for creations alone,
        so that it never brings back what was removed. A creation that it cannot serve is not refused.
      - A rule with terms that depend on the names, selectors or number of its workloads is in no policy. RV(outcome)
        names it.
    type: str
    choices: [none, policy, warn]
    default: none
    version_added: 1.0.0
  fail_on_forecast:
    description:
      - Makes a forecast of the rules with M(virt.placement.forecast_info), and fails before the task writes if the
        forecast is in this list. With an empty list no forecast is made.
      - Without a forecast, only findings refuse rules, for example if a rule keeps more VMs apart than there are zones.
        A forecast also considers requests, volumes, and whether VMs can be moved. It reads all pods of the cluster.
      - Problems that exist without the rules do not fail the task. The same holds for objects that could not be read,
        which the task warns of.
      - The role C(placement_apply) makes a forecast of its own.
    type: list
    elements: str
    choices: [possible, impossible, unknown]
    default: []
  fail_on_findings:
    description:
      - Names of findings, or severities (V(error), V(warning), V(info)). The task fails before it writes if a finding
        of the rules is in this list and is not allowed by C(allow_findings) of its rule. Errors always fail it.
      - With V(blocks_node_drain) rules are refused after which a node can no longer be emptied by live migration. The
        forecast that this needs is made as for O(fail_on_forecast).
    type: list
    elements: str
    default: []
  forecast:
    description:
      - What M(virt.placement.forecast_info) returned for the same rules, for O(fail_on_forecast) and
        O(fail_on_findings). If it is not given, the task makes the forecast.
    type: dict
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.assume_node_labels
  - virt.placement.placement
attributes:
  check_mode:
    support: full
    details: >-
      Warns of workloads that need a restart or a recreation before a change is enforced. Asks the server by dry runs,
      so that what an admission policy or webhook would refuse fails here, too.
  diff_mode:
    support: full
    details: >-
      Shows the placement fields and labels that differ, and the names of the rules. Below, the same in words:
      C(+ rule shop/default/web-apart), C(+ pod anti-affinity over zone to app In (web)). A policy for workloads that
      are created later shows what they get, or no longer get, after C(+ at creation of VirtualMachine db-2).
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
  - PyYAML, where O(rules) is text
notes:
  - O(assume_node_labels) counts in check mode only.
  - Needs the rights of the cluster roles C(virt-placement-reader) and C(virt-placement-mover). Missing rights are
    reported before the first write, in check mode too.
  - Numbers and booleans in O(rules) may be text. Text that YAML reads as another type has to be quoted.
  - Rules for a C(DaemonSet) or C(Pod) are refused. So are those for a C(VirtualMachinePool) with an empty selector,
    with a VM that another object owns, too, or with the update strategy C(unmanaged).
  - Labels do not choose the VMs of a pool, and a rule that names one is refused with the finding
    C(externally_managed). Make it on the pool (kind C(VirtualMachinePool)).
  - The workload's annotations C(placement.virt/rules) and C(placement.virt/undo) record which rule owns which term
    and what was enforced before the last change. O(state=reverted) restores from it.
  - docs/findings.md in the collection lists all findings about rules. C(duplicate_spread), C(label_conflict),
    C(node_selector_conflict) and C(node_terms_conflict) cannot be allowed, because such a term cannot be written.
seealso:
  - module: virt.placement.node_labels
  - module: virt.placement.rollout
  - module: virt.placement.placement_info
"""

EXAMPLES = r"""
- name: Run three web servers in different zones
  virt.placement.rules:
    namespace: shop
    rules:
      - name: web-one-per-zone
        workloads: [web-1, web-2, web-3]
        keep_apart: zone

- name: Run the database on fast nodes and the application beside it, and fail if the forecast is impossible
  virt.placement.rules:
    namespace: shop
    rule_set: tiers
    fail_on_forecast: [impossible]
    rules:
      - name: db-on-fast-nodes
        workloads: [db]
        run_on:
          performance: high
      - name: app-with-db
        workloads: [app]
        keep_together:
          topology_key: node
          with: db

- name: Keep a cache off fast nodes if possible, and let its rollout begin
  virt.placement.rules:
    namespace: shop
    rule_set: cache
    workload_rollout: allow
    rules:
      - name: cache-prefers-slow-nodes
        workloads:
          - kind: Deployment
            name: varnish-cache
        avoid:
          performance: high
        preferred: true
        weight: 10

- name: Spread the VMs with a label over the zones, new ones too when this task runs again
  virt.placement.rules:
    namespace: shop
    rule_set: web
    rules:
      - name: web-even
        workloads:
          - labels:
              tier: web
        spread: zone

- name: Spread them, and let the API server do so for VMs that are created later
  virt.placement.rules:
    namespace: shop
    rule_set: web
    new_members: policy
    rules:
      - name: web-even
        workloads:
          - labels:
              tier: web
        spread: zone

- name: Keep the VMs of a pool apart by a label of their own
  virt.placement.rules:
    namespace: guests
    rules:
      - name: pool1-apart
        workloads: [pool1-a, pool1-b]
        label:
          harvesterhci.io/machineSetName: guests-rke2-pool1
        keep_apart: node
        preferred: true

- name: Write the fields as Kubernetes does
  virt.placement.rules:
    namespace: shop
    rule_set: raw
    rules:
      - name: legacy-tolerates-maintenance
        workloads: [legacy]
        terms:
          tolerations:
            - key: example.com/maintenance
              operator: Exists
              effect: NoSchedule

- name: Remove a rule from each workload that has it
  virt.placement.rules:
    namespace: shop
    state: absent
    rules:
      - name: db-one-per-zone

- name: Undo the last change of the rule set
  virt.placement.rules:
    namespace: shop
    state: reverted

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
  description: Workloads that change. In check mode, or if the task is refused, workloads that would change.
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
      description: Names of the rules that it has now and did not have before.
      type: list
      elements: str
    updated:
      description: Names of the rules with constraints that changed, or were restored.
      type: list
      elements: str
    removed:
      description: Names of the rules that it no longer has.
      type: list
      elements: str
    takes_effect:
      description:
        - What has to happen before the change applies to what is running. For several instances, the most disruptive.
        - V(migration), V(restart) and V(recreate) are moves of M(virt.placement.rollout). A StatefulSet whose own
          rollout is held has V(recreate). V(workload_rollout) starts with the write, or once a paused
          Deployment or pool is resumed or the C(partition) of a StatefulSet lowered.
        - VMs that need each other on one node can never be live-migrated (the finding C(mutual_affinity)), so it is
          V(restart) for them.
        - V(start) means that nothing is running, so the next start applies the change. V(now) means that nothing has to
          happen.
      type: str
    patch:
      description:
        - The change of the workload that was made, or would be, as JSON Patch (RFC 6902). It is sent with
          C(test) operations, so it fails if the workload was replaced or these fields changed since they were read.
        - Empty where the request is refused, except for a workload that another tool manages. Then it is the patch
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
held:
  description:
    - StatefulSets and pools that the rule set has written, and whose own rollouts are held since
      O(workload_rollout=hold) of this task or an earlier one, also where no rule of the rule set is left. In check
      mode, also those that would be held.
    - M(virt.placement.rollout) takes them as O(virt.placement.rollout#module:workloads), and ends the holds.
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
  sample:
    - {kind: StatefulSet, namespace: shop, name: db}
new_members:
  description: The policy for workloads that are created later. In check mode as it would be.
  returned: unless the input is refused, with O(new_members) other than V(none), or if a policy loses rules
  type: dict
  contains:
    manifests:
      description:
        - The policy and its binding, as C(kubectl apply) takes them. An identity without the right to write policies
          leaves them to another one.
        - Empty if there is no policy, or none any more.
      type: list
      elements: dict
    covered:
      description: Names of the rules in it.
      type: list
      elements: str
    not_covered:
      description: Rules that no policy can write.
      type: list
      elements: dict
      contains:
        rule:
          description: Name of the rule.
          type: str
        code:
          description: Always V(not_covered).
          type: str
        reason:
          description: Why no policy can write it.
          type: str
        advice:
          description: What to do.
          type: str
    expected:
      description: Workloads that O(rules) name and that do not exist yet.
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
    created_meanwhile:
      description:
        - Workloads that O(rules) name and that lack these rules at the last read of this task, since they were created
          before the policy was in force, are clones, or have an annotation that cannot be read. The next run writes
          the rules, or says what a clone or such an annotation needs first. Of those that were created later
          M(virt.placement.placement_info) and M(virt.placement.lint_info) have the finding V(rule_not_on_new_member).
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
    workloads:
      description:
        - What the rules choose without RV(new_members.expected).
        - Option O(virt.placement.rollout#module:workloads) takes it as it is.
      type: list
      elements: dict
      contains:
        kind:
          description: Kind of the workloads.
          type: str
        namespace:
          description: Their namespace.
          type: str
        names:
          description: Their names.
          type: list
          elements: str
        labels:
          description: Labels of their pod templates.
          type: dict
  sample:
    manifests: []
    covered: [web-even]
    not_covered: []
    expected:
      - {kind: VirtualMachine, namespace: shop, name: web-d}
    created_meanwhile: []
    workloads:
      - kind: VirtualMachine
        namespace: shop
        labels: {tier: web}
change:
  description: The change of the rule set that the written workloads belong to, for O(change) of an undo.
  returned: if rules of a workload were written or removed, or may have been where a connection was lost
  type: dict
  contains:
    id:
      description: Names the change among all changes of the rule set.
      type: str
    continues:
      description:
        - Whether an earlier task has begun the change. It had the same rules for the same workloads, and was
          interrupted, or one of its terms was lost since. An undo then also undoes what that task has written.
      type: bool
  sample: {id: 3-5f0c8a1d2b7e, continues: false}
reverted:
  description:
    - Workloads that this task or an earlier one restored as they were before the last change. In check mode, also
      those that would be restored.
    - M(virt.placement.rollout) takes them as O(virt.placement.rollout#module:workloads).
  returned: with O(state=reverted)
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
    - {kind: VirtualMachine, namespace: shop, name: web-a}
not_reverted:
  description: Workloads that the last change has written, and that are left as they are.
  returned: with O(state=reverted)
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
    reason:
      description: Why it is left.
      type: str
  sample: []
findings:
  description: What is wrong with the rules and their workloads, or may be.
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
      description: Workloads that have one of the rules, get one, or had one.
      type: int
    changed:
      description: Workloads that were changed; in check mode, that would be.
      type: int
    unchanged:
      description: Workloads that needed no change.
      type: int
    failed:
      description: Workloads that could not be written, in full or in part.
      type: int
  sample: {workloads: 3, changed: 1, unchanged: 2, failed: 0}
outcome:
  description:
    - What the result says for people, as lists of entries with C(code), C(text) and C(objects). A role prints them when
      its job ends. The texts may change in a later release. See docs/architecture.md, B(What a result says for people).
    - C(done) is V(rules_added), V(rules_updated), V(rules_removed) or V(unchanged), with O(state=reverted)
      V(constraints_restored), V(none_written) where findings, the forecast or the missing right to take rules out of a
      policy refused the rules before the first write, and V(held) with the workloads of RV(held).
    - Of O(new_members) C(done) has V(policy_written), V(policy_removed), V(policy_rules_removed),
      V(policy_rules_narrowed) for rules that stay in the policy for other workloads, and V(expected) for workloads
      of RV(new_members.expected) that get rules.
    - C(skipped) has V(not_written) for workloads of RV(errors), and with O(state=reverted) V(not_reverted). It has
      V(not_covered) for rules that no policy can write, V(policy_not_written) where the right to write policies is
      missing, V(policy_unknown) where rules go and policies that may have them cannot be read, V(policy_rules_kept)
      where workloads lose rules and labels in the policy still choose new ones, and V(created_meanwhile) for workloads
      of RV(new_members.created_meanwhile).
    - C(next) is V(held) where a rollout has to end a hold, V(policies_writer) where the right to write policies is
      missing, and V(externally_managed) where Argo CD or another tool also applies a policy that the task changes. With
      O(state=reverted) it is V(policy_rules_removed) for rules to write again with O(new_members).
    - After a failure C(next) begins with V(nothing_written), with V(unfinished) after a write, with V(cluster_away)
      where the API server does not answer, or with V(failed) where it is unknown whether something was written.
  returned: always, unless Ansible refuses the options or the module crashes
  type: dict
  sample:
    done:
      - {code: rules_added, text: rules added, objects: [web-one-per-zone (3 workloads)]}
    skipped: []
    next: []
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
        - The patch of a workload stands in RV(workloads[].patch). A policy that is written stands in
          RV(new_members.manifests).
      returned: for a running VMI or pod
      type: list
      elements: dict
  sample: []
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
  description:
    - Why the task failed. Only with errors of type V(api) and the finding C(changed_by_webhook) something may have
      been written.
  returned: failure
  type: list
  elements: dict
  contains:
    type:
      description: One of V(input), V(permission), V(finding) and V(api).
      type: str
    message:
      description: What is wrong, and what to do. RV(ignore:msg) has all messages.
      type: str
    object:
      description: The option, rule, right or Kubernetes object that is concerned. May be empty.
      type: str
  sample:
    - type: input
      message: "rules[0] web, keep_apart: topology key 'zon' is not declared: ..."
      object: "rules[0] web, keep_apart"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    ADOPT_OPTION,
    ASSUME_NODE_LABELS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task
from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import RULE_KINDS
from ansible_collections.virt.placement.plugins.module_utils.rules.change import WORKLOAD_ROLLOUT
from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import NONE
from ansible_collections.virt.placement.plugins.module_utils.rules.registry import (
    NEW_MEMBERS,
    RESTORATIONS,
)

POD_LABELS = {
    "labels": {"type": "dict", "required": True},
    "namespaces": {"type": "list", "elements": "str"},
}
TOPOLOGY_KEY = {"type": "str", "required": True, "no_log": False}
RULE_OPTIONS = {
    "name": {"type": "str", "required": True},
    "workloads": {
        "type": "list",
        "elements": "raw",
        "options": {
            "kind": {"type": "str", "default": "VirtualMachine", "choices": list(RULE_KINDS)},
            "namespace": {"type": "str"},
            "name": {"type": "str"},
            "names": {"type": "list", "elements": "str"},
            "labels": {"type": "dict"},
        },
    },
    "run_on": {"type": "dict"},
    "avoid": {"type": "dict"},
    "keep_apart": {
        "type": "raw",
        "options": {
            "topology_key": TOPOLOGY_KEY,
            "from": {"type": "raw"},
            "pods": {"type": "raw", "options": POD_LABELS},
        },
    },
    "keep_together": {
        "type": "raw",
        "options": {
            "topology_key": TOPOLOGY_KEY,
            "with": {"type": "raw"},
            "pods": {"type": "dict", "options": POD_LABELS},
        },
    },
    "spread": {
        "type": "raw",
        "options": {"topology_key": TOPOLOGY_KEY, "max_skew": {"type": "int", "default": 1}},
    },
    "terms": {"type": "dict"},
    "label": {"type": "dict"},
    "preferred": {"type": "bool", "default": False},
    "weight": {"type": "int"},
    "enabled": {"type": "bool", "default": True},
    "allow_findings": {"type": "list", "elements": "str"},
}
"""Ansible does not check them, because `rules` may be text: `rules/parse` reports all errors at once."""


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            namespace={"type": "str", "required": True},
            rule_set={"type": "str", "default": "default"},
            rules={"type": "raw", "default": [], "options": RULE_OPTIONS},
            state={
                "type": "str",
                "default": "present",
                "choices": ["present", "absent", *RESTORATIONS],
            },
            change={"type": "str"},
            prune={"type": "bool", "default": False},
            adopt=ADOPT_OPTION,
            workload_rollout={
                "type": "str",
                "default": "refuse",
                "choices": list(WORKLOAD_ROLLOUT),
            },
            new_members={
                "type": "str",
                "default": NONE,
                "choices": [NONE, *NEW_MEMBERS],
            },
            fail_on_forecast={
                "type": "list",
                "elements": "str",
                "default": [],
                "choices": ["possible", "impossible", "unknown"],
            },
            fail_on_findings={"type": "list", "elements": "str", "default": []},
            forecast={"type": "dict"},
            **ASSUME_NODE_LABELS,
        ),
        supports_check_mode=True,
    )
    run_task(module, run, of_change=True)


if __name__ == "__main__":
    main()
