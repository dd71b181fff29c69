# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judge finds about workloads while it reads them: rules that are not in force as written.

Lint finds more; these two decide verdicts, so they are told with them.
"""

from __future__ import annotations

import typing as t

from ..model.finding import Finding
from ..model.objects import Ref
from ..model.rule import RuleId
from .declared import Declared

BYPASSED = "bypassed"
CLONED = "cloned"


def findings_of(declared: t.Iterable[Declared]) -> tuple[Finding, ...]:
    """The findings of workloads, each workload once."""
    workloads = {each.workload: each for each in declared}
    return tuple(found for each in workloads.values() for found in findings_of_workload(each))


def findings_of_workload(declared: Declared) -> t.Iterator[Finding]:
    """`bypassed` for each rule that a foreign OR-ed term lets nodes past, `cloned` where the
    annotation with the rules is another object's."""
    for rule in declared.rules:
        if rule.nodes is not None and rule.nodes.bypasses:
            yield _bypassed(rule.rule, declared.workload)
    if declared.cloned_from:
        yield _cloned(declared.workload)


def _bypassed(rule: str, workload: Ref) -> Finding:
    return Finding(
        BYPASSED,
        "error",
        "A required node term that somebody added lacks the rule's expression, and terms are OR-ed,"
        " so a node that fits that term need not obey the rule.",
        "Write the rules again, which puts the expression into every term, or remove the term.",
        (workload,),
        RuleId.parse(rule).name,
    )


def _cloned(workload: Ref) -> Finding:
    return Finding(
        CLONED,
        "warning",
        "The annotation with the rules was written for another object, so this one is a copy: it"
        " carries the terms, but no rule owns them.",
        "List the copy in a rule with adopt set to true, or remove the terms and the annotation"
        " from it.",
        (workload,),
    )
