# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every example of the modules and roles for room for a failure, CPU models and the import of rules, as it stands
there."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml

from demos.stage import PlayResult, Stage
from sandbox import Sandbox, objects
from sandbox.node_labeller import CPU_LABELS
from tests.conftest import CHECKOUT
from tests.jobs.test_examples import create_shop, examples
from tests.unit.cpu.labeled_nodes import labels_of

ZONE = "topology.kubernetes.io/zone"
WORKERS = ["kni-worker", *(f"kni-worker{n}" for n in range(2, 7))]
INTERPRETER = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
IDENTITIES = {
    "capacity_info": "reader",
    "cpu_info": "reader",
    "drs_import": "labeler-mover",
}
ROLES = ("placement_capacity", "placement_cpu", "placement_drs_import")
HOSTS = {f"host-{n}": f"esx{n}.example.com" for n in (1, 2)}
VMS = {"vm-1": "DB", "vm-2": "WEB_1", "vm-3": "legacy"}


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    """The VMs of the shop, on nodes of two CPUs of Intel in two zones."""
    with Sandbox.start("article") as sandbox:
        stage = Stage(sandbox, "shop", quiet=True)
        for number, node in enumerate(WORKERS):
            model = ("Broadwell-noTSX", "Haswell-noTSX")[number % 2]
            labels = {**dict.fromkeys(CPU_LABELS), **labels_of(model), ZONE: "ab"[number % 2]}
            if model == "Haswell-noTSX":  # as on nodes that can run the newer one, too
                labels["cpu-model.node.kubevirt.io/Broadwell-noTSX"] = "true"
            sandbox.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
        create_shop(stage)
        sandbox.api.create(
            sandbox.api.path("VirtualMachine", "shop"), objects.virtual_machine("legacy-2", "shop")
        )
        yield stage


def played(stage: Stage, file: Path, play: t.Any, identity: str) -> PlayResult:
    file.write_text(yaml.safe_dump([{**play, "vars": INTERPRETER}], sort_keys=False))
    return stage.play(str(file), {}, identity=identity)


def printed_by_govc(folder: Path) -> None:
    """The files of the last example of drs_import."""

    def references(kind: str, *morefs: str) -> list[t.Any]:
        return [{"type": kind, "value": moref} for moref in morefs]

    def names(kind: str, of: dict[str, str]) -> str:
        return "\n".join(
            json.dumps(
                {
                    "obj": references(kind, moref)[0],
                    "changeSet": [{"name": "name", "val": name}],
                }
            )
            for moref, name in of.items()
        )

    groups = [
        {
            "_typeName": "ClusterVmGroup",
            "name": "databases",
            "vm": references("VirtualMachine", "vm-1", "vm-3"),
        },
        *(
            {
                "_typeName": "ClusterHostGroup",
                "name": name,
                "host": references("HostSystem", *HOSTS),
            }
            for name in ("licensed", "site A")
        ),
    ]
    rules = [
        {
            "_typeName": "ClusterVmHostRuleInfo",
            "name": f"databases on {name}",
            "enabled": True,
            "vmGroupName": "databases",
            "affineHostGroupName": name,
        }
        for name in ("licensed", "site A")
    ]
    config = [{"name": "configurationEx", "val": {"group": groups, "rule": rules}}]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vms.json").write_text(names("VirtualMachine", VMS))
    (folder / "hosts.json").write_text(names("HostSystem", HOSTS))


@pytest.mark.parametrize("name", IDENTITIES)
def test_each_example_of_a_module_runs(stage: Stage, tmp_path: Path, name: str) -> None:
    printed_by_govc(tmp_path)
    tasks = examples(CHECKOUT / "plugins" / "modules" / f"{name}.py")
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}

    result = played(stage, tmp_path / "play.yml", play, IDENTITIES[name])

    assert result.rc == 0, result.stdout


@pytest.mark.parametrize("role", ROLES)
def test_example_of_a_role_runs(stage: Stage, tmp_path: Path, role: str) -> None:
    readme = (CHECKOUT / "roles" / role / "README.md").read_text()
    (text,) = re.findall("```yaml\n(.*?)```", readme, re.DOTALL)
    for shown, here in (
        ("/srv/vsphere", str(tmp_path)),
        *((f"worker-{n}", WORKERS[n]) for n in (1, 2)),
    ):
        text = text.replace(shown, here)
    (play,) = yaml.safe_load(text)
    rule = {"rule_name": "apart", "rule_type": "vm_vm_rule", "rule_vms": ["WEB_1", "DB"]}
    flags = {"rule_enabled": True, "rule_mandatory": False, "rule_affinity": False}
    licensed = {"group_name": "licensed", "type": "host", "hosts": [*HOSTS.values()]}
    for name, content in (
        ("rules", {"drs_rule_info": {"Production": [{**rule, **flags}]}}),
        ("groups", {"drs_group_info": {"Production": [licensed]}}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    result = played(stage, tmp_path / "play.yml", play, "reader")

    assert result.rc == 0, result.stdout
    if role == "placement_drs_import":
        assert (tmp_path / "imported" / "rules-shop.yml").is_file()
