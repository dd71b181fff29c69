# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint of what is not on a cluster yet: of manifests, such as a Git repository holds, and of rules."""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..model.finding import Finding
from ..model.kinds import KINDS, MACHINE_INSTANCE
from ..model.machine_manifest import (
    controller_of,
    machine_instance_from_manifest,
)
from ..model.manifest import (
    namespace_from_manifest,
    node_from_manifest,
    placement_from_spec,
    pod_from_manifest,
)
from ..model.names import RULES
from ..model.objects import Ref
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.rule import Rule
from ..model.snapshot import Snapshot, Workload
from ..model.topology import Topology
from ..rules.findings import single_member
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.workload_findings import RESTART_REQUIRED
from ..verdicts.declared import Declared
from ..verdicts.platform_terms import CREATED_BY
from ..verdicts.terms import TermSet
from .cluster_scene import scene_of
from .in_place import put_in_place
from .merging import merged
from .report import lint_scene
from .rules import subjects_of
from .scene import ANY_VALUE, Scene, Subject
from .topology import topology_report

Manifest = t.Mapping[str, JSON]

CARRIERS = (*KINDS, MACHINE_INSTANCE, "Pod")
"""The kinds of manifest that findings are about."""

AROUND = ("Node", "Namespace")
"""The kinds that only say what is around them."""


OF_TERMS = frozenset({"key_on_no_node", "single_domain"})
"""What is wrong with node labels only where a term goes by them."""


def lint_manifests(
    manifests: t.Iterable[Manifest],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
    cluster: Snapshot | None = None,
) -> tuple[Finding, ...]:
    """The findings about workloads, machines and pods among `manifests`.

    Nodes and Namespaces among them are taken for all that there are; if there are none, they are
    those of `cluster`, and without one nothing is known about them. What a cluster holds beside
    the manifests may be selected by their terms. Other kinds are passed over.
    """
    return lint_scene(_scene(manifests, topology or Topology.of(), platform, cluster))


def lint_rules(
    rules: t.Iterable[Rule],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
    manifests: t.Iterable[Manifest] = (),
    cluster: Snapshot | None = None,
) -> tuple[Finding, ...]:
    """The findings about rules: put into the manifests of the workloads that they are about, or
    by themselves where one of those is not among the manifests. Nodes and Namespaces are known as
    in `lint_manifests`."""
    listed = tuple(rules)
    around = _scene(manifests, topology or Topology.of(), platform, cluster)
    placed = put_in_place(listed, around)
    said = {(finding.name, finding.rule) for finding in placed.findings}
    # A manifest does not say whether its machine runs, so that a spread may need a restart stays.
    seen = [f for f in _by_themselves(placed.rules, around) if f.name != RESTART_REQUIRED]
    more = [f for f in _by_themselves(listed, around) if (f.name, f.rule) not in said]
    return merged((*placed.findings, *_without(more, seen)))


def _by_themselves(rules: t.Sequence[Rule], around: Scene) -> list[Finding]:
    """Nobody whom the rules name is looked up."""
    named = subjects_of(rules)
    found = lint_scene(replace(around, subjects=named, all_subjects=named, pods=None))
    return [*found, *(each for rule in rules for each in single_member(rule))]


def _without(found: t.Iterable[Finding], seen: t.Iterable[Finding]) -> t.Iterator[Finding]:
    """The findings without the objects of which the same is seen."""
    known = {(f.name, f.rule, f.why, ref) for f in seen for ref in (*f.objects, None)}
    for f in found:
        left = tuple(ref for ref in f.objects if (f.name, f.rule, f.why, ref) not in known)
        if left or not (f.objects or (f.name, f.rule, f.why, None) in known):
            yield replace(f, objects=left)


def lint_nodes(
    manifests: t.Iterable[Manifest], *, topology: Topology | None = None
) -> tuple[Finding, ...]:
    """What is wrong with the labels of the Nodes among `manifests`, whoever goes by them."""
    nodes = [node_from_manifest(named(m)) for m in opened(manifests) if m.get("kind") == "Node"]
    found = topology_report(nodes, topology or Topology.of()).findings
    return tuple(finding for finding in found if finding.name not in OF_TERMS)


def opened(manifests: t.Iterable[Manifest]) -> t.Iterator[Manifest]:
    """The manifests, those in lists by themselves."""
    for manifest in manifests:
        if manifest and str(manifest.get("kind", "")).endswith("List"):
            yield from opened(manifest.get("items") or ())
        elif manifest:
            yield manifest


def _scene(
    manifests: t.Iterable[Manifest],
    topology: Topology,
    platform: Platform | None,
    cluster: Snapshot | None,
) -> Scene:
    by_kind: dict[str, list[Manifest]] = {}
    for manifest in opened(manifests):
        by_kind.setdefault(str(manifest.get("kind")), []).append(named(manifest))
    running = [pod for pod in by_kind.get("Pod", ()) if (pod.get("spec") or {}).get("nodeName")]
    read = Snapshot(
        nodes=tuple(map(node_from_manifest, by_kind.get("Node", ()))),
        namespaces=tuple(map(namespace_from_manifest, by_kind.get("Namespace", ()))),
        pods=tuple(map(pod_from_manifest, running)),
        workloads=tuple(_workload(kind, m) for kind in KINDS for m in by_kind.get(kind, ())),
        machine_instances=tuple(
            map(machine_instance_from_manifest, by_kind.get(MACHINE_INSTANCE, ()))
        ),
    )
    scene = scene_of(read, topology)
    alone = [vmi for vmi in by_kind.get(MACHINE_INSTANCE, ()) if not _owners(vmi)]
    subjects = (
        *scene.subjects,
        *(_alone(MACHINE_INSTANCE, vmi) for vmi in alone),
        *(_alone("Pod", pod) for pod in by_kind.get("Pod", ())),
    )
    scene = replace(
        scene,
        subjects=subjects,
        all_subjects=subjects,
        nodes=read.nodes or None,
        namespaces=read.namespaces or None,
        pods=read.pods or None,
        platform=platform,
    )
    return scene if cluster is None else _on(cluster, scene)


def _on(cluster: Snapshot, scene: Scene) -> Scene:
    """Manifests as they would stand on a cluster: each takes the place of the object that it
    would replace, and has what runs of that."""
    standing = scene_of(cluster, scene.topology)
    there = {subject.ref: subject for subject in standing.subjects}
    subjects = tuple(
        replace(subject, machines=subject.machines or there[subject.ref].machines)
        if subject.ref in there
        else subject
        for subject in scene.subjects
    )
    replaced = {subject.ref for subject in subjects}
    others = (subject for ref, subject in there.items() if ref not in replaced)
    return replace(
        scene,
        subjects=subjects,
        all_subjects=(*subjects, *others),
        nodes=scene.nodes or standing.nodes,
        namespaces=scene.namespaces or standing.namespaces,
        pods=standing.pods,
        platform=scene.platform or standing.platform,
        unreadable=standing.unreadable,
    )


def named(manifest: Manifest) -> dict[str, JSON]:
    """The manifest with what only the API server would give it."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    own = {"namespace": "default", "uid": "", **metadata, "name": name}
    return {**manifest, "metadata": own}


def _owners(manifest: Manifest) -> JSON:
    return manifest["metadata"].get("ownerReferences")


def _workload(kind: str, manifest: Manifest) -> Workload:
    """Without a uid, as in Git, rules in the annotation are taken for the object's own."""
    metadata = manifest["metadata"]
    ref = Ref(kind, metadata["namespace"], metadata["name"])
    workload = Workload(ref, metadata["uid"], manifest, controller_of(metadata))
    if not workload.uid and RULES in workload.annotations:
        with contextlib.suppress(UnreadableAnnotation):
            return replace(workload, uid=read_ownership(workload).uid)
    return workload


def _alone(kind: str, manifest: Manifest) -> Subject:
    """A pod, or a machine that no workload makes."""
    metadata = manifest["metadata"]
    placement = placement_from_spec(manifest.get("spec") or {})
    labels = metadata.get("labels") or {}
    virtual = kind == MACHINE_INSTANCE
    known = {**labels, CREATED_BY: ANY_VALUE} if virtual else labels
    ref = Ref(kind, metadata["namespace"], metadata["name"])
    declared = Declared(ref, placement, labels, TermSet(placement, labels))
    return Subject(
        ref,
        declared,
        known,
        virtual=virtual,
        copies=1,
        spec=manifest.get("spec") or {},
        owned=bool(_owners(manifest)),
    )
