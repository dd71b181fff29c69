# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codes of obstacles: RETURN of the modules names those that are in the registry, and no other one."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import yaml

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    CODES,
    INTERNAL,
    Obstacle,
)

MODULES = Path(__file__).resolve().parents[3] / "plugins" / "modules"


def _documented(fields: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    """The codes that the descriptions of fields with a code name."""
    for name, field in fields.items():
        if name in ("reason_code", "stop_code"):
            yield from re.findall(r"\bV\((\w+)\)", str(field["description"]))
        yield from _documented(field.get("contains") or {})


def test_results_document_the_codes_of_the_registry() -> None:
    texts = [path.read_text() for path in sorted(MODULES.glob("*.py"))]
    blocks = [re.search(r'^RETURN = r?"""\n(.*?)^"""', text, re.M | re.S) for text in texts]
    documented = [_documented(yaml.safe_load(block[1])) for block in blocks if block is not None]
    assert {code for codes in documented for code in codes} == CODES.keys() - INTERNAL


def test_obstacle_is_printed_as_its_text() -> None:
    assert f"{Obstacle('no_right', 'a sentence')}" == "a sentence"
