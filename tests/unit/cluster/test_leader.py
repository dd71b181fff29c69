# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether virt-controller renews its Lease, as a run sees it between its own outages."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.cluster.leader import Leader
from tests.support.api_server import ApiServer


class Run:
    """A run that looks at the Lease, each time in a new step."""

    def __init__(self) -> None:
        self.server = ApiServer()
        self.known: dict[str, t.Any] = {}
        self.renew("10:00:00")

    def renew(self, at: str) -> None:
        lease = {"metadata": LEASE, "spec": {"renewTime": at}}
        self.server.store("/apis/coordination.k8s.io/v1/leases", lease)

    def silence(self, now: float) -> str:
        leader = Leader(self.server.client(), self.known)
        leader.look("kubevirt", now)
        return str(leader.silence or "")


LEASE = {"namespace": "kubevirt", "name": "virt-controller"}


def test_lease_that_is_read_and_not_renewed_for_30_s_is_named() -> None:
    run = Run()
    seen = {now: bool(run.silence(now)) for now in (0.0, 15.0, 30.0, 44.0, 45.0, 50.0)}
    assert seen == {0.0: False, 15.0: False, 30.0: False, 44.0: False, 45.0: True, 50.0: True}
    assert "Lease kubevirt/virt-controller was renewed last at 10:00:00" in run.silence(50.0)
    run.renew("10:01:00")
    assert run.silence(60.0) == ""


def test_time_in_which_nothing_was_read_is_no_silence_of_virt_controller() -> None:
    """The API server was away: virt-controller could not renew its Lease either."""
    run = Run()
    assert [run.silence(now) for now in (0.0, 15.0, 80.0, 90.0)] == [""] * 4
    assert run.silence(95.0) == ""
    run.renew("10:01:35")
    assert [run.silence(now) for now in (110.0, 124.0)] == [""] * 2


def test_lease_that_stays_as_it_was_after_an_outage_is_named() -> None:
    run = Run()
    seen = [bool(run.silence(now)) for now in (0.0, 15.0, 80.0, 95.0, 110.0)]
    assert seen == [False, False, False, False, True]


def test_silence_is_judged_by_what_was_read() -> None:
    """The next reading may be about to show a renewal."""
    run = Run()
    assert [run.silence(now) for now in (0.0, 15.0, 44.0)] == [""] * 3
    assert run.silence(46.0) == ""
    run.renew("10:00:50")
    assert run.silence(59.0) == ""
