# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on VirtualMachinePools: what KubeVirt would restart is held, and what cannot be a rule of a pool is refused."""

from __future__ import annotations

import copy
import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.moving import (
    Ways,
    move_options,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.pools import (
    members_of,
    why_not_brought,
    with_templates,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Pod
from ansible_collections.virt.placement.plugins.module_utils.model.rule import RuleId
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Vmi,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.ownership_index import (
    OwnershipIndex,
)
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan
from ansible_collections.virt.placement.plugins.module_utils.rules.stored_rules import StoredRules
from ansible_collections.virt.placement.plugins.module_utils.view.view import view_of
from sandbox import objects

from .builders import PLATFORM, applied, plan, running, snapshot, workload

JSON = t.Any
APART: JSON = {
    "name": "apart",
    "workloads": [{"kind": "VirtualMachinePool", "name": "web"}],
    "keep_apart": "zone",
}
TEMPLATE = ("spec", "virtualMachineTemplate", "spec", "template")


def pool(**spec: JSON) -> Workload:
    made = objects.pool("web", "shop")
    made["spec"].update(copy.deepcopy(spec))
    return own(workload(made, "pool-web"))


def own(found: Workload) -> Workload:
    """With a manifest that a test may change: equal values of several objects are one."""
    return replace(found, manifest=copy.deepcopy(found.manifest))


def member(of: Workload, number: int = 0) -> tuple[Workload, tuple[Vmi, Pod]]:
    """A VM of the pool, with its VMI and pod."""
    name = f"web-{number}"
    made = objects.virtual_machine(name, "shop")
    made["spec"]["template"] = copy.deepcopy(of.template)
    owner = {"kind": "VirtualMachinePool", "name": "web", "uid": of.uid, "controller": True}
    made["metadata"] |= {"ownerReferences": [{**owner, "apiVersion": "pool.kubevirt.io/v1beta1"}]}
    vm = own(workload(made))
    return vm, running(vm)


def planned(found: Workload, *others: Workload, **options: JSON) -> RulesPlan:
    run = options.pop("run", ())
    platform = options.pop("platform", PLATFORM)
    rule = options.pop("rule", APART)
    return plan(snapshot(found, *others, run=run, platform=platform), rule, **options)


def held(found: Workload) -> Workload:
    (write,) = planned(found, workload_rollout="hold").writes
    return own(workload(applied(copy.deepcopy(dict(found.manifest)), write), found.uid))


def affinity(manifest: JSON) -> JSON:
    for part in (*TEMPLATE, "spec"):
        manifest = manifest[part]
    return manifest.get("affinity")


def test_what_is_no_vm_is_no_member_of_the_pool_that_it_names_as_its_owner() -> None:
    found = pool()
    vm, run = member(found)
    other = objects.deployment("api", "shop")
    other["metadata"]["ownerReferences"] = vm.manifest["metadata"]["ownerReferences"]
    seen = snapshot(found, vm, workload(other), run=[run])
    assert [x.vm.ref for x in members_of(found, seen)] == [vm.ref]


def test_rule_of_a_pool_selects_the_pods_of_its_vms() -> None:
    (write,) = planned(pool(), workload_rollout="allow").writes
    assert write.path.startswith("/apis/pool.kubevirt.io/v1beta1/namespaces/shop/")
    after = applied(copy.deepcopy(dict(pool().manifest)), write)
    (term,) = affinity(after)["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchExpressions"] == [
        {"key": "kubevirt.io/vmpool", "operator": "In", "values": ["web"]}
    ]
    assert term["mismatchLabelKeys"] == ["kubevirt.io/created-by"]
    assert "placement.virt/rules" in after["metadata"]["annotations"]


def test_selector_of_vms_that_their_pods_lack_is_not_taken_for_one_of_pods() -> None:
    found = pool(selector={"matchLabels": {"of": "vms"}})
    found.manifest["spec"]["virtualMachineTemplate"]["metadata"]["labels"] = {"of": "vms"}
    (write,) = planned(found, workload_rollout="allow").writes
    after = applied(copy.deepcopy(dict(found.manifest)), write)
    (term,) = affinity(after)["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = term["labelSelector"]["matchExpressions"]
    assert expression["key"].startswith("placement.virt/group-")
    labels = after["spec"]["virtualMachineTemplate"]["spec"]["template"]["metadata"]["labels"]
    assert labels[expression["key"]] == "member"


def test_running_vms_of_a_pool_get_the_labels_of_a_rule() -> None:
    found = pool()
    vm, run = member(found)
    rule = {**APART, "label": {"group": "web"}}
    writes = planned(found, vm, run=[run], rule=rule, workload_rollout="allow").writes
    assert {write.target.kind for write in writes} == {
        "VirtualMachinePool",
        "VirtualMachineInstance",
        "Pod",
    }


@pytest.mark.parametrize(
    ("most", "text"), [(None, "all at the same time"), (2, "2 at a time (maxUnavailable)")]
)
def test_write_that_makes_kubevirt_restart_the_vms_is_refused(most: int | None, text: str) -> None:
    found = pool(maxUnavailable=most)
    (finding,) = planned(found).refused
    assert finding.name == "starts_workload_rollout"
    assert finding.why.endswith(f"restarts all its running VMs, {text}.")
    assert finding.advice.startswith("Set workload_rollout to allow if that is wanted")
    (change,) = planned(found, workload_rollout="allow").workloads
    assert change.takes_effect == "workload_rollout"


def test_stopped_vm_that_the_write_starts_is_named() -> None:
    """KubeVirt writes the whole template of the pool into each of its VMs."""
    found = pool()
    vm, _run = member(found)
    running_vm, run = member(found, 1)
    for each in (vm, running_vm):
        each.manifest["spec"].pop("running", None)
        each.manifest["spec"]["runStrategy"] = "Halted"
    found.manifest["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = "Always"
    result = planned(found, vm, running_vm, run=[run], workload_rollout="allow")
    (finding,) = [x for x in result.findings if x.name == "starts_workload_rollout"]
    assert (finding.severity, result.refused) == ("warning", ())
    assert f"starts {vm.ref}, since KubeVirt writes the run strategy" in finding.why
    found.manifest["spec"]["virtualMachineTemplate"]["spec"]["runStrategy"] = "Manual"
    assert not planned(found, vm, workload_rollout="allow").findings


def test_rule_that_a_pool_carries_is_declared_as_it_was_written() -> None:
    seen = snapshot(held(pool()))
    rules = StoredRules(OwnershipIndex.of(view_of(seen)), seen)
    declaration = rules.declaration(RuleId("shop", "default", "apart"), Topology.of())
    assert declaration is not None
    assert declaration["workloads"] == [{"kind": "VirtualMachinePool", "names": ["web"]}]
    assert (declaration["name"], "keep_apart" in declaration) == ("apart", True)


def test_paused_pool_is_refused_since_it_restarts_its_vms_once_it_is_resumed() -> None:
    found = pool(paused=True)
    vm, run = member(found)
    (finding,) = planned(found, vm, run=[run]).refused
    assert "starts its workload rollout once it is resumed (spec.paused), in which" in finding.why
    (change,) = planned(found, vm, run=[run], workload_rollout="allow").workloads
    assert change.takes_effect == "workload_rollout"


@pytest.mark.parametrize(
    ("autohealing", "after"), [({}, "5m"), ({"minFailingToStartDuration": "20m"}, "20m")]
)
def test_refusal_names_the_vms_that_autohealing_deletes(autohealing: JSON, after: str) -> None:
    (finding,) = planned(pool(autohealing=autohealing)).refused
    assert f"that finds no node for {after} (autohealing)" in finding.why


def test_vms_that_autohealing_may_delete_are_a_warning_where_the_rule_is_written() -> None:
    result = planned(pool(autohealing={}), workload_rollout="allow")
    (finding,) = result.findings
    assert (finding.severity, result.refused) == ("warning", ())
    assert "deletes each VM of VirtualMachinePool shop/web, with its disks" in finding.why
    preferred = {**APART, "preferred": True}
    assert not planned(pool(autohealing={}), rule=preferred, workload_rollout="allow").findings
    assert not planned(pool(), workload_rollout="allow").findings


CANARY = {"labelSelector": {"matchLabels": {"tier": "canary"}}}
ON_SSD = {"nodeSelectorRequirementMatcher": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


@pytest.mark.parametrize(
    ("selectors", "brought"),
    [
        (CANARY, False),
        (ON_SSD, False),
        ({"labelSelector": {}}, True),
        ({"labelSelector": {"matchLabels": {"tier": "web"}}}, True),
        (
            {
                "nodeSelectorRequirementMatcher": [
                    {"key": "disk", "operator": "In", "values": ["hdd"]}
                ]
            },
            True,
        ),
    ],
)
def test_vm_that_the_update_strategy_does_not_select_never_gets_the_template(
    selectors: JSON, brought: bool
) -> None:
    found = pool(updateStrategy={"proactive": {"selectionPolicy": {"selectors": selectors}}})
    vm, (vmi, _pod) = member(found)
    template = vm.manifest["spec"]["template"]
    template["metadata"].setdefault("labels", {})["tier"] = "web"
    template["spec"]["nodeSelector"] = {"disk": "hdd"}
    found.manifest["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["affinity"] = {}
    found.manifest["spec"]["virtualMachineTemplate"]["spec"]["template"]["spec"]["nodeSelector"] = {
        "zone": "a"
    }
    assert (why_not_brought(found, vm) is None) is brought
    options = move_options(found, Ways(vm, vmi, None, None, PLATFORM))
    assert (options.methods, options.temporary) == ((), brought)
    said = "has not brought the template" if brought else f"select, and {vm.ref} is none of them"
    assert said in str(options.obstacle)
    (after,) = [x for x in with_templates([found, vm], {found.ref}) if x.ref == vm.ref]
    assert (after.template["spec"].get("nodeSelector") == {"zone": "a"}) is brought


def test_pool_that_is_being_deleted_brings_its_template_to_no_vm() -> None:
    found = pool()
    found.manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert "is being deleted" in str(why_not_brought(found))


def test_pool_is_written_in_the_version_in_which_it_was_read() -> None:
    found = pool()
    older = workload({**found.manifest, "apiVersion": "pool.kubevirt.io/v1alpha1"}, found.uid)
    (write,) = planned(older, workload_rollout="allow").writes
    assert write.path.startswith("/apis/pool.kubevirt.io/v1alpha1/namespaces/shop/")
    other = workload({**found.manifest, "apiVersion": "evil.io/v1"}, found.uid)
    (write,) = planned(other, workload_rollout="allow").writes
    assert write.path.startswith("/apis/pool.kubevirt.io/v1beta1/namespaces/shop/")


def test_removal_restores_the_pool_byte_for_byte() -> None:
    before = pool()
    found = held(before)
    (write,) = planned(found, state="absent", rule={"name": "apart"}).writes
    after = applied(copy.deepcopy(dict(found.manifest)), write)
    template = ("spec", "virtualMachineTemplate")
    assert after[template[0]][template[1]] == before.manifest[template[0]][template[1]]


def refusal(found: Workload, *others: Workload) -> str:
    with pytest.raises(InvalidInput) as error:
        planned(found, *others, workload_rollout="allow")
    return str(error.value)


@pytest.mark.parametrize("selector", [{}, {"matchLabels": {}}, None])
def test_pool_with_an_empty_selector_is_refused(selector: JSON) -> None:
    text = refusal(pool(selector=selector))
    assert "VirtualMachinePool shop/web has an empty selector" in text
    assert "Do not delete this one" in text


def test_pool_whose_vms_have_another_owner_is_refused() -> None:
    found = pool()
    vm, _run = member(found)
    other = {"apiVersion": "x/v1", "kind": "VirtualMachinePool", "name": "mine", "uid": "other"}
    vm.manifest["metadata"]["ownerReferences"].append(other)
    text = refusal(found, vm)
    assert "does not own VirtualMachine shop/web-0 alone" in text
    assert "VirtualMachinePool mine" in text


def test_pool_that_brings_nothing_to_its_vms_is_refused() -> None:
    assert "has the update strategy unmanaged" in refusal(pool(updateStrategy={"unmanaged": {}}))


def chosen_by_labels(*kinds: str) -> JSON:
    labels = {"kubevirt.io/vmpool": "web"}
    choices = [{"kind": kind, "labels": labels} for kind in kinds]
    return {"name": "r", "workloads": choices, "avoid": {"zone": "a"}}


def test_labels_do_not_choose_the_vms_of_a_pool() -> None:
    """A policy of new members leaves them out, too. The rule that chose them was refused, whatever else it chose."""
    found = pool()
    vm, run = member(found)
    alone = workload(objects.virtual_machine("own", "shop", labels={"kubevirt.io/vmpool": "web"}))
    made = planned(found, vm, alone, run=[run], rule=chosen_by_labels("VirtualMachine"))
    assert [write.target.name for write in made.writes] == ["own"]
    both = chosen_by_labels("VirtualMachine", "VirtualMachinePool")
    made = planned(found, vm, alone, run=[run], rule=both, workload_rollout="allow")
    assert sorted(write.target.name for write in made.writes) == ["own", "web"]


def test_labels_that_only_vms_of_a_pool_have_are_refused_with_what_to_name() -> None:
    found = pool()
    vm, run = member(found)
    (finding,) = planned(found, vm, run=[run], rule=chosen_by_labels("VirtualMachine")).refused
    assert finding.name == "no_matching_workloads"
    assert "VMs of a pool do not count: name its kind." in finding.advice


def test_rule_on_a_vm_of_a_pool_names_the_pool() -> None:
    found = pool()
    vm, run = member(found)
    rule = {"name": "r", "workloads": ["web-0"], "avoid": {"zone": "a"}}
    (finding,) = planned(found, vm, run=[run], rule=rule).refused
    assert finding.name == "externally_managed"
    assert "new VMs of the pool lack it" in finding.why
    assert finding.advice.endswith("(kind: VirtualMachinePool, name: web).")
    owned = replace(vm, owner=Owner("VirtualMachinePool", "web", "x"))
    assert planned(found, owned, rule=rule).refused
