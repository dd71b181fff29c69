# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which findings of a preflight refuse a drain, or one that continues, and with what message? Which lines do the
others get? Pure."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.findings import Finding, InputError, InvalidInput, sentences
from ..model.rendering import listed
from .preflight_findings import (
    CONFIG_POOL_UPDATING,
    CONTROL_PLANE_QUORUM,
    HEALTH_CHECK,
    JOB_ON_NODE,
    KUBEVIRT_UPDATING,
    OTHER_MAINTENANCE,
    POLICY_FALLBACK,
)

_REFUSE_CONTINUED = (
    CONTROL_PLANE_QUORUM,
    JOB_ON_NODE,
    HEALTH_CHECK,
    CONFIG_POOL_UPDATING,
    OTHER_MAINTENANCE,
    KUBEVIRT_UPDATING,
)
"""What also refuses a drain that continues: all but findings about pods, VMs, and the way they leave. A drain
names at its end what stays."""


def refusing(
    findings: t.Iterable[Finding], allowed: t.Container[str], *, continues: bool = False
) -> tuple[Finding, ...]:
    """The findings that refuse a drain, or one that `continues`."""
    return tuple(
        finding
        for finding in findings
        if finding.severity == "error"
        and finding.name not in allowed
        and (not continues or finding.name in _REFUSE_CONTINUED)
    )


def refusal(
    findings: t.Sequence[Finding], consequence: str = " No node was cordoned."
) -> InvalidInput:
    """The error for findings that refuse a drain. `consequence` is its last sentence."""
    errors = [
        InputError(finding.name, f"{finding.why} {finding.advice}", "finding")
        for finding in findings
    ]
    last = errors[-1]
    errors[-1] = replace(last, message=f"{last.message}{consequence}")
    return InvalidInput(errors)


def warning_lines(findings: t.Iterable[Finding]) -> t.Iterator[str]:
    """A line for each rule and name. Of VMs that leave by a policy which is not their first one only the names: the
    lines of their moves say why."""
    shown = [finding for finding in findings if finding.severity != "info"]
    fallbacks = [finding for finding in shown if finding.name == POLICY_FALLBACK]
    for _finding, text in sentences(x for x in shown if x not in fallbacks):
        yield f"warning: {text}"
    vms = [ref for finding in fallbacks for ref in finding.objects]
    if vms:
        leave = "VM leaves" if len(vms) == 1 else "VMs leave"
        yield (
            f"warning: {POLICY_FALLBACK}: {len(vms)} {leave} by another vm_policy than the first one, which is not"
            f" possible: {listed(vms)}. The lines of the moves say why."
        )
