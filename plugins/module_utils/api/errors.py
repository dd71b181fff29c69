# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can go wrong with a request, one class per outcome.

The message of each names the verb, the resource and its namespace, what was seen, and what to
do. Text that comes from the server or from anything in between is cut, so that no large answer
and no secret inside one ends up in a log. Answers of admission webhooks and policies are written for the
user, and are kept whole.
"""

from __future__ import annotations

import errno
import json
import re
import typing as t
from dataclasses import dataclass

from ..model.json_text import decoded
from ..model.rendering import TextEnum, printable

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"

TEXT_LIMIT = 256
ADMISSION_LIMIT = 8192
"""Of an answer of admission: `printable` text, that ends at a limit all the same."""
_REFUSED = re.compile(r'" is forbidden: (?!User ")')
"""An admission plugin of the API server refused an object, such as PodSecurity, and not RBAC (apiserver
admission/errors.go). It names each reason."""
_DENIED = re.compile(r'\bUser ("(?:[^"\\]|\\["\\])+") cannot ')
"""Names with other escapes are left out."""
READER = "the ClusterRole virt-placement-reader (rbac/reader.yml) has every right to list"
ASK_POLICY = "an admission policy refused it: request what it allows, or extend the policy"
ASK_WEBHOOK = "this webhook did not answer the API server: check its Service, and run again"


class ServerText(TextEnum):
    """What an answer is recognized by, where neither its status nor its reason or causes tell: the only table of it."""

    # A VM has a migration already (KubeVirt virt-api, admitters/migration-create-admitter.go).
    IN_FLIGHT_MIGRATION = "in-flight migration detected"
    # A webhook has side effects, and was not asked; it does not answer (apiserver admission/plugin/webhook/errors).
    NO_DRY_RUN = "does not support dry run"
    NO_WEBHOOK = "failed calling webhook"
    # In the 500 to a write of an object that is too large for etcd (etcd api/v3/v3rpc/rpctypes/error.go).
    TOO_LARGE = "request is too large"
    # In the 500 to an eviction that can never be accepted (kubernetes registry/core/pod/rest/eviction.go).
    TWO_BUDGETS = "more than one PodDisruptionBudget"
    # In the 409 to a restart or stop of a VM of which another client has requested one (virt-api, rest/lifecycle.go).
    VM_CHANGED = "jsonpatch test operation does not apply"
    # An admission policy refused it (apiserver admission/plugin/policy/validating).
    POLICY = "ValidatingAdmissionPolicy"
    # A ResourceQuota refused it (apiserver admission/plugin/resourcequota, controller.go).
    QUOTA_EXCEEDED = " is forbidden: exceeded quota"
    QUOTA_INSUFFICIENT = " is forbidden: insufficient quota"
    QUOTA_UNKNOWN = " is forbidden: status unknown for quota"


_OF_QUOTA = (ServerText.QUOTA_EXCEEDED, ServerText.QUOTA_INSUFFICIENT, ServerText.QUOTA_UNKNOWN)


@dataclass(frozen=True)
class Cause:
    """One of `details.causes` of a Status: what is wrong with which field."""

    reason: str = ""
    message: str = ""
    field: str = ""


_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")


@dataclass(frozen=True)
class ApiRequest:
    """One request, as far as messages and retries need to know it."""

    method: str
    path: str
    content_type: str = ""
    watch: bool = False
    dry_run: bool = False
    preconditioned: bool = False
    """Carries a uid, so that sending it twice does no more than sending it once."""

    @property
    def reads(self) -> bool:
        return self.method == "GET"

    @property
    def writes(self) -> bool:
        """Whether it may change the cluster. A question about rights is created, and stored nowhere."""
        return not (self.reads or self.dry_run or self.group in _REVIEWS)

    @property
    def repeatable(self) -> bool:
        return self.reads or self.dry_run or self.preconditioned

    @property
    def verb(self) -> str:
        """The verb that RBAC knows this request by."""
        if self.reads:
            if self.watch:
                return "watch"
            return "get" if self.name else "list"
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(
            self.method, self.method.lower()
        )

    @property
    def _parts(self) -> list[str]:
        """The path behind the group and version: [namespaces, NAMESPACE,] resource, name..."""
        parts = self.path.strip("/").split("/")
        return parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []

    @property
    def group(self) -> str:
        parts = self.path.strip("/").split("/")
        return parts[1] if parts[0] == "apis" and len(parts) > 1 else ""

    @property
    def namespace(self) -> str:
        parts = self._parts
        return parts[1] if len(parts) > 2 and parts[0] == "namespaces" else ""

    @property
    def _object(self) -> list[str]:
        """resource, name, subresource: as many of them as there are."""
        return self._parts[2:] if self.namespace else self._parts

    @property
    def resource(self) -> str:
        """Plural with subresource as RBAC names it, for example `pods/eviction`; the path
        itself where there is no resource, for example /version."""
        segments = self._object
        if not segments:
            return self.path
        return "/".join([segments[0], *segments[2:]])

    @property
    def name(self) -> str:
        segments = self._object
        return segments[1] if len(segments) > 1 else "" if segments else self.path

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self._object and self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{group}{name}{where}"


class ApiError(Exception):
    """A request that did not do what it was for.

    `status` is the HTTP status, 0 where there was no usable answer. `outcome_unknown` says that
    a write may have been made all the same: read before sending it again.
    """

    advice = "see the message of the server"
    outcome_unknown = False

    def __init__(
        self,
        request: ApiRequest,
        message: str = "",
        *,
        status: int = 0,
        reason: str = "",
        causes: tuple[Cause, ...] = (),
        retry_after: float | None = None,
        is_status: bool = False,
    ) -> None:
        self.request = request
        self.status = status
        self.reason = reason
        of_admission = is_of_admission(message) or _REFUSED.search(message)
        self.message = cut(message, ADMISSION_LIMIT if of_admission else TEXT_LIMIT)
        self.causes = causes
        self.retry_after = retry_after
        self.is_status = is_status
        """The body was a Status object: the API server or a webhook of it sent it."""
        super().__init__(str(self))

    def __str__(self) -> str:
        status = " ".join(filter(None, [str(self.status or ""), self.reason]))
        answer = ": ".join(filter(None, [status, self.message]))
        return f"cannot {self.request}: {answer or type(self).__name__}; {self.advise()}"

    def advise(self) -> str:
        return self.advice

    def has(self, *texts: ServerText) -> bool:
        """Whether the message of the server has one of these texts."""
        return any(text in self.message for text in texts)

    @property
    def refuses_request(self) -> bool:
        """4xx: the server refuses this request. It may accept the next one of this identity."""
        return 400 <= self.status < 500


class NotFound(ApiError):
    advice = "check the name and the namespace, and that the cluster serves this kind"


class UnusablePath(NotFound):
    """A name that no object can have, since it would lead to another path. Nothing was sent."""

    advice = "correct this name in the object that refers to it"


class UnservedVersion(ApiError):
    """The server serves the API group in no version that is read here, so that objects may exist there."""

    def advise(self) -> str:
        return self.message


class Forbidden(ApiError):
    """403: RBAC or an admission policy refused it, or the state of the namespace."""

    def __str__(self) -> str:
        """Beside the right to list the role that has it; messages about other rights name their role themselves."""
        lists = self.lacks_right and self.request.verb == "list"
        return f"{super().__str__()}; {READER}" if lists else super().__str__()

    @property
    def namespace_terminates(self) -> bool:
        """Whether the namespace is being deleted, so that nothing is created in it any more, not even an
        eviction (apiserver admission/plugin/namespace/lifecycle)."""
        return any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def of_admission(self) -> bool:
        """Whether a webhook or an admission policy refused this object, so that no right is missing."""
        return is_of_admission(self.message)

    @property
    def refuses_request(self) -> bool:
        """Whether the namespace refuses it, which is being deleted or has a ResourceQuota that is used up
        (apiserver admission/plugin/resourcequota). Every tenant can cause that."""
        return self.namespace_terminates or self.has(*_OF_QUOTA)

    @property
    def lacks_right(self) -> bool:
        """Whether a right is missing. Else the namespace or an admission policy refuses it."""
        return not (self.refuses_request or self.of_admission)

    @property
    def account(self) -> str | None:
        """The account that lacks the right, as the server names it (apiserver
        endpoints/handlers/responsewriters, forbiddenMessage); None where it does not."""
        named = _DENIED.search(self.message)
        return printable(json.loads(named[1])) if named and not self.of_admission else None

    def advise(self) -> str:
        if self.refuses_request:
            return "raise the ResourceQuota, or leave out the namespace that is being deleted"
        if self.of_admission:
            return ASK_POLICY
        group = f" of API group {self.request.group}" if self.request.group else ""
        return (
            f"grant this identity the verb '{self.request.verb}' on '{self.request.resource}'{group}"
            + (f" in namespace {self.request.namespace}" if self.request.namespace else "")
        )


class Unauthorized(ApiError):
    advice = "the credentials were refused: renew the token or the certificate and run again"
    refuses_request = False


class Conflict(ApiError):
    """409: the object changed meanwhile, exists already, or has another uid."""

    advice = "something else changed it at the same time: run again"


class TestFailed(Conflict):
    """A `test` of a JSON patch does not hold any more, or a path of it is gone."""

    __test__ = False
    advice = "it is no longer as it was read: run again"


class Gone(ApiError):
    """410: the resource version or the page is too old. List again."""

    advice = "list again"


class Invalid(ApiError):
    """422: validation refused it, or an admission policy, whose refusals have this status by default."""

    def advise(self) -> str:
        if is_of_admission(self.message):
            return ASK_POLICY
        return "correct the fields that the message names"


class Throttled(ApiError):
    """429: too many requests, or an eviction that may not be made now."""

    advice = "try again later"
    refuses_request = False

    @property
    def budgets(self) -> list[str]:
        """What PodDisruptionBudgets refuse an eviction for (policy/v1, DisruptionBudgetCause)."""
        refusing = (cause for cause in self.causes if cause.reason == "DisruptionBudget")
        return [cause.message for cause in refusing if cause.message]


class ServerFault(ApiError):
    """5xx. A write may have been made."""

    advice = "the API server or something in front of it failed: check its health, and run again"
    outcome_unknown = True

    def advise(self) -> str:
        return ASK_WEBHOOK if self.has(ServerText.NO_WEBHOOK) else self.advice


class BadAnswer(ApiError):
    """The answer is no JSON object: an HTML page, half a body, nothing."""

    advice = "something between here and the API server answered: check host and proxy"
    outcome_unknown = True


class TooLarge(ApiError):
    """The answer did not end at the most bytes that are read. A write may have been made."""

    advice = "something between here and the API server may send without end: check host and proxy"
    outcome_unknown = True


class BrokenPage(BadAnswer):
    """The items of a page of a list are not JSON."""


class AnswerLost(ApiError):
    """The request was sent and no answer came. A write may have been made."""

    outcome_unknown = True

    def advise(self) -> str:
        if self.request.repeatable:
            return "check the network and the API server, and run again"
        return "the outcome is unknown, since the connection was lost: it is safe to run again"


class Unreachable(ApiError):
    """There was no connection, so nothing was sent. `final` is not worth another try."""

    advice = "check host, port, proxy and network"

    def __init__(self, request: ApiRequest, message: str = "", *, final: bool = False) -> None:
        super().__init__(request, message)
        self.final = final


class Untrusted(Unreachable):
    """The certificate of the server was refused, so nothing was sent. `code` is OpenSSL's
    (`X509_V_ERR_...`, openssl-verification-options(1))."""

    advice = (
        "set ca_cert to the file with the CA certificate of the API server, or set validate_certs to"
        " false where the identity of the server need not be checked"
    )

    def __init__(self, request: ApiRequest, message: str = "", *, code: int = 0) -> None:
        self.code = code
        super().__init__(request, message, final=True)

    def advise(self) -> str:
        if self.code in (9, 10):  # CERT_NOT_YET_VALID, CERT_HAS_EXPIRED
            return "check the clocks, or renew the certificate of the server"
        if self.code in (62, 64):  # HOSTNAME_MISMATCH, IP_ADDRESS_MISMATCH
            return "set host to a name that is in the certificate of the server"
        return self.advice


@dataclass(frozen=True, slots=True)
class HostLimit:
    """What this host refuses to a module, and what to do. The error looks like a fault of the network or of a
    kubeconfig."""

    refusal: str
    advice: str

    def __str__(self) -> str:
        return f"{self.refusal}: {self.advice}"


NO_THREAD = "can't start new thread"
"""The RuntimeError of CPython (Modules/_threadmodule.c)."""

THREADS = HostLimit(
    "this host starts no further thread",
    "raise the limit of processes of this user or container (ulimit -u, pids.max), or run fewer tasks at once (forks)",
)
FILES = HostLimit(
    "this host opens no further file or connection",
    "raise the limit of open files (ulimit -n), or run fewer tasks at once (forks)",
)
MEMORY = HostLimit(
    "this host has no memory left for the module", "raise the memory limit of its pod or node"
)

_BY_ERRNO = {errno.EMFILE: FILES, errno.ENFILE: FILES, errno.ENOMEM: MEMORY}


def host_limit(error: BaseException | None) -> HostLimit | None:
    """The limit that an error is due to, or one that led to it; None for another cause."""
    while error is not None:
        if isinstance(error, RuntimeError) and error.args == (NO_THREAD,):
            return THREADS
        if isinstance(error, MemoryError):
            return MEMORY
        if isinstance(error, OSError) and error.errno in _BY_ERRNO:
            return _BY_ERRNO[error.errno]
        error = error.__cause__ or error.__context__
    return None


class HostLimitReached(Unreachable):
    """This host refuses what a connection needs, so nothing was sent."""

    def __init__(self, request: ApiRequest, limit: HostLimit) -> None:
        self._limit = limit
        super().__init__(request, limit.refusal)

    def advise(self) -> str:
        return self._limit.advice


class DeadlineExceeded(ApiError):
    """The time of the whole call is over. `last` is what stood in the way, if anything."""

    def advise(self) -> str:
        """More time helps where the server is slow, and not where it cannot be reached."""
        lost = isinstance(self.last, AnswerLost) and "timed out" not in self.last.message
        if self.last is not None and (lost or isinstance(self.last, Unreachable)):
            return self.last.advise()
        return "raise timeout, or check why the API server is slow"

    def __init__(self, request: ApiRequest, seconds: float, last: ApiError | None = None) -> None:
        self.last = last
        self.outcome_unknown = bool(last and last.outcome_unknown)
        because = f", last: {last.status or ''} {last.message or last.reason}" if last else ""
        super().__init__(request, f"not done within {seconds:.0f} s{because}")

    def after(self, items: int, left: int | None) -> DeadlineExceeded:
        """The same error of a list of which `items` had arrived. `left`: how many had not, where the
        server knows."""
        more = "" if left is None else f" of about {items + left}"
        self.message += f"; {items}{more} items had arrived"
        return self


TRANSIENT_ERRORS = (AnswerLost, BadAnswer, DeadlineExceeded, ServerFault, Throttled, Unreachable)
"""The API server does not answer now. A run that has begun waits for it."""


class NoConfiguration(Exception):
    """There is no usable way to the cluster in the options, the environment or a kubeconfig."""


_BY_STATUS: t.Mapping[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


def is_of_admission(message: str) -> bool:
    """Whether an admission webhook or policy wrote it (apiserver admission/plugin/webhook/errors;
    admission/plugin/policy/validating)."""
    return message.startswith("admission webhook ") or ServerText.POLICY in message


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """One line of at most `limit` characters, without the JSON of whole objects: servers quote the object
    that they cannot decode, which may be long, and hold secrets."""
    begin, end = text.find('"{'), text.rfind('}"')
    if 0 <= begin < end:
        text = f'{text[:begin]}"{{...}}"{text[end + 2 :]}'
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def from_answer(
    request: ApiRequest, status: int, headers: t.Mapping[str, str], body: bytes
) -> ApiError:
    """The error that an answer with a status of 300 or more stands for."""
    status_object = _status_object(body)
    causes = _causes(status_object.get("details"))
    error = _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    # An API server sends no redirect, a login page in front of it does.
    if status < 400:
        error = BadAnswer
    if error is Invalid and request.content_type == JSON_PATCH and not causes:
        # The server answers a patch that cannot be applied with 422 and names no field; a
        # validation error always has causes (apiserver endpoints/handlers/patch.go).
        error = TestFailed
    text = str(status_object.get("message") or "")
    if not status_object and (start := body.decode("utf-8", "replace").strip()[:60]):
        text = f"the answer is no Status, and begins with {start!r}"
    return error(
        request,
        text,
        status=status,
        reason=cut(str(status_object.get("reason") or "")),
        causes=causes,
        retry_after=_seconds(headers.get("Retry-After")),
        is_status=bool(status_object),
    )


def _causes(details: object) -> tuple[Cause, ...]:
    """Those of the documented form: the server of an aggregated API may send another one."""
    listed = details.get("causes") if isinstance(details, dict) else None
    return tuple(
        Cause(*(cut(str(cause.get(name) or "")) for name in ("reason", "message", "field")))
        for cause in (listed if isinstance(listed, list) else ())
        if isinstance(cause, dict)
    )


def _status_object(body: bytes) -> dict[str, t.Any]:
    """The Status in a body; empty if it is something else. That of a request which takes too long has no kind
    (apiserver, pkg/server/filters/timeout.go)."""
    try:
        value = decoded(body)
    except ValueError:
        return {}
    if not isinstance(value, dict):
        return {}
    return value if value.get("kind") == "Status" or value.get("status") == "Failure" else {}


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds. Kubernetes sends a number; a date is as good as none."""
    try:
        return max(0.0, float(header)) if header is not None else None
    except ValueError:
        return None
