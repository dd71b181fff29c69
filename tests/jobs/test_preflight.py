# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every playbook refuses before it writes: hosts that are one cluster, misspelt variables."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from demos.stage import PlayResult, Stage
from sandbox import Sandbox, objects

NAMESPACE = "fleet"
ON_ALL = {"placement_clusters": ["clusters"]}
RACK = "example.com/rack"
LABELS = {"placement_topology_nodes": ["w1"], "placement_topology_labels": {RACK: "r1"}}
RULE = {
    "name": "apart",
    "workloads": [{"kind": "Deployment", "name": "web"}],
    "keep_apart": {"topology_key": "zone"},
}
RULES = {
    "placement_apply_namespace": NAMESPACE,
    "placement_apply_rules": [RULE],
    "placement_apply_workload_rollout": "allow",
}
PLAYBOOKS: dict[str, tuple[str, dict[str, t.Any]]] = {
    "topology": ("labeler", LABELS),
    "apply": ("mover", RULES),
    "rollout": ("mover", {"placement_rollout_namespaces": [NAMESPACE]}),
    "verify": ("reader", {"placement_verify_namespaces": [NAMESPACE]}),
    "drill": ("reader", {"placement_drill_domains_of": ["zone"]}),
}
EACH = pytest.mark.parametrize("playbook", PLAYBOOKS)
ALIKE = pytest.mark.parametrize(
    "playbook",
    [
        pytest.param(name, marks=() if name in ("apply", "verify") else pytest.mark.sweep)
        for name in PLAYBOOKS
    ],
)
"""For what the first task of each role does with the same code: by one that writes and one that reads."""


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


@ALIKE
def test_two_hosts_that_are_one_cluster(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    inventory = fleet(identity, east=stage.sandbox, west=stage.sandbox)
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**ON_ALL, **wanted}, identity=identity, inventory=inventory)

    assert result.rc != 0
    uid = stage.sandbox.api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert _message(result) == (
        f"2 inventory hosts are the same cluster, with UID {uid}: east ({stage.sandbox.url}),"
        f" west ({stage.sandbox.url}). Give each host its own placement_kubeconfig or"
        " placement_host, or name only one of them in placement_clusters. Nothing was changed."
    )
    assert stage.sandbox.audit.writes(since=mark) == []


@ALIKE
def test_a_cluster_that_the_inventory_does_not_have(stage: Stage, playbook: str) -> None:
    """Ansible skips such a play with rc 0: a mistyped name would verify nothing and succeed."""
    identity, wanted = PLAYBOOKS[playbook]
    inventory = fleet(identity, east=stage.sandbox)
    missing = {"placement_clusters": "esat"}

    result = stage.play(playbook, {**missing, **wanted}, identity=identity, inventory=inventory)

    assert result.rc != 0
    assert "placement_clusters matches no host of the inventory" in result.stdout


def test_two_clusters_and_a_third_host_that_cannot_be_reached(
    stage: Stage, small: Sandbox, tmp_path: pathlib.Path
) -> None:
    """What is unreachable fails by itself; the others are labelled, each once."""
    nowhere = tmp_path / "nowhere"
    text = stage.sandbox.kubeconfig("labeler").read_text()
    nowhere.write_text(text.replace(stage.sandbox.url, "https://127.0.0.1:1"))
    inventory = fleet("labeler", east=stage.sandbox, west=small, south=nowhere)

    result = stage.play("topology", {**ON_ALL, **LABELS}, identity="labeler", inventory=inventory)

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
        "roles": ["virt.placement.placement_topology"],
    }
    file = tmp_path / "serial.yml"
    file.write_text(yaml.safe_dump([play]))
    inventory = fleet("labeler", east=stage.sandbox, west=stage.sandbox)
    mark = stage.sandbox.audit.mark()

    result = stage.play(str(file), LABELS, identity="labeler", inventory=inventory)

    assert _failed(result.events) == {"west"}, result.stdout
    assert len(stage.sandbox.audit.writes(since=mark)) == 1
    stage.sandbox.restore_nodes()


def _failed(events: t.Iterable[dict[str, t.Any]]) -> set[str]:
    return {event["event_data"]["host"] for event in events if event["event"] == "runner_on_failed"}


@ALIKE
def test_playbook_refuses_a_cluster_with_another_uid(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    mark = stage.sandbox.audit.mark()

    another = {"placement_cluster_uid": "another"}
    result = stage.play(playbook, {**another, **wanted}, identity=identity)

    assert result.rc != 0
    assert "cluster_uid says another: nothing was done" in result.stdout
    assert stage.sandbox.audit.writes(since=mark) == []


@ALIKE
def test_a_misspelt_variable(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    misspelt = f"placement_{playbook}_topology_kyes"
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, misspelt: "x"}, identity=identity)

    assert result.rc != 0
    assert _message(result) == (
        f"{misspelt}: unknown variable of the role placement_{playbook}."
        f" Did you mean placement_{playbook}_topology_keys? Nothing was changed."
    )
    assert stage.sandbox.audit.writes(since=mark) == []


@ALIKE
def test_a_misspelt_variable_of_the_playbooks(stage: Stage, playbook: str) -> None:
    """A misspelt placement_cluster_uid would drop the safeguard that it stands for."""
    identity, wanted = PLAYBOOKS[playbook]
    misspelt = {"placement_cluster_uuid": "another", "placement_kubecfg": "/none"}
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, **misspelt}, identity=identity)

    assert result.rc != 0
    message = _message(result)
    assert "placement_cluster_uuid: unknown variable. Did you mean placement_cluster_uid" in message
    assert "placement_kubecfg: unknown variable. Did you mean placement_kubeconfig" in message
    assert stage.sandbox.audit.writes(since=mark) == []


GATES = {
    "apply": "placement_apply_fail_on",
    "verify": "placement_verify_fail_on",
    "drill": "placement_drill_fail_on",
}


@pytest.mark.parametrize(
    ("playbook", "form"),
    [
        *((playbook, ["unknwon"]) for playbook in GATES),
        ("apply", "[unknwon]"),
        pytest.param("verify", "[unknwon]", marks=pytest.mark.sweep),
        pytest.param("drill", "[unknwon]", marks=pytest.mark.sweep),
    ],
)
def test_a_misspelt_gate_is_an_error(stage: Stage, playbook: str, form: str | list[str]) -> None:
    identity, wanted = PLAYBOOKS[playbook]

    result = stage.play(playbook, {**wanted, GATES[playbook]: form}, identity=identity)

    assert result.rc != 0, result.stdout
    message = _message(result)
    assert f"{GATES[playbook]}: unknown value 'unknwon'. Did you mean unknown?" in message


def test_apply_requires_its_namespace_and_rules(stage: Stage) -> None:
    result = stage.play("apply", {"placement_apply_namespace": ""}, identity="mover")

    assert result.rc != 0, result.stdout
    assert _message(result) == (
        "placement_apply_namespace: required, and not given."
        " placement_apply_rules: required, and not given. Nothing was changed."
    )


def test_the_summary_is_published_for_each_host(stage: Stage, small: Sandbox) -> None:
    """One cluster runs the two pods of a Deployment, the other none."""
    wanted = {**ON_ALL, "placement_verify_namespaces": [NAMESPACE]}
    small.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})

    result = stage.play(
        "verify",
        wanted,
        identity="reader",
        inventory=fleet("reader", east=stage.sandbox, west=small),
    )

    assert result.rc == 0, result.stdout
    stats = [event for event in result.events if event["event"] == "playbook_on_stats"][-1]
    summary = stats["event_data"]["artifact_data"]["placement_summary"]
    assert {host: counts["instances"] for host, counts in summary.items()} == {"east": 2, "west": 0}


@EACH
def test_empty_answers_and_other_variables_change_nothing(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    names = ("kubeconfig", "context", "host", "api_key", "validate_certs", "cluster_uid")
    empty = {f"placement_{name}": "" for name in names}
    role = {
        "topology": {"placement_topology_topology_keys": "", "placement_topology_per_node": ""},
        "apply": {"placement_apply_max_moves": "", "placement_apply_allow": " "},
        "verify": {"placement_verify_fail_on": "", "placement_verify_workloads": ""},
        "rollout": {"placement_rollout_window": "", "placement_rollout_canary": " "},
        "drill": {"placement_drill_timeout": "", "placement_drill_fail_on": ""},
    }[playbook]
    published = {"placement_summary": {"east": {"instances": 1}}, "placement_drill": {"east": []}}
    others = {**published, "placement_group": "of the user"}

    result = stage.play(playbook, {**others, **wanted, **empty, **role}, identity=identity)

    assert result.rc == 0, result.stdout
    stage.sandbox.restore_nodes()


BROKEN_YAML = "{a: [b"
UNREADABLE = {
    "topology": {"placement_topology_labels": BROKEN_YAML},
    "apply": {"placement_apply_rules": "web", "placement_apply_allow": "migrate, stop"},
    "rollout": {"placement_rollout_window": "22:00", "placement_rollout_canary": "one"},
    "verify": {"placement_verify_namespaces": "shop", "placement_verify_workloads": BROKEN_YAML},
    "drill": {"placement_drill_timeout": "soon"},
}


@EACH
def test_text_that_cannot_be_read_is_named_with_its_variable(stage: Stage, playbook: str) -> None:
    identity, wanted = PLAYBOOKS[playbook]
    answers = UNREADABLE[playbook]
    mark = stage.sandbox.audit.mark()

    result = stage.play(playbook, {**wanted, **answers}, identity=identity)

    assert result.rc != 0
    message = _message(result)
    for name, text in answers.items():
        if text == BROKEN_YAML:
            assert f"{name}: not valid YAML: line 2, column 1: " in message
        else:
            assert f"{name}: must be a " in message
            assert repr(text) in message
    assert message.endswith(" Nothing was changed.")
    assert sum(event["event"] == "runner_on_failed" for event in result.events) == 1
    assert stage.sandbox.audit.writes(since=mark) == []


def _message(result: PlayResult) -> str:
    """The lines of the last task that failed."""
    return " ".join(result.failure())
