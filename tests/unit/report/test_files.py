# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of a report are written as a whole, only where they differ, and a path that cannot be written is named."""

from __future__ import annotations

import errno
import os
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils.report.files import (
    ReportFile,
    Unwritable,
    faults_of_paths,
    write_file,
)


def test_two_formats_do_not_go_to_one_file_by_links(tmp_path: Path) -> None:
    """Both were called written, and the second one had overwritten the first."""
    for name in ("a.html", "b.xml"):
        (tmp_path / name).symlink_to("report")
    files = [ReportFile("html", f"{tmp_path}/a.html"), ReportFile("junit", f"{tmp_path}/b.xml")]
    assert faults_of_paths(files, "a", ["a"]) == [
        f"junit: {tmp_path}/b.xml is the path of html too, by a link. Each format needs its own file."
    ]


def test_file_is_written_once(tmp_path: Path) -> None:
    file = ReportFile("html", str(tmp_path / "page.html"))

    assert write_file(file, "é", only_check=True)
    assert list(tmp_path.iterdir()) == []
    assert write_file(file, "é", only_check=False)
    assert not write_file(file, "é", only_check=False)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page.html", "é")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_full_disk_is_no_wrong_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The advice was another path. The old file stays."""
    path = tmp_path / "page.html"
    path.write_text("old")

    def full(*_arguments: t.Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchmod", full)
    with pytest.raises(Unwritable) as refused:
        write_file(ReportFile("html", str(path)), "new", only_check=False)
    assert str(refused.value).endswith(f"{os.strerror(number)}. Free space there.")
    assert [x.read_text() for x in tmp_path.iterdir()] == ["old"]


def test_new_file_is_readable_as_the_umask_allows(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    before = os.umask(0o027)
    try:
        write_file(ReportFile("html", str(path)), "a", only_check=False)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640

    path.chmod(0o604)
    write_file(ReportFile("html", str(path)), "b", only_check=False)
    assert path.stat().st_mode & 0o777 == 0o604


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "page.html").symlink_to(tmp_path / "real.html")
    write_file(ReportFile("html", str(tmp_path / "page.html")), "a", only_check=False)

    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "a"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that others may write, as /tmp is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.parametrize("only_check", [True, False])
@pytest.mark.parametrize("name", ["page.html", "folder/page.html", "folder/../page.html"])
def test_link_in_a_folder_that_others_may_write_is_not_followed(
    tmp_path: Path, shared: Path, name: str, only_check: bool
) -> None:
    """Another user has a report of root replace any file of root."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "page.html").write_text("secret")
    (tmp_path / "page.html").write_text("secret")
    link = shared / name.split("/")[0]
    link.symlink_to(tmp_path / ("private" if "/" in name else "page.html"))

    with pytest.raises(Unwritable) as refused:
        write_file(ReportFile("html", str(shared / name)), "a", only_check=only_check)

    assert str(refused.value).endswith(
        f"{link} is a link in a folder that others may write. Name a regular file, or a new one, in a folder that"
        " others may not write."
    )
    assert (tmp_path / "page.html").read_text() == "secret"
    assert (tmp_path / "private" / "page.html").read_text() == "secret"
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o666, 0o644), (0o4755, 0o644), (0o600, 0o600), (0o662, 0o640)]
)
def test_file_is_writable_for_its_owner_alone(shared: Path, mode: int, kept: int) -> None:
    path = shared / "page.html"
    path.write_text("before")
    path.chmod(mode)

    write_file(ReportFile("html", str(path)), "a", only_check=False)

    assert (path.read_text(), oct(path.stat().st_mode & 0o7777)) == ("a", oct(kept))
    assert [x.name for x in shared.iterdir()] == ["page.html"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_file_of_another_user_is_replaced_and_its_mode_with_it(shared: Path) -> None:
    path = shared / "page.html"
    path.write_text("before")
    path.chmod(0o622)
    os.chown(path, 12345, 12345)
    with path.open() as theirs:
        write_file(ReportFile("html", str(path)), "a", only_check=False)
        assert theirs.read() == "before"

    status = path.stat()
    assert (status.st_uid, oct(status.st_mode & 0o777)) == (0, oct(0o644 & ~umask()))


def umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


@pytest.mark.parametrize(
    ("name", "only_check"),
    [
        ("missing/page.html", True),
        ("missing/page.html", False),
        ("file/page.html", True),
        ("file/page.html", False),
        ("long" * 100, False),
    ],
)
def test_path_that_cannot_be_written_is_named(tmp_path: Path, name: str, only_check: bool) -> None:
    (tmp_path / "file").write_text("")
    path = str(tmp_path / name)
    with pytest.raises(Unwritable) as refused:
        write_file(ReportFile("html", path), "a", only_check=only_check)

    assert str(refused.value).startswith(f"html: cannot write {path}: ")
    assert sorted(x.name for x in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("only_check", [True, False])
def test_device_is_no_path_of_a_report(tmp_path: Path, only_check: bool) -> None:
    """Reading what is there already had no end."""
    (tmp_path / "page.html").symlink_to("/dev/zero")
    with pytest.raises(Unwritable) as refused:
        write_file(ReportFile("html", str(tmp_path / "page.html")), "a", only_check=only_check)

    assert "page.html: it is a device and no regular file. Name a regular file" in str(
        refused.value
    )
    assert [x.name for x in tmp_path.iterdir()] == ["page.html"]


ADVICE = "Put '{{ inventory_hostname }}' into the path as a word of its own, so that each cluster has its own file."
SAME = f"would write /r/page.html. {ADVICE}"


@pytest.mark.parametrize(
    ("files", "hosts", "faults"),
    [
        ([("html", "/r/a.html"), ("prometheus", "/r/a.prom")], ["a"], []),
        ([("html", "a.html")], ["a"], ["html: must be an absolute path, but is 'a.html'."]),
        ([("html", "/")], ["a"], ["html: / is a folder. Name a file in it."]),
        (
            [("prometheus", "/r/a.txt")],
            ["a"],
            ["prometheus: /r/a.txt must end in .prom, since node_exporter reads no other files."],
        ),
        (
            [("html", "/r/a"), ("junit", "/r/a")],
            ["a"],
            ["junit: /r/a is the path of html too. Each format needs its own file."],
        ),
        ([("html", "/r/a.html")], ["a", "b"], []),
        ([("html", "/r/page.html")], ["a", "b"], [f"html: 2 hosts {SAME}"]),
        (
            [("html", "/r/prod-eu.html")],
            ["prod", "prod-eu"],
            [f"html: 2 hosts would write /r/prod-eu.html. {ADVICE}"],
        ),
        ([("html", "/r/prod-eu.html")], ["prod-eu", "prod"], []),
        ([("html", "/r/prod-eu/prod.html")], ["prod", "prod-eu"], []),
        ([("html", "/r/placement-prod_page.html")], ["prod", "lab"], []),
        (
            [("html", "/r/page.html")],
            ["prod", "lab"],
            [f"html: 2 hosts {SAME}"],
        ),
    ],
)
def test_faults_of_paths(
    files: list[tuple[str, str]], hosts: list[str], faults: t.Sequence[str]
) -> None:
    assert faults_of_paths([ReportFile(*file) for file in files], hosts[0], hosts) == faults
