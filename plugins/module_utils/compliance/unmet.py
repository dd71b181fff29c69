# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which preferred terms does a node not meet for a pod, and which nodes would meet them?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.objects import Pod
from ..model.rule import RuleId
from ..model.topology import Topology
from ..scheduler import preferences
from .declared import Declared
from .terms import Term, TermKind, describe, terms_of

if t.TYPE_CHECKING:
    from ..scheduler.index import Index

_KINDS: t.Mapping[str, TermKind] = {
    "node-affinity": TermKind.PREFERRED_NODE_AFFINITY,
    "affinity": TermKind.PREFERRED_AFFINITY,
    "anti": TermKind.PREFERRED_ANTI_AFFINITY,
    "skew": TermKind.PREFERRED_SPREAD,
}


@dataclass(frozen=True, slots=True)
class UnmetPreference:
    """A preferred term that a node does not meet. `better` are the feasible nodes that meet it."""

    term: Term
    better: tuple[str, ...]


def unmet_preferences(index: Index, pod: Pod, node: str) -> tuple[UnmetPreference, ...]:
    """The preferred terms of a pod that `node` does not meet. Where the pod is placed, it does not count."""
    missed = preferences.unmet(index, pod, node)
    if not missed:
        return ()
    by_source = {(x.kind, x.source, x.weight): x for x in terms_of(pod.placement, pod.labels)}
    return tuple(
        UnmetPreference(by_source[_KINDS[each.kind], each.term, each.weight], better)
        for each, better in missed
    )


def unmet_text(
    unmet: t.Iterable[UnmetPreference], declared: Declared | None, topology: Topology
) -> str:
    """`preferred node affinity zone In (east) (rule default/east)`, for each of these preferences."""
    owners = declared.owners if declared is not None else {}
    texts = []
    for preference in unmet:
        rules = [RuleId.parse(rule).in_namespace for rule in owners.get(preference.term, ())]
        of_rule = f" (rule {rules[0]})" if rules else ""
        texts.append(f"{describe(preference.term, topology)}{of_rule}")
    return " and ".join(dict.fromkeys(texts))
