# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Deployment whose own rollout is held by the write of rules, and what a watch has seen of its pods."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.modules import rules
from tests.shop import Object, Shop
from tests.witness import History

HOLD = "placement.virt/hold"
WEB = [{"kind": "Deployment", "name": "web"}]
APART: Object = {"name": "apart", "workloads": WEB, "keep_apart": "node"}


def hold(shop: Shop, *rules_of_task: Object, **options: t.Any) -> Object:
    """Write rules, or APART, with a hold."""
    wanted = {"namespace": shop.namespace, "workload_rollout": "hold", **options}
    if "state" not in options:
        wanted["rules"] = [*rules_of_task] or [APART]
    return shop.done(rules.main, "mover", **wanted)


def pods_by_uid(shop: Shop) -> dict[str, str]:
    """The pods that stay, with their nodes."""
    pods = shop.api.list(shop.path("Pod"))
    there = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in there}


def spec_without_template(manifest: Object) -> Object:
    return {name: value for name, value in manifest["spec"].items() if name != "template"}


def fewest_available(history: History) -> int:
    """The fewest pods that were Ready and not terminating at one time."""
    there = dict(history.pods)
    fewest = [sum(map(_available, there.values()))]
    for change in sorted(history.changes, key=lambda x: x.version):
        if change.kind != "Pod":
            continue
        name = change.object["metadata"]["name"]
        there[name] = change.object
        if change.type == "DELETED":
            del there[name]
        fewest.append(sum(map(_available, there.values())))
    return min(fewest)


def _available(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any((x["type"], x["status"]) == ("Ready", "True") for x in conditions)
