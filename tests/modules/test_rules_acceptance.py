# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A zone keep_apart over three named machines that run in one zone: written, rolled out, in force.

By live migration alone, whatever the machines are called. The audit log is the witness.
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import placement_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.shop import Shop

from .rules_task import RulesTask

VM = "VirtualMachine"
VMI = "VirtualMachineInstance"
APART = {"topology_key": "zone"}
Machines = tuple[tuple[str, dict[str, t.Any]], ...]
NAMES: dict[str, Machines] = {
    "plain names": (("web-a", {}), ("web-b", {}), ("web-c", {})),
    "own hostnames": tuple((f"h-{h}", {"hostname": h}) for h in ("alpha", "beta", "gamma")),
    "two with one hostname": (
        ("s-a", {"hostname": "same"}),
        ("s-b", {"hostname": "same"}),
        ("s-c", {}),
    ),
    "dotted names": (("db.one.example", {}), ("db.two.example", {}), ("db.three.example", {})),
}
LONG = [f"a-machine-whose-name-is-as-long-as-people-make-them-for-big-systems-7{n}" for n in "012"]


class Trio:
    """Three machines in a namespace of their own, and the modules run on them."""

    def __init__(self, sandbox: Sandbox, namespace: str, run_module: RunModule) -> None:
        self.rules = RulesTask(sandbox, run_module, namespace)
        self.shop = Shop(sandbox, namespace, run_module)
        self.sandbox = sandbox
        self._run = run_module

    def start_in_one_zone(self, machines: Machines) -> None:
        self.names = [name for name, _placement in machines]
        manifests = [
            objects.virtual_machine(name, self.shop.namespace, placement=placement)
            for name, placement in machines
        ]
        self.shop.start(*manifests, nodes=self.shop.nodes_of("zone1"))
        assert self.shop.zones() == ["zone1"] * 3

    def declare(self, **options: t.Any) -> dict[str, t.Any]:
        workloads = [{"names": self.names}]
        return self.rules({"name": "apart", "workloads": workloads, "keep_apart": APART}, **options)

    def verdicts(self) -> set[str]:
        params = {
            "kubeconfig": str(self.sandbox.kubeconfig("reader")),
            "namespaces": [self.shop.namespace],
            "details": "all",
        }
        found = self._run(placement_info.main, params)["instances"]
        assert len(found) == 3
        return {instance["verdict"] for instance in found}

    def identities(self) -> dict[str, tuple[str, str]]:
        """The uids of each machine and of its instance."""
        return {
            name: (self._get(VM, name)["uid"], self._get(VMI, name)["uid"]) for name in self.names
        }

    def labels(self) -> dict[str, list[dict[str, str]]]:
        """The labels of each machine, its template, its instance and its pod, without those in
        which KubeVirt and Kubernetes say where it runs, and by which migration it came there."""
        found = {}
        for name in self.names:
            machine, vmi = self.rules.get(VM, name), self.rules.get(VMI, name)
            pod = self.rules.launcher(vmi)
            places = [machine, machine["spec"]["template"], vmi, pod]
            found[name] = [_lasting(place["metadata"].get("labels") or {}) for place in places]
        return found

    def zones(self) -> dict[str, str]:
        return {name: self.shop.zone(node) for name, node in self.shop.nodes().items()}

    def _get(self, kind: str, name: str) -> dict[str, t.Any]:
        return t.cast("dict[str, t.Any]", self.rules.get(kind, name)["metadata"])


_OF_THE_PLACE = (
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/nodeName",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)


def _lasting(labels: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _OF_THE_PLACE}


@pytest.fixture
def trio(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> Trio:
    return Trio(six, namespace(six, "accept"), run_module)


@pytest.mark.parametrize("kind", NAMES)
def test_rule_is_enforced_by_live_migrations_alone(trio: Trio, kind: str) -> None:
    trio.start_in_one_zone(NAMES[kind])
    identities, labels = trio.identities(), trio.labels()
    start = trio.sandbox.audit.mark()

    declared = trio.declare()
    assert {each["takes_effect"] for each in declared["workloads"]} == {"migration"}
    assert trio.verdicts() == {"violated"}
    rolled = trio.shop.roll(allow=["migrate"])

    assert not rolled.get("failed"), rolled.get("msg")
    assert rolled["skipped_instances"] == []
    assert [move["state"] for move in rolled["moves"]] == ["moved", "moved"]
    assert trio.shop.zones() == ["zone1", "zone2", "zone3"]
    # The one that stayed runs by its old terms; the terms of the others keep it apart from them.
    assert len(rolled["not_enforced"]) == 1
    assert trio.verdicts() == {"satisfied", "not_enforced"}
    assert trio.identities() == identities
    assert trio.labels() == labels
    every = trio.sandbox.audit.requests(start)
    ended = [e for e in every if e.is_write and e.resource == "virtualmachineinstances"]
    assert [e for e in ended if e.verb == "delete" and e.namespace == trio.shop.namespace] == []
    ours = {(w.verb, w.resource) for w in trio.sandbox.audit.writes("mover", start)}
    assert ours - {("create", "events")} <= {
        ("patch", "virtualmachines"),
        ("create", "virtualmachineinstancemigrations"),
        ("patch", "leases"),
    }

    zones, nodes = trio.zones(), trio.shop.nodes()
    for name in trio.names:
        trio.rules.migrate(name)
    assert trio.zones() == zones, "each stays in its zone: the others are taken"
    assert all(node != nodes[name] for name, node in trio.shop.nodes().items())
    assert trio.verdicts() == {"satisfied"}
    assert trio.identities() == identities

    # The next rollout sees every instance run by the new terms, and the undo record stays until the next change.
    settled = trio.shop.roll(allow=["migrate"])
    assert (settled["moves"], settled["skipped_instances"]) == ([], [])
    assert all("placement.virt/undo" in trio.shop.annotations(name) for name in trio.names)
    start = trio.sandbox.audit.mark()
    assert not trio.declare()["changed"]
    assert not trio.shop.roll(allow=["migrate"])["changed"]
    assert trio.sandbox.audit.writes(since=start) == []


def test_seventy_characters_take_a_restart_since_kubevirt_cannot_migrate_them(trio: Trio) -> None:
    assert {len(name) for name in LONG} == {70}
    trio.start_in_one_zone(tuple((name, {}) for name in LONG))
    identities = trio.identities()

    declared = trio.declare()
    assert {each["takes_effect"] for each in declared["workloads"]} == {"restart"}
    start = trio.sandbox.audit.mark()
    rolled = trio.shop.roll(allow=["migrate"])
    assert not rolled.get("failed"), rolled.get("msg")
    assert rolled["moves"] == []
    assert trio.sandbox.audit.writes(since=start) == []
    assert {left["name"] for left in rolled["skipped_instances"]} == set(LONG)
    assert all(
        "KubeVirt makes no migration for a name of more than 63" in left["reason"]
        for left in rolled["skipped_instances"]
    )
    assert trio.identities() == identities

    rolled = trio.shop.roll(allow=["migrate", "restart"])
    assert not rolled.get("failed"), rolled.get("msg")
    assert trio.shop.zones() == ["zone1", "zone2", "zone3"]
    assert trio.verdicts() == {"satisfied", "not_enforced"}
    assert trio.shop.disruptions(start) == [("update", "virtualmachines/restart")] * 2
    after = trio.identities()
    assert {name: uids[0] for name, uids in after.items()} == {
        name: uids[0] for name, uids in identities.items()
    }
    assert not trio.declare()["changed"]


def test_one_of_seventy_characters_stays_and_the_others_migrate_away(trio: Trio) -> None:
    long, *short = LONG[0], "web-a", "web-b"
    trio.start_in_one_zone(tuple((name, {}) for name in (long, *short)))
    identities, labels = trio.identities(), trio.labels()
    start = trio.sandbox.audit.mark()

    declared = trio.declare()
    effects = {each["name"]: each["takes_effect"] for each in declared["workloads"]}
    assert effects == {long: "restart", "web-a": "migration", "web-b": "migration"}
    rolled = trio.shop.roll(allow=["migrate"])

    assert not rolled.get("failed"), rolled.get("msg")
    assert rolled["skipped_instances"] == []
    done = {(move["name"], move["method"], move["state"]) for move in rolled["moves"]}
    assert done == {(name, "migrate", "moved") for name in short}
    assert len(rolled["moves"]) == 2
    assert trio.shop.zones() == ["zone1", "zone2", "zone3"]
    assert trio.zones()[long] == "zone1"
    assert trio.verdicts() == {"satisfied", "not_enforced"}
    assert trio.identities() == identities
    assert trio.labels() == labels
    migrations = [("create", "virtualmachineinstancemigrations")]
    assert trio.shop.disruptions(start) == migrations * 2

    zones, nodes = trio.zones(), trio.shop.nodes()
    for name in short:
        trio.rules.migrate(name)
    assert trio.zones() == zones, "each stays in its zone: the others are taken"
    assert all(trio.shop.nodes()[name] != nodes[name] for name in short)
    assert trio.identities() == identities
