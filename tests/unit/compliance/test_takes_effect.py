# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a rule is written, for the judge and for the rollout, one rule says when it takes effect.

`rules` asks before the write, `placement_info` and `rollout` after it; all ask kubevirt/moving.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection as Chosen,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    movable_instances,
)
from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.rules import change as effect
from ansible_collections.virt.placement.plugins.module_utils.rules.draft import RequestedRules
from ansible_collections.virt.placement.plugins.module_utils.rules.merge import merge
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import OwnedRule
from ansible_collections.virt.placement.plugins.module_utils.rules.record import RuleSetChange
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    TemplateTerm,
    TermLocation,
)
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from tests.support.cluster import ZONE, Cluster, apart, expression, selector, spread

JSON = t.Any
VM, REPLICAS, DEPLOYMENT = "VirtualMachine", "VirtualMachineInstanceReplicaSet", "Deployment"
HARD_SPREAD = spread(tier="db")["topologySpreadConstraints"][0]
WISH = {"weight": 1, "preference": {"matchExpressions": [expression(ZONE, "In", "a")]}}

LIVE_TERMS: dict[str, tuple[TermLocation, JSON]] = {
    "apart": (TermLocation.ANTI_AFFINITY, apart(tier="cache")),
    "zone": (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "a")),
    "wish": (TermLocation.PREFERRED_NODE, WISH),
}
FROZEN_TERMS: dict[str, tuple[TermLocation, JSON]] = {
    "spread": (TermLocation.SPREAD, HARD_SPREAD),
    "spread if it goes": (
        TermLocation.SPREAD,
        {**HARD_SPREAD, "whenUnsatisfiable": "ScheduleAnyway"},
    ),
}
TERMS = {**LIVE_TERMS, **FROZEN_TERMS}


@dataclasses.dataclass(frozen=True)
class Situation:
    """One instance runs, and a rule with one term is written."""

    kind: str = VM
    term: str = "apart"
    strategy: str = "LiveUpdate"
    restart_required: bool = False
    obstacle: t.Literal["", "not migratable", "long name"] = ""

    def __str__(self) -> str:
        return ", ".join(str(value) for value in dataclasses.astuple(self) if value)

    @property
    def expected(self) -> str:
        """What has to happen to the instance."""
        if self.kind != VM:
            return "recreate"
        frozen = self.term in FROZEN_TERMS or self.restart_required or self.obstacle
        return "restart" if frozen or self.strategy != "LiveUpdate" else "migration"

    @property
    def reaches(self) -> bool:
        """KubeVirt puts it into the spec of the running instance."""
        frozen = self.term in FROZEN_TERMS or self.restart_required
        return self.kind == VM and self.strategy == "LiveUpdate" and not frozen

    def build(self) -> tuple[Cluster, Ref]:
        cluster = Cluster()
        cluster.more["platform"] = Platform(
            kubernetes=(1, 33), kubevirt="v1.8.4", rollout_strategy=self.strategy
        )
        name = "db" * 32 if self.obstacle == "long name" else "db"
        template = {"metadata": {"labels": {"tier": "db"}}, "spec": {}}
        if self.kind == VM:
            ref = cluster.run(name, "n1", tier="db")
        else:
            spec = {"replicas": 1, "selector": selector(tier="db"), "template": template}
            ref = cluster.workload(self.kind, "set", spec)
            cluster.start(ref, "n1", name)
        if self.restart_required:
            conditions = [{"type": "RestartRequired", "status": "True"}]
            cluster.workloads[ref]["status"] = {"conditions": conditions}
        if self.obstacle == "not migratable":
            conditions = [{"type": "LiveMigratable", "status": "False"}]
            cluster.machines[name]["status"]["conditions"] = conditions
        return cluster, ref


def situations() -> t.Iterator[Situation]:
    strategies, required = ("LiveUpdate", "Stage"), (False, True)
    obstacles: tuple[t.Any, ...] = ("", "not migratable", "long name")
    for found in itertools.product(TERMS, strategies, required, obstacles):
        yield Situation(VM, *found)
    for term, strategy, obstacle in itertools.product(TERMS, strategies, obstacles):
        yield Situation(REPLICAS, term, strategy, obstacle=obstacle)
    for term in TERMS:
        yield Situation(DEPLOYMENT, term)


def before_the_write(cluster: Cluster, ref: Ref, term: tuple[TermLocation, JSON]) -> str:
    """What the module rules says."""
    workload = workload_from_manifest(ref.kind, cluster.workloads[ref])
    compiled = (TemplateTerm(*term),)
    change = RuleSetChange(f"{ref.namespace}/default", 1, "")
    rule = RuleId(ref.namespace, "default", "new")
    stored = {rule: OwnedRule(declared='{"terms":{}}')}
    merged = merge(workload, RequestedRules({rule: compiled}, change, stored=stored))
    return effect.takes_effect(workload, merged, view_of(cluster.snapshot()))


def judged(cluster: Cluster) -> str:
    (found,) = judge(cluster.snapshot()).instances
    (rule,) = [each for each in found.rules if each.rule == "shop/default/new"]
    assert not rule.enforced
    return rule.takes_effect


def rolled_out(cluster: Cluster) -> str:
    (found,) = movable_instances(cluster.snapshot(), Chosen(namespaces=frozenset({"shop"})))
    assert found.drift
    return found.takes_effect


@pytest.mark.parametrize("situation", list(situations()), ids=str)
def test_rules_judge_and_rollout_expect_the_same(situation: Situation) -> None:
    cluster, ref = situation.build()
    term = TERMS[situation.term]

    foretold = before_the_write(cluster, ref, term)
    cluster.write(ref, "new", term)

    own = situation.kind == DEPLOYMENT
    assert foretold == ("workload_rollout" if own else situation.expected)
    assert (judged(cluster), rolled_out(cluster)) == (situation.expected, situation.expected)
    if situation.reaches:
        name = next(iter(cluster.machines))
        cluster.propagate(Ref(VM, "shop", name))
        assert (judged(cluster), rolled_out(cluster)) == (situation.expected, situation.expected)


@pytest.mark.parametrize("required", [False, True])
def test_beside_a_spread_that_waits(required: bool) -> None:
    """KubeVirt says RestartRequired as soon as it has seen the spread."""
    cluster, ref = Situation(restart_required=required).build()
    cluster.write(ref, "even", FROZEN_TERMS["spread"])

    foretold = before_the_write(cluster, ref, LIVE_TERMS["apart"])
    cluster.write(ref, "new", LIVE_TERMS["apart"])

    assert (foretold, judged(cluster), rolled_out(cluster)) == ("restart",) * 3


def test_rule_of_a_halted_vm_takes_effect_at_its_start() -> None:
    cluster = Cluster()
    ref = cluster.vm("db", tier="db")

    foretold = before_the_write(cluster, ref, LIVE_TERMS["apart"])
    cluster.write(ref, "new", LIVE_TERMS["apart"])

    assert foretold == "start"
    assert judge(cluster.snapshot()).instances == ()
    assert movable_instances(cluster.snapshot(), Chosen(namespaces=frozenset({"shop"}))) == ()
