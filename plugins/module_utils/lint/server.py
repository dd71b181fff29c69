# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which fields does the server not know, and which templates does the API server refuse?

KubeVirt's webhook checks less than the API server does when it is given the launcher pod, and no
server has checked a manifest.
"""

from __future__ import annotations

import marshal
import typing as t

from ..compliance.terms import Term
from ..kubevirt.labels import MISMATCH_SINCE
from ..model.findings import Finding
from ..model.objects import Labels, PodTerm, SpreadConstraint
from ..model.rendering import label_text
from ..model.snapshot import MIN_DOMAINS_SINCE, SPREAD_KEYS_SINCE, TAINTS_POLICY_SINCE, Platform
from ..rules.term_slots import FIELDS
from ..scheduler.validation import (
    DUPLICATE,
    WRONG_TYPE,
    ValidationError,
    key_errors,
    label_errors,
    validate_pod_placement,
)
from .lint_input import LintedWorkload, LintInput


def unsupported_field_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    if lint_input.platform is None:
        return
    for subject in lint_input.subjects:
        for term in subject.terms:
            for field, harm in _lacking(lint_input.platform, subject, term):
                yield subject.finding(
                    term,
                    "unsupported_by_server",
                    "warning" if term.preferred else "error",
                    f"The server does not know {field} of a {term.kind} term: {harm}.",
                    "Update Kubernetes and KubeVirt, or leave the field out.",
                )


def _lacking(
    platform: Platform, subject: LintedWorkload, term: Term
) -> t.Iterator[tuple[str, str]]:
    """The fields that the server lacks, and what happens without them."""
    spec, version = term.source, platform.kubernetes
    if isinstance(spec, PodTerm):
        old_kubevirt = platform.kubevirt and platform.kubevirt_release < MISMATCH_SINCE
        old = not platform.merges_match_label_keys or (subject.is_vm and old_kubevirt)
        if spec.mismatch_label_keys and old:
            yield "mismatchLabelKeys", "a VM cannot be live-migrated inside its own topology domain"
        if spec.match_label_keys and old:
            yield "matchLabelKeys", "old and new pods keep each other out of their topology domains"
    elif isinstance(spec, SpreadConstraint):
        if spec.min_domains and version < MIN_DOMAINS_SINCE:
            fewer = f"fewer than {spec.min_domains} values of {spec.topology_key}"
            yield "minDomains", f"pods are also placed while there are {fewer}"
        if spec.node_taints_policy == "Honor" and version < TAINTS_POLICY_SINCE:
            yield (
                "nodeTaintsPolicy",
                "topology domains whose nodes are all drained still count as empty ones",
            )
        if spec.match_label_keys and version < SPREAD_KEYS_SINCE:
            yield "matchLabelKeys", "pods of all revisions are counted together"


_REPORTED_BY_EMPTY_NODE_TERM = "nodeSelectorTerms"
"""A required node affinity without terms is the finding empty_node_term."""

_SHOWN = 3


def invalid_template_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    errors_by_fields: dict[bytes, list[ValidationError]] = {}
    for subject in lint_input.subjects:
        if subject.spec is None:
            continue
        fields = {name: subject.spec.get(name) for name in FIELDS if name != "nodeSelector"}
        key = marshal.dumps(fields, 2)
        if key not in errors_by_fields:
            errors_by_fields[key] = [
                error
                for error in validate_pod_placement(fields)
                if not error.field.endswith(_REPORTED_BY_EMPTY_NODE_TERM)
            ]
        errors = [
            *_of_labels(subject.declared.labels, "metadata.labels"),
            *_of_labels(subject.spec.get("nodeSelector") or {}, "spec.nodeSelector"),
            *errors_by_fields[key],
        ]
        if errors:
            yield _invalid(subject, errors)


def gate_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Scheduling gates that a template names twice, or by no valid name (kubernetes, pkg/apis/core/validation,
    validateSchedulingGates). A VMI has no such field."""
    for subject in lint_input.subjects:
        gates = (subject.spec or {}).get("schedulingGates")
        if subject.is_vm or not isinstance(gates, list):
            continue
        names = [gate.get("name") if isinstance(gate, dict) else gate for gate in gates]
        errors = []
        for number, name in enumerate(names):
            field = f"spec.schedulingGates[{number}]"
            if not isinstance(name, str):
                errors.append(ValidationError(WRONG_TYPE, field, "must have a name"))
            elif name in names[:number]:
                errors.append(ValidationError(DUPLICATE, field, f'Duplicate value: "{name}"'))
            else:
                errors += key_errors(name, field)
        if errors:
            yield _invalid(subject, errors)


def instance_type_findings(lint_input: LintInput) -> t.Iterator[Finding]:
    """Fields that a VM must not have beside its instance type."""
    for subject in lint_input.subjects:
        vmi = lint_input.next_pods.vmi(subject)
        if vmi is not None and vmi.conflicts:
            fields = " and ".join(f"spec.template.spec.{name}" for name in vmi.conflicts)
            yield subject.finding(
                None,
                "invalid_placement",
                "error",
                f"virt-api refuses it: {fields} {'conflicts' if len(vmi.conflicts) == 1 else 'conflict'} with its"
                f" instance type {vmi.instance_type}, which has the same.",
                "Leave the field out of the VM, or choose another instance type.",
            )


def _of_labels(labels: Labels, field: str) -> t.Iterator[ValidationError]:
    """The errors of each label of a field, with its key and value in the place of the field."""
    for key, value in labels.items():
        yield from label_errors({key: value}, f"{field} {label_text(key, value)}:")


def _invalid(subject: LintedWorkload, errors: t.Sequence[ValidationError]) -> Finding:
    """A finding without a rule: terms of rules are checked before they are written."""
    messages = [f"{error.field} {error.detail or 'is required'}" for error in errors[:_SHOWN]]
    more = f" and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
    return Finding(
        "invalid_placement",
        "error",
        f"The API server refuses pods made from its template: {'; '.join(messages)}{more}.",
        "Correct the fields. Running instances keep running, but cannot be restarted or migrated.",
        (subject.ref,),
        named=(),
    )
