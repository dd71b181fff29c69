# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists and maps that have to be there before a term can stand in them, and that go with it.

A template without `affinity` and one with `affinity: {}` mean the same, but they are not the same
bytes: what was absent becomes absent again, what was empty stays empty.
"""

from __future__ import annotations

import typing as t

from ..model.pointer import JSON, MISSING, Pointer


def ensure(root: JSON, pointer: Pointer, empty: JSON, created: set[str]) -> JSON:
    """The container at `pointer`; where it is missing it becomes `empty`, its parents maps.

    What had to be made is added to `created`. A null counts as missing.
    """
    holder = root
    for depth, part in enumerate(pointer.parts, 1):
        if holder.get(part) is None:
            holder[part] = empty if depth == len(pointer.parts) else {}
            created.add(str(Pointer(pointer.parts[:depth])))
        holder = holder[part]
    return holder


def tidy(root: JSON, created: t.Iterable[str]) -> set[str]:
    """Take away the containers of `created` that are empty, the innermost first.

    Returns those that stay, because something stands in them. What is no longer there is
    forgotten. A part that begins with # stands for an entry of the list before it.
    """
    kept = set()
    paths = [text for text in created if "/#" not in text]
    for text in sorted(paths, key=lambda text: -text.count("/")):
        pointer = _parse(text)
        found = pointer.read(root, MISSING)
        if found in ({}, []):
            remove(root, pointer)
        elif found is not MISSING:
            kept.add(text)
    inside = {text: _parse(text.split("/#")[0]) for text in created if "/#" in text}
    return kept | {text for text, holder in inside.items() if holder.read(root, None)}


def remove(root: JSON, pointer: Pointer) -> None:
    """Take the key at `pointer` away; the map that holds it must be there."""
    del Pointer(pointer.parts[:-1]).read(root)[pointer.parts[-1]]


def _parse(text: str) -> Pointer:
    parts = text.split("/")[1:]
    return Pointer(tuple(part.replace("~1", "/").replace("~0", "~") for part in parts))
