# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays of the collection as it is."""

from __future__ import annotations

import typing as t

import pytest

from tests.unit.action.plays import RunPlaybook, warm


@pytest.fixture(scope="session")
def warm_playbook(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[RunPlaybook]:
    """An ansible-playbook that has started, for all of these tests."""
    yield from warm(tmp_path_factory.mktemp("warm"))
