# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""For each finding that takes rules or a loss: a request in which it is the only one, and one without.

Each side is a function without arguments that asks the engine and returns the findings.
"""

from __future__ import annotations

import copy
import typing as t
from dataclasses import dataclass

from ansible_collections.virt.placement.plugins.module_utils.cluster.patching import still_differs
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.preemption import (
    preempting_vms,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.stuck import newly_stuck
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import instances
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.rule import Rule
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from ansible_collections.virt.placement.plugins.module_utils.rules.changed_back import changed_back
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.parsed import parsed
from tests.support.cluster import (
    HOST,
    ZONE,
    Cluster,
    cluster,
    expression,
    keep_apart,
    machine,
    node_affinity,
)
from tests.unit.planning import scenes
from tests.unit.rules.builders import (
    NAMESPACE,
    applied,
    deployment,
    plan,
    request,
    running,
    snapshot,
    vm,
    workload,
)

JSON = t.Any
Ask = t.Callable[[], t.Sequence[Finding]]

ON_A = [{"name": "a"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APART = {"keep_apart": {"topology_key": "zone"}}
ELSEWHERE = {"workloads": ON_A, "avoid": {"zone": "a"}}
SPREAD = {"workloads": ON_A, "label": {"tier": "web"}, "spread": {"topology_key": "zone"}}
WEB = [{"kind": "Deployment", "name": "web"}]
TIERED = {"workloads": [{"labels": {"tier": "web"}}], **APART}


@dataclass(frozen=True)
class Example:
    bad: Ask
    good: Ask


@dataclass(frozen=True)
class Asked:
    """Rules put into the templates of a cluster."""

    seen: Snapshot
    listed: tuple[JSON, ...]
    options: t.Mapping[str, t.Any]

    def __call__(self) -> t.Sequence[Finding]:
        return plan(self.seen, *self.listed, **self.options).findings

    @property
    def rules(self) -> tuple[Rule, ...]:
        return parsed(self.listed)

    @property
    def manifests(self) -> list[JSON]:
        """What a folder would hold of all this: workloads, and pods that nobody makes."""
        alone = [pod for pod in self.seen.pods if pod.owner is None]
        metadata = [{"name": p.name, "namespace": p.namespace, "labels": p.labels} for p in alone]
        pods = [{"kind": "Pod", "metadata": each, "spec": {}} for each in metadata]
        return [*(dict(each.manifest) for each in self.seen.workloads), *pods]


def asked(seen: Snapshot, *rules: JSON, **options: t.Any) -> Asked:
    named = tuple({"name": f"r{number}", **rule} for number, rule in enumerate(rules))
    return Asked(seen, named, options)


def with_rule(name: str, **options: t.Any) -> Snapshot:
    """The VM a with one rule of this name."""
    machine = vm("a")
    rule = {"name": name, "workloads": ON_A, "avoid": {"zone": "a"}}
    (write,) = plan(snapshot(machine), rule, **options).writes
    return snapshot(workload(applied(copy.deepcopy(dict(machine.manifest)), write)))


def undone(*, changed: bool) -> t.Sequence[Finding]:
    """An undo of the rule of a, with b that had it too and whose affinity others may have changed."""
    rule = {"name": "r", "workloads": [{"names": ["a", "b"]}], "avoid": {"zone": "a"}}
    there = snapshot(vm("a"), vm("b"))
    there = written(there, plan(there, rule).writes)
    a, b = there.workloads
    manifest = copy.deepcopy(dict(b.manifest))
    if changed:
        manifest["spec"]["template"]["spec"]["affinity"] = {}
    return plan_revert(snapshot(a, workload(manifest)), request(state="reverted")).findings


def spread_there(action: str) -> Snapshot:
    there = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": action}
    return snapshot(vm("a", placement={"topologySpreadConstraints": [there]}))


def selecting(node: str) -> Snapshot:
    return snapshot(vm("a", placement={"nodeSelector": {HOST: node}}))


def either_zone() -> JSON:
    terms = [{"matchExpressions": [expression(ZONE, "In", zone)]} for zone in "ab"]
    return {"workloads": ON_A, "terms": node_affinity(*terms)}


def beside(name: str) -> JSON:
    return {"workloads": ON_A, "keep_together": {"topology_key": "zone", "with": {"name": name}}}


def three() -> Snapshot:
    return snapshot(vm("a"), vm("b"), vm("c"))


def unread(*resources: str) -> Snapshot:
    gaps = tuple(Unreadable(resource, "", "list", "grant it") for resource in resources)
    return snapshot(vm("a"), unreadable=gaps)


def with_a_stray(tier: str) -> Snapshot:
    machines = [vm(name, labels={"tier": "web"}) for name in "ab"]
    stray = Pod(NAMESPACE, "stray", "s", labels={"tier": tier}, phase="Running")
    return snapshot(*machines, pods=(stray,))


def labelled(*, before_start: bool) -> Snapshot:
    """Machines of which one runs, made before its template got the label or after."""
    machines = [vm(name, labels={"tier": "web"}) for name in "ab"]
    made = machines[0] if before_start else vm("a")
    return snapshot(*machines, run=[running(made)])


def damaged(text: str | None) -> Snapshot:
    """Another machine whose annotation is ours."""
    other: Workload = vm("b")
    annotations = {} if text is None else {"placement.virt/rules": text}
    other.manifest["metadata"]["annotations"] = annotations
    return snapshot(vm("a"), other)


def stuck(nodes: int) -> Ask:
    """Three machines on three nodes are to be kept apart."""

    def ask() -> t.Sequence[Finding]:
        made = cluster("abcd"[:nodes])
        refs = [machine(made, f"db-{n}", f"n{n}", g="db") for n in (1, 2, 3)]
        writes = [
            scenes.template_write(ref, "affinity", keep_apart(over=HOST, g="db")) for ref in refs
        ]
        before = made.snapshot()
        change, unchanged = what_if(before, writes=writes), what_if(before, members=refs)

        def drain(node: str) -> Forecast:
            return forecast(what_if(before, writes=writes, lost_nodes=[node]))

        rule_set = ("shop", "default")
        return tuple(newly_stuck(change, forecast(change), forecast(unchanged), rule_set, drain))

    return ask


def lost(event: NodeEvent, *, owned: bool) -> Ask:
    """A node with a pod on it is lost."""
    cluster = Cluster("ab")
    if owned:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": 1, "selector": selector, "template": template}
        cluster.start(cluster.workload("Deployment", "web", spec), "n1")
    else:
        cluster.bare_pod("lonely", "n1")
    return lambda: scenes.lost(cluster, "n1", event=event).findings


def priorities(of_one: int) -> Ask:
    """Two VMs, of which one has this priority."""
    cluster = Cluster("ab")
    for name in ("a", "b"):
        cluster.run(name, "n1")
    next(iter(cluster.pods.values()))["spec"]["priority"] = of_one
    return lambda: tuple(preempting_vms(instances(cluster.snapshot())))


def apart_by_hand(*, weight: int | None) -> Snapshot:
    """Machines of which one has a term like that of APART_SOFTLY, if it has a weight."""
    selector = {"matchLabels": {"tier": "web"}}
    term = {"weight": weight, "podAffinityTerm": {"labelSelector": selector, "topologyKey": ZONE}}
    by_hand = {"affinity": {"podAntiAffinity": {PREFERRED: [term]}}} if weight else None
    first = vm("a", labels={"tier": "web"}, placement=by_hand)
    return snapshot(first, vm("b", labels={"tier": "web"}))


def by_webhook(term: JSON) -> list[Finding]:
    """The answer to the write of a node term, from which a webhook took terms without matchExpressions."""
    node_affinity_of = {REQUIRED: {"nodeSelectorTerms": [term]}}
    rule = {"workloads": ON_A, "terms": {"affinity": {"nodeAffinity": node_affinity_of}}}
    found = plan(snapshot(vm("a")), {"name": "r", **rule})
    (write,) = found.writes
    answer = applied(copy.deepcopy(dict(vm("a").manifest)), write)
    required = answer["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    kept = [x for x in required["nodeSelectorTerms"] if x.get("matchExpressions")]
    required["nodeSelectorTerms"] = kept
    if not still_differs(found.recompute, write, answer):
        return []
    return changed_back(write.target, answer, found.requested[write.target])


APART_SOFTLY = {"workloads": [{"labels": {"tier": "web"}}], **APART, "preferred": True}

EXAMPLES: dict[str, Example] = {
    "duplicate_spread": Example(
        asked(spread_there("DoNotSchedule"), SPREAD), asked(spread_there("ScheduleAnyway"), SPREAD)
    ),
    "label_conflict": Example(
        asked(
            snapshot(vm("a", labels={"tier": "web"})), {"workloads": ON_A, "label": {"tier": "api"}}
        ),
        asked(
            snapshot(vm("a", labels={"tier": "web"})), {"workloads": ON_A, "label": {"tier": "web"}}
        ),
    ),
    "no_matching_workloads": Example(
        asked(snapshot(vm("a")), {**ELSEWHERE, "workloads": [{"labels": {"no": "body"}}]}),
        asked(snapshot(vm("a")), ELSEWHERE),
    ),
    "unknown_rule": Example(
        asked(with_rule("apart"), {**ELSEWHERE, "name": "appart"}, state="absent"),
        asked(with_rule("apart"), {**ELSEWHERE, "name": "apart"}, state="absent"),
    ),
    "node_selector_conflict": Example(
        asked(selecting("w1"), {"workloads": ON_A, "terms": {"nodeSelector": {HOST: "w2"}}}),
        asked(selecting("w1"), {"workloads": ON_A, "terms": {"nodeSelector": {HOST: "w1"}}}),
    ),
    "node_terms_conflict": Example(
        asked(three(), either_zone(), {"workloads": ON_A, "run_on": {"performance": "high"}}),
        asked(three(), either_zone()),
    ),
    "changed_by_webhook": Example(
        lambda: by_webhook({"matchFields": [expression("metadata.name", "In", "w1")]}),
        lambda: by_webhook({"matchExpressions": [expression(HOST, "In", "w1")]}),
    ),
    "check_skipped": Example(asked(unread("nodes"), ELSEWHERE), asked(unread(), ELSEWHERE)),
    "multiple_required_affinity": Example(
        asked(three(), beside("b"), beside("c")),
        asked(three(), beside("b"), {**beside("c"), "preferred": True}),
    ),
    "selector_matches_others": Example(
        asked(with_a_stray("web"), TIERED), asked(with_a_stray("db"), TIERED)
    ),
    "selector_misses_members": Example(
        asked(labelled(before_start=False), TIERED), asked(labelled(before_start=True), TIERED)
    ),
    "starts_workload_rollout": Example(
        asked(snapshot(deployment("web")), {**ELSEWHERE, "workloads": WEB}),
        asked(
            snapshot(deployment("web")), {**ELSEWHERE, "workloads": WEB}, workload_rollout="allow"
        ),
    ),
    "similar_term": Example(
        asked(apart_by_hand(weight=1), APART_SOFTLY),
        asked(apart_by_hand(weight=None), APART_SOFTLY),
    ),
    "single_workload": Example(
        asked(three(), {"workloads": ON_A, **APART}),
        asked(three(), {"workloads": [{"names": ["a", "b"]}], **APART}),
    ),
    "invalid_rules_annotation": Example(
        asked(damaged("{"), ELSEWHERE), asked(damaged(None), ELSEWHERE)
    ),
    "blocks_node_drain": Example(stuck(3), stuck(4)),
    "not_reverted": Example(lambda: undone(changed=True), lambda: undone(changed=False)),
    "preempts_vms": Example(priorities(1000), priorities(0)),
    "not_recreated": Example(lost("failure", owned=False), lost("failure", owned=True)),
}
