# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides the forecasts of random clusters: a change that makes answers weaker, or a code useless, shows in
`shares_of_codes.json`. After a change that means to: `PLACEMENT_KEEP_OUTPUTS=1 pytest` this file."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import (
    ChangedCluster,
    what_if,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from tests.unit.planning.random_clusters import random_cluster
from tests.unit.planning.scenes import pinned

CLUSTERS = 150
KEPT = pathlib.Path(__file__).parent / "shares_of_codes.json"

Question = tuple[str, ChangedCluster, tuple[Scale, ...]]


def questions(seed: int) -> t.Iterator[Question]:
    """A drain and a failure of a node, a rule for a workload, and more replicas where there is a Deployment."""
    before = random_cluster(seed, rooms=("2", "4", "16")).snapshot()
    lost = [before.nodes[seed % len(before.nodes)].name]
    workload = before.workloads[seed % len(before.workloads)].ref
    yield "drain", what_if(before, lost_nodes=lost), ()
    yield "failure", what_if(before, lost_nodes=lost, event="failure"), ()
    yield "rule", what_if(before, writes=[pinned(workload, "a")]), ()
    for deployment in [x.ref for x in before.workloads if x.ref.kind == "Deployment"]:
        scale = (Scale(deployment, 4),)
        yield "scale", what_if(before, scale=scale), scale


def test_shares_of_answers_and_codes_are_as_kept() -> None:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for seed in range(CLUSTERS):
        for kind, change, scale in questions(seed):
            found = forecast(change, doubts=doubts_of_change(change, scale))
            counts[kind].update([found.answer.value])
            counts[kind].update(f"{found.answer.value}: {code}" for code in found.codes)
    shares = {kind: dict(sorted(of_kind.items())) for kind, of_kind in counts.items()}
    if os.environ.get("PLACEMENT_KEEP_OUTPUTS"):
        KEPT.write_text(json.dumps(shares, indent=2) + "\n")
    assert shares == json.loads(KEPT.read_text())
