# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API server as the simulated virt-handler needs it: list and watch, and writes that lose to
newer ones.
"""

from __future__ import annotations

import json
import pathlib
import threading
import typing as t

import requests
import yaml

Object = t.Mapping[str, t.Any]

CONNECT_SECONDS = 5
ANSWER_SECONDS = 30
WATCH_SECONDS = 240


class ConflictError(Exception):
    """The object was written meanwhile, is gone, or is another one: read it again."""


class GoneError(Exception):
    """The watch asked for a history that the server no longer has: list again."""


class Api:
    """Requests with the identity of one kubeconfig; one HTTP session a thread, as sessions are
    not thread-safe.
    """

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = next(
            c["context"] for c in config["contexts"] if c["name"] == config["current-context"]
        )
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
        self._url = cluster["server"].rstrip("/")
        self._ca_file = cluster["certificate-authority"]
        self._token = user["token"]
        self._local = threading.local()

    @property
    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = requests.Session()
            session.trust_env = False
            session.verify = self._ca_file
            session.headers["Authorization"] = f"Bearer {self._token}"
            session.headers["User-Agent"] = "sandbox-virt-handler"
            self._local.session = session
        return session

    def list(self, path: str, query: t.Mapping[str, str]) -> tuple[list[Object], str]:
        """All objects of a collection, with the resourceVersion to watch from."""
        answer = self._session.get(
            self._url + path, params=query, timeout=(CONNECT_SECONDS, ANSWER_SECONDS)
        )
        answer.raise_for_status()
        body = answer.json()
        return body["items"], body["metadata"]["resourceVersion"]

    def watch(
        self, path: str, query: t.Mapping[str, str], version: str
    ) -> t.Iterator[tuple[str, Object]]:
        """Events (type, object) after ``version``, until the server ends the watch. Raises GoneError."""
        params = {
            **query,
            "allowWatchBookmarks": "true",
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        timeout = (CONNECT_SECONDS, WATCH_SECONDS + ANSWER_SECONDS)
        url = self._url + path
        with self._session.get(url, params=params, timeout=timeout, stream=True) as answer:
            if answer.status_code == 410:
                raise GoneError("410, list again")
            answer.raise_for_status()
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    if event["object"].get("code") == 410:
                        raise GoneError("410, list again")
                    raise requests.RequestException(f"watch of {path}: {event['object']}")
                yield event["type"], event["object"]

    def replace(self, path: str, body: Object) -> None:
        """Write the whole object, unless it was written since ``body`` was read. Raises ConflictError."""
        self._write("PUT", path, body, {})

    def patch(self, path: str, seen: Object, patch: t.Mapping[str, t.Any]) -> None:
        """Merge ``patch`` if the object is still as ``seen``. Raises ConflictError."""
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        self.patch_any_version(
            path, seen, {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        )

    def patch_any_version(self, path: str, seen: Object, patch: t.Mapping[str, t.Any]) -> None:
        """Merge ``patch`` if it is still the object that was ``seen``. Raises ConflictError."""
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": seen["metadata"]["uid"]}}
        headers = {"Content-Type": "application/merge-patch+json"}
        self._write("PATCH", path, body, headers)

    def delete_now(self, path: str, seen: Object) -> None:
        """Delete without grace, if it is still the object that was ``seen``. Raises ConflictError."""
        preconditions = {"uid": seen["metadata"]["uid"]}
        self._write("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": preconditions}, {})

    def _write(self, method: str, path: str, body: object, headers: dict[str, str]) -> None:
        headers = {"Content-Type": "application/json", **headers}
        timeout = (CONNECT_SECONDS, ANSWER_SECONDS)
        answer = self._session.request(
            method, self._url + path, data=json.dumps(body), headers=headers, timeout=timeout
        )
        if answer.status_code in (404, 409):
            raise ConflictError(answer.text)
        if answer.status_code >= 400:
            raise requests.HTTPError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")


class Reflector(threading.Thread):
    """Keeps ``objects`` (by uid) equal to a collection.

    ``changed`` is called with each new and each last state, and the one before. After an error, 410 among
    them, it lists again; while the API server is away it tries until it is stopped.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        query: t.Mapping[str, str],
        changed: t.Callable[[Object, Object | None], None],
        log: t.Callable[[str], None],
    ) -> None:
        super().__init__(daemon=True, name=f"watch {path}")
        self.objects: dict[str, Object] = {}
        self.synced = threading.Event()
        self._stopped = threading.Event()
        self._api, self._path, self._query = api, path, query
        self._changed, self._log = changed, log

    def run(self) -> None:
        version, pause = "", 0.2
        while not self._stopped.is_set():
            try:
                if not version:
                    version = self._relist()
                for kind, item in self._api.watch(self._path, self._query, version):
                    version = item["metadata"]["resourceVersion"]
                    self._take(kind, item)
                    pause = 0.2
            except (GoneError, requests.RequestException, OSError, ValueError) as error:
                self._log(f"watch of {self._path}: {error}; again in {pause:g} s")
                self._stopped.wait(pause)
                # The server may be a new one: what it shows is compared with a fresh list.
                version, pause = "", min(pause * 2, 2.0)

    def stop(self) -> None:
        """End when the watch that is open does."""
        self._stopped.set()

    def _relist(self) -> str:
        items, version = self._api.list(self._path, self._query)
        present = {item["metadata"]["uid"] for item in items}
        for gone in [item for uid, item in self.objects.items() if uid not in present]:
            self._take("DELETED", gone)
        for item in items:
            self._take("MODIFIED", item)
        self.synced.set()
        return version

    def _take(self, kind: str, item: Object) -> None:
        if kind == "BOOKMARK":
            return
        uid = item["metadata"]["uid"]
        old = self.objects.pop(uid, None) if kind == "DELETED" else self.objects.get(uid)
        if kind != "DELETED":
            self.objects[uid] = item
        self._changed(item, old)
