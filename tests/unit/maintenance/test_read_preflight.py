# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight reads: lists that are there, missing or forbidden, and the server's answers to dry runs."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ServerFault,
)
from ansible_collections.virt.placement.plugins.module_utils.cluster.identity import KUBEVIRT_PATH
from ansible_collections.virt.placement.plugins.module_utils.maintenance import (
    dry_runs,
    read_preflight,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.budget_findings import (
    WOULD_EVICT,
    EvictionAnswer,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.drain_plan import (
    DrainView,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight import (
    PreflightInput,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight_findings import (
    CONFIG_POOL_UPDATING,
    HEALTH_CHECK,
)
from ansible_collections.virt.placement.plugins.module_utils.model.obstacle import (
    BARE_POD,
    DAEMONSET_MISSING,
    LOCAL_DATA_LOST,
    STANDALONE_VMI,
)
from tests.support.api_server import ApiServer, Reply, Request, status
from tests.support.cluster import Cluster, cluster, deployment, machine
from tests.unit.maintenance.test_options import options

JSON = t.Any

MACHINE_APIS = (
    "/apis/machine.openshift.io/v1beta1",
    "/apis/cluster.x-k8s.io/v1beta2",
    "/apis/cluster.x-k8s.io/v1beta1",
)


def serving(lists: t.Mapping[str, t.Sequence[JSON]] | None = None) -> ApiServer:
    server = ApiServer()
    server.retries = 0
    for folder, items in (lists or {}).items():
        server.store(folder, *items)
    return server


def read(
    server: ApiServer, made: Cluster | None = None, allowed: t.Iterable[str] = ()
) -> PreflightInput:
    view = DrainView(
        (made or cluster("ab")).snapshot(), frozenset({"n1"}), ("migrate",), frozenset(allowed)
    )
    return read_preflight.read_preflight(server.client(), view, options())


def tried(server: ApiServer, resource: str) -> list[Request]:
    """The dry runs of objects or subresources of this kind."""
    return [x for x in server.seen if x.dry_run and x.path.endswith(f"/{resource}")]


MIGRATIONS = "virtualmachineinstancemigrations"


def item(name: str, namespace: str = "", **parts: JSON) -> JSON:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"}, **parts}


def test_what_is_not_served_is_not_there() -> None:
    inputs = read(serving())

    assert (inputs.automation, inputs.gaps) == ((), ())


def test_forbidden_list_is_a_gap_and_not_empty() -> None:
    server = serving()
    for path in (read_preflight.CONFIG_POOLS, read_preflight.NODE_HEALTH_CHECKS):
        server.add_fault("GET", path, 403)
    gaps = read(server).gaps

    assert [gap.resource for gap in gaps] == ["machineconfigpools", "nodehealthchecks"]


def test_health_check_that_two_versions_serve_is_named_once() -> None:
    server = serving()
    for api in MACHINE_APIS[1:]:
        server.store(f"{api}/machines", worker("infra", "m1", {"name": "n1"}))
        server.store(f"{api}/machinehealthchecks", item("mhc", "infra", spec=WORKERS))
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = OF_CLUSTER_API

    assert [check.ref.name for check in read(server, made).automation] == ["mhc"]


def test_automation_of_a_version_that_is_not_known_is_a_gap_and_not_empty() -> None:
    server = serving()
    server.served["remediation.medik8s.io"] = ("v1",)
    (gap,) = read(server).gaps

    assert (gap.resource, gap.verb) == ("nodehealthchecks", "list")
    assert "serves remediation.medik8s.io in v1 only" in gap.reason


@pytest.mark.parametrize(
    ("spec", "covered"),
    [
        ({"selector": {}}, {"n1"}),
        ({"selector": {"matchLabels": {"x": "y"}}}, set()),
        ({"selector": {}, "pauseRequests": ["maintenance"]}, None),
    ],
)
def test_node_health_check(spec: JSON, covered: set[str] | None) -> None:
    server = serving()
    server.store(read_preflight.NODE_HEALTH_CHECKS, item("workers", spec=spec))

    assert [check.nodes for check in read(server).automation] == (
        [] if covered is None else [covered]
    )


def test_node_that_is_excluded_from_remediation() -> None:
    server = serving()
    server.store(read_preflight.NODE_HEALTH_CHECKS, item("workers", spec={"selector": {}}))
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["labels"][read_preflight.EXCLUDED] = "true"

    assert [check.nodes for check in read(server, made).automation] == [set()]


OF_OPENSHIFT = {"machine.openshift.io/machine": "infra/m1"}
OF_CLUSTER_API = {
    "cluster.x-k8s.io/cluster-namespace": "infra",
    "cluster.x-k8s.io/machine": "m1",
}
WORKERS = {"selector": {"matchLabels": {"role": "worker"}}}


def worker(namespace: str, name: str, reference: JSON) -> JSON:
    made = item(name, namespace, status={"nodeRef": reference})
    made["metadata"]["labels"] = {"role": "worker"}
    return made


@pytest.mark.parametrize(
    ("reference", "covered"),
    [
        ({"name": "n1", "uid": "node-n1"}, {"n1"}),
        ({"name": "n1"}, {"n1"}),
        ({"name": "n1", "uid": "of-another-cluster"}, set()),
        ({"name": "n2"}, set()),
    ],
)
@pytest.mark.parametrize(
    ("api", "annotations"),
    [
        (MACHINE_APIS[0], OF_OPENSHIFT),
        (MACHINE_APIS[1], OF_CLUSTER_API),
        (MACHINE_APIS[2], OF_CLUSTER_API),
    ],
)
def test_machine_health_check(
    api: str, annotations: JSON, reference: JSON, covered: set[str]
) -> None:
    server = serving()
    paused = item("paused", "infra", spec=WORKERS)
    paused["metadata"]["annotations"] = {read_preflight.PAUSED: ""}
    server.store(f"{api}/machines", worker("infra", "m1", reference))
    server.store(f"{api}/machinehealthchecks", item("mhc", "infra", spec=WORKERS), paused)
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = annotations
    (check,) = read(server, made).automation

    assert (check.finding, check.ref.name) == (HEALTH_CHECK, "mhc")
    assert check.nodes == covered


@pytest.mark.parametrize("annotations", [{}, OF_OPENSHIFT, OF_CLUSTER_API])
@pytest.mark.parametrize("name", ["m1", "m2"])
@pytest.mark.parametrize("api", MACHINE_APIS)
def test_machine_and_health_check_of_a_tenant_cover_no_node(
    api: str, name: str, annotations: JSON
) -> None:
    server = serving()
    node = {"name": "n1", "uid": "node-n1"}
    server.store(f"{api}/machines", worker("tenant", name, node), worker("infra", "m2", node))
    server.store(f"{api}/machinehealthchecks", item("mhc", "tenant", spec=WORKERS))
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = annotations

    assert [x.ref for x in read(server, made).automation if x.nodes] == []


@pytest.mark.parametrize(
    ("updating", "paused"), [("True", False), ("False", False), ("True", True)]
)
def test_config_pool_that_is_updating(updating: str, paused: bool) -> None:
    server = serving()
    status = {"conditions": [{"type": "Updating", "status": updating}]}
    spec = {"nodeSelector": {}, "paused": paused}
    server.store(read_preflight.CONFIG_POOLS, item("worker", spec=spec, status=status))
    names = [(check.finding, *check.nodes) for check in read(server).automation]

    expected = [(CONFIG_POOL_UPDATING, "n1")] if updating == "True" and not paused else []
    assert names == expected


@pytest.mark.parametrize(
    ("updating", "roles", "covers"),
    [
        ("worker", ["worker"], True),
        ("worker", ["worker", "infra"], False),
        ("infra", ["worker", "infra"], True),
        ("infra", ["master", "infra"], False),
        ("worker", ["master", "worker"], False),
        ("master", ["master", "worker"], True),
    ],
)
def test_config_pool_covers_the_nodes_that_it_updates(
    updating: str, roles: list[str], covers: bool
) -> None:
    """A node with the labels of a custom pool and of `worker` is updated by the custom pool alone."""
    server, made = serving(), cluster("ab")
    for role in ("worker", "infra", "master"):
        selector = {"matchLabels": {f"node-role.kubernetes.io/{role}": ""}}
        conditions = [{"type": "Updating", "status": str(role == updating)}]
        pool = item(role, spec={"nodeSelector": selector}, status={"conditions": conditions})
        server.store(read_preflight.CONFIG_POOLS, pool)
    labels = made.nodes["n1"]["metadata"]["labels"]
    labels |= {f"node-role.kubernetes.io/{role}": "" for role in roles}

    assert [check.nodes for check in read(server, made).automation] == [{"n1"} if covers else set()]


@pytest.mark.parametrize(
    ("status", "update"),
    [
        ({"phase": "Deployed", "observedKubeVirtVersion": "v1", "targetKubeVirtVersion": "v1"}, ""),
        ({"phase": "Deployed"}, ""),
        ({}, ""),
        (
            {"phase": "Deploying", "observedKubeVirtVersion": "v1", "targetKubeVirtVersion": "v2"},
            "from v1 to v2, phase Deploying",
        ),
        ({"phase": "Deploying"}, "its phase is Deploying"),
    ],
)
def test_update_of_kubevirt(status: JSON, update: str) -> None:
    server = serving()
    server.store(KUBEVIRT_PATH, item("kubevirt", "kubevirt", status=status))

    assert (read(server).kubevirt_update or "") == update


# Dry-run evictions.


def occupied() -> Cluster:
    made = cluster("ab")
    deployment(made, "web", ("n1", "n2"), {})
    machine(made, "db", "n1")
    made.bare_pod("tool", "n1")
    return made


def test_only_pods_that_would_be_evicted_are_asked_for_with_their_uid() -> None:
    server = serving()
    inputs = read(server, occupied())
    (asked,) = tried(server, "eviction")

    assert asked.path == "/api/v1/namespaces/shop/pods/web-0/eviction"
    assert asked.body["deleteOptions"] == {"dryRun": ["All"], "preconditions": {"uid": "pod-web-0"}}
    assert inputs.evictions == {"pod-web-0": WOULD_EVICT}


def test_pods_that_an_allowed_finding_lets_leave_are_asked_for() -> None:
    server = serving()
    read(server, occupied(), (BARE_POD, DAEMONSET_MISSING, LOCAL_DATA_LOST, STANDALONE_VMI))

    names = {x.path.rsplit("/", 2)[-2] for x in tried(server, "eviction")}
    assert names == {"web-0", "tool"}


WEBHOOK = 'admission webhook "drain.example.com" denied the request: move it by hand'
POLICY = """pods "web-0" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"""


def refusal(code: int, message: str = "", *causes: tuple[str, str]) -> Reply:
    found = [{"reason": reason, "message": text} for reason, text in causes]
    return status(code, message=message, details={"causes": found})


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (
            refusal(429, "no", ("DisruptionBudget", "web needs 2")),
            EvictionAnswer("web needs 2", True),
        ),
        (refusal(429, "not now"), EvictionAnswer("not now", True)),
        (refusal(500, "two budgets"), EvictionAnswer("two budgets", False)),
        (refusal(400, "webhook"), EvictionAnswer("webhook", False)),
        (refusal(403, WEBHOOK), EvictionAnswer(WEBHOOK, False)),
        (refusal(403, POLICY), EvictionAnswer(POLICY, False)),
        (refusal(404), WOULD_EVICT),
        (refusal(409), WOULD_EVICT),
        (refusal(403, "", ("NamespaceTerminating", "")), WOULD_EVICT),
        (refusal(400, 'admission webhook "x" does not support dry run'), None),
    ],
)
def test_answer_of_the_server(error: Reply, answer: EvictionAnswer | None) -> None:
    server = serving()
    server.add_fault("POST", "eviction", error, dry_runs=True)

    assert read(server, occupied()).evictions == ({} if answer is None else {"pod-web-0": answer})


def test_without_the_right_to_evict_the_server_was_not_asked() -> None:
    server = serving()
    server.add_fault("POST", "eviction", 403, dry_runs=True)
    inputs = read(server, occupied())

    assert inputs.evictions == {}
    assert [gap.resource for gap in inputs.gaps] == ["pods/eviction"]


def test_failure_of_the_server_is_no_answer() -> None:
    server = serving()
    server.add_fault("POST", "eviction", Reply(502), dry_runs=True)

    with pytest.raises(ServerFault):
        read(server, occupied())


def test_webhook_that_takes_no_dry_run_was_not_asked() -> None:
    server = serving()
    text = 'admission webhook "a.example.com" does not support dry run'
    for resource in ("eviction", MIGRATIONS):
        server.add_fault("POST", resource, refusal(400, text), dry_runs=True)
    inputs = read(server, occupied())

    assert (inputs.evictions, inputs.migrations) == ({}, {})
    assert "does not support dry run" in inputs.gaps[0].reason


# Dry-run migrations.


def test_migrations_that_the_drain_would_create_are_asked_for() -> None:
    server = serving()
    inputs = read(server, occupied())
    (body,) = (x.body for x in tried(server, MIGRATIONS))

    assert body["kind"] == "VirtualMachineInstanceMigration"
    assert "placement.virt/run" in body["metadata"]["labels"], "as rbac/policies.yml requires"
    assert body["spec"] == {"vmiName": "db"}
    assert inputs.migrations == {}


IN_FLIGHT = (
    'admission webhook "migration-create-validator.kubevirt.io" denied the request: in-flight migration detected.'
    " Active migration job (u) is currently already in progress for VMI db."
)
QUOTA = 'virtualmachineinstancemigrations "x" is forbidden: exceeded quota: few'


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (refusal(403, POLICY), POLICY),
        (refusal(403, WEBHOOK), WEBHOOK),
        (refusal(403, QUOTA), QUOTA),
        (refusal(400, WEBHOOK), WEBHOOK),
        (refusal(422, WEBHOOK), WEBHOOK),
        (refusal(500, "failed calling webhook"), "failed calling webhook"),
        (refusal(400, IN_FLIGHT), ""),
        (refusal(429, "later"), ""),
        (refusal(404), ""),
        (refusal(409), ""),
        (refusal(403, "", ("NamespaceTerminating", "")), ""),
    ],
)
def test_answer_of_the_server_to_a_migration(error: Reply, text: str) -> None:
    server = serving()
    server.add_fault("POST", MIGRATIONS, error, dry_runs=True)
    refused = read(server, occupied()).migrations

    assert list(map(str, refused.values())) == ([text] if text else [])


def test_without_the_right_to_migrate_the_server_was_not_asked() -> None:
    server = serving()
    server.add_fault("POST", MIGRATIONS, 403, dry_runs=True)
    inputs = read(server, occupied())

    assert (inputs.evictions, inputs.migrations) == ({"pod-web-0": WOULD_EVICT}, {})
    assert len(inputs.gaps) == 1


def test_webhook_that_does_not_answer_is_asked_a_few_times_and_not_for_each_vm() -> None:
    made = cluster("ab")
    for number in range(40):
        machine(made, f"vm-{number}", "n1")
    server = serving()
    fails = refusal(500, 'failed calling webhook "x": context deadline exceeded')
    server.add_fault("POST", MIGRATIONS, fails, dry_runs=True)
    refused = read(server, made).migrations

    assert refused and len(tried(server, MIGRATIONS)) <= 2 * dry_runs.THREADS


def test_migrations_beyond_the_limit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "MOST", 1)
    made = cluster("ab")
    machine(made, "a", "n1")
    machine(made, "b", "n1")
    server = serving()

    assert [gap.reason for gap in read(server, made).gaps] == ["of 2 VMs, 1 were asked for"]
    assert len(tried(server, MIGRATIONS)) == 1


def test_job_runs_in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert read_preflight.job_pod() is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "awx-job-1")
    monkeypatch.setattr(read_preflight, "NAMESPACE_FILE", tmp_path / "namespace")
    assert read_preflight.job_pod() == ("", "awx-job-1")
    (tmp_path / "namespace").write_text("awx\n")
    assert read_preflight.job_pod() == ("awx", "awx-job-1")
