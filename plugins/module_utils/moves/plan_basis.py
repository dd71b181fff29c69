# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a plan rely on beside its moves, and what of it has changed since?

Everything else that decides about a move is judged anew when the plan is made: a rollout makes an approved move only
while a new plan of the cluster has it, too.
"""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass, field

from ..api.client import ApiClient
from ..api.errors import Forbidden
from ..api.lists import list_all
from ..model.json_pointer import JSON
from ..model.objects import Node, NodeTerm, Placement, Ref
from ..model.plan import Move
from ..model.quota import quota_from_manifest
from ..model.rendering import listed
from ..model.snapshot import Snapshot
from ..model.topology import Topology
from ..planning.movable_instances import MovableInstance
from ..rules.term_slots import FIELDS
from ..scheduler.node_state import TRANSIENT_TAINTS, UNSCHEDULABLE_TAINT

QuotaSpecs = t.Mapping[str, t.Mapping[str, JSON]]
"""Name of a ResourceQuota to its spec."""

_HARD = ("NoSchedule", "NoExecute")
"""Effects of taints that keep a pod from a node."""


def transient_taints(node: Node) -> list[str]:
    """The keys of those that come and go with its conditions, without that of a cordon. A plan does not rely on them:
    a move is not possible where they keep its pod away."""
    keys = (x.key for x in node.taints if x.effect in _HARD and x != UNSCHEDULABLE_TAINT)
    return list(dict.fromkeys(key for key in keys if key.startswith(TRANSIENT_TAINTS)))


@dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """The rules of a workload, and a digest of the placement fields of its template."""

    rules: tuple[str, ...]
    placement: str

    @classmethod
    def of(cls, movable: MovableInstance) -> WorkloadFacts:
        workload, declared = movable.workload, movable.declared
        spec = (workload.template.get("spec") or {}) if workload is not None else {}
        text = json.dumps({name: spec.get(name) for name in FIELDS}, sort_keys=True)
        rules = sorted(x.rule for x in declared.rules) if declared is not None else []
        return cls(tuple(rules), hashlib.sha256(text.encode()).hexdigest()[:16])

    def change(self, now: WorkloadFacts) -> str:
        """What has changed, in words; empty where nothing has."""
        added = [rule for rule in now.rules if rule not in self.rules]
        removed = [rule for rule in self.rules if rule not in now.rules]
        texts = [f"rule {rule} was added" for rule in added]
        texts += [f"rule {rule} was removed" for rule in removed]
        if not texts and now.placement != self.placement:
            texts = ["the placement fields of its template were changed"]
        return " and ".join(texts)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What decides whether a node takes pods. `taints` are those that do not come and go with its conditions. `labels`
    are those under keys that the moves depend on; None where the node lacks one."""

    cordoned: bool
    taints: tuple[str, ...]
    labels: t.Mapping[str, str | None]

    @classmethod
    def of(cls, node: Node, keys: t.Iterable[str]) -> NodeFacts:
        lasting = (x for x in node.taints if not x.key.startswith(TRANSIENT_TAINTS))
        taints = (f"{x.key}={x.value}:{x.effect}" for x in lasting if x.effect in _HARD)
        labels = {key: node.labels.get(key) for key in sorted(keys)}
        return cls(node.unschedulable, tuple(sorted(set(taints))), labels)

    def changes(self, node: Node) -> t.Iterator[str]:
        """What has changed, in words."""
        now = NodeFacts.of(node, self.labels)
        if now.cordoned != self.cordoned:
            yield "is cordoned now" if now.cordoned else "is not cordoned any more"
        yield from (
            f"has the taint {taint} now" for taint in now.taints if taint not in self.taints
        )
        yield from (
            f"has no taint {taint} any more" for taint in self.taints if taint not in now.taints
        )
        for key, value in self.labels.items():
            if now.labels[key] != value:
                seen, before = _label(key, now.labels), _label(key, self.labels)
                yield f"has {seen} now, and had {before}"


def _label(key: str, labels: t.Mapping[str, str | None]) -> str:
    return f"no label {key}" if labels[key] is None else f"the label {key}={labels[key]}"


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """`workloads`: those of the moves. `nodes`: the nodes that the moves count on, or that are given. `quotas`: by
    namespace of the moves; a namespace whose quotas could not be read is missing: the plan does not rely on them."""

    workloads: t.Mapping[Ref, WorkloadFacts] = field(default_factory=dict)
    nodes: t.Mapping[str, NodeFacts] = field(default_factory=dict)
    quotas: t.Mapping[str, QuotaSpecs] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        moves: t.Sequence[Move],
        snapshot: Snapshot,
        by_uid: t.Mapping[str, MovableInstance],
        topology: Topology,
        quotas: t.Mapping[str, QuotaSpecs],
        names: t.Iterable[str] | None = None,
    ) -> PlanBasis:
        """`names`: the nodes that it relies on; None for those that the moves count on."""
        workloads, keys = {}, set(topology.keys.values())
        for move in moves:
            movable = by_uid[move.uid]
            workloads[move.workload] = WorkloadFacts.of(movable)
            if movable.declared is not None:
                keys |= set(node_label_keys(movable.declared.placement))
        nodes = {node.name: node for node in snapshot.nodes}
        names = _targets(moves) if names is None else names
        facts = {name: NodeFacts.of(nodes[name], keys) for name in names if name in nodes}
        return cls(workloads, facts, quotas)

    def as_json(self) -> dict[str, JSON]:
        return {
            "workloads": [
                {**ref._asdict(), "rules": list(facts.rules), "placement": facts.placement}
                for ref, facts in self.workloads.items()
            ],
            "nodes": [
                {
                    "name": name,
                    "cordoned": facts.cordoned,
                    "taints": list(facts.taints),
                    "labels": dict(facts.labels),
                }
                for name, facts in self.nodes.items()
            ],
            "quotas": [
                {"namespace": namespace, "specs": {name: dict(x) for name, x in specs.items()}}
                for namespace, specs in self.quotas.items()
            ],
        }

    @classmethod
    def read(cls, given: t.Mapping[str, JSON]) -> PlanBasis:
        """From the JSON of `as_json`. Raises KeyError, TypeError, ValueError or AttributeError."""
        return cls(
            {
                Ref(x["kind"], x["namespace"], x["name"]): WorkloadFacts(
                    tuple(x["rules"]), x["placement"]
                )
                for x in given["workloads"]
            },
            {
                x["name"]: NodeFacts(x["cordoned"], tuple(x["taints"]), dict(x["labels"]))
                for x in given["nodes"]
            },
            {x["namespace"]: dict(x["specs"]) for x in given["quotas"]},
        )

    def changes(
        self,
        moves: t.Iterable[Move],
        snapshot: Snapshot,
        by_workload: t.Mapping[Ref | None, MovableInstance],
        quotas: t.Mapping[str, QuotaSpecs],
        names: t.Iterable[str] | None = None,
    ) -> list[str]:
        """What of the basis of these moves has changed, one text for each object. `quotas`: those of now. `names`: as
        in `of`."""
        moves = list(moves)
        texts = []
        for ref in dict.fromkeys(move.workload for move in moves):
            movable = by_workload.get(ref)
            if movable is not None and ref in self.workloads:
                change = self.workloads[ref].change(WorkloadFacts.of(movable))
                texts += [f"{ref}: {change}"] if change else []
        nodes = {node.name: node for node in snapshot.nodes}
        for name in _targets(moves) if names is None else names:
            if name not in nodes:
                texts.append(f"Node {name} does not exist any more")
            elif name in self.nodes:
                texts += [f"Node {name} {text}" for text in self.nodes[name].changes(nodes[name])]
        for namespace in dict.fromkeys(move.workload.namespace for move in moves):
            if namespace in self.quotas:
                texts += _quota_changes(namespace, self.quotas[namespace], quotas.get(namespace))
        return texts


def _targets(moves: t.Iterable[Move]) -> t.Iterable[str]:
    return dict.fromkeys(move.targets[0] for move in moves if move.targets)


def _quota_changes(namespace: str, before: QuotaSpecs, now: QuotaSpecs | None) -> list[str]:
    if now is None:
        return [f"the ResourceQuotas of namespace {namespace} cannot be read any more"]
    texts = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old != new:
            what = (
                "was added" if old is None else "was removed" if new is None else _limits(old, new)
            )
            texts.append(f"ResourceQuota {namespace}/{name} {what}")
    return texts


def _limits(old: t.Mapping[str, JSON], new: t.Mapping[str, JSON]) -> str:
    was, now = old.get("hard") or {}, new.get("hard") or {}
    differing = [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]
    words = [
        f"{key} {now.get(key, 'no limit')} instead of {was.get(key, 'no limit')}"
        for key in differing
    ]
    return f"allows {listed(words)}" if words else "has other scopes"


def node_label_keys(placement: Placement) -> t.Iterator[str]:
    """The node labels that a placement is about."""
    yield from (key for key, _value in placement.node_selector)
    terms: list[NodeTerm] = [*(placement.node_terms or ())]
    terms += [term for _weight, term in placement.preferred_node_terms]
    yield from (part.key for term in terms for part in term.expressions)
    yield from (term.topology_key for term in (*placement.affinity, *placement.anti_affinity))
    preferred = (*placement.preferred_affinity, *placement.preferred_anti_affinity)
    yield from (term.topology_key for _weight, term in preferred)
    yield from (constraint.topology_key for constraint in placement.spread)


def quotas_of(api: ApiClient, moves: t.Iterable[Move]) -> dict[str, QuotaSpecs]:
    """The ResourceQuotas in the namespaces of the moves, as far as they may be read."""
    quotas: dict[str, QuotaSpecs] = {}
    for namespace in dict.fromkeys(move.workload.namespace for move in moves):
        try:
            items = list_all(api, f"/api/v1/namespaces/{namespace}/resourcequotas").items
        except Forbidden:
            continue
        quotas[namespace] = {
            item["metadata"]["name"]: item.get("spec") or {}
            for item in items
            if quota_from_manifest(item) is not None
        }
    return quotas
