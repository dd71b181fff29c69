# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests to the API server by user, from its audit log: proves "zero writes" and "exactly these writes".

The API server itself keeps the record (its audit log), so nothing that a client does escapes it. A
**write** is a request with a mutating verb (create, update, patch, delete, deletecollection) that is
no dry run and no access or token review. A refused request is a write too: it was tried. Its
``code`` tells.

One blind spot: the body of a call to KubeVirt's subresources (restart, stop, ...) is not recorded,
so a dry run that is asked for only there counts as a write.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
import typing as t
import urllib.parse
import uuid
from pathlib import Path

from .admin_api import AdminApi
from .identities import IDENTITIES

MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
REVIEWS = frozenset(
    {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
        "tokenreviews",
    }
)
#: the identities that the collection works as
COLLECTION = tuple(name for name, identity in IDENTITIES.items() if identity.roles)
_MARKER = "audit-marker"
_TIMEOUT = 20.0

#: A place in the log: what was answered before :meth:`AuditLog.mark` lies below it.
Mark = t.NewType("Mark", int)


@dataclasses.dataclass(frozen=True)
class AuditEvent:
    """One request. Fields that do not apply are empty: resource for ``/version``, name for a list.

    ``verb`` is Kubernetes' (list, watch, patch, ...); ``code`` the HTTP status of the answer; ``uid`` that
    of the object which a deletion or an eviction names as its precondition.
    """

    time: datetime.datetime
    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    dry_run: bool
    user_agent: str
    uri: str
    uid: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it changes something, or tries to."""
        return self.verb in MUTATING and not self.dry_run and self.resource not in REVIEWS


class AuditLog:
    """Reads the audit log of one API server.

    ``usernames`` gives the username of each identity; ``api`` is a client with any rights that the
    log records, used to see that the log has caught up. Not safe for several threads at once.
    """

    def __init__(self, path: Path, usernames: t.Mapping[str, str], api: AdminApi) -> None:
        self._path = path
        self._usernames = usernames
        self._api = api
        self._offset = 0
        self._events: list[tuple[int, AuditEvent]] = []
        self._seen: set[str] = set()

    def mark(self) -> Mark:
        """The place in the log after all that was answered until now."""
        self._catch_up()
        return Mark(self._offset)

    def text(self, since: Mark) -> str:
        """What the API server has recorded after ``since``, with the bodies of the collection's writes."""
        self._catch_up()
        return self._path.read_bytes()[since:].decode()

    def requests(self, since: Mark | None = None, user: str | None = None) -> list[AuditEvent]:
        """Requests that ended, and watches that began, after ``since``; of one username or of all."""
        self._catch_up()
        return [
            event
            for end, event in self._events
            if end > (since or 0) and user in (None, event.user) and _MARKER not in event.uri
        ]

    def writes(self, identity: str | None = None, since: Mark | None = None) -> list[AuditEvent]:
        """Writes by one identity, or by all those that the collection works as.

        Raises KeyError for an identity that there is not.
        """
        wanted = COLLECTION if identity is None else (identity,)
        users = {self._usernames[name] for name in wanted}
        return [event for event in self.requests(since) if event.is_write and event.user in users]

    def _catch_up(self) -> None:
        """Read until a request that is made now shows up; so does all that was answered before it.

        The API server writes a request's line before it ends the answer.
        """
        marker = uuid.uuid4().hex
        self._api.request("GET", "/version", query={_MARKER: marker})
        deadline = time.monotonic() + _TIMEOUT
        while not any(marker in event.uri for event in self._read()):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{self._path} does not show a request after {_TIMEOUT:g} s: audit is broken"
                )
            time.sleep(0.01)

    def _read(self) -> list[AuditEvent]:
        """Take in the whole lines that came since the last call."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            new = []
            for line in file:
                if not line.endswith(b"\n"):
                    break  # still being written
                self._offset += len(line)
                record = json.loads(line)
                if record["auditID"] in self._seen:
                    continue  # the end of a watch whose beginning was seen
                self._seen.add(record["auditID"])
                event = parse_event(record)
                self._events.append((self._offset, event))
                new.append(event)
        return new


def parse_event(record: t.Mapping[str, t.Any]) -> AuditEvent:
    """An event from one line of the log (audit.k8s.io/v1 Event)."""
    target = record.get("objectRef") or {}
    return AuditEvent(
        time=datetime.datetime.fromisoformat(
            record["requestReceivedTimestamp"].replace("Z", "+00:00")
        ),
        user=record["user"].get("username", ""),
        verb=record["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(record.get("responseStatus") or {}).get("code", 0),
        dry_run=_is_dry_run(record),
        user_agent=record.get("userAgent", ""),
        uri=record["requestURI"],
        uid=_precondition(record),
    )


def _is_dry_run(record: t.Mapping[str, t.Any]) -> bool:
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(record["requestURI"]).query)
    body = _body(record)
    options = body.get("deleteOptions") or {}
    return bool(query.get("dryRun") or body.get("dryRun") or options.get("dryRun"))


def _precondition(record: t.Mapping[str, t.Any]) -> str:
    body = _body(record)
    options = body.get("deleteOptions") or body
    return str((options.get("preconditions") or {}).get("uid") or "")


def _body(record: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """What was sent, which is recorded for deletions and evictions. A JSON patch is a list, and not of use here."""
    body = record.get("requestObject")
    return body if isinstance(body, dict) else {}
