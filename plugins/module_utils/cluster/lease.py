# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one Lease of a cluster: the run that disrupts workloads holds it and keeps its journal there.

A holder is a run id with the Lease's `leaseTransitions` at the time it was taken. Every write of the Lease
tests both, so that a process that lost the Lease cannot write it, even if the next holder continues
the same run. A holder is running if the Lease changes between two readings: clocks of two hosts are never
compared.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
import typing as t
from dataclasses import dataclass

from ..api.client import ApiClient
from ..api.errors import ApiError, Conflict, Forbidden, NotFound, TestFailed
from ..api.transport import uptime
from ..model import kinds as names
from ..model.findings import InputError, InvalidInput
from ..model.json_pointer import ANNOTATIONS, JSON, Pointer
from ..model.rendering import one_line
from .access import Right, missing_rights
from .account import holder_text

DURATION = 20
"""Seconds without a change of the Lease after which another run may take it."""

RENEW_AFTER = 5.0
"""Seconds after which the Lease is renewed although there is nothing to write to it."""

RENEW_IN_BACKGROUND = 6.0
"""Seconds after which a thread renews it during work that takes long: reading a large cluster, planning."""

RENEW_PAUSE = 1.0
"""Seconds between two such renewals when they fail."""

SAFETY = 3.0
"""Seconds before the end of our Lease in which no disrupting request is sent."""

PATH = f"/apis/coordination.k8s.io/v1/namespaces/{names.LEASE_NAMESPACE}/leases/{names.LEASE}"
NAME = f"Lease {names.LEASE_NAMESPACE}/{names.LEASE}"

_CREATE = Right("create", "coordination.k8s.io", "leases", "", names.LEASE_NAMESPACE)
"""No role of this collection grants it."""

_HOLDER = Pointer(("spec", "holderIdentity"))
_TRANSITIONS = Pointer(("spec", "leaseTransitions"))
_RENEWED = Pointer(("spec", "renewTime"))


@dataclass(frozen=True, slots=True)
class LeaseReading:
    """The Lease as it was read. `holder` is empty if it is free; `journal` is the text of
    an unfinished run, empty if there is none; `last_holder` names the run that took it
    last, also after a release. Without a Lease all fields are empty."""

    holder: str = ""
    transitions: int = 0
    renewed: str = ""
    journal: str = ""
    resource_version: str = ""
    last_holder: str = ""
    holder_text: str = ""
    """Account, host and job of the holder. Empty if it did not write them."""
    drained: str = ""
    """The marks of drained nodes (`maintenance/drained_nodes`)."""
    annotated: bool = True
    """The Lease has annotations. A JSON patch can add one only then."""

    @property
    def exists(self) -> bool:
        return bool(self.resource_version)

    @property
    def holder_words(self) -> str:
        """The holder for a reader: `run r1 (account on host h, job 3)`."""
        return f"run {self.holder}" + (f" ({self.holder_text})" if self.holder_text else "")

    @property
    def renewal(self) -> str:
        """Text that differs after each renewal."""
        return f"{self.holder}/{self.transitions}/{self.renewed}"


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """The last renewal of another holder, and since when (by our own clock) it has not changed."""

    renewal: str = ""
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseState:
    """`free`: the Lease may be taken. Otherwise `watched` is compared with the next reading, and
    `renewing` is true if a renewal was seen."""

    free: bool
    renewing: bool
    watched: LeaseWatch


def read_if_allowed(api: ApiClient) -> LeaseReading | None:
    """The Lease; None without the right to read it, so that all missing rights can be reported together."""
    try:
        return read(api)
    except Forbidden:
        return None


def lease_state(reading: LeaseReading, watched: LeaseWatch, now: float) -> LeaseState:
    """Whether the Lease may be taken, by comparison with the earlier readings. Pure."""
    if not reading.holder:
        return LeaseState(True, False, LeaseWatch())
    if watched.renewal != reading.renewal:
        return LeaseState(False, bool(watched.renewal), LeaseWatch(reading.renewal, now))
    return LeaseState(now - watched.since >= DURATION, False, watched)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A Lease that is ours: the run, and the Lease's `leaseTransitions` when the run took it."""

    run: str
    transitions: int

    def __str__(self) -> str:
        return f"{self.run}.{self.transitions}"


class LeaseLost(Exception):
    """Another task holds the Lease now, or held it since: nothing more may be disrupted.

    The other task may have gone on with the very same run, so both terms are named.
    """

    def __init__(self, held: HeldLease, seen: LeaseReading) -> None:
        if seen.holder:
            text = f", {seen.holder_text}" if seen.holder_text else ""
            state = f"is held by {seen.holder} now (leaseTransitions {seen.transitions}{text})"
        elif seen.last_holder:
            state = f"was taken over by {seen.last_holder}, and released since"
        else:
            state = "has no holder now"
        super().__init__(
            f"{NAME} {state}: this task, which held it as {held.run} (leaseTransitions {held.transitions}), stops,"
            " since it did not renew the Lease in time"
        )


def read(api: ApiClient) -> LeaseReading:
    try:
        return _reading(api.get(PATH))
    except NotFound:
        return LeaseReading()


def require(api: ApiClient, reading: LeaseReading) -> None:
    """Raises InvalidInput if there is no Lease and this identity may not create it, ApiError if that is not known."""
    if not reading.exists and missing_rights(api, [_CREATE]):
        raise InvalidInput(
            [
                InputError(
                    NAME,
                    "does not exist, and this identity may not create it: an administrator applies rbac/lease.yml of"
                    " this collection to the cluster once (kubectl apply -f rbac/lease.yml), then run again",
                )
            ]
        )


def take(api: ApiClient, reading: LeaseReading, run: str, journal: str) -> HeldLease | None:
    """Take the Lease if it is as it was read, and create it if there was none; None if another task took or created
    it first, or if the outcome is unknown."""
    held = HeldLease(run, reading.transitions + 1)
    if not reading.exists:
        return _create(api, held, journal)
    patch = [
        _operation("test", Pointer(("metadata", "resourceVersion")), reading.resource_version),
        _operation("add", _HOLDER, held.run),
        _operation("add", _TRANSITIONS, held.transitions),
        _operation("add", Pointer(("spec", "leaseDurationSeconds")), DURATION),
        _operation("add", Pointer(("spec", "acquireTime")), _timestamp()),
        *([] if reading.annotated else [_operation("add", ANNOTATIONS, {})]),
        _operation("add", ANNOTATIONS / names.RUN, str(held)),
        _operation("add", ANNOTATIONS / names.HOLDER, f"{held} {holder_text(api)}"),
        *_renewal(journal),
    ]
    return _taken(api, lambda: api.patch(PATH, patch), held, journal)


def _create(api: ApiClient, held: HeldLease, journal: str) -> HeldLease | None:
    """The Lease is created as ours, so that of two runs that create it one holds it."""
    now = _timestamp()
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": names.LEASE,
            "namespace": names.LEASE_NAMESPACE,
            "annotations": {
                names.RUN: str(held),
                names.HOLDER: f"{held} {holder_text(api)}",
                names.JOURNAL: journal,
            },
        },
        "spec": {
            "holderIdentity": held.run,
            "leaseTransitions": held.transitions,
            "leaseDurationSeconds": DURATION,
            "acquireTime": now,
            "renewTime": now,
        },
    }
    return _taken(api, lambda: api.create(PATH.rpartition("/")[0], body), held, journal)


def _taken(
    api: ApiClient, write: t.Callable[[], JSON], held: HeldLease, journal: str
) -> HeldLease | None:
    """`held` if the write succeeds. A write whose outcome is unknown is read back."""
    try:
        write()
    except (Conflict, TestFailed):
        return None
    except ApiError as error:
        if not error.outcome_unknown:
            raise
        now = read(api)
        if (now.holder, now.transitions, now.journal) != (held.run, held.transitions, journal):
            return None
    return held


def renew(api: ApiClient, held: HeldLease, journal: str) -> None:
    """Write the journal and renew the Lease, in one patch. Raises LeaseLost."""
    _write(api, held, _renewal(journal))


def release(api: ApiClient, held: HeldLease, journal: str = "") -> None:
    """Release the Lease. The next run that takes it finds `journal`. Raises LeaseLost."""
    operations = [_operation("replace", _HOLDER, ""), *_renewal(journal)]
    _write(api, held, operations)


def write_drained(api: ApiClient, reading: LeaseReading, text: str) -> None:
    """Write the marks of drained nodes, whichever run holds the Lease. Raises TestFailed if they are not as they were
    read."""
    marks = ANNOTATIONS / names.DRAINED
    if not reading.annotated:
        patch = [
            _operation("test", ANNOTATIONS, None),
            _operation("add", ANNOTATIONS, {names.DRAINED: text}),
        ]
    else:
        patch = [
            _operation("test", marks, reading.drained or None),
            _operation("add", marks, text) if text else {"op": "remove", "path": str(marks)},
        ]
    api.patch(PATH, patch)


class LeaseKeeper:
    """A Lease that this run holds, the time (`transport.uptime`) of its last renewal, and the journal on
    it."""

    def __init__(self, api: ApiClient, held: HeldLease, renewed: float, journal: str) -> None:
        self.api = api
        self.held = held
        self.renewed = renewed
        self.journal = journal
        self._lock = threading.RLock()
        self._over = threading.Event()

    @property
    def age(self) -> float:
        """Seconds since the Lease was last known to be ours."""
        return uptime() - self.renewed

    def renew(self, journal: str) -> None:
        """Raises LeaseLost and ApiError."""
        with self._lock:
            began = uptime()
            renew(self.api, self.held, journal)
            self.renewed, self.journal = began, journal

    @contextlib.contextmanager
    def renewed_in_background(self) -> t.Iterator[None]:
        """In this context a thread renews the Lease, with the journal that is on it, whenever nothing else
        has renewed it for some seconds. A renewal that fails shows in `age`."""

        def keep() -> None:
            while not self._over.wait(max(RENEW_PAUSE, RENEW_IN_BACKGROUND - self.age)):
                with self._lock:
                    if self._over.is_set() or self.age < RENEW_IN_BACKGROUND:
                        continue
                    try:
                        self.renew(self.journal)
                    except LeaseLost:
                        return
                    except ApiError:
                        continue

        threading.Thread(target=keep, name="renew lease", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def release(self, journal: str) -> None:
        """Raises LeaseLost and ApiError."""
        self._over.set()
        with self._lock:
            release(self.api, self.held, journal)

    def api_while_ours(self) -> ApiClient:
        """A client for disrupting requests: it sends nothing, not even a retry, once another run may hold
        the Lease, as after the process was frozen."""
        left = max(0.0, DURATION - SAFETY - self.age)
        return self.api.under(self.api.deadline.within(left))


def _write(api: ApiClient, held: HeldLease, operations: list[JSON]) -> None:
    tests = [
        _operation("test", _HOLDER, held.run),
        _operation("test", _TRANSITIONS, held.transitions),
    ]
    try:
        api.patch(PATH, tests + operations)
    except (TestFailed, NotFound) as error:
        raise LeaseLost(held, read(api)) from error
    except ApiError as error:
        if not error.outcome_unknown:
            raise
        _write_again(api, held, tests + operations)


def _write_again(api: ApiClient, held: HeldLease, patch: list[JSON]) -> None:
    """Send a patch again whose answer was lost: applied twice, it has the same result. After a release
    that was made, if no task has taken the Lease since, nothing is left to do."""
    now = read(api)
    if now.transitions == held.transitions and now.holder == held.run:
        try:
            api.patch(PATH, patch)
        except TestFailed as error:
            raise LeaseLost(held, read(api)) from error
    elif now.transitions != held.transitions or now.holder:
        raise LeaseLost(held, now)


def _renewal(journal: str) -> list[JSON]:
    return [
        _operation("add", _RENEWED, _timestamp()),
        _operation("add", ANNOTATIONS / names.JOURNAL, journal),
    ]


def _operation(op: str, pointer: Pointer, value: JSON) -> dict[str, JSON]:
    return {"op": op, "path": str(pointer), "value": value}


def _reading(lease: t.Mapping[str, JSON]) -> LeaseReading:
    spec, metadata = lease.get("spec") or {}, lease["metadata"]
    annotations = metadata.get("annotations") or {}
    seen = HeldLease(spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0)
    # A release that does not write this annotation leaves that of an earlier holder.
    term, _space, text = annotations.get(names.HOLDER, "").partition(" ")
    return LeaseReading(
        holder=seen.run,
        transitions=seen.transitions,
        renewed=spec.get("renewTime") or "",
        journal=annotations.get(names.JOURNAL, ""),
        resource_version=metadata["resourceVersion"],
        last_holder=annotations.get(names.RUN, ""),
        holder_text=one_line(text)[:300] if term == str(seen) else "",
        drained=annotations.get(names.DRAINED, ""),
        annotated=bool(annotations),
    )


def _timestamp() -> str:
    """The present time in the format of a Lease (MicroTime). It is only compared with itself."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
