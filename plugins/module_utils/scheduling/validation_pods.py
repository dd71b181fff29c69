# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API server says of the placement fields of a pod spec.

Source: pkg/apis/core/validation, Kubernetes 1.34, without admission and the create strategy.
KubeVirt's webhook checks less than this; what it lets through, the next launcher pod is refused for.
"""

from __future__ import annotations

import typing as t

from ..model.placement_manifest import PREFERRED
from ..model.placement_manifest import REQUIRED as REQUIRED_TERMS
from ..model.pointer import JSON
from .validation_labels import (
    BAD_OPERATOR,
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    Errors,
    Object,
    ValidationError,
    dns_label_faults,
    effect_errors,
    key_errors,
    label_errors,
    listed_value_errors,
    not_supported,
    operator_errors,
    selector_errors,
    subdomain_faults,
    validate_label_value,
)

NAME_FIELD = "metadata.name"
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
POLICIES = ("Honor", "Ignore")


def validate_pod_placement(
    spec: Object, labels: t.Mapping[str, str] | None = None, *, field: str = "spec"
) -> tuple[ValidationError, ...]:
    """Faults of nodeSelector, affinity, tolerations and topologySpreadConstraints of a pod spec,
    and of the pod's labels. Other fields are not looked at."""
    return (
        *label_errors(labels or {}, "metadata.labels"),
        *label_errors(spec.get("nodeSelector") or {}, f"{field}.nodeSelector"),
        *_affinity_errors(spec.get("affinity") or {}, f"{field}.affinity"),
        *_toleration_errors(spec.get("tolerations") or (), f"{field}.tolerations"),
        *_spread_errors(
            spec.get("topologySpreadConstraints") or (), f"{field}.topologySpreadConstraints"
        ),
    )


def _affinity_errors(affinity: Object, field: str) -> Errors:
    nodes = affinity.get("nodeAffinity") or {}
    path = f"{field}.nodeAffinity"
    if nodes.get(REQUIRED_TERMS) is not None:
        yield from _node_selector_errors(nodes[REQUIRED_TERMS], f"{path}.{REQUIRED_TERMS}")
    for n, each in enumerate(nodes.get(PREFERRED) or ()):
        place = f"{path}.{PREFERRED}[{n}]"
        yield from _weight_errors(each, place)
        yield from _node_term_errors(
            each.get("preference") or {}, f"{place}.preference", any_value=True
        )
    for name in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(name) or {}
        for n, each in enumerate(terms.get(REQUIRED_TERMS) or ()):
            yield from _pod_term_errors(each, f"{field}.{name}.{REQUIRED_TERMS}[{n}]")
        for n, each in enumerate(terms.get(PREFERRED) or ()):
            place = f"{field}.{name}.{PREFERRED}[{n}]"
            yield from _weight_errors(each, place)
            term = each.get("podAffinityTerm") or {}
            yield from _pod_term_errors(term, f"{place}.podAffinityTerm")


def _weight_errors(preferred: Object, field: str) -> Errors:
    if not 1 <= _number(preferred.get("weight")) <= 100:
        yield ValidationError(INVALID, f"{field}.weight", "must be in the range 1-100")


def _node_selector_errors(selector: Object, field: str) -> Errors:
    terms = selector.get("nodeSelectorTerms") or ()
    path = f"{field}.nodeSelectorTerms"
    if not terms:
        yield ValidationError(REQUIRED, path, "must have at least one node selector term")
    for n, term in enumerate(terms):
        yield from _node_term_errors(term, f"{path}[{n}]", any_value=False)


def _node_term_errors(term: Object, field: str, *, any_value: bool) -> Errors:
    for n, each in enumerate(term.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{n}]"
        yield from _node_operator_errors(each, path)
        yield from key_errors(each.get("key") or "", f"{path}.key")
        if not any_value:
            yield from listed_value_errors(each.get("values") or (), path)
    for n, each in enumerate(term.get("matchFields") or ()):
        yield from _field_errors(each, f"{field}.matchFields[{n}]")


def _node_operator_errors(requirement: Object, path: str) -> Errors:
    if requirement.get("operator") not in ("Gt", "Lt"):
        yield from operator_errors(requirement, path)
    elif len(requirement.get("values") or ()) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        yield ValidationError(REQUIRED, f"{path}.values", detail)


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
        for fault in subdomain_faults(value):
            yield ValidationError(INVALID, f"{path}.values[{n}]", fault)


def _pod_term_errors(term: Object, field: str) -> Errors:
    selector = term.get("labelSelector")
    yield from selector_errors(selector, f"{field}.labelSelector")
    yield from selector_errors(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or ():
        for fault in dns_label_faults(name):
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
    for n, each in enumerate(tolerations):
        yield from _one_toleration_errors(each, f"{field}[{n}]")


def _one_toleration_errors(toleration: Object, path: str) -> Errors:
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
        faults = ";".join(validate_label_value(value))
        if faults:
            yield ValidationError(INVALID, f"{path}.operator", faults)
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield ValidationError(INVALID, f"{path}.operator", detail)
    else:
        yield not_supported(f"{path}.operator", ("Equal", "Exists"))
    yield from effect_errors(effect, f"{path}.effect", may_be_empty=True)


def _spread_errors(constraints: t.Sequence[Object], field: str) -> Errors:
    kinds = [
        (each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints
    ]
    for n, each in enumerate(constraints):
        path = f"{field}[{n}]"
        action = each.get("whenUnsatisfiable") or ""
        if _number(each.get("maxSkew")) <= 0:
            yield ValidationError(INVALID, f"{path}.maxSkew", "must be greater than zero")
        if not each.get("topologyKey"):
            yield ValidationError(REQUIRED, f"{path}.topologyKey", "can not be empty")
        if action not in ACTIONS:
            yield not_supported(f"{path}.whenUnsatisfiable", ACTIONS)
        if kinds[n] in kinds[n + 1 :]:
            yield ValidationError(DUPLICATE, f"{path}.{{topologyKey, whenUnsatisfiable}}", "")
        yield from _min_domains_errors(each.get("minDomains"), action, f"{path}.minDomains")
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if each.get(policy) is not None and each[policy] not in POLICIES:
                yield not_supported(f"{path}.{policy}", POLICIES)
        selector = each.get("labelSelector")
        keys = each.get("matchLabelKeys") or ()
        yield from _label_key_errors(keys, selector, f"{path}.matchLabelKeys")
        yield from selector_errors(selector, f"{path}.labelSelector")


def _min_domains_errors(minimum: JSON, action: str, field: str) -> Errors:
    if minimum is None:
        return
    if _number(minimum) <= 0:
        yield ValidationError(INVALID, field, "must be greater than zero")
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield ValidationError(INVALID, field, detail)


def _number(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
