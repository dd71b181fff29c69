# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether nodes carry the label keys that a rule names."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding, Severity
from ..model.objects import Node, Ref
from ..model.rule import Avoid, KeepApart, KeepTogether, Rule, RunOn, SpreadOver, Terms
from .inventory import Inventory
from .selector_findings import unchecked
from .slots import LISTS, Slot, terms_of
from .values import nearest

KEY_ON_NO_NODE = "key_on_no_node"
KEY_ON_SOME_NODES = "key_on_some_nodes"

_NEED_THE_KEY = ("In", "Exists", "Gt", "Lt")
"""Operators of a node expression that only hold where the node has the key."""


def key_findings(
    rule: Rule, inventory: Inventory, carriers: tuple[Ref, ...] = ()
) -> t.Iterator[Finding]:
    """Keys on no node, which `carriers` would ask for, and topology keys that are missing on some
    nodes that take pods."""
    nodes = inventory.snapshot.nodes
    gap = inventory.gap("nodes", "")
    over, asked, avoided = _keys_of(rule)
    if gap is not None and (over or asked or avoided):
        yield unchecked(gap, f"Whether nodes carry the keys of rule {rule.id.name}")
        return
    carried = {key for node in nodes for key in node.labels}
    for key in dict.fromkeys((*over, *asked, *avoided)):
        if key not in carried:
            only_avoided = key in avoided and key not in (*over, *asked)
            severity: Severity = "warning" if only_avoided else "error"
            yield Finding(
                KEY_ON_NO_NODE,
                severity,
                f"No node has the label {key}, so the rule would {_void(rule, key, over)}.",
                f"Label the nodes first, or correct the key{_like(key, carried) or '.'}",
                carriers,
                rule.id.name,
            )
    for key in dict.fromkeys(over):
        without = [node for node in nodes if _takes_pods(node) and key not in node.labels]
        if key in carried and without:
            yield _on_some(rule, key, without)


def _like(key: str, carried: t.Collection[str]) -> str:
    """Keys that may have been meant: those of the same name under another prefix before others."""
    name = key.rpartition("/")[2]
    same = [other for other in carried if other.rpartition("/")[2] == name]
    return nearest(key, same or carried, 0.4 if same else 0.75)


def _keys_of(rule: Rule) -> tuple[list[str], list[str], list[str]]:
    """Keys whose domains count, keys that a node must have, keys that it need not have."""
    verb = rule.verb
    if isinstance(verb, (KeepApart, KeepTogether, SpreadOver)):
        return [verb.over], [], []
    if isinstance(verb, RunOn):
        return [], [key for key, _values in verb.nodes], []
    if isinstance(verb, Avoid):
        return [], [], [key for key, _values in verb.nodes]
    over, asked = [], []
    if isinstance(verb, Terms):
        for slot, term in terms_of({"spec": verb.fields}):
            needs = slot is Slot.NODE_EXPRESSION and term["operator"] in _NEED_THE_KEY
            if needs or slot is Slot.NODE_SELECTOR:
                asked.append(term["key"])
            elif slot in LISTS:
                inner = term.get("podAffinityTerm", term)
                over += [inner["topologyKey"]] if "topologyKey" in inner else []
    return over, asked, []


def _void(rule: Rule, key: str, over: t.Sequence[str]) -> str:
    if isinstance(rule.verb, Avoid) or rule.preferred or isinstance(rule.verb, KeepApart):
        return "have no effect"
    return "leave every instance Pending" if key in over else "allow no node"


def _on_some(rule: Rule, key: str, without: t.Sequence[Node]) -> Finding:
    names = ", ".join(node.name for node in without[:5])
    more = f" and {len(without) - 5} more" if len(without) > 5 else ""
    return Finding(
        KEY_ON_SOME_NODES,
        "warning",
        f"{names}{more} take{'s' if len(without) == 1 else ''} pods but ha"
        f"{'s' if len(without) == 1 else 've'} no label {key}: keep_apart is void there, spread and"
        " keep_together never use it.",
        "Label these nodes too, or keep the workloads off them.",
        tuple(node.ref for node in without),
        rule.id.name,
    )


def _takes_pods(node: Node) -> bool:
    return not node.unschedulable and not any(
        taint.effect in ("NoSchedule", "NoExecute") for taint in node.taints
    )
