#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: lint_info
short_description: Find mistakes in placement rules and manifests before they reach a cluster
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Reports affinity, anti-affinity, node affinity and topology spread constraints that have no effect, can never be
    satisfied, or block live migration. Input is manifests, rules of M(virt.placement.rules), or both.
  - Needs no cluster, so that a pipeline can check every commit.
  - If the input has Node or Namespace manifests, these count as the complete list. With them, keys and values that no
    node has are found too. Labels that the kubelet sets, such as C(kubernetes.io/os), may lack in them.
  - Without O(online), Pods count as all that run on the cluster if they were read from it, with C(uid) and C(nodeName).
  - A warning names Node manifests, and Pods of a cluster, that were found in a folder.
  - With PersistentVolumeClaim manifests, rolling updates are checked against their access modes, and against the
    nodes of PersistentVolume manifests.
  - VMs are checked with the node labels that KubeVirt adds to their pods, as far as these are known, and with the
    instance types and preferences among the input. A warning names those that were not read.
  - With O(online) the input is checked as if it were on a cluster. Its nodes, namespaces, pods and workloads are read,
    and its instance types if a VM names one.
  - M(virt.placement.placement_info) has the findings for objects that are on a cluster already.
  - Changes nothing, and does not fail because of findings. Use RV(ok) to stop a pipeline.
options:
  files:
    description:
      - Files of YAML or JSON on the host that runs the module, each with one or more documents, or with a list of
        objects.
      - They are read as YAML 1.1, where of equal keys the last one counts. Definitions of custom resources are not
        parsed.
      - In a folder all files that end with C(.yml), C(.yaml) or C(.json) are read, with all subfolders except C(.git),
        C(node_modules), and C(vendor) of a Go module. Name such a folder by itself to read it.
      - A folder may hold more than manifests. Templates that are not rendered, patches of kustomize, documents without
        C(apiVersion) or C(kind), and what is not YAML are passed over, as are links to outside of the folder, pipes,
        devices, and files with another ending such as C(vm.yaml.j2). One warning has their numbers by reason, and
        RV(passed_over) names them. A file that is named by itself must be a manifest, or a patch that a
        C(kustomization.yaml) in its folder or the one above names.
      - If only a name or a label is to be filled in, such as C(${NAME}), its value is not known. The object is checked,
        without findings that depend on the value, and a warning names it. If a node label, a topology key, a namespace
        of a term or the like is to be filled in, the object is passed over as a template.
      - Several manifests of one workload, such as one for each environment, are each checked with their own terms.
        Terms of others may select the pods of any of them.
      - A field with a name similar to that of a placement field, such as C(nodeSelecter), or at the wrong level, is an
        error. In a folder it is the finding C(invalid_manifest), and the other manifests are checked.
      - Checked are Pods, all kinds of Kubernetes and KubeVirt with a template of pods or VMIs, and C(DeploymentConfig),
        C(Rollout) of Argo, C(Service) of Knative, C(KubevirtMachine), C(KubevirtMachineTemplate),
        C(VirtualMachineTemplate), and C(VirtualMachineTemplateVersion) of Harvester, also inside lists,
        OpenShift templates, C(ManifestWork) and C(ClusterServiceVersion). Objects of other kinds that have placement
        fields are counted by kind.
    type: list
    elements: path
    default: []
  exclude:
    description:
      - Files and folders that are left out of the folders in O(files), as patterns of Python's C(fnmatch).
      - A pattern without a slash, such as V(charts) or V(*.tpl.yaml), matches a name at any depth. One with a slash,
        such as V(/charts) or V(deploy/*/values.yaml), matches a path relative to the folder in O(files), and C(*) in it
        matches slashes, too. A slash at the end counts for nothing.
      - A pattern that matches nothing is a warning.
    type: list
    elements: str
    default: []
  manifests:
    description:
      - Kubernetes objects, as a list of maps, or as YAML or JSON text with one or more documents.
    type: raw
    default: []
  rules:
    description:
      - Rules, as in O(virt.placement.rules#module:rules), as a list of maps, or as YAML or JSON text.
      - If all workloads of a rule are among the manifests, the rule is checked as it would be written to them. Equal
        constraints count as constraints of the rule, as with O(virt.placement.rules#module:adopt). Of several manifests
        of one workload this is the last one.
      - Any other rule is checked by itself. There is a warning if the manifests have other workloads of the same kind
        and namespace.
      - Workloads are not read from the cluster. M(virt.placement.forecast_info) and check mode of
        M(virt.placement.rules) do that.
    type: raw
    default: []
  namespace:
    description: Namespace of the rules, and of manifests without a namespace.
    type: str
    default: default
  exclude_namespaces:
    description:
      - Leave out findings about manifests in these namespaces. Terms of other manifests may still select their pods.
    type: list
    elements: str
    default: []
  rule_set:
    description: The rule set, as in M(virt.placement.rules).
    type: str
    default: default
  new_members:
    description:
      - With V(policy) or V(warn), return the policy for workloads that are created later as RV(new_members), so that a
        repository can hold it. It is the one that M(virt.placement.rules) writes with the same O(rules).
      - Without O(online) it is for Kubernetes of O(kubernetes_version), or for the newest one.
    type: str
    choices: [none, policy, warn]
    default: none
    version_added: 1.0.0
  kubernetes_version:
    description:
      - Version of Kubernetes on the cluster, for example V(1.34). With O(online) it is read.
      - With it, fields that are newer than the server are found, and known errors of its scheduler.
    type: str
  kubevirt_version:
    description:
      - Version of KubeVirt on the cluster. Needs O(kubernetes_version).
      - With O(kubernetes_version) alone, fields that only KubeVirt is too old for are not found. With O(online) it is
        read.
    type: str
  online:
    description:
      - Check the input as if it were on the cluster, and read what that needs.
      - Rules for VirtualMachines, and their manifests, are errors where KubeVirt is not installed.
    type: bool
    default: false
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.attributes.info
  - virt.placement.assume_node_labels
  - virt.placement.placement
requirements:
  - python >= 3.10
  - PyYAML, for O(files) and for options that are text
  - kubernetes >= 28.1.0, with O(online)
notes:
  - Authentication, O(cluster_uid) and O(timeout) are used with O(online) only, which needs the rights of the cluster
    role C(virt-placement-reader).
seealso:
  - module: virt.placement.rules
  - module: virt.placement.placement_info
  - module: virt.placement.forecast_info
"""

EXAMPLES = r"""
- name: Check a rule
  virt.placement.lint_info:
    namespace: shop
    rules:
      - name: web-one-per-zone
        workloads: [web-1, web-2, web-3]
        keep_apart: zone

- name: Check the manifests of a repository
  virt.placement.lint_info:
    files:
      - "{{ playbook_dir }}/manifests"
    kubernetes_version: "1.34"
    kubevirt_version: v1.8.4
  register: linted

- name: Check a repository without its charts
  virt.placement.lint_info:
    files:
      - "{{ playbook_dir }}/.."
    exclude:
      - charts/
      - "*.tpl.yaml"

- name: Stop the pipeline on errors
  ansible.builtin.assert:
    that: linted.ok
    fail_msg: >-
      {% for finding in linted.findings if finding.severity == 'error' %}
      {{ finding.name }} in {{ finding.rule or finding.objects | join(', ') }}: {{ finding.why }} {{ finding.advice }}
      {% endfor %}

- name: Check a rule with the labels that the nodes will have
  virt.placement.lint_info:
    namespace: shop
    rules:
      - name: database-one-per-zone
        workloads: [db1, db2, db3]
        keep_apart: zone
    manifests:
      - kind: Node
        metadata:
          name: w1
          labels:
            topology.kubernetes.io/zone: z1
      - kind: Node
        metadata:
          name: w2
          labels:
            topology.kubernetes.io/zone: z2

- name: Check a manifest as if it were on the cluster
  virt.placement.lint_info:
    files:
      - "{{ playbook_dir }}/vms/db1.yml"
    online: true
"""

RETURN = r"""
ok:
  description: False where a finding is an V(error), and where RV(permission_gaps) is not empty.
  returned: success
  type: bool
  sample: false
findings:
  description:
    - What is wrong, or may be, the worst first. C(docs/findings.md) has an example and the fix for each finding.
    - For Node manifests also the findings of RV(virt.placement.topology_info#module:findings).
    - The task has one warning for each name of a finding, except for the severity V(info).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding.
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
      description: The objects that it is about.
      type: list
      elements: str
    rule:
      description: The rule that it is about. Empty for constraints that no rule owns.
      type: str
  sample:
    - name: selector_matches_nothing
      severity: error
      why: >-
        The pod anti-affinity term over zone has no labelSelector, which selects no pod, so it
        has no effect.
      advice: Give it a labelSelector that the labels of the pods' template satisfy.
      objects: [VirtualMachine default/rke2-pool1-1]
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
counts:
  description: How much was checked, and the number of findings.
  returned: success
  type: dict
  contains:
    objects:
      description: Workloads, VMIs, pods and other objects with a template among the manifests.
      type: int
    rules:
      description: Rules.
      type: int
    nodes:
      description: Nodes in the manifests, or of the cluster.
      type: int
    passed_over:
      description: Documents and objects that were not checked. RV(passed_over) has the reasons.
      type: int
    error:
      description: Findings of severity V(error).
      type: int
    warning:
      description: Findings of severity V(warning).
      type: int
    info:
      description: Findings of severity V(info).
      type: int
  sample: {objects: 3, rules: 0, nodes: 0, passed_over: 1, error: 1, warning: 0, info: 0}
rendered:
  description:
    - What the rules put into templates, one entry for each manifest that they are about, and for each name or set of
      labels in C(workloads) that no manifest has. Also for objects that do not exist yet, such as VMs of a machine
      pool. Fields that the server of O(kubernetes_version) and O(kubevirt_version) lacks are left out.
    - A workload has no entry if a finding of severity V(error) keeps a rule from being written to it.
  returned: success
  type: list
  elements: dict
  contains:
    rules:
      description: Names of the rules.
      type: list
      elements: str
    api_version:
      description: API version of the workload.
      type: str
    kind:
      description: Kind of the workload.
      type: str
    namespace:
      description: Namespace of the workload.
      type: str
    name:
      description: Name of the workload. Empty for workloads that are chosen by labels.
      type: str
    labels:
      description:
        - Labels for the metadata of the template, those of the rules and those that the workloads are chosen by.
      type: dict
    placement:
      description:
        - C(affinity), C(nodeSelector), C(tolerations) and C(topologySpreadConstraints) for the spec of the template,
          as far as there are such, with what the manifest has there already.
      type: dict
  sample:
    - rules: [pool-apart]
      api_version: kubevirt.io/v1
      kind: VirtualMachine
      namespace: default
      name: ""
      labels: {harvesterhci.io/machineSetName: default-c1-pool1}
      placement:
        affinity:
          podAntiAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              - topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchExpressions:
                    - key: harvesterhci.io/machineSetName
                      operator: In
                      values: [default-c1-pool1]
                mismatchLabelKeys: [kubevirt.io/created-by]
new_members:
  description: The policy for workloads that are created later.
  returned: with O(new_members) other than V(none), and O(rules)
  type: dict
  contains:
    manifests:
      description: The policy and its binding, as C(kubectl apply) takes them. Empty if no rule is for new workloads.
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
      description: Workloads that O(rules) name and that are not among the input, or with O(online) not on the cluster.
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
    manifests: []
    covered: [web-even]
    not_covered: []
    expected: []
passed_over:
  description:
    - What was not checked, by reason. One warning has the numbers, except for V(no_placement).
  returned: success
  type: list
  elements: dict
  contains:
    reason:
      description:
        - V(helm_template), V(go_template), V(jinja_template), V(ytt_template), V(variables) (such as C(${NAME})) and
          V(template) (another one) are templates that are not rendered.
        - V(patch) is a patch of kustomize, or an object without what the API server wants of each.
        - V(no_kind) has no C(apiVersion) or C(kind). V(list) and V(text) are no objects. V(not_yaml) is not valid.
        - V(unreadable), V(link) (to outside of the folder), V(no_file) (a pipe, device or socket) and V(too_large) are
          files that were not read. V(other_ending) is a file such as C(vm.yaml.j2) or C(vm.YAML).
        - V(vendored) is a folder with code of others.
        - V(other_kind) are objects with placement fields of kinds that are not checked, one entry for each kind.
        - V(no_placement) are objects without placement fields.
      type: str
    count:
      description: The number of documents or objects.
      type: int
    kind:
      description: The kind with its API group, for V(other_kind). Empty for other reasons.
      type: str
    fields:
      description: The placement fields that these objects have.
      type: list
      elements: str
    documents:
      description: The documents. Empty for V(no_placement).
      type: list
      elements: dict
      contains:
        where:
          description: The file, and the document or object in it.
          type: str
        why:
          description: What was seen. May be empty.
          type: str
  sample:
    - reason: helm_template
      count: 1
      kind: ""
      fields: []
      documents:
        - where: chart/templates/deployment.yaml
          why: "line 4, column 40: a key must be text: quote it, or render the template"
permission_gaps:
  description: What could not be read from the cluster. There are no findings about it.
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
cluster:
  description: The cluster that was read. Empty without O(online).
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
from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import NONE
from ansible_collections.virt.placement.plugins.module_utils.rules.registry import NEW_MEMBERS


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            files={"type": "list", "elements": "path", "default": []},
            exclude={"type": "list", "elements": "str", "default": []},
            manifests={"type": "raw", "default": []},
            rules={"type": "raw", "default": []},
            namespace={"type": "str", "default": "default"},
            exclude_namespaces={"type": "list", "elements": "str", "default": []},
            rule_set={"type": "str", "default": "default"},
            new_members={
                "type": "str",
                "default": NONE,
                "choices": [NONE, *NEW_MEMBERS],
            },
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
