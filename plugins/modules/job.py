#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: job
short_description: Run one stage of a role of this collection
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Runs the modules of a stage, prints what they did as lines, and notes it for the report at the end of the role.
  - The roles of this collection use it. Playbooks do not need it.
options:
  role:
    description: Name of the role, without the name of the collection.
    type: str
    required: true
  stage:
    description: What to do.
    type: str
    required: true
    choices:
      - check
      - show
      - verify
      - verify_applied
      - begin_undo
      - drain
      - begin_work
      - in_service
      - finish
      - report
      - close
  nodes:
    description: Names of the nodes that the stage is about.
    type: list
    elements: str
    default: []
  lines:
    description: Lines to print.
    type: list
    elements: str
    default: []
  failures:
    description: Lines with which the stage fails. If there are none, it does not fail. The stage begin_work fails
      with them if the node is not drained.
    type: list
    elements: str
    default: []
  failed_task:
    description: The task of a user that has failed, where this one only reports it with O(failures).
    type: str
    default: ""
  publish:
    description: Statistics to publish, as M(ansible.builtin.set_stats) does.
    type: dict
extends_documentation_fragment:
  - virt.placement.auth_options
  - virt.placement.attributes
  - virt.placement.attributes.cluster
  - virt.placement.placement
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - python >= 3.10
  - kubernetes >= 28.1.0
notes:
  - Needs the rights of the modules that the stage runs.
"""

EXAMPLES = r"""
- name: Report what the role placement_rollout did
  virt.placement.job:
    role: placement_rollout
    stage: close
"""

RETURN = r"""
change:
  description: The change of the rule set that the role undoes, as O(virt.placement.rules#module:change).
  returned: for the stage begin_undo
  type: str
groups:
  description: The nodes of the maintenance that are not done yet, in the groups and the order in which they are taken.
  returned: for the stage check of the role placement_maintenance
  type: list
  elements: list
gate_again:
  description: The nodes that an earlier job has put in service, as one group, if their gate is to be checked first.
  returned: for the stage check of the role placement_maintenance
  type: list
  elements: list
begun:
  description: The nodes that were drained, as one group; empty outside of the window.
  returned: for the stage drain
  type: list
  elements: list
work:
  description: The nodes that were drained, each alone, if the role has tasks for them.
  returned: for the stage drain
  type: list
  elements: list
gate:
  description: The nodes that were drained, as one group, if the role has a gate.
  returned: for the stage drain
  type: list
  elements: list
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import (
    argument_spec,
)

STAGES = [
    "check",
    "show",
    "verify",
    "verify_applied",
    "begin_undo",
    "drain",
    "begin_work",
    "in_service",
    "finish",
    "report",
    "close",
]


def main() -> None:
    """The action plugin of the same name does the work, on the controller."""
    texts = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec=argument_spec(
            role={"type": "str", "required": True},
            stage={"type": "str", "required": True, "choices": STAGES},
            nodes=texts,
            lines=texts,
            failures=texts,
            failed_task={"type": "str", "default": ""},
            publish={"type": "dict"},
        ),
        supports_check_mode=True,
    )
    module.fail_json(msg="virt.placement.job is an action of the controller: call it as a task")


if __name__ == "__main__":
    main()
