# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the table of variables into the README of each role: python -m dev.role_tables.

The table comes from the role's meta/argument_specs.yml. Two comments mark its place in the README.
"""

from __future__ import annotations

import json
import re
import sys
import typing as t
from pathlib import Path

import yaml

from dev.written_part import with_part

ROLES = Path(__file__).resolve().parents[1] / "roles"
BEGIN = "<!-- variables: python -m dev.role_tables -->"
END = "<!-- end of variables -->"

_MARKUP = re.compile(r"\b[COVPME]V?\(((?:[^()\\]|\\.)*)\)")


def table(role: str) -> str:
    """The variables of a role as a Markdown table, in the order of its argument_specs."""
    content: t.Any = yaml.safe_load((ROLES / role / "meta" / "argument_specs.yml").read_text())
    options = content["argument_specs"]["main"]["options"]
    rows = ["| variable | type | default | meaning |", "|---|---|---|---|"]
    for name, option in options.items():
        default = "required" if option.get("required") else "none"
        if "default" in option:
            default = _code(option["default"])
        rows.append(f"| `{name}` | {_type(option)} | {default} | {_meaning(option)} |")
    return "\n".join(rows)


def with_table(role: str, readme: str) -> str:
    """The README of a role with its present table. Raises ValueError if a comment is missing."""
    return with_part(readme, BEGIN, table(role), END, f"roles/{role}/README.md")


def _type(option: dict[str, t.Any]) -> str:
    if option["type"] == "list":
        elements = option.get("elements", "str")
        return "list" if elements == "raw" else f"list of {elements}"
    return str(option["type"])


def _meaning(option: dict[str, t.Any]) -> str:
    lines = option["description"]
    text = " ".join([lines] if isinstance(lines, str) else lines)
    if choices := option.get("choices"):
        text += f" Values: {', '.join(_code(choice) for choice in choices)}."
    if suboptions := option.get("options"):
        text += f" Keys: {', '.join(_code(name) for name in suboptions)}."
    return plain(text).replace("|", "\\|")


def plain(text: str) -> str:
    """Text with Ansible's markup as Markdown."""
    return _MARKUP.sub(_plain, text)


def _plain(match: re.Match[str]) -> str:
    """Ansible's markup as Markdown: `O(virt.placement.rules#module:rules)` is option `rules` of
    `rules`."""
    owner, _colon, name = match[1].replace("\\", "").rpartition(":")
    if "#" not in owner:
        name = match[1].replace("\\", "")
    name = name.removesuffix("#role").removeprefix("virt.placement.")
    if "#" in owner:
        module = owner.partition("#")[0].removeprefix("virt.placement.")
        return f"`{name}` of the module `{module}`"
    return f"`{name}`"


def _code(value: t.Any) -> str:
    return f"`{value if isinstance(value, str) and value else json.dumps(value)}`"


def main() -> int:
    for file in sorted(ROLES.glob("*/README.md")):
        file.write_text(with_table(file.parent.name, file.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
