# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which documents does the text of a file hold: JSON, YAML, what Ansible printed, or the configuration of Proxmox?

What is none of these is refused with what it is. Nothing of such a text is repeated: it may be any file.
"""

from __future__ import annotations

import csv
import json
import re
import typing as t
from collections import Counter

from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.json_text import HALF_A_CHARACTER, is_text, shallow
from ..model.rendering import plural
from .export import ExportDocument, items_of
from .formats import ADVICE, is_known
from .powercli import COMMANDS, SNIPPET
from .proxmox import RULES, RULES_FILE

LoadYaml = t.Callable[[str], JSON]
"""Reads one YAML document. Raises ValueError."""


def documents_of(
    text: str, where: str, faults: list[InputError], load_yaml: LoadYaml
) -> list[ExportDocument]:
    """The documents in a text. Text of another form is a fault."""
    start = _after_space(text, 0)
    readers: tuple[tuple[bool, _Read], ...] = (
        (text.startswith("{", start), _json_values),
        (_RESULT.search(text) is not None, _printed_results),
        (text.startswith("[", start), _json_values),
        (_SECTION.match(text, start) is not None, _sections),
    )
    read = next((read for fits, read in readers if fits), None)
    if read is not None:
        values = read(text, where, faults)
    elif refusal := _fault_before_yaml(text[start:]):
        faults.append(InputError(where, refusal))
        return []
    else:
        values = _yaml_values(text, where, faults, load_yaml)
    return [
        inner
        for number, value in enumerate(values)
        for inner in _opened(
            ExportDocument(
                where if len(values) == 1 else f"{where}, document {number + 1}", shallow(value)
            )
        )
    ]


_Read = t.Callable[[str, str, list[InputError]], list[JSON]]


def holds_lists(value: JSON) -> bool:
    """Whether it is a list of documents, as jq --slurp makes it of those that are lists: no format has one."""
    return isinstance(value, list) and any(isinstance(item, list) for item in value)


def _opened(document: ExportDocument) -> list[ExportDocument]:
    """The document, those of a list of several exports, or what Ansible put around the results in it: the callbacks
    json and jsonl, or a variable that a task has shown."""
    value, where = document.value, document.where
    if is_known(value):
        return [document]
    items = items_of(value)
    if items != [value] and any(map(is_known, items)):
        return [ExportDocument(f"{where}[{n}]", item) for n, item in enumerate(items)]
    if not isinstance(value, dict):
        return [document]
    tasks = [
        task
        for play in _maps(value.get("plays"))
        for task in _maps(play.get("tasks"))
        if isinstance(task.get("hosts"), dict)
    ]
    if isinstance(value.get("hosts"), dict) and "_event" in value:
        tasks.append(value)
    results = [
        ExportDocument(f"{where}, result of {host}", result)
        for task in tasks
        for host, result in task["hosts"].items()
    ]
    shown = [ExportDocument(f"{where}, {key}", inner) for key, inner in value.items()]
    known = [x for x in (*results, *shown) if is_known(x.value)]
    failed = [x for x in results if isinstance(x.value, dict) and x.value.get("failed")]
    if "_event" in value and not known:
        return failed
    return [*known, *failed] or [document]


def _maps(value: JSON) -> list[dict[str, JSON]]:
    return [x for x in value if isinstance(x, dict)] if isinstance(value, list) else []


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """A map of JSON. The decoder would drop all but the last value of a key."""
    if len({key for key, _value in pairs}) < len(pairs):
        raise ValueError("a map has a key twice")
    return dict(pairs)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
_SPACE = re.compile(r"[\s\ufeff]*")
"""Between documents. A file that was appended to another one may begin with a byte order mark."""


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _decoded(text: str, at: int, where: str, faults: list[InputError]) -> tuple[JSON, int] | None:
    """The JSON value at a position, and where it ends; None after a fault."""
    try:
        value, end = _DECODER.raw_decode(text, at)
        if "\\u" in text and not is_text(value):
            raise ValueError(f"it {HALF_A_CHARACTER}")
        return value, end
    except json.JSONDecodeError as error:
        place = f"{where}, line {error.lineno}"
        fault = f"is not valid JSON: {error.msg} at column {error.colno}"
        faults.append(InputError(place, fault))
    except ValueError as error:
        faults.append(InputError(where, f"is not valid JSON: {error}"))
    except RecursionError:
        faults.append(InputError(where, "its JSON is nested too deeply"))
    return None


def _json_values(text: str, where: str, faults: list[InputError]) -> list[JSON]:
    """JSON values one after the other, as govc prints them."""
    values: list[JSON] = []
    at = _after_space(text, 0)
    while at < len(text):
        decoded = _decoded(text, at, where, faults)
        if decoded is None:
            return []
        value, end = decoded
        values += value if holds_lists(value) else [value]
        at = _after_space(text, end)
    return values


_RESULT = re.compile(
    r"^(?:[^\s|]+ \| [A-Z!]+(?: \| rc=-?\d+)? (?:=>|>>)|(?:ok|changed|fatal|failed): \[[^\]\n]+\][^\n{]*? =>)[ \t]*",
    re.MULTILINE,
)
"""Before a result in what `ansible -m` prints (ansible-core, plugins/callback/minimal.py and oneline.py), and
ansible-playbook with -v or a debug task (default.py)."""


def _printed_results(text: str, where: str, faults: list[InputError]) -> list[JSON]:
    """The results that have rules or names, and those of tasks that failed."""
    values: list[JSON] = []
    end = 0
    for found in _RESULT.finditer(text):
        if found.start() < end:  # inside of a result
            continue
        at = _after_space(text, found.end())
        if text[at : at + 1] != "{":
            continue
        decoded = _decoded(text, at, where, faults)
        if decoded is None:
            return []
        value, end = decoded
        values.append(value)
    known = [
        result
        for result in values
        if result.get("failed")
        or any(is_known(x.value) for x in _opened(ExportDocument("", result)))
    ]
    if not known:
        fault = f"is what Ansible printed, and no result in it has rules as JSON; {ADVICE}"
        faults.append(InputError(where, fault))
    return known


_SECTION = re.compile(
    r"(?:#[^\n]*\n\s*)*(?P<type>node-affinity|resource-affinity|group|vm|ct): *\S+[ \t]*\r?\n[ \t]"
)


def _sections(text: str, where: str, faults: list[InputError]) -> list[JSON]:
    """The file /etc/pve/ha/rules.cfg (Proxmox VE, PVE/SectionConfig.pm): `type: id`, and below it indented properties.
    A flag without a value is set."""
    rules: list[JSON] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _space, value = line.strip().partition(" ")
        if line[0].isspace():
            if not rules:
                faults.append(InputError(f"{where}, line {number}", "belongs to no rule"))
                return []
            rules[-1][name] = value.strip() or 1
        elif name.endswith(":") and value:
            rules.append({"type": name[:-1], "rule": value.strip()})
        else:
            fault = f"is no line of {RULES_FILE}, such as node-affinity: ID"
            faults.append(InputError(f"{where}, line {number}", fault))
            return []
    types = {rule["type"] for rule in rules}
    if types == {"group"}:
        return [[{"group": rule["rule"], "nodes": rule.get("nodes", "")} for rule in rules]]
    if types <= {"vm", "ct"}:
        fault = f"has the HA resources of Proxmox, and no rules: these are in {RULES_FILE}"
        faults.append(InputError(where, fault))
        return []
    return [{RULES: rules}]


_DOCUMENT_START = re.compile(r"^---[ \t\r]*$", re.MULTILINE)
_TOP_KEY = re.compile(r"^([A-Za-z_][\w.-]*):", re.MULTILINE)


def _yaml_values(
    text: str, where: str, faults: list[InputError], load_yaml: LoadYaml
) -> list[JSON]:
    """The documents of a YAML text, as the filter to_nice_yaml writes results."""
    values: list[JSON] = []
    for part in _DOCUMENT_START.split(text):
        keys = Counter(_TOP_KEY.findall(part))
        if any(number > 1 for number in keys.values()):
            fault = "is YAML in which a key occurs twice: separate several results by lines of ---"
            faults.append(InputError(where, fault))
            return []
        try:
            value = load_yaml(part)
        except ValueError:
            value = part
        if isinstance(value, str) or (value is not None and not isinstance(value, (dict, list))):
            lines = plural(text.count("\n") + 1, "line")
            faults.append(InputError(where, f"is text of {lines} that is no export; {ADVICE}"))
            return []
        values += [] if value is None else [value]
    if not values:
        faults.append(InputError(where, f"is empty; {ADVICE}"))
    return values


def _fault_before_yaml(text: str) -> str | None:
    """The fault of text that is not read as YAML, such as that of a table; None for text that is."""
    if not text:
        return f"is empty; {ADVICE}"
    if text.startswith(("Rule:", "Type:")):
        return (
            "is the output of govc cluster.rule.info, which does not say whether a rule is enabled or must be obeyed;"
            f" {ADVICE}"
        )
    lines = [line for line in text.splitlines()[:200] if not line.startswith("#TYPE")]
    header = lines[0] if lines else ""
    delimiter = max(",;\t", key=header.count)
    if header.count(delimiter) < 1 or (header.count(delimiter) < 2 and '"' not in header):
        return None
    return _csv(list(csv.reader(lines, delimiter=delimiter)))


_COLUMNS: t.Mapping[str, tuple[tuple[str, ...], ...]] = {
    "rules": (("Name",), ("Enabled",), ("KeepTogether",), ("VMIds", "VMs", "VM", "VMnames")),
    "hostRules": (("Name",), ("Enabled",), ("Type",), ("VMGroup",), ("VMHostGroup",)),
    "groups": (("Name",), ("GroupType",), ("Member", "Members")),
}
"""What each command has to say, by the names that columns of it have."""
_LISTS = ("VMIds", "VMs", "VM", "VMnames", "Member", "Members")
_OF_SEVERAL = ("Name", "Enabled", "Type")
_RVTOOLS = ("vi sdk server", "vi sdk uuid", "vi sdk server type")
_TYPE_NAME = re.compile(r"System\.|VMware\.")


def _csv(rows: t.Sequence[t.Sequence[str]]) -> str:
    """What a file of CSV lacks, by the columns that it has."""
    header = [cell.strip().lower() for cell in rows[0]]
    if any(x in header for x in _RVTOOLS):
        return f"is CSV of RVTools, and no tab of RVTools has rules of DRS; {ADVICE}"
    save = f"Save JSON, with {SNIPPET}"
    own = {
        key: [x for names in columns for x in names if x not in _OF_SEVERAL and x.lower() in header]
        for key, columns in _COLUMNS.items()
    }
    key = max(own, key=lambda key: len(own[key]))
    if own[key] in ([], ["VM"]):
        needed = "; ".join(
            f"for {COMMANDS[key][2]} {', '.join(names[0] for names in columns)}"
            for key, columns in _COLUMNS.items()
        )
        return f"is CSV without the columns of rules: {needed}. {save}"
    command, _names, content = COMMANDS[key]
    lacks = [
        f"it has no column {names[0]}"
        for names in _COLUMNS[key]
        if not any(x.lower() in header for x in names)
    ]
    for column in (x for x in own[key] if x in _LISTS):
        number = header.index(column.lower())
        cells = [row[number] for row in rows[1:] if number < len(row)]
        is_type = any(_TYPE_NAME.match(cell) for cell in cells)
        what = "the name of a type in place of the members" if is_type else "a list as one text"
        lacks.append(f"its column {column} has {what}")
    others = " and ".join(COMMANDS[x][2] for x in COMMANDS if x != key)
    lacks.append(f"{others} are missing")
    return f"is CSV with {content} ({command}): {'; '.join(lacks)}. {save}"
