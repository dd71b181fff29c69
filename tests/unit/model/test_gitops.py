# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which controller or tool owns a workload's template?"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.objects import Owner, Ref
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import (
    Workload,
    managed_by,
)


def _workload(owner: Owner | None = None, **metadata: t.Any) -> Workload:
    return Workload(Ref("VirtualMachine", "shop", "a"), "1", {"metadata": metadata}, owner)


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (_workload(), None),
        (_workload(labels={"app.kubernetes.io/managed-by": "kustomize"}), None),
        (_workload(annotations={"meta.helm.sh/release-name": ""}), None),
        (_workload(Owner("VirtualMachinePool", "pool", "p")), "VirtualMachinePool pool"),
        (
            _workload(annotations={"argocd.argoproj.io/tracking-id": "app:x"}),
            "Argo CD (argocd.argoproj.io/tracking-id=app:x)",
        ),
        (
            _workload(labels={"argocd.argoproj.io/instance": "app"}),
            "Argo CD (argocd.argoproj.io/instance=app)",
        ),
        (
            _workload(labels={"helm.toolkit.fluxcd.io/name": "app"}),
            "Flux (helm.toolkit.fluxcd.io/name=app)",
        ),
        (
            _workload(annotations={"meta.helm.sh/release-name": "app"}),
            "Helm (meta.helm.sh/release-name=app)",
        ),
        (
            _workload(
                labels={"app.kubernetes.io/instance": "app"},
                managedFields=[{"manager": "argocd-controller"}],
            ),
            "Argo CD (field manager argocd-controller)",
        ),
        (
            _workload(managedFields=[{"manager": "kustomize-controller"}]),
            "Flux (field manager kustomize-controller)",
        ),
        (
            _workload(managedFields=[{"manager": "helm-controller"}]),
            "Flux (field manager helm-controller)",
        ),
        (_workload(labels={"app.kubernetes.io/instance": "app"}), None),
    ],
)
def test_managed_by_names_the_owner_or_gitops_tool(
    workload: Workload, expected: str | None
) -> None:
    assert managed_by(workload) == expected
