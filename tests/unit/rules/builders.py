# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters for tests of rules, as snapshots."""

from __future__ import annotations

import typing as t

import jsonpatch

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import (
    hostname,
    vmi_id,
)
from ansible_collections.virt.placement.plugins.module_utils.lint.registry import lint_of_writes
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    workload_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Namespace,
    Owner,
    Pod,
    Ref,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Platform,
    Snapshot,
    Vmi,
    Workload,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.model.write import Write
from ansible_collections.virt.placement.plugins.module_utils.rules.change import NO_HOLDING
from ansible_collections.virt.placement.plugins.module_utils.rules.plan import plan_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.registry import HOLDS
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_plan import RulesPlan
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from sandbox import objects
from tests.parsed import parsed
from tests.support.facts import node

NAMESPACE = "shop"
PLATFORM = Platform(uid="c", kubernetes=(1, 36), kubevirt="v1.8.4")
Object = dict[str, t.Any]


def workload(manifest: Object, uid: str = "") -> Workload:
    """The manifest as the API server would return it: with a uid."""
    metadata = manifest["metadata"]
    metadata.setdefault("namespace", NAMESPACE)
    metadata.setdefault("uid", uid or f"uid-{metadata['name']}")
    return workload_from_manifest(manifest["kind"], manifest)


def vm(name: str, **options: t.Any) -> Workload:
    return workload(objects.virtual_machine(name, NAMESPACE, **options))


def vmirs(name: str, **options: t.Any) -> Workload:
    return workload(objects.replica_set(name, NAMESPACE, **options))


def deployment(name: str, **options: t.Any) -> Workload:
    return workload(objects.deployment(name, NAMESPACE, **options))


def stateful_set(name: str, **options: t.Any) -> Workload:
    return workload(objects.stateful_set(name, NAMESPACE, **options))


NODES = tuple(
    node(f"w{number}", zone, {"performance": "high" if number % 2 else "low"})
    for number, zone in enumerate(("a", "a", "b", "b", "c", "c"), 1)
)


def running(
    owner: Workload, *, number: int = 0, without: t.Collection[str] = (), **labels: str
) -> tuple[Vmi, Pod]:
    """A VMI of a VM or replica set with its launcher pod, labelled as KubeVirt does it."""
    name = owner.ref.name if owner.ref.kind == "VirtualMachine" else f"{owner.ref.name}-{number}"
    uid = f"vmi-{name}"
    own = {**owner.template_labels, **labels}
    host = hostname(owner) if owner.ref.kind == "VirtualMachine" else name
    pod_labels = {
        **own,
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": uid,
        "vm.kubevirt.io/name": host,
        "vmi.kubevirt.io/id": vmi_id(name),
    }
    machine = Vmi(
        ref=Ref("VirtualMachineInstance", owner.ref.namespace, name),
        uid=uid,
        phase="Running",
        node_name="w1",
        labels=own,
        spec=dict(owner.template["spec"]),
        owner=Owner(owner.ref.kind, owner.ref.name, owner.uid),
        live_migratable=True,
    )
    pod = Pod(
        owner.ref.namespace,
        f"virt-launcher-{name}",
        f"pod-{name}",
        labels={key: value for key, value in pod_labels.items() if key not in without},
        node_name="w1",
        phase="Running",
        owner=Owner("VirtualMachineInstance", name, uid),
    )
    return machine, pod


def snapshot(
    *workloads: Workload,
    run: t.Iterable[tuple[Vmi, Pod]] = (),
    pods: t.Iterable[Pod] = (),
    **fields: t.Any,
) -> Snapshot:
    pairs = tuple(run)
    given = {
        "nodes": NODES,
        "namespaces": (Namespace(NAMESPACE), Namespace("other")),
        "platform": PLATFORM,
        "workloads": workloads,
        "vmis": tuple(machine for machine, _pod in pairs),
        "pods": (*(pod for _machine, pod in pairs), *pods),
        **fields,
    }
    return Snapshot(**given)


def request(
    *rules: Object, topology_keys: t.Mapping[str, str] | None = None, **options: t.Any
) -> RulesRequest:
    absent = options.get("state") == "absent"
    rule_set = options.pop("rule_set", "default")
    found = parsed(
        rules,
        namespace=NAMESPACE,
        rule_set=rule_set,
        topology=Topology.of(topology_keys),
        absent=absent,
    )
    options.setdefault("holding", HOLDS.get("hold", NO_HOLDING))
    return RulesRequest(NAMESPACE, rule_set, found, **options)


def plan(seen: Snapshot, *rules: Object, **options: t.Any) -> RulesPlan:
    return plan_rules(
        seen, request(*rules, **options), extra_findings=lint_of_writes(Topology.of())
    )


def applied(manifest: Object, write: Write) -> Object:
    """The object after a write, as the API server makes it; AssertionError for a failed test.

    Its JSON Patch library (evanphx/json-patch) reads a missing last part as null and refuses a
    path whose parent is missing.
    """
    for test in write.tests:
        parent = Pointer(test.pointer.parts[:-1]).read(manifest)
        assert isinstance(parent, dict), f"{test.pointer} has no parent"
        assert parent.get(test.pointer.parts[-1]) == test.value, f"{test.pointer} was not so"
    operations = [operation.as_json() for operation in write.operations]
    found: Object = jsonpatch.apply_patch(manifest, operations)
    return found
