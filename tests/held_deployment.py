# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Deployment whose own rollout is held by the write of rules."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.modules import rules
from tests.shop import Object, Shop

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
