# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules after which a VM can no longer be migrated, so that its node can no longer be emptied."""

from __future__ import annotations

import pytest

from ansible_collections.virt.placement.plugins.module_utils.forecast.change import what_if
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.stuck import (
    newly_stuck,
    once_moved,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import VM_HOSTNAME
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Unreadable
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import is_refused
from tests.support.cluster import HOST, cluster, expression, machine, near, node_affinity
from tests.unit.planning.scenes import template_write

ON_N1 = node_affinity({"matchExpressions": [expression(HOST, "In", "n1")]})


def findings(*, before: bool) -> tuple[Finding, ...]:
    """Of a rule that allows the VM db one node. `before`: its template allows no other one already."""
    made = cluster("abc")
    db = machine(made, "db", "n1", ON_N1 if before else None)
    machine(made, "web", "n2")
    seen = made.snapshot()
    change = what_if(seen, writes=[template_write(db, "affinity", ON_N1["affinity"])])
    unchanged = what_if(seen, members=[db])
    rule_set = ("shop", "default")
    return tuple(newly_stuck(change, forecast(change), forecast(unchanged), rule_set, no_drain))


def no_drain(node: str) -> Forecast:
    raise AssertionError(f"the drain of {node} does not matter without affinity")


@pytest.mark.parametrize(("mutual", "node"), [(False, "n1"), (True, "n1"), (False, "n2")])
def test_vm_that_follows_another_one_of_its_node_does_not_keep_it_from_being_emptied(
    mutual: bool, node: str
) -> None:
    """The leader leaves first, also where the rule brings the VM to its node. Where both require each other, neither
    can."""
    made = cluster("abc")
    db, app = machine(made, "db", "n1"), machine(made, "app", node)
    seen = made.snapshot()
    writes = [template_write(app, "affinity", near(HOST, **{VM_HOSTNAME: "db"}))]
    writes += [template_write(db, "affinity", near(HOST, **{VM_HOSTNAME: "app"}))] if mutual else []
    change = what_if(seen, writes=writes)
    unchanged = what_if(seen, members=[db, app])
    after = forecast(change)

    def drain(node: str) -> Forecast:
        moved = once_moved(seen, after)
        return forecast(what_if(moved, writes=writes, lost_nodes=[node]))

    found = newly_stuck(change, after, forecast(unchanged), ("shop", "default"), drain)

    assert [ref.name for finding in found for ref in finding.objects] == (["n1"] if mutual else [])


@pytest.mark.parametrize(
    ("drained", "words", "objects"),
    [
        (
            Forecast(ForecastResult.UNKNOWN, ("too many cases",)),
            "Whether node n1 can be emptied by live migration after this change is unknown: too many cases. Alone,"
            " VirtualMachine shop/app cannot leave.",
            ["n1"],
        ),
        (
            Forecast(
                ForecastResult.UNKNOWN, unreadable=(Unreadable("pods", "", "list", "forbidden"),)
            ),
            "cannot list pods",
            ["n1"],
        ),
        (Forecast(ForecastResult.POSSIBLE), "", []),
    ],
)
def test_unknown_drain_is_said_as_unknown(
    drained: Forecast, words: str, objects: list[str]
) -> None:
    """Of a node with a VM that follows another one."""
    made = cluster("abc")
    db, app = machine(made, "db", "n1"), machine(made, "app", "n1")
    writes = [template_write(app, "affinity", near(HOST, **{VM_HOSTNAME: "db"}))]
    change = what_if(made.snapshot(), writes=writes)
    before = forecast(what_if(made.snapshot(), members=[db, app]))

    found = [*newly_stuck(change, forecast(change), before, ("shop", "default"), lambda _: drained)]

    assert [ref.name for finding in found for ref in finding.objects] == objects
    for finding in found:
        assert words in finding.why
        assert "cannot be emptied" not in finding.why


def test_rule_that_newly_makes_a_vm_impossible_to_migrate_is_a_finding_with_its_node() -> None:
    (finding,) = findings(before=False)
    assert (finding.name, finding.severity) == ("blocks_node_drain", "warning")
    assert [ref.name for ref in finding.objects] == ["n1"]
    assert "no other node would be feasible for VirtualMachine shop/db" in finding.why


def test_vm_that_could_not_migrate_before_is_no_finding_of_the_rule() -> None:
    assert findings(before=True) == ()


@pytest.mark.parametrize("listed", ["blocks_node_drain", "warning"])
def test_rule_that_newly_makes_a_vm_impossible_to_migrate_can_be_refused(listed: str) -> None:
    (finding,) = findings(before=False)
    assert is_refused(finding, (), (listed,))
    assert not is_refused(finding, (), ())
