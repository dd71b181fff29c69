# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of roles have the same value on each ansible-core.

Before 2.19 a template whose text looks like a dict, a list or a boolean becomes one, so no such text may be built.

Ansible's templates are imported late: in a process that has them, warnings of modules go to the display, and tests of
modules find none.
"""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

ROLES = Path(__file__).resolve().parents[2] / "roles"
Object = dict[str, t.Any]


def variables_of(role: str) -> Object:
    from ansible.parsing.dataloader import DataLoader

    path = str(ROLES / role / "vars" / "main.yml")
    loader = DataLoader()
    try:
        loaded = loader.load_from_file(path, trusted_as_template=True)
    except TypeError:  # before ansible-core 2.19
        loaded = loader.load_from_file(path)
    return t.cast(Object, loaded)


def value(role: str, name: str, **variables: t.Any) -> t.Any:
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar

    known = {**variables_of(role), **variables}
    return Templar(loader=DataLoader(), variables=known).template(known[name])


@pytest.mark.parametrize(
    ("options", "given"),
    [
        ({}, False),
        ({"labels": {"zone": "a"}}, True),
        ({"per_value": {"zone": {"a": ["w1"]}}}, True),
        ({"selector": "a=b"}, True),
    ],
)
def test_topology_without_nodes_and_labels_only_shows(options: Object, given: bool) -> None:
    names = ("per_node", "per_value", "nodes", "labels", "remove", "exclusive")
    empty: Object = {**{name: [] for name in names}, "selector": "", "follow": False}
    options = {**empty, **options}
    wanted = value(
        "placement_topology", "__placement_topology_given", __placement_topology_options=options
    )
    assert wanted is given


BEGINS_LIKE_DATA = re.compile(
    r"\s*(\{%.*?%\}\s*)*(\{\{-?\s*(['\"]?)[\[{]|[\[{](?![{%#])|True\b|False\b)", re.S
)


@pytest.mark.parametrize("role", sorted(path.name for path in ROLES.iterdir()))
def test_no_text_of_several_lines_begins_like_data(role: str) -> None:
    """Such a text of one line would be a dict or a list, without the methods of a text."""
    if not (ROLES / role / "vars" / "main.yml").is_file():
        return
    texts = {n: x for n, x in variables_of(role).items() if isinstance(x, str) and "\n" in x}
    assert [name for name, text in texts.items() if BEGINS_LIKE_DATA.match(text)] == []


def test_rollout_of_rules_that_are_removed_by_name_ends_their_holds() -> None:
    """Otherwise the StatefulSet would keep the strategy OnDelete for ever."""
    held = {"kind": "StatefulSet", "namespace": "shop", "name": "db"}
    for rules, result, wanted in (
        ([{"name": "apart"}], {"held": [held]}, [held]),
        ([{"name": "apart"}], {}, []),
        (
            [{"name": "a", "workloads": ["web"]}, {"name": "b", "workloads": [held]}],
            {"held": [held]},
            ["web", held],
        ),
    ):
        workloads = value(
            "placement_apply",
            "__placement_apply_workloads",
            __placement_apply_options={"rules": rules},
            placement_apply_rules_result=result,
        )
        assert workloads == wanted
