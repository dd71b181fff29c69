# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of objects that the API server would accept from whoever owns a namespace."""

from __future__ import annotations

import copy
import typing as t

from hypothesis import strategies as st

from .cluster import OTHERS, TENANT, WORKLOADS, Object, Objects, of_kind, path_of, template_of
from .forged import forged_annotations
from .placements import own_placements, placements, unvalidated
from .specs import optional_fields, spec_changes
from .values import PREFIX, labels, mutated, mutated_text, names, storable, texts, values


@st.composite
def annotation_changes(draw: t.Any, objects: Objects) -> None:
    path = draw(st.sampled_from(of_kind(objects)))
    metadata = objects[path]["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    key = draw(
        st.sampled_from(
            [
                f"{PREFIX}rules",
                f"{PREFIX}rules",
                f"{PREFIX}undo",
                f"{PREFIX}undo",
                f"{PREFIX}journal",
                f"{PREFIX}run",
                f"{PREFIX}hold",
                "kubernetes.io/config.mirror",
                "argocd.argoproj.io/tracking-id",
                "example.com/\u202e",
            ]
        )
    )
    annotations[key] = mutated_text(draw, annotations.get(key, ""))
    metadata["annotations"] = annotations


@st.composite
def label_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    places = [item["metadata"]]
    if item["kind"] in WORKLOADS:
        places.append(template_of(item).setdefault("metadata", {}))
    where = draw(st.sampled_from(places))
    if draw(st.integers(0, 4)) == 0:
        where.pop("labels", None)
    else:
        where["labels"] = {**(where.get("labels") or {}), **draw(labels)}


def term_changes(objects: Objects) -> st.SearchStrategy[None]:
    return _term_changes(objects, placements)


def own_term_changes(objects: Objects) -> st.SearchStrategy[None]:
    return _term_changes(objects, own_placements)


@st.composite
def _term_changes(draw: t.Any, objects: Objects, chosen: st.SearchStrategy[Object]) -> None:
    path = draw(st.sampled_from(of_kind(objects, *WORKLOADS, "Pod", "VirtualMachineInstance")))
    item = objects[path]
    spec = template_of(item)["spec"] if item["kind"] in WORKLOADS else item["spec"]
    spec.update(draw(chosen))
    if "domain" in spec and draw(st.booleans()):
        spec.update(draw(unvalidated))


@st.composite
def condition_changes(draw: t.Any, objects: Objects) -> None:
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    conditions = st.fixed_dictionaries(
        {
            "type": st.one_of(
                st.sampled_from(
                    [
                        "Ready",
                        "LiveMigratable",
                        "RestartRequired",
                        "PodScheduled",
                        "Paused",
                        "migrationRejectedByResourceQuota",
                        "Synchronized",
                        "Failure",
                    ]
                ),
                st.text(max_size=8),
            ),
            "status": st.sampled_from(["True", "False", "Unknown", ""]),
        },
        optional={"reason": texts, "message": texts},
    )
    status = item.setdefault("status", {})
    status["conditions"] = draw(st.lists(conditions, max_size=3))
    if draw(st.booleans()):
        key = draw(st.sampled_from(["phase", "nodeName", "printableStatus"]))
        status[key] = draw(st.sampled_from(["", "Pending", "Running", "Failed", "w1", "gone"]))
    if item["kind"] == "VirtualMachineInstance" and draw(st.booleans()):
        status["migrationState"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "migrationUid": names,
                    "sourceNode": st.sampled_from(["w1", "gone", ""]),
                    "targetNode": st.sampled_from(["w2", "gone"]),
                    "targetPod": names,
                    "completed": st.booleans(),
                    "failed": st.booleans(),
                },
            )
        )
        status["activePods"] = draw(
            st.dictionaries(
                st.sampled_from(
                    [f"pod-{OTHERS}-virt-launcher-web0-x1", f"pod-{TENANT}-cache-h1-0", "none"]
                ),
                st.sampled_from(["w1", "w4", "gone"]),
                max_size=2,
            )
        )
    if item["kind"] == "VirtualMachine" and draw(st.booleans()):
        status["stateChangeRequests"] = [{"action": "Stop", "uid": draw(names)}]


@st.composite
def owner_changes(draw: t.Any, objects: Objects) -> None:
    """The owner is any object, of others too, and in part something else than that."""
    item = objects[draw(st.sampled_from(of_kind(objects)))]
    owner = objects[draw(st.sampled_from(sorted(objects)))]
    kinds = ["VirtualMachine", "VirtualMachineInstance", "ReplicaSet", "DaemonSet", "Job"]
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": draw(st.integers(0, 3)) > 0,
    }
    if draw(st.booleans()):
        odd = st.sampled_from(["My_Widget", "a/b", "x y"])
        kind, name = st.one_of(st.sampled_from(kinds), odd), st.one_of(names, odd)
        reference |= draw(optional_fields(kind=kind, name=name, uid=st.just("none")))
    item["metadata"]["ownerReferences"] = [reference]


@st.composite
def lifecycle_changes(draw: t.Any, objects: Objects) -> None:
    """Deletion, finalizers, copies under other names, and objects without their controllers."""
    path = draw(st.sampled_from(of_kind(objects)))
    item = objects[path]
    what = draw(st.sampled_from(["delete", "terminate", "finalizer", "copy", "managers"]))
    if what == "delete":
        if len(of_kind(objects)) > 1:
            del objects[path]
    elif what == "terminate":
        item["metadata"]["deletionTimestamp"] = "2026-05-01T08:00:00Z"
        item["metadata"]["finalizers"] = ["example.com/never"]
    elif what == "finalizer":
        item["metadata"]["finalizers"] = [draw(names)]
    elif what == "managers":
        item["metadata"]["managedFields"] = draw(
            st.lists(st.fixed_dictionaries({}, optional={"manager": texts}), max_size=2)
        )
    else:
        other = copy.deepcopy(item)
        other["metadata"]["name"] = draw(names)
        other["metadata"]["uid"] = f"copy-{len(objects)}"
        if path_of(other) not in objects:
            objects[path_of(other)] = other
            if "nodeName" in other.get("spec", {}) and draw(st.booleans()):
                del other["spec"]["nodeName"]


@st.composite
def revision_changes(draw: t.Any, objects: Objects) -> None:
    """What VMs were when they started is something else, of another form, or forgotten."""
    revision = objects[draw(st.sampled_from(of_kind(objects, "ControllerRevision")))]
    data = revision.pop("data", {})
    if draw(st.integers(0, 4)) > 0:
        data = draw(values) if draw(st.integers(0, 4)) == 0 else mutated(draw, data)
        if draw(st.booleans()):
            data = _with_other_names(data, draw(st.sampled_from([1, [1]])))
        revision["data"] = storable(data)


def _with_other_names(value: t.Any, name: t.Any) -> t.Any:
    """JSON in which each list item with a name has this one."""
    if isinstance(value, dict):
        return {key: _with_other_names(inner, name) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    items = [_with_other_names(item, name) for item in value]
    return [
        {**item, "name": name} if isinstance(item, dict) and "name" in item else item
        for item in items
    ]


Change = t.Callable[[Objects], st.SearchStrategy[None]]

APART: t.Sequence[Change] = (
    annotation_changes,
    annotation_changes,
    forged_annotations,
    forged_annotations,
    label_changes,
    own_term_changes,
    own_term_changes,
    condition_changes,
    owner_changes,
    lifecycle_changes,
    revision_changes,
)
"""Changes after which kube-scheduler decides about pods of others as before."""

CHANGES: t.Sequence[Change] = (*APART, term_changes, term_changes, spec_changes, spec_changes)


@st.composite
def of_tenant(draw: t.Any, base: Objects, changes: t.Sequence[Change] = CHANGES) -> Objects:
    """The objects after one to four changes of the tenant's."""
    objects = copy.deepcopy(base)
    for _change in range(draw(st.integers(1, 4))):
        draw(draw(st.sampled_from(changes))(objects))
    return objects


@st.composite
def of_platform(draw: t.Any, base: Objects, journal: str, mark: str) -> Objects:
    """The objects with a changed journal on the Lease, or a changed mark on a node."""
    objects = copy.deepcopy(base)
    if draw(st.booleans()):
        lease = objects[path_of_lease(objects)]
        text = mutated_text(draw, journal)
        lease["metadata"]["annotations"] = {f"{PREFIX}journal": text}
        if draw(st.integers(0, 3)) == 0:
            lease["metadata"]["annotations"][f"{PREFIX}run"] = draw(texts)
    else:
        node = objects["/api/v1/nodes/w1"]
        key = draw(st.sampled_from(["maintenance", "maintenance", "node-labels", "rules"]))
        node["metadata"]["annotations"] = {PREFIX + key: mutated_text(draw, mark)}
        if draw(st.booleans()):
            node["spec"]["unschedulable"] = True  # false is never stored
    return objects


def path_of_lease(objects: Objects) -> str:
    return next(path for path, item in objects.items() if item["kind"] == "Lease")
