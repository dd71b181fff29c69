# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the flow of a module: its result to exit_json, its errors to fail_json, no secret to either.

If the options have errors, the cluster is still read, so that all errors are reported at once.
"""

from __future__ import annotations

import contextlib
import functools
import os
import typing as t
from dataclasses import replace

from ..api.auth_checks import url_passwords
from ..api.client import ApiClient
from ..api.connection import connect
from ..api.errors import (
    TRANSIENT_ERRORS,
    ApiError,
    Forbidden,
    NoConfiguration,
    NotFound,
    Throttled,
    Unauthorized,
)
from ..api.progress_pipe import AWAY, AWAY_SINCE, PROGRESS, ProgressPipe
from ..api.transport import ComputingTimeout, Transport, computing_bounded
from ..model.findings import ErrorType, InputError, InvalidInput, TaskError
from ..model.gc import collector_spared_at_exit
from ..model.json_pointer import JSON
from ..model.rendering import (
    CLUSTER_AWAY,
    FAILED,
    NOTHING_WRITTEN,
    UNFINISHED,
    Entry,
    as_json,
    one_line,
    outcome,
)

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


Result = dict[str, t.Any]
Run = t.Callable[["AnsibleModule", ApiClient], Result]


class PartialFailure(Exception):
    """A task that was carried out in part: `result` has what was done, `errors` what was not and why."""

    def __init__(self, result: Result, errors: t.Sequence[Exception | TaskError | str]) -> None:
        super().__init__(f"{len(errors)} of it failed")
        self.result = result
        self.errors = tuple(map(task_error, errors))
        self.causes = tuple(error for error in errors if isinstance(error, Exception))


def task_error(error: Exception | InputError | TaskError | str, target: object = "") -> TaskError:
    """The entry of `errors` for an error, which concerns `target` where the error does not say it."""
    if isinstance(error, TaskError):
        return replace(error, message=one_line(error.message))
    if isinstance(error, InputError):
        return TaskError(error.type, one_line(str(error)), error.where)
    kind: ErrorType = "api"
    if isinstance(error, (Forbidden, Unauthorized)):
        kind = "permission"
    elif isinstance(error, (NoConfiguration, WrongCluster)):
        kind = "input"
    if isinstance(error, ApiError) and not target:
        name = "/".join(filter(None, [error.request.namespace, error.request.name]))
        target = f"{error.request.resource} {name}".strip()
    return TaskError(kind, one_line(str(error)), str(target))


class WrongCluster(Exception):
    """The connection leads to another cluster, `seen`, than `cluster_uid` says."""

    def __init__(self, message: str, seen: str) -> None:
        super().__init__(message)
        self.seen = seen


LAST_QUESTION = 2.0
"""Seconds for which a module that failed may still read the uid of the cluster."""


SERVER = "server"
"""Where in `step_state` the digests of the API server are."""


def run_task(module: AnsibleModule, run: Run, *, of_change: bool = False) -> None:
    """Runs `run(module, api)` and ends the module with what it returns, or with the error. `of_change`: the module
    makes or forecasts a change, so that a failure says where nothing was written.

    The result contains `cluster`, also after a failure. Its uid is None if the server received no
    request, or if it is the server that failed. With the option `cluster_uid` the cluster is checked
    before anything else, in a later step of a run before its first request: `run` waits there for a
    server that does not answer. A step of a run ends where the steps before it had another server. If
    `run` refuses its input before its first request, no server is needed.
    """
    collector_spared_at_exit()
    api = connect(module)
    cluster: Result = {"api": None, "uid": None}
    end = functools.partial(_end, module, api, cluster, of_change)
    _name_outages(api)
    _narrow_secrets(module)
    try:
        if module.params["timeout"] < 1:
            raise InvalidInput([InputError("timeout", "must be at least 1 second")])
        previous_server = module.params.get("step_state", {}).get(SERVER)
        if expected := module.params["cluster_uid"]:
            api.transport.check = lambda session: _checked(
                ApiClient(Transport(lambda: session), api.deadline),
                expected,
                "another cluster than before, so the task ends",
            )
            api.transport.unchecked = bool(previous_server)
            if not previous_server:
                cluster.update(_checked(api, expected, "nothing was done"))
        if previous_server:
            api.transport.session.require(previous_server, "a step of this run has ended")
        with _computing_bounded(module, api):
            result = run(module, api)
        if "step_state" in result:
            result["step_state"][SERVER] = api.transport.session.server
        if not cluster["uid"]:
            cluster.update(_identity(module, api))
            if late := api.transport.outage.taken():
                result["progress"] = [*result.get("progress", ()), *map(one_line, late)]
    except InvalidInput as error:
        end([error], error.errors)
    except PartialFailure as error:
        end(error.causes, error.errors, **error.result)
    except WrongCluster as error:
        cluster.update(api=_host(api), uid=error.seen)
        end([error], [error])
    except (ApiError, NoConfiguration, ComputingTimeout) as error:
        end([error], [error], **_away(api, error))
    _hide_tokens(module, api)
    _add_details(module, api, cluster)
    module.exit_json(**{"changed": False, **result, "cluster": cluster})


def _name_outages(api: ApiClient) -> None:
    """While the task runs, where the action plugin reads its lines. A step of a run has a pipe of its own."""
    pipe = ProgressPipe(os.environ.get(PROGRESS, ""))
    api.transport.outage.since = os.environ.get(AWAY_SINCE, "")
    if pipe.open:
        api.transport.outage.note = lambda line: pipe.note(one_line(line), api.secrets)


def _away(api: ApiClient, error: Exception) -> Result:
    """For the action plugin, which may run the module again: it has done nothing that is not repeatable."""
    if not isinstance(error, TRANSIENT_ERRORS) or (
        error.is_status and not error.request.repeatable
    ):
        return {}
    outage = api.transport.outage
    return {AWAY: {"since": outage.since, "noted": outage.noted}}


VERBOSE = 3
"""Of -vvv, from which the result has the number of bytes that were read."""


def _add_details(module: AnsibleModule, api: ApiClient, cluster: Result) -> None:
    if module._verbosity and api.remarks:
        cluster["untested"] = "; ".join(api.remarks)
    if module._verbosity >= VERBOSE:
        cluster["bytes_read"] = api.counts.bytes_read


def _computing_bounded(
    module: AnsibleModule, api: ApiClient
) -> contextlib.AbstractContextManager[None]:
    """A task that has written reports what it wrote, however long it takes. Each step of a run has its own
    limit (`moves/step`)."""
    if "step_state" in module.params:
        return contextlib.nullcontext()
    return computing_bounded(
        api.deadline,
        f"not done within {module.params['timeout']} s (timeout): the cluster was read, and evaluating it takes"
        " longer; name fewer namespaces or workloads, or raise timeout",
        lambda _frame: not api.counts.writes_sent,
    )


def run_offline(
    module: AnsibleModule, run: t.Callable[[AnsibleModule], Result], *, names_cluster: bool = True
) -> None:
    """Ends the module as `run_task` does, without any server. `names_cluster`: the result has the `cluster` of modules
    that can ask one."""
    collector_spared_at_exit()
    cluster: Result = {"cluster": {"api": None, "uid": None}} if names_cluster else {}
    try:
        result = run(module)
    except InvalidInput as error:
        module.fail_json(changed=False, **cluster, **_failure(error.errors, FAILED, {}))
    module.exit_json(changed=False, **result, **cluster)


def _checked(api: ApiClient, expected: str, consequence: str) -> Result:
    uid = api.cluster_uid()
    if uid != expected:
        raise WrongCluster(
            f"{api.host} is cluster {uid}, and cluster_uid says {expected}: {consequence};"
            " check the connection (kubeconfig and context, or host), or correct cluster_uid",
            uid,
        )
    return {"api": api.host, "uid": uid}


def _identity(module: AnsibleModule, api: ApiClient) -> Result:
    try:
        return {"uid": api.cluster_uid(), "api": api.host}
    except (Forbidden, NotFound) as error:
        module.warn(f"cannot read the UID of the cluster: {error}")
    except ApiError as error:
        module.warn(f"the UID of the cluster could not be read after the work was done: {error}")
    return {"uid": None, "api": api.host}


def _host(api: ApiClient) -> str | None:
    """The server of the connection; None if there is no usable connection."""
    try:
        return api.host
    except NoConfiguration:
        return None


def _failure(
    errors: t.Sequence[Exception | InputError | TaskError], step: Entry, result: Result
) -> Result:
    """What a failure adds to a result, whose next step becomes `step`, before those that it has."""
    entries = [task_error(error) for error in errors]
    parts = {**outcome()["outcome"], **result.get("outcome", {})}
    return {
        "msg": listed([error.message for error in entries]),
        "errors": [error.as_json() for error in entries],
        "outcome": {**parts, "next": [as_json(step), *parts["next"]]},
    }


def listed(lines: t.Sequence[str]) -> str:
    """One message of all lines. If there are several, it starts with their number."""
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} errors:", *(f"- {line}" for line in lines)])


def _end(
    module: AnsibleModule,
    api: ApiClient,
    cluster: Result,
    of_change: bool,
    causes: t.Sequence[Exception],
    errors: t.Sequence[Exception | InputError | TaskError],
    **result: t.Any,
) -> None:
    cluster["api"] = cluster["api"] or _host(api)
    if not cluster["uid"] and _has_answered(api, causes):
        with contextlib.suppress(ApiError):  # the failure itself is reported anyway
            cluster["uid"] = api.under(api.deadline.within(LAST_QUESTION)).cluster_uid()
    _hide_tokens(module, api)
    _add_details(module, api, cluster)
    away = len(causes) == len(errors) and all(isinstance(x, TRANSIENT_ERRORS) for x in causes)
    step = _next_step(module, api, result, of_change=of_change, away=away)
    failure = {**_failure(errors, step, result), "cluster": cluster}
    module.fail_json(**{"changed": False, **result, **failure})


def _next_step(
    module: AnsibleModule, api: ApiClient, result: Result, *, of_change: bool, away: bool
) -> Entry:
    """What to do after a failure. A step of a run knows of the steps before it whether they hold the Lease; other
    writes of theirs were not counted here."""
    before = module.params.get("step_state", {})
    begun = before.get("transitions") or before.get("changed") or result.get("changed")
    if begun and not module.check_mode:
        return UNFINISHED
    if of_change and SERVER not in before and not api.counts.writes:
        return NOTHING_WRITTEN
    return CLUSTER_AWAY if away else FAILED


def _has_answered(api: ApiClient, causes: t.Iterable[Exception]) -> bool:
    """Whether the server answered at least one request, and one more request is likely to succeed
    in time."""
    failed = [error for error in causes if isinstance(error, (ApiError, NoConfiguration))]
    return (
        api.counts.requests > len(failed)
        and api.counts.retries == 0
        and all(map(_is_an_answer, failed))
        and api.deadline.remaining > 0
    )


def _is_an_answer(error: Exception) -> bool:
    """Whether the server answered with a refusal (4xx), so that it works."""
    if not isinstance(error, ApiError) or isinstance(error, (Throttled, Unauthorized)):
        return False
    return error.is_status and 400 <= error.status < 500


def _narrow_secrets(module: AnsibleModule) -> None:
    """Declare fewer strings secret. Ansible treats every value in a kubeconfig as a secret and masks
    it in all results, even `v1` and the names of clusters. Only the credentials of its users are
    secret. The option itself is still hidden."""
    # Ansible does not know that these options may hold a password.
    for url in ("proxy", "host"):
        module.no_log_values |= {*url_passwords(module.params.get(url))}
    given = module.params.get("kubeconfig")
    if given is None:
        return
    values = [module.params.get(name) for name in ("api_key", "password", "proxy_headers")]
    module.no_log_values -= _leaves(given)
    module.no_log_values |= _leaves(values)
    if isinstance(given, dict):
        module.no_log_values |= _leaves(given.get("users"), _NO_SECRETS)
        module.params["kubeconfig"] = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


_NO_SECRETS = frozenset(
    {"name", "username", "apiVersion", "command", "args", "installHint", "interactiveMode"}
)
"""Fields of a user of a kubeconfig whose values are ordinary words, and must not be masked."""


def _leaves(value: JSON, without: t.Container[str] = ()) -> set[str]:
    """Every string in `value` except those under the keys in `without`."""
    if isinstance(value, dict):
        kept = (item for key, item in value.items() if key not in without)
        return {leaf for item in kept for leaf in _leaves(item, without)}
    if isinstance(value, list):
        return {leaf for item in value for leaf in _leaves(item, without)}
    return {value} if isinstance(value, str) and value else set()


def _hide_tokens(module: AnsibleModule, api: ApiClient) -> None:
    module.no_log_values |= set(api.secrets)


LOOKING = 10.0
"""Seconds for which the cluster is checked for more errors if there are some already."""


def with_errors_of_the_cluster(
    api: ApiClient, faults: t.Sequence[InputError], look: t.Callable[[ApiClient], object], what: str
) -> tuple[InputError, ...]:
    """`faults` of the options, and the errors that `look` raises. If `look` cannot read the cluster,
    the error names `what` it reads."""
    try:
        look(api.under(api.deadline.within(LOOKING)))
    except InvalidInput as error:
        return (*faults, *error.errors)
    except (ApiError, NoConfiguration) as error:
        kind = task_error(error).type
        return (*faults, InputError(what, f"not checked for more errors: {error}", kind))
    return tuple(faults)
