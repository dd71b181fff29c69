# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role placement_maintenance: the plan of its drains, and which nodes and options a job with a plan has."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.maintenance.returned_plan import (
    DRAIN_PLAN,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.run_plan import checksum
from ansible_collections.virt.placement.plugins.plugin_utils import job_stages
from ansible_collections.virt.placement.plugins.plugin_utils.approval.plan import (
    check_maintenance,
    check_nodes,
)
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.role_variables import defaults_of

JSON = t.Any
ROLE = "placement_maintenance"
OPTIONS = {
    "vm_policy": ["migrate"],
    "max_nodes": 1,
    "allow_findings": [],
    "delegated_budgets": [],
    "reboot_expected": False,
    "window": None,
    "topology_keys": {},
}


def drain_plan(*nodes: str, **options: JSON) -> JSON:
    content = {
        "format": 4,
        "module": "node_maintenance",
        "cluster_uid": "c1",
        "options": {**OPTIONS, **options},
        "nodes": [{"name": name, "uid": f"uid-{name}"} for name in nodes],
        "findings": [{"name": "no_place", "objects": list(nodes)}],
        "moves": [],
    }
    return {**content, "checksum": checksum(content)}


class FakeMaintenance:
    """A job of the role, with the options of its variables."""

    def __init__(self, *, check_mode: bool = False, **options: JSON) -> None:
        self.role, self.host, self.hosts = ROLE, "prod", ["prod"]
        self.check_mode = check_mode
        asked = {**defaults_of(ROLE), "state": "serviced", **options}
        self.record = JobRecord(ROLE, "prod", "play", 0.0, check_mode, asked=asked)
        self.record.maintenance = {"added": {}, "groups": [["w1"], ["w3"]], "states": {}}
        self.shown: list[str] = []

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines

    def complain(self, lines: t.Sequence[str]) -> None:
        self.show(lines)
        self.record.failures += lines


def approved(job: FakeMaintenance) -> JSON:
    return check_maintenance(t.cast(t.Any, job)).get("plan")


def faults(job: FakeMaintenance) -> list[str]:
    with pytest.raises(JobFailed) as failed:
        approved(job)
    *lines, last = failed.value.lines
    assert last == "Nothing was changed."
    return lines


def planned(path: Path) -> FakeMaintenance:
    """A job in check mode, after its two drains."""
    job = FakeMaintenance(check_mode=True, nodes=["w1", "w3"], plan_file=str(path))
    assert approved(job) is None
    for name in ("w1", "w3"):
        job.record.note("node_maintenance", {"plan": drain_plan(name)})
    return job


def closed(job: FakeMaintenance) -> JSON:
    return job_stages.close(t.cast(t.Any, job))["ansible_stats"]["data"]


def test_options_of_a_plan_are_variables_of_the_role() -> None:
    assert set(DRAIN_PLAN.options) == OPTIONS.keys()
    assert set(DRAIN_PLAN.options) <= defaults_of(ROLE).keys()


def test_plan_of_all_drains_is_saved_published_and_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    published = closed(planned(path))["placement_maintenance_plan"]["prod"]
    assert json.loads(path.read_text()) == published
    assert [node["name"] for node in published["nodes"]] == ["w1", "w3"]
    assert published["findings"] == [{"name": "no_place", "objects": ["w1", "w3"]}]

    given: JSON
    for given in ({"plan_file": str(path)}, {"plan": {"prod": published}}):
        job = FakeMaintenance(**given)
        assert approved(job) == published
        assert job.record.asked["nodes"] == ["w1", "w3"]


def test_job_without_a_drain_has_no_plan_that_could_be_carried_out(tmp_path: Path) -> None:
    """All nodes were serviced before, or are to be put in service."""
    job = FakeMaintenance(
        check_mode=True, nodes=["w1", "w3"], plan_file=str(tmp_path / "plan.json")
    )
    job.record.note("node_maintenance", {"nodes": []})
    assert "placement_maintenance_plan" not in closed(job)
    assert closing_of(job.record, 1.0).next_steps == ("launch the same job without check mode",)


def test_closing_names_the_file_and_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    job = planned(path)
    checksum_of_plan = closed(job)["placement_maintenance_plan"]["prod"]["checksum"][:12]
    closing = closing_of(job.record, 1.0)
    assert closing.done == (f"plan: {path} (checksum {checksum_of_plan})",)
    assert closing.next_steps == ("to do exactly this: launch the same job without check mode",)

    job = FakeMaintenance(plan_file=str(path))
    approved(job)
    (asked,) = closing_of(job.record, 1.0).asked
    assert asked == f"service w1, w3 by the plan {path} (checksum {checksum_of_plan})"
    job.complain(["plan: the cluster has changed since it was made, and nothing was done"])
    assert closing_of(job.record, 1.0).next_steps[0] == (
        "correct it and launch the same job again, or make a new plan in check mode"
    )


def test_plan_of_a_job_that_failed_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    job = planned(path)
    job.complain(["no room"])
    assert "placement_maintenance_plan" not in closed(job)
    assert not path.exists()


def test_job_has_the_limits_of_the_plan_and_refuses_others() -> None:
    given: JSON = {
        "vm_policy": ["migrate", "restart"],
        "max_nodes": 2,
        "allow_findings": ["bare_pod"],
    }
    window = {"start": "22:00", "end": "04:00", "days": None, "timezone": "UTC"}
    plan = {"prod": drain_plan("w1", **given, window=window)}
    job = FakeMaintenance(plan=plan)
    approved(job)
    assert {name: job.record.asked[name] for name in given} == given
    assert job.record.asked["window"] == window
    approved(FakeMaintenance(plan=plan, **given, window={"start": "22:00", "end": "04:00"}))

    other = {**given, "vm_policy": ["restart", "migrate"], "max_nodes": 3}
    assert [line.partition(":")[0] for line in faults(FakeMaintenance(plan=plan, **other))] == [
        "placement_maintenance_vm_policy",
        "placement_maintenance_max_nodes",
    ]


def test_bad_plan_is_refused_by_the_name_of_its_variable(tmp_path: Path) -> None:
    plan = {**drain_plan("w1"), "cluster_uid": "c2"}
    (fault,) = faults(FakeMaintenance(plan={"prod": plan}))
    assert fault.startswith("placement_maintenance_plan: was edited after it was made")
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**drain_plan("w1"), "format": 2}))
    (fault,) = faults(FakeMaintenance(plan_file=str(path)))
    assert fault.startswith("placement_maintenance_plan_file: has format 2")
    (fault,) = faults(FakeMaintenance(plan={"lab": drain_plan("w1")}))
    assert fault.startswith("placement_maintenance_plan: has no plan of prod, only of: lab.")


def test_nodes_are_put_in_service_without_a_plan() -> None:
    """A workflow hands the plan to all later jobs."""
    job = FakeMaintenance(state="in_service", nodes=["w9"], plan={"prod": drain_plan("w1")})
    assert approved(job) is None
    assert closing_of(job.record, 1.0).asked == ("put in service w9",)


def test_other_nodes_than_those_of_the_plan_are_refused() -> None:
    job = FakeMaintenance(nodes=["w1", "w4"])
    known = job.record.maintenance
    known |= {"added": {"plan": drain_plan("w1", "w3")}, "groups": [["w1"], ["w4"]], "done": []}
    with pytest.raises(JobFailed) as failed:
        check_nodes(t.cast(t.Any, job))
    assert failed.value.lines == [
        "placement_maintenance_nodes: not among the nodes of the plan: w4.",
        "placement_maintenance_nodes: without these nodes of the plan: w3.",
        "Nothing was changed.",
    ]
    known["done"] = [{"name": "w3"}, {"name": "w2"}]  # w2 before the plan was made
    known["groups"] = [["w1"]]
    check_nodes(t.cast(t.Any, job))
