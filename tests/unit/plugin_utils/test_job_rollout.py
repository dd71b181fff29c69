# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role placement_rollout: which plan it makes, and where check mode saves it."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.plugin_utils import job_stages
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job import JobFailed
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord
from ansible_collections.virt.placement.plugins.plugin_utils.registry import at

JSON = t.Any
PLAN = {"format": 1, "moves": [{}], "checksum": "c0ffee"}
OTHER = {**PLAN, "checksum": "decaf"}


class FakeRollout:
    """A job of the role, in check mode with the plan that the module has returned."""

    def __init__(self, *, check_mode: bool = False, **options: t.Any) -> None:
        selected = {"namespaces": [], "workloads": [], "scope": "violated", "allow": ["migrate"]}
        asked = {
            **selected,
            "plan_file": "",
            "plan": {},
            "places": {},
            "places_file": "",
            **options,
        }
        self.role, self.host, self.hosts = "placement_rollout", "prod", ["prod"]
        self.check_mode = check_mode
        self.record = JobRecord(self.role, "prod", "play", 0.0, check_mode, asked=asked)
        self.shown: list[str] = []
        self.added: JSON = {}
        self.uid: str | None = "c1"

    def run(self, module: str, arguments: JSON, *, check: bool) -> JSON:
        assert (module, arguments, check) == ("topology_info", {}, True)
        return {"cluster": {"api": "https://prod:6443", "uid": self.uid}}

    def show(self, lines: t.Iterable[str]) -> None:
        self.shown += lines

    def complain(self, lines: t.Sequence[str]) -> None:
        self.show(lines)
        self.record.failures += lines


def checked(job: FakeRollout) -> t.Any:
    job.added = at("check placement_rollout", t.cast(t.Any, job))
    return job_stages.CHECKS[job.role](t.cast(t.Any, job))


def closed(job: FakeRollout) -> t.Any:
    return job_stages.close(t.cast(t.Any, job))["ansible_stats"]["data"]


def faults(job: FakeRollout) -> list[str]:
    with pytest.raises(JobFailed) as failed:
        checked(job)
    *lines, last = failed.value.lines
    assert last == "Nothing was changed."
    return lines


def test_plan_of_check_mode_is_saved_and_published(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    job = FakeRollout(check_mode=True, namespaces=["shop"], plan_file=str(path))
    assert checked(job) == {}
    assert not path.exists()

    job.record.note("rollout", {"moves": [], "plan": PLAN})

    assert closed(job)["placement_rollout_plan"] == {"prod": PLAN}
    assert json.loads(path.read_text()) == PLAN
    assert checked(FakeRollout(plan_file=str(path))) == {"plan": PLAN}
    assert any(f"plan: {path}" in line for line in job.shown)


def test_published_plan_of_the_host_is_made() -> None:
    published = {"prod": PLAN, "lab": OTHER}
    assert checked(FakeRollout(plan=published)) == {"plan": PLAN}
    assert checked(FakeRollout(check_mode=True, namespaces=["shop"], plan=published)) == {}


def test_without_a_plan_nothing_is_handed_over() -> None:
    job = FakeRollout(namespaces=["shop"])
    assert checked(job) == {}
    job.record.note("rollout", {"moves": []})
    assert "placement_rollout_plan" not in closed(job)


def test_job_that_makes_a_plan_says_so(tmp_path: Path) -> None:
    job = FakeRollout(plan={"prod": PLAN})
    assert closing_of(t.cast(t.Any, job.record), 1.0).asked == (
        "carry out the plan of the job before",
    )


def test_job_names_the_checksum_of_the_plan_that_it_saves_and_that_it_makes(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    job = FakeRollout(check_mode=True, namespaces=["shop"], plan_file=str(path))
    job.record.note("rollout", {"moves": [], "plan": PLAN, "failed": False})
    closed(job)
    assert any(f"plan: {path} (checksum c0ffee)" in line for line in job.shown)

    job = FakeRollout(plan_file=str(path))
    checked(job)
    assert closing_of(t.cast(t.Any, job.record), 1.0).asked == (
        f"carry out the plan {path} (checksum c0ffee)",
    )


def test_check_mode_says_that_it_replaces_another_plan(tmp_path: Path) -> None:
    """Perhaps that one is approved, and the job was launched in check mode only to look."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(OTHER))
    for warned in (True, False):
        job = FakeRollout(check_mode=True, namespaces=["shop"], plan_file=str(path))
        job.record.note("rollout", {"moves": [], "plan": PLAN, "failed": False})
        closed(job)
        line = f"{path} had another plan (checksum decaf). It has the plan of this job now: have that one approved."
        assert (line in job.shown) is warned


def test_job_whose_plan_is_refused_names_a_new_plan_as_a_way_out() -> None:
    job = FakeRollout(plan={"prod": PLAN})
    job.complain(["plan: the cluster has changed since it was made, and nothing was moved"])
    (step,) = closing_of(t.cast(t.Any, job.record), 1.0).next_steps
    assert step == "correct it and launch the same job again, or make a new plan in check mode"


@pytest.mark.parametrize("of_prod", [{}, {"prod": {}}, {"prod": None}])
def test_plan_of_other_hosts_is_refused(of_prod: t.Any) -> None:
    """An empty plan of the host must not become a rollout without a plan."""
    job = FakeRollout(namespaces=["shop"], plan={"lab": PLAN, **of_prod})
    assert [text.replace(", prod.", ".") for text in faults(job)] == [
        "placement_rollout_plan: has no plan of prod, only of: lab. Launch the job in check mode."
    ]


def test_two_different_plans_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(OTHER))
    (fault,) = faults(FakeRollout(plan={"prod": PLAN}, plan_file=str(path)))
    assert fault.endswith("have different plans of prod: give one of them.")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, "there is no file"),
        ("{", "is not a plan, since it is not JSON"),
        ("[" * 100_000, "is not a plan, since it is not JSON: its lists and maps are nested too"),
        ("[]", "is not a plan that check mode has saved"),
        ("{}", "is not a plan that check mode has saved"),
    ],
)
def test_file_without_a_plan_is_refused(tmp_path: Path, content: str | None, fault: str) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    assert fault in faults(FakeRollout(plan_file=str(path)))[0]


def test_device_is_no_plan() -> None:
    assert "it is a device and no regular file" in faults(FakeRollout(plan_file="/dev/zero"))[0]


@pytest.mark.parametrize("path", ["plan.json", "/nowhere/plan.json"])
def test_path_that_cannot_be_written_is_refused_before_the_rollout(path: str) -> None:
    job = FakeRollout(check_mode=True, namespaces=["shop"], plan_file=path)
    assert faults(job)[0].startswith("placement_rollout_plan_file: ")


def test_plan_that_cannot_be_saved_fails_the_job(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    job = FakeRollout(check_mode=True, namespaces=["shop"], plan_file=str(folder / "plan.json"))
    job.record.note("rollout", {"moves": [], "plan": PLAN})
    with pytest.raises(JobFailed):
        job_stages.close(t.cast(t.Any, job))
    assert "there is no folder" in job.shown[0]
    assert closing_of(t.cast(t.Any, job.record), 1.0).outcome == "failed"


def test_map_and_saved_placement_are_handed_to_the_module(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"shop/db1": "w1"}))
    places = {"shop/db1": "w1"}
    assert checked(FakeRollout(places=places)) == {"places": places}
    assert checked(FakeRollout(places_file=str(path))) == {"places": places}
    assert faults(FakeRollout(places=places, places_file=str(path))) == [
        "Give placement_rollout_places or placement_rollout_places_file, and not both."
    ]


def test_saved_placement_that_has_no_vm_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text("{}")
    assert faults(FakeRollout(places_file=str(path))) == [
        f"placement_rollout_places_file: {path} has no VM with a node."
    ]
    assert faults(FakeRollout(places_file=str(tmp_path / "none.json"))) == [
        f"placement_rollout_places_file: cannot read {tmp_path}/none.json: No such file or directory."
    ]


def test_placement_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """VMs and nodes of two clusters may have the same names, and one file is given for all hosts."""
    path = tmp_path / "before.json"
    vm = {"kind": "VirtualMachine", "namespace": "shop", "instance": "db1", "node": "w1"}
    saved = {"cluster": {"api": "x", "uid": "c1"}, "nodes": [{}], "instances": [vm]}
    path.write_text(json.dumps(saved))
    assert checked(FakeRollout(places_file=str(path))) == {"places": {"shop/db1": "w1"}}

    fault = f"placement_rollout_places_file: {path} was saved from cluster c1, and"
    advice = "(https://prod:6443): check the file, the connection and placement_clusters."
    job = FakeRollout(places_file=str(path))
    job.uid = "c2"
    assert faults(job) == [f"{fault} this is cluster c2 {advice}"]
    job.uid = None
    assert faults(job) == [f"{fault} the UID of this cluster cannot be read {advice}"]
    job.record.uid, job.record.api = "c3", "https://lab:6443"  # read for all hosts
    assert "this is cluster c3 (https://lab:6443)" in faults(job)[0]


def test_closing_names_the_saved_placement(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    path.write_text(json.dumps({"shop/db1": "w1", "shop/db2": "w1"}))
    job = FakeRollout(check_mode=True, places_file=str(path))
    checked(job)
    (asked,) = closing_of(job.record, 1.0).asked
    assert asked == f"move 2 VMs to given nodes, which {path} has"
