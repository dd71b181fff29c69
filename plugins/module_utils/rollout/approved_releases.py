# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which held Deployments may a rollout with an approved plan release, and is each as it was approved?

A plan names them with a digest of the template that their pods get. The strategy of a release is made for the cluster
of the run, within the limits of the plan. Pure.
"""

from __future__ import annotations

import typing as t

from ..model.json_pointer import JSON
from ..model.objects import Ref
from ..model.snapshot import Snapshot
from ..moves.approved_plan import AGAIN, ApprovedPlan, damaged
from ..rules.paused_hold import PausedHold

if t.TYPE_CHECKING:
    from .paused_holds import HoldStep

_KEY = "releases"


def facts_of(steps: t.Iterable[HoldStep]) -> dict[str, JSON]:
    """What a plan has of the Deployments that its run releases at once or later."""
    holds = [step.hold for step in steps if not step.kept and step.hold.is_held]
    found = [{**hold.ref._asdict(), "template": hold.template} for hold in holds if hold.behind]
    return {_KEY: found} if found else {}


def releases_of(approved: ApprovedPlan | None) -> dict[Ref, str]:
    """The digests of the templates by Deployment. Raises InvalidInput for a plan that is damaged."""
    if approved is None:
        return {}
    try:
        listed = approved.facts.get(_KEY) or ()
        return {Ref(x["kind"], x["namespace"], x["name"]): x["template"] for x in listed}
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(error, approved.kind) from error


def why_not_approved(hold: PausedHold, approved: ApprovedPlan | None) -> str:
    """Why a run with the plan does not release a Deployment; empty where it may, or has no plan."""
    template = releases_of(approved).get(hold.ref)
    if approved is None or template == hold.template:
        return ""
    if template is None:
        return "the approved plan does not have it. Run a rollout without the plan"
    return f"its template was changed after the plan was made: {AGAIN}"


def changes(
    approved: ApprovedPlan, steps: t.Iterable[HoldStep], snapshot: Snapshot
) -> t.Iterator[str]:
    """The approved releases that cannot be made. One whose hold has ended is done."""
    kept = {step.hold.ref: step.kept for step in steps}
    there = {workload.ref for workload in snapshot.workloads}
    for ref in releases_of(approved):
        if ref not in there:
            yield f"{ref} does not exist any more"
        elif kept.get(ref):
            yield kept[ref]
