# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes that the API server refuses, and its answers: of RBAC, quotas, validation, budgets, and of a proxy."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from tests.support.api_server import Fault, Reply, answer

from .specs import optional_fields
from .values import mutated, texts

REQUESTS = (
    ("PATCH", "leases"),
    ("PATCH", "nodes"),
    ("PATCH", "virtualmachines"),
    ("PATCH", "virtualmachineinstances"),
    ("PATCH", "virtualmachineinstancereplicasets"),
    ("PATCH", "virtualmachinepools"),
    ("PATCH", "deployments"),
    ("PATCH", "statefulsets"),
    ("PATCH", "pods"),
    ("POST", "virtualmachineinstancemigrations"),
    ("POST", "pods"),
    ("POST", "events"),
    ("PUT", "virtualmachines"),
    ("PUT", "virtualmachineinstances"),
    ("DELETE", "virtualmachineinstances"),
    ("DELETE", "virtualmachineinstancemigrations"),
)
"""Method and resource: all that the modules write."""

_MESSAGES: t.Mapping[int, t.Sequence[str]] = {
    403: (
        'nodes "w1" is forbidden: User "mover" cannot patch resource "nodes"',
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
        'ValidatingAdmissionPolicy "virt-placement-moves" denied request: no',
        "unable to create new content in namespace tenant because it is being terminated",
    ),
    409: (
        "the object has been modified",
        "already exists",
        "the UID in the precondition is another",
    ),
    422: (
        "metadata.annotations: Too long",
        "the server rejected our request due to an error in it",
    ),
    429: ("Cannot evict pod as it would violate the pod's disruption budget.", "too many requests"),
}
_CAUSES = st.lists(
    optional_fields(
        reason=st.sampled_from(["NamespaceTerminating", "DisruptionBudget", "FieldValueTooLong"]),
        message=texts,
        field=st.sampled_from(["metadata.annotations", "spec"]),
    ),
    max_size=2,
)


@st.composite
def _answers(draw: t.Any) -> Reply:
    code = draw(st.sampled_from(sorted(_MESSAGES)))
    reasons = ["Forbidden", "AlreadyExists", "Conflict", "Invalid", "TooManyRequests", ""]
    status = {
        "kind": "Status",
        "code": code,
        "reason": draw(st.sampled_from(reasons)),
        "message": draw(st.one_of(st.sampled_from(_MESSAGES[code]), texts)),
        **draw(
            optional_fields(
                details=optional_fields(causes=_CAUSES, retryAfterSeconds=st.integers(0, 9))
            )
        ),
    }
    return answer(mutated(draw, status) if draw(st.integers(0, 4)) == 0 else status, code)


refusals: st.SearchStrategy[list[Fault]] = st.lists(
    st.builds(
        lambda request, *rest: Fault(*request, *rest),
        st.sampled_from(REQUESTS),
        _answers(),
        st.sampled_from([1, 1, 2, -1]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
