# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A seventh kind of workload needs three files: its own, a line in the registry, and a right.

A copy of the checkout gets a ReplicaSet that no Deployment made. In it, `kinds/seventh_kind.py` writes rules to it,
judges and forecasts its pods, plays a rollout, lints its manifest and looks for its rights, and tests of the core
pass beside it."""

from __future__ import annotations

from pathlib import Path

from tests.support.copies import copy_checkout, run_tests

KIND = '''# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is a ReplicaSet that no Deployment made? It makes pods from its template as that is then, and changes none."""

from __future__ import annotations

from .kind import Kind

POD_REPLICA_SET = Kind(
    "ReplicaSet",
    "apps/v1",
    "replicasets",
    virtual_machines=False,
    older_groups=("extensions",),
)
'''
NEW_FILE = "plugins/module_utils/kinds/pod_replica_set.py"
CHANGED = {
    "plugins/module_utils/kinds/registry.py": (
        ("from .pool", "from .pod_replica_set import POD_REPLICA_SET\nfrom .pool"),
        ("DAEMON_SET)\n", "DAEMON_SET, POD_REPLICA_SET)\n"),
    ),
    "rbac/mover.yml": (
        ("[deployments, statefulsets]", "[deployments, statefulsets, replicasets]"),
    ),
}
"""The files that know the new kind beside its own, each with what is replaced. It may be read already, since a
Deployment makes ReplicaSets."""

CORE_TESTS = (
    "kinds",
    "cluster/test_read.py",
    "compliance/test_judge.py",
    "forecast/test_workload_rollouts.py",
    "kubevirt/test_moving.py",
    "repository/test_manifests.py",
    "rules/test_compile.py",
    "rules/test_members.py",
    "view/test_view.py",
)
"""Some quick tests of each layer, below tests/unit; `kinds` has those of the new one."""


def copy_with_seventh_kind(root: Path) -> None:
    """Make a copy of the checkout with the seventh kind."""
    copy_checkout(root, "rbac", "tests/bench", "tests/modules")
    for tests in ("tests/unit/kinds", "tests/modules"):
        (root / tests / "seventh_kind.py").replace(root / tests / "test_seventh_kind.py")
    (root / NEW_FILE).write_text(KIND)
    for name, replacements in CHANGED.items():
        text = (root / name).read_text()
        for before, after in replacements:
            assert text.count(before) == 1, (name, before)
            text = text.replace(before, after)
        (root / name).write_text(text)


def test_seventh_kind_works_with_three_files(tmp_path: Path) -> None:
    assert len([NEW_FILE, *CHANGED]) <= 3
    copy_with_seventh_kind(tmp_path)
    result = run_tests(tmp_path, *(f"tests/unit/{name}" for name in CORE_TESTS))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
