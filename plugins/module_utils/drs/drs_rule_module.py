# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and groups as Export-DrsRule of the PowerShell module DRSRule writes them.

One flat JSON array of rules and groups of all clusters, told apart by `Type` (DRSRule 2.0, DRSRule.psm1). PowerShell
writes an array of one entry as that entry. VM-VM rules have no `Mandatory`.
"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import replace

from ..model.findings import InputError
from ..model.json_pointer import JSON
from .export import (
    OF_THEIR_OWN,
    DrsCluster,
    DrsRule,
    DrsRuleKind,
    ExportDocument,
    ExportedFields,
    SourceVm,
    items_of,
    kind_of_type,
    moref,
)


class DrsRuleModule:
    """The file that Export-DrsRule writes."""

    name = "Export-DrsRule"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        return any(_is_entry(item) for item in items_of(value))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        return [cluster for document in documents for cluster in _clusters(document, faults)]


def _clusters(document: ExportDocument, faults: list[InputError]) -> list[DrsCluster]:
    """One cluster of each name. Only rules have the id of their cluster."""
    merged: dict[str, DrsCluster] = {}
    ids: dict[str, set[str]] = defaultdict(set)
    twice: set[str] = set()
    for index, item in enumerate(items_of(document.value)):
        where = f"{document.where}, [{index}]"
        if not _is_entry(item):
            faults.append(InputError(where, "has no Type such as ClusterVmGroup"))
            continue
        part = _entry(ExportedFields(item, where, faults))
        known = merged.get(part.name, DrsCluster(part.name, document.where, lists_rules=True))
        ids[part.name].update([str(item["ClusterId"])] if item.get("ClusterId") else [])
        groups = (
            part.vm_groups.keys() & known.vm_groups or part.host_groups.keys() & known.host_groups
        )
        if groups or len(ids[part.name]) > 1:
            twice.add(part.name)
        merged[part.name] = replace(
            known,
            rules=known.rules + part.rules,
            vm_groups={**known.vm_groups, **part.vm_groups},
            host_groups={**known.host_groups, **part.host_groups},
        )
    for name in sorted(twice):
        fault = f"has two clusters of the name {name!r}, in different folders: {OF_THEIR_OWN}"
        faults.append(InputError(document.where, fault))
    return list(merged.values())


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
        return DrsCluster(cluster, given.where, vm_groups={name: _vms(given)})
    if type_name == "ClusterHostGroup":
        return DrsCluster(cluster, given.where, host_groups={name: given.texts("VMHost")})
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
    return DrsCluster(cluster, where, rules=(rule,))


def _vms(given: ExportedFields) -> tuple[SourceVm, ...]:
    """Names and ids are lists of the same order."""
    names = given.texts("VM")
    ids = [moref(item) for item in given.items("VMId")]
    if len(ids) != len(names):
        ids = [""] * len(names)
    return tuple(SourceVm(*pair) for pair in zip(names, ids, strict=True))
