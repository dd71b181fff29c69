# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rule put which terms on a workload: the annotation `placement.virt/rules`.

    {"version": 1,
     "uid": "<uid of the object>",
     "rules": {"<namespace>/<set>/<name>": ["<slot>:<meaning>.<form>", ...], ...},
     "created": ["/spec/affinity", ...]}

`rules` names each rule that the object carries, with the fingerprints of its terms; a rule that
needed no term of its own stands there with none. `created` are the containers that were not
there before the first rule, as pointers into the template: they go with the last term in them.
In `/spec/.../nodeSelectorTerms/#<digest>/matchExpressions` the digest is of the foreign term that
was given the list.

The annotation is a hint; what stands in the template decides. A `uid` of another object shows
that this one is a copy.
"""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass, field

from ..model.names import RULES
from ..model.pointer import JSON
from ..model.rule import RuleId
from ..model.snapshot import Workload
from .fingerprint import Fingerprint
from .slots import Slot

VERSION = 1


class UnreadableAnnotation(ValueError):
    """An annotation of ours that is damaged, or that a newer release has written."""


@dataclass(frozen=True)
class Ownership:
    """What the annotation of one object says."""

    uid: str
    rules: t.Mapping[RuleId, tuple[Fingerprint, ...]] = field(default_factory=dict)
    created: frozenset[str] = frozenset()

    def text(self) -> str:
        """The annotation's value: the same text for the same content."""
        content = {
            "version": VERSION,
            "uid": self.uid,
            "rules": {
                str(rule): sorted(map(str, marks)) for rule, marks in sorted(self.rules.items())
            },
            "created": sorted(self.created),
        }
        return json.dumps(content, separators=(",", ":"))

    def marks(self) -> frozenset[Fingerprint]:
        """The fingerprints of all rules together."""
        return frozenset(mark for marks in self.rules.values() for mark in marks)

    def owned(self, mark: Fingerprint) -> Fingerprint | None:
        """The fingerprint under which a term that says the same as `mark` is ours, if it is."""
        alike = [own for own in self.marks() if own.says_the_same(mark)]
        return next((own for own in alike if own == mark), min(alike, default=None))

    def of_set(self, namespace: str, set_name: str) -> tuple[RuleId, ...]:
        return tuple(r for r in self.rules if (r.namespace, r.set) == (namespace, set_name))


def read_ownership(workload: Workload) -> Ownership:
    """What the object's annotation says; empty where there is none.

    Raises UnreadableAnnotation. The uid may be another object's: compare it.
    """
    text = workload.annotations.get(RULES)
    if text is None:
        return Ownership(workload.uid)
    content = decode(workload, RULES, text)
    try:
        rules = {
            RuleId.parse(rule): tuple(sorted(map(Fingerprint.parse, marks)))
            for rule, marks in content["rules"].items()
        }
        return Ownership(str(content["uid"]), rules, frozenset(map(str, content["created"])))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UnreadableAnnotation(_damaged(workload, RULES, repr(error))) from error


def decode(workload: Workload, annotation: str, text: str) -> dict[str, JSON]:
    """The JSON object of one of our annotations, its version checked."""
    try:
        content = json.loads(text)
    except ValueError as error:
        raise UnreadableAnnotation(_damaged(workload, annotation, str(error))) from error
    if not isinstance(content, dict) or not isinstance(content.get("version"), int):
        raise UnreadableAnnotation(_damaged(workload, annotation, "it has no version"))
    if content["version"] > VERSION:
        raise UnreadableAnnotation(
            f"{workload.ref}: annotation {annotation} was written by a newer release of"
            f" virt.placement (its version is {content['version']}, this release knows"
            f" {VERSION}): use that release, or a later one"
        )
    return content


def rules_of_term(ownership: Ownership, where: Slot, term: JSON) -> tuple[RuleId, ...]:
    """The rules that a term in slot `where` belongs to: several may share one, a foreign one has none."""
    mark = ownership.owned(Fingerprint.of(where, term))
    if mark is None:
        return ()
    return tuple(sorted(rule for rule, marks in ownership.rules.items() if mark in marks))


def _damaged(workload: Workload, annotation: str, seen: str) -> str:
    return (
        f"{workload.ref}: annotation {annotation} is damaged ({seen}): restore it from a backup,"
        " or remove it, and the terms of the rules by hand, and write the rules again"
    )
