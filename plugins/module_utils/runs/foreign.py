# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the migrations of others leave from, where their VMIs are in namespaces that were not read.

A migration says its source only when it has ended: until then the VMI does (KubeVirt,
`status.migrationState.sourceNode`, and `status.nodeName` before it is handed over).
"""

from __future__ import annotations

import typing as t

from ..api.errors import Forbidden, NotFound
from ..api.requests import Api
from ..model.kinds import MACHINE_INSTANCE, instance_path
from ..model.objects import Ref
from ..model.pointer import JSON
from ..model.snapshot import Migration, Snapshot
from .budget import Key


class Foreign:
    """Reads each such VMI once in a migration."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def sources(self, api: Api, snapshot: Snapshot) -> dict[Key, str]:
        """The node that each migrating VMI outside of the snapshot leaves. It is not looked for
        where the cluster takes no further migration anyway."""
        held = {(m.ref.namespace, m.ref.name) for m in snapshot.machine_instances}
        if len(snapshot.migrations) >= snapshot.platform.migrations_per_cluster:
            return {}
        return {
            (found.ref.namespace, found.instance): node
            for found in snapshot.migrations
            if (found.ref.namespace, found.instance) not in held
            and (node := self._source(api, found))
        }

    def _source(self, api: Api, migration: Migration) -> str:
        if migration.uid not in self._known:
            machine = Ref(MACHINE_INSTANCE, migration.ref.namespace, migration.instance)
            try:
                found = api.get(instance_path(machine))
                self._known[migration.uid] = source_of(found, migration)
            except (NotFound, Forbidden):
                self._known[migration.uid] = ""
        return self._known[migration.uid]


def source_of(machine: t.Mapping[str, JSON], migration: Migration) -> str:
    """The node that this migration of the VMI leaves."""
    status = machine.get("status") or {}
    state = status.get("migrationState") or {}
    mine = state.get("migrationUid") == migration.uid
    return str((state.get("sourceNode") if mine else None) or status.get("nodeName") or "")
