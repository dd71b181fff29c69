# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file is read if it is regular, and no further than its bound."""

from __future__ import annotations

import os
import socket
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import (
    FileTooLarge,
    NoRegularFile,
    differs,
    others_may_write,
    read_json_file,
    read_regular_file,
)


def test_bytes_of_a_file_up_to_the_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"12345")
    assert read_regular_file(path, 5) == b"12345"
    with pytest.raises(FileTooLarge) as refused:
        read_regular_file(path, 4)
    assert refused.value.strerror == "it has more than 4 bytes"


def test_what_is_no_regular_file_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    types = {}
    inside = [tmp_path / name for name in ("pipe", "socket", "link")]
    for path in [Path("/dev/zero"), tmp_path, *inside]:
        with pytest.raises(NoRegularFile) as refused:
            read_regular_file(path)
        types[path.name] = refused.value.strerror
        with pytest.raises(NoRegularFile):
            differs(path, b"a")
    assert types == {
        "zero": "it is a device and no regular file",
        tmp_path.name: "it is a folder and no regular file",
        "pipe": "it is a pipe and no regular file",
        "socket": "it is a socket and no regular file",
        "link": "it is a device and no regular file",
    }


def test_link_to_a_file_is_read_unless_it_must_not(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"a")
    (tmp_path / "link").symlink_to("real")
    assert read_regular_file(tmp_path / "link") == b"a"
    with pytest.raises(NoRegularFile) as refused:
        read_regular_file(tmp_path / "link", follow_link=False)
    assert refused.value.strerror == "it is a link and no regular file"


def test_content_differs(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert differs(path, b"a")
    path.write_bytes(b"ab")
    assert differs(path, b"a")
    assert not differs(path, b"ab")
    with path.open("wb") as file:
        file.truncate(2**40)  # a terabyte that has no content
    assert differs(path, b"a")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"a": secret', "Expecting value at line 1, column 7"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"[" * 100_000, "its lists and maps are nested too deeply"),
    ],
)
def test_what_is_no_json_is_not_quoted(tmp_path: Path, content: bytes, fault: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"^{fault}$"):
        read_json_file(tmp_path / "a.json")


@pytest.mark.parametrize("value", [{"a": [1]}, None])
def test_json_file(tmp_path: Path, value: t.Any) -> None:
    (tmp_path / "a.json").write_text('{"a": [1]}' if value else "null")
    assert read_json_file(tmp_path / "a.json") == value


@pytest.mark.parametrize(
    ("mode", "group", "writable"),
    [(0o775, 1000, True), (0o775, 0, False), (0o755, 1000, False), (0o777, 0, True)],
)
def test_folder_of_a_group_is_one_that_others_may_write(
    mode: int, group: int, writable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of the group of this process: it may have other members."""
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    status = os.stat_result((0o40000 | mode, 1, 1, 1, 0, group, 0, 0, 0, 0))
    assert others_may_write(status) is writable
