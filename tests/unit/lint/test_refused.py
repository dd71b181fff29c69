# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`rules` writes nothing as long as an error stands against a rule that does not allow it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint_of_writes
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    OF_RULES,
    OF_TERMS,
    ONLY_ON_A_CLUSTER,
    InvalidInput,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import Ownership
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan
from tests.support.cluster import ZONE, anti_affinity, apart, expression, node_affinity, spread
from tests.support.facts import CONTROL_PLANE, node
from tests.unit.lint import rule_examples
from tests.unit.lint.documented import DOCUMENTED
from tests.unit.lint.examples import MIN_DOMAINS, OLD
from tests.unit.lint.rule_examples import APART, ON_A, WEB, Asked, asked, beside, three
from tests.unit.rules.builders import NODES, deployment, snapshot, vm, vmirs
from tests.unit.rules.builders import request as request_of

JSON = t.Any
IN_A = {"workloads": ON_A, "run_on": {"zone": "a"}}
TOGETHER = {"topology_key": "node", "with": {"name": "a"}}


def with_terms(terms: JSON, workloads: JSON = None) -> JSON:
    return {"workloads": workloads or ON_A, "terms": terms}


def argo() -> Asked:
    managed = vm("a")
    labels = {"argocd.argoproj.io/instance": "shop"}
    managed.manifest["metadata"]["labels"] = labels
    return asked(snapshot(managed), IN_A)


def own_pods() -> Asked:
    """One a zone in three zones, the revisions of a roll-out not told apart."""
    alone = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    web = deployment("web", replicas=3, labels={"app": "web"})
    return asked(snapshot(web), with_terms(anti_affinity(alone), WEB), workload_rollout="allow")


def beside_control_plane() -> Asked:
    """More than one in a zone, and a zone whose node takes none."""
    nodes = (*NODES, node("boss", "z", taints=(CONTROL_PLANE,)))
    web = deployment("web", replicas=6, labels={"app": "web"})
    terms = with_terms(spread(app="web"), WEB)
    return asked(snapshot(web, nodes=nodes), terms, workload_rollout="allow")


def clone() -> Asked:
    """A machine with the annotation of the one that it was copied from."""
    copied = vm("a")
    text = Ownership("uid-of-another").text()
    copied.manifest["metadata"]["annotations"] = {"placement.virt/rules": text}
    return asked(snapshot(copied), IN_A)


def strays() -> Asked:
    """Machines that their own replica set does not select."""
    replicas = vmirs("a", labels={"app": "a"})
    replicas.manifest["spec"]["selector"] = {"matchLabels": {"app": "b"}}
    named = {"kind": "VirtualMachineInstanceReplicaSet", "name": "a"}
    return asked(snapshot(replicas), {**IN_A, "workloads": [named]})


OF_TEMPLATES: dict[str, Asked] = {
    "copied_annotation": clone(),
    "empty_node_term": asked(snapshot(vm("a", placement=node_affinity({}))), IN_A),
    "no_node_has_key": asked(
        three(), with_terms(anti_affinity(apart("example.com/row", plain=True, tier="db")))
    ),
    "externally_managed": argo(),
    "mutual_affinity": asked(
        three(),
        {**beside("b"), "keep_together": {"topology_key": "node", "with": {"name": "b"}}},
        {"workloads": [{"name": "b"}], "keep_together": TOGETHER},
    ),
    "unsatisfiable": asked(three(), IN_A, {**IN_A, "run_on": {"zone": "b"}}),
    "rollout_deadlock": own_pods(),
    "spread_counts_unusable_domain": beside_control_plane(),
    "selector_matches_everything": asked(
        three(), with_terms(anti_affinity({"topologyKey": ZONE, "labelSelector": {}}))
    ),
    "selector_matches_nothing": asked(three(), with_terms(anti_affinity({"topologyKey": ZONE}))),
    "template_and_selector_disagree": strays(),
    "unsupported_by_server": asked(
        snapshot(vm("a"), vm("b"), platform=OLD),
        {"workloads": [{"names": ["a", "b"]}], **APART},
    ),
}
"""A request for each finding of terms that a write may bring about."""

REPAIRED = ("bypassed_by_node_term",)
"""The write itself puts the rule's expression into every term."""
REFUSED_BEFORE = ("invalid_placement",)
"""What the API server would refuse is a fault of the rule: it is not even planned."""
NOT_OF_A_WRITE = ("invalid_rules_annotation",)
"""A warning for a write that is about other workloads; for one of its own it is a fault."""
OF_ANSWERS = ("changed_by_webhook",)
"""It is in the answer to a write."""
OF_AN_UNDO = ("not_reverted",)
"""It is about undo records, and an undo has no rules that could allow it."""
OF_OTHER_FIELDS = ("names_node", "volume_blocks_rollout")
"""A rule writes no nodeName, no strategy and no volume, and `rules` reads no access modes."""

ASKED: dict[str, Asked] = {
    **OF_TEMPLATES,
    **{
        name: example.bad
        for name, example in rule_examples.EXAMPLES.items()
        if isinstance(example.bad, Asked) and "error" in DOCUMENTED[name].severities
        if name not in NOT_OF_A_WRITE
    },
}
UNWRITABLE = ("duplicate_spread", "label_conflict", "node_selector_conflict", "node_terms_conflict")
"""The API server would not take such a term, or it would undo somebody else's: see
docs/findings.md."""


def planned(name: str, *, allow: bool) -> RulesPlan:
    return whole_plan(ASKED[name], allowed=[name] if allow else [])


def whole_plan(request: Asked, allowed: t.Sequence[str] = ()) -> RulesPlan:
    """As the module `rules` makes it: with what lint says of the terms to come."""
    listed = ({**rule, "allow_findings": list(allowed)} for rule in request.listed)
    wanted = request_of(*listed, **request.options)
    return plan_rules(request.seen, wanted, extra_findings=lint_of_writes(Topology.of()))


def test_there_is_a_request_for_each_finding_that_may_be_an_error() -> None:
    errors = {
        name
        for name in (*OF_TERMS, *OF_RULES, *ONLY_ON_A_CLUSTER)
        if "error" in DOCUMENTED[name].severities
    }

    without = {
        *REPAIRED,
        *REFUSED_BEFORE,
        *NOT_OF_A_WRITE,
        *OF_ANSWERS,
        *OF_AN_UNDO,
        *OF_OTHER_FIELDS,
    }
    assert set(ASKED) == errors - without
    assert without <= errors


def test_other_findings_cannot_occur_in_a_write() -> None:
    elsewhere = [{"matchExpressions": [expression(ZONE, "In", zone)]} for zone in "bc"]
    or_ed = snapshot(vm("a", placement=node_affinity(*elsewhere)))
    fast = {"workloads": ON_A, "run_on": {"performance": "high"}}
    damaged = vm("a")
    damaged.manifest["metadata"]["annotations"] = {"placement.virt/rules": "{"}

    repaired = whole_plan(asked(or_ed, fast))
    assert (len(repaired.writes), repaired.refused) == (1, ())
    with pytest.raises(InvalidInput, match="minDomains"):
        whole_plan(asked(three(), with_terms({"topologySpreadConstraints": [MIN_DOMAINS]})))
    with pytest.raises(InvalidInput, match=r"placement\.virt/rules"):
        whole_plan(asked(snapshot(damaged), IN_A))


@pytest.mark.parametrize("name", ASKED)
def test_an_error_is_refused(name: str) -> None:
    found = planned(name, allow=False)

    assert name in {each.name for each in found.refused}
    assert all(each.severity == "error" for each in found.refused)


@pytest.mark.parametrize("name", sorted(set(ASKED) - set(UNWRITABLE)))
def test_rule_that_allows_the_finding_is_written(name: str) -> None:
    found = planned(name, allow=True)

    assert name in {each.name for each in found.findings}, "the finding is still reported"
    assert found.refused == ()
    without_workload = ("no_matching_workloads", "unknown_rule")
    assert found.writes or name in without_workload, "there is no workload to write"


@pytest.mark.parametrize("name", UNWRITABLE)
def test_finding_that_prevents_a_write_cannot_be_allowed(name: str) -> None:
    assert name in {each.name for each in planned(name, allow=True).refused}
