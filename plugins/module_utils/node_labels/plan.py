# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node labels change, which must not, and which patches change them?

Two things prevent a change unless it is forced. The kubelet or a cloud controller wrote the value
last, and would write it again. Or volumes, rules or running instances depend on the value. A required
node rule depends on it if the node is allowed before and not after, or the other way round. Terms over
a topology key always do, since the node moves to another domain. Preferences do not count. An annotation
of the node records the labels that the module set. To restore one of them needs no force.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
from collections import defaultdict
from dataclasses import dataclass

from ..model import kinds as names
from ..model.findings import InputError, InvalidInput
from ..model.input import nearest
from ..model.json_pointer import ANNOTATIONS, JSON, LABELS
from ..model.json_text import DamagedAnnotation, read_annotation
from ..model.objects import Labels, Node, NodeTerm, Placement, Pod, Ref
from ..model.rendering import listed
from ..model.write import Operation, Write
from ..scheduler.labels import matches_node, matches_terms
from .request import LabelRequest

if t.TYPE_CHECKING:
    from ..model.snapshot import Snapshot

_PLATFORM = re.compile(
    r"kubelet|k3s|virt-handler|(.*-)?cloud-(controller-manager|node-manager|provider)(-.*)?"
)
"""Field managers that keep node labels as they see fit. The kubelet and the cloud controllers of
kubernetes/cloud-provider and its out-of-tree forms go by the name of their program; k3s is both
in one process. virt-handler writes the labels of KubeVirt's node labeller."""

_RESERVED = re.compile(
    r"kubevirt\.io/schedulable|node-role\.kubernetes\.io/.*"
    r"|(?:.*\.)?(?:node-restriction|node)\.kubernetes\.io/.*"
)
"""Labels by which controllers and administrators tell nodes apart: which nodes run VMs, are control
plane, are isolated (Kubernetes: Well-Known Labels, and plugin/pkg/admission/noderestriction, for which a
subdomain is as its domain; KubeVirt: NodeSchedulable)."""


@dataclass(frozen=True)
class LabelledNode:
    """The metadata of a node. `labels` and `annotations` are None where the node has no such map."""

    name: str
    uid: str
    labels: Labels | None
    annotations: Labels | None
    managed_fields: t.Sequence[t.Mapping[str, JSON]] = ()

    @classmethod
    def of(cls, manifest: t.Mapping[str, JSON]) -> LabelledNode:
        metadata = manifest["metadata"]
        return cls(
            metadata["name"],
            metadata["uid"],
            metadata.get("labels"),
            metadata.get("annotations"),
            metadata.get("managedFields") or (),
        )

    @property
    def remembered(self) -> Labels:
        """The labels that were set here, with their values; empty if the note is unreadable."""
        try:
            labels = read_annotation((self.annotations or {}).get(names.NODE_LABELS) or "{}")
        except DamagedAnnotation:
            return {}
        return {key: value for key, value in labels.items() if isinstance(value, str)}

    def last_writers(self, key: str) -> tuple[str, ...]:
        """The field managers that hold this label (metadata.managedFields)."""
        return tuple(
            str(entry.get("manager"))
            for entry in self.managed_fields
            if f"f:{key}"
            in (((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {})
        )


@dataclass(frozen=True)
class LabelChange:
    """One label of one node: None is no label. `healing` restores a value that the module has set."""

    node: str
    key: str
    before: str | None
    after: str | None
    healing: bool

    @property
    def disturbs(self) -> bool:
        """Whether something may depend on the previous value."""
        return self.before is not None and not self.healing

    def __str__(self) -> str:
        if self.before is None:
            return f"setting '{self.after}'"
        if self.after is None:
            return f"taking '{self.before}' away"
        return f"changing '{self.before}' to '{self.after}'"


@dataclass(frozen=True)
class LabelPlan:
    """`writes` and `changes` have one entry for each node, or label, that is not as wanted."""

    writes: tuple[Write, ...]
    changes: tuple[LabelChange, ...]
    faults: tuple[InputError, ...]

    @property
    def disturbing(self) -> tuple[LabelChange, ...]:
        return tuple(change for change in self.changes if change.disturbs)


def plan_labels(
    request: LabelRequest, nodes: t.Mapping[str, LabelledNode], selected: t.Collection[str]
) -> LabelPlan:
    """The changes that `request` needs on `nodes`; `selected` are those that its selector matches.

    With `exclusive` keys, `nodes` have to be all nodes of the cluster.
    """
    named = {*request.named, *selected}
    faults = [
        InputError(request.named_in, f"there is no node {name!r}{nearest(name, nodes)}")
        for name in request.named
        if name not in nodes
    ]
    if request.selector and not selected:
        faults.append(InputError("selector", f"no node matches {request.selector}"))
    changes: list[LabelChange] = []
    writes = []
    for node in nodes.values():
        mine = changes_of(request, node, meant=node.name in named)
        if mine:
            changes += mine
            writes.append(write_of(request, node, mine, meant=node.name in named))
            faults += () if request.force else _held_by_platform(node, mine)
    return LabelPlan(tuple(writes), tuple(changes), tuple(faults))


def replan_node(
    request: LabelRequest, node: LabelledNode, accepted: t.Collection[LabelChange], *, meant: bool
) -> Write | None:
    """The patch of a node that changed since it was planned, None where nothing is left to do.

    `accepted` are the changes of the plan. Raises InvalidInput for another change that disturbs:
    its dependents were not checked.
    """
    changes = changes_of(request, node, meant=meant)
    if not request.force:
        faults = [*_held_by_platform(node, changes)]
        faults += [
            InputError(
                f"{node.name} {change.key}", f"{change}: it is new since it was read; run again"
            )
            for change in changes
            if change.disturbs and change not in accepted
        ]
        if faults:
            raise InvalidInput(faults)
    return write_of(request, node, changes, meant=meant) if changes else None


LABELS_FROM_MACHINE = "cluster.x-k8s.io/labels-from-machine"
"""Annotation of a Node: the keys of the labels that Cluster API copies from its Machine, with commas between
(cluster-api, api/core machine_types.go, LabelsFromMachineAnnotation)."""
_MACHINE = "cluster.x-k8s.io/machine"


def _held_by_machine(node: LabelledNode, change: LabelChange) -> InputError | None:
    """Why Cluster API would write the label again."""
    annotations = node.annotations or {}
    keys = [key.strip() for key in annotations.get(LABELS_FROM_MACHINE, "").split(",")]
    if change.key not in keys:
        return None
    machine = annotations.get(_MACHINE, "of the node")
    return InputError(
        f"{node.name} {change.key}",
        f"{change}: Cluster API copies it from Machine {machine}: label that Machine, or the template of its"
        " MachineDeployment, in the management cluster; or set force",
    )


def _held_by_platform(
    node: LabelledNode, changes: t.Iterable[LabelChange]
) -> t.Iterator[InputError]:
    for change in changes:
        if (fault := _held_by_machine(node, change)) is not None:
            yield fault
            continue
        if _RESERVED.fullmatch(change.key):
            yield InputError(
                f"{node.name} {change.key}",
                f"{change}: Kubernetes or KubeVirt uses this label; set force to change it anyway",
            )
            continue
        if not change.disturbs:
            continue
        for manager in node.last_writers(change.key):
            if _PLATFORM.fullmatch(manager):
                yield InputError(
                    f"{node.name} {change.key}",
                    f"{change}: it was last written by {manager}, which may write it again;"
                    " set force to change it anyway",
                )


def changes_of(
    request: LabelRequest, node: LabelledNode, *, meant: bool
) -> tuple[LabelChange, ...]:
    """What changes on a node; `meant`: the task names or selects the node."""
    target_labels: dict[str, str | None] = dict.fromkeys(request.exclusive)
    if meant:
        target_labels |= dict.fromkeys(request.remove)
        target_labels |= request.labels_of(node.name)
    labels, remembered = node.labels or {}, node.remembered
    return tuple(
        LabelChange(
            node.name,
            key,
            labels.get(key),
            value,
            healing=value is not None and remembered.get(key) == value,
        )
        for key, value in sorted(target_labels.items())
        if labels.get(key) != value
    )


def write_of(
    request: LabelRequest, node: LabelledNode, changes: t.Sequence[LabelChange], *, meant: bool
) -> Write:
    """The patch of one node: it applies only if the labels that it changes are as they were read."""
    tests, operations = _label_operations(node, changes)
    given = request.labels_of(node.name) if meant else {}
    note_tests, note_operations = _note_operations(node, changes, given)
    return Write(
        target=Ref("Node", "", node.name),
        path=f"/api/v1/nodes/{node.name}",
        uid=node.uid,
        tests=(*tests, *note_tests),
        operations=(*operations, *note_operations),
        before={change.key: change.before for change in changes if change.before is not None},
        after={change.key: change.after for change in changes if change.after is not None},
    )


Operations = tuple[list[Operation], list[Operation]]


def _label_operations(node: LabelledNode, changes: t.Sequence[LabelChange]) -> Operations:
    if node.labels is None:
        added = {change.key: change.after for change in changes}
        return [Operation("test", LABELS)], [Operation("add", LABELS, added)]
    tests = [Operation("test", LABELS / change.key, change.before) for change in changes]
    operations = [
        Operation("remove", LABELS / change.key)
        if change.after is None
        else Operation("add", LABELS / change.key, change.after)
        for change in changes
    ]
    return tests, operations


def _note_operations(
    node: LabelledNode, changes: t.Sequence[LabelChange], given: Labels
) -> Operations:
    """The note of what was set here, with this task's labels in it and without what it removes."""
    removed = {change.key for change in changes if change.after is None}
    kept = {key: value for key, value in node.remembered.items() if key not in removed}
    noted = {**kept, **given}
    text = json.dumps(noted, sort_keys=True, separators=(",", ":"))
    path = ANNOTATIONS / names.NODE_LABELS
    if node.annotations is None:
        if not noted:
            return [], []
        note = {names.NODE_LABELS: text}
        return [Operation("test", ANNOTATIONS)], [Operation("add", ANNOTATIONS, note)]
    before = node.annotations.get(names.NODE_LABELS)
    if noted:
        change = [] if text == before else [Operation("add", path, text)]
    else:
        change = [] if before is None else [Operation("remove", path)]
    return ([Operation("test", path, before)] if change else []), change


_SHOWN = 3


def dependent_faults(
    snapshot: Snapshot, changes: t.Sequence[LabelChange], *, follow: bool = False
) -> tuple[InputError, ...]:
    """A fault for each change that something depends on, with `follow` only a volume, and for what could not be read.

    `changes` are all of the plan: a label that is added may take the place of one that is removed.
    `snapshot` has the nodes as they are, workloads and pods of all namespaces, and volumes.
    """
    faults = [
        InputError(
            "dependants", f"it is unknown which objects depend on these labels: {gap}; or set force"
        )
        for gap in snapshot.unreadable
        if gap.verb == "list" and gap.resource != "kubevirts"
    ]
    rules = [] if follow else _rules(snapshot)
    pods = () if follow else snapshot.pods
    for step, mine in _steps(snapshot, changes):
        disturbing = (change for change in mine if change.disturbs)
        faults += filter(None, (_fault(step, x, rules, pods, snapshot) for x in disturbing))
    return tuple(faults)


def dependent_workloads(snapshot: Snapshot, changes: t.Sequence[LabelChange]) -> tuple[Ref, ...]:
    """The workloads whose required rules depend on a label that changes."""
    steps = list(_steps(snapshot, changes))
    return tuple(
        ref
        for ref, placement in _rules(snapshot)
        if any(
            step.counts(placement, change.key)
            for step, mine in steps
            for change in mine
            if change.disturbs
        )
    )


def _steps(
    snapshot: Snapshot, changes: t.Sequence[LabelChange]
) -> t.Iterator[tuple[_NodeChange, list[LabelChange]]]:
    """Each node that is known, before and after all its changes."""
    nodes = snapshot.nodes_by_name
    by_node: dict[str, list[LabelChange]] = defaultdict(list)
    for change in changes:
        by_node[change.node].append(change)
    for name, mine in by_node.items():
        if name in nodes:
            yield _NodeChange(nodes[name], mine), mine


class _NodeChange:
    """A node before and after all its changes."""

    def __init__(self, node: Node, changes: t.Iterable[LabelChange]) -> None:
        labels = dict(node.labels)
        for change in changes:
            if change.after is None:
                labels.pop(change.key, None)
            else:
                labels[change.key] = change.after
        self.before = node
        self.after = dataclasses.replace(node, labels=labels)

    def counts(self, placement: Placement, key: str) -> bool:
        """Whether a placement depends on the change of `key`."""
        required = [x for x in placement.spread if x.when_unsatisfiable == "DoNotSchedule"]
        pods = (*placement.affinity, *placement.anti_affinity)
        if key in {x.topology_key for x in pods} | {x.topology_key for x in required}:
            return True
        keys = {selected for selected, _value in placement.node_selector}
        keys |= _keys_of(placement.node_terms or ())
        if key not in keys:
            return False
        return matches_node(placement, self.before) != matches_node(placement, self.after)


def _rules(snapshot: Snapshot) -> list[tuple[Ref, Placement]]:
    """Each workload with placement terms, and its placement."""
    from ..model.placement_manifests import placement_from_spec

    placements = [
        (workload.ref, placement_from_spec(workload.template.get("spec") or {}))
        for workload in snapshot.workloads
    ]
    return [(ref, placement) for ref, placement in placements if placement != Placement()]


def _fault(
    step: _NodeChange,
    change: LabelChange,
    rules: t.Sequence[tuple[Ref, Placement]],
    pods: t.Iterable[Pod],
    snapshot: Snapshot,
) -> InputError | None:
    key = change.key
    # Volumes first: data on them cannot be reached again by moving anything.
    dependents = [
        f"the volume of PersistentVolumeClaim {namespace}/{claim}"
        for (namespace, claim), terms in sorted(snapshot.claim_terms.items())
        if key in _keys_of(terms)
        and matches_terms(terms, step.before) != matches_terms(terms, step.after)
    ]
    dependents += [str(ref) for ref, placement in rules if step.counts(placement, key)]
    dependents += [
        f"{pod.ref} on the node"
        for pod in pods
        if pod.node_name == change.node and not pod.finished and step.counts(pod.placement, key)
    ]
    if not dependents:
        return None
    return InputError(
        f"{change.node} {key}",
        f"{change}: these depend on the label: {listed(dependents, _SHOWN)}."
        " Remove the rules or move the pods first, or set force",
    )


def _keys_of(terms: t.Iterable[NodeTerm]) -> set[str]:
    return {requirement.key for term in terms for requirement in term.expressions}
