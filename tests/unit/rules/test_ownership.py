# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The annotations of ours: read as they were written, and refused where they are damaged."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.rules.fingerprint import Fingerprint
from ansible_collections.virt.placement.plugins.module_utils.rules.journal import (
    journal_of,
    read_journal,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    Ownership,
    UnreadableAnnotation,
    read_ownership,
    rules_of_term,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.slots import Slot

from .builders import vm

JSON = t.Any
ONE, TWO = RuleId("shop", "s", "one"), RuleId("shop", "s", "two/with/slashes")
TERM = {"key": "zone", "operator": "In", "values": ["a", "b"]}
_SELECTORS: tuple[dict[str, JSON], ...] = ({}, {"labelSelector": {}})
MARK = Fingerprint.of(Slot.NODE_EXPRESSION, TERM)


def _machine(**annotations: str) -> t.Any:
    machine = vm("a")
    found = {f"placement.virt/{name}": text for name, text in annotations.items()}
    machine.manifest["metadata"]["annotations"] = found
    return machine


def test_what_is_written_is_read() -> None:
    owned = Ownership("uid-a", {ONE: (MARK,), TWO: ()}, frozenset({"/spec/affinity"}))
    assert read_ownership(_machine(rules=owned.text())) == owned
    assert read_ownership(vm("a")) == Ownership("uid-a")


def test_a_term_belongs_to_its_rules_however_it_is_written() -> None:
    owned = Ownership("uid-a", {ONE: (MARK,), TWO: (MARK,)})
    rewritten = {"values": ["b", "a"], "operator": "In", "key": "zone"}
    assert rules_of_term(owned, Slot.NODE_EXPRESSION, rewritten) == (ONE, TWO)
    assert rules_of_term(owned, Slot.NODE_EXPRESSION, TERM) == (ONE, TWO)
    assert rules_of_term(owned, Slot.NODE_FIELD, TERM) == ()
    assert rules_of_term(owned, Slot.NODE_EXPRESSION, {**TERM, "operator": "NotIn"}) == ()


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
def test_terms_that_say_the_same(one: JSON, other: JSON) -> None:
    marks = [Fingerprint.of(Slot.ANTI_AFFINITY, term) for term in (one, other)]
    assert marks[0].says_the_same(marks[1])


def test_no_selector_and_a_selector_of_everything_say_different_things() -> None:
    marks = [
        Fingerprint.of(Slot.ANTI_AFFINITY, {"topologyKey": "z", **more}) for more in _SELECTORS
    ]
    assert not marks[0].says_the_same(marks[1])


def test_defaults_of_the_api_are_filled_in() -> None:
    short = {"key": "x", "operator": "Equal"}
    assert Fingerprint.of(Slot.TOLERATION, short).says_the_same(
        Fingerprint.of(Slot.TOLERATION, {"key": "x", "value": ""})
    )


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged (it has no version)"),
        ('{"version": 2, "uid": "x"}', "was written by a newer release"),
        ('{"version": 1, "uid": "x", "rules": {"a": []}, "created": []}', "is damaged"),
        ('{"version": 1, "uid": "x", "rules": {"a/b/c": ["?"]}, "created": []}', "is damaged"),
        ('{"version": 1, "uid": "x", "rules": {}}', "is damaged"),
    ],
)
def test_a_damaged_annotation_says_so_and_what_to_do(text: str, seen: str) -> None:
    with pytest.raises(UnreadableAnnotation) as error:
        read_ownership(_machine(rules=text))
    assert "VirtualMachine shop/a: annotation placement.virt/rules" in str(error.value)
    assert seen in str(error.value)


def test_a_journal_leads_back_to_what_was_there() -> None:
    machine = _machine(rules="r")
    machine.template["spec"]["tolerations"] = [{"operator": "Exists"}]
    journal = journal_of(machine)
    assert journal.placement == {"tolerations": [{"operator": "Exists"}]}
    assert journal.rules == "r"
    assert read_journal(_machine(journal=journal.text())) == journal
    assert read_journal(vm("a")) is None


def test_a_copied_journal_is_none() -> None:
    content = json.loads(journal_of(vm("a")).text())
    assert read_journal(_machine(journal=json.dumps({**content, "uid": "other"}))) is None
    with pytest.raises(UnreadableAnnotation, match="is damaged"):
        read_journal(_machine(journal='{"version": 1}'))
