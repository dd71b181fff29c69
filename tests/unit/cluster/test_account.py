# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The account, the host and the job that hold the Lease."""

from __future__ import annotations

import os

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster.access import (
    Right,
    require_rights,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.account import holder_text
from ansible_collections.virt.placement.plugins.module_utils.model.findings import InvalidInput
from tests.support.api_server import ApiServer, Reply, answer

NAME = "system:serviceaccount:ops:maintenance"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (answer({"status": {"userInfo": {"username": NAME}}}, 201), NAME),
        (answer({"status": {}}, 201), "an unknown account"),
        (answer({"kind": "Status", "message": "not found"}, 404), "an unknown account"),
    ],
)
def test_account_and_host_are_named(
    server: ApiServer, api: ApiClient, reply: Reply, words: str
) -> None:
    server.plays(reply)
    assert holder_text(api, {}) == f"{words} on host {os.uname().nodename}"


@pytest.mark.parametrize(("job", "words"), [("4711", ", job 4711"), ("4\nTASK", ""), ("", "")])
def test_job_of_a_controller_is_named(
    server: ApiServer, api: ApiClient, job: str, words: str
) -> None:
    server.plays(answer({"status": {"userInfo": {"username": NAME}}}, 201))
    assert holder_text(api, {"JOB_ID": job}) == f"{NAME} on host {os.uname().nodename}{words}"


def test_identity_that_lacks_rights_is_named(server: ApiServer, api: ApiClient) -> None:
    denied = answer({"status": {"allowed": False}}, 201)
    server.plays(denied, answer({"status": {"userInfo": {"username": NAME}}}, 201))
    with pytest.raises(InvalidInput) as raised:
        require_rights(api, [Right("patch", "", "nodes")], role="maintainer")
    (error,) = raised.value.errors
    assert str(error).endswith(f"; this identity is {NAME}")
    assert "this identity may not patch nodes: grant this identity the ClusterRole" in str(error)
