# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import yaml_text
from ansible_collections.virt.placement.plugins.module_utils.api.auth_checks import why_unusable
from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import (
    NoReader,
    NoYaml,
    load_all_yaml,
    load_yaml,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.lint import documents_in
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import rules_data
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
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


def test_where_it_began_is_told_too() -> None:
    with pytest.raises(
        NoYaml, match=r"^line \d, column 1: while scanning a quoted scalar from line 2,"
    ):
        load_yaml('a: 1\nb: "open\nc: 2\n')


def test_an_error_without_words_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_text: str) -> None:
        raise MemoryError

    monkeypatch.setattr(yaml_text, "yaml_load", fail)
    with pytest.raises(NoYaml, match="MemoryError"):
        load_yaml("a: 1")


def test_a_missing_library_is_named_by_all_who_read_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(yaml_text, "HAS_YAML", False)
    with pytest.raises(NoReader):
        load_yaml("a: 1")
    missing = "PyYAML is missing that would read it"
    with pytest.raises(InvalidInput) as refused:
        rules_data("- name: x")
    assert [str(fault) for fault in refused.value.errors] == [f"rules: is text, and {missing}"]
    faults: list[InputError] = []
    assert documents_in("a: 1", "notes", faults) == []
    assert [str(fault) for fault in faults] == [f"notes: is YAML, and {missing}"]
    file = tmp_path / "config"
    file.write_text("a: 1")
    said = why_unusable({"kubeconfig": str(file)}, "x")
    assert said == f"kubeconfig: {file} cannot be read ({missing}); name a kubeconfig"
