# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages report and verify: what is written, what is printed, and that the verdict is printed in any case."""

from __future__ import annotations

import typing as t
from pathlib import Path
from unittest import mock

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils import job_report, job_verify
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from tests.unit.report.pages import parsed
from tests.unit.report.results import move, rollout_of, shop_drill, shop_placement

FAIL_ON = ["violated", "pending", "unknown", "constraint_removed", "down"]
ANSWER = (
    "2 of 20 VMs violate a required rule; 1 has no node; 1 is down, since the node is not Ready."
)


class FakeJob:
    """A job whose modules return the results of the shop. `shown`: the lines that it prints."""

    def __init__(self, role: str, options: dict[str, t.Any], **variables: t.Any) -> None:
        self.record = JobRecord(role, "prod", "play", 0.0, asked=options)
        self.host = "prod"
        self.hosts = ["prod"]
        self.check_mode = False
        self.changed = False
        self.shown: list[str] = []
        self.ran: list[tuple[str, dict[str, t.Any]]] = []
        self.variable = variables.get

    def run(self, module: str, arguments: dict[str, t.Any], **_how: bool) -> dict[str, t.Any]:
        self.ran.append((module, arguments))
        result = {"placement_info": shop_placement, "drill_info": shop_drill}[module]()
        self.record.note(module, result)
        return result

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines


def reporting(**options: t.Any) -> dict[str, t.Any]:
    return {
        "html": "",
        "markdown": "",
        "junit": "",
        "prometheus": "",
        "cluster_name": "",
        "namespaces": [],
        "workloads": [],
        "topology_keys": {},
        "domains_of": [],
        "event": "failure",
        "timeout": 300,
        "drill": {},
        "rollout": {},
        "fail_on": FAIL_ON,
        **options,
    }


def verifying(**report: str) -> dict[str, t.Any]:
    selected: dict[str, t.Any] = {"namespaces": [], "workloads": [], "columns": ["zone"]}
    room: dict[str, t.Any] = {"keep_room_for": []}
    return {**selected, **room, "topology_keys": {}, "fail_on": FAIL_ON, "report": report}


def run(stage: t.Callable[[t.Any], t.Any], job: FakeJob) -> list[str]:
    """The lines with which the stage fails; none if it does not."""
    try:
        stage(t.cast(t.Any, job))
    except JobFailed as error:
        return error.lines
    return []


def test_report_has_drill_and_rollout_of_one_reading_each(tmp_path: Path) -> None:
    options = reporting(
        html=f"{tmp_path}/page.html", domains_of=["zone", "node"], namespaces=["shop"]
    )
    job = FakeJob(
        "placement_report",
        options,
        placement_rollout_result=rollout_of(move("web-3", "n4", "n5")),
    )

    assert run(job_report.check, job) == run(job_report.report, job) == []
    assert [module for module, _arguments in job.ran] == ["placement_info", "drill_info"]
    assert job.ran[0][1] == {"namespaces": ["shop"], "topology_keys": {}, "details": "placement"}
    page = parsed((tmp_path / "page.html").read_text())
    assert page.all("h1")[0].text == "Placement of prod"
    assert {x.attributes.get("id") for x in page.all("h2")} >= {"drill", "moves"}
    assert job.shown[0].startswith(ANSWER)
    assert job.shown[1:] == [f"Report: {tmp_path}/page.html"]
    assert job.changed
    done = closing_of(job.record, 1).done
    assert done[0].startswith("20 instances: 16 satisfied, 2 violated")
    assert done[1:] == (
        "violated rules: shop/default/web-one-per-zone",
        f"report: {tmp_path}/page.html",
    )


def test_report_without_failures_reads_as_often_as_a_verification(tmp_path: Path) -> None:
    """A second reading would double its time. Only `domains_of` asks for one."""
    report = FakeJob("placement_report", reporting(html=f"{tmp_path}/page.html"))
    run(job_report.report, report)
    verify = FakeJob("placement_verify", verifying())
    run(job_verify.verify, verify)

    assert [module for module, _arguments in report.ran] == ["placement_info"]
    assert [module for module, _arguments in verify.ran] == ["placement_info"]


def test_verification_writes_its_report_before_it_fails(tmp_path: Path) -> None:
    job = FakeJob(
        "placement_verify",
        verifying(junit=f"{tmp_path}/out.xml"),
        placement_drill_result=shop_drill(),
    )

    assert run(job_report.check_verify, job) == []
    errors = run(job_verify.verify, job)

    assert errors[0] == "Verification failed: 2 violated."
    assert 'failures="4"' in (tmp_path / "out.xml").read_text()
    assert job.shown[0].startswith("ZONE")
    assert job.shown[-1] == f"Report: {tmp_path}/out.xml"
    assert job.ran[0][1]["details"] == "placement"


def test_table_at_the_end_of_apply_has_a_column_for_each_topology_name() -> None:
    keys = {"esx": "node.cluster.x-k8s.io/esxi-host", "zone": "topology.kubernetes.io/zone"}
    options: dict[str, t.Any] = {"namespace": "shop", "topology_keys": keys, "fail_on": []}
    job = FakeJob("placement_apply", options)

    assert run(job_verify.verify_applied, job) == []
    assert job.ran[0][1]["columns"] == ["zone", "esx"]


def test_verification_without_a_report_reads_problems_alone() -> None:
    job = FakeJob("placement_verify", verifying())

    assert run(job_report.check_verify, job) == []
    run(job_verify.verify, job)

    assert job.ran[0][1]["details"] == "problems"
    assert not job.changed


@pytest.mark.parametrize("fail_on", [FAIL_ON, ["preference_not_met"]])
def test_verdict_is_printed_where_the_report_cannot_be_written(
    tmp_path: Path, fail_on: list[str]
) -> None:
    path = f"{tmp_path}/no/page.html"
    job = FakeJob("placement_verify", {**verifying(html=path), "fail_on": fail_on})

    errors = run(job_verify.verify, job)

    assert job.shown[0].startswith("ZONE")
    verdict = errors[0] if fail_on == FAIL_ON else job.shown[-1]
    assert verdict.startswith(
        "Verification failed: 2 violated." if fail_on == FAIL_ON else "Verification passed: "
    )
    assert errors[-1] == (
        f"html: cannot write {path}: there is no folder {tmp_path}/no. Name a path that the user who runs"
        " ansible-playbook may write."
    )


def test_answer_is_printed_where_an_earlier_result_is_damaged(tmp_path: Path) -> None:
    options = reporting(html=f"{tmp_path}/page.html", drill={"domains": []})
    job = FakeJob("placement_report", options)

    assert run(job_report.report, job) == [
        "drill has no cluster; hand over the result of virt.placement.drill_info, or leave it out. No report was"
        " written."
    ]
    assert job.shown[0].startswith(ANSWER)
    assert list(tmp_path.iterdir()) == []


def test_check_mode_names_the_file_and_writes_none(tmp_path: Path) -> None:
    job = FakeJob("placement_report", reporting(html=f"{tmp_path}/page.html"))
    job.check_mode = job.record.check_mode = True

    assert run(job_report.report, job) == []
    assert job.shown[-1] == f"Would write {tmp_path}/page.html"
    assert list(tmp_path.iterdir()) == []
    assert closing_of(job.record, 1).done[-1] == f"would write: {tmp_path}/page.html"


@pytest.mark.parametrize(
    ("stage", "options", "errors"),
    [
        (
            job_report.check,
            reporting(),
            [
                "Give one of placement_report_html, placement_report_markdown, placement_report_junit,"
                " placement_report_prometheus, each an absolute path: one of them is required. Nothing was changed."
            ],
        ),
        (
            job_report.check,
            reporting(html="page.html", prometheus="/tmp/x.txt"),
            [
                "placement_report_html: must be an absolute path, but is 'page.html'.",
                "placement_report_prometheus: /tmp/x.txt must end in .prom, since node_exporter reads no other files.",
                "Nothing was changed.",
            ],
        ),
        (
            job_report.check,
            reporting(html="/srv/page.html", drill={"drills": []}, domains_of=["zone"]),
            [
                "placement_report_drill and placement_report_domains_of: give one of them. The first is the result of"
                " an earlier drill, the second makes a new one. Nothing was changed."
            ],
        ),
        (
            job_report.check_verify,
            verifying(cluster_name="prod"),
            [
                "placement_verify_report: has no path. Give one of html, markdown, junit, prometheus. Nothing was"
                " changed."
            ],
        ),
        (
            job_report.check_verify,
            verifying(junit="out.xml"),
            [
                "placement_verify_report.junit: must be an absolute path, but is 'out.xml'.",
                "Nothing was changed.",
            ],
        ),
    ],
)
def test_paths_are_refused_before_the_cluster_is_read(
    stage: t.Callable[[t.Any], t.Any], options: dict[str, t.Any], errors: list[str]
) -> None:
    job = FakeJob("placement_report", options)

    assert run(stage, job) == errors
    assert job.ran == []


def test_result_of_an_earlier_task_that_was_skipped_is_none() -> None:
    from ansible_collections.virt.placement.plugins.plugin_utils.job import Job

    job = mock.Mock(_task_vars={"ran": {"moves": []}, "skipped": {"skipped": True}, "text": "x"})

    assert [Job.variable(job, name) for name in ("ran", "skipped", "text", "missing")] == [
        {"moves": []},
        None,
        None,
        None,
    ]
