# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does a task of rules change in the policies of its set, for workloads that are created later?"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..model.admission_policy import (
    NAMESPACE,
    POLICY_API,
    POLICY_LISTS,
    RULE_SET,
    AdmissionPolicy,
)
from ..model.json_pointer import ANNOTATIONS, JSON, LABELS, Pointer
from ..model.kinds import RULES
from ..model.objects import Ref
from ..model.obstacle import Obstacle
from ..model.rule import RuleId, WorkloadSelector
from ..model.snapshot import Workload
from ..model.write import Operation, Write
from .term_slots import digest

NONE, POLICY, WARNING = "none", "policy", "warn"
"""What a task wants for workloads that are created later: nothing, their rules, or a warning."""

_RULES_OF = ANNOTATIONS / RULES

UNKNOWN = "unknown"
"""In place of the digest of a policy."""


@dataclass(frozen=True)
class PolicyPlan:
    """`manifests`: the policy and its binding, none where there is no policy: `why_none` says why, or no rule is for
    new members. `not_covered`: the rules that new members do not get, each with the reason. `covered`: those that they
    get; `named`: the workloads that get something by their name; `expected`: stand-ins of workloads that these rules
    name and that do not exist, and `there` what the rules of the task choose without them. `removed`: rules that leave
    the policies of the set, or rest in them from now on; `narrowed` those that stay in them for fewer workloads; `kept`
    those that workloads lose while labels in the policy still choose new ones. `rules`: those of the policy once the
    task is done, for new members. `unchanged`: the policies of the set with their bindings, where the task leaves them
    as they are. `unread`: what could not be read, where these rules may be in a policy. `is_known`: whether the
    policies of the set were read. `appliers`: policies of the set that a tool applies, too, with its name."""

    manifests: tuple[JSON, ...] = ()
    not_covered: t.Mapping[RuleId, Obstacle] = field(default_factory=dict)
    why_none: Obstacle | None = None
    covered: frozenset[RuleId] = frozenset()
    named: frozenset[Ref] = frozenset()
    expected: tuple[Workload, ...] = ()
    there: tuple[WorkloadSelector, ...] = ()
    removed: tuple[RuleId, ...] = ()
    narrowed: tuple[RuleId, ...] = ()
    kept: tuple[RuleId, ...] = ()
    rules: tuple[RuleId, ...] = ()
    unchanged: tuple[AdmissionPolicy, ...] = ()
    unread: tuple[str, ...] = ()
    is_known: bool = True
    appliers: tuple[tuple[Ref, str], ...] = ()
    writes: tuple[Write, ...] = ()
    """In their order: a write without `uid` creates its object, one without `after` deletes it."""

    @property
    def expected_refs(self) -> frozenset[Ref]:
        """The workloads that do not exist yet."""
        return frozenset(workload.ref for workload in self.expected)

    @property
    def digest(self) -> str:
        """What an approval is about: of the policy and its binding as the task leaves them. Empty for none, and UNKNOWN
        for policies that cannot be read."""
        if not self.is_known:
            return UNKNOWN
        objects = self.manifests or [{**x.manifest, "kind": x.kind} for x in self.unchanged]
        content = [[x["kind"], x.get("spec"), _RULES_OF.read(x, None)] for x in objects]
        return digest(content, 32) if content else ""

    @property
    def by_hand(self) -> str:
        """What an administrator does instead of the writes."""
        gone: dict[str, list[str]] = {}
        for write in self.writes:
            if write.after is None:
                gone.setdefault(write.target.name, []).append(write.target.kind.lower())
        deletions = [f"kubectl delete {','.join(sorted(gone[x]))} {x}" for x in sorted(gone)]
        steps = (
            ["apply the manifests in new_members of the result (artifact placement_policy)"]
            if self.manifests
            else []
        )
        return ", and ".join([*steps, *(f"delete the policy: {x}" for x in deletions)])


NO_POLICIES = PolicyPlan()


@dataclass(frozen=True)
class WrittenPolicies:
    """`done`: the writes that were made, in check mode those that would be. `refused`: why none was. `without_rules`:
    expected workloads that were created meanwhile, before the policy was in force."""

    plan: PolicyPlan = NO_POLICIES
    done: tuple[Write, ...] = ()
    refused: Obstacle | None = None
    without_rules: frozenset[Ref] = frozenset()

    @property
    def expected(self) -> list[Ref]:
        """The workloads that still do not exist, or that the policy gave their rules."""
        return sorted(self.plan.expected_refs - self.without_rules)


NO_WRITES = WrittenPolicies()


def policy_path(ref: Ref) -> str:
    """The path of a policy or a binding."""
    return f"/apis/{POLICY_API}/{POLICY_LISTS[ref.kind]}/{ref.name}"


def policy_writes(
    manifests: t.Iterable[JSON], present: t.Iterable[AdmissionPolicy]
) -> tuple[Write, ...]:
    """What makes `present`, the policies of a rule set with their bindings, into `manifests`. What is new is written
    before what goes: a creation between the two gets its rules once, and no warning. A policy comes before its
    binding, and goes after it."""
    objects = {(x.kind, x.name): x for policy in present for x in (policy, *policy.bindings)}
    wanted = {(x["kind"], x["metadata"]["name"]): x for x in manifests}
    writes = [
        changed(objects[key], manifest) if key in objects else _created(manifest)
        for key, manifest in wanted.items()
    ]
    gone = [x for key, x in objects.items() if key not in wanted]
    writes += [
        _write(x, [Operation("remove", Pointer())], None)
        for x in sorted(gone, key=lambda x: x.kind, reverse=True)
    ]
    return tuple(write for write in writes if write is not None)


def _created(manifest: JSON) -> Write:
    ref = Ref(manifest["kind"], "", manifest["metadata"]["name"])
    whole = Operation("add", Pointer(), manifest)
    return Write(ref, policy_path(ref), "", (), (whole,), None, manifest["spec"])


def is_of_same_set(there: AdmissionPolicy, manifest: JSON) -> bool:
    """Whether labels and annotations say that the object was made for the rule set of the manifest."""
    metadata, has = manifest["metadata"], there.manifest["metadata"]
    return all(
        (has.get(part) or {}).get(key) == metadata[part][key]
        for part, key in (("labels", NAMESPACE), ("annotations", RULE_SET))
    )


def changed(there: AdmissionPolicy, manifest: JSON) -> Write | None:
    """What makes a policy or binding as the manifest is. None where nothing differs: the manifests have what the API
    server adds by default."""
    metadata = manifest["metadata"]
    operations = [
        Operation("add", place / key, value)
        for place, name in ((LABELS, "labels"), (ANNOTATIONS, "annotations"))
        for key, value in metadata[name].items()
        if (place / key).read(there.manifest, None) != value
    ]
    if there.spec != manifest["spec"]:
        operations.append(Operation("replace", Pointer(("spec",)), manifest["spec"]))
    return _write(there, operations, manifest["spec"]) if operations else None


def _write(there: AdmissionPolicy, operations: t.Iterable[Operation], after: JSON) -> Write:
    """The write of an object that must be as it was read."""
    test = Operation("test", Pointer(("metadata", "resourceVersion")), there.resource_version)
    path = policy_path(there.ref)
    return Write(there.ref, path, there.uid, (test,), tuple(operations), there.spec, after)
