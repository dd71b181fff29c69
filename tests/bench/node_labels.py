# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of a thousand nodes in one task, beside a kubernetes.core loop and bare patches."""

from __future__ import annotations

import json
import pathlib
import statistics
import tempfile
import typing as t

from sandbox import Sandbox

from . import floor, playbooks
from .row import Promise, Row

LOOPED = 50
"""Nodes that the peer's loop labels; its time is extrapolated from them."""

MERGE_PATCH = "application/merge-patch+json"
KEYS = {
    "region": "topology.kubernetes.io/region",
    "zone": "topology.kubernetes.io/zone",
    "performance": "performance",
}


def rows(*, small: bool = False) -> list[Row]:
    """Bench row 1. `small` only shows that it runs, on three nodes: its ratios mean nothing."""
    cluster, looped_nodes, pairs_wanted = ("plain", 2, 1) if small else ("thousand", LOOPED, 7)
    with Sandbox.start(cluster) as sandbox:
        names = sorted(node["metadata"]["name"] for node in sandbox.api.list("/api/v1/nodes"))
        labels = {name: _labels(number) for number, name in enumerate(names)}
        ping = playbooks.best_of(1 if small else 3, playbooks.PING).seconds
        looped = _loop(sandbox, dict(list(labels.items())[: looped_nodes // 2]), ping)
        _take_away(sandbox, labels)
        least = floor.patch_all(sandbox, _patches(labels)) + ping
        _take_away(sandbox, labels)
        with tempfile.TemporaryDirectory() as folder:
            task = _our_task(labels, pathlib.Path(folder, "labels.json"))
            ours = playbooks.run(task, sandbox.kubeconfig("labeller"))
            pairs = [_pair(sandbox, task) for _attempt in range(pairs_wanted)]
        looped += _loop(sandbox, dict(list(labels.items())[-looped_nodes // 2 :]), ping)
        loop = ping + looped * len(labels) / looped_nodes
    ping, again = map(statistics.median, zip(*pairs, strict=True))
    beside = statistics.median(again / ping for ping, again in pairs)
    promises = (
        Promise("times faster than the loop", loop / ours.seconds, 100, at_least=True),
        Promise("times the floor with start-up", ours.seconds / least, 3),
        Promise("second run, times a playbook with one ping", beside, 2),
    )
    return [
        Row(
            f"three labels each on {len(labels)} nodes, whole playbook",
            "s",
            ours.seconds,
            {"kubernetes.core loop": loop, "second run": again, "ping playbook": ping},
            least,
            ours.peak_rss_mb,
            () if small else promises,
        )
    ]


def _loop(sandbox: Sandbox, labels: dict[str, dict[str, str]], ping: float) -> float:
    """Seconds of the peer's loop without start-up. One half of it runs before ours and one half
    after, since the machine is not equally busy all the time."""
    return playbooks.run(_peer_task(labels), sandbox.kubeconfig("admin")).seconds - ping


def _pair(sandbox: Sandbox, task: list[dict[str, t.Any]]) -> tuple[float, float]:
    """A ping and a second run of ours, one after the other: so both meet the same machine."""
    ping = playbooks.run(playbooks.PING).seconds
    return ping, playbooks.run(task, sandbox.kubeconfig("labeller")).seconds


def _our_task(
    labels: t.Mapping[str, t.Mapping[str, str]], file: pathlib.Path
) -> list[dict[str, t.Any]]:
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


def _take_away(sandbox: Sandbox, labels: t.Mapping[str, t.Mapping[str, str]]) -> None:
    floor.patch_all(sandbox, _patches({name: dict.fromkeys(KEYS) for name in labels}))


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
