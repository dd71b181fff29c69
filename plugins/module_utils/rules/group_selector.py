# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""By which label the pods of a group are told from all others.

The first that holds: the rule's `label`; the template labels that the workloads were chosen by;
for VirtualMachines the VMI's name, if every running pod carries it, or the hostname where nobody
else has it; the own selector of a replica set or Deployment; else a label of ours.
"""

from __future__ import annotations

import functools
import typing as t
from collections import Counter
from dataclasses import dataclass

from ..model.kinds import VIRTUAL_MACHINE
from ..model.names import GROUP
from ..model.objects import Labels, Selector
from ..model.placement_manifest import selector_from_json
from ..model.pointer import JSON
from ..model.rule import RuleId
from ..model.snapshot import Workload
from .fingerprint import Fingerprint, digest
from .inventory import Inventory
from .machine_labels import HOSTNAME, MACHINE_ID, hostname, knows_machine_id, machine_id
from .members import Found, Members, Resolved
from .ownership import Ownership
from .slots import CompiledTerm, Slot, pair

MEMBER = "member"
"""The value of a group label of ours."""

Expression = dict[str, JSON]
Owned = t.Callable[[Workload], Ownership]


@dataclass(frozen=True)
class Selection:
    """`expressions` select the group in `namespace`. `label` has to be put on `members` for that,
    where it is not None."""

    namespace: str
    expressions: tuple[Expression, ...]
    members: tuple[Workload, ...] = ()
    label: tuple[str, str] | None = None

    @property
    def json(self) -> JSON:
        return {"matchExpressions": list(self.expressions)}

    def selector(self) -> Selector:
        return t.cast("Selector", selector_from_json(self.json))


@dataclass(frozen=True)
class Chooser:
    """Chooses selections in one snapshot. `owned` reads what a workload carries of ours."""

    inventory: Inventory
    owned: Owned

    def group(self, resolved: Resolved) -> Selection:
        """The selection of a rule's own workloads."""
        rule, members = resolved.rule, resolved.carriers
        if rule.label is not None:
            return Selection(
                rule.id.namespace, _from_labels(dict([rule.label])), members.workloads, rule.label
            )
        return self.of(members, rule.id, "group", rule.id.namespace)

    def target(self, found: Found, rule: RuleId, role: str) -> Selection:
        """The selection of one target."""
        if found.pods is not None:
            return Selection(found.namespace, _from_labels(found.pods))
        return self.of(found.members or Members(()), rule, role, found.namespace)

    def of(self, members: Members, rule: RuleId, role: str, namespace: str) -> Selection:
        """The selection of some workloads of one namespace. `role` tells apart the labels of ours
        that one rule may need."""
        workloads = members.workloads
        label = (f"{GROUP}{digest([str(rule), role], 10)}", MEMBER)
        if members.labels is not None:
            return Selection(namespace, _from_labels(members.labels), workloads)
        if self._carries(workloads, label):
            return Selection(namespace, _from_labels(dict([label])), workloads, label)
        machines = all(w.ref.kind == VIRTUAL_MACHINE.name for w in workloads)
        expressions = self._machines(workloads) if machines else _own_selectors(workloads)
        if expressions is None:
            return Selection(namespace, _from_labels(dict([label])), workloads, label)
        return Selection(namespace, expressions, workloads)

    def _carries(self, workloads: t.Iterable[Workload], label: tuple[str, str]) -> bool:
        """A group that has a label of ours keeps it: nobody is labelled back and forth."""
        term = label_term(label)
        mark = Fingerprint.of(term.slot, term.value)
        return any(self.owned(workload).owned(mark) for workload in workloads)

    def _machines(self, machines: t.Sequence[Workload]) -> tuple[Expression, ...] | None:
        ids = {machine.ref: machine_id(machine.ref.name) for machine in machines}
        if self._on_pods(machines, MACHINE_ID, lambda m: ids[m.ref], self._makes_ids):
            return (_in(MACHINE_ID, ids.values()),)
        if self._own_hostnames(machines) and self._on_pods(machines, HOSTNAME, hostname, True):
            return (_in(HOSTNAME, map(hostname, machines)),)
        return None

    def _on_pods(
        self,
        machines: t.Iterable[Workload],
        key: str,
        value: t.Callable[[Workload], str],
        otherwise: bool,
    ) -> bool:
        """Whether each running pod carries the value; `otherwise` where none runs."""
        seen = [
            pod.labels.get(key) == value(machine)
            for machine in machines
            for pod in self.inventory.pods_of(machine)
        ]
        return all(seen) if seen else otherwise

    @functools.cached_property
    def _makes_ids(self) -> bool:
        return knows_machine_id(self.inventory.snapshot.platform.kubevirt)

    def _own_hostnames(self, machines: t.Sequence[Workload]) -> bool:
        """Whether nobody else in the namespace has, or will have, one of the hostnames."""
        ours = {machine.ref for machine in machines}
        pods = {pod.uid for machine in machines for pod in self.inventory.pods_of(machine)}
        names = Counter(map(hostname, machines))
        namespaces = {machine.ref.namespace for machine in machines}
        others = {
            hostname(other)
            for other in self.inventory.workloads.values()
            if other.ref.kind == VIRTUAL_MACHINE.name
            and other.ref.namespace in namespaces
            and other.ref not in ours
        }
        others |= {
            pod.labels.get(HOSTNAME, "")
            for namespace in namespaces
            for pod in self.inventory.pods.get(namespace, ())
            if pod.uid not in pods
        }
        return not others & set(names)


def label_term(label: tuple[str, str]) -> CompiledTerm:
    """The term that puts a label on a template."""
    return pair(Slot.LABEL, *label)


def _in(key: str, values: t.Iterable[str]) -> Expression:
    return {"key": key, "operator": "In", "values": list(dict.fromkeys(values))}


def _from_labels(labels: Labels) -> tuple[Expression, ...]:
    return tuple(_in(key, [value]) for key, value in sorted(labels.items()))


def own_selector(workload: Workload) -> tuple[Expression, ...] | None:
    """The selector of a replica set or a Deployment, as expressions: a form of a console that
    drops matchLabels would leave a selector of everything."""
    selector = (workload.manifest.get("spec") or {}).get("selector") or {}
    found = (
        *_from_labels(selector.get("matchLabels") or {}),
        *(selector.get("matchExpressions") or ()),
    )
    return found or None


def _own_selectors(workloads: t.Sequence[Workload]) -> tuple[Expression, ...] | None:
    """One selector for all: that of the only one, or one key with the values of each."""
    if any(workload.ref.kind == VIRTUAL_MACHINE.name for workload in workloads):
        return None
    found = [own_selector(workload) for workload in workloads]
    if len(found) == 1:
        return found[0]
    single = [each[0] for each in found if each and len(each) == 1 and each[0]["operator"] == "In"]
    if len(single) < len(found) or len({each["key"] for each in single}) != 1:
        return None
    return (_in(single[0]["key"], [value for each in single for value in each["values"]]),)
