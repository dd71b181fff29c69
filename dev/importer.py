# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Galaxy's importer on what would be published: python -m dev.importer.

Fails where the importer refuses the collection, or has no documentation of a module."""

from __future__ import annotations

import json
import sys
import tempfile
import typing as t
from pathlib import Path

from dev import environments, pythons
from dev.commands import CHECKOUT, Command, end_with_us, environment, run

SETTINGS = {
    "RUN_ANSIBLE_DOC": "true",
    "RUN_ANSIBLE_LINT": "false",  # `make lint` and `make sanity` run these
    "RUN_ANSIBLE_TEST": "false",
    "RUN_FLAKE8": "false",
    "CHECK_REQUIRED_TAGS": "true",
}


def main() -> int:
    end_with_us()
    with tempfile.TemporaryDirectory(prefix="virt-placement-import-") as folder:
        try:
            faults = import_faults(build(Path(folder)), Path(folder))
        except BuildFailed as error:
            faults = [str(error)]
    print("\n".join(faults) or "importer: accepted, with the documentation of each module")
    return 1 if faults else 0


class BuildFailed(Exception):
    """ansible-galaxy did not build the collection; with its output."""


def build(folder: Path) -> Path:
    """The archive of the collection, built into the folder. Raises BuildFailed."""
    galaxy = CHECKOUT / ".venv" / "bin" / "ansible-galaxy"
    command: list[str | Path] = [
        galaxy,
        "collection",
        "build",
        "--force",
        "--output-path",
        folder,
        CHECKOUT,
    ]
    outcome = run(Command("build", command))
    archives = sorted(folder.glob("virt-placement-*.tar.gz"))
    if outcome.status or len(archives) != 1:
        raise BuildFailed(outcome.output.strip())
    return archives[0]


def import_faults(archive: Path, folder: Path) -> list[str]:
    """Why Galaxy would not import the archive, or which of its modules it would not document."""
    python = pythons.preferred()
    if python is None:
        return [pythons.NONE_FOUND]
    venv, _new = environments.venv("importer", python, environments.pins("importer"))
    env = environment(PATH=f"{venv / 'bin'}:/usr/bin:/bin")
    env.pop("ANSIBLE_COLLECTIONS_PATH")  # Galaxy has no other collection
    env.update({f"GALAXY_IMPORTER_{name}": value for name, value in SETTINGS.items()})
    arguments: list[str | Path] = [venv / "bin" / "python", "-m", "galaxy_importer.main", archive]
    outcome = run(Command("galaxy-importer", arguments, env, folder))
    result = folder / "importer_result.json"
    if outcome.status or not result.is_file():
        return [outcome.output.strip()]
    modules = {path.stem for path in (CHECKOUT / "plugins" / "modules").glob("*.py")}
    return undocumented(json.loads(result.read_text()), modules)


def undocumented(result: t.Mapping[str, t.Any], modules: t.Collection[str]) -> list[str]:
    """One text for each module of which the importer's result has no options."""
    documented = {
        content["content_name"]
        for content in result["docs_blob"]["contents"]
        if content["content_type"] == "module"
        and ((content.get("doc_strings") or {}).get("doc") or {}).get("options")
    }
    return [
        f"galaxy-importer: no documentation of module {x}" for x in sorted({*modules} - documented)
    ]


if __name__ == "__main__":
    sys.exit(main())
