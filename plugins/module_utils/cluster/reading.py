# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a cluster: a Snapshot of the lists that a flow names, several of them at a time.

A forbidden list is not taken for an empty one: it becomes an entry of `Snapshot.unreadable`. A list is read in
a version that the server serves (`served_versions`); a kind that it serves in no version has no objects.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound, UnservedVersion
from ..api.lists import Listing, list_converted
from ..api.parallel import read_together
from ..kinds.registry import KINDS, kind_of
from ..kinds.vmi import KUBEVIRT_V1, VMIS
from ..kubevirt.instances import launcher_pods
from ..model.budget import BUDGETS
from ..model.budget_manifests import budget_from_manifest
from ..model.json_pointer import JSON
from ..model.kinds import MIGRATIONS
from ..model.manifests import (
    controller_of,
    migration_from_manifest,
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
    pod_from_metadata,
    vmi_from_manifest,
    workload_from_manifest,
)
from ..model.objects import Ref
from ..model.placement_manifests import placement_from_spec
from ..model.quota import quota_from_manifest
from ..model.snapshot import Platform, Snapshot, Unreadable, Workload
from ..model.storage import VOLUME_FIELDS, VOLUMES, fields_of_volumes, volume_of_a_claim
from .foreign_owners import without_foreign_owners
from .identity import platform_and_gaps, unreadable
from .served_versions import ServedVersions

_INSTANCES = f"/apis/{KUBEVIRT_V1}/{{}}{VMIS}"
_MIGRATIONS = f"/apis/{KUBEVIRT_V1}/{{}}{MIGRATIONS}"
_REPLICA_SETS = "/apis/apps/v1/{}replicasets"
_METADATA_ONLY = "replicasets"
"""The list of which only metadata is read: only the owners of its objects are needed."""
_QUOTAS = "/api/v1/{}resourcequotas"
_BUDGETS = f"/apis/policy/v1/{{}}{BUDGETS}"


Pods = t.Literal["", "metadata", "unfinished", "all"]
"""Which pods are read: none; name, labels and owner of unfinished pods; unfinished pods; all pods. A pod is
unfinished unless its phase is Succeeded or Failed."""


@dataclass(frozen=True)
class ReadScope:
    """The lists to read. Nodes, namespaces and the platform are always read.

    `namespaces` are those of workloads and VMIs, `pod_namespaces` those of pods; None means all. Pods of
    all namespaces count for affinity, anti-affinity, ports and resources. `migrations`: "moving" reads the
    namespaces of VMIs with several launcher pods, which is enough for migrations in flight; each VMI keeps up
    to five finished ones. `volumes`: "claimed" reads the volumes of claims in `namespaces`, or all volumes if
    a pod affinity term selects pods of other namespaces, since the volumes there then matter too.
    """

    namespaces: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = tuple(KINDS)
    pods: Pods = "unfinished"
    pod_namespaces: tuple[str, ...] | None = None
    instances: bool = True
    migrations: t.Literal["", "moving", "all"] = "all"
    volumes: t.Literal["", "claimed", "all"] = "all"
    quotas: bool = False
    budgets: bool = False


NODES_ONLY = ReadScope((), (), pods="", instances=False, migrations="", volumes="")
"""Nodes, namespaces and the platform."""

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


@dataclass(frozen=True)
class ListQuery:
    """A list that a scope needs. `what` is its key in `_CONVERTERS`."""

    what: str
    path: str
    metadata_only: bool = False
    field_selector: str = ""

    @property
    def params(self) -> dict[str, str]:
        """The query of the request."""
        return {"fieldSelector": self.field_selector} if self.field_selector else {}

    def convert(self, manifest: dict[str, JSON]) -> t.Any:
        """The model value of an item; None if the item is not needed."""
        return _CONVERTERS[self.what](manifest)

    def read(
        self,
        api: ApiClient,
        served: ServedVersions,
        convert: t.Callable[[dict[str, JSON]], t.Any],
    ) -> tuple[Listing[t.Any], str]:
        """The result of `convert` for each item, and the path in the version that was read. Raises ApiError, of
        which NotFound means that there are no such objects."""

        def read(path: str) -> tuple[Listing[t.Any], str]:
            listing = list_converted(
                api, path, convert, params=self.params, metadata_only=self.metadata_only
            )
            return listing, path

        kind = KINDS.get(self.what)
        return served.read(self.path, read, kind.older_versions if kind else ())


@dataclass(frozen=True)
class ListResult:
    """One list, converted: `items` is None where the server does not serve the kind."""

    query: ListQuery
    items: t.Sequence[t.Any] | None
    gap: Unreadable | None = None


def read_snapshot(api: ApiClient, scope: ReadScope | None = None) -> Snapshot:
    """Read the lists of `scope`. Raises ApiError, but not for a missing right."""
    scope = scope or ReadScope()
    reads: list[t.Callable[[], t.Any]] = [functools.partial(platform_and_gaps, api)]
    served = ServedVersions(api)
    reads += [functools.partial(_read_list, api, served, query) for query in list_queries(scope)]
    (platform, gaps), *results = read_together(reads)
    snapshot = snapshot_of(scope, platform, gaps, results)
    return _with_dependent_lists(api, scope, snapshot)


def read_more(
    api: ApiClient, snapshot: Snapshot, read_scope: ReadScope, scope: ReadScope
) -> Snapshot:
    """A snapshot that was read with `read_scope`, and the lists that `scope` needs beside."""
    known = list_queries(read_scope)
    queries = [query for query in list_queries(scope) if query not in known]
    return _with_dependent_lists(api, scope, _with_lists(api, snapshot, queries))


_FIELDS = {
    "pods": ("pods",),
    "pod metadata": ("pods",),
    "migrations": ("migrations",),
    "volumes": VOLUME_FIELDS,
    "quotas": ("quotas",),
    "budgets": ("budgets",),
}
"""Which fields of a Snapshot have what is in the list that `_with_lists` adds."""


def _with_lists(api: ApiClient, snapshot: Snapshot, queries: t.Sequence[ListQuery]) -> Snapshot:
    """The snapshot with more lists."""
    if not queries:
        return snapshot
    served = ServedVersions(api)
    results = read_together([functools.partial(_read_list, api, served, x) for x in queries])
    more = snapshot_of(NODES_ONLY, snapshot.platform, (), results)
    read = {query.what for query in queries}
    changed = {
        x: getattr(more, x) for what, names in _FIELDS.items() if what in read for x in names
    }
    gaps = tuple(dict.fromkeys((*snapshot.unreadable, *more.unreadable)))
    return replace(snapshot, **changed, unreadable=gaps)


def _with_dependent_lists(api: ApiClient, scope: ReadScope, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the migrations and volumes whose queries depend on other lists."""
    snapshot = without_foreign_owners(snapshot)
    if scope.migrations == "moving":  # in the namespaces of VMIs that have several launcher pods
        launchers = launcher_pods(snapshot).values()
        moving = sorted({pods[0].namespace for pods in launchers if len(pods) > 1})
        queries = [ListQuery("migrations", path) for path in _in_namespaces(_MIGRATIONS, moving)]
        snapshot = _with_lists(api, snapshot, queries)
    if scope.volumes == "claimed":
        namespaces = scope.namespaces
        if namespaces is not None and reaches_across(snapshot, namespaces):
            return _with_lists(api, snapshot, [ListQuery("volumes", VOLUMES)])
        if namespaces is not None:
            from .read_storage import claims_in, with_claim_terms

            return with_claim_terms(api, snapshot, claims_in(snapshot, namespaces))
    return snapshot


def reaches_across(snapshot: Snapshot, namespaces: t.Collection[str]) -> bool:
    """Whether a pod affinity term, required or preferred, of a pod in `namespaces` selects pods of other
    namespaces or the reverse. A term with a namespaceSelector counts, since it may."""
    distinct = {(pod.namespace, pod.placement.number): pod.placement for pod in snapshot.pods}
    placements = [(namespace, placement) for (namespace, _number), placement in distinct.items()]
    placements += [
        (workload.ref.namespace, placement_from_spec(spec))
        for workload in snapshot.workloads
        if "affinity" in (spec := workload.template.get("spec") or {})
    ]
    return any(
        term.namespace_selector is not None
        or len({name in namespaces for name in (namespace, *term.namespaces)}) > 1
        for namespace, placement in placements
        for term in (
            *placement.affinity,
            *placement.anti_affinity,
            *(term for _weight, term in placement.preferred_affinity),
            *(term for _weight, term in placement.preferred_anti_affinity),
        )
    )


def list_queries(scope: ReadScope) -> list[ListQuery]:
    """The lists of the scope that depend on no other list. Long lists come first."""
    queries = []
    if scope.pods:
        what, metadata_only = (
            ("pod metadata", True) if scope.pods == "metadata" else ("pods", False)
        )
        selector = "" if scope.pods == "all" else _UNFINISHED
        for path in _in_namespaces("/api/v1/{}pods", scope.pod_namespaces):
            queries.append(ListQuery(what, path, metadata_only, selector))
    paths = {"nodes": ["/api/v1/nodes"], "namespaces": ["/api/v1/namespaces"]}
    for name in scope.kinds:
        kind = KINDS[name]
        path = f"/apis/{kind.group_version}/{{}}{kind.plural}"
        paths[name] = _in_namespaces(path, scope.namespaces)
    if scope.instances:
        paths["instances"] = _in_namespaces(_INSTANCES, scope.namespaces)
        paths[_METADATA_ONLY] = _in_namespaces(_REPLICA_SETS, scope.namespaces)
    if scope.migrations == "all":
        paths["migrations"] = _in_namespaces(_MIGRATIONS, None)
    if scope.volumes == "all" or (scope.volumes and scope.namespaces is None):
        paths["volumes"] = [VOLUMES]
    if scope.quotas:
        paths["quotas"] = _in_namespaces(_QUOTAS, scope.namespaces)
    if scope.budgets:
        paths["budgets"] = _in_namespaces(_BUDGETS, scope.namespaces)
    return queries + [
        ListQuery(what, path, what == _METADATA_ONLY)
        for what, paths_of_list in paths.items()
        for path in paths_of_list
    ]


def _in_namespaces(path: str, namespaces: t.Iterable[str] | None) -> list[str]:
    """The path for each namespace, which replaces `{}`; one path for all namespaces if that is None."""
    if namespaces is None:
        return [path.format("")]
    return [path.format(f"namespaces/{namespace}/") for namespace in namespaces]


def _read_list(api: ApiClient, served: ServedVersions, query: ListQuery) -> ListResult:
    try:
        listing, _path = query.read(api, served, query.convert)
    except (Forbidden, UnservedVersion) as error:
        return ListResult(query, (), unreadable(error))
    except NotFound:
        return ListResult(query, None)
    return ListResult(query, listing.items)


def snapshot_of(
    scope: ReadScope,
    platform: Platform,
    gaps: tuple[Unreadable, ...],
    results: t.Sequence[ListResult],
) -> Snapshot:
    """The Snapshot of the lists of a scope, in the order of `list_queries`."""

    def values(*names: str) -> tuple[t.Any, ...]:
        """The converted items of the lists with these names, without None."""
        return tuple(
            value
            for name in names
            for result in results
            if result.query.what == name
            for value in result.items or ()
            if value is not None
        )

    refused = (result.gap for result in results)
    return Snapshot(
        nodes=values("nodes"),
        pods=values("pods", "pod metadata"),
        namespaces=values("namespaces"),
        workloads=values(*scope.kinds),
        vmis=values("instances"),
        migrations=values("migrations"),
        controllers=dict(values(_METADATA_ONLY)),
        **fields_of_volumes(values("volumes")),
        quotas=values("quotas"),
        budgets=values("budgets"),
        platform=platform,
        unreadable=(*gaps, *dict.fromkeys(filter(None, refused)), *_no_nodes(results)),
    )


def _no_nodes(results: t.Iterable[ListResult]) -> t.Iterator[Unreadable]:
    """A list of nodes that is empty: a filter or a proxy may have made it so, and nothing can run there."""
    read = [x for x in results if x.query.what == "nodes" and x.gap is None]
    if read and not any(result.items for result in read):
        why = "the list is empty, and no cluster runs without nodes: check host, and what answers in front of it"
        yield Unreadable("nodes", "", "list", why)


def _controller(replica_set: t.Mapping[str, JSON]) -> tuple[str, Ref] | None:
    """The uid of a ReplicaSet and the Deployment that controls it."""
    metadata = replica_set["metadata"]
    owner = controller_of(metadata)
    if owner is None or not kind_of(owner.kind).makes:
        return None
    return metadata["uid"], Ref(owner.kind, metadata["namespace"], owner.name)


def _workload(kind: str, manifest: dict[str, JSON]) -> Workload | None:
    """A workload; None for an object that another workload makes for one revision of its template."""
    workload = workload_from_manifest(kind, manifest)
    maker = kind_of(workload.owner.kind if workload.owner is not None else "")
    return workload if maker.has_vm or maker.makes != kind else None


_CONVERTERS: t.Mapping[str, t.Callable[[dict[str, JSON]], t.Any]] = {
    "nodes": node_from_manifest,
    "pods": pod_from_manifest,
    "pod metadata": pod_from_metadata,
    "namespaces": namespace_from_manifest,
    **{name: functools.partial(_workload, name) for name in KINDS},
    "instances": vmi_from_manifest,
    "migrations": migration_from_manifest,
    _METADATA_ONLY: _controller,
    "volumes": volume_of_a_claim,
    "quotas": quota_from_manifest,
    "budgets": budget_from_manifest,
}
