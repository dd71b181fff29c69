# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the list that a user writes to rules; every fault is found at once."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.finding import Fault
from ..model.finding_names import FINDING_NAMES
from ..model.pointer import JSON
from ..model.rule import Rule, RuleId, SpreadOver, Terms, Verb, WorkloadSelector
from ..model.topology import Topology
from ..scheduling.syntax import is_label_value
from . import references
from .label_input import free_key
from .values import Notes, left_out, nearest, shown
from .verbs import VERBS, Context

OPTIONS = ("name", "workloads", *VERBS, "label", "preferred", "weight", "allow_findings")


@dataclass(frozen=True)
class Parsed:
    """The rules that could be understood, and what is wrong with the others. `broken` are those
    others, with the workloads that could be read: they can be looked up all the same."""

    rules: tuple[Rule, ...]
    faults: tuple[Fault, ...]
    broken: tuple[Rule, ...] = ()


def read_rules(
    raw: JSON, *, namespace: str, set_name: str, topology: Topology, absent: bool = False
) -> Parsed:
    """`raw` is a list of maps. With `absent` a rule needs only its name."""
    faults: list[Fault] = []
    notes = Notes("rules", faults)
    for option, value in (("namespace", namespace), ("set", set_name)):
        if not value.strip() or "/" in value:
            faults.append(Fault(option, f"must be a name without a slash, not {value!r}"))
    items = raw if isinstance(raw, list) else None
    if items is None:
        notes.fault(f"must be a list of rules, or the YAML or JSON text of one, not {shown(raw)}")
        return Parsed((), tuple(faults))
    context = Context(namespace, topology)
    rules: list[Rule] = []
    broken: list[Rule] = []
    for index, item in enumerate(items):
        before = len(faults)
        rule = _rule(index, item, set_name, context, absent, faults)
        if rule is not None:
            (rules if len(faults) == before else broken).append(rule)
    _no_duplicates(items, faults)
    return Parsed(tuple(rules), tuple(faults), tuple(broken))


def _rule(
    index: int, item: JSON, set_name: str, context: Context, absent: bool, faults: list[Fault]
) -> Rule | None:
    """The rule as far as it can be read; None where it is no map."""
    name = _name(index, item, absent, faults)
    notes = Notes(f"rules[{index}] {name}" if name else f"rules[{index}]", faults)
    given = notes.mapping(item, OPTIONS)
    if given is None:
        return None
    verb = _verb(notes, item, context, absent)
    workloads = _workloads(notes.at("workloads"), item, context, absent)
    label = _label(notes.at("label"), given["label"], absent) if "label" in given else None
    preferred, weight = _preference(notes, item, verb)
    allowed = _allowed(notes.at("allow_findings"), given.get("allow_findings", []))
    return Rule(
        id=RuleId(context.namespace, set_name, name or ""),
        index=index,
        workloads=workloads or (),
        verb=verb,
        label=label,
        preferred=preferred,
        weight=weight,
        allow_findings=allowed,
        everywhere="workloads" not in given,
    )


def _name(index: int, item: JSON, absent: bool, faults: list[Fault]) -> str | None:
    """The name as annotations take it: between slashes, and in the same letters everywhere. What is
    only to go may stand there under any name."""
    notes = Notes(f"rules[{index}]", faults)
    if not isinstance(item, dict):
        return None
    if "name" not in item:
        if left_out("name", item, OPTIONS):
            notes.fault("needs a name")
        return None
    inner = notes.at("name")
    if isinstance(item["name"], int) and not absent:
        inner.fault(f"must be text, not {shown(item['name'])}: quote it")
        return None
    name = inner.text(item["name"])
    if name is None or is_label_value(name) or (absent and name.isprintable()):
        return name
    inner.fault(
        f"{shown(name)} is no name of a rule: 1 to 63 letters (a-z, A-Z), digits, '-', '_' and '.',"
        " beginning and ending with a letter or digit"
    )
    return None


def _allowed(notes: Notes, value: JSON) -> frozenset[str]:
    names = notes.texts(value) or ()
    for name in names:
        if name not in FINDING_NAMES:
            hint = nearest(name, FINDING_NAMES) or "; docs/findings.md lists them"
            notes.fault(f"{shown(name)} is no finding{hint}")
    return frozenset(names)


def _no_duplicates(items: t.Sequence[JSON], faults: list[Fault]) -> None:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        name = str(item.get("name")).strip() if isinstance(item, dict) and "name" in item else ""
        if name and name in first:
            faults.append(
                Fault(
                    f"rules[{index}] {name}",
                    f"has the same name as rules[{first[name]}]: names are unique in a set",
                )
            )
        first.setdefault(name, index)


def _verb(notes: Notes, given: t.Mapping[str, JSON], context: Context, absent: bool) -> Verb | None:
    used = [verb for verb in VERBS if verb in given]
    if len(used) > 1:
        notes.fault(f"has {len(used)} verbs ({', '.join(used)}): make one rule of each")
    if not (used or absent) and all(left_out(each, given, OPTIONS) for each in (*VERBS, "label")):
        notes.fault(f"says nothing: give it one of {', '.join(VERBS)}, or a label")
    found = [VERBS[verb](notes.at(verb), given[verb], context) for verb in used]
    return found[0] if len(found) == 1 else None


def _workloads(
    notes: Notes, given: t.Mapping[str, JSON], context: Context, absent: bool
) -> tuple[WorkloadSelector, ...] | None:
    """An empty list is nobody: then the rule is taken from whoever carries it."""
    if "workloads" not in given:
        if not absent and left_out("workloads", given, OPTIONS):
            notes.fault("is missing: say whom the rule is about; an empty list is nobody")
        return None
    items = given["workloads"]
    if not isinstance(items, list):
        notes.fault(f"must be a list of maps with name, names or labels, not {shown(items)}")
        return None
    found = []
    for index, item in enumerate(items):
        one = notes.item(index)
        reference = references.workload(one, item, context.namespace)
        if reference is not None and reference.namespace != context.namespace:
            one.at("namespace").fault(
                f"a rule is about workloads of its own namespace, {context.namespace}: write the"
                f" ones in {reference.namespace} in a task of theirs, or as target of from or with"
            )
        found.append(reference)
    return tuple(reference for reference in found if reference is not None)


def _label(notes: Notes, value: JSON, absent: bool) -> tuple[str, str] | None:
    """The key and value. What is only to go may have been written with any key."""
    found = references.labels(notes, value)
    if found is not None and len(found) != 1:
        notes.fault(f"takes one key with its value, not {len(found)}")
        return None
    if not found or not (absent or free_key(notes, next(iter(found)))):
        return None
    return next(iter(found.items()))


def _preference(notes: Notes, given: t.Mapping[str, JSON], verb: Verb | None) -> tuple[bool, int]:
    preferred = notes.at("preferred").boolean(given.get("preferred", False))
    weight = notes.at("weight").integer(given.get("weight", 100), 1, 100)
    if preferred and isinstance(verb, Terms):
        notes.at("preferred").fault("does not go with terms, which say themselves what they prefer")
    if preferred and all(left_out(each, given, OPTIONS) for each in VERBS):
        notes.at("preferred").fault("needs a verb: a label alone prefers nothing")
    if "weight" in given and isinstance(verb, SpreadOver):
        notes.at("weight").fault("does not go with spread: the scheduler knows no weight there")
    elif "weight" in given and _is_required(given, preferred):
        notes.at("weight").fault("goes only with preferred: a required rule has no weight")
    return bool(preferred), weight or 100


def _is_required(given: t.Mapping[str, JSON], preferred: bool | None) -> bool:
    """Whether a rule says that it is no wish, or says nothing of it."""
    return preferred is False if "preferred" in given else left_out("preferred", given, OPTIONS)
