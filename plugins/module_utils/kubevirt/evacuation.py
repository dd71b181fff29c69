# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMIs does KubeVirt go on evacuating from a node in service?

The eviction of a launcher pod sets `status.evacuationNodeName` of its VMI. Until the VMI has left this node, the
evacuation controller makes a migration again after each that fails, also where the node was uncordoned since and its
migration was deleted (KubeVirt, pkg/virt-controller/watch/drain/evacuation). A patch of the field is accepted and has
no effect. The subresource evacuate/cancel removes it (since 1.7, pkg/virt-api/rest/evacuate_cancel.go), and leaves the
migration that is pending.
"""

from __future__ import annotations

import typing as t

from ..model.findings import Finding
from ..model.kinds import MAINTENANCE
from ..model.objects import Node, Ref
from ..model.snapshot import Platform, Vmi
from .moving import EXTERNAL, eviction_strategy

_CANCELED_SINCE = (1, 7)


def evacuation_findings(
    vmis: t.Iterable[Vmi], nodes: t.Iterable[Node], platform: Platform, owner: Ref | None = None
) -> t.Iterator[Finding]:
    """About those of `vmis` that run on these nodes, or about their `owner`. With the strategy External another
    controller moves a VMI."""
    in_service = {
        node.name
        for node in nodes
        if node.ready and not node.unschedulable and MAINTENANCE not in node.annotations
    }
    for vmi in vmis:
        node = vmi.evacuation_node_name
        marked = node == vmi.node_name and node in in_service and not vmi.finished
        if marked and eviction_strategy(vmi, platform) != EXTERNAL:
            yield Finding(
                "evacuation_goes_on",
                "warning",
                f"VMI {vmi.ref.namespace}/{vmi.ref.name} is marked for evacuation from node {node}, which is in"
                " service: KubeVirt goes on migrating it until it has left this node.",
                _advice(vmi.ref, node, platform),
                (owner or vmi.ref,),
                named=(vmi.ref,),
            )


def _advice(vmi: Ref, node: str, platform: Platform) -> str:
    """The names are those of objects, which a shell and JSON take as they are."""
    if (0, 0) < platform.kubevirt_release < _CANCELED_SINCE:
        return (
            "KubeVirt before 1.7 cannot cancel it: let the VMI leave the node, by rules that allow another one, or"
            " restart its VM."
        )
    path = (
        f"/apis/subresources.kubevirt.io/v1/namespaces/{vmi.namespace}/virtualmachineinstances/{vmi.name}"
        "/evacuate/cancel"
    )
    body = f'{{"evacuationNodeName": "{node}"}}'
    cancel = f"echo '{body}' | kubectl replace --raw {path} -f -"
    delete = f"kubectl delete vmim -n {vmi.namespace} -l kubevirt.io/vmi-name={vmi.name}"
    return f"To end it, cancel the evacuation (`{cancel}`), then delete its pending migration (`{delete}`)."
