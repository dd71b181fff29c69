# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every Molecule scenario, from a clean start: python -m dev.molecule [molecule test arguments]."""

from __future__ import annotations

import subprocess
import sys

from dev.commands import CHECKOUT, environment

MOLECULE = [sys.executable, "-m", "molecule"]


def main(arguments: list[str]) -> int:
    if not any((CHECKOUT / "extensions" / "molecule").glob("*/molecule.yml")):
        print("molecule: no scenario in extensions/molecule", file=sys.stderr)
        return 1
    # A run that was cut off left its control plane and a note that it is there; Molecule would
    # believe the note.
    left = subprocess.run(
        [*MOLECULE, "destroy", "-s", "default"],
        cwd=CHECKOUT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if left.returncode:
        print(left.stdout + left.stderr, file=sys.stderr)
        return left.returncode
    command = [*MOLECULE, "test", *(arguments or ["--all"])]
    return subprocess.run(command, cwd=CHECKOUT, env=environment(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
