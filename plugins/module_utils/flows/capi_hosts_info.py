# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""capi_hosts_info from its options to its result: read the machines of one cluster, report their hosts."""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound
from ..api.lists import list_all
from ..capi.hosts import (
    Answer,
    HostReport,
    anti_affinity,
    host_report,
    missing_modules,
    node_labeling,
)
from ..capi.objects import (
    Controller,
    HostedNode,
    cluster_of,
    controller_from,
    machines_of_kubevirt,
    machines_of_vsphere,
    settings_from,
)
from ..cluster.served_versions import ServedVersions
from ..interface.arguments import topology_of
from ..interface.results import advice_entries, warn_once
from ..model.findings import InputError, InvalidInput
from ..model.input import nearest
from ..model.json_pointer import JSON
from ..model.topology import UndeclaredKey
from ..scheduler.labels import is_label_key

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

_MACHINES = "/apis/cluster.x-k8s.io/v1beta2/machines"
_VMS = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/vspherevms"
_CLUSTERS = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/vsphereclusters"
_VMIS = "/apis/kubevirt.io/v1/virtualmachineinstances"
_OLDER = ("v1beta1",)
_DEPLOYMENTS = "/apis/apps/v1/deployments"

Objects = tuple[dict[str, JSON], ...]


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput for options that are wrong or lead to nothing, and ApiError."""
    params = module.params
    key = _label_key(params)
    reader = _ManagementCluster(api)
    if params["source"] == "kubevirt":
        machines = machines_of_kubevirt(reader.read(_VMIS, "KubeVirt"))
        return _result(module, host_report(_of_cluster(machines, params), key, None), {})
    listed = machines_of_vsphere(
        reader.read(_MACHINES, "Cluster API"),
        reader.read(_VMS, "cluster-api-provider-vsphere (CAPV)"),
    )
    machines = _of_cluster(listed, params)
    namespace = machines[0].ref.namespace
    clusters = reader.read(_CLUSTERS, "cluster-api-provider-vsphere (CAPV)")
    chosen = (
        settings_from(x)
        for x in clusters
        if x["metadata"]["namespace"] == namespace and cluster_of(x) == params["cluster"]
    )
    settings = next(chosen, None)
    vsphere, core = map(reader.controller, ("capv-controller-manager", "capi-controller-manager"))
    answer = anti_affinity(vsphere, settings)
    report = host_report(machines, key, settings)
    return _result(module, report, _of_vsphere(answer, report, vsphere, core))


def _label_key(params: t.Mapping[str, t.Any]) -> str:
    faults = []
    if not params["cluster"].strip():
        faults.append(InputError("cluster", "must not be empty: name the Cluster"))
    name = params["label"]
    try:
        key = topology_of(params).resolve(name)
    except UndeclaredKey as error:
        faults.append(InputError("label", str(error)))
        key = name
    if not is_label_key(key):
        faults.append(InputError("label", f"must be a label key, not {key!r}"))
    if faults:
        raise InvalidInput(faults)
    return key


class _ManagementCluster:
    """Reads the objects of a management cluster in the versions that it serves."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._served = ServedVersions(api)

    def read(self, path: str, product: str) -> Objects:
        """Raises InvalidInput where the cluster does not serve the kind at all."""
        try:
            return self._served.read(path, lambda x: list_all(self._api, x).items, _OLDER)
        except NotFound as error:
            group, resource = path.split("/")[2], path.rpartition("/")[2]
            text = (
                f"this cluster does not serve {resource}.{group}, so {product} is not installed: connect to the"
                " management cluster of the nodes, or set source to what creates their VMs"
            )
            raise InvalidInput([InputError("source", text)]) from error

    def controller(self, name: str) -> Controller | None:
        """The controller whose Deployment has this name, in whichever namespace; None if it is not known."""
        try:
            params = {"fieldSelector": f"metadata.name={name}"}
            found = list_all(self._api, _DEPLOYMENTS, params=params).items
        except Forbidden:
            return None
        return controller_from(found[0]) if found else None


def _of_cluster(
    machines: t.Iterable[HostedNode], params: t.Mapping[str, t.Any]
) -> tuple[HostedNode, ...]:
    """The machines of the cluster that the options name. Raises InvalidInput if there are none, or of two clusters."""
    listed = tuple(machines)
    name, namespace = params["cluster"], params["namespace"]
    chosen = [x for x in listed if x.cluster == name and namespace in (None, x.ref.namespace)]
    if not chosen:
        where = f" in namespace {namespace!r}" if namespace is not None else ""
        known = sorted({x.cluster for x in listed if x.cluster})
        hint = nearest(name, known) or (f"; there are {', '.join(known)}" if known else "")
        text = f"no machine belongs to a cluster {name!r}{where}{hint}"
        raise InvalidInput([InputError("cluster", text)])
    namespaces = sorted({x.ref.namespace for x in chosen})
    if len(namespaces) > 1:
        text = f"there is a cluster {name!r} in each of {', '.join(namespaces)}: name one of them"
        raise InvalidInput([InputError("namespace", text)])
    return tuple(chosen)


def _of_vsphere(
    answer: Answer, report: HostReport, vsphere: Controller | None, core: Controller | None
) -> dict[str, JSON]:
    return {
        "anti_affinity": answer.state,
        "reason": answer.reason,
        "node_labeling": node_labeling(vsphere, core),
        "missing_modules": missing_modules(report.groups),
        "versions": {
            "vsphere": vsphere.version if vsphere is not None else "",
            "cluster_api": core.version if core is not None else "",
        },
    }


def _result(
    module: AnsibleModule, report: HostReport, of_vsphere: t.Mapping[str, JSON]
) -> dict[str, t.Any]:
    warn_once(module.warn, report.findings)
    return {
        "ok": report.ok,
        "node_labels": report.node_labels,
        "groups": list(report.groups),
        **of_vsphere,
        "findings": [finding.as_json() for finding in report.findings],
        **advice_entries(report.findings),
        "table": report.table,
    }
