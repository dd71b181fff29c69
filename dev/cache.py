# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache outside the checkout. The name of an entry is a digest of what it is made from.

An entry is a directory `<name>-<hash>`. It counts only when it contains a stamp, which is
written last: an interrupted build leaves no stamp and is built again. Builds of
one entry are serialized by a lock; programs that a build starts inherit it, so that an orphan of
a killed build still holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import typing as t
from pathlib import Path

STAMP = ".complete"


def root() -> Path:
    """Where the cache is: VIRT_PLACEMENT_CACHE, else the user's cache directory."""
    named = os.environ.get("VIRT_PLACEMENT_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base).absolute() / "virt-placement"


def digest(*parts: str | bytes) -> str:
    """Twelve characters that change when any part changes."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(f"{len(data)}:".encode() + data)
    return total.hexdigest()[:12]


def path(name: str, key: str) -> Path:
    return root() / f"{name}-{key}"


def is_complete(entry: Path) -> bool:
    """A stamp names its own place: a cache that was moved is not trusted (venvs hold paths)."""
    try:
        return (entry / STAMP).read_text() == str(entry)
    except OSError:
        return False


@contextlib.contextmanager
def lock(name: str) -> t.Iterator[None]:
    """Only one process of this user at a time, across checkouts."""
    folder = root() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as handle:
        os.set_inheritable(handle.fileno(), True)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def entry(
    name: str, key: str, build: t.Callable[[Path], None], saying: str | None = None
) -> tuple[Path, bool]:
    """The complete entry and whether it was built now; `build` fills the empty directory.

    `saying` is printed before a build, since one may take minutes.
    """
    place = path(name, key)
    if is_complete(place):
        return place, False
    with lock(place.name):
        if is_complete(place):
            return place, False
        if saying:
            print(saying, flush=True)
        if place.exists():
            shutil.rmtree(place)
        place.mkdir(parents=True)
        build(place)
        (place / STAMP).write_text(str(place))
    return place, True


def run(
    command: t.Sequence[str | Path], what: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one step of a build quietly; on failure say which step, with the end of its output."""
    done = subprocess.run(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
        close_fds=False,
        check=False,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise SystemExit(f"{what} failed (exit {done.returncode}):\n{tail}")
    return done
