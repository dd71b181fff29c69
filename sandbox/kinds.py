# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API paths of every kind that sandbox and tests use."""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Kind:
    """Where the API server keeps objects of a kind."""

    api_version: str
    plural: str
    namespaced: bool = True

    def collection(self, namespace: str | None = None) -> str:
        """Path of all objects of this kind, of one namespace or of all."""
        base = "/api" if self.api_version == "v1" else "/apis"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{base}/{self.api_version}{within}/{self.plural}"


def _group(api_version: str, *, namespaced: bool = True, **plurals: str) -> dict[str, Kind]:
    return {kind: Kind(api_version, plural, namespaced) for kind, plural in plurals.items()}


KINDS: t.Final[dict[str, Kind]] = {
    **_group(
        "v1",
        Node="nodes",
        Namespace="namespaces",
        PersistentVolume="persistentvolumes",
        namespaced=False,
    ),
    **_group(
        "v1",
        Pod="pods",
        Service="services",
        ConfigMap="configmaps",
        Secret="secrets",
        Event="events",
        PersistentVolumeClaim="persistentvolumeclaims",
        ResourceQuota="resourcequotas",
        LimitRange="limitranges",
        ServiceAccount="serviceaccounts",
        ReplicationController="replicationcontrollers",
    ),
    **_group(
        "apps/v1",
        Deployment="deployments",
        ReplicaSet="replicasets",
        StatefulSet="statefulsets",
        DaemonSet="daemonsets",
        ControllerRevision="controllerrevisions",
    ),
    **_group("batch/v1", Job="jobs"),
    **_group("policy/v1", PodDisruptionBudget="poddisruptionbudgets"),
    **_group("coordination.k8s.io/v1", Lease="leases"),
    **_group(
        "storage.k8s.io/v1",
        StorageClass="storageclasses",
        VolumeAttachment="volumeattachments",
        namespaced=False,
    ),
    **_group("scheduling.k8s.io/v1", PriorityClass="priorityclasses", namespaced=False),
    **_group(
        "rbac.authorization.k8s.io/v1",
        ClusterRole="clusterroles",
        ClusterRoleBinding="clusterrolebindings",
        namespaced=False,
    ),
    **_group("rbac.authorization.k8s.io/v1", Role="roles", RoleBinding="rolebindings"),
    **_group(
        "authorization.k8s.io/v1",
        SelfSubjectAccessReview="selfsubjectaccessreviews",
        namespaced=False,
    ),
    **_group(
        "apiextensions.k8s.io/v1",
        CustomResourceDefinition="customresourcedefinitions",
        namespaced=False,
    ),
    **_group("apiregistration.k8s.io/v1", APIService="apiservices", namespaced=False),
    **_group(
        "admissionregistration.k8s.io/v1",
        MutatingAdmissionPolicy="mutatingadmissionpolicies",
        MutatingAdmissionPolicyBinding="mutatingadmissionpolicybindings",
        MutatingWebhookConfiguration="mutatingwebhookconfigurations",
        ValidatingWebhookConfiguration="validatingwebhookconfigurations",
        ValidatingAdmissionPolicy="validatingadmissionpolicies",
        ValidatingAdmissionPolicyBinding="validatingadmissionpolicybindings",
        namespaced=False,
    ),
    **_group(
        "kubevirt.io/v1",
        KubeVirt="kubevirts",
        VirtualMachine="virtualmachines",
        VirtualMachineInstance="virtualmachineinstances",
        VirtualMachineInstanceReplicaSet="virtualmachineinstancereplicasets",
        VirtualMachineInstanceMigration="virtualmachineinstancemigrations",
    ),
    **_group("pool.kubevirt.io/v1beta1", VirtualMachinePool="virtualmachinepools"),
    **_group(
        "instancetype.kubevirt.io/v1beta1",
        VirtualMachineInstancetype="virtualmachineinstancetypes",
        VirtualMachinePreference="virtualmachinepreferences",
    ),
    **_group(
        "instancetype.kubevirt.io/v1beta1",
        VirtualMachineClusterInstancetype="virtualmachineclusterinstancetypes",
        VirtualMachineClusterPreference="virtualmachineclusterpreferences",
        namespaced=False,
    ),
    **_group(
        "migrations.kubevirt.io/v1alpha1", MigrationPolicy="migrationpolicies", namespaced=False
    ),
}
