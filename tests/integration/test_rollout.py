# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout as a task: repeated by its action plugin, with progress as it goes, killed and continued."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import typing as t
from pathlib import Path

import ansible_runner
import pytest

from sandbox import Sandbox, objects
from tests.job import Job
from tests.shop import LEASE, PATIENCE, Shop, forget_runs
from tests.terms import keep_machines_apart, pair_on_one_node

SLOW = {"sandbox.virt/migration-seconds": "5"}
SLOWER = {"sandbox.virt/migration-seconds": "20"}
ENDLESS = {"sandbox.virt/migration-seconds": "3600"}
"""Until `let_migrations_end`: whatever a step, its next one and the end of a job take on a machine with other work."""


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    yield Shop(six, namespace(six, "job"), run_module)
    forget_runs(six.api)


@pytest.fixture
def job(shop: Shop, tmp_path: Path) -> Job:
    return Job(shop, tmp_path)


@pytest.mark.usefixtures("own_process")
def test_progress_is_printed_while_it_happens(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop, faults=SLOW)
    process = job.start()

    seen = [(time.monotonic(), line) for line in process.lines()]
    assert process.wait(PATIENCE) == 0, "".join(line for _at, line in seen)

    began = next(at for at, line in seen if "[1/1] migrating VirtualMachine" in line)
    ended = next(at for at, line in seen if " migrated: w1 (zone1) -> " in line)
    assert ended - began > 2, "the line about the beginning was printed with that about the end"
    output = "".join(line for _at, line in seen)
    assert "[lab] run r" in output
    assert "changed=1" in output


@pytest.mark.usefixtures("own_process")
def test_the_second_run_moves_and_writes_nothing(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop)
    assert job.run()[0] == 0
    mark = shop.sandbox.audit.mark()

    code, output = job.run("-v")

    assert code == 0
    assert "changed=0" in output
    assert "migrating" not in output
    assert "migrated" not in output
    assert "placed correctly; enforced from the next migration" in output
    assert '"transitions"' not in output, "what steps hand to one another is nothing for users"
    assert shop.sandbox.audit.writes(since=mark) == []


def test_check_mode_shows_the_plan_and_writes_nothing(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()

    code, output = job.run("--check", "-v")

    assert code == 0
    assert "1 move planned" in output
    assert "[1/1] would migrate VirtualMachine" in output
    assert '"method": "migrate"' in output
    assert shop.sandbox.audit.writes(since=mark) == []


def test_vms_go_back_to_a_saved_placement_and_a_table_names_what_did_not(
    shop: Shop, job: Job, tmp_path: Path
) -> None:
    names = ("sap1", "sap2", "sap3")
    shop.start(*(objects.virtual_machine(x, shop.namespace) for x in names), nodes=["w1"])
    saved = tmp_path / "saved.json"
    where = {"sap1": "w3", "sap2": "w1", "sap3": "w33"}
    entries = [
        {"kind": "VirtualMachine", "namespace": shop.namespace, "instance": name, "node": node}
        for name, node in where.items()
    ]
    content = {"instances": [], "satisfied_instances": entries, "nodes": [{"name": "w1"}]}
    saved.write_text(json.dumps(content))

    code, output = job.run_playbook("rollout", placement_rollout_places_file=str(saved))

    assert code == 2, output
    rows = [line.split() for line in output.splitlines() if f"] {shop.namespace}/sap" in line]
    assert rows[0][2:6] == ["w1", "w33", "NOT", "moved:"]
    assert [row[2:] for row in rows[1:]] == [
        ["w1", "w3", "moved"],
        ["w1", "w1", "there", "already"],
    ]
    assert "1 VM cannot go to its node in places" in output
    assert shop.nodes() == {"sap1": "w3", "sap2": "w1", "sap3": "w1"}


@pytest.mark.usefixtures("own_process")
def test_progress_arrives_as_events_of_ansible_runner(shop: Shop, job: Job, tmp_path: Path) -> None:
    pair_on_one_node(shop)
    play = job.write()
    (tmp_path / "runner").mkdir()

    run = ansible_runner.run(
        private_data_dir=str(tmp_path / "runner"),
        playbook=str(play),
        inventory=str(tmp_path / "hosts"),
        envvars=job.environment(),
        quiet=True,
        timeout=PATIENCE,
    )

    assert run.rc == 0, run.stdout.read()
    lines = [event["stdout"] for event in run.events if event["event"] == "verbose"]
    assert any("migrated: w1 (zone1) ->" in line for line in lines)


def test_no_log_keeps_silent(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop)

    code, output = job.run(keywords={"no_log": True})

    assert code == 0
    assert "migrat" not in output
    assert "changed=1" in output


def test_a_failed_rollout_prints_its_progress_once(shop: Shop, job: Job) -> None:
    names = pair_on_one_node(shop)
    label = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
    for name in names:
        shop.api.patch(shop.path("VirtualMachine", name), label)

    code, output = job.run(fail_on_skipped=True)

    assert code != 0
    assert output.count("0 moves planned, 2 skipped") == 1
    assert '"progress"' not in output
    assert "still violate" not in output
    (error,) = [line for line in output.splitlines() if "skipped (fail_on_skipped)" in line][:1]
    assert all(name in error for name in names)


def test_async_is_refused(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()

    code, output = job.run(keywords={"async": 60, "poll": 1})

    assert code != 0
    assert "cannot run with async" in output or "does not support async" in output
    assert shop.sandbox.audit.writes(since=mark) == []


@pytest.mark.packaged_modules
def test_a_vaulted_kubeconfig_is_decrypted_for_each_step(
    shop: Shop, job: Job, tmp_path: Path
) -> None:
    pair_on_one_node(shop, faults=SLOWER)
    password = tmp_path / "password"
    password.write_text("open sesame\n")
    vaulted = tmp_path / "vaulted-kubeconfig"
    vaulted.write_text(shop.sandbox.kubeconfig("mover").read_text())
    subprocess.run(
        ["ansible-vault", "encrypt", "--vault-password-file", password, vaulted],
        check=True,
        capture_output=True,
    )

    code, output = job.run(
        "--vault-password-file", str(password), kubeconfig=str(vaulted), timeout=90
    )

    assert code == 0, output
    assert "migrated: w1 (zone1) ->" in output


@pytest.mark.packaged_modules
def test_killed_in_the_middle_it_is_continued_and_nothing_moves_twice(shop: Shop, job: Job) -> None:
    pair_on_one_node(shop, faults=SLOWER)
    before = shop.uids()
    mark = shop.sandbox.audit.mark()
    first = job.start()
    first.until_line("[1/1] migrating")
    first.end()

    code, output = job.run()

    assert code == 0, output
    assert "continuing run r" in output
    assert shop.uids() == before
    assert len({shop.zone(node) for node in shop.nodes().values()}) == 2
    assert shop.disruptions(mark) == [("create", "virtualmachineinstancemigrations")]
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.packaged_modules
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_play_names_the_moves_in_flight_and_gives_the_lease_back(
    shop: Shop, job: Job, number: signal.Signals
) -> None:
    pair_on_one_node(shop, faults=ENDLESS)
    process = job.start()
    process.until_line("[1/1] migrating")
    wait_next_step(shop)
    process.send_signal(number)
    output = process.rest()

    assert "the next rollout continues the moves in flight: VirtualMachineInstance" in output
    assert f"{shop.namespace}/p" in output
    assert shop.lease()["spec"]["holderIdentity"] == ""
    let_migrations_end(shop)
    code, output = job.run()
    assert code == 0, output
    assert "waiting up to" not in output
    assert len({shop.zone(node) for node in shop.nodes().values()}) == 2


@pytest.mark.packaged_modules
def test_the_step_of_a_play_that_is_gone_begins_nothing_more(shop: Shop, job: Job) -> None:
    """Only the play is killed, not its children: they notice by themselves, and a step that is under
    way gives the Lease back."""
    names = [f"q{n}" for n in range(3)]
    machines = [
        objects.virtual_machine(name, shop.namespace, annotations=ENDLESS) for name in names
    ]
    shop.start(*machines, nodes=["w1", "w2"])
    keep_machines_apart(shop, names)
    mark = shop.sandbox.audit.mark()
    process = job.start()
    process.until_line("[1/2] migrating")
    wait_next_step(shop)
    process.kill()
    process.wait(PATIENCE)

    shop.api.wait(
        lambda lease: (
            lease["spec"]["holderIdentity"] == "" and not _processes_about(str(job.folder))
        ),
        LEASE,
        PATIENCE,
    )
    let_migrations_end(shop)
    ended = shop.ended_migrations()
    assert [migration["status"]["phase"] for migration in ended] == ["Succeeded"]
    assert shop.disruptions(mark) == [("create", "virtualmachineinstancemigrations")]


def wait_next_step(shop: Shop) -> None:
    """Until the run has renewed its Lease, as each step does."""
    before = shop.lease()["spec"]["renewTime"]
    shop.api.wait(lambda lease: lease["spec"]["renewTime"] != before, LEASE, PATIENCE)


def let_migrations_end(shop: Shop) -> None:
    """Those of VMs that are ENDLESS."""
    for vmi in shop.api.list(shop.api.path("VirtualMachineInstance", shop.namespace)):
        path = shop.api.path("VirtualMachineInstance", shop.namespace, vmi["metadata"]["name"])
        shop.api.patch(path, {"metadata": {"annotations": dict.fromkeys(ENDLESS)}})


def _processes_about(text: str) -> list[str]:
    """Command lines of running processes in which `text` stands."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if text in line:
                found.append(line)
    return found
