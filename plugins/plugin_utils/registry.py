# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checks and lines of the block that closes a job are those of capabilities? Each has a line."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.plugin_utils.drs import stages as drs
from ansible_collections.virt.placement.plugins.plugin_utils.holds import closing as holds

CHECKS = {
    "placement_drs_import": drs.check,
}
DONE = {
    "holds": holds.held_done,
}
NEXT_STEPS = {
    "holds": holds.after_held,
}
