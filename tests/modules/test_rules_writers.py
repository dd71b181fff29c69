# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several writers of the same objects at the same time, and servers that fail: nothing is lost,
and what is reported is what happened."""

from __future__ import annotations

import threading
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import ApiClient
from ansible_collections.virt.placement.plugins.module_utils.api.connection import open_session
from ansible_collections.virt.placement.plugins.module_utils.api.transport import (
    Deadline,
    Transport,
)
from ansible_collections.virt.placement.plugins.module_utils.flows.rules import write_rules
from ansible_collections.virt.placement.plugins.module_utils.rules.rules_request import RulesRequest
from sandbox import Sandbox, objects
from sandbox.fault_proxy import Rule as Fault
from sandbox.fault_proxy import lost_answer, status
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages
from tests.parsed import parsed
from tests.shop import PATIENCE

from .rules_task import RulesTask, anti_affinity

VM = "VirtualMachine"
NAMES = ["a", "b"]


@pytest.fixture
def task(six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> RulesTask:
    task = RulesTask(six, run_module, namespace(six, "rules"))
    for name in NAMES:
        task.create(objects.virtual_machine(name, run_strategy="Halted"))
    return task


class Writer:
    """Writes its rule to the VMs in odd rounds, and removes it in even ones."""

    def __init__(self, task: RulesTask, name: str, rule_type: dict[str, t.Any]) -> None:
        self.task = task
        self.rule = {"name": name, "workloads": [{"names": NAMES}], **rule_type}
        config = str(task.sandbox.kubeconfig("mover"))
        self._transport = Transport(lambda: open_session({"kubeconfig": config}))
        self.problems: list[t.Any] = []

    def write(self, absent: bool) -> None:
        api = ApiClient(self._transport, Deadline(PATIENCE))
        namespace = self.task.namespace
        rules = parsed([self.rule], namespace=namespace, rule_set="s", absent=absent)
        state = "absent" if absent else "present"
        outcome = write_rules(api, RulesRequest(namespace, "s", rules, state=state), check=False)
        self.problems += [*outcome.errors.values(), *outcome.plan.refused]


@pytest.mark.parametrize("rounds", [40, pytest.param(200, marks=pytest.mark.sweep)])
def test_two_writers_lose_nothing(task: RulesTask, rounds: int) -> None:
    mark = task.sandbox.audit.mark()
    before = {name: task.placement(VM, name) for name in NAMES}
    writers = [
        Writer(task, "nodes", {"run_on": {"zone": "zone1"}}),
        Writer(task, "apart", {"keep_apart": {"topology_key": "zone"}}),
    ]
    barrier = threading.Barrier(len(writers))

    def work(writer: Writer) -> None:
        for number in range(rounds):
            barrier.wait(PATIENCE)
            writer.write(absent=bool(number % 2))
            barrier.wait(PATIENCE)
            _expect(writer, number)

    def _expect(writer: Writer, number: int) -> None:
        spec = task.get(VM, NAMES[number % len(NAMES)])["spec"]["template"]["spec"]
        terms = spec.get("affinity") or {}
        wanted = set() if number % 2 else {"nodeAffinity", "podAntiAffinity"}
        if set(terms) != wanted:
            writer.problems.append((number, terms))

    threads = [threading.Thread(target=work, args=(writer,), daemon=True) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not [thread for thread in threads if thread.is_alive()]
    assert [writer.problems for writer in writers] == [[], []]
    assert {name: task.placement(VM, name) for name in NAMES} == before
    writes = task.sandbox.audit.writes("mover", since=mark)
    conflicts = [write for write in writes if write.code in (409, 422)]
    assert conflicts, "no write conflicted: the test proves nothing"


def test_affinity_that_changes_between_read_and_write_is_kept(task: RulesTask) -> None:
    """The foreign term is added during planning; it is kept, and our term is added."""
    foreign = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [foreign]}
    writer = Writer(task, "apart", {"keep_apart": {"topology_key": "zone"}})

    def interfere(*_seen: t.Any) -> tuple[()]:
        affinity = {"op": "add", "path": "/spec/template/spec/affinity"}
        task.patch(VM, "a", [{**affinity, "value": {"podAntiAffinity": required}}])
        return ()

    rules = parsed([writer.rule], namespace=task.namespace, rule_set="s")
    outcome = write_rules(
        ApiClient(writer._transport, Deadline(PATIENCE)),
        RulesRequest(task.namespace, "s", rules),
        check=False,
        extra_findings=interfere,
    )
    assert not outcome.errors
    terms = anti_affinity(task.get(VM, "a"))
    assert terms[0] == foreign
    assert len(terms) == 2
    assert not task({**writer.rule}, rule_set="s")["changed"]
    task(rule_set="s", prune=True)
    assert anti_affinity(task.get(VM, "a")) == [foreign]


APART = {"name": "apart", "workloads": [{"names": NAMES}], "keep_apart": {"topology_key": "zone"}}


def test_a_write_whose_answer_is_lost_is_made_once_and_counted(task: RulesTask) -> None:
    start = task.sandbox.audit.mark()
    with task.sandbox.fault_proxy(
        [Fault("PATCH", "/virtualmachines/a", lost_answer(), 1)]
    ) as proxy:
        result = task(APART, kubeconfig=str(proxy.kubeconfig("mover")))
    assert result["counts"] == {"workloads": 2, "changed": 2, "unchanged": 0, "failed": 0}
    writes = task.sandbox.audit.writes(since=start)
    assert sorted((w.name, w.code) for w in writes) == [("a", 200), ("b", 200)]
    assert not task(APART)["changed"]


def test_successful_and_failed_writes_are_both_reported(task: RulesTask) -> None:
    with task.sandbox.fault_proxy([Fault("PATCH", "/virtualmachines/a", status(403))]) as proxy:
        result = task(APART, kubeconfig=str(proxy.kubeconfig("mover")))
    assert result["failed"]
    assert result["changed"]
    assert result["counts"] == {"workloads": 2, "changed": 1, "unchanged": 0, "failed": 1}
    assert [(workload["name"], workload["changed"]) for workload in result["workloads"]] == [
        ("a", False),
        ("b", True),
    ]
    assert len(error_messages(result)) == 1
    assert "cannot patch virtualmachines.kubevirt.io a" in result["msg"]
    second = task(APART)
    assert [write["name"] for write in second["writes"]] == ["a"]


def test_a_label_is_not_put_on_pods_whose_template_could_not_be_written(task: RulesTask) -> None:
    task.create(objects.virtual_machine("c"))
    task.running("c")
    rule = {"name": "group", "workloads": [{"name": "c"}], "label": {"group.example/x": "y"}}
    with task.sandbox.fault_proxy([Fault("PATCH", "/virtualmachines/c", status(403))]) as proxy:
        result = task(rule, kubeconfig=str(proxy.kubeconfig("mover")))
    assert result["failed"]
    assert not result["changed"]
    assert sum("was not labelled" in error for error in error_messages(result)) == 2
    assert "group.example/x" not in task.get("VirtualMachineInstance", "c")["metadata"]["labels"]
    assert task(rule)["counts"]["changed"] == 1


GROUP = {"name": "group", "workloads": [{"name": "c"}], "label": {"group.example/x": "y"}}
NO_PODS = Fault("PATCH", "/pods/", status(403))


def _group_labels(task: RulesTask) -> list[set[str]]:
    """Our test's labels on the VM's template, its VMI and its pod."""
    vmi = task.get("VirtualMachineInstance", "c")
    pod = task.launcher(vmi)
    template = task.get(VM, "c")["spec"]["template"]["metadata"]
    objects_metadata = (template, vmi["metadata"], pod["metadata"])
    label_maps = [metadata.get("labels", {}) for metadata in objects_metadata]
    return [{key for key in labels if key.startswith("group.example/")} for labels in label_maps]


def test_template_keeps_a_label_until_it_is_removed_from_all_pods(task: RulesTask) -> None:
    task.create(objects.virtual_machine("c"))
    task.running("c")
    task(GROUP)
    before = _group_labels(task)
    assert before == [{"group.example/x"}] * 3
    with task.sandbox.fault_proxy([NO_PODS]) as proxy:
        result = task({"name": "group"}, state="absent", kubeconfig=str(proxy.kubeconfig("mover")))
    assert result["failed"]
    assert "cannot patch pods" in error_messages(result)[1]
    assert "was not written, since Pod" in error_messages(result)[0]
    assert "group" in str(task.ours(VM, "c")["placement.virt/rules"]["rules"])
    assert _group_labels(task) == [before[0], set(), before[2]]
    again = task({"name": "group"}, state="absent")
    assert [write["kind"] for write in again["writes"]] == ["Pod", VM]
    assert _group_labels(task) == [set()] * 3
    assert set(task.ours(VM, "c")) == {"placement.virt/undo"}, "what would undo the removal"
    assert not task({"name": "group"}, state="absent")["changed"]


def test_old_label_is_removed_from_the_pod_before_the_template(task: RulesTask) -> None:
    """The old label is removed from the pod before the template. The new one is added to the pod last."""
    task.create(objects.virtual_machine("c"))
    task.running("c")
    task(GROUP)
    other = {**GROUP, "label": {"group.example/z": "y"}}
    with task.sandbox.fault_proxy([NO_PODS]) as proxy:
        result = task(other, kubeconfig=str(proxy.kubeconfig("mover")))
    assert result["failed"]
    assert _group_labels(task) == [{"group.example/x"}, set(), {"group.example/x"}]
    planned_writes = task(other, check=True)["writes"]
    start = task.sandbox.audit.mark()
    assert task(other)["writes"] == planned_writes
    assert [write.resource for write in task.sandbox.audit.writes("mover", start)] == [
        "pods",
        "virtualmachines",
        "virtualmachineinstances",
        "pods",
    ]
    assert _group_labels(task) == [{"group.example/z"}] * 3
    assert not task(other)["changed"]
