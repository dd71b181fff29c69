# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short names for terms: what a term says, and how exactly it is written.

A form or a console may write a term anew: other order, matchLabels as matchExpressions, empty
lists left out. It says the same, so it stays the same term.
"""

from __future__ import annotations

import functools
import hashlib
import json
import typing as t
from dataclasses import dataclass

from ..model.pointer import JSON
from .slots import Slot

_SETS = ("values", "namespaces", "matchLabelKeys", "mismatchLabelKeys")
_CONJUNCTIONS = ("matchExpressions", "matchFields")
_DEFAULTS: t.Mapping[Slot, t.Mapping[str, JSON]] = {
    Slot.SPREAD: {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
    Slot.TOLERATION: {"operator": "Equal", "value": "", "effect": "", "key": ""},
}
"""What the API takes a missing field for (core/v1 TopologySpreadConstraint, Toleration)."""


@dataclass(frozen=True, slots=True, order=True)
class Fingerprint:
    """`meaning` is the same for terms that say the same, `form` only for the same JSON."""

    slot: Slot
    meaning: str
    form: str

    def __str__(self) -> str:
        return f"{self.slot}:{self.meaning}.{self.form}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Raises ValueError for what is no fingerprint."""
        slot, digests = text.split(":", 1)
        meaning, form = digests.split(".", 1)
        return cls(Slot(slot), meaning, form)

    @classmethod
    def of(cls, slot: Slot, value: JSON) -> Fingerprint:
        return _of(slot, _text(value))

    def says_the_same(self, other: Fingerprint) -> bool:
        return self.slot is other.slot and self.meaning == other.meaning


@functools.lru_cache(maxsize=4096)
def _of(slot: Slot, text: str) -> Fingerprint:
    """Many workloads carry the same terms, and a group of hundreds has long ones."""
    value = json.loads(text)
    said = {**_DEFAULTS[slot], **value} if slot in _DEFAULTS else value
    return Fingerprint(slot, digest(_meaning(said), 10), digest(without_empties(value), 6))


def digest(value: JSON, length: int) -> str:
    """The first hexadecimal digits of a hash over the value, whatever the order of its keys."""
    return hashlib.sha256(_text(value).encode()).hexdigest()[:length]


def without_empties(value: JSON) -> JSON:
    """The value without nulls and empty lists: the API server drops those in some kinds and keeps
    them in others. An empty map stays, it has a meaning of its own (a selector of everything)."""
    if isinstance(value, dict):
        kept = {key: without_empties(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner is not None and inner != []}
    if isinstance(value, list):
        return [without_empties(inner) for inner in value]
    return value


def _meaning(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_meaning(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    said: dict[str, JSON] = {}
    for key, inner in _spelled_out(without_empties(value)).items():
        if key in _SETS:
            said[key] = sorted(set(map(_text, inner)))
        elif key in _CONJUNCTIONS:
            said[key] = sorted(map(_text, map(_meaning, inner)))
        else:
            said[key] = _meaning(inner)
    return said


def _spelled_out(value: dict[str, JSON]) -> dict[str, JSON]:
    """matchLabels as the expressions that they stand for."""
    if "matchLabels" not in value:
        return value
    rest = {key: inner for key, inner in value.items() if key != "matchLabels"}
    spelled = [
        {"key": key, "operator": "In", "values": [wanted]}
        for key, wanted in value["matchLabels"].items()
    ]
    if spelled:
        rest["matchExpressions"] = [*(rest.get("matchExpressions") or ()), *spelled]
    return rest


def _text(value: JSON) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
