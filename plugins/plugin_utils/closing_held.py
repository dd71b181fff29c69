# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a closing block says of workloads whose own rollouts are held by rules, and how their holds end."""

from __future__ import annotations

import typing as t

from ansible_collections.virt.placement.plugins.module_utils.kinds.registry import has_vmis
from ansible_collections.virt.placement.plugins.module_utils.model.rendering import listed
from ansible_collections.virt.placement.plugins.plugin_utils.plan_files import carries_out_plan

if t.TYPE_CHECKING:
    from ansible_collections.virt.placement.plugins.plugin_utils.job_record import JobRecord

Parts = dict[str, t.Any]


def held_done(record: JobRecord) -> t.Iterator[str]:
    """What rules hold that no rollout of the job was about."""
    if held := _held_by_rules(record):
        words = "that would be held" if record.check_mode else "held"
        yield f"workload rollouts {words}: {_names(held)}"


def after_held(record: JobRecord) -> t.Iterator[str]:
    """How the holds that are left end."""
    held = record.last("rollout").get("held") or []
    if held and carries_out_plan(record):
        without = f"launch the job without {record.role}_plan_file"
        yield f"for {_names(held)}, which the plan leaves held: {without}"
    elif held := held or ([] if record.check_mode else _held_by_rules(record)):
        yield f"to end the hold of {_names(held)}: {_how(record, held)}"


def _how(record: JobRecord, held: t.Sequence[Parts]) -> str:
    allow = list(record.asked.get("allow") or ["migrate"])
    pods = any(not has_vmis(x["kind"]) for x in held)
    if pods and "recreate" not in allow:
        allow = [*allow, "recreate"]
    elif any("reason" in x for x in held):
        return f"mend what the lines under skipped name, then {_run(record, allow)}"
    return _run(record, allow)


def _run(record: JobRecord, allow: t.Sequence[str]) -> str:
    if record.role == "placement_rollout":
        return f"launch the job with placement_rollout_allow: [{', '.join(allow)}]"
    return (
        f"playbook rollout with placement_rollout_namespaces: [{record.asked['namespace']}] and"
        f" placement_rollout_allow: [{', '.join(allow)}]"
    )


def _held_by_rules(record: JobRecord) -> list[Parts]:
    """The workloads that rules hold, where no rollout followed."""
    return [] if record.of("rollout") else record.last("rules").get("held") or []


def _names(held: t.Iterable[Parts]) -> str:
    return listed([f"{x['kind']} {x['namespace']}/{x['name']}" for x in held], 4)
