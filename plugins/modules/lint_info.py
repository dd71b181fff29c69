#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lint_info
short_description: Lint rules and manifests before they reach a cluster
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Says what is wrong with the placement of workloads in manifests, and with rules of M(virt.placement.rules), before
    anything is written. No cluster is needed, so a pipeline can look at every commit.
  - Manifests of nodes and namespaces among the input are taken for all that there are. Then also keys that no node has,
    values that none has, and domains that are too few are found. Without them nothing is claimed about nodes.
  - With O(online) the nodes, namespaces, pods, workloads and versions of a cluster are read, and the input is judged
    as if it stood there.
  - What already stands on a cluster is linted by M(virt.placement.placement_info).
  - Reads, and writes nothing. It does not fail because of findings, see the examples for that.
options:
  files:
    description:
      - Files of YAML or JSON on the host that runs the module, each with one or more documents.
      - Of a folder every file that ends with C(.yml), C(.yaml) or C(.json) is read, also in the folders below.
      - Documents that are no Kubernetes object with a placement are passed over, and counted.
      - Fields that are no placement are passed over, too; one that is nearly a placement field, as C(nodeSelecter), is
        a fault.
    type: list
    elements: path
    default: []
  manifests:
    description:
      - Kubernetes objects. A list of maps, or the YAML or JSON text of one or more documents.
    type: raw
    default: []
  rules:
    description:
      - Rules in the form that M(virt.placement.rules) takes. A list of maps, or the YAML or JSON text of one.
      - A rule whose workloads and targets are all among the manifests is judged as it would stand in them, beside the
        terms that they have. Terms there that say the same already are taken for those of the rule, as with
        O(virt.placement.rules#module:adopt).
      - Any other rule is judged by itself and together with the rules here, with a warning where the manifests hold
        other workloads of the kind and namespace that it names. Workloads are not looked up on a cluster,
        for that is what M(virt.placement.forecast_info) and check mode of M(virt.placement.rules) do.
    type: raw
    default: []
  namespace:
    description: Namespace of the rules, and of manifests that name none.
    type: str
    default: default
  rule_set:
    description: The rule set, as in M(virt.placement.rules).
    type: str
    default: default
  kubernetes_version:
    description:
      - Version of the Kubernetes that all this is meant for, for example V(1.34).
      - With it fields that are newer than the server are found, and bugs of its scheduler are findings only where they
        are. With O(online) it is read.
    type: str
  kubevirt_version:
    description: Version of KubeVirt on that cluster. Left out, there is none.
    type: str
  online:
    description:
      - Judge the input as if it stood on a cluster, which is read for that.
      - Rules and manifests of virtual machines are errors where KubeVirt is not installed.
    type: bool
    default: false
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - virt.placement.attributes
  - virt.placement.attributes.info
  - virt.placement.assume_node_labels
  - virt.placement.placement
requirements:
  - python >= 3.10
  - PyYAML, where there are O(files), or text in place of data
  - kubernetes >= 28.1.0, with O(online)
notes:
  - Authentication, O(cluster_uid) and O(timeout) count with O(online) only, which needs the rights of the cluster role
    C(virt-placement-reader).
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
  - module: virt.placement.forecast_info
"""

EXAMPLES = r"""
- name: Lint what a repository holds
  virt.placement.lint_info:
    files: ["{{ playbook_dir }}/manifests"]
    kubernetes_version: "1.34"
    kubevirt_version: v1.8.4
  delegate_to: localhost
  register: linted

- name: Stop the pipeline where something is wrong
  ansible.builtin.assert:
    that: linted.counts.error == 0
    fail_msg: >-
      {% for each in linted.findings if each.severity == 'error' %}
      {{ each.name }} ({{ (['rule ' ~ each.rule] if each.rule else []) | union(each.objects) | join(', ') }}):
      {{ each.why }} {{ each.advice }}
      {% endfor %}

- name: Lint rules before they are written, with the labels that the nodes are going to have
  virt.placement.lint_info:
    namespace: shop
    rules:
      - name: database-one-per-zone
        workloads: [{names: [db1, db2, db3]}]
        keep_apart: zone
    manifests:
      - {kind: Node, metadata: {name: w1, labels: {topology.kubernetes.io/zone: z1}}}
      - {kind: Node, metadata: {name: w2, labels: {topology.kubernetes.io/zone: z2}}}

- name: Lint rules as they would stand in the manifests of a repository
  virt.placement.lint_info:
    files: ["{{ playbook_dir }}/manifests"]
    namespace: shop
    rules: "{{ lookup('ansible.builtin.file', 'rules.yml') }}"

- name: Lint a manifest as if it stood on the cluster
  virt.placement.lint_info:
    files: ["{{ playbook_dir }}/machines/db1.yml"]
    online: true
"""

RETURN = r"""
findings:
  description:
    - What is wrong, or may be, the worst first. Names are those of RV(virt.placement.placement_info#module:findings),
      and C(docs/findings.md) says which of them can be seen without a cluster.
    - Of nodes among the manifests also what RV(virt.placement.topology_info#module:findings) says of their labels.
    - There is one warning for each name of a finding that is not V(info).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, which stays the same from release to release.
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
      description: Name of the rule that it is about, empty for terms that no rule owns.
      type: str
  sample:
    - name: selector_matches_nothing
      severity: error
      why: >-
        The pod anti-affinity term over topology.kubernetes.io/zone has no labelSelector, which selects no pod, so it
        has no effect.
      advice: Give it a labelSelector that the labels of the pods' template satisfy.
      objects: [VirtualMachine default/rke2-pool1-1]
      rule: ""
counts:
  description: How much was looked at, and how many findings there are.
  returned: success
  type: dict
  contains:
    objects:
      description: Workloads, machines and pods among the manifests.
      type: int
    rules:
      description: Rules.
      type: int
    nodes:
      description: Nodes that are known, of the manifests or of the cluster.
      type: int
    passed_over:
      description: Documents that are no object with a placement.
      type: int
    error:
      description: Findings that are errors.
      type: int
    warning:
      description: Findings that are warnings.
      type: int
    info:
      description: Findings that only tell.
      type: int
  sample: {objects: 3, rules: 0, nodes: 0, passed_over: 1, error: 1, warning: 0, info: 0}
permission_gaps:
  description: What could not be read of the cluster. Nothing is claimed about it.
  returned: success
  type: list
  elements: dict
  contains:
    resource:
      description: The resource.
      type: str
    namespace:
      description: The namespace, empty for all.
      type: str
    verb:
      description: The verb that is missing.
      type: str
    reason:
      description: What the server said, and what to do.
      type: str
  sample: []
cluster:
  description: The cluster that was read, nothing without O(online).
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
  sample: {api: null, uid: null}
errors:
  description: Why the task failed. Findings are in RV(findings).
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
      message: "web.yml (Deployment web), spec.replicas: must be a whole number, not 'three'"
      object: "web.yml (Deployment web), spec.replicas"
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.lint import run, run_online
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    ASSUME_NODE_LABELS,
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import (
    run_offline,
    run_task,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            files={"type": "list", "elements": "path", "default": []},
            manifests={"type": "raw", "default": []},
            rules={"type": "raw", "default": []},
            namespace={"type": "str", "default": "default"},
            rule_set={"type": "str", "default": "default"},
            kubernetes_version={"type": "str"},
            kubevirt_version={"type": "str"},
            online={"type": "bool", "default": False},
            **ASSUME_NODE_LABELS,
        ),
        required_by={"kubevirt_version": ["kubernetes_version"]},
        supports_check_mode=True,
    )
    if module.params["online"]:
        run_task(module, run_online)
    else:
        run_offline(module, run)


if __name__ == "__main__":
    main()
