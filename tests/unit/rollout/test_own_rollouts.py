# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deployments, StatefulSets and pools that replace their pods or VMIs by themselves, as a run finds them.

Statuses as kube-controller-manager 1.36 and KubeVirt 1.8 write them during a change of the template.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    InstanceSelection,
)
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import POOL_REVISION
from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.rollout.own_rollouts import (
    OwnRollout,
    Progress,
    own_rollouts_of,
    unfinished,
    warnings,
    why_waiting,
    with_deadline,
)
from tests.support.cluster import Cluster, cluster, deployment, keep_apart
from tests.support.pools import change, pool
from tests.unit.forecast.test_claims import stateful_set

JSON = t.Any
WEB = Ref("Deployment", "shop", "web")
SHOP = InstanceSelection(namespaces=frozenset({"shop"}))


def counts(replicas: int, updated: int, available: int, generation: int = 2) -> JSON:
    return {
        "observedGeneration": generation,
        "replicas": replicas,
        "updatedReplicas": updated,
        "availableReplicas": available,
    }


def progressing(reason: str, status: str = "True", message: str = "") -> JSON:
    condition = {"type": "Progressing", "status": status, "reason": reason, "message": message}
    return {"conditions": [condition]}


GOES_ON = progressing("ReplicaSetUpdated")
COMPLETE = progressing("NewReplicaSetAvailable")
REFUSED = {"conditions": [*COMPLETE["conditions"], {"type": "ReplicaFailure", "status": "True"}]}
LATE = progressing("ProgressDeadlineExceeded", "False", 'ReplicaSet "web-2" has timed out')


def web(status: JSON, *, rules: bool = True, **spec: JSON) -> Snapshot:
    made = cluster("aaa")
    manifest = made.workloads[deployment(made, "web", ["n1", "n2", "n3"], {})]
    manifest["metadata"] |= {"generation": 2, "annotations": {RULES: "{}"} if rules else {}}
    manifest["spec"] |= spec
    manifest["status"] = status
    return made.snapshot()


def db(status: JSON, **strategy: JSON) -> Snapshot:
    made = cluster("aaa")
    manifest = made.workloads[stateful_set(made, "db", ["n1", "n2", "n3"])]
    manifest["metadata"] |= {"generation": 2, "annotations": {RULES: "{}"}}
    manifest["spec"]["updateStrategy"] = {"type": "RollingUpdate", **strategy}
    manifest["status"] = {"observedGeneration": 2, "replicas": 3, **status}
    return made.snapshot()


def found(snapshot: Snapshot, selection: InstanceSelection = SHOP) -> tuple[OwnRollout, ...]:
    return own_rollouts_of(snapshot, selection)


def waited_for(rollouts: t.Iterable[OwnRollout]) -> str:
    return str(why_waiting(rollouts) or "")


NOT_SEEN = "the controller of Deployment shop/web has not seen the latest change yet"
REPLACES = "Deployment shop/web replaces its pods:"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (counts(3, 3, 3, generation=1) | COMPLETE, NOT_SEEN),
        ({}, NOT_SEEN),
        (counts(4, 1, 3) | progressing("NewReplicaSetCreated"), f"{REPLACES} 1 of 3"),
        (counts(4, 2, 3) | GOES_ON, f"{REPLACES} 2 of 3"),
        (counts(4, 3, 3) | GOES_ON, f"{REPLACES} 3 of 3, and 1 old one is still there"),
        (counts(5, 3, 3) | GOES_ON, f"{REPLACES} 3 of 3, and 2 old ones are still there"),
        (counts(3, 3, 1) | GOES_ON, f"{REPLACES} 3 of 3, and 2 are not available yet"),
        # back to the template before: its ReplicaSet is there, and the condition is that of its own rollout
        (counts(3, 0, 3) | COMPLETE, f"{REPLACES} 0 of 3"),
        # Recreate, also back to the template before: all old pods have ended
        (counts(0, 0, 0) | COMPLETE, f"{REPLACES} 0 of 3"),
        # without progressDeadlineSeconds there is no condition
        (counts(3, 2, 3), f"{REPLACES} 2 of 3"),
        (counts(4, 3, 3), f"{REPLACES} 3 of 3, and 1 old one is still there"),
    ],
)
def test_run_waits_for_deployment_that_replaces_its_pods(status: JSON, text: str) -> None:
    rollouts = found(web(status))
    assert waited_for(rollouts) == text
    assert unfinished(rollouts) == [text]
    assert warnings(rollouts) == []


def test_rollout_whose_next_pods_are_refused_names_the_refusal() -> None:
    refused = {"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}
    status = counts(3, 1, 3) | {"conditions": [*GOES_ON["conditions"], refused]}
    rollouts = found(web(status))
    assert unfinished(rollouts) == [
        f"{REPLACES} 1 of 3 (Deployment shop/web: violates PodSecurity)"
    ]
    late = counts(3, 1, 3) | {"conditions": [*LATE["conditions"], refused]}
    (text,) = warnings(found(web(late)))
    assert text.endswith(" has timed out. Deployment shop/web: violates PodSecurity")


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        (counts(3, 3, 3) | COMPLETE, {}),
        (counts(3, 3, 3), {}),
        (counts(3, 3, 2) | COMPLETE, {}),  # a pod became unready later
        (counts(2, 2, 2) | COMPLETE, {}),  # a quota refuses the third pod of a scale-out
        (counts(0, 0, 0) | REFUSED, {}),  # all pods were evicted, and a quota refuses the next ones
        (counts(4, 1, 3) | GOES_ON, {"paused": True}),
        (counts(0, 0, 0) | GOES_ON, {"replicas": 0}),
    ],
)
def test_run_does_not_wait_for_deployment_that_replaces_nothing(status: JSON, spec: JSON) -> None:
    assert found(web(status, **spec)) == ()


def test_deployment_past_its_progress_deadline_is_named_and_not_waited_for() -> None:
    rollouts = found(web(counts(4, 1, 3) | LATE))
    assert waited_for(rollouts) == ""
    assert unfinished(rollouts) == []
    (warning,) = warnings(rollouts)
    assert warning.startswith("Deployment shop/web does not go on replacing its pods: 1 of 3.")
    assert 'ReplicaSet "web-2" has timed out' in warning


@pytest.mark.parametrize("status", [counts(4, 1, 3) | GOES_ON, counts(4, 1, 3) | LATE])
def test_pod_without_node_is_named_with_the_words_of_the_scheduler(status: JSON) -> None:
    snapshot = web(status)
    pending = replace(snapshot.pods[0], node_name="", unscheduled="0/3 nodes are available")
    rollouts = found(replace(snapshot, pods=(pending, *snapshot.pods[1:])))
    (text,) = (*unfinished(rollouts), *warnings(rollouts))
    assert f"{pending.ref} is Pending: 0/3 nodes are available" in text
    assert "Pending" not in waited_for(rollouts), "its words change while a run waits"


def test_deployment_past_its_progress_deadline_is_waited_for_until_its_change_is_seen() -> None:
    assert waited_for(found(web(counts(4, 1, 3, generation=1) | LATE))) == NOT_SEEN


def test_deployment_whose_pods_are_all_replaced_past_its_deadline_is_not_named() -> None:
    assert found(web(counts(3, 3, 3) | LATE)) == ()


BEFORE = {"currentRevision": "db-1", "updateRevision": "db-2"}
AFTER = {"currentRevision": "db-2", "updateRevision": "db-2"}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (BEFORE | {"updatedReplicas": 1}, "StatefulSet shop/db replaces its pods: 1 of 3"),
        (
            BEFORE | {"updatedReplicas": 3, "availableReplicas": 2},
            "StatefulSet shop/db replaces its pods: 3 of 3, and 1 is not available yet",
        ),
        (
            AFTER | {"updatedReplicas": 3, "observedGeneration": 1},
            "the controller of StatefulSet shop/db has not seen the latest change yet",
        ),
    ],
)
def test_run_waits_for_stateful_set_that_replaces_its_pods(status: JSON, text: str) -> None:
    assert waited_for(found(db(status))) == text


@pytest.mark.parametrize(
    ("status", "strategy"),
    [
        (AFTER | {"updatedReplicas": 3}, {}),
        (AFTER | {"updatedReplicas": 2, "replicas": 2}, {}),  # a scale-out
        (BEFORE | {"updatedReplicas": 1}, {"type": "OnDelete"}),
        (BEFORE | {"updatedReplicas": 1}, {"rollingUpdate": {"partition": 2}}),
        (BEFORE | {"updatedReplicas": 0}, {"rollingUpdate": {"partition": 3}}),
    ],
)
def test_run_does_not_wait_for_stateful_set_that_replaces_nothing(
    status: JSON, strategy: JSON
) -> None:
    assert found(db(status, **strategy)) == ()


def test_run_waits_for_replicas_above_the_partition() -> None:
    rollouts = found(db(BEFORE | {"updatedReplicas": 0}, rollingUpdate={"partition": 1}))
    assert waited_for(rollouts) == "StatefulSet shop/db replaces its pods: 0 of 2"


def test_only_workloads_of_the_run_count() -> None:
    """In a namespace those with rules, by name each."""
    going = counts(4, 1, 3) | GOES_ON
    assert not found(web(going), InstanceSelection(namespaces=frozenset({"other"})))
    assert not found(web(going, rules=False))
    assert found(web(going, rules=False), InstanceSelection(workloads=frozenset({WEB})))
    other = InstanceSelection(workloads=frozenset({WEB._replace(name="api")}))
    assert not found(web(going), other)


def test_deployment_that_is_being_deleted_is_not_waited_for() -> None:
    snapshot = web(counts(4, 1, 3) | GOES_ON)
    snapshot.workloads[0].manifest["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert found(snapshot) == ()


APART = keep_apart(pool="web")
VMS = ("web-0", "web-1", "web-2")
READY = {"type": "Ready", "status": "True"}
RUNNING_SINCE = [
    {"phase": "Running", "phaseTransitionTimestamp": "2026-11-26T10:00:00Z"},
]
POOL = "VirtualMachinePool shop/web"
RESTARTS = f"{POOL} restarts its VMs:"


def web_pool(*, brought: bool = True, restarted: t.Collection[str] = VMS) -> tuple[Cluster, JSON]:
    """A pool with rules and the default strategy, whose changed template KubeVirt has `brought` to its VMs. Returns its
    manifest, too."""
    made = cluster("aaa")
    ref = pool(made, "web", ["n1", "n2", "n3"])
    change(made, ref, APART, brought=brought, live=False)
    manifest = made.workloads[ref]
    del manifest["spec"]["updateStrategy"]
    manifest["metadata"]["annotations"] = {RULES: "{}"}
    for name, vmi in made.machines.items():
        vmi["status"]["conditions"].append(READY)
        if brought and name in restarted:
            vmi["metadata"]["labels"][POOL_REVISION] = "web-2"
            vmi["spec"]["affinity"] = APART
    return made, manifest


def vm_of(made: Cluster, name: str) -> JSON:
    return made.workloads[Ref("VirtualMachine", "shop", name)]


def end(made: Cluster, name: str) -> None:
    """The VMI of a VM and its pod are deleted."""
    uid = made.machines.pop(name)["metadata"]["uid"]
    for pod, found in list(made.pods.items()):
        if any(x["uid"] == uid for x in found["metadata"]["ownerReferences"]):
            del made.pods[pod]


def not_ready(made: Cluster, name: str, since: str) -> None:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    status = made.machines[name]["status"]
    status |= {"conditions": [condition], "phaseTransitionTimestamps": RUNNING_SINCE}


def test_run_waits_until_the_vms_of_a_pool_have_its_template() -> None:
    rollouts = found(web_pool(brought=False)[0].snapshot())
    assert waited_for(rollouts) == f"the controller of {POOL} has not seen the latest change yet"


def test_run_waits_for_vmis_that_the_controller_of_a_pool_is_about_to_delete() -> None:
    made, _manifest = web_pool(restarted=["web-0"])
    assert waited_for(found(made.snapshot())) == f"{RESTARTS} 1 of 3"


def test_run_waits_for_vmi_that_is_live_of_the_template_and_will_be_deleted_all_the_same() -> None:
    made, _manifest = web_pool(restarted=VMS[1:])
    made.machines["web-0"]["spec"]["affinity"] = APART
    assert waited_for(found(made.snapshot())) == f"{RESTARTS} 2 of 3"


def test_revision_that_kubevirt_1_4_leaves_on_a_vmi_is_not_waited_for() -> None:
    made, _manifest = web_pool(restarted=VMS[1:])
    platform = replace(made.more["platform"], kubevirt="v1.4.0")
    assert waited_for(found(made.snapshot(platform=platform))) == f"{RESTARTS} 2 of 3"
    made.machines["web-0"]["spec"]["affinity"] = APART
    assert found(made.snapshot(platform=platform)) == ()


def test_run_waits_for_vmi_that_ends_and_for_vm_without_one() -> None:
    made, _manifest = web_pool()
    end(made, "web-0")
    made.machines["web-1"]["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert waited_for(found(made.snapshot())) == f"{RESTARTS} 1 of 3"


def test_pool_without_progress_is_named_after_the_time_of_a_move_and_not_waited_for() -> None:
    """Each VM that becomes available begins the time anew; one that is started again and again does not."""
    seen: Progress = {}

    def after(clock: float, *restarted: str, starts: str = "") -> tuple[OwnRollout, ...]:
        made, _manifest = web_pool(restarted=[*restarted, *filter(None, [starts])])
        if starts:
            made.machines[starts]["status"]["phase"] = "Scheduling"
        return with_deadline(found(made.snapshot()), seen, clock, 600)

    assert waited_for(after(0)) == f"{RESTARTS} 0 of 3"
    assert waited_for(after(590, "web-0")) == f"{RESTARTS} 1 of 3"
    assert waited_for(after(1180, "web-0", starts="web-1"))
    assert waited_for(after(1185, "web-0"))
    late = after(1190, "web-0", starts="web-1")
    assert waited_for(late) == ""
    (warning,) = warnings(late)
    assert warning == (
        f"{POOL} does not go on replacing its VMs: 2 of 3. No other VM has become available with its present"
        " template for 600 s (move_timeout). Look at its VMs that are not available"
    )
    assert waited_for(after(1200, "web-0", "web-1")) == f"{RESTARTS} 2 of 3"


def test_change_of_the_template_begins_the_time_anew() -> None:
    seen: Progress = {}
    before, after = db(BEFORE | {"updatedReplicas": 2}), db(BEFORE | {"updatedReplicas": 0})
    after.workloads[0].manifest["metadata"]["generation"] = 3
    assert waited_for(with_deadline(found(before), seen, 0, 600))
    assert waited_for(with_deadline(found(after), seen, 600, 600))
    assert not waited_for(with_deadline(found(after), seen, 1200, 600))


def test_deployment_has_a_deadline_of_its_own() -> None:
    seen: Progress = {}
    going = found(web(counts(4, 1, 3) | GOES_ON))
    assert with_deadline(going, seen, 0, 600) == with_deadline(going, seen, 9000, 600) == going


def test_run_waits_for_vmi_that_does_not_run_yet() -> None:
    made, _manifest = web_pool()
    made.machines["web-0"]["status"]["phase"] = "Scheduled"
    text = f"{RESTARTS} 3 of 3, and 1 is not available yet"
    assert waited_for(found(made.snapshot())) == text


def test_run_waits_for_vmi_that_is_not_ready_since_its_start() -> None:
    made, _manifest = web_pool()
    not_ready(made, "web-0", "2026-11-26T09:59:50Z")
    text = f"{RESTARTS} 3 of 3, and 1 is not available yet"
    assert waited_for(found(made.snapshot())) == text


def test_vmi_that_became_unready_later_is_not_waited_for() -> None:
    made, _manifest = web_pool()
    not_ready(made, "web-0", "2026-11-26T10:10:00Z")
    assert found(made.snapshot()) == ()


def test_pool_whose_vms_have_restarted_is_not_waited_for() -> None:
    assert found(web_pool()[0].snapshot()) == ()


@pytest.mark.parametrize("brought", [False, True])
@pytest.mark.parametrize(
    "spec",
    [
        {"updateStrategy": {"opportunistic": {}}},
        {"updateStrategy": {"unmanaged": {}}},
        {"paused": True},
    ],
)
def test_pool_that_restarts_no_vm_is_not_waited_for(spec: JSON, *, brought: bool) -> None:
    made, manifest = web_pool(brought=brought, restarted=())
    manifest["spec"] |= spec
    assert found(made.snapshot()) == ()


def test_pool_that_is_being_deleted_is_not_waited_for() -> None:
    made, manifest = web_pool(restarted=())
    manifest["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    assert found(made.snapshot()) == ()


@pytest.mark.parametrize("strategy", ["Halted", "Manual", "Once", "RerunOnFailure"])
def test_vm_of_a_pool_that_stays_stopped_is_not_waited_for(strategy: str) -> None:
    made, _manifest = web_pool()
    end(made, "web-0")
    vm_of(made, "web-0")["spec"]["runStrategy"] = strategy
    assert found(made.snapshot()) == ()


def test_vm_of_a_pool_with_a_request_to_start_is_waited_for() -> None:
    made, _manifest = web_pool()
    end(made, "web-0")
    vm_of(made, "web-0")["spec"]["runStrategy"] = "Manual"
    vm_of(made, "web-0")["status"] = {"stateChangeRequests": [{"action": "Start"}]}
    assert waited_for(found(made.snapshot())) == f"{RESTARTS} 2 of 3"


def test_stopped_vm_that_the_template_of_its_pool_starts_is_waited_for() -> None:
    made, _manifest = web_pool(brought=False)
    for name in VMS:
        end(made, name)
        vm_of(made, name)["spec"]["runStrategy"] = "Halted"
    assert "has not seen the latest change yet" in waited_for(found(made.snapshot()))


def test_vm_of_a_pool_that_is_being_deleted_or_is_changed_by_others_is_not_waited_for() -> None:
    made, _manifest = web_pool()
    end(made, "web-0")
    vm_of(made, "web-0")["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z"
    vm_of(made, "web-1")["spec"]["template"]["spec"]["affinity"] = {}
    assert found(made.snapshot()) == ()


def test_vms_that_the_update_strategy_of_a_pool_leaves_out_are_not_waited_for() -> None:
    made, manifest = web_pool(brought=False)
    selectors = {"labelSelector": {"matchLabels": {"tier": "none"}}}
    manifest["spec"]["updateStrategy"] = {
        "proactive": {"selectionPolicy": {"selectors": selectors}}
    }
    assert found(made.snapshot()) == ()


def test_vm_of_a_pool_without_node_is_named_with_the_words_of_the_scheduler() -> None:
    made, _manifest = web_pool()
    made.machines["web-0"]["status"]["phase"] = "Scheduling"
    snapshot = made.snapshot()
    uid = made.machines["web-0"]["metadata"]["uid"]
    pods = tuple(
        replace(pod, node_name="", unscheduled="0/3 nodes are available")
        if pod.owner is not None and pod.owner.uid == uid
        else pod
        for pod in snapshot.pods
    )
    rollouts = found(replace(snapshot, pods=pods))
    (text,) = unfinished(rollouts)
    assert "virt-launcher-web-0" in text
    assert text.endswith(" is Pending: 0/3 nodes are available)")
    assert "Pending" not in waited_for(rollouts), "its words change while a run waits"


def test_what_kubevirt_reports_of_a_vm_that_does_not_start_is_named() -> None:
    made, manifest = web_pool()
    end(made, "web-0")
    failure = {
        "type": "Failure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "exceeded quota",
    }
    vm_of(made, "web-0")["status"] = {"conditions": [failure]}
    (text,) = unfinished(found(made.snapshot()))
    assert text == f"{RESTARTS} 2 of 3 (VirtualMachine shop/web-0: exceeded quota)"

    made, manifest = web_pool(brought=False)
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedScaleOut",
        "message": "",
    }
    manifest["status"] = {"conditions": [failure]}
    (text,) = unfinished(found(made.snapshot()))
    assert text.endswith(f"has not seen the latest change yet ({POOL}: FailedScaleOut)")
