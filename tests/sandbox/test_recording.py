# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated nodes show what real ones do, field by field, but for a list of explained differences."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from sandbox import Sandbox
from sandbox.pytest_plugin import MakeNamespace
from sandbox.recording import (
    Difference,
    Explanation,
    Recording,
    compare,
    record,
    unexplained,
)

HERE = Path(__file__).parent
REAL = HERE / "real_recording.json"
"""Made with three real nodes: ``virt-placement-sandbox up --nodes real --zones 3 --dir DIRECTORY``, then
``python -m sandbox.recording DIRECTORY FILE``. docs/compatibility.md has the releases."""
EXPLAINED = HERE / "explained_differences.yml"

FIELDS = {"vmi": {"status": "dict", "status.phase": "str", "status.machine.type": "str"}}
RECORDING = Recording(
    FIELDS,
    {"vmi": {"status.phase": ["Running"]}},
    {"vmi": [["Scheduled"], ["Running"]]},
    ["Started"],
)


def explanations() -> list[Explanation]:
    return [Explanation(**entry) for entry in yaml.safe_load(EXPLAINED.read_text())]


def test_equal_recordings_differ_in_nothing(tmp_path: Path) -> None:
    RECORDING.write(tmp_path / "r.json")
    assert compare(RECORDING, Recording.read(tmp_path / "r.json")) == []


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (
            {"fields": {"vmi": {**FIELDS["vmi"], "status.new": "dict", "status.new.x": "int"}}},
            Difference("fields", "vmi", "status.new", None, "dict"),
        ),
        (
            {"fields": {"vmi": {**FIELDS["vmi"], "status.phase": "NoneType|str"}}},
            Difference("fields", "vmi", "status.phase", "str", "NoneType|str"),
        ),
        (
            {"values": {"vmi": {"status.phase": ["Failed"]}}},
            Difference("values", "vmi", "status.phase", ["Running"], ["Failed"]),
        ),
        (
            {"order": {"vmi": [["Running"], ["Scheduled"]]}},
            Difference("order", "vmi", "Scheduled before Running", True, False),
        ),
        (
            {"order": {"vmi": [["Scheduled"]]}},
            Difference("order", "vmi", "Running", True, False),
        ),
        ({"events": []}, Difference("events", "", "Started", True, False)),
    ],
)
def test_each_kind_of_difference_is_found(
    change: dict[str, object], difference: Difference
) -> None:
    found = compare(RECORDING, dataclasses.replace(RECORDING, **change))  # type: ignore[arg-type]
    assert found == [difference]
    pattern = Explanation(difference.part, difference.role, difference.path, "known")
    assert unexplained(found, [pattern]) == []
    assert unexplained(found, [dataclasses.replace(pattern, path="other*")]) == found


def test_steps_that_one_of_them_takes_at_once_are_no_other_order() -> None:
    at_once = dataclasses.replace(RECORDING, order={"vmi": [["Scheduled", "Running"]]})
    assert compare(RECORDING, at_once) == []


def test_simulated_nodes_show_what_real_ones_do(six: Sandbox, namespace: MakeNamespace) -> None:
    where = namespace(six, "recording")
    simulated = record(six.api, six.kubeconfig("admin"), where)
    real, known = Recording.read(REAL), explanations()
    found = compare(real, simulated)
    assert [str(each) for each in unexplained(found, known)] == []
    always = (each for each in known if not each.sometimes)
    unused = [each for each in always if not any(each.explains(x) for x in found)]
    assert unused == [], "explained, and not different any more"
