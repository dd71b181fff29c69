# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The structure of plugins/: class names occur once, no file imports itself by a circle, plugin_utils has layers, and
what a run moves is handed to the engine as a `MoveSource`: nothing overrides a method of the engine."""

from __future__ import annotations

import ast
import re
import typing as t
from collections import defaultdict
from pathlib import Path

import pytest

from tests.unit.test_imports import CHECKOUT, COLLECTION, UTILS, imports_of

PLUGINS = CHECKOUT / "plugins"
ROOT = PLUGINS / "module_utils"
CONTROLLER = f"{COLLECTION}.plugins.plugin_utils"

CLASSES_OF_ANSIBLE = {"ActionModule", "LookupModule", "ModuleDocFragment"}
"""Ansible loads a plugin by the name of its class."""

CONTROLLER_LAYERS = (
    {
        "job_stages",
        "job_maintenance",
        "job_verify",
        "job_report",
    },
    {"closings", "closing_maintenance"},
    {"registry"},
    {"approval", "capacity", "drs", "places", "undo"},
    {"kubeconfig"},
    {"job"},
    {"job_record"},
    {"report"},
    {"controller_choices"},
    {
        *("closing", "closing_unread", "controller", "maintenance_plan", "orphans"),
        *("outage", "progress_pipe", "role_variables"),
        "terminal",
        "verification",
    },
    {"ansible_internals"},
)
"""The files and packages of plugin_utils: the stages of a role, the block that closes a job, what capabilities add to
it, the connection, a job and its record, reports, surveys, and what these share. Each may import its own row and
those below it."""

INTERNALS = "ansible_internals"
"""The file of plugin_utils with what ansible-core keeps private."""

SHOWN = {"_task", "_execute_module", "_diff", "_verbosity", "_asdict", "_exit"}
"""What the guide of Ansible for developers shows of an action plugin and of a module, and members of Python."""

UNDESCRIBED = re.compile(
    r"ansible_stats|ansible_inject_invocation|cleanup_all_tmp_files|action_loader|get_config_value|DEFAULT_LOCAL_TMP"
    r"|_parent|_role|_role_path|_templar"  # also for getattr
)
"""What has a public name, and is described nowhere."""

ENGINE = {"Step", "StepContext", "Reconciler"}
SOURCES = {"rollout.rollout_source": "RolloutSource", "maintenance.drain": "DrainSource"}
"""File to the class that the engine is given."""


def sources(root: Path = ROOT) -> dict[str, str]:
    """Dotted name below a folder, module_utils unless another is given, to the text of the file."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts): path.read_text()
        for path in sorted(root.rglob("*.py"))
    }


def classes_by_name(files: t.Mapping[str, str]) -> dict[str, list[str]]:
    """Class name, without a leading underscore, to the files that define it at module level."""
    defined: dict[str, list[str]] = defaultdict(list)
    for name, source in files.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef):
                defined[node.name.lstrip("_")].append(name)
    return defined


def runtime_source(source: str) -> str:
    """The source without what only type checkers import."""
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return ast.unparse(tree)


def import_cycles(files: t.Mapping[str, str], package: str = UTILS) -> list[str]:
    """The files of a package that import themselves through others of it."""
    edges = imported_files(files, package)
    return sorted(name for name in files if name in _reachable(edges, name))


def imported_files(files: t.Mapping[str, str], package: str) -> dict[str, set[str]]:
    """Each file of a package to the other files of it that it imports, also in functions."""
    edges: dict[str, set[str]] = {}
    for name, source in files.items():
        targets = set()
        for imported in imports_of(f"{package}.{name}", runtime_source(source)):
            dotted = imported.name.removeprefix(f"{package}.")
            targets |= {x for x in (dotted, dotted.rpartition(".")[0]) if x in files}
        edges[name] = targets - {name}
    return edges


def controller_faults(files: t.Mapping[str, str]) -> list[str]:
    """Imports inside plugin_utils against its layers, and files that are in no layer or in two."""
    layer = {part: row for row, parts in enumerate(CONTROLLER_LAYERS) for part in parts}
    homeless = {name.partition(".")[0] for name in files if name != "__init__"} - set(layer)
    upward = [
        f"{name} may not import {target}"
        for name, targets in imported_files(files, CONTROLLER).items()
        for target in targets
        if layer.get(name.partition(".")[0], 0) > layer.get(target.partition(".")[0], 0)
    ]
    return sorted([*(f"{name} has no layer" for name in homeless), *upward])


def private_members(files: t.Mapping[str, str]) -> list[str]:
    """Uses of members with an underscore that no file of these defines, and of what Ansible describes nowhere, except
    in the file that is there for them."""
    defined = set(SHOWN)
    used: dict[str, str] = {}
    for name, source in files.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)  # a member of a class
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                defined.add(node.attr)
            elif isinstance(node, ast.Attribute):
                used[f"{name}:{node.lineno} {node.attr}"] = node.attr
            elif isinstance(node, ast.Constant) and isinstance(text := node.value, str):
                used |= (
                    {f"{name}:{node.lineno} {text}": text} if UNDESCRIBED.fullmatch(text) else {}
                )
    return sorted(
        place
        for place, member in used.items()
        if not place.partition(":")[0].endswith(INTERNALS)
        and (
            UNDESCRIBED.fullmatch(member) or (re.match("_[a-z]", member) and member not in defined)
        )
    )


def _reachable(edges: t.Mapping[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    ahead = list(edges[start])
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += edges[name]
    return reached


def imported_at_start(files: t.Mapping[str, str], start: str) -> set[str]:
    """The files that a file imports when it is imported: not those that a function of it imports."""
    edges: dict[str, set[str]] = {}
    for name, source in files.items():
        tree = ast.parse(runtime_source(source))
        tree.body = [x for x in tree.body if isinstance(x, (ast.Import, ast.ImportFrom))]
        found = (
            x.name.removeprefix(f"{UTILS}.")
            for x in imports_of(f"{UTILS}.{name}", ast.unparse(tree))
        )
        edges[name] = {
            x for dotted in found for x in (dotted, dotted.rpartition(".")[0]) if x in files
        }
    return _reachable(edges, start)


def subclasses(files: t.Mapping[str, str], bases: t.Collection[str]) -> list[str]:
    """The classes that inherit from one of these, whether by its name or as `module.name`."""
    return [
        f"{name}.{node.name}"
        for name, source in files.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).partition("[")[0].rpartition(".")[2] in bases
    ]


def members(source: str, name: str) -> set[str]:
    """The methods and attributes of a class without an underscore, also those that `__init__` sets."""
    (found,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    names = {node.name for node in found.body if isinstance(node, ast.FunctionDef)}
    for node in found.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    for inner in ast.walk(found):
        if _is_of_self(inner) and isinstance(inner.ctx, ast.Store):
            names.add(inner.attr)
    return {x for x in names if not x.startswith("_")}


def _is_of_self(node: ast.AST) -> t.TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("self", "cls")
    )


def private_names_of_others(source: str) -> list[str]:
    """What a file reads of other objects though its name begins with an underscore, or imports by such a name."""
    tree = ast.walk(ast.parse(source))
    return [
        ast.unparse(node)
        for node in tree
        if (isinstance(node, ast.Attribute) and node.attr.startswith("_") and not _is_of_self(node))
        or (isinstance(node, ast.ImportFrom) and any(x.name.startswith("_") for x in node.names))
    ]


def test_no_class_inherits_from_the_engine_or_from_a_source() -> None:
    assert subclasses(sources(), {*ENGINE, *SOURCES.values()}) == []


@pytest.mark.parametrize("file", SOURCES)
def test_source_has_the_members_that_the_engine_asks_for(file: str) -> None:
    files = sources()
    asked = members(files["moves.move_source"], "MoveSource")
    assert {"read", "plan", "goes_on", "finish"} <= asked
    assert asked - members(files[file], SOURCES[file]) == set()


@pytest.mark.parametrize("file", SOURCES)
def test_source_reads_no_private_name_of_the_engine(file: str) -> None:
    assert private_names_of_others(sources()[file]) == []


def test_steps_of_a_maintenance_start_without_what_they_do_not_ask() -> None:
    """A module compiles what it imports at each step. What asks the forecast is imported when it is asked, and what
    moves by the steps that move."""
    files = sources()
    returning = imported_at_start(files, "maintenance.in_service")
    moving = imported_at_start(files, "maintenance.drain")
    assert "moves.context" in returning and "moves.context" in moving
    unasked = ("approval.", "forecast.", "lint.", "maintenance.in_service", "scheduler.index")
    assert [x for x in moving if x.startswith((*unasked, "moves.reconcile"))] == []
    heavy = ("approval.", "compliance.", "forecast.", "planning.", "view.", "moves.step")
    either = imported_at_start(files, "flows.node_maintenance")
    assert [x for x in (*returning, *either) if x.startswith(heavy)] == []


def test_import_in_a_function_is_not_at_the_start() -> None:
    lazy = "from . import y\ndef f():\n    from . import z"
    assert imported_at_start({"a.x": lazy, "a.y": "", "a.z": ""}, "a.x") == {"a.y"}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class Drain(Step): ...", ["a.x.Drain"]),
        ("class Drain(step.Step[View]): ...", ["a.x.Drain"]),
        ("def f():\n    class Drain(Other, Step): ...", ["a.x.Drain"]),
        ("class Drain(StepResult): ...", []),
    ],
)
def test_subclass_of_the_engine_is_listed(source: str, found: list[str]) -> None:
    assert subclasses({"a.x": source}, ENGINE) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("step._reconcile(view)", ["step._reconcile"]),
        ("self.step._reconcile(view)", ["self.step._reconcile"]),
        ("from .step import _end", ["from .step import _end"]),
        ("self._view.plan()", []),
    ],
)
def test_private_name_of_another_object_is_listed(source: str, found: list[str]) -> None:
    assert private_names_of_others(source) == found


def test_members_are_methods_and_what_the_class_sets() -> None:
    source = """
class A:
    role = 1
    task: str
    def __init__(self):
        local = self.view = self._api = 1
    def read(self): ...
"""
    assert members(source, "A") == {"role", "task", "view", "read"}


def test_no_class_name_occurs_twice() -> None:
    defined = classes_by_name(sources(PLUGINS))
    twice = {name: files for name, files in defined.items() if len(files) > 1}
    assert set(twice) == CLASSES_OF_ANSIBLE


def test_no_file_imports_itself_through_others() -> None:
    assert import_cycles(sources()) == []
    assert import_cycles(sources(PLUGINS / "plugin_utils"), CONTROLLER) == []


def test_imports_inside_plugin_utils_go_one_way() -> None:
    assert controller_faults(sources(PLUGINS / "plugin_utils")) == []


@pytest.mark.parametrize(
    ("files", "faults"),
    [
        (
            {"job": "from .job_stages import run", "job_stages": ""},
            ["job may not import job_stages"],
        ),
        ({"report.page": "from ..job import run", "job": ""}, ["report.page may not import job"]),
        ({"job": "from .report.page import run", "report.page": ""}, []),
        ({"stuff": ""}, ["stuff has no layer"]),
    ],
)
def test_import_against_the_layers_of_plugin_utils_is_listed(
    files: dict[str, str], faults: list[str]
) -> None:
    assert controller_faults(files) == faults


@pytest.mark.parametrize(
    ("files", "twice"),
    [
        ({"a.x": "class Plan: ...", "b.y": "class Plan: ..."}, ["a.x", "b.y"]),
        ({"a.x": "class Plan: ...", "b.y": "class _Plan: ..."}, ["a.x", "b.y"]),
        ({"a.x": "class Plan:\n  class Plan: ..."}, ["a.x"]),
    ],
)
def test_files_that_define_a_class_name_are_listed(files: dict[str, str], twice: list[str]) -> None:
    assert classes_by_name(files)["Plan"] == twice


@pytest.mark.parametrize(
    ("first", "cycle"),
    [
        ("from ..b import y", ["a.x", "b.y"]),
        ("from ..b.y import f", ["a.x", "b.y"]),
        ("def f():\n    from ..b.y import g", ["a.x", "b.y"]),
        ("import typing as t\nif t.TYPE_CHECKING:\n    from ..b.y import g", []),
        ("import json", []),
    ],
)
def test_a_circle_of_imports_is_listed(first: str, cycle: list[str]) -> None:
    assert import_cycles({"a.x": first, "b.y": "from ..a.x import f"}) == cycle


def test_the_layout_is_read() -> None:
    assert "model.objects" in sources()


FACTS = {"budgets", "eviction_strategy", "manifest", "owner", "terminating", "vmis", "workloads"}
"""Fields of a snapshot and of what is in it that say how an instance leaves its node."""


def replaced_fields(source: str) -> set[str]:
    """The fields for which a file gives other values by `dataclasses.replace`."""
    return {
        keyword.arg
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "replace"
        for keyword in node.keywords
        if keyword.arg
    }


def test_no_fact_of_a_snapshot_is_replaced_for_a_forecast() -> None:
    """What a drain does with VMs is told to the forecast (`what_if`, leaves): it is no other cluster."""
    asking = {
        name: source
        for name, source in sources().items()
        if name.partition(".")[0] in ("maintenance", "moves", "planning", "rollout")
    }
    assert "maintenance.places" in asking
    assert {n: found for n, s in asking.items() if (found := replaced_fields(s) & FACTS)} == {}


def test_one_file_uses_what_ansible_keeps_private() -> None:
    assert private_members(sources(PLUGINS)) == []


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("role = task._role\n", ["_role"]),
        ("self._templar.template(x)\n", ["_templar"]),
        ("self._task.args\n", []),
        ("self._names = 1\nself._names\n", []),
        ("return {'ansible_stats': 1}\n", ["ansible_stats"]),
    ],
)
def test_what_ansible_keeps_private_is_found(source: str, used: list[str]) -> None:
    assert private_members({"action.x": source}) == [f"action.x:1 {name}" for name in used]
    assert private_members({f"plugin_utils.{INTERNALS}": source}) == []
