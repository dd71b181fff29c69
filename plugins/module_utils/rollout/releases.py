# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what comes next to Deployments whose own rollouts are held: one release at a time, and the end of each hold.

Nothing of it is in the journal: the annotation on the object says how far it is, in the same patch. A patch needs the
generation that was read, so that one that arrives late, from a process that was frozen, is refused or finds what this
run would have written.
"""

from __future__ import annotations

import datetime

from ..api.errors import Conflict, Forbidden, Invalid, NotFound
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import one_line
from ..moves.gates import why_defer
from ..moves.reconcile import Reconciler
from ..moves.reconciliation import Reconciliation
from ..moves.state import StepReport
from .approved_releases import releases_of
from .judged_snapshot import JudgedSnapshot
from .options import RolloutOptions
from .paused_holds import BY_HAND, HoldStep


class Releases:
    """The holds of Deployments in one step of a run."""

    def __init__(self, options: RolloutOptions, report: StepReport) -> None:
        self._options = options
        self._report = report
        self._refused: dict[Ref, str] = {}

    def steps(self, view: JudgedSnapshot) -> tuple[HoldStep, ...]:
        """What comes next for each hold that the server has not refused to change."""
        return tuple(step for step in view.hold_steps if step.hold.ref not in self._refused)

    def has_work(self, view: JudgedSnapshot) -> bool:
        """Whether a run writes to one of them, now or later."""
        return any(not step.kept for step in self.steps(view))

    def advance(self, view: JudgedSnapshot, reconciler: Reconciler, now: Reconciliation) -> None:
        """Make the writes that are due. The end of a hold replaces nothing; a release waits until no move is in
        flight, and for the window and the soak."""
        for step in self.steps(view):
            if step.write is None or (step.releases and self._waits(reconciler, now)):
                continue
            self._write(reconciler, step, now)
            if step.releases:
                break
        now.releases = self._waiting(view, now)

    def _waiting(self, view: JudgedSnapshot, now: Reconciliation) -> str:
        """What the run waits for; empty where there is nothing. Once it is to begin nothing more, only for what it has
        released."""
        steps = [step for step in self.steps(view) if not step.kept]
        if now.stop_reason:
            steps = [step for step in steps if not step.hold.is_held]
        return next((step.waiting or str(step) for step in steps), "")

    def kept(self, view: JudgedSnapshot) -> dict[Ref, str]:
        """Why holds stay."""
        left = {x.hold.ref: x.kept or x.waiting or str(x) for x in self.steps(view)}
        return {**self._refused, **left}

    def failure(self, view: JudgedSnapshot) -> str:
        """Why the run has failed: a Deployment that it has released does not replace its pods, or one stays held that
        an approved plan has."""
        approved = releases_of(self._options.approved)
        refused = [text for ref, text in self._refused.items() if ref in approved]
        kept = [x.kept for x in self.steps(view) if x.failed or (x.kept and x.hold.ref in approved)]
        return "; ".join([*refused, *kept])

    def lines(self, view: JudgedSnapshot) -> list[str]:
        """A line about each hold that a run finds."""
        return list(map(str, self.steps(view)))

    def as_json(self, view: JudgedSnapshot) -> list[dict[str, JSON]]:
        """The Deployments that a run would release, as check mode returns them."""
        return [step.as_json() for step in self.steps(view) if step.releases]

    def _waits(self, reconciler: Reconciler, now: Reconciliation) -> bool:
        if reconciler.in_flight or reconciler.failed or now.settling or now.stop_reason:
            return True
        wall_clock = datetime.datetime.now(datetime.timezone.utc)
        journal = reconciler.journal
        gate = why_defer(self._options, journal, journal.domain, reconciler.clock, wall_clock)
        if gate.final:
            now.stop_reason = gate.reason
        elif gate:
            now.waiting = now.waiting or gate.reason
        return bool(gate)

    def _write(self, reconciler: Reconciler, step: HoldStep, now: Reconciliation) -> None:
        write = step.write
        if write is None:
            return
        now.settling = True
        now.touched.append((write.path, ""))
        if step.releases:  # no release without a Lease that is known to be ours
            reconciler.keep_lease(force=True)
        try:
            reconciler.keeper.api_while_ours().patch(write.path, write.patch())
        except Conflict:
            return  # the next reading shows what has changed
        except (Invalid, Forbidden, NotFound) as error:
            text = f"{write.target} stays as it is: {one_line(str(error))}. {BY_HAND}"
            self._refused[write.target] = text
            return
        self._report.changed = True
        self._report.lines.append(step.done)
