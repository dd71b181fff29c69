# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The block that closes a job, as lines, as data and as Markdown."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.rendering import (
    CLUSTER_AWAY,
    FAILED,
    NOTHING_WRITTEN,
    UNFINISHED,
    Entry,
    as_json,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closing import (
    MOST_LINES,
    Closing,
    reason_of,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord


def move(name: str, method: str = "migrate", **more: t.Any) -> dict[str, t.Any]:
    return {
        "kind": "VirtualMachine",
        "namespace": "shop",
        "name": name,
        "instance": name,
        "method": method,
        "from_node": "w1",
        "to_node": "w2",
        "reason": "",
        "state": "moved",
        **more,
    }


def entry(code: str, text: str, *objects: str) -> dict[str, t.Any]:
    return {"code": code, "text": text, "objects": list(objects)}


MAINTENANCE = {
    "state": "serviced",
    "nodes": ["w1", "w2"],
    "topology": {},
    "reason": "firmware",
    "change_id": "CHG1",
}


def record(role: str = "placement_maintenance", **values: t.Any) -> JobRecord:
    return JobRecord(role, "lab", "play", 0.0, **{"asked": MAINTENANCE, **values})


def test_block_names_what_was_asked_and_what_became_of_it() -> None:
    notes = [
        {
            "module": "node_maintenance",
            "moves": [move("db"), move("web"), move("batch", "stop", to_node=None)],
            "outcome": {
                "done": [entry("not_started", "stopped, and not started again", "shop/batch")],
                "next": [entry("not_started", "virtctl start batch -n shop")],
            },
        }
    ]
    known = {"states": {"w1": "serviced", "w2": "serviced"}}
    block = closing_of(record(maintenance=known, notes=notes), 125)
    assert block.lines() == [
        "Maintenance: done, after 2.1 min",
        "  asked    service w1, w2, reason firmware, change CHG1",
        "  nodes    serviced: w1, w2",
        "  moves    2 migrated: shop/db w1 -> w2, shop/web w1 -> w2",
        "           1 stopped: shop/batch w1",
        "  done     stopped, and not started again: shop/batch",
        "  next     virtctl start batch -n shop",
    ]
    data = block.data()
    assert data["moves"]["migrated"][0]["name"] == "db"
    assert data["nodes"] == {"w1": "serviced", "w2": "serviced"}
    assert data["minutes"] == 2.1
    json.dumps(data)


def test_vm_that_was_restarted_again_is_named_with_what_avoids_that() -> None:
    moves = [
        move("db", "restart", to_node="w3"),
        move("web", "restart", to_node="w2"),
        move("web", from_node="w2", to_node="w5"),
        move("db", "restart", from_node="w3", to_node="w5"),
    ]
    known = {"states": {"w1": "serviced", "w3": "serviced"}}
    notes = [{"module": "node_maintenance", "moves": moves}]
    (line,) = closing_of(record(maintenance=known, notes=notes), 125).done
    assert line == (
        "restarted more than once: shop/db w1 -> w3 -> w5; with placement_maintenance_vm_policy: [migrate,"
        " stop_and_start] such a VM is stopped and started once instead"
    )


def test_failure_is_named_by_its_task_and_told_whole_as_data() -> None:
    known = {"states": {"w1": "serviced", "w2": "failed", "w3": "not_begun"}}
    failed = record(maintenance=known, failures=["w2: refused", "do this"])
    failed.failed_task, failed.lead = "Drain w2", "Drain "
    block = closing_of(failed, 8)
    lines = block.lines()
    assert lines[0] == "Maintenance: FAILED, after 8 s"
    assert "  failed   Drain w2: refused" in lines
    assert any("launch the same job again" in line for line in lines)
    assert any(
        "to undo it: launch it with placement_maintenance_state: in_service" in line
        for line in lines
    )
    assert block.data()["failed"] == ["w2: refused", "do this"]
    assert "- do this" in block.markdown()


def test_job_that_ended_within_a_task_of_the_user_has_failed() -> None:
    known = {"states": {"w1": "drained"}}
    block = closing_of(record(maintenance=known, open="gate after w1"), 8)
    assert block.outcome == "failed"
    assert "gate after w1" in block.data()["failed"][0]


def test_node_that_was_skipped_is_named_with_its_time() -> None:
    done = [{"name": "w1", "change_id": "CHG1", "serviced_at": "2026-11-22T19:00:00Z"}]
    known = {"states": {"w1": "skipped", "w2": "serviced"}, "done": done}
    lines = closing_of(record(maintenance=known), 8).lines()
    assert "  skipped  w1: change CHG1 was done 2026-11-22T19:00:00Z" in lines


def test_what_could_not_be_read_is_one_line_and_whole_as_data() -> None:
    grant = "grant this identity the verb 'list'"
    lists = [("nodes", ""), ("pods", ""), ("deployments", "shop")]
    gaps = [
        {
            "resource": name,
            "namespace": where,
            "verb": "list",
            "reason": grant,
            "account": "ci:job",
            "reason_code": "no_right",
        }
        for name, where in lists
    ]
    other = {"resource": "pools", "namespace": "", "verb": "list", "reason": "not served"}
    note = {"module": "rules_info", "rules": [], "permission_gaps": [*gaps, other]}
    asked: dict[str, t.Any] = {"namespaces": []}
    block = closing_of(record("placement_rules", asked=asked, notes=[note, note]), 3)
    assert block.lines()[2:] == [
        "  not read ci:job may not list nodes, and lacks 2 more rights",
        "           cannot list pools in all namespaces: not served",
        "  next     grant ci:job the ClusterRole virt-placement-reader (rbac/reader.yml),"
        " then launch the same job again",
    ]
    whole, _not_served = block.data()["not_read"]
    assert whole == (
        "cannot list nodes, list pods in all namespaces, list deployments in namespace shop:"
        " grant this identity the ClusterRole virt-placement-reader (rbac/reader.yml);"
        " this identity is ci:job"
    )
    assert "list deployments in namespace shop" in block.markdown()


def test_damaged_annotations_are_one_line_of_the_block() -> None:
    """The lines above the block have each with what to do."""
    why = (
        "VirtualMachine shop/{0}: annotation placement.virt/rules is damaged (no JSON): restore it"
    )
    gaps = [
        {
            "resource": f"rules of VirtualMachine {name}",
            "namespace": "shop",
            "verb": "read",
            "reason": why.format(name),
        }
        for name in ("db", "web")
    ]
    note = {"module": "rules_info", "rules": [], "permission_gaps": gaps}
    block = closing_of(record("placement_rules", asked={"namespaces": []}, notes=[note]), 3)
    assert block.lines()[2:] == [
        "  not read cannot read rules of VirtualMachine db in namespace shop, rules of VirtualMachine web in namespace"
        " shop: damaged, see the lines above",
    ]
    assert [why.format("db") in text for text in block.data()["not_read"]] == [True, False]


def test_reason_that_several_lines_repeat_is_in_the_block_once() -> None:
    made = record("placement_verify", asked={})
    made.fail("Verify", ["cannot list pods", "cannot list nodes"], ["the same", "the same"])
    assert len(closing_of(made, 1).failed) == 1


def test_maintenance_says_itself_what_was_done_and_which_job_is_next() -> None:
    """Its rollouts and drains only say what they left."""
    outcome = {
        "done": [entry("nothing_to_move", "nothing to move")],
        "skipped": [entry("budget", "the budget needs 1", "shop/web")],
        "next": [entry("deferred", "launch the same job again")],
    }
    note = {"module": "rollout", "outcome": outcome}
    block = closing_of(record(maintenance={"states": {"w1": "in_service"}}, notes=[note]), 8)
    assert (block.done, block.next_steps) == ((), ())
    assert block.skipped == ("shop/web: the budget needs 1",)


@pytest.mark.parametrize("step", [NOTHING_WRITTEN, CLUSTER_AWAY, FAILED])
@pytest.mark.parametrize("role", ["placement_topology", "placement_rollout"])
def test_step_after_a_failure_is_that_of_the_module_unless_the_job_has_written(
    role: str, step: Entry
) -> None:
    asked = {"namespaces": ["shop"], "workloads": [], "scope": "violated"}
    module = {"placement_topology": "node_labels", "placement_rollout": "rollout"}[role]
    outcome = {"next": [as_json(step)]}
    note = {"module": module, "failed": True, "changed": False, "outcome": outcome}
    closed = closing_of(record(role, asked=asked, notes=[note], failures=["m"]), 3)
    assert closed.next_steps == (step.text,)
    before = {"module": module, "changed": True}
    begun = record(role, asked=asked, notes=[before, note], failures=["m"])
    assert closing_of(begun, 3).next_steps == (UNFINISHED.text,)


def test_block_has_at_most_15_lines_and_says_what_is_missing() -> None:
    many = tuple(f"shop/vm{i}: no place" for i in range(40))
    block = Closing("Rollout", "done", 60, asked=("roll out shop",), skipped=many, done=("a", "b"))
    lines = block.lines()
    assert len(lines) == MOST_LINES
    assert lines[-1].endswith("30 more, in the artifact placement_job")
    assert sum("no place" in line for line in lines) == 10
    assert len(block.data()["skipped"]) == 40
    assert block.markdown().count("no place") == 40


def test_moves_of_check_mode_and_failed_ones_are_told_apart() -> None:
    moves = (move("a", state="planned"), move("b", state="failed"), move("c", state="gone"))
    block = Closing("Rollout", "checked", moves=moves)
    assert block.headline() == "Rollout: check mode, nothing was changed, after 0 s"
    assert block.move_texts() == [
        "1 would be migrated: shop/a w1 -> w2",
        "1 not migrated: shop/b w1 -> w2",
        "1 ended by itself: shop/c w1 -> w2",
    ]


def test_attempt_that_failed_before_another_one_is_no_vm_that_was_left() -> None:
    moves = (move("a", state="failed"), move("b", state="failed"), move("a"), move("c"))
    assert Closing("Rollout", "done", moves=moves).move_texts() == [
        "1 not migrated: shop/b w1 -> w2",
        "1 migrated after a failed attempt: shop/a w1 -> w2",
        "1 migrated: shop/c w1 -> w2",
    ]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("<b>&", "&lt;b&gt;&amp;"),
        ("a_b*c", "a\\_b\\*c"),
        ("[x](y)", "\\[x\\](y)"),
        ("line\n## two", "line \\#\\# two"),
    ],
)
def test_nothing_in_the_markdown_is_markup_of_a_tenant(text: str, escaped: str) -> None:
    assert escaped in Closing("Verify", "failed", failed=("x",), errors=(text,)).markdown()


def test_a_forged_line_stays_in_its_line() -> None:
    lines = Closing("Verify", "done", done=("a\nTASK [forged]",)).lines()
    assert len(lines) == 2


def test_variables_that_are_refused_have_a_block() -> None:
    refused = record("placement_verify", asked={}, failures=["x: unknown"], failed_task="Check")
    assert closing_of(refused, 0).lines() == [
        "Verify: FAILED, after 0 s",
        "  failed   Check: x: unknown",
        "  next     correct the cause, then launch the same job again",
    ]


def test_return_to_service_that_failed_is_not_undone_by_itself() -> None:
    asked = {**MAINTENANCE, "state": "in_service"}
    known = {"states": {"w1": "drained"}}
    block = closing_of(record(asked=asked, maintenance=known, failures=["not back"]), 8)
    assert [step for step in block.next_steps if "to undo" in step] == []


def test_vm_that_is_stopped_for_the_time_of_the_maintenance_alone_is_named() -> None:
    """Of the last result of its node."""

    def note(node: str, code: str, text: str, vm: str) -> dict[str, t.Any]:
        outcome = {"done": [entry(code, text, vm)]}
        return {"module": "node_maintenance", "nodes": [{"name": node}], "outcome": outcome}

    waits = ("stopped", "stopped until the node is in service")
    notes = [
        note("w1", *waits, "shop/batch"),
        note("w2", *waits, "shop/night"),
        note("w1", "started", "started again", "shop/batch"),
    ]
    known = {"states": {"w1": "serviced", "w2": "drained"}}
    block = closing_of(record(maintenance=known, notes=notes), 8)
    assert block.done == (
        "started again: shop/batch",
        "stopped until the node is in service: shop/night",
    )


@pytest.mark.parametrize("changed", [False, True])
def test_job_continues_only_what_it_has_begun(changed: bool) -> None:
    asked = {"rules": [], "rule_set": "default", "namespace": "shop", "state": "present"}
    failed = record("placement_apply", asked=asked, failures=["x"])
    failed.note("rules", {"failed": True, "msg": "x", "changed": changed})
    (following,) = closing_of(failed, 1).next_steps
    assert following.startswith("correct the cause, then")
    assert ("it continues" in following) == changed


def test_apply_that_a_forecast_refuses_has_a_step() -> None:
    """The task that shows it, and no module, has failed; its lines say that no rule was written."""
    asked = {"rules": [], "rule_set": "default", "namespace": "shop", "state": "present"}
    refused = record("placement_apply", asked=asked, failures=["x"], failed_task="Show forecast")
    refused.note("forecast_info", {"changed": False})
    assert closing_of(refused, 1).next_steps == (FAILED.text,)


def test_maintenance_without_nodes_says_so() -> None:
    block = closing_of(
        record(asked={**MAINTENANCE, "nodes": [], "topology": {}}, failures=["Give nodes"]), 1
    )
    assert block.asked == ("service no node, reason firmware, change CHG1",)
    of_zones = record(asked={**MAINTENANCE, "nodes": [], "topology": {"zone": ["a", "b"]}})
    assert closing_of(of_zones, 1).asked == ("service zone a, b, reason firmware, change CHG1",)


def test_entries_of_several_results_are_joined_by_code_and_text() -> None:
    made = record("placement_topology", asked={"labels": {}})
    for names in (["w1", "w2"], ["w2", "w3"]):
        outcome = {
            "done": [entry("labeled", "labeled nodes", *names)],
            "skipped": [entry("held", "another client has written them", *names)],
            "next": [entry("rollout", "playbook rollout")],
        }
        made.note("node_labels", {"changed": True, "outcome": outcome})
    made.note("topology_info", {"changed": False})
    block = closing_of(made, 1)
    assert block.done == ("labeled nodes: w1, w2, w3",)
    assert block.skipped == ("w1, w2, w3: another client has written them",)
    assert block.next_steps == ("playbook rollout",)


def test_of_what_only_reads_the_last_result_counts() -> None:
    made = record("placement_capacity", asked={"tolerate": ["node"]}, failures=["red"])
    for state in ("green", "red"):
        steps = [entry("make_room", "add nodes")] if state == "red" else []
        outcome = {"done": [entry("capacity", f"capacity: {state}")], "next": steps}
        made.note("capacity_info", {"outcome": outcome})
    block = closing_of(made, 1)
    assert (block.done, block.next_steps) == (("capacity: red",), ("add nodes",))


@pytest.mark.parametrize("role", ["placement_rollout", "placement_topology"])
@pytest.mark.parametrize(
    ("changed", "check_mode", "continues"),
    [(False, False, False), (True, False, True), (True, True, False)],
)
def test_failure_is_continued_only_where_something_was_written(
    role: str, changed: bool, check_mode: bool, continues: bool
) -> None:
    asked: dict[str, t.Any] = {"namespaces": ["shop"], "workloads": [], "scope": "violated"}
    failed = record(role, asked=asked, failures=["x"], failed_task="Task", check_mode=check_mode)
    failed.note("rollout", {"failed": True, "msg": "x", "changed": changed})
    (following,) = closing_of(failed, 1).next_steps
    assert following.startswith("correct the cause, then launch the same job again")
    assert following.endswith("it continues") == continues


def test_maintenance_that_is_refused_before_its_first_node_promises_nothing() -> None:
    known = {"states": {"w1": "not_begun", "w2": "skipped"}}
    block = closing_of(record(maintenance=known, failures=["w1: no_place: x"]), 8)
    assert block.next_steps == (
        "no node was begun: correct the cause, then launch the same job again",
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["x: is not valid"], "x: is not valid"),
        (["2 errors:", "- a: bad", "- b: bad"], "a: bad"),
        (["w1: 2 errors:", "- a: bad", "- b: bad"], "w1: a: bad"),
        (["word " * 60], " ".join(["word"] * 47) + "..."),
        (["a\nTASK [forged]"], "a TASK [forged]"),
        ([f"{'word ' * 60}. Save it as JSON"], f"{' '.join(['word'] * 44)}... Save it as JSON"),
    ],
)
def test_reason_is_the_first_one_and_ends_at_a_word(lines: list[str], reason: str) -> None:
    assert reason_of(lines) == reason


def test_task_of_a_user_is_named_once() -> None:
    line = "The task Reboot failed for node w1. The cordon of w1 stays"
    known = {"states": {"w1": "drained"}}
    failed = record(maintenance=known, failures=[line], failed_task="Reboot of node w1", lead="")
    assert closing_of(failed, 1).failed == (line,)


@pytest.mark.parametrize(
    ("change_id", "text"), [("CHG0042", "CHG0042"), ("0042", '"0042"'), ("a: b", '"a: b"')]
)
def test_step_after_a_drain_works_as_it_stands(change_id: str, text: str) -> None:
    asked = {**MAINTENANCE, "state": "drained", "change_id": change_id, "reboot_expected": True}
    known = {"states": {"w1": "drained", "w2": "drained"}}
    (step,) = closing_of(record(asked=asked, maintenance=known), 8).next_steps
    _work, _then, variables = step.partition("launch the playbook maintenance with ")
    assert variables == (
        "placement_maintenance_nodes: [w1, w2], placement_maintenance_state: in_service,"
        f" placement_maintenance_change_id: {text}, placement_maintenance_reboot_expected: true"
    )


def test_check_mode_says_what_would_become_of_each_node() -> None:
    states = dict.fromkeys(["w1", "w2", "w3", "w4"], "not_begun")
    found = {"w1": "serviced", "w2": "refused", "w3": "closed"}
    known = {"states": states, "found": found}
    block = closing_of(record(maintenance=known, check_mode=True), 8)
    assert block.node_texts() == [
        "would be serviced: w1",
        "would be refused: w2",
        "would not be begun, outside of the window: w3",
        "not checked: w4",
    ]
    assert block.data()["nodes"] == states


@pytest.mark.parametrize(
    ("first", "headline"),
    [
        ("not_begun", "Maintenance: nothing begun, after 8 s"),
        ("serviced", "Maintenance: done in part, after 8 s"),
    ],
)
def test_maintenance_outside_of_its_window_says_so_and_when_it_opens(
    first: str, headline: str
) -> None:
    asked = {**MAINTENANCE, "window": {"start": "22:00", "end": "04:00", "days": ["sat"]}}
    found = {"w1": "closed" if first == "not_begun" else "serviced", "w2": "closed"}
    known = {"states": {"w1": first, "w2": "not_begun"}, "found": found}
    outside = {
        "module": "node_maintenance",
        "stop_reason": "outside of the window from 22:00 to",
        "stop_code": "outside_of_window",
    }
    block = closing_of(record(asked=asked, maintenance=known, notes=[outside]), 8)
    nodes = "w1, w2" if first == "not_begun" else "w2"
    assert block.headline() == headline
    assert f"not begun, outside of the window: {nodes}" in block.node_texts()
    assert "\n".join(block.lines()).count("outside of the window") == 1
    assert block.next_steps == (
        f"launch the same job again for {nodes} in the window, which opens next on Sat 1970-01-03 at"
        " 22:00 UTC",
    )


def rolled_out(**result: t.Any) -> JobRecord:
    asked: dict[str, t.Any] = {"namespaces": ["shop"], "workloads": [], "scope": "violated"}
    asked["window"] = {"start": "22:00", "end": "04:00"}
    made = record("placement_rollout", asked=asked)
    made.note("rollout", {"moves": [], **result})
    return made


def test_heading_of_a_rollout_counts_what_it_left() -> None:
    left = {"namespace": "shop", "name": "db", "reason": "0/6 nodes are available"}
    block = closing_of(rolled_out(skipped_instances=[left]), 1)
    assert block.headline() == "Rollout: done, 1 skipped, after 1 s"
    outside = {"deferred": [move("web")], "stop_code": "outside_of_window"}
    block = closing_of(rolled_out(**outside), 1)
    assert block.headline() == "Rollout: nothing moved, outside of the window, after 1 s"


def test_check_mode_says_what_a_drain_would_wait_for() -> None:
    """Number 4 of issue 41."""
    checked = record(check_mode=True, maintenance={"states": {"w1": "not_begun"}})
    step = entry("place_unknown", "before you launch it: It is unknown. Set the label.")
    for _group in range(2):
        checked.note("node_maintenance", {"outcome": {"next": [step]}})
    assert closing_of(checked, 1).next_steps == (
        step["text"],
        "launch the same job without check mode",
    )


@pytest.mark.parametrize(
    ("task", "reason", "lead", "failed"),
    [
        ("Drain w1, w2", "w1, w2: no_place: VM a", "Drain ", "Drain w1, w2: no_place: VM a"),
        ("Verify", "3 violated.", None, "Verify: 3 violated."),
    ],
)
def test_line_of_the_failure_says_nothing_twice(
    task: str, reason: str, lead: str | None, failed: str
) -> None:
    made = record()
    made.fail(task, ["a line"], [reason], lead)
    assert closing_of(made, 1).failed == (failed,)


def red_apply(rollout: dict[str, t.Any], *steps: dict[str, t.Any], **more: t.Any) -> JobRecord:
    names = {"rule_set": "default", "namespace": "shop", "state": "present"}
    asked: dict[str, t.Any] = {"rules": [], "rollout": True, **names}
    red = record("placement_apply", asked=asked, **more)
    red.note("rules", {"changed": True, "workloads": []})
    red.note("rollout", rollout)
    red.note("placement_info", {"outcome": {"next": list(steps)}})
    return red


DEFERRED = entry("deferred", "launch the same job again for the rest")
SKIPPED = entry("skipped", "mend what the lines under skipped name")
TO_MOVE = entry("rollout", "to move what violates a rule: playbook rollout")
CONTINUES = "correct the cause, then launch the same job again: it continues"


@pytest.mark.parametrize(
    ("left", "found", "steps"),
    [
        ([SKIPPED], [TO_MOVE], ["mend what the lines under skipped name"]),
        ([], [TO_MOVE], ["to move what violates a rule: playbook rollout"]),
        ([], [], [CONTINUES]),
        (
            [DEFERRED],
            [entry("constraint_removed", "write the rules again")],
            ["launch the same job again for the rest", "write the rules again"],
        ),
    ],
)
def test_red_verification_of_an_apply_keeps_its_step_beside_what_the_rollout_left(
    left: list[t.Any], found: list[t.Any], steps: list[str]
) -> None:
    red = red_apply({"outcome": {"next": left}}, *found, failures=["x"], failed_task="Verify")
    assert list(closing_of(red, 1).next_steps) == steps


def test_check_mode_of_an_apply_has_no_step_of_the_placement_before_it() -> None:
    checked = closing_of(red_apply({}, TO_MOVE, check_mode=True), 1)
    assert checked.next_steps == ("launch the same job without check mode",)


def test_block_has_each_thing_that_failed() -> None:
    """An error of the lint is one of them."""
    failed = record("placement_verify", asked={"namespaces": ["shop"], "workloads": []})
    lines = ["Verification failed: 2 violated.", "shop/a violates rule x.", "Run it."]
    findings = ["Verification failed: 1 error_finding.", "impossible_spread: why. advice"]
    failed.fail("Verify", [*lines, *findings], ["2 violated.", "1 error_finding."])
    block = closing_of(failed, 1)
    assert [line for line in block.lines() if "failed   " in line or "error_finding" in line] == [
        "  failed   Verify: 2 violated.",
        "           1 error_finding.",
    ]
    assert block.data()["failed"] == [*lines, *findings]


def test_reasons_of_an_undo_are_not_reasons_of_the_job() -> None:
    failed = record("placement_apply", asked={})
    failed.fail("Roll out", ["not done"])
    failed.undo = {"notes": 0, "failures": 1}
    failed.fail("Verify", ["Verification failed: 1 violated."])
    assert failed.reasons == ["not done"]
    assert failed.failed_task == "Roll out"
