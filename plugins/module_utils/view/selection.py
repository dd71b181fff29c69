# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads do names and labels of the options refer to, and what are the nearest names?

References to workloads, pods and labels are written alike in every option. Rules are about the
kinds that can carry them; a query may be about any kind of workload, and about bare pods.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ..kinds.registry import DEFAULT_KIND, KINDS, RULE_KINDS
from ..model.findings import InputError, InvalidInput
from ..model.input import InputReader, left_out, nearest, shown
from ..model.json_pointer import JSON
from ..model.objects import Ref, is_object_name
from ..model.obstacle import NOT_FOUND, Obstacle
from ..model.rule import PodSelector, WorkloadSelector
from ..model.snapshot import Snapshot
from .label_input import labels
from .view import ClusterView, view_of

_OF_PODS = ("labels", "namespaces")
_WAYS = ("name", "names", "labels")
_OPTIONS = ("kind", "namespace", *_WAYS)


POD = "Pod"
ASKED_KINDS = (*KINDS, POD)


def workloads(
    notes: InputReader, value: JSON, namespace: str | None, kinds: t.Sequence[str] = RULE_KINDS
) -> list[WorkloadSelector | None]:
    """A list of workloads, each as `workload` reads it; a name alone is a list of one."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list):
        notes.error(
            "must be a list of names of VMs, or of maps with name, names or labels, not"
            f" {shown(value)}"
        )
        return []
    names = Counter(item.strip() for item in items if isinstance(item, str))
    repeated = [repr(name) for name, count in names.items() if name and count > 1]
    if repeated:
        notes.error(f"has {' and '.join(repeated)} more than once")
    return [workload(notes.item(index), item, namespace, kinds) for index, item in enumerate(items)]


def workload(
    notes: InputReader, value: JSON, namespace: str | None, kinds: t.Sequence[str] = RULE_KINDS
) -> WorkloadSelector | None:
    """The name of a VM, or `{kind, namespace, name | names | labels}`. `namespace` is the default;
    None: each workload has to name its own."""
    if isinstance(value, str):
        name = notes.text(value)
        where = _namespace(notes, {}, namespace)
        if name is None or where is None:
            return None
        return WorkloadSelector(DEFAULT_KIND, where, (name,))
    if not isinstance(value, dict):
        notes.error(
            f"must be the name of a VM, or a map of {', '.join(_OPTIONS)}, not {shown(value)}"
        )
        return None
    given = notes.mapping(value, _OPTIONS)
    if given is None:
        return None
    kind = _kind(notes.at("kind"), given.get("kind", DEFAULT_KIND), kinds)
    where = _namespace(notes, given, namespace)
    given_options = [option for option in _WAYS if option in given]
    if len(given_options) != 1:
        counted = f"has {' and '.join(given_options)}" if given_options else "has none of these"
        if given_options or all(left_out(option, value, _OPTIONS) for option in _WAYS):
            notes.error(f"must name workloads by one of name, names or labels, and {counted}")
        return None
    selection = _by(notes.at(given_options[0]), given_options[0], given[given_options[0]])
    if kind is None or where is None or selection is None:
        return None
    return WorkloadSelector(kind, where, **selection)


def _namespace(notes: InputReader, given: t.Mapping[str, JSON], default: str | None) -> str | None:
    if "namespace" in given:
        return notes.at("namespace").text(given["namespace"])
    if default is None:
        notes.at("namespace").error(
            "is missing: set it here, or set a single namespace in namespaces"
        )
    return default


def _by(notes: InputReader, option: str, value: JSON) -> dict[str, t.Any] | None:
    """`labels` or `names` of a WorkloadSelector."""
    if option == "labels":
        wanted = labels(notes, value)
        return None if wanted is None else {"labels": wanted}
    if option == "name":
        name = notes.text(value)
        return None if name is None else {"names": (name,)}
    names = notes.texts(value)
    if names is not None and isinstance(value, list) and len(names) < len(value):
        given = [str(name).strip() for name in value]
        twice = [repr(name) for name in names if given.count(name) > 1]
        notes.error(f"has {' and '.join(twice)} more than once")
        return None
    return None if names is None else {"names": names}


def _kind(notes: InputReader, value: JSON, kinds: t.Sequence[str]) -> str | None:
    name = notes.text(value)
    if name is None or name in kinds:
        return name
    known = ", ".join(kinds)
    if name == POD:
        notes.error(f"a rule cannot be written to a Pod: name its owner, one of {known}")
    elif name in KINDS:
        notes.error(f"rules cannot be written to a {name}; use one of {known}")
    else:
        notes.error(f"{name!r} is not a kind of workload: use one of {known}{nearest(name, kinds)}")
    return None


def pods(notes: InputReader, value: JSON, namespace: str) -> PodSelector | None:
    """`{labels, namespaces}`: pods of any owner."""
    given = notes.mapping(value, _OF_PODS)
    if given is None:
        return None
    if "labels" not in given:
        if left_out("labels", value, _OF_PODS):
            notes.error("needs labels, since an empty selector matches every pod")
        return None
    pod_labels = labels(notes.at("labels"), given["labels"])
    namespaces: tuple[str, ...] | None = (namespace,)
    if "namespaces" in given:
        namespaces = notes.at("namespaces").texts(given["namespaces"])
    if namespaces == ():
        notes.at("namespaces").error("is empty: name at least one namespace, or omit it")
    if not pod_labels or not namespaces:
        return None
    return PodSelector(pod_labels, namespaces)


@dataclass(frozen=True)
class WorkloadQuery:
    """`namespaces` and `workloads` None: all of them. Empty: none. `excluded` are namespaces."""

    namespaces: tuple[str, ...] | None = None
    workloads: tuple[WorkloadSelector, ...] | None = None
    excluded: tuple[str, ...] = ()

    @property
    def read(self) -> tuple[str, ...] | None:
        """The namespaces whose workloads have to be read."""
        if self.workloads is None:
            return self.namespaces
        return tuple(dict.fromkeys(selector.namespace for selector in self.workloads))


@dataclass(frozen=True)
class SelectedWorkloads:
    """`workloads` None: all of `namespaces`."""

    namespaces: tuple[str, ...] | None
    workloads: frozenset[Ref] | None

    def covers(self, workload: Ref) -> bool:
        if self.workloads is not None:
            return workload in self.workloads
        return self.namespaces is None or workload.namespace in self.namespaces


def question_of(
    namespaces: list[str] | None,
    listed: list[JSON] | None,
    exclude_namespaces: list[str] | None = None,
) -> WorkloadQuery:
    """The query in the options. Raises InvalidInput with every error."""
    faults: list[InputError] = []
    named = None if namespaces is None else InputReader("namespaces", faults).texts(namespaces)
    default = named[0] if named is not None and len(named) == 1 else None
    excluded = InputReader("exclude_namespaces", faults).texts(exclude_namespaces or []) or ()
    for name in excluded:
        if name in (named or ()):
            faults.append(InputError("exclude_namespaces", f"{name!r} is also in namespaces"))
    if excluded and listed is not None:
        faults.append(InputError("exclude_namespaces", "cannot be combined with workloads"))
    selectors = None
    if listed is not None:
        read = workloads(InputReader("workloads", faults), listed, default, ASKED_KINDS)
        selectors = tuple(selector for selector in read if selector is not None)
    if faults:
        raise InvalidInput(faults)
    return WorkloadQuery(named, selectors, excluded)


def without_missing(
    query: WorkloadQuery, snapshot: Snapshot
) -> tuple[WorkloadQuery, tuple[str, ...]]:
    """The query without the namespaces that do not exist, and these."""
    lookup = WorkloadLookup(view_of(snapshot), [])
    named = query.namespaces or ()
    there = tuple(x for x in named if lookup.check_namespace(x, "namespaces"))
    missing = tuple(x for x in named if x not in there)
    return (replace(query, namespaces=there), missing) if missing else (query, ())


def look_up(query: WorkloadQuery, snapshot: Snapshot) -> SelectedWorkloads:
    """The workloads that a query names. Raises InvalidInput for each workload, and each namespace,
    that does not exist."""
    errors: list[InputError] = []
    view = view_of(snapshot)
    lookup = WorkloadLookup(view, errors)
    for namespace in (*(query.namespaces or ()), *(query.read or ())):
        lookup.check_namespace(namespace, "namespaces")
    for namespace in query.excluded:
        lookup.check_namespace(namespace, "exclude_namespaces")
    refs: set[Ref] = set()
    for index, selector in enumerate(query.workloads or () if not errors else ()):
        known_errors = len(errors)
        selected = lookup.select(selector, f"workloads[{index}]")
        if selector.labels is not None and not selected and len(errors) == known_errors:
            labels = ",".join(f"{k}={v}" for k, v in sorted(selector.labels.items()))
            text = f"no {selector.kind} in namespace {selector.namespace!r} has {labels}"
            errors.append(InputError(f"workloads[{index}]", text))
        refs.update(selected)
    if errors:
        raise InvalidInput(errors)
    if query.workloads is None:
        if not query.excluded:
            return SelectedWorkloads(query.namespaces, None)
        names: t.Iterable[str]
        if query.namespaces is not None:
            names = query.namespaces
        else:
            # Every namespace that has something in it or could be read.
            filled = {
                pod.namespace for pod in snapshot.pods
            } | view.snapshot.namespaces_by_name.keys()
            filled |= {workload.ref.namespace for workload in snapshot.workloads}
            names = sorted(filled | {vmi.ref.namespace for vmi in snapshot.vmis})
        return SelectedWorkloads(tuple(x for x in names if x not in query.excluded), None)
    return SelectedWorkloads(None, frozenset(refs))


class WorkloadLookup:
    """Finds the workloads that selectors name. What is not found is added to `errors`, with the
    nearest names and the advice."""

    def __init__(self, tables: ClusterView, errors: list[InputError], advice: str = "") -> None:
        self._tables = tables
        self._snapshot = tables.snapshot
        self._errors = errors
        self._advice = advice

    def select(self, selector: WorkloadSelector, where: str) -> tuple[Ref, ...]:
        """The references that exist, in the order of the names, or sorted where labels select. An
        unreadable kind and a kind of KubeVirt without KubeVirt are errors."""
        kind, namespace = selector.kind, selector.namespace
        if (why := self.why_unavailable(kind, namespace)) is not None:
            self._errors.append(InputError(where, str(why)))
            return ()
        labels_of = self._tables.labels_by_name.get((kind, namespace), {})
        if selector.labels is not None:
            selector_labels = selector.labels.items()
            names = [x for x in sorted(labels_of) if selector_labels <= dict(labels_of[x]).items()]
        else:
            names = [name for name in selector.names if name in labels_of]
            for name in selector.names:
                if name not in labels_of:
                    self._errors.append(InputError(where, self._unknown(selector, name, labels_of)))
        return tuple(Ref(kind, namespace, name) for name in names)

    def check_namespace(self, namespace: str, where: str) -> bool:
        """Whether the namespace exists, as far as namespaces could be read."""
        namespaces = self._snapshot.namespaces_by_name
        if namespace in namespaces or self._snapshot.why_unreadable("namespaces", "") is not None:
            return True
        error = InputError(
            where, f"there is no namespace {namespace!r}{nearest(namespace, namespaces)}"
        )
        if error not in self._errors:
            self._errors.append(error)
        return False

    def why_unavailable(self, kind: str, namespace: str) -> Obstacle | None:
        """Why objects of a kind cannot be looked up."""
        plural = "pods" if kind == POD else KINDS[kind].plural
        unreadable = self._snapshot.why_unreadable(plural, namespace)
        if unreadable is not None:
            return Obstacle(unreadable.reason_code, str(unreadable))
        if (
            kind != POD
            and KINDS[kind].virtual_machines
            and self._snapshot.platform.kubevirt is None
        ):
            return Obstacle(NOT_FOUND, without_kubevirt(kind))
        return None

    def _unknown(self, selector: WorkloadSelector, name: str, names: t.Iterable[str]) -> str:
        kind, namespace = selector.kind, selector.namespace
        other_kinds = [
            candidate
            for candidate in RULE_KINDS
            if candidate != kind
            and Ref(candidate, namespace, name) in self._snapshot.workloads_by_ref
        ]
        hint = nearest(name, names)
        if other_kinds:
            hint = f"; there is a {' and a '.join(sorted(other_kinds))} of that name, set kind"
        elif not is_object_name(name):
            hint = f"{hint or '.'} No object can have this name. To choose several, use labels"
        elif self._advice:
            hint = f"{hint or '.'} {self._advice}"
        return f"there is no {kind} {name!r} in namespace {namespace!r}{hint}"


def without_kubevirt(kind: str) -> str:
    """The error of naming a kind of KubeVirt where KubeVirt is not installed."""
    return f"KubeVirt is not installed on this cluster, so it has no {kind}"
