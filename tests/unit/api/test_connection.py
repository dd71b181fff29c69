# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authentication as kubernetes.core does it, with no request of its own."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import sys
import time
import types
import typing as t
import warnings

import pytest
from kubernetes.config import kube_config
from urllib3.exceptions import InsecureRequestWarning

from ansible_collections.virt.placement.plugins.module_utils.api import connection, errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from tests.support.api_server import ApiServer, answer, status

NODE = "/api/v1/nodes/w1"
CERTIFIED = {
    name: base64.b64encode(name.encode()).decode()
    for name in ("client-certificate-data", "client-key-data")
}


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


def _connect(**options: t.Any) -> ApiClient:
    unset = dict.fromkeys(connection.auth_argument_spec())
    module = types.SimpleNamespace(params={**unset, "timeout": 20, **options})
    return connection.connect(module)


def _token_seen(server: ApiServer) -> str | None:
    token: str | None = server.seen[-1].headers["Authorization"]
    return token


class TestOptions:
    def test_a_kubeconfig_as_a_dict(self, server: ApiServer) -> None:
        _connect(kubeconfig=_kubeconfig(server.url)).get(NODE)
        assert _token_seen(server) == "Bearer from-config"

    def test_a_kubeconfig_file_and_a_context(
        self, server: ApiServer, tmp_path: pathlib.Path
    ) -> None:
        file = tmp_path / "config"
        file.write_text(json.dumps(_kubeconfig(server.url)))
        _connect(kubeconfig=str(file), context="other").get(NODE)
        assert _token_seen(server) == "Bearer of-other"

    def test_host_and_token(self, server: ApiServer) -> None:
        api = _connect(host=f"{server.url}/", api_key="given")
        api.get(NODE)
        assert api.host == server.url
        assert _token_seen(server) == "Bearer given"
        assert "given" in api.secrets

    def test_the_environment_that_job_templates_set(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_HOST", server.url)
        monkeypatch.setenv("K8S_AUTH_API_KEY", "from-environment")
        _connect().get(NODE)
        assert _token_seen(server) == "Bearer from-environment"

    def test_impersonation_keeps_its_groups_apart(self, server: ApiServer) -> None:
        _connect(
            host=server.url,
            api_key="x",
            impersonate_user="jane",
            impersonate_groups=["ops", "dev"],
        ).patch(NODE, [])
        assert server.seen[0].headers["Impersonate-User"] == "jane"
        assert server.seen[0].headers.get_all("Impersonate-Group") == ["ops", "dev"]
        assert server.seen[0].headers["User-Agent"] == "virt-placement"

    def test_nothing_but_the_request_is_sent(self, server: ApiServer) -> None:
        _connect(host=server.url, api_key="x").get(NODE)
        assert server.requests == [f"GET {NODE}"]


def test_certificates_that_are_not_verified_cause_no_warning() -> None:
    options = {"host": "https://x.example", "api_key": "x"}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for validate in (True, False):
            connection.open_session({**options, "validate_certs": validate})
            warnings.warn(f"{validate}", InsecureRequestWarning, stacklevel=1)
    assert [str(each.message) for each in seen] == ["True"]


def test_a_credential_program_is_asked_again_when_its_token_is_refused(
    server: ApiServer, tmp_path: pathlib.Path
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
    server: ApiServer, tmp_path: pathlib.Path
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


def test_credential_program_that_waits_for_a_login_ends_the_task(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "login"
    program.write_text("#!/bin/sh\nexec sleep 8\n")
    program.chmod(0o755)
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}
    began = time.monotonic()
    with pytest.raises(errors.NoConfiguration, match=r"credential program .* within 1 s"):
        connection.open_session({"kubeconfig": _kubeconfig("https://x", exec=exec_)}, 1.0)
    assert time.monotonic() - began < 5


class TestWhatIsMissing:
    """What a user reads names the option or variable, the file, and what to do."""

    @pytest.fixture(autouse=True)
    def alone(self, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
        """Nothing in the environment, and a home without a kubeconfig."""
        for variable in [name for name in os.environ if name.startswith(("K8S_AUTH_", "KUBE"))]:
            monkeypatch.delenv(variable)
        self.looks_in(monkeypatch, str(tmp_path / "home"))

    def looks_in(self, monkeypatch: pytest.MonkeyPatch, files: str) -> None:
        """The client reads KUBECONFIG when it is loaded."""
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", files)

    def refused(self, **options: t.Any) -> str:
        with pytest.raises(errors.NoConfiguration) as caught:
            connection.open_session(options)
        return str(caught.value)

    def test_the_files_of_the_variable_are_gone(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        files = [str(tmp_path / "a"), str(tmp_path / "b")]
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(files))
        self.looks_in(monkeypatch, os.pathsep.join(files))
        assert self.refused() == (
            f"KUBECONFIG: there is no file {files[0]} and no file {files[1]} where the task runs;"
            " correct KUBECONFIG, or give kubeconfig, or host with api_key"
        )

    def test_the_variable_names_a_folder(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        monkeypatch.setenv("KUBECONFIG", str(tmp_path))
        self.looks_in(monkeypatch, str(tmp_path))
        assert self.refused() == f"KUBECONFIG: {tmp_path} is a folder; name the file in it"

    def test_nothing_is_given_at_all(self, tmp_path: pathlib.Path) -> None:
        assert self.refused() == (
            f"no kubeconfig is given, and there is no file {tmp_path / 'home'}; give kubeconfig,"
            " or host with api_key"
        )

    def test_a_host_without_credentials(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_HOST", "https://127.0.0.1:6443")
        assert self.refused() == (
            "K8S_AUTH_HOST is used only together with credentials, and no kubeconfig is given, and"
            f" there is no file {tmp_path / 'home'}; give api_key, username and password,"
            " client_cert and client_key, or a kubeconfig"
        )

    @pytest.mark.parametrize("by", ["api_key", "K8S_AUTH_API_KEY"])
    def test_a_token_without_a_host(
        self, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        options = {"api_key": "x"}
        if by != "api_key":
            monkeypatch.setenv(by, options.pop("api_key"))
        assert self.refused(**options) == (
            f"host is missing beside {by} (no kubeconfig is given, and there is no file"
            f" {tmp_path / 'home'}); give host, or a kubeconfig"
        )

    @pytest.mark.parametrize(
        ("content", "message_end"),
        [
            (b"just words\n", "holds text where a map with clusters, users and contexts must be"),
            (b"- a\n", "holds a list where"),
            (b"", "holds nothing where"),
            (b"7", "holds a single value where"),
            (b"secret: b: c\n", "is not YAML (line 1); name a kubeconfig"),
            (b"\xff\xfe\x00", "is no text"),
        ],
        ids=["text", "list", "empty", "number", "broken", "bytes"],
    )
    def test_a_file_that_is_no_map(
        self, content: bytes, message_end: str, tmp_path: pathlib.Path
    ) -> None:
        file = tmp_path / "notes.txt"
        file.write_bytes(content)
        message = self.refused(kubeconfig=str(file))
        assert message.startswith(f"kubeconfig: {file} {message_end}")
        assert "secret" not in message

    def test_a_context_that_is_not_there(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
    ) -> None:
        file = tmp_path / "config"
        file.write_text(json.dumps(_kubeconfig("https://x")))
        there = "its contexts are: main, other"
        assert self.refused(kubeconfig=str(file), context="prod") == (
            f"context: there is no context prod in {file}; {there}"
        )
        given = _kubeconfig("https://x")
        monkeypatch.setenv("K8S_AUTH_CONTEXT", "prod")
        assert self.refused(kubeconfig=given) == (
            f"K8S_AUTH_CONTEXT: there is no context prod in kubeconfig; {there}"
        )

    def test_user_of_the_context_that_does_not_exist(self, tmp_path: pathlib.Path) -> None:
        """The client would ask as system:anonymous."""
        kubeconfig = {**_kubeconfig("https://x"), "users": []}
        message = "kubeconfig names the user u, which does not exist: nothing was done; correct"
        assert message in self.refused(kubeconfig=kubeconfig)
        file = tmp_path / "config"
        file.write_text(json.dumps(kubeconfig))
        assert self.refused(kubeconfig=str(file), context="other").startswith(
            f"context other of {file} names the user "
        )

    def test_proxy_without_a_scheme(self) -> None:
        assert self.refused(kubeconfig=_kubeconfig("https://x"), proxy="squid:3128") == (
            "proxy: has no scheme: begin it with http:// or https://"
        )

    def test_a_current_context_that_is_not_there(self) -> None:
        kubeconfig = _kubeconfig("https://x")
        kubeconfig["current-context"] = "gone"
        assert "is gone, which does not exist; name one as context, its contexts" in (
            self.refused(kubeconfig=kubeconfig)
        )
        del kubeconfig["current-context"]
        assert "kubeconfig has no current-context; name one as context" in (
            self.refused(kubeconfig=kubeconfig)
        )


class TestWhatWouldNotCount:
    """Nothing is sent where kubernetes.core would pass over what names the cluster."""

    ELSEWHERE = "https://nowhere.invalid:6443"

    def refused(self, **options: t.Any) -> str:
        with pytest.raises(errors.NoConfiguration) as caught:
            connection.open_session(options)
        return str(caught.value)

    def test_a_host_without_credentials(self, server: ApiServer) -> None:
        message = self.refused(kubeconfig=_kubeconfig(server.url), host=self.ELSEWHERE)
        assert f"host says {self.ELSEWHERE}" in message
        assert f"leads to {server.url}" in message
        assert server.requests == []

    def test_the_same_host_written_otherwise(self, server: ApiServer) -> None:
        api = _connect(kubeconfig=_kubeconfig(server.url), host=server.url.upper() + "/")
        api.get(NODE)
        assert server.requests == [f"GET {NODE}"]

    def test_a_host_of_the_environment(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_HOST", self.ELSEWHERE)
        assert f"K8S_AUTH_HOST says {self.ELSEWHERE}" in self.refused(
            kubeconfig=_kubeconfig(server.url)
        )

    def test_a_kubeconfig_where_the_environment_has_host_and_token(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_HOST", self.ELSEWHERE)
        monkeypatch.setenv("K8S_AUTH_API_KEY", "x")
        assert "kubeconfig is given and would be ignored, since K8S_AUTH_HOST" in self.refused(
            kubeconfig=_kubeconfig(server.url)
        )

    def test_a_context_beside_host_and_token(self, server: ApiServer) -> None:
        assert "context is given and would be ignored, since host" in self.refused(
            host=server.url, api_key="x", context="main"
        )

    @pytest.mark.parametrize("user", [{"token": "from-config"}, CERTIFIED], ids=["token", "cert"])
    def test_a_token_beside_a_kubeconfig_with_credentials(
        self, server: ApiServer, user: dict[str, str]
    ) -> None:
        url = server.url.replace("http:", "https:")  # elsewhere the client passes over certificates
        message = self.refused(kubeconfig=_kubeconfig(url, **user), api_key="given")
        assert message.startswith("api_key is given and would be ignored")
        assert "give host beside api_key" in message
        assert server.requests == []

    def test_a_token_of_the_environment(
        self, server: ApiServer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "config"
        file.write_text(json.dumps(_kubeconfig(server.url)))
        monkeypatch.setenv("K8S_AUTH_API_KEY", "given")
        monkeypatch.setenv("K8S_AUTH_KUBECONFIG", str(file))
        assert "K8S_AUTH_API_KEY is given and would be ignored" in self.refused()
        assert server.requests == []
        _connect(kubeconfig=str(file)).get(NODE)
        assert _token_seen(server) == "Bearer from-config"

    @pytest.mark.parametrize("user", [{"token": "given"}, {"name": "nobody"}], ids=["same", "none"])
    def test_a_token_that_counts(self, server: ApiServer, user: dict[str, str]) -> None:
        _connect(kubeconfig=_kubeconfig(server.url, **user), api_key="given").get(NODE)
        assert _token_seen(server) == "Bearer given"

    def test_options_outrank_the_environment(
        self, server: ApiServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("K8S_AUTH_CONTEXT", "another")
        _connect(host=server.url, api_key="x").get(NODE)
        assert server.requests == [f"GET {NODE}"]


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
def test_a_file_that_is_not_there_is_named_with_its_option(
    option: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = str(tmp_path / "none.crt")
    with pytest.raises(errors.NoConfiguration, match=f"^{option}: there is no file {none} "):
        connection.open_session({"host": "https://x", "api_key": "x", option: none})
    monkeypatch.setenv("K8S_AUTH_SSL_CA_CERT", str(tmp_path))
    with pytest.raises(errors.NoConfiguration, match=r"^K8S_AUTH_SSL_CA_CERT: .* is a folder"):
        connection.open_session({"host": "https://x", "api_key": "x"})


@pytest.mark.parametrize(
    ("options", "named"),
    [(("ca_cert",), "CA certificate"), (("client_cert", "client_key"), "client certificate")],
)
def test_certificate_that_is_none_is_no_fault_of_the_network(
    options: tuple[str, ...], named: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "file.pem"
    file.write_text("no certificate")
    given = {"host": "https://x", "api_key": "x", **dict.fromkeys(options, str(file))}
    with pytest.raises(errors.NoConfiguration, match=f"^the {named}.* cannot be used: "):
        connection.open_session(given)
    assert connection.open_session({**given, "host": "http://x"}).host == "http://x"


def test_one_of_several_kubeconfigs_is_enough(server: ApiServer, tmp_path: pathlib.Path) -> None:
    there = tmp_path / "config"
    there.write_text(json.dumps(_kubeconfig(server.url)))
    _connect(kubeconfig=os.pathsep.join([str(tmp_path / "none"), str(there)])).get(NODE)
    assert server.requests == [f"GET {NODE}"]


@pytest.mark.parametrize("end", ["\n", "\r", "\x00", "\u2026"])
@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("api_key", "the token"),
        ("impersonate_user", "impersonate_user"),
        ("impersonate_groups", "impersonate_groups"),
    ],
)
def test_value_that_no_header_can_have_is_named_and_not_printed(
    option: str, named: str, end: str
) -> None:
    """A token that was read from a file often ends with a line break."""
    value = f"s3cret{end}"
    options = {option: [value] if option == "impersonate_groups" else value}
    with pytest.raises(errors.NoConfiguration, match=f"^{named} has a character") as caught:
        connection.open_session({"host": "https://x", "api_key": "x", **options})
    assert "s3cret" not in str(caught.value)


def test_without_the_client_library_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    with pytest.raises(errors.NoConfiguration, match="Python library \\(kubernetes\\)"):
        connection.open_session({})


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://[::1]:6443", True),
        ("https://localhost", True),
        ("https://10.0.0.1:6443", False),
        ("https://api.example.com:6443", False),
    ],
)
def test_only_servers_on_this_host_are_not_asked_for_gzip(url: str, loopback: bool) -> None:
    assert connection.is_loopback(url) == loopback
