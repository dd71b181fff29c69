# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drill_info from its options to its result: one reading, and a forecast for the loss of each domain."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..forecast.drill import drill
from ..forecast.report import drills_as_json
from ..interface.arguments import topology_of
from ..interface.results import warn_unreadable
from .forecast import read_question

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    question = read_question(module.params, api, topology)
    request = question.request
    report = drill(
        question.change().after, request.domains_of, event=request.event, topology=topology
    )
    warn_unreadable(module.warn, report.unreadable)
    return {**drills_as_json(report, topology), **question.findings_as_json(module.warn)}
