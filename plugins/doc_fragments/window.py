# Copyright (c) 2026, virt.placement contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option of modules that begin their work between two times of day only."""

from __future__ import annotations


class ModuleDocFragment:
    # A module adds the description: what begins in the window, and what it returns outside of it.
    DOCUMENTATION = r"""
options:
  window:
    type: dict
    suboptions:
      start:
        description: Time of day, such as V("22:00"). Quote it, since YAML reads it as a number.
        type: str
        required: true
      end:
        description: Time of day. A time before O(window.start) is on the next day.
        type: str
        required: true
      days:
        description:
          - Days on which the window starts. Without this option it starts on every day.
          - A window that crosses midnight belongs to the day on which it starts. From V(22:00) to V(04:00) on V(sat)
            means Saturday evening, and Sunday before 04:00.
        type: list
        elements: str
        choices: [mon, tue, wed, thu, fri, sat, sun]
      timezone:
        description: Name of a time zone, such as V(Europe/Madrid).
        type: str
        default: UTC
"""
