# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `terms`: placement fields as Kubernetes writes them, checked and taken apart.

The API server would refuse an unknown field only when the write is made, and KubeVirt's webhook
accepts values that make the next pod impossible, so both are looked for here.
"""

from __future__ import annotations

import re
import typing as t

from ..model.pointer import JSON
from ..scheduling.validation import validate_pod_placement
from ..scheduling.validation_labels import BAD_OPERATOR, NOT_SUPPORTED, OPERATORS, ValidationError
from ..scheduling.validation_labels import REQUIRED as IS_MISSING
from .fingerprint import without_empties
from .slots import (
    FIELDS,
    IN_NODE_TERM,
    LISTS,
    NODE_TERMS,
    PREFERRED,
    REQUIRED,
    CompiledTerm,
    Slot,
    pair,
)
from .values import Notes, shown

Schema = t.Any
"""A word for a plain value, a list of one for each item, a map for the fields that there are."""

_EXPRESSION: Schema = {"key": "text", "operator": "text", "values": "texts"}
_SELECTOR: Schema = {"matchLabels": "labels", "matchExpressions": [_EXPRESSION]}
_NODE_TERM: Schema = {"matchExpressions": [_EXPRESSION], "matchFields": [_EXPRESSION]}
_POD_TERM: Schema = {
    "labelSelector": _SELECTOR,
    "topologyKey": "text",
    "namespaces": "texts",
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": "texts",
    "mismatchLabelKeys": "texts",
}
_POD_TERMS: Schema = {
    REQUIRED: [_POD_TERM],
    PREFERRED: [{"weight": "number", "podAffinityTerm": _POD_TERM}],
}
_SCHEMA: t.Mapping[str, Schema] = {
    "nodeSelector": "labels",
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]},
            PREFERRED: [{"weight": "number", "preference": _NODE_TERM}],
        },
        "podAffinity": _POD_TERMS,
        "podAntiAffinity": _POD_TERMS,
    },
    "tolerations": [
        {
            "key": "text",
            "operator": "text",
            "value": "text",
            "effect": "text",
            "tolerationSeconds": "number",
        }
    ],
    "topologySpreadConstraints": [
        {
            "maxSkew": "number",
            "topologyKey": "text",
            "whenUnsatisfiable": "text",
            "labelSelector": _SELECTOR,
            "minDomains": "number",
            "nodeAffinityPolicy": "text",
            "nodeTaintsPolicy": "text",
            "matchLabelKeys": "texts",
        }
    ],
}


def read_terms(notes: Notes, value: JSON) -> dict[str, JSON] | None:
    """The fields without nulls and empty lists; None where one of them is not valid."""
    before = len(notes.faults)
    given = notes.mapping(value, FIELDS)
    if given is None:
        return None
    read = read_fields(notes, given)
    if len(notes.faults) > before:
        return None
    fields: dict[str, JSON] = without_empties(read)
    errors = validate_pod_placement(fields, {})
    missing = {error.field for error in errors if error.type == IS_MISSING}
    for error in errors:
        # The API server says of an empty key that it is empty, too short and of wrong letters.
        if error.type == IS_MISSING or error.field not in missing:
            path = error.field.removeprefix("spec.")
            notes.at(path).fault(_said(error, path, fields))
    if len(notes.faults) > before:
        return None
    if not compile_terms(fields):
        notes.fault("says nothing: name at least one term")
        return None
    return fields


def _said(error: ValidationError, path: str, fields: JSON) -> str:
    """What the API server says; of a value that it does not know, also what was seen and what it
    knows."""
    if error.type != NOT_SUPPORTED and error.detail != BAD_OPERATOR:
        return error.detail or "is required"
    seen = fields
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        seen = seen[int(index)] if index else seen.get(name)
    if error.type == NOT_SUPPORTED:
        return f"{error.detail}, not {shown(seen)}"
    known: tuple[str, ...] = OPERATORS
    if "matchFields" in path:
        known = OPERATORS[:2]
    elif path.startswith("affinity.nodeAffinity"):
        known = (*OPERATORS, "Gt", "Lt")
    return f"{error.detail}: {shown(seen)}; use one of {', '.join(known)}"


def read_fields(notes: Notes, given: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """Placement fields (keys of FIELDS) with numbers that came as text made numbers. Every field
    that Kubernetes does not have, and every value of another form than its field's, is noted."""
    return {name: _read(notes.at(name), field, _SCHEMA[name]) for name, field in given.items()}


def read_selector(notes: Notes, given: JSON) -> JSON:
    """A label selector, read like the fields."""
    return _read(notes, given, _SELECTOR)


def _read(notes: Notes, value: JSON, schema: Schema) -> JSON:
    """The value with numbers that came as text made numbers; every fault noted."""
    if value is None:
        return None
    if isinstance(schema, str):
        return _PLAIN[schema](notes, value)
    if isinstance(schema, list):
        if not isinstance(value, list):
            notes.fault(f"must be a list, not {shown(value)}")
            return None
        return [_read(notes.item(n), item, schema[0]) for n, item in enumerate(value)]
    found = notes.mapping(value, tuple(schema)) or {}
    return {key: _read(notes.at(key), item, schema[key]) for key, item in found.items()}


def _text(notes: Notes, value: JSON) -> JSON:
    if not isinstance(value, str):
        notes.fault(f"must be text, not {shown(value)}: quote it")
    return value


def _number(notes: Notes, value: JSON) -> JSON:
    return notes.integer(value, -(2**31), 2**31)


def _texts(notes: Notes, value: JSON) -> JSON:
    if not isinstance(value, list):
        notes.fault(f"must be a list, not {shown(value)}")
        return None
    return [_text(notes.item(n), item) for n, item in enumerate(value)]


def _labels(notes: Notes, value: JSON) -> JSON:
    if not isinstance(value, dict):
        notes.fault(f"must be a map of label keys and values, not {shown(value)}")
        return None
    return {str(key): _text(notes.at(str(key)), item) for key, item in value.items()}


_PLAIN: t.Mapping[str, t.Callable[[Notes, JSON], JSON]] = {
    "text": _text,
    "texts": _texts,
    "number": _number,
    "labels": _labels,
}


def compile_terms(fields: t.Mapping[str, JSON]) -> tuple[CompiledTerm, ...]:
    """The fields as single terms. One required node term is its expressions: they are AND-ed into
    every term that is there. Several are OR-ed, so they stay whole."""
    template = {"spec": fields}
    found = [
        CompiledTerm(slot, entry)
        for slot, pointer in LISTS.items()
        for entry in pointer.read(template, None) or ()
    ]
    found += [
        pair(Slot.NODE_SELECTOR, key, value)
        for key, value in (fields.get("nodeSelector") or {}).items()
    ]
    node_terms: list[dict[str, JSON]] = NODE_TERMS.read(template, None) or []
    if len(node_terms) == 1:
        found += [
            CompiledTerm(slot, entry)
            for slot, key in IN_NODE_TERM.items()
            for entry in node_terms[0].get(key) or ()
        ]
    else:
        found += [CompiledTerm(Slot.NODE_TERM, term) for term in node_terms]
    return tuple(found)
