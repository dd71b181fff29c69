# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Manifests from files: YAML or JSON, several documents in one, whole folders."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ..api.yaml_text import NoReader, NoYaml, load_all_yaml
from ..model.finding import Fault
from ..model.pointer import JSON

SUFFIXES = (".json", ".yaml", ".yml")

Found = list[tuple[str, JSON]]


def documents_of(paths: t.Iterable[str], faults: list[Fault]) -> Found:
    """Each document in the files, and where it stands. Of a folder every file with one of
    SUFFIXES is read, also in the folders below. What cannot be read is added to `faults`."""
    found: Found = []
    for path in paths:
        for file in _files(Path(path).expanduser(), faults):
            try:
                text = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                faults.append(Fault(str(file), f"cannot be read: {error}"))
                continue
            found += documents_in(text, str(file), faults)
    return found


def documents_in(text: str, where: str, faults: list[Fault]) -> Found:
    """The documents of a text, empty ones left out."""
    try:
        documents = load_all_yaml(text)
    except NoReader as error:
        faults.append(Fault(where, f"is YAML, and {error}"))
        return []
    except NoYaml as error:
        faults.append(Fault(where, f"is no YAML: {error}"))
        return []
    if len(documents) == 1:
        return [(where, documents[0])]
    return [(f"{where}, document {number}", each) for number, each in enumerate(documents, 1)]


def _files(path: Path, faults: list[Fault]) -> list[Path]:
    if not path.exists():
        faults.append(Fault(str(path), "there is no such file or folder"))
        return []
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())
    if not found:
        faults.append(Fault(str(path), f"the folder holds no file with {', '.join(SUFFIXES)}"))
    return found
