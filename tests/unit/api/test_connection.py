# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authentication as kubernetes.core does it, with no request of its own."""

from __future__ import annotations

import json
import pathlib
import sys
import types
import typing as t

import pytest

from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client as peer
from ansible_collections.virt.placement.plugins.module_utils.api import connection, errors
from ansible_collections.virt.placement.plugins.module_utils.api.requests import Api

from .scripted_server import ScriptedServer, answer, status

NODE = "/api/v1/nodes/w1"


def _kubeconfig(url: str, **user: t.Any) -> dict[str, t.Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "other"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [
            {"name": "u", "user": user or {"token": "from-config"}},
            {"name": "other", "user": {"token": "of-other"}},
        ],
    }


def _connect(**options: t.Any) -> Api:
    unset = dict.fromkeys(connection.auth_argument_spec())
    module = types.SimpleNamespace(params={**unset, "timeout": 20, **options})
    return connection.connect(module)


def _token_seen(server: ScriptedServer) -> str | None:
    return server.seen[-1].headers["Authorization"]


@pytest.fixture(params=["built", "discovered"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without the shortcut past kubernetes.core's discovery."""
    if request.param == "discovered":
        monkeypatch.setattr(connection, "_BUILDERS", ("not_there",))
        monkeypatch.setattr(peer, "_pool", {})
        monkeypatch.setattr(peer.k8sdynamicclient, "K8SDynamicClient", _Undiscovered)
    return str(request.param)


class _Undiscovered:
    """Stands for the dynamic client, which would ask for API groups that no test has."""

    def __init__(self, client: t.Any, **_: t.Any) -> None:
        self.client = client


@pytest.mark.usefixtures("way")
class TestOptions:
    def test_a_kubeconfig_as_a_dict(self, server: ScriptedServer) -> None:
        _connect(kubeconfig=_kubeconfig(server.url)).get(NODE)
        assert _token_seen(server) == "Bearer from-config"

    def test_a_kubeconfig_file_and_a_context(
        self, server: ScriptedServer, tmp_path: pathlib.Path
    ) -> None:
        file = tmp_path / "config"
        file.write_text(json.dumps(_kubeconfig(server.url)))
        _connect(kubeconfig=str(file), context="other").get(NODE)
        assert _token_seen(server) == "Bearer of-other"

    def test_host_and_token(self, server: ScriptedServer) -> None:
        api = _connect(host=f"{server.url}/", api_key="given")
        api.get(NODE)
        assert api.host == server.url
        assert _token_seen(server) == "Bearer given"
        assert "given" in api.secrets

    def test_the_environment_that_job_templates_set(
        self, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_HOST", server.url)
        monkeypatch.setenv("K8S_AUTH_API_KEY", "from-environment")
        _connect().get(NODE)
        assert _token_seen(server) == "Bearer from-environment"

    def test_impersonation_keeps_its_groups_apart(self, server: ScriptedServer) -> None:
        _connect(
            host=server.url,
            api_key="x",
            impersonate_user="jane",
            impersonate_groups=["ops", "dev"],
        ).patch(NODE, [])
        assert server.seen[0].headers["Impersonate-User"] == "jane"
        assert server.seen[0].headers.get_all("Impersonate-Group") == ["ops", "dev"]
        assert server.seen[0].headers["User-Agent"] == "virt-placement"

    def test_nothing_but_the_request_is_sent(self, server: ScriptedServer) -> None:
        _connect(host=server.url, api_key="x").get(NODE)
        assert server.requests == [f"GET {NODE}"]


def test_a_credential_program_is_asked_again_when_its_token_is_refused(
    server: ScriptedServer, tmp_path: pathlib.Path
) -> None:
    counter = tmp_path / "count"
    program = (
        f"import json, pathlib; p = pathlib.Path({str(counter)!r}); n = len(p.read_text()) if p.exists() else 0;"
        " p.write_text('x' * (n + 1)); print(json.dumps({'kind': 'ExecCredential', 'apiVersion':"
        " 'client.authentication.k8s.io/v1', 'status': {'token': f'token-{n}'}}))"
    )
    run = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", program],
        "interactiveMode": "Never",
    }
    server.plays(status(401, "Unauthorized"), answer({}))
    _connect(kubeconfig=_kubeconfig(server.url, exec=run)).get(NODE)
    tokens = [seen.headers["Authorization"] for seen in server.seen]
    assert tokens == ["Bearer token-0", "Bearer token-1"]


def test_a_token_file_is_read_again_when_its_token_is_refused(
    server: ScriptedServer, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    api = _connect(kubeconfig=_kubeconfig(server.url, tokenFile=str(file)))
    api.get(NODE)
    file.write_text("new")
    server.plays(status(401, "Unauthorized"), answer({}))
    api.get(NODE)
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
    ]


BROKEN = {
    "no such file": {"kubeconfig": "/no/such/kubeconfig"},
    "no such context": {"kubeconfig": _kubeconfig("https://x"), "context": "none"},
    "not a kubeconfig": {"kubeconfig": {"apiVersion": "v1"}},
    "failing credential program": {
        "kubeconfig": _kubeconfig(
            "https://x",
            exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/program"},
        )
    },
}


@pytest.mark.parametrize("options", BROKEN.values(), ids=BROKEN)
def test_a_broken_configuration_is_one_message(options: dict[str, t.Any]) -> None:
    with pytest.raises(errors.NoConfiguration) as caught:
        _connect(**options).get(NODE)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_without_the_client_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    with pytest.raises(errors.NoConfiguration, match="Python library \\(kubernetes\\)"):
        connection.open_session({})


def test_the_names_that_save_the_discovery_are_still_there() -> None:
    assert all(hasattr(peer, name) for name in connection._BUILDERS)
