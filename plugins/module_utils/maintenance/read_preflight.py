# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a drain looks at beside the snapshot, and ask the server for dry runs of its evictions and migrations.

A list that is forbidden is a gap of the input. What the server serves in no version is not there.
"""

from __future__ import annotations

import os
import socket
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from ..api.client import ApiClient
from ..api.errors import (
    Forbidden,
    NotFound,
    UnservedVersion,
)
from ..api.lists import list_all
from ..cluster.identity import KUBEVIRT_PATH, unreadable
from ..cluster.served_versions import ServedVersions
from ..model.json_pointer import Object
from ..model.objects import Labels, Node, Ref
from ..model.placement_manifests import selector_from_json
from ..model.snapshot import Unreadable
from ..scheduler.labels import matches
from .drain_plan import DrainView
from .dry_runs import dry_runs
from .options import MaintenanceOptions
from .preflight import Automation, PreflightInput
from .preflight_findings import CONFIG_POOL_UPDATING, HEALTH_CHECK

NODE_HEALTH_CHECKS = "/apis/remediation.medik8s.io/v1alpha1/nodehealthchecks"
CONFIG_POOLS = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools"
OPENSHIFT_MACHINES = "/apis/machine.openshift.io/v1beta1"
CLUSTER_API = "/apis/cluster.x-k8s.io/v1beta2"
MACHINE_APIS = (OPENSHIFT_MACHINES, CLUSTER_API)
"""APIs with Machines and MachineHealthChecks."""

_OLDER_VERSIONS = {CLUSTER_API: ("v1beta1",)}
"""What Cluster API serves before 1.11."""

PAUSED = "cluster.x-k8s.io/paused"
EXCLUDED = "remediation.medik8s.io/exclude-from-remediation"
"""Node label: NodeHealthCheck leaves the node alone."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_THREADS = 6


def read_preflight(
    api: ApiClient,
    view: DrainView,
    asked: MaintenanceOptions,
) -> PreflightInput:
    """The input of the preflight of a drain. Raises ApiError for everything but a missing right."""
    reader = _Reader(api)
    of_nodes = tuple(node for node in view.snapshot.nodes if node.name in view.nodes)
    with ThreadPoolExecutor(_THREADS, "preflight") as pool:
        health = pool.submit(reader.items, NODE_HEALTH_CHECKS)
        pools = pool.submit(reader.items, CONFIG_POOLS)
        kubevirts = pool.submit(reader.items, KUBEVIRT_PATH)
        machines = [pool.submit(reader.machine_health_checks, x, of_nodes) for x in MACHINE_APIS]
        automation = [
            *_node_health_checks(health.result(), of_nodes),
            *(check for future in machines for check in future.result()),
            *_config_pools(pools.result(), of_nodes),
        ]
        inputs = PreflightInput(
            view,
            reboot_expected=asked.reboot_expected,
            topology=asked.topology,
            automation=tuple(automation),
            kubevirt_update=_kubevirt_update(kubevirts.result()),
            job_pod=job_pod(),
        )
    answers = dry_runs(api, view)
    gaps = tuple(sorted({*reader.gaps, *answers.gaps}, key=str))
    return replace(inputs, evictions=answers.evictions, migrations=answers.migrations, gaps=gaps)


def job_pod() -> tuple[str, str] | None:
    """Namespace and name of the pod that this process runs in, by the environment that the kubelet gives
    to every container; None outside of a cluster. A hostname is the pod's name unless that is changed."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    try:
        namespace = NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except OSError:
        namespace = os.environ.get("POD_NAMESPACE", "")
    return namespace, os.environ.get("POD_NAME") or socket.gethostname()


class _Reader:
    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.served = ServedVersions(api)
        self.gaps: list[Unreadable] = []

    def items(self, path: str) -> tuple[Object, ...]:
        older = _OLDER_VERSIONS.get(path.rpartition("/")[0], ())
        try:
            return self.served.read(path, lambda at: list_all(self.api, at).items, older)
        except NotFound:
            return ()
        except (Forbidden, UnservedVersion) as error:
            self.gaps.append(unreadable(error))
            return ()

    def machine_health_checks(self, base: str, nodes: t.Sequence[Node]) -> list[Automation]:
        """Of the namespaces that these nodes name: whoever owns another one may create both kinds there."""
        named = [(node, _machine_of(node.annotations, base)) for node in nodes]
        namespaces = {namespace for _node, (namespace, _name) in named}
        checks = [
            check
            for check in self.items(f"{base}/machinehealthchecks")
            if check["metadata"].get("namespace") in namespaces
            and PAUSED not in (check["metadata"].get("annotations") or {})
        ]
        listed = self.items(f"{base}/machines") if checks else ()
        machines = {(x["metadata"].get("namespace"), x["metadata"]["name"]): x for x in listed}
        automation = []
        for check in checks:
            selector = selector_from_json((check.get("spec") or {}).get("selector"))
            covered = frozenset(
                node.name
                for node, key in named
                if key[0] == check["metadata"]["namespace"]
                and (machine := machines.get(key)) is not None
                and matches(selector, machine["metadata"].get("labels") or {})
                and _has_node(machine, node)
            )
            effect = "it replaces or reboots a machine whose node is not Ready for some time"
            ref = _ref("MachineHealthCheck", check)
            automation.append(Automation(HEALTH_CHECK, ref, covered, effect))
        return automation


def _machine_of(annotations: Labels, base: str) -> tuple[str, str]:
    """Namespace and name of the Machine of a node, by the annotations that the controllers write to nodes
    (machine-api-operator, `pkg/controller/nodelink`; Cluster API, `machine_controller_noderef.go`). Empty
    where there are none."""
    if base == OPENSHIFT_MACHINES:
        namespace, _slash, name = annotations.get("machine.openshift.io/machine", "").partition("/")
        return namespace, name
    namespace, name = (f"cluster.x-k8s.io/{x}" for x in ("cluster-namespace", "machine"))
    return annotations.get(namespace, ""), annotations.get(name, "")


def _has_node(machine: Object, node: Node) -> bool:
    """Machines of other clusters have nodes with other uids."""
    reference = (machine.get("status") or {}).get("nodeRef") or {}
    return reference.get("name") == node.name and reference.get("uid") in (None, "", node.uid)


def _node_health_checks(
    items: t.Sequence[Object], nodes: t.Sequence[Node]
) -> t.Iterator[Automation]:
    for check in items:
        spec = check.get("spec") or {}
        if spec.get("pauseRequests"):
            continue
        selector = selector_from_json(spec.get("selector"))
        covered = frozenset(
            node.name
            for node in nodes
            if matches(selector, node.labels) and EXCLUDED not in node.labels
        )
        effect = "it remediates a node that is not Ready for some time"
        yield Automation(HEALTH_CHECK, _ref("NodeHealthCheck", check), covered, effect)


_POOL_RANKS = {"master": 0, "arbiter": 0, "worker": 2}


def _config_pools(items: t.Sequence[Object], nodes: t.Sequence[Node]) -> t.Iterator[Automation]:
    for pool in items:
        spec, status = pool.get("spec") or {}, pool.get("status") or {}
        conditions = {x.get("type"): x.get("status") for x in status.get("conditions") or ()}
        if conditions.get("Updating") != "True" or spec.get("paused"):
            continue
        covered = frozenset(node.name for node in nodes if pool in _pools_of(node, items))
        effect = "it is updating, and cordons, drains and reboots its nodes by itself"
        yield Automation(CONFIG_POOL_UPDATING, _ref("MachineConfigPool", pool), covered, effect)


def _pools_of(node: Node, pools: t.Sequence[Object]) -> list[Object]:
    """The pools that update the node: of those that select it the control plane's, else its custom pool,
    else `worker` (machine-config-operator, pkg/helpers, GetPrimaryPoolForNode)."""
    ranks = [
        (_POOL_RANKS.get(pool["metadata"]["name"], 1), pool)
        for pool in pools
        if matches(selector_from_json((pool.get("spec") or {}).get("nodeSelector")), node.labels)
    ]
    first = min((rank for rank, _pool in ranks), default=0)
    return [pool for rank, pool in ranks if rank == first]


def _kubevirt_update(items: t.Sequence[Object]) -> str | None:
    """What a KubeVirt object says of an update in progress; None if there is none."""
    for kubevirt in items:
        status = kubevirt.get("status") or {}
        now, target = (status.get(f"{x}KubeVirtVersion") or "" for x in ("observed", "target"))
        phase = status.get("phase") or ""
        if now and target and now != target:
            return f"from {now} to {target}, phase {phase or 'unknown'}"
        if phase and phase != "Deployed":
            return f"its phase is {phase}"
    return None


def _ref(kind: str, item: Object) -> Ref:
    metadata = item["metadata"]
    return Ref(kind, metadata.get("namespace") or "", metadata["name"])
