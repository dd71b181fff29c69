# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of all findings, the same in every release. docs/findings.md explains each."""

from __future__ import annotations

OF_TERMS = (
    "bare_key",
    "blocks_live_migration",
    "bypassed",
    "cloned",
    "deprecated_key",
    "empty_term",
    "follower_depends_on_leader",
    "invalid_placement",
    "key_on_no_node",
    "key_on_some_nodes",
    "managed_by",
    "max_skew_is_not_max_count",
    "mutual_affinity",
    "negative_namespace_selector",
    "never_met",
    "own_rollout_deadlock",
    "restart_required",
    "selector_matches_everything",
    "selector_matches_nothing",
    "server_lacks_feature",
    "single_domain",
    "spread_strands_drain",
    "template_and_selector_disagree",
    "value_on_no_node",
)
OF_NODE_LABELS = (
    "deprecated_label",
    "domains_alike",
    "duplicate_hostname",
    "topology_incomplete",
    "zone_in_two_regions",
)
OF_RULES = (
    "duplicate_spread",
    "label_conflict",
    "node_selector_conflict",
    "node_terms_conflict",
    "second_required_affinity",
    "selector_matches_others",
    "single_member",
    "strict_needs_hold",
    "unreadable_ownership",
)
ONLY_ON_A_CLUSTER = (
    "no_members",
    "not_checked",
    "not_made_again",
    "selector_misses_members",
    "self_rolling",
)
FINDING_NAMES = frozenset((*OF_TERMS, *OF_NODE_LABELS, *OF_RULES, *ONLY_ON_A_CLUSTER))
