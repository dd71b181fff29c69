# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the Lease is taken, renewed and released, and what each answer means for its holder."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.transport import uptime
from ansible_collections.virt.placement.plugins.module_utils.cluster import lease
from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import (
    HeldLease,
    LeaseKeeper,
    LeaseLost,
    LeaseReading,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from tests.support.api_server import RESET, ApiServer, Reply, answer, status

JOURNAL, RUN = "placement.virt/journal", "placement.virt/run"
HOLDER, WHO = "placement.virt/holder", "mover on host ops, job 7"
HELD = HeldLease("r1", 4)
FREE = LeaseReading(transitions=3, resource_version="7")
TAKEN = status(409, "AlreadyExists")
TEST_FAILED = status(422, "Invalid", "testing value /spec/holderIdentity failed")


def there(holder: str, term: int, journal: str = "", **annotations: str) -> Reply:
    return answer(
        {
            "metadata": {
                "resourceVersion": "8",
                "annotations": {JOURNAL: journal, RUN: f"{holder}.{term}", **annotations},
            },
            "spec": {"holderIdentity": holder, "leaseTransitions": term, "renewTime": "now"},
        }
    )


@pytest.fixture(autouse=True)
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the holder is called costs a request of its own, see test_account."""
    monkeypatch.setattr(lease, "holder_text", lambda _api: WHO)


def patched(server: ApiServer, number: int = -1) -> dict[str, t.Any]:
    return {f"{x['op']} {x['path']}": x["value"] for x in server.seen[number].body}


def test_missing_lease_is_created_by_the_run_that_takes_it(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(answer({}, 201))
    assert lease.take(api, LeaseReading(), "r1", "text") == HeldLease("r1", 1)
    (sent,) = server.seen
    assert sent.method == "POST"
    assert sent.path.partition("?")[0] == lease.PATH.rpartition("/")[0]
    assert sent.body["metadata"]["name"] == "virt-placement"
    assert sent.body["metadata"]["annotations"] == {
        JOURNAL: "text",
        RUN: "r1.1",
        HOLDER: f"r1.1 {WHO}",
    }
    spec = sent.body["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("r1", 1)
    assert spec["leaseDurationSeconds"] == lease.DURATION
    assert spec["acquireTime"] == spec["renewTime"]


def test_lease_that_another_run_created_first_is_not_taken(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(TAKEN)
    assert lease.take(api, LeaseReading(), "r1", "text") is None


@pytest.mark.parametrize(
    ("now", "held"),
    [
        (there("r1", 1, "text"), HeldLease("r1", 1)),
        (there("r2", 1, "text"), None),
        (status(404, "NotFound"), None),
    ],
)
def test_creation_whose_answer_was_lost_is_read_back(
    server: ApiServer, api: ApiClient, now: Reply, held: HeldLease | None
) -> None:
    server.plays(RESET, now)
    assert lease.take(api, LeaseReading(), "r1", "text") == held


def test_lease_that_may_not_be_created_names_the_manifest(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(answer({"status": {"allowed": False}}, 201))
    with pytest.raises(InvalidInput, match=r"kube-system/virt-placement.*rbac/lease\.yml"):
        lease.require(api, LeaseReading())
    (review,) = server.seen
    assert review.body["spec"]["resourceAttributes"] == {
        "verb": "create",
        "group": "coordination.k8s.io",
        "resource": "leases",
        "namespace": "kube-system",
    }
    server.plays(answer({"status": {"allowed": True}}, 201))
    lease.require(api, LeaseReading())
    lease.require(api, FREE)
    assert len(server.seen) == 2


def test_free_lease_is_taken_as_it_was_read(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({}))
    assert lease.take(api, FREE, "r1", "text") == HELD
    sent = patched(server)
    assert sent["test /metadata/resourceVersion"] == "7"
    assert (sent["add /spec/holderIdentity"], sent["add /spec/leaseTransitions"]) == ("r1", 4)
    assert sent["add /metadata/annotations/placement.virt~1journal"] == "text"
    assert sent["add /metadata/annotations/placement.virt~1run"] == "r1.4"
    assert sent["add /metadata/annotations/placement.virt~1holder"] == f"r1.4 {WHO}"
    assert "add /metadata/annotations" not in sent


@pytest.mark.parametrize(("term", "text"), [(4, f" ({WHO})"), (3, "")])
def test_holder_is_described_by_its_own_annotation_alone(
    server: ApiServer, api: ApiClient, term: int, text: str
) -> None:
    server.plays(there("r1", 4, **{HOLDER: f"r1.{term} {WHO}"}))
    assert lease.read(api).holder_words == f"run r1{text}"


def test_lease_without_annotations_gets_some(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({}))
    lease.take(
        api, LeaseReading(transitions=3, resource_version="7", annotated=False), "r1", "text"
    )
    assert patched(server)["add /metadata/annotations"] == {}


@pytest.mark.parametrize("reply", [TAKEN, TEST_FAILED])
def test_lease_that_another_run_took_first_is_not_taken(
    server: ApiServer, api: ApiClient, reply: Reply
) -> None:
    server.plays(reply)
    assert lease.take(api, FREE, "r1", "text") is None


@pytest.mark.parametrize(
    ("now", "held"),
    [
        (there("r1", 4, "text"), HELD),
        (there("r1", 4, "older"), None),
        (there("r1", 5, "text"), None),
        (there("r2", 4, "text"), None),
    ],
)
def test_take_whose_answer_was_lost_is_read_back(
    server: ApiServer, api: ApiClient, now: Reply, held: HeldLease | None
) -> None:
    server.plays(RESET, now)
    assert lease.take(api, FREE, "r1", "text") == held


def test_take_without_the_right_fails(server: ApiServer, api: ApiClient) -> None:
    server.plays(status(403, "Forbidden"))
    with pytest.raises(errors.Forbidden):
        lease.take(api, FREE, "r1", "text")


def test_renewal_tests_holder_and_term(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({}))
    lease.renew(api, HELD, "text")
    sent = patched(server)
    assert (sent["test /spec/holderIdentity"], sent["test /spec/leaseTransitions"]) == ("r1", 4)
    assert sent["add /metadata/annotations/placement.virt~1journal"] == "text"
    assert "replace /spec/holderIdentity" not in sent


def test_release_leaves_the_journal_for_the_next_run(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({}))
    lease.release(api, HELD, "text")
    sent = patched(server)
    assert sent["replace /spec/holderIdentity"] == ""
    assert sent["add /metadata/annotations/placement.virt~1journal"] == "text"


@pytest.mark.parametrize("reply", [TEST_FAILED, status(404, "NotFound")], ids=["422", "404"])
def test_renewal_of_a_lost_lease(server: ApiServer, api: ApiClient, reply: Reply) -> None:
    server.plays(reply, there("r2", 5))
    with pytest.raises(LeaseLost, match="is held by r2 now"):
        lease.renew(api, HELD, "text")


def test_renewal_whose_answer_was_lost_is_sent_again(server: ApiServer, api: ApiClient) -> None:
    server.plays(RESET, there("r1", 4), answer({}))
    lease.renew(api, HELD, "text")
    assert patched(server, 2) == patched(server, 0)


@pytest.mark.parametrize("now", [there("r2", 5), there("r1", 5), there("r2", 4)])
def test_renewal_whose_answer_was_lost_raises_lease_lost_if_another_run_holds_it(
    server: ApiServer, api: ApiClient, now: Reply
) -> None:
    server.plays(RESET, now)
    with pytest.raises(LeaseLost):
        lease.renew(api, HELD, "text")
    assert len(server.seen) == 2


def test_release_whose_answer_was_lost_succeeded(server: ApiServer, api: ApiClient) -> None:
    server.plays(RESET, there("", 4))
    lease.release(api, HELD)
    assert len(server.seen) == 2


def test_reading(server: ApiServer, api: ApiClient) -> None:
    server.plays(there("r2", 5, "text"))
    assert lease.read(api) == LeaseReading("r2", 5, "now", "text", "8", "r2.5")
    server.plays(answer({"metadata": {"resourceVersion": "8"}}))
    assert lease.read(api) == LeaseReading(resource_version="8", annotated=False)
    server.plays(status(404, "NotFound"))
    assert lease.read(api).resource_version == ""


def test_age_counts_from_the_last_renewal(server: ApiServer, api: ApiClient) -> None:
    server.plays(answer({}))
    keeper = LeaseKeeper(api, HELD, uptime() - 60, "text")
    assert keeper.age == pytest.approx(60, abs=5)
    assert keeper.api_while_ours().deadline.expired
    keeper.renew("text")
    assert keeper.age == pytest.approx(0, abs=5)
    left = keeper.api_while_ours().deadline.remaining
    assert left == pytest.approx(lease.DURATION - lease.SAFETY, abs=5)
    assert left <= lease.DURATION - lease.SAFETY


def test_age_grows_while_renewals_fail(server: ApiServer, api: ApiClient) -> None:
    server.plays(TEST_FAILED, there("r2", 5))
    keeper = LeaseKeeper(api, HELD, uptime() - 60, "text")
    with pytest.raises(LeaseLost):
        keeper.renew("text")
    assert keeper.age == pytest.approx(60, abs=5)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_IN_BACKGROUND", 0.05)
    monkeypatch.setattr(lease, "RENEW_PAUSE", 0.01)


def until(condition: t.Callable[[], bool]) -> None:
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


@pytest.mark.usefixtures("hurried")
def test_lease_is_renewed_beside_long_work_with_the_journal_that_is_on_it(
    server: ApiServer, api: ApiClient
) -> None:
    server.plays(answer({}))
    keeper = LeaseKeeper(api, HELD, uptime() - 15, "first")
    with keeper.renewed_in_background():
        until(lambda: len(server.seen) >= 2)
        assert patched(server)["add /metadata/annotations/placement.virt~1journal"] == "first"
        keeper.renew("second")
        sent = len(server.seen)
        until(lambda: len(server.seen) > sent + 1)
        assert patched(server)["add /metadata/annotations/placement.virt~1journal"] == "second"
        assert keeper.age < 10
        keeper.release("")
        assert patched(server)["replace /spec/holderIdentity"] == ""
        sent = len(server.seen)
        time.sleep(0.2)
        assert len(server.seen) == sent, "a Lease that was released is not renewed"


@pytest.mark.usefixtures("hurried")
def test_lease_that_is_lost_beside_long_work_grows_old(server: ApiServer, api: ApiClient) -> None:
    server.plays(TEST_FAILED, there("r2", 5))
    keeper = LeaseKeeper(api, HELD, uptime() - 60, "text")
    with keeper.renewed_in_background():
        until(lambda: len(server.seen) == 2)
        time.sleep(0.1)
    assert len(server.seen) == 2, "it is not tried again"
    assert keeper.age == pytest.approx(60, abs=5)
    assert keeper.api_while_ours().deadline.expired


def test_the_age_of_a_lease_counts_the_time_that_the_computer_slept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def gettime(clock: int) -> float:
        asked.append(clock)
        return 1000.0

    monkeypatch.setattr(time, "clock_gettime", gettime)
    keeper = LeaseKeeper(t.cast(t.Any, None), HELD, 900.0, "")
    assert keeper.age == 100.0
    assert asked == [getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)]
