# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the Lease may be taken: by what was seen to change, never by what a clock says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.lease import (
    HeldLease,
    LeaseLost,
    LeaseReading,
    LeaseWatch,
    lease_state,
)

HELD = LeaseReading("r-other", 3, "2026-06-01T12:00:00.000000Z", resource_version="9")


def test_lease_without_holder_is_free() -> None:
    assert lease_state(LeaseReading(), LeaseWatch(), 0).free
    assert lease_state(replace(HELD, holder=""), LeaseWatch(), 0).free


def test_lease_that_is_read_for_the_first_time_is_not_free() -> None:
    judged = lease_state(HELD, LeaseWatch(), 100)
    assert not judged.free
    assert not judged.renewing
    assert judged.watched.since == 100


def test_lease_without_renewal_is_free_after_its_duration() -> None:
    watched = lease_state(HELD, LeaseWatch(), 100).watched
    assert not lease_state(HELD, watched, 119.9).free
    assert lease_state(HELD, watched, 120).free


def test_renewed_lease_is_held_whatever_its_renew_time() -> None:
    watched = lease_state(HELD, LeaseWatch(), 100).watched
    renewed = replace(HELD, renewed="1970-01-01T00:00:00.000000Z")
    judged = lease_state(renewed, watched, 300)
    assert judged.renewing
    assert not judged.free


def test_the_same_run_in_a_new_term_is_another_holder() -> None:
    watched = lease_state(HELD, LeaseWatch(), 100).watched
    assert lease_state(replace(HELD, transitions=4), watched, 300).renewing


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (HELD, "is held by r-other now (leaseTransitions 3)"),
        (
            replace(HELD, holder="", last_holder="r-other.3"),
            "was taken over by r-other.3, and released since",
        ),
        (LeaseReading(), "has no holder now"),
    ],
)
def test_lease_lost_names_the_new_holder(seen: LeaseReading, state: str) -> None:
    text = str(LeaseLost(HeldLease("r-mine", 2), seen))
    assert text.startswith(f"Lease kube-system/virt-placement {state}")
    assert "which held it as r-mine (leaseTransitions 2)" in text
