# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_maintenance killed at each of its writes: the next task ends what it began, no VM stops, and no
cordon of others is lifted. The audit log is the witness, and for the whole maintenance `tests.witness`."""

from __future__ import annotations

import contextlib
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

from sandbox import Sandbox, drain, objects
from sandbox.fault_proxy import WRITE, Rule, down, reset, sigkill, status
from tests.job import Job
from tests.maintenance import SERVICED_LATER, Maintenance, maintenance, pods_on, vms
from tests.witness import by_name, watching

pytestmark = pytest.mark.usefixtures("modules_in_process")

WRITES = 13
"""Of a drain of a VM and a pod that are not reviews: a dry run of the eviction, take the Lease, cordon and its Event,
the mark on the Lease, journal, migrate, evict, two Events, drained and its Event, the mark again, release the Lease.
Renewals may come between."""

MIGRATION = ("create", "virtualmachineinstancemigrations")
EVICTION = ("create", "pods/eviction")


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Maintenance]:
    with maintenance(six, namespace(six, "killed"), run_module) as shop:
        yield shop


def occupied(shop: Maintenance) -> set[str]:
    """A VM and a pod on w2, and a cordon of another client on w6; the uids of VMIs."""
    shop.start(*vms(shop, "a"), nodes=["w2"])
    shop.start(objects.deployment("web", shop.namespace, replicas=1), nodes=["w2"])
    drain.cordon(shop.sandbox, "w6")
    return shop.uids()


def killed(
    shop: Maintenance, folder: Path, state: str, *, write: int, after: bool, **options: t.Any
) -> bool:
    """Runs the task as a job that is killed at this write; whether it came so far."""
    job = Job(shop, folder, "node_maintenance", shop.identity)
    rule = Rule(WRITE, "/(?!selfsubject)", sigkill(after=after), nth=write)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        code, output = job.run(
            through=proxy.kubeconfig(shop.identity),
            nodes=["w2"],
            state=state,
            run_timeout=60,
            **options,
        )
        hit = any(seen.action == "sigkill" for seen in proxy.requests)
    assert hit == (code != 0), output
    return hit


def assert_invariants(shop: Maintenance, uids: set[str], mark: t.Any) -> None:
    assert shop.uids() == uids, "a VM was stopped"
    assert shop.cordoned("w6"), "the cordon of another client was lifted"
    assert shop.mark("w6") is None
    done = shop.disruptions(mark, refused=False)
    assert done.count(MIGRATION) == 1, done
    assert done.count(EVICTION) == 1, done
    assert shop.lease()["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(1, WRITES + 1))
def test_drain_killed_at_a_write_and_run_again(
    shop: Maintenance, tmp_path: Path, after: bool, write: int
) -> None:
    uids = occupied(shop)
    mark = shop.sandbox.audit.mark()
    assert killed(shop, tmp_path, "drained", write=write, after=after)

    result = shop.maintain("drained", "w2")

    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, "w2") == []
    assert_invariants(shop, uids, mark)
    node = shop.mark("w2")
    assert node is not None and node["phase"] == "drained" and node["cordoned"] is True
    assert not shop.maintain("in_service", "w2").get("failed")
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.cordoned("w6")


@pytest.mark.parametrize("write", range(2, WRITES + 1))
def test_drain_killed_at_a_write_and_undone(shop: Maintenance, tmp_path: Path, write: int) -> None:
    uids = occupied(shop)
    assert killed(shop, tmp_path, "drained", write=write, after=True)

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert not shop.cordoned("w2") and shop.mark("w2") is None
    assert shop.uids() == uids
    assert shop.cordoned("w6")
    evacuated = [vmi["status"].get("evacuationNodeName") for vmi in shop.instances().values()]
    assert evacuated == [None]


STEERED = 16
"""Writes of a drain of a VM that is restarted: take the Lease, cordon and its Event, the mark on the Lease, three
taints, journal, restart and its Event, three taints again, drained and its Event, the mark again. Renewals may come
between."""


@pytest.mark.parametrize("undone", [False, True], ids=["again", "undone"])
@pytest.mark.parametrize("write", range(2, STEERED + 1))
def test_drain_that_steers_a_restart_killed_at_a_write(
    shop: Maintenance, tmp_path: Path, write: int, undone: bool
) -> None:
    """Restarted once, on w5, the only node that is not serviced later; or undone. No taint is left."""
    options: dict[str, t.Any] = {"vm_policy": ["restart"], "serviced_later": ["w1", "w3", "w4"]}
    shop.start(*vms(shop, "a"), nodes=["w2"])
    drain.cordon(shop.sandbox, "w6")
    mark = shop.sandbox.audit.mark()
    after = write % 2 == 0
    assert killed(shop, tmp_path, "drained", write=write, after=after, **options)

    if not undone:
        result = shop.maintain("drained", "w2", **options)
        assert not result.get("failed"), result.get("msg")
        assert shop.nodes() == {"a": "w5"}
        restarts = [x for x in shop.disruptions(mark, refused=False) if x[1].endswith("/restart")]
        assert len(restarts) == 1
    result = shop.maintain("in_service", "w2")
    assert not result.get("failed"), result.get("msg")
    taints = [x["spec"].get("taints") or [] for x in shop.api.list("/api/v1/nodes")]
    assert SERVICED_LATER not in {taint["key"] for of_node in taints for taint in of_node}
    assert not shop.cordoned("w2") and shop.mark("w2") is None and shop.cordoned("w6")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_return_killed_at_its_write_and_run_again(
    shop: Maintenance, tmp_path: Path, after: bool
) -> None:
    shop.maintain("cordoned", "w2")
    assert killed(shop, tmp_path, "in_service", write=1, after=after)

    result = shop.maintain("in_service", "w2")

    assert not result.get("failed"), result.get("msg")
    assert result["changed"] is not after
    assert not shop.cordoned("w2") and shop.mark("w2") is None


@pytest.mark.parametrize(
    "fault",
    [status(500, message="etcdserver: leader changed"), status(503), status(429), reset()],
    ids=["leader", "503", "429", "reset"],
)
@pytest.mark.parametrize("request_number", [3, 20, 40, 60])
def test_drain_survives_an_error_at_a_request(
    shop: Maintenance, fault: t.Any, request_number: int
) -> None:
    uids = occupied(shop)
    mark = shop.sandbox.audit.mark()
    with shop.sandbox.fault_proxy([Rule("ANY", "/", fault, nth=request_number)]) as proxy:
        kubeconfig = str(proxy.kubeconfig(shop.identity))
        result = shop.maintain("drained", "w2", kubeconfig=kubeconfig)
        assert any(seen.action for seen in proxy.requests)

    assert not result.get("failed"), result.get("msg")
    assert pods_on(shop, "w2") == []
    assert_invariants(shop, uids, mark)


def test_drain_that_is_frozen_past_its_lease_moves_nothing_when_it_wakes_up(
    shop: Maintenance, tmp_path: Path
) -> None:
    shop.start(*vms(shop, "a"), nodes=["w2"])
    uids = shop.uids()
    job = Job(shop, tmp_path, "node_maintenance", shop.identity)
    mark = shop.sandbox.audit.mark()

    result, code, output = job.frozen(
        lambda freeze: Rule("GET", "/virtualmachineinstances/[a-z]", freeze, 1),
        lambda: shop.maintain("drained", "w2"),
        nodes=["w2"],
        state="drained",
        run_timeout=60,
    )

    assert not result.get("failed"), result.get("msg")
    assert code != 0, output
    assert "was taken over by " in output
    assert shop.disruptions(mark, refused=False) == [MIGRATION]
    assert shop.uids() == uids
    left = shop.mark("w2")
    assert left is not None and left["phase"] == "drained"


SERVICED = {"w1": "zone1", "w3": "zone2", "w5": "zone3"}
"""The nodes that are rebooted, four VMs on each."""

WHOLE = 90
"""More than the writes of the drain, the reboot and the return of three nodes: for each node twelve (take the Lease,
cordon, drained, release the Lease, uncordon, its mark on the Lease three times, and four Events), for its VMs journal,
migration and Event of each, and renewals of the Lease. A job that makes fewer writes is not killed, and has to end
well: so does that of the highest."""

CHECKOUT = Path(__file__).resolve().parents[2]


def whole_maintenance(shop: Maintenance, folder: Path) -> Path:
    """The play that reboots the nodes, one zone after the other."""
    reboot = [sys.executable, "-m", "sandbox", "reboot", "--dir", str(shop.sandbox.directory)]
    argv = [*reboot, "{{ placement_maintenance_node }}"]
    task = {"ansible.builtin.command": {"argv": argv, "chdir": str(CHECKOUT)}}
    return shop.play(folder, SERVICED, {"name": "Reboot", **task}, reboot_expected=True)


class Whole:
    """A maintenance that is killed at a write and run again, twice, with all that the witness saw."""

    def __init__(self, shop: Maintenance, folder: Path, write: int, *, seconds: int = 300) -> None:
        job = Job(shop, folder, "node_maintenance", shop.identity)
        play = whole_maintenance(shop, folder)
        self.shop = shop
        boots = [boot(shop, node) for node in SERVICED]
        rule = Rule(WRITE, "/(?!selfsubject)", sigkill(after=write % 2 == 0), nth=write)
        outputs = []
        began = shop.sandbox.audit.mark()
        with watching(shop.sandbox, shop.namespace) as history:
            with shop.sandbox.fault_proxy([rule]) as proxy:
                first = job.start_play(play, through=proxy.kubeconfig(shop.identity))
                output, _errors = first.communicate(timeout=seconds)
                killed_there = any(seen.action == "sigkill" for seen in proxy.requests)
            assert killed_there == (first.returncode != 0), output
            assert not killed_there or write < WHOLE, "the job makes more writes than WHOLE"
            outputs.append(output)
            version = int(
                shop.api.request("GET", "/api/v1/nodes").json()["metadata"]["resourceVersion"]
            )
            mark = shop.sandbox.audit.mark()
            second = job.start_play(play)
            output, _errors = second.communicate(timeout=seconds)
            assert second.returncode == 0, output
            outputs.append(output)
            writes = shop.sandbox.audit.writes(since=mark)
            mark = shop.sandbox.audit.mark()
            third = job.start_play(play)
            again, _errors = third.communicate(timeout=seconds)

        assert third.returncode == 0 and "changed=0" in again, again
        assert shop.sandbox.audit.writes(since=mark) == []
        assert all(boot(shop, node) != old for node, old in zip(SERVICED, boots, strict=True))
        assert shop.cordoned("w6") and not any(map(shop.cordoned, SERVICED))
        assert shop.lease_is_free()
        nodes = by_name(shop.api.list("/api/v1/nodes"))
        machines = by_name(shop.api.list(shop.path("VirtualMachine")))
        self.history = history
        self.violations = [
            *history.violated_invariants(max_nodes=1),
            *history.wrong_requests(shop.sandbox.audit.writes(since=began)),
            *history.untrue(outputs, version, writes),
            *history.violated_invariants_at_the_end(nodes, machines),
        ]


@pytest.mark.long_fault
@pytest.mark.parametrize("write", range(1, WHOLE + 1))
def test_whole_maintenance_killed_at_a_write_and_run_again(
    shop: Maintenance, tmp_path: Path, write: int
) -> None:
    for node in SERVICED:
        names = [f"{node}-{number}" for number in range(4)]
        slow = {"sandbox.virt/migration-seconds": "4"} if node == "w3" else None
        shop.start(*vms(shop, *names, cpu="100m", annotations=slow), nodes=[node])
    shop.start(objects.deployment("web", shop.namespace, replicas=2), nodes=["w5"])
    drain.cordon(shop.sandbox, "w6")

    assert Whole(shop, tmp_path, write).violations == []


@pytest.mark.long_fault
def test_whole_maintenance_in_the_slow_world(shop: Maintenance, tmp_path: Path) -> None:
    """Migrations longer than a Lease and than several steps, a VM that cannot be migrated and uses most of its 60 s to
    shut down, a volume on each node that is detached a moment after the last pod has left. The job is killed while VMs
    of the first node migrate."""
    slow = {"sandbox.virt/migration-seconds": "22"}
    for node in SERVICED:
        names = [f"{node}-{number}" for number in range(4 if node != "w5" else 3)]
        shop.start(*vms(shop, *names, cpu="100m", annotations=slow), nodes=[node])
    faults = {
        "sandbox.virt/not-migratable": "DisksNotLiveMigratable",
        "sandbox.virt/shutdown-seconds": "40",
    }
    grace = {"terminationGracePeriodSeconds": 60}
    (stuck,) = vms(shop, "stuck", cpu="100m", annotations=faults, placement=grace)
    stuck["metadata"]["labels"] = {"placement.virt/vm-policy": "restart"}
    shop.start(stuck, nodes=["w5"])
    drain.cordon(shop.sandbox, "w6")

    with contextlib.ExitStack() as volumes:
        for node in SERVICED:
            volumes.enter_context(attached(shop, node))
        whole = Whole(shop, tmp_path, write=5, seconds=560)

    about_restarted = [text for text in whole.violations if "stuck" in text]
    assert [text for text in whole.violations if text not in about_restarted] == []
    assert about_restarted.count("virtualmachines stuck: restart") == 1, about_restarted
    assert about_restarted.count("VMI stuck was deleted") == 1, about_restarted


AWAY = 20
"""Seconds without an API server: longer than a task waits at its begin in a job that has begun nothing."""


def test_api_server_that_goes_away_between_tasks_of_a_job_is_waited_for(
    shop: Maintenance, tmp_path: Path
) -> None:
    """A reboot of a control-plane node may take its API server with it; so may what a gate checks."""
    outage = tmp_path / "outage.yml"
    request = (
        "import ssl, sys, urllib.request as http\n"
        "try: http.urlopen(sys.argv[1], context=ssl._create_unverified_context())\n"
        "except OSError: pass"
    )
    shop.start(*vms(shop, "a"), nodes=["w1"])
    with shop.sandbox.fault_proxy([Rule("GET", "/outage", down(AWAY))]) as proxy:
        argv = [sys.executable, "-c", request, f"{proxy.url}/outage"]
        task = {"name": "Outage", "ansible.builtin.command": {"argv": argv}}
        outage.write_text(yaml.safe_dump([task]))
        work = {**task, "when": "placement_maintenance_node == 'w1'"}
        play = shop.play(tmp_path, ["w1", "w3"], work, gate_tasks=str(outage))
        job = Job(shop, tmp_path, "node_maintenance", shop.identity)
        process = job.start_play(play, through=proxy.kubeconfig(shop.identity))
        output, _errors = process.communicate(timeout=240)
        outages = [seen for seen in proxy.requests if seen.action == "down"]

    assert len(outages) == 3, output
    assert process.returncode == 0, output
    lines = output.splitlines()
    away = [line for line in lines if "no answer from the API server since" in line]
    back = [line for line in lines if "answers again" in line]
    assert len(away) == len(back) == 3, output
    assert not any(map(shop.cordoned, ("w1", "w3")))
    assert shop.lease_is_free()


@contextlib.contextmanager
def attached(shop: Maintenance, node: str) -> t.Iterator[None]:
    """A volume that is detached when no pod is left on the node."""
    attachments = "/apis/storage.k8s.io/v1/volumeattachments"
    manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"of-{node}"},
        "spec": {
            "attacher": "csi.example.com",
            "nodeName": node,
            "source": {"persistentVolumeName": f"data-{node}"},
        },
    }
    shop.api.create(attachments, manifest)
    with shop.meanwhile(
        until=lambda: pods_on(shop, node) == [],
        do=lambda: shop.api.delete(f"{attachments}/of-{node}"),
    ):
        yield


def boot(shop: Maintenance, node: str) -> str:
    return str(shop.node(node)["status"]["nodeInfo"]["bootID"])
