# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a drain is over, and what it reports of its nodes on the way."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import RetryPolicy
from ansible_collections.virt.placement.plugins.module_utils.api.transport import Deadline, Outage
from ansible_collections.virt.placement.plugins.module_utils.maintenance import drain as drains
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain import DrainSource
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_state import (
    DrainState,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.mark import (
    MaintenancePhase,
    Mark,
    encode,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import JSON
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Node, Owner
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Plan
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.moves.reconcile import Reconciler
from ansible_collections.virt.placement.plugins.module_utils.moves.reconciliation import (
    Reconciliation,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.report import (
    NodeDescriptions,
    short,
)
from tests.unit.maintenance.test_drain_plan import of_deployment, pod, snapshot
from tests.unit.maintenance.test_options import options

MARK = Mark("r1", "", MaintenancePhase.DRAINING, "boot", True, "now")
NODE = Node(
    "w1", uid="u1", unschedulable=True, annotations={"placement.virt/maintenance": encode(MARK)}
)
EMPTY = snapshot()


class Drain(DrainSource):
    """A drain whose cluster is given by the test."""

    def __init__(self) -> None:
        transport = SimpleNamespace(outage=Outage())
        fake = SimpleNamespace(deadline=Deadline(60), transport=transport, policy=RetryPolicy())
        api = t.cast(t.Any, fake)
        api.under = lambda _deadline: api
        state = DrainState(run="r1", transitions=1, nodes={"w1": "u1"}, cordoned=True)
        super().__init__(api, options(), state, lambda: True)
        self.nodes = (NODE,)

    def reads(self, of: Snapshot) -> bool:
        """Whether the drain goes on after this reading."""
        view = self.view = DrainView(of, frozenset({"w1"}), ("migrate",))
        reconciler = SimpleNamespace(
            journal=SimpleNamespace(records=()), in_flight=(), failed=False, refused=()
        )
        reconciler.goes_on = functools.partial(Reconciler.goes_on, t.cast(t.Any, reconciler))
        nodes = NodeDescriptions({"w1": {}}, "zone")
        now = Reconciliation(view, t.cast(t.Any, None), nodes, view.plan())
        goes_on = self.goes_on(view, t.cast(t.Any, reconciler), now)
        self.waits_for = str(now.waiting)
        return goes_on


@pytest.fixture
def attachments(monkeypatch: pytest.MonkeyPatch) -> list[JSON]:
    """What the server lists as VolumeAttachments."""
    items: list[JSON] = []
    listing = SimpleNamespace(items=items)
    monkeypatch.setattr(drains, "list_all", lambda *_arguments: listing)
    return items


@pytest.mark.usefixtures("attachments")
def test_nodes_are_drained_after_two_empty_readings() -> None:
    drain = Drain()
    assert drain.reads(EMPTY)
    assert not drain.reads(EMPTY)


@pytest.mark.usefixtures("attachments")
def test_pod_that_comes_in_between_starts_the_readings_again() -> None:
    drain = Drain()
    assert drain.reads(EMPTY)
    assert drain.reads(snapshot(of_deployment("web")))
    assert drain.reads(EMPTY)
    assert not drain.reads(EMPTY)


def test_volume_that_is_attached_keeps_the_drain_going(attachments: list[JSON]) -> None:
    attachments.append({"metadata": {"name": "csi-1"}, "spec": {"nodeName": "w1"}})
    drain = Drain()
    drain.reads(EMPTY)
    assert drain.reads(EMPTY)
    assert drain.waits_for == "volumes are still attached: csi-1 to w1"
    attachments.clear()
    assert not drain.reads(EMPTY)


def test_volume_of_a_pod_that_belongs_to_the_node_stays_attached(
    attachments: list[JSON], monkeypatch: pytest.MonkeyPatch
) -> None:
    for volume in ("logs", "data"):
        spec = {"nodeName": "w1", "source": {"persistentVolumeName": volume}}
        attachments.append({"metadata": {"name": f"csi-{volume}"}, "spec": spec})
    drain = Drain()
    monkeypatch.setattr(drains, "_claim", lambda _api, volume: ("shop", f"{volume}-claim"))
    agent = pod("agent", Owner("DaemonSet", "agent", "u-set"), claims=("logs-claim",))
    attached = drains.attached_volumes(drain.api, snapshot(agent), {"w1"})
    assert str(attached) == "volumes are still attached: data to w1"


def test_pod_that_never_terminates_is_waited_for() -> None:
    drain = Drain()
    stuck = snapshot(of_deployment("web", terminating=True))
    assert drain.reads(stuck)
    (instance,) = drain.view.plan().skipped
    assert instance.workload is not None
    assert drain.waits_for == f"{short(instance.workload, instance.instance)}: it is terminating"
    plan = DrainView(stuck, frozenset({"w1"}), ("migrate",)).plan()
    assert "web" in drain.undone((), plan, None) and "it is terminating" in drain.undone(
        (), plan, None
    )


@pytest.mark.usefixtures("attachments")
def test_bare_pod_that_is_started_midway_is_not_drained_over() -> None:
    drain = Drain()
    assert drain.reads(EMPTY)
    assert not drain.reads(snapshot(pod("lonely", None))), "nothing more can be done: it fails"
    assert drain._empty == 0


def test_node_that_is_not_ready_is_named_once_and_again_when_it_is_back() -> None:
    drain = Drain()
    for ready in (True, False, False, True):
        drain.nodes = (replace(NODE, ready=ready),)
        drain.lines.not_ready(drain.nodes)
        if not ready:
            assert "node w1 is not Ready" in drain.undone((), Plan(), None)
    assert drain.report.lines == [
        "node w1 is not Ready: nothing leaves it",
        "node w1 is Ready again",
    ]


def test_limits_hold_for_what_began_before_the_lease_was_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zone = "topology.kubernetes.io/zone"
    selected = Node("w1", uid="u1", labels={zone: "a"})
    other = replace(NODE, name="w3", uid="u3", labels={zone: "b"})
    drain = Drain()
    drain.drain.cordoned = False
    drain.nodes, drain._all_nodes = (selected,), (selected,)

    def read(*_records: t.Any, **_options: t.Any) -> None:
        drain._all_nodes = (selected, other)

    monkeypatch.setattr(drain, "read", read)
    with pytest.raises(
        InvalidInput, match=r"in 2 topology domains .*w3 \(b, in maintenance already"
    ):
        drain.prepare(t.cast(t.Any, None), t.cast(t.Any, None), ())
    assert drain.context.writes == []


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (None, "was deleted during its maintenance"),
        (replace(NODE, uid="u2"), "was replaced during its maintenance by another node"),
        (replace(NODE, unschedulable=False), "was uncordoned during its maintenance"),
        (replace(NODE, annotations={}), "was put in service, or taken by another run"),
    ],
)
def test_node_that_leaves_the_maintenance_midway_is_named(now: Node | None, why: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Drain().marks.still_ours(Snapshot(nodes=(now,) if now is not None else ()))
    assert str(raised.value).startswith(f"Node w1: {why}")


def test_node_that_is_as_the_run_left_it_is_read() -> None:
    assert Drain().marks.still_ours(Snapshot(nodes=(NODE,))) == (NODE,)
