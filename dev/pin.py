# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve dev/*.in anew and write the pins with their hashes: python -m dev.pin [--only NAME].

A pin has the hash of each file that the index has of its version: wheels of other platforms and the
source, too. pip installs a file only if its hash is among them (`--require-hashes`). `--only hashes`
keeps all versions; it is for the files that no `.in` file describes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from dev import cache, environments, matrix, pythons

Version = tuple[int, int]

MAIN: tuple[Version, ...] = ((3, 10), (3, 11), (3, 12))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["main", "importer", "rulebook", "unit", "hashes"])
    only = parser.parse_args().only
    for place, version, arguments in _described():
        if only == "hashes" or only not in (None, _part(place)):
            continue
        python = pythons.find(version)
        if python is None:
            print(f"{place.name}: left as it is, no Python {version[0]}.{version[1]} here")
            continue
        place.write_text(_resolve(python, arguments))
        print(f"{place.name}: {place.read_text().count('==')} pins")
    return _hash_again() if only == "hashes" else 0


def _described() -> t.Iterator[tuple[Path, Version, list[str]]]:
    """Each file that a `.in` file describes, its Python, and what pip resolves for it."""
    for name in ("main", "importer", "rulebook"):
        source = environments.HERE / f"requirements-{name}.in"
        for version in MAIN:
            place = environments.HERE / "requirements-{}-{}.{}.txt".format(name, *version)
            yield place, version, ["-r", str(source)]
    source = environments.HERE / "requirements-unit.in"
    for release in matrix.RELEASES:
        versions = [f"ansible-core~={release.core}.0", f"kubernetes=={release.kubernetes}"]
        yield release.pins, release.python, ["-r", str(source), *versions]


def _part(place: Path) -> str:
    return place.name.split("-")[1]


def _hash_again() -> int:
    python = pythons.preferred()
    if python is None:
        print(pythons.NONE_FOUND, file=sys.stderr)
        return 1
    versions = {place: version for place, version, _arguments in _described()}
    with tempfile.TemporaryDirectory() as folder:
        _environment(python, folder)
        for place in sorted(environments.HERE.glob("requirements-*.txt")):
            any_other = (
                environments.OF_COLLECTIONS if _part(place) == "collections" else python.version
            )
            version = versions.get(place, any_other)
            place.write_text(_with_hashes(folder, version, place.read_text()))
            print(f"{place.name}: {place.read_text().count('==')} pins")
    return 0


def _resolve(python: pythons.Python, arguments: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        pip = _environment(python, folder)
        cache.run([*pip, "install", "--quiet", *arguments], f"pip install {' '.join(arguments)}")
        frozen = subprocess.run([*pip, "freeze"], capture_output=True, text=True, check=True)
        return _with_hashes(folder, python.version, frozen.stdout)


def _environment(python: pythons.Python, folder: str) -> list[str]:
    """A virtual environment in `folder`; returns the command that runs its pip."""
    cache.run([python.path, "-m", "venv", folder], "venv")
    return [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]


def _with_hashes(folder: str, version: Version, pins: str) -> str:
    """The same pins for a Python, each with the hashes that the index has. uv reads them from the index,
    where pip would have to download all files. It goes into the environment in `folder`."""
    bin_ = Path(folder, "bin")
    cache.run([bin_ / "python", "-m", "pip", "install", "--quiet", "uv"], "pip install uv")
    options = ["--quiet", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]
    options.append("--python-version={}.{}".format(*version))
    command = [str(bin_ / "uv"), "pip", "compile", *options, "-"]
    done = subprocess.run(command, input=pins, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv pip compile failed (exit {done.returncode}):\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
