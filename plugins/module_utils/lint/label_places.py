# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels that terms select by stand where pods do not get them, or lose them at a restart?

A pod gets the labels of its template and no other ones of the object that it is made from (kubernetes
pkg/controller/controller_utils.go, GetPodFromTemplate; KubeVirt pkg/virt-controller/watch/vm/vm.go, setupVMIFromVM).
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from functools import cached_property

from ..compliance.terms import Term
from ..kubevirt.labels import carried_labels
from ..model.findings import Finding
from ..model.json_pointer import JSON, Pointer
from ..model.objects import Labels, Pod, PodTerm, Ref, Selector, SpreadConstraint
from ..model.rendering import label_text, listed
from ..model.snapshot import Workload
from .lint_input import ANY_VALUE, LintedWorkload, LintInput, Population, pod_term_of

_NEED_THE_LABEL = ("In", "Exists")


class LabelPlaces:
    """The labels in the objects of all workloads that are not those of their templates."""

    def __init__(self, lint_input: LintInput) -> None:
        self._lint_input = lint_input

    @cached_property
    def _places(self) -> Population[tuple[LintedWorkload, str, Labels]]:
        entries = (
            (subject.ref.namespace, {**subject.labels, **labels}, (subject, path, labels))
            for subject in self._lint_input.all_subjects
            if (source := _source(subject)) is not None
            for path, labels in _elsewhere(*source)
        )
        return Population(entries, self._lint_input.namespaces)

    def sentence(self, subject: LintedWorkload, term: Term, *, own: bool = False) -> str | None:
        """Where the labels stand that a term of a subject selects by, if the pods of no workload (`own`: not those of
        the subject) have them; None where they stand nowhere."""
        selected = self._places.selected(pod_term_of(subject, term), subject.ref.namespace) or ()
        chosen = [x for x in selected if x[0].ref == subject.ref or not own]
        chosen.sort(key=lambda x: x[0].ref != subject.ref)  # its own come first
        if not chosen:
            return None
        workload, path, labels = chosen[0]
        asked = [part.key for part in _requirements(term.source.selector)]
        texts = [
            label_text(key, labels[key])
            for key in dict.fromkeys(asked)
            if key in labels and labels[key] != workload.labels.get(key)
        ]
        several = len(texts) != 1
        return (
            f"{listed(texts)} {'are labels' if several else 'is a label'} of {workload.ref} ({path}) and not of its"
            f" pods ({_template_path(workload)}metadata.labels)"
        )


def _source(subject: LintedWorkload) -> tuple[t.Mapping[str, JSON], Pointer] | None:
    if subject.workload is not None:
        return subject.workload.manifest, Pointer(subject.workload.kind.template)
    return subject.source


def _elsewhere(manifest: t.Mapping[str, JSON], template: Pointer) -> t.Iterator[tuple[str, Labels]]:
    """Each map of labels on the way to the template, and at the wrong level of the template, with its path."""
    here: JSON = manifest
    parts = template.parts
    for depth in range(len(parts) + 1):
        if not isinstance(here, dict):
            return
        path = ".".join(parts[:depth])
        maps = {"labels": here.get("labels")}
        metadata = here.get("metadata")
        if isinstance(metadata, dict):
            key = "annotations" if depth == len(parts) else "labels"
            maps[f"metadata.{key}"] = metadata.get(key)
        if depth == len(parts) and isinstance(spec := here.get("spec"), dict):
            maps["spec.labels"] = spec.get("labels")
        for name, labels in maps.items():
            if isinstance(labels, dict):
                texts = {key: value for key, value in labels.items() if isinstance(value, str)}
                yield f"{path}.{name}".lstrip("."), texts
        here = here.get(parts[depth]) if depth < len(parts) else None


def _template_path(subject: LintedWorkload) -> str:
    source = _source(subject)
    return "".join(f"{part}." for part in source[1].parts) if source is not None else ""


def _requirements(selector: Selector | None) -> t.Sequence[t.Any]:
    return selector.requirements if selector is not None else ()


class _Lost(t.NamedTuple):
    """A label of pods that their workload lacks in its template, and that terms of others select them by."""

    pods: dict[str, None]
    selecting: dict[Ref, None]
    owners: dict[str, None]


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Labels that only running pods have: `kubectl label pod`, or a template from which the label was removed."""
    if lint_input.pods is None or lint_input.view is None:
        return
    by_ref = lint_input.by_ref
    lost: dict[tuple[Ref, str], _Lost] = defaultdict(lambda: _Lost({}, {}, {}))
    known: dict[t.Hashable, list[tuple[Pod, LintedWorkload, str]]] = {}
    for subject in lint_input.subjects:
        for term in subject.terms:
            if not isinstance(term.source, (PodTerm, SpreadConstraint)):
                continue
            running = lint_input.running(subject, term)
            if not running:
                continue
            selected = lint_input.selected_refs(subject, term)
            key = running, selected
            if key not in known:
                pod_term = pod_term_of(subject, term)
                known[key] = [
                    (pod, by_ref[ref], text)
                    for pod in running
                    if (ref := lint_input.workload_of(pod)) in by_ref and ref not in selected
                    if (text := _only_on_pod(pod_term.selector, pod, by_ref[ref]))
                ]
            for pod, workload, text in known[key]:
                entry = lost[workload.ref, text]
                entry.pods[pod.name] = None
                entry.selecting[subject.ref] = None
                entry.owners[subject.owner(term)] = None
    for (ref, text), entry in lost.items():
        yield _finding(by_ref[ref], text, entry)


def _only_on_pod(selector: Selector | None, pod: Pod, workload: LintedWorkload) -> str:
    """The labels that a selector needs and that the next pod of a workload will not have, in words."""
    if workload.workload is None or _is_rolling(workload.workload):
        return ""
    next_labels = {**carried_labels(pod.labels), **workload.labels}
    texts = [
        label_text(part.key, pod.labels[part.key])
        for part in _requirements(selector)
        if part.operator in _NEED_THE_LABEL
        and part.key in pod.labels
        and next_labels.get(part.key) not in (pod.labels[part.key], ANY_VALUE)
    ]
    return listed(list(dict.fromkeys(texts)))


def _is_rolling(workload: Workload) -> bool:
    """Whether pods of an earlier template are still being replaced: they have its labels. A change of a VM replaces
    nothing, and the observedGeneration of its status is that with which its VMI was started (kubevirt.io/api,
    core/v1/types.go, VirtualMachineStatus)."""
    if workload.kind.run_strategy:
        return False
    status, generation = workload.status, workload.manifest["metadata"].get("generation")
    observed, updated = status.get("observedGeneration", generation), status.get("updatedReplicas")
    return observed != generation or (
        updated is not None and updated < (status.get("replicas") or 0)
    )


def _finding(workload: LintedWorkload, text: str, lost: _Lost) -> Finding:
    pods = [f"Pod {workload.ref.namespace}/{name}" for name in lost.pods]
    several = len(pods) > 1
    return Finding(
        "label_on_pod_only",
        "warning",
        f"{listed(pods, 3)} {'have' if several else 'has'} {text}, by which terms of"
        f" {listed(list(lost.selecting), 3)} select {'them' if several else 'it'}. The template of"
        f" {workload.ref} lacks it, so the next restart loses it, unless an admission webhook adds it to every new"
        " pod.",
        f"Put it into {_template_path(workload)}metadata.labels, or select by labels that stand there.",
        (workload.ref,),
        next(iter(lost.owners)).rpartition("/")[2],
    )
