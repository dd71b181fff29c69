# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module's result against its RETURN documentation."""

from __future__ import annotations

import typing as t

import yaml

JSON = t.Any
BY_ANSIBLE = {
    "changed",
    "failed",
    "msg",
    "invocation",
    "warnings",
    "deprecations",
    "diff",
    "exception",
}
"""Keys that Ansible documents for all modules."""
TYPES: dict[str | None, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "list": (list,),
    "dict": (dict,),
}


def undocumented(result: dict[str, JSON], documentation: str) -> list[str]:
    """Paths of the result that RETURN does not document, or documents with another type.

    A map without `contains` has keys of the user, such as labels. Null is allowed everywhere. `step_state` and
    a key that begins with an underscore are for the action plugin, which takes them away.
    """
    documented: dict[str, JSON] = yaml.safe_load(documentation)
    own = {
        key: value
        for key, value in result.items()
        if key not in {*BY_ANSIBLE, "step_state"} and not key.startswith("_")
    }
    return list(_of_map(own, documented, ""))


def _of_map(value: JSON, documented: dict[str, JSON], path: str) -> t.Iterator[str]:
    for key, item in value.items():
        if key not in documented:
            yield f"{path}{key} is not documented"
        else:
            yield from _of_value(item, documented[key], f"{path}{key}")


def _of_value(value: JSON, documented: JSON, path: str) -> t.Iterator[str]:
    kind = documented.get("type")
    if value is None or kind in (None, "raw", "any"):
        return
    if not isinstance(value, TYPES[kind]) or (kind == "int" and isinstance(value, bool)):
        yield f"{path} is {value!r}, documented as {kind}"
    elif kind == "dict" and "contains" in documented:
        yield from _of_map(value, documented["contains"], f"{path}.")
    elif kind == "list":
        element = {"type": documented.get("elements"), "contains": documented.get("contains")}
        for item in t.cast("list[JSON]", value):
            yield from _of_value(
                item, {key: found for key, found in element.items() if found}, f"{path}[]"
            )
