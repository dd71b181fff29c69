# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that a drain stopped by vm_policy stop_and_start: they are started when their node is in service again.

The mark names them while the maintenance goes on. The write that ends it moves them to an annotation of the node, which
stays until they are started. KubeVirt refuses to start a VM that runs, so that none is started twice, whenever a job
is killed (virt-api, rest/lifecycle.go, StartVMRequestHandler).
"""

from __future__ import annotations

import typing as t

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError, Conflict, NotFound
from ..cluster.access import Right
from ..cluster.patching import apply
from ..model.findings import InputError
from ..model.json_pointer import JSON, Pointer
from ..model.kinds import START_AGAIN
from ..model.objects import Node, Ref
from ..model.write import Operation, Write
from ..moves.recreate import SUBRESOURCES
from .mark import mark_of, waiting_to_start

_ANNOTATION = Pointer(("metadata", "annotations")) / START_AGAIN


def rights(workloads: t.Iterable[Ref]) -> set[Right]:
    """What is needed to start these VMs."""
    return {
        Right("update", "subresources.kubevirt.io", "virtualmachines", "start", ref.namespace)
        for ref in workloads
    }


def vms_of(node: Node) -> dict[Ref, str]:
    """The VMs that are to be started once the node is in service, with their run strategies before the stop."""
    return {Ref(*name.split("/")): text for name, text in waiting_to_start(node).items()}


class Starter:
    """Starts VMs. `started` has those that were started, `done` the writes to nodes, `lines` what was done, `errors`
    what failed."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self.started: list[dict[str, JSON]] = []
        self.done: list[Write] = []
        self.lines: list[str] = []
        self.errors: list[InputError] = []

    def start(self, node: Node) -> None:
        """Start what waits for this node, and delete its annotation unless a VM could not be started. Raises the errors
        after which the request is made again."""
        if mark_of(node) is not None or START_AGAIN not in node.annotations:
            return
        before = len(self.errors)
        for vm, strategy in vms_of(node).items():
            self._start(node, vm, strategy)
        if len(self.errors) > before:
            return
        applied = apply(self._api, [_forget(node)], recompute=lambda _write, _manifest: None)
        self.errors += applied.errors
        self.done += applied.done

    def _start(self, node: Node, vm: Ref, strategy: str) -> None:
        path = f"{SUBRESOURCES}/{vm.namespace}/virtualmachines/{vm.name}/start"
        try:
            self._api.call_subresource(path, {})
        except Conflict as error:
            self.lines.append(f"node {node.name}: {vm} is not started again: {error.message}")
        except NotFound:
            self.lines.append(
                f"node {node.name}: {vm} is not started again: it does not exist any more"
            )
        except TRANSIENT_ERRORS:
            raise
        except ApiError as error:
            self.errors.append(InputError(str(vm), f"could not be started again: {error}", "api"))
        else:
            self.lines.append(f"node {node.name}: {vm} started again")
            self.started.append(as_json(vm, strategy))


def as_json(vm: Ref, strategy: str) -> dict[str, JSON]:
    return {**vm._asdict(), "run_strategy": strategy}


def _forget(node: Node) -> Write:
    text = node.annotations[START_AGAIN]
    return Write(
        target=node.ref,
        path=f"/api/v1/nodes/{node.name}",
        uid=node.uid,
        tests=(Operation("test", _ANNOTATION, text),),
        operations=(Operation("remove", _ANNOTATION),),
        before={"start_again": text},
        after={"start_again": None},
    )
