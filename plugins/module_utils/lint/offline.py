# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lint without a cluster: of manifests, such as a Git repository holds, and of rules."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.finding import Finding
from ..model.kinds import KINDS
from ..model.machine_manifest import machine_instance_from_manifest
from ..model.manifest import (
    namespace_from_manifest,
    node_from_manifest,
    placement_from_spec,
    pod_from_manifest,
)
from ..model.objects import Ref
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.rule import Rule
from ..model.snapshot import Snapshot, Workload
from ..model.topology import Topology
from ..verdicts.declared import Declared
from ..verdicts.terms import TermSet
from .online import scene_of
from .report import lint_scene
from .rules import subjects_of
from .scene import Scene, Subject

Manifest = t.Mapping[str, JSON]


def lint_manifests(
    manifests: t.Iterable[Manifest],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
) -> tuple[Finding, ...]:
    """The findings about workloads and pods among `manifests`.

    Nodes, Namespaces and VirtualMachineInstances among them are taken for all that there are; if
    there are none, nothing is known about them. Lists are opened; other kinds are passed over.
    """
    by_kind: dict[str, list[Manifest]] = {}
    for manifest in _opened(manifests):
        by_kind.setdefault(str(manifest.get("kind")), []).append(manifest)
    nodes = by_kind.get("Node")
    namespaces = by_kind.get("Namespace")
    running = [pod for pod in by_kind.get("Pod", ()) if (pod.get("spec") or {}).get("nodeName")]
    snapshot = Snapshot(
        nodes=tuple(map(node_from_manifest, nodes or ())),
        namespaces=tuple(map(namespace_from_manifest, namespaces or ())),
        pods=tuple(pod_from_manifest(_named(pod)) for pod in running),
        workloads=tuple(_workload(kind, m) for kind in KINDS for m in by_kind.get(kind, ())),
        machine_instances=tuple(
            machine_instance_from_manifest(_named(vmi))
            for vmi in by_kind.get("VirtualMachineInstance", ())
        ),
    )
    scene = scene_of(snapshot, topology or Topology.of())
    pods = tuple(map(_pod_subject, by_kind.get("Pod", ())))
    subjects = (*scene.subjects, *pods)
    scene = replace(
        scene,
        subjects=subjects,
        all_subjects=subjects,
        nodes=scene.nodes if nodes else None,
        namespaces=scene.namespaces if namespaces else None,
        pods=scene.pods if running else None,
        platform=platform,
    )
    return lint_scene(scene)


def lint_rules(
    rules: t.Iterable[Rule],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
) -> tuple[Finding, ...]:
    """The findings about rules by themselves, with nobody looked up."""
    scene = Scene(subjects_of(rules), topology or Topology.of(), platform=platform)
    return lint_scene(scene)


def _opened(manifests: t.Iterable[Manifest]) -> t.Iterator[Manifest]:
    for manifest in manifests:
        if manifest and str(manifest.get("kind", "")).endswith("List"):
            yield from _opened(manifest.get("items") or ())
        elif manifest:
            yield manifest


def _named(manifest: Manifest) -> dict[str, JSON]:
    """The manifest with what only the API server would give it."""
    metadata = manifest.get("metadata") or {}
    own = {"namespace": "default", "name": "", "uid": "", **metadata}
    return {**manifest, "metadata": own}


def _workload(kind: str, manifest: Manifest) -> Workload:
    named = _named(manifest)
    metadata = named["metadata"]
    ref = Ref(kind, metadata["namespace"], metadata["name"] or metadata.get("generateName", ""))
    return Workload(ref, metadata["uid"], named)


def _pod_subject(manifest: Manifest) -> Subject:
    named = _named(manifest)
    metadata = named["metadata"]
    placement = placement_from_spec(named.get("spec") or {})
    labels = metadata.get("labels") or {}
    ref = Ref("Pod", metadata["namespace"], metadata["name"])
    declared = Declared(ref, placement, labels, TermSet(placement, labels))
    return Subject(ref, declared, labels, virtual=False, copies=1)
