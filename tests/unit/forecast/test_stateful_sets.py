# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forecasts say of a StatefulSet whose template changes: by its strategy, its partition and its claims.

Kubernetes pkg/controller/statefulset/stateful_set_control.go (updateStatefulSet) ends one pod at a time, from the
highest number down to the partition, and each replica comes back with its own claims.
"""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    NO_CERTAINTY,
    NO_GUARANTEE,
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.storage import ClaimState
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write, written
from tests.support.cluster import ZONE, Cluster, cluster, keep_apart
from tests.unit.planning.scenes import pinned, template_write

from .test_claims import known, stateful_set

JSON = t.Any
ON_DELETE = {"type": "OnDelete"}


def partition(number: int) -> JSON:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}


def strategy(made: Cluster, ref: Ref, value: JSON) -> None:
    made.workloads[ref]["spec"]["updateStrategy"] = value


def disks(snapshot: Snapshot, *zones: str) -> Snapshot:
    """The claims of `db`, in these zones."""
    terms = {
        ("shop", f"data-db-{number}"): (NodeTerm((Requirement(ZONE, "In", (zone,)),)),)
        for number, zone in enumerate(zones)
    }
    return dataclasses.replace(snapshot, claim_terms=terms)


def answered(snapshot: Snapshot, *writes: Write, members: t.Collection[Ref] = ()) -> Forecast:
    change = what_if(snapshot, writes=writes, members=members)
    return forecast(change, doubts=doubts_of_change(change))


def replaced(snapshot: Snapshot, *writes: Write, members: t.Collection[Ref] = ()) -> list[str]:
    pending = what_if(snapshot, writes=writes, members=members).pending
    return [x.replaces.name for x in pending if x.replaces]


def test_each_replica_is_replaced_once_its_old_pod_is_gone() -> None:
    """Three replicas kept apart by zone need three zones, and no fourth for a surge."""
    made = cluster("abc")
    db = stateful_set(made, "db", ("n1", "n2", "n3"))

    change = what_if(made.snapshot(), writes=[apart_by_zone(db)])

    assert [pending.reason for pending in change.pending] == ["replace"] * 3
    found = forecast(change, doubts=doubts_of_change(change))
    assert found.answer is ForecastResult.POSSIBLE, found.reasons
    assert found.instances_to_schedule == 3


def test_more_replicas_than_zones_cannot_be_kept_apart() -> None:
    made = cluster("ab")
    db = stateful_set(made, "db", ("n1", "n2", "n2"))
    assert answered(made.snapshot(), apart_by_zone(db)).answer is ForecastResult.IMPOSSIBLE


def apart_by_zone(db: Ref) -> Write:
    return template_write(db, "affinity", keep_apart(plain=True, app="db"))


@pytest.mark.parametrize(
    ("zones", "answer"), [("abc", ForecastResult.POSSIBLE), ("acc", ForecastResult.IMPOSSIBLE)]
)
def test_replica_returns_to_the_zone_of_its_disk(zones: str, answer: ForecastResult) -> None:
    made = cluster("abc")
    db = stateful_set(made, "db", ("n1", "n2", "n3"))
    assert answered(disks(made.snapshot(), *zones), apart_by_zone(db)).answer is answer


def test_zone_without_the_disk_of_a_replica_is_impossible() -> None:
    made = cluster("abc")
    db = stateful_set(made, "db", ("n1", "n2"))
    found = answered(disks(made.snapshot(), "a", "b"), pinned(db, "a"))
    assert found.answer is ForecastResult.IMPOSSIBLE
    assert any("db-1" in reason for reason in found.reasons), found.reasons


@pytest.mark.parametrize(
    ("kept", "names"), [(0, ["db-0", "db-1"]), (1, ["db-1"]), (2, []), (7, [])]
)
def test_replica_below_the_partition_keeps_its_constraints(kept: int, names: list[str]) -> None:
    made = cluster("ab")
    db = stateful_set(made, "db", ("n1", "n2"))
    strategy(made, db, partition(kept))
    assert replaced(made.snapshot(), pinned(db, "b")) == names


def test_replica_below_the_partition_returns_with_its_constraints_after_a_drain() -> None:
    """newVersionedStatefulSetPod: it is made from the revision before the present template."""
    made = cluster("aab")
    db = stateful_set(made, "db", ("n1", "n3"))
    strategy(made, db, partition(1))
    change = what_if(made.snapshot(), writes=[pinned(db, "b")], lost_nodes=["n1"])
    terms = {x.replaces.name: x.pod.placement.node_terms for x in change.pending if x.replaces}
    assert terms["db-0"] is None
    assert terms["db-1"] is not None


def test_strategy_on_delete_leaves_the_replacement_to_moves_one_by_one() -> None:
    made = cluster("ab")
    db = stateful_set(made, "db", ("n1", "n2"))
    strategy(made, db, ON_DELETE)
    write = pinned(db, "c")
    assert answered(made.snapshot(), write).answer is ForecastResult.IMPOSSIBLE

    made.workloads[db]["status"] = {"updateRevision": "db-2"}
    for (_namespace, name), pod in made.pods.items():
        pod["metadata"]["labels"]["controller-revision-hash"] = "db-2" if name == "db-1" else "db-1"
    later = written(made.snapshot(), [write])
    assert replaced(later, members=[db]) == ["db-0"]
    assert answered(later, members=[db]).answer is ForecastResult.IMPOSSIBLE


def test_replica_that_is_not_ready_holds_the_rollout() -> None:
    made = cluster("ab")
    db = stateful_set(made, "db", ("n1", "n2"))
    made.pods["shop", "db-0"]["status"]["conditions"] = []
    found = answered(made.snapshot(), pinned(db, "a", "b"))
    assert "ordered_start" in found.codes
    assert any("replaces no replica before its Pod shop/db-0" in x for x in found.reasons)

    made.workloads[db]["spec"]["podManagementPolicy"] = "Parallel"
    assert "ordered_start" not in answered(made.snapshot(), pinned(db, "a", "b")).codes


@pytest.mark.parametrize("most", [1, 2, "50%"])
def test_replicas_that_are_replaced_together_leave_no_proof_by_one_order(
    most: JSON,
) -> None:
    """MaxUnavailableStatefulSet: with two of four, one may take the zone that another one leaves."""
    made = cluster("abcd")
    apart = {"affinity": keep_apart(plain=True, app="db")}
    db = stateful_set(made, "db", ("n1", "n2", "n3", "n4"), apart)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": most}}
    strategy(made, db, rolling)
    write = template_write(db, "tolerations", [{"key": "gpu", "operator": "Exists"}])
    change = what_if(made.snapshot(), writes=[write])
    states = {("shop", f"data-db-{number}"): ClaimState() for number in range(4)}
    (doubt,) = forecast(known(change, states)).evidence[0].doubts
    assert doubt.code == "old_pods_end"
    assert (doubt.forbids == NO_GUARANTEE) is (most == 1)
    assert (doubt.forbids == NO_CERTAINTY) is (most != 1)
