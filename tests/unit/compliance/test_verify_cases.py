# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judge on whole clusters whose verdicts the real scheduler's code gave (tests/conformance)."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.compliance.judge import judge
from ansible_collections.virt.placement.plugins.module_utils.model.manifests import (
    namespace_from_manifest,
    node_from_manifest,
    pod_from_manifest,
)
from ansible_collections.virt.placement.plugins.module_utils.model.snapshot import Snapshot
from ansible_collections.virt.placement.plugins.module_utils.model.verdict import Verdict

FOLDER = Path(__file__).resolve().parents[2] / "conformance" / "cases"
RULES = {"NodeAffinity", "PodTopologySpread", "InterPodAffinity"}


def cases() -> t.Iterator[t.Any]:
    for path in sorted(FOLDER.glob("sample-verify-*.json")):
        for case in json.loads(path.read_text())["cases"]:
            yield pytest.param(case, id=case["id"])


@pytest.mark.parametrize("case", list(cases()))
def test_agrees_with_the_scheduler(case: dict[str, t.Any]) -> None:
    found = judge(
        Snapshot(
            nodes=tuple(map(node_from_manifest, case["nodes"])),
            pods=tuple(map(pod_from_manifest, case["pods"])),
            namespaces=tuple(map(namespace_from_manifest, case.get("namespaces", ()))),
        ),
        details=True,
    )

    verdicts = {f"{v.instance.namespace}/{v.instance.name}": v for v in found.instances}
    endangered = {f"{h.instance.namespace}/{h.instance.name}" for h in found.risks}
    repelled = {
        f"{risk.instance.namespace}/{risk.instance.name}"
        for risk in found.risks
        if risk.kind == "other_namespace"
    }
    assert case["expect"]
    for expected in case["expect"]:
        verdict = verdicts.get(expected["pod"])
        if verdict is None:
            # What is being deleted is judged by nobody.
            assert expected["pod"] in terminating(case)
            continue
        broken = set(expected["violations"])
        # Anti-affinity of a pod in another namespace is a risk here: the rule is that pod's.
        refused = verdict.verdict is Verdict.VIOLATED or expected["pod"] in repelled
        assert refused == bool(broken & RULES), expected
        if broken - RULES:
            assert expected["pod"] in endangered
        assert sorted(verdict.feasible_if_restarted) == expected["feasibleIfRestarted"]


def terminating(case: dict[str, t.Any]) -> set[str]:
    return {
        f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
        for pod in case["pods"]
        if "deletionTimestamp" in pod["metadata"]
    }
