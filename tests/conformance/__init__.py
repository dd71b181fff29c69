# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The placement engine against recorded verdicts of the real scheduler.

`python -m tests.conformance DIR` runs every file of DIR; the suite runs those kept here.
"""

from .. import conftest  # makes the collections importable

__all__ = ["conftest"]
