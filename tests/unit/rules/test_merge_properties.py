# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What merging promises for whatever stands in a template already."""

from __future__ import annotations

import copy
import json
import typing as t

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import UNDO
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import NEVER_ALLOWED
from ansible_collections.virt.placement.plugins.module_utils.rules.draft import RequestedRules
from ansible_collections.virt.placement.plugins.module_utils.rules.merge import merge
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    OwnedRule,
    read_ownership,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.record import RuleSetChange
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import (
    NODE_TERMS,
    TemplateTerm,
    TermLocation,
    terms_of,
)

from . import strategies
from .builders import applied, workload

JSON = t.Any
Rules = dict[RuleId, tuple[TemplateTerm, ...]]
CHANGE = RuleSetChange("shop/default", 1, "")


def _object(template: JSON) -> JSON:
    return {
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": "a", "namespace": "shop", "uid": "1"},
        "spec": {"template": copy.deepcopy(template)},
    }


def _requested(listed: t.Mapping[RuleId, t.Any], **options: t.Any) -> RequestedRules:
    stored = dict.fromkeys(listed, OwnedRule(declared='{"terms":{}}'))
    return RequestedRules(listed, CHANGE, stored=stored, **options)


def _after(manifest: JSON, listed: t.Mapping[RuleId, t.Any], **options: t.Any) -> JSON:
    """What a caller would have written: terms that cannot stand there are refused."""
    merged = merge(_workload(manifest), _requested(listed, **options))
    assume(not any(finding.name in NEVER_ALLOWED for finding in merged.findings))
    return manifest if merged.write is None else applied(manifest, merged.write)


def _workload(manifest: JSON) -> Workload:
    return workload(copy.deepcopy(manifest))


def _bytes(value: JSON) -> str:
    return json.dumps(value)


def _placement(manifest: JSON) -> str:
    """Lists in their order; the order of keys in a map is no part of a JSON value."""
    return json.dumps(manifest["spec"]["template"], sort_keys=True)


def _gone(rules: Rules) -> dict[RuleId, None]:
    return dict.fromkeys(rules)


@settings(max_examples=120)
@given(strategies.templates, strategies.rule_maps)
def test_taking_all_rules_away_restores_every_byte(template: JSON, rules: Rules) -> None:
    before = _object(template)
    there = _after(before, rules)
    back = _after(there, _gone(rules))
    assert _placement(back) == _placement(before)
    assert set(back["metadata"].get("annotations") or {}) <= {UNDO}, "what undoes the removal"


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps, st.randoms(use_true_random=False))
def test_rules_taken_away_one_by_one_restore_every_byte(
    template: JSON, rules: Rules, random: t.Any
) -> None:
    before = _object(template)
    seen = before
    order = list(rules)
    for rule in order:
        seen = _after(seen, {rule: rules[rule]})
    random.shuffle(order)
    for rule in order:
        seen = _after(seen, {rule: None})
    assert _placement(seen) == _placement(before)


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps, st.booleans())
def test_a_second_merge_writes_nothing(template: JSON, rules: Rules, adopt: bool) -> None:
    there = _after(_object(template), rules, adopt=adopt)
    again = merge(_workload(there), _requested(rules, adopt=adopt))
    assert again.write is None
    assert not (again.added or again.updated or again.removed)


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps, st.randoms(use_true_random=False))
def test_the_order_of_the_list_decides_nothing(template: JSON, rules: Rules, random: t.Any) -> None:
    order = list(rules)
    random.shuffle(order)
    shuffled = {rule: rules[rule] for rule in order}
    assert _bytes(_after(_object(template), rules)) == _bytes(_after(_object(template), shuffled))


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps, st.booleans())
def test_foreign_terms_keep_their_order(template: JSON, rules: Rules, adopt: bool) -> None:
    before = _object(template)
    after = _after(before, rules, adopt=adopt)
    old, new = (each["spec"]["template"] for each in (before, after))
    for slot in {term.location for term in terms_of(old)}:
        theirs = [
            _bytes(term.value)
            for term in terms_of(old)
            if term.location is slot and not (adopt and slot is TermLocation.NODE_SELECTOR)
        ]
        all_of_them = iter(_bytes(term.value) for term in terms_of(new) if term.location is slot)
        assert all(entry in all_of_them for entry in theirs), slot


@settings(max_examples=120)
@given(strategies.templates, strategies.rule_maps)
def test_a_selector_that_is_taken_over_allows_the_same_nodes(template: JSON, rules: Rules) -> None:
    """What goes from nodeSelector stands in every required node term that can match."""
    before = _object(template)
    old, new = (
        each["spec"]["template"]["spec"] for each in (before, _after(before, rules, adopt=True))
    )
    kept = new.get("nodeSelector") or {}
    gone = {k: v for k, v in (old.get("nodeSelector") or {}).items() if kept.get(k) != v}
    terms = NODE_TERMS.read({"spec": new}, None) or []
    for key, value in gone.items():
        expression = {"key": key, "operator": "In", "values": [value]}
        assert any(map(_speaks, terms))
        assert all(expression in term["matchExpressions"] for term in terms if _speaks(term))
    assert "nodeSelector" not in new or new["nodeSelector"] or not old["nodeSelector"]


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps)
def test_no_empty_node_term_begins_to_match(template: JSON, rules: Rules) -> None:
    before = _object(template)
    after = _after(before, rules)
    old, new = (NODE_TERMS.read(e["spec"]["template"], None) for e in (before, after))
    if old is None or not any(map(_speaks, old)):
        assert old is None or new == old
        return
    assert [term for term in new if not _speaks(term)] == [t for t in old if not _speaks(t)]
    assert sum(map(_speaks, new)) == sum(map(_speaks, old))


def _speaks(term: JSON) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


@settings(max_examples=80)
@given(strategies.templates, strategies.rule_maps, strategies.rule_maps)
def test_changing_rules_is_the_same_as_writing_the_new_ones(
    template: JSON, first: Rules, second: Rules
) -> None:
    """Up to the order of ours among themselves: what stood there already keeps its place."""
    straight = _after(_object(template), second)
    detour = _after(_after(_object(template), first), {**_gone(first), **second})
    assert _terms(straight) == _terms(detour)
    assert set(read_ownership(_workload(detour)).rules) == set(second)
    assert _placement(_after(detour, _gone(second))) == _placement(_object(template))


def _terms(manifest: JSON) -> list[tuple[str, str]]:
    template = manifest["spec"]["template"]
    return sorted((str(x.location), x.fingerprint.meaning) for x in terms_of(template))


def test_list_that_a_rule_created_is_removed_if_it_has_an_equal_foreign_entry() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["w1"]}
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    before = _object({"spec": {"affinity": {"nodeAffinity": node_affinity}}})
    first, second = RuleId("shop", "default", "one"), RuleId("shop", "default", "two")
    own: Rules = {
        first: (TemplateTerm(TermLocation.NODE_FIELD, field),),
        second: (TemplateTerm(TermLocation.NODE_EXPRESSION, expression),),
    }
    for order in ([first, second], [second, first]):
        seen = before
        for listed in (*own.items(), *((rule, None) for rule in order)):
            write = merge(_workload(seen), _requested(dict([listed]))).write
            assert write is not None
            seen = applied(seen, write)
        assert _placement(seen) == _placement(before)
