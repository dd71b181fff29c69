# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label keys and values as people give them."""

from __future__ import annotations

from ..model.pointer import JSON
from ..scheduling.syntax import is_label_key, is_label_value
from .values import Notes


def label_key(notes: Notes, key: str) -> bool:
    """Whether Kubernetes takes `key` for the key of a label; noted if not."""
    if is_label_key(key):
        return True
    notes.fault(
        f"{key!r} is no label key: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit, after an optional DNS prefix and a slash"
    )
    return False


def label_value(notes: Notes, value: JSON) -> str | None:
    """A value that is not empty and that Kubernetes takes for the value of a label."""
    text = notes.text(value)
    if text is None or is_label_value(text):
        return text
    notes.fault(
        f"{text!r} is no label value: letters, digits, '-', '_' and '.', at most 63, beginning and"
        " ending with a letter or digit"
    )
    return None
