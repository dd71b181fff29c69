# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings and input errors, and the names of all findings.

The names are the same in every release; docs/findings.md explains each.
"""

from __future__ import annotations

import difflib
import typing as t
from dataclasses import dataclass

from .objects import Ref
from .rendering import listed, one_line

Severity = t.Literal["error", "warning", "info"]
ErrorType = t.Literal["input", "permission", "finding", "api"]

GRANT_READER = "grant this identity the ClusterRole virt-placement-reader (rbac/reader.yml)"


@dataclass(frozen=True, slots=True)
class TaskError:
    """Why a task failed. `object`: the option, rule, right or Kubernetes object that is concerned."""

    type: ErrorType
    message: str
    object: str = ""

    def as_json(self) -> dict[str, str]:
        return {"type": self.type, "message": self.message, "object": self.object}

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class Finding:
    """`why` and `advice` are one sentence each; `objects` are those that the finding is about. `codes` are those
    that made the answer of a forecast, where the finding is about one. `never_migrates`: no live migration of the
    objects is possible while they are as they are. `names_option`: the advice names the option that accepts it.
    `named`: the objects that `why` names; None: all of them."""

    name: str
    severity: Severity
    why: str
    advice: str
    objects: tuple[Ref, ...] = ()
    rule: str = ""
    codes: tuple[str, ...] = ()
    never_migrates: bool = False
    names_option: bool = False
    named: tuple[Ref, ...] | None = None

    def as_json(self) -> dict[str, t.Any]:
        """Without `codes` where the finding is not about a forecast."""
        result = {
            "name": self.name,
            "severity": self.severity,
            "why": one_line(self.why),
            "advice": one_line(self.advice),
            "objects": [str(ref) for ref in self.objects],
            "rule": self.rule,
        }
        return {**result, "codes": [*self.codes]} if self.codes else result


@dataclass(frozen=True, slots=True)
class InputError:
    """Why a request is refused. `where` names the rule or option with its index."""

    where: str
    message: str
    type: ErrorType = "input"

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
    named = first.objects if first.named is None else first.named
    where = "" if set(named).issuperset(objects[:_SHOWN]) else f" ({listed(objects, _SHOWN)})"
    return f"{first.name}{where}: {first.why} {first.advice}"


def rules_text(rules: t.Iterable[str]) -> str:
    """The end of a sentence that names the rules which contradict each other; empty for fewer than two."""
    named = sorted(set(filter(None, rules)))
    return f" (rules {' and '.join(named)})" if len(named) > 1 else ""


OF_TERMS = (
    "architecture_mismatch",
    "blocks_live_migration",
    "bypassed_by_node_term",
    "copied_annotation",
    "depends_on_other_workload",
    "deprecated_node_label",
    "empty_node_term",
    "externally_managed",
    "invalid_placement",
    "max_skew_misread",
    "mutual_affinity",
    "names_node",
    "negative_namespace_selector",
    "no_node_has_key",
    "no_node_has_value",
    "nodes_lack_key",
    "other_scheduler",
    "restart_required",
    "rollout_deadlock",
    "rule_not_on_new_member",
    "selector_matches_everything",
    "selector_matches_nothing",
    "single_domain",
    "spread_blocks_drain",
    "spread_counts_unusable_domain",
    "template_and_selector_disagree",
    "too_many_terms",
    "unprefixed_label_key",
    "unsatisfiable",
    "unsupported_by_server",
    "volume_blocks_rollout",
    "workload_rollout_held",
)
OF_NODE_LABELS = (
    "duplicate_hostname",
    "similar_domain_names",
    "topology_incomplete",
    "zone_in_two_regions",
)
OF_MANIFESTS = ("budget_never_allows", "invalid_manifest")
OF_RULES = (
    "duplicate_spread",
    "invalid_rules_annotation",
    "label_conflict",
    "multiple_required_affinity",
    "node_selector_conflict",
    "node_terms_conflict",
    "selector_matches_others",
    "similar_term",
    "single_workload",
)
OF_RUNNING_PODS = ("evacuation_goes_on", "label_on_pod_only")
OF_POLICIES = (
    "new_members_not_covered",
    "policy_of_no_rule",
    "policy_refused",
    "policy_stale",
)
ONLY_OF_FORECASTS = ("blocks_node_drain",)
"""Findings of forecast_info that the module rules takes from its result."""
ONLY_ON_A_CLUSTER = (
    *ONLY_OF_FORECASTS,
    "changed_by_webhook",
    "check_skipped",
    "no_matching_workloads",
    "not_recreated",
    "not_reverted",
    "preempts_vms",
    "selector_misses_members",
    "starts_workload_rollout",
    "unknown_rule",
)
FINDING_NAMES = frozenset(
    (
        *OF_TERMS,
        *OF_NODE_LABELS,
        *OF_MANIFESTS,
        *OF_RULES,
        *OF_RUNNING_PODS,
        *OF_POLICIES,
        *ONLY_ON_A_CLUSTER,
    )
)

SEVERITIES: tuple[str, ...] = t.get_args(Severity)

FORECAST_RESULT: t.Mapping[str, type] = {
    "forecast": str,
    "reasons": list,
    "findings": list,
    "worsened_by_rules": bool,
    "permission_gaps": list,
}
"""What the module rules reads of a result of forecast_info, with the types."""

_SHORT = 3


def near_names(name: str, known: t.Iterable[str]) -> list[str]:
    """At most three names, the nearest first. A short name has to be nearer: `hp` is not `shop`."""
    near = [x for x in known if len(name) > _SHORT or abs(len(x) - len(name)) < 2]
    names = {x.lower(): x for x in sorted(near)}
    likely = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.6)
    return [names[x] for x in likely]
