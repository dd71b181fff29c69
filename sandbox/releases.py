# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The releases that a sandbox can run: pairs of Kubernetes and KubeVirt, named ``1.31+1.6``.

Standard library only, as :mod:`sandbox.binaries` is. docs/compatibility.md has the results of each pair, the products
with these releases, and how the releases differ. A pair can be in this list if all its Go modules can be downloaded:
of many patch releases a staging module is missing, among them Kubernetes 1.31.14 and 1.33.6, and KubeVirt 1.4.1, 1.5.x,
1.6.3 and 1.7.1.
"""

from __future__ import annotations

import dataclasses
import os
import typing as t

#: environment variable that chooses the pair; the Makefile sets it from RELEASE
VARIABLE = "VIRT_PLACEMENT_RELEASE"


class UnknownRelease(ValueError):
    """There is no such pair; the message lists the known ones."""


@dataclasses.dataclass(frozen=True)
class Release:
    """A pair of releases.

    ``configuration`` is set in the KubeVirt object, as the products do; a cluster file may set other values.
    """

    name: str
    kubernetes: str
    kubevirt: str
    configuration: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    def has_kubevirt(self, minor: str) -> bool:
        """Whether its KubeVirt is of this minor release, such as `1.7`, or a newer one."""
        own, wanted = (
            tuple(int(part) for part in text.split(".")[:2]) for text in (self.kubevirt, minor)
        )
        return own >= wanted


DEFAULT: t.Final = Release("1.36+1.8", kubernetes="1.36.2", kubevirt="1.8.4")

#: KubeVirt 1.4 has Stage as its default, and LiveUpdate needs the feature gate (pkg/virt-config/virt-config.go). The
#: HyperConverged operator sets both (controllers/operands/kubevirt.go, v1.14.0); Harvester 1.5 sets neither.
LIVE_UPDATE: t.Final[t.Mapping[str, t.Any]] = {
    "vmRolloutStrategy": "LiveUpdate",
    "developerConfiguration": {"featureGates": ["VMLiveUpdateFeatures"]},
}
RELEASES: t.Final[t.Mapping[str, Release]] = {
    release.name: release
    for release in (
        DEFAULT,
        Release(
            "1.36+1.7",
            kubernetes="1.36.2",
            kubevirt="1.7.0",
        ),
        Release(
            "1.34+1.7",
            kubernetes="1.34.2",
            kubevirt="1.7.0",
        ),
        Release(
            "1.32+1.6",
            kubernetes="1.32.2",
            kubevirt="1.6.0",
        ),
        Release(
            "1.36+1.4",
            kubernetes="1.36.2",
            kubevirt="1.4.0",
            configuration=LIVE_UPDATE,
        ),
        Release(
            "1.31+1.6",
            kubernetes="1.31.0",
            kubevirt="1.6.0",
        ),
        Release(
            "1.31+1.4",
            kubernetes="1.31.0",
            kubevirt="1.4.0",
            configuration=LIVE_UPDATE,
        ),
    )
}


def find(name: str) -> Release:
    """The pair of this name; UnknownRelease lists the names if there is none."""
    if name not in RELEASES:
        raise UnknownRelease(f"no RELEASE {name}; known are {', '.join(RELEASES)}")
    return RELEASES[name]


def chosen() -> Release:
    """The pair that the environment asks for, else the default."""
    return find(os.environ.get(VARIABLE) or DEFAULT.name)
