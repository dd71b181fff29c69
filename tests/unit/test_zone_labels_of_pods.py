# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The zone of an instance is that of its node, whatever its pod says.

From Kubernetes 1.35 on, the API server copies zone and region of the node to the labels of a pod when it is bound. They
are not changed when the node gets another zone.
"""

from __future__ import annotations

import copy
import json
import re
import typing as t

import pytest

from tests.fuzz.cluster import OTHERS, ZONE, objects
from tests.support.api_server import ApiServer
from tests.support.modules import run

REGION = "topology.kubernetes.io/region"
STALE = {ZONE: "zone-of-before", REGION: "region-of-before"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")
TASKS: dict[str, dict[str, t.Any]] = {
    "placement_info": {"namespaces": [OTHERS], "details": "all"},
    "drill_info": {"domains_of": ["zone"]},
    "capacity_info": {"tolerate": ["node", "zone"], "room_for": {}},
    "forecast_info": {"namespace": OTHERS, "unavailable": {"topology": {"zone": ["a"]}}},
    "topology_info": {},
    "node_maintenance": {"nodes": ["w1"], "state": "drained"},
}


def result(name: str, labels: t.Mapping[str, str]) -> str:
    """What a task returns in check mode, on a cluster whose pods have these labels, too."""
    there = objects()
    for path, item in there.items():
        if "/pods/" in path:
            there[path] = copy.deepcopy(item)
            there[path]["metadata"].setdefault("labels", {}).update(labels)
    returned = run(name, ApiServer(there), TASKS[name], check=True)
    for changing in ("step_state", "cluster", "elapsed", "plan"):
        returned.pop(changing, None)
    return TIME.sub("", json.dumps(returned, sort_keys=True, indent=1))


@pytest.mark.parametrize("name", TASKS)
def test_zone_is_never_read_from_the_labels_of_a_pod(name: str) -> None:
    expected = result(name, {})
    assert '"a"' in expected or "zone" in expected, "the task is about zones"
    assert result(name, STALE) == expected
