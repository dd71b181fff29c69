# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Score cases: raw and normalized scores of the plugins that score preferred rules."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.index import Index

from .scorers import score
from .world import Case, build_index, incoming


def one_plugin(case: Case) -> t.Iterator[str]:
    """An upstream table test of one plugin's scores."""
    index, pod = build_index(case), incoming(case["pod"], case)
    nodes = case.get("scoreNodes") or [node.name for node in index.nodes]
    yield from score_differences(index, pod, {case["plugin"]: case["expect"]}, nodes)


def all_plugins(case: Case) -> t.Iterator[str]:
    """Every plugin that the case names; one that it does not name was skipped."""
    index, pod = build_index(case), incoming(case["pod"], case)
    expected = {
        plugin: case["expectScores"].get(plugin, {"preScore": "Skip"})
        for plugin in ("NodeAffinity", "TaintToleration", "InterPodAffinity", "PodTopologySpread")
    }
    yield from score_differences(index, pod, expected, case["scoreNodes"])


def score_differences(
    index: Index, pod: Pod, expected: Case, nodes: t.Sequence[str]
) -> t.Iterator[str]:
    """Where the engine's scores of `nodes` differ from `expected` by plugin."""
    for plugin, want in expected.items():
        got = score(index, pod, plugin, nodes)
        status = want.get("preScore", "Success")
        if got.status != status:
            yield f"{plugin}: expected {status}, got {got.status}"
        elif status == "Success":
            for name, scores in (("raw", got.raw), ("normalized", got.normalized)):
                if want[name] != scores:
                    yield f"{plugin} {name}: expected {want[name]}, got {dict(scores or {})}"
