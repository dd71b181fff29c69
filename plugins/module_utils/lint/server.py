# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings about fields that the server does not know, or takes and ignores."""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import PodTerm, SpreadConstraint
from ..model.platform import Platform
from ..rules.compile import MISMATCH_SINCE, TAINTS_POLICY_SINCE
from ..rules.machine_labels import release
from ..verdicts.terms import Term
from .scene import Scene, Subject

MIN_DOMAINS_SINCE = (1, 27)
"""First Kubernetes in which minDomains is on by default."""

SPREAD_KEYS_SINCE = (1, 27)
"""First Kubernetes in which matchLabelKeys of a spread constraint is on by default."""


def findings(scene: Scene) -> t.Iterator[Finding]:
    if scene.platform is None:
        return
    for subject in scene.subjects:
        for term in subject.terms:
            for field, harm in _lacking(scene.platform, subject, term):
                yield subject.finding(
                    term,
                    "server_lacks_feature",
                    "warning" if term.preferred else "error",
                    f"The server does not know {field} of a {term.kind} term: {harm}.",
                    "Update Kubernetes and KubeVirt, or leave the field out.",
                )


def _lacking(platform: Platform, subject: Subject, term: Term) -> t.Iterator[tuple[str, str]]:
    """Fields with what happens without them."""
    said, version = term.said, platform.kubernetes
    if isinstance(said, PodTerm):
        old_kubevirt = platform.kubevirt and release(platform.kubevirt) < MISMATCH_SINCE
        old = not platform.merges_match_label_keys or (subject.virtual and old_kubevirt)
        if said.mismatch_label_keys and old:
            yield "mismatchLabelKeys", "a machine cannot be live-migrated inside its own domain"
        if said.match_label_keys and old:
            yield "matchLabelKeys", "old and new pods keep each other out of their domains"
    elif isinstance(said, SpreadConstraint):
        if said.min_domains and version < MIN_DOMAINS_SINCE:
            yield "minDomains", "the domains that there are will do"
        if said.node_taints_policy == "Honor" and version < TAINTS_POLICY_SINCE:
            yield "nodeTaintsPolicy", "drained domains still count as empty ones"
        if said.match_label_keys and version < SPREAD_KEYS_SINCE:
            yield "matchLabelKeys", "pods of all revisions are counted together"
