# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules, terms and labels does a write take from an object, and which does it add? In words, for a diff."""

from __future__ import annotations

from ..model.json_pointer import JSON
from ..model.placement_manifests import placement_from_spec
from ..model.rendering import label_text, one_line
from ..model.topology import Topology
from ..model.write import Write
from .terms import TermSet, describe


def term_changes(write: Write, topology: Topology) -> list[str]:
    """`- node affinity zone In (a)`, `+ rule shop/default/web-apart`."""
    before, after = (_words(side, topology) for side in (write.before, write.after))
    return [
        *(f"- {text}" for text in before if text not in after),
        *(f"+ {text}" for text in after if text not in before),
    ]


def _words(side: JSON, topology: Topology) -> dict[str, None]:
    """Of one side of a diff, in order: its rules, those that are not enabled, the terms and the labels."""
    shown: dict[str, JSON] = side or {}
    resting = shown.get("resting") or ()
    texts = [
        f"rule {rule}{', not enabled' if rule in resting else ''}"
        for rule in shown.get("rules") or ()
    ]
    for term in TermSet(placement_from_spec(shown)).ordered:
        weight = f", weight {term.weight}" if term.weight else ""
        texts.append(f"{describe(term, topology)}{weight}")
    texts += [f"label {label_text(*pair)}" for pair in (shown.get("labels") or {}).items()]
    return dict.fromkeys(map(one_line, texts))
