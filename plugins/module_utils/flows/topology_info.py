# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""topology_info from its options to its result: read the nodes, report their topology labels."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.lists import list_all
from ..interface.arguments import topology_of
from ..interface.results import advice_entries, warn_once
from ..lint.topology import table, topology_report
from ..model.findings import InputError, InvalidInput
from ..model.manifests import node_from_manifest
from ..model.snapshot import Snapshot
from ..scheduler.nodes import takes_pods
from ..view.label_input import assumed_node_labels, with_node_labels

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, and ApiError."""
    topology = topology_of(module.params)
    faults: list[InputError] = []
    assumed = assumed_node_labels(module.params["assume_node_labels"], topology, faults)
    read = tuple(node_from_manifest(item) for item in list_all(api, "/api/v1/nodes").items)
    nodes = with_node_labels(Snapshot(nodes=read), assumed, faults).nodes
    if faults:
        raise InvalidInput(faults)
    report = topology_report(nodes, topology)
    warn_once(module.warn, report.findings)
    return {
        "domains": {
            name: {
                domain: {
                    "nodes": [node.name for node in members],
                    "count": len(members),
                    "takes_pods": sum(map(takes_pods, members)),
                }
                for domain, members in domains.items()
            }
            for name, domains in report.domains.items()
        },
        "missing": {
            name: [node.name for node in without] for name, without in report.missing.items()
        },
        "counts": {"nodes": len(nodes), "takes_pods": sum(map(takes_pods, nodes))},
        "findings": [finding.as_json() for finding in report.findings],
        **advice_entries(report.findings),
        "table": table(report),
    }
