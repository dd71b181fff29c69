# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of each write, whatever the server answers."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api import errors
from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.cluster.patching import (
    Applied,
    NotSent,
    Replaced,
    apply,
    refusals,
    try_writes,
)
from ansible_collections.virt.placement.plugins.module_utils.model.findings import (
    InputError,
    InvalidInput,
)
from ansible_collections.virt.placement.plugins.module_utils.model.json_pointer import Pointer
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.write import Operation, Write
from tests.support.api_server import RESET, ApiServer, Reply, answer, status

ZONE = Pointer(("metadata", "labels", "zone"))


def _write(name: str = "w1", before: str | None = None, after: str = "a") -> Write:
    return Write(
        Ref("Node", "", name),
        f"/api/v1/nodes/{name}",
        f"uid-{name}",
        (Operation("test", ZONE, before),),
        (Operation("add", ZONE, after),),
        before={} if before is None else {"zone": before},
        after={"zone": after},
    )


def _node(zone: str | None, uid: str = "uid-w1") -> Reply:
    labels = {} if zone is None else {"zone": zone}
    return answer({"metadata": {"name": "w1", "uid": uid, "labels": labels}})


def _recompute(write: Write, manifest: t.Any) -> Write | None:
    seen = manifest["metadata"]["labels"].get("zone")
    wanted = write.after["zone"]
    return None if seen == wanted else _write(write.target.name, seen, wanted)


TEST_FAILED = status(422, "Invalid", "the server rejected our request")


def test_a_write_is_one_conditional_patch(server: ApiServer, api: ApiClient) -> None:
    assert apply(api, [_write()], recompute=_recompute) == Applied(done=(_write(),))
    assert server.seen[0].body == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-w1"},
        {"op": "test", "path": "/metadata/labels/zone", "value": None},
        {"op": "add", "path": "/metadata/labels/zone", "value": "a"},
    ]


def test_check_mode_names_the_same_writes_and_sends_nothing(
    server: ApiServer,
    api: ApiClient,
) -> None:
    writes = [_write("w1"), _write("w2")]
    assert apply(api, writes, recompute=_recompute, check=True) == Applied(done=tuple(writes))
    assert not server.seen


@pytest.mark.parametrize("conflict", [TEST_FAILED, status(409, "Conflict")], ids=["test", "409"])
def test_a_conflict_is_read_and_computed_again(
    server: ApiServer,
    api: ApiClient,
    conflict: Reply,
) -> None:
    server.plays(conflict, _node("b"), answer({}))
    assert apply(api, [_write()], recompute=_recompute).done == (_write(before="b"),)


def test_object_that_has_the_wanted_value_meanwhile_is_unchanged(
    server: ApiServer,
    api: ApiClient,
) -> None:
    server.plays(TEST_FAILED, _node("a"))
    result = apply(api, [_write()], recompute=_recompute)
    assert result == Applied(unchanged=(Ref("Node", "", "w1"),))


LOST = {"reset": RESET, "500": status(500, "InternalError"), "proxy": Reply(200, b"<html>")}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_lost_answer_is_read_before_anything_is_sent_again(
    server: ApiServer,
    api: ApiClient,
    lost: Reply,
) -> None:
    server.plays(lost, _node("a"))
    assert apply(api, [_write()], recompute=_recompute).done == (_write(),), (
        "the first request was applied"
    )
    assert [seen.method for seen in server.seen] == ["PATCH", "GET"]
    server.seen.clear()
    server.plays(lost, _node(None), answer({}))
    assert apply(api, [_write()], recompute=_recompute).done == (_write(),), (
        "the first request was not applied"
    )
    assert [seen.method for seen in server.seen] == ["PATCH", "GET", "PATCH"]


def test_another_object_of_the_same_name_is_not_touched(
    server: ApiServer,
    api: ApiClient,
) -> None:
    server.plays(TEST_FAILED, _node("b", uid="other"))
    (failed,) = apply(api, [_write()], recompute=_recompute).failed
    assert isinstance(failed.error, Replaced)
    assert len(server.seen) == 2


def test_write_fails_after_eight_conflicts(server: ApiServer, api: ApiClient) -> None:
    server.plays(*[TEST_FAILED, _node("b")] * 20)
    (failed,) = apply(api, [_write()], recompute=_recompute).failed
    assert isinstance(failed.error, errors.TestFailed)
    assert [seen.method for seen in server.seen].count("PATCH") == 8


def test_write_that_recompute_refuses_fails_for_its_object(
    server: ApiServer,
    api: ApiClient,
) -> None:
    def refuse(_write: Write, _manifest: t.Any) -> Write | None:
        raise InvalidInput([InputError("w1", "volumes depend on it now")])

    server.plays(TEST_FAILED, _node("b"))
    (failed,) = apply(api, [_write()], recompute=refuse).failed
    assert str(failed.error) == "w1: volumes depend on it now"


def test_one_failure_does_not_stop_the_others(
    server: ApiServer,
    api: ApiClient,
) -> None:
    server.plays(status(403, "Forbidden"), answer({}))
    writes = [_write(f"w{n}") for n in range(5)]
    result = apply(api, writes, recompute=_recompute, threads=1)
    assert result.done == tuple(writes[1:])
    assert [failed.write for failed in result.failed] == writes[:1]


def test_without_credentials_the_rest_is_not_sent(
    server: ApiServer,
    api: ApiClient,
) -> None:
    server.plays(status(401, "Unauthorized"))
    result = apply(api, [_write("w1"), _write("w2")], recompute=_recompute, threads=1)
    assert [type(failed.error) for failed in result.failed] == [errors.Unauthorized, NotSent]
    assert len(server.seen) == 2


def test_answer_that_lacks_what_was_written_is_reported(server: ApiServer, api: ApiClient) -> None:
    server.plays(_node(None), _node("a"))
    first, second = (
        apply(api, [_write()], recompute=_recompute, compare=True) for _number in range(2)
    )
    assert list(first.changed_back) == [Ref("Node", "", "w1")]
    assert first.done == (_write(),), "it was written all the same"
    assert second.changed_back == {}


def test_tried_writes_are_dry_runs_with_their_answers(server: ApiServer, api: ApiClient) -> None:
    server.plays(_node("a"), status(403, "Forbidden", "no"))
    assert try_writes(api, [_write()])[Ref("Node", "", "w1")] is not None
    refused = try_writes(api, [_write()])[Ref("Node", "", "w1")]
    assert isinstance(refused, errors.Forbidden)
    assert all("dryRun=All" in request.target for request in server.seen)


def test_only_what_refuses_the_write_itself_refuses_it_in_check_mode() -> None:
    request = errors.ApiRequest("PATCH", "/api/v1/nodes/w1")
    answers = {
        Ref("Node", "", name): answer
        for name, answer in {
            "policy": errors.Forbidden(request, "ValidatingAdmissionPolicy 'x' denied request: no"),
            "webhook": errors.ApiError(request, 'admission webhook "x" denied the request: no'),
            "dry": errors.ApiError(request, 'admission webhook "x" does not support dry run'),
            "moved": errors.TestFailed(request, "the patch does not apply"),
            "fine": {},
        }.items()
    }
    assert [ref.name for ref in refusals(answers)] == ["policy", "webhook"]
