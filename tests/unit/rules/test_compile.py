# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The compile table: one case for each verb, kind and form."""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.compile import compile_rule
from ansible_collections.virt.placement.plugins.module_utils.rules.members import (
    GroupSelectorBuilder,
    resolve,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership import read_ownership
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of

from .builders import deployment, plan, request, running, snapshot, stateful_set, vm, vmirs

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
CREATED_BY: dict[str, JSON] = {"mismatchLabelKeys": ["kubevirt.io/created-by"]}
REVISION: dict[str, JSON] = {"matchLabelKeys": ["pod-template-hash"]}


def _in(key: str, *values: str) -> JSON:
    return {"key": key, "operator": "In", "values": list(values)}


def _pods(*expressions: JSON, over: str = ZONE, **more: JSON) -> JSON:
    return {
        "labelSelector": {"matchExpressions": list(expressions)},
        "topologyKey": over,
        **more,
    }


def _written(carrier: Workload, rule: JSON, *others: Workload, **options: JSON) -> JSON:
    """What the template's placement fields become by one rule."""
    seen = snapshot(carrier, *others, **options)
    found = plan(seen, {"name": "r", **rule}, workload_rollout="allow")
    change = next(each for each in found.workloads if each.ref == carrier.ref)
    return change.merged.after


DB = _in("kubevirt.io/domain", "db")
WEB = _in("app", "web")
IDS = _in("vmi.kubevirt.io/id", "a", "b")
DB_REF = {"kind": "VirtualMachineInstanceReplicaSet", "name": "db"}
WEB_REF = {"kind": "Deployment", "name": "web"}
AB = {"names": ["a", "b"]}


def _anti(*terms: JSON) -> JSON:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def _nodes(*expressions: JSON) -> JSON:
    terms = [{"matchExpressions": list(expressions)}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(
            {"run_on": {"performance": "high", "zone": ["a", "b"]}},
            _nodes(_in("performance", "high"), _in(ZONE, "a", "b")),
            id="run_on",
        ),
        pytest.param(
            {"run_on": {"performance": "high", "zone": "a"}, "preferred": True, "weight": 7},
            {
                "affinity": {
                    "nodeAffinity": {
                        PREFERRED: [
                            {
                                "weight": 7,
                                "preference": {
                                    "matchExpressions": [_in("performance", "high"), _in(ZONE, "a")]
                                },
                            }
                        ]
                    }
                }
            },
            id="run_on preferred",
        ),
        pytest.param(
            {"avoid": {"performance": "high"}},
            _nodes({"key": "performance", "operator": "NotIn", "values": ["high"]}),
            id="avoid",
        ),
        pytest.param(
            {"avoid": {"performance": "high"}, "preferred": True},
            {
                "affinity": {
                    "nodeAffinity": {
                        PREFERRED: [
                            {
                                "weight": 100,
                                "preference": {
                                    "matchExpressions": [
                                        {
                                            "key": "performance",
                                            "operator": "NotIn",
                                            "values": ["high"],
                                        }
                                    ]
                                },
                            }
                        ]
                    }
                }
            },
            id="avoid preferred",
        ),
        pytest.param(
            {"keep_apart": {"topology_key": "zone"}},
            _anti(_pods(DB, **CREATED_BY)),
            id="keep_apart",
        ),
        pytest.param(
            {"keep_apart": {"topology_key": "node"}, "preferred": True, "weight": 3},
            {
                "affinity": {
                    "podAntiAffinity": {
                        PREFERRED: [
                            {"weight": 3, "podAffinityTerm": _pods(DB, over=HOST, **CREATED_BY)}
                        ]
                    }
                }
            },
            id="keep_apart preferred",
        ),
        pytest.param(
            {"keep_apart": {"topology_key": "zone", "from": [WEB_REF, AB]}},
            _anti(_pods(WEB), _pods(IDS)),
            id="keep_apart from others",
        ),
        pytest.param(
            {"keep_apart": {"topology_key": "zone", "from": {**AB, "namespace": "other"}}},
            _anti(_pods(_in("vmi.kubevirt.io/id", "a", "b"), namespaces=["other"])),
            id="keep_apart from another namespace",
        ),
        pytest.param(
            {
                "keep_apart": {
                    "topology_key": "zone",
                    "pods": {"labels": {"x": "y"}, "namespaces": ["shop", "other"]},
                }
            },
            _anti(_pods(_in("x", "y")), _pods(_in("x", "y"), namespaces=["other"])),
            id="keep_apart from pods",
        ),
        pytest.param(
            {
                "keep_apart": {
                    "topology_key": "zone",
                    "pods": {"labels": {"kubevirt.io/domain": "db"}},
                }
            },
            _anti(_pods(DB, **CREATED_BY)),
            id="keep_apart from pods that are its own too",
        ),
        pytest.param(
            {
                "keep_apart": {
                    "topology_key": "zone",
                    "pods": {"labels": {"kubevirt.io/domain": "db"}, "namespaces": ["other"]},
                }
            },
            _anti(_pods(DB, namespaces=["other"])),
            id="keep_apart from pods of another namespace with the labels of its own",
        ),
        pytest.param(
            {"keep_together": {"topology_key": "node", "with": WEB_REF}},
            {"affinity": {"podAffinity": {REQUIRED: [_pods(WEB, over=HOST)]}}},
            id="keep_together",
        ),
        pytest.param(
            {"keep_together": {"topology_key": "node", "with": {"name": "a"}}, "preferred": True},
            {
                "affinity": {
                    "podAffinity": {
                        PREFERRED: [
                            {
                                "weight": 100,
                                "podAffinityTerm": _pods(_in("vmi.kubevirt.io/id", "a"), over=HOST),
                            }
                        ]
                    }
                }
            },
            id="keep_together with preferred",
        ),
        pytest.param(
            {"keep_together": {"topology_key": "zone"}},
            {"affinity": {"podAffinity": {REQUIRED: [_pods(DB)]}}},
            id="keep_together among itself",
        ),
        pytest.param(
            {"spread": {"topology_key": "zone", "max_skew": 2}},
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 2,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchExpressions": [DB]},
                        "nodeTaintsPolicy": "Honor",
                    }
                ]
            },
            id="spread",
        ),
        pytest.param(
            {"spread": {"topology_key": "zone"}, "preferred": True},
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": {"matchExpressions": [DB]},
                        "nodeTaintsPolicy": "Honor",
                    }
                ]
            },
            id="spread preferred",
        ),
    ],
)
def test_a_verb_becomes_its_terms(rule: JSON, expected: JSON) -> None:
    db, web = vmirs("db"), deployment("web")
    there = [vm("a"), vm("b")]
    for name in ("a", "b"):
        other = vm(name)
        other.manifest["metadata"]["namespace"] = "other"
        there.append(_moved(other))
    assert _written(db, {"workloads": [DB_REF], **rule}, web, *there) == expected


def _moved(workload: Workload) -> Workload:
    name = workload.ref.name
    return Workload(Ref(workload.ref.kind, "other", name), f"other-{name}", workload.manifest)


def test_terms_are_taken_as_they_are() -> None:
    terms = {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "x", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {REQUIRED: [_pods(DB)]}},
    }
    written = _written(vmirs("db"), {"workloads": [DB_REF], "terms": terms})
    assert written == terms


def test_one_required_node_term_is_and_ed_into_those_that_are_there() -> None:
    there = _nodes(_in("arch", "amd64"))
    db = vmirs("db", placement=there)
    terms = _nodes(_in(ZONE, "a"))
    written = _written(db, {"workloads": [DB_REF], "terms": terms})
    assert written == _nodes(_in("arch", "amd64"), _in(ZONE, "a"))


def test_revisions_of_a_deployment_are_not_kept_apart() -> None:
    rule = {"workloads": [WEB_REF], "keep_apart": {"topology_key": "node"}}
    assert _written(deployment("web"), rule) == _anti(_pods(WEB, over=HOST, **REVISION))


def test_a_deployment_among_others_needs_a_term_for_each_of_them() -> None:
    """With matchLabelKeys a term sees no pod but those of its own revision."""
    web, api, db = deployment("web"), deployment("api"), vmirs("db")
    rule = {
        "workloads": [{"kind": "Deployment", "names": ["web", "api"]}, DB_REF, AB],
        "keep_apart": {"topology_key": "zone"},
    }
    written = _written(web, rule, api, db, vm("a"), vm("b"))
    assert written == _anti(_pods(WEB, **REVISION), _pods(_in("app", "api")), _pods(DB), _pods(IDS))


SETS: JSON = {"kind": "StatefulSet", "names": ["pg", "mq"]}


def test_all_revisions_of_a_stateful_set_are_kept_apart() -> None:
    """A replica is created once its old pod is gone: nothing has to be left out, not even by an old server."""
    pg = stateful_set("pg")
    rule = {"name": "r", "workloads": [{**SETS, "names": ["pg"]}], "keep_apart": "zone"}
    old = snapshot(pg, platform=Platform(kubernetes=(1, 30), kubevirt="v1.8.4"))
    found = plan(old, rule, workload_rollout="allow")
    assert not found.refused
    assert found.workloads[0].merged.after == _anti(_pods(_in("app", "pg")))


def test_spread_of_a_stateful_set_counts_all_revisions() -> None:
    rule = {"workloads": [{**SETS, "names": ["pg"]}], "spread": {"topology_key": "zone"}}
    (constraint,) = _written(stateful_set("pg"), rule)["topologySpreadConstraints"]
    assert constraint["labelSelector"] == {"matchExpressions": [_in("app", "pg")]}
    assert "matchLabelKeys" not in constraint


def test_stateful_sets_are_kept_apart_by_one_term() -> None:
    rule = {"workloads": [SETS], "keep_apart": "zone"}
    written = _written(stateful_set("pg"), rule, stateful_set("mq"))
    assert written == _anti(_pods(_in("app", "mq", "pg")))


def test_stateful_set_and_deployment_are_kept_apart() -> None:
    rule = {"workloads": [{**SETS, "names": ["pg"]}, WEB_REF], "keep_apart": "zone"}
    pg, web = stateful_set("pg"), deployment("web")
    assert _written(pg, rule, web) == _anti(_pods(_in("app", "pg", "web")))
    assert _written(web, rule, pg) == _anti(_pods(WEB, **REVISION), _pods(_in("app", "pg")))


@pytest.mark.parametrize(
    ("platform", "lacking"),
    [
        (Platform(kubernetes=(1, 30), kubevirt="v1.8.4"), "mismatchLabelKeys"),
        (Platform(kubernetes=(1, 34), kubevirt="v1.2.0"), "mismatchLabelKeys"),
    ],
)
def test_fields_that_the_server_lacks_are_left_out_and_reported(
    platform: Platform, lacking: str
) -> None:
    rule = {"name": "r", "workloads": [DB_REF], "keep_apart": {"topology_key": "zone"}}
    found = plan(snapshot(vmirs("db"), platform=platform), rule)
    assert [(f.name, f.severity) for f in found.refused] == [("unsupported_by_server", "error")]
    assert lacking in found.refused[0].why
    assert found.workloads[0].merged.after == _anti(_pods(DB))
    wish = plan(snapshot(vmirs("db"), platform=platform), {**rule, "preferred": True})
    assert not wish.refused


def test_match_label_keys_that_the_server_does_not_know_are_left_out_and_reported() -> None:
    rule = {"name": "r", "workloads": [WEB_REF], "keep_apart": {"topology_key": "zone"}}
    seen = snapshot(deployment("web"), platform=Platform(kubernetes=(1, 30), kubevirt="v1.8.4"))

    changed = plan(seen, rule, workload_rollout="allow")

    refused = {finding.name: finding.why for finding in changed.refused}
    assert refused.keys() == {"unsupported_by_server", "rollout_deadlock"}
    assert "matchLabelKeys" in refused["unsupported_by_server"]
    assert changed.workloads[0].merged.after == _anti(_pods(WEB))


def test_the_label_of_a_rule_selects_its_group() -> None:
    label = {"harvesterhci.io/machineSetName": "pool1"}
    rule = {"name": "r", "workloads": [AB], "label": label, "keep_apart": {"topology_key": "node"}}
    found = plan(snapshot(vm("a"), vm("b"), run=[running(vm("a"))]), rule)
    for change in found.workloads:
        terms = change.merged.after["affinity"]["podAntiAffinity"][REQUIRED]
        expression = _in("harvesterhci.io/machineSetName", "pool1")
        assert terms == [_pods(expression, over=HOST, **CREATED_BY)]
    assert [write.target.kind for write in found.writes] == [
        "VirtualMachine",
        "VirtualMachine",
        "VirtualMachineInstance",
        "Pod",
    ]


def test_workloads_given_by_labels_are_selected_by_them() -> None:
    machines = [vm(name, labels={"tier": "web", "x": name}) for name in ("a", "b")]
    rule = {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}}
    assert _written(machines[0], rule, machines[1]) == _anti(
        _pods(_in("tier", "web"), **CREATED_BY)
    )


def test_deployment_given_by_labels_is_selected_by_them() -> None:
    carrier = deployment("web", labels={"app": "web", "tier": "front"})
    rule = {
        "workloads": [{"kind": "Deployment", "labels": {"tier": "front"}}],
        "keep_apart": {"topology_key": "zone"},
    }
    assert _written(carrier, rule) == _anti(_pods(_in("tier", "front"), **REVISION))


def test_replica_sets_of_one_key_share_a_selector() -> None:
    kind = "VirtualMachineInstanceReplicaSet"
    rule = {
        "workloads": [{"kind": kind, "names": ["db", "dc"]}],
        "keep_apart": {"topology_key": "zone"},
    }
    expression = _in("kubevirt.io/domain", "db", "dc")
    assert _written(vmirs("db"), rule, vmirs("dc")) == _anti(_pods(expression, **CREATED_BY))


def test_mixed_kinds_get_a_label_of_ours() -> None:
    rule = {"name": "r", "workloads": [DB_REF, AB], "spread": {"topology_key": "zone"}}
    found = plan(snapshot(vmirs("db"), vm("a"), vm("b")), rule)
    keys = set()
    for change in found.workloads:
        constraint = change.merged.after["topologySpreadConstraints"][0]
        keys |= {each["key"] for each in constraint["labelSelector"]["matchExpressions"]}
        operations = change.merged.write.operations if change.merged.write else ()
        assert any("placement.virt~1group-" in str(op.pointer) for op in operations)
    assert len(keys) == 1
    assert keys.pop().startswith("placement.virt/group-")


@pytest.mark.parametrize(("kubernetes", "policy"), [((1, 25), None), ((1, 26), "Honor")])
def test_spread_honors_taints_since_kubernetes_1_26(
    kubernetes: tuple[int, int], policy: str | None
) -> None:
    platform = Platform(kubernetes=kubernetes, kubevirt="v1.8.4")
    rule = {"name": "r", "workloads": [DB_REF], "spread": {"topology_key": "zone"}}
    (change,) = plan(snapshot(vmirs("db"), platform=platform), rule).workloads
    (constraint,) = change.merged.after["topologySpreadConstraints"]
    assert constraint.get("nodeTaintsPolicy") == policy


@pytest.mark.parametrize(
    ("kubernetes", "more", "keys"),
    [
        ((1, 36), {}, ["pod-template-hash"]),
        ((1, 26), {}, None),
        ((1, 36), {"label": {"tier": "web"}}, None),
    ],
)
def test_spread_of_one_deployment_counts_pods_of_one_revision(
    kubernetes: tuple[int, int], more: dict[str, t.Any], keys: list[str] | None
) -> None:
    platform = Platform(kubernetes=kubernetes, kubevirt="v1.8.4")
    kind = {"kind": "Deployment", "name": "web"}
    rule = {"name": "r", "workloads": [kind], "spread": "zone", **more}
    seen = snapshot(deployment("web"), platform=platform)
    (change,) = plan(seen, rule, workload_rollout="allow").workloads
    (constraint,) = change.merged.after["topologySpreadConstraints"]
    assert constraint.get("matchLabelKeys") == keys


def test_unknown_kubevirt_version_gets_mismatch_label_keys() -> None:
    platform = Platform(kubernetes=(1, 34), kubevirt="")
    rule = {"name": "r", "workloads": [DB_REF], "keep_apart": {"topology_key": "zone"}}
    (change,) = plan(snapshot(vmirs("db"), platform=platform), rule).workloads
    (term,) = change.merged.after["affinity"]["podAntiAffinity"][REQUIRED]
    assert term["mismatchLabelKeys"] == ["kubevirt.io/created-by"]


def test_rule_type_without_a_branch_in_terms_for_is_an_error() -> None:
    seen = snapshot(vm("db"))
    (rule,) = request({"name": "r", "workloads": [{"name": "db"}], "spread": "zone"}).rules
    unknown = replace(rule, rule_type=t.cast(t.Any, "unknown"))
    view = view_of(seen)
    selectors = GroupSelectorBuilder(view, read_ownership)
    with pytest.raises(AssertionError, match="add it to terms_for"):
        compile_rule(resolve(unknown, view, []), selectors)
