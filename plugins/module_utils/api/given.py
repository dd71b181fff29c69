# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task says about its connection, held against what comes of it.

kubernetes.core and the client pass over some of it in silence, and the task would then reach
another cluster than it names, or be somebody else there:

- `host` counts together with credentials alone; without them the kubeconfig decides, since the
  client sets the kubeconfig's server again with each token (kubernetes.core `k8s.client`
  `_create_configuration`, client `kube_config` `_set_config`);
- with `host` and credentials no kubeconfig is read, so neither it nor `context` counts;
- without `host` a token of the kubeconfig, or of the pod that the task runs in, takes the place of
  `api_key` (the client's `refresh_api_key_hook`), and the API server asks a client certificate first;
- an empty text counts as nothing, and a file that is not there as no file.

The same is refused here, before any request. Each check raises NoConfiguration.
"""

from __future__ import annotations

import os
import typing as t
import urllib.parse
from dataclasses import dataclass

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_MAP

from .errors import NoConfiguration, cut

Options = t.Mapping[str, t.Any]

ENVIRONMENT = "K8S_AUTH_"
_NEVER_EMPTY = ("kubeconfig", "context", "host", "api_key")
_FILES = ("ca_cert", "client_cert", "client_key")
_CREDENTIALS = (("api_key",), ("username", "password"), ("client_cert", "client_key"))
_TRUE_NAMES = {option: name for name, option in AUTH_ARG_MAP.items()}
_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True)
class Given:
    """A value and who gave it: the option's name, or the variable's."""

    value: t.Any
    by: str

    @property
    def in_task(self) -> bool:
        return not self.by.startswith(ENVIRONMENT)

    def outranks(self, other: Given) -> bool:
        """An option was meant where a variable says something else."""
        return self.in_task and not other.in_task


def check_before(options: Options) -> None:
    """What can be said before a kubeconfig is read."""
    for name in _NEVER_EMPTY:
        if options.get(name) in ("", {}):
            raise NoConfiguration(f"{name}: must not be empty; leave it out")
    for name in _FILES:
        if given := given_as(options, name):
            check_file(given.by, str(given.value))
    kubeconfig = given_as(options, "kubeconfig")
    if kubeconfig and isinstance(kubeconfig.value, str):
        _check_kubeconfig(kubeconfig)
    host = given_as(options, "host")
    if host and enough_without_kubeconfig(options):
        _check_passed_over(host, kubeconfig, given_as(options, "context"))


def enough_without_kubeconfig(options: Options) -> bool:
    """A host and credentials for it, none of them empty: then no kubeconfig is read."""
    return any(all(_says(options, name) for name in ("host", *each)) for each in _CREDENTIALS)


def check_host(options: Options, host: str) -> None:
    """`host` is the URL that came out: it must be the one that was given, where one was."""
    given = given_as(options, "host")
    if given and _origin(str(given.value)) != _origin(host):
        raise NoConfiguration(
            f"{given.by} says {cut(str(given.value))}, and the rest of the configuration leads to"
            f" {cut(host)}: nothing was done; host counts with credentials beside it alone, so give"
            " api_key, username and password, or client_cert and client_key as well, or leave out"
            " host"
        )


def check_token(options: Options, token: str, *, by_certificate: bool) -> None:
    """`token` is the one that came out: it must be the one that was given, where one was, and no
    certificate of the kubeconfig may come before it."""
    given = given_as(options, "api_key")
    others = (given_as(options, name) for name in ("kubeconfig", "context"))
    if given is None or any(other and other.outranks(given) for other in others):
        return
    if token != given.value or (by_certificate and not given_as(options, "client_cert")):
        raise NoConfiguration(
            f"{given.by} is given and would not count, since the rest of the configuration has"
            " credentials of its own, which take its place: nothing was done; give host beside"
            f" {given.by}, or leave out {given.by}"
        )


def given_as(options: Options, name: str) -> Given | None:
    """As kubernetes.core looks for it: the option, then the variables of both its names."""
    if options.get(name) is not None:
        return Given(options[name], name)
    for each in (name, _TRUE_NAMES[name]):
        variable = f"{ENVIRONMENT}{each.upper()}"
        if os.environ.get(variable):
            return Given(os.environ[variable], variable)
    return None


def _says(options: Options, name: str) -> bool:
    given = given_as(options, name)
    return given is not None and bool(given.value)


def _check_passed_over(host: Given, kubeconfig: Given | None, context: Given | None) -> None:
    """A kubeconfig beside an option `host` is one for other tasks; a context never is."""
    passed_over = []
    if kubeconfig and kubeconfig.outranks(host):
        passed_over.append(kubeconfig)
    if context and not host.outranks(context):
        passed_over.append(context)
    for given in passed_over:
        raise NoConfiguration(
            f"{given.by} is given and would not count, since {host.by} ({cut(str(host.value))}) and"
            f" its credentials take its place: nothing was done; leave out {given.by} or {host.by}"
        )


def _check_kubeconfig(kubeconfig: Given) -> None:
    """One of several files is enough, as it is for kubectl."""
    paths = paths_of(kubeconfig.value)
    there = [path for path in paths if os.path.exists(path)]
    for path in there or paths:
        check_file(kubeconfig.by, path)


def paths_of(text: str) -> tuple[str, ...]:
    """The files that a kubeconfig option or variable names."""
    return tuple(os.path.expanduser(path) for path in text.split(os.pathsep) if path)


def check_file(by: str, path: str) -> None:
    """Raises NoConfiguration unless there is a file that can be read."""
    if not os.path.exists(path):
        raise NoConfiguration(f"{by}: there is no file {path} where the task runs; correct {by}")
    if os.path.isdir(path):
        raise NoConfiguration(f"{by}: {path} is a folder; name the file in it")
    if not os.access(path, os.R_OK):
        raise NoConfiguration(f"{by}: {path} may not be read by the user who runs the task")


def _origin(url: str) -> tuple[str, str, int | None, str]:
    """What makes two URLs the same server."""
    try:
        parts = urllib.parse.urlsplit(url.rstrip("/"))
        port = parts.port or _PORTS.get(parts.scheme.lower())
    except ValueError:
        return "", url, None, ""
    return parts.scheme.lower(), parts.hostname or "", port, parts.path
