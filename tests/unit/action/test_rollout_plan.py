# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that is null must not become a rollout without a plan: for a module it is the same as one that is left out."""

from __future__ import annotations

import types
import typing as t

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.virt.placement.plugins.action.rollout import ActionModule


def test_plan_that_is_null_is_refused_before_the_first_step() -> None:
    action: t.Any = object.__new__(ActionModule)
    arguments = {"namespaces": ["shop"], "plan": None}
    action._task = types.SimpleNamespace(async_val=0, args=arguments)
    action._repeat = lambda *_given: pytest.fail("a step was run")
    with pytest.raises(AnsibleActionFail, match=r"plan: is null.*Nothing was moved"):
        action._work({})
