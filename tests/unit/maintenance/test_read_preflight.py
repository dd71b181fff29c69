# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight reads: lists that are there, missing or forbidden, and the server's answers to dry runs."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.virt.placement.plugins.module_utils.api.client import (
    ApiClient,
    RetryPolicy,
)
from ansible_collections.virt.placement.plugins.module_utils.api.errors import (
    ApiError,
    ApiRequest,
    Cause,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerFault,
    Throttled,
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
from ansible_collections.virt.placement.plugins.module_utils.maintenance.pods import (
    OF_PODS,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight import (
    PreflightInput,
)
from ansible_collections.virt.placement.plugins.module_utils.maintenance.preflight_findings import (
    CONFIG_POOL_UPDATING,
    HEALTH_CHECK,
)
from ansible_collections.virt.placement.plugins.module_utils.model.json_text import ListPage
from tests.unit.maintenance.test_options import options
from tests.unit.planning.scenes import Cluster, cluster, deployment, machine

JSON = t.Any

MACHINE_APIS = (
    "/apis/machine.openshift.io/v1beta1",
    "/apis/cluster.x-k8s.io/v1beta2",
    "/apis/cluster.x-k8s.io/v1beta1",
)


class Server:
    """Serves `lists`, forbids `forbidden`, answers each eviction with `error`, and the migration of a VMI
    with its entry in `refusals`."""

    def __init__(self, **lists: JSON) -> None:
        self.lists: dict[str, JSON] = dict(lists)
        self.forbidden: set[str] = set()
        self.error: ApiError | None = None
        self.evicted: list[JSON] = []
        self.migrated: list[JSON] = []
        self.refusals: dict[str, ApiError] = {}
        self.deadline = None
        self.policy = RetryPolicy()

    def under(self, _deadline: object) -> Server:
        return self

    def get_page(self, path: str, _params: JSON, *, accept: str = "") -> ListPage:
        if path in self.forbidden:
            raise Forbidden(ApiRequest("GET", path))
        if path not in self.lists:
            raise NotFound(ApiRequest("GET", path))
        return ListPage(json.dumps({"items": self.lists[path], "metadata": {}}).encode())

    def get(self, path: str, *, accept: str = "") -> JSON:
        assert path == "/apis"
        versions: dict[str, set[str]] = {}
        for served in self.lists:
            _root, api, group, version = served.split("/")[:4]
            if api == "apis":
                versions.setdefault(group, set()).add(version)
        return {
            "groups": [
                {"name": group, "versions": [{"version": version} for version in sorted(of_group)]}
                for group, of_group in versions.items()
            ]
        }

    def create(self, path: str, body: JSON, *, dry_run: bool = False) -> JSON:
        assert dry_run
        if path.endswith("migrations"):
            self.migrated.append(body)
            if body["spec"]["vmiName"] in self.refusals:
                raise self.refusals[body["spec"]["vmiName"]]
            return {}
        self.evicted.append((path, body["deleteOptions"]))
        if self.error is not None:
            raise self.error
        return {}

    def read(self, made: Cluster | None = None, allowed: t.Iterable[str] = ()) -> PreflightInput:
        view = DrainView(
            (made or cluster("ab")).snapshot(), frozenset({"n1"}), ("migrate",), frozenset(allowed)
        )
        return read_preflight.read_preflight(t.cast(ApiClient, self), view, options())


def item(name: str, namespace: str = "", **parts: JSON) -> JSON:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"}, **parts}


def test_what_is_not_served_is_not_there() -> None:
    inputs = Server().read()

    assert (inputs.automation, inputs.gaps) == ((), ())


def test_forbidden_list_is_a_gap_and_not_empty() -> None:
    server = Server()
    server.forbidden = {read_preflight.CONFIG_POOLS, read_preflight.NODE_HEALTH_CHECKS}
    gaps = server.read().gaps

    assert [gap.resource for gap in gaps] == ["machineconfigpools", "nodehealthchecks"]


def test_health_check_that_two_versions_serve_is_named_once() -> None:
    server = Server()
    for api in MACHINE_APIS[1:]:
        server.lists[f"{api}/machines"] = [worker("infra", "m1", {"name": "n1"})]
        server.lists[f"{api}/machinehealthchecks"] = [item("mhc", "infra", spec=WORKERS)]
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = OF_CLUSTER_API

    assert [check.ref.name for check in server.read(made).automation] == ["mhc"]


def test_automation_of_a_version_that_is_not_known_is_a_gap_and_not_empty() -> None:
    server = Server()
    server.lists["/apis/remediation.medik8s.io/v1/nodehealthchecks"] = []
    (gap,) = server.read().gaps

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
    server = Server()
    server.lists[read_preflight.NODE_HEALTH_CHECKS] = [item("workers", spec=spec)]

    assert [check.nodes for check in server.read().automation] == (
        [] if covered is None else [covered]
    )


def test_node_that_is_excluded_from_remediation() -> None:
    server = Server()
    server.lists[read_preflight.NODE_HEALTH_CHECKS] = [item("workers", spec={"selector": {}})]
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["labels"][read_preflight.EXCLUDED] = "true"

    assert [check.nodes for check in server.read(made).automation] == [set()]


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
    server = Server()
    paused = item("paused", "infra", spec=WORKERS)
    paused["metadata"]["annotations"] = {read_preflight.PAUSED: ""}
    server.lists[f"{api}/machines"] = [worker("infra", "m1", reference)]
    server.lists[f"{api}/machinehealthchecks"] = [item("mhc", "infra", spec=WORKERS), paused]
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = annotations
    (check,) = server.read(made).automation

    assert (check.finding, check.ref.name) == (HEALTH_CHECK, "mhc")
    assert check.nodes == covered


@pytest.mark.parametrize("annotations", [{}, OF_OPENSHIFT, OF_CLUSTER_API])
@pytest.mark.parametrize("name", ["m1", "m2"])
@pytest.mark.parametrize("api", MACHINE_APIS)
def test_machine_and_health_check_of_a_tenant_cover_no_node(
    api: str, name: str, annotations: JSON
) -> None:
    server = Server()
    node = {"name": "n1", "uid": "node-n1"}
    server.lists[f"{api}/machines"] = [worker("tenant", name, node), worker("infra", "m2", node)]
    server.lists[f"{api}/machinehealthchecks"] = [item("mhc", "tenant", spec=WORKERS)]
    made = cluster("ab")
    made.nodes["n1"]["metadata"]["annotations"] = annotations

    assert [x.ref for x in server.read(made).automation if x.nodes] == []


@pytest.mark.parametrize(
    ("updating", "paused"), [("True", False), ("False", False), ("True", True)]
)
def test_config_pool_that_is_updating(updating: str, paused: bool) -> None:
    server = Server()
    status = {"conditions": [{"type": "Updating", "status": updating}]}
    spec = {"nodeSelector": {}, "paused": paused}
    server.lists[read_preflight.CONFIG_POOLS] = [item("worker", spec=spec, status=status)]
    names = [(check.finding, *check.nodes) for check in server.read().automation]

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
    server, made = Server(), cluster("ab")
    for role in ("worker", "infra", "master"):
        selector = {"matchLabels": {f"node-role.kubernetes.io/{role}": ""}}
        conditions = [{"type": "Updating", "status": str(role == updating)}]
        pool = item(role, spec={"nodeSelector": selector}, status={"conditions": conditions})
        server.lists.setdefault(read_preflight.CONFIG_POOLS, []).append(pool)
    labels = made.nodes["n1"]["metadata"]["labels"]
    labels |= {f"node-role.kubernetes.io/{role}": "" for role in roles}

    assert [check.nodes for check in server.read(made).automation] == [{"n1"} if covers else set()]


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
    server = Server()
    server.lists[KUBEVIRT_PATH] = [item("kubevirt", "kubevirt", status=status)]

    assert (server.read().kubevirt_update or "") == update


# Dry-run evictions.


def occupied() -> Cluster:
    made = cluster("ab")
    deployment(made, "web", ("n1", "n2"), {})
    machine(made, "db", "n1")
    made.bare_pod("tool", "n1")
    return made


def test_only_pods_that_would_be_evicted_are_asked_for_with_their_uid() -> None:
    server = Server()
    inputs = server.read(occupied())
    ((path, options),) = server.evicted

    assert path == "/api/v1/namespaces/shop/pods/web-0/eviction"
    assert options == {"dryRun": ["All"], "preconditions": {"uid": "pod-web-0"}}
    assert inputs.evictions == {"pod-web-0": WOULD_EVICT}


def test_pods_that_an_allowed_finding_lets_leave_are_asked_for() -> None:
    server = Server()
    server.read(occupied(), OF_PODS)

    names = {path.rsplit("/", 2)[-2] for path, _options in server.evicted}
    assert names == {"web-0", "tool"}


WEBHOOK = 'admission webhook "drain.example.com" denied the request: move it by hand'
POLICY = """pods "web-0" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"""


def refusal(
    kind: type[ApiError], status: int, message: str = "", *causes: Cause, is_status: bool = True
) -> ApiError:
    request = ApiRequest("POST", "/api/v1/namespaces/shop/pods/web-0/eviction")
    return kind(request, message, status=status, causes=causes, is_status=is_status)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (
            refusal(Throttled, 429, "no", Cause("DisruptionBudget", "web needs 2")),
            EvictionAnswer("web needs 2", True),
        ),
        (refusal(Throttled, 429, "not now"), EvictionAnswer("not now", True)),
        (refusal(ServerFault, 500, "two budgets"), EvictionAnswer("two budgets", False)),
        (refusal(ApiError, 400, "webhook"), EvictionAnswer("webhook", False)),
        (refusal(Forbidden, 403, WEBHOOK), EvictionAnswer(WEBHOOK, False)),
        (refusal(Forbidden, 403, POLICY), EvictionAnswer(POLICY, False)),
        (refusal(NotFound, 404), WOULD_EVICT),
        (refusal(Conflict, 409), WOULD_EVICT),
        (refusal(Forbidden, 403, "", Cause("NamespaceTerminating")), WOULD_EVICT),
        (refusal(ApiError, 400, 'admission webhook "x" does not support dry run'), None),
    ],
)
def test_answer_of_the_server(error: ApiError, answer: EvictionAnswer | None) -> None:
    server = Server()
    server.error = error

    assert server.read(occupied()).evictions == ({} if answer is None else {"pod-web-0": answer})


def test_without_the_right_to_evict_the_server_was_not_asked() -> None:
    server = Server()
    server.error = refusal(Forbidden, 403)
    inputs = server.read(occupied())

    assert inputs.evictions == {}
    assert [gap.resource for gap in inputs.gaps] == ["pods/eviction"]


def test_failure_of_the_server_is_no_answer() -> None:
    server = Server()
    server.error = refusal(ServerFault, 502, is_status=False)

    with pytest.raises(ServerFault):
        server.read(occupied())


def test_webhook_that_takes_no_dry_run_was_not_asked() -> None:
    server = Server()
    text = 'admission webhook "a.example.com" does not support dry run'
    server.error = server.refusals["db"] = refusal(ApiError, 400, text)
    inputs = server.read(occupied())

    assert (inputs.evictions, inputs.migrations) == ({}, {})
    assert "does not support dry run" in inputs.gaps[0].reason


# Dry-run migrations.


def test_migrations_that_the_drain_would_create_are_asked_for() -> None:
    server = Server()
    inputs = server.read(occupied())
    (body,) = server.migrated

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
        (refusal(Forbidden, 403, POLICY), POLICY),
        (refusal(Forbidden, 403, WEBHOOK), WEBHOOK),
        (refusal(Forbidden, 403, QUOTA), QUOTA),
        (refusal(ApiError, 400, WEBHOOK), WEBHOOK),
        (refusal(Invalid, 422, WEBHOOK), WEBHOOK),
        (refusal(ServerFault, 500, "failed calling webhook"), "failed calling webhook"),
        (refusal(ApiError, 400, IN_FLIGHT), ""),
        (refusal(Throttled, 429, "later"), ""),
        (refusal(NotFound, 404), ""),
        (refusal(Conflict, 409), ""),
        (refusal(Forbidden, 403, "", Cause("NamespaceTerminating")), ""),
    ],
)
def test_answer_of_the_server_to_a_migration(error: ApiError, text: str) -> None:
    server = Server()
    server.refusals["db"] = error
    refused = server.read(occupied()).migrations

    assert list(map(str, refused.values())) == ([text] if text else [])


def test_without_the_right_to_migrate_the_server_was_not_asked() -> None:
    server = Server()
    server.refusals["db"] = refusal(Forbidden, 403)
    inputs = server.read(occupied())

    assert (inputs.evictions, inputs.migrations) == ({"pod-web-0": WOULD_EVICT}, {})
    assert len(inputs.gaps) == 1


def test_webhook_that_does_not_answer_is_asked_a_few_times_and_not_for_each_vm() -> None:
    made = cluster("ab")
    for number in range(40):
        machine(made, f"vm-{number}", "n1")
    server = Server()
    fails = refusal(ServerFault, 500, 'failed calling webhook "x": context deadline exceeded')
    server.refusals = {f"vm-{number}": fails for number in range(40)}
    refused = server.read(made).migrations

    assert refused and len(server.migrated) <= 2 * dry_runs.THREADS


def test_migrations_beyond_the_limit_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "MOST", 1)
    made = cluster("ab")
    machine(made, "a", "n1")
    machine(made, "b", "n1")
    server = Server()

    assert [gap.reason for gap in server.read(made).gaps] == ["of 2 VMs, 1 were asked for"]
    assert len(server.migrated) == 1


def test_job_runs_in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: t.Any) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert read_preflight.job_pod() is None
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("POD_NAME", "awx-job-1")
    monkeypatch.setattr(read_preflight, "NAMESPACE_FILE", tmp_path / "namespace")
    assert read_preflight.job_pod() == ("", "awx-job-1")
    (tmp_path / "namespace").write_text("awx\n")
    assert read_preflight.job_pod() == ("awx", "awx-job-1")
