# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every Molecule scenario, from a clean start: python -m dev.molecule [molecule test arguments]."""

from __future__ import annotations

import sys

from dev.commands import CHECKOUT, Command, end_with_us, print_now, run

MOLECULE = [sys.executable, "-m", "molecule"]


def main(arguments: list[str]) -> int:
    if not any((CHECKOUT / "extensions" / "molecule").glob("*/molecule.yml")):
        print("molecule: no scenario in extensions/molecule", file=sys.stderr)
        return 1
    end_with_us()
    # An interrupted run leaves its control plane and Molecule's state file, which Molecule would
    # trust.
    left = run(Command("molecule destroy", [*MOLECULE, "destroy", "-s", "default"]))
    if left.status:
        print(left.output, file=sys.stderr)
        return left.status
    test = [*MOLECULE, "test", *(arguments or ["--all"])]
    return run(Command("molecule test", test), print_now).status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
