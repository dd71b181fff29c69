# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields of a pod spec may matter for its node, though no filter reads them?

Source: core/v1 PodSpec of Kubernetes 1.36; scheduler plugin volumerestrictions for volumes.
"""

from __future__ import annotations

import typing as t

from .json_pointer import JSON

READ = frozenset(
    (
        "affinity",
        "containers",
        "hostNetwork",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "overhead",
        "preemptionPolicy",
        "priority",
        "resources",
        "schedulerName",
        "schedulingGates",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    )
)
"""What the filters read."""

WITHOUT_EFFECT = frozenset(
    (
        "activeDeadlineSeconds",
        "automountServiceAccountToken",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "hostAliases",
        "hostIPC",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "os",
        "priorityClassName",
        "readinessGates",
        "restartPolicy",
        "runtimeClassName",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
    )
)
"""What has no part in the choice of a node, or only through fields that admission sets from it."""

_KNOWN = READ | WITHOUT_EFFECT

_DISKS = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cinder",
        "gcePersistentDisk",
        "iscsi",
        "portworxVolume",
        "rbd",
        "vsphereVolume",
    )
)
"""Volumes in the pod itself that a second pod of the node may not use (volumerestrictions, isVolumeConflict), or
that count for the limits of a CSI driver (nodevolumelimits, checkAttachableInlineVolume)."""


def unmodeled_fields(spec: t.Mapping[str, JSON]) -> tuple[str, ...]:
    """The names of fields that may matter and that no filter reads, volumes by their kind."""
    fields: list[str] = []
    if not _KNOWN.issuperset(spec):
        fields += [name for name in spec if name not in _KNOWN and spec[name]]
    for volume in spec.get("volumes") or ():
        if not _DISKS.isdisjoint(volume):
            fields += [f"volumes.{name}" for name in _DISKS.intersection(volume)]
    return tuple(sorted(fields)) if fields else ()
