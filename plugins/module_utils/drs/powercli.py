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
    items_of,
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


_CLUSTER = "cluster"
_EXPORT = f": export with {SNIPPET}"


def is_whole(value: JSON) -> bool:
    """Whether it is what the snippet saves of one cluster."""
    return isinstance(value, dict) and value.keys() >= COMMANDS.keys()


class PowerCli:
    """What the commands return, each in a file of its own or under a key."""

    name = "PowerCLI"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        if is_whole(value):
            return True
        return any(_command_of(item) for _where, item in _objects(value, ""))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        read = _PowerCliObjects(faults)
        for document in documents:
            read.add(document)
        return read.clusters()


def _objects(value: JSON, where: str) -> t.Iterator[tuple[str, JSON]]:
    """Each object with its place, also what stands in place of one."""
    items = items_of(value)
    if items != [value]:
        yield from ((f"{where}[{number}]", item) for number, item in enumerate(items))
    elif _command_of(value):
        yield where, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != _CLUSTER and (key in COMMANDS or isinstance(inner, (dict, list))):
                for number, item in enumerate(_of_command(inner)):
                    yield f"{where}, {key}[{number}]", item


def _of_command(value: JSON) -> list[JSON]:
    """The objects of one command, which returns null where there are none."""
    return [item for item in items_of(value or None) if item is not None]


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
        self._seen: set[str] = set()
        self._files: dict[tuple[str, ...], str] = {}
        """By cluster and rule, and by command where the cluster has no name."""
        self._where: list[str] = []
        self._clusters: dict[str, _PowerCliCluster] = {}
        self._names: dict[str, str] = {}

    def add(self, document: ExportDocument) -> None:
        value, where = document.value, document.where
        self._where.append(where)
        own = self._name_of_cluster(value, where) if isinstance(value, dict) else ""
        if own and is_whole(value):
            self._clusters.setdefault(own, _PowerCliCluster(where))
        for key in COMMANDS.keys() & (value if isinstance(value, dict) else ()):
            if {_command_of(item) for item in _of_command(value[key])} <= {"", key}:
                self._seen.add(key)  # there are none, or what is there is a fault
        for place, item in _objects(value, where):
            given = ExportedFields(item, place, self._faults, _EXPORT)
            command = _command_of(item)
            if not command:
                if isinstance(item, dict):
                    given.wrong(f"is no object of {listed([x[0] for x in COMMANDS.values()])}")
                continue
            self._seen.add(command)
            name = inventory_name(_name(given, "Cluster")) or own
            cluster = self._clusters.setdefault(name, _PowerCliCluster(where))
            readers = {"rules": self._rule, "hostRules": self._host_rule, "groups": self._group}
            readers[command](given, cluster)
            if not name and (other := self._files.setdefault((command,), where)) != where:
                given.wrong(f"names no cluster, and {other} has others without one")
            elif command != "groups":
                other = self._files.setdefault((name, str(item.get("Name"))), where)
                if other != where:
                    given.fault(f"is in {other}, too: give each export once")

    def _name_of_cluster(self, value: t.Mapping[str, JSON], where: str) -> str:
        """The snippet, run for two clusters at once, mixes their rules."""
        names = items_of(value.get(_CLUSTER))
        if len(names) > 1:
            fault = f"has the rules of {len(names)} clusters in one list"
            self._faults.append(InputError(where, f"{fault}{_EXPORT}, for one cluster at a time"))
            return ""
        named = ExportedFields(dict.fromkeys([_CLUSTER], *names), where, self._faults, _EXPORT)
        return inventory_name(_name(named, _CLUSTER))

    def clusters(self) -> list[DrsCluster]:
        lacking = [key for key in COMMANDS if key not in self._seen]
        if lacking and self._seen:
            there = listed([COMMANDS[key][0] for key in COMMANDS if key in self._seen])
            lacks = " and ".join(f"{COMMANDS[key][2]} ({COMMANDS[key][0]})" for key in lacking)
            fault = (
                f"has the output of {there} of PowerCLI, and lacks {lacks}: export with {SNIPPET}"
            )
            self._faults.append(InputError(" and ".join(dict.fromkeys(self._where)), fault))
            return []
        if not self._clusters:
            return [DrsCluster("", " and ".join(self._where), lists_rules=True)]
        return [self._cluster(name, cluster) for name, cluster in self._clusters.items()]

    def _cluster(self, name: str, cluster: _PowerCliCluster) -> DrsCluster:
        """Objects of one cluster may be in several files, and lack its name in some."""
        for rule in cluster.rules:
            host_group = rule.affine_host_group or rule.anti_affine_host_group
            if rule.vm_group in cluster.untyped:
                cluster.vm_groups[rule.vm_group] = cluster.untyped[rule.vm_group]
            if host_group in cluster.untyped:
                cluster.host_groups[host_group] = tuple(
                    vm.name for vm in cluster.untyped[host_group]
                )
        rules = [
            replace(
                x,
                vms=tuple(
                    replace(vm, name=vm.name or self._names.get(vm.moref, "")) for vm in x.vms
                ),
            )
            for x in cluster.rules
        ]
        groups = cluster.vm_groups, cluster.host_groups
        return DrsCluster(name, cluster.where, bool(rules), tuple(rules), *groups)

    def _rule(self, given: ExportedFields, cluster: _PowerCliCluster) -> None:
        where, name = given.where, given.required_text("Name")
        given.where = f"{where}, rule {name!r}"
        if given.values.get("AffineHostIds") or given.values.get("AntiAffineHostIds"):
            given.fault("is a rule of VMs and hosts: these come from Get-DrsVMHostRule")
            return
        ids, names = _ids(given), [inventory_name(x) for x in given.texts("VMs")]
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
        given.wrong(f"Type must be {listed(list(_TYPES))}. ConvertTo-Json writes its number")
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
            given.wrong("GroupType must be VMGroup or VMHostGroup")


def _name(given: ExportedFields, field_name: str) -> str:
    """The name of an object, or what is left of it where it was too deep."""
    value = given.values.get(field_name)
    if isinstance(value, dict):
        value = value.get("Name")
    if value is None:
        return ""
    if not isinstance(value, str) or _CUT.match(value):
        given.wrong(f"{field_name} has no name")
        return ""
    return value.strip()


def _ids(given: ExportedFields) -> list[str]:
    """Ids of VMs. Those of a list that was too deep are one text."""
    texts = given.items("VMIds")
    ids = [_IDS.findall(text) if isinstance(text, str) else [] for text in texts]
    if not all(ids):
        given.wrong("VMIds must be a list of ids such as VirtualMachine-vm-66")
        return []
    return [moref(each) for found in ids for each in found]


def _members(given: ExportedFields) -> list[SourceVm]:
    """VMs or hosts, each an object with its name, or the name alone."""
    members = []
    for item in given.items("Member"):
        data = item if isinstance(item, dict) else {"Name": item}
        text = data.get("Name")
        cut = not isinstance(text, str) or not text.strip() or _CUT.match(text)
        if cut or (text == given.values["Member"] and " " in text):
            given.wrong("Member must be a list of names")
            return []
        members.append(SourceVm(inventory_name(str(text)), moref(data.get("Id"))))
    return members
