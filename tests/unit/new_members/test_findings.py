# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found about the policies of rule sets, and how new members get each rule."""

from __future__ import annotations

import copy
import re
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.placement_info import _covered
from ansible_collections.virt.placement.plugins.module_utils.interface.rule_table import rule_table
from ansible_collections.virt.placement.plugins.module_utils.lint.lint_input import lint_input_of
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.admission_policy import (
    AdmissionPolicy,
    bound_policies,
    policy_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import Finding
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES, UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from ansible_collections.virt.placement.plugins.module_utils.new_members.findings import (
    coverage,
    policy_findings,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.members import new_members
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import (
    mutating_policy,
    warning_policy,
)
from ansible_collections.virt.placement.plugins.module_utils.new_members.stored import rules_text
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules import builders

Manifest = dict[str, t.Any]
Change = t.Callable[[list[Manifest]], None]
ZONE = "topology.kubernetes.io/zone"
BY_LABELS = {"name": "one", "run_on": {ZONE: "a"}, "workloads": [{"labels": {"app": "x"}}]}
BY_NAME = {"name": "two", "run_on": {ZONE: "a"}, "workloads": ["c"]}
ONE, TWO = (RuleId("shop", "default", name) for name in ("one", "two"))
DEPLOYMENTS = [{"kind": "Deployment", "labels": {"app": "x"}}]
MAKERS = {"policy": mutating_policy, "warn": warning_policy}


def cluster(*rules: t.Any, **platform: t.Any) -> Snapshot:
    """Two VMs that are members by their labels; the rules are written to them."""
    platform.setdefault("kubernetes", (1, 36))
    before = builders.snapshot(
        *(builders.vm(name, labels={"app": "x"}) for name in "ab"),
        platform=Platform(kubevirt="v1.8.4", **platform),
    )
    return written(before, builders.plan(before, *rules).writes) if rules else before


def policies(
    *rules: t.Any, how: str = "policy", change: Change | None = None
) -> tuple[AdmissionPolicy, ...]:
    declared = builders.request(*rules).rules
    made = MAKERS[how]("shop", "default", new_members(declared, cluster()).members)
    made[0]["metadata"]["annotations"][RULES] = rules_text(declared)
    manifests = copy.deepcopy([*made])
    if change is not None:
        change(manifests)
    return bound_policies(policy_from_manifest(x["kind"], x) for x in manifests)


def found(snapshot: Snapshot, *with_policies: AdmissionPolicy) -> list[Finding]:
    read = replace(snapshot, policies=with_policies)
    return list(policy_findings(lint_input_of(read, Topology.of())))


def names(findings: t.Iterable[Finding]) -> list[str]:
    return [finding.name for finding in findings]


def set_at(number: int, *path: str, value: t.Any) -> Change:
    def change(manifests: list[Manifest]) -> None:
        place = manifests[number]
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


def without_binding(manifests: list[Manifest]) -> None:
    manifests.pop()


@pytest.mark.parametrize("how", MAKERS)
def test_policy_as_it_was_written_has_no_finding(how: str) -> None:
    own = policies(BY_LABELS, how=how)
    snapshot = cluster(BY_LABELS)
    assert found(snapshot, *own) == []
    assert coverage(replace(snapshot, policies=own)).how(ONE) == how


def test_what_the_server_adds_is_no_change() -> None:
    def added(manifests: list[Manifest]) -> None:
        constraints = manifests[0]["spec"]["matchConstraints"]
        constraints["objectSelector"] = {}
        constraints["resourceRules"] = [{**x, "scope": "*"} for x in constraints["resourceRules"]]

    assert found(cluster(BY_LABELS), *policies(BY_LABELS, change=added)) == []


@pytest.mark.parametrize(("kubernetes", "how"), [((1, 36), "policy"), ((1, 35), "warn")])
def test_rules_by_labels_without_a_policy_are_said_once(
    kubernetes: tuple[int, int], how: str
) -> None:
    other = {**BY_LABELS, "name": "three", "avoid": {ZONE: "b"}}
    del other["run_on"]
    snapshot = cluster(BY_LABELS, other, kubernetes=kubernetes)
    (finding,) = found(snapshot)
    assert (finding.name, finding.severity) == ("new_members_not_covered", "info")
    assert "rules one, three of the set default" in finding.why
    assert f"new_members {how}," in finding.advice
    assert [str(ref) for ref in finding.objects] == ["Namespace shop"]
    assert coverage(replace(snapshot, policies=())).how(ONE) == "none"


def test_rules_by_name_need_no_policy() -> None:
    by_name = {**BY_NAME, "workloads": ["a"]}
    assert found(cluster(by_name)) == []


def test_what_was_not_read_is_unknown_and_has_no_finding() -> None:
    snapshot = cluster(BY_LABELS)
    assert snapshot.policies is None
    assert list(policy_findings(lint_input_of(snapshot, Topology.of()))) == []
    assert coverage(snapshot).how(ONE) == "unknown"


@pytest.mark.parametrize(
    ("how", "change", "seen", "covered"),
    [
        ("policy", without_binding, "it has no binding", "none"),
        (
            "policy",
            set_at(0, "spec", "failurePolicy", value="Fail"),
            "its failurePolicy is Fail",
            "policy",
        ),
        (
            "policy",
            set_at(1, "spec", "matchResources", value={"objectSelector": {}}),
            "is for a part of the workloads.",
            "none",
        ),
        (
            "policy",
            set_at(1, "spec", "paramRef", value={"name": "x"}),
            "is for a part of the workloads.",
            "none",
        ),
        ("warn", set_at(1, "spec", "validationActions", value=["Audit"]), "does not warn.", "none"),
        (
            "warn",
            set_at(1, "spec", "validationActions", value=["Warn", "Deny"]),
            "refuses creations",
            "warn",
        ),
    ],
)
def test_policy_that_is_stopped_is_refused(
    how: str, change: Change, seen: str, covered: str
) -> None:
    own = policies(BY_LABELS, how=how, change=change)
    snapshot = cluster(BY_LABELS)
    (finding,) = found(snapshot, *own)
    assert finding.name == "policy_refused"
    assert seen in finding.why
    assert finding.objects == (own[0].ref,)
    assert coverage(replace(snapshot, policies=own)).how(ONE) == covered


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (set_at(0, "spec", "matchConditions", value=[]), "another client changed its spec"),
        (set_at(0, "spec", "paramKind", value={"kind": "x"}), "another client changed its spec"),
        (set_at(0, "metadata", "annotations", RULES, value="{"), "cannot be read"),
    ],
)
def test_policy_that_another_client_changed_is_stale(change: Change, seen: str) -> None:
    own = policies(BY_LABELS, change=change)
    snapshot = cluster(BY_LABELS)
    (finding,) = found(snapshot, *own)
    assert finding.name == "policy_stale"
    assert seen in finding.why
    covers = coverage(replace(snapshot, policies=own)).how
    assert (covers(ONE), covers(TWO)) == ("unknown", "unknown")
    assert covers(RuleId("shop", "other", "one")) == "none"


@pytest.mark.parametrize(
    ("of_policy", "seen"),
    [
        ({**BY_LABELS, "run_on": {ZONE: "b"}}, "workloads have other options of one."),
        ({**BY_LABELS, "enabled": False}, "workloads have other options of one."),
        (BY_NAME, "the policy lacks one."),
    ],
)
def test_policy_with_other_rules_than_its_workloads_is_stale(of_policy: t.Any, seen: str) -> None:
    (finding,) = found(cluster(BY_LABELS), *policies(of_policy))
    assert finding.name == "policy_stale"
    assert finding.why.endswith(f"that its workloads have: {seen}")


def written_at(snapshot: Snapshot, *rules: t.Any) -> Snapshot:
    planned = builders.plan(snapshot, *rules, at="2026-11-02T10:00:00Z")
    return written(snapshot, planned.writes)


def reverted(snapshot: Snapshot) -> Snapshot:
    return written(snapshot, plan_revert(snapshot, builders.request(state="reverted")).writes)


def asked(snapshot: Snapshot) -> list[str]:
    findings = names(lint(snapshot, topology=Topology.of()))
    return [name for name in findings if name == "rule_not_on_new_member"]


def without_record(workload: Workload) -> Workload:
    """As a policy for new members makes it."""
    manifest = copy.deepcopy(dict(workload.manifest))
    del manifest["metadata"]["annotations"][UNDO]
    return replace(workload, manifest=manifest)


def with_affinity(workload: Workload) -> Workload:
    """Another client has changed it."""
    manifest = copy.deepcopy(dict(workload.manifest))
    manifest["spec"]["template"]["spec"]["affinity"] = {}
    return replace(workload, manifest=manifest)


@pytest.mark.parametrize("changed", [without_record, with_affinity])
def test_rule_that_an_undo_has_left_on_a_workload_is_asked_of_no_other(changed: t.Any) -> None:
    """What the undone change had added was asked for, beside the advice to remove it."""
    a, b = written_at(cluster(), BY_LABELS).workloads
    undone = reverted(builders.snapshot(a, changed(b), builders.vm("new", labels={"app": "x"})))
    assert [list(read_ownership(x).rules) for x in undone.workloads] == [[], [ONE], []]
    assert asked(undone) == names(found(undone)) == names(found(undone, *policies(BY_NAME))) == []


def test_rule_that_a_workload_has_of_an_earlier_change_is_asked_of_others() -> None:
    new, b = cluster().workloads[0], written_at(cluster(), BY_LABELS).workloads[1]
    more = {**BY_NAME, "workloads": ["a"]}
    undone = reverted(written_at(builders.snapshot(new, b), BY_LABELS, more))
    assert [list(read_ownership(x).rules) for x in undone.workloads] == [[], [ONE]]
    assert asked(undone) == ["rule_not_on_new_member"]
    assert names(found(undone, *policies(BY_NAME))) == ["policy_stale"]


def test_policy_of_members_that_do_not_exist_yet_has_no_finding() -> None:
    """No workload has a rule of the set, and none could."""
    assert found(cluster(), *policies(BY_NAME)) == []


def test_policy_whose_rules_were_removed_is_found() -> None:
    (finding,) = found(cluster(), *policies(BY_LABELS))
    assert finding.name == "policy_of_no_rule"
    assert "VirtualMachine shop/a, VirtualMachine shop/b" in finding.why


def test_policy_of_a_deleted_namespace_is_found() -> None:
    gone = replace(cluster(), namespaces=(), workloads=())
    own = policies(BY_LABELS, BY_NAME)
    (finding,) = found(gone, *own)
    assert finding.name == "policy_of_no_rule"
    name = own[0].name
    assert finding.why == (
        f"MutatingAdmissionPolicy {name} still has 2 rules for new members. There is no namespace shop, and a new one"
        " of this name would get them."
    )
    command = (
        "mutatingadmissionpolicybinding,mutatingadmissionpolicy -l placement.virt/namespace=shop."
    )
    assert finding.advice.endswith(f", run kubectl delete {command}")
    covers = coverage(replace(gone, policies=own)).how
    assert (covers(ONE), covers(TWO)) == ("policy", "policy")
    (damaged,) = found(
        gone, *policies(BY_NAME, change=set_at(0, "metadata", "annotations", RULES, value="{"))
    )
    assert "still has rules for" in damaged.why
    unread = replace(gone, unreadable=(Unreadable("namespaces", "", "list", "forbidden"),))
    assert found(unread, *policies(BY_LABELS)) == []


@pytest.mark.parametrize("how", MAKERS)
@pytest.mark.parametrize("chosen", ["b", {"labels": {"app": "x"}}])
def test_workload_that_lacks_a_rule_of_a_policy_is_found(how: str, chosen: t.Any) -> None:
    """Issue 46: a workload that a rule names, and that was created before its policy was in force, had no finding."""
    rule = {**BY_NAME, "workloads": [chosen]}
    (finding,) = found(cluster(BY_LABELS), *policies(BY_LABELS, rule, how=how))
    assert (finding.name, finding.severity, finding.rule) == (
        "rule_not_on_new_member",
        "warning",
        "two",
    )
    assert "rule default/two" in finding.why
    assert "Write all rules of the set default again with new_members" in finding.advice
    assert "VirtualMachine shop/b" in map(str, finding.objects)
    assert len(finding.objects) == (1 if chosen == "b" else 2)
    assert found(cluster(BY_LABELS, rule), *policies(BY_LABELS, rule, how=how)) == []


def test_workload_that_lacks_a_rule_by_labels_has_one_finding() -> None:
    """Where another workload has the rule, its labels say it already."""
    snapshot = cluster(BY_LABELS)
    new = builders.vm("new", labels={"app": "x"})
    snapshot = replace(snapshot, workloads=(*snapshot.workloads, new))
    own = policies(BY_LABELS)
    lacking = [
        x
        for x in lint(replace(snapshot, policies=own), topology=Topology.of())
        if x.name == "rule_not_on_new_member"
    ]
    assert [str(ref) for x in lacking for ref in x.objects] == ["VirtualMachine shop/new"]


def test_workload_whose_rules_are_not_known_or_its_own_has_no_finding() -> None:
    """A rule that rests, an annotation that is damaged or a copy, a VM of a pool, and a VM that does not exist."""
    snapshot = cluster(BY_LABELS)
    b = snapshot.workloads_by_ref[Ref("VirtualMachine", "shop", "b")]
    rule = {**BY_NAME, "workloads": ["b", "c"]}
    rests = policies(BY_LABELS, {**rule, "enabled": False})
    assert found(snapshot, *rests) == []
    own = policies(BY_LABELS, rule)

    def with_b(change: Workload) -> Snapshot:
        others = [x for x in snapshot.workloads if x is not b]
        return replace(snapshot, workloads=(*others, change))

    assert names(found(with_b(b), *own)) == ["rule_not_on_new_member"]
    assert found(with_b(replace(b, uid="another")), *own) == []
    damaged = copy.deepcopy(dict(b.manifest))
    damaged["metadata"]["annotations"][RULES] = "{"
    assert found(with_b(replace(b, manifest=damaged)), *own) == []
    of_pool = replace(b, owner=Owner("VirtualMachinePool", "p", "uid-p"))
    assert found(with_b(of_pool), *own) == []


def test_rule_that_no_policy_can_write_is_not_covered() -> None:
    apart = {"name": "one", "keep_apart": {"topology_key": ZONE}, "workloads": DEPLOYMENTS}
    own = policies(apart, BY_NAME)
    covers = coverage(replace(cluster(), policies=own)).how
    assert (covers(ONE), covers(TWO)) == ("none", "policy")
    gap = Unreadable("deployments.apps", "shop", "list", "forbidden")
    covers = coverage(replace(cluster(), policies=own, unreadable=(gap,))).how
    assert (covers(ONE), covers(TWO)) == ("unknown", "policy")


def test_tables_show_policies_only_where_there_are_some() -> None:
    entry: dict[str, t.Any] = {"namespace": "shop", "rule_set": "default", "name": "one"}
    entry |= {"type": "run_on", "preferred": False, "since": None, "workloads": []}
    entry |= {"enforced": False, "resting": False}
    for how in ("policy", "warn", "unknown"):
        heading, line = rule_table([{**entry, "new_members": how}]).splitlines()
        assert "NEW MEMBERS" in heading
        assert f" {how}" in line
    assert "NEW MEMBERS" not in rule_table([{**entry, "new_members": "none"}])
    found = {"new_members": [{"rule": how, "new_members": how} for how in ("policy", "none")]}
    lines = ["new members: get rule policy by a policy when they are created"]
    assert list(_covered(found)) == lines
    found = {"new_members": [{"rule": rule, "new_members": "unknown"} for rule in "ab"]}
    assert list(_covered(found)) == [
        "new members: whether a policy gives them rules a, b is unknown"
    ]


def test_sentences_end_with_a_full_stop() -> None:
    findings = [
        *found(cluster(BY_LABELS)),
        *found(cluster(), *policies(BY_LABELS)),
        *found(cluster(BY_LABELS), *policies(BY_LABELS, change=without_binding)),
        *found(cluster(BY_LABELS), *policies(BY_NAME)),
    ]
    assert len(set(names(findings))) == 4
    for finding in findings:
        assert re.fullmatch(r"\S.*[^.]\.", finding.why)
        assert re.fullmatch(r"\S.*[^.]\.", finding.advice)
