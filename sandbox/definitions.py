# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kinds of other systems, defined with any fields: what reads their objects needs no controller."""

from __future__ import annotations

import time
import typing as t

from .admin_api import AdminApi, ApiFailure

_TIMEOUT = 60
_NOT_YET = (404, 429)
"""Answers of a kind that is not served yet, and while its storage is made (apiextensions-apiserver,
pkg/apiserver/customresource_handler.go)."""


class Definition(t.NamedTuple):
    """A namespaced kind with a status of its own."""

    group: str
    version: str
    plural: str
    kind: str

    def collection(self, namespace: str = "default") -> str:
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"


def define(api: AdminApi, *definitions: Definition) -> None:
    """Returns once objects of these kinds can be created."""
    api.create_all([_manifest(definition) for definition in definitions])
    deadline = time.monotonic() + _TIMEOUT
    for definition in definitions:
        while not _is_served(api, definition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{definition.kind} is not served after {_TIMEOUT} s")
            time.sleep(0.2)


def _is_served(api: AdminApi, definition: Definition) -> bool:
    try:
        api.get(definition.collection())
    except ApiFailure as failure:
        if failure.status not in _NOT_YET:
            raise
        return False
    return True


def _manifest(definition: Definition) -> dict[str, t.Any]:
    version = {
        "name": definition.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{definition.group}"},
        "spec": {
            "group": definition.group,
            "scope": "Namespaced",
            "names": {"plural": definition.plural, "kind": definition.kind},
            "versions": [version],
        },
    }
