# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Kubernetes accepts as label keys, label values, names and numbers (apimachinery)."""

from __future__ import annotations

import functools
import re

NAME_PATTERN = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_PATTERN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{LABEL_PATTERN}(\.{LABEL_PATTERN})*"

_NAME = re.compile(NAME_PATTERN)
_SUBDOMAIN = re.compile(SUBDOMAIN_PATTERN)
_LABEL = re.compile(LABEL_PATTERN)
_INTEGER = re.compile("[+-]?[0-9]+")
_CANONICAL_INTEGER = re.compile("0|-?[1-9][0-9]*")
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
    return _in_range(text) if _INTEGER.fullmatch(text) else None


def parse_canonical_integer(text: str) -> int | None:
    """A signed 64-bit decimal in its one canonical form, as taint comparison demands it."""
    return _in_range(text) if _CANONICAL_INTEGER.fullmatch(text) else None


def _in_range(text: str) -> int | None:
    digits = text.lstrip("+-0") or "0"
    if len(digits) > 19:
        return None
    value = -int(digits) if text.startswith("-") else int(digits)
    return value if value in _INT64 else None
