# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is published, as a user has it: the archive in an empty folder, on each ansible-core of dev/matrix.py."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
import yaml

from demos.stage import Stage
from dev import importer
from dev.commands import Command, environment, run
from dev.matrix import RELEASES, Prepared, Release, prepare_release
from sandbox import Sandbox
from tests.jobs.test_examples import create_shop

RULES = [
    {"name": "web-one-per-node", "workloads": ["web-1", "web-2", "web-3"], "keep_apart": "node"}
]

IDENTITY_OF = {"verify": "reader", "report": "reader", "apply": "mover"}


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with Sandbox.start("article") as sandbox:
        stage = Stage(sandbox, "shop", quiet=True)
        create_shop(stage)
        yield stage


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return importer.build(tmp_path_factory.mktemp("archive"))


@pytest.mark.packaged_modules
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.core)
def test_archive_verifies_reports_and_shows_what_rules_would_do(
    stage: Stage, archive: Path, release: Release, tmp_path: Path
) -> None:
    prepared = prepare_release(release)
    if prepared is None:
        pytest.skip(f"no Python {release.python_label} here")
    install(archive, prepared, tmp_path)
    mark = stage.sandbox.audit.mark()

    verified = play(stage, prepared, tmp_path, "verify", {"placement_verify_namespaces": ["shop"]})
    assert "web-1" in verified

    page = tmp_path / "report.md"
    report = {"placement_report_namespaces": ["shop"], "placement_report_markdown": str(page)}
    play(stage, prepared, tmp_path, "report", report)
    assert "All 5 VMs run where" in page.read_text()

    rules = {"placement_apply_namespace": "shop", "placement_apply_rules": RULES}
    applied = play(stage, prepared, tmp_path, "apply", rules, "--check", "--diff")
    assert "changed=1 " in applied, applied
    assert stage.sandbox.audit.writes(since=mark) == []


def install(archive: Path, prepared: Prepared, place: Path) -> None:
    """The archive alone: its dependency is in a folder of its own, and no package index is asked."""
    arguments: list[str | Path] = ["collection", "install", archive, "--offline", "--no-deps"]
    outcome = run(
        Command(
            "install",
            [prepared.venv / "bin" / "ansible-galaxy", *arguments, "-p", place / "collections"],
            surroundings(prepared, place),
            place,
        )
    )
    assert outcome.status == 0, outcome.output


def play(
    stage: Stage,
    prepared: Prepared,
    place: Path,
    playbook: str,
    variables: dict[str, t.Any],
    *flags: str,
) -> str:
    """What a playbook of the archive prints, as a user runs it who has the rights of a shipped role."""
    file = place / f"{playbook}.yml"
    file.write_text(yaml.safe_dump(variables))
    program = prepared.venv / "bin" / "ansible-playbook"
    outcome = run(
        Command(
            playbook,
            [program, f"virt.placement.{playbook}", "-e", f"@{file}", *flags],
            surroundings(
                prepared, place, KUBECONFIG=str(stage.sandbox.kubeconfig(IDENTITY_OF[playbook]))
            ),
            place,
        )
    )
    assert outcome.status == 0, outcome.output
    return outcome.output


def surroundings(prepared: Prepared, place: Path, **more: str) -> dict[str, str]:
    """The environment of a shell in which nothing of the checkout can be found."""
    kept = {
        name: value
        for name, value in environment().items()
        if not name.startswith(("ANSIBLE_", "PYTHON"))
    }
    return {
        **kept,
        "ANSIBLE_COLLECTIONS_PATH": f"{place / 'collections'}{os.pathsep}{prepared.collections}",
        "ANSIBLE_HOME": str(place / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "PATH": f"{prepared.venv / 'bin'}{os.pathsep}{os.defpath}",
        **more,
    }
