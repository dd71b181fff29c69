# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of lint_info, read into documents. In a folder nothing is an error that is no manifest."""

from __future__ import annotations

import os
import re
import typing as t
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ..api.manifest_text import decode, read_parts
from ..api.yaml_text import InvalidYaml, PyYamlMissing
from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.regular_file import MOST_BYTES, FileTooLarge, read_regular_file
from ..repository.documents import Document, template_reason

SUFFIXES = (".json", ".yaml", ".yml")

_NEVER = (".git",)
"""Folders that hold no file of a repository."""

_VENDORED = {"node_modules": "", "vendor": "modules.txt"}
"""Folders with code of others, and a file that shows it: samples there say nothing about the user's cluster (Go modules
reference, "Vendoring": vendor/modules.txt)."""

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""kustomize api/konfig, RecognizedKustomizationFileNames."""

_ALMOST = re.compile(r"\.(ya?ml|json)(\.|$)", re.IGNORECASE)
"""The name of a file that may have manifests, though it has another ending, such as `vm.yaml.j2` or `vm.YAML`."""


@dataclass
class ReadFiles:
    """The documents of all files, and the patterns of `exclude` that excluded something."""

    documents: list[Document] = field(default_factory=list)
    used: set[str] = field(default_factory=set)


def documents_of(
    paths: t.Iterable[str], exclude: t.Sequence[str], faults: list[InputError]
) -> ReadFiles:
    """Each document in the files, and where it is. Of a folder every file with one of SUFFIXES is read, also
    in the folders below, unless a pattern excludes it. What cannot be read is added to `faults`, if it is
    named by itself."""
    read = ReadFiles()
    for path in map(Path, map(os.path.expanduser, paths)):
        if not os.path.exists(path):  # Path.exists raises OSError for a name that is too long
            faults.append(InputError(str(path), "there is no such file or folder"))
        elif path.is_dir():
            read.documents += _of_folder(path, _Walk(path, exclude, read.used), faults)
        else:
            found = _of_file(path)
            faults += (document.fault for document in found if document.why)
            read.documents += (document for document in found if not document.why)
    read.documents = _without_patches(read.documents)
    return read


def documents_in(text: str, where: str, faults: list[InputError]) -> list[Document]:
    """The documents of a text, empty ones left out."""
    documents = _of_text(text, where)
    faults += (document.fault for document in documents if document.why)
    return [document for document in documents if not document.why]


def _of_text(text: str, where: str) -> list[Document]:
    """Documents, those with a `why` where a part is not valid."""
    try:
        parts = read_parts(text)
    except PyYamlMissing as error:
        return [Document(where, reason="unreadable", why=f"is YAML, and {error}")]
    places = (
        [where] if len(parts) == 1 else [f"{where}, document {n + 1}" for n in range(len(parts))]
    )
    return [
        Document(place, part.value, where, part.text)
        if part.fault is None
        else Document(
            place,
            None,
            where,
            part.text,
            reason="not_yaml",
            why=str(part.fault),
            what="is not valid YAML: ",
        )
        for place, part in zip(places, parts, strict=True)
    ]


_UNREAD = "cannot be read: "


def _of_file(file: Path) -> list[Document]:
    name = str(file)
    try:
        return _of_text(decode(read_regular_file(file)), name)
    except InvalidYaml as error:
        return [Document(name, path=name, reason="not_yaml", why=str(error), what=_UNREAD)]
    except FileTooLarge:
        why = f"is larger than {MOST_BYTES // 2**20} MiB: split it"
        return [Document(name, path=name, reason="too_large", why=why)]
    except OSError as error:
        why = error.strerror or str(error)
        return [Document(name, path=name, reason="unreadable", why=why, what=_UNREAD)]


@dataclass
class _Walk:
    """The files of a folder. Patterns that exclude something are added to `used`, folders of vendored code to
    `vendored`."""

    folder: Path
    exclude: t.Sequence[str]
    used: set[str]
    vendored: list[Path] = field(default_factory=list)

    def files(self) -> t.Iterator[Path]:
        """In the order of their names. A link to a folder is not followed, and counts as a file."""
        for here, folders, names in os.walk(self.folder):
            inside = Path(here).relative_to(self.folder)
            folders[:] = sorted(
                name for name in folders if name not in _NEVER and not self._excludes(inside / name)
            )
            vendored = [
                name
                for name in folders
                if name in _VENDORED
                and Path(here, name, _VENDORED[name]).exists()
                and not Path(here, name).is_symlink()
            ]
            self.vendored += (Path(here) / name for name in vendored)
            folders[:] = [name for name in folders if name not in vendored]
            links = [name for name in folders if (Path(here) / name).is_symlink()]
            for name in sorted((*names, *links)):
                if name in links or not self._excludes(inside / name):
                    yield Path(here) / name

    def _excludes(self, path: Path) -> bool:
        """A pattern with a slash before its end is that of a path, any other one that of a name."""
        matching = [
            x
            for x in self.exclude
            if fnmatchcase(path.as_posix() if "/" in x.rstrip("/") else path.name, x.strip("/"))
        ]
        self.used.update(matching)
        return bool(matching)


def _of_folder(folder: Path, walk: _Walk, faults: list[InputError]) -> list[Document]:
    documents: list[Document] = []
    root = os.path.realpath(folder)
    empty = True
    for file in walk.files():
        is_manifest = file.suffix in SUFFIXES or file.name in _KUSTOMIZATIONS
        outside = file.is_symlink() and not os.path.realpath(file).startswith(
            f"{root.rstrip('/')}/"
        )
        if file.is_dir():
            is_manifest = outside
        is_special = file.exists() and not file.is_file()  # a pipe would never end
        reason = "link" if outside else "no_file" if is_special else ""
        if not is_manifest:
            if file.is_dir() or not _ALMOST.search(file.name):
                continue
            reason = "other_ending"
        empty = empty and reason == "other_ending"
        if reason:
            documents.append(Document(str(file), path=str(file), reason=reason))
        else:
            documents += _of_file(file)
    documents += (
        Document(str(found), path=str(found), reason="vendored") for found in walk.vendored
    )
    if empty:
        excluded = " that is not excluded" if walk.exclude else ""
        suffixes = ", ".join(SUFFIXES)
        faults.append(
            InputError(str(folder), f"the folder holds no file with {suffixes}{excluded}")
        )
    templates = (x.reason == "not_yaml" and template_reason(x.text) for x in documents)
    return [
        replace(document, in_folder=True, reason=reason or document.reason)
        for document, reason in zip(documents, templates, strict=True)
    ]


def _without_patches(documents: t.Sequence[Document]) -> list[Document]:
    """The documents, those of files that a kustomization beside or above them names as patches marked as such."""
    patches: dict[str, str] = {}
    folders = {os.path.dirname(os.path.abspath(x.path)) for x in documents if x.path}
    for folder in {*folders, *map(os.path.dirname, folders)}:
        for file in (Path(folder, name) for name in _KUSTOMIZATIONS):
            for document in _of_file(file) if file.is_file() else ():
                value = document.value if isinstance(document.value, dict) else {}
                for name in _patch_paths(value):
                    patches[os.path.abspath(os.path.join(folder, name))] = str(file)
    return [
        replace(
            document,
            reason="patch",
            why=f"a patch of {os.path.relpath(patches[key], os.path.dirname(key))}",
        )
        if not document.reason and (key := os.path.abspath(document.path or ".")) in patches
        else document
        for document in documents
    ]


def _patch_paths(kustomization: t.Mapping[str, JSON]) -> t.Iterator[str]:
    """kustomize api/types/kustomization.go."""
    for name in ("patches", "patchesStrategicMerge", "patchesJson6902"):
        listed = kustomization.get(name)
        for entry in listed if isinstance(listed, list) else ():
            path = entry.get("path") if isinstance(entry, dict) else entry
            if isinstance(path, str) and "\n" not in path:
                yield path
