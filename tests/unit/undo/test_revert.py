# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""state reverted: the placement before the last change of a rule set, byte for byte, whatever was interrupted."""

from __future__ import annotations

import copy
import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import entries
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    Finding,
    InvalidInput,
    TaskError,
)
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES, UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from ansible_collections.virt.placement.plugins.module_utils.rules.record import read_undo_record
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import (
    RulesPlan,
    Written,
)
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules.builders import (
    NAMESPACE,
    deployment,
    plan,
    request,
    running,
    snapshot,
    vm,
    workload,
)

JSON = t.Any
NAMES = ("a", "b", "c")
APART = {"name": "apart", "workloads": list(NAMES), "keep_apart": "zone"}
FAST = {"name": "fast", "workloads": list(NAMES), "run_on": {"performance": "high"}}
TIER = {**APART, "label": {"tier": "web"}}
TOLERATION = [{"key": "example.com/gpu", "operator": "Exists"}]


def _vms() -> list[Workload]:
    """VMs with constraints of their own."""
    vms = []
    for name in NAMES:
        manifest = json.loads(json.dumps(vm(name).manifest))
        manifest["spec"]["template"]["spec"]["tolerations"] = copy.deepcopy(TOLERATION)
        vms.append(workload(manifest))
    return vms


def _fleet(*more: Workload) -> Snapshot:
    vms = _vms()
    return snapshot(*vms, *more, run=[running(x) for x in vms])


def _after(seen: Snapshot, *rules: JSON, **options: t.Any) -> Snapshot:
    """The cluster once the rules are written."""
    planned = plan(seen, *rules, **options)
    assert not planned.refused, planned.refused
    return written(seen, planned.writes)


def _revert(seen: Snapshot, **options: t.Any) -> RulesPlan:
    return plan_revert(seen, request(state="reverted", **options))


def _placements(seen: Snapshot) -> str:
    """The templates, the labels of what runs, and the rules, as text."""
    return json.dumps(
        [
            {str(w.ref): [w.template, w.annotations.get(RULES)] for w in seen.workloads},
            {str(vmi.ref): vmi.labels for vmi in seen.vmis},
            {str(pod.ref): pod.labels for pod in seen.pods},
        ],
        sort_keys=True,
    )


def _edited(seen: Snapshot, name: str, edit: t.Callable[[JSON], t.Any]) -> Snapshot:
    """The cluster after another client changed the VM."""

    def changed(found: Workload) -> Workload:
        if found.ref.name != name:
            return found
        manifest = json.loads(json.dumps(found.manifest))
        edit(manifest)
        return workload(manifest)

    return replace(seen, workloads=tuple(map(changed, seen.workloads)))


def _rules(seen: Snapshot) -> dict[str, list[str]]:
    return {
        found.ref.name: [rule.name for rule in read_ownership(found).rules]
        for found in seen.workloads
    }


CHANGES: dict[str, tuple[list[JSON], list[JSON], dict[str, t.Any]]] = {
    "first rule": ([], [APART], {}),
    "first rule with a label": ([], [TIER], {}),
    "another rule": ([APART], [APART, FAST], {}),
    "other terms": ([FAST], [{**FAST, "run_on": {"zone": "a"}}], {}),
    "removed": ([TIER, FAST], [{"name": "apart"}], {"state": "absent"}),
    "all removed": ([TIER, FAST], [], {"prune": True}),
    "rest": ([TIER, FAST], [{**TIER, "enabled": False}, FAST], {}),
    "end of a rest": ([{**TIER, "enabled": False}, FAST], [TIER, FAST], {}),
    "fewer members": ([TIER], [{**TIER, "workloads": ["a", "b"]}], {}),
}


@pytest.mark.parametrize("case", CHANGES)
def test_revert_restores_templates_labels_and_rules_byte_for_byte(case: str) -> None:
    first, second, options = CHANGES[case]
    before = _after(_fleet(), *first) if first else _fleet()
    there = _after(before, *second, **options)
    assert _placements(there) != _placements(before)

    planned = _revert(there)
    back = written(there, planned.writes)

    assert not planned.findings
    assert _placements(back) == _placements(before)
    again = _revert(back)
    assert (again.writes, again.findings) == ((), ())
    assert again.about == planned.about > 0


@pytest.mark.parametrize("case", CHANGES)
def test_revert_that_was_killed_at_any_write_converges(case: str) -> None:
    first, second, options = CHANGES[case]
    before = _after(_fleet(), *first) if first else _fleet()
    there = _after(before, *second, **options)
    writes = _revert(there).writes
    for made in range(len(writes)):
        killed = written(there, writes[:made])
        back = written(killed, _revert(killed).writes)
        assert _placements(back) == _placements(before), f"killed after {made} writes"
        assert not _revert(back).writes


@pytest.mark.parametrize("case", CHANGES)
def test_revert_of_a_change_that_was_killed_and_made_again(case: str) -> None:
    first, second, options = CHANGES[case]
    before = _after(_fleet(), *first) if first else _fleet()
    writes = plan(before, *second, **options).writes
    for made in range(1, len(writes)):
        killed = written(before, writes[:made])
        there = _after(killed, *second, **options)
        back = written(there, _revert(there).writes)
        assert _placements(back) == _placements(before), f"killed after {made} writes"


def test_terms_come_back_after_the_labels_that_they_select() -> None:
    """A follower whose target gets its label back last would have no node meanwhile."""
    leader = {"name": "lead", "workloads": ["c"], "label": {"role": "lead"}}
    follower = {
        "name": "near",
        "workloads": ["a"],
        "keep_together": {"topology_key": "zone", "pods": {"labels": {"role": "lead"}}},
    }
    before = _after(_fleet(), leader, follower)
    there = _after(before, prune=True)

    planned = _revert(there)

    order = [write.target.name for write in planned.writes]
    assert order.index("a") > max(n for n, name in enumerate(order) if name.endswith("c"))
    assert _placements(written(there, planned.writes)) == _placements(before)


def test_revert_is_about_the_last_change_alone() -> None:
    first = _after(_fleet(), APART)
    second = _after(first, {**FAST, "workloads": ["c"]})

    back = written(second, _revert(second).writes)

    assert _rules(back) == {"a": ["apart"], "b": ["apart"], "c": ["apart"]}
    assert not _revert(back).writes, "the change before is not undone by a second run"


def test_rules_that_are_written_after_an_undo_can_be_undone_again() -> None:
    before = _fleet()
    once = _after(before, APART)
    back = written(once, _revert(once).writes)
    twice = _after(back, APART)
    assert _rules(twice) == {name: ["apart"] for name in NAMES}
    assert _placements(written(twice, _revert(twice).writes)) == _placements(before)


def test_a_lost_term_that_is_written_again_is_no_change() -> None:
    before = _fleet()
    there = _after(before, APART)
    lost = _edited(there, "b", lambda m: m["spec"]["template"]["spec"].pop("affinity"))

    repaired = _after(lost, APART)

    assert _placements(written(repaired, _revert(repaired).writes)) == _placements(before)


def _tolerate(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["tolerations"].append({"operator": "Exists"})


def _set_affinity(manifest: JSON) -> None:
    manifest["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] = {}


def _relabel(manifest: JSON) -> None:
    manifest["spec"]["template"]["metadata"]["labels"]["tier"] = "api"


def test_other_fields_that_others_changed_stay_as_they_are() -> None:
    there = _edited(_after(_fleet(), TIER), "b", _tolerate)

    back = written(there, _revert(there).writes)

    (b,) = (x for x in back.workloads if x.ref.name == "b")
    assert b.template["spec"]["tolerations"] == [*TOLERATION, {"operator": "Exists"}]
    assert "affinity" not in b.template["spec"]


@pytest.mark.parametrize(
    ("edit", "seen"),
    [
        (_set_affinity, "affinity changed since the rules were written"),
        (_relabel, "label tier changed since the rules were written"),
        (
            lambda m: m["metadata"]["annotations"].pop(RULES),
            "annotation placement.virt/rules changed since the rules were written",
        ),
        (
            lambda m: m["metadata"].update(
                {"labels": {"argocd.argoproj.io/instance": "shop"}, "annotations": _tracked(m)}
            ),
            "Argo CD",
        ),
    ],
    ids=["affinity", "label", "annotation", "manager"],
)
def test_a_workload_that_others_changed_is_named_and_left(
    edit: t.Callable[[JSON], t.Any], seen: str
) -> None:
    there = _edited(_after(_fleet(), TIER), "b", edit)

    planned = _revert(there)

    (finding,) = planned.findings
    assert (finding.name, finding.severity) == ("not_reverted", "warning")
    assert ("at its source" in finding.advice) == (seen == "Argo CD")
    assert "VirtualMachine shop/b was left as it is: " in finding.why
    assert seen in finding.why
    assert not planned.refused
    assert {
        write.target.name for write in planned.writes if write.target.kind == "VirtualMachine"
    } == {"a", "c"}
    assert _revert(there, fail_on_findings=("not_reverted",)).refused


def _tracked(manifest: JSON) -> JSON:
    tracking = "shop:kubevirt.io/VirtualMachine:shop/b"
    return {**manifest["metadata"]["annotations"], "argocd.argoproj.io/tracking-id": tracking}


def test_an_undo_that_can_restore_nothing_is_refused() -> None:
    there = _after(_fleet(), APART)
    for name in NAMES:
        there = _edited(there, name, _set_affinity)
    planned = _revert(there)
    assert [finding.severity for finding in planned.refused] == ["error"] * 3
    assert planned.writes == ()


def _without_record(seen: Snapshot, name: str) -> Snapshot:
    """The VM as a policy for new members makes it."""
    return _edited(seen, name, lambda manifest: manifest["metadata"]["annotations"].pop(UNDO))


def test_vm_that_was_created_with_a_rule_of_the_change_is_named_and_keeps_it() -> None:
    undo = _revert(_without_record(_after(_fleet(), APART, FAST), "c"))
    assert sorted(x.ref.name for x in undo.workloads) == ["a", "b"]
    (finding,) = undo.findings
    assert (finding.name, finding.severity) == ("not_reverted", "warning")
    assert [ref.name for ref in finding.objects] == ["c"]
    assert "it has apart, fast of the change, and no undo record" in finding.why
    assert "Remove apart, fast with state absent" in finding.advice


def test_vm_that_was_created_with_an_older_rule_is_not_named() -> None:
    first = _after(_fleet(), {**APART, "workloads": ["a", "b"]})
    grown = _after(_after(first, APART), FAST)
    assert not _revert(_without_record(_after(first, APART), "a")).findings
    (finding,) = _revert(_without_record(grown, "a")).findings
    assert finding.why.count("it has fast of the change") == 1


def test_undo_says_for_people_what_it_restored_and_left() -> None:
    changed = _edited(_after(_fleet(), APART), "b", _set_affinity)
    plan = _revert(changed)
    outcome = entries(Written(plan, plan.writes), "reverted", check=False)["outcome"]
    assert [(x["code"], x["objects"]) for x in outcome["done"]] == [
        ("rules_removed", ["apart (2 workloads)"])
    ]
    (left,) = outcome["skipped"]
    assert (left["code"], left["objects"]) == ("not_reverted", [f"{NAMESPACE}/b"])
    assert "was left as it is" in left["text"]


def test_second_undo_names_what_was_restored_before() -> None:
    once = _after(_fleet(), APART)
    for write in _revert(once).writes:
        once = written(once, [write])
    plan = _revert(once)
    (done,) = entries(Written(plan), "reverted", check=False)["outcome"]["done"]
    assert done["text"] == "restored by an earlier run"
    assert done["objects"] == [f"{NAMESPACE}/{name}" for name in NAMES]


def test_undo_whose_writes_all_fail_is_not_said_to_be_done_before() -> None:
    plan = _revert(_after(_fleet(), APART))
    failed = {write.target: TaskError("api", "not written", "") for write in plan.writes}
    outcome = entries(Written(plan, (), failed), "reverted", check=False)["outcome"]
    assert outcome["done"] == []
    (left,) = outcome["skipped"]
    assert (left["code"], left["objects"]) == (
        "not_written",
        [f"{NAMESPACE}/{name}" for name in NAMES],
    )


def test_a_workload_that_another_rule_set_changed_since_is_named_and_left() -> None:
    there = _after(_after(_fleet(), APART), {**FAST, "workloads": ["b"]}, rule_set="other")

    planned = _revert(there)

    (finding,) = planned.findings
    assert "VirtualMachine shop/b" in finding.why
    assert (
        "rule set 'other' has changed it since, and only its last change has a record"
        in finding.why
    )
    first = written(there, _revert(there, rule_set="other").writes)
    assert _rules(first)["b"] == ["apart"]


def test_revert_without_a_record_is_an_error_that_names_the_sets_with_one() -> None:
    with pytest.raises(InvalidInput, match="no rule set has one"):
        _revert(_fleet())
    with pytest.raises(InvalidInput, match=r"rule set 'tiers'; rule sets with one are default"):
        _revert(_after(_fleet(), APART), rule_set="tiers")


@pytest.mark.parametrize(
    ("options", "named"),
    [({"prune": True}, "prune"), ({"adopt": True}, "adopt")],
)
def test_options_of_rules_do_not_go_with_it(options: dict[str, bool], named: str) -> None:
    with pytest.raises(InvalidInput, match=f"{named}: does not go with state reverted"):
        _revert(_after(_fleet(), APART), **options)


def test_rules_do_not_go_with_it() -> None:
    with pytest.raises(InvalidInput, match="rules: does not go with state reverted"):
        plan_revert(_after(_fleet(), APART), request(APART, state="reverted"))


def test_workloads_that_cannot_be_listed_refuse_it() -> None:
    gap = Unreadable("deployments", "shop", "list", "forbidden")
    with pytest.raises(InvalidInput, match="list deployments"):
        _revert(replace(_after(_fleet(), APART), unreadable=(gap,)))


def test_deployment_starts_a_rollout_that_has_to_be_allowed() -> None:
    cache = deployment("cache")
    rule = {
        "name": "r",
        "workloads": [{"kind": "Deployment", "name": "cache"}],
        "avoid": {"zone": "a"},
    }
    there = _after(snapshot(cache), rule, workload_rollout="allow")
    assert [x.name for x in _revert(there).refused] == ["starts_workload_rollout"]
    allowed = _revert(there, workload_rollout="allow")
    assert allowed.workloads[0].takes_effect == "workload_rollout"
    assert _placements(written(there, allowed.writes)) == _placements(snapshot(cache))


def _damage(manifest: JSON) -> None:
    notes = manifest["metadata"]["annotations"]
    notes[UNDO] = notes[UNDO].replace('"placement":{', '"placement":{"containers":[],')


def test_a_damaged_record_is_named_and_its_workload_left() -> None:
    there = _edited(_after(_fleet(), APART), "b", _damage)
    (finding,) = _revert(there).findings
    assert "VirtualMachine shop/b" in finding.why
    assert "is damaged" in finding.why


def test_a_write_is_made_again_for_an_object_that_changed_meanwhile() -> None:
    there = _after(_fleet(), APART)
    planned = _revert(there)
    (write,) = (x for x in planned.writes if x.target.name == "a")
    (a,) = (x for x in there.workloads if x.ref.name == "a")
    assert planned.recompute(write, a.manifest) == write
    (restored,) = (x for x in written(there, [write]).workloads if x.ref.name == "a")
    assert planned.recompute(write, restored.manifest) is None
    record = read_undo_record(restored)
    assert record is not None
    assert record.reverted
    (edited,) = (x for x in _edited(there, "a", _set_affinity).workloads if x.ref.name == "a")
    with pytest.raises(InvalidInput, match="affinity changed since"):
        planned.recompute(write, edited.manifest)
    (other,) = (x for x in _after(there, FAST).workloads if x.ref.name == "a")
    with pytest.raises(InvalidInput, match="its undo record is another one"):
        planned.recompute(write, other.manifest)
    webhook = json.loads(json.dumps(restored.manifest))
    webhook["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {}}
    with pytest.raises(InvalidInput, match="changed_by_webhook"):
        planned.recompute(write, webhook)


def test_a_workload_rollout_is_refused_also_where_no_rule_of_the_workload_changes() -> None:
    """The change took a similar term of others out; the terms of the rule stay the same."""
    rule = {
        "name": "r",
        "workloads": [{"kind": "Deployment", "name": "cache"}],
        "keep_apart": "zone",
    }
    before = _after(snapshot(deployment("cache")), rule, workload_rollout="allow")
    (cache,) = before.workloads
    manifest = json.loads(json.dumps(cache.manifest))
    terms = manifest["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    (own,) = terms["requiredDuringSchedulingIgnoredDuringExecution"]
    terms["requiredDuringSchedulingIgnoredDuringExecution"] = [
        {"topologyKey": own["topologyKey"], "labelSelector": {}},
        own,
    ]
    before = snapshot(workload(manifest))
    there = _after(before, rule, adopt=True, adopt_similar=True, workload_rollout="allow")
    assert _placements(there) != _placements(before)

    assert [x.name for x in _revert(there).refused] == ["starts_workload_rollout"]
    allowed = _revert(there, workload_rollout="allow")
    assert _placements(written(there, allowed.writes)) == _placements(before)


def test_a_label_that_others_set_on_what_runs_leaves_its_workload_and_names_it() -> None:
    before = _after(_fleet(), TIER)
    there = _after(before, prune=True)
    foreign = replace(
        there,
        vmis=tuple(
            replace(x, labels={**x.labels, "tier": "api"}) if x.ref.name == "b" else x
            for x in there.vmis
        ),
    )

    planned = _revert(foreign)

    (finding,) = planned.findings
    assert finding.objects[0].name == "b"
    assert "VirtualMachineInstance shop/b has the label tier=api by now, and not web" in finding.why
    (write,) = (x for x in _revert(there).writes if x.target == foreign.vmis[0].ref)
    assert write.target.name == "a"
    with pytest.raises(InvalidInput, match="has the label tier=api, and not web"):
        _revert(there).recompute(write, {"metadata": {"labels": {"tier": "api"}}})


def test_two_changes_that_were_made_at_the_same_time_are_left() -> None:
    """Neither task saw the record of the other, so both counted the same number."""
    before = _fleet()
    one = plan(before, {**APART, "workloads": ["a", "b"]}).writes
    other = plan(before, {**FAST, "workloads": ["b", "c"]}).writes
    there = written(written(before, [x for x in one if x.target.name == "a"]), other)

    planned = _revert(there)

    assert {finding.objects[0].name for finding in planned.refused} == set(NAMES)
    assert "two changes of the rule set were made at the same time" in planned.refused[0].why
    assert planned.writes == ()


def test_a_change_that_writes_over_a_later_one_hides_it_from_no_undo() -> None:
    """The task that began first writes b last: what it has there is no longer what the other change has written."""
    one = plan(_fleet(), {**APART, "workloads": ["a", "b"]})
    (first, later) = (x for x in one.writes if x.target.kind == "VirtualMachine")
    there = _after(written(_fleet(), [first]), {**FAST, "workloads": ["b", "c"]})
    (b,) = (x for x in there.workloads if x.ref.name == "b")
    again = one.recompute(later, b.manifest)
    assert again is not None

    planned = _revert(written(there, [again]))

    assert {finding.objects[0].name for finding in planned.refused} == {"b", "c"}
    assert "two changes of the rule set were made at the same time" in planned.refused[0].why


def _replaced(manifest: JSON) -> None:
    manifest["metadata"]["uid"] = "uid-of-a-copy"


def test_a_workload_that_was_replaced_by_a_copy_is_named_and_left() -> None:
    """Deleted, and created again from a backup with its annotations."""
    there = _edited(_after(_fleet(), APART), "b", _replaced)

    (finding,) = _revert(there).findings

    assert "VirtualMachine shop/b was left as it is" in finding.why
    assert "its undo record is of another object (uid uid-b)" in finding.why
    alone = _after(
        snapshot(_vms()[0]), {**APART, "workloads": ["a"], "allow_findings": ["single_workload"]}
    )
    copy_alone = _edited(alone, "a", _replaced)
    assert [x.name for x in _revert(copy_alone).refused] == ["not_reverted"]
    earlier = _edited(_after(_after(_fleet(), APART), {**FAST, "workloads": ["c"]}), "b", _replaced)
    assert not _revert(earlier).findings, "the last change did not write it"


def test_a_copy_whose_terms_become_its_own_is_a_change_of_its_own() -> None:
    allowed = {**APART, "allow_findings": ["copied_annotation"]}
    first = _after(_fleet(), APART)
    copied = _edited(first, "b", _replaced)
    there = _after(copied, {**allowed, "enabled": True}, adopt=True)

    back = written(there, _revert(there).writes)

    assert _placements(back) == _placements(copied), "the change before is not undone"


LEAD = {"name": "lead", "workloads": ["c"], "label": {"role": "lead"}}
NEAR = {
    "name": "near",
    "workloads": ["a"],
    "keep_together": {"topology_key": "zone", "pods": {"labels": {"role": "lead"}}},
}


def _edit_template(manifest: JSON) -> None:
    affinity = manifest["spec"]["template"]["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {}


def _edit_label(manifest: JSON) -> None:
    manifest["spec"]["template"]["metadata"].setdefault("labels", {})["role"] = "other"


def test_a_label_stays_while_a_workload_that_is_left_requires_it() -> None:
    there = _edited(_after(_fleet(), LEAD, NEAR), "a", _edit_template)

    planned = _revert(there)

    assert planned.writes == ()
    reasons = {finding.objects[0].name: finding.why for finding in planned.findings}
    assert "affinity changed since" in reasons["a"]
    assert (
        "VirtualMachine shop/a requires pods with its label role=lead, and no other pod has it"
        in reasons["c"]
    )


def test_a_label_goes_where_another_pod_has_it_too() -> None:
    left = _edited(_after(_fleet(), LEAD, NEAR), "a", _edit_template)
    other = Pod(NAMESPACE, "lead", "uid-lead", labels={"role": "lead"}, phase="Running")

    planned = _revert(replace(left, pods=(*left.pods, other)))

    assert {x.target.name for x in planned.writes} >= {"c", "virt-launcher-c"}
    ended = replace(other, phase="Succeeded")
    assert not _revert(replace(left, pods=(*left.pods, ended))).writes


def test_a_term_does_not_come_back_without_the_label_that_it_requires() -> None:
    there = _edited(_after(_after(_fleet(), LEAD, NEAR), prune=True), "c", _edit_label)

    planned = _revert(there)

    assert planned.writes == ()
    reasons = {finding.objects[0].name: finding.why for finding in planned.findings}
    assert "label role changed since" in reasons["c"]
    assert (
        "its terms require the label role=lead, which VirtualMachine shop/c does not get back"
        in reasons["a"]
    )


def test_a_label_stays_while_a_workload_that_is_left_requires_any_value_of_its_key() -> None:
    selector = {"matchExpressions": [{"key": "role", "operator": "Exists"}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    near = {"name": "near", "workloads": ["a"], "terms": {"affinity": {"podAffinity": required}}}
    there = _edited(_after(_fleet(), LEAD, near), "a", _edit_template)
    other = Pod(NAMESPACE, "lead", "uid-lead", labels={"role": "other"}, phase="Running")

    assert _revert(there).writes == ()
    assert _revert(replace(there, pods=(*there.pods, other))).writes


def test_a_term_waits_for_the_template_of_a_deployment_that_it_selects() -> None:
    reference = {"kind": "Deployment", "name": "cache"}
    lead = {**LEAD, "workloads": [reference]}
    a = _vms()[0]
    before = _after(
        snapshot(a, deployment("cache"), run=[running(a)]), lead, NEAR, workload_rollout="allow"
    )
    there = _after(before, prune=True, workload_rollout="allow")

    planned = _revert(there, workload_rollout="allow")

    assert [x.target.name for x in planned.writes] == ["cache", "a"]
    assert planned.needs.holders


def test_vmis_that_cannot_be_listed_are_named() -> None:
    gap = Unreadable("virtualmachineinstances", "shop", "list", "forbidden")
    there = _after(_fleet(), TIER)
    unread = replace(there, vmis=(), unreadable=(gap,))
    assert [x.name for x in _revert(unread).findings] == ["check_skipped"]


def test_findings_of_the_forecast_refuse_an_undo_as_they_refuse_rules() -> None:
    there = _after(_fleet(), APART)
    blocking = Finding("blocks_node_drain", "warning", "w1 cannot be emptied.", "", ())

    def planned(*names: str) -> RulesPlan:
        return plan_revert(
            there,
            request(state="reverted", fail_on_findings=names),
            lambda *_plan: (blocking,),
        )

    assert planned("blocks_node_drain").refused == (blocking,)
    assert not planned("not_reverted").refused


def test_a_label_that_admission_changed_again_is_seen() -> None:
    there = _after(_after(_fleet(), TIER), prune=True)
    (write,) = (x for x in _revert(there).writes if x.target == there.workloads[0].ref)
    (a, *_rest) = written(there, [write]).workloads
    manifest = json.loads(json.dumps(a.manifest))
    del manifest["spec"]["template"]["metadata"]["labels"]["tier"]
    with pytest.raises(InvalidInput, match="changed_by_webhook: its label tier"):
        _revert(there).recompute(write, manifest)
