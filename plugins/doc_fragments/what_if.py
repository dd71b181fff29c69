# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that forecast: which rules would be written and which workloads scaled."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  namespace:
    description:
      - Namespace of the rules and of the workloads in O(scale).
      - Required with O(rules), O(prune) and O(state=reverted).
    type: str
  rule_set:
    description: The rule set of O(rules), as in M(virt.placement.rules).
    type: str
    default: default
  rules:
    description:
      - Forecast as if these rules were written. Rules that exist already may be listed again.
      - A list of rules in the form of M(virt.placement.rules), or its YAML or JSON text.
    type: raw
    default: []
  state:
    description:
      - With V(present) the rules would be written.
      - With V(absent) they would be removed.
      - With V(reverted) the last change of the rule set would be undone. O(rules), O(prune) and O(adopt) do not go with
        it.
    type: str
    choices: [present, absent, reverted]
    default: present
  prune:
    description: Every rule of the rule set in this namespace that is not in O(rules) would be removed.
    type: bool
    default: false
  adopt:
    description:
      - With V(true), equal constraints that are already on the workloads would become part of the rules.
      - With V(similar), the rules would also replace constraints that select the same pods, or none.
    type: str
    choices: ['false', 'true', similar]
    default: 'false'
  new_members:
    description:
      - As in M(virt.placement.rules). With V(policy) rules may name workloads that do not exist yet, and nothing is
        forecast of these.
    type: str
    choices: [none, policy, warn]
    default: none
    version_added: 1.0.0
  scale:
    description: Forecast as if these workloads had another number of replicas.
    type: list
    elements: dict
    suboptions:
      kind:
        description: Kind of the workload. V(Deployment), V(StatefulSet) or V(VirtualMachineInstanceReplicaSet).
        type: str
        default: Deployment
      namespace:
        description: Namespace of the workload. By default O(namespace).
        type: str
      name:
        description: Name of the workload.
        type: str
        required: true
      replicas:
        description: Number of replicas that it would have.
        type: int
        required: true
"""
