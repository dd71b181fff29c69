# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test the example of a user's repository as its user does: python -m dev.own_role [arguments of molecule].

`docs/examples/own-role` runs from a copy outside of the checkout. It has the archive of the collection, installed into
an empty folder, and the package of the sandbox, installed by pip. The libraries are those of `.venv`, and the programs
of the control plane those in the cache, so that nothing is downloaded or built.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from dev import cache
from dev.commands import CHECKOUT, Command, end_with_us, print_now, run

EXAMPLE = CHECKOUT / "docs" / "examples" / "own-role"
DEPENDENCIES = CHECKOUT / "build" / "dependencies"
TOOLS = Path(sys.executable).parent


def main(arguments: list[str]) -> int:
    end_with_us()
    with tempfile.TemporaryDirectory(prefix="virt-placement-own-role-") as folder:
        place = Path(folder).resolve()
        environment = prepared(place)
        molecule: list[str | Path] = [TOOLS / "molecule", *(arguments or ["test"])]
        command = Command("own role", molecule, environment, place / EXAMPLE.name)
        outcome = run(command, print_now)
        if outcome.status:  # its last play did not run: end what it started
            run(command._replace(arguments=[TOOLS / "molecule", "destroy"]))
    return outcome.status


def prepared(place: Path) -> dict[str, str]:
    """Everything that the user has, in an empty folder; returns the environment of the user's shell."""
    shutil.copytree(EXAMPLE, place / EXAMPLE.name)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "K8S_AUTH_", "MOLECULE_", "PYTHON"))
    }
    environment |= {
        "ANSIBLE_COLLECTIONS_PATH": f"{place / 'collections'}:{DEPENDENCIES}",
        "ANSIBLE_HOME": str(place / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
        "KUBECONFIG": os.devnull,
        "PATH": f"{_environment_with_sandbox(place)}:{TOOLS}:{os.environ.get('PATH', os.defpath)}",
    }
    _install_archive(place, environment)
    return environment


def _install_archive(place: Path, environment: dict[str, str]) -> None:
    galaxy: list[str | Path] = [TOOLS / "ansible-galaxy", "collection"]
    cache.run(
        [*galaxy, "build", CHECKOUT, "--output-path", place], "building the archive", environment
    )
    (archive,) = place.glob("virt-placement-*.tar.gz")
    options: list[str | Path] = ["--offline", "--no-deps", "-p", place / "collections"]
    cache.run([*galaxy, "install", archive, *options], "installing the archive", environment)


def _environment_with_sandbox(place: Path) -> Path:
    """The programs of a new virtual environment with the package. It sees the libraries of this one."""
    new = place / "venv"
    cache.run([sys.executable, "-m", "venv", "--without-pip", new], "python -m venv")
    python = new / "bin" / "python"
    (libraries,) = new.glob("lib/python*/site-packages")
    (libraries / "tools.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        python,
    ]
    cache.run([*pip, "install", "--no-index", CHECKOUT / "sandbox"], "pip install ./sandbox")
    return new / "bin"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
