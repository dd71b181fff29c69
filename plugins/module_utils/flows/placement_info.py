# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""placement_info from its options to its result: read the cluster, judge every instance, lint."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..cluster.reading import ReadScope, read_snapshot
from ..compliance import report
from ..compliance.judge import judge
from ..interface.arguments import topology_of
from ..interface.results import warn_once, warn_unreadable
from ..lint.run import lint
from ..model.rendering import as_json
from ..model.verdict import Verdict
from ..planning.moves_needed import moves_needed
from ..view.selection import look_up, question_of

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    details = module.params["details"]
    question = question_of(
        module.params["namespaces"],
        module.params["workloads"],
        module.params["exclude_namespaces"],
    )
    scope = ReadScope(namespaces=question.read, migrations="", volumes="claimed")
    snapshot = read_snapshot(api, scope)
    selected = look_up(question, snapshot)
    options: dict[str, t.Any] = {
        "topology": topology,
        "workloads": selected.workloads,
        "namespaces": selected.namespaces,
    }
    verdicts = judge(snapshot, details=details == "all", count_moves=moves_needed, **options)
    findings = lint(snapshot, **options)
    warn_once(module.warn, findings)
    warn_unreadable(module.warn, verdicts.unreadable)
    shown = () if details == "summary" else verdicts.instances
    return {
        "summary": report.summary(verdicts),
        "instances": [
            report.instance_as_json(instance)
            for instance in shown
            if details == "all" or instance.down or instance.verdict is not Verdict.SATISFIED
        ],
        "pending": as_json(verdicts.pending) if shown else [],
        "risks": as_json(verdicts.risks) if shown else [],
        "findings": [finding.as_json() for finding in findings],
        "permission_gaps": as_json(verdicts.unreadable),
        "table": report.table(verdicts, snapshot.nodes, topology),
    }
