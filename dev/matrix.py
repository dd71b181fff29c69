# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core releases that unit and sanity tests run on, oldest first."""

from __future__ import annotations

import typing as t
from pathlib import Path

from dev import environments, pythons


class Release(t.NamedTuple):
    """One ansible-core release with a Python and the libraries of its time."""

    core: str
    python: tuple[int, int]
    kubernetes: str
    collections: str

    @property
    def pins(self) -> Path:
        return environments.HERE / f"requirements-unit-{self.core}.txt"

    @property
    def collection_pins(self) -> Path:
        return environments.HERE / f"requirements-collections-{self.collections}.txt"

    @property
    def python_label(self) -> str:
        return f"{self.python[0]}.{self.python[1]}"

    @property
    def label(self) -> str:
        return f"ansible-core {self.core} on Python {self.python_label}"


# The oldest release runs with the oldest libraries that galaxy.yml and requirements.txt allow.
RELEASES = (
    Release("2.16", (3, 10), "28.1.0", "oldest"),
    Release("2.19", (3, 11), "34.1.0", "newest"),
    Release("2.21", (3, 13), "37.0.2", "newest"),
)


class Prepared(t.NamedTuple):
    release: Release
    venv: Path
    collections: Path


def prepare() -> tuple[list[Prepared], list[Release]]:
    """The environments of every release whose Python is installed, and the releases left out."""
    ready, skipped = [], []
    for release in RELEASES:
        prepared = prepare_release(release)
        if prepared is None:
            skipped.append(release)
        else:
            ready.append(prepared)
    return ready, skipped


def prepare_release(release: Release) -> Prepared | None:
    """The environment of a release; None where its Python is not installed."""
    python = pythons.find(release.python)
    if python is None:
        return None
    venv, _new = environments.venv(f"unit-{release.core}", python, release.pins)
    tree, _new = environments.collections(venv / "bin" / "python", release.collection_pins)
    return Prepared(release, venv, tree)
