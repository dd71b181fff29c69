# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors that validation reports beyond the recorded cases."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.scheduler.validation import (
    label_errors,
    validate_pod_placement,
)


def test_label_value_that_is_not_a_string_is_an_error() -> None:
    (error,) = label_errors({"managed": True}, "metadata.labels")
    assert (error.type, error.field) == ("FieldValueTypeInvalid", "metadata.labels")
    assert "quote it" in error.detail


def test_errors_have_the_path_of_the_template() -> None:
    spec = {"tolerations": [{"operator": "Exists", "value": "v"}], "nodeSelector": {"a b": "c"}}
    errors = validate_pod_placement(spec, field="spec.template.spec")
    assert [error.field for error in errors] == [
        "spec.template.spec.nodeSelector",
        "spec.template.spec.tolerations[0].operator",
    ]
