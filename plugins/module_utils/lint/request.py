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
from . import (
    affinity,
    groups,
    keys,
    migration,
    near_and_away,
    nodes,
    rollouts,
    selectors,
    spread,
    validity,
)
from .cluster_scene import scene_of
from .merging import merged
from .scene import Scene


class Family(t.Protocol):
    """A module that looks for some findings."""

    def findings(self, scene: Scene) -> t.Iterable[Finding]:
        """Those of the subjects of a scene."""


FAMILIES: tuple[Family, ...] = (
    selectors,
    keys,
    nodes,
    affinity,
    groups,
    near_and_away,
    migration,
    spread,
    rollouts,
    validity,
)
"""All but `workloads` and `server` (see report): the rules look for these themselves."""

LOOKED_FOR = frozenset(
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
    found = findings_about(scene_of(after, topology), rules, FAMILIES)
    return tuple(finding for finding in found if finding.name not in LOOKED_FOR)


def findings_about(
    everybody: Scene, rules: t.Iterable[Rule], families: t.Iterable[Family]
) -> tuple[Finding, ...]:
    """The findings of some families about terms of `rules` on the subjects that carry them."""
    ids = {str(rule.id): rule.id.name for rule in rules}
    carriers = tuple(
        subject
        for subject in everybody.subjects
        if any(rule.rule in ids for rule in subject.declared.rules)
    )
    scene = replace(everybody, subjects=carriers)
    found = merged(finding for family in families for finding in family.findings(scene))
    return tuple(finding for finding in found if finding.rule in ids.values())
