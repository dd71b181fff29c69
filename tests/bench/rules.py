# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rule on many virtual machines in one task, beside a kubernetes.core loop and bare patches."""

from __future__ import annotations

import typing as t

from sandbox import Sandbox, objects

from . import floor, playbooks
from .row import Promise, Row

NAMESPACE = "bench"
LOOPED = 10
"""Machines that the peer's loop patches; its time is extrapolated from them."""

JSON_PATCH = "application/json-patch+json"


def rows(*, small: bool = False) -> list[Row]:
    """Bench row 2. `small` only shows that it runs: its ratios mean nothing."""
    machines = 20 if small else 200
    with Sandbox.start("small") as sandbox:
        names = _create(sandbox, machines)
        ping = playbooks.best_of(3, playbooks.PING).seconds
        before = _placement(sandbox)
        ours = playbooks.run(_our_task(names), sandbox.kubeconfig("mover"))
        patches = _patches(before, _placement(sandbox))
        _restore(sandbox, before)
        least = floor.patch_all(sandbox, patches) + ping
        _restore(sandbox, before)
        looped = playbooks.run(_peer_task(patches[:LOOPED]), sandbox.kubeconfig("admin")).seconds
        loop = ping + (looped - ping) * machines / LOOPED
        again = _second_run(sandbox, names, patches)
    return [
        Row(
            f"a rule on {machines} machines, whole playbook",
            "s",
            ours.seconds,
            {"kubernetes.core loop": loop, "second run": again, "ping playbook": ping},
            least,
            ours.peak_rss_mb,
            ()
            if small
            else (
                Promise("times faster than the loop", loop / ours.seconds, 30, at_least=True),
                Promise("times the floor with start-up", ours.seconds / least, 1.5),
            ),
        )
    ]


def _create(sandbox: Sandbox, machines: int) -> list[str]:
    sandbox.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    names = [f"vm{number:03}" for number in range(machines)]
    sandbox.api.create_all(
        [objects.virtual_machine(name, NAMESPACE, run_strategy="Halted") for name in names]
    )
    return names


def _our_task(names: list[str]) -> list[dict[str, t.Any]]:
    rule = {"name": "fast", "workloads": [{"names": names}], "run_on": {"zone": ["zone1", "zone2"]}}
    return [{"virt.placement.rules": {"namespace": NAMESPACE, "rules": [rule]}}]


def _peer_task(patches: t.Sequence[tuple[str, str, t.Any]]) -> list[dict[str, t.Any]]:
    loop = [{"name": path.rsplit("/", 1)[1], "patch": body} for path, _type, body in patches]
    patch = {
        "api_version": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "namespace": NAMESPACE,
        "name": "{{ item.name }}",
        "patch": "{{ item.patch }}",
    }
    return [{"kubernetes.core.k8s_json_patch": patch, "loop": loop}]


def _placement(sandbox: Sandbox) -> dict[str, tuple[t.Any, t.Any]]:
    """Path of each machine to its annotations and its template's affinity."""
    collection = sandbox.api.path("VirtualMachine", NAMESPACE)
    return {
        f"{collection}/{vm['metadata']['name']}": (
            vm["metadata"].get("annotations"),
            vm["spec"]["template"]["spec"].get("affinity"),
        )
        for vm in sandbox.api.list(collection)
    }


def _patches(
    before: dict[str, tuple[t.Any, t.Any]], after: dict[str, tuple[t.Any, t.Any]]
) -> list[tuple[str, str, t.Any]]:
    """What takes each machine from one state to the other, as JSON Patches."""
    return [
        (path, JSON_PATCH, _change(old, after[path]))
        for path, old in before.items()
        if old != after[path]
    ]


def _change(old: tuple[t.Any, t.Any], new: tuple[t.Any, t.Any]) -> list[dict[str, t.Any]]:
    places = ("/metadata/annotations", "/spec/template/spec/affinity")
    changes = []
    for path, was, becomes in zip(places, old, new, strict=True):
        changes.append({"op": "test", "path": path, "value": was})
        if becomes is None and was is not None:
            changes.append({"op": "remove", "path": path})
        elif becomes != was:
            changes.append({"op": "add", "path": path, "value": becomes})
    return changes


def _restore(sandbox: Sandbox, before: dict[str, tuple[t.Any, t.Any]]) -> None:
    floor.patch_all(sandbox, _patches(_placement(sandbox), before))


def _second_run(
    sandbox: Sandbox, names: list[str], patches: t.Sequence[tuple[str, str, t.Any]]
) -> float:
    floor.patch_all(sandbox, patches[LOOPED:])
    return playbooks.best_of(2, _our_task(names), sandbox.kubeconfig("mover")).seconds
