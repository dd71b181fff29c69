# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that is read once and then followed: its lists change with the events of watches.

A list is read again when its events are not known to arrive: the connection was lost, its resource
version is too old (410), or the right to watch is missing. A server that is silent without a reason
is found within the seconds that one connection of a watch lasts (`api/lists`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import socket
import threading
import typing as t
from dataclasses import replace

from ..api.client import METADATA, ApiClient
from ..api.errors import ApiError, Forbidden, NotFound, UnservedVersion
from ..api.lists import Event, list_all, watch
from ..api.parallel import read_together
from ..api.transport import Deadline, uptime
from ..model.json_pointer import JSON
from ..model.snapshot import Platform, Snapshot, Unreadable
from .foreign_owners import without_foreign_owners
from .identity import platform_and_gaps, unreadable
from .reading import (
    ListQuery,
    ListResult,
    ReadScope,
    list_queries,
    snapshot_of,
)
from .served_versions import ServedVersions

GRACE = 3.0
"""Seconds without a connection after which a list is read again: less than that is the change from one
connection to the next, on a busy computer."""

CATCH_UP = 2.0
"""Seconds to wait for the event of a change that is known, before its list is read again."""

_OUTDATED = -math.inf


class _Closed(Exception):
    """The list is not followed any more."""


class ListState:
    """The items of one list by their place in it, each with its resource version. Not safe for threads."""

    def __init__(self, query: ListQuery) -> None:
        self.query = query
        self.version = ""
        self.gap: Unreadable | None = None
        self.served = True
        self._items: dict[str, tuple[str, t.Any]] = {}
        self._left_out: dict[str, str] = {}  # by events: deleted, or nothing of them is kept
        self._sorted = True

    def keep(self, manifest: dict[str, JSON]) -> tuple[str, tuple[str, t.Any]]:
        """What is kept of an item: its place, its resource version, and its converted value."""
        metadata = manifest["metadata"]
        version = str(metadata.get("resourceVersion") or "")
        return _place(metadata), (version, self.query.convert(manifest))

    def begin(self, items: t.Iterable[tuple[str, tuple[str, t.Any]]], version: str) -> None:
        """The list as it was read."""
        self._items = {place: kept for place, kept in items if kept[1] is not None}
        self.version, self.gap, self.served, self._sorted = version, None, True, True

    def apply(self, event: Event) -> bool:
        """Change the list by an event. Returns whether what is kept differs."""
        if event.type == "BOOKMARK":
            return False
        place, (version, value) = self.keep(event.object)
        before = self._items.get(place)
        if event.type == "DELETED" or value is None:
            self._items.pop(place, None)
            self._left_out[place] = version
            return before is not None
        self._items[place] = (version, value)
        self._left_out.pop(place, None)
        self._sorted = self._sorted and before is not None
        return before is None or before[1] != value

    def shows(self, place: str, version: str) -> bool:
        """Whether this resource version of the object, or a later one, has been seen; with an empty version,
        whether the object is not there. Versions are compared as numbers, which etcd's are."""
        if not version:
            return place not in self._items
        if place in self._items:
            seen = self._items[place][0]
        else:
            seen = self._left_out.get(place, self.version)
        return seen == version or (
            seen.isdigit() and version.isdigit() and int(seen) >= int(version)
        )

    def result(self) -> ListResult:
        """The list as a fresh reading would give it, in the server's order."""
        if not self.served:
            return ListResult(self.query, None)
        if not self._sorted:
            self._items = dict(sorted(self._items.items()))
            self._sorted = True
        return ListResult(self.query, [value for _version, value in self._items.values()], self.gap)


class FollowedList:
    """One list and the watch of it. `changed` is called with each change, in the watch's thread."""

    def __init__(
        self,
        api: ApiClient,
        served: ServedVersions,
        query: ListQuery,
        changed: t.Callable[[ListQuery, str], None],
    ) -> None:
        self.query = query
        self.path = query.path
        """In the version that the server serves, after the first reading."""
        self._api = api
        self._served = served
        self._changed = changed
        self._state = ListState(query)
        self._readings = 0
        self._without_events_since: float | None = _OUTDATED
        self._response: t.Any = None
        self._watched = False
        self._forbidden = False
        self._closing = threading.Event()
        self._condition = threading.Condition()

    def up_to_date(self) -> bool:
        """Whether the events of the list arrive, or it cannot have any. Waits for the next connection where
        one has just ended."""
        with self._condition:
            if self._readings and (self._state.gap or not self._state.served):
                return True
            while self._watched and not self._forbidden and not self._closing.is_set():
                if self._without_events_since is None:
                    return True
                left = self._without_events_since + GRACE - uptime()
                if left <= 0 or not self._condition.wait(left):
                    break
            return False

    def read(self) -> None:
        """Read the whole list. Raises ApiError for everything but a missing right."""
        state = ListState(self.query)
        try:
            listing, self.path = self.query.read(self._api, self._served, state.keep)
            state.begin(listing.items, listing.resource_version)
        except (Forbidden, UnservedVersion) as error:
            state.gap = unreadable(error)
        except NotFound:
            state.served = False
        with self._condition:
            self._state = state
            self._readings += 1
            if self._response is not None:
                self._without_events_since = None
            elif self._without_events_since == _OUTDATED:
                self._without_events_since = uptime()
            self._condition.notify_all()

    def result(self) -> ListResult:
        with self._condition:
            return self._state.result()

    def in_served_version(self, path: str) -> str:
        """The path of an object of the list, or of a list of some of them, in the version that is served."""
        asked, served = ("/".join(x.split("/")[:4]) for x in (self.query.path, self.path))
        return path if asked == served else f"{served}{path.removeprefix(asked)}"

    def follow(self, until: Deadline) -> None:
        """Watch the list, which was read, in a thread of its own."""
        if not self._watched and self._state.served and self._state.gap is None:
            self._watched = True
            name = f"watch {self.path}"
            ends = Deadline(until.remaining, clock=self._clock, sleep=self._sleep)
            threading.Thread(target=self._run, args=(ends,), name=name, daemon=True).start()

    def await_version(self, place: str, version: str, seconds: float) -> None:
        """Wait until the list shows this version of an object, or a later one; an empty version: until
        the object is not there. If that does not come in time, the list is not up to date."""
        with self._condition:
            self._condition.wait_for(
                lambda: (
                    self._closing.is_set()
                    or self._without_events_since == _OUTDATED
                    or self._state.shows(place, version)
                ),
                seconds,
            )
            if not self._state.shows(place, version):
                self._without_events_since = _OUTDATED

    def close(self) -> None:
        """End the watch and its connection."""
        with self._condition:
            self._closing.set()
            self._condition.notify_all()
            connection: t.Any = getattr(self._response, "connection", None)
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def _clock(self) -> float:
        return math.inf if self._closing.is_set() else uptime()

    def _sleep(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def _run(self, until: Deadline) -> None:
        with contextlib.suppress(_Closed):
            while not until.expired:
                with self._condition:
                    reading, version = self._readings, self._state.version
                try:
                    events = watch(
                        self._api,
                        self.path,
                        version,
                        until=until,
                        params=self.query.params,
                        metadata_only=self.query.metadata_only,
                        connection=self._connection,
                    )
                    with contextlib.closing(events):
                        for event in events:
                            if not self._take(event, reading):
                                break
                except Forbidden:
                    with self._condition:
                        self._forbidden = True
                        self._condition.notify_all()
                    return
                except ApiError:  # also Gone
                    self._await_reading(reading, until)
                except ValueError:  # ssl says so of a connection that `close` has ended
                    if not self._closing.is_set():
                        raise

    def _connection(self, response: t.Any) -> None:
        """A connection of the watch was accepted, or has ended."""
        with self._condition:
            self._response = response
            if self._closing.is_set():
                raise _Closed
            if response is not None and self._without_events_since != _OUTDATED:
                self._without_events_since = None
            elif response is None and self._without_events_since is None:
                self._without_events_since = uptime()
            self._condition.notify_all()

    def _take(self, event: Event, reading: int) -> bool:
        """Apply an event; False where the list was read again since, so that it is followed from there."""
        with self._condition:
            if self._closing.is_set():
                raise _Closed
            if reading != self._readings:
                return False
            changes = self._state.apply(event)
            self._condition.notify_all()
        if changes:
            self._changed(self.query, str(event.object["metadata"].get("namespace") or ""))
        return True

    def _await_reading(self, reading: int, until: Deadline) -> None:
        """The events do not arrive: wait until the list was read again."""
        with self._condition:
            if reading == self._readings:
                self._without_events_since = _OUTDATED
                self._condition.notify_all()
            self._condition.wait_for(
                lambda: self._closing.is_set() or reading != self._readings, until.remaining
            )


class FollowedCluster:
    """The lists of a scope. `changed` is set by each change for which `wakes` (see `follow`) is true."""

    def __init__(self, api: ApiClient) -> None:
        self.changed = threading.Event()
        self._api = api
        self._scope = ReadScope()
        self._lists: list[FollowedList] = []
        self._platform: tuple[Platform, tuple[Unreadable, ...]] | None = None
        self._until: Deadline | None = None
        self._wakes: t.Callable[[ListQuery, str], bool] = lambda _query, _namespace: False
        self._count = itertools.count(1)
        self._changes = 0
        self._last: tuple[int, Snapshot] | None = None

    def snapshot(
        self, scope: ReadScope, *, fresh: bool = False, again: t.Collection[str] = ()
    ) -> Snapshot:
        """The cluster as it is now: the same object as before where nothing in it changed.

        Lists that are up to date are not read again, unless `again` names them; with `fresh` all are
        read. Of the scope only `list_queries` counts: nothing is read that follows from another list.
        Raises ApiError for everything but a missing right.
        """
        if not self._covers(scope):
            self._close_lists()
            self._scope, self._platform, self._last = scope, None, None
            served = ServedVersions(self._api)
            self._lists = [
                FollowedList(self._api, served, query, self._on_change)
                for query in list_queries(scope)
            ]
        self.changed.clear()
        changes = self._changes
        outdated = [
            followed
            for followed in self._lists
            if fresh or followed.query.what in again or not followed.up_to_date()
        ]
        reads: list[t.Callable[[], t.Any]] = [followed.read for followed in outdated]
        if fresh or self._platform is None:
            reads.insert(0, lambda: platform_and_gaps(self._api))
        if reads:
            self._last = None
            self._platform = read_together(reads)[0] or self._platform
        if self._until is not None:
            self.follow(self._until, self._wakes)
        if self._last is None or self._last[0] != changes:
            results = [followed.result() for followed in self._lists]
            platform, gaps = self._platform or platform_and_gaps(self._api)
            snapshot = snapshot_of(self._scope, platform, gaps, results)
            self._last = (changes, without_foreign_owners(snapshot))
        return self._last[1]

    def follow(self, until: Deadline, wakes: t.Callable[[ListQuery, str], bool]) -> None:
        """Watch what was read until then. `wakes`: whether a change in a list, of an object of this
        namespace, is one to wait for; called in several threads."""
        self._wakes, self._until = wakes, until
        for followed in self._lists:
            followed.follow(until)

    def catch_up(self, known: t.Iterable[tuple[str, str]]) -> None:
        """Wait until the lists show these objects as the API server has them now: path of an object or of
        a list, and the label selector of the list. Raises ApiError."""
        until = Deadline(CATCH_UP)
        for path, selector in dict.fromkeys(known):
            collection = path if selector else path.rpartition("/")[0]
            followed = next((x for x in self._lists if _contains(x.query.path, collection)), None)
            if followed is None:
                continue
            seconds = until.remaining if followed.up_to_date() else 0.0
            for place, version in self._now(followed.in_served_version(path), selector):
                followed.await_version(place, version, seconds)

    def close(self) -> None:
        """End all watches."""
        self._close_lists()
        self._until = None

    def _close_lists(self) -> None:
        for followed in self._lists:
            followed.close()
        self._lists = []

    def _now(self, path: str, selector: str) -> t.Iterator[tuple[str, str]]:
        """The place of each object and its resource version now; empty where it is not there."""
        if selector:
            params = {"labelSelector": selector}
            items: t.Sequence[JSON] = list_all(
                self._api, path, params=params, metadata_only=True
            ).items
        else:
            try:
                items = [self._api.get(path, accept=METADATA)]
            except NotFound:
                parts = path.split("/")
                namespace = parts[-3] if "namespaces" in parts[:-2] else ""
                yield _place({"namespace": namespace, "name": parts[-1]}), ""
                return
        for item in items:
            yield _place(item["metadata"]), str(item["metadata"]["resourceVersion"])

    def _covers(self, scope: ReadScope) -> bool:
        if not self._lists:
            return False
        there, wanted = self._scope.namespaces, scope.namespaces
        inside = there is None or (wanted is not None and set(wanted) <= set(there))
        return inside and replace(scope, namespaces=there) == self._scope

    def _on_change(self, query: ListQuery, namespace: str) -> None:
        self._changes = next(self._count)
        if self._wakes(query, namespace):
            self.changed.set()


def _place(metadata: t.Mapping[str, JSON]) -> str:
    """Lists are in this order (the keys of etcd)."""
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _contains(path: str, collection: str) -> bool:
    """Whether the list at `path` has the objects of the collection of one namespace."""
    if path == collection:
        return True
    start, _namespaces, end = collection.partition("/namespaces/")
    return path == f"{start}/{end.partition('/')[2]}"
