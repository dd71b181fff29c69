# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the options of a task, the environment and a kubeconfig to a session with an API server.

The precedence is that of kubernetes.core (its `k8s.client`, `_create_configuration` and
`_create_headers`), so that a task reaches the same server as other tasks of that collection:
enough options by themselves, then a kubeconfig or context that is given, then the pod that the task
runs in, then the kubeconfig of the user. The options override what was loaded.

The kubernetes client authenticates. What is used of it: its kubeconfig and in-cluster loaders,
`Configuration.host`, `.connection_pool_maxsize`, `.auth_settings()`, and the urllib3 pool of its REST
client, which has the certificates and the proxy.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import ipaddress
import logging
import os
import threading
import time
import typing as t
from concurrent.futures import Future, wait
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils.basic import missing_required_lib

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import (
    AUTH_ARG_MAP,
    AUTH_ARG_SPEC,
    AUTH_PROXY_HEADERS_SPEC,
)

from ..model.gc import collector_paused
from .auth_checks import (
    ENVIRONMENT,
    Options,
    check_before,
    check_headers,
    check_host,
    check_token,
    check_user,
    enough_without_kubeconfig,
    given_as,
    unusable_connection,
    url_passwords,
)
from .client import ApiClient
from .errors import NoConfiguration, cut, host_limit
from .transport import Deadline, Session, Transport

Headers = tuple[tuple[str, str], ...]

_FALSE = ("0", "false", "no")
_ONLY_FOR_LOADING = ("kubeconfig", "context", "persist_config")


def configuration_of(options: Options) -> t.Any:
    """A `kubernetes.client.Configuration`. Raises any exception that loading a kubeconfig can raise."""
    from kubernetes import client, config

    loading = {name: _value(options, name) for name in _ONLY_FOR_LOADING}
    if not enough_without_kubeconfig(options):
        if loading["kubeconfig"] or loading["context"]:
            _load(**loading)
        else:
            try:
                config.load_incluster_config()
            except config.ConfigException:
                _load(**loading)
    configuration = client.Configuration.get_default_copy()
    for field, option in AUTH_ARG_MAP.items():
        value = _value(options, option)
        if value is not None and option not in _ONLY_FOR_LOADING:
            _set(configuration, field, value)
    return configuration


def headers_of(options: Options) -> Headers:
    """Impersonation: the user, and a header for each group."""
    user = options.get("impersonate_user")
    if user is None:
        user = os.environ.get(f"{ENVIRONMENT}IMPERSONATE_USER")
    groups = options.get("impersonate_groups")
    if groups is None:
        groups = os.environ.get(f"{ENVIRONMENT}IMPERSONATE_GROUPS", "").split(",")
    named = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
    return tuple((name, value) for name, value in named if value)


def _load(*, kubeconfig: t.Any, context: str | None, persist_config: bool | None) -> None:
    from kubernetes import config

    rest = {"context": context, "persist_config": persist_config}
    if isinstance(kubeconfig, dict):
        config.load_kube_config_from_dict(config_dict=kubeconfig, **rest)
    else:
        config.load_kube_config(config_file=kubeconfig, **rest)


def _set(configuration: t.Any, field: str, value: t.Any) -> None:
    if field == "api_key":
        value = {"authorization": f"Bearer {value}"}
    elif field == "host":
        value = value.rstrip("/")
    elif field == "proxy_headers":
        from urllib3.util import make_headers

        value = make_headers(**value)
    setattr(configuration, field, value)


def _value(options: Options, option: str) -> t.Any:
    """The option, or the value of its K8S_AUTH_ variable."""
    if option == "proxy_headers":
        names = {x: f"{ENVIRONMENT}PROXY_HEADERS_{x.upper()}" for x in AUTH_PROXY_HEADERS_SPEC}
        variables = {x: os.environ[name] for x, name in names.items() if name in os.environ}
        return options.get(option) or variables or None
    given = given_as(options, option)
    if given is None:
        return None
    if option in ("validate_certs", "persist_config") and isinstance(given.value, str):
        return given.value.lower() not in _FALSE
    return given.value


USER_AGENT = "virt-placement"

POOL_SIZE = 256
"""Connections that are kept: more than the threads and watches of any module."""

MOST_TIMEOUTS = 5
"""Limit of a deadline that pages of a list extend, as a multiple of `timeout`."""

_TOKEN_SECONDS = 20.0
"""Seconds that a token is kept: renewing it may run a credential program."""

_Value = t.TypeVar("_Value")


def _bounded(work: t.Callable[[], _Value], seconds: float) -> _Value:
    """The result of `work`, in which the client may run a credential program, and knows no limit. Raises
    NoConfiguration after so many seconds."""
    outcome: Future[_Value] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="credentials", daemon=True).start()
    if not wait([outcome], seconds).done:
        raise NoConfiguration(
            f"the credential program of the kubeconfig did not end within {seconds:.0f} s (timeout):"
            " it may wait for a login"
        )
    return outcome.result()


def auth_argument_spec() -> dict[str, dict[str, t.Any]]:
    """The authentication options of kubernetes.core. A kubeconfig is never logged."""
    spec: dict[str, dict[str, t.Any]] = copy.deepcopy(AUTH_ARG_SPEC)
    spec["kubeconfig"]["no_log"] = True
    return spec


def connect(module: t.Any) -> ApiClient:
    """The API server that the options of `module` name, under the deadline of its `timeout`. Each page of
    a long list extends the deadline.

    Nothing is read or sent before the first request, which raises NoConfiguration where the
    options do not lead to a server.
    """
    options = {name: module.params.get(name) for name in AUTH_ARG_SPEC}
    seconds = module.params["timeout"]
    deadline = Deadline(seconds, most=MOST_TIMEOUTS * seconds)
    patience = max(1, seconds)
    return ApiClient(Transport(lambda: open_session(options, patience)), deadline)


def open_session(options: t.Mapping[str, t.Any], patience: float = 120.0) -> Session:
    """Options (kubernetes.core's names), environment and kubeconfig to a session. `patience`: seconds that a
    credential program has.

    Raises NoConfiguration, also where they lead to another server than `host` names, or `api_key`
    would be ignored.
    """
    try:
        with collector_paused():
            import urllib3
            from kubernetes.client import Configuration, rest
    except ImportError as error:
        raise NoConfiguration(missing_required_lib("kubernetes")) from error
    check_before(options)
    # The client keeps what was loaded last for the whole process.
    Configuration.set_default(None)
    with _logged_errors() as logged:
        try:
            configuration = _bounded(lambda: configuration_of(options), patience)
            configuration.connection_pool_maxsize = POOL_SIZE
            if not configuration.verify_ssl:  # no warning for each request, as in kubernetes.core
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
            pool = rest.RESTClientObject(configuration).pool_manager
            headers = _Headers(configuration, headers_of(options), patience)
            anonymous = not headers.token and not configuration.cert_file
        except Exception as error:
            # A kubeconfig, a certificate file or a credential program can raise anything.
            if (limit := host_limit(error)) is not None:
                raise NoConfiguration(str(limit)) from error
            message = str(error) or type(error).__name__
            raise NoConfiguration(unusable_connection(options, message)) from error
    if anonymous and logged:
        raise NoConfiguration(unusable_connection(options, logged[-1]))
    if anonymous:
        check_user(options)
    # Only now: reading the token resets configuration.host to the server of the kubeconfig.
    check_host(options, configuration.host)
    check_token(options, "".join(headers.secrets), by_certificate=bool(configuration.cert_file))
    _check_certificates(configuration)
    headers()  # which refuses what no header can have
    host = configuration.host.rstrip("/")
    sent_to_proxy = (configuration.proxy_headers or {}).values()
    proxy = *url_passwords(configuration.proxy), *(x.split(" ", 1)[-1] for x in sent_to_proxy)
    bundle = configuration.ssl_ca_cert
    trusted = Path(bundle).read_bytes() if bundle and configuration.verify_ssl else b""
    return Session(
        pool,
        host,
        headers,
        lambda: (*headers.secrets, *proxy),
        f"{configuration.verify_ssl} {hashlib.sha256(trusted).hexdigest()}",
        compress=not is_loopback(host),
    )


def is_loopback(url: str) -> bool:
    """Whether a server is on this host, so that compression costs time and saves none."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_certificates(configuration: t.Any) -> None:
    """Raises NoConfiguration for files without usable certificates. The HTTP client finds that out with each
    connection, and it looks as if the network were broken."""
    import ssl

    if not configuration.host.startswith("https:"):
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    what = "CA certificate"
    try:
        if configuration.ssl_ca_cert and configuration.verify_ssl:
            context.load_verify_locations(configuration.ssl_ca_cert)
        what = "client certificate or its key"
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password="")
    except OSError as error:  # of which ssl.SSLError is one
        raise NoConfiguration(f"the {what} cannot be used: {cut(str(error))}") from error


@contextlib.contextmanager
def _logged_errors() -> t.Iterator[list[str]]:
    """Messages of level ERROR: the client logs that a credential program failed, and goes on
    without credentials."""
    messages: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield messages
    finally:
        root.removeHandler(handler)


class _Headers:
    """Credentials for each request. The client renews tokens that are about to expire, so it is
    asked again from time to time, by one thread at a time."""

    def __init__(
        self, configuration: t.Any, fixed: t.Sequence[tuple[str, str]], patience: float
    ) -> None:
        self._configuration = configuration
        self._patience = patience
        self._fixed = (("User-Agent", USER_AGENT), *fixed)
        self._lock = threading.Lock()
        self._token: tuple[tuple[str, str], ...] = ()
        self._fresh_until = 0.0

    def __call__(self) -> t.Sequence[tuple[str, str]]:
        """Raises NoConfiguration for a value that no header can have: the HTTP client would print it."""
        headers = (*self._fixed, *self.token)
        check_headers(headers)
        return headers

    @property
    def token(self) -> tuple[tuple[str, str], ...]:
        """The header with the current token; empty where there is none."""
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
            settings = _bounded(self._configuration.auth_settings, self._patience).values()
        except Exception as error:
            why = host_limit(error) or cut(str(error))
            raise NoConfiguration(f"the token cannot be renewed: {why}") from error
        return tuple(
            (setting["key"], setting["value"])
            for setting in settings
            if setting["in"] == "header" and setting["value"]
        )
