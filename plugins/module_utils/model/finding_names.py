# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of all findings, for whoever takes one as input. lint/catalogue.py says more of each."""

from __future__ import annotations

FINDING_NAMES = frozenset(
    {
        "bare_key",
        "blocks_live_migration",
        "bypassed",
        "cloned",
        "deprecated_key",
        "deprecated_label",
        "domains_alike",
        "duplicate_hostname",
        "duplicate_spread",
        "empty_term",
        "follower_depends_on_leader",
        "invalid_placement",
        "key_on_no_node",
        "key_on_some_nodes",
        "label_conflict",
        "managed_by",
        "max_skew_is_not_max_count",
        "mutual_affinity",
        "negative_namespace_selector",
        "never_met",
        "no_members",
        "node_selector_conflict",
        "node_terms_conflict",
        "not_checked",
        "not_made_again",
        "own_rollout_deadlock",
        "restart_required",
        "second_required_affinity",
        "selector_matches_everything",
        "selector_matches_nothing",
        "selector_matches_others",
        "selector_misses_members",
        "self_rolling",
        "server_lacks_feature",
        "single_domain",
        "single_member",
        "spread_strands_drain",
        "strict_needs_hold",
        "template_and_selector_disagree",
        "topology_incomplete",
        "unreadable_ownership",
        "zone_in_two_regions",
    }
)
