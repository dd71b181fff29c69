# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rights are missing? Checked before the first write, so that no task stops halfway."""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace

from ..api.client import ApiClient
from ..api.errors import ApiRequest, BadAnswer
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import JSON
from .account import account

if t.TYPE_CHECKING:
    from ..model.write import Write

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

THREADS = 8

Role = t.Literal["labeler", "mover", "maintainer"]
"""One of the shipped roles: `virt-placement-ROLE` in `rbac/ROLE.yml`."""

_NAMESPACED_ROLES = ("leases", "configmaps")
"""Resources that a Role of kube-system grants; a ClusterRole grants all others."""


@dataclass(frozen=True, order=True)
class Right:
    """A permission of RBAC that a request needs. `resource` is a plural. An empty `namespace` means
    all namespaces or a cluster-scoped resource, an empty `name` all objects."""

    verb: str
    group: str
    resource: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, request: ApiRequest) -> Right:
        """The right that `request` needs, for its one object. Raises ValueError if the path has no
        resource."""
        resource, _slash, subresource = request.resource.partition("/")
        if not resource:
            raise ValueError(f"{request.path} has no resource")
        return cls(
            request.verb, request.group, resource, subresource, request.namespace, request.name
        )

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        name = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {resource}{group}{name}{where}"

    def review(self) -> JSON:
        """A SelfSubjectAccessReview of this right."""
        attributes = {key: value for key, value in asdict(self).items() if value}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }


def missing_rights(api: ApiClient, rights: t.Iterable[Right]) -> tuple[Right, ...]:
    """Those of `rights` that this identity does not have, sorted: one review for each, up to
    THREADS at once. Raises ApiError if a review fails."""
    distinct = sorted(set(rights))
    if not distinct:
        return ()
    with ThreadPoolExecutor(min(THREADS, len(distinct)), "rights") as pool:
        allowed = list(pool.map(lambda right: _is_allowed(api, right), distinct))
    return tuple(right for right, yes in zip(distinct, allowed, strict=True) if not yes)


def require_rights(api: ApiClient, rights: t.Iterable[Right], *, role: Role) -> None:
    """Raises InvalidInput with all of `rights` that are missing, and ApiError if a review fails. `role` is
    the role that grants them."""
    if missing := missing_rights(api, rights):
        raise InvalidInput(_faults(missing, role, account(api)))


def require_write_rights(api: ApiClient, writes: t.Iterable[Write], *, role: Role) -> None:
    """Raises InvalidInput with all missing rights that `writes` need, and ApiError if a review fails. One
    review for each resource and namespace. Reviews of single objects follow only if the identity does not
    have the right for all objects."""
    objects: dict[Right, list[Right]] = {}
    for write in writes:
        right = Right.of(ApiRequest("PATCH", write.path))
        objects.setdefault(replace(right, name=""), []).append(right)
    not_for_all = missing_rights(api, objects)
    first_objects = missing_rights(api, (objects[right][0] for right in not_for_all))
    without_names = {replace(right, name="") for right in first_objects}
    by_name = (
        single for right in not_for_all if right not in without_names for single in objects[right]
    )
    missing = sorted({*without_names, *missing_rights(api, by_name)})
    if missing:
        raise InvalidInput(_faults(missing, role, account(api)))


def _is_allowed(api: ApiClient, right: Right) -> bool:
    # The server stores no review. As a dry run it may be sent again after a lost answer.
    answer = api.create(REVIEWS, right.review(), dry_run=True)
    allowed = (answer.get("status") or {}).get("allowed")
    if not isinstance(allowed, bool):
        request = ApiRequest("POST", REVIEWS)
        raise BadAnswer(request, f"the answer does not contain whether this identity may {right}")
    return allowed


def _faults(missing: t.Iterable[Right], role: Role, name: str | None) -> list[InputError]:
    """One error for each role to grant, with all missing rights that it grants. `name` is that of this identity, if
    it is known."""
    verbs: dict[tuple[str, Right], list[str]] = {}
    for right in missing:
        kind = "Role" if right.resource in _NAMESPACED_ROLES else "ClusterRole"
        verbs.setdefault((kind, replace(right, verb="")), []).append(right.verb)
    by_kind: dict[str, list[str]] = {}
    for (kind, right), verbs_of_right in verbs.items():
        *others, last = verbs_of_right
        verb = f"{', '.join(others)} or {last}" if others else last
        by_kind.setdefault(kind, []).append(str(replace(right, verb=verb)))
    return [
        InputError(
            "rights",
            f"this identity may not {', nor '.join(texts)}: grant this identity the {kind}"
            f" virt-placement-{role} (rbac/{role}.yml)"
            + (f"; this identity is {name}" if name else ""),
            "permission",
        )
        for kind, texts in by_kind.items()
    ]
