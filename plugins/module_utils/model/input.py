# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of options as users, templates and surveys write them, and every error in them.

A survey delivers text: "10" is a number and "true" a boolean where one is needed. The reverse is
an error: a boolean, a float or null where text is needed has to be quoted, because YAML reads `on`
and `1.0` as other types.
"""

from __future__ import annotations

import difflib
import typing as t

from .findings import InputError, near_names
from .json_pointer import JSON
from .rendering import listed
from .topology import Topology, UndeclaredKey

_TRUE = ("true", "yes", "on", "1", "y", "t")
_FALSE = ("false", "no", "off", "0", "n", "f")
"""What Ansible takes for a boolean (ansible.module_utils.parsing.convert_bool)."""


def nearest(name: str, known: t.Iterable[str]) -> str:
    """`; did you mean ...?` with the known names that are like this one, if any are."""
    names = near_names(name, known)
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


def by_likeness(name: str, known: t.Iterable[str]) -> str:
    """The known names, the most similar to `name` first, and how many more there are."""
    matcher = difflib.SequenceMatcher(b=name)

    def unlike(candidate: str) -> tuple[float, str]:
        matcher.set_seq1(candidate)
        return -matcher.ratio(), candidate

    return listed(list(map(repr, sorted(known, key=unlike))), 10)


def left_out(option: str, given: t.Mapping[str, JSON], known: t.Collection[str]) -> bool:
    """Whether an option is missing. A misspelled one is not missing: that is one error, not two."""
    if option in given:
        return False
    unknown = [str(key) for key in given if key not in known]
    return option not in [name for key in unknown for name in near_names(key, known)[:1]]


class InputReader:
    """A place in the input, and all errors so far.

    A reading method adds an error and returns None if the value cannot be used.
    """

    def __init__(self, base: str, errors: list[InputError], path: str = "") -> None:
        self.base = base
        self.errors = errors
        self.path = path

    @property
    def where(self) -> str:
        return f"{self.base}, {self.path}" if self.path else self.base

    def at(self, part: str) -> InputReader:
        return InputReader(self.base, self.errors, f"{self.path}.{part}" if self.path else part)

    def item(self, index: int) -> InputReader:
        if not self.path:
            return InputReader(f"{self.base}[{index}]", self.errors)
        return InputReader(self.base, self.errors, f"{self.path}[{index}]")

    def error(self, message: str) -> None:
        self.errors.append(InputError(self.where, message))

    def mapping(
        self, value: JSON, known: t.Collection[str], noun: str = "option"
    ) -> dict[str, JSON] | None:
        """A map with none but the `known` keys; each unknown one is an error. `noun` is what a key is."""
        if not isinstance(value, dict):
            self.error(f"must be a map of {', '.join(known)}, not {shown(value)}")
            return None
        for key in value:
            if key not in known:
                hint = nearest(str(key), known) or f"; known are {', '.join(known)}"
                self.error(f"unknown {noun} {str(key)!r}{hint}")
        return {key: value[key] for key in known if key in value}

    def text(self, value: JSON) -> str | None:
        """Text that is not empty. A whole number is the text that it is written as."""
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None:
            self.error("must be text, not null: give a value, or leave the key out")
            return None
        if not isinstance(value, str):
            self.error(f"must be text, not {shown(value)}: quote it if it is meant as text")
            return None
        if not value.strip():
            self.error("must not be empty")
            return None
        return value.strip()

    def texts(self, value: JSON) -> tuple[str, ...] | None:
        """One text or a list of them, each once."""
        if not isinstance(value, list):
            only = self.text(value)
            return None if only is None else (only,)
        texts = [self.item(index).text(item) for index, item in enumerate(value)]
        kept = [item for item in texts if item is not None]
        return tuple(dict.fromkeys(kept)) if len(kept) == len(texts) else None

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
            self.error(f"must be a whole number {limits}, not {shown(value)}")
            return None
        if number < low or (high is not None and number > high):
            self.error(f"must be a whole number {limits}, not {number}")
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
        self.error(f"must be true or false, not {shown(value)}")
        return None

    def key(self, value: JSON, topology: Topology) -> str | None:
        """The label key of a topology name; a full label key is returned as it is."""
        name = self.text(value)
        if name is None:
            return None
        try:
            return topology.resolve(name)
        except UndeclaredKey as error:
            self.error(str(error))
            return None


def shown(value: JSON) -> str:
    """A value for a message: short, and with its type if the type is wrong."""
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
