# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import manifest_text, yaml_text
from ansible_collections.virt.placement.plugins.module_utils.api.auth_checks import (
    unusable_connection,
)
from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import (
    InvalidYaml,
    PyYamlMissing,
    load_yaml,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.manifest_files import (
    documents_in,
)
from ansible_collections.virt.placement.plugins.module_utils.interface.arguments import rules_data
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from tests.support.modules import bounded


def test_json_is_yaml_too() -> None:
    assert load_yaml('{"a": [1, null]}') == load_yaml("a: [1, null]") == {"a": [1, None]}


@pytest.mark.parametrize(
    ("text", "place", "line"),
    [
        ("- fine\n- a: b: c\n", "line 2, column 7: mapping values ", 2),
        ("- 1\n- %x\n", "line 2, column 3: ", 2),
        ("a: \x00", "", None),
    ],
)
def test_yaml_error_has_its_position(text: str, place: str, line: int | None) -> None:
    # The words are the parser's, and libyaml has others than PyYAML.
    with pytest.raises(InvalidYaml) as error:
        load_yaml(text)
    assert str(error.value).startswith(place)
    assert len(str(error.value).splitlines()) == 1
    assert error.value.line == line


def test_one_document_is_not_two() -> None:
    with pytest.raises(
        InvalidYaml, match=r"line 2, column 1: expected a single document .*another"
    ):
        load_yaml("a: 1\n---\nb: 2\n")


def test_error_has_the_line_where_the_open_value_begins() -> None:
    with pytest.raises(
        InvalidYaml, match=r"^line \d, column 1: while scanning a quoted scalar from line 2,"
    ):
        load_yaml('a: 1\nb: "open\nc: 2\n')


def test_an_error_without_words_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_text: str, **_options: object) -> None:
        raise MemoryError

    monkeypatch.setattr(yaml_text, "yaml_load", fail)
    with pytest.raises(InvalidYaml, match="MemoryError"):
        load_yaml("a: 1")


def test_a_missing_library_is_named_by_all_options_with_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(yaml_text, "HAS_YAML", False)
    monkeypatch.setattr(manifest_text, "HAS_YAML", False)
    with pytest.raises(PyYamlMissing):
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
    reason = unusable_connection({"kubeconfig": str(file)}, "x")
    assert reason == f"kubeconfig: {file} cannot be read ({missing}); name a kubeconfig"


def test_aliases_that_make_few_lines_endless_are_refused() -> None:
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    with pytest.raises(InvalidYaml, match="more than 2,000,000 values"):
        load_yaml(f"a0: &a0 [x, x]\n{levels}")


def test_a_list_that_contains_itself_is_refused() -> None:
    with pytest.raises(InvalidYaml, match="alias inside of its own anchor"):
        load_yaml("a: &a [*a]")


def test_anchors_of_ordinary_manifests_are_read() -> None:
    assert load_yaml("a: &a {x: 1}\nb: *a") == {"a": {"x": 1}, "b": {"x": 1}}


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000, "? " * 100_000])
def test_deep_nesting_is_an_error_of_the_text(text: str) -> None:
    with pytest.raises(InvalidYaml, match="more than 200 deep"):
        load_yaml(text)


@pytest.mark.parametrize(
    "text",
    ["{kind: List, items: [" * 999 + "]}" * 999, "kind: " + "[" * 1_900 + "]" * 1_900, "- " * 300],
)
def test_values_deeper_than_lint_can_read_are_an_error_of_the_text(text: str) -> None:
    faults: list[InputError] = []
    assert documents_in(text, "file", faults) == []
    assert "more than 200 deep" in str(faults)


def test_brackets_in_text_are_no_depth() -> None:
    """Colours of a terminal in the scripts of cloud-init open brackets and close none."""
    script = "  echo '\\e[31mfailed\\e[0m'\n" * 500
    assert load_yaml(f"script: |\n{script}")


def test_recursive_merge_keys_are_refused() -> None:
    levels = "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60))
    with bounded(), pytest.raises(InvalidYaml, match="look for merge keys"):
        load_yaml(f"a0: &a0 {{x: 1}}\n{levels}")


def test_merge_keys_of_ordinary_manifests_are_read() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, *a], z: 3}\n"
    assert load_yaml(text)["c"] == {"x": 1, "y": 2, "z": 3}


@pytest.mark.parametrize("entry", ["- ", "? ", "-\t", "-          "])
def test_a_long_line_of_entries_is_refused_in_time(entry: str) -> None:
    """Each run of entries is short of the bound, but for the last one."""
    run = entry * 1999 + "x"
    text = run * (1_000_000 // len(run)) + entry * 2001
    with bounded(), pytest.raises(InvalidYaml, match="more than 200 deep"):
        load_yaml(text)


_PRIME = 2**61 - 1
"""Python hashes an integer to its remainder by this one."""


@pytest.mark.parametrize(
    "text",
    [
        "x: 1" + ":1" * 1_000_000,
        "".join(f"{number * _PRIME}: 1\n" for number in range(1, 100_000)),
        "x: 0x" + "f" * 5_000,
        f"x: -{2**64}",
    ],
    ids=["base-60", "keys-of-one-hash", "hexadecimal", "one-too-many"],
)
def test_integers_of_more_than_64_bits_are_refused_in_time(text: str) -> None:
    with bounded(), pytest.raises(InvalidYaml, match=r"line \d+: an integer of more than 64 bits"):
        load_yaml(text)


def test_other_integers_are_read() -> None:
    text = f"[{2**64 - 1}, -{2**63}, 0x1F, 0b{'1' * 64}, 1_000, 017, 1:30]"
    assert load_yaml(text) == [2**64 - 1, -(2**63), 31, 2**64 - 1, 1000, 15, 90]
