# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each capability can be deleted: in a copy without it, all other files import, and tests of the core pass.

What is deleted follows from its folders in plugins/module_utils and plugins/plugin_utils: the flows, modules and tests
that import it, the action plugins, roles and playbooks of these modules, and the lines of registries that name it or
them. Pages and the options of other roles that a capability serves are not followed."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest

from dev.house import REGISTRIES
from dev.unit_matrix import CAPABILITIES
from tests.support.copies import copy_checkout, run_tests
from tests.unit.test_imports import COLLECTION, imports_of

CORE_TASKS = (
    *("drill_info", "forecast_info", "node_labels", "node_maintenance"),
    *("placement_info", "rollout", "rules", "rules_info", "topology_info"),
)
"""The modules of the core: no capability takes one of them along."""

CORE_TESTS = (
    "test_imports_of_all_files.py",
    "cluster/test_read.py",
    "compliance/test_judge.py",
    "compliance/test_pending.py",
    "forecast/test_forecast.py",
    "lint/test_topology.py",
    "maintenance/test_pods.py",
    "moves/test_state_machines.py",
    "node_labels/test_node_labels.py",
    "planning/test_plan.py",
    "plugin_utils/test_closing.py",
    "plugin_utils/test_job.py",
    "plugin_utils/test_job_maintenance.py",
    "plugin_utils/test_job_report.py",
    "plugin_utils/test_maintenance_plan.py",
    "plugin_utils/test_role_variables.py",
    "rollout/test_not_enforced.py",
    "rules/test_compile.py",
    "rules/test_merge.py",
    "rules/test_parse.py",
    "rules/test_pools.py",
    "scheduler/test_index.py",
    "view/test_view.py",
)
"""Some quick tests of each layer of the core, below tests/unit. The first one is written by this test."""

IMPORT_ALL = """
import importlib
from pathlib import Path

def test_each_file_of_plugins_imports():
    for path in sorted(Path("plugins").rglob("*.py")):
        if path.parts[1] != "doc_fragments" and path.name != "__init__.py":
            importlib.import_module(".".join(("{collection}", *path.with_suffix("").parts)))
"""


class Copy:
    """A copy of the checkout, from which one capability after the other is taken."""

    def __init__(self, root: Path) -> None:
        self.root = root
        files = ("*.json", "pytest_plugin.py")
        copy_checkout(root, "docs", "meta", "playbooks", "roles", left_out=files)
        written = root / "tests" / "unit" / CORE_TESTS[0]
        written.write_text(IMPORT_ALL.format(collection=COLLECTION))

    def files_of(self, capability: str) -> list[Path]:
        """The files that go with a capability, below the copy, and the folders of its roles."""
        files = {
            path: path.read_text()
            for folder in ("plugins", "tests")
            for path in self.root.joinpath(folder).rglob("*.py")
            if path.stem not in REGISTRIES
        }
        gone = {path for path in files if capability in path.parent.parts}
        added = gone
        while added:
            names = {self.dotted(path) for path in added}
            words = {(path.parent.name, path.stem) for path in added}
            modules = modules_of(added)
            added = {
                path
                for path, text in files.items()
                if path not in gone
                and (
                    (path.parent.name == "action" and path.stem in modules)
                    or (
                        any(
                            stem in text and (folder in text or folder == path.parent.name)
                            for folder, stem in words
                        )
                        and names & self.imported(path, text)
                    )
                )
            }
            gone |= added
        roles = {
            path.parents[1]
            for path in self.root.glob("roles/*/tasks/*.yml")
            if any(f"virt.placement.{module}:" in path.read_text() for module in modules_of(gone))
        }
        playbooks = {
            path
            for path in self.root.glob("playbooks/*.yml")
            if any(f"virt.placement.{role.name}\n" in path.read_text() for role in roles)
        }
        return sorted(gone | roles | playbooks)

    def dotted(self, path: Path) -> str:
        """The name by which a file is imported."""
        name = ".".join(path.relative_to(self.root).with_suffix("").parts)
        return f"{COLLECTION}.{name}" if name.startswith("plugins.") else name

    def imported(self, path: Path, text: str) -> set[str]:
        """The names that a file imports, and the files that they may be in."""
        names = {entry.name for entry in imports_of(self.dotted(path), text)}
        return names | {name.rpartition(".")[0] for name in names}

    def registry_lines(self, capability: str, modules: t.Collection[str]) -> dict[Path, str]:
        """The registries that name a capability or one of its modules, as they are without it."""
        found = {}
        paths = self.root.joinpath("plugins").rglob("*.py")
        registries = [path for path in paths if path.stem in REGISTRIES]
        for path in [*registries, self.root / "meta" / "runtime.yml"]:
            text = path.read_text()
            lines = text.splitlines(keepends=True)
            imported = rf"\s*from (\.\.|\S*(module|plugin)_utils\.){capability}[. ]"
            late = functions_with(imported, text) if path.suffix == ".py" else []
            names = "|".join([rf"{capability}\.", *(rf"{x.name}," for x in late)])
            own = re.compile(rf"{imported}|\s+(\*\*|\"\w+\": )?({names})")
            inside = {n for x in late for n in range(x.lineno, (x.end_lineno or x.lineno) + 1)}
            kept = [
                x
                for number, x in enumerate(lines, 1)
                if number not in inside and not own.match(x) and x.strip(" -\n") not in modules
            ]
            if len(kept) < len(lines):
                found[path] = "".join(kept)
        return found


def functions_with(line: str, text: str) -> list[ast.FunctionDef]:
    """The functions of a registry that have such a line: they import a capability where it is asked for."""
    return [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        and any(re.match(line, x) for x in (ast.get_source_segment(text, node) or "").splitlines())
    ]


def modules_of(files: t.Iterable[Path]) -> set[str]:
    return {path.stem for path in files if path.parent.name == "modules"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("deletion") / "placement")


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_core_works_without_capability(copy: Copy, capability: str, tmp_path: Path) -> None:
    files = copy.files_of(capability)
    names = [str(path.relative_to(copy.root)) for path in files]
    plugins = [name for name in names if name.startswith("plugins/")]
    own = re.compile(
        rf"plugins/(module_utils/({capability}|flows)|plugin_utils/{capability}|modules|action|lookup)/"
    )
    assert [name for name in plugins if not own.match(name)] == []
    assert [name for name in plugins if Path(name).stem in CORE_TASKS] == []
    assert [name for name in CORE_TESTS if f"tests/unit/{name}" in names] == []
    assert f"tests/unit/{capability}" in {str(Path(name).parent) for name in names}
    modules = modules_of(files)
    roles = [path.name for path in files if path.is_dir()]
    assert [x for x in roles if x.removeprefix("placement_") not in (capability, *modules)] == []
    registries = copy.registry_lines(capability, modules)
    before = {path: path.read_text() for path in registries}
    for path, text in registries.items():
        path.write_text(text)
    moved = [(path, tmp_path / str(number)) for number, path in enumerate(files)]
    for path, aside in moved:
        path.rename(aside)
    try:
        result = run_tests(copy.root, *(f"tests/unit/{name}" for name in CORE_TESTS))
    finally:
        for path, aside in moved:
            aside.rename(path)
        for path, text in before.items():
            path.write_text(text)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
