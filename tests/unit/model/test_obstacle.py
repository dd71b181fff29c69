# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An obstacle is printed as its text, and keeps its code where a text is put before it."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle


def test_obstacle_after_a_text_is_the_same_obstacle() -> None:
    first = Obstacle("no_right", "a sentence", True, "advice")
    assert first.after("before") == Obstacle("no_right", "before; a sentence", True, "advice")


def test_obstacle_is_printed_as_its_text() -> None:
    assert f"{Obstacle('no_right', 'a sentence')}" == "a sentence"
