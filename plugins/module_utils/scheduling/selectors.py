# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors: which of them can be read, and what they match.

Values compare as strings. NotIn and DoesNotExist hold where the key is absent
(apimachinery, pkg/labels).
"""

from __future__ import annotations

import typing as t

from ..model.objects import Labels, Requirement, Selector
from .syntax import is_label_key, is_label_value, parse_integer


def matches(selector: Selector | None, labels: Labels) -> bool:
    """Whether `labels` satisfy `selector`. None matches nothing, an empty one everything."""
    return selector is not None and all(holds(each, labels) for each in selector.requirements)


def holds(requirement: Requirement, labels: Labels) -> bool:
    """One requirement, of a label selector or a node expression; an unknown operator never holds."""
    operator = requirement.operator
    value = labels.get(requirement.key)
    if operator == "In":
        return value is not None and value in requirement.values
    if operator == "NotIn":
        return value is None or value not in requirement.values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    return operator in ("Gt", "Lt") and _compares(operator, value, requirement.values)


def _compares(operator: str, value: str | None, bounds: t.Sequence[str]) -> bool:
    left = None if value is None else parse_integer(value)
    right = parse_integer(bounds[0]) if len(bounds) == 1 else None
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def is_readable(requirement: Requirement, *, of_nodes: bool = False) -> bool:
    """Whether the scheduler can parse it: legal key and values, as many values as the operator
    wants. Gt and Lt are operators of node expressions only."""
    values = requirement.values
    if requirement.operator in ("In", "NotIn"):
        counted = bool(values)
    elif requirement.operator in ("Exists", "DoesNotExist"):
        counted = not values
    elif of_nodes and requirement.operator in ("Gt", "Lt"):
        counted = len(values) == 1 and parse_integer(values[0]) is not None
    else:
        return False
    return counted and is_label_key(requirement.key) and all(map(is_label_value, values))


def is_readable_selector(selector: Selector | None) -> bool:
    """Whether the scheduler can parse a label selector. A missing one can be read."""
    return selector is None or all(is_readable(each) for each in selector.requirements)
