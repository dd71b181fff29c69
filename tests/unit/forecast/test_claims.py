# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecasts of pods whose claims are missing, not bound, of another replica or used by another pod."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.cluster.read_new_pods import (
    new_pod_fields,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.change import (
    ChangedCluster,
    what_if,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.claims import (
    moved_claims,
    needed_claims,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.conclusion import (
    ForecastResult,
)
from ansible_collections.virt.placement.plugins.module_utils.forecast.doubts import doubts_of_change
from ansible_collections.virt.placement.plugins.module_utils.forecast.drill import drill
from ansible_collections.virt.placement.plugins.module_utils.forecast.forecast import forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.result import Forecast
from ansible_collections.virt.placement.plugins.module_utils.forecast.scaling import Scale
from ansible_collections.virt.placement.plugins.module_utils.model.new_pod_needs import (
    NewPodNeeds,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import (
    NodeTerm,
    Ref,
    Requirement,
)
from ansible_collections.virt.placement.plugins.module_utils.model.storage import (
    BoundVolume,
    Claim,
    ClaimKey,
    ClaimState,
    Storage,
    StorageClass,
    bound_volume_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.topology import HOSTNAME
from ansible_collections.virt.placement.plugins.module_utils.scheduler.claims import claim_state
from tests.support.cluster import ZONE, Cluster, spread

JSON = t.Any
ONE_NODE = ("ReadWriteOnce",)


def zone(name: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(ZONE, "In", (name,)),)),)


def bound(volume: str, *modes: str) -> Claim:
    return Claim(volume, bound=True, access_modes=modes or ONE_NODE)


def stateful_set(
    made: Cluster, name: str, nodes: t.Iterable[str], spec: JSON = None, **more: JSON
) -> Ref:
    """A StatefulSet with the claim template `data`, whose replicas run on these nodes."""
    template = {"metadata": {"labels": {"app": name}}, "spec": spec or {}}
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "made", **more}}]
    listed = list(nodes)
    asked = {"template": template, "replicas": len(listed), "volumeClaimTemplates": templates}
    ref = made.workload("StatefulSet", name, asked)
    for number, node in enumerate(listed):
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}-{number}"}}
        pod = made.bare_pod(
            f"{name}-{number}", node, {**(spec or {}), "volumes": [volume]}, app=name
        )
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        pod["metadata"]["ownerReferences"] = [
            {"kind": "StatefulSet", "name": name, "uid": f"statefulset-{name}", "controller": True}
        ]
    return ref


def known(change: ChangedCluster, states: t.Mapping[ClaimKey, ClaimState]) -> ChangedCluster:
    """The change, with the states of claims."""
    return dataclasses.replace(
        change,
        before=dataclasses.replace(change.before, claim_states=states),
        after=dataclasses.replace(change.after, claim_states=states),
    )


def scaled(
    made: Cluster, ref: Ref, replicas: int, claims: t.Mapping[str, Claim], **storage: JSON
) -> tuple[Forecast, ChangedCluster]:
    """The forecast of a scale, where just these claims exist; `storage` as in Storage."""
    scale = (Scale(ref, replicas),)
    change = what_if(made.snapshot(), scale=scale)
    facts: JSON = {"classes": {}, "free": (), **storage}
    found = {(ref.namespace, name): claim for name, claim in claims.items()}
    needed = needed_claims(change)
    states = {
        key: claim_state(key, found.get(key), template, Storage(**facts))
        for key, template in needed.items()
    }
    change = known(change, states)
    return (
        forecast(
            change,
            doubts=doubts_of_change(change, scale),
        ),
        change,
    )


def keys(change: ChangedCluster) -> set[ClaimKey]:
    return set(needed_claims(change))


def test_field_29_a_new_replica_takes_the_claim_of_its_own_ordinal() -> None:
    made = Cluster("abc")
    logs = stateful_set(made, "log", ("n3", "n2"), spread(app="log"))
    volumes = {"logs-2": BoundVolume(zone("b"))}

    found, change = scaled(made, logs, 3, {"data-log-2": bound("logs-2")}, bound=volumes)

    assert keys(change) == {("shop", "data-log-2")}
    assert found.answer is ForecastResult.IMPOSSIBLE
    assert str(found.pending[0].reason) == (
        "0/3 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't match"
        " pod topology spread constraints (zone)"
    )
    volumes = {"logs-2": BoundVolume(zone("a"))}
    found, _change = scaled(made, logs, 3, {"data-log-2": bound("logs-2")}, bound=volumes)
    assert found.answer is ForecastResult.GUARANTEED


def test_field_29_ordinals_start_where_the_stateful_set_says() -> None:
    made = Cluster("abc")
    logs = stateful_set(made, "log", ())
    made.workloads[logs]["spec"]["ordinals"] = {"start": 5}
    _found, change = scaled(made, logs, 2, {})
    assert keys(change) == {("shop", "data-log-5"), ("shop", "data-log-6")}


def test_a_stateful_set_that_shrinks_ends_its_highest_ordinals() -> None:
    made = Cluster("abc")
    logs = stateful_set(made, "log", ("n1", "n2", "n3"))
    found, change = scaled(made, logs, 1, {})
    assert [pod.name for pod in change.after.pods] == ["log-0"]
    assert (found.answer, found.reasons) == (ForecastResult.GUARANTEED, ())


def test_a_missing_replica_in_the_middle_is_made_again() -> None:
    made = Cluster("abc")
    logs = stateful_set(made, "log", ("n1", "n2", "n3"))
    del made.pods["shop", "log-1"]
    _found, change = scaled(made, logs, 3, {})
    assert [pending.pod.name for pending in change.pending] == ["log-1"]
    assert keys(change) == {("shop", "data-log-1")}


def test_field_42_a_claim_that_does_not_exist_keeps_a_pod_from_every_node() -> None:
    made = Cluster("abc")
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "wiki-data"}}
    template = {"metadata": {"labels": {"app": "wiki"}}, "spec": {"volumes": [volume]}}
    wiki = made.workload("Deployment", "wiki", {"template": template, "replicas": 0})

    found, _change = scaled(made, wiki, 1, {})

    assert found.answer is ForecastResult.IMPOSSIBLE
    assert found.min_unschedulable == 1
    assert (
        '0/3 nodes are available: persistentvolumeclaim "wiki-data" not found' in found.reasons[0]
    )


def test_field_42_a_class_that_does_not_exist_makes_no_claim_usable() -> None:
    made = Cluster("abc")
    db = stateful_set(made, "db", (), storageClassName="no-such-class")

    found, _change = scaled(made, db, 1, {})

    assert found.answer is ForecastResult.IMPOSSIBLE
    (reason,) = found.reasons
    assert "pod has unbound immediate PersistentVolumeClaims" in reason
    assert "data-db-0: StorageClass no-such-class does not exist" in reason


def test_field_42_a_halted_vm_whose_disk_claim_does_not_exist_is_not_guaranteed() -> None:
    made = Cluster("abc")
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "archive-root"}}
    archive = made.vm("archive", {"volumes": [volume]}, app="archive")
    change = what_if(made.snapshot(), members={archive})
    assert keys(change) == {("shop", "archive-root")}
    states = {
        key: claim_state(key, None, template, Storage())
        for key, template in needed_claims(change).items()
    }
    found = forecast(known(change, states))
    assert found.answer is ForecastResult.IMPOSSIBLE
    assert 'persistentvolumeclaim "archive-root" not found' in found.reasons[0]


def test_a_claim_that_a_data_volume_template_makes_is_a_doubt() -> None:
    made = Cluster("abc")
    volume = {"name": "root", "dataVolume": {"name": "archive-root"}}
    archive = made.vm("archive", {"volumes": [volume]}, app="archive")
    made.workloads[archive]["spec"]["dataVolumeTemplates"] = [
        {"metadata": {"name": "archive-root"}}
    ]
    change = what_if(made.snapshot(), members={archive})
    states = {
        key: claim_state(key, None, template, Storage())
        for key, template in needed_claims(change).items()
    }
    change = known(change, states)
    found = forecast(change)
    assert found.answer is ForecastResult.POSSIBLE
    assert "claim archive-root does not exist yet: its DataVolume makes it" in found.reasons[0]


def test_a_claim_that_is_made_once_a_node_is_chosen_is_possible() -> None:
    made = Cluster("abc")
    db = stateful_set(made, "db", ("n1",))
    classes = {"made": StorageClass("made", waits=True)}
    found, _change = scaled(made, db, 2, {}, classes=classes)
    assert found.answer is ForecastResult.POSSIBLE
    assert found.reasons == (
        "not guaranteed: db-1: claim data-db-1 does not exist yet: StorageClass made makes its volume once a node"
        " is chosen",
    )


def claim_of_two(*modes: str) -> Forecast:
    made = Cluster("abc")
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    template = {"metadata": {"labels": {"app": "wiki"}}, "spec": {"volumes": [volume]}}
    wiki = made.workload("Deployment", "wiki", {"template": template, "replicas": 0})
    return scaled(made, wiki, 2, {"data": bound("pv", *modes)}, bound={"pv": BoundVolume()})[0]


def test_two_pods_of_one_claim() -> None:
    assert claim_of_two("ReadWriteMany").answer is ForecastResult.GUARANTEED
    once = claim_of_two("ReadWriteOnce")
    assert once.answer is ForecastResult.POSSIBLE
    assert "claim data is ReadWriteOnce" in once.reasons[0]
    exclusive = claim_of_two("ReadWriteOncePod")
    assert exclusive.answer is ForecastResult.IMPOSSIBLE
    assert exclusive.min_unschedulable == 1
    assert "ReadWriteOncePod access mode already in-use by another pod" in str(
        exclusive.pending[0].reason
    )


def test_a_claim_of_an_ephemeral_volume_is_made_for_each_pod() -> None:
    made = Cluster("abc")
    volume = {
        "name": "tmp",
        "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "x"}}},
    }
    template = {"metadata": {"labels": {"app": "wiki"}}, "spec": {"volumes": [volume]}}
    wiki = made.workload("Deployment", "wiki", {"template": template, "replicas": 1})
    made.start(wiki, "n1", "wiki-a")
    classes = {"x": StorageClass("x", waits=True)}
    found, change = scaled(made, wiki, 2, {}, classes=classes)
    assert keys(change) == {("shop", "wiki-next-0-tmp")}
    assert found.answer is ForecastResult.POSSIBLE


@pytest.mark.parametrize("strategy", ["LiveMigrate", "None"])
def test_a_vm_that_moves_since_its_rules_changed_keeps_its_claim(strategy: str) -> None:
    made = Cluster("ab")
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "root"}}
    on_n2 = {"nodeSelector": {HOSTNAME: "n2"}}
    db = made.vm("db", {"volumes": [volume], "evictionStrategy": strategy}, app="db")
    made.start(db, "n1")
    made.workloads[db]["spec"]["template"]["spec"].update(on_n2)
    change = what_if(made.snapshot(), members={db})
    assert moved_claims(change) == {("shop", "root")}
    found = forecast(change)
    assert [move.source for move in found.moves] == ["n1"]
    assert (found.answer, found.codes) == (ForecastResult.GUARANTEED, ("moves_satisfy_rules",))


def test_a_drain_needs_no_claims_that_its_pods_hold() -> None:
    made = Cluster("abc")
    stateful_set(made, "log", ("n1", "n2"))
    change = what_if(made.snapshot(), lost_nodes={"n1"})
    assert [pending.reason for pending in change.pending] == ["recreate"]
    assert keys(change) == set()


@pytest.mark.parametrize(("limit", "answer"), [(2, "guaranteed"), (1, "impossible")])
def test_volume_limits_of_a_node_close_it(limit: int, answer: str) -> None:
    made = Cluster("a")
    logs = stateful_set(made, "log", ("n1",))
    change = what_if(made.snapshot(), scale=(Scale(logs, 2),))
    drivers = {("shop", f"data-log-{number}"): "csi" for number in (0, 1)}
    limits = {"n1": {"csi": limit}}
    states = {("shop", "data-log-1"): ClaimState(driver="csi")}
    change = known(change, states)
    after = dataclasses.replace(change.after, attach_limits=limits, drivers=drivers)
    found = forecast(dataclasses.replace(change, after=after))
    assert str(found.answer) == answer
    if limit == 1:
        assert "1 node(s) exceed max volume count" in found.reasons[0]
    after = dataclasses.replace(change.after, attach_limits=None)
    assert forecast(dataclasses.replace(change, after=after)).codes == ("volume_limit_unread",)


def test_in_tree_volume_leaves_no_certainty() -> None:
    """kube-scheduler takes it for one of a CSI driver, with the limits and the node labels of that."""
    made = Cluster("a")
    logs = stateful_set(made, "log", ("n1",))
    change = what_if(made.snapshot(), scale=(Scale(logs, 2),))
    in_tree = bound_volume_from_manifest({"spec": {"vsphereVolume": {"volumePath": "x"}}}).driver
    for terms, answer in ((None, "possible"), (zone("elsewhere"), "unknown")):
        states = {("shop", "data-log-1"): ClaimState(terms, driver=in_tree)}
        with_claim = known(change, states)
        after = dataclasses.replace(with_claim.after, attach_limits=None)
        found = forecast(dataclasses.replace(with_claim, after=after))
        assert (str(found.answer), found.codes) == (answer, ("volume_limit_unread",))


def test_limits_are_not_known_where_any_claim_has_an_in_tree_volume() -> None:
    key = ("shop", "data")
    drivers = {key: "csi", ("other", "old"): "kubernetes.io/awsElasticBlockStore"}
    needs = NewPodNeeds(moved={key}, drivers=drivers)
    fields = new_pod_fields(t.cast(t.Any, None), needs)  # which asks the server nothing
    assert fields == {"attach_limits": None, "drivers": drivers}


@pytest.mark.parametrize(("limit", "answer"), [(2, "guaranteed"), (1, "impossible")])
def test_volume_limits_close_a_node_for_a_pod_that_is_drained(limit: int, answer: str) -> None:
    made = Cluster("ab")
    stateful_set(made, "log", ("n1", "n2"))
    drivers = {("shop", f"data-log-{number}"): "csi" for number in (0, 1)}
    limits = {node: {"csi": limit} for node in ("n1", "n2")}
    before = dataclasses.replace(made.snapshot(), drivers=drivers, attach_limits=limits)
    assert str(forecast(what_if(before, lost_nodes={"n1"})).answer) == answer
    unread = dataclasses.replace(before, attach_limits=None)
    found = forecast(what_if(unread, lost_nodes={"n1"}))
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("volume_limit_unread",))
    (lost,) = [x for x in drill(unread, [HOSTNAME], event="drain").drills if x.domain == "n1"]
    assert (lost.answer, lost.codes) == (ForecastResult.POSSIBLE, ("volume_limit_unread",))


def test_volume_limits_count_pods_that_are_placed_meanwhile() -> None:
    made = Cluster("ab")
    logs = stateful_set(made, "log", ())
    change = what_if(made.snapshot(), scale=(Scale(logs, 3),))
    keys_of = [("shop", f"data-log-{number}") for number in range(3)]
    change = known(change, {key: ClaimState(driver="csi") for key in keys_of})
    for most, answer in ((1, "impossible"), (2, "guaranteed")):
        after = dataclasses.replace(
            change.after,
            attach_limits={"n1": {"csi": most}, "n2": {"csi": most}},
            drivers=dict.fromkeys(keys_of, "csi"),
        )
        assert str(forecast(dataclasses.replace(change, after=after)).answer) == answer


def test_replica_that_is_not_ready_holds_the_next_one() -> None:
    made = Cluster("abc")
    logs = stateful_set(made, "log", ("n1",))
    bound_one, volumes = {"data-log-1": bound("pv")}, {"pv": BoundVolume()}
    found, _change = scaled(made, logs, 2, bound_one, bound=volumes)
    assert found.answer is ForecastResult.GUARANTEED
    made.pods["shop", "log-0"]["status"]["conditions"] = []
    found, _change = scaled(made, logs, 2, bound_one, bound=volumes)
    assert (found.answer, found.codes) == (ForecastResult.POSSIBLE, ("ordered_start",))
    made.workloads[logs]["spec"]["podManagementPolicy"] = "Parallel"
    found, _change = scaled(made, logs, 2, bound_one, bound=volumes)
    assert found.answer is ForecastResult.GUARANTEED


def test_field_42_started_vm_whose_vmi_waits_for_its_claim_still_needs_a_node() -> None:
    made = Cluster("abc")
    volume = {"name": "root", "persistentVolumeClaim": {"claimName": "archive-root"}}
    archive = made.vm("archive", {"volumes": [volume]}, app="archive")
    made.start(archive, "")
    made.pods.clear()
    change = what_if(made.snapshot(), members={archive})
    assert keys(change) == {("shop", "archive-root")}
    found = forecast(known(change, {("shop", "archive-root"): ClaimState(refusal="not found")}))
    assert (found.answer, found.min_unschedulable) == (ForecastResult.IMPOSSIBLE, 1)


@pytest.mark.parametrize(
    ("partition", "current", "answer"),
    [
        (5, "log-1", ForecastResult.UNKNOWN),
        (3, "log-1", ForecastResult.UNKNOWN),
        (2, "log-1", ForecastResult.IMPOSSIBLE),
        (0, "log-1", ForecastResult.IMPOSSIBLE),
        (5, "log-2", ForecastResult.IMPOSSIBLE),
    ],
)
def test_new_replica_below_the_partition_is_of_the_current_revision(
    partition: int, current: str, answer: ForecastResult
) -> None:
    """kubernetes pkg/controller/statefulset/stateful_set_utils.go, newVersionedStatefulSetPod: the template that the
    StatefulSet has now is not that of such a replica."""
    made = Cluster("abc")
    logs = stateful_set(made, "log", ("n1", "n2"))
    manifest = made.workloads[logs]
    manifest["spec"]["template"]["spec"] = {"nodeSelector": {"disk": "nvme"}}
    manifest["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {"partition": partition},
    }
    manifest["status"] = {"currentRevision": current, "updateRevision": "log-2"}

    volumes = {"logs-2": BoundVolume()}
    found, change = scaled(made, logs, 3, {"data-log-2": bound("logs-2")}, bound=volumes)

    assert [pending.pod.name for pending in change.pending] == ["log-2"]
    assert found.answer is answer, found.reasons
    if answer is ForecastResult.UNKNOWN:
        assert any("log-2 is below the partition" in str(reason) for reason in found.reasons)
