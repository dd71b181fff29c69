# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two calls with needs of their own: KubeVirt's subresources, and a delete of what was just read."""

from __future__ import annotations

from ..model.pointer import JSON
from .errors import Request
from .requests import PLAIN, Api

ANYTHING = "*/*"
"""virt-api answers 406 to a client that insists on JSON: its answers to these calls are empty."""


def call_subresource(api: Api, path: str, body: JSON) -> None:
    """PUT to a subresource of `subresources.kubevirt.io`, such as restart. Sent once."""
    api._json(Request("PUT", path, PLAIN), None, body, accept=ANYTHING)


def delete_as_read(api: Api, path: str, *, uid: str, resource_version: str) -> None:
    """Delete an object if it is still as it was read; Conflict where anything of it changed.

    It may be sent again after a lost answer: then NotFound or Conflict says that it was done, or
    that somebody else was faster.
    """
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid, "resourceVersion": resource_version},
    }
    api._json(Request("DELETE", path, PLAIN, preconditioned=True), None, options)
