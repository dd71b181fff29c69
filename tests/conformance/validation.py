# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validation cases: what the API server accepts, and every fault that it names otherwise."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.scheduling.validation import (
    ValidationError,
    validate_label_key,
    validate_label_value,
    validate_labels,
    validate_pod_placement,
    validate_taints,
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
        return [("", "", detail) for detail in validate_label_key(case["key"])]
    if what == "labelValue":
        return [("", "", detail) for detail in validate_label_value(case["value"])]
    if what == "labels":
        return map(_as_tuple, validate_labels(case["labels"]))
    if what == "taints":
        return map(_as_tuple, validate_taints(case["taints"]))
    if what == "podSpec":
        return map(_as_tuple, validate_pod_placement(case["spec"], case.get("podLabels")))
    raise ValueError(f"no check knows what '{what}' is")


def _as_tuple(error: ValidationError) -> tuple[str, str, str]:
    return error.type, error.field, error.detail
