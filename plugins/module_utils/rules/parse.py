# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules does the option `rules` hold, and what is wrong with it? One function per rule type."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kinds.registry import DEFAULT_KIND
from ..model.findings import FINDING_NAMES, InputError
from ..model.input import InputReader, left_out, nearest, shown
from ..model.json_pointer import JSON
from ..model.rule import (
    Avoid,
    KeepApart,
    KeepTogether,
    PodSelector,
    RawTerms,
    Rule,
    RuleId,
    RuleType,
    RunOn,
    Spread,
    Target,
    WorkloadSelector,
)
from ..model.topology import Topology
from ..scheduler.labels import is_label_value
from ..view import selection as references
from ..view.label_input import free_key, label_key, label_value, labels


@dataclass(frozen=True)
class Context:
    """What names inside a rule type mean."""

    namespace: str
    topology: Topology


Nodes = tuple[tuple[str, tuple[str, ...]], ...]


def run_on(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """`{key: value or list}`."""
    nodes = _nodes(reader, value, context)
    return None if nodes is None else RunOn(nodes)


def avoid(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """`{key: value or list}`."""
    nodes = _nodes(reader, value, context)
    return None if nodes is None else Avoid(nodes)


def keep_apart(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """A topology key, or `{topology_key, from, pods}`."""
    key, given = _keyed(reader, value, ("topology_key", "from", "pods"), context)
    targets: list[Target | None] = []
    for option, read in (("from", references.workload), ("pods", references.pods)):
        if option in given:
            targets += _targets(reader.at(option), given[option], read, context)
    if key is None or None in targets:
        return None
    return KeepApart(key, tuple(target for target in targets if target is not None))


def keep_together(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """`{topology_key, with | pods}`, or a topology key alone for the members with each other."""
    key, given = _keyed(reader, value, ("topology_key", "with", "pods"), context)
    target_options = [option for option in ("with", "pods") if option in given]
    if len(target_options) > 1:
        reader.error("takes with or pods, not both")
        return None
    target: Target | None = None
    if target_options:
        read = references.pods if target_options == ["pods"] else references.workload
        target = read(reader.at(target_options[0]), given[target_options[0]], context.namespace)
        if target is None:
            return None
        if isinstance(target, PodSelector) and len(target.namespaces) > 1:
            reader.at("pods.namespaces").error(
                "takes one namespace here: a pod beside them would have to be in all of them"
            )
            return None
    return None if key is None else KeepTogether(key, target)


def spread(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """A topology key, or `{topology_key, max_skew}`."""
    key, given = _keyed(reader, value, ("topology_key", "max_skew"), context)
    skew = reader.at("max_skew").integer(given.get("max_skew", 1), 1)
    return None if key is None or skew is None else Spread(key, skew)


def terms(reader: InputReader, value: JSON, context: Context) -> RuleType | None:
    """Placement fields of a pod, as Kubernetes writes them."""
    from .raw_terms import read_terms

    fields = read_terms(reader, value)
    return None if fields is None else RawTerms(fields)


RULE_TYPES: t.Mapping[str, t.Callable[[InputReader, JSON, Context], RuleType | None]] = {
    "run_on": run_on,
    "avoid": avoid,
    "keep_apart": keep_apart,
    "keep_together": keep_together,
    "spread": spread,
    "terms": terms,
}


def _keyed(
    reader: InputReader, value: JSON, options: t.Sequence[str], context: Context
) -> tuple[str | None, dict[str, JSON]]:
    """The label key, None after an error, and the other options. `zone` is `{topology_key: zone}`."""
    if isinstance(value, str):
        return _topology_key(reader, value, context), {}
    if not isinstance(value, dict):
        reader.error(
            f"must be a topology key such as zone, or a map of {', '.join(options)}, not {shown(value)}"
        )
        return None, {}
    outer = [key for key in value if key in OPTIONS and key not in options]
    for key in outer:
        reader.error(
            f"{key} is an option of the rule: write it beside {reader.path.rpartition('.')[2]}"
        )
    given = reader.mapping({k: value[k] for k in value if k not in outer}, options) or {}
    if "topology_key" in given:
        return _topology_key(reader.at("topology_key"), given["topology_key"], context), given
    if left_out("topology_key", value, options):
        reader.error("needs topology_key, for example zone")
    return None, given


def _topology_key(reader: InputReader, name: JSON, context: Context) -> str | None:
    key = reader.key(name, context.topology)
    return key if key is not None and label_key(reader, key) else None


def _nodes(reader: InputReader, value: JSON, context: Context) -> Nodes | None:
    """Keys and values in one order, whichever they are declared in: it has no meaning, and terms, annotations and
    policies that are compared have it."""
    if not isinstance(value, dict):
        reader.error(f"must be a map of topology keys to values of nodes, not {shown(value)}")
        return None
    if not value:
        reader.error("is empty: name at least one key with its value")
        return None
    before = len(reader.errors)
    nodes: dict[str, tuple[str, ...]] = {}
    for name, given_values in value.items():
        inner = reader.at(str(name))
        key = inner.key(name, context.topology)
        values = _node_values(inner, given_values)
        if key is None or not label_key(inner, key) or values is None:
            continue
        if key in nodes:
            inner.error(f"is the key {key}, which is also given under another name")
        nodes[key] = values
    return tuple(sorted(nodes.items())) if len(reader.errors) == before else None


def _node_values(reader: InputReader, value: JSON) -> tuple[str, ...] | None:
    if value == []:
        reader.error("is an empty list: name at least one value")
        return None
    values = value if isinstance(value, list) else [value]
    parsed = [label_value(reader, item) for item in values]
    kept = [item for item in parsed if item is not None]
    return tuple(sorted({*kept})) if len(kept) == len(parsed) else None


_Read = t.Callable[[InputReader, JSON, str], "Target | None"]


def _targets(
    reader: InputReader, value: JSON, read: _Read, context: Context
) -> list[Target | None]:
    if not isinstance(value, list):
        return [read(reader, value, context.namespace)]
    if not value:
        reader.error("is an empty list: name what to keep apart from, or leave it out")
        return [None]
    targets = [read(reader.item(i), item, context.namespace) for i, item in enumerate(value)]
    # VMs that are given by name are one target, and become one term.
    of_names = {i for i, item in enumerate(value) if isinstance(item, str)}
    selectors = [targets[i] for i in sorted(of_names)]
    names = [name for x in selectors if isinstance(x, WorkloadSelector) for name in x.names]
    others = [target for i, target in enumerate(targets) if i not in of_names]
    if not names or None in targets:
        return targets
    virtual_machines = WorkloadSelector(
        DEFAULT_KIND, context.namespace, tuple(dict.fromkeys(names))
    )
    return [virtual_machines, *others]


OPTIONS = (
    "name",
    "workloads",
    *RULE_TYPES,
    "label",
    "preferred",
    "weight",
    "enabled",
    "allow_findings",
)

_BESIDE_A_NAME = frozenset({"name", "enabled", "allow_findings"})
"""Options of a rule that is to rest, where its workloads tell the others."""


@dataclass(frozen=True)
class Parsed:
    """`rules` are valid. `broken` are the invalid ones with the workloads that could be read, so that
    these can be looked up all the same; `faults` are their errors."""

    rules: tuple[Rule, ...]
    faults: tuple[InputError, ...]
    broken: tuple[Rule, ...] = ()


def read_rules(
    raw: JSON, *, namespace: str, rule_set: str, topology: Topology, absent: bool = False
) -> Parsed:
    """`raw` is a list of maps. With `absent` a rule needs only its name, and so does one that is to rest."""
    faults: list[InputError] = []
    reader = InputReader("rules", faults)
    if not namespace.strip() or "/" in namespace:
        text = f"must be a name without a slash, not {shown(namespace)}"
        faults.append(InputError("namespace", text))
    if not rule_set or not is_label_value(rule_set):
        text = f"{shown(rule_set)} is not a valid name of a rule set: {_VALID}"
        faults.append(InputError("rule_set", text))
    items = raw if isinstance(raw, list) else None
    if items is None:
        reader.error(f"must be a list of rules, or the YAML or JSON text of one, not {shown(raw)}")
        return Parsed((), tuple(faults))
    context = Context(namespace, topology)
    rules: list[Rule] = []
    broken: list[Rule] = []
    for index, item in enumerate(items):
        before = len(faults)
        rule = _rule(index, item, rule_set, context, absent, faults)
        if rule is not None:
            (rules if len(faults) == before else broken).append(rule)
    _no_duplicates(items, faults)
    return Parsed(tuple(rules), tuple(faults), tuple(broken))


def _rule(
    index: int, item: JSON, rule_set: str, context: Context, absent: bool, faults: list[InputError]
) -> Rule | None:
    """The rule as far as it can be read; None where it is no map."""
    name = _name(index, item, absent, faults)
    reader = InputReader(f"rules[{index}] {name}" if name else f"rules[{index}]", faults)
    given = reader.mapping(item, OPTIONS)
    if given is None:
        return None
    enabled = reader.at("enabled").boolean(given.get("enabled", True))
    by_name = absent or (enabled is False and {*given} <= _BESIDE_A_NAME)
    rule_type = _rule_type(reader, item, context, by_name)
    workloads = _workloads(reader.at("workloads"), item, context, by_name)
    label = _label(reader.at("label"), given["label"], absent) if "label" in given else None
    preferred, weight = _preference(reader, item, rule_type)
    allowed = _allowed(reader.at("allow_findings"), given.get("allow_findings", []))
    return Rule(
        id=RuleId(context.namespace, rule_set, name or ""),
        index=index,
        workloads=workloads or (),
        rule_type=rule_type,
        label=label,
        preferred=preferred,
        weight=weight,
        allow_findings=allowed,
        everywhere="workloads" not in given,
        enabled=enabled is not False,
    )


def _name(index: int, item: JSON, absent: bool, faults: list[InputError]) -> str | None:
    """The name, valid as a part of an annotation."""
    reader = InputReader(f"rules[{index}]", faults)
    if not isinstance(item, dict):
        return None
    if "name" not in item:
        if left_out("name", item, OPTIONS):
            reader.error("needs a name")
        return None
    inner = reader.at("name")
    if isinstance(item["name"], int) and not absent:
        inner.error(f"must be text, not {shown(item['name'])}: quote it")
        return None
    name = inner.text(item["name"])
    if name is None or is_label_value(name):
        return name
    inner.error(f"{shown(name)} is not a valid name of a rule: {_VALID}")
    return None


_VALID = "1 to 63 letters (a-z, A-Z), digits, '-', '_' and '.', beginning and ending with a letter or digit"


def _allowed(reader: InputReader, value: JSON) -> frozenset[str]:
    names = reader.texts(value) or ()
    for name in names:
        if name not in FINDING_NAMES:
            hint = nearest(name, FINDING_NAMES) or "; docs/findings.md lists them"
            reader.error(f"unknown finding {shown(name)}{hint}")
    return frozenset(names)


def _no_duplicates(items: t.Sequence[JSON], faults: list[InputError]) -> None:
    first: dict[str, int] = {}
    for index, item in enumerate(items):
        name = str(item.get("name")).strip() if isinstance(item, dict) and "name" in item else ""
        if name and name in first:
            faults.append(
                InputError(
                    f"rules[{index}] {name}",
                    f"has the same name as rules[{first[name]}]: names are unique in a rule set",
                )
            )
        first.setdefault(name, index)


def _rule_type(
    reader: InputReader, given: t.Mapping[str, JSON], context: Context, absent: bool
) -> RuleType | None:
    used = [name for name in RULE_TYPES if name in given]
    if len(used) > 1:
        reader.error(f"has {len(used)} rule types ({', '.join(used)}): make one rule of each")
    needed = (*RULE_TYPES, "label")
    if not (used or absent) and all(left_out(option, given, OPTIONS) for option in needed):
        reader.error(f"has no rule type: give it one of {', '.join(RULE_TYPES)}, or a label")
    parsed = [RULE_TYPES[name](reader.at(name), given[name], context) for name in used]
    return parsed[0] if len(parsed) == 1 else None


def _workloads(
    reader: InputReader, given: t.Mapping[str, JSON], context: Context, absent: bool
) -> tuple[WorkloadSelector, ...] | None:
    """The selectors. An empty list means no workload: the rule is removed from all that carry it."""
    if "workloads" not in given:
        if not absent and left_out("workloads", given, OPTIONS):
            reader.error("is missing: name the workloads of the rule; an empty list means none")
        return None
    selectors = references.workloads(reader, given["workloads"], context.namespace)
    for index, selector in enumerate(selectors):
        if selector is not None and selector.namespace != context.namespace:
            reader.item(index).at("namespace").error(
                f"a rule is about workloads of its own namespace, {context.namespace}: write the"
                f" ones in {selector.namespace} in a task of theirs, or as target of from or with"
            )
    return tuple(x for x in selectors if x is not None and x.namespace == context.namespace)


def _label(reader: InputReader, value: JSON, absent: bool) -> tuple[str, str] | None:
    """The key and value. A rule that is only to be removed may have any key."""
    pairs = labels(reader, value)
    if pairs is not None and len(pairs) != 1:
        reader.error(f"takes one key with its value, not {len(pairs)}")
        return None
    if not pairs or not (absent or free_key(reader, next(iter(pairs)))):
        return None
    return next(iter(pairs.items()))


def _preference(
    reader: InputReader, given: t.Mapping[str, JSON], rule_type: RuleType | None
) -> tuple[bool, int]:
    preferred = reader.at("preferred").boolean(given.get("preferred", False))
    weight = reader.at("weight").integer(given.get("weight", 100), 1, 100)
    if preferred and isinstance(rule_type, RawTerms):
        reader.at("preferred").error("does not go with terms, which contain their own preferences")
    if preferred and all(left_out(option, given, OPTIONS) for option in RULE_TYPES):
        reader.at("preferred").error("needs a rule type: a label alone prefers nothing")
    if "weight" in given and isinstance(rule_type, Spread):
        reader.at("weight").error("does not go with spread: a spread constraint has no weight")
    # A weight beside a misspelled `preferred` is no error of its own.
    elif "weight" in given and (
        preferred is False if "preferred" in given else left_out("preferred", given, OPTIONS)
    ):
        reader.at("weight").error("goes only with preferred: a required rule has no weight")
    return bool(preferred), weight or 100
