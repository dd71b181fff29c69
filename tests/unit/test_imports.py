# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Imports go one way (docs/architecture.md): read from the source, nothing is run."""

from __future__ import annotations

import ast
import sys
import typing as t
from pathlib import Path

import pytest

from dev.house import REGISTRIES
from dev.unit_matrix import CAPABILITIES, PURE, WITH_EFFECTS

CHECKOUT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections.virt.placement"
UTILS = f"{COLLECTION}.plugins.module_utils"

# Each may import what stands after it; an effect also everything pure, never the reverse.
EFFECTS = (
    "action",
    "lookup",
    "plugin_utils",
    "modules",
    "flows",
    "interface",
    "maintenance",
    "rollout",
    "moves",
    "cluster",
    "api",
)
# Each has its own source of moves, and shares with the other what is in the layer below.
APART = {"maintenance": "rollout"}
# What reads and writes the cluster does not know what is made of it: the first pure layer that each may import.
READERS = {"cluster": "kubevirt", "api": "model"}
WITHOUT_LAYER = {"doc_fragments"}

# api/ owns what speaks to the cluster.
ONLY_IN_API = {"kubernetes", "urllib3", "yaml"}
# ansible-core depends on jinja2, and where ansible-core runs it is there. A node that runs modules may lack it.
ON_CONTROLLER = {"action", "lookup", "plugin_utils"}
LATE = {
    "api.auth_checks": "a kubeconfig is read here for an error alone",
    "cluster.expanded_templates": "launcher pods are known where a VM is halted",
    "cluster.reading": "claims are read for a task that reads the volumes of some namespaces",
    "flows.lint": "a task without a cluster reads none",
    "flows.node_labels": "nodes that have their labels are not written, and dependents are read for changed values",
    "flows.node_maintenance": "nodes are put in service without what drains them, and the reverse",
    "flows.rules": "rules that are as wanted are not written; those that are removed or restored are not linted",
    "interface.arguments": "rules are text in a survey alone",
    "interface.results": "a task that reads no snapshot has no gap to warn of",
    "maintenance.drain": "only the first step of a drain asks the forecast",
    "maintenance.in_service": "few VMIs are marked for evacuation",
    "maintenance.options": "few maintenances have a window, and the time zones that it needs",
    "maintenance.registry": "few drains are of an approved plan",
    "model.write": "labels of nodes are written without the kinds of workloads",
    "moves.reconciliation": "the moves of a drain do not wait for room",
    "moves.step": "a step that holds no Lease moves nothing: check mode, and a run with nothing to do",
    "node_labels.plan": "templates are read where a value changes",
    "rollout.options": "few rollouts have a window, and the time zones that it needs",
    "rollout.registry": "few rollouts have an approved plan, a map of VMs, or what rules hold",
    "rollout.rollout_source": "what is placed correctly and not enforced is reported where a run ends",
    "rules.compile": "few rules are written as terms of the API",
    "rules.parse": "few rules are written as terms of the API",
    "rules.registry": "one task in many undoes a change",
    "view.view": "rules are written without the scheduler",
}
"""The files of module_utils of which a function imports others, each with what starts without them. A module is a
process of its own, which compiles all that it imports: such an import is for what is rarely called."""
NOT_PURE = {"asyncio", "http", "select", "socket", "ssl", "subprocess", "urllib.request"}


class Import(t.NamedTuple):
    """One imported name, absolute: `from ..model import write` is `<UTILS>.model.write`."""

    name: str
    line: int

    def within(self, package: str) -> bool:
        return self.name == package or self.name.startswith(f"{package}.")


def imports_of(module: str, source: str) -> list[Import]:
    """Every import in a module of this dotted name, also those inside functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")[: -node.level] if node.level else []
            package = ".".join([*base, *filter(None, [node.module])])
            found += [Import(f"{package}.{alias.name}", node.lineno) for alias in node.names]
    return found


def imports_late(source: str) -> bool:
    """Whether a function of a file of module_utils imports another file of it."""
    return any(
        isinstance(node, ast.ImportFrom) and node.level
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
    )


def layer_of(name: str) -> str | None:
    """The layer that a dotted name of the collection is in, None for what has none."""
    if not name.startswith(f"{COLLECTION}.plugins."):
        return None
    parts = name.removeprefix(f"{COLLECTION}.plugins.").split(".")
    layer = parts[1] if parts[0] == "module_utils" and len(parts) > 1 else parts[0]
    return None if layer in WITHOUT_LAYER else layer


def allowed_from(layer: str) -> tuple[str, ...]:
    """The layers that this one may import, itself among them. A capability is imported by what a task starts."""
    core = tuple(x for x in PURE if x not in CAPABILITIES)
    if layer in WITH_EFFECTS:
        return (layer, *EFFECTS[EFFECTS.index("maintenance") :], *core)
    if layer in CAPABILITIES:
        return (layer, *core)
    if layer in PURE:
        return PURE[PURE.index(layer) :]
    pure = (
        (*CAPABILITIES, *core)
        if layer in ("modules", "flows")
        else core[core.index(READERS.get(layer, core[0])) :]
    )
    effects = (x for x in EFFECTS[EFFECTS.index(layer) :] if x != APART.get(layer))
    return (*effects, *pure)


def fault_of(layer: str, imported: Import) -> str | None:
    """Why a module of this layer may not import that, None where it may."""
    target = layer_of(imported.name)
    if target is not None:
        return None if target in allowed_from(layer) else f"{layer} may not import {target}"
    top = imported.name.split(".")[0]
    foreign = imported.within("ansible_collections") and not imported.within(COLLECTION)
    if layer != "api" and (foreign or top in ONLY_IN_API):
        return f"only api may import {imported.name}"
    if layer not in PURE:
        known = {"ansible", "ansible_collections", *ONLY_IN_API, *sys.stdlib_module_names}
        if layer in ON_CONTROLLER:
            known.add("jinja2")
        return None if top in known else f"{imported.name} is no dependency of the collection"
    if top not in sys.stdlib_module_names:
        return f"{layer} is pure and may not import {imported.name}"
    if any(imported.within(name) for name in NOT_PURE):
        return f"{layer} is pure and may not import {imported.name}"
    return None


def faults_of(module: str, source: str) -> list[str]:
    """What is wrong with the imports of one module of the collection."""
    layer = layer_of(module)
    if layer is None:
        return []
    if layer not in EFFECTS and layer not in PURE and layer not in WITH_EFFECTS:
        return [f"{module}: no layer is called {layer}; name its place in EFFECTS or PURE"]
    found = [
        (imported, fault_of(layer, imported))
        for imported in imports_of(module, source)
        if not (module.endswith(REGISTRIES) and layer_of(imported.name) in CAPABILITIES)
    ]
    return [f"{module}:{imported.line}: {fault}" for imported, fault in found if fault]


def python_files(folder: str) -> list[Path]:
    return sorted((CHECKOUT / folder).rglob("*.py"))


def test_every_plugin_imports_in_one_direction() -> None:
    faults = []
    for file in python_files("plugins"):
        name = ".".join(file.relative_to(CHECKOUT).with_suffix("").parts)
        faults += faults_of(f"{COLLECTION}.{name}", file.read_text())
    assert faults == []


def test_functions_import_only_in_files_that_say_what_starts_without() -> None:
    root = CHECKOUT / "plugins" / "module_utils"
    late = (path for path in root.rglob("*.py") if imports_late(path.read_text()))
    names = {".".join(path.relative_to(root).with_suffix("").parts) for path in late}
    assert sorted(names) == sorted(LATE)


@pytest.mark.parametrize(
    ("source", "late"),
    [
        ("from ..lint import keys", False),
        ("def f():\n    from ..lint import keys", True),
        ("class A:\n    def f(self):\n        from .b import x", True),
        ("def f():\n    import ssl", False),
        ("if t.TYPE_CHECKING:\n    from ..lint import keys", False),
    ],
)
def test_import_in_a_function_is_late(source: str, late: bool) -> None:
    assert imports_late(source) is late


@pytest.mark.parametrize("folder", ["dev", "sandbox", "demos"])
def test_sandbox_and_demos_import_nothing_of_the_collection(folder: str) -> None:
    files = python_files(folder)
    inside = [
        f"{file.relative_to(CHECKOUT)}:{imported.line}: {imported.name}"
        for file in files
        for imported in imports_of(".".join(file.relative_to(CHECKOUT).parts), file.read_text())
        if imported.within("ansible_collections.virt") or imported.within("plugins")
    ]
    assert files
    assert inside == []


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        pytest.param("rules.merge", "from ..model import write", None, id="to-the-right"),
        pytest.param(
            "model.node",
            "from ..rules import merge",
            "model may not import rules",
            id="to-the-left",
        ),
        pytest.param("model.node", "from . import labels", None, id="in-the-same-layer"),
        pytest.param(
            "maintenance.drain",
            "from ..rollout import options",
            "maintenance may not import rollout",
            id="side-by-side",
        ),
        pytest.param("moves.step", "from ..planning.order import first", None, id="effect-to-pure"),
        pytest.param(
            "planning.order",
            "from ..rollout import step",
            "planning may not import rollout",
            id="pure-to-effect",
        ),
        pytest.param("cluster.reading", "from ..kubevirt import instances", None, id="reader"),
        pytest.param(
            "cluster.reading",
            "from ..forecast import claims",
            "cluster may not import forecast",
            id="reader-to-what-is-made-of-it",
        ),
        pytest.param(
            "lint.keys", f"from {UTILS}.api import lists", "lint may not import api", id="absolute"
        ),
        pytest.param(
            "lint.keys",
            "def f():\n  from ..api import x",
            "lint may not import api",
            id="in-a-function",
        ),
        pytest.param(
            "cluster.read", "import kubernetes", "only api may import kubernetes", id="client"
        ),
        pytest.param("api.connection", "import kubernetes.client", None, id="client-in-api"),
        pytest.param(
            "cluster.read",
            "from ansible_collections.kubernetes.core.plugins import x",
            "only api may import ansible_collections.kubernetes.core.plugins.x",
            id="another-collection",
        ),
        pytest.param(
            "model.node",
            "import jinja2",
            "model is pure and may not import jinja2.",
            id="library-in-pure",
        ),
        pytest.param("moves.step", "import requests", "requests is no dependency", id="library"),
        pytest.param(
            "rules.merge",
            "import ssl",
            "rules is pure and may not import ssl",
            id="network-in-pure",
        ),
        pytest.param("rules.merge", "import json", None, id="standard-library"),
        pytest.param("flows.cpu_info", "from ..cpu import reach", None, id="flow-to-capability"),
        pytest.param("lint.registry", "from ..cpu import reach", None, id="registry"),
        pytest.param(
            "forecast.loss",
            "from ..cpu import reach",
            "forecast may not import cpu",
            id="core-to-capability",
        ),
        pytest.param(
            "drs.convert",
            "from ..cpu import reach",
            "drs may not import cpu",
            id="one-capability-to-another",
        ),
        pytest.param("holds.release", "from ..api import client", None, id="capability-to-effect"),
        pytest.param("holds.release", "from ..rollout import options", None, id="to-a-run"),
        pytest.param(
            "places.places",
            "from ..api import client",
            "places may not import api",
            id="pure-capability-to-effect",
        ),
        pytest.param("stuff.all", "", "no layer is called stuff", id="new-package"),
    ],
)
def test_import_against_the_layers_is_reported(module: str, source: str, fault: str | None) -> None:
    faults = faults_of(f"{UTILS}.{module}", source)
    assert len(faults) == (1 if fault else 0)
    assert fault is None or fault.rstrip(".") in faults[0]
