# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One rule on many virtual machines in one task, beside a kubernetes.core loop and bare patches.

What is compared, all in the same run, on machines that virt-controller has no more work with:

- ours: a whole playbook with one task, from the start of the process to its end: Ansible's start,
  reading the cluster, lint, plan, a patch for each machine;
- the floor: the very patches that ours sends, from eight threads of one process that does nothing
  else, and the start-up of a playbook with one ping;
- the loop: a playbook with one k8s_json_patch of each machine in a loop, extrapolated from a few;
- the second run: ours again, with nothing to do.

The loop goes half before and half after the turns that the others take (see turns).
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
import time
import typing as t
from unittest import mock

from ansible.module_utils.testing import patch_module_args

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster import patching
from ansible_collections.virt.placement.plugins.modules import rules
from sandbox import Sandbox, objects

from . import floor, playbooks
from . import turns as turns_of
from .row import Promise, Row
from .turns import Turn

NAMESPACE = "bench"
LOOPED = 20
"""Machines that the peer's loop patches; its time is extrapolated from them."""

JSON_PATCH = "application/json-patch+json"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""When a rule was written, which the record of its change has: another time in each turn."""

Placement = dict[str, tuple[t.Any, t.Any]]
Patches = list[tuple[str, str, t.Any]]


def rows(*, small: bool = False) -> list[Row]:
    """Bench row 2. `small` only shows that it runs: its ratios mean nothing."""
    machines, looped, turns = (20, 2, 1) if small else (200, LOOPED, 21)
    with Sandbox.start("small") as sandbox:
        task = _our_task(_create(sandbox, machines))
        before = _placement(sandbox)
        patches = _sent(task, sandbox.kubeconfig("mover"))
        loop = _loop(sandbox, patches[: looped // 2])
        _restore(sandbox, before)
        measured = [_turn(sandbox, task, patches, before) for _number in range(turns)]
        loop += _loop(sandbox, patches[-looped // 2 :])
    usual = turns_of.usual(measured)
    loop = usual.ping + loop * machines / looped
    promises = (
        Promise("times faster than the loop", loop / usual.ours, 30, at_least=True),
        Promise("times the floor with start-up", turns_of.beside_floor(measured), 1.3),
    )
    return [
        Row(
            f"a rule on {machines} machines, whole playbook",
            "s",
            usual.ours,
            {"kubernetes.core loop": loop, "second run": usual.again, "ping playbook": usual.ping},
            usual.floor + usual.ping,
            usual.peak_rss_mb,
            () if small else promises,
        )
    ]


def _turn(
    sandbox: Sandbox, task: list[dict[str, t.Any]], patches: Patches, before: Placement
) -> Turn:
    """Starts and ends with machines as they were `before`."""

    def look() -> str:
        _rest(sandbox)
        return _TIME.sub("", json.dumps(_placement(sandbox), sort_keys=True))

    return turns_of.take(
        task,
        sandbox.kubeconfig("mover"),
        bare=lambda: floor.patch_all(sandbox, patches, "mover"),
        look=look,
        restore=lambda: _restore(sandbox, before),
    )


def _loop(sandbox: Sandbox, patches: Patches) -> float:
    """Seconds of the peer's loop without start-up."""
    return playbooks.beyond_start_up(_peer_task(patches), sandbox.kubeconfig("admin"))


def _create(sandbox: Sandbox, machines: int) -> list[str]:
    """Names of halted machines that virt-controller has written its own annotation to."""
    sandbox.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    names = [f"vm{number:03}" for number in range(machines)]
    sandbox.api.create_all(
        [objects.virtual_machine(name, NAMESPACE, run_strategy="Halted") for name in names]
    )
    sandbox.api.wait_list(
        sandbox.api.path("VirtualMachine", NAMESPACE),
        lambda found: all(map(_is_settled, found)),
        timeout=60,
    )
    _rest(sandbox)
    return names


def _is_settled(machine: dict[str, t.Any]) -> bool:
    noted = "kubevirt.io/latest-observed-api-version"
    return bool(machine.get("status")) and noted in (machine["metadata"].get("annotations") or {})


def _rest(sandbox: Sandbox) -> None:
    """Waits until nobody has written to a machine for half a second."""
    seen = None
    while seen != (seen := _versions(sandbox)):
        time.sleep(0.5)


def _versions(sandbox: Sandbox) -> list[str]:
    machines = sandbox.api.list(sandbox.api.path("VirtualMachine", NAMESPACE))
    return [machine["metadata"]["resourceVersion"] for machine in machines]


def _our_task(names: list[str]) -> list[dict[str, t.Any]]:
    rule = {"name": "fast", "workloads": [{"names": names}], "run_on": {"zone": ["zone1", "zone2"]}}
    return [{"virt.placement.rules": {"namespace": NAMESPACE, "rules": [rule]}}]


def _sent(task: list[dict[str, t.Any]], kubeconfig: pathlib.Path) -> Patches:
    """The patches that ours would send, from a run in this process that sends none."""
    sent: Patches = []

    def keep(_api: ApiClient, path: str, patch: t.Any, **_options: t.Any) -> None:
        sent.append((path, JSON_PATCH, patch))

    options = {**task[0]["virt.placement.rules"], "kubeconfig": str(kubeconfig)}
    with (
        mock.patch.object(ApiClient, "patch", keep),
        mock.patch.object(patching, "still_differs", return_value=False),
        patch_module_args(options),
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.suppress(SystemExit),
    ):
        rules.main()
    if len(sent) != len(options["rules"][0]["workloads"][0]["names"]):
        raise RuntimeError(f"{len(sent)} patches: {output.getvalue()}")
    return sent


def _peer_task(patches: Patches) -> list[dict[str, t.Any]]:
    loop = [{"name": path.rsplit("/", 1)[1], "patch": body} for path, _type, body in patches]
    patch = {
        "api_version": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "namespace": NAMESPACE,
        "name": "{{ item.name }}",
        "patch": "{{ item.patch }}",
    }
    return [{"kubernetes.core.k8s_json_patch": patch, "loop": loop}]


def _placement(sandbox: Sandbox) -> Placement:
    """Path of each machine to its annotations and its template's affinity."""
    collection = sandbox.api.path("VirtualMachine", NAMESPACE)
    return {
        f"{collection}/{vm['metadata']['name']}": (
            vm["metadata"].get("annotations"),
            vm["spec"]["template"]["spec"].get("affinity"),
        )
        for vm in sandbox.api.list(collection)
    }


def _patches(before: Placement, after: Placement) -> Patches:
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


def _restore(sandbox: Sandbox, before: Placement) -> None:
    floor.patch_all(sandbox, _patches(_placement(sandbox), before))
    _rest(sandbox)
