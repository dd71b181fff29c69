# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the placement fields of the rule type `terms` valid, and which single terms do they have?

The API server would refuse an unknown field only when the write is made, and KubeVirt's webhook
accepts values that make the next pod impossible, so both are looked for here.
"""

from __future__ import annotations

import re
import typing as t

from ..model.input import InputReader, shown
from ..model.json_pointer import JSON
from ..model.placement_manifests import PREFERRED, REQUIRED
from ..scheduler.validation import (
    BAD_OPERATOR,
    NOT_SUPPORTED,
    OPERATORS,
    ValidationError,
    validate_pod_placement,
)
from ..scheduler.validation import REQUIRED as IS_MISSING
from .field_places import Outer, Schema, misplaced
from .term_slots import (
    IN_NODE_TERM,
    LISTS,
    NODE_TERMS,
    TemplateTerm,
    TermLocation,
    pair,
    without_empties,
)

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
PLACEMENT: Schema = {
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [_NODE_TERM]},
            PREFERRED: [{"weight": "number", "preference": _NODE_TERM}],
        },
        "podAffinity": _POD_TERMS,
        "podAntiAffinity": _POD_TERMS,
    },
    "nodeSelector": "labels",
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


def read_terms(reader: InputReader, value: JSON) -> dict[str, JSON] | None:
    """The fields without nulls and empty lists; None where one of them is not valid."""
    before = len(reader.errors)
    read = read_fields(reader, value)
    if len(reader.errors) > before:
        return None
    fields: dict[str, JSON] = without_empties(read)
    errors = validate_pod_placement(fields, {})
    missing = {error.field for error in errors if error.type == IS_MISSING}
    for error in errors:
        # The API server says of an empty key that it is empty, too short and of wrong letters.
        if error.type == IS_MISSING or error.field not in missing:
            path = error.field.removeprefix("spec.")
            reader.at(path).error(_message(error, path, fields))
    if len(reader.errors) > before:
        return None
    if not compile_terms(fields):
        reader.error("is empty: name at least one term")
        return None
    return fields


def _message(error: ValidationError, path: str, fields: JSON) -> str:
    """The API server's message; for an unknown value also the value and the known ones."""
    if error.type != NOT_SUPPORTED and error.detail != BAD_OPERATOR:
        return error.detail or "is required"
    given = fields
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        given = given[int(index)] if index else given.get(name)
    if error.type == NOT_SUPPORTED:
        return f"{error.detail}, not {shown(given)}"
    operators: tuple[str, ...] = OPERATORS
    if "matchFields" in path:
        operators = OPERATORS[:2]
    elif path.startswith("affinity.nodeAffinity"):
        operators = (*OPERATORS, "Gt", "Lt")
    return f"{error.detail}: {shown(given)}; use one of {', '.join(operators)}"


def read_fields(reader: InputReader, given: JSON) -> JSON:
    """Placement fields (keys of FIELDS) with numbers that came as text made numbers. Every field
    that Kubernetes does not have, and every value of another form than its field's, is noted."""
    return _read(reader, given, PLACEMENT)


def read_selector(reader: InputReader, given: JSON) -> JSON:
    """A label selector, read like the fields."""
    return _read(reader, given, _SELECTOR)


def _read(reader: InputReader, value: JSON, schema: Schema, around: tuple[Outer, ...] = ()) -> JSON:
    """The value with numbers that came as text made numbers; every fault noted. A field may be null, an item
    of a list may not. `around` are the maps outside, the innermost first."""
    if isinstance(schema, str):
        return _PLAIN[schema](reader, value)
    if isinstance(schema, list):
        if not isinstance(value, list):
            reader.error(f"must be a list, not {shown(value)}")
            return None
        return [_read(reader.item(n), item, schema[0], around) for n, item in enumerate(value)]
    fields = reader.mapping(
        _without_misplaced(reader, value, schema, around), tuple(schema), "field"
    )
    return {
        key: None
        if item is None
        else _read(reader.at(key), item, schema[key], ((key, schema), *around))
        for key, item in (fields or {}).items()
    }


def _without_misplaced(
    reader: InputReader, value: JSON, schema: Schema, around: tuple[Outer, ...]
) -> JSON:
    """The map without the fields of other levels, each of which is noted."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, item in value.items():
        place = None if key in schema else misplaced(str(key), value, schema, around)
        if place:
            reader.error(f"unknown field {str(key)!r}: {place}")
        else:
            kept[key] = item
    return kept


def _text(reader: InputReader, value: JSON) -> JSON:
    if not isinstance(value, str):
        reader.error(f"must be text, not {shown(value)}: quote it")
    return value


def _number(reader: InputReader, value: JSON) -> JSON:
    return reader.integer(value, -(2**31), 2**31)


def _texts(reader: InputReader, value: JSON) -> JSON:
    if not isinstance(value, list):
        reader.error(f"must be a list, not {shown(value)}")
        return None
    return [_text(reader.item(n), item) for n, item in enumerate(value)]


def _labels(reader: InputReader, value: JSON) -> JSON:
    if not isinstance(value, dict):
        reader.error(f"must be a map of label keys and values, not {shown(value)}")
        return None
    return {str(key): _text(reader.at(str(key)), item) for key, item in value.items()}


_PLAIN: t.Mapping[str, t.Callable[[InputReader, JSON], JSON]] = {
    "text": _text,
    "texts": _texts,
    "number": _number,
    "labels": _labels,
}


def compile_terms(fields: t.Mapping[str, JSON]) -> tuple[TemplateTerm, ...]:
    """The fields as single terms. One required node term is its expressions: they are AND-ed into
    every term that is there. Several are OR-ed, so they stay whole."""
    template = {"spec": fields}
    terms = [
        TemplateTerm(location, entry)
        for location, pointer in LISTS.items()
        for entry in pointer.read(template, None) or ()
    ]
    terms += [
        pair(TermLocation.NODE_SELECTOR, key, value)
        for key, value in (fields.get("nodeSelector") or {}).items()
    ]
    node_terms: list[dict[str, JSON]] = NODE_TERMS.read(template, None) or []
    if len(node_terms) == 1:
        terms += [
            TemplateTerm(location, entry)
            for location, key in IN_NODE_TERM.items()
            for entry in node_terms[0].get(key) or ()
        ]
    else:
        terms += [TemplateTerm(TermLocation.NODE_TERM, term) for term in node_terms]
    return tuple(terms)
