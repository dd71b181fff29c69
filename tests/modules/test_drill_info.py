# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module drill_info against a real control plane: each domain in turn, and nothing is written."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.modules import drill_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule

JSON = t.Any
ZONE = "topology.kubernetes.io/zone"
WEB = ("web-a", "web-b", "web-c")


class Drilled:
    """One namespace of a sandbox, and the module run on it. No run may write."""

    def __init__(self, sandbox: Sandbox, run_module: RunModule, namespace: str) -> None:
        self.sandbox = sandbox
        self.namespace = namespace
        self._run = run_module

    def __call__(self, *, identity: str = "reader", **options: t.Any) -> dict[str, t.Any]:
        start = self.sandbox.audit.mark()
        params = {"kubeconfig": str(self.sandbox.kubeconfig(identity)), **options}
        result = self._run(drill_info.main, params)
        assert self.sandbox.audit.writes(since=start) == []
        assert not result["changed"]
        return result

    def three_pods(self, placement: JSON) -> None:
        deployment = objects.deployment("web", replicas=3, placement=placement)
        deployment["metadata"]["namespace"] = self.namespace
        self.sandbox.api.create(self.sandbox.api.path("Deployment", self.namespace), deployment)
        self.sandbox.api.wait_list(
            self.sandbox.api.path("Pod", self.namespace),
            lambda pods: len([pod for pod in pods if pod["spec"].get("nodeName")]) == 3,
        )


@pytest.fixture
def drilled(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> Drilled:
    return Drilled(six, run_module, namespace(six, "drill"))


def one_per_zone() -> JSON:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    }


@pytest.mark.tour
def test_each_zone_that_fails_leaves_one_pod_unschedulable(drilled: Drilled) -> None:
    drilled.three_pods(one_per_zone())

    result = drilled(domains_of=["zone", "example.com/rack", "node"])

    assert result["left_out"] == ["example.com/rack"]
    assert "no node has the label example.com/rack" in str(result["warnings"])
    assert result["forecast"] == "impossible"
    assert result["counts"]["domains"] == 9
    assert len(result["domains"]) + len(result["without_impact"]) == 9
    zones = [domain for domain in result["domains"] if domain["topology_key"] == ZONE]
    assert {domain["domain"] for domain in zones} == {"zone1", "zone2", "zone3"}
    assert {domain["min_unschedulable"] for domain in zones} == {1}
    assert all(domain["blocked"][0]["filter"] == "InterPodAffinity" for domain in zones)
    lines = result["table"].splitlines()
    assert lines[1].split()[:2] == ["FAILURE", "INSTANCES"]
    assert any(
        line.startswith(f"unschedulable if zone zone1 fails: Pod {drilled.namespace}/web-")
        for line in lines
    )
    impact = result["counts"]["impact"]
    assert lines[-1] == "example.com/rack: left out, since no node has the label example.com/rack"
    assert lines[-2] == f"{9 - impact} of 9 failures: no impact, not listed above"


def test_drill_after_rules_that_are_not_written_yet(drilled: Drilled) -> None:
    drilled.three_pods({})
    apart = {
        "name": "one-per-zone",
        "workloads": [{"kind": "Deployment", "name": "web"}],
        "keep_apart": {"topology_key": "zone"},
    }

    now = drilled(domains_of=["zone"], event="drain")
    then = drilled(domains_of=["zone"], event="drain", namespace=drilled.namespace, rules=[apart])

    assert (now["forecast"], now["domains"]) == ("guaranteed", [])
    assert now["table"] == "3 of 3 drains: no impact"
    assert then["forecast"] in ("impossible", "possible", "unknown")


def test_without_rights_the_forecast_is_unknown(drilled: Drilled) -> None:
    result = drilled(identity="nobody", domains_of=["zone"])

    assert (result["forecast"], result["domains"]) == ("unknown", [])
    assert result["counts"] == {"domains": 0, "impact": 0}
    assert "nodes" in {gap["resource"] for gap in result["permission_gaps"]}
    assert all(reason.startswith("unknown: cannot ") for reason in result["reasons"])
    assert result["table"].splitlines() == result["reasons"]


def test_every_invalid_option_is_named_at_once(drilled: Drilled) -> None:
    result = drilled(
        domains_of=["rak", "zone"],
        scale=[{"name": "web", "replicas": -1}],
        rules=[{"name": "x"}],
    )

    assert result["failed"]
    for option in ("domains_of[0]", "replicas", "namespace"):
        assert option in result["msg"]


def test_topology_key_that_no_node_has_is_an_error(drilled: Drilled) -> None:
    result = drilled(domains_of=[])
    assert result["msg"] == "domains_of: is empty: name what may fail, such as node"
    result = drilled(domains_of=["example.com/rack"])

    assert result["failed"]
    assert "domains_of: no node has the label example.com/rack" in result["msg"]
