# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables stand for the maps and lists of a template, and for the terms that are to go into them?"""

from __future__ import annotations

import typing as t

from ..model.json_pointer import Pointer
from ..model.placement_manifests import PREFERRED, REQUIRED
from ..rules.term_slots import LISTS, MAPS, NODE_TERMS, TermLocation
from . import cel

_SHORT = {REQUIRED: "required", PREFERRED: "preferred"}


def name_of(prefix: str, pointer: Pointer) -> str:
    """The name of a variable about a part of the template."""
    return "_".join((prefix, *(_SHORT.get(part, part) for part in pointer.parts)))


def at(pointer: Pointer) -> str:
    """The map or list at a pointer; null where it is missing."""
    return cel.variable(name_of("at", pointer))


def list_at(pointer: Pointer) -> str:
    """The list at a pointer; one without entries where it is missing."""
    return cel.either(f"{at(pointer)} == null", "[]", at(pointer))


def place_of(location: TermLocation) -> Pointer:
    """The map or list that terms of a location go into."""
    return {**LISTS, **MAPS}.get(location, NODE_TERMS)


def wanted_name(location: TermLocation) -> str:
    """The name of the variable of the terms of a location that the new object is to get."""
    return f"want_{str(location).replace('-', '_')}"


def wanted(location: TermLocation) -> str:
    """The terms of a location that the new object is to get."""
    return cel.variable(wanted_name(location))


def extended(location: TermLocation) -> str:
    """The list of a location with the terms that the new object is to get at its end."""
    return f"{list_at(LISTS[location])} + {wanted(location)}"


def are_wanted(locations: t.Iterable[TermLocation]) -> str:
    """Whether terms of one of the locations are wanted."""
    return cel.any_of(f"size({wanted(location)}) > 0" for location in locations)
