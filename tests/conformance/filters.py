# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cases: one incoming pod (upstream, edge and fuzz), or every running one (verify)."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.scheduler.framework import FilterStatus
from ansible_collections.virt.placement.plugins.module_utils.scheduler.node_affinity import (
    narrowed_names,
)

from .scores import score_differences
from .wording import SUCCESS, Outcome, outcome, wanted, without_taint
from .world import Case, build_index, incoming

Differences = t.Iterator[str]


def one_filter(case: Case) -> Differences:
    """An upstream table test: the verdict of one plugin on each node. Where the case was not run
    through the recorded release, the table of the newer release is what counts."""
    index, pod, plugin = build_index(case), incoming(case["pod"], case), case["plugin"]
    newer = "expect" not in case
    expected = case["wantUpstream"] if newer else case["expect"]["nodes"]
    passing = set(index.table.names_of(index.nodes_passing(index.pod_info(pod), {plugin})))
    for node, verdict in expected.items():
        failures = index.failures(pod, node, plugins={plugin})
        got, want = outcome(failures[0] if failures else None), wanted(verdict)
        if newer:
            got, want = without_taint(got), without_taint(want)
            if "reasons" not in verdict:
                got = got[0], ()
        yield from _compare(f"{plugin} on {node}", want, got)
        if (node in passing) != (not failures):
            yield f"{plugin}: feasible and failures disagree on {node}"
    if not newer:
        yield from _pre_filter(pod, plugin, case["expect"].get("preFilter"))


def all_filters(case: Case) -> Differences:
    """Every filter on every node, and the nodes that pass all of them; scores where named."""
    index, pod, expected = build_index(case), incoming(case["pod"], case), case["expect"]
    feasible = index.feasible_nodes(pod)
    yield from _compare_nodes("feasible", expected["feasible"], feasible)
    for node in index.nodes:
        failures = index.failures(pod, node.name)
        if (not failures) != (node.name in feasible):
            yield f"feasible and failures disagree on {node.name}"
        yield from _compare_filters(node.name, expected["fail"], failures)
    for plugin, pre_filter in (expected.get("preFilter") or {}).items():
        yield from _pre_filter(pod, plugin, pre_filter)
    if "nodeAffinityPreFilterNodeNames" in expected:
        names = expected["nodeAffinityPreFilterNodeNames"]
        yield from _pre_filter(pod, "NodeAffinity", {"code": "Success", "nodeNames": names})
    if "scores" in expected:
        yield from score_differences(index, pod, expected["scores"], feasible)


def verify(case: Case) -> Differences:
    """Each running pod: taken out, may it come back; where else; and as a live migration."""
    index = build_index(case)
    for each in case["expect"]:
        key, node = each["pod"], each["node"]
        pod = index.pod(key)
        fail = {plugin: {node: verdict} for plugin, verdict in each["violations"].items()}
        yield from (
            f"{key}: {text}" for text in _compare_filters(node, fail, index.failures_in_place(key))
        )
        again = index.failures(pod, node, without=key)
        if again != index.failures_in_place(key):
            yield f"{key}: verify and failures without itself disagree"
        restarted = index.feasible_nodes(pod, without=key)
        migrated = index.feasible_nodes(pod, exclude={node})
        yield from _compare_nodes(f"{key} restarted", each["feasibleIfRestarted"], restarted)
        yield from _compare_nodes(f"{key} migrated", each["feasibleIfLiveMigrated"], migrated)


def _compare_filters(node: str, expected: Case, failures: t.Iterable[FilterStatus]) -> Differences:
    got = {failure.plugin: outcome(failure) for failure in failures}
    want = {
        plugin: wanted(verdicts[node]) for plugin, verdicts in expected.items() if node in verdicts
    }
    for plugin in sorted({*got, *want}):
        yield from _compare(
            f"{plugin} on {node}", want.get(plugin, SUCCESS), got.get(plugin, SUCCESS)
        )


def _compare(what: str, want: Outcome, got: Outcome) -> Differences:
    if want != got:
        yield f"{what}: expected {_say(want)}, got {_say(got)}"


def _compare_nodes(what: str, want: t.Iterable[str], got: t.Iterable[str]) -> Differences:
    if set(want) != set(got):
        yield f"{what}: expected {sorted(want)}, got {sorted(got)}"


def _pre_filter(pod: Pod, plugin: str, expected: Case | None) -> Differences:
    """What is decided before any node is looked at. Whether the scheduler then skips the filter
    or asks it in vain makes no verdict different, so Skip and Success are one."""
    if not expected or plugin != "NodeAffinity":
        return
    names = narrowed_names(pod.placement.node_terms)
    if (names == frozenset()) != (expected["code"] == "UnschedulableAndUnresolvable"):
        yield f"preFilter: expected {expected}, got names {names}"
    elif set(names or ()) != set(expected.get("nodeNames") or ()):
        yield f"preFilter: expected {expected.get('nodeNames')}, got {sorted(names or ())}"


def _say(one: Outcome) -> str:
    return one[0] + (f" ({'; '.join(one[1])})" if one[1] else "")
