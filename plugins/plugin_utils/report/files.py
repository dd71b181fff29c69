# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of a report: each as a whole or not at all, and only where it differs."""

from __future__ import annotations

import os
import re
import tempfile
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import differs


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
            f"{kind}: {path} is the path of {other.format} too. Each format needs its own file."
            for other in files[:number]
            if other.path == path
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
    path = os.path.realpath(file.path)
    folder = os.path.dirname(path)
    content = text.encode("utf-8", "replace")
    try:
        if not differs(path, content):
            return False
        _check_folder(folder)
        if not only_check:
            _replace(folder, path, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unwritable(
            f"{file.format}: cannot write {file.path}: {reason}. Name a path that"
            " the user who runs ansible-playbook may write."
        ) from error
    return True


def _check_folder(folder: str) -> None:
    """Check mode finds the same faults."""
    if not os.path.isdir(folder):
        raise OSError(0, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(0, f"the folder {folder} is not writable")


def _replace(folder: str, path: str, content: bytes) -> None:
    """By a file beside it, which takes its name. It keeps the mode that it has, a new one is readable by all that the
    umask allows: a web server and node_exporter run as other users."""
    try:
        mode = os.stat(path).st_mode & 0o777
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    number, name = tempfile.mkstemp(prefix=".placement-", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
