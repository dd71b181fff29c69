# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint of rules that are about to be written: of the workloads as they would be afterwards."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.finding import Finding
from ..model.rule import Rule
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..model.write import Write
from ..planning.written import written
from . import affinity, groups, keys, migration, nodes, rollouts, selectors, spread, validity
from .cluster_scene import scene_of
from .merging import merged

FAMILIES = (selectors, keys, nodes, affinity, groups, migration, spread, rollouts, validity)
"""Those of `report` but `workloads` and `server`: the rules look for these themselves."""

OF_RULES = frozenset(
    {
        "key_on_no_node",
        "key_on_some_nodes",
        "mutual_affinity",
        "restart_required",
    }
)
"""Findings of these families that the rules look for, too: nothing is said twice."""

Check = t.Callable[[Snapshot, tuple[Rule, ...], tuple[Write, ...]], tuple[Finding, ...]]


def check_of(topology: Topology) -> Check:
    """The check that `plan_rules` takes as `extra_findings`."""

    def check(
        snapshot: Snapshot, rules: tuple[Rule, ...], writes: tuple[Write, ...]
    ) -> tuple[Finding, ...]:
        return lint_request(snapshot, rules, writes, topology)

    return check


def lint_request(
    snapshot: Snapshot,
    rules: t.Iterable[Rule],
    writes: t.Iterable[Write],
    topology: Topology,
) -> tuple[Finding, ...]:
    """The findings about terms of `rules` on the workloads that carry them after `writes`."""
    after = written(snapshot, tuple(writes))
    ids = {str(rule.id): rule.id.name for rule in rules}
    everybody = scene_of(after, topology)
    carriers = tuple(
        subject
        for subject in everybody.subjects
        if any(rule.rule in ids for rule in subject.declared.rules)
    )
    scene = replace(everybody, subjects=carriers)
    found = merged(finding for family in FAMILIES for finding in family.findings(scene))
    return tuple(f for f in found if f.rule in ids.values() and f.name not in OF_RULES)
