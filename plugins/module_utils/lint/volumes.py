# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which workloads share a volume that only one pod, or the pods of one node, can use?

kube-scheduler refuses a second pod with a claim ReadWriteOncePod (plugin VolumeRestrictions). It does not look at
ReadWriteOnce: a pod that it places on another node waits there until the volume is detached from the first one
(kubernetes pkg/controller/volume/attachdetach/reconciler, "Multi-Attach error").
"""

from __future__ import annotations

import typing as t

from ..compliance.terms import TermKind
from ..kubevirt.instances import claim_name
from ..model.findings import Finding, Severity
from ..model.storage import EXCLUSIVE, uses_of
from ..model.topology import HOSTNAME
from ..scheduler.node_affinity import nodes_of_terms
from .lint_input import LintedWorkload, LintInput

_ADVICE = (
    "Set strategy.type: Recreate, or maxSurge 0 and maxUnavailable 1, so that the old pod ends first; or use a claim"
    " with access mode ReadWriteMany."
)


def findings(lint_input: LintInput) -> t.Iterator[Finding]:
    for subject in lint_input.subjects:
        if subject.spec is None or subject.is_vm or not subject.replicas:
            continue
        for claim in filter(None, map(claim_name, subject.spec.get("volumes") or ())):
            modes = lint_input.access_modes.get((subject.ref.namespace, claim), ())
            exclusive, one_node = uses_of(modes)
            if exclusive and subject.replicas > 1:
                yield _one_of_many(subject, claim)
            if one_node or exclusive:
                yield from _rollout(lint_input, subject, claim, exclusive=exclusive)


def _one_of_many(subject: LintedWorkload, claim: str) -> Finding:
    return subject.finding(
        None,
        "unsatisfiable",
        "error",
        f"Only 1 of {subject.replicas} pods can run: all use the claim {claim}, which is {EXCLUSIVE}.",
        "Run one pod, use a claim for each pod (StatefulSet), or one with access mode ReadWriteMany.",
    )


def _rollout(
    lint_input: LintInput, subject: LintedWorkload, claim: str, *, exclusive: bool
) -> t.Iterator[Finding]:
    """A Deployment that stops no old pod before a new one is Ready."""
    if subject.workload is None:
        return
    room = subject.workload.rollout_room
    if room.stops_first or room.unavailable:
        return
    node = _only_node(lint_input, subject.ref.namespace, claim)
    severity: Severity = "warning"
    if exclusive:
        severity, kind = "error", EXCLUSIVE
        effect = "so the new pod of a rollout stays Pending, and the old one is not stopped before the new one is Ready"
    else:
        kind = f"of node {node}" if node else "ReadWriteOnce"
        effect = (
            "so the new pod of a rollout must run on the node of the old one, which is not stopped before the new one"
            " is Ready"
        )
        if _keeps_apart(lint_input, subject):
            severity = "error"
            effect += ", and its anti-affinity forbids that node"
        elif node:
            effect += f": without room for both on {node} the rollout waits forever"
        else:
            effect += ": on another node it waits for the volume forever"
    yield subject.finding(
        None,
        "volume_blocks_rollout",
        severity,
        f"Its pods use the claim {claim}, which is {kind}, {effect}.",
        _ADVICE,
    )


def _only_node(lint_input: LintInput, namespace: str, claim: str) -> str | None:
    """The one node that reaches the volume of a claim; None if there are others or that is not known."""
    terms = lint_input.claim_terms.get((namespace, claim))
    if not terms or lint_input.nodes is None:
        return None
    names = lint_input.table.names_of(nodes_of_terms(terms, lint_input.table, with_fields=False))
    return names[0] if len(names) == 1 else None


def _keeps_apart(lint_input: LintInput, subject: LintedWorkload) -> bool:
    """Whether no two of its pods may share a node, of whatever revision they are."""
    return any(
        term.kind is TermKind.ANTI_AFFINITY
        and term.source.topology_key == HOSTNAME
        and not term.source.match_label_keys
        and lint_input.selects_itself(subject, term)
        for term in subject.terms
    )
