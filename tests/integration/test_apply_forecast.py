# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook apply asks the forecast before it writes, and in check mode shows what it says."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import rules
from demos.stage import PlayResult, Stage
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.controller import PROJECT
from tests.shop import Shop

MIGRATION = "VirtualMachineInstanceMigration"


@pytest.fixture
def shop(six: Sandbox, namespace: MakeNamespace, run_module: RunModule) -> Shop:
    return Shop(six, namespace(six, "apply"), run_module)


@pytest.fixture
def stage(shop: Shop) -> Stage:
    return Stage(shop.sandbox, shop.namespace, quiet=True)


def start_in_one_zone(shop: Shop, *names: str) -> None:
    machines = [objects.virtual_machine(name, shop.namespace) for name in names]
    shop.start(*machines, nodes=["w1", "w2"])
    assert set(shop.zones()) == {"zone1"}


def one_per_zone(shop: Shop, *names: str, **more: t.Any) -> dict[str, t.Any]:
    """Extra vars of the playbook apply."""
    rule = {"name": "apart", "workloads": list(names), "keep_apart": "zone"}
    return {
        "placement_apply_namespace": shop.namespace,
        "placement_apply_rules": [{**rule, **more}],
    }


def shown(result: PlayResult) -> list[str]:
    """What the role showed of the forecast."""
    return result.printed("Show forecast")


def failure(result: PlayResult) -> list[str]:
    """The message of the only task that failed."""
    failed = [e["event_data"] for e in result.events if e["event"] == "runner_on_failed"]
    assert len(failed) == 1, result.stdout
    return result.failure()


def test_rules_with_an_impossible_forecast_are_not_written(shop: Shop, stage: Stage) -> None:
    """Four machines in three zones. The rule allows the finding, so the module alone would write."""
    names = ["m0", "m1", "m2", "m3"]
    start_in_one_zone(shop, *names)
    wanted = one_per_zone(shop, *names, allow_findings=["unsatisfiable"])
    blind = {**wanted, "placement_apply_forecast": False}
    alone = stage.play("apply", blind, identity="mover", check=True)
    assert (alone.rc, alone.changed) == (0, 1), alone.stdout
    mark = shop.sandbox.audit.mark()

    result = stage.play("apply", wanted, identity="mover")

    assert result.rc != 0, result.stdout
    (failed,) = (e["event_data"] for e in result.events if e["event"] == "runner_on_failed")
    assert failed["task"] == "Show forecast"
    assert len(failed["res"]["msg"]) < 100, "the message is lines, and not repeated as JSON"
    assert failure(result)[0] == "Forecast: impossible. No rule was written, and nothing is moved."
    assert not [line for line in failure(result) if "would migrate" in line or "Moves: " in line]
    assert "4 VMs (m0, m1, m2, m3) need 4 different zones" in " ".join(failure(result))
    assert shop.sandbox.audit.writes(since=mark) == []


def test_apply_that_a_finding_refuses_claims_no_write(shop: Shop, stage: Stage) -> None:
    start_in_one_zone(shop, "m0", "m1")
    pinned = {"name": "pinned", "workloads": ["m0"], "run_on": {"node": "w1"}}
    wanted = {
        **one_per_zone(shop),
        "placement_apply_rules": [pinned],
        "placement_apply_fail_on_findings": ["blocks_node_drain"],
    }
    mark = shop.sandbox.audit.mark()

    for check in (True, False):
        result = stage.play("apply", wanted, identity="mover", check=check)

        assert result.rc != 0, result.stdout
        closing = "\n".join(result.printed("Report"))
        assert "rules added" not in closing and "rules that would be" not in closing, closing
        assert "nothing was written: correct the cause" in closing, closing
    assert shop.sandbox.audit.writes(since=mark) == []


def test_rules_that_make_an_impossible_forecast_no_worse_do_not_end_the_role_before_it_moves(
    shop: Shop, stage: Stage
) -> None:
    names = ["m0", "m1", "m2", "m3"]
    start_in_one_zone(shop, *names)
    wanted = one_per_zone(shop, *names, allow_findings=["unsatisfiable"])
    writes_alone = {"rollout": False, "verify": False, "forecast": False}
    alone = {**wanted, **{f"placement_apply_{name}": no for name, no in writes_alone.items()}}
    assert stage.play("apply", alone, identity="mover").rc == 0

    result = stage.play("apply", wanted, identity="mover")

    lines = shown(result)
    assert lines[0].startswith("Forecast: impossible. ")
    assert "It is not better without these rules, so the role goes on." in lines
    assert len(set(shop.zones())) == 3, "the VMs that can move did"
    (failed,) = (e["event_data"] for e in result.events if e["event"] == "runner_on_failed")
    assert failed["task"] == "Verify"


def test_check_mode_shows_the_moves_that_the_rules_would_cause(shop: Shop, stage: Stage) -> None:
    names = ["m0", "m1", "m2"]
    start_in_one_zone(shop, *names)
    wanted = one_per_zone(shop, *names)
    mark = shop.sandbox.audit.mark()

    planned = stage.play("apply", wanted, identity="mover", check=True)

    assert planned.rc == 0, planned.stdout
    assert shop.sandbox.audit.writes(since=mark) == []
    head, *lines = shown(planned)
    moves = [line for line in lines if line.startswith("would migrate ")]
    assert head.endswith(". Moves: 2.")
    assert len(moves) == 2

    made = stage.play("apply", wanted, identity="mover")

    assert made.rc == 0, made.stdout
    assert shown(made) == [head, *lines]
    migrated = {m["spec"]["vmiName"] for m in shop.api.list(shop.path(MIGRATION))}
    assert migrated == {name for name in names if any(f"/{name}" in move for move in moves)}
    assert shop.zones() == ["zone1", "zone2", "zone3"]


def test_apply_moves_members_of_its_own_rules_only(shop: Shop, stage: Stage) -> None:
    start_in_one_zone(shop, "m0", "m1", "m2", "m3")
    others = {
        **one_per_zone(shop, "m2", "m3"),
        "placement_apply_rule_set": "of-others",
        "placement_apply_rollout": False,
        "placement_apply_verify": False,
    }
    assert stage.play("apply", others, identity="mover").rc == 0
    mine = one_per_zone(shop, "m0", "m1")

    result = stage.play("apply", {**mine, "placement_apply_fail_on": []}, identity="mover")

    assert result.rc == 0, result.stdout
    migrated = {m["spec"]["vmiName"] for m in shop.api.list(shop.path(MIGRATION))}
    assert len(migrated) == 1
    assert migrated <= {"m0", "m1"}

    verified = stage.play("apply", mine, identity="mover")

    assert verified.rc != 0, verified.stdout
    lines = failure(verified)
    assert lines[lines.index("Verification failed: 2 violated.") + 1 :] == [
        f"To move every VM that violates a rule, run the playbook rollout for {shop.namespace}."
    ]
    rows = [x.split() for x in verified.stdout.splitlines() if "violated: VirtualMachineInst" in x]
    named = [row[row.index("VirtualMachineInstance") + 1] for row in rows]
    assert named == [f"{shop.namespace}/m2", f"{shop.namespace}/m3"]
    assert all(f"{shop.namespace}/of-others/apart:" in row for row in rows)


def test_apply_fails_on_a_skipped_vm_where_that_is_asked_for(shop: Shop, stage: Stage) -> None:
    start_in_one_zone(shop, "m0", "m1")
    for name in ("m0", "m1"):
        label = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
        shop.api.patch(shop.path("VirtualMachine", name), label)
    asked = {"placement_apply_fail_on_skipped": True, "placement_apply_forecast": False}
    wanted = one_per_zone(shop, "m0", "m1") | asked

    result = stage.play("apply", wanted, identity="mover")

    assert result.rc != 0, result.stdout
    (failed,) = (e["event_data"] for e in result.events if e["event"] == "runner_on_failed")
    assert failed["task"] == "Roll out"
    assert failure(result)[-1].startswith("2 instances were skipped (fail_on_skipped): Virtual")


def test_apply_shows_at_most_ten_tasks(shop: Shop, stage: Stage) -> None:
    start_in_one_zone(shop, "m0", "m1")

    result = stage.play("apply", one_per_zone(shop, "m0", "m1"), identity="mover")

    assert result.rc == 0, result.stdout
    tasks = [e["event_data"]["task"] for e in result.events if e["event"].endswith("task_start")]
    assert len(tasks) <= 10, tasks
    assert result.stdout.count("\nTASK [") == len(tasks)


TWO_ROLES = """
- name: Label nodes and apply rules
  hosts: localhost
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  roles:
    - role: virt.placement.placement_topology
    - role: virt.placement.placement_apply
"""


def test_check_mode_shows_labels_rules_and_moves_where_no_node_has_the_label(
    shop: Shop, stage: Stage, tmp_path: pathlib.Path
) -> None:
    names = ["m0", "m1"]
    start_in_one_zone(shop, *names)
    rows = {"example.com/row": {"r1": ["w1", "w2"], "r2": ["w3", "w4", "w5", "w6"]}}
    rule = {"name": "rows", "workloads": names, "run_on": {"example.com/row": "r2"}}
    variables = {
        "placement_topology_per_value": rows,
        "placement_apply_namespace": shop.namespace,
        "placement_apply_rules": [rule],
    }
    playbook = tmp_path / "two-roles.yml"
    playbook.write_text(TWO_ROLES)
    mark = shop.sandbox.audit.mark()

    nothing = {**variables, "placement_apply_allow": []}
    refused = stage.play(str(playbook), nothing, identity="labeler-mover", check=True)
    moves = [line for line in shown(refused) if line.startswith("would migrate ")]
    assert len(moves) == 2, refused.stdout
    assert all("(skipped: migrate is not in placement_apply_allow)" in move for move in moves)

    planned = stage.play(str(playbook), variables, identity="labeler-mover", check=True)

    assert planned.rc == 0, planned.stdout
    assert shop.sandbox.audit.writes(since=mark) == []
    moves = [line for line in shown(planned) if line.startswith("would migrate ")]
    assert len(moves) == 2, planned.stdout
    assert not [line for line in moves if "placement_apply_allow" in line]
    assert planned.changed == 2, planned.stdout


RULES_TASK = """
- name: Write rules by the module alone
  hosts: localhost
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - name: Write
      virt.placement.rules:
        namespace: "{{ namespace }}"
        rules: "{{ rules }}"
        fail_on_forecast: [impossible]
"""


def test_the_module_rules_makes_its_own_forecast(
    shop: Shop, stage: Stage, tmp_path: pathlib.Path
) -> None:
    """Two VMs of one node that no rollout may move."""
    start_in_one_zone(shop, "m0", "m1")
    for name in ("m0", "m1"):
        label = {"metadata": {"labels": {"placement.virt/do-not-move": "true"}}}
        shop.api.patch(shop.path("VirtualMachine", name), label)
    playbook = tmp_path / "rules.yml"
    playbook.write_text(RULES_TASK)
    rule = {"name": "apart", "workloads": ["m0", "m1"], "keep_apart": "zone"}
    mark = shop.sandbox.audit.mark()

    refused, checked = (
        stage.play(str(playbook), rules_of(shop, rule), identity="mover", check=check)
        for check in (False, True)
    )
    untouched = shop.sandbox.audit.writes(since=mark)
    made = stage.play(str(playbook), rules_of(shop, {**rule, "preferred": True}), identity="mover")

    for result in (refused, checked):
        assert result.rc != 0, result.stdout
        (failed,) = (e["event_data"] for e in result.events if e["event"] == "runner_on_failed")
        message = failed["res"]["msg"]
        assert message.startswith("the forecast of these rules is impossible: ")
    assert untouched == []
    assert (made.rc, made.changed) == (0, 1), made.stdout


def rules_of(shop: Shop, rule: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"namespace": shop.namespace, "rules": [rule]}


def test_undo_restores_a_removed_rule_and_moves_what_violates_it(
    shop: Shop, stage: Stage, run_module: RunModule
) -> None:
    names = ["m0", "m1", "m2"]
    start_in_one_zone(shop, *names)
    known = {"kubeconfig": str(shop.sandbox.kubeconfig("mover")), "namespace": shop.namespace}
    rule = {"name": "apart", "workloads": names, "keep_apart": "zone"}
    wanted = {"placement_undo_namespace": shop.namespace}
    nothing = stage.play(str(PROJECT / "undo.yml"), wanted, identity="mover")
    assert nothing.rc != 0
    assert "there is nothing to undo" in " ".join(failure(nothing))
    assert run_module(rules.main, {**known, "rules": [rule]})["changed"]
    assert run_module(rules.main, {**known, "prune": True})["changed"]
    mark = shop.sandbox.audit.mark()

    planned = stage.play("undo", wanted, identity="mover", check=True)

    assert planned.rc == 0, planned.stdout
    assert shop.sandbox.audit.writes(since=mark) == []
    head, *lines = shown(planned)
    assert head.endswith(". Moves: 2.")

    made = stage.play("undo", wanted, identity="mover")

    assert made.rc == 0, made.stdout
    assert shown(made) == [head, *lines]
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    closing = made.printed("Report")
    assert closing[0].startswith("Undo: done")
    assert any("undo the last change of rule set default" in line for line in closing)
    assert any("rules added: apart (3 workloads)" in line for line in closing)


def placements(shop: Shop) -> str:
    """The templates of the VMs and their rules."""
    machines = shop.api.list(shop.path("VirtualMachine"))
    found = {
        m["metadata"]["name"]: [
            m["spec"]["template"],
            m["metadata"]["annotations"]["placement.virt/rules"],
        ]
        for m in machines
    }
    return json.dumps(found, sort_keys=True)


def test_apply_whose_rollout_fails_undoes_its_own_change_alone(
    shop: Shop, stage: Stage, run_module: RunModule
) -> None:
    """Two VMs of zone1 are to run in zone2. One moves, and the migration of the other fails."""
    failing = {"sandbox.virt/migration-fails": "1"}
    machines = [
        objects.virtual_machine("m0", shop.namespace),
        objects.virtual_machine("m1", shop.namespace, annotations=failing),
    ]
    shop.start(*machines, nodes=["w1", "w2"])
    rule = {"name": "home", "workloads": ["m0", "m1"], "run_on": {"zone": "zone1"}}
    known = {"kubeconfig": str(shop.sandbox.kubeconfig("mover")), "namespace": shop.namespace}
    assert run_module(rules.main, {**known, "rules": [rule]})["changed"]
    before = placements(shop)
    mark = shop.sandbox.audit.mark()
    wanted = {
        "placement_apply_namespace": shop.namespace,
        "placement_apply_rules": [{**rule, "run_on": {"zone": "zone2"}}],
        "placement_apply_on_failure": "undo",
    }

    result = stage.play("apply", wanted, identity="mover")

    assert result.rc != 0, result.stdout
    (failed,) = (e["event_data"] for e in result.events if e["event"] == "runner_on_failed")
    assert failed["task"] == "Roll out"
    assert placements(shop) == before, result.stdout
    assert shop.zones() == ["zone1", "zone1"]
    made = [
        event.resource
        for event in shop.sandbox.audit.writes(since=mark)
        if event.resource in ("virtualmachines", "virtualmachineinstancemigrations")
    ]
    vms, migration = ["virtualmachines"] * 2, "virtualmachineinstancemigrations"
    assert made == [*vms, migration, migration, *vms, migration], "m1 needs no move back"
    closing = result.printed("Report")
    moved = f"undo: 1 migrated: {shop.namespace}/m0 w"
    assert any(moved in line for line in closing), closing
    (failed_line,) = (line for line in closing if line.startswith("  failed "))
    assert failed_line.startswith("  failed   Roll out: ")
    assert failed_line.endswith("; its change was undone") and "m1" in failed_line, failed_line

    again = stage.play("apply", {**wanted, "placement_apply_rollout": False}, identity="mover")

    assert again.rc != 0, "its verification is red"
    assert placements(shop) == before, again.stdout
