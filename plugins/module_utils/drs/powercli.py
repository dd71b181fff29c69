# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and groups as three commands of PowerCLI return them, saved with ConvertTo-Json.

Get-DrsRule has rules of VMs (KeepTogether, VMIds), Get-DrsVMHostRule those of VMs and hosts (Type, VMGroup,
VMHostGroup), and Get-DrsClusterGroup the groups (GroupType, Member); see the PowerCLI Cmdlets Reference. All three are
needed. The snippet of docs/from-vsphere.md saves them under the keys of COMMANDS.

ConvertTo-Json writes an enumeration as its number, and an object that is deeper than -Depth as its text: the name of a
VM, group or cluster, the items of a list beside each other, or the name of a type.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field, replace

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
    inventory_name,
    moref,
)

COMMANDS: t.Mapping[str, tuple[str, tuple[str, str], str]] = {
    "rules": ("Get-DrsRule", ("KeepTogether", "VMIds"), "the rules of VMs"),
    "hostRules": ("Get-DrsVMHostRule", ("VMGroup", "VMHostGroup"), "the rules of VMs and hosts"),
    "groups": ("Get-DrsClusterGroup", ("GroupType", "Member"), "the members of groups"),
}
"""By the key in the file of the snippet: the command, two properties of its objects, and what it has."""

SNIPPET = "the snippet for PowerCLI in docs/from-vsphere.md, which saves all three in one file"

_TYPES: t.Mapping[str, tuple[bool, bool]] = {
    "MustRunOn": (True, True),
    "ShouldRunOn": (True, False),
    "MustNotRunOn": (False, True),
    "ShouldNotRunOn": (False, False),
}
"""Whether a rule of VMs and hosts is for its hosts, and whether it is mandatory."""

_CUT = re.compile(r"System\.|VMware\.|@\{")
"""How the text of an object begins that is no name."""
_IDS = re.compile(r"(?:VirtualMachine|HostSystem)-\S+")


class PowerCli:
    """What the commands return, each in a file of its own or under a key."""

    name = "PowerCLI"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        if isinstance(value, dict) and value.keys() >= COMMANDS.keys():
            return True
        return any(_command_of(item) for _where, _key, item in _objects(value, ""))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        read = _PowerCliObjects(faults)
        for document in documents:
            read.add(document)
        return read.clusters()


def _objects(value: JSON, where: str) -> t.Iterator[tuple[str, str, JSON]]:
    """Each object with its place, and the key of the list that it is in."""
    value = _listed(value)
    if isinstance(value, list):
        yield from ((f"{where}[{number}]", "", item) for number, item in enumerate(value))
    elif isinstance(value, dict):
        if _command_of(value):
            yield where, "", value
            return
        for key in value:
            inner = _listed(value[key])
            items = inner if isinstance(inner, list) else [inner]
            for number, item in enumerate(items):
                if isinstance(item, dict):
                    yield f"{where}, {key}[{number}]", key, item


def _listed(value: JSON) -> JSON:
    """The list that Windows PowerShell 5 writes as `{value, Count}`."""
    if isinstance(value, dict) and value.keys() == {"value", "Count"}:
        return value["value"]
    return value


def _command_of(item: JSON) -> str:
    """The key of the command that returns such objects; empty for others."""
    if not isinstance(item, dict):
        return ""
    return next((key for key, command in COMMANDS.items() if item.keys() >= set(command[1])), "")


@dataclass
class _PowerCliCluster:
    where: str
    rules: list[DrsRule] = field(default_factory=list)
    vm_groups: dict[str, tuple[SourceVm, ...]] = field(default_factory=dict)
    host_groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    untyped: dict[str, tuple[SourceVm, ...]] = field(default_factory=dict)
    """Groups of which neither the type nor a member says what they are."""


class _PowerCliObjects:
    """The objects of all documents, by the name of their cluster."""

    def __init__(self, faults: list[InputError]) -> None:
        self._faults = faults
        self._seen: dict[str, str] = {}
        self._rule_files: dict[tuple[str, str], str] = {}
        self._where: list[str] = []
        self._own = ""
        self._clusters: dict[str, _PowerCliCluster] = {}
        self._names: dict[str, str] = {}

    def add(self, document: ExportDocument) -> None:
        value = document.value
        self._where.append(document.where)
        own = value.get("cluster") if isinstance(value, dict) else None
        self._own = inventory_name(own) if isinstance(own, str) else ""
        for key in value if isinstance(value, dict) else ():
            if key in COMMANDS and not _listed(value[key]):
                self._seen[key] = document.where  # there are none
        for where, _key, item in _objects(value, document.where):
            given = ExportedFields(item, where, self._faults)
            command = _command_of(item)
            if not command:
                given.fault(f"is no object of {listed([x[0] for x in COMMANDS.values()])}")
                continue
            self._seen.setdefault(command, document.where)
            name = inventory_name(_name(given, "Cluster")) or self._own
            cluster = self._clusters.setdefault(name, _PowerCliCluster(document.where))
            readers = {"rules": self._rule, "hostRules": self._host_rule, "groups": self._group}
            readers[command](given, cluster)
            rule = name, str(item.get("Name"))
            if command != "groups" and (
                self._rule_files.setdefault(rule, document.where) != document.where
            ):
                given.fault(f"is in {self._rule_files[rule]}, too: give each export once")

    def clusters(self) -> list[DrsCluster]:
        lacking = [key for key in COMMANDS if key not in self._seen]
        if lacking:
            there = listed([COMMANDS[key][0] for key in COMMANDS if key in self._seen])
            lacks = " and ".join(f"{COMMANDS[key][2]} ({COMMANDS[key][0]})" for key in lacking)
            fault = (
                f"has the output of {there} of PowerCLI, and lacks {lacks}: export with {SNIPPET}"
            )
            self._faults.append(InputError(" and ".join(dict.fromkeys(self._where)), fault))
            return []
        if not self._clusters and not self._faults:
            return [DrsCluster(self._own, " and ".join(self._where), lists_rules=True)]
        return [
            self._cluster(name, cluster, lists_rules=not number)
            for number, (name, cluster) in enumerate(self._clusters.items())
        ]

    def _cluster(self, name: str, cluster: _PowerCliCluster, *, lists_rules: bool) -> DrsCluster:
        """Objects of one cluster may be in several files, and lack its name in some."""
        for rule in cluster.rules:
            host_group = rule.affine_host_group or rule.anti_affine_host_group
            if rule.vm_group in cluster.untyped:
                cluster.vm_groups[rule.vm_group] = cluster.untyped[rule.vm_group]
            if host_group in cluster.untyped:
                cluster.host_groups[host_group] = tuple(
                    vm.name for vm in cluster.untyped[host_group]
                )
        rules = [replace(rule, vms=tuple(map(self._named, rule.vms))) for rule in cluster.rules]
        return DrsCluster(
            name, cluster.where, lists_rules, tuple(rules), cluster.vm_groups, cluster.host_groups
        )

    def _named(self, vm: SourceVm) -> SourceVm:
        return vm if vm.name else SourceVm(self._names.get(vm.moref, ""), vm.moref)

    def _rule(self, given: ExportedFields, cluster: _PowerCliCluster) -> None:
        where, name = given.where, given.required_text("Name")
        given.where = f"{where}, rule {name!r}"
        if given.values.get("AffineHostIds") or given.values.get("AntiAffineHostIds"):
            given.fault("is a rule of VMs and hosts: these come from Get-DrsVMHostRule")
            return
        ids = _ids(given, "VMIds")
        names = [inventory_name(x) for x in given.texts("VMs")] if "VMs" in given.values else []
        if ids and names and len(names) != len(ids):
            given.fault(f"has {len(ids)} VMIds and {len(names)} VMs: export again")
        names = names if len(names) == len(ids) else [""] * len(ids)
        kind = DrsRuleKind.AFFINITY if given.flag("KeepTogether") else DrsRuleKind.ANTI_AFFINITY
        vms = tuple(SourceVm(*pair) for pair in zip(names, ids, strict=True))
        cluster.rules.append(DrsRule(where, name, kind, given.flag("Enabled"), vms=vms))

    def _host_rule(self, given: ExportedFields, cluster: _PowerCliCluster) -> None:
        where, name = given.where, given.required_text("Name")
        given.where = f"{where}, rule {name!r}"
        vm_group, host_group = _name(given, "VMGroup"), _name(given, "VMHostGroup")
        affine, mandatory = self._type(given)
        rule = DrsRule(
            where,
            name,
            DrsRuleKind.VM_HOST,
            given.flag("Enabled"),
            mandatory,
            vm_group=vm_group,
            affine_host_group=host_group if affine else "",
            anti_affine_host_group="" if affine else host_group,
        )
        cluster.rules.append(rule)

    def _type(self, given: ExportedFields) -> tuple[bool, bool]:
        """By the name of the type. Its number is nowhere documented, and then the object of vCenter tells."""
        value = given.values.get("Type")
        if isinstance(value, str) and value in _TYPES:
            return _TYPES[value]
        data = given.values.get("ExtensionData")
        of_vcenter = data if isinstance(data, dict) else {}
        mandatory = of_vcenter.get("Mandatory")
        groups = [of_vcenter.get(f"{x}HostGroupName") for x in ("Affine", "AntiAffine")]
        if isinstance(mandatory, bool) and bool(groups[0]) != bool(groups[1]):
            return bool(groups[0]), mandatory
        given.fault(
            f"Type must be {listed(list(_TYPES))}. ConvertTo-Json writes its number: export with {SNIPPET}"
        )
        return True, True

    def _group(self, given: ExportedFields, cluster: _PowerCliCluster) -> None:
        where, name = given.where, given.required_text("Name")
        given.where = f"{where}, group {name!r}"
        members = _members(given)
        self._names |= {vm.moref: vm.name for vm in members if vm.moref and vm.name}
        kind = given.values.get("GroupType")
        of_hosts = any(vm.moref.startswith("host-") for vm in members)
        known = (*cluster.vm_groups, *cluster.host_groups, *cluster.untyped)
        if name in known:
            given.fault("occurs twice: give each export once")
        elif kind == "VMGroup" or (members and any(x.moref for x in members) and not of_hosts):
            cluster.vm_groups[name] = tuple(members)
        elif kind == "VMHostGroup" or of_hosts:
            cluster.host_groups[name] = tuple(vm.name for vm in members)
        elif isinstance(kind, int) or kind is None:
            cluster.untyped[name] = tuple(members)
        else:
            given.fault("GroupType must be VMGroup or VMHostGroup")


def _name(given: ExportedFields, field_name: str) -> str:
    """The name of an object, or what is left of it where it was too deep."""
    value = given.values.get(field_name)
    if isinstance(value, dict):
        value = value.get("Name")
    if value is None:
        return ""
    if not isinstance(value, str) or _CUT.match(value):
        given.fault(f"{field_name} has no name: export with {SNIPPET}")
        return ""
    return value.strip()


def _ids(given: ExportedFields, name: str) -> list[str]:
    """Ids of VMs. Those of a list that was too deep are one text."""
    value = _listed(given.values.get(name))
    texts = value if isinstance(value, list) else [value] if value else []
    ids = [_IDS.findall(text) if isinstance(text, str) else [] for text in texts]
    if not all(ids):
        given.fault(
            f"{name} must be a list of ids such as VirtualMachine-vm-66: export with {SNIPPET}"
        )
        return []
    return [moref(each) for found in ids for each in found]


def _members(given: ExportedFields) -> list[SourceVm]:
    """VMs or hosts, each an object with its name, or the name alone."""
    value = _listed(given.values.get("Member"))
    items = value if isinstance(value, list) else [value] if value is not None else []
    members = []
    for item in items:
        data = item if isinstance(item, dict) else {"Name": item}
        text = data.get("Name")
        cut = not isinstance(text, str) or not text.strip() or _CUT.match(text)
        if cut or (text == value and " " in text):
            given.fault(f"Member must be a list of names: export with {SNIPPET}")
            return []
        members.append(SourceVm(inventory_name(str(text)), moref(data.get("Id"))))
    return members
