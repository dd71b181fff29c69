# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server as tests use it: whole objects as plain dicts, waits with a deadline."""

from __future__ import annotations

import concurrent.futures
import json
import time
import typing as t
from pathlib import Path

import requests
import requests.adapters

from .kinds import KINDS

Object = dict[str, t.Any]
Objects = list[Object]  # inside the class, list is a method

_TIMEOUT = 60
_PATIENCE = 120.0
_PAGE = 500
_CONNECTIONS = 16
_PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiFailure(Exception):
    """The API server answered with an error."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        super().__init__(f"{method} {path}: {status} {body[:1000]}")
        self.status = status
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {}
        #: the Status object's reason, such as AlreadyExists; empty where it gave none
        self.reason: str = (answer.get("reason") or "") if isinstance(answer, dict) else ""
        self.message: str = (answer.get("message") or body) if isinstance(answer, dict) else body


class WaitTimeout(AssertionError):
    """What was waited for did not come true in time; the message holds what was seen last."""


class AdminApi:
    """Requests as one user; safe to use from several threads."""

    def __init__(self, url: str, ca_file: Path, token: str, user_agent: str = "sandbox") -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False  # no proxy, no netrc
        self._session.verify = str(ca_file)
        self._session.headers.update({"Authorization": f"Bearer {token}", "User-Agent": user_agent})
        adapter = requests.adapters.HTTPAdapter(
            pool_maxsize=_CONNECTIONS, pool_block=True, max_retries=0
        )
        self._session.mount("https://", adapter)

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: t.Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> requests.Response:
        """Send a request; ApiFailure for an answer of 400 and up."""
        answer = self._session.request(
            method,
            self.url + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=_TIMEOUT,
        )
        if answer.status_code >= 400:
            raise ApiFailure(method, path, answer.status_code, answer.text)
        return answer

    def lines(self, path: str) -> t.Iterator[str]:
        """The lines of an answer that goes on, such as a log that is followed; it ends where none comes for long."""
        url = self.url + path
        # a session of its own: connections that last must not use up those of the others
        with requests.Session() as session:
            session.trust_env, session.verify = False, self._session.verify
            session.headers.update(self._session.headers)
            with session.get(url, stream=True, timeout=_TIMEOUT) as answer:
                if answer.status_code >= 400:
                    raise ApiFailure("GET", path, answer.status_code, answer.text)
                for line in answer.iter_lines():
                    yield line.decode(errors="replace")

    def get(self, path: str) -> Object:
        """The object at this path."""
        return t.cast(Object, self.request("GET", path).json())

    def find(self, path: str) -> Object | None:
        """The object at this path, None when there is none."""
        try:
            return self.get(path)
        except ApiFailure as error:
            if error.status == 404:
                return None
            raise

    def list(self, path: str, **query: str) -> Objects:
        """All objects of a collection; ``query``: labelSelector, fieldSelector."""
        items: Objects = []
        token = ""
        while True:
            page = {"limit": str(_PAGE), **query, **({"continue": token} if token else {})}
            answer = self.request("GET", path, query=page).json()
            items += answer["items"]
            token = answer["metadata"].get("continue", "")
            if not token:
                return items

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at this path, or post to a subresource."""
        return t.cast(Object, self.request("POST", path, body).json())

    def put(self, path: str, body: Object | None = None) -> Object:
        """Replace an object, or call a subresource such as restart (its empty answer is {})."""
        answer = self.request("PUT", path, body)
        return t.cast(Object, answer.json() if answer.content else {})

    def patch(
        self,
        path: str,
        body: object,
        type: t.Literal["merge", "json", "strategic"] = "merge",
    ) -> Object:
        """Patch the object at this path."""
        answer = self.request("PATCH", path, body, content_type=_PATCH_TYPES[type])
        return t.cast(Object, answer.json())

    def delete(self, path: str, **options: object) -> None:
        """Delete an object or a collection; nothing happens when it is gone already.

        ``options`` are fields of DeleteOptions (gracePeriodSeconds, propagationPolicy, ...).
        """
        try:
            self.request("DELETE", path, options or None)
        except ApiFailure as error:
            if error.status != 404:
                raise

    def apply(self, objects: Object | t.Sequence[Object]) -> Objects:
        """Create these objects, or replace those that are there, in the given order."""
        return [self._apply(entry) for entry in _as_list(objects)]

    def create_all(self, objects: t.Sequence[Object]) -> Objects:
        """Create these objects at once, in no order."""
        with concurrent.futures.ThreadPoolExecutor(_CONNECTIONS) as pool:
            return list(
                pool.map(lambda entry: self.create(self.collection_of(entry), entry), objects)
            )

    def define(self, definition: Object) -> None:
        """Create a CustomResourceDefinition, and wait until its first version is served.

        The condition Established comes a little before that, and then "storage is (re)initializing" (429).
        """
        self.create(self.path("CustomResourceDefinition"), definition)
        spec = definition["spec"]
        collection = (
            f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        )

        def served() -> bool:
            try:
                return self.find(collection) is not None
            except ApiFailure as error:
                if error.status == 429:
                    return False
                raise

        self._until(served, bool, collection, _PATIENCE)

    def wait(
        self, predicate: t.Callable[[Object], object], path: str, timeout: float = _PATIENCE
    ) -> Object:
        """Read the object again and again until the predicate holds; returns it.

        No predicate holds for an object that is not there, or lacks a key that the predicate reads.
        """
        seen = self._until(
            lambda: self.find(path), lambda got: got and predicate(got), path, timeout
        )
        return t.cast(Object, seen)

    def wait_list(
        self, path: str, predicate: t.Callable[[Objects], object], timeout: float = _PATIENCE
    ) -> Objects:
        """Read the collection again and again until the predicate holds for its items."""
        seen = self._until(lambda: self.list(path), predicate, path, timeout)
        return t.cast(Objects, seen)

    def wait_gone(self, path: str, timeout: float = _PATIENCE) -> None:
        """Wait until there is no object at this path."""
        self._until(lambda: self.find(path), lambda got: got is None, path, timeout)

    def path(self, kind: str, namespace: str | None = None, name: str | None = None) -> str:
        """Path of an object; without a name of a collection, without a namespace of all of them."""
        collection = KINDS[kind].collection(namespace)
        return f"{collection}/{name}" if name else collection

    def collection_of(self, entry: Object) -> str:
        """Path of the collection that this object belongs to (namespace default where none is given)."""
        return self.path(entry["kind"], entry["metadata"].get("namespace") or "default")

    def path_of(self, entry: Object) -> str:
        """Path of this object."""
        return f"{self.collection_of(entry)}/{entry['metadata']['name']}"

    def _apply(self, entry: Object) -> Object:
        try:
            return self.create(self.collection_of(entry), entry)
        except ApiFailure as error:
            if error.reason != "AlreadyExists":
                raise
        path = self.path_of(entry)
        version = self.get(path)["metadata"]["resourceVersion"]
        metadata = {**entry["metadata"], "resourceVersion": version}
        return self.put(path, {**entry, "metadata": metadata})

    @staticmethod
    def _until(
        read: t.Callable[[], t.Any],
        predicate: t.Callable[[t.Any], object],
        what: str,
        timeout: float,
    ) -> t.Any:
        def holds(seen: t.Any) -> bool:
            try:
                return bool(predicate(seen))
            except KeyError:  # a status that is still to come
                return False

        deadline = time.monotonic() + timeout
        while not holds(seen := read()):
            if time.monotonic() > deadline:
                raise WaitTimeout(
                    f"{what}: not as expected after {timeout:g} s; last seen: "
                    f"{json.dumps([*map(_brief, seen)] if isinstance(seen, list) else seen)[:3000]}"
                )
            time.sleep(0.1)
        return seen


def _brief(found: Object) -> Object:
    """Of an object in a list its name, phase, and conditions that are not True."""
    status = found.get("status") or {}
    conditions = [x for x in status.get("conditions") or () if x.get("status") != "True"]
    return {"name": found["metadata"]["name"], "phase": status.get("phase"), "not": conditions}


def _as_list(objects: Object | t.Sequence[Object]) -> t.Sequence[Object]:
    return [objects] if isinstance(objects, dict) else objects
