# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much code does a task run, and how long does its start take? python -m dev.trace

    python -m dev.trace            number of files and functions of module_utils that two tasks call
    python -m dev.trace --list     the same, with their names
    python -m dev.trace --start    seconds to import each module, and the size of its payload

The tasks talk to `dev.trace_server`, an API server of a few objects in the same process.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import threading
import typing as t
import zipfile
from collections import Counter
from pathlib import Path

from dev.commands import CHECKOUT, environment
from dev.trace_server import TraceServer

MODULES = "ansible_collections.virt.placement.plugins.modules"
SEARCHED = ("build/collections", "build/dependencies")
UTILS = str(Path("plugins", "module_utils")) + os.sep

NOT_COUNTED = "api" + os.sep
"""The code that sends requests is the same for every task."""

Calls = set[tuple[str, str]]
"""Files below module_utils, and the qualified names of the functions that were called in them."""

TASKS: dict[str, tuple[str, dict[str, t.Any]]] = {
    "one rules task: keep_apart on two VMs": (
        "rules",
        {
            "namespace": "shop",
            "rules": [
                {
                    "name": "apart",
                    "workloads": [{"names": ["db0", "db1"]}],
                    "keep_apart": {"topology_key": "zone"},
                }
            ],
        },
    ),
    "one rollout step: a migration begins and ends": ("rollout", {"namespaces": ["shop"]}),
}


def trace(module: str, options: t.Mapping[str, t.Any]) -> tuple[Calls, dict[str, t.Any]]:
    """Run a module as Ansible does. Returns the functions that were called, and the module's result."""
    calls: Calls = set()

    def note(frame: t.Any, event: str, _argument: t.Any) -> None:
        code = frame.f_code
        if event == "call" and UTILS in code.co_filename and not code.co_name.startswith("<"):
            file = code.co_filename.split(UTILS)[1]
            if not file.startswith(NOT_COUNTED):
                calls.add((file, getattr(code, "co_qualname", code.co_name)))

    from ansible.module_utils.testing import patch_module_args

    # imports come first, so that class bodies are not counted
    __import__(f"{MODULES}.{module}")
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with (
            patch_module_args(dict(options)),
            contextlib.redirect_stdout(io.StringIO()) as printed,
            contextlib.suppress(SystemExit),
        ):
            sys.modules.pop(f"{MODULES}.{module}")
            runpy.run_module(f"{MODULES}.{module}", run_name="__main__")
    finally:
        sys.setprofile(None)
        threading.setprofile(t.cast(t.Any, None))
    return calls, json.loads(printed.getvalue())


def print_traces(*, names: bool) -> None:
    for title, (module, options) in TASKS.items():
        with TraceServer() as server:
            auth = {"host": server.url, "api_key": "none"}
            calls, result = trace(module, {**auth, **options})
        if result.get("failed") or not result.get("changed"):
            raise SystemExit(f"{title}: {result.get('msg', 'nothing was changed')}")
        files = {file for file, _name in calls}
        print(f"{title}: {len(files)} files, {len(calls)} functions")
        packages = Counter(file.partition(os.sep)[0] for file, _name in calls)
        print("  " + ", ".join(f"{package} {count}" for package, count in packages.most_common()))
        if names:
            for file in sorted(files):
                functions = sorted(name for called_file, name in calls if called_file == file)
                print(f"  {file}: {', '.join(functions)}")


def print_starts() -> None:
    """Print for each module the seconds of `python -X importtime` and the size of the zip file that Ansible
    would send."""
    for file in sorted((CHECKOUT / "plugins" / "modules").glob("*.py")):
        name = f"{MODULES}.{file.stem}"
        command = [sys.executable, "-X", "importtime", "-c", f"import {name}"]
        run = subprocess.run(
            command, env=environment(**_python_path()), capture_output=True, text=True, check=True
        )
        times = re.findall(r"import time: +(\d+) \| +(\d+) \| (\s*)(\S+)", run.stderr)
        total_time = next(int(total) for _own, total, _indent, what in times if what == name)
        ours = [int(own) for own, _total, _indent, what in times if "virt.placement" in what]
        files = payload_of(name)
        lines = sum(path.read_text().count("\n") for path in files.values() if UTILS in str(path))
        print(
            f"{file.stem}: import {total_time / 1e6:.2f} s, of it {sum(ours) / 1e6:.2f} s in"
            f" {len(ours)} files of ours; payload {zipped(files) / 1024:.0f} KiB,"
            f" {len(files)} files, {lines} lines of ours"
        )


def payload_of(module: str) -> dict[str, Path]:
    """The files that Ansible would send for a module: all that it imports from module_utils of Ansible and of
    collections, lazily or not."""
    payload: dict[str, Path] = {}
    unread = [module]
    while unread:
        name = unread.pop()
        path = None if name in payload else _source(name)
        if path is not None:
            payload[name] = path
            unread += _imported(name, path)
    return payload


def zipped(files: t.Mapping[str, Path]) -> int:
    """Bytes of these files in one zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            archive.writestr(name, path.read_bytes())
    return len(buffer.getvalue())


def _source(name: str) -> Path | None:
    if not name.startswith(("ansible.module_utils.", "ansible_collections.")):
        return None
    import ansible

    relative = Path(*name.split("."))
    roots = [CHECKOUT / folder for folder in SEARCHED]
    roots.append(Path(t.cast(str, ansible.__file__)).parents[1])
    for path in (root / relative for root in roots):
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None


def _imported(name: str, path: Path) -> t.Iterator[str]:
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            dotted = ".".join([*base, *filter(None, [node.module])])
            yield dotted
            yield from (f"{dotted}.{alias.name}" for alias in node.names)


def _python_path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(str(CHECKOUT / folder) for folder in SEARCHED)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name files and functions")
    parser.add_argument("--start", action="store_true", help="measure imports and payloads")
    options = parser.parse_args()
    sys.path[:0] = [str(CHECKOUT / folder) for folder in SEARCHED]
    if options.start:
        print_starts()
    else:
        print_traces(names=options.list)


if __name__ == "__main__":
    main()
