# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read of a guest's console when its stream is cut, and what counts as lost."""

from __future__ import annotations

import typing as t

import pytest
import requests

from sandbox.admin_api import AdminApi
from sandbox.real_nodes import guests
from sandbox.real_nodes.guests import Witness

NAME = "virt-launcher-a-x7k2p"
RUNNING: t.Final = {"name": "guest-console-log", "state": {"running": {}}}


class Consoles:
    """A pod that ends while its console is read, and each reading of it; a text that ends with ... is cut there."""

    def __init__(self, *readings: str) -> None:
        self._readings = list(readings)
        self.phase = "Running"

    def path(self, kind: str, namespace: str, name: str = "") -> str:
        return f"{kind}/{namespace}/{name}"

    def _pod(self) -> dict[str, t.Any]:
        labels = {"vm.kubevirt.io/name": "a"}
        status = {"phase": self.phase, "initContainerStatuses": [RUNNING]}
        return {"metadata": {"name": NAME, "labels": labels}, "status": status}

    def list(self, path: str, **query: str) -> list[dict[str, t.Any]]:
        return [self._pod()]

    def find(self, path: str) -> dict[str, t.Any]:
        return self._pod()

    def lines(self, path: str) -> t.Iterator[str]:
        reading = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        self.phase = "Succeeded"
        yield from (f"tick {number} boot ab " for number in reading.split() if number != "...")
        if reading.endswith("..."):
            raise requests.ConnectionError("cut")


def test_console_that_is_cut_as_its_pod_ends_is_read_again() -> None:
    consoles = Consoles("1 2 ...", "1 2 3 4")
    with Witness(t.cast(AdminApi, consoles), "real") as witness:
        count = witness.wait("a", more=4, timeout=30)
    assert (count.last, count.boots, count.lost) == (4, ("ab",), 0)


def test_tick_that_comes_late_is_not_lost_and_one_that_never_comes_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Witness(t.cast(AdminApi, Consoles("1 2 4", "1 2 3 4")), "real") as witness:
        assert witness.wait("a", more=4, timeout=30).lost == 0
    monkeypatch.setattr(guests, "_LATE", 2.0)
    with Witness(t.cast(AdminApi, Consoles("1 2 4")), "real") as witness:
        assert witness.wait("a", more=4, timeout=30).lost == 1
        assert witness.counts()["a"].lost == 1
