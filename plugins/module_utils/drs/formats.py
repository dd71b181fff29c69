# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which formats of exports are there, and what do some files hold of one cluster?"""

from __future__ import annotations

import typing as t
from collections import defaultdict
from dataclasses import replace

from ..model.findings import InputError
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.rendering import listed
from .community_vmware import CommunityVmware
from .drs_rule_module import DrsRuleModule
from .export import OF_THEIR_OWN, DrsCluster, ExportDocument, ExportFormat, SourceVm
from .govc import Govc
from .powercli import PowerCli
from .proxmox import DATA, Proxmox

FORMATS: tuple[ExportFormat, ...] = (
    CommunityVmware(),
    DrsRuleModule(),
    Govc(),
    PowerCli(),
    Proxmox(),
)

*_FIRST, _LAST = (known.name for known in FORMATS)
ADVICE = f"export with {', '.join(_FIRST)} or {_LAST}, by the commands in docs/from-vsphere.md"
_PARTS = ("configuration", "configurationEx")
"""Properties of a cluster. The first one has no groups; a field of the second one, such as configurationEx.rule, has a
part of it."""


def is_known(value: JSON) -> bool:
    """Whether a document is of one of the formats."""
    return any(each.recognizes(value) for each in FORMATS)


def _refusal(value: JSON) -> str:
    """The fault of a document of no known format."""
    inner = value.get(DATA) if isinstance(value, dict) else value
    items = inner if isinstance(inner, list) else [value]
    if not items:
        return f"is an empty list; {ADVICE}"
    if isinstance(value, dict) and value.get("failed"):
        return f"is the result of a task that failed: {str(value.get('msg', ''))[:120]}"
    if all(isinstance(item, str) for item in items):
        if any(item.lstrip().startswith(("Rule:", "Type:")) for item in items):
            return (
                "is the output of govc cluster.rule.info, which does not say whether a rule is enabled or must be"
                f" obeyed; {ADVICE}"
            )
        return f"has names of rules, and nothing about them; {ADVICE}"
    fields = {str(key) for item in items if isinstance(item, dict) for key in item}
    if {"group", "nodes"} <= fields:
        return (
            "has HA groups of Proxmox VE 8, which are not read. Proxmox VE 9 makes rules of them: export these"
            " after the upgrade"
        )
    if any(isinstance(item, dict) and isinstance(item.get("Type"), int) for item in items):
        return f"does not name clusters, and has no rules of VMs and hosts; {ADVICE}"
    names = {item.get("name") for item in items if isinstance(item, dict)}
    if part := next((x for x in names if str(x).partition(".")[0] in _PARTS), ""):
        return f"has {part}, a part of the configuration of a cluster; {ADVICE}"
    return f"is no export of rules that is known here; {ADVICE}"


def read_cluster(
    documents: t.Sequence[ExportDocument], wanted: str, faults: list[InputError]
) -> DrsCluster | None:
    """What the documents hold of the cluster `wanted`, or of the only one where it is empty; None after a fault."""
    before = len(faults)
    parts: list[DrsCluster] = []
    by_format: dict[int, list[ExportDocument]] = {}
    for document in documents:
        known = [i for i, each in enumerate(FORMATS) if each.recognizes(document.value)]
        if known:
            by_format.setdefault(known[0], []).append(document)
        else:
            faults.append(InputError(document.where, _refusal(document.value)))
    for index, of_format in by_format.items():
        parts += FORMATS[index].read(of_format, faults)
    names = sorted({part.name for part in parts if part.name})
    if wanted and names and wanted not in names:
        hint = nearest(wanted, names)
        faults.append(
            InputError(
                "cluster", f"{wanted!r} is not in the export, which has {', '.join(names)}{hint}"
            )
        )
    elif not wanted and len(names) > 1:
        faults.append(
            InputError(
                "cluster",
                f"is needed: the export has {len(names)} clusters, {', '.join(names)}. Import one at a time, each"
                " into its own rule set",
            )
        )
    if documents and not parts and len(faults) == before:
        faults.append(
            InputError(
                "files", f"have no rules of a cluster, at most names of VMs and hosts; {ADVICE}"
            )
        )
    if len(faults) > before or not documents:
        return None
    chosen = wanted or (names[0] if names else "")
    parts = [part for part in parts if part.name in (chosen, "")]
    _refuse_rules_twice(parts, faults)
    _refuse_different_groups(parts, faults)
    return None if len(faults) > before else _one(chosen, parts)


def knows_overrides(documents: t.Iterable[ExportDocument]) -> bool:
    """Whether one of the documents is of a format that can hold overrides of VMs."""
    formats = [each for each in FORMATS if each.has_overrides]
    return any(each.recognizes(document.value) for document in documents for each in formats)


def _refuse_rules_twice(parts: t.Sequence[DrsCluster], faults: list[InputError]) -> None:
    with_rules = [part for part in parts if part.lists_rules]
    if len(with_rules) > 1:
        places = " and ".join(part.where for part in with_rules)
        faults.append(
            InputError(
                "files",
                f"hold the rules of one cluster more than once ({places}): give each export once. If"
                f" they are two clusters of this name, in different folders, {OF_THEIR_OWN}",
            )
        )


def _one(name: str, parts: t.Sequence[DrsCluster]) -> DrsCluster:
    vm_groups: dict[str, tuple[SourceVm, ...]] = {}
    host_groups: dict[str, tuple[str, ...]] = {}
    for part in parts:
        vm_groups.update(part.vm_groups)
        host_groups.update(part.host_groups)
    overrides = [override for part in parts for override in part.overrides]
    rules = [rule for part in parts for rule in part.rules]
    completed = _with_morefs(
        [
            *(vm for rule in rules for vm in rule.vms),
            *(vm for vms in vm_groups.values() for vm in vms),
            *(override.vm for override in overrides),
        ]
    )
    return DrsCluster(
        name,
        " and ".join(part.where for part in parts),
        any(part.lists_rules for part in parts),
        tuple(replace(rule, vms=tuple(map(completed, rule.vms))) for rule in rules),
        {group: tuple(map(completed, vms)) for group, vms in vm_groups.items()},
        host_groups,
        tuple({completed(x.vm): replace(x, vm=completed(x.vm)) for x in overrides}.values()),
        tuple({(x.kind, x.name): x for part in parts for x in part.others}.values()),
    )


def _refuse_different_groups(parts: t.Sequence[DrsCluster], faults: list[InputError]) -> None:
    """Several documents may hold a group, with the same members."""
    first: dict[tuple[str, str], tuple[str, set[str]]] = {}
    for part in parts:
        groups = {("VM", name): set(map(str, vms)) for name, vms in part.vm_groups.items()}
        groups |= {("host", name): set(hosts) for name, hosts in part.host_groups.items()}
        for (kind, group), names in groups.items():
            where, known = first.setdefault((kind, group), (part.where, names))
            if names != known:
                faults.append(
                    InputError(
                        "files",
                        f"hold different members of the {kind} group {group!r} ({where} and {part.where}):"
                        f" {listed(sorted(names ^ known))} in one of them only. Give exports of one time",
                    )
                )


def _with_morefs(vms: t.Iterable[SourceVm]) -> t.Callable[[SourceVm], SourceVm]:
    """What gives a VM without MoRef that of the one VM with its name: formats with and without them may be mixed."""
    morefs: dict[str, set[str]] = defaultdict(set)
    for vm in vms:
        if vm.name and vm.moref:
            morefs[vm.name].add(vm.moref)

    def completed(vm: SourceVm) -> SourceVm:
        known = morefs.get(vm.name, ())
        return SourceVm(vm.name, *known) if not vm.moref and len(known) == 1 else vm

    return completed
