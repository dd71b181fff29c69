# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job prints whose account lacks rights: which account, the first right, and which role grants it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from dev import matrix
from sandbox import Sandbox
from sandbox.pytest_plugin import MakeNamespace
from tests.job import Job
from tests.maintenance import Maintenance, maintenance, vms

NOBODY = "virt-placement:nobody"
GRANT = (
    f"grant {NOBODY} the ClusterRole virt-placement-reader (rbac/reader.yml),"
    " then launch the same job again"
)
READER = "grant this identity the ClusterRole virt-placement-reader (rbac/reader.yml)"
AGAIN = "nothing was written: correct the cause, then launch the same job again"


@pytest.fixture(scope="module")
def shop(plain: Sandbox) -> Maintenance:
    return Maintenance(plain, "default", None)


class Printed(t.NamedTuple):
    above: str
    block: dict[str, str]


def play(job: Job, name: str, **variables: t.Any) -> Printed:
    """What is printed above the closing block, and the lines of that by their label."""
    given = {f"placement_{name}_{key}": value for key, value in variables.items()}
    _code, output = job.run_playbook(name, **given)
    above, _headline, rest = output.partition(f"[lab] {name.capitalize()}: ")
    lines = [x.removeprefix("[lab]   ") for x in rest.splitlines() if x.startswith("[lab]   ")]
    block: dict[str, str] = {}
    label = ""
    for line in lines:
        label = line[:8].strip() or label
        block[label] = f"{block[label]}\n{line[9:]}" if label in block else line[9:]
    return Printed(above, block)


READING = {
    "verify": {"namespaces": ["default"]},
    "drill": {"domains_of": ["zone"]},
    "capacity": {"tolerate": ["zone"]},
    "rules": {"namespaces": ["default"]},
    "cpu": {"namespaces": ["default"]},
}


def check_reading(job: Job, name: str) -> Printed:
    printed = play(job, name, **READING[name])
    assert printed.block["not read"].startswith(f"{NOBODY} may not get namespaces, and lacks ")
    assert printed.block["not read"].endswith(" more rights")
    assert printed.block["next"] == GRANT
    assert printed.above.count("list kubevirts") == 1, printed.above
    assert "this identity is virt-placement:nobody" in printed.above
    return printed


@pytest.mark.parametrize("name", READING)
def test_job_that_reads_names_the_account_and_the_role_once(
    shop: Maintenance, tmp_path: Path, name: str
) -> None:
    check_reading(Job(shop, tmp_path, identity="nobody"), name)


@pytest.mark.packaged_modules
@pytest.mark.parametrize("release", [matrix.RELEASES[0], matrix.RELEASES[-1]], ids=str)
def test_verification_without_rights_on_other_releases_of_ansible(
    shop: Maintenance, tmp_path: Path, release: matrix.Release
) -> None:
    prepared = matrix.prepare_release(release)
    if prepared is None:
        pytest.skip(f"{release.label}: this Python is not installed")
    printed = check_reading(Job(shop, tmp_path, identity="nobody", release=prepared), "verify")
    assert printed.block["failed"] == (
        "Verify: 3 unknown, since pods, nodes and virtualmachineinstances could not be read."
    )
    assert printed.block["done"] == (
        "0 instances: whether there are more is unknown: pods, nodes and virtualmachineinstances could not be read"
    )


def test_rules_that_cannot_be_read_are_not_reported_as_none(
    shop: Maintenance, tmp_path: Path
) -> None:
    printed = play(Job(shop, tmp_path, identity="nobody"), "rules", namespaces=["default"])
    assert "no rules" not in printed.above
    assert printed.block["done"] == "0 rules, and whether there are more is unknown"


def test_move_of_an_account_without_any_right(shop: Maintenance, tmp_path: Path) -> None:
    """The role is named in the block, however long the list of rights before it is."""
    printed = play(Job(shop, tmp_path, identity="nobody"), "rollout", namespaces=["default"])
    failed = printed.block["failed"]
    assert failed.startswith("Roll out: not permitted: cannot get namespaces, list kubevirts")
    assert failed.endswith(f"...: {READER}; this identity is {NOBODY}")
    assert printed.block["next"] == AGAIN


class TestBeforeAWrite:
    """By an account that may read."""

    @pytest.fixture
    def fleet(
        self, six: Sandbox, namespace: MakeNamespace, run_module: t.Any
    ) -> t.Iterator[Maintenance]:
        with maintenance(six, namespace(six, "rights"), run_module) as fleet:
            fleet.start(*vms(fleet, "a1"), nodes=["w1"])
            yield fleet

    @pytest.mark.parametrize("forecast", [True, False])
    def test_apply_says_that_nothing_was_written(
        self, fleet: Maintenance, tmp_path: Path, forecast: bool
    ) -> None:
        rule = {"name": "home", "workloads": ["a1"], "run_on": {"zone": "zone2"}}
        job = Job(fleet, tmp_path, identity="reader")
        asked = {"namespace": fleet.namespace, "rules": [rule], "forecast": forecast}
        printed = play(job, "apply", **asked)
        assert printed.block["failed"].startswith(
            "Write rules: rights: this identity may not patch"
        )
        assert printed.block["failed"].endswith("this identity is virt-placement:reader")
        assert printed.block["next"] == AGAIN

    def test_labels_and_moves(self, fleet: Maintenance, tmp_path: Path) -> None:
        job = Job(fleet, tmp_path, identity="reader")
        label = {"nodes": ["w1"], "labels": {"example.com/rack": "r1"}}
        assert play(job, "topology", **label).block["next"] == AGAIN
        assert play(job, "rollout", namespaces=[fleet.namespace]).block["next"] == AGAIN
