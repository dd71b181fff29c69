# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role placement_rollout names its own variables where nothing is selected."""

from __future__ import annotations

from pathlib import Path

from tests.unit.action.plays import RunPlaybook, played


def test_rollout_of_nothing_is_refused_in_the_words_of_the_role(
    tmp_path: Path, warm_playbook: RunPlaybook
) -> None:
    role = {"name": "virt.placement.placement_rollout"}
    done = played(tmp_path, [{"ansible.builtin.import_role": role}], "-v", warm_playbook)
    assert "Give placement_rollout_namespaces" in done.stdout, done.stdout[-3000:]
    assert "TASK [virt.placement.placement_rollout : Roll out]" not in done.stdout
