# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as a textfile for Prometheus' node_exporter. Pure.

Each verdict has a series, also with 0, so that alerts end. A timestamp shows that the job has stopped. There is no
series for a single VM.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from datetime import datetime

from .content import VERDICTS, Content

_PREFIX = "virt_placement_"

Labels = t.Mapping[str, str]


def prometheus_text(content: Content) -> str:
    """Ends with a new line, has no timestamps of samples, and HELP and TYPE once for each metric, as the textfile
    collector of node_exporter asks for."""
    lines: list[str] = []
    for name, help_text, samples in metrics(content):
        if not samples:
            continue
        lines += [f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} gauge"]
        for labels, value in samples:
            every = {"cluster": content.cluster, **labels}
            text = ",".join(f'{key}="{_escaped(each)}"' for key, each in every.items())
            lines.append(f"{_PREFIX}{name}{{{text}}} {value}")
    return "\n".join(lines) + "\n"


def metrics(content: Content) -> t.Iterator[tuple[str, str, list[tuple[Labels, int]]]]:
    """Each metric: its name after the prefix, its help, and its samples, which may be none."""
    yield "instances", "Instances by verdict.", _instances(content)
    for name, text in (
        ("misplaced", "Instances that have to move."),
        ("constraint_removed", "Instances of workloads from which a constraint was removed."),
        ("down", "Instances on a node that is not Ready."),
        ("risks", "What may go wrong although no rule is violated."),
    ):
        yield name, text, [({}, content.counts[name])]
    yield "unread_lists", "Lists that could not be read.", [({}, len(content.gaps))]
    broken = [rule for rule in content.rules if rule.violated]
    yield (
        "rule_violating_instances",
        "Instances that violate the rule.",
        [({"rule": x.name}, x.affected) for x in broken if x.affected is not None],
    )
    yield (
        "rule_moves_needed",
        "The fewest moves that repair the rule. No series where that is not known.",
        [({"rule": x.name}, x.moves) for x in broken if x.moves is not None],
    )
    yield (
        "rule_cannot_be_satisfied",
        "Rules that no moves repair.",
        [({"rule": x.name}, 1) for x in broken if not x.satisfiable],
    )
    findings = Counter((finding.name, finding.severity) for finding in content.findings)
    yield (
        "findings",
        "Findings about rules and workloads.",
        [
            ({"name": name, "severity": severity}, count)
            for (name, severity), count in sorted(findings.items())
        ],
    )
    if content.drill is not None and not content.drill.reasons:
        yield (
            "drill_without_node",
            "Instances without a node if the topology domain is lost, at least. No series where that is not known.",
            [
                ({"topology": x.topology, "domain": x.domain}, x.without_node)
                for x in content.drill.failures
                if not x.is_unknown
            ],
        )
    yield (
        "report_timestamp_seconds",
        "When the report was made.",
        [({}, int(datetime.fromisoformat(content.time).timestamp()))],
    )


def _instances(content: Content) -> list[tuple[Labels, int]]:
    """By namespace. Lists that could not be read count as unknown, in no namespace."""
    counted = Counter((x.namespace, x.verdict) for x in content.instances)
    unread = content.counts["unknown"] - sum(
        count for (_namespace, verdict), count in counted.items() if verdict == "unknown"
    )
    counted["", "unknown"] += unread
    namespaces = sorted({"", *(namespace for namespace, _verdict in counted)})
    return [
        ({"namespace": namespace, "verdict": verdict}, counted[namespace, verdict])
        for namespace in namespaces
        for verdict in VERDICTS
    ]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
