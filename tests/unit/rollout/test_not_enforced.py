# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rollout reports of instances that it did not move."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
    RuleTerms,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.drift import Drift
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    DeclaredInstance,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.terms import Term, TermKind
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import MoveOptions
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.plan import (
    Plan,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Instance,
    Snapshot,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.rollout.not_enforced import (
    removed_constraints,
    well_placed,
    well_placed_lines,
)
from tests.unit.planning.movable import movable

DB = Ref("VirtualMachine", "shop", "db")
VMI = Ref("VirtualMachineInstance", "shop", "db")


def workload(name: str, **labels: str) -> Workload:
    manifest = {
        "metadata": {"name": name, "annotations": {}},
        "spec": {"template": {"metadata": {"labels": labels}}},
    }
    return Workload(Ref("VirtualMachine", "shop", name), f"u-{name}", manifest)


def candidate(
    found: Workload,
    *,
    outdated: bool = False,
    node: str = "w1",
    need: str = "",
) -> DeclaredInstance:
    pod = Pod("shop", found.ref.name, found.uid, node_name=node)
    instance = Instance(VMI, found.uid, found.ref, pod)
    return movable(
        instance,
        pod,
        found,
        declared_pod=pod,
        migration_target=None,
        move_options=lambda apply_pending_changes=False: MoveOptions(()),
        takes_effect=need,
        drift=Drift() if outdated else None,
    )


def test_instance_that_runs_with_a_removed_constraint_is_not_called_enforced() -> None:
    found = candidate(workload("db"), outdated=True, need="migration")
    found.drift = Drift(stale=frozenset({Term(TermKind.NODE_SELECTOR, ("disk", "ssd"))}))
    assert well_placed(found, Plan())["reason"] == (
        "placed correctly; a removed constraint stays in effect until the next migration"
    )


def test_rule_whose_constraint_was_removed_is_named() -> None:
    db = workload("db")
    found, apart = candidate(db), RuleTerms("apart", removed=True)
    found.declared = replace(DeclaredReader(Snapshot()).declared(db), rules=(apart,))
    assert removed_constraints([candidate(workload("web"))]) == []
    (warning,) = removed_constraints([found])
    assert "VirtualMachine shop/db (rule apart)" in warning


def test_instance_that_violates_until_others_move_is_reported() -> None:
    found = candidate(workload("db"), outdated=True, need="migration")
    record = well_placed(found, Plan(violated=frozenset({found.uid})))
    assert record["when"] == "after_moves"
    assert record["reason"] == (
        "violated now, satisfied after the planned moves; enforced from the next migration"
    )


def test_well_placed_instances_with_the_same_reason_are_one_line() -> None:
    assert well_placed_lines([]) == []
    one = well_placed(candidate(workload("db"), outdated=True, need="restart"), Plan())
    assert well_placed_lines([{**one, "instance": "db", "name": "db"}]) == [
        "VirtualMachine shop/db: placed correctly; enforced from the next restart"
    ]
    many = [{**one, "name": f"v{n}", "instance": f"v{n}"} for n in range(5)]
    assert well_placed_lines(many) == [
        "VirtualMachine shop/v0, VirtualMachine shop/v1, VirtualMachine shop/v2 and 2 more: placed"
        " correctly; enforced from the next restart"
    ]
