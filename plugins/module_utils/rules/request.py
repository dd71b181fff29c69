# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a request and a snapshot to the writes that make it so, and to what stands against them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault, Finding, Refused
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.rule import Rule
from ..model.snapshot import Snapshot
from ..model.write import Write
from . import findings, workload_findings
from .carriers import Book, unread_carriers, wanted_of
from .change import Change, change_of
from .claims import Wanted
from .compile import Compiled, compile_rule
from .conflicts import is_refused
from .effect import INSTANCES
from .faults import every_fault
from .group_selector import Chooser
from .inventory import Inventory
from .members import resolve
from .ownership import UnreadableAnnotation
from .recompute import Recompute
from .selector_findings import unchecked
from .values import nearest

STATES = ("present", "absent")
SELF_ROLLING = ("refuse", "now", "held")

ExtraFindings = t.Callable[[Snapshot, tuple[Rule, ...], tuple[Write, ...]], t.Iterable[Finding]]
"""More checks, given the snapshot, the rules and the writes to come."""


@dataclass(frozen=True)
class RulesRequest:
    """`faults` are those that were found while the rules were read, `broken` the rules that have
    them: their workloads are looked up, so that every fault is named at once."""

    namespace: str
    set: str
    rules: tuple[Rule, ...]
    state: str = "present"
    prune: bool = False
    adopt: bool = False
    self_rolling: str = "refuse"
    faults: tuple[Fault, ...] = ()
    broken: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class RulesPlan:
    """`stages` are made one after the other: a label leaves pods and VMIs before the template
    and reaches them after it. `refused` are the errors among the findings that no rule allows:
    while there are any, nothing may be written. `recompute` serves a write whose object has
    changed meanwhile. `owner_of` leads from a VMI or pod that is written to to its workload.
    `about` counts the workloads that carry one of the rules, are to, or did; `members` are those
    that carry one afterwards, whether that takes a write or not."""

    stages: tuple[tuple[Write, ...], ...]
    workloads: tuple[Change, ...]
    findings: tuple[Finding, ...]
    refused: tuple[Finding, ...]
    recompute: t.Callable[[Write, JSON], Write | None]
    owner_of: t.Mapping[Ref, Ref]
    about: int = 0
    members: frozenset[Ref] = frozenset()

    @property
    def writes(self) -> tuple[Write, ...]:
        return tuple(write for stage in self.stages for write in stage)


def plan_rules(
    snapshot: Snapshot, request: RulesRequest, *, extra_findings: ExtraFindings | None = None
) -> RulesPlan:
    """What the request changes. Raises Refused with every fault of the request, and with what
    stands against the rules that have none."""
    inventory = Inventory.of(snapshot)
    book = Book.of(inventory)
    faults = [*request.faults, *_option_faults(request, inventory)]
    found: list[Finding] = []
    compiled = _compile(request, inventory, book, faults, found)
    wanted = wanted_of(request, compiled, inventory, book, faults, found)
    unread_carriers(request, inventory, faults, found)
    changes = _changes(request, wanted, inventory, faults)
    gap = inventory.gap(INSTANCES, request.namespace)
    if gap is not None and any(change.workload.kind.virtual_machines for change in changes):
        found.append(unchecked(gap, "What runs of the virtual machines, and what labels it has,"))
    for change in changes:
        found += change.merged.findings
        found += change.findings
        found += workload_findings.of_change(change, inventory, request.self_rolling)
    changed = tuple(change for change in changes if change.stages)
    stages = _stages(changed)
    if extra_findings is not None:
        writes = tuple(write for stage in stages for write in stage)
        said = {(name, f.rule) for f in found for name in (f.name, findings.IMPLIES.get(f.name))}
        more = extra_findings(snapshot, request.rules, writes)
        found += [finding for finding in more if (finding.name, finding.rule) not in said]
    refused = tuple(finding for finding in found if is_refused(finding, request.rules))
    if faults:
        raise Refused(every_fault(faults, refused, request.rules))
    return RulesPlan(
        stages=stages,
        workloads=changed,
        findings=tuple(found),
        refused=refused,
        recompute=Recompute(wanted, changed, request.rules),
        owner_of={each.target: change.ref for change in changed for each in change.relabels},
        about=len(wanted),
        members=frozenset(ref for ref, each in wanted.items() if each.carries),
    )


def _changes(
    request: RulesRequest,
    wanted: t.Mapping[Ref, Wanted],
    inventory: Inventory,
    faults: list[Fault],
) -> list[Change]:
    """The change of each workload; a journal of ours that is damaged is a fault."""
    where = {rule.id: rule.where for rule in request.rules}
    found = []
    for ref, each in wanted.items():
        try:
            found.append(change_of(inventory.workloads[ref], each, inventory))
        except UnreadableAnnotation as error:
            places = [where[rule] for rule in each.listed if rule in where] or ["prune"]
            faults += [Fault(place, str(error)) for place in places]
    return found


def _option_faults(request: RulesRequest, inventory: Inventory) -> list[Fault]:
    faults = []
    for option, value, known in (
        ("state", request.state, STATES),
        ("self_rolling", request.self_rolling, SELF_ROLLING),
    ):
        if value not in known:
            faults.append(Fault(option, f"must be one of {', '.join(known)}, not {value!r}"))
    if request.self_rolling == "held":
        faults.append(
            Fault(
                "self_rolling", "held is not supported yet, it comes with a later release: use now"
            )
        )
    if request.prune and request.state == "absent":
        faults.append(
            Fault("prune", "goes with state present: an empty list of rules removes the whole set")
        )
    told = any(fault.where == "namespace" for fault in request.faults)
    if not told and _is_missing(request.namespace, inventory):
        hint = nearest(request.namespace, inventory.namespaces)
        faults.append(Fault("namespace", f"there is no namespace {request.namespace!r}{hint}"))
    return faults


def _is_missing(namespace: str, inventory: Inventory) -> bool:
    """Whether there is no such namespace, as far as namespaces could be read."""
    return namespace not in inventory.namespaces and inventory.gap("namespaces", "") is None


def _compile(
    request: RulesRequest,
    inventory: Inventory,
    book: Book,
    faults: list[Fault],
    found: list[Finding],
) -> list[Compiled]:
    """The terms of each rule. Rules that are to be absent have none, and name whom they like."""
    if request.state == "absent" or _is_missing(request.namespace, inventory):
        return []
    for rule in request.broken:
        resolve(rule, inventory, faults)
    chooser = Chooser(inventory, book.ownership)
    resolved = [resolve(rule, inventory, faults) for rule in request.rules]
    compiled = [compile_rule(each, chooser, inventory.snapshot.platform) for each in resolved]
    for one, terms in zip(resolved, compiled, strict=True):
        found += findings.of_rule(one, terms, inventory)
    found += findings.between_rules(resolved, inventory)
    return compiled


def _stages(changes: t.Sequence[Change]) -> tuple[tuple[Write, ...], ...]:
    depth = max((len(change.stages) for change in changes), default=0)
    stages = (
        tuple(write for change in changes for write in change.stages[number])
        for number in range(depth)
    )
    return tuple(stage for stage in stages if stage)
