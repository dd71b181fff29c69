# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the usual jobs print, line by line, as in tests/outputs."""

from __future__ import annotations

import re
import signal
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.modules import rules
from sandbox import Sandbox
from sandbox.pytest_plugin import MakeNamespace
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, vms
from tests.outputs import kept, rows, what_matters

Play = t.Callable[..., str]

_IN_TIME = re.compile(r"^\[lab\] run ID: .* planned.*\n", re.MULTILINE)
"""What a rollout plans depends on whether the migration before it has ended by then."""


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "outputs"), run_module) as shop:
        yield shop


@pytest.fixture
def play(shop: Maintenance, tmp_path: Path) -> Play:
    def play(name: str, identity: str, *, code: int = 0, **variables: t.Any) -> str:
        given = {f"placement_{name}_{key}": value for key, value in variables.items()}
        ended, output = Job(shop, tmp_path, identity=identity).run_playbook(name, **given)
        assert ended == code, output
        return output

    return play


def test_enter_and_exit_of_a_node_with_one_vm(shop: Maintenance, play: Play) -> None:
    shop.start(*vms(shop, "solo"), nodes=["w5"])

    enter = play("maintenance", "maintainer", nodes=["w5"], state="drained", reason="firmware")
    leave = play("maintenance", "maintainer-mover", nodes=["w5"], state="in_service")

    for name, output in (("enter", enter), ("exit", leave)):
        now = what_matters(output, shop=shop.namespace)
        assert now == kept(name, now)
    assert max(rows(enter), rows(leave)) <= 40


@pytest.mark.sweep
def test_maintenance_of_six_nodes(shop: Maintenance, play: Play) -> None:
    """The VM has two nodes to be on, and moves from one to the other and back."""
    zone = {"nodeSelector": {"topology.kubernetes.io/zone": shop.zone("w1")}}
    shop.start(*vms(shop, "solo", placement=zone), nodes=["w1"])

    output = play("maintenance", "maintainer-mover", nodes=[f"w{n}" for n in range(1, 7)])

    now = what_matters(output, shop=shop.namespace)
    assert now == kept("maintenance_of_six_nodes", now)


@pytest.mark.usefixtures("own_process")
@pytest.mark.sweep
def test_rollout_that_is_canceled_and_launched_again(
    shop: Maintenance, play: Play, tmp_path: Path
) -> None:
    slow = {"sandbox.virt/migration-seconds": "12"}
    shop.start(*vms(shop, "solo", annotations=slow), nodes=["w1"])
    rule = {"name": "home", "workloads": ["solo"], "run_on": {"zone": shop.zone("w3")}}
    written = shop.task(rules.main, "mover", namespace=shop.namespace, rules=[rule])
    assert not written.get("failed"), written["msg"]
    job = Job(shop, tmp_path, identity="mover")
    wanted = tmp_path / "wanted.yml"
    wanted.write_text(
        f"placement_rollout_namespaces: [{shop.namespace}]\nplacement_clusters: lab\n"
    )
    process = job.start_play("virt.placement.rollout", "-e", f"@{wanted}")
    canceled = process.until_line("[1/1] migrating")
    process.send_signal(signal.SIGINT)
    canceled += process.rest()
    assert process.returncode != 0

    again = play("rollout", "mover", namespaces=[shop.namespace])

    for name, output in (("canceled_rollout", canceled), ("rollout_after_it", again)):
        now = _IN_TIME.sub("", what_matters(output, shop=shop.namespace))
        now = now.replace("this rollout has ended;", "this rollout was interrupted;")
        assert now == kept(name, now)


def test_apply_of_six_rules_and_a_red_verification_of_three_vms(
    shop: Maintenance, play: Play
) -> None:
    names = ["a1", "a2", "a3"]
    shop.start(*vms(shop, *names), nodes=["w1"])
    home = [{"name": f"{x}-zone2", "workloads": [x], "run_on": {"zone": "zone2"}} for x in names]
    soft = [
        {"name": f"{x}-w3", "workloads": [x], "run_on": {"node": "w3"}, "preferred": True}
        for x in names
    ]
    options = {"rollout": False, "verify": False, "forecast": False}

    applied = play("apply", "mover", namespace=shop.namespace, rules=[*home, *soft], **options)
    red = play("verify", "reader", code=2, namespaces=[shop.namespace])

    for name, output in (("apply_of_six_rules", applied), ("red_verification", red)):
        now = what_matters(output, shop=shop.namespace)
        assert now == kept(name, now)
