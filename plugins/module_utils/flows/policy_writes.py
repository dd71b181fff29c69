# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the policies of a rule set, before its workloads.

So a workload that is created meanwhile gets a new rule, and none that goes.
"""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace

from ..api.client import ApiClient
from ..api.errors import ApiError, ApiRequest, Conflict, Forbidden
from ..api.lists import list_all
from ..cluster.access import Right, missing_rights
from ..cluster.served_versions import ServedVersions
from ..kinds.registry import KINDS
from ..model.admission_policy import policy_from_manifest
from ..model.findings import InputError, InvalidInput, TaskError
from ..model.objects import Ref
from ..model.obstacle import NO_RIGHT, Obstacle
from ..model.rendering import listed
from ..model.snapshot import Workload
from ..model.write import Write
from ..rules.ownership import UnreadableAnnotation, read_ownership
from ..rules.policy_plan import (
    PolicyPlan,
    WrittenPolicies,
    changed,
    is_of_same_set,
    policy_path,
)

WRITER = (
    "grant this identity the ClusterRole virt-placement-policies-writer (rbac/policies-writer.yml)"
)


def write_policies(api: ApiClient, plan: PolicyPlan, *, check: bool) -> WrittenPolicies:
    """Makes the writes of the plan; none without the right to each of them. The server is asked by dry runs first, so
    that what it refuses is known before the first write. Raises ApiError, and InvalidInput for an object of the same
    name that is not of the rule set."""
    if not plan.writes:
        return WrittenPolicies(plan)
    missing = missing_rights(api, (Right.of(_request(write)) for write in plan.writes))
    if missing:
        return WrittenPolicies(plan, refused=_refused(plan, f"may not {listed(missing, 4)}"))
    try:
        for write in plan.writes:
            if write.after is not None:
                _send(api, write, dry_run=True)
        for write in plan.writes if not check else ():
            _send(api, write)
    except Forbidden as error:
        if not error.lacks_right:
            raise
        refused = _refused(plan, f"may not {Right.of(error.request)}")
        return WrittenPolicies(plan, refused=refused)
    return WrittenPolicies(plan, plan.writes)


def with_latecomers(api: ApiClient, written: WrittenPolicies) -> WrittenPolicies:
    """The expected workloads are read once more, since one may have been created before its policy was in force. Where
    they cannot be read, none is named: rules are written by now."""
    if not written.done:
        return written
    expected = written.plan.expected_refs & written.plan.named
    read, served = functools.partial(list_all, api, metadata_only=True), ServedVersions(api)
    found: set[Ref] = set()
    with contextlib.suppress(ApiError):
        for name, namespace in sorted({(ref.kind, ref.namespace) for ref in expected}):
            kind = KINDS[name]
            path = kind.path(namespace, "").rstrip("/")
            for item in served.read(path, read, kind.older_versions).items:
                metadata = item["metadata"]
                ref = Ref(name, namespace, metadata["name"])
                if not _has_rules(Workload(ref, metadata.get("uid", ""), item), written.plan):
                    found.add(ref)
    return replace(written, without_rules=expected & found)


def _has_rules(workload: Workload, plan: PolicyPlan) -> bool:
    """Whether it has rules of the policy, not only those of another rule set, or of the VM that it is a clone of."""
    try:
        ownership = read_ownership(workload)
    except UnreadableAnnotation:
        return False
    return ownership.uid == workload.uid and not plan.covered.isdisjoint(ownership.rules)


def _refused(plan: PolicyPlan, what: str) -> Obstacle:
    return Obstacle(
        NO_RIGHT,
        f"this identity {what}",
        advice=f"{WRITER}, or let an administrator {plan.by_hand}",
    )


def why_stopped(written: WrittenPolicies) -> TaskError | None:
    """Why nothing is written to workloads: rules could not leave their policy, which would go on giving them to new
    workloads. None where no rule leaves one, or each did."""
    plan = written.plan
    leaving = (*plan.removed, *plan.narrowed)
    if written.refused is None or not leaving:
        return None
    there = {str(x.target): x for x in plan.writes if x.uid}
    policies = listed([name for name, x in there.items() if not x.target.kind.endswith("Binding")])
    rules = listed([rule.name for rule in leaving])
    text = (
        f"rule{'s' if len(leaving) > 1 else ''} {rules} would stay in {policies}, for workloads that are created"
        f" later, so that nothing is written: {written.refused}. To go on, {written.refused.advice}; then run the task"
        " again"
    )
    return TaskError("permission", text, policies)


def _request(write: Write) -> ApiRequest:
    if not write.uid:
        return ApiRequest("POST", _collection(write))
    return ApiRequest("PATCH" if write.after is not None else "DELETE", write.path)


def _collection(write: Write) -> str:
    return policy_path(write.target._replace(name="")).rstrip("/")


def _send(api: ApiClient, write: Write, *, dry_run: bool = False) -> None:
    if write.uid and write.after is not None:
        api.patch(write.path, write.patch(), dry_run=dry_run)
    elif write.uid:
        api.delete(write.path, uid=write.uid, resource_version=str(write.tests[0].value))
    else:
        _create(api, write, dry_run)


def _create(api: ApiClient, write: Write, dry_run: bool) -> None:
    try:
        api.create(_collection(write), write.operations[0].value, dry_run=dry_run)
    except Conflict as error:
        there = policy_from_manifest(write.target.kind, api.get(write.path))
        manifest = write.operations[0].value
        if is_of_same_set(there, manifest):
            # made meanwhile, or a binding that is left of a deleted policy, which is not read with one
            if (change := changed(there, manifest)) is not None:
                _send(api, change, dry_run=dry_run)
            return
        text = (
            f"{write.target} exists, and is none that this rule set has made: it lacks the labels and annotations"
            " placement.virt/. It was left as it is. Delete it, or write the rules as another rule_set"
        )
        raise InvalidInput([InputError("new_members", text)]) from error
