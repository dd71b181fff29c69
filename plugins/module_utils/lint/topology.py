# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The topology of a cluster as its node labels tell it, and what is wrong with it."""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..model.finding import Finding, Severity
from ..model.objects import Node
from ..model.topology import DEFAULT_KEYS, DEPRECATED, HOSTNAME, REGION, ZONE, Topology

CLASSES = frozenset({"performance"})
"""Names whose label marks some nodes and is meant to be missing on the others."""

_PASSING = "node.kubernetes.io/"
"""Prefix of taints that say how a node is at the moment, such as cordoned or not ready."""

_SHOWN = 5


@dataclass(frozen=True)
class TopologyReport:
    """`domains`: name of a key to domain to its nodes. `missing`: name to the nodes that have no
    such label. Every name of the vocabulary is in both."""

    domains: t.Mapping[str, t.Mapping[str, tuple[Node, ...]]] = field(default_factory=dict)
    missing: t.Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def takes_pods(node: Node) -> bool:
    """Whether a node is for ordinary pods: a taint that stays keeps them off, a cordon passes."""
    return not any(
        taint.effect in ("NoSchedule", "NoExecute") and not taint.key.startswith(_PASSING)
        for taint in node.taints
    )


def topology_report(nodes: t.Sequence[Node], topology: Topology) -> TopologyReport:
    """The domains of each key of the vocabulary, and findings about them and the labels behind."""
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
        found = [*domains.items(), *([("-", nodes)] if (nodes := report.missing[name]) else [])]
        for index, (domain, members) in enumerate(found):
            count = str(len(members))
            rows.append((name if not index else "", domain, count, _names(members)))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join("  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows)


def _domains(nodes: t.Iterable[Node], key: str) -> dict[str, tuple[Node, ...]]:
    found: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        if key in node.labels:
            found[node.labels[key]].append(node)
    return {domain: tuple(found[domain]) for domain in sorted(found)}


def _of_keys(nodes: t.Sequence[Node], topology: Topology) -> t.Iterator[Finding]:
    """What the domains of one key lack, on the nodes that take pods."""
    usual = [node for node in nodes if takes_pods(node)]
    for name, key in topology.keys.items():
        having = [node for node in usual if key in node.labels]
        without = [node for node in usual if key not in node.labels]
        values = {node.labels[key] for node in having}
        asked = topology.keys[name] != DEFAULT_KEYS.get(name)
        if not having:
            yield _on_no_node(name, key, "warning" if asked else "info")
        elif without and name not in CLASSES:
            yield _incomplete(name, key, without)
        if len(values) == 1 and name not in CLASSES:
            yield _single(name, key, having, values.pop())


def _on_no_node(name: str, key: str, severity: Severity) -> Finding:
    return Finding(
        "key_on_no_node",
        severity,
        f"No node that takes pods has the label {key} ({name}).",
        "A rule over it has no effect or can never be met: label the nodes first.",
    )


def _incomplete(name: str, key: str, without: t.Sequence[Node]) -> Finding:
    many = len(without) != 1
    return Finding(
        "topology_incomplete",
        "warning",
        f"{_names(without)} {'take' if many else 'takes'} pods and"
        f" {'have' if many else 'has'} no label {key} ({name}).",
        "Rules to keep apart are void there, rules to spread or to keep together never use it:"
        " label these nodes too.",
        tuple(node.ref for node in without),
    )


def _single(name: str, key: str, having: t.Sequence[Node], domain: str) -> Finding:
    severity: Severity = "info" if key == REGION else "warning"
    return Finding(
        "single_domain",
        severity,
        f"All nodes that have the label {key} ({name}) are in one domain, {domain}.",
        "Over it one instance at most can be kept apart, and nothing can be spread.",
        tuple(node.ref for node in having),
    )


def _same_hostname(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for hostname, same in _domains(nodes, HOSTNAME).items():
        if len(same) > 1:
            yield Finding(
                "duplicate_hostname",
                "error",
                f"{_names(same)} all have {HOSTNAME}={hostname}.",
                "Rules over host take them for one node: give each its own value.",
                tuple(node.ref for node in same),
            )


def _zone_in_two_regions(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for zone, members in _domains(nodes, ZONE).items():
        regions = _domains(members, REGION)
        if len(regions) > 1:
            yield Finding(
                "zone_in_two_regions",
                "warning",
                f"Zone {zone} has nodes in the regions {', '.join(regions)}.",
                "Rules over zone take them for one place: correct the region, or give the zones"
                " names of their own.",
                tuple(node.ref for node in members if REGION in node.labels),
            )


def _deprecated(nodes: t.Sequence[Node]) -> t.Iterator[Finding]:
    for old, new in DEPRECATED.items():
        behind = [node for node in nodes if old in node.labels]
        if not behind:
            continue
        differ = [node for node in behind if node.labels.get(new) != node.labels[old]]
        told = f", and {new} says otherwise or nothing on {_names(differ)}" if differ else ""
        yield Finding(
            "deprecated_label",
            "warning" if differ else "info",
            f"{_names(behind)} {'carry' if len(behind) > 1 else 'carries'} {old}, which Kubernetes"
            f" replaced by {new}{told}.",
            f"Give these nodes {new}, and write rules over that.",
            tuple(node.ref for node in differ or behind),
        )


def _alike(
    domains: t.Mapping[str, t.Mapping[str, tuple[Node, ...]]],
) -> t.Iterator[Finding]:
    for name, found in domains.items():
        if name == "host":
            continue
        same: dict[str, list[str]] = defaultdict(list)
        for domain in found:
            same[_plain(domain)].append(domain)
        for values in same.values():
            if len(values) > 1:
                yield Finding(
                    "domains_alike",
                    "warning",
                    f"The domains {' and '.join(values)} of {name} differ in spelling only.",
                    "If one place is meant, give its nodes one value.",
                    tuple(node.ref for value in values for node in found[value]),
                )


def _plain(domain: str) -> str:
    return domain.casefold().translate(str.maketrans("", "", "-_."))


def _names(nodes: t.Sequence[Node]) -> str:
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return ", ".join(node.name for node in nodes[:_SHOWN]) + more
