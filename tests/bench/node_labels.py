# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of a thousand nodes in one task, beside a kubernetes.core loop and bare patches."""

from __future__ import annotations

import json
import pathlib
import tempfile
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import NODE_LABELS
from sandbox import Sandbox

from . import floor, playbooks
from . import turns as turns_of
from .row import Promise, Row
from .turns import Turn

LOOPED = 50
"""Nodes that the peer's loop labels; its time is extrapolated from them."""

MERGE_PATCH = "application/merge-patch+json"
KEYS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "performance": "performance",
}
Labels = t.Mapping[str, t.Mapping[str, str]]
"""Of each node, by our short names."""


def rows(*, small: bool = False) -> list[Row]:
    """Bench row 1. `small` only shows that it runs, on three nodes: its ratios mean nothing."""
    cluster, looped, turns = ("plain", 2, 1) if small else ("thousand", LOOPED, 5)
    with Sandbox.start(cluster) as sandbox:
        names = sorted(node["metadata"]["name"] for node in sandbox.api.list("/api/v1/nodes"))
        labels = {name: _labels(number) for number, name in enumerate(names)}
        loop = _loop(sandbox, dict(list(labels.items())[: looped // 2]))
        _take_away(sandbox, labels)
        with tempfile.TemporaryDirectory() as folder:
            task = _our_task(labels, pathlib.Path(folder, "labels.json"))
            measured = [_turn(sandbox, task, labels) for _number in range(turns)]
        loop += _loop(sandbox, dict(list(labels.items())[-looped // 2 :]))
    usual = turns_of.usual(measured)
    loop = usual.ping + loop * len(labels) / looped
    promises = (
        Promise("times faster than the loop", loop / usual.ours, 100, at_least=True),
        Promise("times the floor with start-up", turns_of.beside_floor(measured), 1.3),
        Promise("second run, times a playbook with one ping", turns_of.beside_ping(measured), 1.4),
    )
    return [
        Row(
            f"three labels each on {len(labels)} nodes, whole playbook",
            "s",
            usual.ours,
            {"kubernetes.core loop": loop, "second run": usual.again, "ping playbook": usual.ping},
            usual.floor + usual.ping,
            usual.peak_rss_mb,
            () if small else promises,
        )
    ]


def _turn(sandbox: Sandbox, task: list[dict[str, t.Any]], labels: Labels) -> Turn:
    """Starts and ends with nodes that have none of the labels."""
    return turns_of.take(
        task,
        sandbox.kubeconfig("labeler"),
        bare=lambda: floor.patch_all(sandbox, _patches(labels), "labeler"),
        look=lambda: _set_on(sandbox),
        restore=lambda: _take_away(sandbox, labels),
    )


def _set_on(sandbox: Sandbox) -> dict[str, dict[str, str | None]]:
    """Which of the labels each node has."""
    found = (node["metadata"] for node in sandbox.api.list("/api/v1/nodes"))
    return {each["name"]: {key: each["labels"].get(key) for key in KEYS.values()} for each in found}


def _loop(sandbox: Sandbox, labels: Labels) -> float:
    """Seconds of the peer's loop without start-up. One half of it runs before ours and one half
    after, since the machine is not equally busy all the time."""
    return playbooks.beyond_start_up(_peer_task(labels), sandbox.kubeconfig("admin"))


def _our_task(labels: Labels, file: pathlib.Path) -> list[dict[str, t.Any]]:
    """The labels come from a file, as an inventory of the data centre writes it."""
    file.write_text(json.dumps(labels))
    read = f"{{{{ lookup('ansible.builtin.file', '{file}') | from_json }}}}"
    return [{"virt.placement.node_labels": {"per_node": read}}]


def _labels(number: int) -> dict[str, str]:
    zone = number % 3
    return {"region": "r1", "zone": f"z{zone}", "performance": ("high", "low")[number % 2]}


def _full(labels: t.Mapping[str, str | None]) -> dict[str, str | None]:
    return {KEYS[name]: value for name, value in labels.items()}


def _patches(
    labels: t.Mapping[str, t.Mapping[str, str | None]],
) -> list[tuple[str, str, dict[str, t.Any]]]:
    return [
        (f"/api/v1/nodes/{name}", MERGE_PATCH, {"metadata": {"labels": _full(mine)}})
        for name, mine in labels.items()
    ]


def _take_away(sandbox: Sandbox, labels: Labels) -> None:
    """What is set, and the note that ours makes of it."""
    nothing = {"labels": dict.fromkeys(KEYS.values()), "annotations": {NODE_LABELS: None}}
    gone = [(f"/api/v1/nodes/{name}", MERGE_PATCH, {"metadata": nothing}) for name in labels]
    floor.patch_all(sandbox, gone)


def _peer_task(labels: t.Mapping[str, t.Mapping[str, str]]) -> list[dict[str, t.Any]]:
    """The way that kubernetes.core's documentation shows: a definition for each node."""
    loop = [{"name": name, "labels": _full(mine)} for name, mine in labels.items()]
    definition = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "{{ item.name }}", "labels": "{{ item.labels }}"},
    }
    task = {"kubernetes.core.k8s": {"state": "patched", "definition": definition}, "loop": loop}
    return [task]
