#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: cpu_model
short_description: Set the CPU model of VMs
version_added: 0.1.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Sets the CPU model of VMs that you name. All nodes that have this model can then run them.
  - vSphere calls this EVC. M(virt.placement.cpu_info) names the newest model that all nodes have in common.
  - A running VM keeps its model until it is restarted, also while it is migrated live. RV(restarts) has the VMs that
    are to be restarted, for M(virt.placement.rollout).
  - Nothing is written if one of the VMs cannot get its model. The error names all such VMs and models at once. These
    are VMs that do not exist, VMs whose instance type names a model, models with which no node starts VMs now, and VMs
    that the model would leave without a node.
options:
  vms:
    description:
      - The VMs that get O(model). A list of texts C(namespace/name), and of maps with O(vms[].namespace) and one of
        O(vms[].name), O(vms[].names) and O(vms[].labels).
    type: list
    elements: raw
    suboptions:
      namespace:
        description: Their namespace.
        type: str
        required: true
      name:
        description: One name.
        type: str
      names:
        description: Several names.
        type: list
        elements: str
      labels:
        description: Labels of the template. All of them must match.
        type: dict
  model:
    description:
      - The CPU model of O(vms), as libvirt calls it, V(host-model) or V(host-passthrough). These two bind a running VM
        to nodes like its own. The module warns of that.
      - With an empty text the VMs name no model, and get the model of the cluster.
    type: str
  models:
    description:
      - Models of single VMs, a map of C(namespace/name) to a model. Give it RV(before) of an earlier task to take that
        task back.
    type: dict
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.placement
attributes:
  check_mode:
    support: full
    details: Asks the server by dry runs, so that what KubeVirt or an admission policy would refuse fails here, too.
  diff_mode:
    support: full
    details: Shows the CPU model, and the sockets where they are set, too.
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the cluster roles C(virt-placement-reader) and C(virt-placement-mover). A missing right is
    reported before the first write, in check mode too.
  - If a VM has no C(sockets) in its template and no instance type, they are set together with the model, to the number
    that the VM has anyway. Without them KubeVirt would ask for a restart of the VM (condition C(RestartRequired)) after
    each restart, and would bring no rule to the running VM. They are removed together with the model.
  - Whether a VM has a node is decided by the labels of nodes and by cordons alone. M(virt.placement.forecast_info) also
    knows room, taints and rules.
  - libvirt decides in the end whether a node can run a model. KubeVirt asks it, and labels the nodes with its answer.
seealso:
  - module: virt.placement.cpu_info
  - module: virt.placement.rollout
"""

EXAMPLES = r"""
- name: Set the CPU model of two VMs
  virt.placement.cpu_model:
    model: Broadwell-noTSX
    vms: [shop/db, shop/app]
  register: cpu

- name: Restart the VMs that run with another one
  virt.placement.rollout:
    workloads: "{{ cpu.restarts }}"
    scope: all
    allow: [restart]
    apply_pending_changes: true
  when: cpu.restarts | length > 0

- name: Read the CPU models that nodes have in common
  virt.placement.cpu_info:
  register: read

- name: Set the newest model that all nodes of a vendor have in common
  virt.placement.cpu_model:
    model: "{{ (read.baselines | selectattr('zone', 'none') | selectattr('vendor', 'eq', 'Intel') | first).model }}"
    vms:
      - namespace: shop
        labels: {tier: web}

- name: Take it back
  virt.placement.cpu_model:
    models: "{{ cpu.before }}"
  when: cpu.before | length > 0
"""

RETURN = r"""
vms:
  description: The VMs of the task. Those that could not be written are left out.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Always V(VirtualMachine).
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
    before:
      description: The model that the VM named before. Empty for that of the cluster.
      type: str
    after:
      description: The model that it names now; in check mode, that it would name.
      type: str
    running:
      description: The model with which it runs. Empty for a halted VM.
      type: str
    next_model:
      description: The model that it gets at its next start.
      type: str
    changed:
      description: Whether the VM was written.
      type: bool
    needs_restart:
      description: Whether it runs with another model than RV(vms[].next_model).
      type: bool
    other_changes:
      description:
        - What a restart would apply beside the model, as paths below the spec of the template. Such a VM is not in
          RV(restarts).
      type: list
      elements: str
    nodes_count:
      description: On how many nodes it could start by labels. Null where that is not known.
      type: int
    loses:
      description: CPU features that the running guest has, and the model does not have.
      type: list
      elements: str
    may_lose:
      description: CPU features that the guest has. The labels of nodes do not say whether the model has them.
      type: list
      elements: str
    unknown:
      description: Why more features may be lost. Empty if RV(vms[].loses) and RV(vms[].may_lose) have all of them.
      type: str
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db
      before: ""
      after: Broadwell-noTSX
      running: host-model
      next_model: Broadwell-noTSX
      changed: true
      needs_restart: true
      other_changes: []
      nodes_count: 4
      loses: [avx512vnni]
      may_lose: [vmx]
      unknown: ""
before:
  description: The models that the changed VMs named before, for O(models).
  returned: success
  type: dict
  sample: {shop/db: ""}
restarts:
  description:
    - The VMs that run with another model than the one that they get at their next start, for
      O(virt.placement.rollout#module:workloads). VMs with RV(vms[].other_changes) are left out.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Always V(VirtualMachine).
      type: str
    namespace:
      description: Its namespace.
      type: str
    name:
      description: Its name.
      type: str
  sample:
    - {kind: VirtualMachine, namespace: shop, name: db}
counts:
  description: How many VMs were changed.
  returned: success
  type: dict
  contains:
    vms:
      description: VMs of RV(vms).
      type: int
    changed:
      description: VMs that were changed; in check mode, that would be.
      type: int
    unchanged:
      description: VMs that named their model already.
      type: int
    failed:
      description: VMs that could not be changed.
      type: int
    restarts:
      description: VMs that are to be restarted, also those with RV(vms[].other_changes).
      type: int
  sample: {vms: 2, changed: 1, unchanged: 1, failed: 0, restarts: 1}
findings:
  description: C(externally_managed), VMs that a controller or a tool manages, which may revert the model.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the finding, the same in every release.
      type: str
    severity:
      description: Always V(warning).
      type: str
    why:
      description: What was seen.
      type: str
    advice:
      description: What to do.
      type: str
    objects:
      description: The VM.
      type: list
      elements: str
    rule:
      description: Always empty.
      type: str
  sample:
    - name: externally_managed
      severity: warning
      why: >-
        VirtualMachine shop/db is managed by Argo CD (argocd.argoproj.io/instance=shop), which may revert the CPU model.
      advice: Set the model in the source of the object, too.
      objects: [VirtualMachine shop/db]
      rule: ""
table:
  description: RV(vms) as text.
  returned: success
  type: str
  sample: |-
    1 VM: 1 changed, 1 to be restarted

    VM       CPU MODEL BEFORE  AFTER            RESTART  LOSES       MAY LOSE
    shop/db  (cluster)         Broadwell-noTSX  needed   avx512vnni  1 feature
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
      description: Namespace of the object.
      type: str
    name:
      description: Name of the object.
      type: str
    patch:
      description:
        - The change as JSON Patch (RFC 6902).
        - It is sent with C(test) operations, so it fails if the VM was replaced or its CPU changed since it was read.
      type: list
      elements: dict
  sample:
    - kind: VirtualMachine
      namespace: shop
      name: db
      patch:
        - op: add
          path: /spec/template/spec/domain/cpu
          value: {model: Broadwell-noTSX, sockets: 1}
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
      message: >-
        CPU model Broadwel-noTSX of shop/db: no node on which VMs can start has the label
        cpu-model.node.kubevirt.io/Broadwel-noTSX=true; nodes have Broadwell-noTSX, Haswell-noTSX; did you mean
        'Broadwell-noTSX'?
      object: CPU model Broadwel-noTSX of shop/db
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.flows.cpu_model import run
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.runner import run_task


def main() -> None:
    module = AnsibleModule(
        argument_spec=argument_spec(
            vms={"type": "list", "elements": "raw"},
            model={"type": "str"},
            models={"type": "dict"},
        ),
        mutually_exclusive=[("vms", "models"), ("model", "models")],
        required_one_of=[("vms", "models")],
        required_together=[("vms", "model")],
        supports_check_mode=True,
    )
    run_task(module, run)


if __name__ == "__main__":
    main()
