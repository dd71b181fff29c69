# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the way of a seeker that finds no node: the filter, and the pod and the rule behind it.

Pure. Filters are asked in the scheduler's order. The one that takes the last nodes away is the one
to speak of; a few of those nodes say which pods and whose terms it means.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..model.objects import PodTerm, Ref, SpreadConstraint
from ..model.snapshot import Instance, Snapshot, Workload
from ..scheduling.failure import Reason
from ..scheduling.options import ORDER
from ..verdicts.declared import Reader
from ..verdicts.instances import instances
from ..verdicts.successor import NEXT
from ..verdicts.terms import pod_term, spread_term
from .fill import Filling

ASKED = 8
"""Nodes that are asked for their reasons."""

NO_NODE = "NoNode"
"""Stands for a filter where no node is left at all."""

EVICTION = "Eviction"
"""Stands for a filter where an instance may not leave its node in the first place."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """`by` is the filter. `pod` is the one in the way, `rules` are those (namespace/set/name) that
    the term behind it belongs to, where there are such. `own`: the pod is what is left of the
    instance itself."""

    instance: Ref
    by: str
    reason: str
    pod: Ref | None = None
    rules: tuple[str, ...] = ()
    own: bool = False

    @property
    def text(self) -> str:
        """For people: by whom, and whose namespace that is in."""
        what = [f"pod {self.pod.name} in {self.pod.namespace}"] if self.pod is not None else []
        if self.own:
            what = [f"its own {what[0]}, which counts until it is deleted with its lost node"]
        what += [f"rule {rule}" for rule in self.rules]
        return f"{self.instance.name} is blocked by {' and '.join(what) or self.reason}"


class Blocking:
    """Answers for the seekers of one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._reader = Reader()
        self._workloads = {found.ref: found for found in snapshot.workloads}
        self._by_pod: dict[Ref, Instance] | None = None

    def of(self, filling: Filling, number: int, instance: Instance) -> Blocked | None:
        """What keeps a seeker without a node, as the filling stands; None: nothing does."""
        seeker, index = filling.seekers[number], filling.index
        left = filling.table.all & ~filling.closed(seeker.pod)
        if not left:
            return Blocked(instance.ref, NO_NODE, "there is no other node")
        with index.without(None if seeker.stays else seeker.source):
            for plugin in ORDER:
                kept = left & index.feasible_set(filling.candidate(number), {plugin})
                if kept:
                    left = kept
                    continue
                found: Counter[Reason] = Counter()
                for node in filling.table.first(left, ASKED):
                    for failure in index.failures(seeker.pod, node, plugins={plugin}):
                        found.update(failure.reported)
                return self._told(instance, plugin, found)
        return None

    def _told(self, instance: Instance, plugin: str, found: Counter[Reason]) -> Blocked:
        if not found:
            return Blocked(instance.ref, plugin, "a node that has room keeps it for another pod")
        left_over = instance.pod.ref if instance.pod is not None else None
        named = [each for each in found if each.counterpart is not None]
        own = [each for each in named if each.counterpart == left_over]
        reason = max(own or named or found, key=lambda each: (found[each], each.text))
        pod = reason.counterpart
        if pod is not None and pod.name.endswith(NEXT):
            pod = replace(pod, name=pod.name.removesuffix(NEXT))
        owner = instance
        if reason.kind == "existing-anti" and pod is not None:
            owner = self._instance(pod) or instance
        return Blocked(
            instance.ref, plugin, reason.text, pod, self._rules(owner, reason.term), bool(own)
        )

    def _rules(self, owner: Instance, term: object) -> tuple[str, ...]:
        """The rules that a term of an instance's workload belongs to."""
        workload = self._workload(owner)
        if workload is None or owner.pod is None:
            return ()
        labels = owner.pod.labels
        if isinstance(term, PodTerm):
            value = pod_term(term, labels)
        elif isinstance(term, SpreadConstraint):
            value = spread_term(term, labels).value
        else:
            return ()
        owners = self._reader.declared(workload).owners
        names = (
            name for known, listed in owners.items() if known.value == value for name in listed
        )
        return tuple(dict.fromkeys(names))

    def _workload(self, instance: Instance) -> Workload | None:
        ref = instance.workload
        return self._workloads.get(ref) if ref is not None else None

    def _instance(self, pod: Ref) -> Instance | None:
        if self._by_pod is None:
            known = instances(self._snapshot)
            self._by_pod = {each.pod.ref: each for each in known if each.pod is not None}
        return self._by_pod.get(pod)


def counted(blocked: t.Sequence[Blocked]) -> str:
    """The first, and how many more."""
    more = f" (and {len(blocked) - 1} more)" if len(blocked) > 1 else ""
    return f"{blocked[0].text}{more}" if blocked else ""
