# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Examples by chance: a task, and the objects that it reads after some changes."""

from __future__ import annotations

import traceback
import typing as t
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.support.api_server import Fault
from tests.support.modules import Stuck

from . import checks, mutations
from .mutations import of_platform, of_tenant
from .refusals import refusals

BATCH = 200

_SETTINGS = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)


class Altered(dict[str, t.Any]):
    """Objects by path, shown as what differs from the cluster before."""

    def __repr__(self) -> str:
        before = checks.base()
        new = {path: item for path, item in self.items() if before.get(path) != item}
        return f"changed {str(new)[:6000]}, removed {sorted(before.keys() - self.keys())}"


Check = t.Callable[[checks.Task, t.Any], object]

TENANT = st.builds(Altered, of_tenant(checks.base()))
APART = st.builds(Altered, of_tenant(checks.base(), mutations.APART))
PLATFORM = st.builds(Altered, of_platform(checks.base(), checks.journal(), checks.MARK))


@st.composite
def _refused(draw: t.Any) -> tuple[Altered, list[Fault]]:
    return draw(PLATFORM if draw(st.booleans()) else TENANT), draw(refusals)


PROPERTIES: t.Mapping[str, tuple[t.Sequence[checks.Task], st.SearchStrategy[t.Any], Check]] = {
    "tenant": (checks.TASKS, TENANT, checks.check_others),
    "apart": (checks.TASKS, APART, checks.check_apart),
    "platform": (checks.TASKS, PLATFORM, checks.check),
    "refused": (checks.WRITING, _refused(), checks.check_refused),
}
"""Tasks, what is changed before them, and what holds all the same."""


@dataclass
class Search:
    """Counts examples. `faults` has the first example of each fault, by its place."""

    examples: int = 0
    faults: dict[str, str] = field(default_factory=dict)

    def batch(self, number: int, size: int = BATCH) -> None:
        """So many examples of one seed for each property."""
        for tasks, objects, check in PROPERTIES.values():
            prop = given(st.sampled_from(tasks), objects)(self._example(check))
            seed(number)(settings(_SETTINGS, max_examples=size)(prop))()

    def _example(self, check: Check) -> t.Callable[[checks.Task, t.Any], None]:
        def example(task: checks.Task, objects: t.Any) -> None:
            self.examples += 1
            try:
                check(task, objects)
            except (Exception, Stuck) as error:
                place = _place(error)
                if place not in self.faults:
                    self.faults[place] = (
                        f"{task}\n{objects}\n{''.join(traceback.format_exception(error)[-9:])}"
                    )

        return example


def _place(error: BaseException) -> str:
    """Kind and place of an error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.filename.rpartition('/')[2]}:{last.lineno}"
