# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build what is published, to build/release: python -m dev.release.

Refuses addresses under example.com, and what Galaxy would not import."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from dev import importer
from dev.commands import CHECKOUT, end_with_us

RELEASE = CHECKOUT / "build" / "release"


def main() -> int:
    end_with_us()
    faults = unset_addresses((CHECKOUT / "galaxy.yml").read_text())
    if not faults:
        shutil.rmtree(RELEASE, ignore_errors=True)
        RELEASE.mkdir(parents=True)
        try:
            archive = importer.build(RELEASE)
            with tempfile.TemporaryDirectory(prefix="virt-placement-import-") as folder:
                faults = importer.import_faults(archive, Path(folder))
        except importer.BuildFailed as error:
            faults = [str(error)]
    for fault in faults:
        print(f"release: {fault}", file=sys.stderr)
    if not faults:
        print(f"release: {archive}")
    return 1 if faults else 0


def unset_addresses(galaxy: str) -> list[str]:
    """One text for each address of galaxy.yml that is only an example."""
    return [
        f"galaxy.yml has {line.strip()!r}: put the address of the public repository there"
        for line in galaxy.splitlines()
        if "example.com" in line and not line.lstrip().startswith("#")
    ]


if __name__ == "__main__":
    sys.exit(main())
