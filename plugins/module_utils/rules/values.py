# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values inside `rules`, as people, templates and surveys write them, with every fault noted.

A survey delivers text: "10" is a number and "true" a boolean where one is wanted. The other way
round nothing is guessed: a boolean, a float or null where a text is wanted may have been meant as
another text (YAML reads `on` and `1.0` so), so it has to be quoted.
"""

from __future__ import annotations

import difflib
import typing as t

from ..model.finding import Fault
from ..model.pointer import JSON
from ..model.topology import Topology, UndeclaredKey

_TRUE = ("true", "yes", "on", "1", "y", "t")
_FALSE = ("false", "no", "off", "0", "n", "f")
"""What Ansible takes for a boolean (ansible.module_utils.parsing.convert_bool)."""


def nearest(name: str, known: t.Iterable[str], cutoff: float = 0.5) -> str:
    """`; did you mean ...?`, or nothing. `cutoff` is how alike they must be, from 0 to 1."""
    found = difflib.get_close_matches(name, sorted(known), n=3, cutoff=cutoff)
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else ""


def by_likeness(name: str, known: t.Iterable[str], most: int = 10) -> str:
    """What there is, those most like `name` first, and how many more there are."""
    alike = difflib.SequenceMatcher(b=name)

    def unlike(other: str) -> tuple[float, str]:
        alike.set_seq1(other)
        return -alike.ratio(), other

    found = sorted(known, key=unlike)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(map(repr, found[:most])) + more


def left_out(option: str, given: t.Mapping[str, JSON], known: t.Collection[str]) -> bool:
    """Whether an option is missing. A misspelt one is not: that is one fault, and not two."""
    if option in given:
        return False
    unknown = [str(key) for key in given if key not in known]
    meant = [difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.5) for key in unknown]
    return [option] not in meant


class Notes:
    """Where in the input we are, and all faults found so far.

    A reading method notes a fault and returns None where the value cannot be used.
    """

    def __init__(self, base: str, faults: list[Fault], path: str = "") -> None:
        self.base = base
        self.faults = faults
        self.path = path

    @property
    def where(self) -> str:
        return f"{self.base}, {self.path}" if self.path else self.base

    def at(self, part: str) -> Notes:
        return Notes(self.base, self.faults, f"{self.path}.{part}" if self.path else part)

    def item(self, index: int) -> Notes:
        return Notes(self.base, self.faults, f"{self.path}[{index}]")

    def fault(self, message: str) -> None:
        self.faults.append(Fault(self.where, message))

    def mapping(self, value: JSON, known: t.Collection[str]) -> dict[str, JSON] | None:
        """A map with none but the `known` keys; each unknown one is a fault."""
        if not isinstance(value, dict):
            self.fault(f"must be a map of {', '.join(known)}, not {shown(value)}")
            return None
        for key in value:
            if key not in known:
                hint = nearest(str(key), known) or f"; known are {', '.join(known)}"
                self.fault(f"unknown option {str(key)!r}{hint}")
        return {key: value[key] for key in known if key in value}

    def sequence(self, value: JSON) -> list[JSON] | None:
        """A list; a single map is a list of one."""
        if isinstance(value, dict):
            return [value]
        if not isinstance(value, list):
            self.fault(f"must be a list, not {shown(value)}")
            return None
        return value

    def text(self, value: JSON) -> str | None:
        """Text that is not empty. A whole number is the text that it is written as."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None:
            self.fault("must be text, not null: give a value, or leave the key out")
            return None
        if not isinstance(value, str):
            self.fault(f"must be text, not {shown(value)}: quote it if it is meant as text")
            return None
        if not value.strip():
            self.fault("must not be empty")
            return None
        return value.strip()

    def texts(self, value: JSON) -> tuple[str, ...] | None:
        """One text or a list of them, each once."""
        if not isinstance(value, list):
            only = self.text(value)
            return None if only is None else (only,)
        found = [self.item(index).text(item) for index, item in enumerate(value)]
        kept = [item for item in found if item is not None]
        return tuple(dict.fromkeys(kept)) if len(kept) == len(found) else None

    def integer(self, value: JSON, low: int, high: int | None = None) -> int | None:
        """A whole number, also as text."""
        number = value
        if isinstance(value, str):
            try:
                number = int(value.strip())
            except ValueError:
                number = None
        limits = f"from {low} to {high}" if high is not None else f"of at least {low}"
        if not isinstance(number, int) or isinstance(value, bool):
            self.fault(f"must be a whole number {limits}, not {shown(value)}")
            return None
        if number < low or (high is not None and number > high):
            self.fault(f"must be a whole number {limits}, not {number}")
            return None
        return number

    def boolean(self, value: JSON) -> bool | None:
        """True or false, also as the words that Ansible knows."""
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower() if isinstance(value, (str, int)) else ""
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        self.fault(f"must be true or false, not {shown(value)}")
        return None

    def key(self, value: JSON, topology: Topology) -> str | None:
        """The label key that a topology name or key stands for."""
        name = self.text(value)
        if name is None:
            return None
        try:
            return topology.resolve(name)
        except UndeclaredKey as error:
            self.fault(str(error))
            return None


def shown(value: JSON) -> str:
    """A value for a message: short, and with its type where that is the trouble."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, (dict, list)):
        return "a map" if isinstance(value, dict) else "a list"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
