# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules as labels and placement fields for objects that do not exist yet."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Platform
from ansible_collections.virt.placement.plugins.module_utils.repository.offline import render
from sandbox import objects
from tests.parsed import parsed

JSON = t.Any
POOL = {"harvesterhci.io/machineSetName": "default-c1-pool1"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APART: JSON = {"name": "apart", "workloads": [{"labels": POOL}], "keep_apart": "node"}
ZONES: JSON = {"name": "zones", "workloads": [{"labels": POOL}], "run_on": {"zone": ["a", "b"]}}


def rendered(*rules: JSON, **options: t.Any) -> list[JSON]:
    return render(parsed(rules), **options)


def test_rules_of_one_machine_pool_are_one_placement() -> None:
    (entry,) = rendered(APART, ZONES)

    assert (entry["kind"], entry["name"], entry["labels"]) == ("VirtualMachine", "", POOL)
    assert entry["rules"] == ["apart", "zones"]
    assert set(entry["placement"]) == {"affinity"}
    assert set(entry["placement"]["affinity"]) == {"podAntiAffinity", "nodeAffinity"}
    (term,) = entry["placement"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert term["mismatchLabelKeys"] == ["kubevirt.io/created-by"]
    (requirement,) = term["labelSelector"]["matchExpressions"]
    assert {requirement["key"]: requirement["values"][0]} == POOL


def test_fields_that_the_server_lacks_are_left_out() -> None:
    old = Platform(kubernetes=(1, 28), kubevirt="v1.1.0")

    (entry,) = rendered(APART, platform=old)

    (term,) = entry["placement"]["affinity"]["podAntiAffinity"][REQUIRED]
    assert set(term) == {"labelSelector", "topologyKey"}


def test_manifest_keeps_what_it_has_and_its_owner_does_not_matter() -> None:
    selector = {"nodeSelector": {"kubernetes.io/arch": "amd64"}}
    web = objects.deployment("web", "shop", placement=selector)
    web["metadata"]["labels"] = {"argocd.argoproj.io/instance": "shop"}
    kind = {"kind": "Deployment", "name": "web"}
    rule = {"name": "even", "workloads": [kind], "spread": "zone"}

    (entry,) = rendered(rule, manifests=[web])

    assert (entry["name"], entry["labels"]) == ("web", {})
    assert entry["placement"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    (constraint,) = entry["placement"]["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchExpressions"][0]["values"] == ["web"]


def test_label_of_a_rule_is_rendered_for_the_leader_and_the_term_for_the_follower() -> None:
    leader = {"name": "leader", "workloads": [{"name": "db"}], "label": {"app": "db"}}
    near = {"topology_key": "node", "with": {"name": "db"}}
    follower = {"name": "near", "workloads": [{"name": "web"}], "keep_together": near}

    db, web = rendered(leader, follower)

    assert (db["name"], db["labels"], db["placement"]) == ("db", {"app": "db"}, {})
    assert (web["name"], web["labels"]) == ("web", {})
    assert set(web["placement"]["affinity"]) == {"podAffinity"}


def test_workload_that_a_rule_cannot_be_written_to_has_no_entry() -> None:
    there = {"maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone"}
    constraint = {**there, "whenUnsatisfiable": "DoNotSchedule"}
    placement = {"topologySpreadConstraints": [constraint]}
    web = objects.deployment("web", "shop", placement=placement)
    kind = {"kind": "Deployment", "name": "web"}

    assert rendered({"name": "r", "workloads": [kind], "spread": "zone"}, manifests=[web]) == []
    assert rendered() == []
