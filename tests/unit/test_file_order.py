# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test files that want the same sandbox run one after the other."""

from __future__ import annotations

from tests.file_order import few_starts


def test_order_is_kept_where_no_start_is_saved() -> None:
    files = {"b": (), "a": {"six"}, "d": (), "c": {"six"}}

    assert few_starts(files, 2) == ["b", "d", "a", "c"]


def test_each_cluster_starts_once_where_two_may_live() -> None:
    files = {
        "1": ["six"],
        "2": ["article"],
        "3": ["small"],
        "4": ["six", "plain"],
        "5": ["article"],
        "6": ["small", "plain"],
        "7": ["six"],
    }

    assert few_starts(files, 2) == ["1", "7", "4", "6", "3", "2", "5"]
