# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sandbox as a package for other projects, and the clusters and directories that its command names."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest

from sandbox import __main__ as command
from sandbox import cluster_file, installation, layout
from sandbox.packaging import sandbox_wheel
from sandbox.releases import DEFAULT

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = "virt_placement_sandbox"


@pytest.fixture
def wheel(tmp_path: Path) -> dict[str, bytes]:
    """The files of the wheel."""
    name = sandbox_wheel.build_wheel(str(tmp_path))
    with zipfile.ZipFile(tmp_path / name) as archive:
        return {member: archive.read(member) for member in archive.namelist()}


def test_package_has_all_that_the_sandbox_reads(wheel: dict[str, bytes]) -> None:
    for folder, inside in ((CHECKOUT / "sandbox", PACKAGE), (CHECKOUT / "rbac", f"{PACKAGE}/rbac")):
        for file in folder.rglob("*"):
            name = file.relative_to(folder)
            if file.is_file() and not {"__pycache__", "packaging", "pyproject.toml"} & {
                *name.parts
            }:
                assert wheel.pop(f"{inside}/{name.as_posix()}") == file.read_bytes()
    assert {Path(name).parent.suffix for name in wheel} == {".dist-info"}


def test_package_has_the_version_of_the_collection(wheel: dict[str, bytes]) -> None:
    version = installation.version()
    info = f"{PACKAGE}-{version}.dist-info"
    assert f"\nversion: {version}\n" in (CHECKOUT / "galaxy.yml").read_text()
    assert f"\nVersion: {version}\n" in wheel[f"{info}/METADATA"].decode()
    entry = "virt-placement-sandbox = virt_placement_sandbox.__main__:main"
    assert entry in wheel[f"{info}/entry_points.txt"].decode()


def test_record_of_the_package_names_each_file(wheel: dict[str, bytes]) -> None:
    (name,) = (name for name in wheel if name.endswith("/RECORD"))
    rows = {row[0]: row[1:] for row in csv.reader(wheel[name].decode().splitlines())}
    assert set(rows) == set(wheel)
    for file, (digest, size) in rows.items():
        if file != name:
            raw = hashlib.sha256(wheel[file]).digest()
            assert digest == "sha256=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")
            assert int(size) == len(wheel[file])


def test_package_imports_itself_by_no_absolute_name() -> None:
    """It is `sandbox` in a checkout, and virt_placement_sandbox where pip installed it."""
    absolute = re.compile(r"^\s*(?:from|import) sandbox\b", re.M)
    files = list((CHECKOUT / "sandbox").rglob("*.py"))
    named = {file.name for file in files if absolute.search(file.read_text())}
    assert files
    assert named == {"binaries.py"}  # for type checkers alone


def test_package_asks_for_what_it_imports() -> None:
    sources = "".join(file.read_text() for file in (CHECKOUT / "sandbox").rglob("*.py"))
    imported = set(
        re.findall(r"^(?:from|import) (aiohttp|cryptography|requests|yaml)\b", sources, re.M)
    )
    wanted = {re.split("[><]", each)[0].lower() for each in sandbox_wheel.REQUIRES}
    assert wanted == imported - {"yaml"} | {"pyyaml"}


@pytest.mark.parametrize(
    ("nodes", "zones", "of"),
    [
        (6, 3, ["zone1", "zone1", "zone2", "zone2", "zone3", "zone3"]),
        (3, 2, ["zone1", "zone1", "zone2"]),
        (1, 1, ["zone1"]),
        (2, 0, [None, None]),
    ],
)
def test_cluster_of_numbers(nodes: int, zones: int, of: list[str | None]) -> None:
    cluster = cluster_file.load(cluster_file.numbered(nodes, zones))
    assert [node.name for node in cluster.nodes] == [f"w{n}" for n in range(1, nodes + 1)]
    assert [node.labels.get(cluster_file.ZONE) for node in cluster.nodes] == of
    assert cluster.configuration["evictionStrategy"] == "LiveMigrate"


@pytest.mark.parametrize(("nodes", "zones"), [(0, 0), (2, 3), (3, -1)])
def test_impossible_numbers_are_refused(nodes: int, zones: int) -> None:
    with pytest.raises(cluster_file.ClusterFileError, match="at most as many zones as nodes"):
        cluster_file.numbered(nodes, zones)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--zones=3"], "--zones needs --nodes"),
        (["--nodes=3", "--cluster=six"], "leave out --nodes and --zones"),
        (["--nodes=3", "--zones=4"], "at most as many zones as nodes"),
        (["--cluster=seven"], "no cluster seven"),
    ],
)
def test_wrong_options_are_named(
    options: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["sandbox", "up", *options])
    assert command.main() == 1
    assert message in capsys.readouterr().err


def test_down_without_options_ends_all_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(layout, "root", lambda: tmp_path / "root")
    monkeypatch.setattr(installation, "owner", lambda: tmp_path / "mine")
    mine = [layout.directory_of_owner(name) for name in ("6-nodes-3-zones", "six")]
    other = layout.directory_of_owner("six", tmp_path / "other")
    for directory in (*mine, other):
        directory.mkdir(parents=True)
        state = {"cluster": "six", "ports": {}, "programs": "/", "release": DEFAULT.name}
        (directory / "sandbox.json").write_text(json.dumps(state))
    monkeypatch.setattr("sys.argv", ["sandbox", "down"])
    assert command.main() == 0
    assert [directory.exists() for directory in (*mine, other)] == [False, False, True]
    printed = capsys.readouterr().err
    assert all(f"{directory}: ended nothing" in printed for directory in mine)
