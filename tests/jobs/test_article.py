# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The article from B1 to B9 by the collection's playbooks, in one story on one control plane. Then B6 to B8
again, with a plain drain and the playbook rollout."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from demos import board
from demos.__main__ import report
from demos.kubevirt import steps
from demos.stage import Stage, Step, named, opened
from sandbox import drain

W, W2 = "kni-worker", "kni-worker2"
BESIDE_W2 = sorted([W2, "kni-worker3", "kni-worker5"])
SCU_ON_W2 = {"varnish-cache": BESIDE_W2, "blackbox": BESIDE_W2, "mssql2016": steps.FAST}


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with opened(steps, quiet=True) as stage:
        yield stage


@pytest.mark.parametrize("step", steps.STEPS, ids=named)
@pytest.mark.tour
def test_b1_to_b9(stage: Stage, step: Step) -> None:
    """Each step asserts by itself: sets of nodes, writes in the audit log, the second run."""
    step(stage)


def test_demo_ends_with_a_report(
    stage: Stage, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demos.__main__.REPORTS", tmp_path / "demos")

    page = report(stage, "kubevirt", steps.COLUMNS.values()).read_text()

    assert all(node in page for node in (*steps.SLOW, *steps.FAST))
    assert all(workload in page for workload in steps.HOME)


@pytest.mark.tour
def test_b6_a_drain_moves_only_the_pair_on_the_node(stage: Stage) -> None:
    drain.drain(stage.sandbox, W)
    _expect(stage, SCU_ON_W2)


@pytest.mark.tour
def test_b7_after_uncordon_only_a_preference_is_unmet(stage: Stage) -> None:
    drain.uncordon(stage.sandbox, W)
    wanted = {"placement_verify_namespaces": [steps.NAMESPACE]}

    result = stage.play("verify", wanted, identity="reader")

    assert result.rc == 0, result.stdout
    summary = _statistics(result.events)["placement_summary"]["localhost"]
    assert summary["preference_not_met"] == 1
    assert summary["violated"] == summary["pending"] == summary["unknown"] == 0
    _expect(stage, SCU_ON_W2)


@pytest.mark.tour
def test_b8_check_mode_names_both_moves_in_their_order_and_makes_none(stage: Stage) -> None:
    mark = stage.sandbox.audit.mark()

    result = stage.play("rollout", _rebalance(), identity="mover", check=True)

    assert result.rc == 0, result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []
    would = [line for line in result.stdout.splitlines() if "] would " in line]
    varnish, blackbox = would
    assert "[1/2] would recreate Deployment shop/varnish-cache" in varnish
    assert "[2/2] would recreate VirtualMachineInstanceReplicaSet shop/blackbox" in blackbox
    assert f" from {W2} (" in varnish and f" from {W2} (" in blackbox
    assert f"; available: {W} (" in varnish
    assert f"; available after the moves before it: {W} (" in blackbox
    _expect(stage, SCU_ON_W2)


@pytest.mark.tour
def test_b8_cache_moves_before_blackbox_and_nothing_else(stage: Stage) -> None:
    before = {seat.uid: seat for seat in board.seats(stage.sandbox, steps.NAMESPACE)}
    mark = stage.sandbox.audit.mark()

    result = stage.play("rollout", _rebalance(), identity="mover")

    assert result.rc == 0, result.stdout
    _expect(stage, {"varnish-cache": steps.SLOW, "blackbox": steps.SLOW, "mssql2016": steps.FAST})
    after = {seat.uid for seat in board.seats(stage.sandbox, steps.NAMESPACE)}
    replaced = sorted(s.workload for uid, s in before.items() if uid not in after)
    assert replaced == ["blackbox", "varnish-cache"]
    disruptive = [
        event.resource
        for event in stage.sandbox.audit.writes(since=mark)
        if event.subresource == "eviction" or event.verb == "delete"
    ]
    assert disruptive == ["pods", "virtualmachineinstances"]


@pytest.mark.tour
def test_b8_second_run_writes_nothing(stage: Stage) -> None:
    mark = stage.sandbox.audit.mark()

    result = stage.play("rollout", _rebalance(), identity="mover")

    assert (result.rc, result.changed) == (0, 0), result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


def _rebalance() -> dict[str, t.Any]:
    return {
        "placement_rollout_namespaces": [steps.NAMESPACE],
        "placement_rollout_scope": "preference_not_met",
        "placement_rollout_allow": ["recreate"],
    }


def _expect(stage: Stage, placement: dict[str, list[str]]) -> None:
    for workload, nodes in placement.items():
        steps.expect(stage, workload, nodes)


def _statistics(events: t.Iterable[dict[str, t.Any]]) -> dict[str, t.Any]:
    stats = [e for e in events if e["event"] == "playbook_on_stats"]
    return t.cast("dict[str, t.Any]", stats[-1]["event_data"]["artifact_data"])
