# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request and its answer over the connection pool that `connection` made; deadlines.

No decision is made here: a request comes to a Response, to Unreachable (not sent) or to AnswerLost
(sent, outcome unknown).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import signal
import threading
import time
import types
import typing as t
import zlib
from dataclasses import dataclass

from .errors import (
    AnswerLost,
    ApiError,
    ApiRequest,
    DeadlineExceeded,
    HostLimitReached,
    NoConfiguration,
    ServerText,
    TooLarge,
    Unauthorized,
    Unreachable,
    Untrusted,
    host_limit,
)
from .progress_pipe import answers_again

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime() -> float:
    """Seconds of a clock that goes on while the computer sleeps, where there is one (Linux): a Lease of this
    process expires meanwhile."""
    return time.clock_gettime(_CLOCK)


class Deadline:
    """A point in time that every call under it is bounded by. Safe to share between threads.

    `progress` puts it off, so that it is `seconds` away again, up to `most` seconds from the beginning.
    `clock` gives seconds and `sleep` waits: tests put their own in.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        *,
        most: float = 0.0,
        clock: t.Callable[[], float] = uptime,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._end = self._began + seconds
        self._last_end = self._began + max(seconds, most)

    def anew(self) -> Deadline:
        """The same limits from now on."""
        most = self._last_end - self._began
        return Deadline(self.seconds, most=most, clock=self._clock, sleep=self._sleep)

    @property
    def total(self) -> float:
        """Seconds from the beginning to the end."""
        return self._end - self._began

    def progress(self) -> None:
        """Something arrived that would be lost if the call ended now."""
        self._end = max(self._end, min(self._clock() + self.seconds, self._last_end))

    @property
    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._end - self._clock())

    @property
    def expired(self) -> bool:
        return self._clock() >= self._end

    def now(self) -> float:
        """The clock that this deadline goes by, for durations."""
        return self._clock()

    def within(self, seconds: float) -> Deadline:
        """A deadline in `seconds` from now, or this one where it comes first. It is not put off."""
        return Deadline(min(seconds, self.remaining), clock=self._clock, sleep=self._sleep)

    def pause(self, seconds: float) -> None:
        """Sleeps for `seconds`, but not past the end."""
        self._sleep(min(seconds, self.remaining))


class ComputingTimeout(Exception):
    """What was read could not be evaluated in time."""


COMPUTING_GRACE = 10.0
"""Seconds past a deadline: a request that is late fails by itself, with a better message."""


@contextlib.contextmanager
def computing_bounded(
    deadline: Deadline, message: str, may_end: t.Callable[[types.FrameType | None], bool]
) -> t.Iterator[None]:
    """Raises ComputingTimeout inside of it once the deadline is over: any tenant that may create pods decides
    how much there is to compute. `may_end` says whether that does no harm where it would be raised now."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_signal: int, frame: types.FrameType | None) -> None:
        if deadline.remaining:  # pages of a list have put it off
            signal.setitimer(signal.ITIMER_REAL, deadline.remaining + COMPUTING_GRACE, 1.0)
        elif may_end(frame):
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise ComputingTimeout(message)

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, deadline.remaining + COMPUTING_GRACE, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_BOUNDED = frozenset(f"{__name__.rpartition('.api.')[0]}.{layer}" for layer in ("api", "cluster"))
"""Packages whose functions end by the deadline themselves, and hold locks."""


def no_request_under_way(frame: types.FrameType | None) -> bool:
    """Whether the work that is interrupted in `frame` is nothing but computing."""
    while frame is not None:
        if frame.f_globals.get("__package__") in _BOUNDED:
            return False
        frame = frame.f_back
    return True


CONNECT_SECONDS = 5.0
READ_SECONDS = 15.0
"""The longest silence of the server in a read."""
LIST_SECONDS = 60.0
"""In a page of a list: the API server ends a request after a minute (--request-timeout)."""
WRITE_SECONDS = 35.0
"""In a write: admission webhooks may take 30 s (admissionregistration/v1 timeoutSeconds)."""

_CHUNK = 1 << 16

MOST_BYTES = 1 << 28
"""Of one answer, also decompressed: a page has 500 objects, and etcd takes no object of more than 1.5 MiB."""


@dataclass(frozen=True)
class Session:
    """A pool of connections to `host` (a URL), and the credentials. `headers` is asked each time,
    because tokens are renewed while a run goes on. `secrets` is what of them is never printed.
    `trust` identifies the trusted certificates: another text, other certificates. With `compress` the
    server is asked for gzip, which divides the bytes of a list by 5 to 14."""

    pool: t.Any
    host: str
    headers: t.Callable[[], t.Sequence[tuple[str, str]]]
    secrets: t.Callable[[], t.Sequence[str]] = tuple
    trust: str = ""
    compress: bool = False

    @property
    def server(self) -> dict[str, str]:
        """Digests of the host and of what is trusted, by which another process knows both again."""
        return {"host": _digest(self.host), "trust": _digest(self.trust)}

    def require(self, server: t.Mapping[str, str], when: str) -> None:
        """Raises NoConfiguration where this session leads to another server than one before, whose
        `server` is given: what was read of that one must not be written to this one."""
        if self.server != server:
            other_host = self.server["host"] != server["host"]
            change = f"names {self.host}" if other_host else "trusts another certificate authority"
            raise NoConfiguration(
                f"{when}, and the configuration that was read again {change}: one run works on one"
                " cluster; run again if the change is meant"
            )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Response:
    """`bytes_read` are those of the body as it was sent, perhaps compressed."""

    status: int
    headers: t.Mapping[str, str]
    body: bytes
    bytes_read: int


NOTED_AFTER = 2.0
"""Seconds without an answer after which an outage is noted: a restart of one of several servers is shorter."""

SILENT_AFTER = 12.0
"""Seconds after which a request that has no answer is noted. It may wait for longer, READ_SECONDS to LIST_SECONDS."""


class Outage:
    """Whether the API server is away, seen by all threads. `note` gets one line when it is, and one when it is
    back. `since` is the time of day, empty where it answers; `noted` whether it was away at all. `unread` are lines for
    the result, where no one reads them meanwhile."""

    def __init__(self) -> None:
        self.note: t.Callable[[str], None] | None = None
        self.since = ""
        self.noted = False
        self.unread: list[str] = []
        self._lock = threading.Lock()
        self._answered = -math.inf
        self._sent: dict[object, tuple[float, ApiRequest]] = {}
        self._watched = False

    def taken(self) -> list[str]:
        """The lines that are unread, which are in the result then. Another thread may add one meanwhile."""
        return [self.unread.pop(0) for _line in tuple(self.unread)]

    def failing(self, error: ApiError, seconds: float) -> None:
        """A request has failed for so many seconds, with this error, and is sent again. A server that answers others
        meanwhile is not away, and one that answers with errors has a fault with this request alone. Where a webhook of
        admission does not answer, the server does."""
        silence = min(seconds, uptime() - self._answered)
        answers = error.is_status and (silence < seconds or error.has(ServerText.NO_WEBHOOK))
        if silence < NOTED_AFTER or answers:
            return
        self.begin(error, silence)

    def begin(self, error: ApiError, seconds: float) -> None:
        """It is away for so many seconds, if that is not noted yet."""
        self._away(
            "only errors" if error.is_status else "no answer", seconds, f"{error}; trying again"
        )

    @contextlib.contextmanager
    def sent(self, request: ApiRequest) -> t.Iterator[None]:
        """While a request has no answer. A connection to a host that is gone is silent, and fails late."""
        key = object()
        self._sent[key] = (uptime(), request)
        self._watch()
        try:
            yield
        finally:
            del self._sent[key]

    def _watch(self) -> None:
        with self._lock:
            if self._watched or self.note is None:
                return
            self._watched = True
        threading.Thread(target=self._note_silence, daemon=True).start()

    def _note_silence(self) -> None:
        while True:
            time.sleep(1.0)
            self.note_silence(uptime())

    def note_silence(self, now: float) -> None:
        """What is done each second."""
        for sent, request in tuple(self._sent.values()):
            silence = now - max(sent, self._answered)
            if silence >= SILENT_AFTER:
                self._away("no answer", silence, f"{request} waits for it")
                return

    def _away(self, kind: str, silence: float, what: str) -> None:
        if self.note is None:
            return
        with self._lock:
            if self.since:
                return
            began = time.localtime(time.time() - silence)
            since = self.since = time.strftime("%H:%M:%S %Z", began)
            self.noted = True
        self.note(f"{kind} from the API server since {since}: {what}")

    def answered(self) -> None:
        self._answered = uptime()
        if not self.since or self.note is None:
            return
        with self._lock:
            since, self.since = self.since, ""
        if since:
            self.note(answers_again(since))


class Transport:
    """Sends requests. Safe for several threads; `open` makes the session when it is needed."""

    def __init__(self, open_session: t.Callable[[], Session]) -> None:
        self.check: t.Callable[[Session], object] = lambda _session: None
        """Raises an error for a session that must not be used in place of one that was refused."""
        self.unchecked = False
        """Whether `check` is due before the next request."""
        self.outage = Outage()
        self._open = open_session
        self._session: Session | None = None
        self._failure: NoConfiguration | None = None
        self._lock = threading.Lock()

    @property
    def session(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._opened()
            return self._session

    def _opened(self) -> Session:
        """Raises NoConfiguration, from then on always: a credential program that has failed is not run again."""
        if self._failure is not None:
            raise self._failure
        try:
            return self._open()
        except NoConfiguration as error:
            self._failure = error
            raise

    @property
    def secrets(self) -> t.Sequence[str]:
        session = self._session
        return session.secrets() if session is not None else ()

    def renew(self, session: Session, refused: Unauthorized) -> None:
        """Reads the configuration again, unless another thread has done so since `session` was refused.

        Raises Unauthorized where it leads to no server or to another one by now: a run that has begun ends as
        after any request that is refused, with what it has done."""
        with self._lock:
            if self._session is not session:
                return
            try:
                renewed = self._opened()
                renewed.require(session.server, f"{session.host} answered 401")
            except NoConfiguration as error:
                raise Unauthorized(
                    refused.request, str(error), status=refused.status, reason=refused.reason
                ) from error
            self.check(renewed)
            self._session = renewed

    def send(
        self,
        request: ApiRequest,
        target: str,
        deadline: Deadline,
        *,
        headers: t.Mapping[str, str],
        body: bytes | None = None,
    ) -> Response:
        """`target` is path and query. Raises as `start`."""
        silence = READ_SECONDS if request.reads else WRITE_SECONDS
        if request.verb == "list":
            silence = LIST_SECONDS
        if request.reads and self.session.compress:
            headers = {**headers, "Accept-Encoding": "gzip"}
        with self.outage.sent(request):
            return self._received(request, target, deadline, silence, headers, body)

    def _received(
        self,
        request: ApiRequest,
        target: str,
        deadline: Deadline,
        silence: float,
        headers: t.Mapping[str, str],
        body: bytes | None,
    ) -> Response:
        response = self.start(request, target, deadline, silence, headers=headers, body=body)
        with classify_errors(request):
            try:
                chunks, read = list[bytes](), 0
                for chunk in response.stream(_CHUNK, decode_content=False):
                    chunks.append(chunk)
                    read += len(chunk)
                    if read > MOST_BYTES:
                        raise too_large(request)
                    if deadline.expired:
                        raise AnswerLost(request, "the answer did not end in time")
            except BaseException:
                response.close()
                raise
            response.release_conn()
        body = b"".join(chunks)
        if response.headers.get("Content-Encoding") == "gzip":
            body = _decompressed(request, body)
        return Response(response.status, response.headers, body, read)

    def start(
        self,
        request: ApiRequest,
        target: str,
        deadline: Deadline,
        silence: float,
        *,
        headers: t.Mapping[str, str],
        body: bytes | None = None,
    ) -> t.Any:
        """The response with its body still to be read, `silence` being the longest pause in it.

        Raises Unreachable, AnswerLost, DeadlineExceeded, or Unauthorized for a token that cannot be renewed.
        """
        import urllib3

        # where urllib3 1 and 2 both have it
        from urllib3.response import HTTPHeaderDict  # type: ignore[attr-defined]

        session = self.session
        if self.unchecked:
            self.check(session)
            self.unchecked = False
        with classify_errors(request):
            sent = HTTPHeaderDict(headers)
            for name, value in session.headers():
                sent.add(name, value)
            if deadline.expired:  # a token may have come late
                raise DeadlineExceeded(request, deadline.total)
            # request() of urllib3 1 would join the values of a header that is there twice.
            return session.pool.request_encode_url(
                request.method,
                session.host + target,
                body=body,
                headers=sent,
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(
                    connect=max(0.001, min(CONNECT_SECONDS, deadline.remaining)),
                    read=max(0.001, min(silence, deadline.remaining)),
                ),
            )


def too_large(request: ApiRequest) -> TooLarge:
    return TooLarge(request, f"the answer did not end after {MOST_BYTES >> 20} MiB")


def _decompressed(request: ApiRequest, body: bytes) -> bytes:
    """Raises TooLarge, and AnswerLost for what is no gzip or not all of it."""
    decoder = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = decoder.decompress(body, MOST_BYTES)
    except zlib.error as error:
        raise AnswerLost(request, f"the answer is no gzip: {error}") from error
    if decoder.unconsumed_tail:
        raise too_large(request)
    if not decoder.eof:
        raise AnswerLost(request, "the answer is no gzip: it is incomplete")
    return text


@contextlib.contextmanager
def classify_errors(request: ApiRequest) -> t.Iterator[None]:
    """Turns what urllib3 raises into Unreachable (nothing was sent) or AnswerLost, and the NoConfiguration of a
    token that cannot be renewed into Unauthorized (nothing was sent)."""
    import ssl

    import urllib3.exceptions as seen

    try:
        yield
    except NoConfiguration as error:
        raise Unauthorized(request, str(error)) from error
    except (seen.HTTPError, OSError) as error:
        text = _first_line(error)
        refused = (x for x in error.args if isinstance(x, ssl.SSLCertVerificationError))
        if certificate := next(refused, None):
            raise Untrusted(request, text, code=certificate.verify_code) from error
        if isinstance(error, seen.LocationValueError):
            raise Unreachable(request, text, final=True) from error
        if isinstance(error, (seen.NewConnectionError, seen.ConnectTimeoutError, seen.ProxyError)):
            if (limit := host_limit(error)) is not None:
                raise HostLimitReached(request, limit) from error
            raise Unreachable(request, text) from error
        raise AnswerLost(request, text) from error


def _first_line(error: BaseException) -> str:
    """What urllib3 says, without the address of the Python object in front of it."""
    text = str(error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line.split(": ", 1)[1] if line.startswith("<") and ": " in line else line
