# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole Snapshot at once: every list paged, several lists at a time.

A list that may not be read is not empty: it becomes an entry of `Snapshot.unreadable`. A kind that
the server does not have is empty; VirtualMachinePool apart, where an old KubeVirt serves another
version of it than the one that is read here.
"""

from __future__ import annotations

import typing as t
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from ..api.errors import Forbidden, NotFound
from ..api.lists import list_all
from ..api.requests import Api
from ..model import kinds
from ..model.collector import collector_paused
from ..model.machine_manifest import (
    machine_instance_from_manifest,
    migration_from_manifest,
    workload_from_manifest,
)
from ..model.manifest import (
    namespace_from_manifest,
    node_from_manifest,
    node_term_from_json,
    pod_from_manifest,
)
from ..model.objects import NodeTerm, Ref
from ..model.platform import Platform
from ..model.pointer import JSON
from ..model.snapshot import Snapshot, Unreadable
from .platform import platform_and_gaps, read_platform, unreadable

__all__ = ["Scope", "read_platform", "read_snapshot"]

_THREADS = 6

_INSTANCES = "/apis/kubevirt.io/v1/{}virtualmachineinstances"
_MIGRATIONS = "/apis/kubevirt.io/v1/virtualmachineinstancemigrations"
_REPLICA_SETS = "/apis/apps/v1/{}replicasets"
_VOLUMES = "/api/v1/persistentvolumes"

Items = tuple[dict[str, JSON], ...]


@dataclass(frozen=True)
class Scope:
    """What of a cluster is read. Nodes, namespaces and the platform always are.

    `namespaces` are those of workloads and machine instances, None for all. `pods` are always
    those of all namespaces: pods anywhere count for affinity, symmetry, ports and resources.
    """

    namespaces: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = tuple(kinds.KINDS)
    pods: bool = True
    instances: bool = True
    volumes: bool = True


def read_snapshot(api: Api, scope: Scope | None = None) -> Snapshot:
    """Reads what `scope` names. Raises ApiError for everything but a missing right."""
    scope = scope or Scope()
    with collector_paused(), ThreadPoolExecutor(_THREADS, "read") as pool:
        reader = _Reader(api, pool, scope)
        wanted = reader.start()
        _until_one_fails([reader.platform, *(each for many in wanted.values() for each in many)])
        platform, gaps = reader.platform.result()
        return _snapshot(scope, platform, wanted, gaps)


def _until_one_fails(futures: t.Iterable[Future[t.Any]]) -> None:
    """Returns when all are done. After a failure nothing that still waits for a thread is begun:
    it would only fail later, and the same way."""
    _done, left = wait(futures, return_when=FIRST_EXCEPTION)
    for future in left:
        future.cancel()


@dataclass(frozen=True)
class _Listed:
    """One list: `items` is None where the server does not serve the kind."""

    items: Items | None
    gap: Unreadable | None = None


class _Reader:
    def __init__(self, api: Api, pool: ThreadPoolExecutor, scope: Scope) -> None:
        self._api = api
        self._pool = pool
        self._scope = scope
        self.platform = pool.submit(platform_and_gaps, api)

    def start(self) -> dict[str, list[Future[_Listed]]]:
        """The lists that the scope asks for, the long ones first, by what they hold."""
        scope = self._scope
        wanted: dict[str, list[Future[_Listed]]] = {}
        if scope.pods:
            wanted["pods"] = [self._list("/api/v1/pods")]
        wanted["nodes"] = [self._list("/api/v1/nodes")]
        wanted["namespaces"] = [self._list("/api/v1/namespaces")]
        for name in scope.kinds:
            kind = kinds.KINDS[name]
            wanted[name] = self._in_scope(f"/apis/{kind.group_version}/{{}}{kind.plural}")
        if scope.instances:
            wanted["instances"] = self._in_scope(_INSTANCES)
            wanted["migrations"] = [self._list(_MIGRATIONS)]
            wanted["replicasets"] = self._in_scope(_REPLICA_SETS, metadata_only=True)
        if scope.volumes:
            wanted["volumes"] = [self._list(_VOLUMES)]
        return wanted

    def _in_scope(self, path: str, *, metadata_only: bool = False) -> list[Future[_Listed]]:
        """The list at `path` for each namespace of the scope; `{}` is where that stands."""
        if self._scope.namespaces is None:
            return [self._list(path.format(""), metadata_only)]
        return [
            self._list(path.format(f"namespaces/{namespace}/"), metadata_only)
            for namespace in self._scope.namespaces
        ]

    def _list(self, path: str, metadata_only: bool = False) -> Future[_Listed]:
        return self._pool.submit(self._read, path, metadata_only)

    def _read(self, path: str, metadata_only: bool) -> _Listed:
        try:
            return _Listed(list_all(self._api, path, metadata_only=metadata_only).items)
        except Forbidden as error:
            return _Listed((), unreadable(error))
        except NotFound:
            return _Listed(None)


def _snapshot(
    scope: Scope,
    platform: Platform,
    wanted: t.Mapping[str, t.Sequence[Future[_Listed]]],
    gaps: tuple[Unreadable, ...],
) -> Snapshot:
    lists = {what: [future.result() for future in futures] for what, futures in wanted.items()}

    def items(what: str) -> t.Iterator[dict[str, JSON]]:
        return (item for listed in lists.get(what, ()) for item in listed.items or ())

    found = (listed.gap for listeds in lists.values() for listed in listeds)
    migrations = map(migration_from_manifest, items("migrations"))
    return Snapshot(
        nodes=tuple(map(node_from_manifest, items("nodes"))),
        pods=tuple(map(pod_from_manifest, items("pods"))),
        namespaces=tuple(map(namespace_from_manifest, items("namespaces"))),
        workloads=tuple(
            workload_from_manifest(kind, item) for kind in scope.kinds for item in items(kind)
        ),
        machine_instances=tuple(map(machine_instance_from_manifest, items("instances"))),
        migrations=tuple(migration for migration in migrations if migration is not None),
        controllers=_controllers(items("replicasets")),
        claim_terms=_claim_terms(items("volumes")),
        platform=platform,
        unreadable=(*gaps, *filter(None, found), *_unserved_pools(platform, lists)),
    )


def _controllers(replica_sets: t.Iterable[t.Mapping[str, JSON]]) -> dict[str, Ref]:
    """Uid of each ReplicaSet to the Deployment that controls it."""
    return {
        metadata["uid"]: Ref(owner["kind"], metadata["namespace"], owner["name"])
        for metadata in (item["metadata"] for item in replica_sets)
        for owner in metadata.get("ownerReferences") or ()
        if owner.get("controller") and owner["kind"] == kinds.DEPLOYMENT.name
    }


def _claim_terms(
    volumes: t.Iterable[t.Mapping[str, JSON]],
) -> dict[tuple[str, str], tuple[NodeTerm, ...]]:
    """(namespace, claim) to the node terms of the volume that is bound to it."""
    found = {}
    for volume in volumes:
        spec = volume["spec"]
        claim = spec.get("claimRef") or {}
        terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
        if terms and claim and (volume.get("status") or {}).get("phase") == "Bound":
            key = (claim["namespace"], claim["name"])
            found[key] = tuple(node_term_from_json(term) for term in terms)
    return found


def _unserved_pools(
    platform: Platform, lists: t.Mapping[str, t.Sequence[_Listed]]
) -> tuple[Unreadable, ...]:
    pools = lists.get(kinds.POOL.name, ())
    if platform.kubevirt is None or all(listed.items is not None for listed in pools):
        return ()
    reason = f"KubeVirt {platform.kubevirt} does not serve {kinds.POOL.group_version}"
    return (Unreadable(kinds.POOL.plural, "", "list", reason),)
