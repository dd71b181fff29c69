# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an instance's annotations, over the cluster's defaults, ask the simulated virt-handler to
do wrong.
"""

from __future__ import annotations

import dataclasses
import typing as t

PREFIX = "sandbox.virt/"
SHUTDOWN_SECONDS = PREFIX + "shutdown-seconds"
MIGRATION_FAILS = PREFIX + "migration-fails"
GUEST_IS_GONE = PREFIX + "guest-is-gone"


@dataclasses.dataclass(frozen=True)
class Faults:
    """The faults of one instance; see the table in :mod:`sandbox.virt_handler`. Times are in
    seconds.
    """

    not_migratable: str = ""
    live_migratable_missing: bool = False
    migration_fails: int = 0
    migration_seconds: float = 0.0
    prepare_seconds: float = 0.0
    handover_seconds: float = 0.0
    source_pod_stays: bool = False
    source_pod_seconds: float = 1.0
    shutdown_seconds: float = 0.0
    guest_is_gone: bool = False


NO_FAULTS = Faults()


def parse_faults(
    annotations: t.Mapping[str, str] | None, defaults: t.Mapping[str, str] | None = None
) -> Faults:
    """Read faults from the annotations of an instance over ``defaults`` (the same names without
    prefix).

    Raises ValueError that names every unknown fault and every value that cannot be read.
    """
    asked = dict(defaults or {})
    asked.update(
        {k[len(PREFIX) :]: v for k, v in (annotations or {}).items() if k.startswith(PREFIX)}
    )
    known = {field.name.replace("_", "-"): field for field in dataclasses.fields(Faults)}
    values: dict[str, t.Any] = {}
    errors = []
    for name, text in asked.items():
        field = known.get(name)
        if field is None:
            errors.append(f"unknown fault {name!r}: use one of {', '.join(sorted(known))}")
            continue
        try:
            values[field.name] = _value(type(field.default), text)
        except ValueError as error:
            errors.append(f"fault {name!r}: {error}")
    if errors:
        raise ValueError("; ".join(errors))
    return Faults(**values)


def _value(kind: type, text: str) -> t.Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ValueError(f"{text!r} is neither 'true' nor 'false'")
        return text == "true"
    value = kind(text)
    if kind is not str and value < 0:
        raise ValueError(f"{text} is below zero")
    return value
