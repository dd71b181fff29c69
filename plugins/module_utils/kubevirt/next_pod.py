# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pod comes next: after a restart or a migration, of a halted VM, of an empty workload?

The pod that follows a running one has its requests, overhead and KubeVirt's node selectors, and the
placement fields of the template. The target of a migration also requires the CPU of the source node.
Where no pod runs, the next one is made from the template and what its instance type adds (`launcher`).
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..kinds.vmi import VMI
from ..model.json_pointer import JSON
from ..model.manifests import pod_from_manifest
from ..model.objects import (
    ClaimTemplate,
    Labels,
    Node,
    NodeTerm,
    Owner,
    Placement,
    Pod,
    PodTerm,
    Ref,
    Requirement,
    Selector,
)
from ..model.placement_manifests import CREATED_BY, merge_match_label_keys
from ..model.snapshot import Platform, Vmi, Workload
from ..model.topology import HOSTNAME
from .instances import claim_name
from .labels import (
    CPU_FEATURE,
    CPU_VENDOR,
    HOST_MODEL,
    HOST_MODEL_CPU,
    HOST_MODEL_FEATURE,
    LAUNCHER_LABEL,
    MACHINE_TYPE,
    MIGRATION_CPU,
    VM_HOSTNAME,
    VMI_ID,
    VMI_ID_SINCE,
    adds_node_key,
    adds_toleration,
    carried_labels,
    hostname_of_vmi,
    needs_expansion,
    vm_spec,
    vmi_id,
)
from .launcher import (
    cpu_features,
    doubt_about_launcher,
    launcher_containers,
    launcher_node_expressions,
    launcher_node_selector,
    model_of,
    multus_networks,
    requires_evmcs,
)
from .live_update import PLACEMENT_FIELDS

Template = t.Mapping[str, JSON]

NODE_NAME = "nodeName"

OWN_LAUNCHER = "its launcher pod is an estimate"
"""Why a level of PodSecurity may forbid the first launcher pod of a VM: its security context is not modeled."""

NEXT = "-next"
"""Suffix of the names of pods that do not exist yet. It is only shown; no code reads it."""


def pod_after_restart(pod: Pod, vmi: Vmi | None, declared: Placement, labels: Labels) -> Pod:
    """The pod of the next VirtualMachineInstance, or the one that replaces an evicted pod: made
    from the template, while the old one is gone."""
    created = _next(pod, declared, {**carried_labels(pod.labels), **labels})
    return replace(created, placement=without_migration_cpu(created.placement, vmi))


def pod_as_declared(pod: Pod, vmi: Vmi | None, declared: Placement, labels: Labels) -> Pod:
    """`pod`, on its node, as if it had been made from what its workload declares now."""
    created = pod_after_restart(pod, vmi, declared, labels)
    return replace(created, name=pod.name, uid=pod.uid, node_name=pod.node_name)


def migration_target_pod(pod: Pod, vmi: Vmi, declared: Placement, source: Node | None) -> Pod:
    """The target pod of a live migration: made from the VirtualMachineInstance, while the source
    still runs, and kept off its node (virt-controller, watch/migration/migration.go, createTargetPod).
    `source` is the node that it leaves; None where it is not known."""
    target = _next(pod, declared, {**carried_labels(pod.labels), **vmi.labels})
    source_pod = Selector((Requirement(CREATED_BY, "In", (vmi.uid,)),))
    apart = PodTerm(HOSTNAME, source_pod)
    placement = replace(target.placement, anti_affinity=(*target.placement.anti_affinity, apart))
    return replace(target, placement=with_source_cpu(placement, vmi, source))


def with_source_cpu(placement: Placement, vmi: Vmi, source: Node | None) -> Placement:
    """The placement of a migration's target, from the one of the running pod: it also asks for the CPU
    of the source node, and for the machine type with which the guest runs. A guest with the CPU model of its
    host keeps the model on which it first started, and no guest moves to another vendor's CPU.

    Source: watch/migration/migration.go, createTargetPod, prepareNodeSelectorForHostCpuModel,
    getHostCpuModelFromMap, getCPUVendorLabelKey. A source node without the label of its model adds
    nothing: createTargetPod ignores that error. The vendor is asked for since KubeVirt's pull request 16060,
    also in the newest releases of 1.5 and later; before that, such a migration started and failed.
    The machine type is that of the VMI's status (services/template.go, renderLaunchManifest).
    """
    running = dict(placement.node_selector)
    selector = _with_machine_type(running, vmi.machine_type)
    if source is not None:
        selector = _with_cpu(selector, vmi, source)
    if selector == running:
        return placement
    return replace(placement, node_selector=tuple(selector.items()))


def _with_machine_type(selector: dict[str, str], machine_type: str) -> dict[str, str]:
    """The node selector with this machine type, where it has one and the type is known."""
    if not machine_type or not any(key.startswith(MACHINE_TYPE) for key in selector):
        return selector
    others = {key: value for key, value in selector.items() if not key.startswith(MACHINE_TYPE)}
    return {**others, f"{MACHINE_TYPE}{machine_type}": "true"}


def with_missing_machine_type(placement: Placement, machine_type: str) -> Placement:
    """The placement of a migration's target, where a KubeVirt that asks for no machine type made the running
    pod, and the one that makes the target does."""
    selector = placement.node_selector
    if not machine_type or any(key.startswith(MACHINE_TYPE) for key, _value in selector):
        return placement
    return replace(placement, node_selector=(*selector, (f"{MACHINE_TYPE}{machine_type}", "true")))


def _with_cpu(running: dict[str, str], vmi: Vmi, source: Node) -> dict[str, str]:
    model, required = requested_cpu(vmi.spec)
    selector = {k: v for k, v in running.items() if k in required or not k.startswith(_OF_CPU)}
    if model == HOST_MODEL:
        kept = {key: running[key] for key in running if CPU_FEATURE in key or MIGRATION_CPU in key}
        selector |= kept or _host_model(source.labels)
    if not any(key.startswith(CPU_VENDOR) for key in selector):
        vendors = sorted(key for key in source.labels if key.startswith(CPU_VENDOR))
        selector |= dict.fromkeys(vendors[:1], "true")
    return selector


def without_migration_cpu(placement: Placement, vmi: Vmi | None) -> Placement:
    """The placement without what only a migration asked for: a VM that starts anew takes the CPU of any
    node and the machine type of its spec (services/nodeselectorrenderer.go, Render: labels of the spec
    alone)."""
    if vmi is None:
        return placement
    if not any(key.startswith((*_OF_CPU, MACHINE_TYPE)) for key, _value in placement.node_selector):
        return placement
    _model, required = requested_cpu(vmi.spec)
    running = dict(placement.node_selector)
    machine = (vmi.spec.get("domain") or {}).get("machine") or {}
    selector = _with_machine_type(running, machine.get("type") or "")
    selector = {k: v for k, v in selector.items() if k in required or not k.startswith(_OF_CPU)}
    if selector == running:
        return placement
    return replace(placement, node_selector=tuple(selector.items()))


_OF_CPU = (MIGRATION_CPU, CPU_FEATURE, CPU_VENDOR)


def requested_cpu(spec: t.Mapping[str, JSON]) -> tuple[str, frozenset[str]]:
    """The CPU model of a VMI, and the labels of CPU features and of a vendor that its spec asks for
    (services/nodeselectorrenderer.go, CPUFeatureLabelsFromCPUFeatures, hypervNodeSelectors)."""
    names = {CPU_FEATURE + name for name in cpu_features(spec, "require")}
    if requires_evmcs(spec):
        names.add(f"{CPU_VENDOR}Intel")
    return model_of(spec), frozenset(names)


def _host_model(labels: Labels) -> dict[str, str]:
    """What a node's CPU model asks of a migration's target."""
    models = sorted(key for key in labels if key.startswith(HOST_MODEL_CPU))
    if not models:
        return {}
    asked = {
        CPU_FEATURE + key.removeprefix(HOST_MODEL_FEATURE): value
        for key, value in labels.items()
        if key.startswith(HOST_MODEL_FEATURE)
    }
    model = models[-1]
    return {**asked, MIGRATION_CPU + model.removeprefix(HOST_MODEL_CPU): labels[model]}


def _next(pod: Pod, declared: Placement, labels: Labels) -> Pod:
    placement = merge_match_label_keys(_with_platform_part(declared, pod.placement), labels)
    return replace(
        pod, name=f"{pod.name}{NEXT}", uid="", node_name="", labels=labels, placement=placement
    )


def _with_platform_part(declared: Placement, running: Placement) -> Placement:
    """`declared`, with what the platform put on the running pod and will put on the next one."""
    own_keys = {key for key, _value in declared.node_selector}
    selector = tuple(
        (key, value)
        for key, value in running.node_selector
        if adds_node_key(key) and key not in own_keys
    )
    tolerations = tuple(
        toleration
        for toleration in running.tolerations
        if adds_toleration(toleration) and toleration not in declared.tolerations
    )
    terms = running.node_terms or (NodeTerm(),)
    expressions = tuple(
        expression
        for expression in terms[0].expressions
        if adds_node_key(expression.key) and all(expression in term.expressions for term in terms)
    )
    if not selector and not tolerations and not expressions:
        return declared
    return replace(
        declared,
        node_selector=(*declared.node_selector, *selector),
        node_terms=_with_expressions(declared.node_terms, expressions),
        tolerations=(*declared.tolerations, *tolerations),
    )


def _with_expressions(
    terms: tuple[NodeTerm, ...] | None, added: tuple[Requirement, ...]
) -> tuple[NodeTerm, ...] | None:
    if not added:
        return terms
    if terms is None:
        return (NodeTerm(added),)
    return tuple(
        replace(
            term,
            expressions=(*term.expressions, *(x for x in added if x not in term.expressions)),
        )
        if term.expressions or term.fields
        else term
        for term in terms
    )


def planned_vmi(workload: Workload, name: str, template: Template | None = None) -> Vmi:
    """The VMI that starting a VM of `workload` would make. `template` is its template with its instance
    type and preference."""
    spec = workload.template.get("spec") or {}
    if template is not None:
        expanded = template.get("spec") or {}
        selector = {**(expanded.get("nodeSelector") or {}), **(spec.get("nodeSelector") or {})}
        kept = {key: value for key, value in expanded.items() if key not in PLACEMENT_FIELDS}
        placement = {key: value for key, value in spec.items() if key in PLACEMENT_FIELDS}
        spec = {**kept, **placement, "nodeSelector": selector}
    return Vmi(
        ref=Ref(VMI, workload.ref.namespace, name),
        uid=f"{workload.uid}-{name}{NEXT}",
        phase="Scheduling",
        node_name="",
        labels=workload.template_labels,
        spec=spec,
        owner=Owner(workload.ref.kind, workload.ref.name, workload.uid),
        eviction_strategy=spec.get("evictionStrategy") or "",
    )


def launcher_pod(
    vmi: Vmi, platform: Platform, template: Template, network_devices: t.Iterable[str] = ()
) -> Pod:
    """The launcher pod of a VMI that is made from this template; `network_devices` are the resources that its
    networks request."""
    labels = {
        **vmi.labels,
        LAUNCHER_LABEL[0]: LAUNCHER_LABEL[1],
        CREATED_BY: vmi.uid,
        VM_HOSTNAME: hostname_of_vmi(vmi.ref.name, vmi.spec),
    }
    if not (0, 0) < platform.kubevirt_release < VMI_ID_SINCE:
        labels[VMI_ID] = vmi_id(vmi.ref.name)
    placement = {key: value for key, value in vmi.spec.items() if key in PLACEMENT_FIELDS}
    claims = [volume for volume in map(claim_of, vmi.spec.get("volumes") or ()) if volume]
    spec = {
        **placement,
        **launcher_containers(vmi.spec, platform, _annotations(template), network_devices),
        "volumes": claims,
        "resourceClaims": vmi.spec.get("resourceClaims"),
        "priorityClassName": vmi.spec.get("priorityClassName"),
    }
    owner = {"kind": VMI, "name": vmi.ref.name, "uid": vmi.uid, "controller": True}
    pod = _pod(f"virt-launcher-{vmi.ref.name}{NEXT}", vmi.ref.namespace, labels, spec, owner)
    placed = launcher_placement(pod.placement, vmi.spec, platform)
    return replace(pod, placement=placed, forbidden=((OWN_LAUNCHER,), (OWN_LAUNCHER,)))


def launcher_placement(
    placement: Placement, spec: t.Mapping[str, JSON], platform: Platform
) -> Placement:
    """The placement of a VMI with this spec as its launcher pod has it: with the node labels that KubeVirt asks for."""
    asked = launcher_node_expressions(spec, platform)
    added = tuple(Requirement(key, operator) for key, operator in asked)
    return replace(
        placement,
        node_selector=tuple(launcher_node_selector(spec, platform).items()),
        node_terms=_with_expressions(placement.node_terms, added),
    )


_TRACKED = ("Initializing", "Enabled")
"""States of changed block tracking with a state volume (pkg/storage/cbt, IsBackendStorageNeeded in
pkg/storage/backend-storage)."""


def doubt_about_new_vm(
    workload: Workload,
    template: Template | None,
    platform: Platform,
    network_devices: t.Iterable[str] | None = None,
) -> str | None:
    """What may make the launcher pod of a VM without a VMI another than that of `launcher_pod`; None where it is known.
    `network_devices` is None where they were not read."""
    if template is None and needs_expansion(workload):
        return "its instance type or preference could not be read"
    tracking = workload.status.get("changedBlockTracking") or {}
    if tracking.get("state") in _TRACKED:
        return "its changed block tracking has a volume that KubeVirt chooses"
    template = template or workload.template
    networks = multus_networks(template, workload.ref.namespace)
    if networks and network_devices is None:
        names = ", ".join(f"{namespace}/{name}" for namespace, name in networks)
        return f"its networks may request devices, and NetworkAttachmentDefinition {names} could not be read"
    return doubt_about_launcher(template.get("spec") or {}, _annotations(template), platform)


def _annotations(template: Template) -> t.Mapping[str, JSON]:
    annotations: t.Mapping[str, JSON] = (template.get("metadata") or {}).get("annotations") or {}
    return annotations


def controlled_pod(workload: Workload, name: str, owner_uid: str) -> Pod:
    """A pod that the controller of `workload` would make from its template, without what LimitRanges and webhooks
    add."""
    spec = {**(workload.template.get("spec") or {})}
    for field in ("containers", "initContainers"):
        spec[field] = [_completed(x, spec) for x in spec.get(field) or ()]
    labels = dict(workload.template_labels)
    kind = workload.kind
    if kind.revision_label:
        labels[kind.revision_label] = "next"
    owner = {
        "kind": kind.makes or kind.name,
        "name": workload.ref.name,
        "uid": owner_uid,
        "controller": True,
    }
    pod = _pod(name, workload.ref.namespace, labels, spec, owner)
    return with_own_way(pod, workload.template)


def _completed(container: t.Mapping[str, JSON], spec: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """A container of this pod spec: each request that is missing is the limit, and ports in the host's network are host
    ports (kubernetes pkg/apis/core/v1/defaults.go, SetDefaults_Pod)."""
    resources = container.get("resources") or {}
    requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    completed = {**container, "resources": {**resources, "requests": requests}}
    if spec.get("hostNetwork"):
        completed["ports"] = [
            {**x, "hostPort": x.get("hostPort") or x["containerPort"]}
            for x in container.get("ports") or ()
        ]
    return completed


def with_own_way(pod: Pod, template: Template) -> Pod:
    """The pod that is made from `template`, with what only that shows of how it gets its node: scheduling gates, and
    a `nodeName`, with which no scheduler sees it (kubernetes pkg/scheduler/eventhandlers.go, assignedPod)."""
    spec = template.get("spec") or {}
    fields = tuple(x for x in pod.unmodeled if x != NODE_NAME)
    if spec.get(NODE_NAME):
        fields += (NODE_NAME,)
    gated, priority_class = bool(spec.get("schedulingGates")), spec.get("priorityClassName") or ""
    return replace(pod, node_name="", gated=gated, unmodeled=fields, priority_class=priority_class)


def doubt_about_first_pod(workload: Workload) -> str | None:
    """What may make the first pod another than `controlled_pod` makes it: RuntimeClasses are not read (kubernetes
    plugin/pkg/admission/runtimeclass). None where it is known."""
    name = (workload.template.get("spec") or {}).get("runtimeClassName")
    text = f"its RuntimeClass {name} may add overhead, node selectors and tolerations"
    return text if name else None


def unread_objects(workload: Workload) -> list[str]:
    """What the first pod names and the API server refuses it without (kubernetes plugin/pkg/admission/priority and
    serviceaccount): `PriorityClass high`. Each namespace has the ServiceAccount default."""
    spec = workload.template.get("spec") or {}
    account = spec.get("serviceAccountName") or "default"
    named = [f"PriorityClass {x}" for x in [spec.get("priorityClassName")] if x]
    return [*named, f"ServiceAccount {account}"] if account != "default" else named


def _pod(
    name: str, namespace: str, labels: dict[str, str], spec: JSON, owner: dict[str, JSON]
) -> Pod:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [owner],
    }
    manifest = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
    pod = pod_from_manifest(manifest)
    return replace(pod, placement=merge_match_label_keys(pod.placement, labels))


def with_data_volumes(pod: Pod, workload: Workload) -> Pod:
    """The launcher pod of a VM with the claims that CDI makes for its dataVolumeTemplates. A VirtualMachinePool adds
    a number to their names (KubeVirt, watch/pool/pool.go, indexVMSpec)."""
    templates = vm_spec(workload).get("dataVolumeTemplates") or ()
    names = {template["metadata"]["name"] for template in templates}
    made = tuple(ClaimTemplate(x, data_volume=True) for x in pod.claims if x in names)
    if not made:
        return pod
    if workload.kind.makes_vms:
        made = tuple(replace(x, claim=f"{x.claim}{NEXT}") for x in made)
        claims = (f"{x}{NEXT}" if x in names else x for x in pod.claims)
        pod = replace(pod, claims=tuple(claims))
    return replace(pod, made_claims=made)


def claim_of(volume: t.Mapping[str, JSON]) -> JSON:
    """A volume of a VMI as its launcher pod mounts it; None if it is no claim."""
    name = claim_name(volume)
    if not name:
        return None
    return {"name": volume["name"], "persistentVolumeClaim": {"claimName": name}}
