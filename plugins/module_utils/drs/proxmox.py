# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""HA rules of Proxmox VE 9 as community.proxmox returns them, or as its API does.

The fields are those of the modules proxmox_cluster_ha_rules_info and proxmox_vm_info (community.proxmox 2.0), and of
`pvesh get /cluster/ha/rules` and `/cluster/resources`, where lists are text with commas and flags are 0 and 1. Rules
name VMs by their id, such as vm:100. Resource affinity is always strict, and node affinity only with `strict`
(Proxmox VE Administration Guide, HA rules).
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.rendering import listed
from .export import (
    DrsCluster,
    DrsRule,
    DrsRuleKind,
    ExportDocument,
    ExportedFields,
    SourceVm,
    add_name,
)

RULES = "rules"
RULES_FILE = "/etc/pve/ha/rules.cfg"
VMS = "proxmox_vms"
DATA = "data"
"""What the API itself, asked by HTTP, puts around a list."""

_NODES, _RESOURCES = "node-affinity", "resource-affinity"
_AFFINITY = {"positive": DrsRuleKind.AFFINITY, "negative": DrsRuleKind.ANTI_AFFINITY}
_VM, _CONTAINER = "vm:", "ct:"


class Proxmox:
    """What tasks of community.proxmox register, or what pvesh prints as JSON."""

    name = "Proxmox"
    has_overrides = True  # Proxmox has none, so that none can be missing

    def recognizes(self, value: JSON) -> bool:
        value = _without_data(value)
        if isinstance(value, dict):
            return VMS in value or isinstance(value.get(RULES), list)
        return any(_is_rule(item) or _is_vm(item) for item in _items(value))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        names = _names(documents, faults)
        return [
            _cluster(document, rules, names, faults)
            for document in documents
            if (rules := _listed(document.value, RULES, _is_rule)) is not None
        ]


def _items(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _without_data(value: JSON) -> JSON:
    return value[DATA] if isinstance(value, dict) and isinstance(value.get(DATA), list) else value


def _is_rule(item: JSON) -> bool:
    return isinstance(item, dict) and "rule" in item and "resources" in item


def _is_vm(item: JSON) -> bool:
    return isinstance(item, dict) and "vmid" in item


def _listed(value: JSON, key: str, is_one: t.Callable[[JSON], bool]) -> list[JSON] | None:
    """The list below `key` of what a module returned, or the list that pvesh printed if its items are of the kind. None
    where there is neither."""
    value = _without_data(value)
    if isinstance(value, dict):
        return _items(value[key]) if key in value else None
    items = _items(value)
    return items if any(map(is_one, items)) else None


def _names(documents: t.Iterable[ExportDocument], faults: list[InputError]) -> dict[str, str]:
    """The name of each VM by its id in rules."""
    names: dict[str, str] = {}
    for document in documents:
        for item in filter(_is_vm, _listed(document.value, VMS, _is_vm) or ()):
            if name := str(item.get("name") or ""):
                add_name(names, f"{_VM}{item['vmid']}", name, document.where, faults)
    return names


def _cluster(
    document: ExportDocument,
    items: t.Sequence[JSON],
    names: t.Mapping[str, str],
    faults: list[InputError],
) -> DrsCluster:
    """Nodes and VMs of a node affinity are groups with the name of their rule, which is unique."""
    rules: list[DrsRule] = []
    seen: set[str] = set()
    vm_groups: dict[str, tuple[SourceVm, ...]] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(items):
        given = ExportedFields(item, f"{document.where}, {RULES}[{index}]", faults)
        where, name = given.where, given.required_text("rule")
        given.where = f"{where}, rule {name!r}"
        if name in seen:
            given.fault(
                "occurs twice: the rules are of two clusters, or were edited. Import one at a time"
            )
        seen.add(name)
        pairs = (text.partition(":") for text in _texts(given, "nodes"))
        nodes = [(node, priority or "0") for node, _colon, priority in pairs]
        rule = _rule(given, where, name, nodes, names)
        if rule.kind is DrsRuleKind.VM_HOST:
            vm_groups[name] = rule.vms
            host_groups[name] = tuple(node for node, _priority in nodes)
            rule = replace(rule, vms=(), vm_group=name, affine_host_group=name)
        rules.append(rule)
    return DrsCluster("", document.where, True, tuple(rules), vm_groups, host_groups)


def _rule(
    given: ExportedFields,
    where: str,
    name: str,
    nodes: t.Sequence[tuple[str, str]],
    names: t.Mapping[str, str],
) -> DrsRule:
    """A rule with its VMs, of whatever kind it is."""
    rule_type, resources = given.required_text("type"), _texts(given, "resources")
    of_nodes = rule_type == _NODES
    for resource in resources:
        if not resource.startswith((_VM, _CONTAINER)):
            given.fault(f"resources has {resource!r}, which is not {_VM}ID or {_CONTAINER}ID")
    kind = DrsRuleKind.VM_HOST if of_nodes else _AFFINITY.get(given.text("affinity"))
    if rule_type == _RESOURCES and kind is None:
        given.fault("affinity must be positive or negative")
    return DrsRule(
        where,
        name,
        kind,
        enabled=not _flag(given, "disable"),
        mandatory=_flag(given, "strict") if of_nodes else True,
        vms=tuple(SourceVm(names.get(x, ""), x) for x in resources if x.startswith(_VM)),
        type_name=rule_type,
        left_out=_left_out(resources, nodes),
        not_applied=_not_applied(given.values.get("errors")),
    )


def _not_applied(errors: JSON) -> str:
    """What the API of Proxmox says of a rule that it leaves out, since it is in conflict with another
    (check_feasibility in PVE/API2/HA/Rules.pm): a list of messages by field."""
    if not errors:
        return ""
    fields = errors.values() if isinstance(errors, dict) else [errors]
    messages = [str(x) for field in fields for x in (field if isinstance(field, list) else [field])]
    return f"Proxmox does not apply it: {'; '.join(messages)}."


def _left_out(resources: t.Sequence[str], nodes: t.Sequence[tuple[str, str]]) -> str:
    """Which containers and which priorities of nodes have no counterpart."""
    containers = [x for x in resources if not x.startswith(_VM)]
    sentences = [f"The containers {listed(containers)}."] if containers else []
    if len({priority for _node, priority in nodes}) > 1:
        priorities = ", ".join(f"{node}:{priority}" for node, priority in nodes)
        sentences.append(f"The priorities of its nodes, {priorities}.")
    return " ".join(sentences)


def _texts(given: ExportedFields, name: str) -> tuple[str, ...]:
    value = given.values.get(name)
    texts = value.split(",") if isinstance(value, str) else given.texts(name)
    return tuple(text.strip() for text in texts if text.strip())


def _flag(given: ExportedFields, name: str) -> bool:
    """The API writes 0 and 1, some clients as text, and leaves out what is not set."""
    value = given.values.get(name)
    return value in (1, "1") if value in (0, 1, "0", "1") else given.flag(name, default=False)
