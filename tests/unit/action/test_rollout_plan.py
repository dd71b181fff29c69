# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan or places that are null must not become a rollout without them: for a module that is the same as left out."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.virt.placement.plugins.action.rollout import ActionModule


@pytest.mark.parametrize("option", ["plan", "places"])
def test_null_is_refused_before_the_first_step(option: str) -> None:
    action: t.Any = object.__new__(ActionModule)
    arguments = {"namespaces": ["shop"], option: None}
    action._task = types.SimpleNamespace(async_val=0, args=arguments)
    action._repeat = lambda *_given: pytest.fail("a step was run")
    with pytest.raises(AnsibleActionFail, match=rf"{option}: is null.*Nothing was moved"):
        action._work({})
