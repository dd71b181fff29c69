# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the request of a state machine, and put the API server's answer into its words.

Errors that say nothing about the move itself (no rights, no server, no time left) are raised.
"""

from __future__ import annotations

from ..api.calls import call_subresource, delete_as_read
from ..api.errors import ApiError, Conflict, Forbidden, NotFound, Throttled, Unauthorized
from ..api.requests import Api
from .entry import Answer, Reply, Request


def perform(api: Api, request: Request) -> Answer:
    """Send one request, once. Raises ApiError where it could not be sent or is not allowed."""
    try:
        _send(api, request)
    except NotFound as error:
        return Answer(Reply.GONE, error.message)
    except (Forbidden, Unauthorized):
        raise
    except Conflict as error:
        return _conflict(request, error)
    except Throttled as error:
        return Answer(Reply.BLOCKED, _told_to_wait(error))
    except ApiError as error:
        if error.outcome_unknown:
            return Answer(Reply.DOUBTFUL, str(error))
        if 400 <= error.status < 500:
            return Answer(Reply.REFUSED, error.message)
        raise
    return Answer(Reply.ACCEPTED)


def _send(api: Api, request: Request) -> None:
    if request.verb == "create":
        api.create(request.path, request.body)
    elif request.verb == "put":
        call_subresource(api, request.path, request.body)
    else:
        _delete(api, request)


def _delete(api: Api, request: Request) -> None:
    asked = (request.body or {})["preconditions"]
    if "resourceVersion" in asked:
        version = asked["resourceVersion"]
        delete_as_read(api, request.path, uid=asked["uid"], resource_version=version)
    else:
        api.delete(request.path, uid=asked["uid"])


def _conflict(request: Request, error: Conflict) -> Answer:
    """A create of what is there already was done before; KubeVirt says 409 to a restart that the
    VM's state does not allow; else the object changed since it was looked at."""
    if error.reason == "AlreadyExists":
        return Answer(Reply.ACCEPTED)
    if request.verb == "put":
        return Answer(Reply.REFUSED, error.message)
    return Answer(Reply.BLOCKED, "it changed at this moment")


def _told_to_wait(error: Throttled) -> str:
    """A disruption budget says its name and its numbers, and not where it is: beside the pod."""
    budgets = [cause.message for cause in error.causes if cause.reason == "DisruptionBudget"]
    if not any(budgets):
        return error.message or "the API server asks to wait"
    return f"{'; '.join(filter(None, budgets))} (in namespace {error.request.namespace})"
