# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What do capabilities say in the block that closes a job: of what was done, and as next steps? Each has a line."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.holds import closing as holds

DONE = {
    "holds": holds.held_done,
}
NEXT_STEPS = {
    "holds": holds.after_held,
}
