# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a request change on one workload and its running instances, and which findings result?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..kinds.vmi import VMIS
from ..kubevirt import moving
from ..kubevirt.moving import (
    NEXT_START,
    NOW,
    OWN_ROLLOUT,
    RECREATION,
    RESTART,
    most_disruptive,
    rolls_itself,
)
from ..kubevirt.pools import started_by_template
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import ANNOTATIONS, JSON, UPDATE_STRATEGY, Pointer
from ..model.kinds import HOLD, RULES, UNDO
from ..model.objects import Labels, Ref
from ..model.obstacle import NO_HOLD, Obstacle
from ..model.placement_manifests import placement_from_spec
from ..model.rendering import listed
from ..model.rule import RuleId
from ..model.snapshot import Platform, Snapshot, Workload, managed_by
from ..model.write import Operation, Write, patched
from ..scheduler.node_affinity import allows_only
from ..view.view import ClusterView
from .checks import for_rules, label_conflict
from .draft import RequestedRules
from .merge import Merged, merge
from .ownership import Ownership, owners_of
from .pools import deleted_by_autohealing, extent_of_rollout, why_not_on_vm
from .term_slots import TermLocation, pair
from .write import Relabel, relabels

if t.TYPE_CHECKING:
    from .rules_request import RulesRequest


def takes_effect(workload: Workload, merged: Merged, view: ClusterView) -> str:
    """What has to happen to the running instances before the change counts for them. If VMIs cannot be read,
    VMs are assumed to run and to need the most disruptive method."""
    if not merged.locations:
        return NOW
    if not workload.runs_vms or rolls_itself(workload):
        effect = RECREATION if workload.waits_for_deletion else OWN_ROLLOUT
        return effect if workload.replicas else NEXT_START
    vmis = view.vmis_of(workload)
    if not vmis and view.snapshot.why_unreadable(VMIS, workload.ref.namespace) is None:
        return NEXT_START
    if merged.locations == {TermLocation.LABEL}:
        return NOW
    if not vmis:
        return RESTART if workload.kind.has_vm else RECREATION
    snapshot, after = view.snapshot, merged.after
    placement = placement_from_spec(after)
    return most_disruptive(
        moving.takes_effect(
            workload,
            vmi,
            snapshot.platform,
            declared=after,
            pinned=allows_only(placement, vmi.node_name, snapshot.nodes),
        )
        for vmi in vmis
    )


Recompute = t.Callable[[Write, JSON], "Write | None"]
"""The write for an object that was read again; None where nothing is left to do."""

_OURS = (ANNOTATIONS, *(ANNOTATIONS / key for key in (RULES, UNDO, HOLD)), UPDATE_STRATEGY)
"""What the source of a managed object does not have: our annotations, and what a hold sets."""


@dataclass(frozen=True)
class WorkloadChange:
    """`stages` are the writes in their order, empty where nothing changes: labels leave pods, then
    VMIs; the workload; labels reach VMIs, then pods. `is_held`: the write to the workload sets its own rollout
    aside."""

    workload: Workload
    merged: Merged
    takes_effect: str
    stages: tuple[tuple[Write, ...], ...]
    relabels: tuple[Relabel, ...]
    findings: tuple[Finding, ...] = ()
    is_held: bool = False

    @property
    def ref(self) -> Ref:
        return self.workload.ref

    @property
    def starts_rollout(self) -> bool:
        """Whether the write makes the controller of the workload replace pods at once."""
        return bool(self.merged.locations) and rolls_itself(self.workload)

    def as_json(self, made: t.Sequence[Write], *, refused: bool) -> dict[str, JSON]:
        """The change as in the result. `made` are the writes that were made; the patch is the planned
        one if the workload was not written. A refused request has a patch only for an externally
        managed object: what to commit there, without annotations of this cluster."""
        sent = next((write for write in made if write.target == self.ref), self.merged.write)
        return {
            "kind": self.ref.kind,
            "namespace": self.ref.namespace,
            "name": self.ref.name,
            "changed": bool(made),
            "added": [rule.name for rule in self.merged.added],
            "updated": [rule.name for rule in self.merged.updated],
            "removed": [rule.name for rule in self.merged.removed],
            "takes_effect": self.takes_effect,
            "patch": self._patch(sent, refused=refused) if sent is not None else [],
        }

    def _patch(self, write: Write, *, refused: bool) -> list[dict[str, JSON]]:
        if not refused:
            return write.changes()
        if managed_by(self.workload) is None:
            return []
        return [op.as_json() for op in write.operations if op.pointer not in _OURS]


def change_of(workload: Workload, requested: RequestedRules, view: ClusterView) -> WorkloadChange:
    """Raises UnreadableAnnotation."""
    merged = merge(workload, requested)
    labels = labels_of_terms(requested)
    relabeled = relabels(workload, view, labels, merged.removed_terms)
    change = staged_change(workload, merged, relabeled, view)
    return replace(change, findings=tuple(_conflicts(requested, relabeled, merged.ownership)))


def staged_change(
    workload: Workload,
    merged: Merged,
    relabeled: t.Sequence[tuple[Relabel, Labels]],
    view: ClusterView,
) -> WorkloadChange:
    """The change with its writes in their order; `relabeled` are its running objects and their labels."""
    leaving = list(filter(None, (relabel.leave(current) for relabel, current in relabeled)))
    arriving = list(
        filter(None, (relabel.arrive(relabel.left(current)) for relabel, current in relabeled))
    )
    write = merged.write
    if write is not None and not merged.locations and managed_by(workload) is not None:
        write = None
    stages = (
        tuple(patch for patch in leaving if not patch.target.is_vmi),
        tuple(patch for patch in leaving if patch.target.is_vmi),
        (write,) if write is not None else (),
        tuple(patch for patch in arriving if patch.target.is_vmi),
        tuple(patch for patch in arriving if not patch.target.is_vmi),
    )
    return WorkloadChange(
        workload=workload,
        merged=merged,
        takes_effect=takes_effect(workload, merged, view),
        stages=stages if any(stages) else (),
        relabels=tuple(relabel for relabel, _seen in relabeled),
    )


def _conflicts(
    requested: RequestedRules,
    relabeled: t.Iterable[tuple[Relabel, Labels]],
    ownership: Ownership,
) -> t.Iterator[Finding]:
    """Labels of running objects that have another value, which the request does not change."""
    for relabel, current in relabeled:
        for key, value, wanted_value in relabel.conflicts(current):
            label = pair(TermLocation.LABEL, key, wanted_value)
            rules = [
                rule for rule, terms in sorted(requested.listed.items()) if label in (terms or ())
            ]
            present = owners_of(ownership.rules, pair(TermLocation.LABEL, key, value))
            yield from label_conflict(rules, relabel.target, key, value, wanted_value, present)


def labels_of_terms(requested: RequestedRules) -> tuple[tuple[str, str], ...]:
    """The labels that the listed rules put on the workload."""
    terms = [term for compiled in requested.listed.values() for term in compiled or ()]
    pairs = [
        (term.value["key"], term.value["value"])
        for term in terms
        if term.location is TermLocation.LABEL
    ]
    return tuple(sorted(set(pairs)))


COPIED_ANNOTATION = "copied_annotation"
EXTERNALLY_MANAGED = "externally_managed"
STARTS_WORKLOAD_ROLLOUT = "starts_workload_rollout"
_REFUSED, ALLOWED, HELD = WORKLOAD_ROLLOUT = ("refuse", "allow", "hold")
"""What to do where a write starts the rollout of the workload itself."""


class Holding(t.NamedTuple):
    """How the own rollouts of workloads are set aside. `why_not`: why that of a workload cannot be. `held`: a write to
    the template that sets it aside, too. `held_by`: the workloads that a rule set (`namespace/set`) has written, with
    or without a rule of it by now, and whose own rollouts are set aside, once the changes are made."""

    why_not: t.Callable[[Workload, Platform], Obstacle | None]
    held: t.Callable[[Workload, Write], Write]
    held_by: t.Callable[[ClusterView, t.Iterable[WorkloadChange], str], frozenset[Ref]]


NO_HOLDING = Holding(
    lambda _workload, _platform: Obstacle(NO_HOLD, "this installation cannot hold it"),
    lambda _workload, write: write,
    lambda _view, _changes, _rule_set: frozenset(),
)
"""Where nothing gives workloads their own rollouts back."""


def with_same_strategy(workload: Workload, write: Write) -> Write:
    """A write to the template that is made only while what keeps the controller from replacing pods is as it was read:
    the update strategy, which a rollout may give back meanwhile, or the pause of a Deployment. The same write for a
    kind whose controller never does."""
    if not workload.kind.workload_rollout:
        return write
    pointer = Pointer(("spec", "paused")) if workload.strategy_name is None else UPDATE_STRATEGY
    before = pointer.read(workload.manifest, None)
    return replace(write, tests=(*write.tests, Operation("test", pointer, before)))


def with_hold(change: WorkloadChange, request: RulesRequest, view: ClusterView) -> WorkloadChange:
    """The change, with the workload's own rollout set aside where it is to be and can be. A write that replaces no
    pod is made only while that is so."""
    workload, write = change.workload, change.merged.write
    if write is None or not change.merged.locations or request.workload_rollout == ALLOWED:
        return change
    if not change.starts_rollout:
        return _with_write(change, with_same_strategy(workload, write))
    why_not = request.holding.why_not(workload, view.snapshot.platform)
    if request.workload_rollout != HELD or why_not is not None:
        return change
    set_aside = request.holding.held(workload, with_same_strategy(workload, write))
    after = replace(workload, manifest=patched(workload.manifest, set_aside.operations))
    effect = takes_effect(after, change.merged, view)
    return replace(_with_write(change, set_aside), takes_effect=effect, is_held=True)


def _with_write(change: WorkloadChange, write: Write) -> WorkloadChange:
    """The change with another write to its workload."""
    planned = change.merged.write
    stages = tuple(
        tuple(write if made is planned else made for made in stage) for stage in change.stages
    )
    return replace(change, merged=replace(change.merged, write=write), stages=stages)


def recompute_held(
    recompute: Recompute,
    changes: t.Iterable[WorkloadChange],
    request: RulesRequest,
    platform: Platform,
) -> Recompute:
    """Recomputes writes as `recompute` does. One that was to replace no pod does not begin to replace some: it sets the
    rollout aside, or is not made."""
    targets = {
        change.ref
        for change in changes
        if request.workload_rollout != ALLOWED
        and change.merged.write is not None
        and (change.is_held or not change.starts_rollout)
    }

    def again(write: Write, manifest: JSON) -> Write | None:
        new = recompute(write, manifest)
        if new is None or write.target not in targets:
            return new
        workload = Workload(write.target, manifest["metadata"]["uid"], manifest)
        template = workload.kind.template
        if all(op.pointer.parts[: len(template)] != template for op in new.operations):
            return new
        new = with_same_strategy(workload, new)
        if not rolls_itself(workload):
            return new
        why = request.holding.why_not(workload, platform)
        if request.workload_rollout == HELD and why is None:
            return request.holding.held(workload, new)
        text = "was changed meanwhile, and the write would start its workload rollout"
        end = f": {why}" if request.workload_rollout == HELD else ". Run again"
        raise InvalidInput([InputError(str(write.target), f"{text}{end}")])

    return again


def of_change(change: WorkloadChange, request: RulesRequest, snapshot: Snapshot) -> list[Finding]:
    """The findings about what is to be written to one workload."""
    workload, merged = change.workload, change.merged
    rules = sorted((*merged.added, *merged.updated, *merged.removed))
    findings: list[Finding] = []
    if change.starts_rollout and request.workload_rollout != ALLOWED and not change.is_held:
        cannot = request.holding.why_not(workload, snapshot.platform)
        why = f": {cannot}" if request.workload_rollout == HELD else ""
        advice = "Set workload_rollout to allow if that is wanted"
        findings += for_rules(
            rules,
            workload.ref,
            STARTS_WORKLOAD_ROLLOUT,
            f"Writing to {workload.ref} starts its workload rollout{extent_of_rollout(workload)}{why}.",
            f"{advice}."
            if cannot is not None
            else f"{advice}, or to hold, so that rollout {_replaces(workload)}.",
            names_option=True,
        )
    if merged.locations and (started := started_by_template(workload, snapshot)):
        findings += for_rules(
            rules,
            workload.ref,
            STARTS_WORKLOAD_ROLLOUT,
            f"Writing to {workload.ref} starts {listed(started)}, since KubeVirt writes the run strategy of the pool"
            " into all of its VMs.",
            "Stop these VMs again afterwards if they are not to run.",
            "warning",
        )
    required = {x for x in merged.locations if not str(x).startswith("preferred")}
    deleted = deleted_by_autohealing(workload)
    if deleted and required - {TermLocation.LABEL} and (merged.added or merged.updated):
        findings += for_rules(
            rules,
            workload.ref,
            STARTS_WORKLOAD_ROLLOUT,
            deleted,
            "Check with a forecast that each VM has a node, or remove spec.autohealing of the pool until then.",
            "warning",
        )
    manager = managed_by(workload)
    if manager is not None and merged.locations:
        reverted = "the change and the hold of its rollout" if change.is_held else "the change"
        of_pool, on_pool = why_not_on_vm(workload)
        advice, names_option = _where_to_change(merged)
        if on_pool and (merged.added or merged.updated):
            advice, names_option = on_pool, False
        findings += for_rules(
            rules,
            workload.ref,
            EXTERNALLY_MANAGED,
            of_pool or f"{workload.ref} is managed by {manager}, which would revert {reverted}.",
            advice,
            names_option=names_option,
        )
    return findings


def _replaces(workload: Workload) -> str:
    return "moves its VMs" if workload.runs_vms else "replaces its pods"


def _where_to_change(merged: Merged) -> tuple[str, bool]:
    """What to do in Git about an externally managed object, and whether that names an option."""
    if merged.added or merged.updated or merged.write is None:
        return (
            "Commit the returned patch to the source of the object, and set adopt to"
            " true; or allow this finding.",
            True,
        )
    changed = [op for op in merged.write.operations if op.pointer not in _OURS]
    paths = ", ".join(dict.fromkeys(str(op.pointer) for op in changed))
    return (
        f"Remove the constraints of the rule from the source of the object (the returned patch"
        f" changes {paths}), and run again; or allow this finding.",
        False,
    )


def copy_of_another(
    workload: Workload, ownership: Ownership, rules: t.Iterable[RuleId]
) -> list[Finding]:
    """A workload of the rules that carries another object's annotation."""
    return for_rules(
        sorted(rules),
        workload.ref,
        COPIED_ANNOTATION,
        f"{workload.ref} carries the rules of another object (uid {ownership.uid}): it was cloned"
        " or restored with them.",
        "Allow this finding, and the terms of these rules become its own; or remove them first.",
    )


def copied_rules(
    workload: Workload, ownership: Ownership, rules: t.Iterable[RuleId]
) -> list[Finding]:
    """A workload outside the rules that carries a copy of their terms."""
    return for_rules(
        sorted(rules),
        workload.ref,
        COPIED_ANNOTATION,
        f"{workload.ref} carries a copy of the rule's terms (from uid {ownership.uid}); it was"
        " left as it is.",
        "Name it in the rule and allow this finding, or remove the terms and the annotation.",
        "warning",
    )
