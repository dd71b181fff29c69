# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run all Molecule scenarios: python -m dev.molecule [arguments of molecule test].

Modules run in forks of ansible-playbook. Without arguments, the scenario of the example for users runs, too, as its
user runs it (dev/own_role.py).
"""

from __future__ import annotations

import os
import sys

from dev import own_role
from dev.commands import CHECKOUT, Command, end_with_us, print_now, run
from dev.forks import FORKS

MOLECULE = [sys.executable, "-m", "molecule"]


def main(arguments: list[str]) -> int:
    if not any((CHECKOUT / "extensions" / "molecule").glob("*/molecule.yml")):
        print("molecule: no scenario in extensions/molecule", file=sys.stderr)
        return 1
    end_with_us()
    # An interrupted run leaves its control plane and Molecule's state file, which the next run would use.
    destroyed = run(Command("molecule destroy", [*MOLECULE, "destroy", "-s", "default"]))
    if destroyed.status:
        print(destroyed.output, file=sys.stderr)
        return destroyed.status
    test = [*MOLECULE, "test", *(arguments or ["--all"])]
    status = run(Command("molecule test", test, {**os.environ, **FORKS}), print_now).status
    return status if arguments else max(status, own_role.main([]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
