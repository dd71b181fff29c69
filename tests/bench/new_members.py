# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The creation of a VM that a policy gives its rules, beside the same creation without the policy.

One policy has 50 rules of 20 VMs each by name. Both creations are dry runs on the same API server and take turns; a
VM of the first rule, of the last one, and one of no rule.
"""

from __future__ import annotations

import statistics
import time
import typing as t
from dataclasses import replace
from pathlib import Path

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import RULES
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Namespace
from ansible_collections.virt.placement.plugins.module_utils.new_members import plan
from ansible_collections.virt.placement.plugins.module_utils.new_members.policy import MUTATES_SINCE
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from sandbox import ApiFailure, Sandbox, objects
from tests.parsed import parsed
from tests.unit.rules.builders import snapshot

from .row import Promise, Row

CLUSTER = Path(__file__).with_name("live.yml")
RULE_COUNT, MEMBERS = 50, 20
TURNS = 200
PATIENCE = 60
MOST_MILLISECONDS = 20
WITH, WITHOUT = "with-policy", "without-policy"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TYPES: tuple[dict[str, t.Any], ...] = (
    {"keep_apart": HOST},
    {"run_on": {ZONE: ["a", "b"]}},
    {"keep_together": ZONE, "preferred": True},
    {"avoid": {"zone.example/class": "y"}},
    {"spread": ZONE},
)
PLURALS = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
}


def rows(*, small: bool = False) -> list[Row]:
    """`small` only shows that it runs."""
    turns = 2 if small else TURNS
    with Sandbox.start(CLUSTER) as sandbox:
        for namespace in (WITH, WITHOUT):
            sandbox.api.create(sandbox.api.path("Namespace"), {"metadata": {"name": namespace}})
        for manifest in manifests(WITH):
            path = f"/apis/{manifest['apiVersion']}/{PLURALS[manifest['kind']]}"
            sandbox.api.create(path, manifest)
        _wait(sandbox)
        first, last, other = (
            [_turn(sandbox, name, has_rules, number) for number in range(turns)]
            for name, has_rules in ((vm_name(0), True), (vm_name(-1), True), ("other", False))
        )
    members = [*first, *last]
    text = "milliseconds more for a VM with rules, median"
    more = statistics.median(ours - without for ours, without in members)
    promises = () if small else (Promise(text, more, MOST_MILLISECONDS),)
    return [
        Row(
            f"creation of a VM, {RULE_COUNT} rules with {MEMBERS} VMs each",
            "ms",
            statistics.median(ours for ours, _without in members),
            {"without the policy": statistics.median(without for _ours, without in members)},
            promises=promises,
            also={
                "ms more for a VM of no rule": statistics.median(
                    ours - without for ours, without in other
                )
            },
        )
    ]


def manifests(namespace: str) -> tuple[t.Any, ...]:
    """The policy and its binding."""
    empty = snapshot(namespaces=(Namespace(namespace),))
    empty = replace(empty, platform=replace(empty.platform, kubernetes=MUTATES_SINCE))
    rules = parsed(declared_rules(), namespace=namespace)
    request = RulesRequest(namespace, "default", rules, new_members="policy")
    planned = plan.plan_policies(request, empty)
    if planned.why_none or planned.not_covered:
        raise RuntimeError(f"no policy for all rules: {planned.why_none} {planned.not_covered}")
    return planned.manifests


def declared_rules() -> list[dict[str, t.Any]]:
    """Rules of several types, each about VMs of its own."""
    return [
        {
            "name": f"rule-{number}",
            "workloads": [f"vm-{number}-{member}" for member in range(MEMBERS)],
            **TYPES[number % len(TYPES)],
        }
        for number in range(RULE_COUNT)
    ]


def vm_name(rule: int) -> str:
    """The last member of a rule, by its place in the list."""
    name: str = declared_rules()[rule]["workloads"][-1]
    return name


def _turn(sandbox: Sandbox, name: str, has_rules: bool, number: int) -> tuple[float, float]:
    """Milliseconds of the creation with the policy and without it; each comes first in every other turn. Raises
    RuntimeError where the policy, whose errors are ignored, did not write the rules."""
    milliseconds = {}
    for namespace in (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH):
        milliseconds[namespace], written = _create(sandbox, namespace, name)
        if written is not (has_rules and namespace == WITH):
            raise RuntimeError(f"{namespace}: {name} has {'' if written else 'no '}rules")
    return milliseconds[WITH], milliseconds[WITHOUT]


def _create(sandbox: Sandbox, namespace: str, name: str) -> tuple[float, bool]:
    """Milliseconds, and whether the VM has rules."""
    path, vm = sandbox.api.path("VirtualMachine", namespace), objects.virtual_machine(name)
    vm["metadata"]["namespace"] = namespace
    started = time.perf_counter()
    answer = sandbox.api.request("POST", path, vm, query={"dryRun": "All"})
    milliseconds = (time.perf_counter() - started) * 1000
    return milliseconds, RULES in answer.json()["metadata"].get("annotations", {})


def _wait(sandbox: Sandbox) -> None:
    """Until the policy is in force. A kind is unavailable to it until the API server has read its schema."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            if _create(sandbox, WITH, vm_name(-1))[1]:
                return
        except ApiFailure as failure:
            if failure.status != 503:
                raise
        time.sleep(0.2)
    raise RuntimeError(f"the policy is not in force after {PATIENCE} s")
