# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The admission policies of rule sets, for workloads that are created later, as a cluster has them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from .json_pointer import JSON
from .kinds import PREFIX
from .objects import Ref

POLICY_API = "admissionregistration.k8s.io/v1"

MUTATING, VALIDATING = "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"

POLICY_LISTS: t.Mapping[str, str] = {
    MUTATING: "mutatingadmissionpolicies",
    f"{MUTATING}Binding": "mutatingadmissionpolicybindings",
    VALIDATING: "validatingadmissionpolicies",
    f"{VALIDATING}Binding": "validatingadmissionpolicybindings",
}
"""The plural of each kind. None of them has a namespace."""

NAMESPACE = f"{PREFIX}namespace"
"""Label of a policy and of its binding: the namespace that it is for. Lists are read by it."""

RULE_SET = f"{PREFIX}rule-set"
"""Annotation of a policy and of its binding: namespace and name of the rule set. No label can have each such name."""

DIGEST = f"{PREFIX}digest"
"""Annotation of a policy and of its binding: what the spec of the policy was when it was made."""


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """A policy, or a binding, which has no `bindings`. `rule_set` is empty where the annotation lacks it."""

    kind: str
    name: str
    uid: str
    resource_version: str
    namespace: str
    rule_set: str
    digest: str
    manifest: t.Mapping[str, JSON]
    bindings: tuple[AdmissionPolicy, ...] = ()

    @property
    def ref(self) -> Ref:
        """The object in the API."""
        return Ref(self.kind, "", self.name)

    @property
    def mutates(self) -> bool:
        """Whether it writes rules; one that does not only warns."""
        return self.kind == MUTATING

    @property
    def spec(self) -> t.Mapping[str, JSON]:
        """The whole spec, with what the API server adds."""
        return self.manifest.get("spec") or {}


def deletion(namespace: str, kinds: t.Iterable[str]) -> str:
    """The command that deletes the policies of a namespace with their bindings; `kinds` of policies."""
    plurals = (f"{name}binding,{name}" for name in sorted(map(str.lower, kinds)))
    return f"kubectl delete {','.join(plurals)} -l {NAMESPACE}={namespace}"


def policy_from_manifest(kind: str, manifest: t.Mapping[str, JSON]) -> AdmissionPolicy:
    """A policy, or a binding. Items of a list do not name their kind."""
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations") or {}
    namespace, _slash, rule_set = (annotations.get(RULE_SET) or "").partition("/")
    return AdmissionPolicy(
        kind,
        metadata["name"],
        metadata.get("uid") or "",
        metadata.get("resourceVersion") or "",
        (metadata.get("labels") or {}).get(NAMESPACE) or namespace,
        rule_set,
        annotations.get(DIGEST) or "",
        manifest,
    )


def bound_policies(objects: t.Iterable[AdmissionPolicy]) -> tuple[AdmissionPolicy, ...]:
    """The policies, each with its bindings: those of its kind that name it."""
    objects = tuple(objects)
    bindings: dict[tuple[str, str], list[AdmissionPolicy]] = {}
    for policy in objects:
        key = policy.kind, str(policy.spec.get("policyName"))
        bindings.setdefault(key, []).append(policy)
    return tuple(
        replace(policy, bindings=tuple(bindings.get((f"{policy.kind}Binding", policy.name), ())))
        for policy in objects
        if policy.kind in (MUTATING, VALIDATING)
    )
