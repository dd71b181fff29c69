# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hours in which moves may begin. Pure but for the time that it is asked about."""

from __future__ import annotations

import datetime
import re
import typing as t
import zoneinfo
from dataclasses import dataclass

from ..model.finding import Fault

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class Window:
    """From `start` to `end` on the clock of a time zone; it may pass midnight.

    Wall-clock times are compared in that zone, so on the day that daylight saving changes the
    window is as long as the clock on the wall says.
    """

    start: datetime.time
    end: datetime.time
    zone: datetime.tzinfo

    def __contains__(self, moment: datetime.datetime) -> bool:
        now = moment.astimezone(self.zone).time()
        if self.start < self.end:
            return self.start <= now < self.end
        return now >= self.start or now < self.end

    def __str__(self) -> str:
        return f"{self.start:%H:%M} to {self.end:%H:%M} {self.zone}"


def parse_window(given: t.Mapping[str, str] | None) -> tuple[Window | None, tuple[Fault, ...]]:
    """The window, or every fault of it. Nothing given is no window."""
    if not given:
        return None, ()
    faults: list[Fault] = []
    start = _time(given.get("start"), "window.start", faults)
    end = _time(given.get("end"), "window.end", faults)
    zone = _zone(given.get("timezone") or "UTC", faults)
    if start is not None and start == end:
        faults.append(Fault("window", "start and end are the same: no move could ever begin"))
    if faults or start is None or end is None or zone is None:
        return None, tuple(faults)
    return Window(start, end, zone), ()


def _time(text: str | None, where: str, faults: list[Fault]) -> datetime.time | None:
    found = _CLOCK.fullmatch(text or "")
    if found is None:
        faults.append(Fault(where, f"'{text}' is no time of day such as \"22:00\" (quote it)"))
        return None
    return datetime.time(int(found[1]), int(found[2]))


def _zone(name: str, faults: list[Fault]) -> datetime.tzinfo | None:
    if name == "UTC":
        return datetime.timezone.utc
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        faults.append(Fault("window.timezone", f"'{name}' is no time zone that this host knows"))
        return None
