# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does an export of placement rules hold, whatever its format: rules, groups, overrides of VMs.

A format is one file beside this one: a `ExportFormat`, which `formats` lists.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ..model.findings import InputError
from ..model.input import shown
from ..model.json_pointer import JSON
from ..model.rendering import TextEnum


class DrsRuleKind(TextEnum):
    """The subclasses of ClusterRuleInfo (vSphere Web Services API)."""

    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti-affinity"
    VM_HOST = "VM-host"
    DEPENDENCY = "dependency"


KIND_OF_TYPE: t.Mapping[str, DrsRuleKind] = {
    "AffinityRuleSpec": DrsRuleKind.AFFINITY,
    "AntiAffinityRuleSpec": DrsRuleKind.ANTI_AFFINITY,
    "VmHostRuleInfo": DrsRuleKind.VM_HOST,
    "DependencyRuleInfo": DrsRuleKind.DEPENDENCY,
}


OF_THEIR_OWN = "export each of them to files of its own, and import one"


def kind_of_type(name: str) -> DrsRuleKind | None:
    """`ClusterAffinityRuleSpec` and `vim.cluster.AffinityRuleSpec` are one type; None for an unknown one."""
    return KIND_OF_TYPE.get(name.rpartition(".")[2].removeprefix("Cluster"))


@dataclass(frozen=True, slots=True)
class SourceVm:
    """A VM of vCenter or Proxmox. The name or the id, a MoRef such as vm-66 or vm:100, may be missing in an export, but
    not both."""

    name: str
    moref: str = ""

    @property
    def key(self) -> str:
        """What tells it apart from other VMs of the export."""
        return self.moref or self.name

    def __str__(self) -> str:
        return self.name or self.moref


@dataclass(frozen=True, slots=True)
class DrsRule:
    """A rule as it was exported. `where` is its place in the file. A VM-host rule names groups, others VMs; `mandatory`
    None: the format does not say it. `kind` None: the type `type_name` is unknown here. `left_out`: sentences about
    what of the rule has no counterpart. `not_applied`: why the exported system itself does not apply the rule."""

    where: str
    name: str
    kind: DrsRuleKind | None
    enabled: bool
    mandatory: bool | None = None
    vms: tuple[SourceVm, ...] = ()
    vm_group: str = ""
    affine_host_group: str = ""
    anti_affine_host_group: str = ""
    type_name: str = ""
    left_out: str = ""
    not_applied: str = ""

    def __str__(self) -> str:
        return f"{self.where}, rule {self.name!r}"


@dataclass(frozen=True, slots=True)
class DrsOverride:
    """The automation of one VM where it differs from that of its cluster (ClusterDrsVmConfigInfo)."""

    where: str
    vm: SourceVm
    enabled: bool
    behavior: str


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """A setting of a cluster or of one VM that is no rule and no override of DRS."""

    where: str
    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DrsCluster:
    """What one document of an export, `where`, holds of a cluster. `name` is empty where the format has none.
    `lists_rules`: `rules` are all of the cluster, even if there are none."""

    name: str
    where: str
    lists_rules: bool = False
    rules: tuple[DrsRule, ...] = ()
    vm_groups: t.Mapping[str, tuple[SourceVm, ...]] = field(default_factory=dict)
    host_groups: t.Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overrides: tuple[DrsOverride, ...] = ()
    others: tuple[OtherSetting, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportDocument:
    """One JSON document of a file or of the option `content`."""

    where: str
    value: JSON


class ExportFormat(t.Protocol):
    """A program that exports rules."""

    name: str
    """Of the program, as messages name it."""
    has_overrides: bool
    """Whether it can hold overrides of VMs."""

    def recognizes(self, value: JSON) -> bool:
        """Whether a document is of this format."""

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        """The clusters in all documents of this format, which belong together. What cannot be read is a fault."""


def items_of(value: JSON) -> list[JSON]:
    """The items of a list as PowerShell writes it: a list of one as its only item, an empty one as null or `{}`, and
    Windows PowerShell 5 some as `{value, Count}`."""
    if isinstance(value, dict) and value.keys() == {"value", "Count"}:
        items = items_of(value["value"])
        return items if value["Count"] == len(items) else [value]
    if value is None or value == {}:
        return []
    return value if isinstance(value, list) else [value]


class ExportedFields:
    """A map in an export, which is read field by field. A field of a wrong type is a fault, with `advice` at its
    end."""

    def __init__(self, value: JSON, where: str, faults: list[InputError], advice: str = "") -> None:
        self.values: t.Mapping[str, JSON] = value if isinstance(value, dict) else {}
        self.where = where
        self._faults, self._advice = faults, advice
        if not isinstance(value, dict):
            self.wrong(f"must be a map, not {shown(value)}")
            self._faults = []  # that its fields are missing, too, is no news

    def fault(self, message: str) -> None:
        self._faults.append(InputError(self.where, message))

    def wrong(self, message: str) -> None:
        """A fault of the form, which another way to export does not have."""
        self.fault(f"{message}{self._advice}")

    def text(self, name: str) -> str:
        """The text of a field, "" for one that is missing or null."""
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return (value or "").strip()
        self.wrong(f"{name} must be text, not {shown(value)}")
        return ""

    def flag(self, name: str, default: bool | None = None) -> bool:
        """The default where it is missing or null. A fault where it has none. PowerShell makes the text `False` of a
        flag that it saves as text."""
        value = self.values.get(name)
        value = default if value is None else value
        if isinstance(value, str):
            value = {"true": True, "false": False}.get(value.strip().lower(), value)
        if isinstance(value, bool):
            return value
        why = "is missing" if value is None else f"must be true or false, not {shown(value)}"
        self.wrong(f"{name} {why}")
        return bool(default)

    def optional_flag(self, name: str) -> bool | None:
        return None if self.values.get(name) is None else self.flag(name)

    def items(self, name: str) -> list[JSON]:
        return items_of(self.values.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        items = self.items(name)
        wrong = [item for item in items if not isinstance(item, str) or not item.strip()]
        if wrong:
            self.wrong(f"{name} must be a list of names, and has {shown(wrong[0])}")
        return () if wrong else tuple(items)

    def required_text(self, name: str) -> str:
        text = self.text(name)
        if not text and self.values.get(name) in (None, "", " "):
            self.wrong(f"{name} is missing")
        return text


_ESCAPED = re.compile("%(25|2f|5c)", re.IGNORECASE)


def inventory_name(text: str) -> str:
    """The name of a VM or cluster as people know it: the API of vSphere escapes `%`, `/` and `\\` in it, and Forklift
    takes the name without that (ManagedEntity.name in the vSphere Web Services API)."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def add_name(
    names: dict[str, str], reference: str, name: str, where: str, faults: list[InputError]
) -> None:
    """Name the object with this id. Objects of two vCenters, or of two clusters of Proxmox, have the same ids."""
    if names.setdefault(reference, name) != name:
        fault = f"{reference} is {name!r} here, and {names[reference]!r} before it"
        faults.append(InputError(where, f"{fault}: give the names of one system, read at one time"))


def moref(value: JSON) -> str:
    """The id in a reference to an object: `{type, value}`, `VirtualMachine-vm-66` of PowerCLI or `vm-66`; empty for
    anything else."""
    if isinstance(value, dict):
        value = value.get("value", value.get("Value"))
    if not isinstance(value, str):
        return ""
    text = value.rpartition(":")[2].strip("'")
    for kind in ("VirtualMachine-", "HostSystem-"):
        text = text.removeprefix(kind)
    return text
