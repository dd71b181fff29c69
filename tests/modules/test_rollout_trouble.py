# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rollout where something gets in its way: rights, other people's changes, held roll-outs, names.

What was done is returned, the Lease is given back, and nothing is disrupted on old news.
"""

from __future__ import annotations

import contextlib
import copy
import datetime
import os
import re
import secrets
import signal
import time
import typing as t
from collections import Counter

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.connection import USER_AGENT
from ansible_collections.virt.placement.plugins.module_utils.cluster import leader
from ansible_collections.virt.placement.plugins.module_utils.kubevirt.labels import vmi_id
from ansible_collections.virt.placement.plugins.module_utils.model.objects import Ref
from ansible_collections.virt.placement.plugins.module_utils.model.plan import Method
from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.moves import journal as journals
from ansible_collections.virt.placement.plugins.module_utils.moves import migrate, step
from ansible_collections.virt.placement.plugins.module_utils.moves.journal import (
    RunJournal,
    digest,
)
from ansible_collections.virt.placement.plugins.module_utils.moves.move import MoveRecord
from ansible_collections.virt.placement.plugins.module_utils.rollout.options import parse_options
from ansible_collections.virt.placement.plugins.modules import placement_info, rollout
from sandbox import Sandbox, drain, node_faults, objects, processes
from sandbox.fault_proxy import Rule, sigkill
from sandbox.processes import PidFile, alive
from tests.conftest import error_messages
from tests.shop import HOSTNAME, LEASE, PATIENCE, ZONE, Object, Shop, forget_runs
from tests.terms import apart_over_zone, keep_machines_apart, pair_on_one_node

JOURNAL = "placement.virt/journal"
MOVER = "/apis/rbac.authorization.k8s.io/v1/clusterroles/virt-placement-mover"
MIGRATIONS = "virtualmachineinstancemigrations"
MIGRATION = ("create", MIGRATIONS)
SLOW = {"sandbox.virt/migration-seconds": "4"}


@pytest.fixture
def shop(six: Sandbox, namespace: t.Any, run_module: t.Any) -> t.Iterator[Shop]:
    forget_runs(six.api)
    yield Shop(six, namespace(six, "trouble"), run_module)
    forget_runs(six.api)
    for node in six.api.list("/api/v1/nodes"):
        if node["spec"].get("unschedulable"):
            drain.uncordon(six, node["metadata"]["name"])


def three_in_one_zone(shop: Shop, faults: Object | None = None) -> list[str]:
    names = ["a0", "a1", "a2"]
    shop.start(
        *(objects.virtual_machine(name, shop.namespace, annotations=faults) for name in names),
        nodes=["w1", "w2"],
    )
    keep_machines_apart(shop, names)
    return names


def has_begun(shop: Shop) -> bool:
    return bool(shop.api.list(shop.path("VirtualMachineInstanceMigration")))


@contextlib.contextmanager
def given_back(shop: Shop) -> t.Iterator[t.Callable[[], object]]:
    """Yields what takes the mover's right to create migrations away; afterwards it has it again."""
    before = shop.api.get(MOVER)["rules"]
    less = copy.deepcopy(before)
    for rule in less:
        if MIGRATIONS in rule["resources"]:
            rule["verbs"].remove("create")
    mover = shop.sandbox.api_as("mover")
    right = {"verb": "create", "group": "kubevirt.io", "resource": MIGRATIONS}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**right, "namespace": shop.namespace}},
    }

    def write(rules: list[Object], *, may_migrate: bool) -> None:
        shop.api.patch(MOVER, {"rules": rules})
        shop.api.wait(  # until the API server's authorizer has heard of it
            lambda _role: (
                mover.create(mover.path("SelfSubjectAccessReview"), review)["status"]["allowed"]
                is may_migrate
            ),
            MOVER,
            PATIENCE,
        )

    try:
        yield lambda: write(less, may_migrate=False)
    finally:
        write(before, may_migrate=True)


def test_a_right_that_is_taken_away_ends_the_run_with_what_was_done(shop: Shop) -> None:
    three_in_one_zone(shop, SLOW)
    mark = shop.sandbox.audit.mark()
    with (
        given_back(shop) as take_away,
        shop.meanwhile(until=lambda: has_begun(shop), do=take_away),
    ):
        result = shop.roll()

    assert result["failed"]
    assert f"grant this identity the verb 'create' on '{MIGRATIONS}'" in result["msg"]
    assert [move["state"] for move in result["moves"]] == ["moved"]
    assert result["changed"] is True
    assert shop.lease()["spec"]["holderIdentity"] == ""

    again = shop.roll()

    assert not again.get("failed"), again.get("msg")
    assert not any("waiting up to" in line for line in again["progress"])
    assert shop.zones() == ["zone1", "zone2", "zone3"]
    tried = [w.code for w in shop.sandbox.audit.writes(since=mark) if w.resource == MIGRATIONS]
    assert sorted(tried) == [201, 201, 403]


def test_rollout_that_waits_reads_each_list_once_a_step(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that hangs, and VMs of the namespace that change meanwhile."""
    pair = pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "600"})
    steps: list[Object] = []
    run_module = shop._run_module

    def counted(*arguments: t.Any, **flags: t.Any) -> Object:
        steps.append(run_module(*arguments, **flags))
        return steps[-1]

    def disturb() -> bool:
        labels = {"metadata": {"labels": {"seen": secrets.token_hex(4)}}}
        shop.api.patch(shop.path("VirtualMachineInstance", pair[0]), labels)
        return False

    monkeypatch.setattr(shop, "_run_module", counted)
    mark = shop.sandbox.audit.mark()
    with shop.meanwhile(until=disturb, do=lambda: None):
        result = shop.roll(run_timeout=20)

    assert result["failed"], result["progress"]
    requests = [
        event
        for event in shop.sandbox.audit.requests(since=mark)
        if event.user_agent == USER_AGENT and event.resource != "kubevirts"
    ]
    uris = (event.uri for event in requests if event.verb == "list")
    lists = Counter(x.partition("?")[0] for x in uris if not re.search("continue=|Selector=", x))
    looks = [x for x in requests if (x.verb, x.resource) == ("get", MIGRATIONS)]
    assert set(lists.values()) == {len(steps)}
    assert len(looks) > 2 * len(steps), "it reconciled more often than it read"
    watched = {event.resource for event in requests if event.verb == "watch"}
    assert {"pods", "nodes", "virtualmachines", "virtualmachineinstances"} <= watched


@contextlib.contextmanager
def stopped(sandbox: Sandbox, process: str) -> t.Iterator[None]:
    """A process of the control plane does nothing meanwhile, as if it hung."""
    known = (PidFile(sandbox.directory).read() or {})["processes"][process]
    assert alive(known)
    os.kill(known["pid"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(known["pid"], signal.SIGCONT)


def test_virt_controller_that_does_not_answer_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The migration has no phase, which a living virt-controller gives to each at once. Afterwards it is canceled, and
    the next rollout moves the VM."""
    monkeypatch.setattr(migrate, "CANCEL_PATIENCE", 2.0)
    monkeypatch.setattr(migrate, "ANSWER_PATIENCE", 4.0)
    names = pair_on_one_node(shop)
    for name in names:
        path = shop.path("VirtualMachineInstance", name)
        shop.api.wait(lambda vmi: "affinity" in vmi["spec"], path)
    with stopped(shop.sandbox, "virt-controller"):
        result = shop.roll(move_timeout=10)

    silence = (
        r"virt-controller does not answer to migration placement-r\w+-\w+-1 for (\d+) s: see Deployment"
        r" virt-controller in namespace kubevirt"
    )
    named = [
        line for line in result["progress"] if "waits: virt-controller does not answer" in line
    ]
    assert len(named) == 1, result["progress"]
    assert re.search(rf"^the migration of VirtualMachine \S+ waits: {silence}$", named[0])
    assert result["failed"]
    assert result["msg"].startswith("1 canceled migration did not end: ")
    seconds = re.search(silence, result["msg"])
    assert seconds is not None, result["msg"]
    assert int(seconds[1]) >= 10
    assert "virt-handler" not in result["msg"]

    again = shop.roll()
    assert not again.get("failed"), again["msg"]
    assert len({shop.zone(node) for node in shop.nodes().values()}) == len(names)


def test_virt_controller_that_has_ended_is_named_by_its_lease(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Number 15 of issue 41. The migration has its phase already. A Deployment starts virt-controller again, and the
    next rollout moves the VM."""
    monkeypatch.setattr(leader, "LOOK_EVERY", 1.0)
    monkeypatch.setattr(leader, "STALE_AFTER", 8.0)
    monkeypatch.setattr(step, "REMIND_AFTER", 3.0)
    names = pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "15"})
    for name in names:
        path = shop.path("VirtualMachineInstance", name)
        shop.api.wait(lambda vmi: "affinity" in vmi["spec"], path)

    def migrating() -> bool:
        migrations = shop.api.list(shop.path("VirtualMachineInstanceMigration"))
        return any(m.get("status", {}).get("phase") for m in migrations)

    with contextlib.ExitStack() as stack:
        ended = shop.sandbox.without("virt-controller")
        with shop.meanwhile(until=migrating, do=lambda: stack.enter_context(ended)):
            result = shop.roll(run_timeout=40)

    silence = (
        r"virt-controller does not answer: its Lease kubevirt/virt-controller was renewed last at \S+;"
        " see Deployment virt-controller in namespace kubevirt"
    )
    lines = result["progress"]
    named = [x for x in lines if re.search(rf"^the migration of \S+ \S+ waits: {silence}$", x)]
    assert len(named) == 1, "\n".join(lines)
    reminders = [x for x in lines if re.search(r"^still waiting: migrating .* since \S+ \S+ \(", x)]
    assert len(reminders) >= 2, lines
    assert re.search(silence, reminders[-1])
    assert re.search(silence, result["msg"])

    again = shop.roll(failures_allowed=1)  # its migration was canceled
    assert not again.get("failed"), again["msg"]
    assert len({shop.zone(node) for node in shop.nodes().values()}) == len(names)


def test_api_server_that_is_paused_is_named_and_the_run_goes_on(shop: Shop) -> None:
    """Number 15 of issue 41. virt-controller loses its Lease meanwhile and ends; here as on a cluster it is started
    again."""
    names = pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "8"})
    began = processes.started_again(shop.sandbox.directory).get("virt-controller", (0, 0))[0]

    def pause() -> None:
        with stopped(shop.sandbox, "kube-apiserver"):
            time.sleep(20)

    with shop.meanwhile(until=lambda: has_begun(shop), do=pause):
        result = shop.roll()

    lines = "\n".join(result["progress"])
    assert not result.get("failed"), result["msg"]
    assert re.search(r"no answer from the API server since \d\d:\d\d:\d\d ", lines), lines
    assert "the API server, which was away since " in lines
    assert len({shop.zone(node) for node in shop.nodes().values()}) == len(names)
    times, _code = processes.started_again(shop.sandbox.directory)["virt-controller"]
    assert times > began


def test_case_63_namespace_made_restricted_after_the_start(shop: Shop) -> None:
    """Only an event says why no target pod is created."""
    names = pair_on_one_node(shop)
    for name in names:
        path = shop.path("VirtualMachineInstance", name)
        shop.api.wait(lambda vmi: "affinity" in vmi["spec"], path)
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    shop.api.patch(f"/api/v1/namespaces/{shop.namespace}", {"metadata": {"labels": label}})

    result = shop.roll(move_timeout=24)

    refusal = r"no pod is created for it \(newest event FailedCreate\): .*violates PodSecurity"
    lines = result["progress"]
    named = [x for x in lines if re.search(rf"^the migration of \S+ \S+ waits: {refusal}", x)]
    assert len(named) == 1, "\n".join(lines)
    assert result["failed"]
    assert re.search(f"canceled because it took too long: {refusal}", result["msg"]), result["msg"]


def test_canceled_migration_that_does_not_end_delays_no_other_vm(
    shop: Shop, namespace: t.Any, run_module: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node dies while virt-handler copies the guest: virt-controller waits for ever."""
    monkeypatch.setattr(migrate, "CANCEL_PATIENCE", 2.0)
    endless = {"sandbox.virt/migration-seconds": "600"}
    groups = {"w1": ["p0", "p1"], "w3": ["q0", "q1"]}
    for node, names in groups.items():
        faults = endless if node == "w1" else None
        machines = [objects.virtual_machine(x, shop.namespace, annotations=faults) for x in names]
        shop.start(*machines, nodes=[node])
        keep_machines_apart(shop, names)

    def copying() -> bool:
        migrations = shop.api.list(shop.path("VirtualMachineInstanceMigration"))
        return any(m.get("status", {}).get("phase") == "Running" for m in migrations)

    other = Shop(shop.sandbox, namespace(shop.sandbox, "other"), run_module)
    try:
        with shop.meanwhile(until=copying, do=lambda: node_faults.node_down(shop.api, "w1")):
            result = shop.roll(max_parallel=1, move_timeout=25)
        lease = shop.lease()
        elsewhere = other.roll()
    finally:
        node_faults.node_up(shop.api, "w1")

    assert result["failed"]
    assert "1 canceled migration did not end" in result["msg"]
    assert re.search(
        rf"VirtualMachineInstance {shop.namespace}/p\d on w1: its migration was canceled and is still"
        " Running",
        result["msg"],
    )
    assert [(move["instance"][0], move["state"]) for move in result["moves"]] == [("q", "moved")]
    assert [skipped["instance"][0] for skipped in result["skipped_instances"]] == ["p"]
    assert lease["spec"]["holderIdentity"] == ""
    (record,) = journals.read(lease["metadata"]["annotations"][JOURNAL]).records
    assert record.phase == "given_up"
    assert not elsewhere.get("failed"), elsewhere.get("msg")
    assert elsewhere["moves"] == []


def test_run_after_its_timeout_names_the_migrations_in_flight(shop: Shop) -> None:
    """Another pair stays where it is: the list of skipped instances has all that the message names."""
    pair_on_one_node(shop, faults={"sandbox.virt/migration-seconds": "40"})
    stays = {"placement.virt/do-not-move": "true"}
    kept = [objects.virtual_machine(name, shop.namespace) for name in ("k0", "k1")]
    for vm in kept:
        vm["metadata"]["labels"] = stays
    shop.start(*kept, nodes=["w3"])
    keep_machines_apart(shop, ["k0", "k1"])

    result = shop.roll(run_timeout=20)

    assert result["failed"]
    assert "goes on without this task, and the next one continues it: Virtual" in result["msg"]
    skipped = {x["instance"]: x for x in result["skipped_instances"]}
    assert set(re.findall(rf"VirtualMachineInstance {shop.namespace}/(\w+)", result["msg"])) == set(
        skipped
    )
    (moving,) = (x for name, x in skipped.items() if name not in ("k0", "k1"))
    assert moving["method"] == "migrate"
    assert moving["reason"].startswith("goes on without this task")
    again = shop.roll()
    assert [move["state"] for move in again["moves"]] == ["moved"]


def test_two_vms_that_block_each_other_are_named_with_the_remediation(shop: Shop) -> None:
    """Each is to be on the node of the other, and they keep apart."""
    homes = {"m1": "w1", "m2": "w2"}
    for name, node in homes.items():
        shop.start(objects.virtual_machine(name, shop.namespace), nodes=[node])
    apart = apart_over_zone(list(homes))["podAntiAffinity"]
    for term in apart["requiredDuringSchedulingIgnoredDuringExecution"]:
        term["topologyKey"] = HOSTNAME
    for name, node in (("m1", "w2"), ("m2", "w1")):
        there = {"key": HOSTNAME, "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        affinity = {"podAntiAffinity": apart, "nodeAffinity": required}
        shop.patch_template("VirtualMachine", name, {"affinity": affinity})

    result = shop.roll()

    assert not result["moves"]
    reasons = {skipped["name"]: skipped["reason"] for skipped in result["skipped_instances"]}
    assert f"it and VirtualMachineInstance {shop.namespace}/m2 on w2 block" in reasons["m1"]
    assert f"it and VirtualMachineInstance {shop.namespace}/m1 on w1 block" in reasons["m2"]
    assert "Add a node that one of them may use, or stop m1, move m2, and start m1" in reasons["m1"]
    path = shop.path("VirtualMachine", "m1")
    shop.api.patch(path, {"spec": {"runStrategy": "Halted"}})
    shop.api.wait_gone(shop.path("VirtualMachineInstance", "m1"))
    assert [move["name"] for move in shop.roll()["moves"]] == ["m2"]
    shop.api.patch(path, {"spec": {"runStrategy": "Always"}})
    shop.wait_ready(2)
    assert shop.nodes() == {"m1": "w2", "m2": "w1"}


def test_a_quota_that_holds_a_migration_is_named_at_once(shop: Shop) -> None:
    pair_on_one_node(shop)
    limit(shop, "pods", 2)

    result = shop.roll(move_timeout=60)

    assert result["failed"]
    refusal = f"ResourceQuota {shop.namespace}/compute has no room for a second pod"
    numbers = "it allows 2 pods, and 3 are needed"
    (held,) = [line for line in result["progress"] if "waits: ResourceQuota" in line]
    assert f"{refusal}: {numbers}" in held
    assert f"{refusal}: {numbers}" in result["msg"]
    assert result["moves"][0]["seconds"] < 60, "no other move could free a pod"
    assert not shop.api.list(shop.path("VirtualMachineInstanceMigration"))


def test_migration_that_a_quota_delays_continues_after_the_one_before(shop: Shop) -> None:
    """Three VMs in one zone need two migrations, and the quota has room for one at a time."""
    three_in_one_zone(shop, SLOW)
    limit(shop, "pods", 4)

    result = shop.roll(max_parallel=2)

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved", "moved"]


def test_quota_that_refuses_migrations_fails_each_move_alone(shop: Shop) -> None:
    """Of the pair one has to move. The other one is tried too."""
    names = pair_on_one_node(shop)
    counted = f"count/{MIGRATIONS}.kubevirt.io"
    limit(shop, counted, 0)

    result = shop.roll(failures_allowed=2)

    assert sorted(move["name"] for move in result["moves"]) == sorted(names), result
    refusal = f"is forbidden: exceeded quota: compute, requested: {counted}=1"
    assert all(refusal in move["reason"] for move in result["moves"])
    assert "in flight" not in result.get("msg", "")


def limit(shop: Shop, resource: str, count: int) -> None:
    metadata = {"name": "compute", "namespace": shop.namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    path = shop.api.path("ResourceQuota", shop.namespace)
    shop.api.create(path, {**quota, "spec": {"hard": {resource: str(count)}}})
    shop.api.wait(
        lambda q: (q.get("status") or {}).get("used", {}).get(resource), f"{path}/compute"
    )


def stopped_in_flight(shop: Shop) -> list[str]:
    """Two VMs, one of them on its way, and a run of them that ended because a third was deleted."""
    names = pair_on_one_node(shop, faults=SLOW)
    extra = objects.virtual_machine("x0", shop.namespace, run_strategy="Halted")
    shop.api.create(shop.api.collection_of(extra), extra)
    with shop.meanwhile(
        until=lambda: has_begun(shop),
        do=lambda: shop.api.delete(shop.path("VirtualMachine", "x0")),
    ):
        result = shop.roll(workloads=[{"names": [*names, "x0"]}])

    assert result["failed"]
    assert "there is no VirtualMachine 'x0'" in result["msg"]
    assert re.search(
        r"the next rollout continues the moves in flight: .*/p\d \(migrate\)$", result["msg"]
    )
    lease = shop.lease()
    assert lease["spec"]["holderIdentity"] == ""
    assert len(journals.read(lease["metadata"]["annotations"][JOURNAL]).records) == 1
    return names


@pytest.mark.parametrize("elsewhere", [False, True])
def test_deleted_workload_ends_the_run_and_the_next_run_continues_at_once(
    shop: Shop, namespace: t.Any, run_module: t.Any, elsewhere: bool
) -> None:
    """Also where the next one is about another namespace."""
    mark = shop.sandbox.audit.mark()
    names = stopped_in_flight(shop)
    other = Shop(shop.sandbox, namespace(shop.sandbox, "other"), run_module)

    again = other.roll() if elsewhere else shop.roll(workloads=[{"names": names}])

    assert not again.get("failed"), again.get("msg")
    assert not any("waiting up to" in line for line in again["progress"])
    assert any("taking over the moves in flight" in line for line in again["progress"])
    if elsewhere:
        assert (again["moves"], again["changed"]) == ([], False), "they are not of this namespace"
        assert any("of an earlier run: migrate of" in line for line in again["progress"])
    else:
        assert [move["state"] for move in again["moves"]] == ["moved"]
        assert again["changed"] is True
    assert len(set(shop.zones())) == 2
    assert shop.disruptions(mark) == [MIGRATION]


def test_a_reader_gets_a_list_of_all_missing_rights_before_a_write(shop: Shop) -> None:
    pair_on_one_node(shop)
    mark = shop.sandbox.audit.mark()

    result = shop.roll(kubeconfig=str(shop.sandbox.kubeconfig("reader")))

    assert result["failed"]
    of_moves, of_lease = sorted(error_messages(result), key=lambda error: "the Role" in error)
    assert f"may not create or delete {MIGRATIONS}.kubevirt.io in" in of_moves
    assert "grant this identity the ClusterRole virt-placement-mover (rbac/mover.yml)" in of_moves
    assert (
        "get or patch leases.coordination.k8s.io virt-placement in namespace kube-system: grant"
        " this identity the Role virt-placement-mover (rbac/mover.yml)"
    ) in of_lease
    assert shop.sandbox.audit.writes(since=mark) == []


@pytest.mark.parametrize("check", [False, True], ids=["run", "check mode"])
def test_missing_lease_names_the_manifest_that_creates_it(shop: Shop, check: bool) -> None:
    pair_on_one_node(shop)
    shop.api.delete(LEASE)
    mark = shop.sandbox.audit.mark()

    result = shop.roll(check=check)

    assert result["failed"]
    assert "Lease kube-system/virt-placement: does not exist" in result["msg"]
    assert "kubectl apply -f rbac/lease.yml" in result["msg"]
    assert shop.sandbox.audit.writes(since=mark) == []


def test_missing_lease_is_created_for_an_administrator(shop: Shop) -> None:
    pair_on_one_node(shop)
    shop.api.delete(LEASE)
    admin = str(shop.sandbox.kubeconfig("admin"))
    mark = shop.sandbox.audit.mark()

    result = shop.roll(check=True, kubeconfig=admin)
    assert not result.get("failed"), result["msg"]
    assert "would create Lease kube-system/virt-placement" in result["progress"]
    assert shop.sandbox.audit.writes(since=mark) == []
    assert shop.api.find(LEASE) is None

    result = shop.roll(kubeconfig=admin)
    assert not result.get("failed"), result["msg"]
    assert result["progress"].count("created Lease kube-system/virt-placement") == 1
    assert shop.lease()["spec"]["holderIdentity"] == ""
    assert shop.lease()["spec"]["leaseTransitions"] == 1


def test_check_mode_asks_for_the_rights_of_a_run(shop: Shop) -> None:
    pair_on_one_node(shop)
    result = shop.roll(check=True, kubeconfig=str(shop.sandbox.kubeconfig("reader")))
    assert result["failed"]
    assert f"may not create or delete {MIGRATIONS}.kubevirt.io in" in result["msg"]
    assert "patch leases.coordination.k8s.io" in result["msg"]
    assert shop.roll(check=True)["changed"] is True


def test_a_takeover_outside_the_window_sends_no_new_request(shop: Shop) -> None:
    """A run died between its journal and its request; the next one may not move now."""
    pair_on_one_node(shop)
    (planned,) = shop.roll(check=True)["moves"]
    name = planned["instance"]
    entry = MoveRecord(
        Ref("VirtualMachineInstance", shop.namespace, name),
        planned["uid"],
        Ref("VirtualMachine", shop.namespace, name),
        Method.MIGRATE,
        planned["from_node"],
        1,
        0.0,
    )
    shop.hold_lease("")
    text = journals.write(RunJournal("r-dead", "another", records=(entry,)))
    shop.api.patch(LEASE, {"metadata": {"annotations": {JOURNAL: text}}})
    tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=12)
    later = tomorrow + datetime.timedelta(hours=1)
    window = {"start": f"{tomorrow:%H:%M}", "end": f"{later:%H:%M}", "timezone": "UTC"}
    mark = shop.sandbox.audit.mark()

    result = shop.roll(window=window)

    assert not result.get("failed"), result.get("msg")
    assert "outside of the window" in result["stop_reason"]
    deferred_line = (
        f"VirtualMachine {shop.namespace}/{name} is not moved for now: outside of the window"
    )
    assert any(line.startswith(deferred_line) for line in result["progress"])
    assert [move["uid"] for move in result["deferred"]] == [planned["uid"]]
    assert shop.disruptions(mark) == []

    again = shop.roll()

    assert not again.get("failed"), again.get("msg")
    assert shop.disruptions(mark) == [MIGRATION]
    assert len(set(shop.zones())) == 2


def test_a_budget_that_never_yields_changes_nothing_and_is_named(shop: Shop) -> None:
    web = objects.deployment("web", shop.namespace, replicas=2)
    shop.start(web, nodes=["w1"])
    shop.add_budget("web-serves", {"app": "web"}, maxUnavailable=0)
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["recreate"], scope="all")

    assert not result.get("failed"), result.get("msg")
    assert result["changed"] is False
    assert result["moves"] == []
    why = f"PodDisruptionBudget {shop.namespace}/web-serves never allows a disruption"
    assert [why in skipped["reason"] for skipped in result["skipped_instances"]] == [True, True]
    assert shop.disruptions(mark) == []


def test_instance_that_migrated_before_its_deletion_is_not_deleted(shop: Shop) -> None:
    shop.start(objects.replica_set("web", shop.namespace, replicas=2), nodes=["w1"])
    term = {"labelSelector": {"matchLabels": {"kubevirt.io/domain": "web"}}, "topologyKey": ZONE}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    shop.patch_template("VirtualMachineInstanceReplicaSet", "web", {"affinity": required})
    before = shop.uids()
    seen: list[str] = []

    def somebody_migrates_it() -> None:
        """The very instance that is looked at last before its deletion."""
        name = proxy.requests[-1].path.split("?")[0].rpartition("/")[2]
        seen.append(name)
        drain.cordon(shop.sandbox, "w2")  # in the same zone
        made = objects.migration(name, shop.namespace, name="by-hand")
        shop.api.create(shop.path("VirtualMachineInstanceMigration"), made)
        path = shop.path("VirtualMachineInstance", name)
        shop.api.wait(lambda vmi: vmi["status"].get("nodeName") != "w1", path)

    mark = shop.sandbox.audit.mark()
    rule = Rule("GET", "/virtualmachineinstances/web", sigkill(somebody_migrates_it), nth=1)
    with shop.sandbox.fault_proxy([rule]) as proxy:
        result = shop.roll(allow=["recreate"], kubeconfig=str(proxy.kubeconfig("mover")))

    assert not result.get("failed"), result.get("msg")
    assert len(seen) == 1
    assert any("is not moved for now: it runs on" in line for line in result["progress"])
    assert shop.disruptions(mark) == []
    assert shop.uids() == before
    assert (result["moves"], result["skipped_instances"], result["changed"]) == ([], [], False)


def apart(spec: Object) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    required = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {**spec, "affinity": required}


def test_a_paused_deployment_is_left_at_once(shop: Shop) -> None:
    shop.start(objects.deployment("web", shop.namespace, replicas=2), nodes=["w1"])
    patch = {"spec": {"paused": True, "template": {"spec": apart({})}}}
    shop.api.patch(shop.path("Deployment", "web"), patch)
    mark = shop.sandbox.audit.mark()

    result = shop.roll(allow=["recreate"])

    assert not result.get("failed"), result.get("msg")
    assert not any(line.startswith("waiting: ") for line in result["progress"])
    assert len(result["skipped_instances"]) == 2
    assert all(
        "the rollout of its workload is paused" in left["reason"]
        for left in result["skipped_instances"]
    )
    assert [w for w in shop.sandbox.audit.writes(since=mark) if w.resource != "leases"] == []


def test_deployment_whose_rollout_does_not_progress_is_skipped_at_once(shop: Shop) -> None:
    web = objects.deployment("web", shop.namespace, replicas=2)
    web["spec"]["progressDeadlineSeconds"] = 2
    shop.start(web, nodes=["w1"])
    nowhere = {"nodeSelector": {"no-node-has": "this"}}
    shop.patch_template("Deployment", "web", apart(nowhere))
    shop.api.wait(
        lambda found: any(
            (c["type"], c["status"]) == ("Progressing", "False")
            for c in found["status"]["conditions"]
        ),
        shop.path("Deployment", "web"),
    )

    result = shop.roll(allow=["recreate"])

    assert not result.get("failed"), result.get("msg")
    assert not any(line.startswith("waiting: ") for line in result["progress"])
    assert result["skipped_instances"]
    assert all(
        "the rollout of its workload is stuck" in left["reason"]
        for left in result["skipped_instances"]
    )


def test_what_a_task_before_had_moved_may_be_moved_by_the_next_one(shop: Shop) -> None:
    """Much later the cluster is another one: only what is in flight belongs to the run that died."""
    names = pair_on_one_node(shop)
    given = {name: option.get("default") for name, option in rollout.OPTIONS.items()}
    asked = parse_options({**given, "namespaces": [shop.namespace]}, Topology.of())
    known = frozenset(map(digest, shop.uids()))
    died = RunJournal("r-died", asked.request, 50.0, done=known, lost=known, moved=2, failed=3)
    shop.hold_lease("")
    shop.api.patch(LEASE, {"metadata": {"annotations": {JOURNAL: journals.write(died)}}})

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    assert [move["state"] for move in result["moves"]] == ["moved"]
    assert result["moves"][0]["name"] in names
    assert result["skipped_instances"] == []


def test_well_placed_instance_is_returned_and_reported_now_or_after_the_moves(shop: Shop) -> None:
    """In check mode the one that stays violates the rule until the other has moved."""
    pair_on_one_node(shop)
    (later,) = shop.roll(check=True)["not_enforced"]
    assert (later["when"], later["reason"]) == (
        "after_moves",
        "violated now, satisfied after the planned moves; enforced from the next migration",
    )

    result = shop.roll()

    moved = {move["name"] for move in result["moves"]}
    (stands,) = result["not_enforced"]
    assert stands["when"] == "now"
    assert {stands["name"]} == {"p0", "p1"} - moved
    assert stands["reason"] == "placed correctly; enforced from the next migration"
    assert result["progress"][-1].endswith(
        f"/{stands['name']}: placed correctly; enforced from the next migration"
    )
    assert "step_state" not in result
    assert "waiting" not in result
    assert shop.roll(check=True)["not_enforced"] == [stands]


@pytest.mark.parametrize("terminating", [False, True])
def test_the_pod_that_a_migration_left_behind_breaks_no_rule(
    shop: Shop, run_module: t.Any, terminating: bool
) -> None:
    pair_on_one_node(shop, faults={"sandbox.virt/source-pod-stays": "true"})
    pods = {pod["metadata"]["name"]: pod for pod in shop.api.list(shop.path("Pod"))}
    if terminating:
        for name in pods:
            finalizer = {"metadata": {"finalizers": ["example.com/stays"]}}
            shop.api.patch(shop.path("Pod", name), finalizer)

    result = shop.roll()

    assert not result.get("failed"), result.get("msg")
    (move,) = result["moves"]
    left_behind = next(
        name for name, pod in pods.items() if name.startswith(f"virt-launcher-{move['instance']}-")
    )
    if terminating:
        shop.api.delete(shop.path("Pod", left_behind))
    stays = shop.api.get(shop.path("Pod", left_behind))
    assert stays["status"]["phase"] == "Running"
    assert ("deletionTimestamp" in stays["metadata"]) is terminating
    info = {
        "kubeconfig": str(shop.sandbox.kubeconfig("reader")),
        "namespaces": [shop.namespace],
        "details": "all",
    }
    try:
        found = run_module(placement_info.main, info)
        assert found["summary"]["violated"] == 0
        assert found["summary"]["misplaced"] == 0
        where = {each["instance"]["name"]: each["node"] for each in found["instances"]}
        assert where[move["instance"]] == move["to_node"]
        again = shop.roll()
        assert (again["moves"], again["skipped_instances"], again["changed"]) == ([], [], False)
    finally:
        for name in pods:
            if shop.api.find(shop.path("Pod", name)):
                shop.api.patch(shop.path("Pod", name), {"metadata": {"finalizers": None}})


def test_late_handover_is_waited_for_beyond_the_time_of_a_move(shop: Shop) -> None:
    """The guest has arrived and its source has ended, while the VMI names the source: nothing is left to cancel."""
    pair_on_one_node(shop, faults={"sandbox.virt/handover-seconds": "24"})
    mark = shop.sandbox.audit.mark()

    result = shop.roll(move_timeout=20)

    assert not result.get("failed"), result.get("msg")
    (move,) = result["moves"]
    assert move["state"] == "moved"
    once = [("create", "virtualmachineinstancemigrations")]
    written = [
        f"{event.time:%H:%M:%S.%f} {event.user} {event.verb} {event.uri} {event.code}"
        for event in shop.sandbox.audit.requests(since=mark)
        if event.is_write and event.namespace == shop.namespace
    ]
    assert shop.disruptions(mark) == once, "\n".join([*result["progress"], *written])
    assert len(set(shop.zones())) == 2


def test_a_name_too_long_for_a_migration_is_left_and_restarted_where_that_is_allowed(
    shop: Shop,
) -> None:
    names = [f"{letter}{'x' * 69}" for letter in "kl"]
    machines = [objects.virtual_machine(name, shop.namespace) for name in names]
    shop.start(*machines, nodes=["w1"])
    term = apart_over_zone([vmi_id(name) for name in names])
    for name in names:
        shop.patch_template("VirtualMachine", name, {"affinity": term})

    left = shop.roll()

    assert (left["moves"], left["changed"]) == ([], False)
    assert {each["name"] for each in left["skipped_instances"]} == set(names)
    assert "its name has 70 characters" in left["skipped_instances"][0]["reason"]

    mark = shop.sandbox.audit.mark()
    result = shop.roll(allow=["migrate", "restart"])

    assert not result.get("failed"), result.get("msg")
    assert [(m["method"], m["state"]) for m in result["moves"]] == [("restart", "moved")]
    assert shop.disruptions(mark) == [("update", "virtualmachines/restart")]
    assert len(set(shop.zones())) == 2
