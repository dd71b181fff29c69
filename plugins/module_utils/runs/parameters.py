# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a roll-out, checked: every fault at once, before anything is read."""

from __future__ import annotations

import hashlib
import json
import typing as t
from dataclasses import dataclass

from ..model.finding import Fault, Refused
from ..model.plan import Method
from ..model.pointer import JSON
from ..model.rule import WorkloadSelector
from ..planning.moves import Scope
from ..rules import references
from ..rules.values import Notes
from .window import Window, parse_window

MAY_BE_ZERO = (
    "max_in_flight",
    "canary",
    "soak",
    "max_moves",
    "failures_allowed",
)
POSITIVE = ("max_unavailable", "timeout", "move_timeout")


@dataclass(frozen=True, slots=True)
class Parameters:
    """What a roll-out was asked for. `namespaces` None: the workloads are named instead."""

    namespaces: tuple[str, ...] | None
    workloads: tuple[WorkloadSelector, ...]
    scope: Scope
    allow: frozenset[Method]
    max_in_flight: int
    max_unavailable: int
    canary: int
    soak: int
    max_moves: int
    window: Window | None
    failures_allowed: int
    add_node_selector: bool
    activate_foreign_changes: bool
    timeout: int
    move_timeout: int
    zone_key: str

    @property
    def request(self) -> str:
        """A digest of what is to be moved: a run is only continued for the same request."""
        said = [
            self.namespaces,
            [str(selector) for selector in self.workloads],
            self.scope,
            sorted(self.allow),
        ]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def parse_parameters(given: t.Mapping[str, JSON], zone_key: str) -> Parameters:
    """Raises Refused with every fault."""
    faults: list[Fault] = []
    namespaces, workloads = _what(given, faults)
    window, wrong = parse_window(given["window"])
    faults += wrong
    for name in (*MAY_BE_ZERO, *POSITIVE):
        least = 1 if name in POSITIVE else 0
        if given[name] < least:
            faults.append(Fault(name, f"must be at least {least}, not {given[name]}"))
    if given["on_failure"] == "undo":
        faults.append(Fault("on_failure", "undo is not supported yet: use stop"))
    if faults:
        raise Refused(faults)
    return Parameters(
        namespaces=namespaces,
        workloads=workloads,
        scope=given["scope"],
        allow=frozenset(map(Method, given["allow"])),
        window=window,
        zone_key=zone_key,
        **{name: given[name] for name in (*MAY_BE_ZERO, *POSITIVE)},
        **{name: given[name] for name in ("add_node_selector", "activate_foreign_changes")},
    )


def _what(
    given: t.Mapping[str, JSON], faults: list[Fault]
) -> tuple[tuple[str, ...] | None, tuple[WorkloadSelector, ...]]:
    named, listed = given["namespaces"], given["workloads"]
    if named is None and listed is None:
        faults.append(Fault("namespaces, workloads", "one of them is required: what may be moved?"))
        return None, ()
    namespaces = Notes("namespaces", faults).texts(named) if named is not None else None
    if listed is None:
        return namespaces, ()
    default = namespaces[0] if namespaces is not None and len(namespaces) == 1 else ""
    found = [
        references.workload(Notes(f"workloads[{index}]", faults), _given(item), default)
        for index, item in enumerate(listed)
    ]
    return None, tuple(selector for selector in found if selector is not None)


def _given(item: t.Mapping[str, JSON]) -> dict[str, JSON]:
    """Without the options that Ansible fills with null."""
    return {name: value for name, value in item.items() if value is not None}
