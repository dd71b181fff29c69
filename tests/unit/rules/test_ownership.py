# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The annotations of ours: read as they were written, and refused where they are damaged."""

from __future__ import annotations

import json
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    OwnedRule,
    Ownership,
    UnreadableAnnotation,
    read_ownership,
    rules_of_term,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.record import (
    MOST_CHANGES,
    RuleSetChange,
    UndoRecord,
    WrittenPlacement,
    change_of_request,
    read_undo_record,
    undo_record_of,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    TemplateTerm,
    TermLocation,
)

from .builders import vm

JSON = t.Any
ONE, TWO = RuleId("shop", "s", "one"), RuleId("shop", "s", "two.with-dots_2")
TERM = {"key": "zone", "operator": "In", "values": ["a", "b"]}
_SELECTORS: tuple[dict[str, JSON], ...] = ({}, {"labelSelector": {}})
MARK = TemplateTerm(TermLocation.NODE_EXPRESSION, TERM).fingerprint
PIN = '{"run_on":{"zone":["a","b"]}}'


def _machine(**annotations: str) -> t.Any:
    machine = vm("a")
    found = {f"placement.virt/{name}": text for name, text in annotations.items()}
    machine.manifest["metadata"]["annotations"] = found
    return machine


def test_annotation_that_is_written_and_read_is_unchanged() -> None:
    owned = Ownership(
        "uid-a", {ONE: OwnedRule((MARK,), PIN), TWO: OwnedRule()}, frozenset({"/spec/affinity"})
    )
    assert read_ownership(_machine(rules=owned.text())) == owned
    assert read_ownership(vm("a")) == Ownership("uid-a")


def test_a_term_belongs_to_its_rules_however_it_is_written() -> None:
    owned = Ownership("uid-a", {ONE: OwnedRule((MARK,), PIN), TWO: OwnedRule((MARK,), PIN)})
    rewritten = {"values": ["b", "a"], "operator": "In", "key": "zone"}
    other = {**TERM, "operator": "NotIn"}
    for location, value, rules in (
        (TermLocation.NODE_EXPRESSION, rewritten, (ONE, TWO)),
        (TermLocation.NODE_EXPRESSION, TERM, (ONE, TWO)),
        (TermLocation.NODE_FIELD, TERM, ()),
        (TermLocation.NODE_EXPRESSION, other, ()),
    ):
        assert rules_of_term(owned, TemplateTerm(location, value)) == rules


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "z"},
            {
                "topologyKey": "z",
                "labelSelector": {
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]
                },
                "namespaces": [],
            },
        ),
        ({"topologyKey": "z"}, {"topologyKey": "z", "labelSelector": None}),
    ],
)
def test_equal_terms_have_the_same_meaning(one: JSON, other: JSON) -> None:
    marks = [TemplateTerm(TermLocation.ANTI_AFFINITY, term).fingerprint for term in (one, other)]
    assert marks[0].has_same_effect(marks[1])


def test_missing_selector_and_empty_selector_have_different_meanings() -> None:
    marks = [
        TemplateTerm(TermLocation.ANTI_AFFINITY, {"topologyKey": "z", **more}).fingerprint
        for more in _SELECTORS
    ]
    assert not marks[0].has_same_effect(marks[1])


@pytest.mark.parametrize(
    "written", [{"key": "x", "value": ""}, {"key": "x", "operator": "Equal", "effect": ""}]
)
def test_defaults_of_the_api_are_filled_in(written: JSON) -> None:
    short = {"key": "x", "operator": "Equal"}
    assert TemplateTerm(TermLocation.TOLERATION, short).fingerprint.has_same_effect(
        TemplateTerm(TermLocation.TOLERATION, written).fingerprint
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged (it is no JSON object)"),
        ("{}", "is damaged (it has no version)"),
        ('{"version": 2, "uid": "x"}', "was written by a newer release"),
        ('{"version": 1, "uid": "x", "rules": {"a": {"terms": []}}, "created": []}', "is damaged"),
        (
            '{"version": 1, "uid": "x", "rules": {"a/b/c": {"terms": ["?"]}}, "created": []}',
            "is damaged",
        ),
        ('{"version": 1, "uid": "x", "rules": {}}', "is damaged (its field 'created' is missing)"),
        ('{"version": 1, "uid": "x", "rules": 3}', "is damaged (a value in it has a wrong type)"),
    ],
)
def test_damaged_annotation_is_reported_with_advice(text: str, seen: str) -> None:
    with pytest.raises(UnreadableAnnotation) as error:
        read_ownership(_machine(rules=text))
    assert "VirtualMachine shop/a: annotation placement.virt/rules" in str(error.value)
    assert seen in str(error.value)


def _record_of(machine: Workload) -> UndoRecord:
    return undo_record_of(machine, RuleSetChange("shop/default", 1, ""), WrittenPlacement())


def test_an_undo_record_holds_the_previous_placement() -> None:
    machine = _machine(rules="r")
    machine.template["spec"]["tolerations"] = [{"operator": "Exists"}]
    record = _record_of(machine)
    assert record.placement == {"tolerations": [{"operator": "Exists"}]}
    assert record.rules == "r"
    assert read_undo_record(_machine(undo=record.text())) == record
    assert read_undo_record(vm("a")) is None


def test_a_copied_undo_record_is_ignored() -> None:
    content = json.loads(_record_of(vm("a")).text())
    assert read_undo_record(_machine(undo=json.dumps({**content, "uid": "other"}))) is None
    with pytest.raises(UnreadableAnnotation, match=r"shop/a.*/undo is damaged \(change is missing"):
        read_undo_record(_machine(undo='{"version": 1}'))


@pytest.mark.parametrize("annotation", ["rules", "undo"])
@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"version": 1, "uid": ' + "[" * 40 + "]" * 40 + "}",
        '{"version": 1, "uid": "' + "x" * 300_000 + '"}',
    ],
    ids=["unbalanced", "deep", "long"],
)
def test_an_annotation_that_is_too_deep_or_too_long_is_damaged(annotation: str, text: str) -> None:
    readers: dict[str, t.Callable[[t.Any], object]] = {
        "rules": read_ownership,
        "undo": read_undo_record,
    }
    with pytest.raises(
        UnreadableAnnotation, match=f"annotation placement.virt/{annotation} is damaged"
    ):
        readers[annotation](_machine(**{annotation: text}))


def test_undo_record_that_cannot_be_read_has_no_advice_about_rules() -> None:
    text = '{"version": 1, "uid": "x", "change": ' + "9" * 400 + "}"
    with pytest.raises(UnreadableAnnotation) as failure:
        read_undo_record(_machine(undo=text))
    assert str(failure.value).endswith(
        ": remove it if nothing has to be undone, and write the rules again"
    )


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    "changed",
    [
        {"placement": {"affinity": 3}},
        {"placement": {"affinity": {"podAffinity": {REQUIRED: "x"}}}},
        {"placement": {"affinity": {"podAffinity": {REQUIRED: [None]}}}},
        {"placement": {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": 3}]}}}},
        {"placement": {"affinity": {"podAffinity": {REQUIRED: [{"namespaces": 3}]}}}},
        {"placement": {"nodeSelector": [1]}},
        {"placement": {"tolerations": 5}},
        {"placement": {"topologySpreadConstraints": {"a": 1}}},
        {"labels": {"tier": 3}},
        {"written": {"fields": {}, "labels": {"tier": 3}, "rules": ""}},
    ],
    ids=str,
)
def test_an_undo_record_that_is_no_placement_is_damaged(changed: dict[str, t.Any]) -> None:
    """An undo would end with it, and leave all other workloads of the namespace."""
    content = {**json.loads(_record_of(vm("a")).text()), **changed}
    with pytest.raises(UnreadableAnnotation, match="is damaged"):
        read_undo_record(_machine(undo=json.dumps(content)))


@pytest.mark.parametrize("field", ["uid", "placement", "labels", "rules", "change", "written"])
def test_an_undo_record_with_a_wrong_type_is_damaged(field: str) -> None:
    content = {**json.loads(_record_of(vm("a")).text()), field: 7}
    with pytest.raises(UnreadableAnnotation, match="is damaged"):
        read_undo_record(_machine(undo=json.dumps(content)))


NODE = str(MARK)
NONE: dict[str, JSON] = {"terms": []}
PINNED: dict[str, JSON] = {"terms": [NODE], "declared": json.loads(PIN)}
OF_RULES: dict[str, JSON] = {
    "version": 1,
    "uid": "uid-a",
    "rules": {"shop/s/one": {"terms": []}},
    "created": [],
}


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({"rules": {"other/s/one": PINNED}}, "rule other/s/one is of another namespace"),
        ({"rules": {"other/s/one": NONE}}, "rule other/s/one is of another namespace"),
        ({"rules": {"Shop/s/one": NONE}}, "'Shop' is no name of a namespace"),
        ({"rules": {"shop/s/{{ 1 }}": NONE}}, "'{{ 1 }}' is no name of a rule"),
        ({"rules": {"shop/s/a\nb": NONE}}, "is no name of a rule"),
        ({"rules": {"shop/s/": NONE}}, "'' is no name of a rule"),
        ({"rules": {"shop/s x/a": NONE}}, "'s x' is no name of a rule or rule set"),
        ({"rules": {f"shop/s/r{n}": NONE for n in range(65)}}, "it has 65 rules, at most 64"),
        ({"rules": {"shop/s/one": {"terms": ["toleration:{{ 1 }}.b"]}}}, "has no digests"),
        ({"rules": {"shop/s/one": {"terms": [f"{'x' * 100_000}:ab.cd"]}}}, "is damaged"),
        ({"created": ["/spec"]}, "rules create no '/spec'"),
        ({"created": ["spec"]}, "rules create no 'spec'"),
        ({"created": ["/metadata/annotations"]}, "rules create no"),
        ({"rules": {"shop/s/one": {**NONE, "enabled": False}}}, "rule shop/s/one has no type"),
        ({"rules": {"shop/s/one": {**PINNED, "enabled": "<b>"}}}, "neither true nor false"),
        ({"rules": {"shop/s/one": {"terms": [NODE]}}}, "rule shop/s/one has no type"),
        ({"rules": {"shop/s/one": {**PINNED, "declared": {"<b>": 1}}}}, "is no option of a rule"),
        (
            {"rules": {"shop/s/one": {**PINNED, "chosen": {"k": "<b>"}}}},
            "labels that are not valid",
        ),
        ({"rules": {"shop/s/one": [NODE]}}, "a value in it has a wrong type"),
        ({"version": int("9" * 4300)}, "more than 64 bits"),
        ({"version": True, "rules": {"other/s/one": PINNED}}, "another namespace"),
        ({"version": 0}, "it has no version"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_options_refuse_is_damage_in_the_annotation(
    changed: dict[str, JSON], seen: str
) -> None:
    """A tenant can write it, and it would be in findings, verdicts, declarations and metrics."""
    with pytest.raises(UnreadableAnnotation) as error:
        read_ownership(_machine(rules=json.dumps({**OF_RULES, **changed})))
    assert seen in str(error.value)
    assert len(str(error.value)) < 500
    assert read_ownership(_machine(rules=json.dumps(OF_RULES))).rules == {ONE: OwnedRule()}


def test_rule_of_another_namespace_may_have_labelled_the_workload() -> None:
    """A rule that keeps away from workloads of another namespace labels them, if nothing else selects them."""
    label = TemplateTerm(TermLocation.LABEL, {"key": "k", "value": "v"}).fingerprint
    other = RuleId("other", "s", "one")
    content = {**OF_RULES, "rules": {str(other): {"terms": [str(label)]}}}
    assert read_ownership(_machine(rules=json.dumps(content))).rules == {other: OwnedRule((label,))}
    content["rules"] = {str(other): {**PINNED, "terms": [str(label), NODE]}}
    with pytest.raises(UnreadableAnnotation):
        read_ownership(_machine(rules=json.dumps(content)))
    copied = {**content, "uid": "of another object", "rules": {str(other): PINNED, str(ONE): NONE}}
    assert read_ownership(_machine(rules=json.dumps(copied))).rules == {ONE: OwnedRule()}


@pytest.mark.parametrize(
    "changed",
    [
        {"number": int("9" * 4299)},
        {"number": 10**9 + 1},
        {"number": 0},
        {"number": True},
        {"number": 1.5},
        {"rule_set": "shop"},
        {"rule_set": "shop/a b"},
        {"request": "{{ 1 }}"},
    ],
    ids=str,
)
def test_change_that_rules_never_make_is_damage(changed: dict[str, JSON]) -> None:
    content = json.loads(_record_of(vm("a")).text())
    content["change"] |= changed
    with pytest.raises(UnreadableAnnotation, match="is damaged"):
        read_undo_record(_machine(undo=json.dumps(content)))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e999", "9" * 4300, "9" * 20, "9" * 5000])
def test_number_that_the_api_has_not_is_damage(text: str) -> None:
    record = json.dumps({**json.loads(_record_of(vm("a")).text()), "placement": "X"})
    field = '{"tolerations": [{"operator": "Exists", "tolerationSeconds": ' + text + "}]}"
    with pytest.raises(UnreadableAnnotation, match="is damaged"):
        read_undo_record(_machine(undo=record.replace('"X"', field)))


def test_number_of_a_change_ends_at_the_most_that_is_read() -> None:
    record = undo_record_of(
        vm("a"), RuleSetChange("shop/default", MOST_CHANGES, "a"), WrittenPlacement()
    )
    there = _machine(undo=record.text())
    assert change_of_request("shop/default", "b", [there], "").number == MOST_CHANGES


@pytest.mark.parametrize(
    ("uid", "rule", "is_own"),
    [
        ("uid-a", ONE, True),
        ("name:a", ONE, True),
        ("name:", ONE, False),
        ("name:b", ONE, False),
        ("name:a", RuleId("other", "s", "one"), False),
        ("", ONE, False),
        ("a", ONE, False),
    ],
)
def test_annotation_without_a_uid_is_of_the_object_of_its_name(
    uid: str, rule: RuleId, is_own: bool
) -> None:
    """A policy writes it before the object has a uid. A copy has another name, or is in another namespace."""
    written = Ownership(uid, {rule: OwnedRule((MARK,), PIN)})
    read = read_ownership(_machine(rules=written.text()))
    assert (read.uid == "uid-a") is is_own
    assert set(read.rules) == ({rule} if rule.namespace == "shop" else set())


@pytest.mark.parametrize(
    ("prefix", "name", "is_own"),
    [
        ("runner-", "runner-x2k9f", True),
        ("r" * 70, f"{'r' * 58}x2k9f", True),
        ("runner-", "runner-clone", False),
        ("runner-", "runner-x2k9", False),
        ("runner-", "runner-x2k9fb", False),
        ("runner-", "other-x2k9f", False),
        ("runner-x2k9f", "runner-x2k9f", False),
    ],
)
def test_annotation_of_a_generated_name_is_of_names_that_the_server_makes(
    prefix: str, name: str, is_own: bool
) -> None:
    written = Ownership(f"generateName:{prefix}", {ONE: OwnedRule((MARK,), PIN)})
    made = vm(name)
    metadata = {**made.manifest["metadata"], "annotations": {RULES: written.text()}}
    read = read_ownership(replace(made, manifest={**made.manifest, "metadata": metadata}))
    assert (read.uid == made.uid) is is_own
