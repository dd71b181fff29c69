# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may change or refuse a pod when it is created: LimitRanges, webhooks and policies.

What they make of a pod is not modeled: the server is asked (`cluster/pod_dry_runs`), or it is a doubt.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Labels, Ref, Selector
from .placement_manifests import selector_from_json

_OF_KUBEVIRT = "virt-api-mutator"
"""KubeVirt's own configuration: what it makes of launcher pods is modeled (pkg/virt-operator/resource/generate/
components/webhooks.go)."""


_GATED_LABEL: t.Final[t.Mapping[str, str]] = {
    "gating-mutator": "",
    "kueue-mutating-webhook-configuration": "kueue.x-k8s.io/queue-name",
}
"""Configurations of webhooks that add a scheduling gate, and the label of the pods that get it; empty: every pod
(kubevirt/application-aware-quota, pkg/aaq-operator/resources/namespaced/aaq-server.go; kubernetes-sigs/kueue,
pkg/controller/jobs/pod/pod_webhook.go)."""


def _may_be_newer(changed: str, created: str) -> bool:
    return not (changed and created) or changed >= created


@dataclass(frozen=True, slots=True)
class LimitRange:
    """One that is about pods. `changed`: when it was written last, RFC 3339; empty if that is not known."""

    namespace: str
    name: str
    changed: str = ""

    def is_newer_than(self, created: str) -> bool:
        """Whether it may not have been as it is when a pod was created, at this time."""
        return _may_be_newer(self.changed, created)

    def __str__(self) -> str:
        return f"LimitRange {self.namespace}/{self.name}"


def limit_range_from_manifest(manifest: t.Mapping[str, JSON]) -> LimitRange | None:
    """None for one that is about claims alone."""
    metadata = manifest["metadata"]
    limits = (manifest.get("spec") or {}).get("limits") or ()
    if all(limit.get("type") not in ("Container", "Pod") for limit in limits):
        return None
    return LimitRange(metadata["namespace"], metadata["name"], _changed(metadata))


def _changed(metadata: t.Mapping[str, JSON]) -> str:
    """When an object was written last, its status apart. RFC 3339, "" for unknown."""
    fields = metadata.get("managedFields") or ()
    written = [x.get("time") or "" for x in fields if not x.get("subresource")]
    times = [metadata.get("creationTimestamp") or "", *written]
    return max(times) if all(written or [""]) else ""


@dataclass(frozen=True, slots=True)
class PodMutator:
    """`source` is the object that says so. Selectors are None where it changes pods of every namespace, or every
    pod."""

    source: Ref
    namespaces: Selector | None = None
    pods: Selector | None = None

    def adds_gate(self, labels: Labels) -> bool:
        """Whether it is known to add a scheduling gate to new pods with these labels, if it changes them."""
        key = _GATED_LABEL.get(self.source.name)
        return key is not None and (not key or key in labels)


def pod_webhooks_from_manifest(manifest: t.Mapping[str, JSON]) -> tuple[PodMutator, ...]:
    """The webhooks of a MutatingWebhookConfiguration that may change a pod that is created."""
    name = manifest["metadata"]["name"]
    if name == _OF_KUBEVIRT:
        return ()
    source = Ref("MutatingWebhookConfiguration", "", name)
    return tuple(
        _mutator(source, webhook)
        for webhook in manifest.get("webhooks") or ()
        if any(map(_is_about_new_pods, webhook.get("rules") or ()))
    )


@dataclass(frozen=True, slots=True)
class PodValidator:
    """A ValidatingAdmissionPolicy that refuses new pods by one of its bindings: those that both select. `changed`: when
    one of them was written last, RFC 3339; empty if that is not known."""

    policy: PodMutator
    binding: PodMutator
    changed: str = ""

    def is_newer_than(self, created: str) -> bool:
        """Whether it may not have been asked about a pod that was created at this time."""
        return _may_be_newer(self.changed, created)


def pod_validators_from_manifests(
    policies: t.Iterable[t.Mapping[str, JSON]], bindings: t.Iterable[t.Mapping[str, JSON]]
) -> t.Iterator[PodValidator]:
    """Of ValidatingAdmissionPolicies and their bindings those that deny (apiserver pkg/admission/plugin/policy/
    validating/dispatcher.go). Without a binding a policy does nothing."""
    known = {x["metadata"]["name"]: x["metadata"] for x in policies}
    about_pods = {
        x["metadata"]["name"]: policy
        for x in policies
        if (policy := pod_policy_from_manifest(x, "ValidatingAdmissionPolicy")) is not None
    }
    for binding in bindings:
        spec = binding.get("spec") or {}
        policy = about_pods.get(spec.get("policyName") or "")
        matching = spec.get("matchResources") or {}
        rules = matching.get("resourceRules") or ()
        if policy is None or "Deny" not in (spec.get("validationActions") or ()):
            continue
        if not rules or any(map(_is_about_new_pods, rules)):
            times = [_changed(x) for x in (known[policy.source.name], binding["metadata"])]
            changed = max(times) if all(times) else ""
            yield PodValidator(policy, _mutator(policy.source, matching), changed)


def pod_policy_from_manifest(
    manifest: t.Mapping[str, JSON], kind: str = "MutatingAdmissionPolicy"
) -> PodMutator | None:
    """A MutatingAdmissionPolicy, on by default since Kubernetes 1.36, or one of another kind; None for one that is not
    about new pods. Its bindings may limit it further."""
    constraints = (manifest.get("spec") or {}).get("matchConstraints") or {}
    if not any(map(_is_about_new_pods, constraints.get("resourceRules") or ())):
        return None
    source = Ref(kind, "", manifest["metadata"]["name"])
    return _mutator(source, constraints)


def _mutator(source: Ref, matching: t.Mapping[str, JSON]) -> PodMutator:
    return PodMutator(
        source,
        _selector(matching.get("namespaceSelector")),
        _selector(matching.get("objectSelector")),
    )


def _selector(manifest: JSON) -> Selector | None:
    return selector_from_json(manifest) if manifest else None


def _is_about_new_pods(rule: t.Mapping[str, JSON]) -> bool:
    """As the API server matches a rule: after a slash, `*` is no subresource, too (apiserver, pkg/admission/plugin/
    webhook/predicates/rules/rules.go)."""
    return all(
        not {*(rule.get(field) or ())}.isdisjoint(names)
        for field, names in (
            ("operations", ("CREATE", "*")),
            ("apiGroups", ("", "*")),
            ("resources", ("pods", "*", "pods/*", "*/*")),
        )
    )
