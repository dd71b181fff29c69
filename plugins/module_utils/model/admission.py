# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mutating webhooks that are called when a pod is created."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .json_pointer import JSON
from .objects import Selector
from .placement_manifests import selector_from_json

_OF_KUBEVIRT = "virt-api-mutator"
"""KubeVirt's own configuration: what it makes of launcher pods is modeled (pkg/virt-operator/resource/generate/
components/webhooks.go)."""


@dataclass(frozen=True, slots=True)
class PodWebhook:
    """Selectors are None where the webhook is called for every namespace, or every pod."""

    configuration: str
    namespaces: Selector | None = None
    pods: Selector | None = None


def pod_webhooks_from_manifest(manifest: t.Mapping[str, JSON]) -> tuple[PodWebhook, ...]:
    """The webhooks of a MutatingWebhookConfiguration that may change a pod that is created."""
    name = manifest["metadata"]["name"]
    if name == _OF_KUBEVIRT:
        return ()
    return tuple(
        PodWebhook(
            name,
            _selector(webhook.get("namespaceSelector")),
            _selector(webhook.get("objectSelector")),
        )
        for webhook in manifest.get("webhooks") or ()
        if any(map(_is_about_new_pods, webhook.get("rules") or ()))
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
