# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until something changes that the moves in flight may depend on."""

from __future__ import annotations

import threading
import typing as t

from ..api.deadline import Deadline
from ..api.errors import ApiError, Gone
from ..api.requests import Api
from ..api.watches import watch
from ..model.kinds import MACHINE_INSTANCE, instances_path

MIGRATIONS = "/apis/kubevirt.io/v1/virtualmachineinstancemigrations"

SLOW_POLL = 5.0
"""Seconds after which we look again although no watch has said a word."""

SETTLE = 0.15
"""Seconds to wait for what comes along with a change: one look for all of it."""


class Watcher:
    """Watches lists in threads of its own until `until`. `wait` returns early on any change.

    A watch that fails is not an error: the slow poll goes on.
    """

    def __init__(self, api: Api, until: Deadline) -> None:
        self._api = api
        self._until = until
        self._changed = threading.Event()
        self._watched: set[str] = set()

    def start(self, paths: t.Iterable[str]) -> None:
        """Begin to watch these lists, if they are not watched yet."""
        for path in paths:
            if path not in self._watched:
                self._watched.add(path)
                threading.Thread(target=self._follow, args=(path,), daemon=True).start()

    def forget(self) -> None:
        """What changed before now is going to be seen by the next reading."""
        self._changed.clear()

    def wait(self, seconds: float, listening: t.Callable[[], bool] = lambda: True) -> None:
        """Until a change, at most `seconds` and never past the slow poll, nor much longer than
        somebody listens."""
        left = min(seconds, SLOW_POLL, self._until.remaining)
        while left > 0 and listening():
            if self._changed.wait(min(left, 1.0)):
                self._until.pause(SETTLE)
                return
            left -= 1.0

    def _follow(self, path: str) -> None:
        while not self._until.expired:
            try:
                version = self._api.get(path, {"limit": "1"})["metadata"]["resourceVersion"]
                for _event in watch(self._api, path, version, until=self._until):
                    self._changed.set()
            except Gone:
                self._changed.set()
            except ApiError:
                self._until.pause(SLOW_POLL)


def paths(namespaces: t.Iterable[str], *, virtual_machines: bool) -> t.Iterator[str]:
    """The lists in which moves show: pods and instances of these namespaces, and migrations."""
    for namespace in namespaces:
        yield instances_path("Pod", namespace)
        if virtual_machines:
            yield instances_path(MACHINE_INSTANCE, namespace)
    if virtual_machines:
        yield MIGRATIONS
