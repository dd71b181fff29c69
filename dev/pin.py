# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve dev/*.in anew and write the pins: python -m dev.pin [--only NAME]."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from dev import cache, environments, matrix, pythons

MAIN = ((3, 10), (3, 11), (3, 12))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["main", "unit"])
    only = parser.parse_args().only
    wanted: list[tuple[tuple[int, int], Path, list[str]]] = []
    if only != "unit":
        source = environments.HERE / "requirements-main.in"
        for version in MAIN:
            place = environments.HERE / "requirements-main-{}.{}.txt".format(*version)
            wanted.append((version, place, ["-r", str(source)]))
    if only != "main":
        source = environments.HERE / "requirements-unit.in"
        for release in matrix.RELEASES:
            versions = [f"ansible-core~={release.core}.0", f"kubernetes=={release.kubernetes}"]
            wanted.append((release.python, release.pins, ["-r", str(source), *versions]))
    for version, place, arguments in wanted:
        python = pythons.find(version)
        if python is None:
            print(f"{place.name}: left as it is, no Python {version[0]}.{version[1]} here")
            continue
        place.write_text(_resolve(python, arguments))
        print(f"{place.name}: {len(place.read_text().splitlines())} pins")
    return 0


def _resolve(python: pythons.Python, arguments: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        cache.run([python.path, "-m", "venv", folder], "venv")
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        cache.run([*pip, "install", "--quiet", *arguments], f"pip install {' '.join(arguments)}")
        frozen = [*pip, "freeze"]
        return subprocess.run(frozen, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
