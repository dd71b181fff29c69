# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of a task to an API server, with the kubernetes client's authentication.

What is used of the client: its kubeconfig and in-cluster loaders (see `configuration`),
`Configuration.host`, `.connection_pool_maxsize`, `.auth_settings()`, and the urllib3 pool of its REST
client, which has the certificates and the proxy.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import threading
import time
import typing as t

from ansible.module_utils.basic import missing_required_lib

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC

from ..model.collector import collector_paused
from .configuration import configuration_of, headers_of
from .deadline import Deadline
from .errors import NoConfiguration, cut
from .given import check_before, check_host, check_token
from .requests import Api
from .retry import RetryPolicy
from .transport import Session, Transport
from .unusable import why_unusable

USER_AGENT = "virt-placement"

POOL_SIZE = 16
"""Connections that are kept: more than any part of us has threads."""

_TOKEN_SECONDS = 20.0
"""How long a token is used before the client is asked for it again: it may run a program."""


def auth_argument_spec() -> dict[str, dict[str, t.Any]]:
    """The authentication options of kubernetes.core. A kubeconfig is never logged."""
    spec: dict[str, dict[str, t.Any]] = copy.deepcopy(AUTH_ARG_SPEC)
    spec["kubeconfig"]["no_log"] = True
    return spec


def connect(module: t.Any, policy: RetryPolicy | None = None) -> Api:
    """The API server that the options of `module` name, under the deadline of its `timeout`.

    Nothing is read or sent before the first request, which raises NoConfiguration where the
    options do not lead to a server.
    """
    options = {name: module.params.get(name) for name in AUTH_ARG_SPEC}
    deadline = Deadline(module.params["timeout"])
    return Api(Transport(lambda: open_session(options)), deadline, policy)


def open_session(options: t.Mapping[str, t.Any]) -> Session:
    """Options (kubernetes.core's names), environment and kubeconfig to a session.

    Raises NoConfiguration, also where they lead to another server than `host` names, or `api_key`
    would not count.
    """
    try:
        with collector_paused():
            from kubernetes.client import Configuration, rest
    except ImportError as error:
        raise NoConfiguration(missing_required_lib("kubernetes")) from error
    check_before(options)
    # The client keeps what was loaded last for the whole process.
    Configuration.set_default(None)
    with _logged_errors() as logged:
        try:
            configuration = configuration_of(options)
            configuration.connection_pool_maxsize = POOL_SIZE
            if not configuration.verify_ssl:
                _warn_no_more()
            pool = rest.RESTClientObject(configuration).pool_manager
            found = _Headers(configuration, headers_of(options))
            anonymous = not found.token and not configuration.cert_file
        except Exception as error:
            # Whatever a kubeconfig, a certificate file or a credential program can bring up.
            said = str(error) or type(error).__name__
            raise NoConfiguration(why_unusable(options, said)) from error
    if anonymous and logged:
        raise NoConfiguration(why_unusable(options, logged[-1]))
    # after the token was read: the client goes back to the kubeconfig's server with it
    check_host(options, configuration.host)
    check_token(options, "".join(found.secrets), by_certificate=bool(configuration.cert_file))
    return Session(pool, configuration.host.rstrip("/"), found, lambda: found.secrets)


@contextlib.contextmanager
def _logged_errors() -> t.Iterator[list[str]]:
    """Messages of level ERROR: the client logs that a credential program failed, and goes on
    without credentials."""
    found: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield found
    finally:
        root.removeHandler(handler)


def _warn_no_more() -> None:
    """Who sets validate_certs to false knows it: no warning of each request, as in kubernetes.core."""
    import urllib3

    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)


class _Headers:
    """Who we are, for each request. The client renews tokens that are about to expire, so it is
    asked again from time to time, by one thread at once."""

    def __init__(self, configuration: t.Any, fixed: t.Sequence[tuple[str, str]]) -> None:
        self._configuration = configuration
        self._fixed = (("User-Agent", USER_AGENT), *fixed)
        self._lock = threading.Lock()
        self._token: tuple[tuple[str, str], ...] = ()
        self._fresh_until = 0.0

    def __call__(self) -> t.Sequence[tuple[str, str]]:
        return (*self._fixed, *self.token)

    @property
    def token(self) -> tuple[tuple[str, str], ...]:
        """The header with the token, as it is now; nothing where there is none."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                self._token = self._read_token()
                self._fresh_until = time.monotonic() + _TOKEN_SECONDS
            return self._token

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be printed: the tokens without their scheme."""
        return tuple(value.split(" ", 1)[-1] for _name, value in self._token)

    def _read_token(self) -> tuple[tuple[str, str], ...]:
        try:
            settings = self._configuration.auth_settings().values()
        except Exception as error:
            raise NoConfiguration(f"the token cannot be renewed: {cut(str(error))}") from error
        return tuple(
            (setting["key"], setting["value"])
            for setting in settings
            if setting["in"] == "header" and setting["value"]
        )
