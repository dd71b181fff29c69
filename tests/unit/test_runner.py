# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs the suites: statuses, output, which steps run side by side, and cases by chance."""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
import time

import pytest

from dev import commands, prepare, real, releases, steps, test
from sandbox.binaries import BinariesError
from sandbox.real_nodes import files, ground
from sandbox.releases import RELEASES, VARIABLE


def shell(script: str) -> commands.Command:
    return commands.Command("step", ["sh", "-c", script])


def test_run_returns_the_status_and_all_output() -> None:
    shown: list[str] = []

    outcome = commands.run(shell("echo one; echo two >&2; exit 3"), shown.append)

    assert (outcome.status, outcome.output) == (3, "one\ntwo\n")
    assert shown == ["one\n", "two\n"]


def test_run_does_not_wait_for_processes_that_keep_the_output_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "_REST_SECONDS", 0.2)
    began = time.monotonic()

    outcome = commands.run(shell("sleep 60 & echo $!"))

    os.kill(int(outcome.output), signal.SIGTERM)
    assert outcome.status == 0
    assert time.monotonic() - began < 30


def test_a_last_line_without_an_end_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    commands.print_now("one\n")
    commands.print_now("two")

    assert capsys.readouterr().out == "one\ntwo\n"


def test_each_step_runs_once_and_those_with_control_planes_before_what_measures() -> None:
    names = [step.name for step in test.steps()]

    stages = test.stages(names)

    assert sorted(name for stage in stages for name in stage) == sorted(names)
    assert [stage for stage in stages if len(stage) > 1] == [
        list(test.WITH_UNIT_TESTS),
        list(test.WITH_SANDBOX),
    ]
    assert stages[-2:] == [["bench"], ["rights"]]


def test_queued_command_does_not_begin_once_sigterm_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(commands, "_ending", ending)

    with pytest.raises(SystemExit):
        commands.run(commands.Command("never", ["false"]))


def test_real_nodes_that_cannot_be_set_up_are_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(real, "left_out", lambda: "real nodes need root")
    (step,) = (step for step in test.steps() if step.name == "real")

    result = test.run_or_leave_out(step, labelled=True)
    steps.print_line(result)

    assert (result.status, steps.counts_of(result)) == (0, steps.Counts())
    assert capsys.readouterr().out.splitlines()[-1] == "real         left out: real nodes need root"


@pytest.mark.parametrize(("lacking", "status"), [([], 1), (["real nodes need root"], 0)])
def test_build_of_real_nodes_that_fails_is_a_failure_unless_they_are_left_out(
    monkeypatch: pytest.MonkeyPatch, lacking: list[str], status: int
) -> None:
    def fail(say: object) -> None:
        raise BinariesError("go build failed: no module x\nmore lines")

    monkeypatch.setattr(real, "end_with_us", lambda: None)
    monkeypatch.setattr(ground, "survey", lambda: None)
    monkeypatch.setattr(ground, "lacking", lambda facts: lacking)
    monkeypatch.setattr(files, "build", fail)

    assert real.main() == status
    assert real.left_out() == "".join(lacking)


def test_each_file_of_modules_is_in_one_step() -> None:
    known = {step.name: [str(x) for x in step.arguments] for step in test.steps()}
    files = [x for name in ("modules", "moves") for x in known[name] if x.startswith("tests/")]

    there = (commands.CHECKOUT / "tests" / "modules").glob("test_*.py")
    assert sorted(files) == sorted(str(path.relative_to(commands.CHECKOUT)) for path in there)


def test_chosen_steps_run_beside_each_other_too() -> None:
    assert test.stages(["lint", "modules", "integration", "rights"]) == [
        ["lint"],
        ["modules", "integration"],
        ["rights"],
    ]
    assert test.stages(["lint", "modules"]) == [["lint"], ["modules"]]


DRAWS = """
from hypothesis import given, settings, strategies

@settings(max_examples=5, database=None)
@given(strategies.integers(0, 10**9))
def test_drawn(number):
    print("drawn", number)
"""


def test_another_seed_makes_other_examples_and_the_same_one_the_same(
    tmp_path: pathlib.Path,
) -> None:
    pytest.importorskip("hypothesis")
    (tmp_path / "test_draws.py").write_text(DRAWS)

    first, again, other = (_drawn(tmp_path, seed) for seed in ("1", "1", "7"))

    assert first == again
    assert len({*first, *other}) > len({*first})


def _drawn(folder: pathlib.Path, seed: str) -> list[str]:
    arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "tests.conftest", str(folder)]
    env = commands.environment(PLACEMENT_SEED=seed)
    outcome = commands.run(
        commands.Command("draws", [sys.executable, "-m", "pytest", *arguments], env)
    )
    assert outcome.status == 0, outcome.output
    return [line for line in outcome.output.splitlines() if "drawn" in line]


ENDLESS = """
import time
from hypothesis import given, strategies

def test_endless():
    while True:
        pass

@given(strategies.integers())
def test_endless_property(number):
    while True:
        pass

@given(strategies.integers())
def test_slow_examples(number):
    time.sleep(0.25 if number == 0 else 0)

def test_slow():
    time.sleep(1.5)
"""


def test_test_that_computes_without_end_fails_alone_and_one_that_waits_does_not(
    tmp_path: pathlib.Path,
) -> None:
    pytest.importorskip("hypothesis")
    (tmp_path / "test_times.py").write_text(ENDLESS)

    arguments = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", str(tmp_path)]
    arguments.append("--override-ini=processor_seconds=1")
    outcome = commands.run(commands.Command("times", [sys.executable, "-m", "pytest", *arguments]))

    lines = outcome.output.splitlines()
    assert lines[-1].startswith("2 failed, 2 passed"), outcome.output
    failed = [line.partition(" - ")[0] for line in lines if line.startswith("FAILED")]
    assert [name.rpartition("::")[2] for name in failed] == [
        "test_endless",
        "test_endless_property",
    ]


def test_program_of_the_sandbox_runs_from_any_folder(tmp_path: pathlib.Path) -> None:
    """It is on the PATH that `make sandbox-up` prints."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("sandbox", "galaxy.yml", ".venv"):
        (folder / name).symlink_to(commands.CHECKOUT / name)
    prepare.write_sandbox_program(folder)
    prepare.write_sandbox_program(folder)

    (program,) = (folder / "build" / "bin").iterdir()
    assert program.name == "virt-placement-sandbox"
    outcome = commands.run(commands.Command("program", [program, "--version"], folder=tmp_path))
    assert outcome.status == 0, outcome.output
    makefile = (commands.CHECKOUT / "Makefile").read_text()
    assert 'export PATH="$(CURDIR)/build/bin:$(CURDIR)/.venv/bin:$$PATH"' in makefile


def test_summary_of_releases_has_a_line_for_each_pair(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    def ran(step: steps.Step, labelled: bool) -> steps.Result:
        assert step.arguments[-4:] == list(releases.SUITES)
        assert step.variables[VARIABLE] == step.name
        return steps.Result(step, int(step.name == "1.34+1.7"), 300.0)

    report = """<testsuites><testsuite tests="3" failures="1"><testcase name="a"/>
    <testcase classname="tests.x" name="b"><failure/></testcase><testcase name="c"/></testsuite></testsuites>"""
    (tmp_path / "1.34+1.7.xml").write_text(report)
    monkeypatch.setattr(steps, "REPORTS", tmp_path)
    monkeypatch.setattr(releases, "REPORTS", tmp_path)
    monkeypatch.setattr(releases, "run_step", ran)
    monkeypatch.setattr(releases, "retry", lambda result: result)
    monkeypatch.setattr(releases, "is_built", lambda release: release.kubevirt != "1.4.0")
    monkeypatch.setattr(
        releases, "why_not_built", lambda release: f"RELEASE {release.name} cannot be built: no x"
    )
    monkeypatch.setattr(releases, "end_with_us", lambda: None)
    monkeypatch.delenv(VARIABLE, raising=False)

    assert releases.main([]) == 1
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines if "failed:" not in line] == list(RELEASES)
    assert "1.31+1.6     ok        300 s  1 passed, 0 failed" in lines
    assert "1.34+1.7     FAILED    300 s  2 passed, 1 failed" in lines
    assert "             failed: tests.x::b" in lines
    assert any(line.endswith("RELEASE 1.31+1.4 cannot be built: no x") for line in lines)
    assert releases.main(["1.36+1.8"]) == 0
    assert releases.main(["1.30+1.2"]) == 2
    assert "known are 1.36+1.8" in capsys.readouterr().err


def test_the_oldest_pair_is_tried_with_each_change_or_those_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(releases.PAIRS, raising=False)
    assert _of_pairs() == {
        "programs": ["-m", "dev.releases", "--build", "1.31+1.4"],
        "pairs": ["-m", "dev.releases", "--smoke", "1.31+1.4"],
    }
    monkeypatch.setenv(releases.PAIRS, "1.36+1.4 1.31+1.6")
    assert _of_pairs()["pairs"][-2:] == ["1.36+1.4", "1.31+1.6"]
    monkeypatch.setenv(releases.PAIRS, "")
    assert not _of_pairs()
    monkeypatch.setenv(releases.PAIRS, "1.30+1.2")
    monkeypatch.setattr(sys, "argv", ["test"])
    with pytest.raises(SystemExit, match=r"^VIRT_PLACEMENT_PAIRS: no RELEASE 1\.30\+1\.2; known"):
        test.main()


def _of_pairs() -> dict[str, list[str]]:
    return {
        step.name: [str(argument) for argument in step.arguments[1:]]
        for step in test.steps()
        if step.name in {"programs", "pairs"}
    }


def test_the_smoke_of_a_pair_is_a_part_of_its_tour() -> None:
    for place in releases.SMOKE:
        file, name = place.split("::")
        text = (commands.CHECKOUT / file).read_text()
        assert f"@pytest.mark.tour\ndef {name}(" in text
