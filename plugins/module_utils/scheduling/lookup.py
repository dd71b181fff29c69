# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turning pods into candidates: what a placement means is looked up once for all that share it."""

from __future__ import annotations

import typing as t

from ..model.objects import Placement, Pod
from .candidate import Candidate, Spec, pod_key
from .matching import Matching
from .node_sets import nodes_of_placement
from .node_table import NodeSet, NodeTable
from .options import Options
from .pod_affinity import read_rules
from .spread import PodTopologySpread
from .taints import TaintToleration

JUDGED_KEPT = 4096


class Lookup:
    """Specs by namespace and placement, and the candidates that were lately judged."""

    def __init__(
        self,
        table: NodeTable,
        matching: Matching,
        taints: TaintToleration,
        spread: PodTopologySpread,
        options: Options,
    ) -> None:
        self._table = table
        self._matching = matching
        self._taints = taints
        self._spread = spread
        self._options = options
        self._judged: dict[int, Candidate] = {}
        self._specs: dict[tuple[str, Placement], Spec] = {}
        self._specs_by_id: dict[tuple[str, int], tuple[Placement, Spec]] = {}
        self._node_rules: dict[t.Hashable, NodeSet] = {}

    def new(self, pod: Pod) -> Candidate:
        """A candidate that nobody has selected yet."""
        found = Candidate(pod_key(pod), pod, self._spec(pod))
        found.constraints = self._spread.constraints(pod, found.spec)
        return found

    def judged(self, pod: Pod) -> Candidate:
        """The candidate of a pod that is not placed. Pods are judged, placed and taken out again
        in turn, so the latest are kept."""
        found = self._judged.get(id(pod))
        if found is None:
            found = self.new(pod)
            self.keep(found)
        return found

    def keep(self, candidate: Candidate) -> None:
        """Remember a candidate. It holds its pod, so that no other can come to have its id."""
        if len(self._judged) >= JUDGED_KEPT:
            self._judged.clear()
        self._judged[id(candidate.pod)] = candidate

    def forget_all(self) -> None:
        """What was judged may be judged otherwise from now on."""
        self._judged.clear()

    def forget(self, pod: Pod) -> None:
        """A pod that is placed is not judged apart from its place."""
        self._judged.pop(id(pod), None)

    def _spec(self, pod: Pod) -> Spec:
        placement = pod.placement
        known = self._specs_by_id.get((pod.namespace, id(placement)))
        if known is not None:
            return known[1]
        spec = self._specs.get((pod.namespace, placement))
        if spec is None:
            spec = self._specs[pod.namespace, placement] = Spec(
                placement,
                self._nodes_of(placement),
                self._taints.tolerating(placement.tolerations),
                read_rules(
                    placement,
                    pod.namespace,
                    self._matching,
                    self._options.hard_pod_affinity_weight,
                ),
            )
        self._specs_by_id[pod.namespace, id(placement)] = (placement, spec)
        return spec

    def _nodes_of(self, placement: Placement) -> NodeSet:
        rule = (placement.node_selector, placement.node_terms)
        found = self._node_rules.get(rule)
        if found is None:
            found = self._node_rules[rule] = nodes_of_placement(placement, self._table)
        return found
