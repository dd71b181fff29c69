# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where options have faults the cluster is looked at all the same, so that all are told at once."""

from __future__ import annotations

import typing as t

from ..api.errors import ApiError, NoConfiguration
from ..api.requests import Api
from ..model.finding import Fault, Refused

LOOKING = 10.0
"""Seconds for which a cluster is asked for more faults where there are some already."""


def with_faults_of_the_cluster(
    api: Api, faults: t.Sequence[Fault], look: t.Callable[[Api], object], what: str
) -> tuple[Fault, ...]:
    """`faults` of the options, and those with which `look` is refused. `what` it looks at is named
    where it cannot."""
    try:
        look(api.under(api.deadline.within(LOOKING)))
    except Refused as error:
        return (*faults, *error.faults)
    except (ApiError, NoConfiguration) as error:
        return (*faults, Fault(what, f"not looked at, for more faults: {error}"))
    return tuple(faults)
