# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the JSON in an annotation hold? Every user with the right to edit the object can have written it."""

from __future__ import annotations

import json

from .json_pointer import JSON
from .nesting import is_deeper

SIZE_LIMIT = 256 * 1024
"""Characters. The API server takes no more in all annotations of an object
(apimachinery, pkg/api/validation: TotalAnnotationSizeLimitB)."""

DEPTH_LIMIT = 32
"""Maps and lists inside each other. The deepest that is written here is the affinity of an undo record: 11."""


class DamagedAnnotation(ValueError):
    """The text is no JSON object, or one that the collection cannot have written."""


def read_annotation(text: str) -> dict[str, JSON]:
    """The JSON object in an annotation. Raises DamagedAnnotation, which says what is wrong with it."""
    if len(text) > SIZE_LIMIT:
        raise DamagedAnnotation(f"it has {len(text)} characters, at most {SIZE_LIMIT} are allowed")
    try:
        content = json.loads(text)
    except RecursionError:
        raise DamagedAnnotation("its JSON is nested too deeply") from None
    except ValueError as error:
        raise DamagedAnnotation(str(error)) from error
    if not isinstance(content, dict):
        raise DamagedAnnotation("it is no JSON object")
    if "\\u" in text and not _is_text(content):
        raise DamagedAnnotation("it has half a character, such as \\ud800")
    if text.count("{") + text.count("[") > DEPTH_LIMIT and is_deeper(content, DEPTH_LIMIT):
        raise DamagedAnnotation("its JSON is nested too deeply")
    return content


def _is_text(content: JSON) -> bool:
    """Whether the content can be sent on: JSON can escape half of a UTF-16 pair, which no UTF-8 has."""
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
