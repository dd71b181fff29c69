# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rule that is not enabled: its workloads know it and have none of its terms."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
)
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES as OWNERSHIP
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from ansible_collections.virt.placement.plugins.module_utils.rules.record import read_undo_record
from ansible_collections.virt.placement.plugins.plugin_utils.closings import closing_of
from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord, new_record
from tests.fuzz.cluster import RULES as SERVED
from tests.fuzz.cluster import objects
from tests.support.api_server import ApiServer
from tests.support.modules import run

from .builders import NAMESPACE, applied, plan, request, snapshot, vm, workload

Object = dict[str, t.Any]
RULES: dict[str, Object] = {
    "run_on": {"run_on": {"zone": "a"}},
    "avoid": {"avoid": {"zone": "a"}, "preferred": True},
    "keep_apart": {"keep_apart": "node"},
    "keep_together": {"keep_together": {"topology_key": "node", "with": "lead"}},
    "spread": {"spread": "zone", "label": {"tier": "db"}},
    "terms": {"terms": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}},
    "label": {"label": {"tier": "db"}},
}
RULE_ID = RuleId(NAMESPACE, "default", "r")


def written(workloads: t.Sequence[Workload], *rules: Object) -> list[Workload]:
    """The workloads once the rules are written to them."""
    changes = {change.ref: change for change in plan(snapshot(*workloads), *rules).workloads}
    after = []
    for carrier in workloads:
        write = changes[carrier.ref].merged.write if carrier.ref in changes else None
        manifest = dict(carrier.manifest)
        after.append(workload(applied(manifest, write)) if write is not None else carrier)
    return after


def specs(workloads: t.Iterable[Workload]) -> list[t.Any]:
    return [each.template for each in workloads]


@pytest.mark.parametrize("rule_type", RULES)
def test_rule_that_rests_has_no_terms_and_gets_the_same_ones_again(rule_type: str) -> None:
    enabled = {"name": "r", "workloads": ["db1", "db2"], **RULES[rule_type]}
    before = [vm("db1"), vm("db2"), vm("lead")]
    active = written(before, enabled)
    assert specs(active) != specs(before)

    resting = written(active, {**enabled, "enabled": False})

    assert specs(resting) == specs(before)
    for carrier in resting[:2]:
        (owned,) = read_ownership(carrier).rules.items()
        assert (owned[0], owned[1].terms, owned[1].enabled) == (RULE_ID, (), False)
        declared = DeclaredReader().declared(carrier)
        assert (declared.rules, declared.resting) == ((), {str(RULE_ID): rule_type})
    assert plan(snapshot(*resting), {**enabled, "enabled": False}).writes == ()
    again = written(resting, enabled)
    assert specs(again) == specs(active)
    assert [read_ownership(each) for each in again] == [read_ownership(each) for each in active]


def test_rule_is_written_at_rest_without_a_change_of_the_template() -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}, "enabled": False}
    (change,) = plan(snapshot(vm("db1")), rule).workloads

    assert change.as_json((), refused=False)["added"] == ["r"]
    assert change.takes_effect == "now"
    (after,) = written([vm("db1")], rule)
    assert after.template == vm("db1").template
    record = read_undo_record(after)
    assert record is not None, "an undo takes the rule away"
    assert (record.rules, dict(record.written.fields)) == (None, {})
    other = {"name": "other", "workloads": ["db1"], "avoid": {"zone": "b"}}
    (both,) = written([after], other)
    assert not read_ownership(both).rules[RULE_ID].enabled


def test_change_between_rest_and_work_is_an_update_and_names_the_rule() -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    active = written([vm("db1")], rule)

    (change,) = plan(snapshot(*active), {**rule, "enabled": False}).workloads

    assert change.as_json((), refused=False)["updated"] == ["r"]
    resting = written(active, {**rule, "enabled": False})
    (changed_type,) = plan(
        snapshot(*resting),
        {"name": "r", "workloads": ["db1"], "keep_apart": "node"} | {"enabled": False},
    ).workloads
    assert changed_type.as_json((), refused=False)["updated"] == ["r"]


def test_rule_that_rests_has_no_findings_and_is_removed_as_any_other() -> None:
    """Two VMs that require each other on one node are an error of an enabled rule."""
    rule = {"name": "r", "workloads": ["db1", "db2"], "keep_together": "node"}
    vms = [vm("db1"), vm("db2")]
    assert plan(snapshot(*vms), rule).refused

    resting = written(vms, {**rule, "enabled": False})

    assert plan(snapshot(*vms), {**rule, "enabled": False}).findings == ()
    gone = plan(snapshot(*resting), {"name": "r"}, state="absent")
    assert [change.merged.removed for change in gone.workloads] == [(RULE_ID,), (RULE_ID,)]
    assert len(plan(snapshot(*resting), prune=True).writes) == 2


@pytest.mark.parametrize(
    ("name", "rule_set", "hint"),
    [
        (
            "appart",
            "default",
            "Did you mean 'apart', of the same workloads? If it is a new rule, allow this finding.",
        ),
        ("apart", "other", "Did you mean the one of rule set 'default'? "),
        ("web", "default", ""),
        ("apart", "default", ""),
    ],
)
def test_misspelt_rule_to_disable_is_refused(name: str, rule_set: str, hint: str) -> None:
    """With a typing error, or without its rule set: the rule that was meant would stay enabled."""
    rule: Object = {"name": "apart", "workloads": ["db1"], "run_on": {"zone": "a"}}
    carriers = snapshot(*written([vm("db1")], rule))
    disabled = {**rule, "name": name, "enabled": False}

    found = plan(carriers, disabled, rule_set=rule_set)

    assert [finding.name for finding in found.refused] == (["unknown_rule"] if hint else [])
    assert all("nothing would be disabled" in finding.why for finding in found.refused)
    assert all(finding.advice.startswith(hint) for finding in found.findings)
    allowed = {**disabled, "allow_findings": ["unknown_rule"]}
    assert not plan(carriers, allowed, rule_set=rule_set).refused
    assert not plan(carriers, disabled, rule_set=rule_set, prune=True).refused


@pytest.mark.parametrize("name", ["web-apart-2", "apart_webs", "keep-web-apart"])
def test_rule_to_disable_that_is_another_one_of_the_same_workloads_is_refused(name: str) -> None:
    """Number 15 of issue 41: it was added as a second rule, and the first one stayed enabled."""
    rule: Object = {"name": "web-apart", "workloads": ["db1", "db2"], "keep_apart": "zone"}
    carriers = snapshot(*written([vm("db1"), vm("db2")], rule), vm("db3"))

    (refused,) = plan(carriers, {**rule, "name": name, "enabled": False}).refused

    assert (refused.name, refused.severity) == ("unknown_rule", "error")
    assert refused.advice.startswith("Did you mean 'web-apart', of the same workloads? ")
    others = {**rule, "name": "apart_webs", "workloads": ["db1", "db3"], "enabled": False}
    assert not plan(carriers, others).refused


@pytest.mark.parametrize("rule_type", ["run_on", "avoid", "keep_apart", "terms"])
def test_new_vm_with_the_labels_of_a_rule_is_a_finding(rule_type: str) -> None:
    """Number 15 of issue 41: with `run_on` it was none, since no term has the labels."""
    rule = {"name": "r", "workloads": [{"labels": {"app": "oracle"}}], **RULES[rule_type]}
    members = written(
        [vm("db1", labels={"app": "oracle"}), vm("db2", labels={"app": "oracle"})], rule
    )
    others = [vm("db3", labels={"app": "oracle"}), vm("web", labels={"app": "web"})]

    (found,) = [x for x in lint(snapshot(*members, *others)) if x.name == "rule_not_on_new_member"]

    assert [ref.name for ref in found.objects] == ["db3"]
    assert (found.rule, found.severity) == ("r", "warning")
    assert "Write the rules of the set default again" in found.advice
    again = written([*members, *others], rule)
    assert not [x for x in lint(snapshot(*again)) if x.name == "rule_not_on_new_member"]
    assert plan(snapshot(*again), rule).writes == (), "nothing is left to write"
    resting = written([*members], {**rule, "enabled": False})
    quiet = lint(snapshot(*resting, *others))
    assert not [x for x in quiet if x.name == "rule_not_on_new_member"]


def test_rule_by_names_has_no_new_members() -> None:
    rule: Object = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    members = written([vm("db1", labels={"app": "oracle"})], rule)
    (owned,) = read_ownership(members[0]).rules.values()
    assert owned.chosen == ()
    found = lint(snapshot(*members, vm("db2", labels={"app": "oracle"})))
    assert not [x for x in found if x.name == "rule_not_on_new_member"]


@pytest.mark.parametrize("rule_type", RULES)
def test_name_is_enough_to_disable_a_rule(rule_type: str) -> None:
    enabled = {"name": "r", "workloads": ["db1", "db2"], **RULES[rule_type]}
    before = [vm("db1"), vm("db2"), vm("lead")]
    active = written(before, enabled)

    resting = written(active, {"name": "r", "enabled": False})

    assert specs(resting) == specs(written(active, {**enabled, "enabled": False}))
    for carrier in resting[:2]:
        owned = read_ownership(carrier).rules[RULE_ID]
        assert (owned.type_name, owned.enabled) == (rule_type, False)
    again = {"name": "r", "enabled": False, "allow_findings": []}
    assert plan(snapshot(*resting), again).writes == ()
    assert specs(written(resting, enabled)) == specs(active)


def test_name_alone_of_no_rule_is_an_error_with_the_name_that_may_be_meant() -> None:
    rule: Object = {"name": "apart", "workloads": ["db1"], "run_on": {"zone": "a"}}
    carriers = snapshot(*written([vm("db1")], rule))
    with pytest.raises(InvalidInput) as caught:
        plan(carriers, {"name": "appart", "enabled": False})
    (fault,) = caught.value.errors
    assert fault.where == "rules[0] appart"
    assert fault.message == (
        "no workload of namespace 'shop' has this rule of rule set 'default'. A rule that is new and rests"
        " needs its type and workloads; did you mean 'apart'?"
    )


@pytest.mark.parametrize(
    "rule",
    [
        {"name": "r", "enabled": False, "workloads": ["db1"]},
        {"name": "r", "enabled": False, "run_on": {"zone": "a"}},
        {"name": "r", "enabled": True},
        {"name": "r"},
    ],
)
def test_rule_that_has_more_than_its_name_needs_both(rule: Object) -> None:
    with pytest.raises(InvalidInput):
        request(rule)


def test_another_rule_with_the_same_term_keeps_it() -> None:
    rules: list[Object] = [
        {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}},
        {"name": "same", "workloads": ["db1"], "run_on": {"zone": "a"}},
    ]
    active = written([vm("db1")], *rules)

    resting = written(active, {**rules[0], "enabled": False})

    assert specs(resting) == specs(active)


def test_list_of_rules_counts_the_workloads_where_a_rule_rests() -> None:
    """A change that was interrupted leaves the others with its terms."""
    options: Object = {"namespace": "shop", "rules": SERVED, "workload_rollout": "allow"}
    server = ApiServer(objects())
    assert "failed" not in run("rules", server, options)
    at_rest = ApiServer(server.objects)
    assert "failed" not in run(
        "rules", at_rest, {**options, "rules": [{**x, "enabled": False} for x in SERVED]}
    )
    mixed = dict(server.objects)
    path = next(x for x in mixed if "/virtualmachines/" in x and mixed[x] != at_rest.objects[x])
    mixed[path] = at_rest.objects[path]

    table = run("rules_info", ApiServer(mixed), {"namespaces": ["shop"]})["table"]

    assert "not enabled on 1 of " in table
    assert "  not enabled  " in run("rules_info", at_rest, {"namespaces": ["shop"]})["table"]


def test_list_of_rules_names_workloads_whose_annotation_is_damaged() -> None:
    """The module warned, and the closing block of the role said `0 rules`."""
    server = ApiServer(objects())
    path = next(x for x in server.objects if "/namespaces/shop/virtualmachines/" in x)
    server.objects[path]["metadata"]["annotations"] = {OWNERSHIP: '{"version": 1, "rules": {}}'}

    result = run("rules_info", server, {"namespaces": ["shop"]})

    (gap,) = result["permission_gaps"]
    name = path.rpartition("/")[2]
    assert (gap["resource"], gap["verb"]) == (f"rules of VirtualMachine {name}", "read")
    block = closing_of(rules_record(result), 3)
    (line,) = block.unread
    assert line == (
        f"cannot read rules of VirtualMachine {name} in namespace shop: damaged, see the lines above"
    )
    (warning,) = result["warnings"]
    assert (
        f"VirtualMachine shop/{name}: annotation placement.virt/rules is damaged (its field 'created' is missing)"
        in warning
    )
    assert block.done == ("0 rules, and whether there are more is unknown",)


def rules_record(result: Object) -> JobRecord:
    """Of the role placement_rules once its module has returned."""
    record = new_record("placement_rules", "lab", "", check_mode=False)
    record.asked = {"namespaces": ["shop"]}
    record.note("rules_info", result)
    return record


def test_enabled_is_a_boolean_or_its_text() -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    assert not request({**rule, "enabled": "no"}).rules[0].enabled
    assert request(rule).rules[0].enabled
