# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rule that stands on a workload is read back with its terms in words."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.declared import (
    DeclaredReader,
    RuleTerms,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import written
from tests.unit.rules.builders import plan, snapshot, vm

TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
IDS = "vmi.kubevirt.io/id In (web-1, web-2)"


def read_back(rule: dict[str, t.Any], **options: t.Any) -> RuleTerms:
    """The rule `r` as it stands on VM web-1 after it was written to web-1 and web-2."""
    seen = snapshot(vm("web-1"), vm("web-2"), vm("db"))
    named = {"name": "r", "workloads": ["web-1", "web-2"], **rule}
    planned = plan(seen, named, **options)
    assert not planned.refused
    after = written(seen, planned.writes)
    (workload,) = (x for x in after.workloads if x.ref.name == "web-1")
    (terms,) = DeclaredReader().declared(workload).rules
    return terms


@pytest.mark.parametrize(
    ("rule", "texts"),
    [
        (
            {"run_on": {"performance": "high"}},
            ["node affinity performance In (high)"],
        ),
        (
            {"avoid": {"zone": "a"}},
            ["node affinity topology.kubernetes.io/zone NotIn (a)"],
        ),
        ({"keep_apart": "zone"}, [f"pod anti-affinity over zone to {IDS}"]),
        (
            {"keep_together": {"topology_key": "zone", "with": "db"}},
            ["pod affinity over zone to vmi.kubevirt.io/id In (db)"],
        ),
        ({"spread": "zone"}, [f"spread over zone of {IDS}, max_skew 1"]),
        ({"terms": {"tolerations": [TOLERATION]}}, ["toleration of gpu"]),
        ({"label": {"tier": "web"}}, ["label tier=web"]),
    ],
)
def test_a_required_rule(rule: dict[str, t.Any], texts: list[str]) -> None:
    terms = read_back(rule)

    assert terms.is_required == ("label" not in rule)
    assert terms.described(Topology.of()) == texts


@pytest.mark.parametrize(
    "rule",
    [
        {"run_on": {"performance": "high"}},
        {"avoid": {"performance": "high"}},
        {"keep_apart": "zone"},
        {"spread": "zone"},
    ],
)
def test_a_preferred_rule(rule: dict[str, t.Any]) -> None:
    terms = read_back({**rule, "preferred": True})

    assert not terms.is_required
    (text,) = terms.described(Topology.of())
    assert text.startswith("preferred ")


def test_raw_terms_of_two_kinds() -> None:
    anti_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
    both = {"tolerations": [TOLERATION], "affinity": {"podAntiAffinity": anti_affinity}}
    terms = read_back({"terms": both, "allow_findings": ["selector_matches_nothing"]})

    assert terms.is_required
    assert sorted(terms.described(Topology.of())) == [
        "pod anti-affinity over node to a In (b)",
        "toleration of gpu",
    ]
