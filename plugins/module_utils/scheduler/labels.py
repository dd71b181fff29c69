# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labels does a selector match, and what is valid label syntax?

Values compare as strings. NotIn and DoesNotExist hold where the key is absent. Source:
apimachinery, pkg/labels and util/validation.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ..model.objects import Labels, Node, NodeTerm, Placement, Requirement, Selector

NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*"

_NAME = re.compile(NAME_PATTERN)
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)
_LABEL = re.compile(LABEL_PATTERN)
_INTEGER = re.compile("[+-]?[0-9]+")
_INT64 = range(-(2**63), 2**63)


def is_name(text: str) -> bool:
    """The part of a label key after its prefix, without the limit of length."""
    return _NAME.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """A lowercase RFC 1123 subdomain, without the limit of length."""
    return _SUBDOMAIN.fullmatch(text) is not None


def is_dns_label(text: str) -> bool:
    """A lowercase RFC 1123 label, without the limit of length."""
    return _LABEL.fullmatch(text) is not None


@functools.lru_cache(maxsize=65536)
def is_label_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not (prefix and len(prefix) <= 253 and is_subdomain(prefix)):
        return False
    return len(name) <= 63 and is_name(name)


@functools.lru_cache(maxsize=65536)
def is_label_value(text: str) -> bool:
    return not text or (len(text) <= 63 and is_name(text))


def parse_integer(text: str) -> int | None:
    """A signed 64-bit decimal as Go's strconv.ParseInt reads it: leading zeros are fine."""
    digits = text.lstrip("+-0") or "0"
    if not _INTEGER.fullmatch(text) or len(digits) > 19:
        return None
    value = -int(digits) if text.startswith("-") else int(digits)
    return value if value in _INT64 else None


def matches(selector: Selector | None, labels: Labels) -> bool:
    """Whether `labels` satisfy `selector`. None matches nothing, an empty one everything."""
    return selector is not None and all(
        holds(requirement, labels) for requirement in selector.requirements
    )


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
    if operator not in ("Gt", "Lt") or value is None or len(requirement.values) != 1:
        return False
    left, right = parse_integer(value), parse_integer(requirement.values[0])
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
    return selector is None or all(
        is_readable(requirement) for requirement in selector.requirements
    )


NAME_FIELD = "metadata.name"


def is_readable_term(term: NodeTerm) -> bool:
    """Whether the scheduler can parse a term; one that it cannot matches no node."""
    return all(is_readable(requirement, of_nodes=True) for requirement in term.expressions) and all(
        requirement.operator in ("In", "NotIn") and len(requirement.values) == 1
        for requirement in term.fields
    )


def matches_term(term: NodeTerm, node: Node) -> bool:
    """Whether a term matches: everything in it holds. An empty or malformed one never does."""
    if not (term.expressions or term.fields) or not is_readable_term(term):
        return False
    return all(holds(requirement, node.labels) for requirement in term.expressions) and (
        not node.name or all(field_holds(requirement, node.name) for requirement in term.fields)
    )


def matches_terms(terms: t.Iterable[NodeTerm], node: Node) -> bool:
    """Whether any of OR-ed terms matches."""
    return any(matches_term(term, node) for term in terms)


def matches_node(placement: Placement, node: Node) -> bool:
    """Whether a node satisfies nodeSelector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in placement.node_selector):
        return False
    return placement.node_terms is None or matches_terms(placement.node_terms, node)


def field_holds(requirement: Requirement, name: str) -> bool:
    """One of matchFields; metadata.name is the only field there is."""
    value = name if requirement.key == NAME_FIELD else ""
    return (value == requirement.values[0]) == (requirement.operator == "In")
