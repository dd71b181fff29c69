# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install and build what the targets of the Makefile need: python3 dev/prepare.py [--only python].

Needs only a Python >= 3.10 and a package index. Results of slow builds are kept in a cache outside
the checkout (see dev/cache.py), so that later runs, also in another clone, take no time.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
if __package__ in (
    None,
    "",
):  # started as a file: import the package dev, not the files beside this one
    sys.path[0] = str(CHECKOUT)

from dev import binaries, environments, pythons  # noqa: E402  the line above makes it importable


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    python = pythons.preferred()
    if python is None:
        print(pythons.NONE_FOUND, file=sys.stderr)
        return 1
    pins = environments.pins("main")
    venv, new_venv = environments.venv("venv", python, pins)
    newest = environments.HERE / "requirements-collections-newest.txt"
    tree, new_tree = environments.collections(venv / "bin" / "python", newest)
    oldest = environments.HERE / "requirements-collections-oldest.txt"
    controller, _new = environments.collections(
        venv / "bin" / "python", oldest, [environments.CONTROLLER]
    )
    link(CHECKOUT / ".venv", venv)
    link(CHECKOUT / "build" / "dependencies", tree)
    link(CHECKOUT / "build" / "controller", controller)
    link_collection(CHECKOUT)
    write_sandbox_program(CHECKOUT)
    core = environments.installed(venv, "ansible_core")
    _print_state("python", f"Python {python.label}, ansible-core {core}", new_venv)
    release = newest.read_text().split()[0].replace("==", " ")
    _print_state(
        "collections", f"kubernetes.core and others, as in the package {release}", new_tree
    )
    if options.only != "python":
        new_programs = binaries.build(venv / "bin" / "python")
        asked = os.environ.get("VIRT_PLACEMENT_RELEASE")
        of = f", RELEASE {asked}" if asked else ""
        _print_state("sandbox", f"programs of the control plane{of}", new_programs)
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["python"], help="leave the sandbox's binaries out")
    return parser.parse_args(arguments)


def _print_state(part: str, version: str, new: bool) -> None:
    print(f"{part}: {version} ({'built now' if new else 'in the cache'})", flush=True)


def link(place: Path, target: Path) -> None:
    """Point the symlink `place` to `target`, atomically. Only a symlink is replaced."""
    if place.is_symlink() and os.readlink(place) == str(target):
        return
    if place.exists() and not place.is_symlink():
        raise SystemExit(f"{place} is not a symbolic link. Move it away and run again.")
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    temporary.symlink_to(target)
    temporary.replace(place)


def link_collection(checkout: Path) -> None:
    """Make the checkout importable as virt.placement, whatever the name of its folder."""
    root = Path("..", "..", "..", "..")  # relative: the checkout may be moved
    link(checkout / "build" / "collections" / "ansible_collections" / "virt" / "placement", root)


def write_sandbox_program(checkout: Path) -> None:
    """The command virt-placement-sandbox of this checkout, for the PATH that `make sandbox-up` prints. The environment
    is in the cache that all clones share, so the command is not there."""
    place = checkout / "build" / "bin" / "virt-placement-sandbox"
    quoted = shlex.quote(str(checkout))
    text = (
        "#!/bin/sh\n"
        f'PYTHONPATH={quoted}${{PYTHONPATH:+:$PYTHONPATH}} exec {quoted}/.venv/bin/python -m sandbox "$@"\n'
    )
    if place.is_file() and place.read_text() == text:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(0o755)
    temporary.replace(place)


def restart_with_a_newer_python() -> t.NoReturn:
    """Restart this program with a newer installed Python, since `python3` is too old for the tools."""
    python = pythons.preferred()
    if python is None:
        raise SystemExit(pythons.NONE_FOUND)
    os.execv(python.path, [python.path, os.path.abspath(__file__), *sys.argv[1:]])


if __name__ == "__main__":
    if sys.version_info[:2] < pythons.MINIMUM:
        restart_with_a_newer_python()
    sys.exit(main())
