# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a cluster: its identity, the platform, and a whole Snapshot of paged lists at once.

A list that is forbidden is not empty: it becomes an entry of `Snapshot.unreadable`. The list of a
kind that the server does not have is empty. The exception is VirtualMachinePool: an old KubeVirt
serves another version of it than the one that is read here.
"""

from __future__ import annotations

import functools
import re
import typing as t
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from ..api.client import METADATA, ApiClient
from ..api.errors import Forbidden, NotFound, ServerFault
from ..api.lists import list_all, list_converted
from ..kubevirt.node_selectors import is_expanded
from ..model import kinds
from ..model.gc import collector_paused
from ..model.json_pointer import JSON
from ..model.kinds import KUBEVIRT_V1, MIGRATIONS, VMIS
from ..model.manifests import (
    controller_of,
    migration_from_manifest,
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    vmi_from_manifest,
    workload_from_manifest,
)
from ..model.objects import NodeTerm, Ref
from ..model.placement_manifests import node_term_from_json
from ..model.quota import quota_from_manifest
from ..model.snapshot import Platform, Snapshot, Unreadable

IDENTITY_PATH = "/api/v1/namespaces/kube-system"
"""Its uid is the cluster's: the namespace is as old as the cluster and cannot be deleted."""


def cluster_uid(api: ApiClient) -> str:
    """The uid of the cluster. Raises ApiError."""
    return str(api.get(IDENTITY_PATH, accept=METADATA)["metadata"]["uid"])


KUBEVIRT_PATH = f"/apis/{KUBEVIRT_V1}/kubevirts"


def platform_and_gaps(api: ApiClient) -> tuple[Platform, tuple[Unreadable, ...]]:
    """The platform, and the objects about it that are forbidden: their fields have KubeVirt's defaults.

    `kubevirt` is None where KubeVirt is not installed, and "" where its version is not known.
    """
    gaps: list[Unreadable] = []

    def unless_forbidden(read: t.Callable[[], JSON], otherwise: JSON) -> JSON:
        try:
            return read()
        except Forbidden as error:
            gaps.append(unreadable(error))
            return otherwise

    uid = unless_forbidden(lambda: cluster_uid(api), "")
    version = unless_forbidden(lambda: api.get("/version"), {})
    try:
        installed = unless_forbidden(lambda: list_all(api, KUBEVIRT_PATH).items, ({},))
    except NotFound:
        installed = ()
    fields = _kubevirt_fields(installed[0]) if installed else {}
    platform = Platform(uid=uid, api=api.host, kubernetes=_release(version), **fields)
    return platform, tuple(gaps)


def unreadable(error: Forbidden) -> Unreadable:
    """The Unreadable entry for a forbidden request."""
    request = error.request
    return Unreadable(request.resource, request.namespace, request.verb, error.advise())


def _kubevirt_fields(kubevirt: t.Mapping[str, JSON]) -> dict[str, t.Any]:
    """The fields of a Platform from the KubeVirt object; missing ones have defaults."""
    configuration = (kubevirt.get("spec") or {}).get("configuration") or {}
    migrations = configuration.get("migrations") or {}
    named = {
        "kubevirt": (kubevirt.get("status") or {}).get("observedKubeVirtVersion") or "",
        "rollout_strategy": configuration.get("vmRolloutStrategy"),
        "eviction_strategy": configuration.get("evictionStrategy"),
        "migrations_per_cluster": migrations.get("parallelMigrationsPerCluster"),
        "migrations_per_node": migrations.get("parallelOutboundMigrationsPerNode"),
        "configuration": configuration,
        "architecture": (kubevirt.get("status") or {}).get("defaultArchitecture"),
    }
    return {name: value for name, value in named.items() if value is not None}


def _release(version: t.Mapping[str, JSON]) -> tuple[int, int]:
    """(major, minor); providers write minor as `31+`."""
    parts = [re.match(r"\d+", str(version.get(name) or "")) for name in ("major", "minor")]
    major, minor = (int(part.group()) if part else 0 for part in parts)
    return major, minor


_THREADS = 3

_INSTANCES = f"/apis/{KUBEVIRT_V1}/{{}}{VMIS}"
_MIGRATIONS = f"/apis/{KUBEVIRT_V1}/{MIGRATIONS}"
_REPLICA_SETS = "/apis/apps/v1/{}replicasets"
_METADATA_ONLY = "replicasets"
"""Only the owners of these objects are needed."""
_VOLUMES = "/api/v1/persistentvolumes"
_QUOTAS = "/api/v1/{}resourcequotas"


@dataclass(frozen=True)
class ReadScope:
    """What of a cluster is read. Nodes, namespaces and the platform always are.

    `namespaces` are those of workloads and VMIs, None for all. `pods` are always
    those of all namespaces: pods anywhere count for affinity, symmetry, ports and resources.
    """

    namespaces: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = tuple(kinds.KINDS)
    pods: bool = True
    instances: bool = True
    volumes: bool = True
    quotas: bool = False


NODES_ONLY = ReadScope((), (), pods=False, instances=False, volumes=False)
"""Beside namespaces and the platform."""


@dataclass(frozen=True)
class _ListResult:
    """One list, converted: `items` is None where the server does not serve the kind."""

    items: tuple[t.Any, ...] | None
    gap: Unreadable | None = None


def read_snapshot(api: ApiClient, scope: ReadScope | None = None) -> Snapshot:
    """Reads what `scope` names. Raises ApiError for everything but a missing right."""
    scope = scope or ReadScope()
    with collector_paused(), ThreadPoolExecutor(_THREADS, "read") as pool:
        platform = pool.submit(platform_and_gaps, api)
        reading = {
            what: [pool.submit(_read_list, api, path, what) for path in paths]
            for what, paths in _paths(scope).items()
        }
        futures: list[Future[t.Any]] = [platform]
        futures += [future for many in reading.values() for future in many]
        _done, left = wait(futures, return_when=FIRST_EXCEPTION)
        for future in left:  # after one failure the other lists would fail too, only later
            future.cancel()
        return _snapshot(
            scope,
            *platform.result(),
            {what: [future.result() for future in many] for what, many in reading.items()},
        )


def with_expanded_templates(
    api: ApiClient, snapshot: Snapshot, workloads: t.Collection[Ref]
) -> Snapshot:
    """The snapshot with the templates of the halted VMs among `workloads` as virt-api expands them, where
    they have an instance type or a preference. A running VM's VMI shows that. What cannot be expanded
    becomes an entry of `unreadable`."""
    running = {(vmi.ref.namespace, vmi.ref.name) for vmi in snapshot.vmis}
    halted = [
        workload.ref
        for workload in snapshot.workloads
        if workload.ref in workloads
        and workload.ref.kind == kinds.VIRTUAL_MACHINE.name
        and (workload.ref.namespace, workload.ref.name) not in running
        and workload.ref not in snapshot.expanded
        and is_expanded(workload)
    ]
    if not halted:
        return snapshot
    with ThreadPoolExecutor(_THREADS, "expand") as pool:
        answers = list(pool.map(lambda ref: _expanded(api, ref), halted))
    expanded = {
        ref: answer for ref, answer in zip(halted, answers, strict=True) if isinstance(answer, dict)
    }
    gaps = dict.fromkeys(answer for answer in answers if isinstance(answer, Unreadable))
    return replace(
        snapshot,
        expanded={**snapshot.expanded, **expanded},
        unreadable=(*snapshot.unreadable, *gaps),
    )


_EXPANDED = "/apis/subresources.kubevirt.io/v1/namespaces/{}/virtualmachines/{}/expand-spec"


def _expanded(api: ApiClient, vm: Ref) -> dict[str, JSON] | Unreadable | None:
    """The spec of the template of a VM with its instance type and preference; None where it is gone."""
    try:
        answer = api.get(_EXPANDED.format(vm.namespace, vm.name))
    except NotFound:
        return None
    except Forbidden as error:
        return unreadable(error)
    except ServerFault as error:
        if not error.is_status:
            raise
        resource = f"instance type and preference of {vm.name}"
        return Unreadable(resource, vm.namespace, "get", error.message)
    spec: dict[str, JSON] = answer["spec"]["template"]["spec"]
    return spec


def _paths(scope: ReadScope) -> dict[str, list[str]]:
    """The paths of the lists in the scope, by name. The long lists come first."""

    def in_scope(path: str) -> list[str]:
        """The path for each namespace of the scope, which replaces `{}`."""
        if scope.namespaces is None:
            return [path.format("")]
        return [path.format(f"namespaces/{namespace}/") for namespace in scope.namespaces]

    paths = {"pods": ["/api/v1/pods"]} if scope.pods else {}
    paths |= {"nodes": ["/api/v1/nodes"], "namespaces": ["/api/v1/namespaces"]}
    for name in scope.kinds:
        kind = kinds.KINDS[name]
        paths[name] = in_scope(f"/apis/{kind.group_version}/{{}}{kind.plural}")
    if scope.instances:
        paths["instances"] = in_scope(_INSTANCES)
        paths["migrations"] = [_MIGRATIONS]
        paths[_METADATA_ONLY] = in_scope(_REPLICA_SETS)
    if scope.volumes:
        paths["volumes"] = [_VOLUMES]
    if scope.quotas:
        paths["quotas"] = in_scope(_QUOTAS)
    return paths


def _read_list(api: ApiClient, path: str, what: str) -> _ListResult:
    convert = _CONVERTERS[what]
    try:
        listing = list_converted(api, path, convert, metadata_only=what == _METADATA_ONLY)
    except Forbidden as error:
        return _ListResult((), unreadable(error))
    except NotFound:
        return _ListResult(None)
    return _ListResult(listing.items)


def _snapshot(
    scope: ReadScope,
    platform: Platform,
    gaps: tuple[Unreadable, ...],
    lists: t.Mapping[str, t.Sequence[_ListResult]],
) -> Snapshot:
    def values(*names: str) -> tuple[t.Any, ...]:
        """What was read of the lists, without the items that convert to None."""
        return tuple(
            value
            for name in names
            for result in lists.get(name, ())
            for value in result.items or ()
            if value is not None
        )

    refused = (result.gap for results in lists.values() for result in results)
    return Snapshot(
        nodes=values("nodes"),
        pods=values("pods"),
        namespaces=values("namespaces"),
        workloads=values(*scope.kinds),
        vmis=values("instances"),
        migrations=values("migrations"),
        controllers=dict(values(_METADATA_ONLY)),
        claim_terms=dict(values("volumes")),
        quotas=values("quotas"),
        platform=platform,
        unreadable=(*gaps, *filter(None, refused), *_unserved_pools(platform, lists)),
    )


def _controller(replica_set: t.Mapping[str, JSON]) -> tuple[str, Ref] | None:
    """The uid of a ReplicaSet and the Deployment that controls it."""
    metadata = replica_set["metadata"]
    owner = controller_of(metadata)
    if owner is None or owner.kind != kinds.DEPLOYMENT.name:
        return None
    return metadata["uid"], Ref(owner.kind, metadata["namespace"], owner.name)


def _claim_terms(
    volume: t.Mapping[str, JSON],
) -> tuple[tuple[str, str], tuple[NodeTerm, ...]] | None:
    """(namespace, claim) and the node terms of the volume that is bound to it."""
    spec = volume["spec"]
    claim = spec.get("claimRef") or {}
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    if not (terms and claim and (volume.get("status") or {}).get("phase") == "Bound"):
        return None
    return (claim["namespace"], claim["name"]), tuple(map(node_term_from_json, terms))


_CONVERTERS: t.Mapping[str, t.Callable[[dict[str, JSON]], t.Any]] = {
    "nodes": node_from_manifest,
    "pods": pod_from_manifest,
    "namespaces": namespace_from_manifest,
    **{name: functools.partial(workload_from_manifest, name) for name in kinds.KINDS},
    "instances": vmi_from_manifest,
    "migrations": migration_from_manifest,
    _METADATA_ONLY: _controller,
    "volumes": _claim_terms,
    "quotas": quota_from_manifest,
}
"""What is kept of an item of each list; None: nothing."""


def _unserved_pools(
    platform: Platform, lists: t.Mapping[str, t.Sequence[_ListResult]]
) -> tuple[Unreadable, ...]:
    pools = lists.get(kinds.POOL.name, ())
    if platform.kubevirt is None or all(listed.items is not None for listed in pools):
        return ()
    reason = f"KubeVirt {platform.kubevirt} does not serve {kinds.POOL.group_version}"
    return (Unreadable(kinds.POOL.plural, "", "list", reason),)
