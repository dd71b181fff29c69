# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the judge is asked about: namespaces and references to workloads, checked and looked up.

Unlike a rule, a question may be about any kind of workload, about bare pods too.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault, Refused
from ..model.kinds import KINDS, VIRTUAL_MACHINE
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.rule import WorkloadSelector
from ..model.snapshot import Snapshot
from ..rules import references
from ..rules.values import Notes, nearest

POD = "Pod"
ASKED_KINDS = (*KINDS, POD)


@dataclass(frozen=True)
class Question:
    """`namespaces` and `workloads` None: all of them. Empty: none."""

    namespaces: tuple[str, ...] | None = None
    workloads: tuple[WorkloadSelector, ...] | None = None

    @property
    def read(self) -> tuple[str, ...] | None:
        """The namespaces whose workloads have to be read."""
        if self.workloads is None:
            return self.namespaces
        return tuple(dict.fromkeys(selector.namespace for selector in self.workloads))


@dataclass(frozen=True)
class Found:
    """Who is judged: `workloads` None for all of `namespaces`."""

    namespaces: tuple[str, ...] | None
    workloads: frozenset[Ref] | None


def question_of(namespaces: list[str] | None, workloads: list[JSON] | None) -> Question:
    """The question as the options put it. Raises Refused with every fault."""
    faults: list[Fault] = []
    named = None if namespaces is None else Notes("namespaces", faults).texts(namespaces)
    default = named[0] if named is not None and len(named) == 1 else ""
    listed = None
    if workloads is not None:
        read = [
            _selector(Notes(f"workloads[{index}]", faults), item, default)
            for index, item in enumerate(workloads)
        ]
        listed = tuple(selector for selector in read if selector is not None)
    if faults:
        raise Refused(faults)
    return Question(named, listed)


def look_up(question: Question, snapshot: Snapshot) -> Found:
    """The workloads that the question names. Raises Refused for each one, and each namespace, that
    there is not."""
    faults: list[Fault] = []
    known = {namespace.name for namespace in snapshot.namespaces}
    unread = any(gap.resource == "namespaces" for gap in snapshot.unreadable)
    for namespace in (*(question.namespaces or ()), *(question.read or ())):
        if namespace not in known and not unread:
            hint = nearest(namespace, known)
            fault = Fault("namespaces", f"there is no namespace {namespace!r}{hint}")
            if fault not in faults:
                faults.append(fault)
    refs: set[Ref] = set()
    if not faults:
        for index, selector in enumerate(question.workloads or ()):
            refs |= _resolve(selector, snapshot, f"workloads[{index}]", faults)
    if faults:
        raise Refused(faults)
    if question.workloads is None:
        return Found(question.namespaces, None)
    return Found(None, frozenset(refs))


def _selector(notes: Notes, item: JSON, namespace: str) -> WorkloadSelector | None:
    given = {name: value for name, value in item.items() if value is not None}
    kind = given.get("kind", VIRTUAL_MACHINE.name)
    if kind not in ASKED_KINDS:
        known = f"use one of {', '.join(ASKED_KINDS)}{nearest(kind, ASKED_KINDS)}"
        notes.at("kind").fault(f"{kind!r} is no kind of workload: {known}")
    if "namespace" not in given and not namespace:
        notes.at("namespace").fault("is missing: name it here, or a single one in namespaces")
        return None
    # How a workload is named is the same for all kinds; which kinds may be named is not.
    found = references.workload(notes, {**given, "kind": VIRTUAL_MACHINE.name}, namespace)
    if found is None:
        return None
    return WorkloadSelector(kind, found.namespace, found.names, found.labels)


def _resolve(
    selector: WorkloadSelector, snapshot: Snapshot, where: str, faults: list[Fault]
) -> set[Ref]:
    kind, namespace = selector.kind, selector.namespace
    plural = "pods" if kind == POD else KINDS[kind].plural
    gap = snapshot.gap(plural, namespace)
    if gap is not None:
        faults.append(Fault(where, str(gap)))
        return set()
    if kind != POD and KINDS[kind].virtual_machines and snapshot.platform.kubevirt is None:
        faults.append(Fault(where, f"KubeVirt is not installed, so there is no {kind}"))
        return set()
    known = _labelled(kind, namespace, snapshot)
    if selector.labels is not None:
        asked = selector.labels.items()
        chosen = {name for name, labels in known.items() if asked <= dict(labels).items()}
        if not chosen:
            said = ",".join(f"{k}={v}" for k, v in sorted(asked))
            faults.append(Fault(where, f"no {kind} in namespace {namespace!r} has {said}"))
        return {Ref(kind, namespace, name) for name in chosen}
    for name in selector.names:
        if name not in known:
            hint = nearest(name, known)
            text = f"there is no {kind} {name!r} in namespace {namespace!r}{hint}"
            faults.append(Fault(where, text))
    return {Ref(kind, namespace, name) for name in selector.names if name in known}


def _labelled(kind: str, namespace: str, snapshot: Snapshot) -> dict[str, t.Mapping[str, str]]:
    """Names of one kind in one namespace with the labels of their templates; of bare pods with
    their own."""
    if kind == POD:
        return {
            pod.name: pod.labels
            for pod in snapshot.pods
            if pod.namespace == namespace and pod.owner is None and not pod.finished
        }
    return {
        workload.ref.name: workload.template_labels
        for workload in snapshot.workloads
        if (workload.ref.kind, workload.ref.namespace) == (kind, namespace)
    }
