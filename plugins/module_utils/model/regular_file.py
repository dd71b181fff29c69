# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a regular file of bounded size hold? A device, a pipe or a socket is refused: it may have no end."""

from __future__ import annotations

import errno
import json
import os
import stat
import typing as t

MOST_BYTES = 32 * 2**20
"""The largest file that is read."""

_TYPES: t.Mapping[int, str] = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link",
}


class NoRegularFile(OSError):
    """A path of something else than a regular file; `strerror` says of what."""


class FileTooLarge(OSError):
    """A file with more bytes than are read; `strerror` says how many these are."""


def read_regular_file(
    path: str | os.PathLike[str], most_bytes: int = MOST_BYTES, *, follow_link: bool = True
) -> bytes:
    """All bytes of a regular file. Raises NoRegularFile before anything else is opened, FileTooLarge, and OSError.
    `follow_link=False`: a link is no regular file, either."""
    _require_regular(os.stat(path, follow_symlinks=follow_link))
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow_link else flags | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        _require_regular(os.fstat(descriptor))  # another one may have taken its path
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FileTooLarge(errno.EFBIG, f"it has more than {_size(most_bytes)}")
    return content


def path_without_links(path: str | os.PathLike[str]) -> str:
    """An absolute path with each link of it followed. What is not there yet is kept as it is. Raises NoRegularFile for
    a link in a folder that others may write, since it may lead to any file of this user, and OSError."""
    here, parts, links = "/", os.fspath(path).split("/"), 0
    while parts:
        part = parts.pop(0)
        if part == "..":
            here = os.path.dirname(here)
        if part in ("", ".", ".."):
            continue
        there = os.path.join(here, part)
        try:
            is_link = stat.S_ISLNK(os.lstat(there).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return os.path.join(there, *parts)
        if not is_link:
            here = there
            continue
        if others_may_write(os.stat(here)):
            text = f"{there} is a link in a folder that others may write"
            raise NoRegularFile(errno.ELOOP, text)
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(there)
        here = "/" if target.startswith("/") else here
        parts = [*target.split("/"), *parts]
    return here


_MOST_LINKS = 40
"""As Linux follows in one path."""


def others_may_write(status: os.stat_result) -> bool:
    """Whether other users than root and this one may write a folder."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != 0
    foreign = status.st_uid not in (0, os.geteuid())
    return bool(status.st_mode & stat.S_IWOTH or by_group or foreign)


def differs(path: str | os.PathLike[str], content: bytes, *, follow_link: bool = True) -> bool:
    """Whether a path has other content, or nothing yet. No more is read than the content has. Raises NoRegularFile."""
    try:
        return read_regular_file(path, len(content), follow_link=follow_link) != content
    except NoRegularFile:
        raise
    except OSError:
        return True


def read_json_file(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> t.Any:
    """The value of a JSON file at an absolute path. Raises OSError, also for a link in a folder that others may write,
    and ValueError for what is no JSON; neither quotes the file."""
    content = read_regular_file(path_without_links(path), most_bytes, follow_link=False)
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not {error.encoding.upper()}") from None
    except RecursionError:
        raise ValueError("its lists and maps are nested too deeply") from None


def _require_regular(status: os.stat_result) -> None:
    """Raises NoRegularFile."""
    file_type = stat.S_IFMT(status.st_mode)
    if file_type != stat.S_IFREG:
        what = _TYPES.get(file_type, "something else")
        raise NoRegularFile(errno.EINVAL, f"it is {what} and no regular file")


def _size(number: int) -> str:
    return f"{number // 2**20} MiB" if number % 2**20 == 0 and number else f"{number} bytes"
