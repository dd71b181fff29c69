# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity on each release of dev/matrix.py: python -m dev.sanity [--test NAME].

ansible-test insists on a real ansible_collections/virt/placement, so each release gets a copy of
the checkout's files. It clears the environment and keeps its caches under HOME: each release has
a home of its own in our cache, with the pip settings of this machine in it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from configparser import RawConfigParser
from pathlib import Path

from dev import cache, matrix
from dev.commands import CHECKOUT, Command, Outcome, end_with_us, environment, finish, run

# ansible-test downloads this script from a host that many machines cannot reach. The venv module
# holds a pip already, which can install the pip that ansible-test asks for from the index.
GET_PIP = """\
import ensurepip, os, subprocess, sys

ensurepip.bootstrap()
os.environ.pop("PIP_CONFIG_FILE", None)
wanted = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", "--quiet", *wanted]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--test", action="append", default=[], help="one sanity test alone")
    cores = [release.core for release in matrix.RELEASES]
    parser.add_argument("--core", action="append", choices=cores, help="a release; all, if none")
    options = parser.parse_args()
    end_with_us()
    ready, skipped = matrix.prepare()
    for release in skipped:
        print(f"sanity: {release.label} skipped, no Python {release.python_label} here")
    chosen = [prepared for prepared in ready if prepared.release.core in (options.core or cores)]
    with ThreadPoolExecutor(max_workers=len(matrix.RELEASES)) as pool:
        outcomes = list(pool.map(lambda prepared: check(prepared, options.test), chosen))
    return finish(outcomes)


def check(prepared: matrix.Prepared, tests: list[str]) -> Outcome:
    """Run the sanity tests of one release on a fresh copy of the checkout."""
    release = prepared.release
    home = cache.root() / f"sanity-{release.core}"
    # Not below the checkout: ansible-test would find its git repository, and no file of the copy in it.
    with cache.lock(home.name), tempfile.TemporaryDirectory(prefix="sanity-") as folder:
        tree = _copy(Path(folder), prepared.collections)
        _furnish(home, prepared.venv)
        bin_folder = prepared.venv / "bin"
        env = environment(HOME=str(home))
        env["PATH"] = f"{bin_folder}{os.pathsep}{env['PATH']}"
        arguments: list[str | Path] = [
            bin_folder / "ansible-test",
            "sanity",
            "--local",
            "--color=no",
        ]
        arguments += ["--python", release.python_label]
        arguments += [part for test in tests for part in ("--test", test)]
        if not tests and release != matrix.RELEASES[-1]:
            # It takes most of the time; the newest pylint finds what an older one would.
            arguments += ["--skip-test", "pylint"]
        outcome = run(Command(f"sanity, {release.label}", arguments, env, tree))
    ran = len(re.findall("^Running sanity test", outcome.output, re.MULTILINE))
    if not ran:  # "All targets skipped" ends with 0
        outcome = outcome._replace(status=outcome.status or 1)
    print(f"{outcome.line}, {ran} tests", flush=True)
    if outcome.status:
        noise = ("Running sanity test", "See documentation")
        lines = outcome.output.splitlines()
        print("\n".join(line for line in lines if not line.startswith(noise)), flush=True)
    return outcome


def _copy(place: Path, dependencies: Path) -> Path:
    """The files git would commit, and the collections they need, as a real tree."""
    root = place / "ansible_collections"
    tree = root / "virt" / "placement"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    for name in filter(None, names.stdout.split("\0")):
        source, target = CHECKOUT / name, tree / name
        if source.is_file() or source.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    needed = dependencies / "ansible_collections" / "kubernetes" / "core"
    shutil.copytree(needed, root / "kubernetes" / "core", symlinks=True)
    return tree


def _furnish(home: Path, venv: Path) -> None:
    """Write the files that ansible-test expects in a home: a pip bootstrap and pip's settings."""
    (requirements,) = venv.glob("lib/python*/site-packages/ansible_test/_internal/python_req*.py")
    found = re.search(r"pip='([\d.]+)'", requirements.read_text())
    if found is None:
        raise SystemExit(f"{requirements} names no version of pip; see _furnish in dev/sanity.py")
    script = home / ".ansible" / "test" / "cache" / f"get_pip_{found[1].replace('.', '_')}.py"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(GET_PIP)
    _write_pip_settings(home / ".config" / "pip" / "pip.conf", venv / "bin" / "python")


def _write_pip_settings(place: Path, python: Path) -> None:
    """Write the pip settings of this machine, from its files and the PIP_ variables, to one file."""
    listing: list[str | Path] = [python, "-m", "pip", "config", "list"]
    lines = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    settings = RawConfigParser()
    for line in sorted(lines.splitlines(), key=lambda line: line.startswith(":env:")):
        key, value = line.split("=", 1)
        section, option = key.replace(":env:", "global").split(".", 1)
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, option, str(ast.literal_eval(value)))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch(mode=0o600)
    with place.open("w") as handle:
        settings.write(handle)


if __name__ == "__main__":
    sys.exit(main())
