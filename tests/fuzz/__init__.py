# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects as a hostile tenant may write them, and what the modules do with them: `python -m tests.fuzz`."""
