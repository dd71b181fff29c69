# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the diff of a policy show? Its new members, each as the diff of a workload that gets the same."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ..model.admission_policy import MUTATING
from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.rendering import label_text
from ..model.rule import Rule
from ..model.snapshot import Snapshot
from ..model.write import Write
from ..rules.draft import RequestedRules
from ..rules.merge import merge
from ..rules.record import RuleSetChange
from ..rules.term_slots import digest
from .members import NewMember, new_members, stand_in

_EXPRESSIONS = ("matchConditions", "variables", "mutations")
"""Fields of a spec that are code for the API server."""


def with_members_shown(
    writes: t.Iterable[Write],
    before: t.Mapping[str, t.Sequence[Rule]],
    after: t.Sequence[Rule],
    snapshot: Snapshot,
) -> tuple[Write, ...]:
    """The writes with the new members of policies in place of expressions. `before`: the rules of each policy by its
    path; `after`: those of the policy that stays."""
    return tuple(
        replace(
            write,
            before=_shown(write, write.before, before.get(write.path, ()), snapshot),
            after=_shown(write, write.after, after, snapshot),
        )
        for write in writes
    )


def _shown(write: Write, spec: JSON, rules: t.Sequence[Rule], snapshot: Snapshot) -> JSON:
    if spec is None or "policyName" in spec:  # a binding
        return spec
    members = new_members(rules, snapshot).members
    return {
        "new_members": [_member(x, write.target.kind == MUTATING) for x in members],
        **{name: value for name, value in spec.items() if name not in _EXPRESSIONS},
        "expressions": digest([spec.get(name) for name in _EXPRESSIONS], 12),
    }


def _member(member: NewMember, mutates: bool) -> JSON:
    """The `workloads` of a new member in words, with what each of them gets."""
    kind, labels = member.kind.name, member.labels
    names = [f"{kind} {name}" for name in member.names]
    if labels is not None:
        pairs = (label_text(*pair) for pair in sorted(labels.items()))
        names = [f"each {kind} with {', '.join(pairs)}"]
    if not mutates:
        return {"workloads": names, "rules": [str(member.rule)], "warns": True}
    wanted = RequestedRules(
        {member.rule: member.terms},
        RuleSetChange(f"{member.rule.namespace}/{member.rule.rule_set}", 1, ""),
        stored={member.rule: member.stored},
    )
    write = merge(stand_in(Ref(kind, member.rule.namespace, "new"), {}), wanted).write
    return {**(write.after if write is not None else {}), "workloads": names}
