# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that workloads carry, as the option `rules` would have them."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Workload
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import (
    UnreadableAnnotation,
    read_ownership,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership_index import (
    OwnershipIndex,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.stored_rules import StoredRules
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from sandbox import objects

from .builders import NAMESPACE, applied, deployment, plan, snapshot, vm, vmirs, workload

Object = dict[str, t.Any]
R = RuleId(NAMESPACE, "default", "r")


def cluster() -> list[Workload]:
    labels = {"app": "db"}
    found = [vm(name, labels=labels) for name in ("db1", "db2")]
    return [*found, vm("lead"), vm("web"), deployment("api"), deployment("cache"), vmirs("pool")]


def written(workloads: t.Sequence[Workload], *rules: Object) -> list[Workload]:
    """The workloads once the rules are written to them."""
    made = plan(snapshot(*workloads), *rules, workload_rollout="allow")
    assert not made.refused, made.refused
    writes = {write.target: write for write in made.writes}
    return [
        workload(applied(dict(each.manifest), writes[each.ref])) if each.ref in writes else each
        for each in workloads
    ]


def stored(workloads: t.Sequence[Workload]) -> StoredRules:
    seen = snapshot(*workloads)
    return StoredRules(OwnershipIndex.of(view_of(seen)), seen)


def declared(workloads: t.Sequence[Workload]) -> Object | None:
    return stored(workloads).declaration(R, Topology.of())


TOLERATION = {"key": "gpu", "operator": "Exists"}
OF_OTHERS = {"matchLabels": {"app": "x"}}
SAME: t.Mapping[str, Object] = {
    "run on": {"run_on": {"zone": "a"}},
    "run on several": {"run_on": {"zone": ["a", "b"], "example.com/rack": "r1"}},
    "preferred": {"avoid": {"zone": "a"}, "preferred": True, "weight": 7},
    "apart": {"keep_apart": "node"},
    "apart with a label": {"keep_apart": "zone", "label": {"tier": "x"}},
    "apart preferred": {"keep_apart": "zone", "preferred": True},
    "apart from": {"keep_apart": {"topology_key": "zone", "from": "lead"}},
    "apart from pods": {"keep_apart": {"topology_key": "zone", "pods": {"labels": {"app": "x"}}}},
    "with": {"keep_together": {"topology_key": "node", "with": "lead"}},
    "with, preferred": {
        "keep_together": {"topology_key": "node", "with": "lead"},
        "preferred": True,
        "weight": 3,
    },
    "together": {"keep_together": "zone"},
    "spread": {"spread": "zone"},
    "spread more": {"spread": {"topology_key": "zone", "max_skew": 2}, "preferred": True},
    "label": {"label": {"tier": "db"}},
    "tolerations": {"terms": {"tolerations": [TOLERATION]}},
    "fields": {
        "terms": {
            "nodeSelector": {"disk": "fast"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                            {"matchExpressions": [{"key": "b", "operator": "Gt", "values": ["1"]}]},
                        ]
                    }
                },
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "kubernetes.io/hostname", "labelSelector": OF_OTHERS}
                    ]
                },
            },
        }
    },
}


@pytest.mark.parametrize("options", SAME.values(), ids=SAME)
def test_rule_of_vms_is_declared_as_it_was(options: Object) -> None:
    rule = {"name": "r", "workloads": ["db1", "db2"], **options}
    if "keep_together" in options:
        rule["workloads"] = ["web"] if options["keep_together"] != "zone" else ["db1", "db2"]
    allowed = ["mutual_affinity", "no_node_has_key", "selector_matches_nothing"]
    carrying = written(cluster(), {**rule, "allow_findings": allowed})
    assert declared(carrying) == rule
    again = plan(snapshot(*carrying), {**rule, "allow_findings": allowed}, workload_rollout="allow")
    assert again.writes == ()


OTHERWISE: t.Mapping[str, Object] = {
    "by labels": {"workloads": [{"labels": {"app": "db"}}], "keep_apart": "node"},
    "a deployment": {"workloads": [{"kind": "Deployment", "name": "api"}], "keep_apart": "node"},
    "two deployments": {
        "workloads": [{"kind": "Deployment", "names": ["api", "cache"]}],
        "keep_apart": "zone",
    },
    "a spread deployment": {
        "workloads": [{"kind": "Deployment", "name": "api"}],
        "spread": "zone",
    },
    "kinds mixed": {
        "workloads": ["db1", {"kind": "Deployment", "name": "api"}],
        "keep_apart": "zone",
    },
    "beside a deployment": {
        "workloads": [{"kind": "Deployment", "name": "api"}],
        "keep_together": {"topology_key": "zone", "with": {"kind": "Deployment", "name": "cache"}},
    },
    "a replica set": {
        "workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "pool"}],
        "keep_apart": "node",
    },
    "from several": {
        "workloads": ["web"],
        "keep_apart": {
            "topology_key": "node",
            "from": ["lead", {"kind": "Deployment", "name": "api"}],
        },
    },
}


@pytest.mark.parametrize("options", OTHERWISE.values(), ids=OTHERWISE)
def test_declaration_changes_nothing_where_it_is_written(options: Object) -> None:
    rule = {"name": "r", **options}
    carrying = [*written(cluster(), rule)]
    found = declared(carrying)
    assert found is not None and not {"terms"} & {*found}
    assert plan(snapshot(*carrying), found).writes == ()


def test_rule_that_rests_or_lost_its_terms_is_declared_as_it_was() -> None:
    rule = {"name": "r", "workloads": ["db1", "db2"], "run_on": {"zone": "a"}}
    carrying = written(cluster(), rule)
    resting = written(carrying, {**rule, "enabled": False})
    assert declared(resting) == {**rule, "enabled": False}
    by_name = written(carrying, {"name": "r", "enabled": False})
    assert declared(by_name) == {**rule, "enabled": False}
    for each in carrying[:2]:
        Pointer(("spec", "template", "spec")).read(dict(each.manifest)).pop("affinity")
    assert declared(carrying) == rule
    assert declared([]) is None


@pytest.mark.parametrize("by", ["names", "labels"])
def test_declaration_is_not_guessed_from_terms(by: str) -> None:
    """The terms are those of a rule of another type, and the target's those of its own labels."""
    target = {"names": ["db1", "db2"]} if by == "names" else {"labels": {"app": "db"}}
    apart = {"keep_apart": {"topology_key": "zone", "from": target}}
    for options in ({"terms": {"affinity": ZONE_A}}, apart):
        rule = {"name": "r", "workloads": ["web"], **options}
        assert declared(written(cluster(), rule)) == rule


ZONE_A = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
                    ]
                }
            ]
        }
    }
}


def test_second_run_writes_nothing_and_another_declaration_of_the_terms_is_an_update() -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    carrying = written(cluster(), rule)
    assert plan(snapshot(*carrying), rule).writes == ()
    other = {"name": "r", "workloads": ["db1"], "run_on": {"zone": ["a", "a"]}}
    assert plan(snapshot(*carrying), other).writes == ()


def with_content(each: Workload, change: t.Callable[[Object], object]) -> Workload:
    manifest = copy.deepcopy(dict(each.manifest))
    annotations = manifest["metadata"]["annotations"]
    content = json.loads(annotations[RULES])
    change(content)
    annotations[RULES] = json.dumps(content)
    return workload(manifest)


def with_options(each: Workload, options: object) -> Workload:
    """The workload with other options of the rule in its annotation; without any for None."""

    def change(content: Object) -> None:
        content["rules"][str(R)]["declared"] = options
        if options is None:
            del content["rules"][str(R)]["declared"]

    return with_content(each, change)


ZONE = "topology.kubernetes.io/zone"
REFUSED: t.Mapping[str, Object] = {
    "no label value": {"run_on": {ZONE: "{{ x }}"}},
    "wrong type": {"run_on": 7},
    "other namespace": {"keep_together": {"topology_key": ZONE, "with": {"namespace": "/"}}},
    "a label of ours": {"label": {"placement.virt/do-not-move": "true"}},
}


@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_options_that_the_module_refuses_are_no_declaration(options: Object) -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    first, *others = written(cluster(), rule)
    tampered = with_options(first, options)
    assert declared([tampered, *others]) is None
    made = plan(snapshot(tampered, *others), rule)
    assert [write.target for write in made.writes] == [first.ref]
    assert declared(written([tampered, *others], rule)) == rule


def test_workloads_with_different_options_have_no_declaration() -> None:
    rule = {"name": "r", "workloads": ["db1", "db2"], "run_on": {"zone": "a"}}
    first, *others = written(cluster(), rule)
    value = with_options(first, {"run_on": {ZONE: "b"}})
    assert (declared([value, *others]), stored([value, *others]).type_name(R)) == (None, "run_on")
    other = with_options(first, {"avoid": {ZONE: "a"}})
    assert (declared([other, *others]), stored([other, *others]).type_name(R)) == (None, None)


DAMAGED: t.Mapping[str, tuple[object, str]] = {
    "option": ({"spread": "a/b", "workloads": ["db2"]}, "'workloads' is no option of a rule"),
    "none": (None, f"rule {R} has no type"),
    "no type": ({"preferred": True}, f"rule {R} has no type"),
    "two types": ({"run_on": {ZONE: "a"}, "spread": "zone"}, f"rule {R} has several types"),
    "preferred": ({"spread": ZONE, "preferred": "<b>"}, "neither true nor false"),
    "form": (3, "a value in it has a wrong type"),
    "text": ("spread", "is no option of a rule"),
}


@pytest.mark.parametrize(("options", "why"), DAMAGED.values(), ids=DAMAGED)
def test_rule_without_a_type_damages_the_annotation(options: object, why: str) -> None:
    """It is a finding and no guess: the terms are those of a rule run_on."""
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    first, *others = written(cluster(), rule)
    damaged = with_options(first, options)
    with pytest.raises(UnreadableAnnotation, match=why):
        read_ownership(damaged)
    assert declared([damaged, *others]) is None
    with pytest.raises(InvalidInput, match="is damaged"):
        plan(snapshot(damaged, *others), rule)


def test_rule_is_preferred_where_its_options_say_so() -> None:
    rule = {"name": "r", "workloads": ["db1"], "run_on": {"zone": "a"}}
    first, *_others = written(cluster(), rule)
    for preferred in (True, False):
        changed = with_options(first, {"run_on": {ZONE: "a"}, "preferred": preferred})
        assert stored([changed]).is_preferred(R) is preferred


def test_label_that_others_set_on_a_target_of_another_namespace_is_no_part_of_the_rule() -> None:
    """The annotation would have a rule of another namespace without a term, which is damage."""
    targets = []
    for name in ("api", "cache"):
        manifest = objects.deployment(name, "other")
        manifest["spec"]["selector"] = {"matchLabels": {name: "x"}}
        manifest["spec"]["template"]["metadata"]["labels"] = {name: "x"}
        targets.append(workload(manifest))
    names = {"kind": "Deployment", "namespace": "other", "names": ["api", "cache"]}
    rule = {
        "name": "r",
        "workloads": ["web"],
        "keep_apart": {"topology_key": "zone", "from": [names]},
    }
    web, api, cache = written([vm("web"), *targets], rule)
    assert [*read_ownership(api).rules] == [R]
    manifest = copy.deepcopy(dict(api.manifest))
    del manifest["metadata"]["annotations"]  # as the advice about a damaged one says
    found = written([web, workload(manifest), cache], rule)
    assert [[*read_ownership(x).rules] for x in found] == [[R], [], [R]]


def test_label_on_a_target_of_the_rule_makes_it_no_workload_of_it() -> None:
    rule = {
        "name": "r",
        "workloads": ["web"],
        "keep_apart": {
            "topology_key": "zone",
            "from": [{"kind": "Deployment", "names": ["api", "cache"]}],
        },
    }
    found = declared(written(cluster(), rule))
    assert found is not None and found["workloads"] == ["web"]
    target = {"kind": "Deployment", "names": ["api", "cache"]}
    assert found["keep_apart"] == {"topology_key": "zone", "from": target}


def test_rule_named_alone_keeps_the_labels_that_choose_its_workloads() -> None:
    by_labels = [{"labels": {"app": "db"}}]
    rule = {
        "name": "r",
        "workloads": by_labels,
        "keep_apart": {"topology_key": "zone", "from": "web"},
    }
    carrying = written(cluster(), rule)
    resting = written(carrying, {"name": "r", "enabled": False})
    assert declared(resting) == {**rule, "enabled": False}
    assert declared(written(resting, rule)) == rule


def test_long_options_are_stored() -> None:
    values = [f"{number:063}" for number in range(200)]
    rule = {"name": "r", "workloads": ["db1"], "avoid": {"zone": values}}
    carrying = written(cluster(), rule)
    assert declared(carrying) == rule
    assert plan(snapshot(*carrying), rule).writes == ()


def test_long_rule_that_is_written_can_be_changed_and_removed() -> None:
    """The undo record of a change has the annotation and the terms before it."""
    values = [f"{number:063}" for number in range(2200)]
    rule = {"name": "r", "workloads": ["db1"], "allow_findings": ["no_node_has_key"]}
    with pytest.raises(InvalidInput, match="declare shorter rules, of at most 65536 bytes"):
        written([vm("db1")], {**rule, "avoid": {"zone": values}})
    carrying = written([vm("db1")], {**rule, "avoid": {"zone": values[:900]}})
    changed = written(carrying, {**rule, "avoid": {"zone": values[1:900]}})
    removed = plan(snapshot(*changed), {"name": "r"}, state="absent")
    assert [x.target for x in removed.writes] == [changed[0].ref]


def test_stored_key_without_prefix_needs_no_topology_key() -> None:
    rule = {"name": "r", "workloads": ["db1"], "avoid": {"performance": "a"}}
    carrying = written(cluster(), {**rule, "allow_findings": ["no_node_has_key"]})
    assert stored(carrying).type_name(R) == "avoid"
    assert stored(carrying).declaration(R, Topology({})) == rule


def test_stored_key_that_is_the_name_of_another_key_is_no_declaration() -> None:
    """Nodes may have a label `zone`. Without its topology_keys the rule would be about topology.kubernetes.io/zone."""
    rule = {"name": "r", "workloads": ["db1"], "avoid": {"zone": "a"}}
    own = {"zone": "zone"}
    (carrying,) = written([vm("db1")], {**rule, "allow_findings": ["no_node_has_key"]})
    carrying = with_options(carrying, {"avoid": {"zone": ["a"]}})
    assert stored([carrying]).declaration(R, Topology.of(own)) == rule
    assert stored([carrying]).declaration(R, Topology.of()) is None
