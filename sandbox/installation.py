# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this package is: in a checkout of the collection, or installed by pip for other projects.

Standard library only, since binaries.py runs before any environment exists.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

CHECKOUT = PACKAGE.parent if (PACKAGE.parent / "galaxy.yml").is_file() else None
"""The checkout, None where pip installed the package."""

COMMAND = "python -m sandbox" if CHECKOUT else "virt-placement-sandbox"
"""How a user calls it."""

UP, DOWN = (
    ("make sandbox-up", "make sandbox-down") if CHECKOUT else (f"{COMMAND} up", f"{COMMAND} down")
)

RBAC = (CHECKOUT or PACKAGE) / "rbac"
"""The roles that the collection ships. The package has a copy of the same commit."""


def owner() -> Path:
    """The folder whose sandboxes one command starts and another ends: two projects have two."""
    return CHECKOUT or Path.cwd()


def version() -> str:
    """The version of the collection that this belongs to."""
    if CHECKOUT is None:
        return importlib.metadata.version("virt-placement-sandbox")
    match = re.search(r"^version: (\S+)$", (CHECKOUT / "galaxy.yml").read_text(), re.M)
    return match[1] if match else "without a version"
