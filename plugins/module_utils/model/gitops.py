# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which controller or tool manages a workload, and would revert a change of its template?"""

from __future__ import annotations

import typing as t

from .snapshot import Workload

_ANNOTATIONS: t.Mapping[str, str] = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "meta.helm.sh/release-name": "Helm",
}
"""Argo CD: resource tracking by annotation, its default since 3.0. Helm: owner of a release."""

_LABELS: t.Mapping[str, str] = {
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}


def managed_by(workload: Workload) -> str | None:
    """The controller or tool that owns the workload's template, with its name; None if there is none."""
    if workload.owner is not None:
        return f"{workload.owner.kind} {workload.owner.name}"
    for labels, tools in ((workload.labels, _LABELS), (workload.annotations, _ANNOTATIONS)):
        for key, tool in tools.items():
            if labels.get(key):
                return f"{tool} ({key}={labels[key]})"
    return None
