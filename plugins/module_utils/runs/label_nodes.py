# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels nodes: one list, a plan, and a patch for each node that differs."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..api.errors import ApiError
from ..api.lists import list_all
from ..api.requests import Api
from ..cluster.apply import Applied, apply
from ..cluster.rights import require_write_rights
from ..model.finding import Fault, Refused
from ..model.pointer import JSON
from ..model.write import Write
from ..rules.node_label_request import LabelRequest
from ..rules.node_labels import LabelledNode, LabelPlan, plan_labels, replan_node
from .more_faults import with_faults_of_the_cluster

NODES = "/api/v1/nodes"


def label_nodes(api: Api, request: LabelRequest, *, check: bool) -> Applied:
    """Makes the labels as `request` wants them; in check mode nothing is sent.

    Raises Refused with all faults, or the missing right, before anything is written, and ApiError.
    """
    plan, selected = _planned(api, request)
    require_write_rights(api, plan.writes, role="labeller")
    meant = {*request.named, *selected}

    def recompute(write: Write, manifest: JSON) -> Write | None:
        node = LabelledNode.of(manifest)
        return replan_node(request, node, plan.changes, meant=node.name in meant)

    return apply(api, plan.writes, recompute=recompute, check=check, metadata_only=True)


def label_faults(api: Api, request: LabelRequest, faults: t.Sequence[Fault]) -> tuple[Fault, ...]:
    """`faults` of the options, and those that only the cluster tells of what is left of them, such
    as nodes that it does not have.

    `exclusive` is left aside: which nodes it is about is not known while others have faults.
    """
    rest = replace(request, exclusive=())
    if not rest.named and not rest.selector:
        return tuple(faults)
    return with_faults_of_the_cluster(
        api, faults, lambda brief: _planned(brief, rest), "nodes of the cluster"
    )


def _planned(api: Api, request: LabelRequest) -> tuple[LabelPlan, t.Collection[str]]:
    """The plan, and the names of the nodes that the selector chooses. Raises Refused."""
    nodes, selected = _read(api, request)
    plan = plan_labels(request, nodes, selected)
    faults = (*plan.faults, *_dependants(api, request, plan))
    if faults:
        raise Refused(faults)
    return plan, selected


def _read(api: Api, request: LabelRequest) -> tuple[dict[str, LabelledNode], t.Collection[str]]:
    """The nodes, and the names of those that the selector chooses. All nodes are read only where
    the request is about more than the selector's."""
    selected = _list(api, {"labelSelector": request.selector}) if request.selector else []
    only_selected = request.selector and not request.exclusive
    nodes = selected if only_selected else _list(api, {})
    return {node.name: node for node in nodes}, {node.name for node in selected}


def _list(api: Api, params: t.Mapping[str, str]) -> list[LabelledNode]:
    try:
        listing = list_all(api, NODES, params=params, metadata_only=True)
    except ApiError as error:
        if error.status == 400 and params:
            raise Refused([Fault("selector", error.message)]) from error
        raise
    return [LabelledNode.of(item) for item in listing.items]


def _dependants(api: Api, request: LabelRequest, plan: LabelPlan) -> tuple[Fault, ...]:
    """Asked only where a value changes or goes: the usual run reads no more than the nodes."""
    if request.force or not plan.disturbing:
        return ()
    from ..cluster.read import Scope, read_snapshot
    from ..rules.label_dependants import dependant_faults

    return dependant_faults(read_snapshot(api, Scope(instances=False)), plan.disturbing)
