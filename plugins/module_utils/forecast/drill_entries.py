# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a result say for people of the failures that were forecast, and what is to do about them?"""

from __future__ import annotations

import typing as t

from ..model.rendering import Entry
from .conclusion import OF_ADMISSION, ForecastResult, advice_on_admission
from .drill import Drill, DrillReport
from .drill_table import n_plus_1

_OF_QUOTAS = frozenset({"quota", "quota_unknown"})


def drill_entries(report: DrillReport) -> t.Iterator[Entry]:
    """Whether any one node may fail, or the worst forecast, and the domains by what is known of their loss."""
    if sentence := n_plus_1(report):
        yield Entry("n_plus_1", sentence)
    else:
        yield Entry("worst_forecast", f"worst forecast: {report.worst}")
    yield from domain_entries(report.drills)
    if report.unreadable:
        text = "which have an impact is unknown, since not everything could be read"
        yield Entry("unknown", text)
    elif not any(drill.has_impact for drill in report.drills):
        drains = report.event == "drain"
        text = "no drain has an impact" if drains else "no failure has an impact after fencing"
        yield Entry("no_impact", text)


def domain_entries(drills: t.Iterable[Drill]) -> t.Iterator[Entry]:
    """The domains by what is known of their loss: where it is `possible`, only the guarantee lacks."""
    texts = {
        "with_impact": "with an impact",
        "not_guaranteed": "not guaranteed",
        "unknown": "unknown",
    }
    names: dict[str, list[str]] = {code: [] for code in texts}
    for drill in (drill for drill in drills if drill.has_impact):
        less = "unknown" if drill.answer is ForecastResult.UNKNOWN else "not_guaranteed"
        names["with_impact" if drill.is_certain else less].append(
            f"{drill.domain} ({drill.answer})"
        )
    for code in filter(names.get, texts):
        yield Entry(code, texts[code], tuple(names[code]))


def room_steps(drills: t.Iterable[Drill], otherwise: str) -> t.Iterator[Entry]:
    """What gives each instance a node. More nodes change nothing where quotas or admission refuse pods."""
    impact = [drill for drill in drills if drill.has_impact]
    codes = {code for drill in impact for code in drill.codes}
    again = "then launch the same job again"
    if codes and codes <= _OF_QUOTAS:
        text = (
            "raise the ResourceQuotas that the lines above name, or stop pods of their namespaces"
        )
        yield Entry("raise_quota", f"{text}; {again}")
    elif not OF_ADMISSION.isdisjoint(codes):
        text = "for the pods that the lines above say may be refused"
        yield Entry("admission", f"{text}: {advice_on_admission(codes)} T{again[1:]}")
    elif impact:
        yield Entry("make_room", f"{otherwise}; {again}")
