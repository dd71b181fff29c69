# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import near_names


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("hp", ["shop", "prod"], []),
        ("shp", ["shop", "prod"], ["shop"]),
        ("wep", ["web", "web-server"], ["web"]),
        ("SHOP", ["shop", "prod"], ["shop"]),
        ("hihg", ["high", "low"], ["high"]),
        ("kni-workerr2", ["kni-worker", "kni-worker2", "etcd"], ["kni-worker2", "kni-worker"]),
    ],
)
def test_a_short_name_has_to_be_nearer(name: str, known: list[str], near: list[str]) -> None:
    assert near_names(name, known) == near
