# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What does the server answer to the evictions and migrations of a drain, asked as dry runs?

Nothing is asked for a VM that is restarted, stopped or handed to its controller: virt-api sends these requests itself,
and an eviction of a VM that it allows would end the VM.
"""

from __future__ import annotations

import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, NotFound, ServerFault, ServerText, Throttled
from ..cluster.identity import unreadable
from ..model.kinds import MIGRATIONS
from ..model.objects import Pod
from ..model.obstacle import Obstacle
from ..model.plan import Method
from ..model.snapshot import Unreadable
from ..moves.migrate import migration_body, migration_path
from ..moves.move import MoveRecord, MoveSettings
from .budget_findings import WOULD_EVICT, EvictionAnswer
from .drain_plan import DrainView
from .pods import PodAction, PodDecision

THREADS = 6

MOST = 200
"""Migrations that are asked for. A policy may depend on the name of a VM, so each is asked for that is within it."""

PATIENCE = 5.0
"""Seconds for which a dry run that fails is asked again: a webhook that times out would hold up each of them."""

_Answer = t.TypeVar("_Answer")


@dataclass
class DryRuns:
    """`evictions` has the answers, by the uid of the pod, without those that are not known. `migrations` has what the
    server refuses, by the uid of the VMI. `gaps` say what was not asked, and why."""

    evictions: dict[str, EvictionAnswer] = field(default_factory=dict)
    migrations: dict[str, Obstacle] = field(default_factory=dict)
    gaps: list[Unreadable] = field(default_factory=list)


def dry_runs(api: ApiClient, view: DrainView) -> DryRuns:
    """Raises ApiError where the server does not answer."""
    asking = api.under(api.deadline)
    asking.policy = replace(api.policy, patience=min(PATIENCE, api.policy.patience))
    asked = _Asked(asking)
    evicted = [x.pod for x in view.decisions if x.action is PodAction.EVICT]
    result = DryRuns(gaps=asked.gaps)
    result.evictions = {pod.uid: answer for pod, answer in asked.all(evicted, asked.eviction)}
    migrated = [
        decision
        for decision in view.decisions
        if decision.action is PodAction.MOVE_VM
        and decision.vmi is not None
        and view.way_of_vm(decision.vmi).method is Method.MIGRATE
    ]
    if len(migrated) > MOST:
        reason = f"of {len(migrated)} VMs, {MOST} were asked for"
        asked.gaps.append(Unreadable(MIGRATIONS, "", "create", reason))
    refused = asked.all(migrated[:MOST], asked.migration)
    result.migrations = {x.vmi.uid: refusal for x, refusal in refused if x.vmi is not None}
    return result


class _Asked:
    """`fails`: a webhook did not answer. It would fail the other requests, too, each after its timeout."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.gaps: list[Unreadable] = []
        self.fails = False

    def all(
        self, asked: t.Sequence[t.Any], ask: t.Callable[[t.Any], _Answer | None]
    ) -> list[tuple[t.Any, _Answer]]:
        """What `ask` has an answer to, with that. Nothing where this identity may not ask."""
        self.fails = False
        try:
            with ThreadPoolExecutor(THREADS, "dry-runs") as pool:
                answers = list(pool.map(lambda x: None if self.fails else ask(x), asked))
        except Forbidden as error:
            self.gaps.append(unreadable(error))
            return []
        paired = zip(asked, answers, strict=True)
        return [(x, answer) for x, answer in paired if answer is not None]

    def eviction(self, pod: Pod) -> EvictionAnswer | None:
        """None where the answer is not known. A pod that is gone is as one that the server would evict."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"dryRun": ["All"], "preconditions": {"uid": pod.uid}},
        }
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        try:
            self.api.create(path, body, dry_run=True)
        except Throttled as error:
            return EvictionAnswer("; ".join(error.budgets) or error.message, True)
        except ApiError as error:
            if not _is_gone(error):
                refusal = self._refusal(error)
                of_quota = isinstance(error, Forbidden) and error.refuses_request
                # a quota refuses no eviction
                return None if refusal is None or of_quota else EvictionAnswer(refusal.text, False)
        return WOULD_EVICT

    def migration(self, decision: PodDecision) -> Obstacle | None:
        """Why the server refuses the object that the drain would create; None where it does not, or the VMI is gone."""
        vmi, run = decision.vmi, "preflight"
        if vmi is None:
            return None
        record = MoveRecord(vmi.ref, vmi.uid, vmi.ref, Method.MIGRATE, vmi.node_name, 1, 0.0)
        path = migration_path(record, run).rpartition("/")[0]
        body = migration_body(record, MoveSettings(run, 0.0, 300.0))
        try:
            self.api.create(path, body, dry_run=True)
        except Throttled:
            return None
        except ApiError as error:
            return self._refusal(error)
        return None

    def _refusal(self, error: ApiError) -> Obstacle | None:
        """Of a request that is refused, None for one of which that is not known. Raises other errors. A drain waits
        for a migration that is in flight."""
        if _is_gone(error) or error.has(ServerText.IN_FLIGHT_MIGRATION):
            return None
        if error.has(ServerText.NO_DRY_RUN):
            request, reason = error.request, f"it cannot be asked without effect: {error.message}"
            gap = Unreadable(request.resource, request.namespace, request.verb, reason)
            self.gaps += [] if gap in self.gaps else [gap]
            return None
        of_server = isinstance(error, ServerFault) and error.is_status
        self.fails = self.fails or (of_server and error.has(ServerText.NO_WEBHOOK))
        of_admission = isinstance(error, Forbidden) and error.of_admission
        if not (of_admission or of_server or error.refuses_request):
            raise error
        return Obstacle("refused", error.message or str(error))


def _is_gone(error: ApiError) -> bool:
    """Whether the object is gone, or is another one, or its namespace is being deleted with all that it has."""
    gone = isinstance(error, (NotFound, Conflict))
    return gone or (isinstance(error, Forbidden) and error.namespace_terminates)
