# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration that comes of options and environment is the one that kubernetes.core makes."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

pytest.importorskip("kubernetes")

from kubernetes.client import Configuration

from ansible_collections.kubernetes.core.plugins.module_utils.args_common import AUTH_ARG_SPEC
from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as peer
from ansible_collections.virt.placement.plugins.module_utils.api.connection import (
    configuration_of,
    headers_of,
)

FIELDS = (
    "host",
    "api_key",
    "username",
    "password",
    "verify_ssl",
    "ssl_ca_cert",
    "cert_file",
    "key_file",
    "proxy",
    "no_proxy",
    "proxy_headers",
)
HOST, TOKEN = {"host": "https://given.example:1234/"}, {"api_key": "given"}
KUBECONFIG: dict[str, t.Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "main",
    "contexts": [
        {"name": "main", "context": {"cluster": "c", "user": "u"}},
        {"name": "other", "context": {"cluster": "d", "user": "v"}},
    ],
    "clusters": [
        {"name": "c", "cluster": {"server": "https://c.example", "insecure-skip-tls-verify": True}},
        {"name": "d", "cluster": {"server": "https://d.example", "tls-server-name": "d"}},
    ],
    "users": [
        {"name": "u", "user": {"token": "of-u"}},
        {"name": "v", "user": {"username": "v", "password": "secret"}},
    ],
}
CASES: dict[str, tuple[dict[str, t.Any], dict[str, str]]] = {
    "nothing but a kubeconfig of the user": ({}, {}),
    "host and token": ({**HOST, **TOKEN}, {}),
    "host and password": ({**HOST, "username": "u", "password": "p"}, {}),
    "host and certificate": ({**HOST, "client_cert": "c.pem", "client_key": "k.pem"}, {}),
    "host alone": (HOST, {}),
    "host and credentials that are empty": ({**HOST, "username": "", "password": ""}, {}),
    "a context": ({"context": "other"}, {}),
    "a kubeconfig as a map": ({"kubeconfig": KUBECONFIG}, {}),
    "a kubeconfig as a map and a context": ({"kubeconfig": KUBECONFIG, "context": "other"}, {}),
    "a kubeconfig and a token": ({"kubeconfig": KUBECONFIG, **TOKEN}, {}),
    "certificates are not looked at": ({**HOST, **TOKEN, "validate_certs": False}, {}),
    "an authority": ({**HOST, **TOKEN, "ca_cert": "ca.pem", "validate_certs": True}, {}),
    "a proxy": (
        {**HOST, **TOKEN, "proxy": "http://p.example", "no_proxy": "a,b"}
        | {"proxy_headers": {"proxy_basic_auth": "u:p", "user_agent": "a"}},
        {},
    ),
    "a job template": ({}, {"HOST": "https://env.example/", "API_KEY": "e", "VERIFY_SSL": "False"}),
    "both names of a variable": ({**HOST, **TOKEN}, {"VALIDATE_CERTS": "no", "VERIFY_SSL": "yes"}),
    "options before variables": (
        {**HOST, **TOKEN},
        {"HOST": "https://env.example", "API_KEY": "e"},
    ),
    "a proxy of the environment": (
        {**HOST, **TOKEN},
        {"PROXY": "http://p.example", "PROXY_HEADERS_BASIC_AUTH": "u:p"},
    ),
    "somebody else": (
        {**HOST, **TOKEN, "impersonate_user": "a", "impersonate_groups": ["g", "h"]},
        {},
    ),
    "nobody else whatever a variable says": (
        {**HOST, **TOKEN, "impersonate_user": "", "impersonate_groups": []},
        {"IMPERSONATE_USER": "a", "IMPERSONATE_GROUPS": "g"},
    ),
    "somebody else by variables": (
        {**HOST, **TOKEN},
        {"IMPERSONATE_USER": "a", "IMPERSONATE_GROUPS": "g,,h"},
    ),
}


@pytest.mark.parametrize(("options", "variables"), CASES.values(), ids=CASES)
def test_what_kubernetes_core_makes_of_it(
    options: dict[str, t.Any],
    variables: dict[str, str],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(KUBECONFIG))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    for name, value in variables.items():
        monkeypatch.setenv(f"K8S_AUTH_{name}", value)
    unset = dict.fromkeys(AUTH_ARG_SPEC)

    Configuration.set_default(None)
    ours = configuration_of({**unset, **options})
    Configuration.set_default(None)
    theirs = peer._create_configuration(peer._create_auth_spec(None, **options))

    assert {name: getattr(ours, name) or None for name in FIELDS} == {
        name: getattr(theirs, name) or None for name in FIELDS
    }
    assert ours.get_api_key_with_prefix("authorization") == (
        theirs.get_api_key_with_prefix("authorization")
    )
    headers = peer._create_headers(None, **options)
    assert headers_of({**unset, **options}) == tuple(
        (name, value)
        for name, values in headers.items()
        for value in (values if isinstance(values, list) else [values])
    )
