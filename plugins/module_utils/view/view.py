# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a cluster: its tables, and the scheduler's index of it."""

from __future__ import annotations

import typing as t
from functools import cached_property

from ..model.objects import Pod
from ..scheduler.index import Index
from ..scheduler.pod_info import pod_key
from .tables import ClusterTables


class ClusterView(ClusterTables):
    """A snapshot with its tables and its index. The index has the scheduler's default configuration."""

    @cached_property
    def index(self) -> Index:
        """The scheduler's index of the pods as they run."""
        return self.index_with(self.snapshot.pods)

    def index_with(self, pods: t.Iterable[Pod]) -> Index:
        """A new index of this cluster with other pods."""
        return Index.build(
            self.snapshot.nodes,
            pods,
            self.snapshot.namespaces,
            claim_terms=self.snapshot.claim_terms,
        )

    def fork(self) -> IndexFork:
        """Changes of the index that the end of the `with` block reverts."""
        return IndexFork(self.index)


class IndexFork:
    """Changes of an index in order, each of which can be reverted.

        with view.fork() as fork:
            fork.remove(key)
            fork.place(pod, node)

    At the end of the block the index is as it was before.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self._changes: list[tuple[str, Pod | None, str]] = []
        """Key, the pod where it was taken out (None where it was placed), its node."""

    def __enter__(self) -> IndexFork:
        return self

    def __exit__(self, *error: object) -> None:
        self.revert()

    def remove(self, key: str) -> Pod:
        """Remove a placed pod. Raises KeyError for one that is not placed."""
        node = self.index.node_of(key)
        pod = self.index.remove(key)
        self._changes.append((key, pod, node))
        return pod

    def place(self, pod: Pod, node: str) -> None:
        """Put a pod on a node. Raises KeyError for an unknown node, ValueError for a pod that is
        placed already."""
        self.index.place(pod, node)
        self._changes.append((pod_key(pod), None, node))

    @property
    def changes(self) -> int:
        """How many changes were made and not reverted: the argument for a later `revert`."""
        return len(self._changes)

    def revert(self, to: int = 0) -> None:
        """Take back the changes after the first `to`, the last one first."""
        while len(self._changes) > to:
            key, pod, node = self._changes.pop()
            if pod is None:
                self.index.remove(key)
            else:
                self.index.place(pod, node)
