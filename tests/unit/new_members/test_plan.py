# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rules the policy of a set has after a task that lists some of them."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.terms import term_changes
from ansible_collections.virt.placement.plugins.module_utils.flows.policy_writes import why_stopped
from ansible_collections.virt.placement.plugins.module_utils.flows.rule_policies import (
    policy_entries,
)
from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    AdmissionPolicy,
    bound_policies,
    policy_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.rule import Rule
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import writes_result
from ansible_collections.virt.placement.plugins.module_utils.new_members.plan import plan_policies
from ansible_collections.virt.placement.plugins.module_utils.new_members.stored import (
    rules_of_policy,
    rules_text,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.policy_plan import (
    UNKNOWN,
    PolicyPlan,
    WrittenPolicies,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.registry import NEW_MEMBERS
from tests.unit.rules import builders

ZONE = "topology.kubernetes.io/zone"
ONE = {"name": "one", "run_on": {ZONE: "a"}, "workloads": ["a"]}
TWO = {"name": "two", "avoid": {ZONE: ["b", "c"]}, "workloads": [{"labels": {"app": "x"}}]}
MAP, VAP = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"
KEYLESS: dict[str, t.Any] = {"topology_keys": {"rack": "rack"}}


def planned(
    *rules: t.Any,
    present: PolicyPlan | None = None,
    new_members: str = "policy",
    members: t.Sequence[Workload] = (),
    **options: t.Any,
) -> PolicyPlan:
    manifests = () if present is None else present.manifests
    return plan_policies(
        replace(builders.request(*rules, **options), new_members=new_members),
        on_server(manifests, *members),
    )


def on_server(manifests: t.Iterable[t.Any], *members: Workload) -> Snapshot:
    """A snapshot with these policies."""
    objects = [
        policy_from_manifest(
            x["kind"],
            {**x, "metadata": {**x["metadata"], "uid": x["kind"], "resourceVersion": "7"}},
        )
        for x in manifests
    ]
    return replace(builders.snapshot(*members), policies=bound_policies(objects))


def written(plan: PolicyPlan) -> list[str]:
    """The writes in their order."""
    words = ("deleted", "created", "changed")
    return [
        f"{write.target.kind} {words[0 if write.after is None else 2 if write.uid else 1]}"
        for write in plan.writes
    ]


def rules_in(manifest: t.Any) -> tuple[Rule, ...] | None:
    """The rules that are read of a policy."""
    return rules_of_policy(AdmissionPolicy(MAP, "p", "", "", "shop", "default", "", manifest))


def names(plan: PolicyPlan) -> list[str]:
    if not plan.manifests:
        return []
    rules = rules_in(plan.manifests[0])
    assert rules is not None
    return [rule.id.name for rule in rules]


@pytest.mark.parametrize(
    "rule",
    [
        ONE,
        {**TWO, "preferred": True, "weight": 7},
        {**ONE, "enabled": False},
        {**ONE, "allow_findings": ["empty_node_term"]},
        {"name": "x", "keep_apart": {"topology_key": ZONE, "from": ["b"]}, "workloads": ["a"]},
        {
            "name": "x",
            "label": {"team": "x"},
            "workloads": [{"kind": "Deployment", "names": ["a"]}],
        },
        {"name": "x", "terms": {"tolerations": [{"operator": "Exists"}]}, "workloads": ["a"]},
        {"name": "x", "spread": {"topology_key": ZONE, "max_skew": 2}, "workloads": ["a"]},
    ],
)
def test_rules_of_a_policy_are_read_as_they_were_declared(rule: t.Any) -> None:
    rules = builders.request(rule).rules
    assert rules_in({"metadata": {"annotations": {RULES: rules_text(rules)}}}) == rules


def test_key_without_a_prefix_is_read() -> None:
    rule = {"name": "one", "run_on": {"rack": "a"}, "workloads": ["a"]}
    rules = builders.request(rule, **KEYLESS).rules
    assert rules_in({"metadata": {"annotations": {RULES: rules_text(rules)}}}) == rules


def test_policy_keeps_rules_that_the_task_does_not_list() -> None:
    first = planned(ONE)
    assert names(first) == ["one"]
    assert names(planned(TWO, present=first)) == ["one", "two"]
    assert names(planned(TWO, present=first, prune=True)) == ["two"]
    both = planned(TWO, present=first)
    assert names(planned({"name": "one"}, present=both, state="absent")) == ["two"]
    assert planned({"name": "one"}, present=first, state="absent").manifests == ()


def test_rule_that_rests_by_its_name_rests_in_the_policy() -> None:
    """It is left out where the policy does not have it: its workloads are those that carry it."""
    unknown = planned({"name": "other", "enabled": False}, present=planned(ONE))
    assert names(unknown) == ["one"]
    plan = planned({"name": "one", "enabled": False}, present=planned(ONE))
    rules = rules_in(plan.manifests[0])
    assert rules is not None
    assert [rule.enabled for rule in rules] == [False]
    assert [rule.name for rule in plan.removed] == ["one"]  # new members no longer get it
    again = planned({"name": "one", "enabled": False}, present=plan)
    assert not again.removed
    assert not again.writes


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", '{"version":1}', '{"version":2,"rules":[]}', '{"version":1,"rules":[1]}'],
)
def test_damaged_annotation_is_not_an_empty_one(text: str | None) -> None:
    first = planned(ONE)
    policy = json.loads(json.dumps(first.manifests[0]))
    policy["metadata"]["annotations"][RULES] = text
    plan = planned(TWO, present=PolicyPlan((policy,)))
    assert plan.manifests == ()
    assert plan.why_none is not None
    assert plan.why_none.code == "no_policy"


def test_registry_has_both_policies() -> None:
    assert [entry() for entry in NEW_MEMBERS.values()] == [plan_policies, plan_policies]
    assert written(planned(ONE)) == [f"{MAP} created", f"{MAP}Binding created"]
    assert written(planned(ONE, new_members="warn")) == [f"{VAP} created", f"{VAP}Binding created"]


def test_digest_is_that_of_the_policy_with_the_rules_of_other_tasks() -> None:
    first = planned(ONE)
    assert planned(ONE, present=first).digest == first.digest
    others = {first.digest, planned(ONE, present=planned(TWO)).digest}
    others |= {
        planned({**ONE, "run_on": {ZONE: "b"}}).digest,
        planned(ONE, new_members="warn").digest,
    }
    assert len(others) == 4
    assert PolicyPlan().digest == ""
    assert PolicyPlan(is_known=False).digest == UNKNOWN


def test_digest_is_of_the_policy_as_the_task_leaves_it() -> None:
    both = planned(ONE, TWO)
    left = planned(ONE, present=both, new_members="none")
    assert left.digest == planned(TWO).digest
    assert planned(TWO, present=both, prune=True).digest == left.digest
    assert planned(ONE, TWO, present=both, new_members="none").digest == ""
    for again in ("none", "policy"):  # nothing is written
        plan = planned(ONE if again == "none" else TWO, present=left, new_members=again)
        assert (plan.digest, plan.writes) == (left.digest, ())
        assert [rule.name for rule in plan.rules] == ["two"]


def test_rules_of_a_policy_are_those_that_new_members_get() -> None:
    """One that no policy can write, or that rests, is in its annotation alone."""
    depends = {"name": "depends", "keep_apart": ZONE, "workloads": ["a", {"labels": {"app": "x"}}]}
    plan = planned(ONE, {**TWO, "enabled": False}, depends)
    assert names(plan) == ["depends", "one", "two"]
    assert [rule.name for rule in plan.rules] == ["one"]
    assert plan.digest != planned(ONE, {**TWO, "enabled": False}).digest


def test_policy_that_is_as_wanted_is_not_written() -> None:
    assert written(planned(ONE, present=planned(ONE))) == []
    other = planned({**ONE, "run_on": {ZONE: "b"}}, present=planned(ONE))
    assert written(other) == [f"{MAP} changed", f"{MAP}Binding changed"]
    tests = [str(write.tests[0].value) for write in other.writes]
    assert tests == ["7", "7"]  # what was read


def test_one_kind_of_policy_follows_the_other_before_that_is_deleted() -> None:
    switched = planned(TWO, present=planned(ONE), new_members="warn")
    assert names(switched) == ["one", "two"]
    assert written(switched) == [
        *(f"{VAP} created", f"{VAP}Binding created"),
        *(f"{MAP}Binding deleted", f"{MAP} deleted"),
    ]


def test_task_without_the_option_takes_its_rules_out() -> None:
    both = planned(ONE, TWO)
    left = planned(ONE, present=both, new_members="none")
    assert names(left) == ["two"]
    assert [rule.name for rule in left.removed] == ["one"]
    assert written(left) == [f"{MAP} changed", f"{MAP}Binding changed"]
    assert written(planned(present=both, new_members="none")) == []
    for gone in (
        planned(ONE, TWO, present=both, new_members="none"),
        planned(present=both, prune=True),
        planned({"name": "one"}, {"name": "two"}, present=both, state="absent"),
    ):
        assert written(gone) == [f"{MAP}Binding deleted", f"{MAP} deleted"]
        assert [rule.name for rule in gone.removed] == ["one", "two"]


AB = {**ONE, "workloads": ["a", "b"]}
BY_LABELS = {**ONE, "workloads": [{"labels": {"app": "x", "tier": "web"}}]}


def absent(workloads: t.Any) -> dict[str, t.Any]:
    return {"name": "one", **({} if workloads is None else {"workloads": workloads})}


@pytest.mark.parametrize(
    ("rule", "gone", "left"),
    [
        (AB, ["a"], [{"names": ["b"]}]),
        (AB, [{"labels": {"app": "y"}}], [{"names": ["a"]}]),  # b has the label
        (AB, ["a", "b"], None),
        (AB, None, None),
        (BY_LABELS, [{"labels": {"tier": "web"}}], None),
        ({**ONE, "workloads": []}, None, None),
    ],
)
def test_rule_that_some_workloads_lose_stays_for_the_others(
    rule: t.Any, gone: t.Any, left: t.Any
) -> None:
    """Issue 46: the whole rule left the policy."""
    member = builders.vm("b", labels={"app": "y"})
    present = planned(rule, TWO)
    for mode in ("none", "policy"):
        plan = planned(
            absent(gone), members=[member], present=present, state="absent", new_members=mode
        )
        if left is None:
            assert (names(plan), [x.name for x in plan.removed]) == (["two"], ["one"])
            continue
        assert plan.removed == ()
        rules = rules_in(plan.manifests[0])
        assert rules is not None
        assert [x.chosen_by for x in rules[0].workloads] == left
        assert [x.name for x in plan.narrowed] == ["one"]
        refusal = why_stopped(WrittenPolicies(plan, refused=NO_RIGHT))
        assert refusal is not None
        assert "rule one would stay in" in refusal.message


@pytest.mark.parametrize(
    ("rule", "gone", "kept"),
    [
        (AB, [{"kind": "Deployment", "names": ["a", "b"]}], []),
        (AB, [], []),  # an empty list is no workload
        ({**ONE, "workloads": []}, ["a"], []),
        (BY_LABELS, ["b"], ["one"]),
        (BY_LABELS, [{"labels": {"app": "x", "tier": "web", "team": "y"}}], ["one"]),
    ],
)
def test_policy_is_not_written_where_its_rule_keeps_its_workloads(
    rule: t.Any, gone: t.Any, kept: list[str]
) -> None:
    """Labels of the policy go on choosing new workloads with the name that is taken out."""
    present = planned(rule, TWO)
    for mode in ("none", "policy"):
        plan = planned(absent(gone), present=present, state="absent", new_members=mode)
        assert (plan.writes, plan.removed, plan.narrowed) == ((), (), ())
        assert [x.name for x in plan.kept] == kept
        _done, skipped, _next = policy_entries(
            WrittenPolicies(plan), mode, check=False, restores=False
        )
        assert [x.objects for x in skipped if x.code == "policy_rules_kept"] == [
            (name,) for name in kept
        ]


def test_rule_of_no_workload_stays_where_another_one_is_removed() -> None:
    present = planned({**ONE, "workloads": []}, TWO, AB | {"name": "three"})
    plan = planned({"name": "three"}, present=present, state="absent")
    assert names(plan) == ["one", "two"]


def test_undo_leaves_no_policy_that_may_bring_a_rule_back() -> None:
    gone = planned(present=planned(ONE, TWO), state="reverted", new_members="none")
    assert written(gone) == [f"{MAP}Binding deleted", f"{MAP} deleted"]
    assert [rule.name for rule in gone.removed] == ["one", "two"]


NO_RIGHT = Obstacle("no_right", "this identity may not patch it", advice="Grant it")


def test_task_that_takes_rules_out_without_the_right_names_rules_policy_and_ways() -> None:
    """The workloads would lose the rule, and the policy would give it to new ones."""
    both = planned(ONE, TWO)
    name = both.manifests[0]["metadata"]["name"]
    for plan in (
        planned({"name": "one"}, present=both, state="absent"),
        planned(ONE, present=both, new_members="none"),
        planned(TWO, present=both, prune=True),
        planned({"name": "one", "enabled": False}, present=both),
    ):
        refusal = why_stopped(WrittenPolicies(plan, refused=NO_RIGHT))
        assert refusal is not None
        assert (refusal.type, refusal.object) == ("permission", f"{MAP} {name}")
        assert f"rule one would stay in {MAP} {name}" in refusal.message
        assert "this identity may not patch it" in refusal.message
        assert (
            plan.by_hand
            == "apply the manifests in new_members of the result (artifact placement_policy)"
        )
    rights = WrittenPolicies(planned(present=both, prune=True), refused=None)
    assert why_stopped(rights) is None
    more = planned(TWO, present=planned(ONE))
    assert why_stopped(WrittenPolicies(more, refused=NO_RIGHT)) is None


def test_policy_of_which_nothing_is_left_is_deleted_by_hand() -> None:
    for kind, mode in ((MAP, "policy"), (VAP, "warn")):
        first = planned(ONE, TWO, new_members=mode)
        name = first.manifests[0]["metadata"]["name"]
        delete = f"kubectl delete {kind.lower()},{kind.lower()}binding {name}"
        for state in ("present", "reverted"):
            gone = planned(present=first, prune=True, state=state, new_members="none")
            refusal = why_stopped(WrittenPolicies(gone, refused=NO_RIGHT))
            assert refusal is not None
            assert "rules one, two would stay" in refusal.message
            assert gone.by_hand == f"delete the policy: {delete}"
    switched = planned(TWO, present=planned(ONE), new_members="warn")
    assert switched.by_hand.startswith(
        "apply the manifests in new_members of the result (artifact placement_policy), and"
    )
    assert f"kubectl delete {MAP.lower()},{MAP.lower()}binding" in switched.by_hand


@pytest.mark.parametrize(
    ("gone", "step"),
    [
        (["one"], "commit the manifests in new_members of the result to its source"),
        (["one", "two"], "remove the policy and its binding from its source"),
    ],
)
def test_policy_that_argo_cd_applies_is_changed_at_its_source_too(
    gone: list[str], step: str
) -> None:
    """Its next sync would give the removed rule to new members again."""
    present = planned(ONE, TWO)
    rules = [{"name": name} for name in gone]

    def steps(check: bool, **of_task: t.Any) -> list[str]:
        plan = planned(*rules, present=present, state="absent")
        written = WrittenPolicies(plan, **of_task)
        following = policy_entries(written, "none", check=check, restores=False)[2]
        return [x.text for x in following if x.code == "externally_managed"]

    writes = planned(*rules, present=present, state="absent").writes
    assert steps(check=False, done=writes) == []
    for manifest in present.manifests:
        manifest["metadata"]["managedFields"] = [{"manager": "argocd-controller"}]
    assert steps(check=False) == []  # findings refuse the task
    for outcome in ({"done": writes}, {"refused": NO_RIGHT}):
        (text,) = steps(check=True, **outcome)
        assert text.startswith("Argo CD (field manager argocd-controller) applies the policy, too")
        assert text.endswith(f"before the next sync {step}")
        assert steps(check=False, **outcome) == [text]


def test_removal_of_a_rule_leaves_a_warning_a_warning() -> None:
    warning = planned(ONE, TWO, new_members="warn")
    left = planned({"name": "one"}, present=warning, state="absent", new_members="policy")
    assert written(left) == [f"{VAP} changed", f"{VAP}Binding changed"]


def test_key_order_of_labels_is_no_change() -> None:
    chosen = {"labels": {"b": "1", "a": "2"}}
    apart = {"topology_key": ZONE, "from": chosen, "pods": [chosen]}
    rule = {"keep_apart": apart, "workloads": [chosen]}
    again = json.loads(json.dumps(rule, sort_keys=True))
    assert written(planned({"name": "x", **again}, present=planned({"name": "x", **rule}))) == []


NODES = {ZONE: ["a", "c", "b"], "example.com/licensed": ["yes"]}
PERMUTED = {"example.com/licensed": "yes", ZONE: ["b", "c", "a"]}


@pytest.mark.parametrize("rule_type", ["run_on", "avoid"])
def test_order_of_node_labels_and_values_is_no_change(rule_type: str) -> None:
    """Each run of the other declaration wrote the policy, and the annotation of each workload."""
    for more in ({}, {"preferred": True}):
        one, other = (
            {"name": "x", rule_type: nodes, "workloads": ["a"], **more}
            for nodes in (NODES, PERMUTED)
        )
        assert planned(one).manifests == planned(other).manifests
        assert written(planned(other, present=planned(one))) == []
        vm = builders.vm("a")
        write, same = (
            plan_rules(builders.snapshot(vm), builders.request(x)).workloads[0].merged.write
            for x in (one, other)
        )
        assert write == same


@pytest.mark.parametrize("kind", ["VirtualMachine", "Deployment"])
def test_order_of_names_is_no_change(kind: str) -> None:
    one, other = (
        {"name": "x", "keep_together": ZONE, "label": {"team": "x"}, "workloads": workloads}
        for workloads in (
            [{"kind": kind, "names": ["a", "b"]}, {"labels": {"app": "x"}}],
            [{"labels": {"app": "x"}}, {"kind": kind, "name": "b"}, {"kind": kind, "name": "a"}],
        )
    )
    assert planned(one).covered
    assert written(planned(other, present=planned(one))) == []


def test_order_of_names_is_no_change_of_terms_that_list_them() -> None:
    one, other = (
        planned({"name": "x", "keep_together": ZONE, "workloads": names})
        for names in (["a", "b"], ["b", "a"])
    )
    assert one.covered
    assert one.manifests == other.manifests


WEB = {"labels": {"tier": "web"}}
DEPLOYMENTS = {"name": "x", "keep_apart": ZONE, "workloads": [{"kind": "Deployment", **WEB}]}
IMPOSSIBLE = "did you mean 'a1'? No object can have this name. To choose several, use labels"
NEITHER = "new_members is not policy. Set it to policy, or take them out of the rule."


@pytest.mark.parametrize(
    ("rule", "mode", "texts"),
    [
        (ONE, "none", ["there is no VirtualMachine 'a'", "did you mean 'a1'?", NEITHER]),
        (ONE, "warn", ["did you mean 'a1'?", NEITHER]),
        (DEPLOYMENTS, "none", ["Correct the labels", NEITHER]),
        (
            DEPLOYMENTS,
            "policy",
            ["Correct the labels", "cannot have the rule: rule x", "use spread"],
        ),
        (
            {"name": "one", "keep_apart": ZONE, "workloads": ["a", WEB]},
            "policy",
            ["did you mean 'a1'?", "names, selectors or number", "by the same labels"],
        ),
        (
            {**ONE, "workloads": ["a*", "A1"]},
            "policy",
            ["there is no VirtualMachine 'a*'", "no VirtualMachine 'A1'", *2 * [IMPOSSIBLE]],
        ),
    ],
)
def test_rule_of_workloads_that_come_later_is_refused_with_what_helps(
    rule: dict[str, t.Any], mode: str, texts: list[str]
) -> None:
    policies = planned(rule, new_members=mode, present=planned(ONE))
    request = replace(builders.request(rule), new_members=mode, policies=policies)
    members = [builders.vm("a1"), builders.vm("w", labels={"tier": "web"})]
    try:
        (finding,) = plan_rules(builders.snapshot(*members), request).refused
        message = finding.advice
    except InvalidInput as error:
        message = str(error)
    assert [text for text in texts if text not in message] == []


def test_names_of_covered_rules_may_not_exist_yet() -> None:
    apart = {"name": "x", "keep_apart": ZONE, "workloads": [{"kind": "Deployment", "names": ["d"]}]}
    plan = planned(ONE, TWO, apart)
    assert [str(ref) for ref in plan.expected_refs] == ["VirtualMachine shop/a"]
    assert [rule.name for rule in plan.not_covered] == ["x"]
    assert planned(ONE, new_members="warn").expected == ()


def shown(plan: PolicyPlan) -> list[list[str]]:
    """The diff of each policy in words."""
    policies = (x for x in plan.writes if not x.target.kind.endswith("Binding"))
    return [term_changes(write, Topology({"zone": ZONE})) for write in policies]


def test_diff_shows_who_gets_which_rule_and_who_no_longer() -> None:
    fast, other = "rule shop/default/one", "rule shop/default/two"
    first = planned(ONE)
    assert shown(first) == [
        [f"+ at creation of VirtualMachine a: {fast}, node affinity {ZONE} In (a)"]
    ]
    more = planned({**ONE, "workloads": ["a", "b"]}, TWO, present=first)
    assert shown(more) == [
        [
            f"+ at creation of VirtualMachine b: {fast}, node affinity {ZONE} In (a)",
            f"+ at creation of each VirtualMachine with app=x: {other}, node affinity {ZONE} NotIn (b, c)",
        ]
    ]
    left = planned({"name": "one"}, present=more, state="absent")
    assert shown(left) == [
        [
            f"- at creation of VirtualMachine a, VirtualMachine b: {fast}, node affinity {ZONE} In (a)"
        ]
    ]
    rests = planned({"name": "one", "enabled": False}, present=first)
    assert shown(rests) == [
        [
            f"- at creation of VirtualMachine a: {fast}, node affinity {ZONE} In (a)",
            f"+ at creation of VirtualMachine a: {fast}, not enabled",
        ]
    ]
    warned = planned(ONE, present=first, new_members="warn")
    assert shown(warned) == [
        [f"+ at creation of VirtualMachine a: warning without {fast}"],
        [f"- at creation of VirtualMachine a: {fast}, node affinity {ZONE} In (a)"],
    ]


def test_diff_of_a_policy_that_somebody_changed_shows_the_field_and_no_code() -> None:
    policy, binding = planned(ONE).manifests
    theirs = {**policy, "spec": {**policy["spec"], "failurePolicy": "Fail"}}
    again = planned(ONE, present=PolicyPlan((theirs, binding)))
    assert shown(again) == [[]]
    (entry,) = writes_result(again.writes, diff=True)["diff"]
    before, after = entry["before"], entry["after"]
    assert {x for x in before if before[x] != after[x]} == {"failurePolicy"}
    assert "mutations" not in after
