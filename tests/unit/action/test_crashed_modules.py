# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A job whose module raises, or is killed, has failed: on each ansible-core, whatever that returns for it."""

from __future__ import annotations

import json
import os
import re
import typing as t
from pathlib import Path

import pytest
from ansible.release import __version__

from dev import matrix
from tests.support.modules import slowness
from tests.unit.action.plays import CHECKOUT, played, run_playbook

RELEASE = ".".join(__version__.split(".")[:2])

RULE = {"name": "apart", "workloads": ["a", "b"], "keep_apart": "zone"}
NO_RULES = {"namespace": "shop", "rules": [RULE]}

RAISES = """
def run(*_arguments, **_options):
    raise RuntimeError("a reason\\nthat goes on in this line")


if __name__ == "__main__":"""
KILLED = """
def run(*_arguments):
    import os
    os.kill(os.getpid(), 9)


if __name__ == "__main__":"""

PRINTS_FOREIGN_JSON = """
def run(*_arguments):
    import os
    print('{"changed": false, "ansible_facts": {}}', flush=True)
    os._exit(0)


if __name__ == "__main__":"""
"""As a wrapper or a library does that ends the process itself."""

FAILS_IN_FOREIGN_JSON = PRINTS_FOREIGN_JSON.replace(
    '"changed": false, "ansible_facts": {}', '"failed": true, "msg": "of a wrapper"'
)
PRINTS_MORE = """
def run(module, *_arguments):
    print('{"changed": false}', flush=True)
    module.exit_json(changed=False)


if __name__ == "__main__":"""

FLOW = re.compile(r"^from \S+\.flows\.\S+ import run$", re.MULTILINE)
"""What a module would run: without it, Ansible packs a tenth of the files."""

LAST_LINE = "that goes on in this line"


class Case(t.NamedTuple):
    """The role that runs the module first, with these variables."""

    role: str
    variables: dict[str, t.Any] = {}
    task: str = ""
    """The task of the role that fails."""


CASES = {
    "capacity_info": Case("capacity", {}, "Forecast each failure"),
    "cpu_info": Case("cpu", {}, "Read CPU labels and CPU models"),
    "drill_info": Case("drill", {}, "Forecast each failure"),
    "drs_import": Case(
        "drs_import",
        {"files": [str(CHECKOUT / "galaxy.yml")], "folder": "/nowhere", "read_cluster": False},
        "Import rules of DRS",
    ),
    "forecast_info": Case("apply", NO_RULES, "Forecast"),
    "node_labels": Case("topology", {"labels": {"x": "y"}, "nodes": ["w1"]}, "Label nodes"),
    "node_maintenance": Case("maintenance", {"nodes": ["w1"]}, "Check the request and the nodes"),
    "placement_info": Case("verify", {}, "Verify"),
    "rollout": Case("rollout", {"namespaces": ["shop"]}, "Roll out"),
    "rules": Case("apply", {**NO_RULES, "forecast": False}, "Write rules"),
    "rules_info": Case("rules", {}, "Read rules"),
    "topology_info": Case("topology", {}, "Read topology"),
}
WRITING = ("node_labels", "rollout", "rules")
STAGE = {"job": Case("report", {"markdown": "/nowhere/report.md"}, "Write report")}
"""The action `job`, which is no module: the stage of this task raises."""
ACTIONS = {
    "job": "STAGES['report'] = run",
    "report": "write_report = run",
}
"""What raises in the actions that run no module."""
WITHOUT_ROLE = {
    "capi_hosts_info": {"cluster": "prod"},
    "lint_info": {"files": [str(CHECKOUT / "galaxy.yml")]},
    "report": {"placement": {}, "markdown": "/nowhere/report.md"},
}
"""The modules that no role runs, with options that they have."""


def crashing_collection(folder: Path, end: str) -> Path:
    """A path of collections with this one, whose modules all end so."""
    collection = folder / "ansible_collections" / "virt" / "placement"
    (collection / "plugins" / "modules").mkdir(parents=True)
    (collection / "plugins" / "action").mkdir()
    for source in (CHECKOUT / "plugins" / "modules").glob("*.py"):
        text = source.read_text()
        crashing = FLOW.sub("", text).replace('\nif __name__ == "__main__":', end)
        assert crashing != text or source.stem in ACTIONS
        (collection / "plugins" / "modules" / source.name).write_text(crashing)
    function = end.partition("if __name__")[0]
    for source in (CHECKOUT / "plugins" / "action").glob("*.py"):
        added = f"\n{function}{ACTIONS[source.stem]}\n" if source.stem in ACTIONS else ""
        (collection / "plugins" / "action" / source.name).write_text(source.read_text() + added)
    for name in ("lookup", "module_utils", "plugin_utils", "doc_fragments"):
        (collection / "plugins" / name).symlink_to(CHECKOUT / "plugins" / name)
    for name in ("roles", "meta", "galaxy.yml"):
        (collection / name).symlink_to(CHECKOUT / name)
    return folder


def play_of(module: str) -> dict[str, t.Any]:
    role, values, _task = {**CASES, **STAGE}[module]
    variables = {f"placement_{role}_{name}": value for name, value in values.items()}
    include = {"name": f"virt.placement.placement_{role}", "rolespec_validate": False}
    tried = [{"ansible.builtin.include_role": include, "vars": variables}]
    passed = {"ansible.builtin.set_stats": {"data": {"passed": {module: True}}}}
    ended = {"ansible.builtin.debug": {"msg": f"end of {module}"}}
    return {
        "hosts": module,
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "module_defaults": {
            "group/virt.placement.auth": {"host": "http://127.0.0.1:1", "api_key": "x"}
        },
        "tasks": [{"block": [*tried, passed], "rescue": [ended]}],
    }


class Ended(t.NamedTuple):
    jobs: dict[str, dict[str, t.Any]]
    """By module: the artifact of the job."""
    output: str
    code: int
    passed: t.Collection[str]
    """The modules whose role did not fail."""

    def block(self, module: str) -> str:
        """What is printed of its job."""
        before, found, _after = self.output.partition(f"end of {module}")
        assert found, self.output[-3000:]
        return before.rpartition("PLAY [")[2]


def run_plays(folder: Path, plays: list[dict[str, t.Any]], end: str, *arguments: str) -> Ended:
    collections = crashing_collection(folder / "collections", end)
    (folder / "plays.yml").write_text(json.dumps(plays))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections), prepend=os.pathsep)
        patched.setenv("ANSIBLE_SHOW_CUSTOM_STATS", "1")
        inventory = ("--inventory", ",".join([*CASES, *STAGE]))
        ran = run_playbook(folder, "plays.yml", *inventory, *arguments)
    output, found, stats = ran.stdout.rpartition("CUSTOM STATS")
    assert found, ran.stdout[-5000:] + ran.stderr
    published = json.loads(stats.partition("RUN: ")[2])
    jobs = {
        host: job for host, roles in published["placement_job"].items() for job in roles.values()
    }
    return Ended(jobs, output, ran.returncode, published.get("passed", ()))


def jobs_with(folder: Path, modules: t.Iterable[str], end: str, *arguments: str) -> Ended:
    ended = run_plays(folder, [play_of(module) for module in modules], end, *arguments)
    assert (ended.code, ended.passed) == (0, ()), ended.output[-5000:]
    return ended


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """All modules in one playbook: Ansible itself takes the most time."""
    return jobs_with(tmp_path_factory.mktemp("raises"), [*CASES, *STAGE], RAISES)


@pytest.mark.parametrize("module", [*CASES, *STAGE])
def test_job_whose_module_raises_has_failed(ended: Ended, module: str) -> None:
    case, job = {**CASES, **STAGE}[module], ended.jobs[module]
    assert job["outcome"] == "failed"
    (reason,) = job["failed"]
    assert LAST_LINE in reason
    block = ended.block(module)
    title = "DRS import" if case.role == "drs_import" else case.role.capitalize()
    assert f"{title}: FAILED, after" in block
    assert f"failed   {case.task}: " in block
    assert block.count(LAST_LINE) <= 3  # where it occurred, in the block, and by Ansible itself


def test_each_module_is_made_to_raise() -> None:
    modules = {x.stem for x in (CHECKOUT / "plugins" / "modules").glob("*.py")}
    assert modules == {*CASES, *STAGE, *WITHOUT_ROLE}


def test_task_whose_module_raises_has_failed_without_a_role_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collections = crashing_collection(tmp_path / "collections", RAISES)
    monkeypatch.setenv("ANSIBLE_COLLECTIONS_PATH", str(collections), prepend=os.pathsep)
    tasks: list[dict[str, t.Any]] = []
    for module, options in WITHOUT_ROLE.items():
        tasks.append({f"virt.placement.{module}": options, "register": "result"})
        tasks[-1]["ignore_errors"] = True
        ended = {"that": "result is failed", "success_msg": f"{module} has failed"}
        tasks.append({"ansible.builtin.assert": ended})
    output = played(tmp_path, tasks, "-v").stdout
    for module in WITHOUT_ROLE:
        of_module, found, output = output.partition(f"{module} has failed")
        assert found and LAST_LINE in of_module, output[-3000:]


@pytest.mark.parametrize("module", CASES)
def test_nothing_was_written_is_printed_only_where_that_is_known(ended: Ended, module: str) -> None:
    steps = " ".join(ended.jobs[module]["next"])
    assert not (module in WRITING and "nothing was written" in steps)
    assert steps


def test_job_whose_module_is_killed_has_failed(tmp_path: Path) -> None:
    job = jobs_with(tmp_path, ["rules"], KILLED).jobs["rules"]
    assert job["outcome"] == "failed"
    assert job["failed"][0].startswith("The module ended without a result: ")
    assert job["next"] == ["correct the cause, then launch the same job again: it continues"]


FOREIGN = CASES if matrix.RELEASES[-1].core == RELEASE else ("rules", "rules_info")
"""Which fields a module has is the same on each release, so that each module is asked on the newest alone. How a result
of foreign JSON arrives is not: a module that writes and one that reads show it on each."""


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return jobs_with(tmp_path_factory.mktemp("foreign"), FOREIGN, PRINTS_FOREIGN_JSON)


@pytest.mark.parametrize("module", FOREIGN)
def test_job_whose_module_returns_foreign_json_has_failed(foreign: Ended, module: str) -> None:
    case, job = CASES[module], foreign.jobs[module]
    assert job["outcome"] == "failed"
    (reason,) = job["failed"]
    assert "The result is not that of the module" in reason
    assert "it has ansible_facts, changed and no " in reason
    block = foreign.block(module)
    assert f"failed   {case.task}: The result is not that of the module" in block
    steps = " ".join(job["next"])
    assert steps and not (module in WRITING and "nothing was written" in steps)


def test_failure_in_foreign_json_leaves_open_what_was_written(tmp_path: Path) -> None:
    job = jobs_with(tmp_path, ["rules"], FAILS_IN_FOREIGN_JSON).jobs["rules"]
    assert job["outcome"] == "failed"
    assert "of a wrapper" in job["failed"][0]
    assert job["next"] == ["correct the cause, then launch the same job again: it continues"]


def test_wrong_option_is_no_foreign_json(tmp_path: Path) -> None:
    """ansible-core fails then, and since 2.21 its result has no field but the message."""
    wrong = {"virt.placement.placement_info": {"details": "wrong"}}
    ended = played(tmp_path, [wrong], "-v")
    assert "value of details must be one of" in ended.stdout
    assert "The result is not that of the module" not in ended.stdout


def test_job_whose_module_prints_foreign_json_beside_its_result_has_failed(tmp_path: Path) -> None:
    job = jobs_with(tmp_path, ["rules"], PRINTS_MORE).jobs["rules"]
    assert job["outcome"] == "failed"
    assert "something else printed on its standard output" in job["failed"][0]


STEPS = """
def run(module, *_arguments):
    import os, time
    names = {"kind": "VirtualMachine", "namespace": "shop", "uid": "u", "method": "migrate", "from_node": "w1"}
    def move(name, **more):
        return {**names, "name": name, "instance": name, "reason": "", **more}
    def left(name, text):
        return {"skipped": [{"code": "in_flight", "text": text, "objects": [f"shop/{name}"]}]}
    state = module.params.get("step_state") or {}
    result = {"changed": True, "cluster": {"api": None, "uid": None}, "deferred": [], "progress": []}
    if state.get("interrupted"):
        outcome = left("web", "goes on: it is Running")
        module.fail_json(msg="interrupted", errors=[], outcome=outcome, **result)
    if state.get("transitions"):
        END
    moved = [move("db", to_node="w2", state="moved")]
    state = {"transitions": 1, "in_flight": [move("late", reason="begun")]}
    outcome = left("late", "begun")
    module.exit_json(moves=moved, outcome=outcome, finished=False, step_state=state, **result)


if __name__ == "__main__":"""


def test_job_whose_module_is_killed_has_the_moves_of_its_journal(tmp_path: Path) -> None:
    """Those that ended in the steps before, and those that the journal has in flight."""
    killed = STEPS.replace("END", "os.kill(os.getpid(), 9)")
    ended = jobs_with(tmp_path, ["rollout"], killed)
    job, block = ended.jobs["rollout"], ended.block("rollout")
    assert job["outcome"] == "failed"
    assert [vm["name"] for vm in job["moves"]["migrated"]] == ["db"]
    assert "moves    1 migrated: shop/db w1 -> w2" in block
    assert "skipped  shop/web: goes on: it is Running" in block
    assert "failed   Roll out: The module ended without a result: SIGKILL killed" in block


def test_job_whose_task_has_no_time_left_says_so_with_its_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = round(25 * min(slowness(), 5))
    monkeypatch.setenv("ANSIBLE_TASK_TIMEOUT", str(seconds))
    ended = jobs_with(tmp_path, ["rollout"], STEPS.replace("END", "time.sleep(600)"))
    job, block = ended.jobs["rollout"], ended.block("rollout")
    assert job["outcome"] == "failed"
    assert (
        f"Roll out: the task's timeout of {seconds} s ended it (keyword timeout" in job["failed"][0]
    )
    assert "moves    1 migrated: shop/db w1 -> w2" in block
    assert "skipped  shop/late: begun" in block
    assert job["next"] == ["correct the cause, then launch the same job again: it continues"]


@pytest.mark.parametrize(
    ("module", "start", "left_out"),
    [
        (
            "rules_info",
            "Report",
            "3 steps of this job did not run: Check variables and clusters, Read rules, Show rules.",
        ),
        ("node_labels", "Label nodes", ""),
        (
            "rules",
            "Report",
            "2 steps of this job did not run: Check variables and clusters, Write rules.",
        ),
    ],
)
def test_job_that_ansible_begins_late_names_the_steps_that_did_not_run(
    tmp_path: Path, module: str, start: str, left_out: str
) -> None:
    case = CASES[module]
    variables = {f"placement_{case.role}_{name}": value for name, value in case.variables.items()}
    role = {"role": f"virt.placement.placement_{case.role}", "rolespec_validate": False}
    play = {**play_of(module), "vars": {**play_of(module)["vars"], **variables}, "roles": [role]}
    started = ("--start-at-task", f"virt.placement.placement_{case.role} : {start}")
    ended = run_plays(tmp_path, [{**play, "tasks": []}], RAISES, *started)
    job, output = ended.jobs[module], ended.output
    assert job["outcome"] == "failed"
    assert job["asked"]
    if left_out:
        assert job["failed"][0].startswith(left_out)
        assert f"failed   {left_out}" in output
    else:
        assert LAST_LINE in job["failed"][0]
        assert "Check variables and clusters, Read topology" in job["failed"][1]


WRONG = {
    "rollout": ("placement_rollout_max_parallel", "many"),
    "node_maintenance": ("placement_maintenance_state", "wrong"),
    "drs_import": ("placement_drs_import_vm_names", "wrong"),
}
UNDEFINED = {"__placement_apply_node_labels": "{{ not_a_variable }}"}


@pytest.fixture(scope="module")
def unbegun(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Roles with a wrong variable, and one with an expression that cannot be evaluated."""
    variables = json.dumps({**dict(WRONG.values()), **UNDEFINED})
    folder = tmp_path_factory.mktemp("unbegun")
    return jobs_with(folder, [*WRONG, "rules"], RAISES, "--extra-vars", variables)


@pytest.mark.parametrize("module", WRONG)
def test_job_with_a_wrong_variable_names_nothing_else(unbegun: Ended, module: str) -> None:
    """The steps after the check did not run, which is no fault of its own, and nothing reads the wrong value."""
    job = unbegun.jobs[module]
    assert job["outcome"] == "failed"
    assert job["failed"][0].startswith(f"{WRONG[module][0]}: ")
    assert "did not run" not in " ".join(job["failed"])


def test_job_whose_task_fails_before_its_action_begins_has_failed(unbegun: Ended) -> None:
    job = unbegun.jobs["rules"]
    assert job["outcome"] == "failed"
    assert job["failed"] == ["A task of this job failed before it began: see the error above."]


def test_traceback_is_printed_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a module that a task of the role runs, and of one that a stage of the job runs."""
    monkeypatch.setenv("ANSIBLE_DISPLAY_TRACEBACK", "always")
    ended = jobs_with(tmp_path, ["rules", "placement_info"], RAISES, "-vvv")
    for module in ("rules", "placement_info"):
        assert "Traceback (most recent call last)" in ended.block(module)
        assert f"{module}.py" in ended.block(module)
