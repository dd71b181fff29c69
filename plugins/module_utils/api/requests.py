# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API server: raw JSON on fixed paths, retried where that is safe, under one
deadline."""

from __future__ import annotations

import json
import threading
import typing as t
from collections import Counter
from urllib.parse import quote, urlencode

from ..model.names import FIELD_MANAGER
from ..model.pointer import JSON
from .deadline import Deadline
from .errors import (
    JSON_PATCH,
    ApiError,
    BadAnswer,
    DeadlineExceeded,
    Request,
    Unauthorized,
    from_answer,
)
from .retry import RetryPolicy
from .transport import Transport

Params = t.Mapping[str, str]

PLAIN = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class Counts:
    """How many requests were sent, by verb, and how many of them were retries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_verb: Counter[str] = Counter()
        self.retries = 0

    def sent(self, request: Request, again: bool) -> None:
        with self._lock:
            self.by_verb[request.verb] += 1
            self.retries += again

    @property
    def requests(self) -> int:
        return sum(self.by_verb.values())

    def as_json(self) -> dict[str, JSON]:
        return {"by_verb": dict(self.by_verb), "retries": self.retries}


class Api:
    """An API server. Safe for several threads.

    Every method raises an ApiError: see `errors` for which and `retry` for what was tried before.
    Writes are checked by the server against the schema (`fieldValidation=Strict`); with `dry_run`
    the server does everything but store them.
    """

    def __init__(
        self, transport: Transport, deadline: Deadline, policy: RetryPolicy | None = None
    ) -> None:
        self.transport = transport
        self.deadline = deadline
        self.policy = policy or RetryPolicy()
        self.counts = Counts()
        self._met = False

    @property
    def host(self) -> str:
        """URL of the API server. Raises NoConfiguration."""
        return self.transport.session.host

    @property
    def secrets(self) -> t.Sequence[str]:
        """What must never be printed: the tokens in use."""
        return self.transport.secrets

    def under(self, deadline: Deadline) -> Api:
        """The same server and counters, bounded by another deadline."""
        other = Api(self.transport, deadline, self.policy)
        other.counts = self.counts
        other._met = self._met
        return other

    def get(self, path: str, params: Params | None = None, *, accept: str = PLAIN) -> JSON:
        return self._json(Request("GET", path), params, accept=accept)

    def patch(
        self,
        path: str,
        body: JSON,
        *,
        content_type: str = JSON_PATCH,
        params: Params | None = None,
        dry_run: bool = False,
        accept: str = PLAIN,
    ) -> JSON:
        request = Request("PATCH", path, content_type, dry_run=dry_run)
        return self._json(request, self._write_params(params, dry_run), body, accept=accept)

    def create(
        self, path: str, body: JSON, *, params: Params | None = None, dry_run: bool = False
    ) -> JSON:
        """POST to a collection or to a subresource such as `pods/NAME/eviction`."""
        request = Request("POST", path, PLAIN, dry_run=dry_run)
        return self._json(request, self._write_params(params, dry_run), body)

    def put(
        self, path: str, body: JSON, *, params: Params | None = None, dry_run: bool = False
    ) -> JSON:
        request = Request("PUT", path, PLAIN, dry_run=dry_run)
        return self._json(request, self._write_params(params, dry_run), body)

    def delete(self, path: str, *, uid: str, body: JSON = None, dry_run: bool = False) -> JSON:
        """Deletes the object that has this uid; Conflict where another has its name by now.

        After an answer was lost it is sent again: then NotFound means that it is gone.
        """
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            **(body or {}),
            "preconditions": {"uid": uid},
        }
        request = Request("DELETE", path, PLAIN, dry_run=dry_run, preconditioned=True)
        return self._json(request, {"dryRun": "All"} if dry_run else None, options)

    def pause(self, attempt: int) -> None:
        """Waits before attempt number `attempt` + 1 of something that is tried again."""
        self.deadline.pause(self.policy.pause(attempt))

    @staticmethod
    def _write_params(params: Params | None, dry_run: bool) -> dict[str, str]:
        found = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", **(params or {})}
        return {**found, "dryRun": "All"} if dry_run else found

    def _json(
        self, request: Request, params: Params | None, body: JSON = None, *, accept: str = PLAIN
    ) -> JSON:
        headers = {"Accept": accept}
        sent = None
        if body is not None:
            sent = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = request.content_type or PLAIN
        return self._repeat(request, target(request.path, params), headers, sent)

    def _repeat(
        self, request: Request, where: str, headers: t.Mapping[str, str], body: bytes | None
    ) -> JSON:
        began = self.deadline.now()
        last: ApiError | None = None
        renewed = False
        attempt = 0
        while True:
            if self.deadline.expired:
                raise DeadlineExceeded(request, self.deadline.seconds, last)
            attempt += 1
            session = self.transport.session
            try:
                return self._once(request, where, headers, body, again=attempt > 1)
            except Unauthorized:
                if renewed:
                    raise
                renewed = True
                self.transport.renew(session)
                continue
            except ApiError as error:
                last = error
            failing_for = self.deadline.now() - began
            delay = self.policy.delay(last, attempt, failing_for, self._met)
            if request.repeatable and not self.deadline.remaining:
                raise DeadlineExceeded(request, self.deadline.seconds, last) from last
            if delay is None or self.counts.retries >= self.policy.budget:
                raise last
            if delay >= self.deadline.remaining:
                raise DeadlineExceeded(request, self.deadline.seconds, last) from last
            self.deadline.pause(delay)

    def _once(
        self,
        request: Request,
        where: str,
        headers: t.Mapping[str, str],
        body: bytes | None,
        *,
        again: bool,
    ) -> JSON:
        self.counts.sent(request, again)
        answer = self.transport.send(request, where, self.deadline, headers=headers, body=body)
        if answer.status >= 300:
            error = from_answer(request, answer.status, answer.headers, answer.body)
            self._met = self._met or error.is_status
            raise error
        try:
            found = json.loads(answer.body) if answer.body or request.reads else {}
        except ValueError as error:
            text = answer.body[:60].decode("utf-8", "replace")
            raise BadAnswer(
                request,
                f"the answer is no JSON, it begins with {text!r}",
                status=answer.status,
            ) from error
        if not isinstance(found, dict):
            raise BadAnswer(request, "the answer is no JSON object", status=answer.status)
        self._met = True
        return found


def target(path: str, params: Params | None = None) -> str:
    """Path and query, encoded."""
    where = quote(path)
    return f"{where}?{urlencode(params)}" if params else where
