#!/usr/bin/python
# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This is documentation alone: the action plugin of the same name does the work on the controller.
from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write a report of placement as HTML, Markdown, JUnit and Prometheus metrics
version_added: 1.0.0
author:
  - virt.placement contributors (@virt-placement)
description:
  - Writes what M(virt.placement.placement_info) found to files that people and other programs read.
  - All files come from the same reading. At least one of O(html), O(markdown), O(junit) and O(prometheus) is needed.
  - The HTML page is one file without scripts, and makes no request. It works offline, from a mail and from a web
    server.
  - Texts of the cluster, such as names and reasons, stay text in each format.
  - Writes on the host that runs the playbook, as the user who runs it, whatever the connection of the task is.
  - Reaches no cluster, and does not fail because of a verdict.
options:
  placement:
    description:
      - Result of M(virt.placement.placement_info) with O(virt.placement.placement_info#module:details=placement).
    type: dict
    required: true
  drill:
    description:
      - Result of M(virt.placement.drill_info) about the same cluster.
      - An empty map, and the result of a task that was skipped, count as not given.
    type: dict
  rollout:
    description:
      - Result of M(virt.placement.rollout) about the same cluster. In check mode, its planned moves.
      - An empty map, and the result of a task that was skipped, count as not given.
    type: dict
  cluster_name:
    description:
      - Name of the cluster in titles and in the label C(cluster) of metrics.
      - The default is the inventory host, or the host of the API server for C(localhost).
    type: str
  fail_on:
    description:
      - What is a failure in the JUnit file. V(down) and V(constraint_removed) are as in
        RV(virt.placement.placement_info#module:instances[].down) and
        RV(virt.placement.placement_info#module:instances[].constraint_removed). V(error_finding) is a finding of the
        severity error. The other values are verdicts.
      - An instance with the verdict V(unknown) is skipped there if it is no failure.
    type: list
    elements: str
    choices: [violated, pending, unknown, constraint_removed, down, preference_not_met, not_enforced, error_finding]
    default: [violated, pending, unknown, constraint_removed, down]
  html:
    description: Absolute path of the HTML page.
    type: str
  markdown:
    description: Absolute path of the Markdown file. Tables in it have at most 50 rows.
    type: str
  junit:
    description: Absolute path of the JUnit file, with a suite for each namespace.
    type: str
  prometheus:
    description: Absolute path of the metrics for the textfile collector of node_exporter. It must end in C(.prom).
    type: str
extends_documentation_fragment:
  - virt.placement.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: The time of the report is in each file.
notes:
  - A folder is not created. A file is replaced as a whole.
  - With several hosts in the play, each path must contain the name of the inventory host.
seealso:
  - module: virt.placement.placement_info
  - module: virt.placement.drill_info
  - module: virt.placement.rollout
"""

EXAMPLES = r"""
- name: Read placement for the report
  virt.placement.placement_info:
    details: placement
  register: placement

- name: Write a page for people and a file for CI
  virt.placement.report:
    placement: "{{ placement }}"
    html: /srv/www/placement.html
    junit: /srv/ci/placement.xml
"""

RETURN = r"""
answer:
  description: The first sentence of the report.
  returned: unless O(placement) is damaged
  type: str
  sample: 2 of 18 VMs violate a required rule; 1 has no node. 1 move would repair the rules.
files:
  description: The files that were written, or that are up to date. In check mode, those that would be.
  returned: unless an option is wrong
  type: list
  elements: dict
  contains:
    format:
      description: V(html), V(markdown), V(junit) or V(prometheus).
      type: str
    path:
      description: Its path.
      type: str
    changed:
      description: Whether its content changed, or in check mode would change.
      type: bool
  sample:
    - {format: html, path: /srv/www/placement.html, changed: true}
"""
