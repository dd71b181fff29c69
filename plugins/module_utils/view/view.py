# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a cluster: its tables, and the scheduler's index of it."""

from __future__ import annotations

import typing as t
from functools import cached_property

from ..model.objects import Pod
from ..scheduler.index import Index
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
