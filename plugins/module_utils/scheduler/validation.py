# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Would the API server accept these labels and placement fields of a pod spec?

KubeVirt's webhook checks less: the API server then refuses the next launcher pod. Admission and the
create strategy are not covered. The texts are the API server's own, so that a search finds them.
Lengths are in bytes. Source: apimachinery util/validation and apis/meta/v1/validation,
pkg/apis/core/validation, Kubernetes 1.34.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..model.json_pointer import JSON, Object
from ..model.placement_manifests import PREFERRED
from ..model.placement_manifests import REQUIRED as REQUIRED_TERMS
from .labels import (
    LABEL_PATTERN,
    NAME_FIELD,
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
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
POLICIES = ("Honor", "Ignore")

NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
FORBIDS_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
BAD_OPERATOR = "not a valid selector operator"


@dataclass(frozen=True, slots=True)
class ValidationError:
    """One error. `type` is the API's (FieldValueInvalid ...), `field` the path of the field."""

    type: str
    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}" if self.field else self.detail


Errors = t.Iterator[ValidationError]


def validate_pod_placement(
    spec: Object, labels: t.Mapping[str, str] | None = None, *, field: str = "spec"
) -> tuple[ValidationError, ...]:
    """Errors of nodeSelector, affinity, tolerations and topologySpreadConstraints of a pod spec, and
    of the pod's labels. Other fields are not checked."""
    return (
        *label_errors(labels or {}, "metadata.labels"),
        *label_errors(spec.get("nodeSelector") or {}, f"{field}.nodeSelector"),
        *_affinity_errors(spec.get("affinity") or {}, f"{field}.affinity"),
        *_toleration_errors(spec.get("tolerations") or (), f"{field}.tolerations"),
        *_spread_errors(
            spec.get("topologySpreadConstraints") or (), f"{field}.topologySpreadConstraints"
        ),
    )


def label_errors(labels: Object, field: str) -> Errors:
    """Errors of a map of labels, keys and values. A value that is no string (an unquoted `true`
    or `1` of YAML) is an error, too."""
    for key, value in labels.items():
        yield from key_errors(key, field)
        if isinstance(value, str):
            yield from _value_errors(value, field)
        else:
            yield ValidationError(
                WRONG_TYPE, field, f"the value of {key} must be a string, not {value!r}: quote it"
            )


def key_errors(key: str, field: str) -> list[ValidationError]:
    return [ValidationError(INVALID, field, fault) for fault in key_faults(key)]


def effect_errors(effect: str, field: str, *, may_be_empty: bool) -> Errors:
    if not effect:
        if not may_be_empty:
            yield ValidationError(REQUIRED, field, "")
    elif effect not in EFFECTS:
        yield _not_supported(field, EFFECTS)


@functools.lru_cache(maxsize=16384)
def key_faults(key: str) -> tuple[str, ...]:
    *prefix, name = key.split("/")
    if len(prefix) > 1:
        return (
            f"a qualified name {_not_a_name()} with an optional DNS subdomain prefix and '/'"
            " (e.g. 'example.com/MyName')",
        )
    faults = [
        f"prefix part {fault}" for part in prefix if part for fault in _subdomain_faults(part)
    ]
    if prefix == [""]:
        faults.append("prefix part must be non-empty")
    if not name:
        faults.append("name part must be non-empty")
    faults += [f"name part {fault}" for fault in _length_faults(name, 63)]
    if not is_name(name):
        faults.append(f"name part {_not_a_name()}")
    return tuple(faults)


@functools.lru_cache(maxsize=16384)
def value_faults(value: str) -> tuple[str, ...]:
    faults = _length_faults(value, 63)
    if value and not is_name(value):
        faults.append(
            _must_be(
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_'"
                " or '.', and must start and end with an alphanumeric character",
                f"({NAME_PATTERN})?",
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return tuple(faults)


def _affinity_errors(affinity: Object, field: str) -> Errors:
    nodes = affinity.get("nodeAffinity") or {}
    path = f"{field}.nodeAffinity"
    if nodes.get(REQUIRED_TERMS) is not None:
        required = nodes[REQUIRED_TERMS].get("nodeSelectorTerms") or ()
        place = f"{path}.{REQUIRED_TERMS}.nodeSelectorTerms"
        if not required:
            yield ValidationError(REQUIRED, place, "must have at least one node selector term")
        for n, term in enumerate(required):
            yield from _node_term_errors(term, f"{place}[{n}]", any_value=False)
    for n, preferred in enumerate(nodes.get(PREFERRED) or ()):
        place = f"{path}.{PREFERRED}[{n}]"
        yield from _weight_errors(preferred, place)
        yield from _node_term_errors(
            preferred.get("preference") or {}, f"{place}.preference", any_value=True
        )
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for n, term in enumerate(terms.get(REQUIRED_TERMS) or ()):
            yield from _pod_term_errors(term, f"{field}.{name}.{REQUIRED_TERMS}[{n}]")
        for n, preferred in enumerate(terms.get(PREFERRED) or ()):
            place = f"{field}.{name}.{PREFERRED}[{n}]"
            yield from _weight_errors(preferred, place)
            term = preferred.get("podAffinityTerm") or {}
            yield from _pod_term_errors(term, f"{place}.podAffinityTerm")


def _weight_errors(preferred: Object, field: str) -> Errors:
    if not 1 <= _number(preferred.get("weight")) <= 100:
        yield ValidationError(INVALID, f"{field}.weight", "must be in the range 1-100")


def _node_term_errors(term: Object, field: str, *, any_value: bool) -> Errors:
    for n, requirement in enumerate(term.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{n}]"
        if requirement.get("operator") not in ("Gt", "Lt"):
            yield from _operator_errors(requirement, path)
        elif len(requirement.get("values") or ()) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield ValidationError(REQUIRED, f"{path}.values", detail)
        yield from key_errors(requirement.get("key") or "", f"{path}.key")
        if not any_value:
            yield from _listed_value_errors(requirement.get("values") or (), path)
    for n, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field_errors(requirement, f"{field}.matchFields[{n}]")


def _field_errors(requirement: Object, path: str) -> Errors:
    values = requirement.get("values") or ()
    if requirement.get("operator") not in ("In", "NotIn"):
        yield ValidationError(INVALID, f"{path}.operator", BAD_OPERATOR)
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield ValidationError(REQUIRED, f"{path}.values", detail)
    if requirement.get("key") != NAME_FIELD:
        yield ValidationError(INVALID, f"{path}.key", "not a valid field selector key")
        return
    for n, value in enumerate(values):
        for fault in _subdomain_faults(value):
            yield ValidationError(INVALID, f"{path}.values[{n}]", fault)


def _pod_term_errors(term: Object, field: str) -> Errors:
    selector = term.get("labelSelector")
    yield from _selector_errors(selector, f"{field}.labelSelector")
    yield from _selector_errors(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or ():
        for fault in _dns_label_faults(name):
            yield ValidationError(INVALID, f"{field}.namespace", fault)
    match, mismatch = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    yield from _label_key_errors(match, selector, f"{field}.matchLabelKeys")
    yield from _label_key_errors(mismatch, selector, f"{field}.mismatchLabelKeys")
    for n, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield ValidationError(INVALID, f"{field}.matchLabelKeys[{n}]", detail)
    topology_key = term.get("topologyKey") or ""
    if not topology_key:
        yield ValidationError(REQUIRED, f"{field}.topologyKey", "can not be empty")
    yield from key_errors(topology_key, f"{field}.topologyKey")


def _label_key_errors(keys: t.Sequence[str], selector: Object | None, field: str) -> Errors:
    if keys and selector is None:
        detail = "must not be specified when labelSelector is not set"
        yield ValidationError(FORBIDDEN, field, detail)
        return
    for n, key in enumerate(keys):
        yield from key_errors(key, f"{field}[{n}]")


def _toleration_errors(tolerations: t.Sequence[Object], field: str) -> Errors:
    for n, toleration in enumerate(tolerations):
        path = f"{field}[{n}]"
        key, effect = toleration.get("key") or "", toleration.get("effect") or ""
        operator, value = toleration.get("operator") or "", toleration.get("value") or ""
        if key:
            yield from key_errors(key, f"{path}.key")
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all'
                ' keys"'
            )
            yield ValidationError(INVALID, f"{path}.operator", detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield ValidationError(INVALID, f"{path}.effect", detail)
        if operator in ("Equal", ""):
            faults = ";".join(value_faults(value))
            if faults:
                yield ValidationError(INVALID, f"{path}.operator", faults)
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                yield ValidationError(INVALID, f"{path}.operator", detail)
        else:
            yield _not_supported(f"{path}.operator", ("Equal", "Exists"))
        yield from effect_errors(effect, f"{path}.effect", may_be_empty=True)


def _spread_errors(constraints: t.Sequence[Object], field: str) -> Errors:
    kinds = [
        (constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or "")
        for constraint in constraints
    ]
    for n, constraint in enumerate(constraints):
        path = f"{field}[{n}]"
        action = constraint.get("whenUnsatisfiable") or ""
        if _number(constraint.get("maxSkew")) <= 0:
            yield ValidationError(INVALID, f"{path}.maxSkew", "must be greater than zero")
        if not constraint.get("topologyKey"):
            yield ValidationError(REQUIRED, f"{path}.topologyKey", "can not be empty")
        if action not in ACTIONS:
            yield _not_supported(f"{path}.whenUnsatisfiable", ACTIONS)
        if kinds[n] in kinds[n + 1 :]:
            yield ValidationError(DUPLICATE, f"{path}.{{topologyKey, whenUnsatisfiable}}", "")
        if (minimum := constraint.get("minDomains")) is not None:
            place = f"{path}.minDomains"
            if _number(minimum) <= 0:
                yield ValidationError(INVALID, place, "must be greater than zero")
            if action != "DoNotSchedule":
                detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield ValidationError(INVALID, place, detail)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(policy) is not None and constraint[policy] not in POLICIES:
                yield _not_supported(f"{path}.{policy}", POLICIES)
        selector = constraint.get("labelSelector")
        keys = constraint.get("matchLabelKeys") or ()
        yield from _label_key_errors(keys, selector, f"{path}.matchLabelKeys")
        yield from _selector_errors(selector, f"{path}.labelSelector")


def _value_errors(value: str, field: str) -> list[ValidationError]:
    return [ValidationError(INVALID, field, fault) for fault in value_faults(value)]


def _subdomain_faults(text: str) -> t.Iterator[str]:
    yield from _length_faults(text, 253)
    if not is_subdomain(text):
        yield _must_be(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_PATTERN,
            "example.com",
        )


def _dns_label_faults(text: str) -> t.Iterator[str]:
    yield from _length_faults(text, 63)
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


def _selector_errors(selector: Object | None, field: str) -> Errors:
    """Errors of a label selector; a missing one has none."""
    if selector is None:
        return
    yield from label_errors(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for n, requirement in enumerate(selector.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{n}]"
        yield from _operator_errors(requirement, path)
        yield from key_errors(requirement.get("key") or "", f"{path}.key")
        yield from _listed_value_errors(requirement.get("values") or (), path)


def _operator_errors(requirement: Object, path: str) -> Errors:
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


def _listed_value_errors(values: t.Iterable[str], path: str) -> Errors:
    for n, value in enumerate(values):
        yield from _value_errors(value, f"{path}.values[{n}]")


def _not_supported(field: str, supported: t.Iterable[str]) -> ValidationError:
    listed = ", ".join(f'"{value}"' for value in supported)
    return ValidationError(NOT_SUPPORTED, field, f"supported values: {listed}")


def _number(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


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
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{what} (e.g. {shown}regex used for validation is '{pattern}')"


def _length_faults(text: str, limit: int) -> list[str]:
    length = len(text.encode("utf-8", "surrogatepass"))
    return [f"must be no more than {limit} characters"] if length > limit else []
