# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that lint_info is given: large ones, links, and texts that expand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows import manifest_files
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InputError
from ansible_collections.virt.placement.plugins.module_utils.model.regular_file import MOST_BYTES


def errors_of(path: Path) -> list[str]:
    faults: list[InputError] = []
    manifest_files.documents_of([str(path)], (), faults)
    return [str(fault) for fault in faults]


def notes_of(path: Path) -> list[tuple[str, str]]:
    faults: list[InputError] = []
    documents = manifest_files.documents_of([str(path)], (), faults).documents
    assert faults == []
    return [(document.where, document.reason) for document in documents]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.yml").write_text("kind: Secret")
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "vm.yml").write_text("kind: VirtualMachine")
    link = folder / "link.yml"
    link.symlink_to(tmp_path / "secret.yml")
    assert notes_of(folder) == [(str(link), "link"), (str(folder / "vm.yml"), "")]
    link.unlink()
    link.symlink_to(folder / "vm.yml")
    assert notes_of(folder) == [(str(link), ""), (str(folder / "vm.yml"), "")]


def test_a_link_to_a_folder_outside_is_noted_and_a_pipe_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "manifests"
    (folder / "inner").mkdir(parents=True)
    (folder / "vm.yml").write_text("kind: VirtualMachine")
    (folder / "outside").symlink_to(tmp_path / "elsewhere")
    (folder / "inside").symlink_to(folder / "inner")
    (folder / "gone.yml").symlink_to(folder / "nowhere.yml")
    (folder / "zero.yml").symlink_to("/dev/zero")
    (folder / "loop.yml").symlink_to("loop.yml")
    os.mkfifo(folder / "pipe.yml")
    os.mkfifo(folder / "pipe")
    assert notes_of(folder) == [
        (str(folder / "gone.yml"), "unreadable"),
        (str(folder / "loop.yml"), "unreadable"),
        (str(folder / "outside"), "link"),
        (str(folder / "pipe.yml"), "no_file"),
        (str(folder / "vm.yml"), ""),
        (str(folder / "zero.yml"), "link"),
    ]


def test_files_with_almost_the_ending_of_a_manifest_are_noted(tmp_path: Path) -> None:
    names = ["a.YAML", "b.yml.j2", "c.json.tpl", "d.md", "e.txt", "f.jsonnet", "g.yaml"]
    for name in names:
        (tmp_path / name).write_text("kind: VirtualMachine")
    assert notes_of(tmp_path) == [
        (str(tmp_path / name), "" if name == "g.yaml" else "other_ending")
        for name in ("a.YAML", "b.yml.j2", "c.json.tpl", "g.yaml")
    ]
    (tmp_path / "g.yaml").unlink()
    assert "the folder holds no file with .json, .yaml, .yml" in errors_of(tmp_path)[0]


def test_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "vm.yml").symlink_to("/dev/zero")
    for path in (Path("/dev/zero"), tmp_path / "vm.yml"):
        assert errors_of(path) == [f"{path}: cannot be read: it is a device and no regular file"]


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.yml"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert errors_of(large) == [f"{large}: is larger than 32 MiB: split it"]
    assert notes_of(tmp_path) == [(str(large), "too_large")]


@pytest.mark.parametrize("name", ["kind: VirtualMachine\n" * 20, "~nobody-of-this-name/vm.yml"])
def test_path_that_leads_nowhere_is_a_fault(name: str) -> None:
    """Such as the content of a file where its name must be."""
    assert errors_of(Path(name)) == [f"{name}: there is no such file or folder"]


def test_a_list_that_contains_itself_is_a_fault(tmp_path: Path) -> None:
    endless = tmp_path / "endless.yml"
    endless.write_text("kind: List\nitems: &a\n- kind: List\n  items: *a\n")
    (fault,) = errors_of(endless)
    assert "alias inside of its own anchor" in fault
