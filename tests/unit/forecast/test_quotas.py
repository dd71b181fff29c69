# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What forecasts and drills say where a ResourceQuota has no room, or where it is not known."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import (
    ChangedCluster,
    what_if,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.eviction import NodeEvent
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.quota import within_quotas
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.model.admission import LimitRange
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Pod,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method, Move
from ansible_collections.virt.placement.plugins.module_utils.model.quota import Quota
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Migration,
    Snapshot,
)
from tests.support.cluster import HOST, Cluster, cluster, configure, deployment, machine
from tests.unit.planning.scenes import lost, pinned, written


def answers(made: Cluster, event: NodeEvent = "drain") -> tuple[str, str, str]:
    """What a forecast and a drill answer for the loss of n1, and the drill's last reason."""
    found = lost(made, "n1", event=event)
    drills = drill(made.snapshot(), [HOST], event=event).drills
    (node,) = [x for x in drills if x.domain == "n1"]
    return found.answer.value, node.answer.value, node.reasons[-1] if node.reasons else ""


def limited(made: Cluster, used: int = 2, **hard: int) -> Cluster:
    hard = {name.replace("_", "."): amount for name, amount in hard.items()}
    made.more["quotas"] = (Quota("shop", "small", hard, {"pods": used}),)
    return made


@pytest.mark.parametrize(("pods", "answer"), [(2, "impossible"), (3, "guaranteed")])
def test_migration_needs_a_second_pod_in_the_quota(pods: int, answer: str) -> None:
    made = limited(cluster("ab"), pods=pods)
    machine(made, "db", "n1")
    machine(made, "web", "n2")

    *both, reason = answers(made)

    assert both == [answer, answer]
    refusal = "its live migration needs a second pod, and ResourceQuota shop/small allows 2 pods"
    assert (refusal in reason) == (answer == "impossible")


@pytest.mark.parametrize(("millicores", "answer"), [(1050, "impossible"), (1150, "guaranteed")])
def test_second_pod_is_counted_with_what_it_requests(millicores: int, answer: str) -> None:
    """It has a tenth of a CPU since cpuAllocationRatio was changed; the source has one."""
    made = limited(cluster("ab"), cpu=millicores)
    machine(made, "db", "n1")
    configure(made, cpuAllocationRatio=10)

    assert answers(made)[:2] == (answer, answer)


@pytest.mark.parametrize("kind", ["Job", "ReplicaSet", "ReplicationController", "CloneSet"])
def test_quota_refuses_the_next_pod_of_a_controller_of_another_kind(kind: str) -> None:
    made = limited(cluster("ab"), pods=0)
    owner = {"apiVersion": "x/v1", "kind": kind, "name": "batch", "uid": "u1", "controller": True}
    made.bare_pod("batch-1", "n1")["metadata"]["ownerReferences"] = [owner]

    assert answers(made)[:2] == ("impossible", "impossible")
    (reason,) = lost(made, "n1").reasons
    assert reason.startswith(f"the next pod of {kind} shop/batch: ResourceQuota shop/small allows")


def test_drill_counts_a_vm_that_a_quota_keeps_from_migrating() -> None:
    made = limited(cluster("ab"), used=1, pods=1)
    machine(made, "db", "n1")

    report = drill(made.snapshot(), [HOST], event="drain")

    (node,) = [x for x in report.drills if x.domain == "n1"]
    assert [ref.name for ref in node.not_migratable] == ["db"]
    assert (node.pending, node.min_unschedulable) == ((), 0)


@pytest.mark.parametrize("first", ["db", "web"])
def test_migration_beside_a_recreated_pod_is_unknown_where_a_quota_has_room_for_one(
    first: str,
) -> None:
    """The migration has room until the other pod is there again."""
    made = limited(cluster("ab"), pods=2)
    for name in (first, "web" if first == "db" else "db"):
        if name == "db":
            machine(made, "db", "n1")
        else:
            deployment(made, "web", ["n1"], {})

    *both, reason = answers(made)

    assert both == ["unknown", "unknown"]
    assert reason.endswith(
        "db: beside other new pods, ResourceQuota shop/small allows 2 pods, and 3 are needed"
    )


def test_migration_that_waits_for_a_node_has_its_share_of_a_quota() -> None:
    made = limited(cluster("ab"), pods=2)
    db = machine(made, "db", "n1")
    made.launcher("db", "")
    ref = Ref("VirtualMachineInstanceMigration", "shop", "by-hand")
    made.more["migrations"] = (Migration(ref, "u-by-hand", "db", "Scheduling"),)
    change = what_if(made.snapshot(), members=[db])

    assert forecast(change).answer.value == "guaranteed"


@pytest.mark.parametrize(("grace", "answer"), [(30, "guaranteed"), (315360000, "impossible")])
def test_pod_that_terminates_for_hours_keeps_its_share(grace: int, answer: str) -> None:
    made = limited(cluster("ab"), pods=2)
    machine(made, "db", "n1")
    pod = made.bare_pod("slow", "n2")
    pod["metadata"].update(
        deletionTimestamp="2036-01-01T00:00:00Z", deletionGracePeriodSeconds=grace
    )

    assert answers(made)[:2] == (answer, answer)


@pytest.mark.parametrize(("pods", "answer"), [(1, "impossible"), (2, "guaranteed")])
def test_recreated_pod_takes_the_share_of_the_one_that_ended(pods: int, answer: str) -> None:
    """The quota was made smaller since: with one pod left it has no room for the second again."""
    made = limited(cluster("ab"), pods=pods)
    deployment(made, "web", ["n1", "n2"], {})

    assert answers(made)[:2] == (answer, answer)


def test_new_pods_add_up_in_a_quota_and_migrations_do_not() -> None:
    recreated = limited(cluster("ab"), pods=1)
    deployment(recreated, "web", ["n1", "n1"], {})
    migrated = limited(cluster("ab"), pods=3)
    machine(migrated, "db", "n1")
    machine(migrated, "web", "n1")

    assert answers(recreated)[:2] == ("impossible", "impossible")
    assert answers(migrated)[:2] == ("guaranteed", "guaranteed")


@pytest.mark.parametrize(("event", "answer"), [("drain", "unknown"), ("failure", "unknown")])
def test_forecast_is_unknown_where_a_quota_counts_what_is_not_known(
    event: t.Any, answer: str
) -> None:
    made = limited(cluster("ab"), limits_memory=1024**3)
    machine(made, "db", "n1")

    *both, reason = answers(made, event)

    assert both == [answer, answer]
    assert "ResourceQuota shop/small may refuse its pod: limits.memory of the next pod" in reason


@pytest.mark.parametrize(("pods", "answer"), [(3, "impossible"), (4, "guaranteed")])
def test_rollout_needs_room_for_its_surge_and_not_for_all_new_pods(pods: int, answer: str) -> None:
    made = limited(cluster("abc"), used=3, pods=pods)
    web = deployment(made, "web", ["n1", "n2", "n3"], {})

    assert written(made, pinned(web, "a", "b")).answer.value == answer


def test_rollout_beside_a_new_vm_is_unknown_where_a_quota_has_room_for_one_of_them() -> None:
    """The rollout has room if it ends first."""
    made = limited(cluster("ab"), used=1, pods=2)
    web = deployment(made, "web", ["n1"], {})
    halted = machine(made, "db", "")

    found = written(made, pinned(web, "a"), pinned(halted, "b"))

    assert found.answer.value == "unknown"
    assert found.reasons[-1] == (
        "the next pod of Deployment shop/web: beside other new pods, ResourceQuota shop/small allows 2 pods, and 3 are"
        " needed"
    )


def without_surge(made: Cluster, waiting: int) -> Ref:
    """A Deployment of a running pod and these that wait, of which one may be unavailable."""
    web = deployment(made, "web", ["n1", *[""] * waiting], {})
    rolling = {"maxSurge": 0, "maxUnavailable": 1}
    made.workloads[web]["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return web


@pytest.mark.parametrize(("pods", "answer"), [(0, "unknown"), (1, "guaranteed")])
def test_rollout_that_ends_a_pod_first_may_create_none_where_a_quota_is_exceeded(
    pods: int, answer: str
) -> None:
    made = limited(cluster("ab"), pods=pods)
    web = without_surge(made, waiting=0)

    assert written(made, pinned(web, "a", "b")).answer.value == answer


def test_rollout_may_end_a_waiting_pod_before_a_quota_counts_the_new_one() -> None:
    made = limited(cluster("ab"), pods=2)
    web = without_surge(made, waiting=1)

    assert written(made, pinned(web, "a", "b")).answer.value == "unknown"


def test_quota_of_another_namespace_is_not_counted() -> None:
    made = cluster("ab")
    made.more["quotas"] = (Quota("other", "small", {"pods": 0, "limits.cpu": 0}, {}),)
    machine(made, "db", "n1")

    assert answers(made) == ("guaranteed", "guaranteed", "")


class CountedName(str):
    """The name of a node, which counts how often any is compared."""

    comparisons = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


def test_work_for_a_quota_grows_with_moves_and_not_with_moves_times_pods() -> None:
    names = [f"v{number}" for number in range(400)]
    pods = tuple(
        Pod("a", x, uid=x, node_name=CountedName("n1"), owner=Owner("VMI", x, x)) for x in names
    )
    quotas = (Quota("shop", "small", {"pods": 1}, {}),)
    made = Snapshot(pods=pods, quotas=quotas)
    change = ChangedCluster(made, made, frozenset(), frozenset(), frozenset(), "drain", ())
    refs = [Ref("VirtualMachineInstance", "a", x) for x in names]
    moves = tuple(Move(x, x.name, x, Method.MIGRATE, CountedName("n1"), (), "") for x in refs)
    CountedName.comparisons = 0

    result = within_quotas(Forecast(ForecastResult.GUARANTEED, moves=moves), change)

    assert result.moves == moves
    assert CountedName.comparisons <= 4 * len(names)


GOLD = Requirement("PriorityClass", "In", ("gold",))


@pytest.mark.parametrize(
    ("default", "answer"), [("", "guaranteed"), ("gold", "impossible"), (None, "unknown")]
)
def test_case_77_quota_of_another_priority_class_has_no_effect(
    default: str | None, answer: str
) -> None:
    """A VM without a PriorityClass gets the default one. Where that could not be read, nothing is claimed."""
    made = cluster("ab")
    made.more["quotas"] = (Quota("shop", "no-gold", {"pods": 0}, {}, (GOLD,)),)
    made.more["default_priority_class"] = default
    machine(made, "quay-1", "n1")

    assert answers(made)[:2] == (answer, answer)


def test_case_77_quota_of_the_own_priority_class_counts() -> None:
    made = cluster("ab")
    made.more["quotas"] = (Quota("shop", "no-gold", {"pods": 1}, {}, (GOLD,)),)
    made.more["default_priority_class"] = None
    machine(made, "quay-1", "n1")
    for pod in made.pods.values():
        pod["spec"]["priorityClassName"] = "gold"

    assert answers(made)[:2] == ("impossible", "impossible")


@pytest.mark.parametrize(
    ("ranges", "answer"), [((), "impossible"), (None, "unknown"), (("shop",), "unknown")]
)
def test_case_77_container_that_does_not_specify_what_a_quota_limits_is_refused(
    ranges: tuple[str, ...] | None, answer: str
) -> None:
    """Only where no LimitRange may complete it."""
    made = cluster("ab")
    deployment(made, "web", ["n1"], {})
    made.more["quotas"] = (Quota("shop", "small", {"pods": 9, "limits.cpu": 9000}, {}),)
    listed = [LimitRange(name, "limits") for name in ranges or ()]
    made.more["limit_ranges"] = None if ranges is None else tuple(listed)

    *both, reason = answers(made)

    assert both == [answer, answer]
    refused = (
        "ResourceQuota shop/small refuses a pod with a container that does not specify limits.cpu"
    )
    assert (refused in reason) == (answer == "impossible")


def test_kubevirt_may_set_what_a_quota_asks_of_a_launcher_pod() -> None:
    made = cluster("ab")
    machine(made, "db", "n1")
    made.more["quotas"] = (Quota("shop", "small", {"pods": 9, "limits.cpu": 9000}, {}),)

    assert answers(made)[:2] == ("unknown", "unknown")
