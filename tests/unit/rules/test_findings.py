# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands against a rule, and that it says so before anything is written."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.flows.rules import (
    more_than_migration,
    with_restarts,
)
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint_of_writes
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    Finding,
    InvalidInput,
    sentences,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Unreadable,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.checks import how_to_accept
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from tests.support.facts import CONTROL_PLANE, node
from tests.unit.lint.rule_examples import with_rule

from .builders import (
    NAMESPACE,
    NODES,
    applied,
    deployment,
    plan,
    request,
    running,
    snapshot,
    stateful_set,
    vm,
    vmirs,
    workload,
)

JSON = t.Any
AB = [{"names": ["a", "b"]}]
ZONE = "topology.kubernetes.io/zone"


def _machines(**options: t.Any) -> Snapshot:
    return snapshot(vm("a"), vm("b"), **options)


def _names(seen: Snapshot, *rules: JSON, **options: t.Any) -> list[tuple[str, str]]:
    found = plan(seen, *({"name": "r", "workloads": AB, **rule} for rule in rules), **options)
    return [(f.name, f.severity) for f in found.findings if f.severity != "info"]


@pytest.mark.parametrize(
    ("rule", "severity"),
    [
        ({"keep_apart": {"topology_key": "example.com/rack"}}, "error"),
        ({"keep_apart": {"topology_key": "example.com/rack"}, "preferred": True}, "warning"),
        ({"keep_together": {"topology_key": "topology.kubernetes.io/hostname"}}, "error"),
        ({"spread": {"topology_key": "example.com/rack"}}, "error"),
        ({"run_on": {"example.com/rack": "r1"}}, "error"),
        ({"avoid": {"example.com/rack": "r1"}}, "warning"),
        ({"terms": {"nodeSelector": {"example.com/rack": "r1"}}}, "error"),
        (
            {
                "terms": {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "example.com/rack",
                            "whenUnsatisfiable": "DoNotSchedule",
                        }
                    ]
                }
            },
            "error",
        ),
    ],
)
def test_a_no_node_has_key(rule: JSON, severity: str) -> None:
    assert dict(_names(_machines(), rule))["no_node_has_key"] == severity


def test_a_topology_nodes_lack_key_that_take_pods() -> None:
    bare = node("w9")
    control_plane = node("cp", taints=(CONTROL_PLANE,))
    seen = _machines(nodes=(*NODES, bare, control_plane))
    found = plan(seen, {"name": "r", "workloads": AB, "keep_apart": {"topology_key": "zone"}})
    (finding,) = found.findings
    assert (finding.name, finding.severity) == ("nodes_lack_key", "warning")
    assert finding.why.startswith("w9 would take its pods and lack the label")
    assert [ref.name for ref in finding.objects] == ["a", "b"]
    assert not _names(
        _machines(nodes=(*NODES, control_plane)), {"keep_apart": {"topology_key": "zone"}}
    )


def test_nodes_that_cannot_be_read_are_no_nodes_without_the_key() -> None:
    gap = Unreadable("nodes", "", "list", "no right")
    names = _names(_machines(nodes=(), unreadable=(gap,)), {"keep_apart": {"topology_key": "zone"}})
    assert names == [("check_skipped", "warning")]


def test_allow_findings_lets_an_error_pass_for_its_rule_alone() -> None:
    rule = {"workloads": AB, "run_on": {"example.com/rack": "r1"}}
    allowed = {**rule, "name": "one", "allow_findings": ["no_node_has_key"]}
    assert not plan(_machines(), allowed).refused
    other = {"workloads": AB, "run_on": {"example.com/rack": "r2"}, "name": "two"}
    refused = [f for f in plan(_machines(), allowed, other).refused if f.name == "no_node_has_key"]
    assert [finding.rule for finding in refused] == ["two"]


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        pytest.param(
            [{"keep_together": {"topology_key": "node"}}],
            [("mutual_affinity", "error")],
            id="all of them",
        ),
        pytest.param(
            [{"keep_together": {"topology_key": "zone"}}],
            [("mutual_affinity", "warning")],
            id="zones have room",
        ),
        pytest.param(
            [{"keep_together": {"topology_key": "node"}, "preferred": True}], [], id="a wish"
        ),
        pytest.param(
            [
                {
                    "workloads": [{"name": "a"}],
                    "keep_together": {"topology_key": "node", "with": {"name": "b"}},
                }
            ],
            [],
            id="with one of them",
        ),
        pytest.param(
            [
                {
                    "workloads": [{"name": "a"}],
                    "keep_together": {"topology_key": "node", "with": {"name": "b"}},
                },
                {
                    "workloads": [{"name": "b"}],
                    "keep_together": {"topology_key": "node", "with": {"name": "a"}},
                    "name": "s",
                },
            ],
            [("mutual_affinity", "error"), ("mutual_affinity", "error")],
            id="two rules",
        ),
    ],
)
def test_vms_with_affinity_to_each_other_on_one_node(
    rules: list[JSON], names: list[tuple[str, str]]
) -> None:
    assert _names(_machines(), *rules) == names


@pytest.mark.parametrize(("key", "effect"), [("node", "restart"), ("zone", "migration")])
def test_vms_that_need_each_other_on_one_node_take_a_restart_since_they_cannot_migrate(
    key: str, effect: str
) -> None:
    a, b = vm("a"), vm("b")
    rule = {
        "name": "r",
        "workloads": AB,
        "keep_together": {"topology_key": key},
        "allow_findings": ["mutual_affinity"],
    }
    found = with_restarts(plan(snapshot(a, b, run=map(running, (a, b))), rule))

    assert {change.ref.name: change.takes_effect for change in found.workloads} == {
        "a": effect,
        "b": effect,
    }
    assert ("set allow of rollout to [migrate, restart]" in str(more_than_migration(found))) == (
        effect == "restart"
    )


def test_replicas_of_a_deployment_may_need_each_other() -> None:
    rule = {
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "keep_together": {"topology_key": "node"},
    }
    assert not _names(snapshot(deployment("web", replicas=0)), rule)


def test_a_second_required_keep_together() -> None:
    one = {
        "workloads": [{"name": "a"}],
        "keep_together": {"topology_key": "zone", "with": {"name": "b"}},
    }
    two = {
        "workloads": [{"name": "a"}],
        "keep_together": {"topology_key": "zone", "with": {"name": "c"}},
        "name": "s",
    }
    seen = snapshot(vm("a"), vm("b"), vm("c"))
    assert _names(seen, one, two) == [("multiple_required_affinity", "error")] * 2
    assert not _names(seen, one, {**two, "preferred": True})


@pytest.mark.parametrize(
    ("manifest", "severity"),
    [({"replicas": 3}, "error"), ({"replicas": 0}, None), ({"paused": True}, None), ({}, "error")],
)
def test_deployment_starts_its_own_rollout(manifest: JSON, severity: str | None) -> None:
    web = deployment("web")
    web.manifest["spec"].pop("replicas")
    web.manifest["spec"].update(manifest)
    rule = {"workloads": [{"kind": "Deployment", "name": "web"}], "avoid": {"zone": "a"}}
    expected = [("starts_workload_rollout", severity)] if severity else []
    assert _names(snapshot(web), rule) == expected
    assert not _names(snapshot(web), rule, workload_rollout="allow")


def _partition(number: int) -> JSON:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": number}}}


@pytest.mark.parametrize(
    ("spec", "refused", "effect"),
    [
        ({}, True, "workload_rollout"),
        (_partition(2), True, "workload_rollout"),
        (_partition(3), False, "workload_rollout"),
        ({"updateStrategy": {"type": "OnDelete"}}, False, "recreate"),
        ({"replicas": 0}, False, "start"),
    ],
)
def test_stateful_set_starts_its_own_rollout_unless_its_strategy_waits(
    spec: JSON, refused: bool, effect: str
) -> None:
    found = stateful_set("pg")
    found.manifest["spec"].update(spec)
    rule = {"workloads": [{"kind": "StatefulSet", "name": "pg"}], "avoid": {"zone": "a"}}
    expected = [("starts_workload_rollout", "error")] if refused else []
    assert _names(snapshot(found), rule) == expected
    (change,) = plan(snapshot(found), {"name": "r", **rule}, workload_rollout="allow").workloads
    assert change.takes_effect == effect


def test_a_vm_of_a_pool_is_managed_by_it() -> None:
    machine = vm("a")
    owner = Owner("VirtualMachinePool", "pool", "p")
    owned = Workload(machine.ref, machine.uid, machine.manifest, owner)
    rule = {"name": "r", "workloads": [{"name": "a"}], "avoid": {"zone": "a"}}
    found = plan(snapshot(owned), rule)
    assert [finding.name for finding in found.refused] == ["externally_managed"]
    assert "VirtualMachinePool pool" in found.refused[0].why


@pytest.mark.parametrize(
    ("owner", "paths"),
    [(None, []), (Owner("VirtualMachinePool", "pool", "p"), ["/spec/template/spec/affinity"])],
)
def test_refused_change_has_a_patch_only_for_an_externally_managed_workload(
    owner: Owner | None, paths: list[str]
) -> None:
    machine = replace(vm("a"), owner=owner)
    rule = {"name": "r", "workloads": [{"name": "a"}], "avoid": {"zone": "a"}}
    (change,) = plan(snapshot(machine), rule).workloads
    patch = change.as_json((), refused=True)["patch"]
    assert [operation["path"] for operation in patch] == paths


def test_rule_of_an_externally_managed_workload_is_removed_at_its_source() -> None:
    machine = vm("a")
    rule = {"name": "r", "workloads": [{"name": "a"}], "avoid": {"zone": "a"}}
    (write,) = plan(snapshot(machine), rule).writes
    ours = workload(applied(copy.deepcopy(dict(machine.manifest)), write))
    owned = replace(ours, owner=Owner("VirtualMachinePool", "pool", "p"))
    (refused,) = plan(snapshot(owned), rule, state="absent").refused
    assert refused.advice.startswith("Remove the constraints of the rule from the source")


def test_labels_that_no_workload_has() -> None:
    rule = {"workloads": [{"labels": {"no": "body"}}], "avoid": {"zone": "a"}}
    assert _names(_machines(), rule) == [("no_matching_workloads", "error")]
    target = {"topology_key": "zone", "with": {"labels": {"no": "body"}}}
    nothing = "selector_matches_nothing"
    assert _names(_machines(), {"keep_together": target}) == [(nothing, "error")]
    others = {"topology_key": "zone", "from": {"labels": {"no": "body"}}}
    assert _names(_machines(), {"keep_apart": others}) == [(nothing, "warning")]


def test_pods_of_others_that_a_selector_selects() -> None:
    machines = [vm(name, labels={"tier": "web"}) for name in ("a", "b")]
    other = Pod(NAMESPACE, "stray", "s", labels={"tier": "web"}, phase="Running")
    elsewhere = Pod("other", "stray", "t", labels={"tier": "web"}, phase="Running")
    seen = snapshot(*machines, run=[running(machines[0])], pods=(other, elsewhere))
    rule = {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}}
    found = plan(seen, {"name": "r", **rule})
    assert [(f.name, f.objects) for f in found.findings] == [
        ("selector_matches_others", (other.ref,))
    ]
    assert found.findings[0].why.startswith(f"tier In [web] also selects {other.ref}, which ")


def test_a_spread_on_a_running_vm() -> None:
    seen = snapshot(vm("a"), vm("b"), run=[running(vm("a"))])
    found = plan(seen, {"name": "r", "workloads": AB, "spread": {"topology_key": "zone"}})
    effects = {each.ref.name: each.takes_effect for each in found.workloads}
    assert effects == {"a": "restart", "b": "start"}
    assert [f.name for f in found.findings] == ["restart_required"]


@pytest.mark.parametrize("other", ["DoNotSchedule", "ScheduleAnyway"])
def test_one_spread_for_each_key_and_action(other: str) -> None:
    there = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": other}
    machine = vm("a", placement={"topologySpreadConstraints": [there]})
    rule = {
        "name": "r",
        "workloads": [{"name": "a"}],
        "spread": {"topology_key": "zone"},
        "allow_findings": ["duplicate_spread"],
    }
    refused = plan(snapshot(machine), rule).refused
    assert [finding.name for finding in refused] == (
        ["duplicate_spread"] if other == "DoNotSchedule" else []
    )


def test_spread_beside_an_equal_one_that_no_rule_owns_may_be_adopted() -> None:
    rule = {"name": "r", "workloads": [{"name": "a"}], "spread": {"topology_key": "zone"}}
    (write,) = plan(snapshot(vm("a")), rule).writes
    written = applied(copy.deepcopy(dict(vm("a").manifest)), write)
    placement = written["spec"]["template"]["spec"]["topologySpreadConstraints"]
    machine = vm("a", placement={"topologySpreadConstraints": placement})
    (refused,) = plan(snapshot(machine), rule).refused
    assert refused.advice.startswith("Set adopt to true")


def test_spread_beside_another_one_that_no_rule_owns_is_not_adopted() -> None:
    there = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    machine = vm("a", placement={"topologySpreadConstraints": [there]})
    rule = {"name": "r", "workloads": [{"name": "a"}], "spread": {"topology_key": "zone"}}
    (refused,) = plan(snapshot(machine), rule).refused
    assert refused.advice.startswith("Remove it from the template")


def test_a_label_that_is_something_else_already() -> None:
    machine = vm("a", labels={"tier": "web"})
    rule = {"name": "r", "workloads": [{"name": "a"}], "label": {"tier": "api"}}
    assert [f.name for f in plan(snapshot(machine), rule).refused] == ["label_conflict"]
    same = plan(snapshot(machine), {**rule, "label": {"tier": "web"}})
    assert not same.refused


@pytest.mark.parametrize("where", ["VirtualMachineInstance", "Pod"])
def test_label_conflict_with_a_running_vmi_or_pod(where: str) -> None:
    machine = vm("a")
    vmi, pod = running(machine)
    if where == "Pod":
        pod = replace(pod, labels={**pod.labels, "tier": "db"})
    else:
        vmi = replace(vmi, labels={**vmi.labels, "tier": "db"})
    rule = {"name": "r", "workloads": [{"name": "a"}], "label": {"tier": "api"}}
    seen = snapshot(machine, run=[(vmi, pod)])
    found = plan(seen, {**rule, "allow_findings": ["label_conflict"]})
    (refused,) = found.refused
    target = pod.ref if where == "Pod" else vmi.ref
    assert (refused.name, refused.objects) == ("label_conflict", (target,))
    assert f"{target} runs with the label tier=db" in refused.why
    assert "the rule needs api" in refused.why
    assert target not in {write.target for write in found.writes}
    assert not plan(seen, {**rule, "label": {"tier": "db"}}).refused


def test_a_label_of_a_rule_that_gets_another_value_is_no_conflict() -> None:
    """The old value leaves what runs before the template forgets it, so that nothing but a label
    of somebody else is ever in the way."""
    machine = vm("a")
    rule = {"name": "r", "workloads": [{"name": "a"}], "label": {"tier": "web"}}
    (write,) = plan(snapshot(machine), rule).writes
    ours = workload(applied(copy.deepcopy(dict(machine.manifest)), write))
    found = plan(snapshot(ours, run=[running(ours)]), {**rule, "label": {"tier": "api"}})
    assert not found.refused
    assert [
        (each.target.kind, each.before["labels"], each.after["labels"])
        for each in found.writes
        if each.target.kind != "VirtualMachine"
    ] == [
        ("Pod", {"tier": "web"}, {}),
        ("VirtualMachineInstance", {"tier": "web"}, {}),
        ("VirtualMachineInstance", {}, {"tier": "api"}),
        ("Pod", {}, {"tier": "api"}),
    ]


def test_or_ed_node_terms_conflict_with_others() -> None:
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [z]}]} for z in "ab"]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    rule = {
        "name": "either",
        "workloads": [{"name": "a"}],
        "terms": {"affinity": {"nodeAffinity": required}},
    }
    assert not plan(snapshot(vm("a")), rule).refused
    more = {"name": "more", "workloads": [{"name": "a"}], "run_on": {"performance": "high"}}
    refused = plan(snapshot(vm("a")), rule, more).refused
    assert {f.name for f in refused} == {"node_terms_conflict"}


def test_more_findings_can_be_asked_for_before_anything_is_refused() -> None:
    seen: list[tuple[int, int]] = []

    def more(_snapshot: Snapshot, rules: t.Sized, writes: t.Sized) -> list[Finding]:
        seen.append((len(rules), len(writes)))
        return [Finding("unsatisfiable", "error", "It cannot be.", "Change it.", rule="r")]

    rule = {"name": "r", "workloads": AB, "avoid": {"zone": "a"}}
    found = plan_rules(_machines(), request(rule), extra_findings=more)
    assert seen == [(1, 2)]
    assert [finding.name for finding in found.refused] == ["unsatisfiable"]
    allowed = request({**rule, "allow_findings": ["unsatisfiable"]})
    assert not plan_rules(_machines(), allowed, extra_findings=more).refused


_PODS: JSON = {"labels": {"x": "y"}, "namespaces": ["no"]}
_OF_NO: JSON = {"name": "a", "namespace": "no"}


def _faults(seen: Snapshot, *rules: JSON, **options: t.Any) -> list[str]:
    """As the module reads them: rules with faults are looked up too."""
    parsed = read_rules(
        [{"name": f"r{n}", "workloads": AB, **rule} for n, rule in enumerate(rules)],
        namespace=NAMESPACE,
        rule_set="default",
        topology=Topology.of(),
    )
    faulty = {"faults": parsed.faults, "broken": parsed.broken, **options}
    with pytest.raises(InvalidInput) as refused:
        plan_rules(
            seen,
            RulesRequest(NAMESPACE, "default", parsed.rules, **faulty),
            extra_findings=lint_of_writes(Topology.of()),
        )
    return [str(fault) for fault in refused.value.errors]


def test_errors_of_some_rules_do_not_hide_findings_of_others() -> None:
    web = deployment("web", replicas=1)
    faults = _faults(
        snapshot(vm("a"), vm("b"), web),
        {"run_on": {"example.com/rack": "r1"}},
        {"run_on": {"zn": "a"}},
        {"workloads": [{"name": "nobody"}], "run_on": {"example.com/rack": "r1"}},
        {"avoid": {"zone": "a"}},
        {
            "workloads": [{"kind": "Deployment", "name": "web"}],
            "keep_apart": {"topology_key": "zone"},
        },
    )
    assert [fault.split(":")[0] for fault in faults] == [
        "rules[0] r0",
        "rules[1] r1, run_on.zn",
        "rules[2] r2, workloads[0]",
        "rules[4] r4",
    ]
    assert faults[0].startswith(
        "rules[0] r0: no_node_has_key (VirtualMachine shop/a, VirtualMachine shop/b): No node has"
    )
    assert faults[3].startswith(
        "rules[4] r4: starts_workload_rollout: Writing to Deployment shop/web starts"
    )


@pytest.mark.parametrize("text", ["{broken", "[]", '{"version": 1}', '{"version": 9}'])
@pytest.mark.parametrize("annotation", ["placement.virt/undo", "placement.virt/rules"])
def test_an_annotation_of_ours_that_is_damaged_is_a_fault(annotation: str, text: str) -> None:
    damaged = vm("a")
    damaged.manifest["metadata"]["annotations"] = {annotation: text}
    faults = _faults(snapshot(damaged, vm("b")), {"avoid": {"zone": "a"}}, {"run_on": {"zn": "a"}})
    assert [fault.split(": ")[0] for fault in faults] == ["rules[0] r0", "rules[1] r1, run_on.zn"]
    assert f"VirtualMachine shop/a: annotation {annotation} " in faults[0]


def test_a_workload_of_a_kind_that_is_not_supported_is_not_proposed() -> None:
    stateful = workload({"kind": "DaemonSet", "metadata": {"name": "db"}, "spec": {}})
    rule = {"workloads": [{"name": "db"}], "avoid": {"zone": "a"}}
    (fault,) = _faults(snapshot(stateful, vm("a")), rule)
    assert "there is no VirtualMachine 'db' in namespace 'shop'. Workloads that" in fault


@pytest.mark.parametrize(
    ("rule", "option"),
    [
        ({"keep_apart": {"topology_key": "zone", "pods": _PODS}}, "keep_apart.pods"),
        ({"keep_together": {"topology_key": "zone", "pods": _PODS}}, "keep_together.pods"),
        (
            {"keep_apart": {"topology_key": "zone", "from": [{"name": "a"}, _OF_NO]}},
            "keep_apart.from[1]",
        ),
        (
            {"keep_apart": {"topology_key": "zone", "from": {"name": "a"}, "pods": [_PODS]}},
            "keep_apart.pods",
        ),
        ({"keep_together": {"topology_key": "zone", "with": _OF_NO}}, "keep_together.with"),
    ],
)
def test_unknown_namespace_of_target_is_reported_at_the_option_with_it(
    rule: JSON, option: str
) -> None:
    (fault,) = _faults(snapshot(vm("a"), vm("b")), rule)
    assert fault.startswith(f"rules[0] r0, {option}: there is no namespace 'no'")


def test_one_cause_is_reported_once_with_all_places() -> None:
    gap = Unreadable("virtualmachines", "", "list", "grant it")
    apart = {"keep_apart": {"topology_key": "zone"}}
    faults = _faults(snapshot(unreadable=(gap,)), apart, apart, {"spread": {"topology_key": "zne"}})
    assert [fault.split(": ")[0] for fault in faults] == [
        "rules[0] r0, workloads[0]; rules[1] r1, workloads[0]; rules[2] r2, workloads[0]",
        "rules[2] r2, spread.topology_key",
    ]


def test_targets_that_no_pod_has_are_one_finding() -> None:
    beside = {"with": {"labels": {"tier": "x"}}, "topology_key": "zone"}
    rule = {"name": "r", "workloads": AB, "keep_together": beside}
    refused = plan(_machines(), rule).refused
    assert [finding.name for finding in refused] == ["selector_matches_nothing"]


def test_a_finding_about_many_objects_is_one_sentence() -> None:
    machines = [deployment(f"d{n}", replicas=1) for n in range(9)]
    names = [machine.ref.name for machine in machines]
    rule = {"workloads": [{"kind": "Deployment", "names": names}], "avoid": {"zone": "a"}}
    refused = plan(snapshot(*machines), {"name": "r", **rule}).refused
    assert len(refused) == 9
    ((finding, sentence),) = sentences(refused)
    assert finding == refused[0]
    assert sentence == (
        "starts_workload_rollout (Deployment shop/d0, Deployment shop/d1, Deployment shop/d2, Deployment"
        " shop/d3, Deployment shop/d4 and 4 more): Writing to Deployment shop/d0 starts its"
        " workload rollout at once. Set workload_rollout to allow if that is wanted."
    )
    ((_finding, alone),) = sentences(refused[:1])
    assert alone.startswith("starts_workload_rollout: Writing to Deployment shop/d0 starts")


@pytest.mark.parametrize(
    ("rule", "alone"),
    [
        ({"workloads": [{"name": "a"}], "keep_apart": {"topology_key": "zone"}}, True),
        ({"workloads": [{"name": "a"}], "spread": {"topology_key": "zone"}}, True),
        (
            {
                "workloads": [{"name": "a"}],
                "keep_apart": {"topology_key": "zone", "from": {"name": "b"}},
            },
            False,
        ),
        (
            {
                "workloads": [{"name": "a"}],
                "keep_apart": {"topology_key": "zone"},
                "label": {"x": "y"},
            },
            False,
        ),
        (
            {"workloads": [{"labels": {"tier": "web"}}], "keep_apart": {"topology_key": "zone"}},
            False,
        ),
        ({"workloads": AB, "keep_apart": {"topology_key": "zone"}}, False),
        (
            {
                "workloads": [{"name": "a"}],
                "keep_apart": {"topology_key": "zone", "from": {"name": "a"}},
            },
            True,
        ),
        (
            {"workloads": AB, "keep_apart": {"topology_key": "zone", "from": {"name": "a"}}},
            False,
        ),
        (
            {
                "workloads": [{"name": "a"}],
                "keep_apart": {"topology_key": "zone", "pods": {"labels": {"tier": "web"}}},
            },
            False,
        ),
        ({"workloads": [{"name": "a"}], "avoid": {"zone": "a"}}, False),
    ],
)
def test_a_vm_is_not_kept_apart_from_itself(rule: JSON, alone: bool) -> None:
    seen = snapshot(vm("a", labels={"tier": "web"}), vm("b"))
    assert (("single_workload", "warning") in _names(seen, rule)) is alone


def test_replicas_of_one_set_are_kept_apart_from_each_other() -> None:
    rule = {"workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "db"}]}
    seen = snapshot(vmirs("db", replicas=1))
    assert not _names(seen, {**rule, "keep_apart": {"topology_key": "zone"}})


@pytest.mark.parametrize("options", [{"prune": True}, {"state": "absent"}])
def test_a_rule_is_not_called_gone_where_carriers_could_not_be_read(options: JSON) -> None:
    gap = Unreadable("deployments", "", "list", "grant it")
    rules = [{"name": "r"}] if options.get("state") else []
    with pytest.raises(InvalidInput, match="cannot list deployments in all namespaces: grant it"):
        plan(_machines(unreadable=(gap,)), *rules, **options)
    kept = plan(
        _machines(unreadable=(gap,)), {"name": "r", "workloads": AB, "avoid": {"zone": "a"}}
    )
    assert [finding.name for finding in kept.findings] == ["check_skipped"]
    assert len(kept.writes) == 2


@pytest.mark.parametrize(
    ("name", "rule_set", "hint"),
    [
        ("appart", "default", "Did you mean 'apart'? "),
        ("apart", "other", "Did you mean the one of rule set 'default'? "),
        ("web", "default", ""),
        ("apart", "default", ""),
    ],
)
def test_misspelt_rule_to_remove_is_refused(name: str, rule_set: str, hint: str) -> None:
    found = plan(with_rule("apart"), {"name": name}, state="absent", rule_set=rule_set)
    assert [finding.name for finding in found.refused] == (["unknown_rule"] if hint else [])
    assert all(finding.advice.startswith(hint) for finding in found.findings)
    allowed = {"name": name, "allow_findings": ["unknown_rule"]}
    assert not plan(with_rule("apart"), allowed, state="absent", rule_set=rule_set).refused


@pytest.mark.parametrize("listed", ["single_workload", "warning"])
def test_fail_on_findings_refuses_by_name_and_severity(listed: str) -> None:
    rule = {"name": "r", "workloads": [{"name": "a"}], "keep_apart": {"topology_key": "zone"}}
    assert not plan(_machines(), rule).refused
    refused = plan(_machines(), rule, fail_on_findings=(listed,)).refused
    assert [finding.name for finding in refused] == ["single_workload"]
    allowed = {**rule, "allow_findings": ["single_workload"]}
    assert not plan(_machines(), allowed, fail_on_findings=(listed,)).refused


def test_numbered_rule_that_was_removed_before_is_no_error() -> None:
    """apart-2 is there, and apart-1 was removed: no typing error."""
    found = plan(with_rule("apart-2"), {"name": "apart-1"}, state="absent")
    assert [finding.severity for finding in found.findings] == ["warning"]
    both = plan(with_rule("aparts"), {"name": "apart"}, {"name": "aparts"}, state="absent")
    assert not both.findings, "a rule that is named itself is not the one that was meant"


def test_rule_that_was_removed_before_is_no_finding() -> None:
    assert plan(_machines(), {"name": "apart"}, state="absent").findings == ()


def test_members_that_could_not_be_read_are_no_missing_members() -> None:
    gap = Unreadable("virtualmachines", "", "list", "grant it")
    with pytest.raises(InvalidInput, match="cannot list virtualmachines"):
        plan(
            snapshot(unreadable=(gap,)),
            {"name": "r", "workloads": AB, "avoid": {"zone": "a"}},
        )


def test_replica_set_that_a_rule_names_by_kind_is_its_member() -> None:
    daemon = workload({"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {}})
    seen = snapshot(vmirs("db"), daemon, vm("a"), vm("b"))
    rule = {"workloads": [{"kind": "VirtualMachineInstanceReplicaSet", "name": "db"}]}
    assert not _names(seen, {**rule, "avoid": {"zone": "a"}})


def test_vms_that_could_not_be_read_are_not_called_halted() -> None:
    gap = Unreadable("virtualmachineinstances", "", "list", "grant it")
    rule = {"name": "r", "workloads": [{"name": "a"}], "avoid": {"zone": "a"}}
    found = plan(snapshot(vm("a"), unreadable=(gap,)), rule)
    assert [change.takes_effect for change in found.workloads] == ["restart"]
    assert [finding.name for finding in found.findings] == ["check_skipped"]


@pytest.mark.parametrize("verb", ["run_on", "avoid"])
@pytest.mark.parametrize("preferred", [True, False], ids=["preferred", "required"])
@pytest.mark.parametrize(
    "value", ["hihg", ["hihg", "slow"], ["slow", "hihg"]], ids=["text", "sorted", "unsorted"]
)
def test_a_mistyped_value_is_a_finding_of_its_rule(verb: str, preferred: bool, value: JSON) -> None:
    nodes = (node("n1", "a", {"performance": "high"}), node("n2", "b", {"performance": "slow"}))
    rule = {"name": "fast", "workloads": AB, verb: {"performance": value}, "preferred": preferred}
    found = plan(_machines(nodes=nodes), rule).findings
    assert ("no_node_has_value", "fast") in [(finding.name, finding.rule) for finding in found]
    (mistyped,) = {finding.why for finding in found if finding.name == "no_node_has_value"}
    assert mistyped.startswith("No node has performance=hihg")


@pytest.mark.parametrize(
    ("name", "names_option", "accept"),
    [
        (
            "unsatisfiable",
            False,
            " To accept it, add allow_findings: [unsatisfiable] to the rule.",
        ),
        ("label_conflict", False, ""),
        ("starts_workload_rollout", True, ""),
    ],
)
def test_finding_that_refuses_a_rule_says_how_to_accept_it_where_that_helps(
    name: str, names_option: bool, accept: str
) -> None:
    """By what the finding is, whatever its sentence says: this one names an option."""
    advice = "Set adopt to true."
    finding = Finding(name, "error", "It is so.", advice, (), "r", names_option=names_option)
    assert how_to_accept(finding) == accept
