# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Times of day in which a rollout begins moves, and a maintenance begins nodes. Pure."""

from __future__ import annotations

import datetime
import re
import typing as t
import zoneinfo
from dataclasses import dataclass

from ..model.findings import InputError
from ..model.json_pointer import JSON
from ..model.obstacle import OUTSIDE_OF_WINDOW, Obstacle

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""Values of `window.days`, in the order of `datetime.weekday()`."""


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end` on the clock of a time zone; it may cross midnight.

    `days` are the weekdays on which it starts, empty for all. A window that crosses midnight belongs
    to the day on which it starts. Wall-clock times are compared in that zone, so on the day that
    daylight saving changes the window is as long as the clock on the wall says.
    """

    start: datetime.time
    end: datetime.time
    zone: datetime.tzinfo
    days: frozenset[int] = frozenset()

    def __contains__(self, moment: datetime.datetime) -> bool:
        local = moment.astimezone(self.zone)
        now, day = local.time(), local.weekday()
        if self.start < self.end:
            return self._starts_on(day) and self.start <= now < self.end
        if now >= self.start:
            return self._starts_on(day)
        return now < self.end and self._starts_on((day - 1) % len(DAYS))

    def next_start(self, moment: datetime.datetime) -> datetime.datetime:
        """When the window opens first after this moment."""
        local = moment.astimezone(self.zone)
        days = (local.date() + datetime.timedelta(days=number) for number in range(len(DAYS) + 1))
        starts = (
            datetime.datetime.combine(day, self.start, self.zone)
            for day in days
            if self._starts_on(day.weekday())
        )
        return next(start for start in starts if start > moment)

    def opens_next(self, moment: datetime.datetime) -> str:
        """When a job can begin what it has not begun: ` in the window, which opens next on ...`."""
        start = self.next_start(moment)
        return (
            f" in the window, which opens next on {start:%a %Y-%m-%d} at {start:%H:%M} {self.zone}"
        )

    @property
    def outside(self) -> Obstacle:
        """Why nothing is begun outside of it."""
        return Obstacle(OUTSIDE_OF_WINDOW, f"outside of the window from {self}")

    def _starts_on(self, day: int) -> bool:
        return not self.days or day in self.days

    def __str__(self) -> str:
        days = f" on {', '.join(DAYS[day] for day in sorted(self.days))}" if self.days else ""
        return f"{self.start:%H:%M} to {self.end:%H:%M} {self.zone}{days}"


def parse_window(
    given: t.Mapping[str, JSON] | None,
) -> tuple[Window | None, tuple[InputError, ...]]:
    """The window, or every fault of it. Nothing given is no window."""
    if not given:
        return None, ()
    faults: list[InputError] = []
    start = _time(given.get("start"), "window.start", faults)
    end = _time(given.get("end"), "window.end", faults)
    days = _days(given.get("days"), faults)
    zone = _zone(given.get("timezone") or "UTC", faults)
    if start is not None and start == end:
        faults.append(InputError("window", "start and end are the same: no move could ever begin"))
    if faults or start is None or end is None or zone is None:
        return None, tuple(faults)
    return Window(start, end, zone, days), ()


def _days(names: t.Sequence[str] | None, faults: list[InputError]) -> frozenset[int]:
    if names is None:
        return frozenset()
    if not names:
        faults.append(InputError("window.days", "must not be empty; leave it out for every day"))
    for name in dict.fromkeys(names):
        if name not in DAYS:
            faults.append(InputError("window.days", f"'{name}' is not one of {', '.join(DAYS)}"))
    return frozenset(DAYS.index(name) for name in names if name in DAYS)


def _time(text: str | None, where: str, faults: list[InputError]) -> datetime.time | None:
    match = _CLOCK.fullmatch(text or "")
    if match is None:
        faults.append(InputError(where, f"'{text}' is no time of day such as \"22:00\" (quote it)"))
        return None
    return datetime.time(int(match[1]), int(match[2]))


def _zone(name: str, faults: list[InputError]) -> datetime.tzinfo | None:
    if name == "UTC":
        return datetime.timezone.utc
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        faults.append(
            InputError("window.timezone", f"'{name}' is no time zone that this host knows")
        )
        return None
