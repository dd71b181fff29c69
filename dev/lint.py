# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All linters, two at a time: python -m dev.lint."""

from __future__ import annotations

import sys

from dev.commands import CHECKOUT, Command, end_with_us, finish, run_all

# Through the link, so that mypy sees the package names that Ansible imports by.
PLUGINS = "build/collections/ansible_collections/virt/placement/plugins"


def commands() -> list[Command]:
    folders = [name for name in ("dev", "sandbox", "demos", "tests") if (CHECKOUT / name).is_dir()]
    tool = CHECKOUT / ".venv" / "bin"
    return [
        Command("ansible-lint", [tool / "ansible-lint", "--offline", "--nocolor", "-q"]),
        Command("mypy", [tool / "mypy", PLUGINS, *folders]),
        Command(
            "antsibull-docs",
            [tool / "antsibull-docs", "lint-collection-docs", "--plugin-docs", "."],
        ),
        Command("ruff check", [tool / "ruff", "check", "--quiet", "."]),
        Command("ruff format", [tool / "ruff", "format", "--check", "--quiet", "."]),
        Command("yamllint", [tool / "yamllint", "--strict", "."]),
        Command("galaxy-importer", [tool / "python", "-m", "dev.importer"]),
        Command("antsibull-changelog", [tool / "antsibull-changelog", "lint"]),
    ]


if __name__ == "__main__":
    end_with_us()
    sys.exit(finish(run_all(commands())))
