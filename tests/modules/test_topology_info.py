# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""topology_info against a real control plane."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import topology_info
from sandbox import Sandbox
from tests.conftest import RunModule, error_messages

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def info(article: Sandbox, run_module: RunModule) -> t.Iterator[t.Callable[..., dict[str, t.Any]]]:
    def run(identity: str = "reader", **options: t.Any) -> dict[str, t.Any]:
        params = {"kubeconfig": str(article.kubeconfig(identity)), **options}
        return run_module(topology_info.main, params)

    for node, zone in {"kni-worker": "scu", "kni-worker2": "scu", "kni-worker3": "izz"}.items():
        article.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {ZONE: zone}}})
    yield run
    article.restore_nodes()


def test_domains_missing_nodes_and_findings(article: Sandbox, info: t.Any) -> None:
    start = article.audit.mark()
    result = info()
    assert not result["changed"]
    assert result["domains"]["zone"] == {
        "izz": {"nodes": ["kni-worker3"], "count": 1, "takes_pods": 1},
        "scu": {"nodes": ["kni-worker", "kni-worker2"], "count": 2, "takes_pods": 2},
    }
    assert result["missing"]["zone"] == [
        "kni-control-plane",
        "kni-worker4",
        "kni-worker5",
        "kni-worker6",
    ]
    assert result["counts"] == {"nodes": 7, "takes_pods": 6}
    (incomplete,) = [f for f in result["findings"] if f["name"] == "topology_incomplete"]
    assert incomplete["objects"] == [f"Node kni-worker{n}" for n in (4, 5, 6)]
    assert "zone         izz" in result["table"]
    (warning,) = result["warnings"]
    assert "topology_incomplete: kni-worker4, kni-worker5, kni-worker6 take" in str(warning)
    requests = article.audit.requests(start, article.username("reader"))
    assert [(seen.verb, seen.resource) for seen in requests] == [
        ("list", "nodes"),
        ("get", "namespaces"),
    ]


def test_keys_that_the_user_declares(info: t.Any) -> None:
    result = info(topology_keys={"rack": "example.com/rack"})
    assert result["domains"]["rack"] == {}
    assert len(result["missing"]["rack"]) == 7
    assert any(
        found["name"] == "no_node_has_key" and "example.com/rack" in found["why"]
        for found in result["findings"]
    )


def test_a_vocabulary_that_is_none(info: t.Any) -> None:
    result = info(topology_keys={"rack": None, "row": 3})
    assert error_messages(result) == [
        "topology_keys.rack: must be a label key, not null",
        "topology_keys.row: must be a label key, not the number 3",
    ]
