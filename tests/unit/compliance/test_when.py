# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to happen before a rule that was just written counts for what runs."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import RuleVerdict
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation
from tests.support.cluster import ZONE, Cluster, apart, expression, selector, spread

JSON = t.Any
AWAY = (TermLocation.ANTI_AFFINITY, apart(tier="cache"))
EVEN = (TermLocation.SPREAD, spread(tier="db")["topologySpreadConstraints"][0])
STAGED = Platform(kubernetes=(1, 33), kubevirt="v1.8.4", rollout_strategy="Stage")


def written(
    cluster: Cluster, ref: Ref, *terms: tuple[TermLocation, JSON], **changes: t.Any
) -> RuleVerdict:
    """The verdict on a rule that was written while the instance ran."""
    for term in terms:
        cluster.write(ref, "new", term)
    (found,) = judge(cluster.snapshot(**changes)).instances
    (rule,) = [each for each in found.rules if each.rule == "shop/default/new"]
    assert not rule.enforced
    return rule


def machine(cluster: Cluster) -> Ref:
    return cluster.run("db", "n1", tier="db")


def test_affinity_of_a_vm_takes_effect_at_its_next_migration() -> None:
    cluster = Cluster()

    rule = written(cluster, machine(cluster), AWAY)

    assert (rule.verdict.value, rule.takes_effect) == ("not_enforced", "migration")
    assert rule.reason.startswith("placed correctly, rule not enforced yet: ")
    assert rule.reason.endswith("; enforced from the next migration")


def test_a_spread_takes_effect_at_a_restart() -> None:
    cluster = Cluster()

    rule = written(cluster, machine(cluster), EVEN)

    assert rule.takes_effect == "restart"
    assert rule.reason.endswith("; enforced from the next restart")


def test_change_waits_for_the_restart_that_a_pending_spread_needs() -> None:
    cluster = Cluster()
    ref = machine(cluster)
    cluster.write(ref, "even", EVEN)

    assert written(cluster, ref, AWAY).takes_effect == "restart"


def test_a_vm_that_cannot_migrate_waits_for_a_restart() -> None:
    cluster = Cluster()
    ref = machine(cluster)
    cluster.machines["db"]["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False"}]

    assert written(cluster, ref, AWAY).takes_effect == "restart"


def test_term_that_reached_the_vmi_takes_effect_at_a_migration() -> None:
    cluster = Cluster()
    ref = machine(cluster)
    cluster.write(ref, "new", AWAY)
    cluster.propagate(ref)

    assert written(cluster, ref, platform=STAGED).takes_effect == "migration"


def test_change_without_live_update_takes_effect_at_a_restart() -> None:
    cluster = Cluster()

    assert written(cluster, machine(cluster), AWAY, platform=STAGED).takes_effect == "restart"


def test_change_of_a_vm_with_restart_required_waits_for_the_restart() -> None:
    cluster = Cluster()
    ref = machine(cluster)
    conditions = [{"type": "RestartRequired", "status": "True"}]
    cluster.workloads[ref]["status"] = {"conditions": conditions}

    assert written(cluster, ref, AWAY).takes_effect == "restart"


@pytest.mark.parametrize("kind", ["VirtualMachineInstanceReplicaSet", "Deployment"])
def test_a_replica_keeps_what_it_was_made_with(kind: str) -> None:
    cluster = Cluster()
    labels = {"tier": "db"}
    template = {"metadata": {"labels": labels}, "spec": {}}
    spec = {"replicas": 1, "selector": selector(**labels), "template": template}
    ref = cluster.workload(kind, "set", spec)
    cluster.start(ref, "n1", "set-0")

    rule = written(cluster, ref, AWAY)

    assert rule.takes_effect == "recreate"
    assert rule.reason.endswith("; enforced when the instance is recreated")


def test_violated_rule_that_is_not_enforced_reports_both() -> None:
    cluster = Cluster()

    rule = written(
        cluster, machine(cluster), (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "b"))
    )

    assert (rule.verdict.value, rule.takes_effect) == ("violated", "migration")
    assert "does not satisfy" in rule.reason
    assert rule.reason.endswith("; a rollout moves it"), "it need not wait for its next migration"


def test_violated_rule_of_a_vm_that_cannot_migrate_names_the_restart() -> None:
    cluster = Cluster()
    ref = machine(cluster)
    cluster.machines["db"]["status"]["conditions"] = [{"type": "LiveMigratable", "status": "False"}]

    rule = written(cluster, ref, (TermLocation.NODE_EXPRESSION, expression(ZONE, "In", "b")))

    assert (rule.verdict.value, rule.takes_effect) == ("violated", "restart")
    assert rule.reason.endswith("; a rollout with allow: [restart] moves it")


def test_enforced_rule_waits_for_no_event() -> None:
    cluster = Cluster()
    ref = cluster.vm("db", tier="db")
    cluster.write(ref, "new", AWAY)
    cluster.start(ref, "n1")

    (found,) = judge(cluster.snapshot()).instances

    assert [(rule.enforced, rule.takes_effect) for rule in found.rules] == [(True, "")]


def test_vm_whose_node_selector_allows_one_node_is_not_said_to_migrate() -> None:
    cluster = Cluster()
    host = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    ref = cluster.run("db", "n1", host, tier="db")

    rule = written(cluster, ref, AWAY)

    assert rule.takes_effect == "restart"
    assert rule.reason.endswith(
        "no live migration is possible, since its node selector and node affinity allow only node n1;"
        " enforced from the next restart"
    )


def test_preference_that_is_not_met_is_named_once() -> None:
    cluster = Cluster()
    term = {"weight": 5, "preference": {"matchExpressions": [expression(ZONE, "In", "b")]}}
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    cluster.run("db", "n1", {"affinity": preferred})

    (found,) = judge(cluster.snapshot()).instances

    (rule,) = [each for each in found.rules if each.reason]
    assert rule.reason == f"preferred node affinity {ZONE} In (b) is not met"
