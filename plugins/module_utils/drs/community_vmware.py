# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and groups as the modules vmware_drs_rule_info and vmware_drs_group_info return them.

The names of the fields are those of community.vmware 6.5 (plugins/modules/vmware_drs_rule_info.py and
vmware_drs_group_info.py). The VMs and hosts of the groups of a rule are in the rule itself.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.json_pointer import JSON
from .export import DrsCluster, DrsRule, DrsRuleKind, ExportDocument, ExportedFields, SourceVm

RULES = "drs_rule_info"
GROUPS = "drs_group_info"


class CommunityVmware:
    """What a task of community.vmware registers."""

    name = "community.vmware"
    command = "the modules community.vmware.vmware_drs_rule_info and vmware_drs_group_info"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        return isinstance(value, dict) and (RULES in value or GROUPS in value)

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        clusters = []
        for document in documents:
            for option, read in ((RULES, _with_rules), (GROUPS, _with_groups)):
                where = f"{document.where}, {option}"
                by_cluster = document.value.get(option, {})
                for name, items in ExportedFields(by_cluster, where, faults).values.items():
                    if isinstance(items, list):
                        clusters.append(read(name, items, f"{where}.{name}", faults))
                    else:
                        faults.append(InputError(f"{where}.{name}", "must be a list"))
        return clusters


def _with_rules(
    cluster: str, items: t.Sequence[JSON], where: str, faults: list[InputError]
) -> DrsCluster:
    rules: list[DrsRule] = []
    vm_groups: dict[str, tuple[SourceVm, ...]] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(items):
        given = ExportedFields(item, f"{where}[{index}]", faults)
        name, kind = given.required_text("rule_name"), given.text("rule_type")
        given.where = f"{given.where}, rule {name!r}"
        vms = tuple(map(SourceVm, given.texts("rule_vms")))
        rule = DrsRule(
            where=f"{where}[{index}]",
            name=name,
            kind=None,
            enabled=given.flag("rule_enabled"),
            mandatory=given.optional_flag("rule_mandatory"),
            type_name=kind,
        )
        if kind == "vm_host_rule":
            affine = given.text("rule_affine_host_group_name")
            anti_affine = given.text("rule_anti_affine_host_group_name")
            group = given.text("rule_vm_group_name")
            rules.append(
                replace(
                    rule,
                    kind=DrsRuleKind.VM_HOST,
                    vm_group=group,
                    affine_host_group=affine,
                    anti_affine_host_group=anti_affine,
                )
            )
            vm_groups[group] = vms
            for host_group, hosts in (
                (affine, "rule_affine_hosts"),
                (anti_affine, "rule_anti_affine_hosts"),
            ):
                if host_group:
                    host_groups[host_group] = given.texts(hosts)
        elif kind == "vm_vm_rule":
            together = given.flag("rule_affinity")
            of_vms = DrsRuleKind.AFFINITY if together else DrsRuleKind.ANTI_AFFINITY
            rules.append(replace(rule, kind=of_vms, vms=vms))
        else:
            given.fault(f"rule_type must be vm_vm_rule or vm_host_rule, not {kind!r}")
    return DrsCluster(cluster, tuple(rules), vm_groups, host_groups)


def _with_groups(
    cluster: str, items: t.Sequence[JSON], where: str, faults: list[InputError]
) -> DrsCluster:
    vm_groups: dict[str, tuple[SourceVm, ...]] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(items):
        given = ExportedFields(item, f"{where}[{index}]", faults)
        name, kind = given.required_text("group_name"), given.text("type")
        if kind == "vm":
            vm_groups[name] = tuple(map(SourceVm, given.texts("vms")))
        elif kind == "host":
            host_groups[name] = given.texts("hosts")
        else:
            given.fault(f"group {name!r}: type must be vm or host, not {kind!r}")
    return DrsCluster(cluster, (), vm_groups, host_groups)
