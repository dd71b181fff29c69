# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_labels from its options to its result: one list, a plan, a patch for each node that differs."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ..api.client import ApiClient
from ..api.errors import ApiError
from ..api.lists import list_all
from ..interface.arguments import topology_of
from ..interface.runner import PartialFailure, task_error, with_errors_of_the_cluster
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import Entry, outcome
from ..model.write import Write, writes_result
from ..node_labels.plan import (
    LabelledNode,
    LabelPlan,
    dependent_faults,
    dependent_workloads,
    plan_labels,
    replan_node,
)
from ..node_labels.request import LabelRequest, parse_label_request

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..cluster.patching import Failed

NODES = "/api/v1/nodes"


def run(module: AnsibleModule, api: ApiClient) -> dict[str, t.Any]:
    """Raises InvalidInput with every fault of the options, PartialFailure where some nodes could
    not be written, and ApiError."""
    request, faults = parse_label_request(module.params, topology_of(module.params))
    if faults:
        raise InvalidInput(label_faults(api, request, faults))
    labelled = label_nodes(api, request, check=module.check_mode)
    done, failed = labelled.done, labelled.failed
    result = {
        **writes_result(done, diff=module._diff),
        "nodes": [
            {"name": write.target.name, "before": write.before, "after": write.after}
            for write in done
        ],
        "planned": {
            write.target.name: {**dict.fromkeys(write.before), **write.after} for write in done
        },
        "dependents": [ref._asdict() for ref in labelled.dependents],
        "counts": {
            "changed": len(done),
            "unchanged": labelled.unchanged,
            "failed": len(failed),
        },
        **outcome(
            entries_done(labelled, request, check=module.check_mode),
            following=entries_next(labelled, check=module.check_mode),
        ),
    }
    if failed:
        errors = [task_error(failure.error, failure.write.target) for failure in failed]
        raise PartialFailure(result, errors)
    return result


def entries_done(labelled: Labelled, request: LabelRequest, *, check: bool) -> t.Iterator[Entry]:
    """What became of the labels of nodes, for people."""
    writes = labelled.done
    if names := [x.target.name for x in writes if x.after.items() - x.before.items()]:
        text = "nodes that would be labeled" if check else "labeled nodes"
        yield Entry("labeled", text, tuple(names))
    if names := [x.target.name for x in writes if x.before.keys() - x.after.keys()]:
        text = f"nodes from which labels {'would be' if check else 'were'} removed"
        yield Entry("labels_removed", text, tuple(names))
    if writes or labelled.failed:
        return
    if not (request.named or request.selector or request.exclusive):
        yield Entry("unchanged", "no node is named, so no label is changed")
    elif request.labels or any(request.per_node.values()):
        yield Entry("unchanged", "all nodes have these labels already")
    else:
        yield Entry("unchanged", "none of the nodes has these labels", request.remove)


def entries_next(labelled: Labelled, *, check: bool) -> t.Iterator[Entry]:
    """What the labels that were written leave to do."""
    if labelled.dependents and labelled.done and not check:
        text = "to move what depends on these labels: playbook rollout, for"
        yield Entry("rollout", text, tuple(map(str, labelled.dependents)))


@dataclass(frozen=True)
class Labelled:
    """What was written, and what could not be; `nodes` are those that the task names or selects, `dependents` workloads
    whose rules depend on labels that changed."""

    nodes: frozenset[str]
    done: tuple[Write, ...] = ()
    failed: tuple[Failed, ...] = ()
    dependents: tuple[Ref, ...] = ()

    @property
    def unchanged(self) -> int:
        """How many nodes of the task have the requested labels without a write."""
        differing = {write.target.name for write in self.done}
        return len(self.nodes - differing - {x.write.target.name for x in self.failed})


def label_nodes(api: ApiClient, request: LabelRequest, *, check: bool) -> Labelled:
    """Sets the labels that `request` wants. Check mode stores nothing: it asks the server by dry runs.

    Raises InvalidInput with all faults, or the missing right, before anything is written, and ApiError.
    """
    plan, selected, dependents = _planned(api, request)
    meant = frozenset((*request.named, *selected))
    if not plan.writes:
        return Labelled(meant, dependents=dependents)
    done, failed = _write(api, request, plan, meant, check=check)
    return Labelled(meant, done, failed, dependents)


def _write(
    api: ApiClient, request: LabelRequest, plan: LabelPlan, meant: frozenset[str], *, check: bool
) -> tuple[tuple[Write, ...], tuple[Failed, ...]]:
    """The writes that were made, and those that failed. What writes is imported where a label differs."""
    from ..cluster.access import require_write_rights
    from ..cluster.patching import Failed, apply, refusals, try_writes

    require_write_rights(api, plan.writes, role="labeler")

    def recompute(write: Write, manifest: JSON) -> Write | None:
        node = LabelledNode.of(manifest)
        return replan_node(request, node, plan.changes, meant=node.name in meant)

    refused = refusals(try_writes(api, plan.writes)) if check else {}
    writes = [write for write in plan.writes if write.target not in refused]
    applied = apply(api, writes, recompute=recompute, check=check, metadata_only=True)
    failed = [Failed(x, refused[x.target]) for x in plan.writes if x.target in refused]
    return applied.done, (*applied.failed, *failed)


def label_faults(
    api: ApiClient, request: LabelRequest, faults: t.Sequence[InputError]
) -> tuple[InputError, ...]:
    """`faults` of the options, and the errors that only the cluster shows, such as nodes that it does
    not have.

    `exclusive` is not checked: which nodes it concerns is unknown while other options have errors.
    """
    rest = replace(request, exclusive=())
    if not rest.named and not rest.selector:
        return tuple(faults)
    return with_errors_of_the_cluster(
        api, faults, lambda brief: _planned(brief, rest), "nodes of the cluster"
    )


def _planned(
    api: ApiClient, request: LabelRequest
) -> tuple[LabelPlan, t.Collection[str], tuple[Ref, ...]]:
    """The plan, the names of the nodes that the selector chooses, and with `follow` the workloads that depend on
    labels that change. Raises InvalidInput."""
    nodes, selected = _read(api, request)
    plan = plan_labels(request, nodes, selected)
    faults, dependents = _dependents(api, request, plan)
    if plan.faults or faults:
        raise InvalidInput((*plan.faults, *faults))
    return plan, selected, dependents


def _read(
    api: ApiClient, request: LabelRequest
) -> tuple[dict[str, LabelledNode], t.Collection[str]]:
    """The nodes, and the names of those that the selector chooses. All nodes are read only where
    the request is about more than the selector's."""
    selected = _list(api, {"labelSelector": request.selector}) if request.selector else []
    only_selected = request.selector and not request.exclusive
    nodes = selected if only_selected else _list(api, {})
    return {node.name: node for node in nodes}, {node.name for node in selected}


def _list(api: ApiClient, params: t.Mapping[str, str]) -> list[LabelledNode]:
    try:
        listing = list_all(api, NODES, params=params, metadata_only=True)
    except ApiError as error:
        if error.status == 400 and params:
            raise InvalidInput([InputError("selector", error.message)]) from error
        raise
    return [LabelledNode.of(item) for item in listing.items]


def _dependents(
    api: ApiClient, request: LabelRequest, plan: LabelPlan
) -> tuple[tuple[InputError, ...], tuple[Ref, ...]]:
    """Asked only where a value changes or goes: the usual run reads no more than the nodes."""
    if not plan.disturbing or (request.force and not request.follow):
        return (), ()
    from ..cluster.reading import ReadScope, read_snapshot

    snapshot = read_snapshot(api, ReadScope(instances=False, migrations=""))
    faults = dependent_faults(snapshot, plan.changes, follow=request.follow)
    dependents = dependent_workloads(snapshot, plan.changes) if request.follow else ()
    return (() if request.force else faults), dependents
