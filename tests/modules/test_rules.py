# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rules against a real control plane: what it writes, and that it writes once."""

from __future__ import annotations

import json
import typing as t

import pytest

from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule
from tests.terms import name_label

from .rules_task import RulesTask, anti_affinity, stop_the_clock

ZONE = "topology.kubernetes.io/zone"
WEB = ("web-a", "web-b", "web-c")
APART = {
    "name": "web-apart",
    "workloads": [{"names": list(WEB)}],
    "keep_apart": {"topology_key": "zone"},
}
FAST = {"name": "fast", "workloads": [{"name": "web-a"}], "run_on": {"zone": ["zone1", "zone2"]}}
VM = "VirtualMachine"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    return RulesTask(six, run_module, namespace(six, "rules"))


@pytest.fixture
def web(task: RulesTask) -> RulesTask:
    """Three halted machines."""
    for name in WEB:
        task.create(objects.virtual_machine(name, run_strategy="Halted"))
    return task


@pytest.mark.tour
def test_rule_is_written_once_to_each_vm(web: RulesTask) -> None:
    start = web.sandbox.audit.mark()
    result = web(APART)
    assert result["changed"]
    assert result["counts"] == {"workloads": 3, "changed": 3, "unchanged": 0, "failed": 0}
    assert [each["added"] for each in result["workloads"]] == [["web-apart"]] * 3
    assert {each["takes_effect"] for each in result["workloads"]} == {"start"}
    for name in WEB:
        assert anti_affinity(web.get(VM, name)) == [
            {
                "labelSelector": {
                    "matchExpressions": [
                        {"key": name_label(web.sandbox), "operator": "In", "values": list(WEB)}
                    ]
                },
                "topologyKey": ZONE,
                "mismatchLabelKeys": ["kubevirt.io/created-by"],
            }
        ]
    writes = web.sandbox.audit.writes("mover", start)
    assert [(write.verb, write.code) for write in writes] == [("patch", 200)] * 3
    assert all("fieldValidation=Strict" in write.uri for write in writes)

    again = web.sandbox.audit.mark()
    result = web(APART)
    assert (result["changed"], result["writes"], result["workloads"]) == (False, [], [])
    assert result["counts"]["unchanged"] == 3
    assert not web.sandbox.audit.writes(since=again)


def test_check_mode_names_exactly_the_writes_that_are_then_made(
    web: RulesTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_the_clock(monkeypatch)
    start = web.sandbox.audit.mark()
    foretold = web(APART, FAST, check=True, diff=True)
    assert foretold["changed"]
    assert not web.sandbox.audit.writes(since=start)
    made = web(APART, FAST, diff=True)
    assert made["writes"] == foretold["writes"]
    assert made["diff"] == foretold["diff"]
    assert made["workloads"] == foretold["workloads"]
    assert not web(APART, FAST, check=True)["changed"]


def test_the_difference_shows_placement_fields_and_names_of_rules(web: RulesTask) -> None:
    result = web(FAST, diff=True)
    assert result["diff"] == [
        {
            "prepared": f"VirtualMachine {web.namespace}/web-a: + rule {web.namespace}/default/fast;"
            f" + node affinity {ZONE} In (zone1, zone2)\n"
        }
    ]


@pytest.mark.tour
def test_a_second_rule_keeps_the_first_and_the_last_removal_restores_every_byte(
    web: RulesTask,
) -> None:
    before = web.get(VM, "web-a")
    placement = web.placement(VM, "web-a")
    web(APART)
    web(FAST, rule_set="other")
    both = web.get(VM, "web-a")
    assert anti_affinity(both)
    assert "nodeAffinity" in both["spec"]["template"]["spec"]["affinity"]
    result = web({"name": "web-apart"}, state="absent")
    assert [each["removed"] for each in result["workloads"]] == [["web-apart"]] * 3
    assert "podAntiAffinity" not in web.get(VM, "web-a")["spec"]["template"]["spec"]["affinity"]
    web(rule_set="other", prune=True)
    assert web.placement(VM, "web-a") == placement
    after = web.get(VM, "web-a")
    annotations = dict(after["metadata"]["annotations"])
    del annotations["placement.virt/undo"]  # what would undo the removal
    assert annotations == (before["metadata"].get("annotations") or {})
    assert after["spec"]["runStrategy"] == "Halted"


def test_a_workload_that_is_no_longer_listed_loses_the_terms(web: RulesTask) -> None:
    placement = web.placement(VM, "web-c")
    web(APART)
    result = web({**APART, "workloads": [{"names": ["web-a", "web-b"]}]})
    changes = {each["name"]: (each["updated"], each["removed"]) for each in result["workloads"]}
    assert changes == {
        "web-a": (["web-apart"], []),
        "web-b": (["web-apart"], []),
        "web-c": ([], ["web-apart"]),
    }
    assert web.placement(VM, "web-c") == placement
    assert web({**APART, "workloads": []})["counts"]["changed"] == 2
    assert web.placement(VM, "web-a") == placement


def test_absent_with_workloads_leaves_the_others(web: RulesTask) -> None:
    web(APART)
    web({"name": "web-apart", "workloads": [{"name": "web-a"}]}, state="absent")
    assert not anti_affinity(web.get(VM, "web-a"))
    assert anti_affinity(web.get(VM, "web-b"))
    again = web({"name": "web-apart", "workloads": [{"name": "gone-long-ago"}]}, state="absent")
    assert not again["changed"]


def test_a_rule_without_workloads_is_counted_as_absent(web: RulesTask) -> None:
    web(APART)
    misspelt = web({"name": "web-appart"}, state="absent")
    assert misspelt["failed"]
    assert not misspelt["changed"]
    assert misspelt["counts"]["workloads"] == 0
    assert [finding["name"] for finding in misspelt["findings"]] == ["unknown_rule"]
    assert "Did you mean 'web-apart'?" in misspelt["msg"]
    assert web({"name": "web-apart"}, state="absent")["counts"]["workloads"] == 3
    again = web({"name": "web-apart"}, state="absent")
    assert (again["changed"], again["counts"]["workloads"], again["findings"]) == (False, 0, [])


def test_prune_makes_the_set_exact_and_leaves_other_sets(web: RulesTask) -> None:
    web(APART, FAST)
    web({**FAST, "name": "elsewhere"}, rule_set="other")
    result = web(APART, prune=True)
    assert [(each["name"], each["removed"]) for each in result["workloads"]] == [
        ("web-a", ["fast"])
    ]
    rules = web.ours(VM, "web-a")["placement.virt/rules"]["rules"]
    assert set(rules) == {f"{web.namespace}/default/web-apart", f"{web.namespace}/other/elsewhere"}
    spec = web.get(VM, "web-a")["spec"]["template"]["spec"]
    assert spec["affinity"]["nodeAffinity"], "the term that both rules asked for"


def test_equal_term_is_added_beside_or_adopted(web: RulesTask) -> None:
    web(APART)
    theirs = anti_affinity(web.get(VM, "web-a"))[0]
    web(prune=True)
    selector = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [theirs]}}
    affinity = {"op": "add", "path": "/spec/template/spec/affinity", "value": selector}
    web.patch(VM, "web-a", [affinity])
    web(APART)
    assert anti_affinity(web.get(VM, "web-a")) == [theirs, theirs]
    web(prune=True)
    assert anti_affinity(web.get(VM, "web-a")) == [theirs]
    web(APART, adopt=True)
    assert anti_affinity(web.get(VM, "web-a")) == [theirs]
    # As OpenShift's console writes it: the rule replaces its own term, and an unlike one of others if asked to.
    stripped = {key: value for key, value in theirs.items() if key != "mismatchLabelKeys"}
    path = "/spec/template/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution"
    web.patch(VM, "web-a", [{"op": "replace", "path": path, "value": [stripped]}])
    web(APART)
    assert anti_affinity(web.get(VM, "web-a")) == [theirs]
    dead = {"topologyKey": theirs["topologyKey"]}
    web.patch(VM, "web-a", [{"op": "replace", "path": path, "value": [theirs, stripped, dead]}])
    findings = [finding["name"] for finding in web(APART)["findings"]]
    assert findings == ["similar_term", "similar_term"]
    web(APART, adopt="similar")
    assert anti_affinity(web.get(VM, "web-a")) == [theirs]
    assert web(APART, adopt="similar")["writes"] == []
    web(prune=True)
    assert anti_affinity(web.get(VM, "web-a")) == []


def test_equal_node_selector_stays_beside_a_rule_or_is_adopted(
    web: RulesTask,
) -> None:
    selector = {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "zone1"}
    there = {"op": "add", "path": "/spec/template/spec/nodeSelector", "value": selector}
    web.patch(VM, "web-a", [there])
    before = web.placement(VM, "web-a")
    rule = {"name": "nodes", "workloads": [{"name": "web-a"}], "run_on": {"zone": "zone1"}}
    web(rule)
    assert web.get(VM, "web-a")["spec"]["template"]["spec"]["nodeSelector"] == selector
    web(prune=True)
    assert web.placement(VM, "web-a") == before

    foretold = web(rule, adopt=True, check=True)["writes"]
    assert web(rule, adopt=True)["writes"] == foretold
    spec = web.get(VM, "web-a")["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux"}
    (term,) = spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone1"]}
    ]
    assert not web(rule, adopt=True)["changed"]
    assert not web(rule)["changed"]
    other = {
        "name": "os",
        "workloads": [{"name": "web-a"}],
        "run_on": {"kubernetes.io/os": "linux"},
    }
    web(rule, other, adopt=True)
    assert "nodeSelector" not in web.get(VM, "web-a")["spec"]["template"]["spec"]
    web(prune=True)
    assert not {"affinity", "nodeSelector"} & set(web.get(VM, "web-a")["spec"]["template"]["spec"])


def test_rules_come_as_text_with_numbers_and_booleans_as_text(web: RulesTask) -> None:
    wish = {**APART, "preferred": "true", "weight": "10"}
    result = web(rules=json.dumps([wish]))
    assert result["counts"]["changed"] == 3
    again = web(rules="- " + json.dumps({**wish, "preferred": True, "weight": 10}))
    assert not again["changed"]
    affinity = web.get(VM, "web-a")["spec"]["template"]["spec"]["affinity"]
    wishes = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [wish["weight"] for wish in wishes] == [10]


def test_undo_restores_what_was_enforced_before_the_last_change(web: RulesTask) -> None:
    """Byte for byte, with the labels of what the rules labelled, and a second time without a write."""
    nothing = web(state="reverted")
    assert nothing["failed"]
    assert "no workload in namespace" in nothing["msg"]
    assert "no rule set has one" in nothing["msg"]
    web(FAST)
    before = {name: web.placement(VM, name) for name in WEB}
    web(FAST, {**APART, "label": {"tier": "web"}})
    assert web.placement(VM, "web-a") != before["web-a"]
    web(FAST, {**APART, "label": {"tier": "web"}})
    start = web.sandbox.audit.mark()

    planned = web(state="reverted", check=True, diff=True)
    assert not web.sandbox.audit.writes(since=start)
    done = web(state="reverted", diff=True)

    assert (done["workloads"], done["diff"]) == (planned["workloads"], planned["diff"])
    assert [entry["removed"] for entry in done["workloads"]] == [[APART["name"]]] * 3
    assert done["counts"] == {"workloads": 3, "changed": 3, "unchanged": 0, "failed": 0}
    assert {name: web.placement(VM, name) for name in WEB} == before
    rules = web.ours(VM, "web-a")["placement.virt/rules"]["rules"]
    assert list(rules) == [f"{web.namespace}/default/fast"]
    start = web.sandbox.audit.mark()
    again = web(state="reverted")
    names = [{"kind": VM, "namespace": web.namespace, "name": name} for name in WEB]
    assert again["reverted"] == done["reverted"] == planned["reverted"] == names
    assert (again["changed"], again["counts"]["unchanged"]) == (False, 3)
    assert not web.sandbox.audit.writes(since=start)


def test_undo_names_what_others_changed_and_refuses_what_does_not_go_with_it(
    web: RulesTask,
) -> None:
    web(APART)
    web.patch(VM, "web-b", [{"op": "remove", "path": "/spec/template/spec/affinity"}])
    start = web.sandbox.audit.mark()
    refused = web(APART, state="reverted", prune=True)
    assert "rules: does not go with state reverted" in refused["msg"]
    assert "prune: does not go with state reverted" in refused["msg"]
    assert not web.sandbox.audit.writes(since=start)

    done = web(state="reverted")

    assert [(x["name"], x["objects"]) for x in done["findings"]] == [
        ("not_reverted", [f"{VM} {web.namespace}/web-b"])
    ]
    assert {entry["name"] for entry in done["workloads"]} == {"web-a", "web-c"}


def test_a_copy_with_its_annotation_is_refused_until_it_is_allowed(web: RulesTask) -> None:
    web(APART)
    copy = web.get(VM, "web-a")
    copy["metadata"] = {"name": "web-d", "annotations": copy["metadata"]["annotations"]}
    web.create(copy)
    rule: dict[str, t.Any] = {**APART, "workloads": [{"names": [*WEB, "web-d"]}]}
    start = web.sandbox.audit.mark()
    refused = web(rule)
    assert refused["failed"]
    assert "copied_annotation" in refused["msg"]
    assert not web.sandbox.audit.writes(since=start)
    left = web(APART)
    assert not left["changed"]
    assert [(f["name"], f["severity"]) for f in left["findings"]] == [
        ("copied_annotation", "warning")
    ]
    web({**rule, "allow_findings": ["copied_annotation"]})
    uid = web.get(VM, "web-d")["metadata"]["uid"]
    assert web.ours(VM, "web-d")["placement.virt/rules"]["uid"] == uid
    assert len(anti_affinity(web.get(VM, "web-d"))) == 1


@pytest.mark.parametrize("text", ["{", '{"version": 9}', '{"version": 1, "rules": 3}', "[]"])
def test_a_damaged_annotation_fails_its_object_alone(web: RulesTask, text: str) -> None:
    note = {"metadata": {"annotations": {"placement.virt/rules": text}}}
    web.api.patch(web.api.path(VM, web.namespace, "web-a"), note)
    start = web.sandbox.audit.mark()
    refused = web(APART)
    assert refused["failed"]
    assert "web-a: annotation placement.virt/rules" in refused["msg"]
    assert not web.sandbox.audit.writes(since=start)
    others = web({**APART, "workloads": [{"names": ["web-b", "web-c"]}]})
    assert others["counts"]["changed"] == 2
    assert [finding["name"] for finding in others["findings"]] == ["invalid_rules_annotation"]
