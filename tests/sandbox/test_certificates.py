# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client as strict as that of Python 3.13 accepts the certificates, and one that does not is told why.

Since 3.13 `ssl.create_default_context` sets VERIFY_X509_STRICT."""

from __future__ import annotations

import ssl
import types
import typing as t
from pathlib import Path

import pytest
import requests

from sandbox import control_plane, processes
from sandbox.certificates import issue_all


@pytest.mark.parametrize("name", ["kube-apiserver", "virt-api", "virt-controller"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_strict_client_accepts_the_server(name: str, host: str, tmp_path: Path) -> None:
    issue_all(tmp_path / "pki")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "pki" / f"{name}.crt", tmp_path / "pki" / f"{name}.key")
    client = ssl.create_default_context(cafile=tmp_path / "pki" / "ca.crt")
    client.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    handshake(server, client, host)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """Raises SSLError if one of the two refuses the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _round in range(4):
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
    assert sides == []


def test_wait_that_fails_ends_with_the_last_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(control_plane, "_READY_TIMEOUT", 0.1)
    monkeypatch.setattr(processes, "ended", lambda _directory: {})
    layout = t.cast(t.Any, types.SimpleNamespace(directory=tmp_path))
    plane = control_plane.ControlPlane(layout, t.cast(t.Any, None))

    def refused() -> bool:
        raise requests.exceptions.SSLError(
            "certificate verify failed: Missing Authority Key Identifier"
        )

    with pytest.raises(
        processes.ProcessError, match=r"is ready; last seen: certificate verify failed: Missing"
    ):
        plane.wait("the API server is ready", refused)
    with pytest.raises(
        processes.ProcessError, match=r"last seen: the answer is not yet as it must be; logs"
    ):
        plane.wait("the API server is ready", lambda: False)
