# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A view finds what a snapshot holds, and its index is as before after changes were tried on it."""

from __future__ import annotations

import contextlib

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Pod, Ref
from ansible_collections.virt.placement.plugins.module_utils.view.view import ClusterView, IndexFork
from tests.unit.compliance.cluster import Cluster


def view() -> ClusterView:
    cluster = Cluster("ab")
    cluster.run("db", "n1")
    cluster.run("web", "n2")
    cluster.bare_pod("alone", "n2")
    return ClusterView(cluster.snapshot())


def placed(fork: IndexFork) -> dict[str, str]:
    return {pod.name: fork.index.node_of(pod.uid) for pod in fork.index.pods}


def test_objects_are_found_by_name_uid_and_reference() -> None:
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


def test_index_is_as_before_when_a_fork_ends() -> None:
    found = view()
    with found.fork() as fork:
        before = placed(fork)
        pod = fork.remove("pod-alone")
        fork.place(pod, "n1")
        fork.place(Pod("shop", "new", "p-new"), "n1")
        assert (placed(fork)["alone"], placed(fork)["new"]) == ("n1", "n1")

    assert placed(fork) == before
    assert found.index is fork.index


def test_index_is_as_before_when_a_fork_fails() -> None:
    found = view()
    fork = found.fork()
    before = placed(fork)
    with contextlib.suppress(ValueError), fork:
        fork.place(fork.remove("pod-alone"), "n1")
        raise ValueError

    assert placed(fork) == before


def test_changes_after_a_mark_are_reverted() -> None:
    fork = view().fork()
    before = placed(fork)
    pod = fork.remove("pod-alone")
    mark = fork.changes
    fork.place(pod, "n1")

    fork.revert(mark)
    assert "alone" not in placed(fork)
    fork.revert()
    assert placed(fork) == before
