# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the documentation site in build/docs/html: python -m dev.docs.

antsibull-docs writes a page for each module, role and plug-in. The guides are README.md and the pages in docs.
A warning is an error.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from dev import environments, pythons
from dev.commands import CHECKOUT, Command, end_with_us, environment, print_now, run

PINS = environments.HERE / "requirements-docs.txt"
SITE = CHECKOUT / "build" / "docs"
SOURCE = SITE / "source"
CONFIGURATION = """\
project = "virt.placement"
extensions = ["sphinx_antsibull_ext", "myst_parser"]
html_theme = "sphinx_ansible_theme"
highlight_language = "YAML+Jinja"
myst_heading_anchors = 3
# README.md links to files that are not pages, such as LICENSE. Module pages link to the documentation
# of Ansible, which would have to be downloaded.
suppress_warnings = ["myst.xref_missing", "ref.ref"]
"""
INDEX = """\
virt.placement
==============

.. toctree::
   :maxdepth: 1

   README
{guides}
   collections/virt/placement/index
"""


def main() -> int:
    python = pythons.preferred()
    if python is None:
        print(pythons.NONE_FOUND, file=sys.stderr)
        return 1
    venv, _created = environments.venv("docs", python, PINS)
    write_source()
    bin_ = venv / "bin"
    env = environment(PATH=f"{bin_}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    pages: list[str | Path] = [
        "collection",
        "--use-current",
        "--fail-on-error",
        "--dest-dir",
        SOURCE,
    ]
    commands = [
        Command("pages", [bin_ / "antsibull-docs", *pages, "virt.placement"], env),
        Command("site", [bin_ / "sphinx-build", "-q", "-W", SOURCE, SITE / "html"], env),
    ]
    for command in commands:
        outcome = run(command, print_now)
        print(outcome.line)
        if outcome.status:
            return 1
    print(f"docs: {SITE / 'html' / 'index.html'}")
    return 0


def write_source() -> None:
    """The configuration, the guides and the index that lists them."""
    shutil.rmtree(SITE, ignore_errors=True)
    (SOURCE / "docs").mkdir(parents=True)
    shutil.copy(CHECKOUT / "README.md", SOURCE)
    shutil.copytree(CHECKOUT / "docs" / "examples", SOURCE / "docs" / "examples")
    shutil.copytree(CHECKOUT / "docs" / "systems", SOURCE / "docs" / "systems")
    guides: list[Path] = sorted((CHECKOUT / "docs").glob("*.md"))
    for guide in guides:
        shutil.copy(guide, SOURCE / "docs")
    systems = [f"systems/{page.stem}" for page in sorted((CHECKOUT / "docs/systems").glob("*.md"))]
    listed = "\n".join(f"   docs/{page}" for page in [*(guide.stem for guide in guides), *systems])
    (SOURCE / "conf.py").write_text(CONFIGURATION)
    (SOURCE / "index.rst").write_text(INDEX.format(guides=listed))


if __name__ == "__main__":
    end_with_us()
    sys.exit(main())
