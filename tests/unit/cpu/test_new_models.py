# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written to give VMs another CPU model, what is refused, and what a restart applies."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cpu.labels_of_nodes import (
    NodeCpu,
    node_cpus,
)
from ansible_collections.virt.placement.plugins.module_utils.cpu.model_request import (
    model_request,
)
from ansible_collections.virt.placement.plugins.module_utils.cpu.model_writes import model_write
from ansible_collections.virt.placement.plugins.module_utils.cpu.new_models import (
    NewModel,
    changes_beside_model,
    model_faults,
    new_models,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.cpu_model import _not_expanded
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.model.write import patched
from ansible_collections.virt.placement.plugins.module_utils.planning.movable_instances import (
    InstanceSelection,
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.view.view import ClusterView
from tests.unit.compliance.cluster import HOST, ZONE, Cluster

from .labeled_nodes import MODEL, labeled, run_vm

JSON = t.Any
COMMON = "Broadwell-noTSX"
MACHINE = {"machine": {"type": "q35"}}
NODES = {"i1": "Haswell-noTSX", "i2": COMMON, "i3": "Cascadelake-Server-noTSX"}


def planned(
    made: Cluster, expanded: JSON = None, /, **models: str
) -> tuple[tuple[NewModel, ...], tuple[NodeCpu, ...], ClusterView]:
    view = ClusterView(dataclasses.replace(made.snapshot(), expanded=expanded or {}))
    cpus = node_cpus(view.snapshot.nodes, ZONE)
    wanted = {Ref("VirtualMachine", "shop", name): model for name, model in models.items()}
    return new_models(view, cpus, wanted), cpus, view


def faults(made: Cluster, **models: str) -> list[str]:
    changes, cpus, _view = planned(made, **models)
    return [str(fault) for fault in model_faults(changes, cpus)]


def cpu_after(made: Cluster, name: str, model: str) -> JSON:
    (change,), _cpus, _view = planned(made, **{name: model})
    assert change.write is not None
    manifest = patched(change.vm.manifest, (*change.write.tests, *change.write.operations))
    return manifest["spec"]["template"]["spec"]["domain"].get("cpu")


@pytest.mark.parametrize(
    ("domain", "after"),
    [
        ({}, {"model": COMMON, "sockets": 1}),
        ({"resources": {"requests": {"cpu": "2500m"}}}, {"model": COMMON, "sockets": 3}),
        ({"cpu": {"cores": 2}}, {"cores": 2, "model": COMMON, "sockets": 1}),
        ({"cpu": {"sockets": 4, "model": "x"}}, {"sockets": 4, "model": COMMON}),
    ],
)
def test_model_comes_with_the_sockets_that_the_vm_has_anyway(domain: JSON, after: JSON) -> None:
    made = labeled(NODES)
    made.vm("db", {"domain": domain})

    assert cpu_after(made, "db", COMMON) == after


def test_instance_type_completes_the_sockets() -> None:
    made = labeled(NODES)
    ref = made.vm("db")
    made.workloads[ref]["spec"]["instancetype"] = {"name": "small"}

    assert cpu_after(made, "db", COMMON) == {"model": COMMON}


@pytest.mark.parametrize(
    ("managers", "after"),
    [(["virt-placement"], None), (["virt-placement", "argocd"], {"sockets": 1}), ([], None)],
)
def test_sockets_go_with_the_model_if_nothing_else_has_set_them(
    managers: list[str], after: JSON
) -> None:
    made = labeled(NODES)
    cpu = {"model": COMMON, "sockets": 1} if managers else {"model": COMMON}
    ref = made.vm("db", {"domain": {"cpu": cpu}})
    fields: JSON = {"f:sockets": {}}
    for part in ("cpu", "domain", "spec", "template", "spec"):
        fields = {f"f:{part}": fields}
    read = made.snapshot()
    manifest = {**made.workloads[ref]}
    manifest["metadata"] = {
        **manifest["metadata"],
        "managedFields": [{"manager": manager, "fieldsV1": fields} for manager in managers],
    }

    write = model_write(
        dataclasses.replace(read.workloads[0], manifest=manifest), "", read.platform
    )

    assert write is not None
    domain = patched(manifest, write.operations)["spec"]["template"]["spec"]["domain"]
    assert domain.get("cpu") == after


def test_nothing_is_written_to_a_vm_that_has_the_model() -> None:
    made = labeled(NODES)
    made.vm("db", {"domain": {"cpu": {"model": COMMON}}})
    snapshot = made.snapshot()

    assert model_write(snapshot.workloads[0], COMMON, snapshot.platform) is None


def test_running_vm_needs_a_restart_and_names_what_it_loses() -> None:
    made = labeled(NODES)
    run_vm(made, "db", "i3")

    (change,), _cpus, _view = planned(made, db=COMMON)

    assert (change.running, change.next_model, change.needs_restart) == ("host-model", COMMON, True)
    assert change.loss.loses == ("avx512f", "avx512vnni")
    assert change.loss.may_lose == ("adx", "avx2", "x2apic")
    assert change.nodes == ("i2", "i3")


@pytest.mark.parametrize(
    ("of_type", "next_model"), [({}, "host-model"), ({"model": COMMON}, COMMON)]
)
def test_running_vm_of_an_instance_type_gets_what_virt_api_expands_and_not_what_it_runs_with(
    of_type: JSON, next_model: str
) -> None:
    """Its template has named the running model until an earlier task."""
    made = labeled(NODES)
    ref = run_vm(made, "db", "i3", "Haswell-noTSX")
    made.workloads[ref]["spec"]["instancetype"] = {"name": "small"}
    template = made.workloads[ref]["spec"]["template"]
    template["spec"]["domain"] = {}
    expanded = {ref: {"spec": {**template["spec"], "domain": {"cpu": {"sockets": 1, **of_type}}}}}

    (change,), _cpus, _view = planned(made, expanded, db="")

    assert (change.write, change.running) == (None, "Haswell-noTSX")
    assert (change.next_model, change.needs_restart) == (next_model, True)


def test_vm_of_an_instance_type_that_is_not_known_does_not_lose_its_model() -> None:
    made = labeled(NODES)
    ref = run_vm(made, "db", "i3", COMMON)
    made.workloads[ref]["spec"]["instancetype"] = {"name": "small"}
    gap = Unreadable("virtualmachines/expand-spec", "shop", "get", "forbidden")
    snapshot = dataclasses.replace(made.snapshot(), unreadable=(gap,))

    assert list(map(str, _not_expanded(snapshot, [ref]))) == [
        "VirtualMachine shop/db: it is not known which CPU model it would get: cannot get"
        " virtualmachines/expand-spec in namespace shop: forbidden"
    ]
    known = dataclasses.replace(snapshot, expanded={ref: {"spec": {}}})
    assert [*_not_expanded(known, [ref]), *_not_expanded(snapshot, [])] == []


def test_halted_vm_needs_no_restart_and_the_models_of_hosts_have_no_known_loss() -> None:
    made = labeled(NODES)
    made.vm("off")
    run_vm(made, "db", "i3", COMMON)

    (db, off), _cpus, _view = planned(made, off=COMMON, db="host-model")

    assert (off.needs_restart, off.running) == (False, "")
    assert db.loss.unknown == "it gets the CPU features of the node on which it starts"


def test_model_that_no_open_node_has_is_refused() -> None:
    made = labeled({**NODES, "i4": "Skylake-Server-noTSX-IBRS"})
    made.nodes["i3"]["spec"] = made.nodes["i4"]["spec"] = {"unschedulable": True}
    made.vm("a")
    made.vm("b")

    assert faults(made, a="Skylake-Server-noTSX-IBRS", b="Broadwel-noTSX") == [
        f"CPU model Skylake-Server-noTSX-IBRS of shop/a: no node on which VMs can start has the label"
        f" {MODEL}Skylake-Server-noTSX-IBRS=true; nodes with it start no VMs now: i3, i4",
        f"CPU model Broadwel-noTSX of shop/b: no node on which VMs can start has the label"
        f" {MODEL}Broadwel-noTSX=true; nodes have Broadwell-noTSX, Haswell-noTSX; did you mean"
        " 'Broadwell-noTSX' or 'Haswell-noTSX'?",
    ]


def test_vm_that_no_node_would_take_with_the_model_is_refused() -> None:
    made = labeled(NODES)
    made.vm("db", {"nodeSelector": {HOST: "i1"}})
    made.vm("lost", {"nodeSelector": {HOST: "gone"}})

    assert faults(made, db=COMMON, lost=COMMON) == [
        f"VirtualMachine shop/db: 0/3 nodes take it with the CPU model {COMMON}: 2 without"
        f" {HOST}=i1, 1 without {MODEL}{COMMON}=true"
    ]


@pytest.mark.parametrize("model", ["", "host-model", "host-passthrough"])
def test_models_of_hosts_are_on_each_node(model: str) -> None:
    made = labeled(NODES)
    made.vm("db", {"domain": {"cpu": {"model": COMMON}}})

    assert faults(made, db=model) == []


@pytest.mark.parametrize(
    ("then", "now", "changes"),
    [
        ({}, {}, ()),
        ({"cpu": {"model": "x"}}, {"cpu": {"model": COMMON, "sockets": 1}}, ()),
        ({"cpu": {"model": COMMON, "sockets": 1}}, {}, ()),
        ({"cpu": {"model": COMMON, "sockets": 1, "cores": 2}}, {"cpu": {"cores": 2}}, ()),
        ({}, {"cpu": {"sockets": 4}}, ("domain.cpu",)),
        ({"cpu": {"model": "x"}}, {"cpu": {"sockets": 4}}, ("domain.cpu.sockets",)),
        (
            {"cpu": {"model": "x"}},
            {"cpu": {"model": "x", "cores": 4}},
            ("domain.cpu.cores",),
        ),
        ({}, {"ioThreadsPolicy": "auto"}, ("domain.ioThreadsPolicy",)),
    ],
)
def test_restart_applies_what_else_has_changed_since_the_start(
    then: JSON, now: JSON, changes: tuple[str, ...]
) -> None:
    made = labeled(NODES)
    ref = run_vm(made, "db", "i3")
    made.workloads[ref]["spec"]["template"]["spec"]["domain"] = {**MACHINE, **now}
    made.machines["db"]["spec"]["domain"]["cpu"]["sockets"] = 1  # as virt-api completes it
    condition = {"type": "RestartRequired", "status": "True"}
    made.workloads[ref]["status"] = {"conditions": [condition]}

    (change,), _cpus, view = planned(made, db=COMMON)

    started = {"template": {"spec": {"domain": {**MACHINE, **then}}}}
    assert changes_beside_model(started, change, view.snapshot.platform) == changes


@pytest.mark.parametrize(
    ("before", "after", "selected"),
    [("host-model", COMMON, [COMMON]), ("Haswell-noTSX", COMMON, [COMMON]), (COMMON, "", [])],
)
def test_restart_is_planned_with_the_model_that_waits_for_it(
    before: str, after: str, selected: list[str]
) -> None:
    made = labeled(NODES)
    ref = run_vm(made, "db", "i3", before)
    made.workloads[ref]["spec"]["template"]["spec"]["domain"]["cpu"] = {"model": after}
    wanted = InstanceSelection(workloads=frozenset({ref}))

    (movable,) = movable_instances(made.snapshot(), wanted, apply_pending_changes=True)

    keys = dict(movable.next_pod(Method.RESTART).placement.node_selector)
    assert [key.removeprefix(MODEL) for key in keys if key.startswith(MODEL)] == selected


def test_each_error_of_the_options_is_named() -> None:
    _request, wrong = model_request(
        {"vms": ["db", {"namespace": "shop"}, 7], "model": COMMON, "models": {"shop/x": []}}
    )

    assert [str(fault) for fault in wrong] == [
        "models, shop/x: must be the name of a CPU model, not a list",
        "vms[0]: must be the namespace/name of a VM, not 'db'",
        "vms[1]: must name workloads by one of name, names or labels, and has none of these",
        "vms[2]: must be the name of a VM, or a map of kind, namespace, name, names, labels, not the"
        " number 7",
    ]


def test_model_of_null_is_that_of_the_cluster() -> None:
    request, wrong = model_request({"models": {"shop/db": None}, "vms": None, "model": None})

    assert not wrong
    assert request.models == {""}
