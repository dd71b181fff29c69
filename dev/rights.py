# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the suites use each right that rbac/ grants, and none beside? python -m dev.rights DIRECTORY.

The directory has what each sandbox recorded (`sandbox/used_rights.py`). A right that no suite uses should
not be granted, and a request that was refused may need a right that is missing.
"""

from __future__ import annotations

import sys
import typing as t
from pathlib import Path

from sandbox import identities, installation
from sandbox.used_rights import DIRECTORY, Right, Use, read

_MARKER = "placement.virt"
"""Group of a right that no request needs: it makes the policies apply (tests/sandbox/test_policies.py)."""

_READING = frozenset({"get", "list", "watch"})
"""One right for each resource: they reveal the same."""

_KUBEVIRT, _SUBRESOURCES = "kubevirt.io", "subresources.kubevirt.io"
_VMIS = "virtualmachineinstances"

RARE: t.Mapping[tuple[str, Right], str] = {
    ("reader", Right("get", "k8s.cni.cncf.io", "network-attachment-definitions")): (
        "halted VMs on Multus networks, which no sandbox has (tests/unit/cluster)"
    ),
    ("reader", Right("get", "", "persistentvolumeclaims")): (
        "VMIs with claims in some namespaces (tests/modules/test_snapshot.py)"
    ),
    (
        "mover",
        Right("patch", "", "pods"),
    ): "annotations at a takeover (tests/faults/test_rollout.py)",
    ("maintainer", Right("patch", "", "pods")): "annotations at a takeover",
    ("maintainer", Right("patch", _KUBEVIRT, _VMIS)): "annotations at a takeover",
    ("maintainer", Right("delete", _KUBEVIRT, _VMIS)): (
        "VMIs of a replica set that cannot be migrated, vm_policy restart"
    ),
    ("maintainer", Right("delete", _KUBEVIRT, "virtualmachineinstancemigrations")): (
        "a migration that takes too long; what an unfinished drain left"
    ),
    ("maintainer", Right("get", "apps", "controllerrevisions")): "vm_policy restart",
    ("maintainer", Right("get", "coordination.k8s.io", "leases", "virt-controller")): (
        "a drain that waits for longer than 15 s"
    ),
    ("maintainer", Right("update", _SUBRESOURCES, "virtualmachines/restart")): "vm_policy restart",
    ("maintainer", Right("update", _SUBRESOURCES, "virtualmachines/stop")): "vm_policy stop",
    ("maintainer", Right("update", _SUBRESOURCES, "virtualmachines/start")): (
        "vm_policy stop_and_start"
    ),
    ("maintainer", Right("update", _SUBRESOURCES, f"{_VMIS}/evacuate")): "a drain that is undone",
    ("maintainer", Right("update", _SUBRESOURCES, f"{_VMIS}/evacuate/cancel")): (
        "the same: virt-api asks for this name, which is in no audit log"
    ),
    **{
        ("maintainer", Right(verb, group, "machines")): (
            "nodes with a MachineHealthCheck, which no sandbox has (tests/unit/maintenance)"
        )
        for verb in ("get", "list")
        for group in ("machine.openshift.io", "cluster.x-k8s.io")
    },
}
"""Rights that a run of the suites need not use, by role, and what uses them: a crash or a fault by chance."""

REFUSED: t.Mapping[tuple[str, Right], str] = {
    ("reader", Right("get", "coordination.k8s.io", "leases", "virt-placement")): (
        "rollout with the reader's rights (tests/modules/test_rollout_trouble.py)"
    ),
    ("mover", Right("create", _KUBEVIRT, "virtualmachineinstancemigrations")): (
        "rights taken away in a run (tests/modules/test_rollout_trouble.py)"
    ),
    **{
        ("reader", Right("list", group, resource)): (
            "node_maintenance with the reader's rights (tests/modules/test_access.py)"
        )
        for group, resource in (
            ("cluster.x-k8s.io", "machinehealthchecks"),
            ("machine.openshift.io", "machinehealthchecks"),
            ("machineconfiguration.openshift.io", "machineconfigpools"),
            ("remediation.medik8s.io", "nodehealthchecks"),
        )
    },
}
"""Requests that are refused on purpose, by identity, and the test that makes them."""


def granted() -> dict[str, set[Right]]:
    """The rights of each shipped role."""
    rights: dict[str, set[Right]] = {}
    for file in sorted(installation.RBAC.glob("*.yml")):
        for item in identities.shipped(file.name):
            for rule in item.get("rules", ()):
                rights.setdefault(file.stem, set()).update(
                    Right(verb, group, resource, name)
                    for verb in rule["verbs"]
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for name in rule.get("resourceNames", [""])
                    if group != _MARKER
                )
    return rights


def unused(uses: t.Iterable[Use]) -> dict[str, set[Right]]:
    """The rights that no request needed, by role. A right that Kubernetes gives to all users beside
    the role counts as used by each role of the identity."""
    used = {
        (role, _read_as_one(use.right))
        for use in uses
        if use.allowed
        for role in ((use.role,) if use.role else identities.IDENTITIES[use.identity].roles)
    }
    left = {
        role: {right for right in rights if (role, _read_as_one(right)) not in used}
        for role, rights in granted().items()
    }
    return {role: rights for role, rights in left.items() if rights}


def _read_as_one(right: Right) -> Right:
    return right._replace(verb="read") if right.verb in _READING else right


def refused(uses: t.Iterable[Use]) -> set[tuple[str, Right]]:
    """(identity, right) of each request that the roles of the identity did not allow."""
    return {(use.identity, use.right) for use in uses if not use.allowed}


def main(arguments: list[str]) -> int:
    uses = read(Path(arguments[0]))
    if not uses:
        print(f"rights: {arguments[0]} has no records: run all suites with {DIRECTORY} set to it")
        return 1
    lines = [
        f"granted, but not used: {right} (rbac/{role}.yml)"
        for role, rights in unused(uses).items()
        for right in sorted(rights)
        if (role, right) not in RARE
    ]
    lines += [
        f"not granted, but requested: {right} (by {identity})"
        for identity, right in sorted(refused(uses) - set(REFUSED))
    ]
    print("\n".join(lines) or f"rights: {len(uses)} uses, and each right of rbac/ among them")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
