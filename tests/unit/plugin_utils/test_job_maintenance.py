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
        self.shown: list[str] = []
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
        answer = self._answers.pop(0)
        if not check:
            self.record.note(module, answer)
        if answer.get("failed") and not may_fail:
            raise JobFailed([answer["msg"]])
        return answer

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
