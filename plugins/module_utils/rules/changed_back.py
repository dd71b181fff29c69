# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which terms of rules does admission take out of a write again, as a mutating webhook may?

The answer to a write has the object as it was stored. Where it lacks a term, each further run would write the
term again, for ever.
"""

from __future__ import annotations

import json
import typing as t

from ..model.findings import Finding
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import listed
from ..model.rule import RuleId
from ..model.snapshot import Workload
from .checks import CHANGED_BY_WEBHOOK, LOCATION_TEXTS, for_rules
from .draft import RequestedRules, present_terms
from .term_slots import TemplateTerm, TermLocation


def changed_back(ref: Ref, answer: JSON, requested: RequestedRules) -> list[Finding]:
    """The findings about an object whose answer to a write is not as it was written."""
    template = Workload(ref, str(answer["metadata"]["uid"]), answer).template
    there = {fingerprint.effect for fingerprint in present_terms(template)}
    missing: dict[RuleId, list[TemplateTerm]] = {}
    for rule, terms in sorted(requested.listed.items()):
        lost = [term for term in terms or () if term.effect not in there]
        if lost:
            missing[rule] = lost
    if not missing:
        return _finding(sorted(requested.listed), ref, "the terms as they were written", ())
    findings = []
    for rule, lost in missing.items():
        texts = [
            f"{LOCATION_TEXTS[x.location]} {json.dumps(x.value, sort_keys=True)}" for x in lost
        ]
        findings += _finding([rule], ref, listed(texts, 3), lost)
    return findings


_WHERE_TO_LOOK = "See kubectl get mutatingwebhookconfigurations, for a policy kubectl get mutatingadmissionpolicies"


def changed_back_by_revert(ref: Ref) -> Finding:
    """The finding about an object that is not as it was restored."""
    return Finding(
        CHANGED_BY_WEBHOOK,
        "error",
        f"The API server's answer to the write of {ref} does not have the placement that was restored: an admission"
        " webhook or policy changed it again.",
        f"{_WHERE_TO_LOOK}, and compare the object with its undo record.",
        (ref,),
    )


def _finding(
    rules: t.Iterable[RuleId], ref: Ref, what: str, terms: t.Collection[TemplateTerm]
) -> list[Finding]:
    by_name = any(
        x.location is TermLocation.NODE_FIELD
        or (x.location is TermLocation.NODE_TERM and not x.value.get("matchExpressions"))
        for x in terms
    )
    hint = (
        " Harvester's webhook drops node terms that have matchFields alone: use run_on with"
        " kubernetes.io/hostname."
        if by_name
        else ""
    )
    return for_rules(
        rules,
        ref,
        CHANGED_BY_WEBHOOK,
        f"The API server's answer to the write of {ref} does not have {what}: an admission webhook or policy took it"
        " out again.",
        f"{_WHERE_TO_LOOK}. Write the rule in a form that it keeps, or leave this workload out of the rule.{hint}",
    )
