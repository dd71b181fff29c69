# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client's configuration and our own headers, from options, environment and kubeconfig.

What counts before what is as kubernetes.core has it (its `k8s.client`, `_create_configuration` and
`_create_headers`), so that a task reaches the same server as its neighbours of that collection:
enough options by themselves, then a kubeconfig or context that is given, then the pod that the task
runs in, then the kubeconfig of the user. The options override what was loaded.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import (
    AUTH_ARG_MAP,
    AUTH_PROXY_HEADERS_SPEC,
)

from .given import ENVIRONMENT, Options, enough_without_kubeconfig, given_as

Headers = tuple[tuple[str, str], ...]

_FALSE = ("0", "false", "no")
_ONLY_FOR_LOADING = ("kubeconfig", "context", "persist_config")


def configuration_of(options: Options) -> t.Any:
    """A `kubernetes.client.Configuration`. Raises whatever a kubeconfig can bring up."""
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
    found = client.Configuration.get_default_copy()
    for field, option in AUTH_ARG_MAP.items():
        value = _value(options, option)
        if value is not None and option not in _ONLY_FOR_LOADING:
            _set(found, field, value)
    return found


def headers_of(options: Options) -> Headers:
    """Whom to act as; a header for each group."""
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
    """The option, or what its variables say."""
    if option == "proxy_headers":
        return options.get(option) or _proxy_headers()
    given = given_as(options, option)
    if given is None:
        return None
    if option in ("validate_certs", "persist_config") and isinstance(given.value, str):
        return given.value.lower() not in _FALSE
    return given.value


def _proxy_headers() -> dict[str, str] | None:
    variables = {
        key: f"{ENVIRONMENT}PROXY_HEADERS_{key.upper()}" for key in AUTH_PROXY_HEADERS_SPEC
    }
    said = {key: os.environ[name] for key, name in variables.items() if name in os.environ}
    return said or None
