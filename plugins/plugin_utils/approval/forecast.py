# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A forecast that a person approves, and whether the next one is worse. Used by the lookup forecast_approval."""

from __future__ import annotations

import hashlib
import json
import typing as t
from collections import Counter

from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import UNKNOWN

Object = t.Mapping[str, t.Any]

FORECASTS = ("guaranteed", "possible", "unknown", "impossible")
"""The best first."""

SHOWN = 100
"""Moves and reasons in the summary, at most: a job of AWX keeps it, and shows it on a page."""

DECIDED = ("rules", "state", "prune", "adopt", "new_members", "topology_keys")
"""Options of placement_apply and placement_undo that decide what is written."""

LIMITS = (
    "scope",
    "allow",
    "max_parallel",
    "max_unavailable",
    "max_moves",
    "failures_allowed",
    "fail_on_skipped",
)
"""Options of the same roles that decide what a rollout moves, by which method, and how much of it at once."""

_UNDO = "undo of "


class Uncovered(t.NamedTuple):
    """What an approval does not cover. `rules`: the names of those that it is about, where it is about some."""

    code: str
    text: str
    rules: tuple[str, ...] = ()


def rule_set_of(options: Object) -> str:
    """Which rules a forecast is about, as `namespace/rule set`, or that it is about an undo of them."""
    of_undo = _UNDO if options["state"] == "reverted" else ""
    return f"{of_undo}{options['namespace']}/{options['rule_set']}"


def summary_of(result: Object, options: Object) -> dict[str, t.Any]:
    """What an approver needs of a forecast. `result`: that of forecast_info, `options`: those of the role."""
    moves = _moves(result, options)
    decided = json.dumps([options[name] for name in DECIDED], sort_keys=True)
    return {
        "forecast": result["forecast"],
        "reasons": list(result["reasons"])[:SHOWN],
        "pending": sorted({entry["reason"] for entry in result["pending"]})[:SHOWN],
        "min_unschedulable": result["min_unschedulable"],
        "moves": len(moves),
        "methods": dict(Counter(str(move["method"]) for move in moves)),
        "moves_shown": [_words(move) for move in moves[:SHOWN]],
        "policy": result.get("policy_digest", ""),
        "policy_rules": list(result.get("policy_rules", ())),
        "policy_rules_removed": list(result.get("policy_rules_removed", ())),
        "rules": hashlib.sha256(decided.encode()).hexdigest(),
        "limits": _limits(options),
        "cluster": result["cluster"]["uid"],
    }


def why_unusable(summary: Object | None) -> list[str]:
    """Why no approval of this forecast can be used, so that it is not published: empty where one can."""
    if summary is None or summary["cluster"]:
        return []
    return [
        "The UID of the cluster cannot be read, so an approval may be one for another cluster: grant this identity"
        " the verb 'get' on namespaces, then launch the job in check mode again."
    ]


def _limits(options: Object) -> dict[str, t.Any]:
    """What the role may do to workloads and VMs. `apply` after an approval may leave the moves to another job."""
    names = ("workload_rollout", *(LIMITS if options["rollout"] else ()))
    limits = {name: options[name] for name in names}
    return {name: sorted(x) if isinstance(x, (list, tuple)) else x for name, x in limits.items()}


def _moves(result: Object, options: Object) -> list[Object]:
    """The moves that the role makes."""
    if not options["rollout"]:
        return []
    moves = [move for move in result["moves"] if move["method"] in options["allow"]]
    return moves[: options["max_moves"]] if options["max_moves"] else moves


def _words(move: Object) -> str:
    instance = "" if move["instance"] == move["name"] else f" ({move['instance']})"
    return (
        f"{move['method']} {move['kind']} {move['namespace']}/{move['name']}{instance}"
        f" from {move['from_node']} to {move['to_node']}"
    )


def approval_faults(
    approved: t.Any, summary: Object | None, options: Object, host: str, role: str
) -> list[Uncovered]:
    """Why the approval does not cover what the role is about to do. `approved`: of each host and rule set, what the job
    before published. `summary`: of the forecast of now, None if there is none. `role`: placement_apply or
    placement_undo."""
    about = rule_set_of(options)
    if not isinstance(approved, t.Mapping):
        return [
            Uncovered(
                "damaged", "placement_forecast: must be what the forecast published, a map by host."
            )
        ]
    forecasts: t.Any = approved.get(host)
    names = forecasts if isinstance(forecasts, t.Mapping) else ()
    of_undo = any(str(name).startswith(_UNDO) for name in names)
    if options["state"] == "reverted" and not of_undo:
        return []  # what was approved is the change that is undone
    if unusable := why_unusable(summary):
        return [Uncovered("cluster_unknown", text) for text in unusable]
    if not isinstance(forecasts, t.Mapping) or about not in forecasts:
        known = ", ".join(sorted(map(str, forecasts))) if forecasts else "none"
        return [
            Uncovered(
                "not_approved",
                f"No forecast of {about} was approved for {host}. Forecasts of this host: {known}.",
            )
        ]
    approved_one = forecasts[about]
    if not _is_summary(approved_one):
        return [
            Uncovered(
                "damaged",
                f"placement_forecast: the forecast of {about} for {host} is damaged: it must be as check mode published"
                " it. Launch the job in check mode again.",
            )
        ]
    if summary is None:
        return [
            Uncovered(
                "no_forecast",
                f"{role}_forecast is false: the approved forecast needs one to compare with.",
            )
        ]
    return [
        *_other_options(approved_one, summary),
        *_policy_differences(approved_one, summary),
        *_worse_results(approved_one, summary),
    ]


def _is_summary(value: t.Any) -> bool:
    """Whether it has what is compared. It comes through the variables of other jobs."""
    if not isinstance(value, t.Mapping):
        return False
    if not all(isinstance(value.get(name), t.Mapping) for name in ("methods", "limits")):
        return False
    numbers = [value.get("moves"), value.get("min_unschedulable"), *value["methods"].values()]
    lists = [value.get(name, []) for name in ("policy_rules", "policy_rules_removed")]
    return (
        value.get("forecast") in FORECASTS
        and all(isinstance(value.get(name), str) for name in ("rules", "cluster"))
        and all(isinstance(number, int) for number in numbers)
        and all(isinstance(names, (list, tuple)) for names in lists)
    )


def _other_options(approved: Object, now: Object) -> t.Iterator[Uncovered]:
    """Another cluster, other options."""
    if approved["cluster"] != now["cluster"]:
        yield Uncovered(
            "other_cluster",
            f"The forecast was approved for the cluster {approved['cluster']}, and this is {now['cluster']}.",
        )
    for name, value in now["limits"].items():
        if approved["limits"].get(name) != value:
            before = json.dumps(approved["limits"].get(name))
            yield Uncovered(
                "other_limit",
                f"{name} is {json.dumps(value)} now, and {before} in the approved forecast.",
            )
    if approved["rules"] != now["rules"]:
        yield Uncovered("other_rules", "The rules are not those of the approved forecast.")


def _policy_differences(approved: Object, now: Object) -> t.Iterator[Uncovered]:
    """Rules that would leave the policy for workloads that are created later by this task alone; and another policy
    than the approved one, with the rules that it has more or less."""
    policy = "the policy for workloads that are created later"
    known_leaving = [*map(str, approved.get("policy_rules_removed", ()))]
    before = [*map(str, approved.get("policy_rules", ()))]
    after = now["policy_rules"]
    if leaving := tuple(name for name in now["policy_rules_removed"] if name not in known_leaving):
        yield Uncovered(
            "policy_rules_removed",
            f"Rules {', '.join(leaving)} would leave {policy}, and would not in the approved forecast.",
            leaving,
        )
    digest = approved.get("policy", "")
    if digest == now["policy"]:
        return
    if UNKNOWN in (digest, now["policy"]):
        one, other = "in the approved forecast", "now"
        unread, read = (one, other) if digest == UNKNOWN else (other, one)
        yield Uncovered(
            "policy_unknown",
            f"The content of {policy} is unknown {unread}, and known {read}. Both jobs need the right to list policies"
            " (rbac/reader.yml).",
        )
        return
    if missing := tuple(name for name in before if name not in {*after, *leaving}):
        yield Uncovered(
            "policy_rules_missing",
            f"Rules {', '.join(missing)} would not be in {policy}, and would be in the approved forecast.",
            missing,
        )
    if added := tuple(name for name in after if name not in before):
        yield Uncovered(
            "policy_rules_added",
            f"Rules {', '.join(added)} would be in {policy}, and would not in the approved forecast.",
            added,
        )
    if not (leaving or missing or added):
        yield Uncovered(
            "other_policy",
            f"Another task or client has changed {policy}: its rules are those of the approved forecast, and what it"
            " writes is not.",
        )


def _worse_results(approved: Object, now: Object) -> t.Iterator[Uncovered]:
    """A worse forecast, more moves."""
    if FORECASTS.index(now["forecast"]) > FORECASTS.index(approved["forecast"]):
        reasons = "; ".join([*now["reasons"], *now["pending"]][:3])
        yield Uncovered(
            "worse_forecast",
            f"The forecast is {now['forecast']} now, and {approved['forecast']} was approved. {reasons}".rstrip(),
        )
    if now["moves"] > approved["moves"]:
        yield Uncovered(
            "more_moves",
            f"{now['moves']} moves are needed now, and {approved['moves']} were approved.",
        )
    for method, count in now["methods"].items():
        allowed = approved["methods"].get(method, 0)
        if method != "migrate" and count > allowed:
            yield Uncovered(
                "more_moves",
                f"{count} moves by {method} are needed now, and {allowed} were approved.",
            )
    if now["min_unschedulable"] > approved["min_unschedulable"]:
        yield Uncovered(
            "more_unschedulable",
            f"{now['min_unschedulable']} instances would have no node now, and {approved['min_unschedulable']} when"
            " it was approved.",
        )
