# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the modules that report or move the instances of workloads."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  workloads:
    description:
      - Only these workloads. An empty list selects nothing.
      - A list of names of VMs and of maps. A name is short for a map with that O(workloads[].name).
      - Each map has one of O(workloads[].name), O(workloads[].names) and O(workloads[].labels). A workload that does
        not exist is an error.
    type: list
    elements: raw
    suboptions:
      kind:
        description:
          - Kind of workload. V(VirtualMachine), V(VirtualMachineInstanceReplicaSet), V(VirtualMachinePool),
            V(Deployment) or V(StatefulSet).
          - M(virt.placement.rollout) takes only these. Modules that only report also take V(DaemonSet) and V(Pod),
            which is a pod without an owner.
        type: str
        default: VirtualMachine
      namespace:
        description: Its namespace. The default is the namespace in O(namespaces), if there is exactly one.
        type: str
      name:
        description: One name.
        type: str
      names:
        description: Several names.
        type: list
        elements: str
      labels:
        description: Labels of the pod template. All of them must match.
        type: dict
"""

    ONLY = r"""
options:
  only:
    description:
      - Of the instances in O(namespaces), only those of these workloads. An empty list selects none.
      - M(virt.placement.rollout) moves no others, and ignores workloads and namespaces that do not exist.
      - M(virt.placement.placement_info) counts no others in C(problems). O(namespaces) may then have names of
        namespaces that were deleted, and C(outcome) names them.
      - The role C(placement_maintenance) moves back what it moved away with it, and verifies that.
    type: list
    elements: dict
    suboptions:
      kind:
        description: Kind of the workload, such as V(VirtualMachine).
        type: str
        required: true
      namespace:
        description: Its namespace.
        type: str
        required: true
      name:
        description: Its name.
        type: str
        required: true
"""
