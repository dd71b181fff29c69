# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an audit log says of the rights that were used, and what the comparison with rbac/ reports."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from dev import rights
from sandbox import used_rights
from sandbox.used_rights import Right, Use

LIST_PODS = Right("list", "", "pods")
PATCH_NODES = Right("patch", "", "nodes")


def line(
    right: Right, role: str = "reader", agent: str = "virt-placement", **more: t.Any
) -> dict[str, t.Any]:
    resource, _slash, subresource = right.resource.partition("/")
    target = {"resource": resource, "subresource": subresource, "apiGroup": right.group}
    reason = (
        f'RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "virt-placement-{role}" to User'
    )
    return {
        "user": {"username": "virt-placement:mover"},
        "userAgent": agent,
        "verb": right.verb,
        "objectRef": {**{key: value for key, value in target.items() if value}, "name": right.name},
        "annotations": {
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": reason,
        },
        **more,
    }


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., set[Use]]:
    """What is recorded of a log with these lines."""
    monkeypatch.setenv(used_rights.DIRECTORY, str(tmp_path / "rights"))

    def record(*lines: dict[str, t.Any]) -> set[Use]:
        log = tmp_path / "audit.jsonl"
        texts = [json.dumps(one, separators=(",", ":")) for one in lines]
        log.write_text("\n".join([*texts, '{"userAgent":"virt-placement","cut']))
        used_rights.record(log)
        return used_rights.read(tmp_path / "rights")

    return record


def test_record_names_the_role_that_allowed_a_request(recorded: t.Any) -> None:
    eviction = Right("create", "", "pods/eviction")
    lease = Right("patch", "coordination.k8s.io", "leases", "virt-placement")
    in_namespace = line(lease)
    in_namespace["annotations"]["authorization.k8s.io/reason"] = (
        'RBAC: allowed by RoleBinding "x/kube-system" of Role "virt-placement-mover" to User "m"'
    )
    assert recorded(line(LIST_PODS), line(LIST_PODS), line(eviction, "mover"), in_namespace) == {
        Use("mover", "reader", LIST_PODS, True),
        Use("mover", "mover", eviction, True),
        Use("mover", "mover", lease, True),
    }


def test_record_knows_each_identity_that_has_roles(recorded: t.Any) -> None:
    """A name with a dash is one role."""
    user = {"username": "virt-placement:capi-reader"}
    use = Use("capi-reader", "capi-reader", LIST_PODS, True)
    assert recorded(line(LIST_PODS, "capi-reader", user=user)) == {use}


def test_record_leaves_requests_of_others_out(recorded: t.Any) -> None:
    admin = line(LIST_PODS, user={"username": "admin"})
    path_only = line(LIST_PODS, objectRef=None)
    assert recorded(admin, path_only, line(LIST_PODS, agent="sandbox-mover")) == set()


def test_refused_request_is_reported(recorded: t.Any) -> None:
    decision = {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    uses = recorded(line(PATCH_NODES, annotations=decision))
    assert rights.refused(uses) == {("mover", PATCH_NODES)}
    assert PATCH_NODES in rights.unused(uses)["labeler"]


def test_right_is_used_by_the_role_that_allowed_it(recorded: t.Any) -> None:
    uses = recorded(line(LIST_PODS), line(PATCH_NODES, "labeler"))
    assert LIST_PODS not in rights.unused(uses)["reader"]
    assert "labeler" not in rights.unused(uses)
    assert PATCH_NODES in rights.unused(uses)["maintainer"]


def test_right_that_all_users_have_is_used_by_each_role(recorded: t.Any) -> None:
    review = Right("create", "authorization.k8s.io", "selfsubjectaccessreviews")
    uses = recorded(line(review, ""))
    assert uses == {Use("mover", "", review, True)}
    assert review not in rights.unused(uses)["reader"]


def test_get_list_and_watch_are_one_right(recorded: t.Any) -> None:
    assert Right("watch", "", "pods") in rights.unused(set())["reader"]
    assert Right("watch", "", "pods") not in rights.unused(recorded(line(LIST_PODS)))["reader"]


def test_exceptions_are_about_rights_that_are_granted_or_not() -> None:
    granted = rights.granted()
    assert [key for key in rights.RARE if key[1] not in granted[key[0]]] == []
    assert [key for key in rights.REFUSED if key[1] in granted["reader"]] == []


def test_comparison_names_what_is_granted_in_vain(
    recorded: t.Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(line(LIST_PODS))
    assert rights.main([str(tmp_path / "rights")]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert "granted, but not used: patch nodes (rbac/labeler.yml)" in printed
    assert not any("list pods" in text or "placement.virt" in text for text in printed)


def test_comparison_fails_without_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rights.main([str(tmp_path)]) == 1
    assert "has no records" in capsys.readouterr().out
