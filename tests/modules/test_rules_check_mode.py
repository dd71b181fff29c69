# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode names exactly the writes that the real run then makes.

The audit log says which objects were written and in which order, and each object afterwards is what
the foretold patches make of the object before.
"""

from __future__ import annotations

import itertools
import typing as t

import jsonpatch
import pytest

from sandbox import Sandbox, objects
from tests.conftest import RunModule

from .rules_task import OURS, RulesTask, stop_the_clock

JSON = t.Any
Rule = dict[str, t.Any]
MACHINES: Rule = {"workloads": [{"names": ["m-a", "m-b"]}]}
ZONE = "topology.kubernetes.io/zone"

APART: Rule = {"name": "apart", **MACHINES, "keep_apart": {"topology_key": "zone"}}
NODES: Rule = {"name": "nodes", **MACHINES, "run_on": {"zone": ["zone1", "zone2"]}}
GROUP: Rule = {"name": "group", **MACHINES, "label": {"group.example/x": "y"}}
OTHER_GROUP: Rule = {**GROUP, "label": {"group.example/z": "y"}}
CACHE: Rule = {
    "name": "cache",
    "workloads": [{"kind": "Deployment", "name": "cache"}],
    "avoid": {"zone": "zone3"},
    "preferred": True,
}
DATABASE: Rule = {
    "name": "database",
    "workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "db"}],
    "spread": {"topology_key": "zone"},
}
SELECTED: Rule = {"name": "nodes", "workloads": [{"name": "m-s"}], "run_on": {"zone": "zone1"}}
PATCHED = {
    "VirtualMachine": "virtualmachines",
    "VirtualMachineInstance": "virtualmachineinstances",
    "VirtualMachineInstanceReplicaSet": "virtualmachineinstancereplicasets",
    "Deployment": "deployments",
    "Pod": "pods",
}

TEMPLATES = ("virtualmachines", "virtualmachineinstancereplicasets", "deployments")


class Step(t.NamedTuple):
    """What stands there before, what is asked for, and the resources that are written for it."""

    before: tuple[Rule, ...]
    rules: tuple[Rule, ...]
    options: dict[str, t.Any]
    written: list[str]


VMS = ["virtualmachines"] * 2
VMIS = ["virtualmachineinstances"] * 2
PODS = ["pods"] * 2

STEPS = {
    "first rule": Step((), (APART,), {}, VMS),
    "second rule": Step((APART,), (APART, NODES), {}, VMS),
    "another verb": Step((NODES,), ({**NODES, "run_on": {"zone": "zone3"}},), {}, VMS),
    "a member less": Step((APART,), ({**APART, "workloads": [{"name": "m-a"}]},), {}, VMS),
    "a label": Step((), (GROUP,), {}, [*VMS, *VMIS, *PODS]),
    "another label": Step((GROUP,), (OTHER_GROUP,), {}, [*PODS, *VMIS, *VMS, *VMIS, *PODS]),
    "a label goes": Step((GROUP,), ({"name": "group"},), {"state": "absent"}, [*PODS, *VMIS, *VMS]),
    "prune": Step((APART, GROUP), (APART,), {"prune": True}, [*PODS, *VMIS, *VMS]),
    "kinds": Step(
        (),
        (CACHE, DATABASE),
        {"workload_rollout": "allow"},
        ["deployments", "virtualmachineinstancereplicasets"],
    ),
    "take over": Step((), (SELECTED,), {"adopt": True}, ["virtualmachines"]),
    "nothing": Step((APART, GROUP), (APART, GROUP), {}, []),
}


@pytest.fixture(scope="module")
def shop(six: Sandbox) -> t.Iterator[str]:
    """Two machines that run, one that does not, a replica set and a Deployment."""
    name = "check-mode"
    six.api.create(six.api.path("Namespace"), {"metadata": {"name": name}})
    yield name
    six.api.delete(six.api.path("Namespace", name=name))


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, shop: str) -> t.Iterator[RulesTask]:
    task = RulesTask(six, run_module, shop)
    if not six.api.list(six.api.path("VirtualMachine", shop)):
        task.create(objects.virtual_machine("m-a"))
        task.create(objects.virtual_machine("m-b"))
        selected = {"nodeSelector": {ZONE: "zone1"}}
        task.create(objects.virtual_machine("m-s", placement=selected, run_strategy="Halted"))
        task.create(objects.replica_set("db", replicas=1))
        task.create(objects.deployment("cache", replicas=1))
    task.running("m-a", "m-b")
    yield task
    assert not task(prune=True, workload_rollout="allow").get("failed")


def _part(manifest: JSON) -> JSON:
    """What a rule can change of an object; the rest is its controllers'."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    annotations = metadata.get("annotations") or {}
    kept = {key: value for key, value in annotations.items() if key in OURS}
    return {
        "labels": metadata.get("labels"),
        "annotations": kept,
        "template": spec.get("template"),
    }


def _in_turn(resources: t.Iterable[str]) -> list[str]:
    """Templates are written side by side, in no order; what runs is labelled before or after."""
    turns = itertools.groupby(resources, TEMPLATES.__contains__)
    return [each for templates, turn in turns for each in (sorted(turn) if templates else turn)]


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.tour
def test_check_mode_names_exactly_the_writes_that_are_then_made(
    task: RulesTask, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_the_clock(monkeypatch)
    step = STEPS[name]
    if step.before:
        assert not task(*step.before, workload_rollout="allow").get("failed")
    start = task.sandbox.audit.mark()
    foretold = task(*step.rules, check=True, diff=True, **step.options)
    assert not task.sandbox.audit.writes(since=start)
    assert foretold["changed"] == bool(step.written)
    written = [(each["kind"], each["name"]) for each in foretold["writes"]]
    before = {target: task.get(*target) for target in written}

    made = task(*step.rules, diff=True, **step.options)

    assert not made.get("failed"), made.get("msg")
    for part in ("changed", "writes", "diff", "workloads", "counts", "findings"):
        assert made[part] == foretold[part], part
    audited = task.sandbox.audit.writes(since=start)
    assert _in_turn(write.resource for write in audited) == step.written
    assert sorted((write.verb, write.resource, write.name, write.code) for write in audited) == (
        sorted(("patch", PATCHED[kind], target, 200) for kind, target in written)
    )
    for target, manifest in before.items():
        expected = manifest
        for write in (*foretold["writes"], *foretold["workloads"]):
            if (write["kind"], write["name"]) == target and "patch" in write:
                expected = jsonpatch.apply_patch(expected, write["patch"])
        assert _part(task.get(*target)) == _part(expected), target
    again = task.sandbox.audit.mark()
    assert not task(*step.rules, **step.options)["changed"]
    assert not task.sandbox.audit.writes(since=again)


def test_check_mode_warns_of_workloads_that_a_migration_does_not_bring_under_the_rule(
    task: RulesTask,
) -> None:
    even = {"name": "even", **MACHINES, "spread": "zone", "preferred": True}
    pin = {**DATABASE, "name": "pin", "spread": "zone", "preferred": True}

    planned = task(APART, even, pin, check=True)

    assert {x["name"]: x["takes_effect"] for x in planned["workloads"]} == {
        "m-a": "restart",
        "m-b": "restart",
        "db": "recreate",
    }
    (warning,) = (str(x) for x in planned["warnings"] if "more than a live" in str(x))
    for text in (
        f"VirtualMachine {task.namespace}/m-a (restart), VirtualMachine {task.namespace}/m-b",
        f"VirtualMachineInstanceReplicaSet {task.namespace}/db (recreate)",
        "need more than a live migration before the change is enforced: set allow of rollout to",
        "[migrate, restart, recreate]",
    ):
        assert text in warning
    assert "more than a live" not in str(task(APART, check=True).get("warnings"))
