# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules and groups as the modules vmware_drs_rule_info and vmware_drs_group_info return them.

The names of the fields are those of community.vmware 6.5 (plugins/modules/vmware_drs_rule_info.py and
vmware_drs_group_info.py). The VMs and hosts of the groups of a rule are in the rule itself. Ansible before 2.10 had
modules vmware_drs_rule_facts and vmware_drs_group_facts with the same fields. A task with a loop registers its results
in a list.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import InputError
from ..model.json_pointer import JSON
from .export import (
    DrsCluster,
    DrsRule,
    DrsRuleKind,
    ExportDocument,
    ExportedFields,
    SourceVm,
    inventory_name,
)

RULES = ("drs_rule_info", "drs_rule_facts")
GROUPS = ("drs_group_info", "drs_group_facts")
LOOP = "results"
_OF_RULES = "has other members of"


class CommunityVmware:
    """What a task of community.vmware registers."""

    name = "community.vmware"
    has_overrides = False

    def recognizes(self, value: JSON) -> bool:
        return any(x in result for _where, result in _results(value, "") for x in (*RULES, *GROUPS))

    def read(
        self, documents: t.Sequence[ExportDocument], faults: list[InputError]
    ) -> list[DrsCluster]:
        clusters = []
        results = [pair for x in documents for pair in _results(x.value, x.where)]
        for place, result in results:
            if result.get("failed"):
                text = f"is the result of a task that failed: {str(result.get('msg', ''))[:120]}"
                faults.append(InputError(place, text))
            for option in (x for x in (*RULES, *GROUPS) if x in result):
                read = _with_rules if option in RULES else _with_groups
                where = f"{place}, {option}"
                for name, items in ExportedFields(result[option], where, faults).values.items():
                    if isinstance(items, list):
                        cluster = inventory_name(name)
                        clusters.append(read(cluster, items, f"{where}.{name}", faults))
                    else:
                        faults.append(InputError(f"{where}.{name}", "must be a list"))
        return clusters


def _results(value: JSON, where: str) -> list[tuple[str, dict[str, JSON]]]:
    """What a task registered, with its place: one result, or those of its loop."""
    if not isinstance(value, dict):
        return []
    if not isinstance(value.get(LOOP), list):
        return [(where, value)]
    return [
        (f"{where}, {LOOP}[{index}]", item)
        for index, item in enumerate(value[LOOP])
        if isinstance(item, dict)
    ]


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
        vms = _vms(given, "rule_vms")
        if "rule_vms" not in given.values:
            given.fault("rule_vms is missing: export again with community.vmware")
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
            if group and set(vm_groups.setdefault(group, vms)) != set(vms):
                given.fault(f"{_OF_RULES} the VM group {group!r} than a rule before it")
            for host_group, option in (
                (affine, "rule_affine_hosts"),
                (anti_affine, "rule_anti_affine_hosts"),
            ):
                hosts = given.texts(option)
                if host_group and set(host_groups.setdefault(host_group, hosts)) != set(hosts):
                    given.fault(f"{_OF_RULES} the host group {host_group!r} than a rule before it")
        elif kind == "vm_vm_rule":
            together = given.optional_flag("rule_affinity")
            if together is None:
                given.fault(
                    "rule_affinity is missing, which says whether it keeps its VMs together or apart: export again with"
                    " community.vmware"
                )
            of_vms = DrsRuleKind.AFFINITY if together else DrsRuleKind.ANTI_AFFINITY
            rules.append(replace(rule, kind=of_vms, vms=vms))
        else:
            given.fault(f"rule_type must be vm_vm_rule or vm_host_rule, not {kind!r}")
    return DrsCluster(cluster, where, True, tuple(rules), vm_groups, host_groups)


def _vms(given: ExportedFields, name: str) -> tuple[SourceVm, ...]:
    return tuple(SourceVm(inventory_name(text)) for text in given.texts(name))


def _with_groups(
    cluster: str, items: t.Sequence[JSON], where: str, faults: list[InputError]
) -> DrsCluster:
    vm_groups: dict[str, tuple[SourceVm, ...]] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    for index, item in enumerate(items):
        given = ExportedFields(item, f"{where}[{index}]", faults)
        name, kind = given.required_text("group_name"), given.text("type")
        if kind == "vm":
            vm_groups[name] = _vms(given, "vms")
        elif kind == "host":
            host_groups[name] = given.texts("hosts")
        else:
            given.fault(f"group {name!r}: type must be vm or host, not {kind!r}")
    return DrsCluster(cluster, where, vm_groups=vm_groups, host_groups=host_groups)
