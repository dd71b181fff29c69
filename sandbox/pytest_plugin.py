# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sandboxes as pytest fixtures: a test names the cluster that it wants.

A sandbox is started when the first test wants it and goes on for later modules. At most two live at
a time: a third one takes the place of the one that was used longest ago. The fixtures are therefore
asked for anew by each module, and a module uses at most two clusters. Their nodes are as they were first.
"""

from __future__ import annotations

import collections
import typing as t
import uuid

import pytest

from . import Sandbox
from .namespaces import delete_namespace

ALIVE = 2
"""Sandboxes that live at a time, at most."""

CLUSTERS: set[str] = set()
"""The names of the fixtures that are clusters."""


class SandboxPool:
    """Running sandboxes by cluster name, in the order of their last use."""

    def __init__(self) -> None:
        self._alive: collections.OrderedDict[str, Sandbox] = collections.OrderedDict()
        self._in_use: set[str] = set()

    def acquire(self, cluster: str) -> Sandbox:
        """The sandbox of this cluster, started now if it must be."""
        if cluster not in self._alive:
            if len(self._alive) == ALIVE:
                self._stop_oldest(cluster)
            self._alive[cluster] = Sandbox.start(cluster)
        self._alive.move_to_end(cluster)
        self._in_use.add(cluster)
        return self._alive[cluster]

    def release(self, cluster: str) -> None:
        """A module is done with it; it may go on living."""
        self._in_use.discard(cluster)

    def stop_all(self) -> None:
        """End every sandbox."""
        while self._alive:
            self._alive.popitem()[1].stop()

    def _stop_oldest(self, wanted: str) -> None:
        free = [name for name in self._alive if name not in self._in_use]
        if not free:
            pytest.fail(
                f"this module uses {sorted(self._in_use)} and cannot have {wanted} beside them: "
                f"at most {ALIVE} sandboxes live at a time"
            )
        self._alive.pop(free[0]).stop()


@pytest.fixture(scope="session")
def sandbox_pool() -> t.Iterator[SandboxPool]:
    """The session's sandboxes."""
    pool = SandboxPool()
    yield pool
    pool.stop_all()


def _cluster_fixture(cluster: str, text: str) -> t.Any:
    @pytest.fixture(scope="module", name=cluster)
    def use(sandbox_pool: SandboxPool) -> t.Iterator[Sandbox]:
        sandbox = sandbox_pool.acquire(cluster)
        sandbox.restore_nodes()
        yield sandbox
        sandbox_pool.release(cluster)

    use.__doc__ = text
    CLUSTERS.add(cluster)
    return use


article = _cluster_fixture("article", "The seven nodes of KubeVirt's article, unlabelled.")
small = _cluster_fixture("small", "Three nodes in three zones, KubeVirt as it ships.")
mixed = _cluster_fixture(
    "mixed", "Six nodes of three CPUs in two zones, KubeVirt with LiveMigrate."
)
six = _cluster_fixture("six", "Two nodes in each of three zones, KubeVirt with LiveMigrate.")
plain = _cluster_fixture("plain", "Three nodes in three zones, no KubeVirt.")


class MakeNamespace(t.Protocol):
    """How the fixture namespace is called."""

    def __call__(self, sandbox: Sandbox, prefix: str = "test") -> str:
        raise NotImplementedError


@pytest.fixture
def namespace() -> t.Iterator[MakeNamespace]:
    """Makes fresh namespaces; after the test they and everything in them are gone."""
    made: list[tuple[Sandbox, str]] = []

    def make(sandbox: Sandbox, prefix: str = "test") -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        sandbox.api.create(sandbox.api.path("Namespace"), {"metadata": {"name": name}})
        made.append((sandbox, name))
        return name

    yield make
    for sandbox, name in made:
        delete_namespace(sandbox.api, name)
