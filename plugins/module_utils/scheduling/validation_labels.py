# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server says of labels, label selectors and taints.

Source: apimachinery util/validation and apis/meta/v1/validation, core/validation, Kubernetes 1.34.
Lengths are in bytes, as there. The texts are its own, so that people find them.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..model.pointer import JSON
from .syntax import (
    LABEL_PATTERN,
    NAME_PATTERN,
    SUBDOMAIN_PATTERN,
    is_dns_label,
    is_name,
    is_subdomain,
)

INVALID = "FieldValueInvalid"
REQUIRED = "FieldValueRequired"
FORBIDDEN = "FieldValueForbidden"
NOT_SUPPORTED = "FieldValueNotSupported"
DUPLICATE = "FieldValueDuplicate"
WRONG_TYPE = "FieldValueTypeInvalid"

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
FORBIDS_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
BAD_OPERATOR = "not a valid selector operator"

Object = t.Mapping[str, JSON]


@dataclass(frozen=True, slots=True)
class ValidationError:
    """One fault. `type` is the API's (FieldValueInvalid ...), `field` the path of the field."""

    type: str
    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}" if self.field else self.detail


Errors = t.Iterator[ValidationError]


def validate_label_key(key: str) -> tuple[str, ...]:
    """What is wrong with a label key; empty for a good one."""
    return tuple(_key_faults(key))


def validate_label_value(value: str) -> tuple[str, ...]:
    """What is wrong with a label value; empty for a good one."""
    return tuple(_value_faults(value))


def validate_labels(labels: Object, field: str = "metadata.labels") -> tuple[ValidationError, ...]:
    """Faults of a map of labels, keys and values. A value that is no string (an unquoted `true`
    or `1` of YAML) is refused, too."""
    return tuple(label_errors(labels, field))


def validate_taints(
    taints: t.Sequence[Object], field: str = "metadata.taints"
) -> tuple[ValidationError, ...]:
    """Faults of a node's list of taints."""
    return tuple(_taint_errors(taints, field))


def label_errors(labels: Object, field: str) -> Errors:
    for key, value in labels.items():
        yield from key_errors(key, field)
        if isinstance(value, str):
            yield from value_errors(value, field)
        else:
            yield ValidationError(
                WRONG_TYPE, field, f"the value of {key} must be a string, not {value!r}: quote it"
            )


def key_errors(key: str, field: str) -> Errors:
    return (ValidationError(INVALID, field, fault) for fault in _key_faults(key))


def value_errors(value: str, field: str) -> Errors:
    return (ValidationError(INVALID, field, fault) for fault in _value_faults(value))


def subdomain_faults(text: str) -> t.Iterator[str]:
    if _length(text) > 253:
        yield _too_long(253)
    if not is_subdomain(text):
        yield _must_be(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            "example.com",
        )


def dns_label_faults(text: str) -> t.Iterator[str]:
    if _length(text) > 63:
        yield _too_long(63)
    if is_dns_label(text):
        return
    if is_subdomain(text):
        yield "must not contain dots"
        return
    yield _must_be(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
        " must start and end with an alphanumeric character",
        LABEL_PATTERN,
        "my-name",
        "123-abc",
    )


def selector_errors(selector: Object | None, field: str) -> Errors:
    """Faults of a label selector; a missing one has none."""
    if selector is None:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for n, each in enumerate(selector.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{n}]"
        yield from operator_errors(each, path)
        yield from key_errors(each.get("key") or "", f"{path}.key")
        yield from listed_value_errors(each.get("values") or (), path)


def operator_errors(requirement: Object, path: str) -> Errors:
    """Whether the operator exists, and goes with the number of values."""
    operator, values = requirement.get("operator"), requirement.get("values")
    if operator in ("In", "NotIn"):
        if not values:
            yield ValidationError(REQUIRED, f"{path}.values", NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield ValidationError(FORBIDDEN, f"{path}.values", FORBIDS_VALUES)
    else:
        yield ValidationError(INVALID, f"{path}.operator", BAD_OPERATOR)


def listed_value_errors(values: t.Iterable[str], path: str) -> Errors:
    for n, value in enumerate(values):
        yield from value_errors(value, f"{path}.values[{n}]")


def effect_errors(effect: str, field: str, *, may_be_empty: bool) -> Errors:
    if not effect:
        if not may_be_empty:
            yield ValidationError(REQUIRED, field, "")
    elif effect not in EFFECTS:
        yield not_supported(field, EFFECTS)


def not_supported(field: str, supported: t.Iterable[str]) -> ValidationError:
    listed = ", ".join(f'"{each}"' for each in supported)
    return ValidationError(NOT_SUPPORTED, field, f"supported values: {listed}")


def _taint_errors(taints: t.Sequence[Object], field: str) -> Errors:
    seen = set()
    for n, taint in enumerate(taints):
        path = f"{field}[{n}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        yield from key_errors(key, f"{path}.key")
        faults = ";".join(_value_faults(taint.get("value") or ""))
        if faults:
            yield ValidationError(INVALID, f"{path}.value", faults)
        yield from effect_errors(effect, f"{path}.effect", may_be_empty=False)
        if (key, effect) in seen:
            yield ValidationError(DUPLICATE, path, "taints must be unique by key and effect pair")
        seen.add((key, effect))


def _key_faults(key: str) -> t.Iterator[str]:
    *prefix, name = key.split("/")
    if len(prefix) > 1:
        yield (
            f"a qualified name {_not_a_name()} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')"
        )
        return
    if prefix == [""]:
        yield "prefix part must be non-empty"
    elif prefix:
        yield from (f"prefix part {fault}" for fault in subdomain_faults(prefix[0]))
    if not name:
        yield "name part must be non-empty"
    elif _length(name) > 63:
        yield f"name part {_too_long(63)}"
    if not is_name(name):
        yield f"name part {_not_a_name()}"


def _value_faults(value: str) -> t.Iterator[str]:
    if _length(value) > 63:
        yield _too_long(63)
    if value and not is_name(value):
        yield _must_be(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
            " or '.', and must start and end with an alphanumeric character",
            f"({NAME_PATTERN})?",
            "MyValue",
            "my_value",
            "12345",
        )


def _not_a_name() -> str:
    return _must_be(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
        " alphanumeric character",
        NAME_PATTERN,
        "MyName",
        "my.name",
        "123-abc",
    )


def _must_be(what: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{each}', " for each in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
