# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection is tested with the rights that its roles give: no suite runs it with all rights.

A test that has all rights proves nothing about the roles. Only test setup has all rights:
`sandbox.api`, and plays that use other collections alone.
"""

from __future__ import annotations

import ast
import typing as t
from pathlib import Path

import pytest
import yaml

from sandbox.identities import IDENTITIES

CHECKOUT = Path(__file__).resolve().parents[2]
ADMIN_IDENTITIES = {name for name, identity in IDENTITIES.items() if identity.groups}
SUITES = (
    "tests/modules",
    "tests/forecasts",
    "tests/integration",
    "tests/jobs",
    "tests/faults",
    "demos",
)
SHARED = (
    "tests/conftest.py",
    "tests/job.py",
    "tests/page_commands.py",
    "tests/shop.py",
    "tests/terms.py",
)

#: One runs docs/examples/create.yml, which creates the VMs of the examples. The other is about the first run of an
#: administrator, which creates the Lease. Harvester is asked by its administrator, whose writes are counted, and
#: kubectl of a page, and of what a finding prints, is run by one. Four may create pods, so that the server is
#: asked by a dry run: no role of ours has that right. New members are created by kubectl of any tenant.
ALLOWED_IN_SETUP = {
    "demos/eks/steps.py": 1,
    "demos/harvester/steps.py": 2,
    "tests/forecasts/test_admission.py": 1,
    "tests/forecasts/test_claims_against_scheduler.py": 1,
    "tests/jobs/test_examples.py": 1,
    "tests/modules/test_evacuations.py": 1,
    "tests/modules/test_new_member_arrivals.py": 1,
    "tests/modules/test_node_maintenance_preflight.py": 2,
    "tests/modules/test_rollout_trouble.py": 1,
    "tests/page_commands.py": 1,
}


def names_admin_identity(text: object) -> bool:
    """Whether this names such an identity, or its kubeconfig."""
    return isinstance(text, str) and Path(text).name.removesuffix(".kubeconfig") in ADMIN_IDENTITIES


def admin_uses(source: str) -> list[int]:
    """Lines that name an identity with all rights, or take a kubeconfig without naming any: the
    default has all."""
    lines = []
    nodes = list(ast.walk(ast.parse(source)))
    # a process of the control plane has the same name as its identity: processes["kube-scheduler"]
    keys = {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    for node in nodes:
        if (
            isinstance(node, ast.Constant)
            and names_admin_identity(node.value)
            and id(node) not in keys
        ):
            lines.append(node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            unnamed = not node.args and not node.keywords
            if node.func.attr == "kubeconfig" and unnamed:
                lines.append(node.lineno)
    return sorted(lines)


def admin_tasks(play: dict[str, t.Any]) -> list[str]:
    """Tasks of a play that use the collection with all rights."""
    defaults = play.get("module_defaults") or {}
    of_play = [options.get("kubeconfig") for options in defaults.values()]
    task_names = []
    for task in play.get("tasks") or []:
        for action, given in task.items():
            options = given if isinstance(given, dict) else {}
            names = (action, str(options.get("name")))
            if not any(name.startswith("virt.placement.") for name in names):
                continue
            own = options.get("kubeconfig")
            if any(map(names_admin_identity, [own] if own else of_play)):
                task_names.append(task["name"])
    return task_names


def test_no_suite_runs_the_collection_with_all_rights() -> None:
    files = [file for suite in SUITES for file in sorted((CHECKOUT / suite).rglob("*.py"))]
    files += [CHECKOUT / name for name in SHARED]
    uses_by_file = {str(f.relative_to(CHECKOUT)): admin_uses(f.read_text()) for f in files}
    assert {
        name: len(lines) for name, lines in uses_by_file.items() if lines
    } == ALLOWED_IN_SETUP, uses_by_file
    assert len(files) > 30
    assert "virt.placement" not in (CHECKOUT / "docs" / "examples" / "create.yml").read_text()


def test_no_scenario_runs_the_collection_with_all_rights() -> None:
    files = sorted((CHECKOUT / "extensions" / "molecule").glob("*/*.yml"))
    plays = {f: yaml.safe_load(f.read_text()) for f in files if f.name != "molecule.yml"}
    uses_by_file = {
        str(file.relative_to(CHECKOUT)): [task for play in content for task in admin_tasks(play)]
        for file, content in plays.items()
    }
    assert {name: tasks for name, tasks in uses_by_file.items() if tasks} == {}
    assert len(uses_by_file) > 6


@pytest.mark.parametrize(
    "name", ["reader", "labeler", "mover", "labeler-mover", "maintainer", "maintainer-mover"]
)
def test_other_identities_have_only_the_rights_of_their_roles(name: str) -> None:
    assert name not in ADMIN_IDENTITIES
    assert "reader" in IDENTITIES[name].roles


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("run(sandbox.kubeconfig('mover'))", False),
        ("run(sandbox.kubeconfig(identity))", False),
        ("run(sandbox.kubeconfig())", True),
        ("run(sandbox.kubeconfig('admin'))", True),
        ("stage.play('apply', {}, identity='admin')", True),
        ("case = ('kubevirt-controller', 1)", True),
        ("path = directory / 'admin.kubeconfig'", True),
        ("path = f'{directory}/admin.kubeconfig'", True),
        ("'the admin labels nodes'", False),
        ("processes['kube-scheduler']", False),
    ],
)
def test_call_without_identity_is_reported(source: str, wrong: bool) -> None:
    assert bool(admin_uses(source)) is wrong


PLAY = """
module_defaults: {{group/virt.placement.auth: {{kubeconfig: "{{{{ folder }}}}/{default}.kubeconfig"}}}}
tasks:
  - {{name: foreign, kubernetes.core.k8s: {{kind: Namespace}}}}
  - {{name: module, virt.placement.rules: {{namespace: shop}}}}
  - {{name: own, virt.placement.rules: {{kubeconfig: "{{{{ folder }}}}/{own}.kubeconfig"}}}}
  - {{name: role, ansible.builtin.include_role: {{name: virt.placement.placement_drill}}}}
"""


@pytest.mark.parametrize(
    ("default", "own", "wrong"),
    [
        ("mover", "mover", []),
        ("mover", "admin", ["own"]),
        ("admin", "mover", ["module", "role"]),
    ],
)
def test_play_without_identity_is_reported(default: str, own: str, wrong: list[str]) -> None:
    assert admin_tasks(yaml.safe_load(PLAY.format(default=default, own=own))) == wrong
