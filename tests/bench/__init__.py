# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed beside peers in the same run. Nothing here is a test: ratios, not seconds, are held."""

from .. import conftest  # makes the collections importable

__all__ = ["conftest"]
