# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource quantities and what a pod requests of its node.

Rules: apimachinery pkg/api/resource (Quantity) and component-helpers resource.PodRequests.
"""

from __future__ import annotations

import functools
import re
import typing as t
from decimal import Decimal

from .json_pointer import JSON

_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]+)|([KMGTPE]i)|([numkMGTPE]?))"
)
_BINARY = {f"{prefix}i": 1024 ** (power + 1) for power, prefix in enumerate("KMGTPE")}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
}
NANO = 10**9
_LARGEST = (2**63 - 1) * NANO
"""What the API server takes for any larger quantity (Quantity.UnmarshalJSON caps at 2^63 - 1)."""
_LONGEST = 64
"""Characters of a quantity, and its largest power of ten."""


@functools.lru_cache(maxsize=65536)
def parse_quantity(text: str | int | float) -> int:
    """A quantity in billionths of its unit, rounded up as the API rounds it.

    Raises ValueError for text that is no quantity.
    """
    match = _QUANTITY.fullmatch(str(text)[: _LONGEST + 1])
    if match is None or len(str(text)) > _LONGEST:
        raise ValueError(f"'{text!s:.60}' is no resource quantity, such as 500m, 2 or 4Gi")
    number, exponent, binary, suffix = match.groups()
    if binary:
        scale = Decimal(_BINARY[binary])
    elif exponent:
        power = max(-_LONGEST, min(_LONGEST, int(exponent[1:])))
        scale = Decimal(f"1e{power}")
    else:
        scale = _DECIMAL[suffix or ""]
    scaled = Decimal(number) * scale * NANO
    whole = int(scaled)
    return min(whole + (scaled > whole), _LARGEST)


def whole_units(resource: str, nano: int) -> int:
    """Millicores for cpu, else whole units; both rounded up."""
    return -(-nano // (10**6 if resource == "cpu" else NANO))


def is_scheduled(resource: str) -> bool:
    """Whether the scheduler accounts for a resource of this name at all
    (schedutil.IsScalarResourceName, besides the three built-in ones)."""
    if resource in ("cpu", "memory", "ephemeral-storage"):
        return True
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")


def amounts(listed: t.Mapping[str, JSON] | None) -> dict[str, int]:
    """A ResourceList in whole units, with what the scheduler does not account for left out.
    `pods` stays: an allocatable list needs it."""
    return {
        name: whole_units(name, parse_quantity(amount))
        for name, amount in (listed or {}).items()
        if name == "pods" or is_scheduled(name)
    }


class Container(t.NamedTuple):
    """The part of a container that counts for the requests of its pod."""

    requests: t.Mapping[str, JSON]
    restarts: bool = False
    """An init container that keeps running (restartPolicy Always: a sidecar)."""


def pod_requests(
    containers: t.Iterable[Container],
    init_containers: t.Iterable[Container],
    pod_level: t.Mapping[str, JSON] | None,
    overhead: t.Mapping[str, JSON] | None,
) -> dict[str, int]:
    """What the scheduler counts for a pod: the sum of containers and sidecars, or the peak while
    init containers run if that is higher; pod-level requests replace it for the resources
    that they may name; the overhead is added."""
    total: dict[str, int] = {}
    for container in containers:
        _add(total, container.requests)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        if container.restarts:
            _add(total, container.requests)
            _add(sidecars, container.requests)
            running = sidecars
        else:
            running = dict(sidecars)
            _add(running, container.requests)
        _raise_to(peak, running)
    _raise_to(total, peak)
    for name, amount in (pod_level or {}).items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            total[name] = parse_quantity(amount)
    _add(total, overhead or {})
    return {name: whole_units(name, nano) for name, nano in total.items() if is_scheduled(name)}


def _add(total: dict[str, int], requests: t.Mapping[str, JSON]) -> None:
    for name, amount in requests.items():
        total[name] = total.get(name, 0) + parse_quantity(amount)


def _raise_to(total: dict[str, int], floor: t.Mapping[str, int]) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)


def memory_text(amount: int) -> str:
    """Bytes for a reader: `12.0 GiB memory`."""
    return f"{amount / 2**30:.1f} GiB memory"


def cpu_text(amount: int) -> str:
    """Millicores for a reader: `1.5 CPU`."""
    return f"{amount / 1000:.1f} CPU"
