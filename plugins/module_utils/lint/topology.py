# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which topology domains do the node labels of a cluster define, and what is wrong with them?"""

from __future__ import annotations

import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..model.findings import Finding, Severity
from ..model.objects import Node
from ..model.rendering import columns, label_text, listed, value_text
from ..model.topology import DEFAULT_KEYS, DEPRECATED, HOSTNAME, REGION, ZONE, Topology
from ..scheduler.nodes import takes_pods

CLASSES = frozenset({"performance"})
"""Names whose label is meant to be missing on some nodes."""

_OF_GROUPS = frozenset({"true", "yes", ""})
"""Values of labels that mark a group of nodes, such as a host group, and make no domains."""

_PUNCTUATION = re.compile(r"(?<!\d)[-_.]|[-_.](?!\d)")
"""Not that between digits: rack 1-11 and rack 11-1 are two racks."""


@dataclass(frozen=True)
class TopologyReport:
    """`domains`: name of a key to domain to its nodes. `missing`: name to the nodes that have no
    such label. Every name of the vocabulary is in both."""

    domains: t.Mapping[str, t.Mapping[str, tuple[Node, ...]]] = field(default_factory=dict)
    missing: t.Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def topology_report(nodes: t.Sequence[Node], topology: Topology) -> TopologyReport:
    """The domains of each key of the vocabulary, and findings about them and their labels."""
    ordered = sorted(nodes, key=lambda node: node.name)
    domains = {name: _domains(ordered, key) for name, key in topology.keys.items()}
    missing = {
        name: tuple(node for node in ordered if key not in node.labels)
        for name, key in topology.keys.items()
    }
    findings = (
        *_of_keys(ordered, topology),
        *_same_hostname(ordered),
        *_zone_in_two_regions(ordered),
        *_deprecated(ordered),
        *_alike(domains),
    )
    return TopologyReport(domains, missing, findings)


def table(report: TopologyReport) -> str:
    """The domains for people: a line for each, its nodes at the end."""
    rows = [("KEY", "DOMAIN", "COUNT", "NODES")]
    for name, domains in report.domains.items():
        rows_of_key = [
            *domains.items(),
            *([("-", nodes)] if (nodes := report.missing[name]) else []),
        ]
        for index, (domain, members) in enumerate(rows_of_key):
            count = str(len(members))
            rows.append((name if not index else "", value_text(domain), count, _names(members)))
    return "\n".join(columns(rows))


def _domains(nodes: t.Iterable[Node], key: str) -> dict[str, tuple[Node, ...]]:
    nodes_by_domain: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if key in node.labels:
            nodes_by_domain[node.labels[key]].append(node)
    return {domain: tuple(nodes_by_domain[domain]) for domain in sorted(nodes_by_domain)}


def _of_keys(nodes: t.Sequence[Node], topology: Topology) -> t.Iterator[Finding]:
    """What the domains of one key lack, on the nodes that take pods."""
    usual = [node for node in nodes if takes_pods(node)]
    for name, key in topology.keys.items():
        having = [node for node in usual if key in node.labels]
        without = [node for node in usual if key not in node.labels]
        values = {node.labels[key] for node in having}
        declared = topology.keys[name] != DEFAULT_KEYS.get(name)
        domains = name not in CLASSES and not (declared and values <= _OF_GROUPS)
        if not having:
            yield Finding(
                "no_node_has_key",
                "warning" if declared else "info",
                f"No node that takes pods has the label {key} ({name}).",
                "A rule over it has no effect or can never be met: label the nodes first.",
            )
        elif without and domains:
            yield _incomplete(name, key, without)
        if len(values) == 1 and domains:
            yield _single(name, key, having, values.pop())


def _incomplete(name: str, key: str, without: t.Sequence[Node]) -> Finding:
    several = len(without) != 1
    return Finding(
        "topology_incomplete",
        "warning",
        f"{_names(without)} {'take' if several else 'takes'} pods and"
        f" {'have' if several else 'has'} no label {key} ({name}).",
        "keep_apart has no effect there, and spread and keep_together never use it:"
        " label these nodes too.",
        tuple(node.ref for node in without),
    )


def _single(name: str, key: str, having: t.Sequence[Node], domain: str) -> Finding:
    severity: Severity = "info" if key == REGION else "warning"
    return Finding(
        "single_domain",
        severity,
        f"All nodes that have the label {key} ({name}) are in one domain, {value_text(domain)}.",
        "Rules keep_apart and spread need more domains than one: use another topology name, or label nodes with more"
        " values.",
        tuple(node.ref for node in having),
        named=(),
    )


def _same_hostname(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for hostname, same in _domains(nodes, HOSTNAME).items():
        if len(same) > 1:
            yield Finding(
                "duplicate_hostname",
                "error",
                f"{_names(same)} all have {label_text(HOSTNAME, hostname)}.",
                "Rules over node treat them as one node: give each its own value.",
                tuple(node.ref for node in same),
            )


def _zone_in_two_regions(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for zone, members in _domains(nodes, ZONE).items():
        regions = _domains(members, REGION)
        if len(regions) > 1:
            yield Finding(
                "zone_in_two_regions",
                "warning",
                f"Zone {value_text(zone)} has nodes in the regions {listed(list(map(value_text, regions)))}.",
                "Rules over zone treat them as one zone: correct the region, or give the zones"
                " names of their own.",
                tuple(node.ref for node in members if REGION in node.labels),
                named=(),
            )


def _deprecated(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for old, new in DEPRECATED.items():
        behind = [node for node in nodes if old in node.labels]
        if not behind:
            continue
        differ = [node for node in behind if node.labels.get(new) != node.labels[old]]
        difference = f", and {new} differs or is missing on {_names(differ)}" if differ else ""
        yield Finding(
            "deprecated_node_label",
            "warning" if differ else "info",
            f"{_names(behind)} {'carry' if len(behind) > 1 else 'carries'} {old}, which Kubernetes"
            f" replaced by {new}{difference}.",
            f"Give these nodes {new}, and write rules over that."
            if differ
            else f"They have {new} with the same value, too: write rules over that.",
            tuple(node.ref for node in differ or behind),
        )


def _alike(
    domains: t.Mapping[str, t.Mapping[str, tuple[Node, ...]]],
) -> t.Iterator[Finding]:
    for name, nodes_by_domain in domains.items():
        if name == "node":
            continue
        alike: dict[str, list[str]] = defaultdict(list)
        for domain in nodes_by_domain:
            alike[_PUNCTUATION.sub("", domain.casefold())].append(domain)
        for values in alike.values():
            if len(values) > 1:
                yield Finding(
                    "similar_domain_names",
                    "warning",
                    f"The domains {' and '.join(map(value_text, values))} of {name} differ in spelling only.",
                    "If one place is meant, give its nodes one value.",
                    tuple(node.ref for value in values for node in nodes_by_domain[value]),
                    named=(),
                )


def _names(nodes: t.Sequence[Node]) -> str:
    return listed([node.name for node in nodes])
