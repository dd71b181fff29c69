# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs ask for nodes of another architecture than that of their guest?

KubeVirt gives a VM without `architecture` the default of the cluster, and its pod the selector of it, unless the
nodeSelector of the VM has the key (KubeVirt 1.8.4, pkg/defaults/defaults.go, setDefaultArchitecture;
pkg/virt-controller/services/nodeselectorrenderer.go, NewNodeSelectorRenderer).
"""

from __future__ import annotations

import typing as t

from ..compliance.terms import requirement_text
from ..model.findings import Finding
from ..model.objects import Placement, Requirement
from .lint_input import LintedWorkload, LintInput
from .next_vmi import ARCH, pairs_of

_USUAL = "amd64"
"""The default of most clusters. Without a cluster a VM that asks for it has no finding."""


def architecture_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Node terms that exclude the selector of KubeVirt are the finding `unsatisfiable`."""
    for subject in lint_input.subjects:
        vmi = lint_input.next_pods.vmi(subject)
        if vmi is None:
            continue
        guest = lint_input.next_pods.architecture(vmi)
        selector = str((vmi.spec.get("nodeSelector") or {}).get(ARCH) or "")
        if guest and selector and selector != guest:
            own = "" if vmi.spec.get("architecture") else " by the default of the cluster"
            yield _finding(
                subject,
                f"Its nodeSelector has {ARCH}={selector}, and its guest has the architecture {guest}{own}. KubeVirt"
                f" keeps the selector, so that a guest of {guest} starts on a node of {selector}.",
                selector,
            )
        elif not guest and (part := _asked(subject.declared.placement)) is not None:
            yield _finding(
                subject,
                f"It asks for nodes with {requirement_text(part)}, and names no architecture. Its guest gets the"
                " default of the cluster, which may be another one.",
                part.values[0],
            )


def _asked(placement: Placement) -> Requirement | None:
    """The requirement on another architecture than the usual one, where each node term has one."""
    terms = placement.node_terms or ()
    alone = terms[0].expressions if len(terms) == 1 else ()
    parts = [part for part in (*pairs_of(placement), *alone) if part.key == ARCH]
    parts = [part for part in parts if part.operator == "In" and part.values]
    return next((part for part in parts if _USUAL not in part.values), None)


def _finding(subject: LintedWorkload, why: str, architecture: str) -> Finding:
    advice = (
        f"Set the field architecture of its template to {architecture}, or ask for other nodes."
    )
    return subject.finding(None, "architecture_mismatch", "warning", why, advice)
