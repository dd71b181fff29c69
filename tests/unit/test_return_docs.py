# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""RETURN of each module documents what its maps and lists contain, and its samples."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from dev.codes import return_text
from tests.returned import undocumented

CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = sorted((CHECKOUT / "plugins" / "modules").glob("*_info.py")) + [
    CHECKOUT / "plugins" / "modules" / f"{name}.py"
    for name in ("drs_import", "node_labels", "node_maintenance", "report", "rollout", "rules")
]
WITHOUT_CONTAINS = {
    "after": "label key to value",
    "before": "label key to value",
    "domains": "topology name to domain",
    "labels": "label key to value",
    "node_labels": "label key to value to nodes, or node to label key to value",
    "manifests": "objects of the Kubernetes API",
    "missing": "topology name to nodes",
    "outcome": "lists of entries, with fields that are the same in each module",
    "patch": "operations of RFC 6902",
    "placement": "fields of the Kubernetes API",
    "declaration": "options of a rule",
    "places": "VM to node",
    "planned": "node to label key to value",
    "shared": "host to nodes",
    "specs": "fields of the Kubernetes API",
}
"""Maps with keys of the user, and operations with keys of a standard."""


def bare(documented: dict[str, t.Any], path: str = "") -> t.Iterator[str]:
    for name, item in documented.items():
        where = f"{path}{name}"
        if "contains" in item:
            yield from bare(item["contains"], f"{where}.")
        elif "dict" in (item.get("type"), item.get("elements")) and name not in WITHOUT_CONTAINS:
            yield where


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_maps_and_lists_of_maps_document_what_they_contain(module: Path) -> None:
    assert list(bare(yaml.safe_load(return_text(module)))) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_samples_have_documented_keys_and_types(module: Path) -> None:
    text = return_text(module)
    samples = {
        name: item["sample"] for name, item in yaml.safe_load(text).items() if "sample" in item
    }

    assert undocumented(samples, text) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_no_value_has_a_name_that_ansible_takes_for_the_state_of_the_task(module: Path) -> None:
    """With a list that is not empty in `skipped`, ansible-core counts the task as skipped and evaluates
    neither changed_when nor failed_when (executor/task_result.py, task_executor.py)."""
    names = set(yaml.safe_load(return_text(module)))
    assert names & {"skipped", "failed", "unreachable", "results", "exception", "rc"} == set()
