# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes could no longer be emptied by live migration once rules are written?"""

from __future__ import annotations

import functools
import typing as t
from collections import defaultdict

from ..compliance.declared import DeclaredReader
from ..kubevirt.instances import arrived
from ..model.findings import Finding
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.rule import RuleId
from ..model.snapshot import Snapshot
from .change import ChangedCluster
from .conclusion import ForecastResult
from .result import Forecast, NotMigratableInstance

BLOCKS_NODE_DRAIN = "blocks_node_drain"
NAMED = 6


def newly_stuck(
    change: ChangedCluster,
    after: Forecast,
    before: Forecast,
    rule_set: tuple[str, str],
    drain: t.Callable[[str], Forecast],
) -> t.Iterator[Finding]:
    """A finding for the rules of each VM that could be live-migrated before the change and cannot afterwards.
    `before` is the forecast for the same workloads without the rules, `rule_set` the namespace and the name
    of the set that is written. `drain`: the forecast of the drain of a node with the rules, `once_moved`. A VM with
    affinity to another one of its node cannot leave alone, and may follow that one."""
    known = {stuck.instance for stuck in before.not_migratable}
    drain = functools.cache(drain)
    reader = change.after.derived(DeclaredReader)
    workloads = change.after.workloads_by_ref
    by_rules: dict[tuple[tuple[str, ...], str | None], list[NotMigratableInstance]] = defaultdict(
        list
    )
    for stuck in after.not_migratable:
        workload = workloads.get(stuck.workload) if stuck.workload is not None else None
        if stuck.instance in known or workload is None or stuck.workload not in change.touched:
            continue
        declared = reader.declared(workload)
        unknown: str | None = None
        if declared.placement.affinity:
            drained = drain(stuck.node)
            if _leaves(stuck, drained):
                continue
            unknown = _unknown(drained)
        ids = (RuleId.parse(rule.rule) for rule in declared.rules)
        names = tuple(x.name for x in ids if (x.namespace, x.rule_set) == rule_set)
        by_rules[names, unknown].append(stuck)
    for (rules, unknown), together in by_rules.items():
        yield _finding(rules, together, unknown)


def once_moved(snapshot: Snapshot, after: Forecast) -> Snapshot:
    """With the VMs that `after` migrates on their new nodes: there they would have to leave."""
    targets = {move.uid: move.targets[0] for move in after.moves if move.targets}
    return arrived(snapshot, targets)


def _leaves(stuck: NotMigratableInstance, drained: Forecast) -> bool:
    """Whether it can leave its node in a drain, once others have left."""
    if drained.answer in (ForecastResult.GUARANTEED, ForecastResult.POSSIBLE):
        return True
    left = {x.instance for x in drained.pending} | {x.instance for x in drained.not_migratable}
    return drained.answer is ForecastResult.IMPOSSIBLE and stuck.instance not in left


def _unknown(drained: Forecast) -> str | None:
    """What keeps the forecast of a drain from an answer; None where it has one."""
    if drained.answer is not ForecastResult.UNKNOWN:
        return None
    reasons = (*map(str, drained.unreadable), *drained.reasons)
    return next(iter(reasons), "no choice of nodes was found")


def _finding(
    rules: tuple[str, ...], stuck: t.Sequence[NotMigratableInstance], unknown: str | None
) -> Finding:
    nodes = sorted({each.node for each in stuck})
    vms = listed(sorted({each.workload or each.instance for each in stuck}), NAMED)
    named = f" (rules {', '.join(rules)})" if len(rules) > 1 else ""
    noun, names = "node" if len(nodes) == 1 else "nodes", listed(nodes, NAMED)
    certain = all(each.certain for each in stuck)
    restarts = all(set(each.if_restarted) - {each.node} for each in stuck)
    emptied = f"be emptied by live migration after this change{named}"
    if unknown is not None:
        cannot = "cannot" if certain else "may not be able to"
        text = f"Whether {noun} {names} can {emptied} is unknown: {unknown}. Alone, {vms} {cannot} leave."
    else:
        cannot = "cannot" if certain else "may no longer"
        text = (
            f"{noun.capitalize()} {names} {cannot} {emptied}: no other node would be feasible for {vms}."
            f" {stuck[0].instance.name}: {stuck[0].reason}."
        )
    return Finding(
        BLOCKS_NODE_DRAIN,
        "warning",
        text,
        "Make the rule preferred, or add a node that the rule allows."
        if not restarts
        else "Make the rule preferred, or add a node that the rule allows; a restart, as with vm_policy [migrate,"
        " restart] of node_maintenance, finds another node.",
        tuple(Ref("Node", "", name) for name in nodes),
        rules[0] if len(rules) == 1 else "",
    )
