# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A view finds what a snapshot holds."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

from ansible_collections.virt.placement.plugins.module_utils.compliance.instances import (
    JudgedInstances,
)
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.view.view import ClusterView, view_of
from tests.support.cluster import Cluster


def view() -> ClusterView:
    cluster = Cluster("ab")
    cluster.run("db", "n1")
    cluster.run("web", "n2")
    cluster.bare_pod("alone", "n2")
    return view_of(cluster.snapshot())


def test_view_has_objects_by_name_uid_and_reference() -> None:
    found = view()
    db = Ref("VirtualMachine", "shop", "db")
    (instance,) = found.instances_of(db)
    assert instance.pod is not None and instance.vmi is not None

    assert list(found.snapshot.nodes_by_name) == ["n1", "n2"]
    assert list(found.snapshot.namespaces_by_name) == ["shop"]
    assert found.workload_of(instance) is found.snapshot.workloads_by_ref[db]
    assert found.snapshot.vmis_by_uid[instance.uid] is instance.vmi
    assert found.snapshot.pods_by_uid[instance.pod.uid] is instance.pod
    assert found.launcher_pods[instance.uid] == [instance.pod]
    assert found.instances_by_pod[instance.pod.ref] is instance
    assert found.instances_of(Ref("VirtualMachine", "shop", "none")) == ()
    assert not found.in_flight.pods


def test_instances_of_a_snapshot_are_found_once_and_those_of_a_changed_one_anew() -> None:
    snapshot = view().snapshot
    changed = replace(snapshot, pods=snapshot.pods[:-1])

    assert view_of(snapshot).instances is view_of(snapshot).instances
    assert len(changed.pods_by_uid) == len(snapshot.pods_by_uid) - 1
    assert len(view_of(changed).instances) == len(view_of(snapshot).instances) - 1


def test_snapshot_that_nothing_refers_to_is_freed_without_a_search_for_cycles() -> None:
    snapshot = view().snapshot
    for name in vars(ClusterView):
        getattr(view_of(snapshot), name, None)
    assert len(JudgedInstances.of(view_of(snapshot)).placed) == 3
    alive = weakref.ref(snapshot)
    gc.disable()
    try:
        del snapshot
        assert alive() is None
    finally:
        gc.enable()


def test_pods_that_are_placed_in_an_index_are_in_no_other() -> None:
    found = view()
    index = found.new_index()
    (instance,) = found.instances_of(Ref("Pod", "shop", "alone"))

    index.remove(instance.uid)

    assert instance.uid not in index
    assert instance.uid in found.new_index()


def test_bare_pod_has_no_workload_object() -> None:
    found = view()
    alone = Ref("Pod", "shop", "alone")
    (instance,) = found.instances_of(alone)

    assert (instance.workload, found.workload_of(instance)) == (alone, None)
