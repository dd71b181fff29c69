# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drain does with each pod: the filters of kubectl, right where kubectl and kubernetes.core are wrong."""

from __future__ import annotations

import functools
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.kubevirt.instances import HOTPLUG
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import DrainView
from ansible_collections.virt.placement.plugins.module_utils.maintenance.pods import (
    PodAction,
    PodDecision,
    PodFilter,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.vm_ways import VM_POLICY
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    MIRROR,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    Owner,
    Placement,
    Pod,
    Ref,
    Toleration,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import Obstacle
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Snapshot,
    Vmi,
    Workload,
)
from tests.support import facts

REPLICA_SET = Owner("ReplicaSet", "web-1", "u-rs")
DAEMON_SET = Owner("DaemonSet", "logs", "u-ds")
KIND = "VirtualMachineInstance"

EVICT, MOVE_VM, WAIT = PodAction.EVICT, PodAction.MOVE_VM, PodAction.WAIT
LEAVE, REFUSE = PodAction.LEAVE, PodAction.REFUSE


def pod(owner: Owner | None = REPLICA_SET, **fields: t.Any) -> Pod:
    return facts.pod("p1", owner, **fields)


launcher = functools.partial(facts.launcher, empty_dirs=("private", "libvirt-runtime"))
vmi = functools.partial(facts.vmi, "db")


def decide(
    drained: Pod,
    *vmis: Vmi,
    daemonsets: t.Collection[str] = ("u-ds",),
    allowed: t.Collection[str] = (),
) -> PodDecision:
    return PodFilter({each.uid: each for each in vmis}, daemonsets, allowed).decide(drained)


@pytest.mark.parametrize(
    ("drained", "action", "code"),
    [
        pytest.param(pod(), EVICT, "", id="controlled"),
        pytest.param(pod(terminating=True), WAIT, "terminating", id="terminating"),
        pytest.param(
            pod(None, terminating=True, empty_dirs=("data",)),
            WAIT,
            "terminating",
            id="terminating-bare-pod-with-local-data",
        ),
        pytest.param(pod(DAEMON_SET), LEAVE, "", id="daemonset"),
        pytest.param(
            pod(DAEMON_SET, empty_dirs=("cache",)),
            LEAVE,
            "",
            id="daemonset-with-local-data",
        ),
        pytest.param(pod(DAEMON_SET, phase="Failed"), LEAVE, "", id="finished-daemonset-pod"),
        pytest.param(
            pod(Owner("Node", "w1", "u-w1"), annotations={MIRROR: "x"}),
            LEAVE,
            "",
            id="static",
        ),
        pytest.param(
            pod(annotations={MIRROR: "x"}, phase="Succeeded"),
            LEAVE,
            "",
            id="finished-static",
        ),
        pytest.param(
            pod(None, phase="Succeeded", empty_dirs=("data",)),
            LEAVE,
            "",
            id="finished-bare-pod-with-local-data",
        ),
        pytest.param(
            pod(DAEMON_SET, terminating=True),
            LEAVE,
            "",
            id="terminating-daemonset-pod",
        ),
        pytest.param(
            pod(Owner("Node", "w1", "u-w1"), annotations={MIRROR: "x"}, terminating=True),
            LEAVE,
            "",
            id="terminating-static",
        ),
        pytest.param(
            pod(phase="Succeeded", terminating=True),
            LEAVE,
            "",
            id="finished-pod-that-its-finalizer-keeps",
        ),
        pytest.param(
            pod(Owner("Widget", "custom", "u-x")),
            EVICT,
            "",
            id="controller-of-any-kind",
        ),
    ],
)
def test_plain_pod(drained: Pod, action: PodAction, code: str) -> None:
    decision = decide(drained)

    obstacle = decision.obstacle
    assert (decision.action, decision.refused_by) == (action, ())
    assert (obstacle.code if obstacle is not None else "") == code


@pytest.mark.parametrize(
    ("drained", "refused_by", "reason"),
    [
        pytest.param(pod(None), ("bare_pod",), "no controller makes it again", id="bare"),
        pytest.param(
            pod(empty_dirs=("data", "tmp")),
            ("local_data_lost",),
            "the data of its emptyDir volumes is lost (data, tmp)",
            id="local-data",
        ),
        pytest.param(
            pod(None, empty_dirs=("data",)),
            ("bare_pod", "local_data_lost"),
            "no controller makes it again, and the data of its emptyDir volumes is lost (data)",
            id="bare-with-local-data",
        ),
        pytest.param(
            pod(Owner("DaemonSet", "old", "u-gone")),
            ("daemonset_missing",),
            "its DaemonSet old does not exist",
            id="daemonset-gone",
        ),
    ],
)
def test_pod_is_refused(drained: Pod, refused_by: tuple[str, ...], reason: str) -> None:
    decision = decide(drained)

    obstacle = Obstacle(refused_by[0], reason)
    assert (decision.action, decision.refused_by) == (REFUSE, refused_by)
    assert decision.obstacle == obstacle


def test_allowed_finding_lets_the_pod_be_evicted() -> None:
    bare = pod(None, empty_dirs=("data",))

    assert decide(bare, allowed=("local_data_lost",)).refused_by == ("bare_pod",)
    assert decide(bare, allowed=("bare_pod",)).refused_by == ("local_data_lost",)
    assert decide(bare, allowed=("bare_pod", "local_data_lost")).action is EVICT
    gone = pod(Owner("DaemonSet", "old", "u-gone"))
    assert decide(gone, allowed=("daemonset_missing",)).action is EVICT


def test_pod_that_tolerates_the_cordon_may_return() -> None:
    tolerant = pod(placement=Placement(tolerations=(Toleration(operator="Exists"),)))

    assert decide(tolerant).action is EVICT
    assert decide(tolerant).returns
    assert not decide(pod()).returns


def test_launcher_pod_is_its_vms_affair() -> None:
    decision = decide(launcher(), vmi())

    assert (decision.action, decision.vmi) == (MOVE_VM, vmi())


@pytest.mark.parametrize(
    ("drained", "vmis", "reason"),
    [
        pytest.param(
            launcher(),
            [vmi("w2")],
            "its VM runs on w2: it is the target of a migration, or left by one",
            id="migration-target",
        ),
        pytest.param(launcher(), [vmi("", phase="Scheduling")], "its VM is starting", id="starts"),
        pytest.param(launcher(), [vmi(terminating=True)], "its VMI is ending", id="ends"),
        pytest.param(launcher(), [vmi(phase="Failed")], "its VMI is ending", id="failed"),
        pytest.param(launcher(), [], "its VMI is gone, so it will be deleted", id="vmi-gone"),
        pytest.param(
            pod(Owner("Pod", "virt-launcher-db", "u-l"), labels=dict([HOTPLUG]), empty_dirs=("d",)),
            [vmi()],
            "it attaches a volume to a VM and leaves with that VM",
            id="hotplug",
        ),
    ],
)
def test_pod_of_a_vm_that_leaves_by_itself(drained: Pod, vmis: list[Vmi], reason: str) -> None:
    decision = decide(drained, *vmis)

    assert (decision.action, str(decision.obstacle)) == (WAIT, reason)


def test_finished_launcher_stays() -> None:
    assert decide(launcher(phase="Succeeded"), vmi("w2")).action is LEAVE


def test_standalone_vmi_is_refused_unless_allowed() -> None:
    alone = vmi(owner=None)
    decision = decide(launcher(), alone)

    assert (decision.action, decision.refused_by) == (REFUSE, ("standalone_vmi",))
    assert str(decision.obstacle) == "no controller starts its VMI again if it ends"
    assert decide(launcher(), alone, allowed=("standalone_vmi",)).action is MOVE_VM


def test_pod_with_two_owners_has_one_decision_by_its_controller() -> None:
    manifest = {
        "metadata": {
            "name": "p1",
            "namespace": "shop",
            "ownerReferences": [
                {"kind": "ConfigMap", "name": "x", "uid": "1"},
                {"kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": True},
            ],
        },
        "spec": {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "c", "configMap": {}}]},
        "status": {"phase": "Running"},
    }
    parsed = pod_from_manifest(manifest)

    assert parsed.empty_dirs == ("tmp",)
    assert decide(parsed).refused_by == ("local_data_lost",)
    assert decide(parsed, allowed=("local_data_lost",)).action is EVICT


@pytest.mark.parametrize(
    ("of_vm", "of_vmi", "policy"),
    [
        ("", "", "migrate"),
        ("stop", "restart", "stop"),
        ("", "restart", "restart"),
    ],
)
def test_label_of_the_vm_is_its_policy(of_vm: str, of_vmi: str, policy: str) -> None:
    labels = {VM_POLICY: of_vm} if of_vm else {}
    vm = Workload(Ref("VirtualMachine", "shop", "db"), "u", {"metadata": {"labels": labels}})

    view = DrainView(Snapshot(workloads=(vm,)), frozenset({"w1"}), ("migrate",))
    own = vmi(labels={VM_POLICY: of_vmi} if of_vmi else {})
    assert view.ways.policies_of(own) == ((policy,), None)
