# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What travels from step to step of a run, and what a step returns.

Counters, names and times only: what must survive a crash stands in the journal.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass, field

from ..cluster.lease import Held, Watched
from ..model.pointer import JSON
from .count import Count


@dataclass(slots=True)
class State:
    """`elapsed` are the seconds since the task began, `base` what the run's clock showed then.

    `trouble` is when (in elapsed seconds) the API server began not to answer, -1 while it does.
    `waiting` is the reason for waiting that was told last. `fenced`: what a run before may yet send
    was made void. `total` and `to_come` are those of Count.
    """

    run: str = ""
    term: int = 0
    elapsed: float = 0.0
    base: float = 0.0
    mark: str = ""
    marked: float = 0.0
    trouble: float = -1.0
    waiting: str = ""
    fenced: bool = False
    changed: bool = False
    total: int = -1
    to_come: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, given: t.Mapping[str, JSON] | None) -> State:
        """From the option `run`. Unknown keys are left out, values take their types."""
        default = dataclasses.asdict(cls())
        known = {name: value for name, value in (given or {}).items() if name in default}
        return cls(**{name: type(default[name])(value) for name, value in known.items()})

    def as_json(self) -> dict[str, JSON]:
        return dataclasses.asdict(self)

    @property
    def held(self) -> Held | None:
        return Held(self.run, self.term) if self.term else None

    @property
    def count(self) -> Count:
        return Count(self.total, self.to_come)

    @count.setter
    def count(self, count: Count) -> None:
        self.total, self.to_come = count.total, dict(count.to_come)

    @property
    def watched(self) -> Watched:
        return Watched(self.mark, self.marked)


@dataclass(slots=True)
class StepResult:
    """`moves` are those that ended in this step, or in check mode those that are planned.

    `failure` says why the run failed; then it is finished. The state is for the next step, so
    there is none in the last one's result.
    """

    finished: bool
    state: State
    moves: list[dict[str, JSON]] = field(default_factory=list)
    remaining: list[dict[str, JSON]] = field(default_factory=list)
    left: list[dict[str, JSON]] = field(default_factory=list)
    not_in_effect: list[dict[str, JSON]] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    stopped: str = ""
    failure: str = ""
    changed: bool = False

    def as_json(self) -> dict[str, JSON]:
        return {
            "changed": self.changed,
            "finished": self.finished,
            "moves": self.moves,
            "remaining": self.remaining,
            "left": self.left,
            "not_in_effect": self.not_in_effect,
            "cleared": self.cleared,
            "stopped": self.stopped,
            "progress": self.progress,
            **({} if self.finished else {"run": self.state.as_json()}),
        }
