# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pod as the filters see it, with its rules looked up: placed on a node, or still to be placed."""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Placement, Pod

if t.TYPE_CHECKING:
    from .matching import Match
    from .pod_affinity import PodRules
    from .spread import Constraint


def pod_key(pod: Pod) -> str:
    """How the index names a pod: its uid, or namespace/name where it has none."""
    return pod.uid or f"{pod.namespace}/{pod.name}"


class Spec:
    """What one placement means in one namespace; shared by all pods that have both.

    `nodes` satisfy nodeSelector and required node affinity, `tolerating` carry no taint that is
    not tolerated. Both are sets of the node table.
    """

    __slots__ = ("nodes", "placement", "rules", "tolerating")

    def __init__(self, placement: Placement, nodes: int, tolerating: int, rules: PodRules) -> None:
        self.placement = placement
        self.nodes = nodes
        self.tolerating = tolerating
        self.rules = rules


class Candidate:
    """A pod with its Spec, what selects it, and its hard spread constraints.

    `node` is the number of the node on which it is placed, and `node_labels` are that node's;
    -1 and nothing for a pod that is only being judged.
    """

    __slots__ = ("as_of", "constraints", "key", "matches", "node", "node_labels", "pod", "spec")

    def __init__(self, key: str, pod: Pod, spec: Spec) -> None:
        self.key = key
        self.pod = pod
        self.spec = spec
        self.matches: tuple[Match, ...] = ()
        self.as_of = -1
        """The generation of Matching that `matches` were found in."""
        self.constraints: tuple[Constraint, ...] = ()
        self.node = -1
        self.node_labels: Labels = {}
