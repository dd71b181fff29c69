# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of docs/troubleshooting.md that explains codes, made from the tables in plugins/module_utils.

python -m dev.codes writes it; tests/unit/test_codes.py checks that it is up to date. Which field of a module's result
has a code is read from the RETURN of the modules.
"""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import yaml

from dev.commands import CHECKOUT
from dev.written_part import with_part

MODULES = CHECKOUT / "plugins" / "modules"
OBSTACLES = CHECKOUT / "plugins" / "module_utils" / "model" / "obstacle.py"
FORECASTS = CHECKOUT / "plugins" / "module_utils" / "forecast" / "conclusion.py"
DOCUMENT = CHECKOUT / "docs" / "troubleshooting.md"
RUNBOOK = CHECKOUT / "docs" / "maintenance.md"
"""Its findings have names of codes, too, and are explained there."""
BEGIN = "<!-- codes: written by python -m dev.codes -->"
END = "<!-- end of codes -->"

SECTIONS: t.Mapping[str, str] = {
    "stop_code": "Why a run begins no more moves",
    "permission_gaps": "What could not be read",
    "skipped_instances": "Why an instance does not move",
    "moves": "Why a move failed",
    "held": "Why a workload stays held",
    "pending": "Why an instance has no node",
    "not_migratable": "Why a VM cannot be live-migrated",
    "vms": "Why it is not known where a VM can go",
}
"""The section of each field of a result that has codes of obstacles, in the order of the page. A code that several
fields have is explained in the first of their sections."""

GROUPS: t.Mapping[str, str] = {
    "proven": "What was proven",
    "no_node": "No node for an instance",
    "stays": "An instance that does not leave its node",
    "quota": "ResourceQuotas",
    "unread": "What a forecast could not read",
    "choice": "The order and the choice of the scheduler",
    "rollout": "The rollout of a workload by its own controller",
    "moves": "The planned moves of VMs",
    "claims": "Claims and volumes",
    "fields": "Fields of a pod that kube-scheduler does not decide",
    "next_pod": "What the API server makes of the next pod",
    "failure": "A node that fails",
}
"""The headings of the groups of codes of forecasts, in the order of the page."""

OF_FORECASTS = "Codes of forecasts"
"""The section of the field `codes`."""

NO_OBSTACLE = "Empty, since the reason is no obstacle."
"""The description of a field that has no codes."""


class CodeField(t.NamedTuple):
    """A field of a module's result that has codes. `path` is as in `skipped_instances[].reason_code`."""

    module: str
    path: str
    description: str

    @property
    def owner(self) -> str:
        return self.path.partition("[")[0]

    @property
    def heading(self) -> str:
        """The section that explains its codes."""
        return OF_FORECASTS if self.path.endswith("codes") else SECTIONS[self.owner]

    @property
    def codes(self) -> list[str]:
        return re.findall(r"\bV\((\w+)\)", self.description)


def return_text(module: Path) -> str:
    """The text RETURN of a module, which is YAML."""
    block = re.search(r'^RETURN = r?"""\n(.*?)^"""', module.read_text(), re.M | re.S)
    if block is None:
        raise ValueError(f"{module.name} has no RETURN")
    return block[1]


def code_fields() -> list[CodeField]:
    """Those of all modules, without the ones that are always empty."""
    fields: list[CodeField] = []
    for path in sorted(MODULES.glob("*.py")):
        fields += _of_fields(path.stem, yaml.safe_load(return_text(path)), "")
    return [field for field in fields if field.description != NO_OBSTACLE]


def _of_fields(module: str, fields: t.Mapping[str, t.Any], parent: str) -> t.Iterator[CodeField]:
    for name, field in fields.items():
        if name in ("reason_code", "stop_code", "codes"):
            lines = field["description"]
            text = " ".join([lines] if isinstance(lines, str) else lines)
            yield CodeField(module, f"{parent}{name}", text)
        yield from _of_fields(module, field.get("contains") or {}, f"{parent}{name}[].")


class Meaning(t.NamedTuple):
    """What a code means, and what to do. `group`: one of GROUPS, for a code of forecasts."""

    meaning: str
    advice: str
    group: str = ""


def table(file: Path) -> dict[str, Meaning]:
    """The table CODES of a file: of each code meaning and advice. Raises ValueError for a code that is twice."""
    constants: dict[str, str] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            constants[ast.unparse(node.targets[0])] = str(node.value.value)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CODES":
            assert isinstance(node.value, ast.Dict)
            rows = list(_rows(node.value, constants))
            if len(dict(rows)) < len(rows):
                raise ValueError(f"{file.name} has a code twice")
            return dict(rows)
    raise SystemExit(f"{file.relative_to(CHECKOUT)} has no table CODES")


def _rows(node: ast.Dict, constants: t.Mapping[str, str]) -> t.Iterator[tuple[str, Meaning]]:
    for key, value in zip(node.keys, node.values, strict=True):
        assert key is not None and isinstance(value, ast.Call)
        code = constants.get(ast.unparse(key)) or ast.literal_eval(key)
        yield code, Meaning(*map(ast.literal_eval, value.args[:3]))


def codes_section() -> str:
    """The text between the two markers."""
    return "\n".join((*_of_results(), *_of_forecasts(), *_of_findings()))


def _of_results() -> t.Iterator[str]:
    fields, obstacles = code_fields(), table(OBSTACLES)
    elsewhere = {
        code for field in fields if field.module != "node_maintenance" for code in field.codes
    }
    of_drains = set(re.findall(r"^\| `(\w+)` \|", RUNBOOK.read_text(), re.M)) - elsewhere
    explained: dict[str, str] = {}
    yield from ("## Codes of results", "")
    yield "A code is beside its text: `reason_code` beside `reason`, `stop_code` beside `stop_reason`."
    yield "`ansible-playbook -v` prints the results of tasks. Options are named as in the modules: `allow` of `rollout`"
    yield "is the variable `placement_rollout_allow` of the role. If a role has no such variable, as `placement_apply`"
    yield "none for `apply_pending_changes`, run the playbook `rollout` with it."
    for heading in SECTIONS.values():
        of_section = [field for field in fields if field.heading == heading]
        codes = sorted({code for field in of_section for code in field.codes})
        yield from ("", f"### {heading}", "", f"{_places(of_section)}.")
        findings = ", ".join(f"`{code}`" for code in codes if code in of_drains)
        codes = [code for code in codes if code not in of_drains]
        if new := [code for code in codes if code not in explained]:
            yield from _table_of({code: obstacles[code] for code in new})
        if findings:
            yield from (
                "",
                f"Also {findings}: see [the findings of a drain](maintenance.md#findings).",
            )
        yield from _explained_elsewhere(codes, explained, "Also " if new else "")
        explained.update(dict.fromkeys(new, heading))


def _places(fields: t.Sequence[CodeField]) -> str:
    """Where a reader sees the codes: `` `held[].reason_code` of `rollout` ``."""
    path = fields[0].path
    modules = [f"`{field.module}`" for field in fields]
    last = f" and {modules[-1]}" if len(modules) > 1 else ""
    return f"`{path}` of {', '.join(modules[:-1] if last else modules)}{last}"


def _explained_elsewhere(
    codes: t.Iterable[str], explained: t.Mapping[str, str], also: str
) -> t.Iterator[str]:
    elsewhere = [code for code in codes if code in explained]
    for heading in dict.fromkeys(explained[code] for code in elsewhere):
        names = ", ".join(f"`{code}`" for code in elsewhere if explained[code] == heading)
        yield from ("", f"{also}{names}: see [{heading}](#{_anchor(heading)}).")


def _of_forecasts() -> t.Iterator[str]:
    meanings = table(FORECASTS)
    yield from ("", f"## {OF_FORECASTS}", "")
    yield "What made the answer: `codes` of `forecast_info`, of each domain of `drill_info` and `capacity_info`, and of"
    yield "the findings `no_place` and `place_unknown` of `node_maintenance`. `reasons` beside them names the objects."
    for group, heading in GROUPS.items():
        yield from ("", f"### {heading}")
        yield from _table_of({code: x for code, x in meanings.items() if x.group == group})


def _table_of(meanings: t.Mapping[str, Meaning]) -> t.Iterator[str]:
    yield from ("", "| code | meaning | what to do |", "|---|---|---|")
    for code, (meaning, advice, _group) in sorted(meanings.items()):
        yield f"| `{code}` | {meaning} | {advice} |"


def _of_findings() -> t.Iterator[str]:
    yield from ("", "## Names of findings", "")
    yield "A finding has a `name`, and its `why` and `advice` beside it. [Findings](findings.md) has those of"
    yield "constraints, rules, manifests and node labels, [Node maintenance](maintenance.md#findings) those of a drain,"
    yield "and [Physical hosts](physical-hosts.md#findings) those of hosts under the nodes."
    yield ""


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def with_section(document: str) -> str:
    """The document with the codes as they are now. Raises ValueError if a marker is missing."""
    return with_part(document, BEGIN, f"\n{codes_section()}", END, DOCUMENT.name)


if __name__ == "__main__":
    DOCUMENT.write_text(with_section(DOCUMENT.read_text()))
