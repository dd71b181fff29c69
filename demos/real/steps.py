# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The article's system on real nodes: a database in each zone, a cache in each zone, an application beside the cache.

The instances are VMs, which move by live migration; in the article they are replicas, which are recreated. The guest of
each counts on its console once a second.
"""

from __future__ import annotations

import contextlib
import pathlib
import sys
import typing as t

import yaml

from demos import board
from demos.stage import Stage, Step, check, variables
from sandbox import Sandbox, drain
from sandbox.real_nodes.guests import Count, Witness, guest

FOLDER = pathlib.Path(__file__).parent
CHECKOUT = FOLDER.parents[1]
NAMESPACE = "shop"
CLUSTER = "3-real-nodes-0-zones"
COLUMNS = {"ZONE": board.ZONE}
TIMEOUT = 600

DATABASES, BLACKBOXES = ("mssql-1", "mssql-2"), ("blackbox-1", "blackbox-2")
VMS = (*DATABASES, *BLACKBOXES)
MAINTAINER = "maintainer-mover"

_witness: dict[str, Witness] = {}
_before: dict[str, Count] = {}


@contextlib.contextmanager
def beside(sandbox: Sandbox) -> t.Iterator[None]:
    """The witness of the guests' consoles."""
    with Witness(sandbox.api, NAMESPACE) as witness:
        _witness[NAMESPACE] = witness
        yield


def places(stage: Stage, *vms: str) -> list[str]:
    """The nodes of VMs, in the order of the VMs."""
    path = stage.sandbox.api.path("VirtualMachineInstance", NAMESPACE)
    found = {
        x["metadata"]["name"]: x["status"].get("nodeName") for x in stage.sandbox.api.list(path)
    }
    return [found.get(name) or "" for name in vms]


def zones(stage: Stage, *vms: str) -> list[str]:
    """The zones of VMs, sorted."""
    api = stage.sandbox.api
    labels = {
        node["metadata"]["name"]: node["metadata"]["labels"] for node in api.list("/api/v1/nodes")
    }
    return sorted(labels.get(node, {}).get(board.ZONE, "") for node in places(stage, *vms))


def caches(stage: Stage) -> list[str]:
    """The nodes of the caches."""
    return board.nodes_of(stage.sandbox, NAMESPACE, "varnish-cache")


def label_the_nodes(stage: Stage) -> None:
    """Two nodes in one zone, the third in another."""
    stage.sandbox.api.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    stage.play_twice("topology", variables(FOLDER, "topology.yml"), identity="labeler")


def start_the_guests(stage: Stage) -> None:
    """All VMs start on the first node, since the others are cordoned. Each guest counts."""
    others = [node.name for node in stage.sandbox.cluster.nodes][1:]
    for node in others:
        drain.cordon(stage.sandbox, node)
    stage.sandbox.api.apply([guest(name, NAMESPACE) for name in VMS])
    stage.until(lambda: places(stage, *VMS), ["w1"] * len(VMS), "four VMs run on w1")
    for name in VMS:
        _witness[NAMESPACE].wait(name, timeout=TIMEOUT)
    _before.update(_witness[NAMESPACE].counts())
    for node in others:
        drain.uncordon(stage.sandbox, node)
    stage.sandbox.api.apply(yaml.safe_load((FOLDER / "varnish.yml").read_text()))
    stage.until(lambda: len(caches(stage)), 2, "two caches run")


def spread_database_and_cache(stage: Stage) -> None:
    """One database in each zone, by a live migration, and one cache in each zone."""
    stage.play_twice("apply", variables(FOLDER, "database_rules.yml"), identity="mover")
    stage.until(lambda: zones(stage, *DATABASES), ["bcn", "scu"], "a database in each zone")
    stage.play_twice("apply", variables(FOLDER, "cache_rules.yml"), identity="mover")


def bring_the_application_beside_the_cache(stage: Stage) -> None:
    """Each blackbox is migrated to the node of a cache, one in each zone. The caches stay."""
    before = caches(stage)
    stage.play_twice("apply", variables(FOLDER, "application_rules.yml"), identity="mover")
    stage.until(lambda: sorted(places(stage, *BLACKBOXES)), before, "a blackbox beside each cache")
    check(caches(stage) == before, f"the caches stayed on {before}")


def prove_it_and_drill(stage: Stage) -> None:
    """No rule is violated. The drill forecasts the loss of each node and zone. Neither writes."""
    mark = stage.sandbox.audit.mark()
    wanted = {"placement_verify_namespaces": [NAMESPACE]}
    result = stage.play("verify", wanted, identity="reader")
    check(result.rc == 0, f"verify ended with rc {result.rc}")
    result = stage.play("drill", {}, identity="reader")
    check(result.rc == 0, f"drill ended with rc {result.rc}")
    check(not stage.sandbox.audit.writes(since=mark), "verify or drill wrote something")


def maintain_a_node(stage: Stage) -> None:
    """A node with a database is drained, loses its power, boots, and is put in service: its VMs go to the other node of
    their zone, the cache first."""
    (node,) = {"w1", "w2"}.intersection(places(stage, *DATABASES))
    boot = stage.sandbox.api.get(f"/api/v1/nodes/{node}")["status"]["nodeInfo"]["bootID"]
    command = [sys.executable, "-m", "sandbox", "reboot", "--dir", str(stage.sandbox.directory)]
    run = {"argv": [*command, "{{ placement_maintenance_node }}"], "chdir": str(CHECKOUT)}
    task = {"name": "Reboot", "ansible.builtin.command": run, "changed_when": True}
    tasks = stage.sandbox.directory / "reboot.yml"
    tasks.write_text(yaml.safe_dump([task]))
    wanted = {
        "nodes": [node],
        "tasks": str(tasks),
        "reboot_expected": True,
        "reason": "demo",
        "run_timeout": 3 * TIMEOUT,
        "return_home": "none",
    }
    named = {f"placement_maintenance_{name}": value for name, value in wanted.items()}
    result = stage.play("maintenance", named, identity=MAINTAINER, timeout=6 * TIMEOUT)
    check(result.rc == 0, f"maintenance ended with rc {result.rc}")
    seen = stage.sandbox.api.get(f"/api/v1/nodes/{node}")
    check(seen["status"]["nodeInfo"]["bootID"] != boot, f"{node} has another boot ID")
    check(not seen["spec"].get("unschedulable"), f"{node} is in service")
    check(zones(stage, *DATABASES) == ["bcn", "scu"], "a database is in each zone")
    check(set(places(stage, *BLACKBOXES)) == set(caches(stage)), "each blackbox is beside a cache")


def count_the_guests(stage: Stage) -> None:
    """Each guest has counted on in its first boot, through all migrations, and no tick is lost."""
    stage.say("  guest        before   now  boots  ticks lost")
    for name in VMS:
        now = _witness[NAMESPACE].wait(name, timeout=TIMEOUT)
        first = _before[name]
        stage.say(f"  {name:12} {first.last:6} {now.last:5}  {len(now.boots):5}  {now.lost:10}")
        check(now.boots == first.boots, f"{name} is in its first boot")
        check(now.lost == 0, f"{name} lost no tick")


STEPS: tuple[Step, ...] = (
    label_the_nodes,
    start_the_guests,
    spread_database_and_cache,
    bring_the_application_beside_the_cache,
    prove_it_and_drill,
    maintain_a_node,
    count_the_guests,
)
