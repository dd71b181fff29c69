# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of the plugins that were once in Kubernetes itself: what the scheduler takes them for.

It sees each as a volume of the CSI driver that has replaced its plugin, where the node says so (annotation
storage.alpha.kubernetes.io/migrated-plugins of its CSINode), as each kubelet since 1.27 does.
Source: k8s.io/csi-translation-lib v0.36, plugins; scheduler plugins nodevolumelimits and volumebinding.
"""

from __future__ import annotations

import typing as t

from .json_pointer import JSON
from .objects import NodeTerm, Requirement

_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGIONS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/region",
}


class Plugin(t.NamedTuple):
    """`zone` and `region` are the node labels of its driver, empty where it has none."""

    provisioner: str
    driver: str
    zone: str = ""
    region: str = ""


_PLUGINS: t.Final = {
    "awsElasticBlockStore": Plugin(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"
    ),
    "azureDisk": Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "azureFile": Plugin("kubernetes.io/azure-file", "file.csi.azure.com"),
    "cinder": Plugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone",
    ),
    "gcePersistentDisk": Plugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"
    ),
    "portworxVolume": Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    "vsphereVolume": Plugin(
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
        "topology.csi.vmware.com/zone",
        "topology.csi.vmware.com/region",
    ),
}
"""By the field of a PersistentVolume's spec."""

_DRIVERS = {plugin.provisioner: plugin.driver for plugin in _PLUGINS.values()}


def driver_of_provisioner(provisioner: str) -> str:
    """The CSI driver for which volumes of a StorageClass count."""
    return _DRIVERS.get(provisioner, provisioner)


def plugin_of(spec: t.Mapping[str, JSON]) -> Plugin | None:
    """The plugin of a PersistentVolume; None for a CSI volume, and for one of a plugin that is as it was."""
    return next((plugin for field, plugin in _PLUGINS.items() if spec.get(field)), None)


def as_of_driver(
    plugin: Plugin, terms: tuple[NodeTerm, ...], labels: t.Mapping[str, str]
) -> tuple[NodeTerm, ...]:
    """The node terms of a volume with the node labels of the driver (translateTopologyFromInTreeToCSI)."""
    if not plugin.zone:
        return terms
    keys = {expression.key for term in terms for expression in term.expressions}
    used = [key for key in _ZONES if key in keys] or [key for key in _ZONES if key in labels]
    zone = next(iter(used), _ZONES[0])
    region = _REGIONS[zone]
    replaced = {zone: plugin.zone}
    if plugin.region or zone != _ZONES[0]:
        replaced[region] = plugin.region or _REGIONS[_ZONES[0]]
    added = [
        Requirement(new, "In", tuple(labels[key].split("__")))
        for key, new in ((zone, plugin.zone), (region, plugin.region))
        if new and key not in keys and labels.get(key)
    ]
    if not terms and not added:
        return terms
    return tuple(
        NodeTerm(
            (
                *(_renamed(x, replaced) for x in term.expressions),
                *added,
            ),
            term.fields,
        )
        for term in terms or (NodeTerm(),)
    )


def _renamed(expression: Requirement, keys: t.Mapping[str, str]) -> Requirement:
    key = keys.get(expression.key, expression.key)
    return Requirement(key, expression.operator, expression.values)
