# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every playbook refuses before it writes: hosts that are one cluster, misspelt variables."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from demos.stage import Stage
from sandbox import Sandbox, objects

NAMESPACE = "fleet"
ON_ALL = {"placement_clusters": "clusters"}
RACK = "example.com/rack"
LABELS = {"node_topology_nodes": ["w1"], "node_topology_labels": {RACK: "r1"}}
RULE = {
    "name": "apart",
    "workloads": [{"kind": "Deployment", "name": "web"}],
    "keep_apart": {"over": "zone"},
}
RULES = {
    "placement_rules_namespace": NAMESPACE,
    "placement_rules_rules": [RULE],
    "placement_rules_self_rolling": "now",
}
PLAYBOOKS: dict[str, tuple[str, dict[str, t.Any]]] = {
    "topology": ("labeller", LABELS),
    "apply": ("mover", RULES),
    "verify": ("reader", {"placement_verify_namespaces": [NAMESPACE]}),
    "drill": ("reader", {"placement_drill_keys": ["zone"]}),
}
EACH = pytest.mark.parametrize("playbook", PLAYBOOKS)


def fleet(identity: str, **clusters: Sandbox | pathlib.Path) -> dict[str, t.Any]:
    """An inventory: each host is the cluster that it is given, or that its kubeconfig names."""
    hosts = {}
    for name, cluster in clusters.items():
        file = cluster.kubeconfig(identity) if isinstance(cluster, Sandbox) else cluster
        hosts[name] = {"placement_kubeconfig": str(file)}
    return {"clusters": {"hosts": hosts}}


@pytest.fixture(scope="module")
def stage(plain: Sandbox) -> Stage:
    plain.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    plain.api.apply(objects.deployment("web", NAMESPACE, replicas=2))
    return Stage(plain, NAMESPACE, quiet=True)


@EACH
def test_two_hosts_that_are_one_cluster(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    inventory = fleet(identity, east=stage.sandbox, west=stage.sandbox)
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**ON_ALL, **wanted}, identity=identity, inventory=inventory)

    assert result.rc != 0
    uid = stage.sandbox.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert f"east is cluster {uid} at {stage.sandbox.url}" in result.stdout
    assert f"west is cluster {uid} at {stage.sandbox.url}" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


def test_two_clusters_and_a_third_host_that_cannot_be_reached(
    stage: Stage, small: Sandbox, tmp_path: pathlib.Path
) -> None:
    """What is unreachable fails by itself; the others are labelled, each once."""
    nowhere = tmp_path / "nowhere"
    text = stage.sandbox.kubeconfig("labeller").read_text()
    nowhere.write_text(text.replace(stage.sandbox.url, "https://127.0.0.1:1"))
    inventory = fleet("labeller", east=stage.sandbox, west=small, south=nowhere)

    result = stage.play("topology", {**ON_ALL, **LABELS}, identity="labeller", inventory=inventory)

    assert _failed(result.events) == {"south"}, result.stdout
    for sandbox in (stage.sandbox, small):
        assert sandbox.api.get("/api/v1/nodes/w1")["metadata"]["labels"][RACK] == "r1"
        sandbox.restore_nodes()


def test_a_batch_is_compared_with_those_before_it(stage: Stage, tmp_path: pathlib.Path) -> None:
    play = {
        "hosts": "clusters",
        "connection": "local",
        "gather_facts": False,
        "serial": 1,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}"},
        "module_defaults": {
            "group/virt.placement.auth": {"kubeconfig": "{{ placement_kubeconfig }}"}
        },
        "roles": ["virt.placement.node_topology"],
    }
    file = tmp_path / "serial.yml"
    file.write_text(yaml.safe_dump([play]))
    inventory = fleet("labeller", east=stage.sandbox, west=stage.sandbox)
    mark = stage.sandbox.audit.mark()

    result = stage.play(str(file), LABELS, identity="labeller", inventory=inventory)

    assert _failed(result.events) == {"west"}, result.stdout
    assert len(stage.sandbox.audit.writes(since=mark)) == 1
    stage.sandbox.restore_nodes()


def _failed(events: t.Iterable[dict[str, t.Any]]) -> set[str]:
    return {each["event_data"]["host"] for each in events if each["event"] == "runner_on_failed"}


@EACH
def test_a_host_that_is_another_cluster_than_it_says(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    mark = stage.sandbox.audit.mark()

    another = {"placement_cluster_uid": "another"}
    result = stage.play(playbook, {**another, **wanted}, identity=identity)

    assert result.rc != 0
    assert "cluster_uid says another: nothing was done" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


@EACH
def test_a_misspelt_variable(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    role = next(iter(wanted)).rsplit("_", 1)[0]
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, f"{role}_namespce": "x"}, identity=identity)

    assert result.rc != 0
    assert f"{role}_namespce: no variable of the role {role}" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


@EACH
def test_a_misspelt_variable_of_the_playbooks(stage: Stage, playbook: str) -> None:
    """A misspelt placement_cluster_uid would drop the safeguard that it stands for."""
    identity, wanted = PLAYBOOKS[playbook]
    misspelt = {"placement_cluster_uuid": "another", "placement_kubecfg": "/none"}
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, **misspelt}, identity=identity)

    assert result.rc != 0
    message = _message(result.events)
    assert (
        "placement_cluster_uuid: no variable of this collection, is placement_cluster_uid meant?"
        in message
    )
    assert "placement_kubecfg: no variable of this collection, is placement_kubeconfig" in message
    assert stage.sandbox.audit.writes(since=mark) == []


@EACH
def test_an_answer_that_was_left_empty_is_none(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    names = ("kubeconfig", "context", "host", "api_key", "cluster_uid")
    empty = {f"placement_{name}": "" for name in names}
    role = {
        "topology": {"node_topology_keys": "", "node_topology_per_node": ""},
        "apply": {"placement_rules_max_moves": "", "placement_rules_allow": " "},
        "verify": {"placement_verify_fail_on": "", "placement_verify_workloads": ""},
        "drill": {"placement_drill_timeout": "", "placement_drill_fail_on": ""},
    }[playbook]
    published = {"placement_summary": {"instances": 1}, "placement_drill": []}

    result = stage.play(playbook, {**published, **wanted, **empty, **role}, identity=identity)

    assert result.rc == 0, result.stdout
    stage.sandbox.restore_nodes()


UNREADABLE = {
    "topology": ({"node_topology_labels": "{a: [b"}, "node_topology_labels: must be a list or"),
    "apply": (
        {"placement_rules_rules": "", "placement_rules_allow": "migrate"},
        "placement_rules_rules, placement_rules_allow: must be a list or a map",
    ),
    "verify": ({"placement_verify_namespaces": "shop"}, "placement_verify_namespaces: must be a"),
    "drill": (
        {"placement_drill_timeout": "soon"},
        "placement_drill_timeout: must be a whole number of 0 or more, not soon.",
    ),
}


@EACH
def test_text_that_cannot_be_read_is_named_with_its_variable(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    answers, told = UNREADABLE[playbook]
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, **answers}, identity=identity)

    assert result.rc != 0
    assert told in _message(result.events)
    assert stage.sandbox.audit.writes(since=mark) == []


def test_text_that_is_no_list_is_told_in_one_message_alone(stage: Stage) -> None:
    wanted = {"placement_verify_namespaces": "shop", "placement_verify_workloads": "7"}

    result = stage.play("verify", wanted, identity="reader")

    assert result.rc != 0
    assert _message(result.events) == (
        "placement_verify_namespaces, placement_verify_workloads: must be a list or a map, or YAML"
        " or JSON text of one. Nothing was done."
    )
    assert sum(each["event"] == "runner_on_failed" for each in result.events) == 1
    assert "Assertion failed" not in result.stdout


def test_what_cannot_be_parsed_is_named_with_what_is_no_list(stage: Stage) -> None:
    wanted = {"placement_verify_namespaces": "shop", "placement_verify_workloads": "{a: [b"}

    result = stage.play("verify", wanted, identity="reader")

    message = _message(result.events)
    assert all(name in message for name in wanted)
    assert message.endswith(
        ": must be a list or a map, or YAML or JSON text of one. Nothing was done."
    )


def test_the_nearest_name_is_the_one_that_is_written_most_alike(stage: Stage) -> None:
    identity, wanted = PLAYBOOKS["apply"]
    misspelt = {"placement_rule_rules": [RULE], "placement_foo": "x"}

    result = stage.play("apply", {**wanted, **misspelt}, identity=identity)

    message = _message(result.events)
    assert (
        "placement_rule_rules: no variable of this collection, is placement_rules_rules" in message
    )
    assert "placement_foo: no variable of this collection. " in message


def _message(events: t.Iterable[dict[str, t.Any]]) -> str:
    """What the last task that failed said."""
    failed = [each for each in events if each["event"] == "runner_on_failed"]
    return " ".join(str(failed[-1]["event_data"]["res"]["msg"]).split())
