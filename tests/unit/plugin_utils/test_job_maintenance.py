# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job notes of nodes that do not come back, or are not there any more."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils import job_maintenance
from ansible_collections.virt.placement.plugins.plugin_utils.closing import Closing
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import defaults_of

ROLE = "placement_maintenance"
Result = dict[str, t.Any]


class Job:
    """A job of the role whose module answers as it is told."""

    def __init__(self, *answers: Result, **options: t.Any) -> None:
        self.role, self.host, self.hosts = ROLE, "prod", ["prod"]
        self.check_mode = False
        asked = {**defaults_of(ROLE), **options}
        self.record = JobRecord(ROLE, "prod", "play", 0.0, False, asked=asked)
        self.arguments: Result = {}
        self.added: Result = {}
        self.shown: list[str] = []
        self.ran: list[Result] = []
        self._answers = list(answers)

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines

    def run(
        self,
        module: str,
        arguments: Result,
        *,
        check: bool = False,
        may_fail: bool = False,
        **_: t.Any,
    ) -> Result:
        self.ran.append(arguments)
        answer = self._answers.pop(0)
        if not check:
            self.record.note(module, answer)
        if answer.get("failed") and not may_fail:
            raise JobFailed([answer["msg"]])
        return answer

    def complain(self, lines: t.Iterable[str]) -> None:
        self.shown += lines

    def closing(self, failure: str) -> Closing:
        self.record.failures.append(failure)
        return closing_of(self.record, 8)


def failed(kind: str, *, changed: bool) -> Result:
    message = "node w6 is not back"
    errors = [{"type": kind, "message": message, "object": ""}]
    return {"failed": True, "changed": changed, "msg": message, "errors": errors}


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (failed("api", changed=True), "failed"),
        (failed("permission", changed=False), "not_begun"),
    ],
    ids=["uncordoned and not back", "refused"],
)
def test_node_that_was_uncordoned_and_is_not_back_was_begun(answer: Result, state: str) -> None:
    job = Job(answer, nodes=["w6"], state="in_service")
    job.arguments = {"nodes": ["w6"]}
    job.record.maintenance = {
        "states": {"w6": "not_begun"},
        "ended": [],
        "marked": ["w6"],
        "found": {},
    }
    with pytest.raises(JobFailed):
        job_maintenance.in_service(t.cast(t.Any, job))
    assert job.record.maintenance["states"] == {"w6": state}
    assert job.closing("node w6 is not back").nodes == {"w6": state}


def test_job_that_continues_without_a_node_names_it_before_its_first_drain() -> None:
    gone = "there is no node 'w5'"
    node = {
        "name": "w6",
        "zone": "z1",
        "cordoned": False,
        "since": None,
        "change_id": "",
        "state": "in_service",
    }
    done = {**node, "name": "w4", "change_id": "C41"}
    read = {
        "failed": True,
        "msg": gone,
        "nodes": [node, done],
        "errors": [{"type": "input", "message": gone}],
    }
    job = Job(
        read,
        {"changed": False},
        failed("input", changed=False),
        nodes=["w4", "w5", "w6"],
        state="serviced",
        change_id="C41",
    )
    with pytest.raises(JobFailed):
        job_maintenance.check(t.cast(t.Any, job))
    assert job.shown[0] == gone


def test_job_that_ansible_began_at_its_last_step_moves_nothing_and_fails() -> None:
    """By --start-at-task. Its step that reports never fails, so the job would be green."""
    job = Job(nodes=["w6"], state="serviced")
    with pytest.raises(JobFailed, match="Nothing is moved home or verified, since"):
        job_maintenance.finish(t.cast(t.Any, job))


@pytest.mark.parametrize("state", ["draining", "drained"])
def test_job_that_is_refused_names_the_node_that_an_earlier_one_has_begun(state: str) -> None:
    """A right was taken away between the jobs: the node is cordoned, and the block tells how to undo it."""
    node = {"zone": "z1", "cordoned": True, "since": "2026-11-22T19:00:00Z", "change_id": None}
    fresh = {"zone": "z1", "cordoned": False, "since": None, "change_id": None}
    read = {
        "nodes": [
            {**node, "name": "w1", "state": state},
            {**fresh, "name": "w2", "state": "in_service"},
        ]
    }
    rules = {"rules": [{"namespace": "shop", "workloads": ["a"]}]}
    job = Job(read, rules, failed("permission", changed=False), nodes=["w1", "w2"])
    with pytest.raises(JobFailed):
        job_maintenance.check(t.cast(t.Any, job))
    block = job.closing("no right to create migrations")
    assert block.nodes == {"w1": state, "w2": "not_begun"}
    relaunch, undo = block.next_steps
    assert "it continues" in relaunch
    assert "placement_maintenance_state: in_service" in undo


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": [], "topology": {}},
        {"nodes": ["w1"], "topology": {"zone": "a"}},
        {"nodes": [], "topology": {"zone": "a", "rack": "b"}},
    ],
)
def test_selection_is_refused_before_anything_is_read(options: Result) -> None:
    with pytest.raises(JobFailed, match=r"Give placement_maintenance_nodes, .* and not both"):
        job_maintenance.check(t.cast(t.Any, Job(**options)))


def test_nodes_are_read_with_the_window_which_the_module_checks() -> None:
    window = {"start": "22", "end": "04:00"}
    job = Job(failed("input", changed=False), nodes=["w1"], window=window)
    with pytest.raises(JobFailed):
        job_maintenance.check(t.cast(t.Any, job))
    assert [arguments["window"] for arguments in job.ran] == [window]


def test_job_that_has_read_no_node_does_not_answer_for_those_of_earlier_jobs() -> None:
    job = Job(failed("permission", changed=False), nodes=["w1"])
    with pytest.raises(JobFailed):
        job_maintenance.check(t.cast(t.Any, job))
    (step,) = job.closing("no right to patch nodes").next_steps
    assert step == (
        "no node was begun by this job, and those of earlier jobs were not read: correct the cause, then launch"
        " the same job again"
    )
