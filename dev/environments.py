# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments and dependency collections, each made from a file of pins."""

from __future__ import annotations

import shutil
import typing as t
import zipfile
from pathlib import Path

from dev import cache
from dev.pythons import Python

HERE = Path(__file__).resolve().parent
OF_COLLECTIONS = (3, 14)
"""The Python for which the package `ansible` is downloaded. Only its data is used, so it need not be here."""

UNIVERSAL = ("main", "importer", "rulebook")
"""Environments whose pins hold for each Python from the oldest on."""

COLLECTIONS = ("kubernetes/core", "kubevirt/core")
CONTROLLER = "awx/awx"
"""The modules of the playbook controller_setup. The newest package `ansible` has them no longer."""


def pins(name: str) -> Path:
    """The pins of an environment of `UNIVERSAL`."""
    return HERE / f"requirements-{name}.txt"


def venv(name: str, python: Python, pins: Path) -> tuple[Path, bool]:
    """A virtual environment with exactly `pins`, and whether it was created now."""

    def build(place: Path) -> None:
        cache.run([python.path, "-m", "venv", place], f"{python.path} -m venv")
        pip: list[str | Path] = [
            place / "bin" / "python",
            "-m",
            "pip",
            "--disable-pip-version-check",
        ]
        pip += ["install", "--quiet", "--require-hashes", "-r", pins]
        cache.run(pip, f"pip install -r dev/{pins.name}")

    key = cache.digest(pins.read_bytes(), python.path, python.label)
    saying = f"python: installing dev/{pins.name} with Python {python.label}"
    return cache.entry(name, key, build, saying)


def collections(
    python: Path, pins: Path, names: t.Sequence[str] = COLLECTIONS
) -> tuple[Path, bool]:
    """Collections that we use, unpacked from the PyPI package `ansible`.

    Ansible Galaxy is not always reachable; a package index is. `pins` names one version of `ansible`.
    """
    pin = pins.read_text().split()[0]

    def build(place: Path) -> None:
        download = place / "download"
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "download",
            "--quiet",
        ]
        version = "--python-version={}.{}".format(*OF_COLLECTIONS)
        anywhere = ["--no-deps", "--only-binary=:all:", version]
        pip += [*anywhere, f"--dest={download}", "--require-hashes", "-r", pins]
        cache.run(pip, f"pip download {pin}")
        (wheel,) = download.glob("ansible-*.whl")
        _unpack(wheel, place, names)
        shutil.rmtree(download)

    key = cache.digest(pin, *names)
    saying = f"collections: unpacking {', '.join(names)} from {pin}"
    return cache.entry("collections", key, build, saying)


def _unpack(wheel: Path, place: Path, names: t.Sequence[str]) -> None:
    wanted = tuple(f"ansible_collections/{name}/" for name in names)
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if name.startswith(wanted)]
        archive.extractall(place, members)
    missing = [name for name in names if not (place / "ansible_collections" / name).is_dir()]
    if missing:
        raise SystemExit(f"{wheel.name} holds no collection {', '.join(missing)}")


def pinned(pins: Path, package: str) -> str:
    """The version of `package` in `pins`, for messages."""
    versions: t.Iterator[str] = (
        line.partition("==")[2].split()[0]
        for line in pins.read_text().splitlines()
        if line.lower().startswith(f"{package}==")
    )
    return next(versions, "?")


def installed(venv: Path, distribution: str) -> str:
    """The version of a distribution in an environment, for messages."""
    places = venv.glob(f"lib/python*/site-packages/{distribution}-*.dist-info")
    return next((x.stem.partition("-")[2] for x in places), "?")
