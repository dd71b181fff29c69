# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of a cluster as govc prints it, with the names of VMs and hosts beside it.

`govc object.collect -json CLUSTER configurationEx` has MoRefs in place of names. Releases of govc differ: older ones
begin each field with a capital letter, and some do not print the types of rules, so that rules that keep VMs together
and apart look the same. `govc cluster.rule.ls -l -json` has the types.
"""

from __future__ import annotations

import re
import typing as t

from ..model.findings import InputError
from ..model.input import shown
from ..model.json_pointer import JSON
from .export import (
    DrsCluster,
    DrsOverride,
    DrsRule,
    DrsRuleKind,
    ExportDocument,
    ExportedFields,
    OtherSetting,
    SourceVm,
    add_name,
    inventory_name,
    kind_of_type,
    moref,
)

CONFIGURATION = "configurationEx"
_CUT_OFF = re.compile(r"VMware\.Vim\.|(VirtualMachine-vm|HostSystem-host)-\d+ ")
_NAME_AND_TYPE = re.compile(r"(.*) \((Cluster\w+)\)")

NAMES = {
    "VM": "govc object.collect -json -type m / name",
    "host": "govc object.collect -json -type h / name",
}
"""What prints the names of the objects of a MoRef."""

_SETTINGS = {
    "dasVmConfig": (
        "HA override",
        "Restart priority and isolation response have no counterpart. KubeVirt restarts each VM of a failed node"
        " after the node is fenced.",
    ),
    "vmOrchestration": (
        "start order",
        "VMs have no start order: let the application wait for what it needs.",
    ),
    "dpmHostConfig": ("power management", "No node is switched off to save power."),
}
"""Lists of a configuration that are neither rules nor overrides of DRS: what they are, and why they are left out."""


class Govc:
    """What govc prints with -json."""

    name = "govc"
    has_overrides = True

    def recognizes(self, value: JSON) -> bool:
        plain = _plain(value)
        return bool(
            list(_configurations(plain))
            or _named_object(plain)
            or _rule_types(plain)
            or _overrides_by_moref(plain) is not None
        )

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        plain = []
        for document in documents:
            value = _plain(document.value)
            if text := _cut_off(value):
                fault = f"PowerShell has cut off its values ({text[:60]!r}): use ConvertTo-Json -Depth 10"
                faults.append(InputError(document.where, fault))
            else:
                plain.append((document.where, value))
        names: dict[str, str] = {}
        types: dict[str, str] = {}
        for where, value in plain:
            for reference, name in _named_object(value):
                add_name(names, reference, name, where, faults)
            for rule, type_name in _rule_types(value).items():
                if types.setdefault(rule, type_name) != type_name:
                    types[rule] = ""
        clusters = []
        for where, value in plain:
            clusters += [
                _Configuration(config, f"{where}, {place}", names, types, faults).cluster(cluster)
                for place, cluster, config in _configurations(value)
            ]
            if (overrides := _overrides_by_moref(value)) is not None:
                clusters.append(_with_overrides(overrides, f"{where}, overrides", faults))
        return clusters


def _plain(value: JSON) -> JSON:
    """Names of fields begin with a small letter; a value with its type is the value."""
    if isinstance(value, dict):
        if set(value) == {"_typeName", "_value"}:
            return _plain(value["_value"])
        return {f"{key[:1].lower()}{key[1:]}": _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def _cut_off(value: JSON) -> str | None:
    """A text in place of an object, which ConvertTo-Json writes below its depth; None if there is none."""
    if isinstance(value, str):
        return value if _CUT_OFF.match(value) else None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, map(_cut_off, inner)), None)


def _configurations(value: JSON) -> t.Iterator[tuple[str, str, dict[str, JSON]]]:
    """The place, the cluster where it is known, and the configuration."""
    if isinstance(value, list):
        named = [x for x in value if isinstance(x, dict) and isinstance(x.get("name"), str)]
        changes: dict[str, t.Any] = {x["name"]: x.get("val") for x in named}
        if isinstance(changes.get(CONFIGURATION), dict):
            name = changes.get("name")
            cluster = inventory_name(name) if isinstance(name, str) else ""
            yield CONFIGURATION, cluster, changes[CONFIGURATION]
        else:  # of several clusters
            for index, item in enumerate(value):
                for place, cluster, config in _of_object(item):
                    yield f"[{index}], {place}", cluster, config
    elif isinstance(value, dict):
        if isinstance(value.get("changeSet"), list):
            yield from _of_object(value)
        elif isinstance(value.get(CONFIGURATION), dict):
            yield CONFIGURATION, inventory_name(str(value.get("name") or "")), value[CONFIGURATION]
        elif isinstance(value.get("rule"), list) or isinstance(value.get("group"), list):
            yield "rule", "", value


def _of_object(value: JSON) -> t.Iterator[tuple[str, str, dict[str, JSON]]]:
    """What `govc object.collect -json -type c / configurationEx name` prints for each cluster."""
    if isinstance(value, dict) and isinstance(value.get("changeSet"), list):
        yield from _configurations(value["changeSet"])


def _named_object(value: JSON) -> list[tuple[str, str]]:
    """MoRef and name, of one object or of a list of them."""
    if isinstance(value, list):
        return [pair for item in value for pair in _named_object(item)]
    if not isinstance(value, dict) or not isinstance(value.get("changeSet"), list):
        return []
    return [
        (moref(value.get("obj")), inventory_name(change["val"]))
        for change in value["changeSet"]
        if isinstance(change, dict)
        and change.get("name") == "name"
        and isinstance(change.get("val"), str)
    ]


def _rule_types(value: JSON) -> dict[str, str]:
    """Rule to type, of lines such as `web-apart (ClusterAntiAffinityRuleSpec)`; empty for rules of two types."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return {}
    types: dict[str, str] = {}
    for match in filter(None, map(_NAME_AND_TYPE.fullmatch, value)):
        types[match[1]] = match[2] if types.get(match[1], match[2]) == match[2] else ""
    return types


def _overrides_by_moref(value: JSON) -> dict[str, JSON] | None:
    """What `govc cluster.override.info -json` prints: by `VirtualMachine:vm-66`."""
    overrides = value.get("overrides") if isinstance(value, dict) else None
    return overrides if isinstance(overrides, dict) else None


class _Configuration:
    """One ClusterConfigInfoEx (vSphere Web Services API)."""

    def __init__(
        self,
        config: dict[str, JSON],
        where: str,
        names: t.Mapping[str, str],
        types: t.Mapping[str, str],
        faults: list[InputError],
    ) -> None:
        self._where, self._names, self._types, self._faults = where, names, types, faults
        self._fields = ExportedFields(config, where, faults)

    def cluster(self, name: str) -> DrsCluster:
        vm_groups: dict[str, tuple[SourceVm, ...]] = {}
        host_groups: dict[str, tuple[str, ...]] = {}
        for given in self._maps("group"):
            group = given.required_text("name")
            of_hosts = "ClusterHostGroup" in given.text("_typeName") or "host" in given.values
            if of_hosts:
                hosts = [self._host(item, group) for item in given.items("host")]
                host_groups[group] = tuple(host for host in hosts if host)
            else:
                vm_groups[group] = self._vms(given)
        return DrsCluster(
            name,
            self._where,
            "rule" in self._fields.values,
            tuple(rule for given in self._maps("rule") if (rule := self._rule(given))),
            vm_groups,
            host_groups,
            tuple(
                DrsOverride(
                    given.where,
                    SourceVm(self._names.get(reference, ""), reference),
                    given.flag("enabled", default=True),
                    given.text("behavior"),
                )
                for given in self._maps("drsVmConfig")
                for reference in [moref(given.values.get("key"))]
            ),
            tuple(
                OtherSetting(given.where, kind, self._names.get(reference, reference), reason)
                for name, (kind, reason) in _SETTINGS.items()
                for given in self._maps(name)
                for reference in [moref(given.values.get("key") or given.values.get("vm"))]
            ),
        )

    def _maps(self, name: str) -> list[ExportedFields]:
        base = self._where.removesuffix(", rule")
        return [
            ExportedFields(item, f"{base}, {name}[{index}]", self._faults)
            for index, item in enumerate(self._fields.items(name))
        ]

    def _rule(self, given: ExportedFields) -> DrsRule | None:
        name = given.required_text("name")
        where, given.where = given.where, f"{given.where}, rule {name!r}"
        enabled = given.flag("enabled", default=False)
        type_name = given.text("_typeName") or given.text("_vimtype") or self._types.get(name, "")
        kind = kind_of_type(type_name)
        if not type_name:
            of_fields = {
                "vmGroupName": DrsRuleKind.VM_HOST,
                "dependsOnVmGroup": DrsRuleKind.DEPENDENCY,
            }
            kind = next((of_fields[name] for name in of_fields if name in given.values), None)
            if kind is None:
                given.fault(
                    "its type is not in the export, or rules of this name have several: rules that keep VMs together"
                    " and rules that keep them apart look the same. Add the output of govc cluster.rule.ls -l -json to"
                    " the files, or export with a newer govc, with community.vmware.vmware_drs_rule_info or with"
                    " Export-DrsRule"
                )
                return None
        return DrsRule(
            where=where,
            name=name,
            kind=kind,
            enabled=enabled,
            mandatory=given.flag("mandatory", default=False),
            vms=self._vms(given),
            vm_group=given.text("vmGroupName"),
            affine_host_group=given.text("affineHostGroupName"),
            anti_affine_host_group=given.text("antiAffineHostGroupName"),
            type_name=type_name,
        )

    def _vms(self, given: ExportedFields) -> tuple[SourceVm, ...]:
        items = given.items("vm")
        references = [moref(item) for item in items]
        if "" in references:
            given.fault(f"vm has no reference to a VM, but {shown(items[references.index('')])}")
            return ()
        return tuple(SourceVm(self._names.get(key, ""), key) for key in references)

    def _host(self, item: JSON, group: str) -> str:
        reference = moref(item)
        name = self._names.get(reference, "")
        if not name:
            self._faults.append(
                InputError(
                    self._where,
                    f"host {reference} of the group {group!r} has no name in the files: add the output of"
                    f" {NAMES['host']}",
                )
            )
        return name


def _with_overrides(
    overrides: t.Mapping[str, JSON], where: str, faults: list[InputError]
) -> DrsCluster:
    found: list[DrsOverride] = []
    others: list[OtherSetting] = []
    for reference, item in overrides.items():
        given = ExportedFields(item, f"{where}.{reference}", faults)
        vm = SourceVm(given.text("name"), moref(reference))
        if isinstance(given.values.get("drs"), dict):
            drs = ExportedFields(given.values["drs"], f"{given.where}.drs", faults)
            found.append(
                DrsOverride(drs.where, vm, drs.flag("enabled", default=True), drs.text("behavior"))
            )
        for field, setting in (("das", "dasVmConfig"), ("orchestration", "vmOrchestration")):
            if given.values.get(field):
                kind, reason = _SETTINGS[setting]
                others.append(OtherSetting(f"{given.where}.{field}", kind, str(vm), reason))
    return DrsCluster("", where, overrides=tuple(found), others=tuple(others))
