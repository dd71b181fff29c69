# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_model from its options to its result: read VMs and CPU labels, refuse or write, say which restart applies it."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from functools import partial

from ..api.client import ApiClient
from ..api.errors import Forbidden
from ..api.parallel import read_together
from ..cluster.access import require_write_rights
from ..cluster.expanded_templates import with_expanded_templates
from ..cluster.patching import apply, refusals, try_writes
from ..cluster.reading import ReadScope, read_snapshot
from ..cpu.labels_of_nodes import node_cpus
from ..cpu.model_request import VM, model_request
from ..cpu.model_writes import model_write
from ..cpu.new_models import (
    NewModel,
    changes_beside_model,
    model_faults,
    new_models,
    table,
)
from ..interface.arguments import topology_of
from ..interface.results import warn_once, writes_result
from ..interface.runner import PartialFailure, task_error
from ..kubevirt.labels import needs_expansion
from ..kubevirt.launcher import HOST_MODELS, model_of
from ..model.findings import Finding, InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.kinds import POOL
from ..model.objects import Ref
from ..model.rendering import listed, one_line, plural, table_text
from ..model.snapshot import Snapshot, managed_by
from ..model.write import Write
from ..moves.send import start_revision
from ..view.view import ClusterView

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

_MANAGED = "externally_managed"
_BINDS = (
    "{} get the CPU model {}: a running VM with it can only be live-migrated to nodes with a CPU like that of the node"
    " on which it started"
)
_UNKNOWN = "unknown changes: the ControllerRevision of its start cannot be read"


@dataclass(frozen=True)
class ModelPlan:
    """`others`: what a restart of a VM would apply beside its model."""

    snapshot: Snapshot
    changes: tuple[NewModel, ...]
    others: t.Mapping[Ref, tuple[str, ...]] = field(default_factory=dict)

    @property
    def writes(self) -> list[Write]:
        return [change.write for change in self.changes if change.write is not None]


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options and every VM that cannot get its model, before anything is
    written, PartialFailure where some VMs could not be written, and ApiError."""
    plan, faults = _planned(api, module.params)
    try:
        require_write_rights(api, plan.writes, role="mover")
        refused = refusals(try_writes(api, plan.writes))
    except InvalidInput as error:
        raise InvalidInput([*faults, *error.errors]) from error
    faults += [_refused(ref, error.message) for ref, error in refused.items()]
    if faults:
        raise InvalidInput(faults)
    wanted = {change.ref: change.model for change in plan.changes}

    def recompute(write: Write, manifest: JSON) -> Write | None:
        vm = next(x.vm for x in plan.changes if x.ref == write.target)
        fresh = replace(vm, manifest=manifest)
        return model_write(fresh, wanted[write.target], plan.snapshot.platform)

    applied = apply(api, plan.writes, recompute=recompute, check=module.check_mode)
    failed = {failure.write.target for failure in applied.failed}
    plan = replace(plan, changes=tuple(x for x in plan.changes if x.ref not in failed))
    found = _findings(plan)
    warn_once(module.warn, found)
    for text in _binding(plan):
        module.warn(text)
    result = {
        **writes_result(applied.done, diff=module._diff),
        **_result(plan),
        "findings": [finding.as_json() for finding in found],
    }
    result["counts"]["failed"] = len(failed)
    if applied.failed:
        errors = [task_error(failure.error, failure.write.target) for failure in applied.failed]
        raise PartialFailure(result, errors)
    return result


def _planned(api: ApiClient, params: t.Mapping[str, JSON]) -> tuple[ModelPlan, list[InputError]]:
    """The plan, and what is wrong with the options and the VMs so far."""
    topology = topology_of(params)
    request, wrong = model_request(params)
    faults = list(wrong)
    if not request.entries:
        raise InvalidInput(faults)
    scope = ReadScope(
        namespaces=request.namespaces,
        kinds=(VM,),
        pod_namespaces=request.namespaces,
        migrations="",
        volumes="",
    )
    snapshot = read_snapshot(api, scope)
    wanted = request.look_up(ClusterView(snapshot), faults)
    faults += [
        InputError("rights", str(gap), "permission")
        for gap in snapshot.unreadable
        if gap.resource in ("nodes", "virtualmachineinstances")
    ]
    snapshot = _with_field_managers(api, snapshot, wanted)
    unnamed = [ref for ref, model in wanted.items() if not model]
    snapshot = with_expanded_templates(api, snapshot, wanted, unnamed)
    faults += _not_expanded(snapshot, unnamed)
    cpus = node_cpus(snapshot.nodes, topology.resolve("zone"))
    changes = new_models(ClusterView(snapshot), cpus, wanted)
    faults += model_faults(changes, cpus)
    others = {x.ref: _others(api, x, snapshot) for x in changes if x.needs_restart}
    return ModelPlan(snapshot, changes, others), faults


def _with_field_managers(
    api: ApiClient, snapshot: Snapshot, wanted: t.Mapping[Ref, str]
) -> Snapshot:
    """The snapshot with what lists leave out of VMs that lose their model: which client has set the sockets."""
    losing = {
        vm.ref: vm.path
        for vm in snapshot.workloads
        if wanted.get(vm.ref) == "" and model_of(vm.template.get("spec") or {})
    }
    answers = read_together([partial(api.get, path) for path in losing.values()])
    read = dict(zip(losing, answers, strict=True))
    workloads = (
        replace(vm, manifest=read[vm.ref]) if vm.ref in read else vm for vm in snapshot.workloads
    )
    return replace(snapshot, workloads=tuple(workloads)) if read else snapshot


def _not_expanded(snapshot: Snapshot, refs: t.Collection[Ref]) -> t.Iterator[InputError]:
    """The VMs without a model of their own of which it is not known whether their instance type names one."""
    for vm in snapshot.workloads:
        if vm.ref in refs and needs_expansion(vm) and vm.ref not in snapshot.expanded:
            gaps = [str(gap) for gap in snapshot.unreadable if gap.namespace == vm.ref.namespace]
            why = listed(gaps) or "virt-api does not expand its template"
            yield InputError(str(vm.ref), f"it is not known which CPU model it would get: {why}")


def _others(api: ApiClient, change: NewModel, snapshot: Snapshot) -> tuple[str, ...]:
    try:
        started = start_revision(api, change.vmi) if change.vmi is not None else None
    except Forbidden:
        started = None
    if started is None:
        return (_UNKNOWN,)
    return changes_beside_model(started, change, snapshot.platform)


def _refused(ref: Ref, message: str) -> InputError:
    """KubeVirt refuses a model beside that of an instance type, among others (pkg/instancetype/apply/cpu.go)."""
    advice = ""
    if "conflicts with selected instance type" in message:
        advice = ": its instance type names a CPU model; give it another instance type"
    return InputError(str(ref), f"{one_line(message)}{advice}", "api")


def _findings(plan: ModelPlan) -> list[Finding]:
    found = []
    for change in plan.changes:
        manager = managed_by(change.vm)
        if change.write is None or manager is None:
            continue
        advice = "Set the model in the source of the object, too."
        if change.vm.owner is not None and change.vm.owner.kind == POOL.name:
            advice = "Set the model in the template of the pool."
        why = f"{change.ref} is managed by {manager}, which may revert the CPU model."
        found.append(Finding(_MANAGED, "warning", why, advice, (change.ref,)))
    return found


def _binding(plan: ModelPlan) -> t.Iterator[str]:
    for model in HOST_MODELS:
        refs = [x.ref for x in plan.changes if x.write is not None and x.next_model == model]
        if refs:
            yield one_line(_BINDS.format(listed(refs, 5), model))


def _result(plan: ModelPlan) -> dict[str, t.Any]:
    changed = [x for x in plan.changes if x.write is not None]
    restarts = [x for x in plan.changes if x.needs_restart]
    ready = [x for x in restarts if not plan.others[x.ref]]
    return {
        "vms": [_vm(x, plan) for x in plan.changes],
        "before": {f"{x.ref.namespace}/{x.ref.name}": x.before for x in changed},
        "restarts": [x.ref._asdict() for x in ready],
        "counts": {
            "vms": len(plan.changes),
            "changed": len(changed),
            "unchanged": len(plan.changes) - len(changed),
            "restarts": len(restarts),
        },
        "table": table_text(
            [
                f"{plural(len(plan.changes), 'VM')}: {len(changed)} changed, {len(restarts)} to be restarted",
                "",
                *table(plan.changes, plan.others),
            ]
        ),
    }


def _vm(change: NewModel, plan: ModelPlan) -> dict[str, JSON]:
    return {
        **change.ref._asdict(),
        "before": one_line(change.before),
        "after": one_line(change.model),
        "running": one_line(change.running),
        "next_model": one_line(change.next_model),
        "changed": change.write is not None,
        "needs_restart": change.needs_restart,
        "other_changes": [one_line(x) for x in plan.others.get(change.ref, ())],
        "nodes_count": None if change.nodes is None else len(change.nodes),
        "loses": list(change.loss.loses),
        "may_lose": list(change.loss.may_lose),
        "unknown": change.loss.unknown,
    }
