# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A view finds what a snapshot holds."""

from __future__ import annotations

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.view.view import ClusterView
from tests.unit.compliance.cluster import Cluster


def view() -> ClusterView:
    cluster = Cluster("ab")
    cluster.run("db", "n1")
    cluster.run("web", "n2")
    cluster.bare_pod("alone", "n2")
    return ClusterView(cluster.snapshot())


def test_view_has_objects_by_name_uid_and_reference() -> None:
    found = view()
    db = Ref("VirtualMachine", "shop", "db")
    (instance,) = found.instances_of(db)
    assert instance.pod is not None and instance.vmi is not None

    assert list(found.nodes) == ["n1", "n2"]
    assert list(found.namespaces) == ["shop"]
    assert found.workload_of(instance) is found.workloads[db]
    assert found.vmis[instance.uid] is instance.vmi
    assert found.pods[instance.pod.uid] is instance.pod
    assert found.launcher_pods[instance.uid] == [instance.pod]
    assert found.instances_by_pod[instance.pod.ref] is instance
    assert found.instances_of(Ref("VirtualMachine", "shop", "none")) == ()
    assert not found.in_flight.pods


def test_bare_pod_has_no_workload_object() -> None:
    found = view()
    alone = Ref("Pod", "shop", "alone")
    (instance,) = found.instances_of(alone)

    assert (instance.workload, found.workload_of(instance)) == (alone, None)
