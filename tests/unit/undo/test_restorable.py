# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a client that may write a VM, and its annotations, can have an undo write with the rights of the job."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES, UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from ansible_collections.virt.placement.plugins.module_utils.rules.record import field_digest
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    Fingerprint,
    TemplateTerm,
    TermLocation,
    digest,
)
from ansible_collections.virt.placement.plugins.module_utils.undo.revert import plan_revert
from tests.unit.rules.builders import deployment, plan, request, running, snapshot, vm, workload

JSON = t.Any
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMES = ("a", "b", "c")
APART = {"name": "apart", "workloads": list(NAMES), "keep_apart": "zone"}
HOME = {"name": "home", "workloads": ["a"], "run_on": {"zone": "a"}}
ANYWHERE = {"operator": "Exists"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
TAINTED = TemplateTerm(TermLocation.TOLERATION, ANYWHERE).fingerprint


def fleet(*more: Workload) -> Snapshot:
    vms = [*(vm(name) for name in NAMES), *more]
    return snapshot(*vms, run=[running(x) for x in vms])


def ruled(*rules: JSON, seen: Snapshot | None = None, **options: t.Any) -> Snapshot:
    there = seen or fleet()
    return written(there, plan(there, *rules, **options).writes)


def forged(seen: Snapshot, name: str, edit: t.Callable[[JSON, JSON], None]) -> Snapshot:
    """The cluster after a tenant changed the VM and its undo record, with digests that fit."""

    def changed(found: Workload) -> Workload:
        if found.ref.name != name:
            return found
        manifest = json.loads(json.dumps(found.manifest))
        annotations = manifest["metadata"].setdefault("annotations", {})
        record = json.loads(annotations.get(UNDO, "null")) or new_record(manifest)
        edit(manifest, record)
        spec = manifest["spec"]["template"]["spec"]
        record["written"]["rules"] = digest(annotations.get(RULES), 12)
        for field in record["placement"].keys() | record["written"]["fields"]:
            record["written"]["fields"][field] = field_digest(spec.get(field))
        annotations[UNDO] = json.dumps(record)
        return workload(manifest)

    there = copy.copy(seen)
    object.__setattr__(there, "workloads", tuple(map(changed, seen.workloads)))
    return there


def new_record(manifest: JSON) -> JSON:
    return {
        "version": 1,
        "uid": manifest["metadata"]["uid"],
        "placement": {},
        "labels": {},
        "rules": None,
        "change": {"rule_set": "shop/default", "number": 9, "request": "f00"},
        "written": {"fields": {}, "labels": {}, "rules": ""},
    }


def owning(record: JSON, rule: str, *fingerprints: Fingerprint) -> None:
    """The record says that the workload had a rule with these terms."""
    rules = json.loads(record["rules"] or json.dumps({"rules": {}, "created": []}))
    rules |= {"version": 1, "uid": record["uid"]}
    declared = {"terms": {"tolerations": [ANYWHERE]}}
    rules["rules"][rule] = {"terms": list(map(str, fingerprints)), "declared": declared}
    record["rules"] = json.dumps(rules)


def owning_now(manifest: JSON, rule: str, fingerprint: Fingerprint) -> None:
    """The annotation says that a rule of the workload has this term, too. The template has none."""
    owned = json.loads(manifest["metadata"]["annotations"][RULES])
    owned["rules"][rule]["terms"].append(str(fingerprint))
    manifest["metadata"]["annotations"][RULES] = json.dumps(owned)


def adds_toleration(_manifest: JSON, record: JSON) -> None:
    record["placement"]["tolerations"] = [ANYWHERE]


def adds_owned_toleration_of_another_set(_manifest: JSON, record: JSON) -> None:
    adds_toleration(_manifest, record)
    owning(record, "shop/other/x", TAINTED)


def adds_toleration_of_another_namespace(_manifest: JSON, record: JSON) -> None:
    adds_toleration(_manifest, record)
    owning(record, "kube-system/default/x", TAINTED)


def adds_a_rule_of_its_own(_manifest: JSON, record: JSON) -> None:
    adds_toleration(_manifest, record)
    owning(record, "shop/default/mine", TAINTED)
    record["change"] |= {"number": 9, "request": "f00"}


def adds_toleration_to_the_rule_that_is_there(_manifest: JSON, record: JSON) -> None:
    adds_toleration(_manifest, record)
    owning(record, "shop/default/apart", TAINTED)


def adds_toleration_of_the_rule_now_and_before(manifest: JSON, record: JSON) -> None:
    adds_toleration_to_the_rule_that_is_there(manifest, record)
    owning_now(manifest, "shop/default/apart", TAINTED)


def adds_foreign_pods_to_the_rule_that_is_there(_manifest: JSON, record: JSON) -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    record["placement"]["affinity"] = {"podAntiAffinity": {field: [term]}}
    owning(record, "shop/default/apart", TemplateTerm(TermLocation.ANTI_AFFINITY, term).fingerprint)


def takes_selector_away(manifest: JSON, record: JSON) -> None:
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"tenant": "a"}
    record["written"]["fields"]["nodeSelector"] = ""


def adds_node_term(manifest: JSON, record: JSON) -> None:
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
    here = copy.deepcopy(manifest["spec"]["template"]["spec"].get("affinity") or {})
    here["nodeAffinity"] = {field: {"nodeSelectorTerms": [term]}}
    record["placement"]["affinity"] = here


def adds_label(manifest: JSON, record: JSON) -> None:
    manifest["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    record["labels"]["team"] = "admins"
    record["written"]["labels"]["team"] = None


Attack = t.Callable[[JSON, JSON], None]
ATTACKS: dict[Attack, str] = {
    adds_toleration: "brings back what no rule of the set had written: toleration",
    adds_owned_toleration_of_another_set: "changes rules of other rule sets",
    adds_toleration_of_another_namespace: "rule kube-system/default/x is of another namespace",
    adds_a_rule_of_its_own: "brings back mine, and no other workload knows that rule or that change",
    adds_toleration_to_the_rule_that_is_there: "what rule apart has nowhere else: toleration",
    adds_toleration_of_the_rule_now_and_before: "what rule apart has nowhere else: toleration",
    adds_foreign_pods_to_the_rule_that_is_there: "what rule apart has nowhere else: anti-affinity",
    takes_selector_away: "takes away what no rule of the set has written: node-selector",
    adds_node_term: "brings back what no rule of the set had written: node-expression",
    adds_label: "brings back what no rule of the set had written: label",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_undo_restores_nothing_that_no_rule_of_the_set_wrote(
    attack: Attack,
) -> None:
    seen = forged(ruled(APART), "a", attack)

    plan_of_undo = plan_revert(seen, request(state="reverted"))

    assert "a" not in {write.target.name for write in plan_of_undo.writes}
    (finding,) = (x for x in plan_of_undo.findings if "shop/a " in x.why)
    assert (finding.name, ATTACKS[attack] in finding.why) == ("not_reverted", True), finding.why


@pytest.mark.parametrize(
    "expression",
    [{"operator": "Exists"}, {"operator": "NotIn", "values": ["fast"]}],
    ids=["Exists", "NotIn"],
)
def test_key_of_node_selector_comes_back_only_for_its_own_expression(expression: JSON) -> None:
    """Beside one without values, a tenant's record ended the undo of the whole namespace."""

    def attack(_manifest: JSON, record: JSON) -> None:
        record["placement"]["nodeSelector"] = {"disk": "fast"}

    field = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "disk", **expression}]}
    affinity = {"nodeAffinity": {field: {"nodeSelectorTerms": [term]}}}
    rule = {"name": "home", "workloads": ["a"], "terms": {"affinity": affinity}}
    there = ruled({**rule, "allow_findings": ["no_node_has_key"]})

    plan_of_undo = plan_revert(forged(there, "a", attack), request(state="reverted"))

    (finding,) = plan_of_undo.findings
    assert "brings back what no rule of the set had written: node-selector" in finding.why


@pytest.mark.parametrize(
    "placement",
    [
        {"nodeSelector": {"disk": True}},
        {"tolerations": [{"key": 7, "operator": "Exists"}]},
        {"tolerations": [{"operator": "Exists", "tolerationSeconds": "1"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": True}]},
        {"affinity": {"podAntiAffinity": {REQUIRED: [{"mismatchLabelKeys": [{"a": "b"}]}]}}},
        {
            "affinity": {
                "podAffinity": {
                    REQUIRED: [{"labelSelector": {"matchExpressions": [{"key": True}]}}]
                }
            }
        },
    ],
    ids=["map", "text", "number", "flag", "list", "deep"],
)
def test_record_with_a_type_that_no_server_accepts_is_damaged(placement: JSON) -> None:
    """A tenant's record ended the undo of the whole namespace, or its forecast, with a traceback."""

    def attack(_manifest: JSON, record: JSON) -> None:
        record["placement"] = placement

    there = forged(ruled(HOME), "a", attack)
    (finding,) = plan_revert(there, request(state="reverted")).findings
    assert "is damaged (a value in it has a wrong type)" in finding.why


@pytest.mark.parametrize("rules", [(HOME,), (HOME, APART)], ids=len)
def test_toleration_does_not_come_back_with_a_rule_of_one_vm_that_has_none(
    rules: tuple[JSON, ...],
) -> None:
    def attack(manifest: JSON, record: JSON) -> None:
        adds_toleration(manifest, record)
        owning(record, "shop/default/home", TAINTED)
        owning_now(manifest, "shop/default/home", TAINTED)

    plan_of_undo = plan_revert(forged(ruled(*rules), "a", attack), request(state="reverted"))

    assert "a" not in {write.target.name for write in plan_of_undo.writes}
    (finding,) = plan_of_undo.findings
    assert "what rule home has nowhere else: toleration" in finding.why


@pytest.mark.parametrize(
    "rule",
    [
        {"keep_apart": "zone"},
        {"keep_apart": "zone", "preferred": True},
        {"spread": {"topology_key": "zone"}},
        {"keep_together": {"topology_key": "zone", "with": "a"}},
        {"keep_apart": {"topology_key": "zone", "from": ["a"]}, "label": {"tier": "web"}},
    ],
    ids=json.dumps,
)
def test_terms_that_select_other_pods_on_each_workload_come_back(rule: JSON) -> None:
    caches = [{"kind": "Deployment", "name": name} for name in ("x", "y")]
    rule = {"name": "r", "workloads": [*caches, "b"], **rule}
    options: dict[str, t.Any] = {"workload_rollout": "allow"}
    seen = fleet(deployment("x"), deployment("y"))
    there = ruled(rule, seen=seen, **options)
    removed = ruled(seen=there, prune=True, **options)

    undone = plan_revert(removed, request(state="reverted", **options))

    assert undone.findings == ()
    back = written(removed, undone.writes)
    assert [x.template for x in back.workloads] == [x.template for x in there.workloads]


def test_record_on_a_workload_without_rules_is_a_finding_and_the_others_are_restored() -> None:
    def same_change(_manifest: JSON, record: JSON) -> None:
        adds_toleration(_manifest, record)
        record["change"] = json.loads(there.annotations[UNDO])["change"]

    seen = ruled(APART, seen=fleet(vm("free")))
    there = next(x for x in seen.workloads if x.ref.name == "b")

    plan_of_undo = plan_revert(forged(seen, "free", same_change), request(state="reverted"))

    assert {write.target.name for write in plan_of_undo.writes} == set(NAMES)
    (finding,) = plan_of_undo.findings
    assert "shop/free was left as it is: it has no rule of rule set 'default'" in finding.why


def test_record_is_checked_again_when_it_is_written() -> None:
    seen = ruled(APART)
    planned = plan_revert(seen, request(state="reverted"))
    (write,) = (x for x in planned.writes if x.target.name == "a")
    (attacked,) = (x for x in forged(seen, "a", adds_toleration).workloads if x.ref.name == "a")

    with pytest.raises(ValueError, match="brings back what no rule of the set had written"):
        planned.recompute(write, dict(attacked.manifest))


@pytest.mark.parametrize(
    ("before", "rules", "options"),
    [
        ((HOME,), (), {"prune": True}),
        ((HOME, APART), (), {"prune": True}),
        ((HOME,), ({**HOME, "run_on": {"zone": "b"}},), {}),
        ((HOME, APART), ({"name": "apart"},), {"state": "absent"}),
    ],
)
def test_what_rules_wrote_is_restored(
    before: tuple[JSON, ...], rules: tuple[JSON, ...], options: dict[str, t.Any]
) -> None:
    there = ruled(*before)
    undone = plan_revert(ruled(*rules, seen=there, **options), request(state="reverted"))

    assert undone.findings == ()
    after = written(ruled(*rules, seen=there, **options), undone.writes)
    assert [x.template for x in after.workloads] == [x.template for x in there.workloads]
    assert [read_ownership(x).rules for x in after.workloads] == [
        read_ownership(x).rules for x in there.workloads
    ]


def test_workload_takes_no_more_rules_than_are_read() -> None:
    rules = [{"name": f"r{n}", "workloads": ["a"], "run_on": {f"k.io/{n}": "x"}} for n in range(65)]
    there = ruled(*rules[:64])
    assert len(read_ownership(there.workloads[0]).rules) == 64

    with pytest.raises(InvalidInput) as error:
        plan(there, *rules)

    (fault,) = {x.message for x in error.value.errors}
    assert fault.startswith("VirtualMachine shop/a would have 65 rules, at most 64 are possible")
