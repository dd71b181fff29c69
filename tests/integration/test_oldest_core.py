# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks on the oldest ansible-core that is supported, whose templates make other values of texts."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from dev import matrix
from sandbox import Sandbox
from sandbox.pytest_plugin import MakeNamespace
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, vms

pytestmark = pytest.mark.packaged_modules


@pytest.fixture(scope="module")
def oldest() -> matrix.Prepared:
    release = matrix.RELEASES[0]
    prepared = matrix.prepare_release(release)
    if prepared is None:
        pytest.skip(f"{release.label}: this Python is not installed")
    return prepared


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "oldest"), run_module) as shop:
        yield shop


def test_rules_rollout_verify_and_maintenance_of_one_vm(
    shop: Maintenance, oldest: matrix.Prepared, tmp_path: Path
) -> None:
    def play(name: str, identity: str, **variables: t.Any) -> str:
        job = Job(shop, tmp_path, identity=identity, release=oldest)
        given = {f"placement_{name}_{key}": value for key, value in variables.items()}
        code, output = job.run_playbook(name, **given)
        assert code == 0, output
        return output

    shop.start(*vms(shop, "db"), nodes=["w1"])
    other = shop.zone("w3")
    rule = {"name": "home", "workloads": ["db"], "run_on": {"zone": other}}

    play("apply", "mover", namespace=shop.namespace, rules=[rule], rollout=False, verify=False)
    assert shop.nodes() == {"db": "w1"}

    play("rollout", "mover", namespaces=[shop.namespace])
    node = shop.nodes()["db"]
    assert shop.zone(node) == other

    assert "Verification passed" in play("verify", "reader", namespaces=[shop.namespace])

    output = play("maintenance", "maintainer", nodes=[node])
    assert "}" not in output, "nothing is printed as JSON"
    moved = shop.nodes()["db"]
    assert moved != node
    assert shop.zone(moved) == other
    assert not shop.cordoned(node)
    assert "Verification passed" in output
