# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu_model against what virt-api accepts, and what virt-controller makes of it at the next restart."""

from __future__ import annotations

import json
import re
import shlex
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import cpu_model, rules
from demos.stage import Stage
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages
from tests.controller import PROJECT
from tests.shop import ZONE, Shop
from tests.unit.cpu.labeled_nodes import labels_of

JSON = t.Any
Object = dict[str, t.Any]
MODEL = "cpu-model.node.kubevirt.io/"
COMMON = "Broadwell-noTSX"
NODES = {
    "w1": ("Haswell-noTSX", "zone1"),
    "w2": (COMMON, "zone1"),
    "w3": ("Cascadelake-Server-noTSX", "zone2"),
    "w4": ("Skylake-Server-noTSX-IBRS", "zone2"),
    "w5": (COMMON, "zone3"),
    "w6": (COMMON, "zone3"),
}
INSTANCE_TYPES = {"with-model": "Haswell-noTSX", "without-model": None}


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> t.Iterator[Shop]:
    for node, (model, zone) in NODES.items():
        labels = {**dict.fromkeys(six.versions.node_labels), **labels_of(model), ZONE: zone}
        six.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    yield Shop(six, namespace(six, "models"), run_module)
    six.restore_nodes()


def vm(name: str, where: str, *, instance_type: str = "", **spec: t.Any) -> Object:
    made = objects.virtual_machine(name, where, cpu="100m", memory="64Mi")
    template = made["spec"]["template"]["spec"]
    if instance_type:
        made["spec"]["instancetype"] = {
            "kind": "VirtualMachineInstancetype",
            "name": instance_type,
        }
        del template["domain"]["resources"]
    if cpu := spec.pop("cpu", None):
        template["domain"]["cpu"] = cpu
    template.update(spec)
    return made


def instance_types(shop: Shop) -> None:
    for name, model in INSTANCE_TYPES.items():
        cpu = {"guest": 1, "model": model} if model else {"guest": 1}
        shop.api.create(
            shop.path("VirtualMachineInstancetype"),
            {
                "apiVersion": "instancetype.kubevirt.io/v1beta1",
                "kind": "VirtualMachineInstancetype",
                "metadata": {"name": name},
                "spec": {"cpu": cpu, "memory": {"guest": "64Mi"}},
            },
        )


def wait_for_condition(shop: Shop, name: str, wanted: str, *, there: bool = True) -> None:
    def holds(vm: Object) -> bool:
        found = vm["status"].get("conditions") or ()
        return there is any((x["type"], x["status"]) == (wanted, "True") for x in found)

    shop.api.wait(holds, shop.path("VirtualMachine", name))


def template_cpu(shop: Shop, name: str) -> Object | None:
    spec = shop.api.get(shop.path("VirtualMachine", name))["spec"]["template"]["spec"]
    return t.cast("Object | None", spec["domain"].get("cpu"))


def node_selector(shop: Shop, name: str) -> dict[str, str]:
    """That of the running launcher pod of a VM."""
    pods = shop.api.list(f"{shop.path('Pod')}?labelSelector=vm.kubevirt.io/name={name}")
    (pod,) = (pod for pod in pods if pod["status"]["phase"] == "Running")
    return t.cast("dict[str, str]", pod["spec"]["nodeSelector"])


def selected(shop: Shop, name: str) -> list[str]:
    """The CPU models that the running launcher pod of a VM selects."""
    return [key.removeprefix(MODEL) for key in node_selector(shop, name) if MODEL in key]


def restart(shop: Shop, staged: Object) -> set[str]:
    """Restart the VMs that the task names, as the role does. Returns their names."""
    rolled = shop.roll(
        namespaces=None,
        workloads=staged["restarts"],
        scope="all",
        allow=["restart"],
        apply_pending_changes=True,
    )
    assert not rolled.get("failed"), rolled
    return {x["name"] for x in rolled["moves"]}


def test_model_is_staged_and_applied_by_a_restart_that_leaves_no_condition(shop: Shop) -> None:
    where = shop.namespace
    instance_types(shop)
    shop.start(
        vm("plain", where),
        vm("named", where, cpu={"model": "Haswell-noTSX", "sockets": 1}),
        vm("typed", where, instance_type="without-model"),
        vm("other", where),
        nodes=["w3"],
    )
    names = ["plain", "named", "typed"]
    task: Object = {"model": COMMON, "vms": [f"{where}/{name}" for name in names]}
    start, uids = shop.sandbox.audit.mark(), shop.uids()

    checked = shop.task_in_check_mode(cpu_model.main, "mover", **task)
    assert shop.sandbox.audit.writes(since=start) == []
    staged = shop.done(cpu_model.main, "mover", **task)

    assert checked["vms"] == staged["vms"]
    assert staged["before"] == {
        f"{where}/plain": "",
        f"{where}/named": "Haswell-noTSX",
        f"{where}/typed": "",
    }
    assert {x["name"]: (x["running"], x["next_model"]) for x in staged["vms"]} == {
        "plain": ("host-model", COMMON),
        "named": ("Haswell-noTSX", COMMON),
        "typed": ("host-model", COMMON),
    }
    assert {x["name"] for x in staged["restarts"]} == set(names)
    assert template_cpu(shop, "plain") == {"model": COMMON, "sockets": 1}
    assert template_cpu(shop, "typed") == {"model": COMMON}
    (plain,) = (x for x in staged["vms"] if x["name"] == "plain")
    assert plain["loses"] == ["avx512f", "avx512vnni"]
    assert plain["nodes_count"] == 5
    for name in names:
        wait_for_condition(shop, name, "RestartRequired")
    assert shop.uids() == uids

    assert restart(shop, staged) == set(names)

    assert {name: selected(shop, name) for name in names} == {name: [COMMON] for name in names}
    vmis = shop.instances()
    assert {vmis[name]["spec"]["domain"]["cpu"]["model"] for name in names} == {COMMON}
    assert vmis["other"]["metadata"]["uid"] in uids
    for name in names:
        wait_for_condition(shop, name, "RestartRequired", there=False)
    mark = shop.sandbox.audit.mark()
    again = shop.done(cpu_model.main, "mover", **task)
    assert (again["changed"], again["restarts"], again["before"]) == (False, [], {})
    assert shop.sandbox.audit.writes(since=mark) == []
    assert_rules_reach_the_running_vms(shop, names)


def assert_rules_reach_the_running_vms(shop: Shop, names: list[str]) -> None:
    """KubeVirt brings no rule to a running VM with the condition RestartRequired."""
    rule = {"name": "apart", "workloads": [{"names": names}], "keep_apart": "node"}
    shop.done(rules.main, "mover", namespace=shop.namespace, rules=[rule])
    for name in names:
        shop.api.wait(
            lambda vmi: "podAntiAffinity" in (vmi["spec"].get("affinity") or {}),
            shop.path("VirtualMachineInstance", name),
        )


def test_what_is_returned_takes_the_models_back(shop: Shop) -> None:
    where = shop.namespace
    shop.start(vm("plain", where), vm("named", where, cpu={"model": COMMON, "cores": 2}))
    specs = {x: template_cpu(shop, x) for x in ("plain", "named")}
    task: Object = {"model": "Haswell-noTSX", "vms": [{"namespace": where, "names": [*specs]}]}
    set_before = shop.done(cpu_model.main, "mover", **task)

    back = shop.done(cpu_model.main, "mover", models=set_before["before"])

    assert back["changed"] and back["restarts"] == []
    assert specs == {"plain": None, "named": {"model": COMMON, "cores": 2}}
    assert template_cpu(shop, "plain") is None
    assert template_cpu(shop, "named") == {"model": COMMON, "cores": 2, "sockets": 1}
    wait_for_condition(shop, "plain", "RestartRequired", there=False)


@pytest.mark.parametrize("model", [COMMON, ""])
def test_launcher_pod_after_the_model_is_taken_back_selects_the_nodes_of_before(
    shop: Shop, model: str
) -> None:
    """Of VMs whose spec named a model, with and without sockets, and of one without."""
    where = shop.namespace
    cpus: dict[str, JSON] = {
        "typed": {"model": "Haswell-noTSX"},
        "whole": {"model": "Haswell-noTSX", "sockets": 1, "cores": 2},
        "plain": None,
    }
    shop.start(*(vm(name, where, cpu=cpu) for name, cpu in cpus.items()))
    at_first = {name: node_selector(shop, name) for name in cpus}
    changed = {*cpus} if model else {"typed", "whole"}
    vms = [f"{where}/{name}" for name in cpus]
    staged = shop.done(cpu_model.main, "mover", model=model, vms=vms)
    assert {x["name"] for x in staged["vms"] if x["changed"]} == changed
    assert restart(shop, staged) == changed
    meanwhile = {name: node_selector(shop, name) for name in cpus}
    assert {name for name in cpus if meanwhile[name] != at_first[name]} == changed
    assert {name: selected(shop, name) for name in cpus} == dict.fromkeys(
        cpus, [model] if model else []
    )

    back = shop.done(cpu_model.main, "mover", models=staged["before"])
    assert restart(shop, back) == changed

    assert {name: node_selector(shop, name) for name in cpus} == at_first
    assert template_cpu(shop, "whole") == cpus["whole"]
    assert template_cpu(shop, "plain") is None
    for name in cpus:
        wait_for_condition(shop, name, "RestartRequired", there=False)
    mark = shop.sandbox.audit.mark()
    again = shop.done(cpu_model.main, "mover", models=staged["before"])
    assert (again["changed"], again["restarts"], again["before"]) == (False, [], {})
    assert shop.sandbox.audit.writes(since=mark) == []


def test_all_vms_that_cannot_get_their_model_are_named_before_the_first_write(shop: Shop) -> None:
    where = shop.namespace
    instance_types(shop)
    shop.start(
        vm("good", where),
        vm("typed", where, instance_type="with-model"),
        vm("bound", where, nodeSelector={"kubernetes.io/hostname": "w1"}),
    )
    mark = shop.sandbox.audit.mark()

    result = shop.task(
        cpu_model.main,
        "mover",
        models={
            f"{where}/good": "Broadwel-noTSX",
            f"{where}/typed": COMMON,
            f"{where}/bound": COMMON,
            f"{where}/godo": COMMON,
            "nowhere/good": COMMON,
            "good": COMMON,
            f"{where}/typed2": 7,
        },
    )

    messages = "\n".join(error_messages(result))
    for text in (
        f"CPU model Broadwel-noTSX of {where}/good: no node on which VMs can start has the label"
        f" {MODEL}Broadwel-noTSX=true",
        f"did you mean '{COMMON}'",
        f"VirtualMachine {where}/typed: ",
        "conflicts with selected instance type",
        f"VirtualMachine {where}/bound: 0/6 nodes take it with the CPU model {COMMON}",
        "5 without kubernetes.io/hostname=w1",
        "there is no VirtualMachine 'godo'",
        "there is no namespace 'nowhere'",
        "must be the namespace/name of a VM, not 'good'",
        "must be the name of a CPU model, not the number 7",
    ):
        assert text in messages, (text, messages)
    assert shop.sandbox.audit.writes(since=mark) == []


def test_playbook_sets_the_model_and_restarts_the_vms_that_have_no_other_change(
    shop: Shop,
) -> None:
    where = shop.namespace
    shop.start(*(vm(name, where) for name in ("one", "two", "busy")))
    shop.patch_template("VirtualMachine", "busy", {"terminationGracePeriodSeconds": 7})
    uids = {name: vmi["metadata"]["uid"] for name, vmi in shop.instances().items()}
    variables = {
        "placement_cpu_namespaces": [where],
        "placement_cpu_set_model": COMMON,
        "placement_cpu_set_model_on": f"[{where}/one, {where}/two, {where}/busy]",
        "placement_cpu_restart": "true",
    }
    stage = Stage(shop.sandbox, where, quiet=True)
    mark = shop.sandbox.audit.mark()
    checked = stage.play(str(PROJECT / "cpu.yml"), variables, identity="mover", check=True)
    assert checked.rc == 0, checked.stdout
    assert checked.stdout.count("would restart VirtualMachine") == 2, checked.stdout
    assert shop.sandbox.audit.writes(since=mark) == []

    played = stage.play(str(PROJECT / "cpu.yml"), variables, identity="mover")

    assert played.rc == 0, played.stdout
    after = {name: vmi["metadata"]["uid"] for name, vmi in shop.instances().items()}
    assert {name for name in uids if uids[name] != after[name]} == {"one", "two"}
    assert "would also apply terminationGracePeriodSeconds" in played.stdout
    assert "3 VMs got another model, 0 had it" in played.stdout
    assert "1 VM with another model until the next restart" in played.stdout
    assert {name: selected(shop, name) for name in uids} == {
        "one": [COMMON],
        "two": [COMMON],
        "busy": [],
    }
    mark = shop.sandbox.audit.mark()
    again = stage.play(str(PROJECT / "cpu.yml"), variables, identity="mover")
    assert (again.rc, again.changed) == (0, 0), again.stdout
    assert shop.sandbox.audit.writes(since=mark) == []
    printed = re.search(r"To take this back: -e (.*)", played.stdout)
    assert printed, played.stdout
    (given,) = shlex.split(printed[1])
    answers = {
        "placement_cpu_set_models": json.dumps(json.loads(given)["placement_cpu_set_models"]),
        "placement_cpu_restart": "true",
    }

    back = stage.play(str(PROJECT / "cpu.yml"), answers, identity="mover")

    assert back.rc == 0, back.stdout
    assert {name: selected(shop, name) for name in ("one", "two")} == {"one": [], "two": []}
    assert {name: template_cpu(shop, name) for name in uids} == dict.fromkeys(uids)
