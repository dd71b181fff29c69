# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the admission policies of rule sets, and their bindings.

A right that is missing is no failure: `Snapshot.policies` is None, and `Snapshot.policy_gaps` says why. A kind that the
server does not serve, as MutatingAdmissionPolicy before Kubernetes 1.36, has no objects.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import Forbidden, NotFound, UnservedVersion
from ..api.lists import list_converted
from ..api.parallel import read_together
from ..model.admission_policy import (
    NAMESPACE,
    POLICY_API,
    POLICY_LISTS,
    AdmissionPolicy,
    bound_policies,
    policy_from_manifest,
)
from ..model.snapshot import Snapshot, Unreadable
from .identity import unreadable
from .served_versions import ServedVersions


def with_policies(
    api: ApiClient,
    snapshot: Snapshot,
    namespaces: t.Collection[str] | None,
    excluded: t.Collection[str] = (),
) -> Snapshot:
    """The snapshot with the policies for `namespaces` (None: for all) without those `excluded`. Raises ApiError, but
    not for a missing right."""
    selector = NAMESPACE
    # A name that no namespace has may be no value of a label.
    if namespaces is not None and len(namespaces) == 1:
        selector += "".join(f"={x}" for x in namespaces if x in snapshot.namespaces_by_name)
    served = ServedVersions(api)
    read = [functools.partial(_listed, api, served, selector, kind) for kind in POLICY_LISTS]
    results = read_together(read) if namespaces != () else []
    gaps = tuple(result for result in results if isinstance(result, Unreadable))
    objects = (x for result in results if not isinstance(result, Unreadable) for x in result)
    policies = bound_policies(
        x
        for x in objects
        if x.namespace not in excluded and (namespaces is None or x.namespace in namespaces)
    )
    return replace(snapshot, policies=None if gaps else policies, policy_gaps=gaps)


def _listed(
    api: ApiClient, served: ServedVersions, selector: str, kind: str
) -> t.Sequence[AdmissionPolicy] | Unreadable:
    """The objects of a kind, or why they cannot be read."""

    def read(path: str) -> t.Sequence[AdmissionPolicy]:
        convert = functools.partial(policy_from_manifest, kind)
        return list_converted(api, path, convert, params={"labelSelector": selector}).items

    try:
        return served.read(f"/apis/{POLICY_API}/{POLICY_LISTS[kind]}", read)
    except NotFound:
        return ()
    except (Forbidden, UnservedVersion) as error:
        return unreadable(error)
