# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the structure of plugins/ costs a reader, in numbers that may only fall: python -m dev.house [--where] [--keep].

The numbers are counts in the syntax tree of each file below plugins/, so that long lines, blank lines and folders
change none. `tests/unit/house.json` has the numbers of today; tests/unit/test_house.py fails where one rises.
--where lists the places of each number, --keep writes the numbers that fell into the file. To raise one,
change the file by hand, and say why in that commit.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import typing as t
from pathlib import Path

from dev.commands import CHECKOUT

PLUGINS = CHECKOUT / "plugins"
KEPT = CHECKOUT / "tests" / "unit" / "house.json"
PACKAGE = "ansible_collections.virt.placement.plugins"
UTILS = f"{PACKAGE}.module_utils"

KINDS = frozenset(
    (
        *("VirtualMachine", "VirtualMachineInstance", "VirtualMachineInstanceReplicaSet"),
        *("VirtualMachinePool", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
        *("VIRTUAL_MACHINE", "REPLICA_SET", "POOL", "DEPLOYMENT", "STATEFUL_SET", "DAEMON_SET"),
        *("VMI", "VIRTUAL_MACHINE_POOL"),
    )
)
"""The kinds of the API, and the constants that name them."""

KIND_FLAGS = frozenset(
    (
        *("virtual_machines", "workload_rollout", "update_strategy", "pauses", "surges"),
        *("revision_label", "keeps_names", "replicated"),
    )
)
"""Attributes of a kind: `workload.kind.surges` is a branch on a kind."""

SENTENCE_NAMES = re.compile(r"^_?(why\w*|\w*reason(?!s)\w*|sentence|advice)$")
"""Names that hold a sentence of ours. What a server or a file says is input, and has other names."""

CAPABILITIES = (
    "drs",
    "cpu",
    "capi",
    "capacity",
    "repository",
    "undo",
    "new_members",
    "approval",
    "holds",
    "places",
)
"""Folders of plugins/module_utils that the rest shall not import."""

REGISTRIES = ("registry", "aspects", "kinds")
"""Files that may name a capability in one line."""


class Place(t.NamedTuple):
    """A place that a number counts: `rules/plan.py:12`."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Source(t.NamedTuple):
    """A Python file below plugins/."""

    file: str
    """Its path below plugins/."""
    tree: ast.Module

    @property
    def area(self) -> str:
        """The first folder: `modules`, `module_utils`."""
        return self.file.partition("/")[0]

    @property
    def dotted(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    @property
    def is_home_of_kinds(self) -> bool:
        path = Path(self.file)
        return "kinds" in path.parts or path.stem == "kinds"


def sources(plugins: Path = PLUGINS) -> list[Source]:
    return [
        Source(str(path.relative_to(plugins)), ast.parse(path.read_text()))
        for path in sorted(plugins.rglob("*.py"))
    ]


def _name(node: ast.AST) -> str:
    """The last part of a name: `surges` of `kind.surges`; "" for what is no name."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_statement(_source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.stmt)


def _branches_on_kind(source: Source, node: ast.AST) -> bool:
    if source.is_home_of_kinds:
        return False
    if isinstance(node, ast.Attribute):
        return (
            node.attr in KIND_FLAGS
            and _name(node.value) == "kind"
            and not isinstance(node.value, ast.Name)
        )
    if isinstance(node, ast.Dict):
        parts: t.Iterable[ast.AST] = [key for key in node.keys if key is not None]
    elif isinstance(node, ast.Compare):
        parts = ast.walk(node)
    elif isinstance(node, ast.match_case):
        parts = ast.walk(node.pattern)
    else:
        return False
    return any(
        _name(x) in KINDS or (isinstance(x, ast.Constant) and x.value in KINDS) for x in parts
    )


def _answers_by_sentence(_source: Source, node: ast.AST) -> bool:
    """A function whose answer is a text that says why not, or "" for yes."""
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return False
    if ast.unparse(node.returns) not in ("str", "str | None", "tuple[str, bool]"):
        return False
    documentation = ast.get_docstring(node) or ""
    says_why = re.search(r"\b[Ww]hy\b|[Ee]mpty (where|if)|or nothing", documentation)
    return bool(re.match(r"_?why_", node.name) or says_why)


def _decides_by_text(_source: Source, node: ast.AST) -> bool:
    """A comparison that looks into a sentence of ours."""
    if isinstance(node, ast.Compare):
        looks_into = any(isinstance(operator, (ast.In, ast.NotIn)) for operator in node.ops)
        return looks_into and _is_sentence(node.comparators[0])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in ("startswith", "endswith", "removeprefix", "removesuffix"):
        return _is_sentence(node.func.value)
    return _name(node.func.value) == "re" and any(_is_sentence(x) for x in node.args)


def _is_sentence(node: ast.AST) -> bool:
    return bool(SENTENCE_NAMES.match(_name(node)))


def _builds_view(_source: Source, node: ast.AST) -> bool:
    """A call of the class, or of what calls it: `snapshot.derived(ClusterView)`."""
    return isinstance(node, ast.Call) and "ClusterView" in map(_name, [node.func, *node.args])


def _is_table(_source: Source, node: ast.AST) -> bool:
    """A table of objects by their reference: `{workload.ref: workload for ...}`."""
    return (
        isinstance(node, ast.DictComp)
        and isinstance(node.key, ast.Attribute)
        and node.key.attr == "ref"
    )


def _asks_id(_source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"


def _hides_import(source: Source, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id in ("exec", "eval", "__import__")
    is_importlib = isinstance(node.func, ast.Attribute) and _name(node.func.value) == "importlib"
    return is_importlib and source.area == "module_utils"


PLACES: dict[str, t.Callable[[Source, ast.AST], bool]] = {
    "statements in plugins": _is_statement,
    "comparisons with a kind outside kinds": _branches_on_kind,
    "functions that answer by a sentence": _answers_by_sentence,
    "decisions by text": _decides_by_text,
    "views of the cluster that are built": _builds_view,
    "tables by reference": _is_table,
    "uses of id()": _asks_id,
    "hidden imports": _hides_import,
}
"""What is counted node by node."""

LOADS = {"rules": "start", "rollout": "start", "node_labels": "start", "node_maintenance": "all"}
"""Modules whose files of module_utils are counted: at their start, or with those that functions import."""


def places(files: t.Sequence[Source]) -> dict[str, list[Place]]:
    """Name of a number to the places that it counts."""
    found: dict[str, list[Place]] = {name: [] for name in PLACES}
    for source in files:
        for node in ast.walk(source.tree):
            for name, counts in PLACES.items():
                if counts(source, node):
                    found[name].append(Place(source.file, getattr(node, "lineno", 0)))
    return found


class Imports:
    """Which file of module_utils a file imports, at its start and in functions."""

    def __init__(self, files: t.Sequence[Source]) -> None:
        self._known = {
            source.dotted.removeprefix("module_utils."): source
            for source in files
            if source.area == "module_utils" and not source.file.endswith("__init__.py")
        }
        self._modules = {x.dotted.removeprefix("modules."): x for x in files if x.area == "modules"}
        named = [*self._known.items(), *((f"modules.{n}", x) for n, x in self._modules.items())]
        self._at_start = {
            name: self._imported(source, in_functions=False) for name, source in named
        }
        self._all = {name: self._imported(source, in_functions=True) for name, source in named}

    def loaded(self, module: str, when: str) -> int:
        """How many files a module loads: at its "start", or "all"."""
        edges = self._at_start if when == "start" else self._all
        reached: set[str] = set()
        ahead = list(self._all.get(f"modules.{module}", ()))
        while ahead:
            name = ahead.pop()
            if name not in reached:
                reached.add(name)
                ahead += edges[name]
        return len(reached)

    def importers_of(self, capability: str) -> list[str] | None:
        """The files that know a capability besides its own, its flow and a registry; None where it has no folder."""
        own = {name for name in self._known if capability in name.split(".")[:-1]}
        if not own:
            return None
        return sorted(
            name
            for name, targets in self._all.items()
            if targets & own and name not in own and not self._may_name_capabilities(name)
        )

    @staticmethod
    def _may_name_capabilities(name: str) -> bool:
        return (
            name.partition(".")[0] in ("flows", "modules") or name.rpartition(".")[2] in REGISTRIES
        )

    def _imported(self, source: Source, *, in_functions: bool) -> set[str]:
        nodes = _imports_of(source.tree, in_functions)
        names = {name for node in nodes for name in _dotted_names(node, source.dotted)}
        own = source.dotted.removeprefix("module_utils.")
        return {name for name in names if name in self._known and name != own}


def _imports_of(node: ast.AST, in_functions: bool) -> t.Iterator[ast.Import | ast.ImportFrom]:
    """The import statements below a node, without those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif in_functions or not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _imports_of(child, in_functions)


def _dotted_names(node: ast.Import | ast.ImportFrom, here: str) -> t.Iterator[str]:
    """The names below module_utils that an import statement may mean: a package's file, or a name in a file."""
    if isinstance(node, ast.Import):
        yield from (alias.name.removeprefix(f"{UTILS}.") for alias in node.names)
        return
    base = f"{PACKAGE}.{here}".split(".")[: -node.level] if node.level else []
    package = ".".join([*base, *filter(None, [node.module])])
    for dotted in (package, *(f"{package}.{alias.name}" for alias in node.names)):
        if dotted.startswith(f"{UTILS}."):
            yield dotted.removeprefix(f"{UTILS}.")


def measure(files: t.Sequence[Source]) -> dict[str, int]:
    """Each number by its name. All may only fall."""
    found = places(files)
    imports = Imports(files)
    numbers = {name: len(counted) for name, counted in found.items()}
    numbers["statements in plugin_utils"] = sum(
        place.file.startswith("plugin_utils/") for place in found["statements in plugins"]
    )
    numbers["files with comparisons with a kind"] = len(
        {place.file for place in found["comparisons with a kind outside kinds"]}
    )
    for module, when in LOADS.items():
        numbers[f"files that {module} loads, {when}"] = imports.loaded(module, when)
    numbers["capabilities without a folder of their own"] = sum(
        imports.importers_of(capability) != [] for capability in CAPABILITIES
    )
    return numbers


def risen(now: t.Mapping[str, int], kept: t.Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """The numbers that are higher than those kept, as (kept, now). A number that nobody kept has risen from 0."""
    return {
        name: (kept.get(name, 0), number)
        for name, number in now.items()
        if number > kept.get(name, 0)
    }


def kept_numbers() -> dict[str, int]:
    numbers: dict[str, int] = json.loads(KEPT.read_text())
    return numbers


def keep(now: t.Mapping[str, int], kept: t.Mapping[str, int]) -> dict[str, int]:
    """The numbers to keep: those of now, but none higher than before."""
    return {name: min(number, kept.get(name, number)) for name, number in now.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--where", action="store_true", help="list the places of each number but statements"
    )
    parser.add_argument("--keep", action="store_true", help=f"write what fell into {KEPT.name}")
    options = parser.parse_args()
    files = sources()
    now, kept = measure(files), kept_numbers()
    for name, number in now.items():
        print(f"{name:46} {number:6}   kept {kept.get(name, 0):6}")
    if options.where:
        for name, counted in places(files).items():
            if name != "statements in plugins":
                print("\n  ".join([f"{name}:", *map(str, counted)]))
    if options.keep:
        KEPT.write_text(json.dumps(keep(now, kept), indent=2) + "\n")
    return 1 if risen(now, kept) else 0


if __name__ == "__main__":
    raise SystemExit(main())
