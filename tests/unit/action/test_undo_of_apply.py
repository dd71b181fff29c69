# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role placement_apply with on_failure undo, with modules that return what the test has for them."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import Task, doubled_collection, played

DOUBLE = Path(__file__).with_name("apply_double.py")
MODULES = "forecast_info rules rollout placement_info"
Result = dict[str, t.Any]

RULE = {"name": "apart", "workloads": ["a", "b"], "keep_apart": "zone"}
A = {"kind": "VirtualMachine", "namespace": "shop", "name": "a"}
B = {**A, "name": "b"}
FORECAST: Result = {
    "forecast": "guaranteed",
    "outcome": {"done": [{"code": "forecast", "text": "forecast: guaranteed", "objects": []}]},
    "reasons": [],
    "worsened_by_rules": False,
    "permission_gaps": [],
    "findings": [],
    "moves": [],
    "pending": [],
    "optional_moves": 0,
}
PLACED: Result = {
    "summary": {"instances": 2, "violated": 0, "violated_rules": []},
    "problems": [],
    "outcome": {"done": [{"code": "instances", "text": "2 instances: 2 satisfied", "objects": []}]},
    "permission_gaps": [],
    "table": "a table",
}


def written(*workloads: Result, key: str = "added", **more: t.Any) -> Result:
    changes = [{**x, "changed": True, key: ["apart"], "patch": []} for x in workloads]
    names = [f"apart ({len(workloads)} workloads)"]
    done = [{"code": f"rules_{key}", "text": f"rules {key}", "objects": names}]
    return {
        "changed": bool(workloads),
        "workloads": changes,
        "writes": list(workloads),
        "outcome": {"done": done, "skipped": [], "next": []},
        **more,
    }


OWN = written(A, B, change={"id": "3-abc", "continues": False}, held=[])
REVERTED = written(A, B, key="removed", reverted=[A, B], not_reverted=[], held=[])


def failing(message: str, **more: t.Any) -> Result:
    return {"failed": True, "msg": message, "errors": [{"type": "api", "message": message}], **more}


def move(name: str, start: str, end: str) -> Result:
    where = {"from_node": start, "to_node": end, "reason": "", "method": "migrate"}
    return {**A, "name": name, "instance": name, "state": "moved", **where}


def rolled_out(*moves: Result) -> Result:
    return {"changed": bool(moves), "moves": list(moves), "skipped_instances": [], "deferred": []}


TIMEOUT = failing(
    "not done within 60 s", **rolled_out(move("a", "w1", "w3"), move("b", "w1", "w2"))
)


class Case(t.NamedTuple):
    """What the modules return, task by task."""

    rules: list[Result]
    rollout: t.Sequence[Result] = ()
    verified: t.Sequence[Result] = ()
    forecasts: t.Sequence[Result] = (FORECAST, FORECAST)


CASES = {
    "undone": Case([OWN, REVERTED], [TIMEOUT, rolled_out(move("a", "w3", "w1"))], [PLACED]),
    "part of the rules": Case(
        [failing("b was not written", **{**OWN, **written(A)}), {**REVERTED, "reverted": [A]}],
        [rolled_out()],
        [PLACED],
    ),
    "undo impossible": Case(
        [OWN],
        [TIMEOUT],
        forecasts=[FORECAST, {**FORECAST, "forecast": "impossible", "worsened_by_rules": True}],
    ),
    "nothing written": Case([written(held=[])], [TIMEOUT]),
}


class Ended(t.NamedTuple):
    """How the role has ended: the tasks of modules, with their options, and the block at its end, by label."""

    calls: list[tuple[str, Result]]
    block: dict[str, list[str]]
    output: str

    @property
    def states(self) -> list[str]:
        """The states of the tasks `rules`."""
        return [str(arguments["state"]) for name, arguments in self.calls if name == "rules"]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All cases in one play: Ansible itself takes the most time."""
    folder = tmp_path_factory.mktemp("undo")
    tasks: list[Task] = []
    for name, case in CASES.items():
        results = {
            "forecast_info": [*case.forecasts],
            "rules": case.rules,
            "rollout": [*case.rollout],
            "placement_info": [*case.verified],
            "calls": [],
        }
        (folder / f"{name}.json").write_text(json.dumps(results))
        options = {"namespace": "shop", "rules": [RULE], "on_failure": "undo"}
        variables = {f"placement_apply_{key}": value for key, value in options.items()}
        variables["played_results"] = str(folder / f"{name}.json")
        role = {"name": "virt.placement.placement_apply", "rolespec_validate": False}
        tried = [{"ansible.builtin.include_role": role, "vars": variables}]
        failed = [{"ansible.builtin.debug": {"msg": f"end of {name}"}}]
        tasks.append(
            {"block": [*tried, {"ansible.builtin.fail": {"msg": "passed"}}], "rescue": failed}
        )
    with pytest.MonkeyPatch.context() as patched:
        collections = doubled_collection(folder, DOUBLE, MODULES)
        patched.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections))
        play = played(folder, tasks, "-v")
    assert play.returncode == 0, play.stdout[-5000:]
    rest, found = play.stdout, {}
    for name in CASES:
        output, _end, rest = rest.partition(f"end of {name}")
        calls = json.loads((folder / f"{name}.json").read_text())["calls"]
        found[name] = Ended(calls, _block(output), output)
    return found


def _block(output: str) -> dict[str, list[str]]:
    _before, _found, text = output.rpartition("[localhost] Apply: FAILED, after ")
    block: dict[str, list[str]] = {}
    label = ""
    for line in text.splitlines()[1:]:
        if not line.startswith("[localhost]   "):
            break
        label = line[14:22].strip() or label
        block.setdefault(label, []).append(line[23:])
    return block


def test_change_of_a_rollout_that_failed_is_undone_and_the_job_fails(
    ended: dict[str, Ended],
) -> None:
    done = ended["undone"]

    assert done.states == ["present", "reverted"]
    (_first, undo) = [arguments for name, arguments in done.calls if name == "rules"]
    assert (undo["change"], undo["rules"], undo["fail_on_findings"]) == ("3-abc", [], [])
    (_first, back) = [arguments for name, arguments in done.calls if name == "rollout"]
    assert back["workloads"] == [A, B]
    assert done.block == {
        "asked": [
            "rules apart of rule set default in namespace shop, state present",
            "if its rollout or verification fails: undo what it has written",
        ],
        "moves": ["3 migrated: shop/a w1 -> w3, shop/b w1 -> w2, shop/a w3 -> w1"],
        "done": [
            "forecast: guaranteed",
            "rules added: apart (2 workloads)",
            "undo: rules removed: apart (2 workloads)",
            "undo: 1 migrated: shop/a w3 -> w1",
            "undo: left where this job has moved them: shop/b on w2",
        ],
        "failed": ["Roll out: not done within 60 s; its change was undone"],
        "next": ["correct the cause, then launch the same job again: it writes the rules again"],
    }
    assert (
        "Roll out has failed, so the change of rule set default in namespace shop is undone."
        in done.output
    )


def test_rules_that_were_written_in_part_are_undone(ended: dict[str, Ended]) -> None:
    done = ended["part of the rules"]
    assert done.states == ["present", "reverted"]
    assert done.block["failed"] == ["Write rules: b was not written; its change was undone"]


def test_undo_whose_forecast_is_impossible_restores_nothing(ended: dict[str, Ended]) -> None:
    done = ended["undo impossible"]
    assert done.states == ["present"]
    assert "Forecast: impossible. Nothing was restored, and nothing is moved." in done.output
    assert done.block["failed"] == [
        "Roll out: not done within 60 s; its change was NOT undone: Show forecast of the undo has failed, too"
    ]


def test_job_that_has_written_no_rule_undoes_nothing(ended: dict[str, Ended]) -> None:
    done = ended["nothing written"]
    assert done.states == ["present"]
    assert done.block["failed"] == ["Roll out: not done within 60 s"]
    assert "Check what this job has written" not in done.output
