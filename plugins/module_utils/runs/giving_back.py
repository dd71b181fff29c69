# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a run that does not end well leaves the Lease, and what it says of that."""

from __future__ import annotations

from ..api.deadline import Deadline
from ..api.errors import ApiError
from ..api.requests import Api
from ..cluster import lease
from ..cluster.lease import Held, LeaseLost
from . import journal as journals
from . import results
from .journal import Journal

LIMIT = 5.0
"""Seconds that it may take: the server may be the very reason for ending, and the time over."""


def give_back(api: Api, held: Held, text: str) -> str:
    """Release the Lease with this journal. Returns nothing, or the end of a sentence that says why
    it could not be released."""
    try:
        lease.release(api.under(Deadline(LIMIT)), held, text)
    except LeaseLost as lost:
        return f"; {lost}"
    except ApiError as error:
        return f"; {lease.NAME} could not be given back and is free in {lease.DURATION} s: {error}"
    return ""


def leave(api: Api, held: Held, journal: Journal | None) -> str:
    """Release the Lease for whoever goes on. Returns the end of a sentence that names what is in
    flight, and says whether the Lease is free. `journal` None: the one that stands on the Lease."""
    if journal is not None:
        text = journals.write(journal)
    else:
        try:
            text = lease.read(api.under(Deadline(LIMIT))).journal
        except ApiError as error:
            return (
                f"; {lease.NAME} could not be read, so it is not known what is in flight, and is"
                f" free in {lease.DURATION} s: {error}"
            )
    return results.in_flight(text) + give_back(api, held, text)
