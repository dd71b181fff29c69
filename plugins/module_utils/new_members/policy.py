# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which policy of the API server gives workloads that are created later what the rules of a set write?

One MutatingAdmissionPolicy with its binding for a namespace and rule set, from Kubernetes 1.36 on. It is for creations
alone: with updates it would bring back what was removed.
"""

from __future__ import annotations

import typing as t

from ..model.json_pointer import JSON
from ..model.kinds import PREFIX, RULES
from ..rules.term_slots import digest
from . import cel
from .member import NewMember
from .patch import policy_expressions

RULE_SET = f"{PREFIX}rule-set"
"""Annotation of a policy: namespace and name of its rule set."""

DIGEST = f"{PREFIX}digest"
"""Annotation of a policy: what it was made from."""

MUTATES_SINCE = (1, 36)
"""First Kubernetes that serves MutatingAdmissionPolicy as v1, and by default (KEP 3962)."""

_API = "admissionregistration.k8s.io/v1"


def policy_name(namespace: str, rule_set: str) -> str:
    """The name of the policy and its binding. A rule set may have a name that no object can have."""
    return f"placement-{namespace}-{digest([namespace, rule_set], 10)}"


def mutating_policy(
    namespace: str, rule_set: str, members: t.Sequence[NewMember]
) -> tuple[JSON, JSON]:
    """The policy and its binding."""
    expressions = policy_expressions(members)
    spec = {
        "failurePolicy": "Ignore",
        "reinvocationPolicy": "Never",
        "matchConstraints": _constraints(namespace, members),
        "matchConditions": [
            {"name": "without-rules", "expression": _without_rules()},
            {"name": "chosen", "expression": expressions.chosen},
        ],
        "variables": [
            {"name": name, "expression": text} for name, text in expressions.variables.items()
        ],
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expressions.patch}}],
    }
    return _with_binding("MutatingAdmissionPolicy", namespace, rule_set, spec, {})


def _with_binding(
    kind: str, namespace: str, rule_set: str, spec: JSON, options: t.Mapping[str, JSON]
) -> tuple[JSON, JSON]:
    name = policy_name(namespace, rule_set)
    metadata = {
        "name": name,
        "annotations": {RULE_SET: f"{namespace}/{rule_set}", DIGEST: digest(spec, 12)},
    }
    binding = {"policyName": name, **options}
    return (
        {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": _API, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
    )


def _constraints(namespace: str, members: t.Iterable[NewMember]) -> JSON:
    """Creations of the kinds in the namespace."""
    kinds = {member.kind.name: member.kind for member in members}
    return {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceRules": [
            {
                "apiGroups": [kind.group],
                "apiVersions": [kind.group_version.partition("/")[2]],
                "operations": ["CREATE"],
                "resources": [kind.plural],
            }
            for kind in kinds.values()
        ],
    }


def _without_rules() -> str:
    annotations = "object.metadata.?annotations.orValue({})"
    return f"!({cel.literal(RULES)} in {annotations})"
