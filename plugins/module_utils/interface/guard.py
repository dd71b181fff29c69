# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place where a module ends: results out, errors to fail_json, secrets to nobody."""

from __future__ import annotations

import typing as t

from ..api.connection import connect
from ..api.errors import (
    GRANT,
    ApiError,
    Forbidden,
    NoConfiguration,
    NotFound,
    Throttled,
    Unauthorized,
)
from ..api.requests import Api
from ..cluster.identity import cluster_uid
from ..model.collector import collector_spared_at_exit
from ..model.finding import Fault, Refused
from ..model.pointer import JSON

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

Result = dict[str, t.Any]
Run = t.Callable[["AnsibleModule", Api], Result]


class PartialFailure(Exception):
    """Some of it was done: `result` says what, `errors` what was not and why."""

    def __init__(self, result: Result, errors: t.Sequence[Exception | str]) -> None:
        super().__init__(f"{len(errors)} of it failed")
        self.result = result
        self.errors = tuple(str(error) for error in errors)
        self.causes = tuple(error for error in errors if isinstance(error, Exception))


class WrongCluster(Exception):
    """The connection leads to another cluster, `seen`, than `cluster_uid` says."""

    def __init__(self, message: str, seen: str) -> None:
        super().__init__(message)
        self.seen = seen


LAST_QUESTION = 2.0
"""Seconds for which a module that failed waits to hear which cluster that was."""


READER = "the ClusterRole virt-placement-reader (rbac/reader.yml) has every right to list"


def guarded(module: AnsibleModule, run: Run) -> None:
    """Runs `run(module, api)` and ends the module with what it returns, or with the error.

    The result gets `cluster`, that of a failure too; its uid is None where the server was not
    asked for anything, or where it is the server that failed. With `cluster_uid` the cluster is
    checked before anything else. Where `run` refuses its input before it asks the server, no server
    is needed for that.
    """
    collector_spared_at_exit()
    api = connect(module)
    _narrow_secrets(module)
    cluster: Result = {"api": None, "uid": None}
    try:
        if module.params["timeout"] < 1:
            raise Refused([Fault("timeout", "must be at least 1 second")])
        if module.params["cluster_uid"]:
            cluster.update(_checked(api, module.params["cluster_uid"]))
        result = run(module, api)
        if not cluster["uid"]:
            cluster.update(_identity(module, api))
    except Refused as error:
        faults = [str(fault) for fault in error.faults]
        _end(module, api, cluster, [error], msg=listed(faults), faults=faults)
    except PartialFailure as error:
        _end(module, api, cluster, error.causes, **_partial(error))
    except WrongCluster as error:
        cluster.update(api=_host(api), uid=error.seen)
        _end(module, api, cluster, [error], msg=str(error))
    except (ApiError, NoConfiguration) as error:
        _end(module, api, cluster, [error], msg=str(error))
    _hide_tokens(module, api)
    module.exit_json(**{"changed": False, **result, "cluster": cluster})


def _checked(api: Api, expected: str) -> Result:
    seen = cluster_uid(api)
    if seen != expected:
        raise WrongCluster(
            f"{api.host} is cluster {seen}, and cluster_uid says {expected}: nothing was done;"
            " check kubeconfig and context, or correct cluster_uid",
            seen,
        )
    return {"api": api.host, "uid": seen}


def _identity(module: AnsibleModule, api: Api) -> Result:
    try:
        return {"uid": cluster_uid(api), "api": api.host}
    except (Forbidden, NotFound) as error:
        module.warn(f"the uid of the cluster is not known: {error}")
    except ApiError as error:
        module.warn(f"the uid of the cluster could not be read after the work was done: {error}")
    return {"uid": None, "api": api.host}


def _host(api: Api) -> str | None:
    """The server that was asked, or would have been; None where nothing leads to one."""
    try:
        return api.host
    except NoConfiguration:
        return None


def _partial(error: PartialFailure) -> Result:
    return {**error.result, "msg": listed(error.errors), "errors": list(error.errors)}


def listed(lines: t.Sequence[str]) -> str:
    """One message of all lines: the count first where there is more than one."""
    if len(lines) == 1:
        return lines[0]
    return "\n".join([f"{len(lines)} errors:", *(f"- {line}" for line in lines)])


def lacks_a_right_to_list(message: str) -> bool:
    """Whether a message says so: then the reader's role has it."""
    return f"{GRANT} 'list'" in message


def _with_role(message: str) -> str:
    """The message with the role that has the missing rights, once. Others than those to list are
    named with theirs, or may be those of another role."""
    if not lacks_a_right_to_list(message):
        return message
    return f"{message}\n{READER}" if "\n" in message else f"{message}; {READER}"


def _end(
    module: AnsibleModule,
    api: Api,
    cluster: Result,
    causes: t.Iterable[Exception],
    **result: t.Any,
) -> None:
    result["msg"] = _with_role(result["msg"])
    cluster["api"] = cluster["api"] or _host(api)
    if not cluster["uid"] and _has_answered(api, causes):
        cluster["uid"] = _uid_in_passing(api)
    _hide_tokens(module, api)
    module.fail_json(**{"changed": False, **result, "cluster": cluster})


def _has_answered(api: Api, causes: t.Iterable[Exception]) -> bool:
    """Whether the server did something of what it was asked, and nothing speaks against asking it
    once more."""
    failed = [error for error in causes if isinstance(error, (ApiError, NoConfiguration))]
    return (
        api.counts.requests > len(failed)
        and api.counts.retries == 0
        and all(map(_is_an_answer, failed))
        and api.deadline.remaining > 0
    )


def _is_an_answer(error: Exception) -> bool:
    """Whether the server refused something, and did not fail itself."""
    if not isinstance(error, ApiError) or isinstance(error, (Throttled, Unauthorized)):
        return False
    return error.is_status and 400 <= error.status < 500


def _uid_in_passing(api: Api) -> str | None:
    """The uid of the cluster; None where it cannot be had at once. What failed is told already."""
    try:
        return cluster_uid(api.under(api.deadline.within(LAST_QUESTION)))
    except (ApiError, KeyError):
        return None


def _narrow_secrets(module: AnsibleModule) -> None:
    """Ansible takes every value in a kubeconfig for a secret and blanks it out of all results,
    `v1` and the names of clusters with it. Secret are the credentials of its users; the rest of
    a kubeconfig is shown as little, but does not blank out anything else."""
    given = module.params.get("kubeconfig")
    if given is None:
        return
    others = [module.params.get(name) for name in ("api_key", "password", "proxy_headers")]
    module.no_log_values -= _leaves(given)
    module.no_log_values |= _leaves(others)
    if isinstance(given, dict):
        module.no_log_values |= _leaves(given.get("users"), _NO_SECRETS)
        module.params["kubeconfig"] = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"


_NO_SECRETS = frozenset(
    {"name", "username", "apiVersion", "command", "args", "installHint", "interactiveMode"}
)
"""Fields of a user of a kubeconfig that hold words which may stand anywhere."""


def _leaves(value: JSON, without: t.Container[str] = ()) -> set[str]:
    """Every string in `value` but those under the keys in `without`."""
    if isinstance(value, dict):
        kept = (item for key, item in value.items() if key not in without)
        return {leaf for item in kept for leaf in _leaves(item, without)}
    if isinstance(value, list):
        return {leaf for item in value for leaf in _leaves(item, without)}
    return {value} if isinstance(value, str) and value else set()


def _hide_tokens(module: AnsibleModule, api: Api) -> None:
    module.no_log_values |= set(api.secrets)
