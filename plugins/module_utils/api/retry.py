# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether and when a failed request is sent again.

| what came | sent again |
|---|---|
| no connection | yes: nothing was sent. Not for a certificate that does not verify |
| 429 | yes, after Retry-After: it was not handled. Not an eviction that was said no to |
| 5xx, reset, silence, no JSON | reads, dry runs, deletes of one uid |
| the same for other writes | no: the outcome is not known, so the caller reads first |
| 401 | once, after the configuration was read again |
| anything else | no |
"""

from __future__ import annotations

import random
import typing as t
from dataclasses import dataclass

from .errors import (
    AnswerLost,
    ApiError,
    BadAnswer,
    ServerFault,
    Throttled,
    Unreachable,
)


@dataclass(frozen=True)
class RetryPolicy:
    """Pauses grow from `base` seconds to `cap`, half of each is random. After `patience` seconds
    of failing, a request is given up; after `first_contact` where no request has had an
    answer yet: that is a wrong address more often than an outage. `budget` bounds the retries
    of a whole run."""

    base: float = 0.2
    cap: float = 5.0
    patience: float = 60.0
    first_contact: float = 3.0
    budget: int = 1000
    draw: t.Callable[[], float] = random.random

    def pause(self, attempt: int) -> float:
        """Seconds to wait before attempt number `attempt` + 1, counted from 1."""
        full = min(self.cap, self.base * 2.0 ** (attempt - 1))
        return full * (0.5 + 0.5 * self.draw())

    def delay(self, error: ApiError, attempt: int, failing_for: float, met: bool) -> float | None:
        """Seconds until the request is sent again, None if it is not.

        `failing_for` is how long it has been failing, `met` whether this server ever answered.
        """
        if not self._worth_it(error):
            return None
        if failing_for >= (self.patience if met else self.first_contact):
            return None
        return max(error.retry_after or 0.0, self.pause(attempt))

    @staticmethod
    def _worth_it(error: ApiError) -> bool:
        if isinstance(error, Unreachable):
            return not error.final
        if isinstance(error, Throttled):
            return not (error.is_status and error.request.resource == "pods/eviction")
        if isinstance(error, (ServerFault, AnswerLost, BadAnswer)):
            return error.request.repeatable and error.status not in (501, 505)
        return False
