# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings and input errors, and the names of all findings.

The names are the same in every release; docs/findings.md explains each.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .objects import Ref

Severity = t.Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """`why` and `advice` are one sentence each; `objects` are those that the finding is about."""

    name: str
    severity: Severity
    why: str
    advice: str
    objects: tuple[Ref, ...] = ()
    rule: str = ""

    def as_json(self) -> dict[str, t.Any]:
        return {
            "name": self.name,
            "severity": self.severity,
            "why": self.why,
            "advice": self.advice,
            "objects": [str(ref) for ref in self.objects],
            "rule": self.rule,
        }


@dataclass(frozen=True, slots=True)
class InputError:
    """Input that cannot be used. `where` names the rule or option with its index."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class InvalidInput(ValueError):
    """The input has `errors`; the message lists all of them. Nothing was written."""

    def __init__(self, errors: t.Sequence[InputError]) -> None:
        super().__init__("\n".join(str(error) for error in errors))
        self.errors = tuple(errors)


_SHOWN = 5


def sentences(findings: t.Iterable[Finding]) -> list[tuple[Finding, str]]:
    """One sentence for each rule and finding name: the objects of all such findings, and the why
    and the advice of the first. Each with that first finding."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.rule, finding.name), []).append(finding)
    return [(same[0], _sentence_of(same)) for same in alike.values()]


def sentence(same: t.Sequence[Finding]) -> str:
    """As `sentences`, for findings of one rule and name; starts with the name of the rule."""
    rule = f"rule {same[0].rule}, " if same[0].rule else ""
    return f"{rule}{_sentence_of(same)}"


def _sentence_of(same: t.Sequence[Finding]) -> str:
    first = same[0]
    objects = list(dict.fromkeys(ref for finding in same for ref in finding.objects))
    shown = objects[:_SHOWN]
    more = f" and {len(objects) - _SHOWN} more" if len(objects) > _SHOWN else ""
    unnamed = not all(_is_named(ref, first.why) for ref in shown)
    where = f" ({', '.join(map(str, shown))}{more})" if unnamed else ""
    return f"{first.name}{where}: {first.why} {first.advice}"


def _is_named(ref: Ref, why: str) -> bool:
    """Whether a sentence names an object; a node may appear without its kind."""
    return str(ref) in why or (ref.kind == "Node" and ref.name in why)


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
