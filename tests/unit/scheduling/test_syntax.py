# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers, keys and selectors at their edges; faults that validation names beyond the cases."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Requirement,
    Selector,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.selectors import (
    is_readable,
    matches,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.syntax import (
    is_label_key,
    is_label_value,
    parse_canonical_integer,
    parse_integer,
)
from ansible_collections.virt.placement.plugins.module_utils.scheduling.validation import (
    validate_labels,
    validate_pod_placement,
)


@pytest.mark.parametrize(
    ("text", "value", "canonical"),
    [
        ("7", 7, 7),
        ("007", 7, None),
        ("-0", 0, None),
        ("+5", 5, None),
        ("-5", -5, -5),
        ("0", 0, 0),
        ("", None, None),
        ("1_000", None, None),
        ("\u0661", None, None),
        ("5\n", None, None),
        ("9223372036854775807", 2**63 - 1, 2**63 - 1),
        ("9223372036854775808", None, None),
        ("0" * 5000 + "8", 8, None),
        ("9" * 5000, None, None),
    ],
)
def test_integers(text: str, value: int | None, canonical: int | None) -> None:
    assert parse_integer(text) == value
    assert parse_canonical_integer(text) == canonical


def test_keys_and_values() -> None:
    assert is_label_key("example.com/rack")
    assert not is_label_key("a/b/c")
    assert not is_label_key("/x")
    assert not is_label_key("x/")
    assert not is_label_key("zone\n")
    assert is_label_value("")
    assert not is_label_value("a b")


def test_selectors() -> None:
    assert matches(Selector(), {})
    assert not matches(None, {"a": "b"})
    assert not matches(Selector((Requirement("a", "Like", ("b",)),)), {"a": "b"})
    assert is_readable(Requirement("gen", "Gt", ("1",)), of_nodes=True)
    assert not is_readable(Requirement("gen", "Gt", ("1",)))
    assert not is_readable(Requirement("gen", "In", ()))


def test_yaml_that_is_no_string_is_refused() -> None:
    (error,) = validate_labels({"managed": True})
    assert (error.type, error.field) == ("FieldValueTypeInvalid", "metadata.labels")
    assert "quote it" in error.detail


def test_faults_are_found_under_the_path_of_a_template() -> None:
    spec = {"tolerations": [{"operator": "Exists", "value": "v"}], "nodeSelector": {"a b": "c"}}
    errors = validate_pod_placement(spec, field="spec.template.spec")
    assert [error.field for error in errors] == [
        "spec.template.spec.nodeSelector",
        "spec.template.spec.tolerations[0].operator",
    ]
