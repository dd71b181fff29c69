# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random VMs: what is forecast of a start, a migration and a drain is what becomes of it.

The first test drains nodes under groups with rules, on six nodes in three zones. The second starts, migrates
and drains VMs with everything that KubeVirt turns into node labels and requests, on nodes of three CPUs, before some
drains with another ratio of CPUs than they were started with.
PLACEMENT_RANDOM_VMS says how many cases (3), PLACEMENT_SEED with which seed the first one is
made; each test's name holds its own. A node is drained by eviction, so that KubeVirt migrates.
"""

from __future__ import annotations

import random
import time
import typing as t

import pytest

from sandbox import Sandbox, drain, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.volumes import delete_volumes

from .random_cases import FIRST_SEED, VMS, assert_enough_definite, count
from .random_vms import GPU, NODES, ZONES, RandomVm, create_network
from .test_changed_configuration import configured
from .test_scenarios import CREATED_BY, HOST, MIGRATION, REQUIRED, ZONE, Stage

JSON = t.Any
OUTBOUND = 2
"""Migrations off one node at a time, as KubeVirt ships: no more VMs are on the drained one."""


def random_vms(chance: random.Random) -> list[JSON]:
    """Two to eight VMs in one or two groups, each group under a rule."""
    made = []
    for group in "ab"[: chance.randint(1, 2)]:
        placement = _rule(chance, group)
        for number in range(chance.randint(2, 4)):
            spec = {"evictionStrategy": "LiveMigrate", **placement}
            labels = {"g": group}
            made.append(objects.virtual_machine(f"{group}{number}", labels=labels, placement=spec))
    return made


def _rule(chance: random.Random, group: str) -> JSON:
    key = chance.choice([ZONE, ZONE, HOST])
    selected = {"matchLabels": {"g": chance.choice([group, group, "a"])}}
    kind = chance.choice(
        ["none", "apart", "apart", "safe", "spread", "spread", "zone", "near", "near"]
    )
    if kind == "none":
        return {}
    if kind == "zone":
        return {"nodeSelector": {ZONE: chance.choice(["zone1", "zone2"])}}
    if kind == "spread":
        constraint = {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"g": group}},
            "nodeTaintsPolicy": chance.choice(["Honor", "Ignore"]),
        }
        return {"topologySpreadConstraints": [constraint]}
    term: JSON = {"labelSelector": selected, "topologyKey": key}
    if kind == "safe":
        term["mismatchLabelKeys"] = [CREATED_BY]
    field = "podAffinity" if kind == "near" else "podAntiAffinity"
    return {"affinity": {field: {REQUIRED: [term]}}}


def instance_of(pod: JSON) -> str:
    """The name of the VMI of a launcher pod. The label with it exists from KubeVirt 1.7 on."""
    owners = (
        x
        for x in pod["metadata"].get("ownerReferences", ())
        if x["kind"] == "VirtualMachineInstance"
    )
    return next((owner["name"] for owner in owners), "")


class Drain:
    """A node is drained; which of its VMs moved and which could not."""

    def __init__(self, stage: Stage, names: list[str]) -> None:
        self.stage, self.names = stage, names

    def _nodes(self) -> dict[str, str]:
        """The nodes of the VMIs that have not ended: one that stays off keeps its node in its status."""
        found = self.stage.api.list(self.stage.path("VirtualMachineInstance"))
        return {
            vmi["metadata"]["name"]: vmi["status"].get("nodeName", "")
            for vmi in found
            if "status" in vmi and vmi["status"].get("phase") not in ("Succeeded", "Failed")
        }

    def started(self) -> dict[str, str]:
        """The nodes of the VMs that run, once all others were refused."""
        self.stage.placed(len(self.names))
        running = {name: node for name, node in self._nodes().items() if self._has_node(name)}
        return {name: self.stage.node_of(name) for name in running}

    def _has_node(self, name: str) -> bool:
        pods = self.stage.api.list(self.stage.path("Pod"))
        return any(pod["spec"].get("nodeName") and instance_of(pod) == name for pod in pods)

    def run(self, node: str) -> set[str]:
        """Evict until each has left the node, has a target that was refused, or waits for another
        controller; the latter two."""
        for _attempt in range(8):
            try:
                drain.drain(self.stage.sandbox, node, timeout=5)
            except TimeoutError:
                here = {name for name, where in self._nodes().items() if where == node}
                if here <= self._waiting() | self._left_to_others(node):
                    return here
            else:
                return set()
        raise AssertionError(f"{here} of {node} neither moved nor have a target that waits")

    def _waiting(self) -> set[str]:
        """The VMs that have a pod without a node."""
        pods = self.stage.api.list(self.stage.path("Pod"))
        waiting = (pod for pod in pods if not pod["spec"].get("nodeName"))
        return {instance_of(pod) for pod in waiting}

    def _left_to_others(self, node: str) -> set[str]:
        """The VMs that KubeVirt has marked for another controller, and does not migrate."""
        marked = {
            vmi["metadata"]["name"]
            for vmi in self.stage.api.list(self.stage.path("VirtualMachineInstance"))
            if vmi["spec"].get("evictionStrategy") == "External"
            and vmi["status"].get("evacuationNodeName") == node
        }
        migrations = self.stage.api.list(self.stage.path(MIGRATION))
        assert not marked & {
            each["spec"]["vmiName"]
            for each in migrations
            if (each.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        }
        return marked


@pytest.fixture(scope="module")
def answers() -> list[str]:
    """The answers for the cases of this run."""
    return []


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + VMS))
@pytest.mark.tour
def test_drain_ends_as_forecast(
    six: Sandbox,
    run_module: RunModule,
    namespace: MakeNamespace,
    seed: int,
    answers: list[str],
) -> None:
    chance = random.Random(seed)
    stage = Stage(six, run_module, namespace(six, "drain"))
    wanted = random_vms(chance)
    for vm in wanted:
        stage.create(vm)
    names = [vm["metadata"]["name"] for vm in wanted]
    drained = Drain(stage, names)
    try:
        running = drained.started()
        there = {n: [m for m, node in running.items() if node == n] for n in running.values()}
        few = sorted(node for node, found in there.items() if len(found) <= OUTBOUND)
        if not few:
            pytest.skip(f"seed {seed}: no node with few enough VMs")
        lost = chance.choice(few)

        found = stage.forecast(unavailable={"nodes": [lost]})
        answers.append(found["forecast"])
        count(found)
        stuck = drained.run(lost)

        print(f"seed {seed}: {lost} with {there[lost]}: {found['forecast']}, stuck {sorted(stuck)}")
        certain = {each["instance"]["name"] for each in found["not_migratable"] if each["certain"]}
        if found["forecast"] == "guaranteed":
            assert not stuck, found
        elif found["forecast"] == "impossible":
            assert stuck, found
        else:
            assert found["forecast"] == "possible", found
            assert found["not_migratable"] or found["reasons"], found
            assert not certain & set(there[lost]), found
            assert stuck <= _may_be_stuck(found, there[lost]), found
        assert certain & set(there[lost]) <= stuck, found
        if len(running) == len(names) and not found["not_migratable"]:
            assert not stuck, found
    finally:
        stage.end()


def test_most_forecasts_of_drains_are_guaranteed_or_impossible(answers: list[str]) -> None:
    assert_enough_definite(answers)


def _may_be_stuck(found: JSON, there: list[str]) -> set[str]:
    """The VMs of which the forecast says that they may have to stay; all of the node where it
    gives a reason and no names."""
    named = {each["instance"]["name"] for each in found["not_migratable"]}
    return named & set(there) or set(there)


FLEET = 3
"""VMs of a case."""


class Fleet:
    """Random VMs that are started, migrated and drained, each time with other nodes cordoned. `answers` has
    what was forecast."""

    def __init__(self, stage: Stage, chance: random.Random, answers: list[str]) -> None:
        self.stage, self.chance, self.answers = stage, chance, answers
        self.running: dict[str, str] = {}
        """The node of each VM that runs."""
        self.run_strategies: dict[str, str] = {}
        self.changeable: set[str] = set()
        """VMs without an instance type, of which a template may have any domain."""

    def start(self, name: str) -> None:
        random_vm = RandomVm(self.chance, name)
        random_vm.create(self.stage)
        self.run_strategies[name] = random_vm.run_strategy
        if random_vm.instance_type is None:
            self.changeable.add(name)
        self._cordon_some()
        rule = {"name": "all", "workloads": [name], "run_on": {"zone": list(ZONES)}}
        found = self._forecast(namespace=self.stage.namespace, rules=[rule])
        path = self.stage.path("VirtualMachine", name)
        random_vm.start(self.stage)
        placed = self._wait_placed(name)
        self._compare(
            found,
            f"start of {random_vm.vm} {random_vm.instance_type} {random_vm.preference}",
            stuck=not placed,
        )
        if placed:
            self.running[name] = self.stage.node_of(name)
            return
        self.stage.api.delete(path)
        self.stage.api.wait_list(self.stage.path("Pod"), lambda pods: not _pods_of(name, pods))

    def migrate(self, name: str) -> None:
        """The VM migrates off its node by a rule."""
        stage, source = self.stage, self.running[name]
        self._cordon_some()
        rule = {"name": "off", "workloads": [name], "avoid": {"node": source}}
        found = self._forecast(namespace=stage.namespace, rules=[rule])
        allowed = {**rule, "allow_findings": found["blocking_findings"]}
        written = stage.write(allowed)
        assert not written.get("failed"), written
        stage.api.wait(_has_node_affinity, stage.path("VirtualMachineInstance", name))
        stage.create(objects.migration(name, name=f"{name}-off"))
        refused = self._wait_migrated(name)
        if [move["method"] for move in found["moves"]] == ["restart"]:
            assert refused, f"{name} is restarted, though it migrates: {found['moves']}"
        else:
            self._compare(found, f"migration of {name} off {source}", stuck=refused)
        if refused:
            stage.api.delete(stage.path(MIGRATION, f"{name}-off"))
            stage.api.wait_list(stage.path("Pod"), lambda pods: len(_pods_of(name, pods)) == 1)
        self.running[name] = stage.node_of(name)
        assert (self.running[name] == source) == refused
        removed = stage.write({"name": "off", "workloads": [name]}, state="absent")
        assert removed["changed"], removed

    def drain(self) -> None:
        nodes = [node for node in NODES if list(self.running.values()).count(node) in (1, OUTBOUND)]
        if not nodes:
            return
        lost = self.chance.choice(sorted(nodes))
        changed = self._change_some(lost)
        self._cordon_some(but=lost)
        found = self._forecast(unavailable={"nodes": [lost]})
        stuck = Drain(self.stage, list(self.running)).run(lost)
        ended = {
            f["objects"][0].rpartition("/")[2]
            for f in found["findings"]
            if f["name"] == "not_recreated"
        }
        for name in ended:
            self._wait_ended(name)
        stuck |= {
            name
            for name in self.running
            if name not in stuck | ended and not self._wait_placed(name)
        }
        what = (
            f"drain of {lost} with {self.running} {self.run_strategies}, {sorted(ended)} end, {changed}"
            " in templates"
        )
        self._compare(found, what, stuck=bool(stuck))

    def _change_some(self, node: str) -> dict[str, JSON]:
        """Changes of templates that wait for a restart, of some VMs on the node."""
        changes: dict[str, JSON] = {}
        for name in sorted(self.changeable & self.running.keys()):
            if self.running[name] == node and self.chance.random() < 0.4:
                changes[name] = self.chance.choice(
                    [
                        {"devices": {"gpus": [GPU], "hostDevices": []}},
                        {"devices": {"gpus": [], "hostDevices": []}},
                        {"cpu": {"model": "Cascadelake-Server"}},
                        {"cpu": {"model": "host-model"}},
                    ]
                )
                path = self.stage.path("VirtualMachine", name)
                self.stage.api.patch(
                    path, {"spec": {"template": {"spec": {"domain": changes[name]}}}}
                )
        return changes

    def _forecast(self, **options: JSON) -> JSON:
        found = self.stage.forecast(**options)
        self.answers.append(found["forecast"])
        count(found)
        if found["forecast"] not in ("guaranteed", "impossible"):
            print(f"{found['forecast']}: {found['reasons']}")
        return found

    def _compare(self, found: JSON, what: str, *, stuck: bool) -> None:
        answer = f"{what}: {found['forecast']}, {found['moves']}, {found['reasons']}"
        if found["forecast"] == "guaranteed":
            assert not stuck, answer
        elif found["forecast"] == "impossible":
            assert stuck, answer
        else:
            assert found["reasons"] or found["not_migratable"], found

    def _cordon_some(self, but: str = "") -> None:
        self.stage.sandbox.restore_nodes()
        for node in self.chance.sample(NODES, self.chance.randint(0, 4)):
            if node != but:
                drain.cordon(self.stage.sandbox, node)

    def _wait_ended(self, name: str) -> None:
        """Until the VMI has ended, and its VM, ready to be reconciled, has none that follows."""
        self.stage.api.wait_list(self.stage.path("Pod"), lambda pods: not _pods_of(name, pods))
        path = self.stage.path("VirtualMachine", name)
        self.stage.api.wait(
            lambda vm: vm["status"].get("printableStatus") in ("Stopped", "Failed"), path
        )

    def _wait_placed(self, name: str) -> bool:
        """Whether the VM's only pod has a node, once it has one or was refused."""
        pods = self.stage.api.wait_list(
            self.stage.path("Pod"),
            lambda pods: len(own := _pods_of(name, pods)) > 0 and all(map(_is_decided, own)),
            timeout=60,
        )
        return all(pod["spec"].get("nodeName") for pod in _pods_of(name, pods))

    def _wait_migrated(self, name: str) -> bool:
        """Whether the target of the VM's migration was refused, once that is known, and virt-controller knows
        of the target: of a migration that is deleted before, it leaves the target (kubevirt/kubevirt#7787)."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            migration = self.stage.api.get(self.stage.path(MIGRATION, f"{name}-off"))
            phase = (migration.get("status") or {}).get("phase")
            if phase == "Succeeded":
                return False
            pods = _pods_of(name, self.stage.api.list(self.stage.path("Pod")))
            waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
            if waiting and all(map(_is_decided, waiting)) and phase == "Scheduling":
                return True
            time.sleep(0.2)
        raise AssertionError(f"the migration of {name} neither ended nor was refused: {migration}")


def _pods_of(name: str, pods: t.Iterable[JSON]) -> list[JSON]:
    """The pods of a VM that have not ended."""
    return [
        pod
        for pod in pods
        if instance_of(pod) == name
        and "deletionTimestamp" not in pod["metadata"]
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def _is_decided(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions") or ()
    refused = any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
    return bool(pod["spec"].get("nodeName")) or refused


def _has_node_affinity(vmi: JSON) -> bool:
    return "nodeAffinity" in (vmi["spec"].get("affinity") or {})


@pytest.fixture(scope="module")
def answers_of_fleets() -> list[str]:
    """What was forecast of the fleets of this run."""
    return []


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + VMS))
def test_vms_start_migrate_and_leave_as_forecast(
    mixed: Sandbox,
    run_module: RunModule,
    namespace: MakeNamespace,
    seed: int,
    answers_of_fleets: list[str],
) -> None:
    chance = random.Random(seed)
    stage = Stage(mixed, run_module, namespace(mixed, "fleet"))
    fleet = Fleet(stage, chance, answers_of_fleets)
    create_network(stage)
    try:
        for number in range(FLEET):
            fleet.start(f"vm{number}")
        for name in list(fleet.running)[:2]:
            fleet.migrate(name)
        with configured(stage, cpuAllocationRatio=chance.choice([None, None, 2, 40])):
            fleet.drain()
    finally:
        delete_volumes(stage)
        stage.end()


def test_most_forecasts_of_fleets_are_guaranteed_or_impossible(
    answers_of_fleets: list[str],
) -> None:
    """At most a tenth, and one, may be unknown or possible."""
    counts = {answer: answers_of_fleets.count(answer) for answer in sorted(set(answers_of_fleets))}
    print(f"forecasts of fleets: {counts}")
    uncertain = counts.get("unknown", 0) + counts.get("possible", 0)
    assert uncertain <= len(answers_of_fleets) // 10 + 1, counts
