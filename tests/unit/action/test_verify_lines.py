# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of the role placement_verify."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from tests.unit.action.plays import played

ROLE = Path(__file__).resolve().parents[3] / "roles" / "placement_verify"


def instance(namespace: str, verdict: str) -> dict[str, t.Any]:
    vmi = {"kind": "VirtualMachineInstance", "namespace": namespace, "name": "db"}
    return {"instance": vmi, "verdict": verdict, "node": "w1", "rules": []}


@pytest.mark.parametrize("verdict", ["violated", "pending"])
def test_rollout_is_advised_for_the_namespaces_with_violations_alone(
    tmp_path: Path, verdict: str
) -> None:
    facts = {
        "placement_verify_result": {
            "instances": [instance("shop", verdict), instance("lab", verdict)],
            "summary": {verdict: 2},
        },
        "__placement_verify_options": {"fail_on": ["violated", "pending"]},
    }
    failures = "{{ __placement_verify_failures | join(' ') }}"
    done = played(
        tmp_path,
        [
            {"ansible.builtin.include_vars": str(ROLE / "vars" / "main.yml")},
            {"ansible.builtin.set_fact": facts},
            {"ansible.builtin.debug": {"msg": failures}},
        ],
        "-v",
    )
    assert f"Verification failed: 2 {verdict}. " in done.stdout, done.stdout[-3000:]
    advised = (
        "To move every VM that violates a rule, run the playbook rollout for lab, shop."
        in done.stdout
    )
    assert advised == (verdict == "violated")


def test_rollout_is_not_advised_where_no_move_repairs(tmp_path: Path) -> None:
    """And a finding of the severity error fails the role where that is asked for."""
    rules = [{"rule": "shop/default/db", "moves_needed": None, "moves_counted": True}]
    finding = {
        "name": "selector_matches_nothing",
        "severity": "error",
        "why": "Why.",
        "advice": "Advice.",
        "objects": ["VirtualMachine shop/db"],
        "rule": "db",
    }
    facts = {
        "placement_verify_result": {
            "instances": [instance("shop", "violated")],
            "summary": {"violated": 1, "violated_rules": rules},
            "findings": [finding, {**finding, "severity": "warning"}],
        },
        "__placement_verify_options": {"fail_on": ["violated", "error_finding"]},
    }
    done = played(
        tmp_path,
        [
            {"ansible.builtin.include_vars": str(ROLE / "vars" / "main.yml")},
            {"ansible.builtin.set_fact": facts},
            {"ansible.builtin.debug": {"msg": "{{ __placement_verify_failures | join(' ') }}"}},
        ],
        "-v",
    )
    assert "violates a rule, run the playbook rollout for shop" not in done.stdout
    assert "No move repairs these rules as the cluster is now" in done.stdout, done.stdout[-2000:]
    assert "Verification failed: 1 error_finding." in done.stdout
    text = "selector_matches_nothing (rule db) of VirtualMachine shop/db: Why. Advice."
    assert text in done.stdout


@pytest.mark.parametrize("count", [0, 2])
def test_passed_verification_counts_what_is_not_enforced(tmp_path: Path, count: int) -> None:
    facts = {
        "placement_verify_result": {
            "instances": [],
            "summary": {"not_enforced": count, "preference_missed": count},
        },
        "__placement_verify_options": {"fail_on": ["violated"]},
    }
    done = played(
        tmp_path,
        [
            {"ansible.builtin.include_vars": str(ROLE / "vars" / "main.yml")},
            {"ansible.builtin.set_fact": facts},
            {"ansible.builtin.debug": {"msg": "{{ __placement_verify_passed | join(' ') }}"}},
        ],
        "-v",
    )
    assert "Verification passed: no instance is in one of these states: violated." in done.stdout, (
        done.stdout[-3000:]
    )
    assert (f"{count} not_enforced: " in done.stdout) == (count > 0)
    missed = f"{count} on nodes that do not meet a preferred rule"
    assert (missed in done.stdout) == (count > 0)
