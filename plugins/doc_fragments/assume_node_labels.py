# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option of modules that can work as if nodes had other labels."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  assume_node_labels:
    description:
      - Work as if nodes had these labels, for example those that M(virt.placement.node_labels) would write in check
        mode. No label is written.
      - A map of node name to a map of topology names or label keys to values. Null removes a label.
    type: dict
    default: {}
"""
