# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from a move of a drain that failed: by which policy its VM leaves next, and what does not run now. Pure.

All of it is noted in the state of the drain.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.json_pointer import JSON
from ..model.objects import Node, Ref
from ..moves import report
from ..moves.journal import NOTE_LIMIT, RunJournal
from .drain_plan import DrainView, why_given_up
from .drain_state import DrainState
from .mark import mark_of

EndedMoves = t.Iterable[t.Mapping[str, JSON]]
"""Moves that ended, as a result has them."""


def note_restarts(state: DrainState, moves: EndedMoves) -> bool:
    """Note restarts that failed. Returns whether there are more than before."""
    restarts = state.restarts
    known = sum(map(len, restarts.values()))
    for move in moves:
        if move["state"] == "failed" and move["method"] in ("restart", "recreate"):
            workload = f"{move['kind']}/{move['namespace']}/{move['name']}"
            failed = restarts.setdefault(move["from_node"], {})
            failed[workload] = move["reason"][:NOTE_LIMIT]
    return sum(map(len, restarts.values())) > known


def not_running(state: DrainState, nodes: t.Iterable[Node], view: DrainView) -> list[str]:
    """The workloads that do not run since this run or an earlier one restarted them, with the reasons."""
    marks = [mark.down for mark in map(mark_of, nodes) if mark is not None]
    reasons = {
        Ref(*key.split("/")): why
        for down in (*marks, *state.restarts.values())
        for key, why in down.items()
    }
    return [f"{ref}: {why}" for ref, why in reasons.items() if not view.runs(ref)]


def pass_over_failed(
    state: DrainState,
    view: DrainView,
    journal: RunJournal,
    moves: EndedMoves,
    refused: t.Container[str],
) -> list[str]:
    """Note the policies of VMs by which moves failed, where another policy of the VM remains. Returns a line about each
    that was not noted. A migration that the server `refused`, by uid, is none that failed: its webhook or policy does
    not want a restart in its place."""
    lines = []
    failed = {
        move["uid"]: move
        for move in moves
        if move["state"] == "failed" and move["uid"] not in refused
    }
    for vmi in (x for x in view.snapshot.vmis if x.uid in failed):
        way = view.way_of_vm(vmi)
        if way.method is None or str(way.method) != failed[vmi.uid]["method"]:
            continue
        why = why_given_up(journal, vmi.uid, way.method)
        known = state.passed_over.get(vmi.uid, {})
        if why and way.policy not in known and view.ways.has_alternative(vmi, way.policy):
            obstacle = replace(why, text=f"{why}: {failed[vmi.uid]['reason'][:NOTE_LIMIT]}")
            state.passed_over[vmi.uid] = {**known, way.policy: obstacle}
            name = report.short(vmi.ref, vmi.ref)
            lines.append(
                f"{name} does not leave by {way.policy} any more, since {why}: another one of its policies follows"
            )
    return lines
