# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests are read as kubectl reads them, as far as repositories depend on it.

The expected values are what the decoder of kubectl made of these texts (yaml.NewYAMLOrJSONDecoder of
k8s.io/apimachinery v0.36.2, with sigs.k8s.io/yaml v1.6.0).
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.manifest_text import (
    Part,
    decode,
    read_parts,
)
from ansible_collections.virt.placement.plugins.module_utils.api.yaml_text import InvalidYaml
from tests.support.modules import bounded

JSON = t.Any


def values(text: str) -> list[JSON]:
    parts = read_parts(text)
    assert [part.fault for part in parts if part.fault] == []
    return [part.value for part in parts]


def faults(text: str) -> list[str]:
    return [str(part.fault) for part in read_parts(text) if part.fault]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[yes, No, on, OFF, True]",
            [True, False, True, False, True],
        ),
        ("[tRUE, nUll, ~, Null]", ["tRUE", "nUll", None, None]),
        ("[017, 0x1F, 0b11, 1_000, -017]", [15, 31, 3, 1000, -15]),
        ("[1:30, 12:30:45, 2026-01-02]", ["1:30", "12:30:45", "2026-01-02"]),
        ("[1., .5, 1.10, 1.0]", [1, 0.5, 1.1, 1]),
        ("[., +, 0b, 0x, _1, 1_]", [".", "+", "0b", "0x", "_1", 1]),
        ("[18446744073709551615]", [2**64 - 1]),
        ("[=, '=']", ["=", "="]),
        ("{=: 1}", {"=": 1}),
        ("{on: 1, 2: x, 1.5: z, 017: o}", {"true": 1, "2": "x", "1.5": "z", "15": "o"}),
        ("{a: 1, b: {c: 1, c: 2}, a: 2}", {"a": 2, "b": {"c": 2}}),
        ("a: &x 1\nb: *x\nc: &x 2\nd: *x\n", {"a": 1, "b": 1, "c": 2, "d": 2}),
        ("a: &a {x: 1}\nb: {<<: *a, x: 2}", {"a": {"x": 1}, "b": {"x": 2}}),
        ("a: &a {x: 1}\nb: {<<: *a, <<: {x: 3}}", {"a": {"x": 1}, "b": {"x": 3}}),
        ("a: &a {x: 1}\nb: {<<: [*a, {x: 4, z: 5}]}", {"a": {"x": 1}, "b": {"x": 1, "z": 5}}),
        ("b: {'<<': {x: 1}}", {"b": {"<<": {"x": 1}}}),
        ("[!!str 1, !!int '3']", ["1", 3]),
        ("a:\t1\nb: 2\t\n", {"a": 1, "b": 2}),
        ("# c\n{\n\t'a': [\n\t\t1\n\t]\n}\n", {"a": [1]}),
        ("a: |\n  x\n  z", {"a": "x\nz\n"}),
    ],
)
def test_value_is_that_of_kubectl(text: str, expected: JSON) -> None:
    assert values(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "---\n---\n# only\n---\na: 1\n---\nnull\n---\n--- # c\nb: 1\n...\n---\nc: 1\n",
            [{"a": 1}, {"b": 1}, {"c": 1}],
        ),
        ("", []),
        ("# nothing\n", []),
        ("a: 1\r\n---\r\nb: |\r\n  x\r\n  z\r\n", [{"a": 1}, {"b": "x\nz\n"}]),
        ('{"a": 1}{"b": 2}\n{"c": 3}', [{"a": 1}, {"b": 2}, {"c": 3}]),
        ('  {"a": 1}\n---\n{"c": 3}', [{"a": 1}, {"c": 3}]),
        ('{"a": 1}\n---\nb: 2\n', [{"a": 1}, {"b": 2}]),
        ('{"a": 1, "a": 2}', [{"a": 2}]),
        ('{"a": 1,}', [{"a": 1}]),
        ("a: 1\n...\nb: 2\n", [{"a": 1}]),
        ("{a: 1}\n{b: 2}\n", [{"a": 1}]),
        ("%YAML 1.1\n---\na: 1\n---\nb: 1\n", [{"a": 1}, {"b": 1}]),
    ],
)
def test_documents_are_those_of_kubectl(text: str, expected: list[JSON]) -> None:
    """But for the directive, at which kubectl stops."""
    assert values(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ x }}\n",
        "{{ x }}: 1\n",
        "? [a]\n: 1\n",
        "{~: n}",
        "a: [\n",
        "a: *x\n",
        "a: &x 1\n---\nb: *x\n",
        "a:\n\tb: 1\n",
        "a: @x\n",
        "a: %x\n",
        "--- {a: 1}\n--- {b: 2}\n",
        "a: 1\n----\nb: 2\n",
        "a: &a {b: *a}\n",
        "a: 1.0e+400\n",
        "a: .inf\n",
        "a: {<<: 1}\n",
        "a: !Ref x\n",
        "a: !!binary aGk=\n",
        "// c\n{'a': 1}",
    ],
)
def test_text_that_kubectl_refuses_is_a_fault(text: str) -> None:
    assert len(faults(text)) == 1


def test_a_broken_document_does_not_hide_the_others() -> None:
    parts = read_parts("a: 1\n---\nb: [\n---\nc: 1\n")

    assert [part.value for part in parts] == [{"a": 1}, None, {"c": 1}]
    assert str(parts[1].fault).startswith("line 4, column 1: ")


def test_a_fault_has_the_line_of_the_file() -> None:
    (fault,) = faults('{"a": 1}\n---\nb: 1\n---\n\nc: *x\n')
    assert fault.startswith("line 6, column ")
    (fault,) = faults("b: 1\n---\n\nc: {{ x }}\n")
    assert fault == "line 4: a key must be text: quote it, or render the template"


def test_byte_order_mark_is_left_out() -> None:
    assert values(decode(b"\xef\xbb\xbfa: 1\n")) == [{"a": 1}]
    assert values(decode(b'\xef\xbb\xbf{"a": 1}')) == [{"a": 1}]


@pytest.mark.parametrize("content", ["a: 1\n".encode("utf-16"), b"a: \xff\n"])
def test_other_encodings_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidYaml, match="UTF-8"):
        decode(content)


def test_a_definition_of_a_kind_is_not_parsed() -> None:
    text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {a: [=]}\n"
    (value,) = values(text)
    assert value["kind"] == "CustomResourceDefinition"
    assert "spec" not in value


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_a_fault(text: str) -> None:
    with bounded():
        (fault,) = faults(text)
    assert "more than 200 deep" in fault


def test_aliases_and_merge_keys_that_expand_are_faults() -> None:
    lists = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    maps = "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}], x{n}: 1}}" for n in range(1, 3000))
    with bounded():
        assert "more than 2,000,000 values" in faults(f"a0: &a0 [x, x]\n{lists}")[0]
        assert "look for merge keys" in faults(f"a0: &a0 {{x: 1}}\n{maps}")[0]


def test_long_integers_are_numbers_in_time() -> None:
    with bounded():
        assert "more than 64 bits" in faults("a: " + "9" * 1_000_000)[0]
        assert "more than 64 bits" in faults('{"a": ' + "9" * 1_000_000 + "}")[0]


def test_many_json_values_are_read_in_time() -> None:
    with bounded():
        assert len(values('{"a": [1]}\n' * 50_000)) == 50_000


def test_a_part_keeps_its_text() -> None:
    assert read_parts("a: 1\n") == [Part("a: 1\n", {"a": 1})]
