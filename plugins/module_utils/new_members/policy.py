# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which policy of the API server gives workloads that are created later what the rules of a set write?

One MutatingAdmissionPolicy with its binding for a namespace and rule set, from Kubernetes 1.36 on. It is for creations
alone: with updates it would bring back what was removed.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..model.admission_policy import (
    DIGEST,
    MUTATING,
    NAMESPACE,
    POLICY_API,
    RULE_SET,
    VALIDATING,
    AdmissionPolicy,
)
from ..model.json_pointer import JSON
from ..model.obstacle import NO_POLICY, Obstacle
from ..model.rule import RuleId
from ..model.snapshot import Platform
from ..rules.ownership import MOST_RULES
from ..rules.term_slots import digest
from . import cel
from .annotation import lacks_rules_of
from .choices import has_no_maker, is_chosen
from .members import NewMember
from .patch import PolicyExpressions

MUTATES_SINCE = (1, 36)
"""First Kubernetes that serves MutatingAdmissionPolicy as v1, and by default (KEP 3962)."""

WARNS_SINCE = (1, 30)
"""First Kubernetes that serves ValidatingAdmissionPolicy as v1 (KEP 3488)."""

MOST_BYTES = 1_000_000
"""Of a policy as JSON: etcd takes requests of 1.5 MiB, and the API server adds who manages which field."""

_SYSTEM = re.compile(r"(kube|openshift)(-.*)?")
"""Namespaces of Kubernetes and OpenShift."""


def policy_name(namespace: str, rule_set: str) -> str:
    """The name of the policy and its binding. A rule set may have a name that no object can have."""
    return f"placement-{namespace}-{digest([namespace, rule_set], 10)}"


def why_no_policy(
    namespace: str, platform: Platform, members: t.Sequence[NewMember], *, mutates: bool = True
) -> Obstacle | None:
    """Why there can be no policy for the new members of a namespace; one that only warns where it does not mutate."""
    since = MUTATES_SINCE if mutates else WARNS_SINCE
    if platform.kubernetes < since:
        release = ".".join(map(str, since))
        return Obstacle(
            NO_POLICY,
            f"a policy for new members needs Kubernetes {release} or later",
            advice="Set new_members to warn." if platform.kubernetes >= WARNS_SINCE else "",
        )
    if _SYSTEM.fullmatch(namespace) or namespace == platform.kubevirt_namespace:
        return Obstacle(
            NO_POLICY, f"{namespace} is a namespace of the system, and no policy is about it"
        )
    if (number := _most_rules(members)) > MOST_RULES:
        return Obstacle(
            NO_POLICY,
            f"a new member could have {number} rules, at most {MOST_RULES} are possible",
            advice="Put constraints that belong together into one rule.",
        )
    return _too_large(namespace, members)


def _most_rules(members: t.Iterable[NewMember]) -> int:
    """How many rules may choose one object."""
    by_name: dict[tuple[str, str], set[RuleId]] = {}
    for member in members:
        for name in member.names or ("",):  # any object may have the labels
            by_name.setdefault((member.kind.name, name), set()).add(member.rule)
    return max(len(x | by_name.get((kind, ""), set())) for (kind, _name), x in by_name.items())


def _too_large(namespace: str, members: t.Sequence[NewMember]) -> Obstacle | None:
    policy, _binding = mutating_policy(namespace, "", members)
    spec = policy["spec"]
    expressions = [
        spec["mutations"][0]["jsonPatch"]["expression"],
        *(entry["expression"] for entry in (*spec["matchConditions"], *spec["variables"])),
    ]
    longest, size = max(map(len, expressions)), len(json.dumps(policy))
    if longest <= cel.MOST_CHARACTERS and size <= MOST_BYTES:
        return None
    return Obstacle(
        NO_POLICY,
        f"the policy for {len({member.rule for member in members})} rules has {size} bytes, and an expression of"
        f" {longest} characters; at most {MOST_BYTES} and {cel.MOST_CHARACTERS} are possible",
        advice="Put some of the rules into another rule_set, or choose their workloads by labels.",
    )


def mutating_policy(
    namespace: str, rule_set: str, members: t.Sequence[NewMember]
) -> tuple[JSON, JSON]:
    """The policy that writes the rules, and its binding."""
    expressions = PolicyExpressions(members)
    spec = {
        **_matches(namespace, members),
        "reinvocationPolicy": "Never",
        "variables": [
            {"name": name, "expression": text} for name, text in expressions.variables().items()
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expressions.patch()}}],
    }
    return _with_binding(MUTATING, namespace, rule_set, spec, {})


def warning_policy(
    namespace: str, rule_set: str, members: t.Sequence[NewMember]
) -> tuple[JSON, JSON]:
    """The policy that warns the client that creates a member without rules, and its binding."""
    message = (
        f"rules of the set {rule_set} in {namespace} are about this object, and it has none yet: run playbook"
        " virt.placement.apply, or module virt.placement.rules, with all rules of the set"
    )
    spec = {
        **_matches(namespace, members),
        "validations": [{"expression": cel.NEVER, "message": message}],
    }
    return _with_binding(
        VALIDATING, namespace, rule_set, spec, {"validationActions": ["Warn", "Audit"]}
    )


def _matches(namespace: str, members: t.Sequence[NewMember]) -> dict[str, JSON]:
    """Creations of members that have no rules yet, with what the API server adds by default. Where a condition fails,
    the object is created as it is."""
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": [kind.group],
                    "apiVersions": [
                        kind.group_version.partition("/")[2],
                        *kind.older_versions,
                    ],
                    "operations": ["CREATE"],
                    "resources": [kind.plural],
                    "scope": "*",
                }
                for kind in dict.fromkeys(member.kind for member in members)
            ],
        },
        "matchConditions": [
            {"name": "without-rules", "expression": lacks_rules_of(members[0].rule)},
            {"name": "not-made-by-another", "expression": has_no_maker()},
            {"name": "chosen", "expression": is_chosen(members)},
        ],
    }


def _with_binding(
    kind: str, namespace: str, rule_set: str, spec: JSON, options: t.Mapping[str, JSON]
) -> tuple[JSON, JSON]:
    name = policy_name(namespace, rule_set)
    metadata = {
        "name": name,
        "labels": {NAMESPACE: namespace},
        "annotations": {RULE_SET: f"{namespace}/{rule_set}", DIGEST: digest(spec, 12)},
    }
    binding = {"policyName": name, **options}
    return (
        {"apiVersion": POLICY_API, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": POLICY_API, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
    )


def is_changed(policy: AdmissionPolicy) -> bool:
    """Whether the spec is not the one that was written, apart from its failurePolicy. What the API server adds is
    written, too (kubernetes pkg/apis/admissionregistration/v1/defaults.go)."""
    return digest({**policy.spec, "failurePolicy": "Ignore"}, 12) != policy.digest
