# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation cases: what the API server accepts, and every fault that it names otherwise."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.scheduler.validation import (
    DUPLICATE,
    INVALID,
    ValidationError,
    effect_errors,
    key_errors,
    key_faults,
    label_errors,
    validate_pod_placement,
    value_faults,
)

from .world import Case


def validate(case: Case) -> t.Iterator[str]:
    """Whether a value is accepted, and with which errors it is not."""
    expected = case["expect"]
    want = sorted(
        (each.get("type", ""), each.get("field", ""), each["detail"])
        for each in expected.get("errors", ())
    )
    got = sorted(_found(case))
    if expected["valid"] != (not got):
        yield f"expected valid={expected['valid']}, got {got}"
    elif want != got:
        yield f"expected {want}, got {got}"


def _found(case: Case) -> t.Iterable[tuple[str, str, str]]:
    what = case["what"]
    if what == "labelKey":
        return [("", "", detail) for detail in key_faults(case["key"])]
    if what == "labelValue":
        return [("", "", detail) for detail in value_faults(case["value"])]
    if what == "labels":
        return map(_as_tuple, label_errors(case["labels"], "metadata.labels"))
    if what == "taints":
        return map(_as_tuple, _taint_errors(case["taints"], "metadata.taints"))
    if what == "podSpec":
        return map(_as_tuple, validate_pod_placement(case["spec"], case.get("podLabels")))
    raise ValueError(f"no check knows what '{what}' is")


def _as_tuple(error: ValidationError) -> tuple[str, str, str]:
    return error.type, error.field, error.detail


def _taint_errors(taints: t.Sequence[Case], field: str) -> t.Iterator[ValidationError]:
    seen = set()
    for n, taint in enumerate(taints):
        path = f"{field}[{n}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        yield from key_errors(key, f"{path}.key")
        faults = ";".join(value_faults(taint.get("value") or ""))
        if faults:
            yield ValidationError(INVALID, f"{path}.value", faults)
        yield from effect_errors(effect, f"{path}.effect", may_be_empty=False)
        if (key, effect) in seen:
            yield ValidationError(DUPLICATE, path, "taints must be unique by key and effect pair")
        seen.add((key, effect))
