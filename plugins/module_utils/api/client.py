# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to the API server: raw JSON on fixed paths, under one deadline.

Whether a failed request is sent again:

| answer | sent again |
|---|---|
| no connection | yes: nothing was sent; not after a certificate that does not verify |
| 429 | yes, after Retry-After: the server did nothing; not an eviction that a budget refused |
| 5xx, reset, no answer, no JSON | reads, dry runs, deletes with a uid; not an eviction of a pod with two budgets |
| the same for other writes | no: the outcome is unknown, so the caller reads the object first |
| 401 | once, after the configuration was read again |
| anything else | no |
"""

from __future__ import annotations

import functools
import json
import random
import re
import threading
import typing as t
from collections import Counter
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ..model.json_pointer import JSON
from ..model.json_text import ListPage, decoded
from ..model.kinds import FIELD_MANAGER
from .errors import (
    JSON_PATCH,
    AnswerLost,
    ApiError,
    ApiRequest,
    BadAnswer,
    DeadlineExceeded,
    ServerFault,
    ServerText,
    Throttled,
    Unauthorized,
    Unreachable,
    UnusablePath,
    from_answer,
)
from .transport import Deadline, Transport


@dataclass(frozen=True)
class RetryPolicy:
    """When a failed request is sent again. Pauses grow from `base` seconds to `cap`; half of each is random.
    A request that fails for `patience` seconds is not sent again; for `first_contact` seconds if the server
    has answered no request yet, since the address is probably wrong. `budget` is the most retries of a
    whole run."""

    base: float = 0.2
    cap: float = 5.0
    patience: float = 60.0
    first_contact: float = 3.0
    budget: int = 1000
    draw: t.Callable[[], float] = random.random

    def pause(self, attempt: int) -> float:
        """Seconds to wait before attempt number `attempt` + 1, counted from 1."""
        full = min(self.cap, self.base * 2.0 ** (attempt - 1))
        return full * (0.5 + 0.5 * self.draw())

    def delay(
        self, error: ApiError, attempt: int, failing_for: float, has_answered: bool
    ) -> float | None:
        """Seconds until the request is sent again, None if it is not.

        `failing_for`: seconds since its first failure. `has_answered`: whether the server answered any
        request.
        """
        if not self._is_retryable(error):
            return None
        if failing_for >= (self.patience if has_answered else self.first_contact):
            return None
        return max(error.retry_after or 0.0, self.pause(attempt))

    @staticmethod
    def _is_retryable(error: ApiError) -> bool:
        if isinstance(error, Unreachable):
            return not error.final
        if isinstance(error, Throttled):
            return not (error.is_status and error.request.resource == "pods/eviction")
        if error.is_status and error.request.resource == "virtualmachines/expand-spec":
            return False  # virt-api answers 500 if the instance type does not exist
        if isinstance(error, (ServerFault, AnswerLost, BadAnswer)):
            if error.has(ServerText.TWO_BUDGETS):
                return False
            return error.request.repeatable and error.status not in (501, 505)
        return False


Params = t.Mapping[str, str]

PLAIN = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"

IDENTITY_PATH = "/api/v1/namespaces/kube-system"
"""Its uid is the cluster's: the namespace is as old as the cluster and cannot be deleted."""

_Answer = t.TypeVar("_Answer")

WRITE_PARAMS: Params = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}

ANY_TYPE = "*/*"
"""virt-api answers 406 to a client that accepts only JSON: its answers to subresources are empty."""


class Counts:
    """The number of requests by verb, of retries among them, of writes that were sent, of those that were or may have
    been made, and of bytes of answers that were read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.by_verb: Counter[str] = Counter()
        self.writes_sent = 0
        self.writes = 0
        self.retries = 0
        self.bytes_read = 0

    def sent(self, request: ApiRequest, again: bool) -> None:
        with self._lock:
            self.by_verb[request.verb] += 1
            self.writes_sent += request.writes
            self.retries += again

    def written(self, request: ApiRequest) -> None:
        with self._lock:
            self.writes += request.writes

    def received(self, size: int) -> None:
        with self._lock:
            self.bytes_read += size

    @property
    def requests(self) -> int:
        return sum(self.by_verb.values())


class ApiClient:
    """Requests to one API server. Several threads may use it.

    Every method raises an ApiError: see `errors` for which. The server checks writes against the
    schema (`fieldValidation=Strict`); with `dry_run` it does not store them.
    """

    def __init__(
        self, transport: Transport, deadline: Deadline, policy: RetryPolicy | None = None
    ) -> None:
        self.transport = transport
        self.deadline = deadline
        self.policy = policy or RetryPolicy()
        self.counts = Counts()
        self.remarks: list[str] = []
        """What a reader with -v may want to know about the server."""
        self._has_answered = False

    @property
    def host(self) -> str:
        """URL of the API server. Raises NoConfiguration."""
        return self.transport.session.host

    @property
    def secrets(self) -> t.Sequence[str]:
        """What must never be printed: the tokens in use."""
        return self.transport.secrets

    def under(self, deadline: Deadline) -> ApiClient:
        """The same server and counters, bounded by another deadline."""
        client = ApiClient(self.transport, deadline, self.policy)
        client.counts = self.counts
        client.remarks = self.remarks
        client._has_answered = self._has_answered
        return client

    def get(self, path: str, *, accept: str = PLAIN) -> JSON:
        return self._json(ApiRequest("GET", path), None, accept=accept)

    def cluster_uid(self) -> str:
        """The uid of the cluster."""
        answer = self.get(IDENTITY_PATH, accept=METADATA)
        try:
            return str(answer["metadata"]["uid"])
        except (KeyError, TypeError) as error:
            request = ApiRequest("GET", IDENTITY_PATH)
            raise BadAnswer(request, "the answer is no Namespace") from error

    def get_page(self, path: str, params: Params, *, accept: str = PLAIN) -> ListPage:
        """A page of a list. Its items are decoded later, and may turn out to be no JSON."""
        page = self._answer(ApiRequest("GET", path), params, None, accept, ListPage)
        self.deadline.progress()
        return page

    def patch(
        self,
        path: str,
        body: JSON,
        *,
        content_type: str = JSON_PATCH,
        params: Params | None = None,
        accept: str = PLAIN,
        dry_run: bool = False,
    ) -> JSON:
        request = ApiRequest("PATCH", path, content_type, dry_run=dry_run)
        tried = {"dryRun": "All"} if dry_run else {}
        sent = {**WRITE_PARAMS, **(params or {}), **tried}
        return self._json(request, sent, body, accept=accept)

    def create(self, path: str, body: JSON, *, dry_run: bool = False) -> JSON:
        """POST to a collection or to a subresource such as `pods/NAME/eviction`."""
        request = ApiRequest("POST", path, dry_run=dry_run)
        params = {**WRITE_PARAMS, "dryRun": "All"} if dry_run else WRITE_PARAMS
        return self._json(request, params, body)

    def call_subresource(self, path: str, body: JSON) -> None:
        """PUT to a subresource of `subresources.kubevirt.io`, such as restart. Sent once."""
        self._json(ApiRequest("PUT", path), None, body, accept=ANY_TYPE)

    def delete(self, path: str, *, uid: str, resource_version: str = "") -> JSON:
        """Delete the object if it has this uid and this resource version (empty: any).

        Raises Conflict if the uid or the resource version differs. The request is sent again after a lost
        answer: then NotFound, or Conflict for a resource version, may mean that the first request
        succeeded.
        """
        preconditions = {"uid": uid}
        if resource_version:
            preconditions["resourceVersion"] = resource_version
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        request = ApiRequest("DELETE", path, preconditioned=True)
        return self._json(request, None, options)

    def pause(self, attempt: int) -> None:
        """Wait before attempt number `attempt` + 1 of an operation that the caller repeats."""
        self.deadline.pause(self.policy.pause(attempt))

    def _json(
        self, request: ApiRequest, params: Params | None, body: JSON = None, *, accept: str = PLAIN
    ) -> JSON:
        if request.reads:
            return self._answer(request, params, body, accept, _object)
        # Subresources answer with nothing.
        return self._answer(request, params, body, accept, lambda x: _object(x) if x else {})

    def _answer(
        self,
        request: ApiRequest,
        params: Params | None,
        body: JSON,
        accept: str,
        decode: t.Callable[[bytes], _Answer],
    ) -> _Answer:
        """What `decode` makes of the answer; it raises ValueError for a text that is not JSON."""
        headers, data = {"Accept": accept}, None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers["Content-Type"] = request.content_type or PLAIN
        url = target(request.path, params)
        send = functools.partial(self._send_once, request, url, headers, data, decode)
        return self._with_retries(request, send)

    def _with_retries(self, request: ApiRequest, send: t.Callable[[], _Answer]) -> _Answer:
        """The result of `send`, which sends the request once."""
        began = self.deadline.now()
        last: ApiError | None = None
        renewed = False
        attempt = 0
        while True:
            if self.deadline.expired:
                raise DeadlineExceeded(request, self.deadline.total, last)
            attempt += 1
            session = self.transport.session
            try:
                self.counts.sent(request, attempt > 1)
                answer = send()
                self.counts.written(request)
                self.transport.outage.answered()
                return answer
            except Unauthorized as refused:
                if renewed:
                    raise
                renewed = True
                self.transport.renew(session, refused)
                continue
            except ApiError as error:
                last = error
                if error.outcome_unknown:
                    self.counts.written(request)
            failing_for = self.deadline.now() - began
            delay = self.policy.delay(last, attempt, failing_for, self._has_answered)
            if request.repeatable and not self.deadline.remaining:
                raise DeadlineExceeded(request, self.deadline.total, last) from last
            if delay is None or self.counts.retries >= self.policy.budget:
                if last.refuses_request:
                    self.transport.outage.answered()
                raise last
            if delay >= self.deadline.remaining:
                raise DeadlineExceeded(request, self.deadline.total, last) from last
            self.transport.outage.failing(last, failing_for)
            self.deadline.pause(delay)

    def _send_once(
        self,
        request: ApiRequest,
        url: str,
        headers: t.Mapping[str, str],
        body: bytes | None,
        decode: t.Callable[[bytes], _Answer],
    ) -> _Answer:
        answer = self.transport.send(request, url, self.deadline, headers=headers, body=body)
        self.counts.received(answer.bytes_read)
        if answer.status >= 300:
            error = from_answer(request, answer.status, answer.headers, answer.body)
            self._has_answered = self._has_answered or error.is_status
            raise error
        try:
            value = decode(answer.body)
        except ValueError as error:
            text = answer.body[:60].decode("utf-8", "replace")
            raise BadAnswer(
                request,
                f"the answer is no JSON object, and begins with {text!r}",
                status=answer.status,
            ) from error
        self._has_answered = True
        return value


def _object(body: bytes) -> JSON:
    value = decoded(body)
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    return value


_OBJECTS = re.compile(
    r"/version|/apis|/(?:api/[^/]+|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+)?/[^/]+"
    r"(?:/[^/]+(?:/(?:eviction|evacuate/cancel|expand-spec|restart|start|stop))?)?"
)
"""The paths of all requests: a list, an object, a subresource, discovery. A name with a slash would lead elsewhere."""


def target(path: str, params: Params | None = None) -> str:
    """Path and query, encoded. Raises UnusablePath for a segment such as `..`, with which a client or a proxy
    would request another path: tenants can choose names of objects."""
    if any(segment in (".", "..") for segment in path.split("/")) or not _OBJECTS.fullmatch(path):
        raise UnusablePath(
            ApiRequest("GET", "/"), f"a name in the path {path!r} is empty, a dot or has a slash"
        )
    encoded = quote(path)
    return f"{encoded}?{urlencode(params)}" if params else encoded
