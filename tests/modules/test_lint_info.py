# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module lint_info: without any cluster, and as if the input stood on one."""

from __future__ import annotations

import copy
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.modules import lint_info
from sandbox import Sandbox, objects
from sandbox.pytest_plugin import MakeNamespace
from tests.conftest import RunModule, error_messages

JSON = t.Any
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MACHINE_SET = {"harvesterhci.io/machineSetName": "default-rke2-pool1"}

Lint = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def lint(run_module: RunModule) -> Lint:
    """The module with nothing but what the test gives it: no kubeconfig, no server."""

    def run(**options: t.Any) -> dict[str, t.Any]:
        result = run_module(lint_info.main, options)
        assert not result.get("changed")
        return result

    return run


def names(result: dict[str, t.Any]) -> list[str]:
    return [finding["name"] for finding in result["findings"]]


def harvester(*, fixed: bool) -> list[JSON]:
    """The machines of the published test: a hard rule over zone, saved without an expression."""
    term: JSON = {"topologyKey": ZONE}
    if fixed:
        term["labelSelector"] = {"matchLabels": MACHINE_SET}
        term["mismatchLabelKeys"] = ["kubevirt.io/created-by"]
    placement = {"affinity": {"podAntiAffinity": {REQUIRED: [term]}}}
    return [
        objects.virtual_machine(f"rke2-pool1-{n}", labels=MACHINE_SET, placement=placement)
        for n in (1, 2, 3)
    ]


def article(key: str) -> list[JSON]:
    """Step B5 of the article: each blackbox on the node of a cache."""
    near: JSON = {"labelSelector": {"matchLabels": {"app": "varnish-cache"}}, "topologyKey": key}
    placement = {"affinity": {"podAffinity": {REQUIRED: [near]}}}
    return [
        objects.deployment("varnish-cache", replicas=3),
        objects.replica_set("blackbox", replicas=3, placement=placement),
    ]


def test_published_manifests_have_their_findings_without_a_cluster(lint: Lint) -> None:
    result = lint(manifests=[*harvester(fixed=False), *article("topology.kubernetes.io/hostname")])

    errors = {f["name"]: f for f in result["findings"] if f["severity"] == "error"}
    assert set(errors) == {"selector_matches_nothing", "no_node_has_key"}
    assert len(errors["selector_matches_nothing"]["objects"]) == 3
    assert "kubernetes.io/hostname may be meant" in errors["no_node_has_key"]["advice"]
    assert result["counts"]["error"] == 2
    assert len(result["warnings"]) == 2
    assert result["cluster"] == {"api": None, "uid": None}


def test_without_the_faults_it_is_silent(lint: Lint) -> None:
    result = lint(manifests=[*harvester(fixed=True), *article(HOST)])

    assert names(result) == ["depends_on_other_workload"]
    assert result["findings"][0]["severity"] == "info"
    assert "warnings" not in result
    assert (result["counts"]["objects"], result["counts"]["error"]) == (5, 0)


def test_published_rules_have_their_findings(lint: Lint) -> None:
    wrong = {"podAntiAffinity": {REQUIRED: [{"topologyKey": ZONE}]}}
    near = {"labelSelector": {"matchLabels": {"app": "varnish-cache"}}}
    key = {"podAffinity": {REQUIRED: [{**near, "topologyKey": f"topology.{HOST}"}]}}
    rules = [
        {"name": "pool", "workloads": [{"name": "pool1"}], "terms": {"affinity": wrong}},
        {"name": "beside", "workloads": [{"name": "blackbox"}], "terms": {"affinity": key}},
    ]

    result = lint(namespace="shop", rules=yaml.safe_dump(rules))

    found = {(f["name"], f["rule"]) for f in result["findings"] if f["severity"] == "error"}
    assert found == {("selector_matches_nothing", "pool"), ("no_node_has_key", "beside")}
    assert result["counts"]["rules"] == 2


def test_rules_that_are_fine(lint: Lint) -> None:
    rules = [
        {
            "name": "apart",
            "workloads": [{"names": ["a", "b"]}],
            "keep_apart": {"topology_key": "zone"},
        },
        {"name": "fast", "workloads": [{"name": "a"}], "run_on": {"performance": "high"}},
    ]

    assert names(lint(namespace="shop", rules=rules)) == []


def test_rules_against_the_manifests_of_a_repository(lint: Lint, tmp_path: Path) -> None:
    rules: list[JSON] = [
        {
            "name": f"beside-{leader}",
            "workloads": [{"name": "app"}],
            "keep_together": {"topology_key": "zone", "with": {"name": leader}},
        }
        for leader in ("db", "cache")
    ]
    machines = [objects.virtual_machine(name, "shop") for name in ("app", "db", "cache")]
    del machines[0]["metadata"]["namespace"]
    (tmp_path / "machines.yml").write_text(yaml.safe_dump_all(machines))

    result = lint(files=[str(tmp_path)], namespace="shop", rules=rules)

    errors = [finding for finding in result["findings"] if finding["severity"] == "error"]
    assert {f["name"] for f in errors} == {"multiple_required_affinity"}
    assert {f["rule"] for f in errors} == {"beside-db", "beside-cache"}
    assert errors[0]["objects"] == ["VirtualMachine shop/app"]
    assert result["cluster"] == {"api": None, "uid": None}

    rules[1]["preferred"] = True
    assert lint(files=[str(tmp_path)], namespace="shop", rules=rules)["counts"]["error"] == 0
    (tmp_path / "machines.yml").write_text(yaml.safe_dump_all(machines[:2]))
    del rules[1]["preferred"]
    alone = lint(files=[str(tmp_path)], namespace="shop", rules=rules)
    assert alone["counts"]["error"] == 0, "no manifest has the name cache"


def test_rule_with_a_workload_without_manifest_warns_with_the_nearest_name(lint: Lint) -> None:
    machines = [objects.virtual_machine(name, "shop") for name in ("db1", "db2")]
    rule = {"name": "apart", "workloads": [{"names": ["db1", "dbb2"]}], "avoid": {"zone": "a"}}

    found = lint(manifests=machines, namespace="shop", rules=[rule])

    (warning,) = found["warnings"]
    assert (
        "rule apart was checked without the manifests of its workloads: no VirtualMachine dbb2 among the manifests;"
        " did you mean 'db2'?"
    ) in str(warning)
    elsewhere = lint(manifests=machines, namespace="web", rules=[rule])
    (warning,) = elsewhere["warnings"]
    assert "no VirtualMachine db1 among the manifests of web, but in shop" in str(warning)


def test_a_warning_names_the_rule_and_the_object(lint: Lint) -> None:
    machine = objects.virtual_machine("db", "shop", placement={"nodeSelector": {ZONE: "a"}})
    rule = {"name": "away", "workloads": [{"name": "db"}], "avoid": {"zone": "a"}}

    (warning,) = lint(manifests=[machine], namespace="shop", rules=[rule])["warnings"]

    message = "rule away, unsatisfiable (VirtualMachine shop/db): None of its pods can ever run"
    assert message in str(warning)


def test_files_and_folders(lint: Lint, tmp_path: Path) -> None:
    below = tmp_path / "deep" / "er"
    below.mkdir(parents=True)
    (below / "pool.yaml").write_text(yaml.safe_dump_all(harvester(fixed=False)))
    (tmp_path / "values.yml").write_text("replicaCount: 3\n---\n")
    (tmp_path / "notes.txt").write_text("{ no yaml")

    result = lint(files=[str(tmp_path)])

    assert names(result) == ["selector_matches_nothing"]
    assert (result["counts"]["objects"], result["counts"]["passed_over"]) == (3, 1)


def test_nodes_among_the_manifests_are_all_that_there_are(lint: Lint) -> None:
    labels = [{HOST: "w1", ZONE: "a"}, {HOST: "w2", ZONE: "a"}, {HOST: "w2"}]
    nodes = [
        {"kind": "Node", "metadata": {"name": f"w{n}", "labels": each}}
        for n, each in enumerate(labels, 1)
    ]
    web = objects.deployment("web", replicas=2)
    web["spec"]["template"]["spec"]["nodeSelector"] = {"example.com/disk": "ssd"}

    result = lint(manifests=[web, *nodes])

    assert {"no_node_has_key", "duplicate_hostname", "topology_incomplete"} <= set(names(result))
    assert result["counts"]["nodes"] == 3
    assert names(lint(manifests=[web])) == []


@pytest.mark.parametrize(("version", "lacks"), [("1.30", True), ("v1.34.1", False), (None, False)])
def test_versions(lint: Lint, version: str | None, lacks: bool) -> None:
    options = {"kubernetes_version": version, "kubevirt_version": "v1.8.4"} if version else {}

    found = names(lint(manifests=harvester(fixed=True), **options))

    assert ("unsupported_by_server" in found) is lacks


def test_every_fault_of_the_input_is_named(lint: Lint, tmp_path: Path) -> None:
    result = lint(
        manifests=[{"kind": "Node", "metadata": {}}, 7],
        rules=[{"name": "x", "workloads": [{"name": "a"}], "keep_apart": {"topology_key": "zon"}}],
        kubernetes_version="new",
    )

    assert result["failed"]
    assert [fault.split(",")[0].split(":")[0] for fault in error_messages(result)] == [
        "manifests[0]",
        "manifests[1]",
        "rules[0] x",
        "kubernetes_version",
    ]
    for fault in error_messages(result):
        assert fault in result["msg"]


def test_faults_of_files_and_of_text_are_named_with_all_others(lint: Lint) -> None:
    result = lint(files=["/nowhere"], manifests=[7], rules="[{", kubernetes_version="")

    assert result["failed"]
    assert [fault.split(": ")[0] for fault in error_messages(result)] == [
        "/nowhere",
        "manifests[0]",
        "rules",
        "kubernetes_version",
    ]


def test_files_that_cannot_be_read(lint: Lint, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "chart.yml").write_text("{{ if .Values.web }}\n")

    result = lint(files=[str(tmp_path / name) for name in ("nowhere", "empty", "chart.yml")])

    assert result["failed"]
    messages = ["there is no such file", "holds no file", "is not valid YAML"]
    assert all(text in fault for text, fault in zip(messages, error_messages(result), strict=True))
    assert result["msg"].startswith("3 errors:\n- ")
    assert "unicode string" not in result["msg"]


def test_excluded_namespaces_have_no_findings_and_still_count_as_surroundings(lint: Lint) -> None:
    manifests = [
        *(
            {**vm, "metadata": {**vm["metadata"], "namespace": "shop"}}
            for vm in harvester(fixed=False)
        ),
        *article(HOST),
    ]

    result = lint(manifests=manifests, exclude_namespaces=["shop"])

    assert names(result) == ["depends_on_other_workload"]
    assert (result["ok"], result["counts"]["objects"]) == (True, 2)
    near = [{**article(HOST)[0], "metadata": {**article(HOST)[0]["metadata"], "namespace": "shop"}}]
    rule = {"name": "pin", "workloads": ["db"], "run_on": {"zone": "a"}}
    refused = lint(manifests=near, namespace="shop", rules=[rule], exclude_namespaces=["shop"])
    assert error_messages(refused) == ["exclude_namespaces: 'shop' is the namespace of the rules"]


def test_manifests_without_workloads_warn_that_nothing_was_checked(lint: Lint) -> None:
    result = lint(manifests=[{"kind": "Service", "metadata": {"name": "x"}}])

    assert result["findings"] == []
    assert "nothing was checked" in str(result["warnings"])


def test_kubevirt_version_without_kubernetes_version_is_refused(lint: Lint) -> None:
    assert "kubernetes_version" in lint(manifests=[], kubevirt_version="v1.8.4")["msg"]


class TestOnline:
    """The input judged as if it stood on a real cluster."""

    @pytest.fixture
    def on_six(self, six: Sandbox, run_module: RunModule, namespace: MakeNamespace) -> Lint:
        self.namespace = namespace(six, "lint")
        self.sandbox = six

        def run(identity: str = "reader", **options: t.Any) -> dict[str, t.Any]:
            start = six.audit.mark()
            params = {"kubeconfig": str(six.kubeconfig(identity)), "online": True, **options}
            result = run_module(lint_info.main, params)
            assert six.audit.writes(since=start) == []
            return result

        return run

    def machine(self, name: str, placement: JSON, **options: t.Any) -> JSON:
        made = copy.deepcopy(objects.virtual_machine(name, placement=placement, **options))
        made["metadata"]["namespace"] = self.namespace
        return made

    def test_keys_and_pods_are_those_of_the_cluster(self, on_six: Lint) -> None:
        far = {"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": HOST}
        placement = {
            "nodeSelector": {"example.com/disk": "ssd"},
            "affinity": {"podAffinity": {REQUIRED: [far]}},
        }
        manifest = self.machine("db", placement)

        result = on_six(manifests=[manifest])

        assert names(result) == ["no_node_has_key", "selector_matches_nothing"]
        assert result["counts"]["nodes"] == 6
        assert result["cluster"]["uid"]
        elsewhere = on_six(manifests=[manifest], exclude_namespaces=[self.namespace])
        assert (elsewhere["findings"], elsewhere["counts"]["objects"]) == ([], 0)
        assert result["permission_gaps"] == []

    def test_field_70_vm_is_seen_with_what_kubevirt_and_its_instance_type_add(
        self, on_six: Lint
    ) -> None:
        arm = {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [arm]}]}
        edge = self.machine("edge", {"affinity": {"nodeAffinity": {REQUIRED: terms}}})
        api = self.sandbox.api
        version, kind = "instancetype.kubevirt.io/v1beta1", "VirtualMachineInstancetype"
        spec = {
            "cpu": {"guest": 1},
            "memory": {"guest": "64Mi"},
            "nodeSelector": {ZONE: "nowhere"},
        }
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": "far"}, "spec": spec}
        api.create(api.path(kind, self.namespace), made)
        typed = self.machine("typed", {})
        typed["spec"]["instancetype"] = {"kind": kind, "name": "far"}

        result = on_six(manifests=[edge, typed])

        errors = {f["objects"][0]: f for f in result["findings"] if f["severity"] == "error"}
        assert {f["name"] for f in errors.values()} == {"unsatisfiable"}
        assert sorted(errors) == [
            f"VirtualMachine {self.namespace}/{name}" for name in ("edge", "typed")
        ]
        assert "kubernetes.io/arch In (amd64)" in errors[sorted(errors)[0]]["why"]
        assert f"{ZONE} In (nowhere)" in errors[sorted(errors)[1]]["why"]
        unread = on_six("nobody", manifests=[typed])
        assert not unread.get("ok")

    def test_spread_on_a_running_vm_needs_a_restart(self, on_six: Lint) -> None:
        api = self.sandbox.api
        api.create(api.path("VirtualMachine", self.namespace), self.machine("db", {}))
        vmi = api.path("VirtualMachineInstance", self.namespace, "db")
        api.wait(lambda each: each["status"].get("phase") == "Running", vmi, timeout=60)
        constraint = {
            "topologyKey": ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"vmi.kubevirt.io/id": "db"}},
            "nodeTaintsPolicy": "Honor",
        }
        manifest = self.machine("db", {"topologySpreadConstraints": [constraint]})

        assert "restart_required" in names(on_six(manifests=[manifest]))

    def test_rules_about_vms_without_kubevirt_are_named(
        self, plain: Sandbox, run_module: RunModule
    ) -> None:
        start = plain.audit.mark()
        near = {"topology_key": "zone", "with": {"name": "db", "namespace": "data"}}
        rules = [
            {
                "name": "beside",
                "workloads": [{"kind": "Deployment", "name": "web"}],
                "keep_together": near,
            },
            {"name": "bad", "workloads": [{"name": "db"}], "run_on": {}},
        ]
        options = {
            "kubeconfig": str(plain.kubeconfig("reader")),
            "online": True,
            "namespace": "shop",
            "manifests": [objects.virtual_machine("db", "shop"), objects.deployment("web", "shop")],
            "rules": rules,
        }

        result = run_module(lint_info.main, options)

        assert result["failed"]
        none = "KubeVirt is not installed on this cluster, so it has no VirtualMachine"
        assert sorted(error_messages(result)) == [
            f"VirtualMachine shop/db: {none}",
            f"rules[0] beside, keep_together.with: {none}",
            "rules[1] bad, run_on: is empty: name at least one key with its value",
            f"rules[1] bad, workloads[0]: {none}",
        ]
        assert plain.audit.writes(since=start) == []
        del options["online"]
        offline = run_module(lint_info.main, {**options, "rules": rules[:1]})
        assert not offline.get("failed"), "no cluster was requested"

    def test_without_rights_nothing_is_claimed(self, on_six: Lint) -> None:
        manifest = self.machine("db", {"nodeSelector": {"example.com/disk": "ssd"}})

        result = on_six(identity="nobody", manifests=[manifest])

        assert names(result) == []
        assert "nodes" in {gap["resource"] for gap in result["permission_gaps"]}
