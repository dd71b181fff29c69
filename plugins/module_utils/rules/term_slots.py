# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where can a term be in a pod template, which terms does a template have, and when do two mean the same?

A fingerprint names a term by its meaning and by its form. A console may write a term again in another
order, with matchLabels as matchExpressions, without empty lists: it means the same, so it stays the
same term.

A template without `affinity` and one with `affinity: {}` mean the same, but they are not the same
bytes: a container that was absent becomes absent again, one that was empty stays empty.

Field names and their meaning: Kubernetes core/v1 Affinity, Toleration, TopologySpreadConstraint.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import typing as t
from dataclasses import dataclass, field

from ..model.json_pointer import JSON, MISSING, Pointer
from ..model.placement_manifests import PREFERRED, REQUIRED
from ..model.rendering import TextEnum


def ensure(root: JSON, pointer: Pointer, empty: JSON, created: set[str]) -> JSON:
    """The container at `pointer`; where it is missing it becomes `empty`, its parents maps.

    What had to be made is added to `created`. A null counts as missing.
    """
    holder = root
    for depth, part in enumerate(pointer.parts, 1):
        if holder.get(part) is None:
            holder[part] = empty if depth == len(pointer.parts) else {}
            created.add(str(Pointer(pointer.parts[:depth])))
        holder = holder[part]
    return holder


def tidy(root: JSON, created: t.Iterable[str]) -> set[str]:
    """Take away the containers of `created` that are empty, the innermost first.

    Returns those that stay, because something stands in them. What is no longer there is
    forgotten. A part that begins with # stands for an entry of the list before it.
    """
    kept = set()
    paths = [text for text in created if "/#" not in text]
    for text in sorted(paths, key=lambda text: -text.count("/")):
        pointer = _parse(text)
        container = pointer.read(root, MISSING)
        if container in ({}, []):
            remove(root, pointer)
        elif container is not MISSING:
            kept.add(text)
    inside = {text: _parse(text.split("/#")[0]) for text in created if "/#" in text}
    return kept | {text for text, holder in inside.items() if holder.read(root, None)}


def remove(root: JSON, pointer: Pointer) -> None:
    """Take the key at `pointer` away; the map that holds it must be there."""
    del Pointer(pointer.parts[:-1]).read(root)[pointer.parts[-1]]


def _parse(text: str) -> Pointer:
    parts = text.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))


FIELDS = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")
"""The placement fields of a template's spec: all that rules ever change there."""


class TermLocation(TextEnum):
    """A kind of place. The values stand in annotations: they never change their meaning."""

    NODE_EXPRESSION = "node-expression"
    NODE_FIELD = "node-field"
    NODE_TERM = "node-term"
    PREFERRED_NODE = "preferred-node"
    AFFINITY = "affinity"
    PREFERRED_AFFINITY = "preferred-affinity"
    ANTI_AFFINITY = "anti-affinity"
    PREFERRED_ANTI_AFFINITY = "preferred-anti-affinity"
    SPREAD = "spread"
    TOLERATION = "toleration"
    NODE_SELECTOR = "node-selector"
    LABEL = "label"


POD_TERMS = (TermLocation.AFFINITY, TermLocation.ANTI_AFFINITY)
"""Where a required term about pods can be."""

WEIGHTED_POD_TERMS = (TermLocation.PREFERRED_AFFINITY, TermLocation.PREFERRED_ANTI_AFFINITY)
"""Where a preferred one can be: the term is in its podAffinityTerm."""


SPEC = Pointer(("spec",))
NODE_REQUIRED = SPEC / "affinity" / "nodeAffinity" / REQUIRED
NODE_TERMS = NODE_REQUIRED / "nodeSelectorTerms"
POD_AFFINITY = SPEC / "affinity" / "podAffinity"
POD_ANTI_AFFINITY = SPEC / "affinity" / "podAntiAffinity"

LISTS: t.Mapping[TermLocation, Pointer] = {
    TermLocation.PREFERRED_NODE: SPEC / "affinity" / "nodeAffinity" / PREFERRED,
    TermLocation.AFFINITY: POD_AFFINITY / REQUIRED,
    TermLocation.PREFERRED_AFFINITY: POD_AFFINITY / PREFERRED,
    TermLocation.ANTI_AFFINITY: POD_ANTI_AFFINITY / REQUIRED,
    TermLocation.PREFERRED_ANTI_AFFINITY: POD_ANTI_AFFINITY / PREFERRED,
    TermLocation.SPREAD: SPEC / "topologySpreadConstraints",
    TermLocation.TOLERATION: SPEC / "tolerations",
}
"""Locations that are an entry of a list, with the list's place in the template."""

MAPS: t.Mapping[TermLocation, Pointer] = {
    TermLocation.NODE_SELECTOR: SPEC / "nodeSelector",
    TermLocation.LABEL: Pointer(("metadata", "labels")),
}
"""Locations that are a key of a map, with the map's place in the template."""

REVISION_KEYS = ("matchLabelKeys", "mismatchLabelKeys")
"""Fields of a pod term that leave pods out by the values of their own labels."""

IN_NODE_TERM: t.Mapping[TermLocation, str] = {
    TermLocation.NODE_EXPRESSION: "matchExpressions",
    TermLocation.NODE_FIELD: "matchFields",
}
"""Locations inside every required node term, with the list of the term."""


_DIGESTS = re.compile(r"[0-9a-f]{1,64}(\.[0-9a-f]{1,64}){1,2}", re.ASCII)
_SETS = ("values", "namespaces", "matchLabelKeys", "mismatchLabelKeys")
_CONJUNCTIONS = ("matchExpressions", "matchFields")
_DEFAULTS: t.Mapping[TermLocation, t.Mapping[str, JSON]] = {
    TermLocation.SPREAD: {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
    TermLocation.TOLERATION: {"operator": "Equal", "value": "", "effect": "", "key": ""},
}
"""What the API takes a missing field for (core/v1 TopologySpreadConstraint, Toleration)."""


NodeTerm = dict[str, JSON]

Effect = tuple[TermLocation, str]
"""Equal for terms with the same effect."""


@dataclass(frozen=True, slots=True, order=True)
class Fingerprint:
    """`meaning` is the same for terms with the same effect, `form` only for the same JSON. `bare` is the meaning of
    the term without the fields that a console drops, empty where it drops none."""

    location: TermLocation
    meaning: str
    form: str
    bare: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.location}:{'.'.join(filter(None, (self.meaning, self.form, self.bare)))}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """Raises ValueError for what is no fingerprint."""
        location, digests = text.split(":", 1)
        if not _DIGESTS.fullmatch(digests):
            raise ValueError("a fingerprint has no digests")
        meaning, form, *bare = digests.split(".", 2)
        return cls(TermLocation(location), meaning, form, "".join(bare))

    @property
    def effect(self) -> Effect:
        return self.location, self.meaning

    def has_same_effect(self, other: Fingerprint) -> bool:
        return self.effect == other.effect

    def is_stripped_to(self, other: Fingerprint) -> bool:
        """Whether `other` is what a console leaves of this term."""
        return bool(self.bare) and (self.location, self.bare) == other.effect


@functools.lru_cache(maxsize=4096)
def _fingerprint(location: TermLocation, text: str) -> Fingerprint:
    """Many workloads carry the same terms, and a group of hundreds has long ones."""
    value = json.loads(text)
    complete = {**_DEFAULTS[location], **value} if location in _DEFAULTS else value
    meaning = digest(_meaning(complete), 10)
    bare = digest(_meaning(_stripped(location, value)), 10)
    form = digest(without_empties(value), 6)
    return Fingerprint(location, meaning, form, "" if bare == meaning else bare)


def _stripped(location: TermLocation, value: JSON) -> JSON:
    """A pod term as OpenShift's console writes it: it knows matchExpressions, topologyKey and the weight (openshift/
    kubevirt-plugin, src/utils/components/AffinityModal). Another term as it is."""
    if location in WEIGHTED_POD_TERMS:
        term = value.get("podAffinityTerm")
        return {**value, "podAffinityTerm": _stripped(TermLocation.AFFINITY, term)}
    if location not in POD_TERMS or not isinstance(value, dict):
        return value
    selector = value.get("labelSelector")
    term = {"topologyKey": value.get("topologyKey")}
    if not isinstance(selector, dict):
        return term
    return {**term, "labelSelector": {"matchExpressions": selector.get("matchExpressions") or []}}


def digest(value: JSON, length: int) -> str:
    """The first hexadecimal digits of a hash over the value, whatever the order of its keys."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


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
    canonical: dict[str, JSON] = {}
    for key, inner in _spelled_out(without_empties(value)).items():
        if key in _SETS:
            canonical[key] = sorted(set(map(canonical_json, inner)))
        elif key in _CONJUNCTIONS:
            canonical[key] = sorted(map(canonical_json, map(_meaning, inner)))
        else:
            canonical[key] = _meaning(inner)
    return canonical


def _spelled_out(value: dict[str, JSON]) -> dict[str, JSON]:
    """matchLabels as the expressions that they stand for."""
    if "matchLabels" not in value:
        return value
    rest = {key: inner for key, inner in value.items() if key != "matchLabels"}
    spelled = [
        {"key": key, "operator": "In", "values": [label_value]}
        for key, label_value in value["matchLabels"].items()
    ]
    if spelled:
        rest["matchExpressions"] = [*(rest.get("matchExpressions") or ()), *spelled]
    return rest


def canonical_text(value: JSON) -> str:
    """The same text for terms or selectors with the same meaning."""
    return canonical_json(_meaning(value))


def canonical_json(value: JSON) -> str:
    """The same text for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class TemplateTerm:
    """One term that is in a template, or is to be in one. The value of a map's location is
    `{"key": ..., "value": ...}`; every other value is the entry itself."""

    location: TermLocation
    value: JSON

    @property
    def fingerprint(self) -> Fingerprint:
        return _fingerprint(self.location, canonical_json(self.value))

    @property
    def effect(self) -> Effect:
        return self.fingerprint.effect


def pair(location: TermLocation, key: str, value: str) -> TemplateTerm:
    """A term that is a key of a map."""
    return TemplateTerm(location, {"key": key, "value": value})


def terms_of(template: t.Mapping[str, JSON]) -> t.Iterator[TemplateTerm]:
    """Every term of a template; its labels are those of `pairs_of`.

    A node expression is named once for each required node term that holds it.
    """
    for location, pointer in LISTS.items():
        for entry in pointer.read(template, None) or ():
            yield TemplateTerm(location, entry)
    yield from pairs_of(template, TermLocation.NODE_SELECTOR)
    for term in NODE_TERMS.read(template, None) or ():
        yield from entries_of(term)


def pairs_of(template: t.Mapping[str, JSON], location: TermLocation) -> t.Iterator[TemplateTerm]:
    """The keys of a map in a template: its nodeSelector, or its labels."""
    for key, value in (MAPS[location].read(template, None) or {}).items():
        yield pair(location, key, value)


def is_empty(term: t.Mapping[str, JSON]) -> bool:
    """Whether a term has neither expressions nor fields, so that it matches no node."""
    return not any(term.get(key) for key in IN_NODE_TERM.values())


def entries_of(term: t.Mapping[str, JSON]) -> t.Iterator[TemplateTerm]:
    """Each expression and field of a term."""
    for location, key in IN_NODE_TERM.items():
        for entry in term.get(key) or ():
            yield TemplateTerm(location, entry)


def foreign_part(term: NodeTerm, ours: t.Collection[Effect]) -> NodeTerm:
    """The term without the entries that have the effect of ours; a list that is left empty is left out."""
    rest = {}
    for key, value in term.items():
        if key in IN_NODE_TERM.values():
            location = next(location for location, name in IN_NODE_TERM.items() if name == key)
            value = [e for e in value or () if TemplateTerm(location, e).effect not in ours]
            if not value:
                continue
        rest[key] = value
    return rest
