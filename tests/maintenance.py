# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of a sandbox in maintenance, and what is left on them."""

from __future__ import annotations

import contextlib
import datetime
import json
import typing as t
from pathlib import Path

import yaml

from ansible_collections.virt.placement.plugins.module_utils.api.connection import USER_AGENT
from ansible_collections.virt.placement.plugins.modules import node_maintenance
from sandbox import Sandbox, drain, objects
from tests.shop import PATIENCE, Object, Shop, forget_runs

MARK = "placement.virt/maintenance"
SERVICED_LATER = "placement.virt/serviced-later"


class Maintenance(Shop):
    """Nodes that are put into maintenance as the identity maintainer."""

    identity = "maintainer"

    def nodes_are_read(self, since: datetime.datetime) -> bool:
        """Whether the collection has read the nodes, with a request that it sent after this time."""
        return any(
            (x.resource, x.user_agent) == ("nodes", USER_AGENT) and x.verb in ("get", "list")
            for x in self.sandbox.audit.requests()
            if x.time > since
        )

    def node(self, name: str) -> Object:
        return self.api.get(f"/api/v1/nodes/{name}")

    @contextlib.contextmanager
    def recreated_afterwards(self, name: str) -> t.Iterator[None]:
        """A node that the block deletes is there again afterwards, as it was before but for its uid."""
        node = self.node(name)
        try:
            yield
        finally:
            kept = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
            self.api.create("/api/v1/nodes", {**node, "metadata": kept, "spec": {}})
            self.api.patch(f"/api/v1/nodes/{name}/status", {"status": node["status"]})

    def play(self, folder: Path, nodes: t.Iterable[str], task: Object, **variables: t.Any) -> Path:
        """A file with a play that services the nodes: the role with this task as the work. A second run finds
        what the first one did, by the identifier of the change."""
        (folder / "work.yml").write_text(yaml.safe_dump([task]))
        options = {
            "nodes": list(nodes),
            "tasks": str(folder / "work.yml"),
            "change_id": self.namespace,
            "return_home": "none",
            "run_timeout": PATIENCE,
            **variables,
        }
        given = {f"placement_maintenance_{name}": value for name, value in options.items()}
        roles = [{"role": "virt.placement.placement_maintenance", "vars": given}]
        play = {"hosts": "cluster", "gather_facts": False, "roles": roles}
        (folder / "whole.yml").write_text(yaml.safe_dump([play]))
        return folder / "whole.yml"

    def cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def mark(self, name: str) -> Object | None:
        text = (self.node(name)["metadata"].get("annotations") or {}).get(MARK)
        return json.loads(text) if text else None

    def maintain(
        self,
        state: str,
        *nodes: str,
        check: bool = False,
        diff: bool = False,
        seconds: float = 2 * PATIENCE,
        **options: t.Any,
    ) -> Object:
        """Steps until the task has ended, as the action plugin makes them."""
        params = self._params(state, nodes, options)
        gathered = ("moves", "progress", "writes", "findings")
        return self.steps(
            node_maintenance.main, params, gathered, check=check, diff=diff, seconds=seconds
        )

    def maintain_one_step(self, state: str, *nodes: str, **options: t.Any) -> Object:
        """The first step, as of a task that is killed after it."""
        params = self._params(state, nodes, options)
        return t.cast(Object, self._run_module(node_maintenance.main, {**params, "step_state": {}}))

    def check_in_turn(self, groups: t.Sequence[t.Sequence[str]]) -> Object:
        """What the check of drains returns which the role makes before the first of them."""
        params = self._params("drained", [node for group in groups for node in group], {})
        step_state = {"groups": groups}
        asked = {**params, "step_state": step_state}
        return t.cast(Object, self._run_module(node_maintenance.main, asked, check=True))

    def _params(self, state: str, nodes: t.Sequence[str], options: Object) -> Object:
        return {
            "kubeconfig": str(self.sandbox.kubeconfig(self.identity)),
            "state": state,
            "run_timeout": PATIENCE,
            "move_timeout": PATIENCE // 2,
            **({"nodes": list(nodes)} if nodes else {}),
            **options,
        }


@contextlib.contextmanager
def maintenance(sandbox: Sandbox, namespace: str, run_module: t.Any) -> t.Iterator[Maintenance]:
    """Afterwards every node is in service again, and the Lease is as new."""
    try:
        yield Maintenance(sandbox, namespace, run_module)
    finally:
        for node in sandbox.api.list("/api/v1/nodes"):
            name = node["metadata"]["name"]
            if node["spec"].get("unschedulable"):
                drain.uncordon(sandbox, name)
            if MARK in (node["metadata"].get("annotations") or {}):
                no_mark = {"metadata": {"annotations": {MARK: None}}}
                sandbox.api.patch(f"/api/v1/nodes/{name}", no_mark)
            if any(taint["key"] == SERVICED_LATER for taint in node["spec"].get("taints") or ()):
                sandbox.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        forget_runs(sandbox.api)


def vms(shop: Maintenance, *names: str, **options: t.Any) -> list[Object]:
    return [objects.virtual_machine(name, shop.namespace, **options) for name in names]


def pods_on(shop: Maintenance, node: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in shop.api.list("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")
        if pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]
