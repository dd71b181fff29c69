# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Terms that others wrote beside those of a rule, when the rule is written again or taken out."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write
from ansible_collections.virt.placement.plugins.module_utils.rules.merge import Merged
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    read_ownership,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.record import (
    read_undo_record,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan
from ansible_collections.virt.placement.plugins.module_utils.rules.term_slots import TermLocation

from .builders import applied, plan, running, snapshot, vm, workload

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DB = {"name": "r", "workloads": [{"name": "db"}]}
TIER = {"label": {"tier": "api"}}


def in_zones(*zones: str) -> JSON:
    """A node term for each zone."""
    return [
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]} for zone in zones
    ]


def node_affinity(terms: JSON) -> JSON:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def merged(carrier: Workload, *rules: JSON, **options: t.Any) -> Merged:
    (change,) = plan(snapshot(carrier), *rules, **options).workloads
    return change.merged


def after(carrier: Workload, *rules: JSON) -> JSON:
    """The manifest once the rules are written."""
    write = merged(carrier, *rules).write
    assert write is not None
    return applied(dict(carrier.manifest), write)


def spec_of(manifest: JSON) -> JSON:
    return manifest["spec"]["template"]["spec"]


def test_equal_node_selector_is_adopted_and_reported() -> None:
    rule = {**DB, "run_on": {"zone": "a"}}
    manifest = after(vm("db"), rule)
    spec_of(manifest)["nodeSelector"] = {ZONE: "a"}

    second = merged(workload(manifest), rule, adopt=True)

    assert "nodeSelector" not in second.after
    assert second.locations == {TermLocation.NODE_SELECTOR}


def test_empty_fields_that_consoles_leave_are_written_one_by_one() -> None:
    manifest = dict(vm("db").manifest)
    spec_of(manifest).update({"affinity": {}, "nodeSelector": {}, "tolerations": []})

    spec = spec_of(after(workload(manifest), {**DB, "run_on": {"zone": "a"}}))

    assert spec["affinity"] == node_affinity(in_zones("a"))["affinity"]
    assert spec["nodeSelector"] == {}


def test_equal_terms_in_two_fields_are_taken_out_of_one() -> None:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "cache"}}}
    near = {"affinity": {"podAffinity": {REQUIRED: [term]}}}
    manifest = after(vm("db"), {**DB, "terms": near})
    spec_of(manifest)["affinity"]["podAntiAffinity"] = {REQUIRED: [term]}

    write = merged(workload(manifest), prune=True).write
    assert write is not None
    spec = spec_of(applied(manifest, write))

    assert spec["affinity"] == {"podAntiAffinity": {REQUIRED: [term]}}


def test_one_of_two_equal_node_terms_stays_when_the_rule_is_taken_out() -> None:
    manifest = after(vm("db"), {**DB, "terms": node_affinity(in_zones("a", "b"))})
    terms = spec_of(manifest)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    terms += in_zones("a")

    taken_out = merged(workload(manifest), {"name": "r"}, state="absent")

    assert taken_out.after == node_affinity(in_zones("a"))


def test_empty_node_term_of_a_rule_is_taken_out_with_the_rule() -> None:
    """What stays of it would match no node."""
    terms = {
        **DB,
        "terms": node_affinity([*in_zones("a"), {}]),
        "allow_findings": ["empty_node_term"],
    }
    manifest = after(vm("db"), terms)

    taken_out = merged(workload(manifest), {"name": "r"}, state="absent")

    assert taken_out.after == {}


def test_taking_out_an_expression_that_is_gone_already_changes_no_term() -> None:
    manifest = after(vm("db"), {**DB, "run_on": {"zone": "a"}})
    spec_of(manifest)["affinity"] = node_affinity(in_zones("b"))["affinity"]

    taken_out = merged(workload(manifest), {"name": "r"}, state="absent")

    assert taken_out.after == node_affinity(in_zones("b"))
    assert taken_out.locations == frozenset()


def test_first_write_of_rules_records_the_placement_before_it() -> None:
    carrier = vm("db")

    manifest = after(carrier, {**DB, "run_on": {"zone": "a"}})

    record = read_undo_record(workload(manifest))
    assert record is not None
    assert (record.placement, record.labels) == ({}, dict(carrier.template_labels))
    assert record.rules is None
    assert record.changes == {"shop/default": 1}


def test_rule_that_has_left_a_workload_is_taken_out_behind_one_that_stays() -> None:
    stays, leaves = {**DB, "avoid": {"zone": "b"}}, {**DB, "name": "s", "run_on": {"zone": "a"}}
    carrier = workload(after(vm("db"), stays, leaves))

    planned = plan(snapshot(carrier, vm("web")), stays, {**leaves, "workloads": [{"name": "web"}]})

    writes = {write.target.name: write for write in planned.writes}
    written = workload(applied(dict(carrier.manifest), writes["db"]))
    assert set(read_ownership(written).rules) == {RuleId("shop", "default", "r")}


def label_writes(carrier: Workload, **options: t.Any) -> tuple[RulesPlan, Write]:
    """A plan about the label tier of a running VM, and its write of the VMI."""
    planned = plan(snapshot(carrier, run=[running(carrier)]), {**DB, **TIER}, **options)
    (write,) = (x for x in planned.writes if x.target.kind == "VirtualMachineInstance")
    return planned, write


def labelled(**labels: str) -> JSON:
    return {"metadata": {"name": "db", "uid": "vmi-db", "labels": labels}}


def test_label_is_set_on_a_vmi_whose_labels_have_changed_since() -> None:
    planned, write = label_writes(vm("db"))

    again = planned.recompute(write, labelled(team="x"))

    assert again is not None
    assert applied(labelled(team="x"), again) == labelled(team="x", tier="api")
    assert planned.recompute(write, labelled(team="x", tier="api")) is None


def test_label_is_taken_off_a_vmi_whose_labels_have_changed_since() -> None:
    carrier = workload(after(vm("db"), {**DB, **TIER}))
    planned, write = label_writes(carrier, state="absent")

    again = planned.recompute(write, labelled(team="x", tier="api"))

    assert again is not None
    assert applied(labelled(team="x", tier="api"), again) == labelled(team="x")
    assert planned.recompute(write, labelled(team="x")) is None


def test_rule_that_names_its_workload_by_another_label_has_an_undo_record_of_that_change() -> None:
    """The labels by which a rule names its workloads are in the annotation alone: its terms are the same."""
    rule = {"name": "r", "run_on": {"zone": "a"}}
    carrier = vm("db", labels={"tier": "api", "app": "db"})
    first = workload(after(carrier, {**rule, "workloads": [{"labels": {"tier": "api"}}]}))

    again = merged(first, {**rule, "workloads": [{"labels": {"app": "db"}}]})

    assert again.write is not None
    assert again.updated == (RuleId("shop", "default", "r"),)
    second = workload(applied(dict(first.manifest), again.write))
    record = read_undo_record(second)
    assert record is not None
    assert record.changes == {"shop/default": 2}
    assert record.rules == first.annotations[RULES]


def test_write_for_which_the_annotations_have_no_room_is_refused_before_it() -> None:
    def with_text(size: int) -> Workload:
        carrier = vm("db")
        carrier.manifest["metadata"]["annotations"] = {"example.com/text": "\u00e9" * (size // 2)}
        return carrier

    rule = {**DB, "run_on": {"zone": "a"}}
    assert merged(with_text(250 * 1024), rule).write is not None
    with pytest.raises(InvalidInput) as raised:
        merged(with_text(262_000), rule)
    (error,) = raised.value.errors
    assert "the annotations of VirtualMachine shop/db would have " in str(error)
    assert "at most 262144 are possible; the largest: example.com/text 262016, " in str(error)


FIELD = {"key": "metadata.name", "operator": "In", "values": ["w1"]}
OTHER_FIELD = {**FIELD, "values": ["w2"]}


@pytest.mark.parametrize(
    ("terms", "mark"),
    [
        ([{"matchFields": [FIELD]}, {"matchFields": [FIELD]}], r"#/matchExpressions"),
        ([*in_zones("b"), {"matchFields": [FIELD]}], r"#/matchExpressions"),
        (
            [{"matchFields": [FIELD], "matchExpressions": []}, {"matchFields": [OTHER_FIELD]}],
            r"#[0-9a-f]{10}/matchExpressions",
        ),
        ([{"matchFields": [FIELD], "matchExpressions": []}], ""),
        (in_zones("b"), ""),
    ],
)
def test_list_that_a_rule_adds_to_node_terms_goes_with_it(terms: JSON, mark: str) -> None:
    """It is told from an empty list of others by a digest, where there is one."""
    machine = vm("db", placement=node_affinity(terms))
    manifest = after(machine, {**DB, "run_on": {"zone": "a"}})
    created = [
        text for text in read_ownership(workload(manifest)).created if "nodeSelectorTerms/" in text
    ]
    assert len(created) == bool(mark)
    assert all(re.search(rf"/nodeSelectorTerms/{mark}$", text) for text in created)

    taken_out = merged(workload(manifest), {"name": "r"}, state="absent")

    assert taken_out.after == node_affinity(terms)


def test_list_that_a_rule_added_is_forgotten_while_another_rule_stays() -> None:
    other = {"name": "s", "workloads": ["db"], "terms": node_affinity([{"matchFields": [FIELD]}])}
    manifest = after(
        vm("db", placement=node_affinity([{"matchFields": [FIELD]}])),
        {**DB, "run_on": {"zone": "a"}},
        other,
    )
    taken_out = merged(workload(manifest), {"name": "r"}, state="absent")
    assert not [text for text in taken_out.ownership.created if "#" in text]
