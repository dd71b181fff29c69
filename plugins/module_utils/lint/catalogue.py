# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every finding that the collection can have, by name: who says it, and what it takes to see it.

docs/findings.md explains each of them, and tests hold that each is found both on a cluster and
without one, or says here why it cannot be.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Source(str, Enum):
    """Who looks for a finding."""

    LINT = "lint"
    """Terms, whoever wrote them: placement_info, lint_info, forecast_info and rules."""
    LABELS = "labels"
    """Node labels: topology_info, and lint_info where nodes are among the manifests."""
    RULES = "rules"
    """Rules while they are put into templates: rules and forecast_info."""
    FORECAST = "forecast"
    """What would happen: forecast_info."""


class Takes(str, Enum):
    """What must be known for a finding to be seen without a cluster."""

    NOTHING = "nothing"
    NODES = "nodes"
    VERSIONS = "versions"


@dataclass(frozen=True)
class Entry:
    """`offline` is None for what only a cluster can show, and `reason` says why."""

    source: Source
    offline: Takes | None = Takes.NOTHING
    reason: str = ""


_MERGED = "it is about the template that stands on the cluster, into which the rule is put"
_RUNNING = "it is about the pods that run"


def _online(source: Source, reason: str) -> Entry:
    return Entry(source, None, reason)


CATALOGUE: dict[str, Entry] = {
    "bare_key": Entry(Source.LINT),
    "blocks_live_migration": Entry(Source.LINT),
    "bypassed": Entry(Source.LINT),
    "cloned": Entry(Source.LINT),
    "deprecated_key": Entry(Source.LINT),
    "empty_term": Entry(Source.LINT),
    "follower_depends_on_leader": Entry(Source.LINT),
    "invalid_placement": Entry(Source.LINT),
    "key_on_no_node": Entry(Source.LINT),
    "key_on_some_nodes": Entry(Source.LINT, Takes.NODES),
    "managed_by": Entry(Source.LINT),
    "max_skew_is_not_max_count": Entry(Source.LINT),
    "mutual_affinity": Entry(Source.LINT),
    "negative_namespace_selector": Entry(Source.LINT),
    "never_met": Entry(Source.LINT),
    "own_rollout_deadlock": Entry(Source.LINT),
    "restart_required": Entry(Source.LINT),
    "selector_matches_everything": Entry(Source.LINT),
    "selector_matches_nothing": Entry(Source.LINT),
    "server_lacks_feature": Entry(Source.LINT, Takes.VERSIONS),
    "single_domain": Entry(Source.LINT, Takes.NODES),
    "spread_strands_drain": Entry(Source.LINT),
    "template_and_selector_disagree": Entry(Source.LINT),
    "deprecated_label": Entry(Source.LABELS, Takes.NODES),
    "domains_alike": Entry(Source.LABELS, Takes.NODES),
    "duplicate_hostname": Entry(Source.LABELS, Takes.NODES),
    "topology_incomplete": Entry(Source.LABELS, Takes.NODES),
    "zone_in_two_regions": Entry(Source.LABELS, Takes.NODES),
    "duplicate_spread": _online(Source.RULES, _MERGED),
    "label_conflict": _online(Source.RULES, _MERGED),
    "no_members": _online(Source.RULES, "the workloads of a rule are looked up on the cluster"),
    "node_selector_conflict": _online(Source.RULES, _MERGED),
    "node_terms_conflict": _online(Source.RULES, _MERGED),
    "not_checked": _online(Source.RULES, "it names what a right is missing for"),
    "second_required_affinity": _online(Source.RULES, _MERGED),
    "selector_matches_others": _online(Source.RULES, _RUNNING),
    "selector_misses_members": _online(Source.RULES, _RUNNING),
    "self_rolling": _online(Source.RULES, "it is about the write itself"),
    "single_member": _online(Source.RULES, "the workloads of a rule are looked up on the cluster"),
    "strict_needs_hold": _online(Source.RULES, "without one it is own_rollout_deadlock"),
    "unreadable_ownership": _online(Source.RULES, "it is about the object that would be written"),
    "not_made_again": _online(Source.FORECAST, "it is about what runs on the nodes that are lost"),
}
"""Names stay the same between releases."""
