# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import yaml_text
from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import (
    NoYaml,
    load_all_yaml,
    load_yaml,
)


def test_json_is_yaml_too() -> None:
    assert load_yaml('{"a": [1, null]}') == load_yaml("a: [1, null]") == {"a": [1, None]}


def test_empty_documents_are_left_out() -> None:
    assert load_all_yaml("---\n---\na: 1\n---\n# nothing\n---\n- b\n") == [{"a": 1}, ["b"]]


@pytest.mark.parametrize(
    ("text", "place", "line"),
    [
        ("- fine\n- a: b: c\n", "line 2, column 7: mapping values ", 2),
        ("- 1\n- %x\n", "line 2, column 3: ", 2),
        ("a: \x00", "", None),
    ],
)
def test_what_is_wrong_and_where(text: str, place: str, line: int | None) -> None:
    # The words are the parser's, and libyaml has others than PyYAML.
    for load in (load_yaml, load_all_yaml):
        with pytest.raises(NoYaml) as error:
            load(text)
        assert str(error.value).startswith(place)
        assert len(str(error.value).splitlines()) == 1
        assert error.value.line == line


def test_one_document_is_not_two() -> None:
    with pytest.raises(NoYaml, match=r"line 2, column 1: expected a single document .*another"):
        load_yaml("a: 1\n---\nb: 2\n")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "HAS_YAML", False)
    with pytest.raises(NoYaml, match="PyYAML is missing"):
        load_yaml("a: 1")
