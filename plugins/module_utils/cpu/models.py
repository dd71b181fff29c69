# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of several CPU models is the newest? Node labels name models and give no order.

The order is that of the CPUs' release, of the models that libvirt knows (src/cpu_map/index.xml). A model that is not in
it, such as one of a newer libvirt, is never taken for the newest.
"""

from __future__ import annotations

import re
import typing as t

_GENERATIONS: t.Mapping[str, tuple[str, ...]] = {
    "Intel": (
        "Conroe",
        "Penryn",
        "Nehalem",
        "Westmere",
        "SandyBridge",
        "IvyBridge",
        "Haswell",
        "Broadwell",
        "Skylake-Client",
        "Skylake-Server",
        "Cascadelake-Server",
        "Cooperlake",
        "Icelake-Client",
        "Icelake-Server",
        "SapphireRapids",
        "GraniteRapids",
    ),
    "AMD": (
        "Opteron_G1",
        "Opteron_G2",
        "Opteron_G3",
        "Opteron_G4",
        "Opteron_G5",
        "EPYC",
        "EPYC-Rome",
        "EPYC-Milan",
        "EPYC-Genoa",
        "EPYC-Turin",
    ),
    "Hygon": ("Dhyana",),
}
"""Models by the vendor of their CPUs, the oldest first."""

_RANKS = {name: n for names in _GENERATIONS.values() for n, name in enumerate(names)}
_VENDORS = {name: vendor for vendor, names in _GENERATIONS.items() for name in names}
_VARIANT = re.compile(r"(.*?)(-noTSX)?(-IBRS|-IBPB)?(-v([0-9]+))?")


class Rank(t.NamedTuple):
    """How new a model is, beside others of its vendor. Of one generation, a variant with the mitigations of IBRS or
    IBPB comes after one without, then one of a higher version, then one with TSX. A model without a version is its
    version 1: libvirt lists both from release 10 on."""

    generation: int
    mitigated: bool
    version: int
    transactional: bool


def generation(model: str) -> str:
    """The model without the suffixes of its variant."""
    variant = _VARIANT.fullmatch(model)
    return variant.group(1) if variant else model


def rank(model: str) -> Rank | None:
    """None for a model that is not known."""
    variant = _VARIANT.fullmatch(model)
    number = _RANKS.get(variant.group(1)) if variant else None
    if variant is None or number is None:
        return None
    _name, no_tsx, mitigation, _suffix, version = variant.groups()
    return Rank(number, mitigation is not None, int(version or 1), no_tsx is None)


def newest_first(models: t.Iterable[str], vendor: str) -> tuple[str, ...]:
    """The models: first those named after CPUs of `vendor`, then those of others, then those that are not known."""

    def order(model: str) -> tuple[bool, bool, tuple[int, ...], str]:
        place = rank(model)
        newness = tuple(-int(part) for part in place) if place is not None else ()
        return place is None, _VENDORS.get(generation(model), "") != vendor, newness, model

    return tuple(sorted(models, key=order))


def newest(models: t.Iterable[str], vendor: str) -> str | None:
    """The newest model; None where none of them is known."""
    return next((model for model in newest_first(models, vendor) if rank(model)), None)
