# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks as job templates run them: through ansible-runner, with what surveys deliver."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import typing as t
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from demos import board
from demos.kubevirt import steps
from demos.stage import PlayResult, Stage, variables
from dev.commands import environment
from sandbox import Sandbox, node_faults
from tests.conftest import CHECKOUT
from tests.controller import PROJECT, Controller
from tests.unit.report.pages import parsed

IN_PROCESS = Path(__file__).parent / "in_process"
SURVEYS = yaml.safe_load((CHECKOUT / "playbooks" / "vars" / "controller_surveys.yml").read_text())[
    "placement_controller_surveys"
]
LABELS = {
    "region": "topology.kubernetes.io/region",
    "zone": board.ZONE,
    "performance": "performance",
}


@pytest.fixture(scope="module")
def stage() -> t.Iterator[Stage]:
    with Sandbox.start(steps.CLUSTER) as sandbox:
        sandbox.api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": steps.NAMESPACE}}
        )
        yield Stage(sandbox, steps.NAMESPACE, quiet=True)


@pytest.fixture(scope="module")
def labeled(stage: Stage) -> Stage:
    """With the labels of nodes that the playbook topology writes."""
    wanted = variables(steps.FOLDER, "topology.yml")["placement_topology_per_node"]
    for name, values in wanted.items():
        labels = {LABELS[key]: value for key, value in values.items()}
        stage.sandbox.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    return stage


@pytest.fixture(scope="module")
def database(labeled: Stage) -> Stage:
    """With three replicas of the database, one in each zone."""
    steps.create(labeled, "mssql")
    steps.expect(labeled, "mssql2016", steps.FAST)
    return labeled


def as_survey(wanted: dict[str, t.Any]) -> dict[str, str]:
    """Every answer as text, as a survey's text areas and inputs deliver them."""
    return {
        key: value if isinstance(value, str) else yaml.safe_dump(value, default_flow_style=True)
        for key, value in wanted.items()
    }


def progress(result: PlayResult) -> list[str]:
    """Lines that an action plugin printed while the play ran: verbose events."""
    return [e["stdout"] for e in result.events if e["event"] == "verbose" and e["stdout"].strip()]


def artifact(result: PlayResult, name: str) -> dict[str, t.Any]:
    """What a role published: AWX hands it to the later jobs of a workflow."""
    stats = [e for e in result.events if e["event"] == "playbook_on_stats"][-1]
    return t.cast("dict[str, t.Any]", stats["event_data"]["artifact_data"][name])


def without_moves(approved: dict[str, t.Any]) -> dict[str, t.Any]:
    """As if no move had been approved."""
    return {
        host: {rules: {**forecast, "moves": 0} for rules, forecast in forecasts.items()}
        for host, forecasts in approved.items()
    }


def test_topology_takes_a_survey(stage: Stage) -> None:
    wanted = variables(steps.FOLDER, "topology.yml")

    result = stage.play(
        str(PROJECT / "topology.yml"),
        as_survey({**wanted, "placement_topology_force": "no"}),
        identity="labeler",
    )

    assert result.rc == 0, result.stdout
    node = stage.sandbox.api.get("/api/v1/nodes/kni-worker6")
    assert node["metadata"]["labels"]["performance"] == "high"


def test_apply_takes_a_survey_and_shows_each_move(database: Stage) -> None:
    stage = database
    steps.maintain_a_fast_node(stage)
    doubled = _doubled(stage)
    wanted = variables(steps.FOLDER, "database_rules.yml")
    survey = as_survey({**wanted, "placement_apply_max_unavailable": "1"})

    approved = artifact(
        stage.play(str(PROJECT / "apply.yml"), survey, identity="mover", check=True),
        "placement_forecast",
    )
    (forecast,) = approved["localhost"].values()
    refused = stage.play(
        "apply", {**survey, "placement_forecast": without_moves(approved)}, identity="mover"
    )
    result = stage.play("apply", {**survey, "placement_forecast": approved}, identity="mover")

    assert forecast["moves"] == 1
    assert doubled in forecast["moves_shown"][0]
    assert "1 moves are needed now, and 0 were approved." in refused.stdout.replace("\n", " ")
    assert "Write rules" not in refused.stdout
    assert result.rc == 0, result.stdout
    lines = [line for line in progress(result) if "mssql2016" in line]
    assert any(doubled in line and "1/1" in line for line in lines), progress(result)
    steps.expect(stage, "mssql2016", steps.FAST)


def test_verify_publishes_its_summary(database: Stage, tmp_path: Path) -> None:
    stage = database
    survey = as_survey(
        {
            "placement_verify_namespaces": [steps.NAMESPACE],
            "placement_verify_report": {"junit": f"{tmp_path}/verify.xml", "html": ""},
        }
    )
    result = stage.play(str(PROJECT / "verify.yml"), survey, identity="reader")

    assert result.rc == 0, result.stdout
    assert ' failures="0" ' in (tmp_path / "verify.xml").read_text()
    summary = artifact(result, "placement_summary")["localhost"]
    assert summary["instances"] == 3
    assert summary["violated"] == 0
    unreadable = stage.play(
        "verify", {"placement_verify_namespaces": "shop, lab"}, identity="reader"
    )
    assert "Write it in brackets: [shop, lab]." in unreadable.stdout


@pytest.mark.packaged_modules
def test_rules_are_listed_for_a_survey(stage: Stage) -> None:
    survey = as_survey({"placement_rules_namespaces": [steps.NAMESPACE]})

    result = stage.play(str(PROJECT / "rules.yml"), survey, identity="reader")

    assert result.rc == 0, result.stdout
    rules = artifact(result, "placement_rules")["localhost"]
    assert rules
    assert {rule["namespace"] for rule in rules} == {steps.NAMESPACE}


@pytest.mark.packaged_modules
def test_rules_of_drs_are_artifacts_that_apply_takes(stage: Stage, tmp_path: Path) -> None:
    rule = {"rule_name": "Web apart", "rule_type": "vm_vm_rule", "rule_vms": ["WEB_1", "WEB_2"]}
    flags = {"rule_enabled": True, "rule_mandatory": False, "rule_affinity": False}
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"drs_rule_info": {"Production": [{**rule, **flags}]}}))
    survey = {
        "placement_drs_import_files": [str(export)],
        "placement_drs_import_folder": str(tmp_path / "imported"),
        "placement_drs_import_namespace": steps.NAMESPACE,
        "placement_drs_import_read_cluster": "false",
    }

    result = stage.play(str(PROJECT / "drs_import.yml"), as_survey(survey), identity="reader")

    assert result.rc == 0, result.stdout
    imported = artifact(result, "placement_drs_import")["localhost"]
    assert imported["node_labels"] == {}
    assert imported["vm_labels"] == []
    (of_namespace,) = imported["namespaces"]
    written = yaml.safe_load((tmp_path / "imported" / f"rules-{steps.NAMESPACE}.yml").read_text())
    assert of_namespace["namespace"] == written["placement_apply_namespace"] == steps.NAMESPACE
    assert of_namespace["rules"] == written["placement_apply_rules"]
    assert of_namespace["rules"][0]["workloads"] == ["web-1", "web-2"]


@contextlib.contextmanager
def receiving() -> t.Iterator[tuple[str, dict[str, str]]]:
    """A web server that takes files: its URL, and what came by path."""
    received: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            length = int(self.headers["Content-Length"])
            received[self.path] = self.rfile.read(length).decode()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


def test_report_takes_a_survey_and_sends_each_vm_and_failure(database: Stage) -> None:
    stage = database
    survey = as_survey(
        {
            "placement_report_namespaces": [steps.NAMESPACE],
            "placement_report_domains_of": ["zone", "node"],
        }
    )
    with receiving() as (url, received):
        servers = {"report_page_url": f"{url}/prod.html", "report_pushgateway_url": url}
        result = stage.play(
            str(PROJECT / "report.yml"),
            {**survey, "placement_clusters": "prod"},
            identity="reader",
            inventory={"all": {"hosts": {"prod": servers}}},
        )

    assert result.rc == 0, result.stdout
    assert set(received) == {"/prod.html", "/metrics/job/placement/cluster/prod"}, result.stdout
    page = parsed(received["/prod.html"])
    answer = page.all("p", "answer")[0].text
    assert answer.startswith("All 3 VMs run where the required rules allow."), answer
    vmis = stage.sandbox.api.list(stage.sandbox.api.path("VirtualMachineInstance", stage.namespace))
    shown = {vm.text.split()[1] for vm in page.all("li", "vm")}
    assert shown == {vmi["metadata"]["name"] for vmi in vmis}
    assert "drill" in {heading.attributes.get("id") for heading in page.all("h2")}
    metrics = received["/metrics/job/placement/cluster/prod"]
    counts = re.findall(r'_instances\{cluster="[^"]+",namespace="shop",[^}]+\} (\d+)', metrics)
    assert sum(map(int, counts)) == 3


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Controller]:
    """A controller with templates that controller_setup could have made, as the credential of a job names it."""
    with Controller("t0ken", {path.name for path in PROJECT.iterdir()}) as controller:
        lab = controller.add("organizations", name="Lab")["id"]
        for name, survey, organization in (
            ("Placement - verify", "verify", 1),
            ("Placement - enter maintenance mode", "drain", 1),
            ("Placement - rollout", "rollout", 1),
            ("Placement - verify", "verify", lab),
            ("Backup", "verify", 1),
        ):
            template = controller.add("job_templates", name=name, organization=organization)
            controller.surveys["job_templates", template["id"]] = SURVEYS[survey]
        workflow = controller.add(
            "workflow_job_templates", name="Placement - apply after approval", organization=1
        )
        controller.surveys["workflow_job_templates", workflow["id"]] = SURVEYS["workflow"]
        for name, value in (
            ("CONTROLLER_HOST", controller.url),
            ("CONTROLLER_OAUTH_TOKEN", controller.token),
            ("ANSIBLE_ACTION_PLUGINS", str(IN_PROCESS)),
            ("ANSIBLE_COLLECTIONS_PATH", environment()["ANSIBLE_COLLECTIONS_PATH"]),  # awx.awx
        ):
            monkeypatch.setenv(name, value)
        yield controller


@pytest.mark.packaged_modules
def test_choices_are_renewed_from_the_cluster_and_a_second_run_changes_nothing(
    labeled: Stage, controller: Controller
) -> None:
    stage = labeled
    old = dict(controller.surveys)

    result = stage.play(str(PROJECT / "controller_choices.yml"), {}, identity="reader")

    assert result.rc == 0, result.stdout
    surveys = {
        controller.objects[collection][number]["name"]: {
            question["variable"]: question.get("choices") for question in survey["spec"]
        }
        for (collection, number), survey in controller.surveys.items()
        if survey != old[collection, number]
    }
    assert set(surveys) == {
        "Placement - verify",
        "Placement - enter maintenance mode",
        "Placement - apply after approval",
    }
    assert len(controller.writes) == 3
    namespaces = surveys["Placement - verify"]["placement_verify_namespaces"]
    assert namespaces == ["default", "kubevirt", steps.NAMESPACE]
    drain = surveys["Placement - enter maintenance mode"]
    nodes = [node["metadata"]["name"] for node in stage.sandbox.api.list("/api/v1/nodes")]
    assert drain["placement_maintenance_nodes"] == sorted(nodes)
    assert '{"zone": "scu"}' in drain["placement_maintenance_topology"]
    workflow = surveys["Placement - apply after approval"]
    assert workflow["placement_apply_namespace"] == namespaces
    assert stage.play("controller_choices", {}, identity="reader").changed == 0
    assert len(controller.writes) == 3


@pytest.mark.packaged_modules
def test_rollout_takes_a_survey_with_window_canary_and_soak(stage: Stage) -> None:
    now, hours = datetime.now(timezone.utc), timedelta(hours=2)
    start, end = (f"{time:%H:%M}" for time in (now - hours, now + hours))
    wanted = {
        "placement_rollout_namespaces": [steps.NAMESPACE],
        "placement_rollout_scope": "all",
        "placement_rollout_allow": ["recreate"],
        "placement_rollout_window": {"start": start, "end": end, "timezone": "UTC"},
        "placement_rollout_canary": "1",
        "placement_rollout_soak": "1",
        "placement_rollout_max_moves": "1",
    }

    planned = stage.play(
        str(PROJECT / "rollout.yml"), as_survey(wanted), identity="mover", check=True
    )
    approved = artifact(planned, "placement_rollout_plan")
    survey = {**as_survey(wanted), "placement_rollout_plan": approved}
    result = stage.play("rollout", survey, identity="mover")

    assert planned.rc == result.rc == 0, result.stdout
    (module,) = (
        event["event_data"]["res"]
        for event in result.events
        if event["event"] == "runner_on_ok" and event["event_data"]["task"] == "Roll out"
    )
    assert len(module["moves"]) == 1
    assert module["moves"][0]["method"] == "recreate"
    assert module["moves"][0]["uid"] == approved["localhost"]["moves"][0]["uid"]
    assert "max_moves" in module["stop_reason"]
    assert sum("] would recreate " in line for line in progress(planned)) == 1


def _doubled(stage: Stage) -> str:
    nodes = board.nodes_of(stage.sandbox, steps.NAMESPACE, "mssql2016")
    return next(node for node in nodes if nodes.count(node) == 2)


@pytest.mark.packaged_modules
def test_verify_fails_for_a_removed_constraint_and_for_a_node_that_is_not_ready(
    stage: Stage, tmp_path: Path
) -> None:
    api = stage.sandbox.api
    replica_set = api.path("VirtualMachineInstanceReplicaSet", stage.namespace, "mssql2016")
    affinity = api.get(replica_set)["spec"]["template"]["spec"]["affinity"]
    terms = "/spec/template/spec/affinity"
    verify = as_survey({"placement_verify_namespaces": [stage.namespace]})

    api.patch(replica_set, [{"op": "remove", "path": terms}], type="json")
    removed = stage.play("verify", verify, identity="reader")
    api.patch(replica_set, [{"op": "add", "path": terms, "value": affinity}], type="json")
    dead = board.nodes_of(stage.sandbox, stage.namespace, "mssql2016")[0]
    node_faults.node_down(api, dead)
    report = as_survey({"placement_verify_report": {"html": f"{tmp_path}/down.html"}})
    down = stage.play("verify", {**verify, **report}, identity="reader")
    node_faults.node_up(api, dead)

    assert removed.rc != 0
    assert "Verification failed: 3 constraint_removed." in removed.stdout
    lacks = r"lacks a constraint of rules? shop/database/.* removed from its workload\."
    assert re.search(lacks, removed.stdout), removed.stdout
    assert down.rc != 0
    assert "Verification failed: 1 down." in down.stdout
    page = parsed((tmp_path / "down.html").read_text())
    assert "1 is down, since the node is not Ready" in page.all("p", "answer")[0].text
    assert f"on {dead}: node {dead} is not Ready" in down.stdout
