# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of an export of govc as DRS defines them, without the code that imports them: which does a placement of VMs
on nodes break?"""

from __future__ import annotations

import itertools
import json
import re
import typing as t
from dataclasses import dataclass
from pathlib import Path

Placement = t.Mapping[str, str]
"""The node of each VM, by its name in vCenter."""

_RENAMED = {
    "batch-build-apart-2": "batch-build apart",
    "legacy-on-A-not-gpu-2": "legacy on A not gpu",
}
"""A name that is taken, and the second rule that a rule with two groups of hosts becomes."""


@dataclass(frozen=True)
class VsphereRule:
    """`vms` or hosts, as nodes, that they must be on or off."""

    name: str
    type_name: str
    required: bool
    vms: tuple[str, ...]
    on: frozenset[str] | None = None
    off: frozenset[str] = frozenset()

    def is_broken(self, placement: Placement) -> bool:
        nodes = [placement[vm] for vm in self.vms]
        if self.type_name == "ClusterAffinityRuleSpec":
            return len(set(nodes)) > 1
        if self.type_name == "ClusterAntiAffinityRuleSpec":
            return len(set(nodes)) < len(nodes)
        return any(node in self.off or node not in (self.on or {node}) for node in nodes)


@dataclass(frozen=True)
class VsphereRules:
    """`vms`: MoRefs by name. `rules`: those that DRS enforces, with VMs enough to be broken."""

    vms: dict[str, str]
    rules: dict[str, VsphereRule]
    nodes: tuple[str, ...]

    @classmethod
    def read(cls, folder: Path, hosts: t.Mapping[str, str]) -> VsphereRules:
        """The files that govc wrote; `hosts`: the node of each host."""
        names = {**_names(folder / "vms.json"), **_names(folder / "hosts.json")}
        config = json.loads((folder / "config.json").read_text())[0]["val"]
        types = dict(
            t.cast("tuple[str, str]", re.fullmatch(r"(.*) \((\w+)\)", line).groups())  # type: ignore[union-attr]
            for line in json.loads((folder / "types.json").read_text())
        )
        groups = {
            group["name"]: tuple(
                names[x["value"]] for x in group.get("vm") or group.get("host") or ()
            )
            for group in config["group"]
        }

        def nodes(group: str | None) -> frozenset[str] | None:
            return frozenset(hosts[host] for host in groups[group]) if group else None

        rules = {}
        for given in config["rule"]:
            name, of_hosts = given["name"], "vmGroupName" in given
            vms = [names[vm["value"]] for vm in given.get("vm") or ()]
            rule = VsphereRule(
                name,
                types[name],
                given.get("mandatory", False) if of_hosts else True,
                groups[given["vmGroupName"]] if of_hosts else tuple(vms),
                nodes(given.get("affineHostGroupName")),
                nodes(given.get("antiAffineHostGroupName")) or frozenset(),
            )
            if given.get("enabled") and len(rule.vms) > (0 if of_hosts else 1):
                rules[name] = rule
        vms_of_export = {name: ref for ref, name in _names(folder / "vms.json").items()}
        return cls(vms_of_export, rules, tuple(hosts.values()))

    def broken(self, placement: Placement) -> dict[str, str]:
        """The broken rules, with the verdict that this collection has for one."""
        return {
            rule.name: "violated" if rule.required else "preference_not_met"
            for rule in self.rules.values()
            if rule.is_broken(placement)
        }

    def smallest_break(
        self, rule: str, placement: Placement
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The move that breaks this rule and the fewest others; and all that it breaks."""
        moves = [
            {vm: node for vm in vms if placement[vm] != node}
            for vms, node in itertools.product(self._moved_together(rule), self.nodes)
        ]
        breaks = [(move, self.broken({**placement, **move})) for move in moves]
        return min(
            ((m, b) for m, b in breaks if rule in b), key=lambda each: (len(each[1]), len(each[0]))
        )

    def _moved_together(self, broken: str) -> list[tuple[str, ...]]:
        """Each VM alone, the VMs that affinity keeps on one node, and those of the rule that is broken."""
        groups: list[set[str]] = []
        for rule in self.rules.values():
            if rule.type_name == "ClusterAffinityRuleSpec":
                joined = set(rule.vms).union(*(group for group in groups if group & set(rule.vms)))
                groups = [group for group in groups if not group & joined] + [joined]
        kept = [tuple(sorted(group)) for group in groups]
        return [*((vm,) for vm in self.vms), *kept, self.rules[broken].vms]


def name_in_vcenter(rule: str, rules: t.Iterable[str]) -> str:
    """Of a rule of this collection."""
    same = (name for name in rules if re.sub(r"[^A-Za-z0-9_.-]+", "-", name) == rule)
    return _RENAMED.get(rule) or next(same)


def _names(path: Path) -> dict[str, str]:
    """By MoRef, of the objects that govc printed one after the other."""
    decoder, text, names = json.JSONDecoder(), path.read_text().strip(), {}
    while text:
        item, end = decoder.raw_decode(text)
        value = item["changeSet"][0]["val"]
        names[item["obj"]["value"]] = value["_value"] if isinstance(value, dict) else value
        text = text[end:].strip()
    return names
