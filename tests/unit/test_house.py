# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers of dev/house.py may only fall, and each counts what its name says."""

from __future__ import annotations

import ast

import pytest

from dev.house import (
    PLACES,
    PLUGINS,
    Imports,
    Source,
    keep,
    kept_numbers,
    measure,
    places,
    risen,
    sources,
)


def source(text: str, file: str = "module_utils/moves/step.py") -> Source:
    return Source(file, ast.parse(text))


def counted(name: str, text: str, file: str = "module_utils/moves/step.py") -> int:
    return len(places([source(text, file)])[name])


def test_no_number_of_the_house_rises() -> None:
    """One that must rise is changed in house.json by hand, and the commit says why."""
    now, kept = measure(sources()), kept_numbers()
    assert risen(now, kept) == {}
    assert set(kept) == set(now)


def test_every_python_file_below_plugins_is_counted() -> None:
    areas = {x.area for x in sources()}
    assert areas == {path.name for path in PLUGINS.iterdir() if any(path.rglob("*.py"))}
    assert "plugin_utils" in areas


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("comparisons with a kind outside kinds", "ref.kind == 'Deployment'"),
        ("comparisons with a kind outside kinds", "ref.kind in (POOL, kinds.REPLICA_SET)"),
        ("comparisons with a kind outside kinds", "ways = {STATEFUL_SET: 1}"),
        ("comparisons with a kind outside kinds", "match x:\n  case 'DaemonSet': pass"),
        ("comparisons with a kind outside kinds", "if workload.kind.surges: pass"),
        ("functions that answer by a sentence", "def why_not(x) -> str: ..."),
        ("functions that answer by a sentence", "def f(x) -> str | None:\n  'Why x stays.'"),
        (
            "functions that answer by a sentence",
            "def f(x) -> str:\n  'A text, empty where it may.'",
        ),
        ("decisions by text", "if 'budget' in move.reason: pass"),
        ("decisions by text", "why.startswith('no node')"),
        ("decisions by text", "re.search('x', skipped.sentence)"),
        ("views of the cluster that are built", "view = ClusterView(snapshot)"),
        ("views of the cluster that are built", "view = snapshot.derived(ClusterView)"),
        ("tables by reference", "{x.ref: x for x in workloads}"),
        ("uses of id()", "cache[id(pod)] = 1"),
        ("hidden imports", "importlib.import_module('x')"),
        ("hidden imports", "eval('x')"),
    ],
)
def test_place_is_counted(name: str, text: str) -> None:
    assert counted(name, text) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("comparisons with a kind outside kinds", "ref.kind == other.kind"),
        ("comparisons with a kind outside kinds", "kind.surges"),
        ("functions that answer by a sentence", "def title(x) -> str:\n  'Its title.'"),
        ("functions that answer by a sentence", "def why_not(x) -> Obstacle | None: ..."),
        ("decisions by text", "if 'budget' in reasons: pass"),
        ("decisions by text", "message.startswith('admission webhook')"),
        ("tables by reference", "{x.uid: x for x in pods}"),
        ("uses of id()", "pod.id()"),
    ],
)
def test_other_place_is_not_counted(name: str, text: str) -> None:
    assert counted(name, text) == 0


def test_a_kind_is_at_home_in_kinds() -> None:
    text = "ref.kind == 'Deployment' and workload.kind.surges"
    name = "comparisons with a kind outside kinds"
    assert counted(name, text, "module_utils/kinds/deployment.py") == 0
    assert counted(name, text, "module_utils/model/kinds.py") == 0


def test_importlib_is_hidden_in_module_utils_only() -> None:
    assert counted("hidden imports", "importlib.reload(x)", "lookup/choices.py") == 0


def test_blank_lines_and_comments_change_no_number() -> None:
    short = measure([source("def f(x):\n    return x")])
    assert (
        measure([source("\n\n# why\ndef f(\n    x,\n):\n\n    return (\n        x\n    )")])
        == short
    )
    assert short["statements in plugins"] == 2


FILES = [
    source("from ..module_utils.flows import rules", "modules/rules.py"),
    source("from ..drs import a\ndef f():\n    from ..cpu import b", "module_utils/flows/rules.py"),
    source("", "module_utils/drs/a.py"),
    source("from ..drs.a import x", "module_utils/cpu/b.py"),
    source("if t.TYPE_CHECKING:\n    from ..cpu import b", "module_utils/undo/c.py"),
]


def test_files_that_a_module_loads_are_counted_with_what_functions_import() -> None:
    imports = Imports(FILES)
    assert imports.loaded("rules", "start") == 2
    assert imports.loaded("rules", "all") == 3
    assert imports.loaded("absent", "all") == 0


def test_importers_of_a_capability_are_listed_but_for_flows_and_registries() -> None:
    imports = Imports(FILES)
    assert imports.importers_of("drs") == ["cpu.b"]
    assert imports.importers_of("cpu") == []
    assert imports.importers_of("holds") is None
    named = source("from ..drs import a", "module_utils/lint/registry.py")
    assert Imports([FILES[2], named]).importers_of("drs") == []


def test_number_that_rose_is_named_with_both_values() -> None:
    kept = {"tables by reference": 3, "uses of id()": 2}
    assert risen({"tables by reference": 4, "uses of id()": 1}, kept) == {
        "tables by reference": (3, 4)
    }
    assert risen({"new": 1}, {}) == {"new": (0, 1)}


def test_keep_lowers_numbers_and_raises_none() -> None:
    assert keep({"a": 1, "b": 5, "c": 7}, {"a": 2, "b": 4}) == {"a": 1, "b": 4, "c": 7}


def test_each_place_has_a_number() -> None:
    assert set(PLACES) <= set(measure([]))
