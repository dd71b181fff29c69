# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds whatever a tenant writes: each module ends with a result, others get the verdicts that they
got before, and nothing is written outside of what the task was asked for."""

from __future__ import annotations

import copy
import functools
import json
import typing as t

from ansible_collections.virt.placement.plugins.module_utils.model.kinds import JOURNAL
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import RunJournal
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.scheduler.labels import is_label_value
from tests.support.api_server import ApiServer, Fault
from tests.support.modules import Result, run

from . import cluster
from .cluster import OTHERS, TENANT, Object, Objects, template_of
from .forged import FORGED_KEY
from .values import FORGED

Task = tuple[str, Result, bool]
Writes = list[tuple[str, str]]

ALLOWED = sorted(
    {
        "bare_pod",
        "pending_changes",
        "no_place",
        "eviction_fails",
        "migration_refused",
        "pdb_impossible",
    }
)

TASKS: tuple[Task, ...] = (
    ("placement_info", {"details": "all"}, True),
    ("placement_info", {"namespaces": [OTHERS], "details": "all"}, True),
    ("lint_info", {"online": True}, True),
    ("lint_info", {"online": True, "rules": cluster.RULES, "namespace": OTHERS}, True),
    ("forecast_info", {"namespace": OTHERS, "rules": cluster.RULES}, True),
    ("forecast_info", {"namespace": TENANT, "rules": cluster.RULES}, True),
    ("forecast_info", {"unavailable": {"zone": "a"}}, True),
    ("forecast_info", {"unavailable": {"nodes": ["w1"]}, "event": "failure"}, True),
    ("drill_info", {"domains_of": ["node", "zone"]}, True),
    ("rules", {"namespace": OTHERS, "rules": cluster.RULES, "workload_rollout": "allow"}, True),
    ("rules", {"namespace": TENANT, "rules": cluster.RULES, "workload_rollout": "allow"}, True),
    ("rules", {"namespace": TENANT, "prune": True, "workload_rollout": "allow"}, True),
    ("rules", {"namespace": OTHERS, "state": "reverted", "workload_rollout": "allow"}, True),
    ("rules", {"namespace": TENANT, "state": "reverted", "workload_rollout": "allow"}, True),
    ("rules", {"namespace": TENANT, "state": "reverted", "workload_rollout": "allow"}, False),
    ("rules_info", {"declarations": True}, True),
    ("topology_info", {}, True),
    ("rollout", {"namespaces": [OTHERS]}, True),
    ("rollout", {"namespaces": [OTHERS]}, False),
    (
        "rollout",
        {"namespaces": [TENANT], "scope": "all", "allow": list(map(str, Method))[:3]},
        True,
    ),
    ("rollout", {"namespaces": [TENANT], "scope": "not_enforced", "allow": ["restart"]}, False),
    ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, True),
    ("node_maintenance", {"nodes": ["w1"], "state": "drained"}, False),
    ("node_maintenance", {"nodes": ["w1"], "state": "in_service"}, True),
    ("node_labels", {"per_node": {"w1": {"zone": "b"}}}, True),
)
"""Modules with options, and whether they run in check mode."""

WRITING: tuple[Task, ...] = (
    ("rules", {"namespace": OTHERS, "prune": True, "workload_rollout": "allow"}, False),
    ("rules", {"namespace": TENANT, "prune": True, "workload_rollout": "allow"}, False),
    ("node_labels", {"per_node": {"w1": {"zone": "b"}, "w4": {"zone": "a"}}, "force": True}, False),
    *(task for task in TASKS if not task[2]),
    ("rollout", {"namespaces": [TENANT], "scope": "all", "allow": ["recreate"]}, False),
    *(
        (
            "node_maintenance",
            {"nodes": ["w1"], "state": "drained", "vm_policy": policy, "allow_findings": ALLOWED},
            False,
        )
        for policy in ("migrate", "restart", "stop")
    ),
    ("node_maintenance", {"nodes": ["w1"], "state": "cordoned"}, False),
    ("node_maintenance", {"nodes": ["w1"], "state": "in_service"}, False),
)

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@functools.cache
def base() -> Objects:
    """The cluster with the rules of both namespaces, as KubeVirt has copied them to VMIs and pods. The
    workloads have undo records."""
    server = ApiServer(cluster.objects())
    for namespace in (OTHERS, TENANT):
        options = {"namespace": namespace, "rules": cluster.RULES, "workload_rollout": "allow"}
        assert "failed" not in run("rules", server, options)
    objects = copy.deepcopy(server.objects)
    for item in objects.values():
        if item["kind"] == "VirtualMachine":
            _copy_placement(item, objects)
    return objects


def _copy_placement(vm: Object, objects: Objects) -> None:
    placement = {
        name: value
        for name, value in template_of(vm)["spec"].items()
        if name in ("affinity", "topologySpreadConstraints")
    }
    for item in objects.values():
        labels = item["metadata"].get("labels") or {}
        same = item["metadata"].get("namespace") == vm["metadata"]["namespace"]
        of_vm = vm["metadata"]["name"] in (item["metadata"]["name"], labels.get("vm"))
        if item["kind"] in ("VirtualMachineInstance", "Pod") and same and of_vm:
            item["spec"] |= copy.deepcopy(placement)


@functools.cache
def journal() -> str:
    """The journal of a run that has a migration and a recreation in flight."""
    vm = Ref("VirtualMachine", OTHERS, "web0")
    vmi = Ref("VirtualMachineInstance", OTHERS, "web0")
    pods = Ref("Deployment", OTHERS, "cache"), Ref("Pod", OTHERS, "cache-h1-0")
    text = RunJournal("r0123456789", "0123456789abcdef", 12.5)
    for instance, workload, method in (
        (vmi, vm, Method.MIGRATE),
        (pods[1], pods[0], Method.RECREATE),
    ):
        uid = f"{instance.kind}-{OTHERS}-{instance.name}".lower()
        record = MoveRecord(instance, uid, workload, method, "w1", 1, 3.0)
        text = text.begin(record, [uid, "other"])
    return journals.write(text)


MARK = (
    '{"run":"r0123456789","reason":"firmware","phase":"draining","boot_id":"boot-w1",'
    '"cordoned":true,"since":"2026-05-01T08:00:00Z"}'
)


def check(task: Task, objects: Objects) -> tuple[Result, Writes]:
    """Runs a task on these objects. Raises AssertionError and whatever the task raises. A move that the
    journal has is continued wherever it is: who may write the Lease is trusted."""
    server = ApiServer(objects)
    return _check(task, server), server.writes


def check_refused(task: Task, case: tuple[Objects, t.Sequence[Fault]]) -> None:
    """As `check` while the server refuses writes, and afterwards."""
    objects, refusals = case
    server = ApiServer(objects, refusals)
    _check(task, server)
    server.faults.clear()
    lease = server.objects[f"{LEASE}/virt-placement"]
    server.objects[f"{LEASE}/virt-placement"] = {
        **lease,
        "spec": {**lease["spec"], "holderIdentity": ""},  # its holder is seen to be dead
    }
    _check(task, server)


def _check(task: Task, server: ApiServer) -> Result:
    name, options, check_mode = task
    objects = dict(server.objects)
    result = run(name, server, options, check=check_mode)
    assert not (check_mode and server.writes), server.writes
    json.dumps(result, ensure_ascii=False).encode()  # as Ansible does: half a character is refused
    _check_texts(result)
    _check_rules(result)
    if name == "rules" and options.get("state") == "reverted":
        assert FORGED_KEY not in json.dumps([result.get("workloads"), _templates(server.objects)])
    if not _journal_of(objects) and (text := _journal_of(server.objects)):
        journals.read(text)  # the next run can go on with it
    return result


def _check_rules(result: Result) -> None:
    """A rule that is listed has names as options have them, and is on workloads of its namespace alone."""
    for rule in result.get("rules") or ():
        if "rule_set" in rule:
            assert is_label_value(rule["rule_set"]), rule
            assert is_label_value(rule["name"]), rule
            assert {x["namespace"] for x in rule["workloads"]} == {rule["namespace"]}, rule


def _templates(objects: Objects) -> list[Object]:
    return [template_of(x) for x in objects.values() if x["kind"] in cluster.WORKLOADS]


def _journal_of(objects: Objects) -> str:
    metadata = objects.get(f"{LEASE}/virt-placement", {}).get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(JOURNAL, ""))


def check_others(task: Task, objects: Objects) -> Result:
    """As `check`, and the verdicts and findings of others are those of the cluster before."""
    name, options, _check_mode = task
    result, writes = check(task, objects)
    if name != "node_maintenance":  # it empties a node, whose ever the pods are
        _check_writes(options, writes)
    if name in ("placement_info", "lint_info", "rules_info"):
        assert _about_others(result) == _about_others(_before(task)), task
    return result


def check_apart(task: Task, objects: Objects) -> None:
    """As `check_others`, and so are forecasts and plans: what the tenant has changed takes no room and has no
    terms about pods of others."""
    name, options, check_mode = task
    result = check_others(task, objects)
    assert not any(f" {OTHERS}/" in error["object"] for error in result.get("errors", ())), task
    if TENANT in (options.get("namespace"), *options.get("namespaces", ())) or not check_mode:
        return
    refused = "failed" in result
    if refused and name == "node_maintenance":  # since the tenant has pods on the node, too
        return
    before = _before(task)
    assert refused == ("failed" in before), result["msg"]
    changed = _entries_of_others(result) ^ _entries_of_others(before)
    assert not changed, (task, changed)


_results: dict[str, Result] = {}


def _before(task: Task) -> Result:
    key = repr(task)
    if key not in _results:
        _results[key], _writes = check(task, copy.deepcopy(base()))
    return _results[key]


def _about_others(result: Result) -> t.Any:
    """Verdicts of instances, findings and rules of the namespace of the others."""
    assert "failed" not in result, result["msg"]
    instances = [
        {
            "instance": entry["instance"],
            "verdict": entry["verdict"],
            "rules": [(rule["rule"], rule["verdict"], rule["enforced"]) for rule in entry["rules"]],
        }
        for entry in result.get("instances") or ()
        if entry["instance"]["namespace"] == OTHERS
    ]
    findings = {
        (finding["name"], finding["severity"], ref)
        for finding in result.get("findings") or ()
        for ref in finding["objects"]
        if f" {OTHERS}/" in ref
    }
    rules = [rule for rule in result.get("rules") or () if rule["namespace"] == OTHERS]
    return instances, findings, rules


_CHOSEN = {"to_node", "after"}
"""Of a move: one of its targets, which the pods of all tenants decide, and which moves come first."""

_ONE_OF_SEVERAL = {"name", "instance", "pod", "message"}
"""Of what stays without a node: which of several alike, and beside which other one."""


def _entries_of_others(result: Result) -> set[tuple[str, str, str]]:
    """The entries of all lists of a result, and of its failure domains, that are about an instance of the
    others. What is down until its node is fenced makes no domain one with an impact."""
    domains = [part for part in result.get("domains") or () if isinstance(part, dict)]
    return {
        (part.get("domain", ""), name, json.dumps(kept, sort_keys=True))
        for part in (result, *domains)
        for name, listed in part.items()
        if isinstance(listed, list) and name != "down_until_fenced"
        for entry in listed
        if isinstance(entry, dict) and _namespace(entry) == OTHERS
        for chosen in [_ONE_OF_SEVERAL if name in ("pending", "blocked") else _CHOSEN]
        for kept in [{key: _unordered(entry[key]) for key in entry.keys() - chosen}]
    }


def _unordered(value: t.Any) -> t.Any:
    return (
        sorted(value)
        if isinstance(value, list) and all(isinstance(x, str) for x in value)
        else value
    )


def _namespace(entry: Result) -> str:
    instance = entry.get("instance")
    about = instance if isinstance(instance, dict) else entry
    return str(about.get("namespace", ""))


def _check_writes(options: Result, writes: Writes) -> None:
    """Only the Lease, and Events and objects of the namespaces of a task."""
    namespaces = [*options.get("namespaces", ()), *filter(None, [options.get("namespace")])]
    inside = tuple(f"/namespaces/{namespace}/" for namespace in namespaces)
    for method, path in writes:
        assert path.startswith(LEASE) or any(part in path for part in inside), (method, path)


def _check_texts(result: Result) -> None:
    """What a console prints has no control characters. A table has several lines, as has a message with
    several errors, of which each is on lines of its own."""
    shown = [*result["warnings"], *result.get("progress", ()), *_reasons(result)]
    lists = [line for text in (result.get("msg", ""), _table(result)) for line in text.split("\n")]
    for text in (*shown, *lists):
        assert text.isprintable(), ascii(text[:200])
        assert not text.startswith(FORGED), text[:200]
    for line in result.get("msg", "").split("\n")[1:]:
        assert line.startswith("- "), ascii(line[:200])


_EXPLAINING = {"reason", "reasons", "message", "why", "advice"}


def _reasons(value: t.Any, name: str = "") -> t.Iterator[str]:
    """The texts in fields that explain something, at any depth."""
    if isinstance(value, str) and name in _EXPLAINING:
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _reasons(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _reasons(inner, name)


def _table(result: Result) -> str:
    table = result.get("table")
    return table if isinstance(table, str) else ""
