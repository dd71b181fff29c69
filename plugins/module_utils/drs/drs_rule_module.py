# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and groups as Export-DrsRule of the PowerShell module DRSRule writes them.

One flat JSON array of rules and groups of all clusters, told apart by `Type` (DRSRule 2.0, DRSRule.psm1). PowerShell
writes an array of one entry as that entry. VM-VM rules have no `Mandatory`.
"""

from __future__ import annotations

import typing as t

from ..model.findings import InputError
from ..model.json_pointer import JSON
from .export import (
    DrsCluster,
    DrsRule,
    DrsRuleKind,
    ExportDocument,
    ExportedFields,
    SourceVm,
    kind_of_type,
    moref,
)


class DrsRuleModule:
    """The file that Export-DrsRule writes."""

    name = "Export-DrsRule"
    command = "Export-DrsRule -Path drs.json of the PowerShell module DRSRule"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        return any(_is_entry(item) for item in _entries(value))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        clusters = []
        for document in documents:
            for index, item in enumerate(_entries(document.value)):
                where = f"{document.where}, [{index}]"
                if _is_entry(item):
                    clusters.append(_entry(ExportedFields(item, where, faults)))
                else:
                    faults.append(InputError(where, "has no Type such as ClusterVmGroup"))
        return _merged(clusters)


def _entries(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else [value]


def _is_entry(item: JSON) -> bool:
    if not isinstance(item, dict) or "Cluster" not in item:
        return False
    type_name = item.get("Type")
    return isinstance(type_name, str) and type_name.startswith("Cluster")


def _entry(given: ExportedFields) -> DrsCluster:
    """A cluster with one rule or one group."""
    cluster, name = given.required_text("Cluster"), given.required_text("Name")
    type_name = given.text("Type")
    if type_name == "ClusterVmGroup":
        return DrsCluster(cluster, vm_groups={name: _vms(given)})
    if type_name == "ClusterHostGroup":
        return DrsCluster(cluster, host_groups={name: given.texts("VMHost")})
    where, given.where = given.where, f"{given.where}, rule {name!r}"
    kind = kind_of_type(type_name)
    rule = DrsRule(
        where=where,
        name=name,
        kind=kind,
        enabled=given.flag("Enabled"),
        mandatory=given.optional_flag("Mandatory"),
        vms=() if kind is DrsRuleKind.VM_HOST else _vms(given),
        vm_group=given.text("VMGroupName"),
        affine_host_group=given.text("AffineHostGroupName"),
        anti_affine_host_group=given.text("AntiAffineHostGroupName"),
        type_name=type_name,
    )
    return DrsCluster(cluster, (rule,))


def _vms(given: ExportedFields) -> tuple[SourceVm, ...]:
    """Names and ids are lists of the same order."""
    names = given.texts("VM")
    ids = [moref(item) for item in given.items("VMId")]
    if len(ids) != len(names):
        ids = [""] * len(names)
    return tuple(SourceVm(*pair) for pair in zip(names, ids, strict=True))


def _merged(parts: t.Iterable[DrsCluster]) -> list[DrsCluster]:
    """One cluster of each name."""
    merged: dict[str, DrsCluster] = {}
    for part in parts:
        known = merged.get(part.name, DrsCluster(part.name))
        merged[part.name] = DrsCluster(
            part.name,
            known.rules + part.rules,
            {**known.vm_groups, **part.vm_groups},
            {**known.host_groups, **part.host_groups},
        )
    return list(merged.values())
