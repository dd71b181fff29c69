# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripted server of tests/unit/api."""

from tests.unit.api.conftest import api, clock, server, tokens

__all__ = ["api", "clock", "server", "tokens"]
