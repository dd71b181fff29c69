# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with manifests and rules that are not on a cluster yet, such as those in Git?

With a cluster, the manifests replace the objects that they would replace there.
"""

from __future__ import annotations

import contextlib
import typing as t
from dataclasses import replace

from ..compliance.declared import Declared
from ..compliance.terms import TermSet
from ..kinds.registry import KINDS, KUBEVIRT_KINDS, kind_of
from ..kinds.vmi import VMI
from ..kubevirt.expansion import (
    CLUSTER_INSTANCE_TYPE,
    CLUSTER_PREFERENCE,
    GROUP,
    INSTANCE_TYPE,
    PREFERENCE,
    TYPE_KINDS,
    KnownTypes,
    preference_from_manifest,
)
from ..kubevirt.instance_types import InstanceType, instance_type_from_manifest
from ..kubevirt.labels import vm_spec
from ..lint.lint_input import ANY_VALUE, LintedWorkload, LintInput, lint_input_of
from ..lint.registry import all_findings, merged
from ..lint.topology import topology_report
from ..model.budget import BUDGET
from ..model.budget_manifests import budget_spec
from ..model.findings import Finding, InputError
from ..model.json_pointer import JSON
from ..model.kinds import RULES
from ..model.manifests import (
    controller_of,
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
)
from ..model.objects import Placement, PodTerm, Ref, SpreadConstraint
from ..model.placement_manifests import CREATED_BY, placement_from_spec
from ..model.rule import PodSelector, Rule
from ..model.snapshot import Platform, Snapshot, Workload
from ..model.storage import CLAIM, VOLUME, claims_of_manifests
from ..model.topology import HOSTNAME, Topology
from ..rules.checks import single_workload
from ..rules.members import targets_of
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.policy_plan import PolicyPlan
from ..rules.registry import NEW_MEMBERS
from ..view.selection import without_kubevirt
from .offline_rules import (
    NEWEST,
    offline_snapshot,
    stand_in_workloads,
    write_into_manifests,
    written_request,
)
from .rendered import rendered_rules
from .template_places import PLACES, has_vms, place_of, template_of, template_pointer

_OF_KUBEVIRT = (*KUBEVIRT_KINDS, VMI)


def not_served(
    rules: t.Iterable[Rule], manifests: t.Iterable[t.Mapping[str, JSON]], cluster: Snapshot
) -> t.Iterator[InputError]:
    """A fault for each reference of a rule and each manifest of a kind of KubeVirt, where KubeVirt
    is not installed. `manifests` have names and namespaces."""
    if cluster.platform.kubevirt is not None:
        return
    for rule in rules:
        listed = [
            (f"workloads[{index}]", selector) for index, selector in enumerate(rule.workloads)
        ]
        for where, target in (*listed, *targets_of(rule)):
            if not isinstance(target, PodSelector) and target.kind in _OF_KUBEVIRT:
                yield InputError(f"{rule.where}, {where}", without_kubevirt(target.kind))
    for manifest in manifests:
        if manifest["kind"] in _OF_KUBEVIRT:
            metadata = manifest["metadata"]
            name = metadata.get("name") or metadata.get("generateName")
            where = f"{manifest['kind']} {metadata['namespace']}/{name}"
            yield InputError(where, without_kubevirt(str(manifest["kind"])))


Manifest = t.Mapping[str, JSON]

CONTEXT_KINDS: t.Mapping[str, str] = {
    **dict.fromkeys(("Node", "Namespace", VOLUME, CLAIM), ""),
    BUDGET: "policy",
    **dict.fromkeys(TYPE_KINDS, GROUP),
}
"""The kinds that are only read as the surroundings of those with a template, with their API groups."""

CLUSTER_KINDS = ("Node", "Namespace", VOLUME, CLUSTER_INSTANCE_TYPE, CLUSTER_PREFERENCE)
"""Those of them that are in no namespace."""


OF_TERMS = frozenset({"no_node_has_key", "single_domain"})
"""Findings about node labels that matter only if a term uses the label."""


def lint_manifests(
    manifests: t.Iterable[Manifest],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
    cluster: Snapshot | None = None,
    instance_types: t.Iterable[InstanceType] = (),
) -> tuple[Finding, ...]:
    """The findings about workloads, VMIs, pods and other objects with a template among `manifests`.

    Nodes and Namespaces among them are taken for all that there are; if there are none, they are
    those of `cluster`, and without one nothing is known about them. What a cluster holds beside
    the manifests may be selected by their terms. Other kinds are passed over. `instance_types` are those of the
    cluster, beside those among the manifests.
    """
    lint_input = _lint_input(manifests, topology or Topology.of(), platform, cluster)
    return all_findings(lint_input.with_types(KnownTypes.of(instance_types)))


def lint_rules(
    rules: t.Iterable[Rule],
    *,
    topology: Topology | None = None,
    platform: Platform | None = None,
    manifests: t.Iterable[Manifest] = (),
    cluster: Snapshot | None = None,
    instance_types: t.Iterable[InstanceType] = (),
) -> tuple[Finding, ...]:
    """The findings about rules: put into the manifests of the workloads that they are about, or
    by themselves where one of those is not among the manifests. Nodes and Namespaces are known as
    in `lint_manifests`."""
    listed = tuple(rules)
    lint_input = _lint_input(manifests, topology or Topology.of(), platform, cluster)
    lint_input = lint_input.with_types(KnownTypes.of(instance_types))
    placed = write_into_manifests(listed, lint_input)
    reported = {(finding.name, finding.rule) for finding in placed.findings}
    # A manifest does not show whether its VM runs, so the finding restart_required stays.
    of_manifests = [
        f for f in _without_manifests(placed.rules, lint_input) if f.name != "restart_required"
    ]
    more = [f for f in _without_manifests(listed, lint_input) if (f.name, f.rule) not in reported]
    return merged((*placed.findings, *_without(more, of_manifests)))


def without_findings_of_rules(findings: t.Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings without those of a manifest that a rule has for the same object: the term is already
    there, and the rule would adopt it."""
    listed = tuple(findings)
    of_rules = {(f.name, f.why, ref) for f in listed if f.rule for ref in f.objects}
    kept = []
    for finding in listed:
        objects = finding.objects
        if not finding.rule and objects:
            objects = tuple(x for x in objects if (finding.name, finding.why, x) not in of_rules)
        if objects or not finding.objects:
            kept.append(replace(finding, objects=objects))
    return merged(kept)


def render(
    rules: t.Iterable[Rule],
    *,
    manifests: t.Iterable[Manifest] = (),
    platform: Platform | None = None,
) -> list[dict[str, JSON]]:
    """The labels and placement fields that rules put into the manifests, and into workloads without one, for a server
    of these versions. None: one that knows every field."""
    return rendered_rules(tuple(rules), _workloads(manifests), platform or NEWEST)


def plan_of_policies(
    rules: t.Sequence[Rule],
    new_members: str,
    *,
    manifests: t.Iterable[Manifest] = (),
    cluster: Snapshot | None = None,
    platform: Platform | None = None,
) -> PolicyPlan:
    """The policy for workloads that are created later, as the write of the rules would plan it on the cluster, or where
    there are only the workloads of the manifests. `new_members`: a key of NEW_MEMBERS."""
    workloads = () if cluster is not None else tuple(_workloads(manifests))
    snapshot = cluster or offline_snapshot(workloads, None, platform or NEWEST)
    return NEW_MEMBERS[new_members]()(
        replace(written_request(rules), new_members=new_members), snapshot
    )


def _workloads(manifests: t.Iterable[Manifest]) -> list[Workload]:
    return [
        _workload(str(manifest["kind"]), named(manifest))
        for manifest in _latest(manifests)
        if manifest.get("kind") in KINDS
    ]


def _without_manifests(rules: t.Sequence[Rule], lint_input: LintInput) -> list[Finding]:
    """The findings about stand-ins: no workload that the rules name is looked up."""
    stand_ins = stand_in_workloads(rules)
    findings = all_findings(
        replace(lint_input, subjects=stand_ins, all_subjects=stand_ins, pods=None)
    )
    return [
        *findings,
        *(finding for rule in rules if rule.enabled for finding in single_workload(rule)),
    ]


def _without(findings: t.Iterable[Finding], reported: t.Iterable[Finding]) -> t.Iterator[Finding]:
    """The findings without the objects for which the same finding is reported."""
    keys = {(f.name, f.rule, f.why, ref) for f in reported for ref in (*f.objects, None)}
    for f in findings:
        objects = tuple(ref for ref in f.objects if (f.name, f.rule, f.why, ref) not in keys)
        if objects or not (f.objects or (f.name, f.rule, f.why, None) in keys):
            yield replace(f, objects=objects)


def lint_nodes(
    manifests: t.Iterable[Manifest], *, topology: Topology | None = None
) -> tuple[Finding, ...]:
    """What is wrong with the labels of the Nodes among `manifests`, whether terms use them or not."""
    nodes = [node_from_manifest(named(m)) for m in _latest(manifests) if m.get("kind") == "Node"]
    findings = topology_report(nodes, topology or Topology.of()).findings
    return tuple(finding for finding in findings if finding.name not in OF_TERMS)


def _latest(manifests: t.Iterable[Manifest]) -> list[Manifest]:
    """The manifests, of several of one object that is only read the last one."""
    kept: dict[t.Hashable, Manifest] = {}
    for number, manifest in enumerate(manifests):
        kind, metadata = manifest.get("kind"), manifest["metadata"]
        key = kind, metadata.get("namespace"), metadata.get("name")
        kept[key if kind in CONTEXT_KINDS else number] = manifest
    return list(kept.values())


def _lint_input(
    manifests: t.Iterable[Manifest],
    topology: Topology,
    platform: Platform | None,
    cluster: Snapshot | None,
) -> LintInput:
    by_kind = _by_kind(manifests)
    running = filter(is_running, by_kind.get("Pod", ()))
    nodes = tuple(map(node_from_manifest, by_kind.get("Node", ())))
    if not any(HOSTNAME in x.labels for x in nodes):  # the kubelet adds it, by default the name
        nodes = tuple(replace(x, labels={HOSTNAME: x.name, **x.labels}) for x in nodes)
    read = Snapshot(
        nodes=nodes,
        namespaces=tuple(map(namespace_from_manifest, by_kind.get("Namespace", ()))),
        pods=tuple(map(pod_from_manifest, running)),
        workloads=tuple(_workload(kind, m) for kind in KINDS for m in by_kind.get(kind, ())),
        vmis=tuple(map(vmi_from_manifest, by_kind.get(VMI, ()))),
    )
    lint_input = lint_input_of(read, topology)
    alone = [x for x in by_kind.get(VMI, ()) if not x["metadata"].get("ownerReferences")]
    with_template = [m for kind in PLACES for m in by_kind.get(kind, ()) if place_of(m)]
    subjects = (
        *lint_input.subjects,
        *map(_alone, (*alone, *by_kind.get("Pod", ()), *with_template)),
    )
    claim_terms, access_modes = claims_of_manifests(by_kind.get(CLAIM, ()), by_kind.get(VOLUME, ()))
    lint_input = replace(
        lint_input,
        subjects=subjects,
        all_subjects=subjects,
        claim_terms=claim_terms,
        access_modes=access_modes,
        budgets=tuple(map(budget_spec, by_kind.get(BUDGET, ()))),
        types=_types(by_kind),
        nodes=read.nodes or None,
        namespaces=read.namespaces or None,
        pods=read.pods or None,
        platform=platform,
        cluster=None,
    )
    return lint_input if cluster is None else _on(cluster, lint_input)


def names_instance_type(manifest: Manifest) -> bool:
    """Whether it is a VM, or a pool of VMs, whose next VMI depends on an instance type."""
    if not kind_of(str(manifest.get("kind"))).has_vm:
        return False
    return "instancetype" in vm_spec(_workload(str(manifest["kind"]), named(manifest)))


def types_not_read(
    manifests: t.Iterable[Manifest],
    instance_types: t.Iterable[InstanceType],
    excluded: t.Collection[str],
) -> list[str]:
    """Each instance type or preference that a VM or a pool of VMs names and that is neither among the manifests nor
    among `instance_types`, with that object. None for objects in the namespaces in `excluded`."""
    by_kind = _by_kind(manifests)
    types = _types(by_kind).beside(KnownTypes.of(instance_types))
    texts = []
    for kind in KUBEVIRT_KINDS:
        for workload in (_workload(kind, manifest) for manifest in by_kind.get(kind, ())):
            lacks = () if workload.ref.namespace in excluded else types.expanded(workload).lacks
            for name in sorted(lacks):
                matcher = vm_spec(workload)[name]
                text = matcher.get("name") if isinstance(matcher, dict) else ""
                texts.append(f"{workload.ref}: {name} {text or 'of its volume'}")
    return texts


def _by_kind(manifests: t.Iterable[Manifest]) -> dict[str, list[Manifest]]:
    by_kind: dict[str, list[Manifest]] = {}
    for manifest in _latest(manifests):
        by_kind.setdefault(str(manifest.get("kind")), []).append(named(manifest))
    return by_kind


def _types(by_kind: t.Mapping[str, t.Sequence[Manifest]]) -> KnownTypes:
    """Those of the cluster have no namespace, also where `named` has given them one."""
    of_cluster = [
        {**m, "metadata": {**m["metadata"], "namespace": ""}}
        for kind in (CLUSTER_INSTANCE_TYPE, CLUSTER_PREFERENCE)
        for m in by_kind.get(kind, ())
    ]
    listed = [*by_kind.get(INSTANCE_TYPE, ()), *by_kind.get(PREFERENCE, ()), *of_cluster]
    preferences = [m for m in listed if m["kind"] in (PREFERENCE, CLUSTER_PREFERENCE)]
    types = [m for m in listed if m["kind"] in (INSTANCE_TYPE, CLUSTER_INSTANCE_TYPE)]
    return KnownTypes.of(
        map(instance_type_from_manifest, types), map(preference_from_manifest, preferences)
    )


def _on(cluster: Snapshot, lint_input: LintInput) -> LintInput:
    """Manifests as they would be on a cluster: each replaces the object of its name, and has the
    running VMIs of that object."""
    cluster_input = lint_input_of(cluster, lint_input.topology)
    there = cluster_input.by_ref
    subjects = tuple(
        replace(subject, vmis=subject.vmis or there[subject.ref].vmis)
        if subject.ref in there
        else subject
        for subject in lint_input.subjects
    )
    replaced = {subject.ref for subject in subjects}
    unchanged = (subject for ref, subject in there.items() if ref not in replaced)
    return replace(
        lint_input,
        subjects=subjects,
        all_subjects=(*subjects, *unchanged),
        nodes=lint_input.nodes or cluster_input.nodes,
        namespaces=lint_input.namespaces or cluster_input.namespaces,
        pods=cluster_input.pods,
        view=cluster_input.view,
        cluster=cluster,
        claim_terms={**cluster_input.claim_terms, **lint_input.claim_terms},
        access_modes={**cluster_input.access_modes, **lint_input.access_modes},
        platform=lint_input.platform or cluster_input.platform,
    )


def is_running(manifest: Manifest) -> bool:
    """Whether it is a Pod that was read from a cluster, and no manifest that names its node."""
    has_node = manifest["kind"] == "Pod" and (manifest.get("spec") or {}).get("nodeName")
    return bool(has_node and manifest["metadata"].get("uid"))


def named(manifest: Manifest) -> dict[str, JSON]:
    """The manifest with what only the API server would give it."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    own = {"namespace": "default", "uid": "", **metadata, "name": name}
    return {**manifest, "metadata": own}


def _workload(kind: str, manifest: Manifest) -> Workload:
    """Without a uid, as in Git, rules in the annotation are taken for the object's own."""
    metadata = manifest["metadata"]
    ref = Ref(kind, metadata["namespace"], metadata["name"])
    workload = Workload(ref, metadata["uid"], manifest, controller_of(metadata))
    if not workload.uid and RULES in workload.annotations:
        with contextlib.suppress(UnreadableAnnotation):
            return replace(workload, uid=read_ownership(workload).uid)
    return workload


def _alone(manifest: Manifest) -> LintedWorkload:
    """A pod, a VMI without an owner, or another object with a template."""
    metadata, kind = manifest["metadata"], str(manifest["kind"])
    place = place_of(manifest)
    template = template_of(manifest) or {}
    spec = template.get("spec") or {}
    placement = placement_from_spec(spec)
    labels = (template.get("metadata") or {}).get("labels") or {}
    is_vm = has_vms(manifest)
    pod_labels = {**labels, CREATED_BY: ANY_VALUE} if is_vm else labels
    if place is not None:
        name = str(metadata["name"])
        of_name = {} if metadata.get("generateName") else dict.fromkeys(place.name_labels, name)
        pod_labels = {**pod_labels, **of_name, **_asked_for(placement, place.set_labels)}
    ref = Ref(kind, metadata["namespace"], metadata["name"])
    declared = Declared(ref, placement, labels, TermSet(placement, labels))
    return LintedWorkload(
        ref,
        declared,
        pod_labels,
        is_vm=is_vm,
        replicas=1 if place is None else place.replicas(manifest),
        spec=spec,
        owned=bool(metadata.get("ownerReferences")),
        source=(manifest, pointer) if (pointer := template_pointer(manifest)) is not None else None,
    )


def _asked_for(placement: Placement, keys: t.Collection[str]) -> dict[str, str]:
    """Labels that a controller will set, with the values that the terms ask for: they are meant."""
    terms: tuple[PodTerm | SpreadConstraint, ...] = (
        *placement.affinity,
        *placement.anti_affinity,
        *(term for _weight, term in placement.preferred_affinity),
        *(term for _weight, term in placement.preferred_anti_affinity),
        *placement.spread,
    )
    return {
        part.key: part.values[0] if part.values else ANY_VALUE
        for term in terms
        if term.selector is not None
        for part in term.selector.requirements
        if part.key in keys and part.operator in ("In", "Exists")
    }
