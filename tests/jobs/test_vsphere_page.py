# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for more VMs and HA restart in docs/from-vsphere.md: the commands as they are printed, and what they print."""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

import pytest

from demos.stage import Stage
from sandbox import Sandbox, objects
from tests.conftest import CHECKOUT
from tests.jobs.test_examples import create_shop
from tests.page_commands import run_as_printed

PAGE = (CHECKOUT / "docs" / "from-vsphere.md").read_text()
LARGE = {
    "apiVersion": "instancetype.kubevirt.io/v1beta1",
    "kind": "VirtualMachineClusterInstancetype",
    "metadata": {"name": "u1.large"},
    "spec": {"cpu": {"guest": 2}, "memory": {"guest": "8Gi"}},
}


@pytest.fixture
def stage() -> t.Iterator[Stage]:
    """The VMs of the shop, each on a node of its own."""
    with Sandbox.start("article") as sandbox:
        sandbox.api.apply(LARGE)
        stage = Stage(sandbox, "shop", quiet=True)
        create_shop(stage)
        yield stage


def test_room_for_more_vms_is_printed_as_on_the_page(stage: Stage) -> None:
    capacity, apply = commands("## Room for more VMs")
    green, refused, red = outputs("## Room for more VMs")

    printed = run(stage, capacity)
    assert lines_of(printed, green) == without_nodes(green)

    node = next(x for x in nodes(stage).values() if x != nodes(stage)["db"])
    apply = apply.replace('"kni-worker"', json.dumps(node))
    printed = run(stage, apply, fails=True)
    assert lines_of(printed, refused) == without_nodes(refused)

    run(stage, apply.replace('"placement_apply_keep_room_for": ["node"], ', ""))
    printed = run(stage, capacity, fails=True)
    assert lines_of(printed, red) == without_nodes(red)


def test_vm_of_a_node_that_fails_starts_again_once_it_is_fenced_as_on_the_page(
    stage: Stage,
) -> None:
    taint, untaint = commands("## HA restart")
    (down,) = outputs("## HA restart")
    verify = (
        'ansible-playbook virt.placement.verify -e \'{"placement_verify_namespaces": ["shop"]}\''
    )
    node = nodes(stage)["web-1"]
    stage.sandbox.node_down(node, without_heartbeat=True)

    printed = run(stage, verify, fails=True)

    assert lines_of(printed, down) == without_nodes(down)
    assert "fence it once it is surely off" in printed
    run(stage, taint.replace("kni-worker2", node))
    path = stage.sandbox.api.path("VirtualMachineInstance", "shop", "web-1")
    stage.sandbox.api.wait(
        lambda vmi: (
            vmi.get("status", {}).get("phase") == "Running" and vmi["status"]["nodeName"] != node
        ),
        path,
        90,
    )
    run(stage, verify)
    stage.sandbox.node_up(node, new_boot=True)
    run(stage, untaint.replace("kni-worker2", node))


def test_vms_of_rules_that_were_written_before_they_arrive_start_where_the_rules_want_them(
    stage: Stage, tmp_path: Path
) -> None:
    """As Forklift makes them (kubev2v/forklift, pkg/controller/plan/kubevirt.go): one create with the name, the label
    app, annotations where the name is another one, and the affinity of the plan."""
    drs_import, _topology, check, apply = (
        command
        for command in commands("### Before the VMs arrive")
        if command.startswith("ansible-playbook")
    )
    rule = {"rule_name": "apart", "rule_type": "vm_vm_rule", "rule_vms": ["db", "WEB_7", "WEB_8"]}
    flags = {"rule_enabled": True, "rule_mandatory": True, "rule_affinity": False}
    (tmp_path / "rules.json").write_text(json.dumps({"drs_rule_info": {"P": [{**rule, **flags}]}}))
    (tmp_path / "import.yml").write_text(
        json.dumps(
            {
                "placement_drs_import_files": [str(tmp_path / "rules.json")],
                "placement_drs_import_folder": str(tmp_path / "imported"),
                "placement_drs_import_namespace": "shop",
            }
        )
    )
    run(stage, drs_import.replace("@import.yml", f"@{tmp_path}/import.yml"))
    rules = f"@{tmp_path}/imported/rules-shop.yml"
    apply = apply.replace("@rules-shop.yml", rules)

    run(stage, check.replace("@rules-shop.yml", rules), identity="policies-writer")
    printed = run(stage, apply, identity="policies-writer")

    assert "get their rules when they are created: shop/web-7, shop/web-8" in printed
    api = stage.sandbox.api
    for name in ("web-7", "web-8"):
        manifest = objects.virtual_machine(name, "shop", labels={"app": name})
        manifest["metadata"]["annotations"] = {
            "openshift.io/display-name": name.upper().replace("-", "_"),
            "original-ID": f"vm-{name[-1]}",
        }
        api.create(api.path("VirtualMachine", "shop"), manifest)
    for name in ("web-7", "web-8"):
        path = api.path("VirtualMachineInstance", "shop", name)
        api.wait(lambda vmi: vmi.get("status", {}).get("phase") == "Running", path, 90)
    assert len({nodes(stage)[name] for name in ("db", "web-7", "web-8")}) == 3
    mark = stage.sandbox.audit.mark()
    printed = run(stage, apply, identity="policies-writer")
    assert "nothing to change" in printed
    assert stage.sandbox.audit.writes(since=mark) == []


def part(heading: str) -> str:
    (text,) = re.findall(rf"^{heading}$(.*?)^(?:## |To take the import back)", PAGE, re.M | re.S)
    return t.cast(str, text)


def commands(heading: str) -> list[str]:
    found = re.findall(r"^ *```console\n(.*?)^ *```$", part(heading), re.M | re.S)
    return [line.strip() for block in found for line in block.splitlines()]


def outputs(heading: str) -> list[list[str]]:
    """The blocks without a language."""
    blocks = re.split(r"^ *```", part(heading), flags=re.M)[1::2]
    return [
        [line.strip() for line in block.strip("\n").splitlines()]
        for block in blocks
        if block.startswith("\n")
    ]


def nodes(stage: Stage) -> dict[str, str]:
    vmis = stage.sandbox.api.list(stage.sandbox.api.path("VirtualMachineInstance", "shop"))
    return {vmi["metadata"]["name"]: vmi["status"]["nodeName"] for vmi in vmis}


def without_nodes(lines: t.Iterable[str]) -> list[str]:
    """The scheduler chooses the nodes of the VMs."""
    return [re.sub(r"kni-worker\d?", "NODE", line) for line in lines]


def lines_of(printed: str, shown: t.Sequence[str]) -> list[str]:
    """The printed lines that the page shows, in their order."""
    lines = (line.removeprefix("[localhost] ") for line in printed.splitlines())
    return [line for line in without_nodes(lines) if line in without_nodes(shown)]


def run(stage: Stage, command: str, *, fails: bool = False, identity: str = "mover") -> str:
    """What the command prints, of which the page shows a part."""
    done = run_as_printed(stage.sandbox, command, identity)
    assert (done.returncode != 0) is fails, f"{command}\n{done.stdout}"
    return done.stdout
