# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Since when a workload has a rule as it is: in the record of the last change, where that is known."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    UnreadableAnnotation,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.record import (
    UndoRecord,
    read_undo_record,
)
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import restore
from tests.fuzz.cluster import RULES as SERVED
from tests.fuzz.cluster import objects
from tests.support.api_server import ApiServer
from tests.support.modules import run

from .builders import applied, plan, snapshot, vm, workload

Object = dict[str, t.Any]
MONDAY, TUESDAY, FRIDAY = (f"2026-03-{day}T21:14:09Z" for day in ("02", "03", "06"))
HOME = {"name": "home", "workloads": ["db"], "run_on": {"zone": "a"}}
AWAY = {"name": "away", "workloads": ["db"], "avoid": {"node": "w1"}}


def written(carrier: Workload, *rules: Object, **options: t.Any) -> Workload:
    (change,) = plan(snapshot(carrier), *rules, **options).workloads
    assert change.merged.write is not None
    return workload(applied(dict(carrier.manifest), change.merged.write))


def record_of(carrier: Workload) -> UndoRecord:
    record = read_undo_record(carrier)
    assert record is not None
    return record


def since(carrier: Workload) -> dict[str, str]:
    return {name.rpartition("/")[2]: time for name, time in record_of(carrier).since.items()}


def test_rule_has_the_time_of_the_change_that_wrote_it_as_it_is() -> None:
    first = written(vm("db"), HOME, at=MONDAY)
    assert since(first) == {"home": MONDAY}

    second = written(first, AWAY, at=TUESDAY)
    assert since(second) == {"home": MONDAY, "away": TUESDAY}
    assert plan(snapshot(second), AWAY, HOME, at=FRIDAY).writes == (), "time alone is no change"

    other_zone = written(second, {**HOME, "run_on": {"zone": "b"}}, at=FRIDAY)
    assert since(other_zone) == {"home": FRIDAY, "away": TUESDAY}
    resting = written(second, {**HOME, "enabled": False}, at=FRIDAY)
    assert since(resting) == {"home": FRIDAY, "away": TUESDAY}
    removed = written(second, {"name": "home"}, state="absent", at=FRIDAY)
    assert since(removed) == {"away": TUESDAY}


def test_time_is_unknown_where_no_record_has_it() -> None:
    """A record that an undo has used, or of a release that wrote none."""
    second = written(written(vm("db"), HOME, at=MONDAY), AWAY, at=TUESDAY)
    write = restore(second, record_of(second), {}).write
    assert write is not None
    reverted = workload(applied(dict(second.manifest), write))
    assert since(written(reverted, AWAY, at=FRIDAY)) == {"away": FRIDAY}
    assert since(written(written(vm("db"), HOME), AWAY, at=FRIDAY)) == {"away": FRIDAY}


def test_time_that_is_none_is_damage() -> None:
    """Whoever may write the object may write it, and it is printed."""
    carrier = written(vm("db"), HOME, at=MONDAY)
    text = carrier.annotations["placement.virt/undo"].replace(MONDAY, "soon\\u001b[2J")
    metadata = {**carrier.manifest["metadata"], "annotations": {"placement.virt/undo": text}}
    with pytest.raises(UnreadableAnnotation, match="a time of since is no time"):
        read_undo_record(workload({**carrier.manifest, "metadata": metadata}))


def test_rules_are_listed_with_the_earliest_time_of_their_workloads() -> None:
    server = ApiServer(objects())
    options: Object = {"namespace": "shop", "rules": SERVED, "workload_rollout": "allow"}
    assert "failed" not in run("rules", server, options)

    listed = run("rules_info", server, {"namespaces": ["shop"]})

    for rule in listed["rules"]:
        times = [each["since"] for each in rule["workloads"]]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", rule["since"])
        assert rule["since"] == min(times)
        name = "/".join(rule[part] for part in ("namespace", "rule_set", "name"))
        (line,) = (x for x in listed["table"].splitlines() if x.startswith(f"{name} "))
        assert f"  {rule['since'][:10]}  " in line

    path, carrier = next(
        (path, item)
        for path, item in server.objects.items()
        if "placement.virt/undo" in (item["metadata"].get("annotations") or {})
    )
    known = {
        name: x for name, x in carrier["metadata"]["annotations"].items() if "undo" not in name
    }
    without = {**carrier, "metadata": {**carrier["metadata"], "annotations": known}}
    listed = run(
        "rules_info", ApiServer({**server.objects, path: without}), {"namespaces": ["shop"]}
    )
    name = carrier["metadata"]["name"]
    of_it = [rule for rule in listed["rules"] if name in {x["name"] for x in rule["workloads"]}]
    assert of_it
    assert {rule["since"] for rule in of_it} == {None}
