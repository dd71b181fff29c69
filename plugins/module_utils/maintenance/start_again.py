# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""VMs that a drain stopped by vm_policy stop_and_start: they are started when their node is in service again.

The mark names them while the maintenance goes on. The write that ends it moves them to an annotation of the node, which
stays until they are started. KubeVirt refuses to start a VM that runs, so that none is started twice, whenever a job
is killed. It answers 409 for that, and also where the VM is changed at the same moment or must be recovered by hand
(virt-api, rest/lifecycle.go, StartVMRequestHandler): the VM and its VMI are read then.
"""

from __future__ import annotations

import itertools
import typing as t

from ..api.client import ApiClient
from ..api.errors import TRANSIENT_ERRORS, ApiError, Conflict, NotFound
from ..cluster.access import Right
from ..cluster.patching import apply
from ..kinds.registry import KINDS
from ..kinds.vmi import VMI
from ..model.findings import InputError
from ..model.json_pointer import JSON, Pointer
from ..model.kinds import START_AGAIN, instance_path
from ..model.manifests import vmi_from_manifest, workload_from_manifest
from ..model.objects import Node, Ref
from ..model.obstacle import Obstacle
from ..model.write import Operation, Write
from ..moves.recreate import SUBRESOURCES
from .mark import mark_of, waiting_to_start

ATTEMPTS = 4
"""How often the start of a VM is requested that KubeVirt refuses and that stays off."""

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
        name = f"node {node.name}: {vm}"
        try:
            needless = self._request(vm)
        except NotFound:
            self.lines.append(f"{name} is not started again: it does not exist any more")
        except TRANSIENT_ERRORS:
            raise
        except ApiError as error:
            text = f"could not be started again: {error}. Run again, or start it by hand"
            self.errors.append(InputError(str(vm), text, "api"))
        else:
            if needless:
                self.lines.append(f"{name} is not started again: {needless}")
                return
            self.lines.append(f"{name} started again")
            self.started.append(as_json(vm, strategy))

    def _request(self, vm: Ref) -> Obstacle | None:
        """Request the start. Returns why none is needed; None where KubeVirt has accepted it."""
        path = f"{SUBRESOURCES}/{vm.namespace}/virtualmachines/{vm.name}/start"
        for attempt in itertools.count(1):
            try:
                self._api.call_subresource(path, {})
                break
            except Conflict:
                if needless := self._why_needless(vm):
                    return needless
                if attempt == ATTEMPTS:
                    raise
            self._api.pause(attempt)
        return None

    def _why_needless(self, vm: Ref) -> Obstacle | None:
        """Why a VM that KubeVirt refuses to start needs no start; None where it stays off. Raises NotFound where it
        does not exist."""
        found = workload_from_manifest(vm.kind, self._api.get(KINDS[vm.kind].path(*vm[1:])))
        if (strategy := found.run_strategy) in ("Always", "Once"):
            text = f"its run strategy is {strategy} now, with which KubeVirt starts it"
            return Obstacle("needless", text)
        requests = found.status.get("stateChangeRequests") or ()
        if any(request.get("action") == "Start" for request in requests):
            return Obstacle("needless", "it is about to start")
        try:
            vmi = vmi_from_manifest(self._api.get(instance_path(vm._replace(kind=VMI))))
        except NotFound:
            return None
        stays_off = vmi.finished or vmi.terminating
        return None if stays_off else Obstacle("needless", f"its VMI is {vmi.phase or 'created'}")


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
