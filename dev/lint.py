# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""All linters, two at a time, or some of them: python -m dev.lint [NAME...]."""

from __future__ import annotations

import sys

from dev.commands import CHECKOUT, Command, end_with_us, finish, run_all

# Through the link, so that mypy sees the package names that Ansible imports by.
PLUGINS = "build/collections/ansible_collections/virt/placement/plugins"


LOADS_ANSIBLE = ("ansible-lint", "antsibull-docs", "galaxy-importer")
"""Linters that read each page or playbook by Ansible, and need most of the time."""


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


def main(names: list[str]) -> int:
    end_with_us()
    known = {command.name: command for command in commands()}
    if unknown := sorted(set(names) - set(known)):
        sys.exit(f"no linter {', '.join(unknown)}; there are {', '.join(known)}")
    return finish(run_all([known[name] for name in names or known]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
