# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a closing block says of workloads whose own rollouts are held by rules, and how their holds end."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import has_vmis
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.plugin_utils.job import Capability

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord, Result


def held_done(record: JobRecord) -> t.Iterator[str]:
    """What rules hold that no rollout of the job was about."""
    if held := _held_by_rules(record):
        yield f"workload rollouts {'that would be ' if record.check_mode else ''}held: {_names(held)}"


def after_held(record: JobRecord) -> t.Iterator[str]:
    """How the holds that are left end."""
    held = record.last("rollout").get("held") or []
    if held and record.given_plan:
        yield (
            f"for {_names(held)}, which the plan leaves held: launch the job without"
            f" {record.role}_plan_file"
        )
    elif held := held or ([] if record.check_mode else _held_by_rules(record)):
        yield f"to end the hold of {_names(held)}: {_how(record, held)}"


def _how(record: JobRecord, held: t.Sequence[Result]) -> str:
    allow = list(record.asked.get("allow") or ["migrate"])
    namespaces = sorted({x["namespace"] for x in held})
    first = ""
    if "recreate" not in allow and any(not has_vmis(x["kind"]) for x in held):
        allow.append("recreate")
    elif any("reason" in x for x in held):
        first = "mend what the lines under skipped name, then "
    job = (
        "launch the job with"
        if record.role == "placement_rollout"
        else f"playbook rollout with placement_rollout_namespaces: [{', '.join(namespaces)}] and"
    )
    return f"{first}{job} placement_rollout_allow: [{', '.join(allow)}]"


def _held_by_rules(record: JobRecord) -> list[Result]:
    """The workloads that rules hold, where no rollout followed."""
    return [] if record.of("rollout") else record.last("rules").get("held") or []


def _names(held: t.Iterable[Result]) -> str:
    return listed([f"{x['kind']} {x['namespace']}/{x['name']}" for x in held], 4)


def parts(record: JobRecord) -> Result:
    following = () if record.failures else tuple(after_held(record))
    return {"done": tuple(held_done(record)), "next_steps": following}


ROLES = ("placement_apply", "placement_rollout", "placement_undo")
CAPABILITY = Capability(parts=dict.fromkeys(ROLES, parts))
