# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of a report: each as a whole or not at all, and only where it differs."""

from __future__ import annotations

import errno
import os
import re
import secrets
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import (
    NoRegularFile,
    differs,
    path_without_links,
)


class ReportFile(t.NamedTuple):
    """A format of the report, and the absolute path that it goes to."""

    format: str
    path: str


class Unwritable(OSError):
    """A file cannot be written. The text says which one, why, and what to do."""


def faults_of_paths(
    files: t.Sequence[ReportFile], host: str, hosts: t.Collection[str]
) -> list[str]:
    """Everything that is wrong with the paths, before anything is written. `hosts` are all of the play."""
    faults = []
    for number, (kind, path) in enumerate(files):
        if not os.path.isabs(path):
            faults.append(f"{kind}: must be an absolute path, but is {path!r}.")
        if path.endswith("/") or os.path.isdir(path):
            faults.append(f"{kind}: {path} is a folder. Name a file in it.")
        if kind == "prometheus" and not path.endswith(".prom"):
            faults.append(
                f"prometheus: {path} must end in .prom, since node_exporter reads no other files."
            )
        faults += [
            f"{kind}: {path} is the path of {other.format} too{'' if other.path == path else ', by a link'}."
            " Each format needs its own file."
            for other in files[:number]
            if os.path.realpath(other.path) == os.path.realpath(path)
        ]
        if len(hosts) > 1 and not _names_host(path, host, hosts):
            faults.append(
                f"{kind}: {len(hosts)} hosts would write {path}. Put '{{{{ inventory_hostname }}}}'"
                " into the path as a word of its own, so that each cluster has its own file."
            )
    return faults


def _names_host(path: str, host: str, hosts: t.Collection[str]) -> bool:
    """Whether the path has the name of the host as a word, and not as a part of another word or of the name of another
    host: `prod` is in neither reproduced.html nor prod-eu.html."""
    for name in sorted((x for x in hosts if x != host and host in x), key=len, reverse=True):
        path = re.sub(_word(name), "", path)
    return re.search(_word(host), path) is not None


def _word(name: str) -> str:
    return rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"


def write_file(file: ReportFile, text: str, *, only_check: bool) -> bool:
    """Whether the file differs from the text, and so was written, or with `only_check` would be. A reader never sees
    half of a file. Raises Unwritable."""
    content = text.encode("utf-8", "replace")
    try:
        path = path_without_links(file.path)
        if not differs(path, content, follow_link=False):
            return False
        _check_folder(os.path.dirname(path))
        if not only_check:
            _replace(path, content)
    except OSError as error:
        advice = (
            "Name a regular file, or a new one, in a folder that others may not write"
            if isinstance(error, NoRegularFile)
            else "Free space there"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "Name a path that the user who runs ansible-playbook may write"
        )
        raise Unwritable(
            f"{file.format}: cannot write {file.path}: {error.strerror or error}. {advice}."
        ) from error
    return True


def _check_folder(folder: str) -> None:
    """Check mode finds the same faults."""
    if not os.path.isdir(folder):
        raise OSError(0, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(0, f"the folder {folder} is not writable")


def _replace(path: str, content: bytes) -> None:
    """By a new file beside it, which takes its name. The folder is opened once: others may exchange it meanwhile."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    new, name = f".placement-{secrets.token_hex(8)}", os.path.basename(path)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = os.open(new, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(number, "wb") as file:
                os.fchmod(number, _mode(name, folder))
                file.write(content)
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(new, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _mode(name: str, folder: int) -> int:
    """A file of this user keeps its mode, a new one is readable by all that the umask allows: a web server and
    node_exporter run as other users. Neither is writable for others."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if status.st_uid == os.geteuid():
            return status.st_mode & 0o644
    except OSError:
        pass
    umask = os.umask(0o077)
    os.umask(umask)
    return 0o644 & ~umask
