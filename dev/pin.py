# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve dev/*.in anew and write the pins with their hashes: python -m dev.pin [--only NAME].

One file holds for each Python from the oldest on: a pin that is for some of them has a marker. A pin has the hash of
each file that the index has of its version: wheels of other platforms and the source, too. pip installs a file only if
its hash is among them (`--require-hashes`). `--only hashes` keeps all versions; it is for the files that no `.in` file
describes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from dev import cache, environments, matrix, pythons


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["main", "importer", "rulebook", "unit", "hashes"])
    only = parser.parse_args().only
    python = pythons.preferred()
    if python is None:
        print(pythons.NONE_FOUND, file=sys.stderr)
        return 1
    described = dict(_described())
    with tempfile.TemporaryDirectory() as folder:
        uv = _uv(python, folder)
        for place in sorted(environments.HERE.glob("requirements-*.txt")):
            if only == "hashes":
                pins = re.sub(r" \\\n +--hash=\S+", "", place.read_text())
                place.write_text(_compiled(uv, pins, "--no-deps", _options(place)))
            elif place in described and only in (None, _part(place)):
                place.write_text(_compiled(uv, described[place], _options(place)))
            else:
                continue
            print(f"{place.name}: {place.read_text().count('==')} pins")
    return 0


def _described() -> t.Iterator[tuple[Path, str]]:
    """Each file that a `.in` file describes, and what it is resolved from."""
    for name in environments.UNIVERSAL:
        yield environments.pins(name), (environments.HERE / f"requirements-{name}.in").read_text()
    source = (environments.HERE / "requirements-unit.in").read_text()
    for release in matrix.RELEASES:
        versions = f"ansible-core~={release.core}.0\nkubernetes=={release.kubernetes}\n"
        yield release.pins, source + versions


def _part(place: Path) -> str:
    return place.stem.split("-")[1]


def _options(place: Path) -> str:
    """For which Python the pins are: each from the oldest on, or one."""
    of_release = {release.pins: release.python_label for release in matrix.RELEASES}
    of_collections = "{}.{}".format(*environments.OF_COLLECTIONS)
    if _part(place) in environments.UNIVERSAL:
        return "--universal --python-version={}.{}".format(*pythons.MINIMUM)
    return f"--python-version={of_release.get(place, of_collections)}"


def _uv(python: pythons.Python, folder: str) -> Path:
    """uv reads the hashes from the index, where pip would have to download all files."""
    cache.run([python.path, "-m", "venv", folder], "venv")
    cache.run([f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "uv"], "pip install uv")
    return Path(folder, "bin", "uv")


def _compiled(uv: Path, source: str, *options: str) -> str:
    always = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    command = [str(uv), "pip", "compile", *always, *" ".join(options).split(), "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"uv pip compile failed (exit {done.returncode}):\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
