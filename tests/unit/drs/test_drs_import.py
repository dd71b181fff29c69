# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""drs_import on exports of one cluster with two dozen rules, in each format."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.module_utils.model.topology import Topology
from ansible_collections.virt.placement.plugins.module_utils.rules.parse import read_rules
from ansible_collections.virt.placement.plugins.modules import drs_import
from tests.conftest import RunModule

EXPORTS = Path(__file__).parent / "exports"
COMMUNITY = ("community_rules.json", "community_groups.json")
GOVC = ("govc_config.json", "govc_vms.json", "govc_hosts.json")
FORMATS = {
    "community.vmware": COMMUNITY,
    "Export-DrsRule": ("export_drs_rule.json",),
    "govc": GOVC,
    "govc without types": (
        "govc_config_untyped.json",
        "govc_vms.json",
        "govc_hosts.json",
        "govc_types.json",
    ),
    # printed by govc 0.46, which does not print types, from what vcsim stores: vcsim/make.sh
    "govc of vcsim": tuple(f"vcsim/{x}.json" for x in ("config", "vms", "hosts", "types")),
}
HOSTS = {f"esx{i}.example.com": f"w{i}" for i in range(1, 7)}
OPTIONS = {"namespace": "shop", "cluster": "Production", "host_names": HOSTS}
DO_NOT_MOVE = {"placement.virt/do-not-move": "true"}

RULES = [
    {"name": "web-apart", "workloads": ["web-1", "web-2", "web-3"], "keep_apart": "node"},
    {
        "name": "app-with-db",
        "workloads": ["app"],
        "keep_together": {"topology_key": "node", "with": "db.prod"},
    },
    {
        "name": "cache-with-app",
        "workloads": ["cache"],
        "keep_together": {"topology_key": "node", "with": "app"},
    },
    {"name": "mail-apart", "workloads": ["mail-1", "mail-2"], "keep_apart": "node"},
    {
        "name": "old-pair",
        "workloads": ["batch", "legacy-vm-old"],
        "keep_apart": "node",
        "enabled": False,
    },
    {
        "name": "sap-together",
        "workloads": ["sap-app"],
        "keep_together": {"topology_key": "node", "with": "sap-hana"},
    },
    {"name": "sap-apart-from-web", "workloads": ["sap-hana", "web-1"], "keep_apart": "node"},
    {
        "name": "sap-on-licensed",
        "workloads": ["sap-hana", "sap-app"],
        "run_on": {"drs.placement.virt/licensed": "true"},
    },
    {
        "name": "db-should-on-A",
        "workloads": ["db.prod"],
        "run_on": {"drs.placement.virt/site-A": "true"},
        "preferred": True,
    },
    {
        "name": "legacy-not-on-gpu",
        "workloads": ["legacy-vm-old"],
        "avoid": {"drs.placement.virt/gpu": "true"},
    },
    {
        "name": "mail-should-not-on-B",
        "workloads": ["mail-1", "mail-2"],
        "avoid": {"drs.placement.virt/site-B": "true"},
        "preferred": True,
    },
    {
        "name": "batch-on-B",
        "workloads": ["batch", "build"],
        "run_on": {"drs.placement.virt/site-B": "true"},
        "enabled": False,
    },
    {"name": "batch-build-apart", "workloads": ["batch", "build"], "keep_apart": "node"},
    {"name": "batch-build-apart-2", "workloads": ["batch", "build"], "keep_apart": "node"},
    {
        "name": "build-with-batch",
        "workloads": ["build"],
        "keep_together": {"topology_key": "node", "with": "batch"},
        "enabled": False,
    },
    {
        "name": "legacy-on-A-not-gpu",
        "workloads": ["legacy-vm-old"],
        "run_on": {"drs.placement.virt/site-A": "true"},
    },
    {
        "name": "legacy-on-A-not-gpu-2",
        "workloads": ["legacy-vm-old"],
        "avoid": {"drs.placement.virt/gpu": "true"},
    },
    {"name": "cache-apart-from-mail-1", "workloads": ["cache", "mail-1"], "keep_apart": "node"},
    {"name": "cache-apart-from-mail-2", "workloads": ["cache", "mail-2"], "keep_apart": "node"},
    {
        "name": "lone-on-licensed",
        "workloads": ["sap-hana", "sap-app"],
        "run_on": {"drs.placement.virt/licensed": "true"},
        "preferred": True,
        "enabled": False,
    },
    {"name": "web-1-from-batch", "workloads": ["web-1", "batch"], "keep_apart": "node"},
]
NODE_LABELS = {
    "drs.placement.virt/licensed": {"true": ["w1", "w2"]},
    "drs.placement.virt/site-A": {"true": ["w1", "w2", "w3"]},
    "drs.placement.virt/site-B": {"true": ["w4", "w5", "w6"]},
    "drs.placement.virt/gpu": {"true": ["w6"]},
}


def files(*names: str) -> list[str]:
    return [str(EXPORTS / name) for name in names]


def imported(run_module: RunModule, *names: str, **options: t.Any) -> dict[str, t.Any]:
    return run_module(drs_import.main, {**OPTIONS, "files": files(*names), **options})


def rule(name: str, kind: str | None, *vms: str, **fields: t.Any) -> dict[str, t.Any]:
    """A rule as vmware_drs_rule_info returns it: an affinity, an anti-affinity, or one of a host group `kind`."""
    common = {"rule_name": name, "rule_enabled": True, "rule_mandatory": True, "rule_vms": [*vms]}
    if kind in ("together", "apart"):
        own = {"rule_type": "vm_vm_rule", "rule_affinity": kind == "together"}
    else:
        own = {
            "rule_type": "vm_host_rule",
            "rule_vm_group_name": f"vms of {name}",
            "rule_affine_host_group_name": kind,
            "rule_affine_hosts": ["esx1", "esx2"],
        }
    return {**common, **own, **fields}


def content(*rules: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"drs_rule_info": {"Production": [*rules]}}


def of_content(
    run_module: RunModule, *rules: dict[str, t.Any], **options: t.Any
) -> dict[str, t.Any]:
    return run_module(drs_import.main, {"content": content(*rules), "namespace": "shop", **options})


def messages(result: dict[str, t.Any]) -> list[str]:
    assert result["failed"]
    return [error["message"] for error in result["errors"]]


def rules_of(result: dict[str, t.Any]) -> dict[str, list[dict[str, t.Any]]]:
    return {entry["namespace"]: entry["rules"] for entry in result["namespaces"]}


def codes(part: dict[str, t.Any]) -> list[str]:
    return [decision["code"] for decision in part["decisions"]]


@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_each_format_becomes_the_same_rules_and_labels(
    run_module: RunModule, names: tuple[str, ...]
) -> None:
    result = imported(run_module, *names)

    assert rules_of(result) == {"shop": RULES}
    assert result["node_labels"] == NODE_LABELS
    parsed = read_rules(RULES, namespace="shop", rule_set="drs", topology=Topology.of({}))
    assert parsed.faults == ()


@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_each_rule_is_in_exactly_one_column(run_module: RunModule, names: tuple[str, ...]) -> None:
    result = imported(run_module, *names)

    parts = [
        (part["name"], part["where"])
        for column in result["report"].values()
        for part in column
        if part["kind"] == "rule"
    ]
    assert len(parts) == len(set(parts)) == result["counts"]["rules"]
    assert result["counts"]["rules"] == (
        24 if names[0].startswith(("govc", "vcsim")) else 23
    )  # no dependency rule
    assert sum(result["counts"].values()) == 2 * result["counts"]["rules"]


def test_report_has_what_is_left_out_and_why(run_module: RunModule) -> None:
    report = imported(run_module, *GOVC)["report"]

    reasons = {part["name"]: part["reason"] for part in report["no_counterpart"]}
    assert reasons == {
        "lone rule": "It has 1 VM, so that it does nothing.",
        "empty rule": "It has 0 VMs, so that it does nothing.",
        "nobody on A": "Its VM group 'nobody' is empty or does not exist.",
        "db before app": "VMs have no start order that depends on other VMs.",
        "spare hosts": "No rule that is carried over names it.",
        "lone": "Automation partiallyAutomated has no counterpart: VMs move only when a playbook moves them.",
        "db.prod": (
            "Restart priority and isolation response have no counterpart. KubeVirt restarts each VM of a failed node"
            " after the node is fenced."
        ),
    }
    assert {part["name"] for part in report["carried_over"]} == {
        "mail apart",
        "sap on licensed",
        "db should on A",
        "legacy not on gpu",
        "mail should not on B",
        "legacy on A not gpu",
        "licensed",
        "site A",
        "site B",
        "gpu",
        "Legacy VM (old)",
        "build",
    }
    decided = {part["name"]: codes(part) for part in report["decisions"]}
    assert decided["web apart"] == ["required"]
    assert decided["app with db"] == ["required", "leader"]
    assert decided["cache with app"] == ["leader"]
    assert decided["old pair"] == ["rests", "required"]
    assert decided["batch on B"] == decided["lone on licensed"] == ["rests"]
    assert decided["build with batch?"] == ["rests", "required", "leader"]


def test_overrides_become_labels_that_keep_vms_on_their_node(run_module: RunModule) -> None:
    of_configuration = imported(run_module, *GOVC)
    beside_rules = imported(run_module, *COMMUNITY, "govc_overrides.json")
    without = imported(run_module, *COMMUNITY)

    assert of_configuration["vm_labels"] == [
        {"namespace": "shop", "name": "build", "labels": DO_NOT_MOVE},
        {"namespace": "shop", "name": "legacy-vm-old", "labels": DO_NOT_MOVE},
    ]
    assert beside_rules["vm_labels"] == of_configuration["vm_labels"]
    both = imported(run_module, *GOVC, "govc_overrides.json")
    kinds = [(p["kind"], p["name"]) for column in both["report"].values() for p in column]
    assert len(kinds) == len(set(kinds))
    assert beside_rules.get("warnings", []) == []
    assert without["vm_labels"] == []
    assert "no overrides of VMs" in str(without["warnings"])


def test_overrides_that_govc_prints_are_those_of_its_configuration(run_module: RunModule) -> None:
    names = FORMATS["govc of vcsim"]
    result = imported(run_module, *names, "vcsim/overrides.json")

    assert result["vm_labels"] == imported(run_module, *names)["vm_labels"]
    assert result["vm_labels"] == imported(run_module, *GOVC)["vm_labels"]
    overrides = [x for column in result["report"].values() for x in column if "over" in x["kind"]]
    assert sorted(x["name"] for x in overrides) == ["Legacy VM (old)", "build", "db.prod", "lone"]


def test_table_has_each_part_and_its_decisions(run_module: RunModule) -> None:
    table = imported(run_module, *GOVC)["table"]

    assert table.startswith("CARRIED OVER: 12\n")
    assert "\nCARRIED OVER WITH A DECISION: 14\n" in table
    assert "\nNO COUNTERPART: 7\n" in table
    assert "On the node of db.prod: app. db.prod itself has no constraint by it" in table
    assert "On the node of app: cache. app itself follows db.prod by another rule." in table


def test_disabled_rule_is_carried_over_where_it_is_named(run_module: RunModule) -> None:
    result = imported(run_module, *GOVC, enable_rules=["batch on B"])

    made = {made["name"]: made for made in rules_of(result)["shop"]}
    assert made["batch-on-B"]["run_on"] == {"drs.placement.virt/site-B": "true"}
    (part,) = [x for x in result["report"]["decisions"] if x["name"] == "batch on B"]
    assert codes(part) == ["enabled"]
    assert "enabled" not in made["batch-on-B"]


def test_disabled_rules_change_nothing_that_enabled_ones_become(run_module: RunModule) -> None:
    """vCenter disables a rule that conflicts with another one: it is no error, and chooses no leader."""
    enabled = [rule("one", "together", "a", "b"), rule("other", "together", "c", "d")]
    disabled = [
        rule("joins both", "together", "b", "c", rule_enabled=False),
        rule("conflicts", "apart", "a", "b", rule_enabled=False),
        rule("again", "together", "b", "a", rule_enabled=False),
    ]
    alone = of_content(run_module, *enabled)
    result = of_content(run_module, *enabled, *disabled)

    assert rules_of(result)["shop"][:2] == rules_of(alone)["shop"]
    assert rules_of(result)["shop"][2:] == [
        {
            "name": "joins-both",
            "workloads": ["c"],
            "keep_together": {"topology_key": "node", "with": "a"},
            "enabled": False,
        },
        {"name": "conflicts", "workloads": ["a", "b"], "keep_apart": "node", "enabled": False},
    ]
    (again,) = [part for part in result["report"]["no_counterpart"] if part["kind"] == "rule"]
    assert (again["name"], again["reason"]) == (
        "again",
        "It is disabled, and enabled rules keep its VMs together already.",
    )


def test_vms_are_found_by_what_forklift_left_on_them(run_module: RunModule) -> None:
    annotations = {"openshift.io/display-name": "WEB_1", "original-ID": "vm-101"}
    vms = [
        {"metadata": {"name": "web-1-x7qz", "namespace": "shop", "annotations": annotations}},
        {"name": "web-1", "namespace": "other", "display_name": "Web.1", "original_id": "vm-7"},
        {"name": "web-2", "namespace": "shop"},
        {"name": "third", "namespace": "shop"},
    ]
    result = of_content(
        run_module,
        rule("web", "apart", "WEB_1", "WEB_2", "WEB_3"),
        vms=vms,
        vm_names={"WEB_3": "third"},
    )

    assert rules_of(result) == {
        "shop": [
            {"name": "web", "workloads": ["web-1-x7qz", "web-2", "third"], "keep_apart": "node"}
        ]
    }


def test_annotation_of_a_tenant_beats_no_vm_of_the_name(run_module: RunModule) -> None:
    """Each owner of a VM may write openshift.io/display-name, in each namespace."""
    vms = [
        {"name": "db", "namespace": "shop"},
        {"name": "trap", "namespace": "tenant", "display_name": "db"},
        {"name": "moved-x7qz", "namespace": "shop", "display_name": "moved"},
        {"name": "out", "namespace": "tenant", "display_name": "OUT"},
    ]

    result = of_content(
        run_module, rule("r", "apart", "db", "moved", "OUT"), vms=vms, namespace="shop"
    )

    assert rules_of(result)["shop"][0]["workloads"] == ["db", "moved-x7qz"]
    (made,) = result["report"]["decisions"]
    texts = [x["taken"] for x in made["decisions"] if x["code"] == "vm_annotations"]
    assert texts == [
        "VM 'db' is shop/db, by its name. tenant/trap has that name in its annotations.",
        "VM 'OUT' is tenant/out, in another namespace, by its annotation openshift.io/display-name alone.",
    ]


@pytest.mark.parametrize("annotation", ["backup/1", "backup%2f1"])
def test_annotation_of_forklift_may_be_escaped_as_in_the_api(
    run_module: RunModule, annotation: str
) -> None:
    """Releases of Forklift differ in this."""
    annotations = {"openshift.io/display-name": annotation, "original-ID": "vm-1"}
    vms = [{"metadata": {"name": "b-x7qz", "annotations": annotations}}, {"name": "web"}]

    result = of_content(run_module, rule("r", "apart", "backup%2f1", "web"), vms=vms)

    assert rules_of(result) == {
        "shop": [{"name": "r", "workloads": ["b-x7qz", "web"], "keep_apart": "node"}]
    }


def test_vm_of_the_name_that_came_from_another_vm_is_named(run_module: RunModule) -> None:
    """Forklift before 2.9 wrote a space for `+` into the annotation (pull request 2101)."""
    vms = [
        {"name": "a-b", "namespace": "shop", "display_name": "a b", "original_id": "vm-1"},
        {"name": "web", "namespace": "shop"},
    ]

    (message,) = messages(of_content(run_module, rule("r", "apart", "a+b", "web"), vms=vms))

    assert "VM 'a+b' is not on the cluster" in message
    assert "shop/a-b has this name, but came from VM 'a b' vm-1 by its annotations" in message


def test_vms_that_are_not_there_yet_fail_or_are_left_out(run_module: RunModule) -> None:
    rules = (rule("web", "apart", "a", "b", "c"), rule("pair", "together", "a", "c"))
    vms = [{"name": "a"}, {"name": "b"}]
    refused = of_content(run_module, *rules, vms=vms)
    result = of_content(run_module, *rules, vms=vms, missing_vms="leave_out")

    (message,) = messages(refused)
    assert "rule 'web'" in message and "VM 'c' is not on the cluster" in message
    assert [made["workloads"] for made in rules_of(result)["shop"]] == [["a", "b"]]
    (web,) = result["report"]["decisions"]
    assert codes(web) == ["missing_vms"]
    (pair,) = result["report"]["no_counterpart"]
    assert pair["reason"] == "Too few of its VMs are on the cluster: c not."


def test_vms_that_are_expected_are_named_as_they_will_be(run_module: RunModule) -> None:
    rules = (rule("web", "apart", "a", "b", "Web_1"), rule("pair", "together", "a", "old"))
    vms = [{"name": "a"}, {"name": "b"}]
    result = of_content(
        run_module, *rules, vms=vms, missing_vms="expect", vm_names={"old": "shop/legacy"}
    )

    web, pair = rules_of(result)["shop"]
    assert web["workloads"] == ["a", "b", "web-1"]
    assert {*pair["workloads"], pair["keep_together"]["with"]} == {"a", "legacy"}
    of_web, of_pair = result["report"]["decisions"]
    assert codes(of_web) == ["expected_vms"] and "shop/web-1, not on the" in str(of_web)
    assert codes(of_pair) == ["expected_vms", "leader"]
    assert [vm["name"] for vm in result["expected_vms"]] == ["legacy", "web-1"]


def test_expected_vm_is_not_one_of_its_name_in_another_namespace(run_module: RunModule) -> None:
    vms = [{"name": "a", "namespace": "back"}, {"name": "b", "namespace": "back"}]
    apart = rule("web", "apart", "a", "b")
    expected = of_content(run_module, apart, vms=vms, missing_vms="expect")
    found = of_content(run_module, apart, vms=vms)

    assert list(rules_of(expected)) == ["shop"]
    assert list(rules_of(found)) == ["back"]


def test_expected_vm_whose_name_is_taken_is_refused(run_module: RunModule) -> None:
    """Forklift adds a random suffix to such a name."""
    other = {"name": "a-b", "namespace": "shop", "display_name": "a b", "original_id": "vm-1"}
    moved = rule("r", "apart", "a+b", "web")

    (message,) = messages(of_content(run_module, moved, vms=[other], missing_vms="expect"))
    elsewhere = {**other, "namespace": "back"}
    result = of_content(run_module, moved, vms=[elsewhere], missing_vms="expect")

    assert "shop/a-b has this name, but came from VM 'a b' vm-1 by its annotations" in message
    assert rules_of(result)["shop"][0]["workloads"] == ["a-b", "web"]


def test_rule_over_two_namespaces_is_one_rule_in_each(run_module: RunModule) -> None:
    vm_names = {"b1": "back/b1", "b2": "back/b2"}
    result = of_content(
        run_module,
        rule("apart", "apart", "f1", "f2", "b1", "b2"),
        rule("beside", "together", "g1", "b1"),
        rule("here", "licensed", "f1", "b1", rule_mandatory=False),
        vm_names=vm_names,
        host_groups={"licensed": {"labels": {"zone": ["a", "b"]}}},
    )

    place = {"run_on": {"zone": ["a", "b"]}, "preferred": True}
    others = {"topology_key": "node", "from": [{"namespace": "back", "names": ["b1", "b2"]}]}
    beside = {"topology_key": "node", "with": {"namespace": "back", "name": "b1"}}
    assert rules_of(result) == {
        "back": [
            {"name": "apart", "workloads": ["b1", "b2"], "keep_apart": "node"},
            {"name": "here", "workloads": ["b1"], **place},
        ],
        "shop": [
            {"name": "apart", "workloads": ["f1", "f2"], "keep_apart": "node"},
            {"name": "apart-from-others", "workloads": ["f1", "f2"], "keep_apart": others},
            {"name": "beside", "workloads": ["g1"], "keep_together": beside},
            {"name": "here", "workloads": ["f1"], **place},
        ],
    }
    assert result["node_labels"] == {}
    for namespace, made in rules_of(result).items():
        parsed = read_rules(made, namespace=namespace, rule_set="drs", topology=Topology.of({}))
        assert parsed.faults == ()


def test_vm_with_a_rule_of_hosts_leads(run_module: RunModule) -> None:
    """The app would lead by the number of its rules, and could run where the database must not."""
    pairs = (rule("1", "together", "app", "db"), rule("2", "together", "app", "cache"))
    should, must = (
        rule("should", "licensed", "cache", rule_mandatory=False),
        rule("must", "licensed", "db"),
    )
    leaders = [
        [
            made["keep_together"]["with"]
            for made in rules_of(of_content(run_module, *listed, nodes=NODES))["shop"]
            if "keep_together" in made
        ]
        for listed in (pairs, (*pairs, should), (*pairs, should, must))
    ]
    assert leaders == [["app", "app"], ["app", "cache"], ["db", "app"]]


def test_follower_that_is_bound_to_hosts_is_named(run_module: RunModule) -> None:
    """The user names a leader, or two VMs of one group are bound."""
    together, must = rule("1", "together", "app", "db"), rule("must", "licensed", "db")
    result = of_content(run_module, together, must, leaders=["app"], nodes=NODES)

    (part,) = result["report"]["decisions"]
    taken = {x["code"]: x["taken"] for x in part["decisions"]}
    assert taken["leader"].endswith(
        " Bound to hosts: db (by must). While app runs elsewhere, a forecast says impossible: write that rule for it,"
        " too, or let such a VM lead."
    )
    both = rule("must", "licensed", "db", "app")
    result = of_content(run_module, together, both, leaders=["app"], nodes=NODES)
    assert "Bound to hosts" not in json.dumps(result["report"])


NODES = ["esx1", "esx2", "esx3"]


@pytest.mark.parametrize("leaders", [[], ["app"], ["db"]])
def test_host_rules_that_leave_no_node_for_vms_kept_together_are_a_contradiction(
    run_module: RunModule, leaders: list[str]
) -> None:
    """It ended with the advice to let another VM lead, and none could."""
    rules = (
        rule("one", "together", "app", "cache"),
        rule("two", "together", "cache", "db"),
        rule("all", "licensed", "cache"),
        rule("left", "one host", "app", rule_affine_hosts=["esx1"]),
        rule("right", "other host", "db", rule_affine_hosts=["esx2"]),
    )
    result = of_content(run_module, *rules, leaders=leaders, nodes=NODES)

    assert messages(result) == [
        f"{place(3)}: no node satisfies it together with rule 'right', rule 'one', rule 'two': affinity keeps app, db"
        " on one node, 'left' keeps app on esx1, 'right' keeps db on esx2. Leave one of these rules out with"
        " skip_rules, or mend it in the source and export again"
    ]
    for name in ("one", "two", "left", "right"):
        assert "failed" not in of_content(run_module, *rules, skip_rules=[name], nodes=NODES)


def place(index: int) -> str:
    names = ("one", "two", "all", "left", "right")
    return f"content, drs_rule_info.Production[{index}], rule {names[index]!r}"


def test_host_rules_of_one_vm_that_leave_no_node_are_a_contradiction(
    run_module: RunModule,
) -> None:
    here = rule("on", "licensed", "a")
    off = rule("off", None, "a", **avoided("esx1", "esx2"))
    (message,) = messages(of_content(run_module, here, off, nodes=NODES))
    assert "'on' keeps a on esx1, esx2, 'off' keeps a off esx1, esx2. Leave one" in message

    nowhere = rule("off", None, "a", **avoided(*NODES))
    (message,) = messages(of_content(run_module, nowhere, nodes=NODES))
    assert "no node satisfies it: 'off' keeps a off esx1, esx2, esx3. Leave it out" in message
    wish = {**here, "rule_mandatory": False}
    assert "failed" not in of_content(run_module, wish, off, nodes=NODES)
    disabled = {**here, "rule_enabled": False}
    assert "failed" not in of_content(run_module, disabled, off, nodes=NODES)


def test_nodes_of_a_label_that_nodes_have_already_contradict_nothing(run_module: RunModule) -> None:
    """It is not known which nodes have it."""
    rules = (
        rule("left", "one host", "a", rule_affine_hosts=["esx1"]),
        rule("right", "other host", "a", rule_affine_hosts=["esx2"]),
    )
    groups = {"one host": {"labels": {"zone": "a"}}}
    assert "failed" not in of_content(run_module, *rules, host_groups=groups, nodes=NODES)
    same = {"one host": ["esx2"]}
    assert "failed" not in of_content(run_module, *rules, host_groups=same, nodes=NODES)


def avoided(*hosts: str) -> dict[str, t.Any]:
    return {
        "rule_affine_host_group_name": None,
        "rule_affine_hosts": [],
        "rule_anti_affine_host_group_name": f"all of {hosts}",
        "rule_anti_affine_hosts": [*hosts],
    }


def test_vm_follows_a_vm_of_its_own_rule(run_module: RunModule) -> None:
    """A rule about two VMs was reported as violated when a third one had moved away."""
    rules = (
        rule("a-b", "together", "a", "b"),
        rule("b-c", "together", "b", "c"),
        rule("must", "licensed", "c"),
    )
    result = of_content(run_module, *rules, nodes=NODES)

    beside = {made["name"]: made for made in rules_of(result)["shop"] if "keep_together" in made}
    assert {
        name: (made["workloads"], made["keep_together"]["with"]) for name, made in beside.items()
    } == {
        "a-b": (["a"], "b"),
        "b-c": (["b"], "c"),
    }


def test_leaders_are_those_that_the_user_names(run_module: RunModule) -> None:
    rules = (rule("one", "together", "a", "b"), rule("two", "together", "b", "c"))
    result = of_content(run_module, *rules, leaders=["c"])
    refused = of_content(run_module, *rules, leaders=["a", "c"])

    assert rules_of(result)["shop"] == [
        {"name": "one", "workloads": ["a"], "keep_together": {"topology_key": "node", "with": "b"}},
        {"name": "two", "workloads": ["b"], "keep_together": {"topology_key": "node", "with": "c"}},
    ]
    assert messages(refused) == [
        "leaders: has a and c, which affinity rules keep together: name one of them"
    ]


def test_affinity_rules_that_share_several_vms_are_one_group(run_module: RunModule) -> None:
    rules = (
        rule("pair", "together", "a", "b"),
        rule("three", "together", "a", "b", "c"),
        rule("gone", "together", "a", "c", "x"),
    )
    vms = [{"name": name} for name in "abc"]
    result = of_content(run_module, *rules, vms=vms, missing_vms="leave_out")

    beside_a = {"topology_key": "node", "with": "a"}
    assert rules_of(result)["shop"] == [
        {"name": "pair", "workloads": ["b"], "keep_together": beside_a},
        {"name": "three", "workloads": ["c"], "keep_together": beside_a},
    ]
    (gone,) = result["report"]["no_counterpart"]
    assert gone["reason"] == "Its VMs are kept together already by 'three'."
    assert gone["advice"] == "Import again when x are there."


@pytest.mark.parametrize("others", [["abc"], ["ab", "bc"], ["ab", "abc"]])
def test_affinity_rule_that_adds_nothing_to_those_before_it_is_a_cycle(
    run_module: RunModule, others: list[str]
) -> None:
    rules = [rule(f"over {vms}", "together", *vms) for vms in others]
    vms = [{"name": name} for name in "abc"]
    result = of_content(run_module, *rules, rule("again", "together", "c", "b"), vms=vms)

    (message,) = messages(result)
    names = ", ".join(repr(f"over {x}") for x in others)
    assert f"rule 'again': its VMs c and b are kept together already by {names}: a cycle" in message


def test_disabled_rule_over_two_groups_joins_them_when_it_is_enabled(run_module: RunModule) -> None:
    """Its VM that follows another one by an enabled rule could not satisfy a second one."""
    rules = (
        rule("left", "together", "a", "b"),
        rule("right", "together", "c", "d"),
        rule("joins", "together", "b", "d", rule_enabled=False),
        rule("back", "together", "d", "b", rule_enabled=False),
    )
    result = of_content(run_module, *rules)

    joined = {"workloads": ["c"], "keep_together": {"topology_key": "node", "with": "a"}}
    assert rules_of(result)["shop"][2:] == [
        {"name": "joins", **joined, "enabled": False},
        {"name": "back", **joined, "enabled": False},
    ]
    taken = result["report"]["decisions"][2]["decisions"][-1]["taken"]
    assert taken.startswith("On the node of a: c. ")
    assert taken.endswith(" By enabled rules b follows a, d follows c.")


def test_nodes_with_the_names_of_hosts_need_no_table(run_module: RunModule) -> None:
    nodes = [{"metadata": {"name": "esx1"}}, "ESX2", "w3"]
    result = of_content(run_module, rule("r", "licensed", "a"), nodes=nodes)

    assert result["node_labels"] == {"drs.placement.virt/licensed": {"true": ["esx1", "ESX2"]}}


def test_names_of_hosts_and_nodes_match_in_any_case(run_module: RunModule) -> None:
    """Names of nodes are in lower case; vCenter shows hosts as they were added."""
    hosts = {"ESX1": "W1", "esx2": "w2"}
    result = of_content(run_module, rule("r", "licensed", "a"), host_names=hosts, nodes=None)
    assert result["node_labels"] == {"drs.placement.virt/licensed": {"true": ["w1", "w2"]}}

    groups = {"licensed": ["W1", "W-new"]}
    result = of_content(run_module, rule("r", "licensed", "a"), host_groups=groups, nodes=None)
    assert result["node_labels"] == {"drs.placement.virt/licensed": {"true": ["w1", "w-new"]}}
    (part,) = [x for x in result["report"]["decisions"] if x["kind"] == "host_group"]
    (decision,) = part["decisions"]
    assert decision["code"] == "node_names"
    assert decision["taken"] == (
        "Names of nodes are in lower case, so W1, W-new became such a node."
    )


@pytest.mark.parametrize("mandatory", [True, False])
def test_rule_over_all_nodes_does_nothing(run_module: RunModule, mandatory: bool) -> None:
    licensed = rule("r", "licensed", "a", rule_mandatory=mandatory)
    result = of_content(run_module, licensed, nodes=["ESX1", "esx2"])

    assert (result["namespaces"], result["node_labels"]) == ([], {})
    reasons = {x["kind"]: x["reason"] for x in result["report"]["no_counterpart"]}
    assert reasons == {
        "rule": "Its host group 'licensed' has all nodes of the cluster, so that it does nothing.",
        "host_group": "No rule that is carried over names it.",
    }
    more = of_content(run_module, licensed, nodes=["ESX1", "esx2", "esx3"])
    assert len(more["namespaces"][0]["rules"]) == 1


BAD = {
    "csv": (
        "Cluster,Name,Type,Enabled,VMs\nProd,web,VMAntiAffinity,True,a;b\n",
        [
            "is CSV with the rules of VMs (Get-DrsRule): it has no column KeepTogether; its column VMs has a list as"
            " one text; the rules of VMs and hosts and the members of groups are missing. Save JSON, with the snippet"
            " for PowerCLI in docs/from-vsphere.md"
        ],
    ),
    "text": (
        "\nRule: web\n  Type: ClusterAntiAffinityRuleSpec\n",
        ["is the output of govc cluster.rule.info, which does not say"],
    ),
    "empty": (
        "",
        [
            "is empty; export with community.vmware, Export-DrsRule, govc, PowerCLI or Proxmox, by the commands in"
            " docs/from-vsphere.md"
        ],
    ),
    "broken": ('{"drs_rule_info": {\n  "A": [,]\n}}', ["line 2: is not valid JSON"]),
    "lines": ('["Rule: web", "  VM: a"]', ["govc cluster.rule.info, which does not say"]),
    "names": ('["web", "db"]', ["has names of rules, and nothing about them"]),
    "PowerCLI": (
        '[{"Name": "web", "Enabled": true, "KeepTogether": false, "VMIds": ["VirtualMachine-vm-1"]}]',
        [
            "has the output of Get-DrsRule of PowerCLI, and lacks the rules of VMs and hosts (Get-DrsVMHostRule) and"
            " the members of groups (Get-DrsClusterGroup): export with the snippet for PowerCLI in docs/from-vsphere.md"
        ],
    ),
    "cut off": (
        '{"Rule": [{"Name": "web", "Vm": "VirtualMachine-vm-1 VirtualMachine-vm-2"}]}',
        ["PowerShell has cut off its values ('VirtualMachine-vm-1 VirtualMachine-vm-2')"],
    ),
    "types": (
        '{"Rule": ["VMware.Vim.ClusterAntiAffinityRuleSpec"], "Group": ""}',
        ["use ConvertTo-Json -Depth 10"],
    ),
    "part": (
        '[{"name": "configurationEx.rule", "val": {"_typeName": "ArrayOfClusterRuleInfo", "_value": []}}]',
        ["has configurationEx.rule, a part of the configuration of a cluster"],
    ),
    "nothing": ("[]", ["is an empty list"]),
    "loop": (
        json.dumps(
            {
                "results": [
                    {"drs_rule_info": {"A": []}, "item": "A"},
                    {"drs_rule_info": {}, "item": "B", "failed": True, "msg": "no cluster B"},
                ]
            }
        ),
        [", results[1]: is the result of a task that failed: no cluster B"],
    ),
    "without affinity": (
        json.dumps(
            {
                "drs_rule_facts": {
                    "A": [
                        {
                            "rule_name": "web",
                            "rule_type": "vm_vm_rule",
                            "rule_enabled": True,
                            "rule_mandatory": True,
                            "rule_vms": ["a", "b"],
                        }
                    ]
                }
            }
        ),
        ["drs_rule_facts.A[0], rule 'web': rule_affinity is missing"],
    ),
    "numbers": ('[{"Name": "web", "Type": 0, "VM": ["a"]}]', ["does not name clusters"]),
    "failed": ('{"failed": true, "msg": "no login"}', ["a task that failed: no login"]),
    "other": ('{"items": []}', ["is no export of rules that is known here"]),
    "untyped": (
        json.dumps([{"name": "configurationEx", "val": {"rule": [{"name": "web", "vm": []}]}}]),
        ["rule[0], rule 'web': its type is not in the export"],
    ),
    "key twice": (
        '{"drs_rule_info": {"A": [], "A": []}}',
        ["is not valid JSON: a map has a key twice"],
    ),
    "huge number": ('{"drs_rule_info": %s}' % ("1" * 5000), ["is not valid JSON: "]),
    "no map": ('{"drs_rule_info": {"A": [null]}}', ["A[0]: must be a map, not null"]),
    "empty name": (
        json.dumps(content(rule("web", "apart", "a", ""))),
        ["rule 'web': rule_vms must be a list of names, and has ''"],
    ),
    "groups": (
        json.dumps(
            content(
                rule("one", "licensed", "a", rule_vm_group_name="g"),
                rule("two", "licensed", "b", rule_vm_group_name="g", rule_affine_hosts=["esx3"]),
            )
        ),
        [
            "rule 'two': has other members of the VM group 'g' than a rule before it",
            "rule 'two': has other members of the host group 'licensed' than a rule before it",
        ],
    ),
    "reference": (
        json.dumps({"rule": [{"_typeName": "ClusterAffinityRuleSpec", "name": "w", "vm": [7]}]}),
        ["rule[0], rule 'w': vm has no reference to a VM, but the number 7"],
    ),
    "no name": (
        json.dumps(
            {
                "rule": [
                    {
                        "_typeName": "ClusterAffinityRuleSpec",
                        "name": "w",
                        "enabled": True,
                        "vm": [
                            {"type": "VirtualMachine", "value": "vm-1"},
                            {"type": "VirtualMachine", "value": "vm-2"},
                        ],
                    }
                ]
            }
        ),
        ["VM vm-1 has no name in the files", "VM vm-2 has no name in the files"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_file_that_is_no_whole_export_is_refused(
    run_module: RunModule, tmp_path: Path, text: str, expected: list[str]
) -> None:
    path = tmp_path / "export"
    path.write_text(text)
    result = run_module(drs_import.main, {"files": [str(path)]})

    found = messages(result)
    assert len(found) == len(expected), found
    for message, part in zip(found, expected, strict=True):
        assert message.startswith(str(path)) and part in message


def test_names_without_rules_are_no_export(run_module: RunModule) -> None:
    result = run_module(drs_import.main, {"files": files("govc_vms.json", "govc_hosts.json")})

    (message,) = messages(result)
    assert message.startswith("files: have no rules of a cluster, at most names of VMs and hosts")


def of_cluster(
    moref: str, name: str, *rules: dict[str, t.Any], **config: t.Any
) -> dict[str, t.Any]:
    """What govc object.collect -json -type c / configurationEx name prints for one cluster."""
    values = {"configurationEx": {"rule": [*rules], "group": None, **config}, "name": name}
    return {
        "kind": "enter",
        "obj": {"type": "ClusterComputeResource", "value": moref},
        "changeSet": [{"name": x, "op": "assign", "val": values[x]} for x in values],
        "missingSet": None,
    }


def of_vm(moref: str, name: str) -> dict[str, t.Any]:
    reference = {"type": "VirtualMachine", "value": moref}
    return {"obj": reference, "changeSet": [{"name": "name", "op": "assign", "val": name}]}


def apart_of(*morefs: str) -> dict[str, t.Any]:
    """With fields that releases of govc print as null where they are not set."""
    return {
        "_typeName": "ClusterAntiAffinityRuleSpec",
        "key": 1,
        "enabled": True,
        "name": "分離 1",
        "mandatory": None,
        "vm": [{"type": "VirtualMachine", "value": moref} for moref in morefs],
    }


@pytest.mark.parametrize("listed", [False, True])
def test_clusters_of_all_folders_in_one_output_are_told_apart(
    run_module: RunModule, tmp_path: Path, listed: bool
) -> None:
    """The API escapes a slash in names, and Forklift does not."""
    clusters = [
        of_cluster("domain-c8", "Prod%2fEast", apart_of("vm-1", "vm-2")),
        of_cluster("domain-c9", "Lab"),
    ]
    vms = [of_vm("vm-1", "web%2f1"), of_vm("vm-2", "Größe_2")]
    path = tmp_path / "all.json"
    documents: list[t.Any] = [clusters, vms] if listed else [*clusters, *vms]
    path.write_text("\n".join(map(json.dumps, documents)))
    known = [
        {"name": "web-1-x7qz", "namespace": "shop", "display_name": "web/1"},
        {"name": "gre-2", "namespace": "shop"},
    ]

    result = run_module(
        drs_import.main, {"files": [str(path)], "cluster": "Prod/East", "vms": known}
    )
    unnamed = run_module(drs_import.main, {"files": [str(path)]})

    assert rules_of(result) == {
        "shop": [{"name": "1", "workloads": ["web-1-x7qz", "gre-2"], "keep_apart": "node"}]
    }
    assert result["drs_cluster"] == "Prod/East"
    assert "the export has 2 clusters, Lab, Prod/East" in messages(unnamed)[0]


@pytest.mark.parametrize("as_text", [False, True])
def test_list_of_what_govc_printed_is_several_documents(
    run_module: RunModule, as_text: bool
) -> None:
    """Each of them is a list."""
    cluster = of_cluster("domain-c8", "Prod", apart_of("vm-1", "vm-2"))["changeSet"]
    documents = [cluster, [of_vm("vm-1", "a"), of_vm("vm-2", "b")]]
    result = run_module(
        drs_import.main, {"content": json.dumps(documents) if as_text else documents}
    )

    assert rules_of(result)["default"][0]["workloads"] == ["a", "b"]


def test_name_that_differs_between_outputs_of_govc_is_an_error(run_module: RunModule) -> None:
    """Another vCenter has the same MoRefs."""
    cluster = of_cluster("domain-c8", "Prod", apart_of("vm-1", "vm-2"))
    vms = [of_vm("vm-1", "a"), of_vm("vm-2", "b"), of_vm("vm-1", "c")]
    (message,) = messages(run_module(drs_import.main, {"content": [cluster, *vms]}))

    assert "vm-1 is 'c' here, and 'a' before it: give the names of one system" in message


@pytest.mark.parametrize("one_output", [False, True])
def test_type_of_a_rule_is_unknown_where_two_of_its_name_differ(
    run_module: RunModule, one_output: bool
) -> None:
    untyped = {x: y for x, y in apart_of("vm-1", "vm-2").items() if x != "_typeName"}
    lines = [f"{untyped['name']} (Cluster{kind}RuleSpec)" for kind in ("Affinity", "AntiAffinity")]
    types = [lines] if one_output else [[line] for line in lines]
    vms = [of_vm("vm-1", "a"), of_vm("vm-2", "b")]
    given = [of_cluster("domain-c8", "Prod", untyped), *vms, *types]
    (message,) = messages(run_module(drs_import.main, {"content": given}))

    assert "its type is not in the export, or rules of this name have several" in message


def test_clusters_of_one_name_in_two_folders_are_refused(run_module: RunModule) -> None:
    clusters = [of_cluster(x, "Prod", apart_of("vm-1", "vm-2")) for x in ("domain-c8", "domain-c9")]
    vms = [of_vm("vm-1", "a"), of_vm("vm-2", "b")]
    (message,) = messages(run_module(drs_import.main, {"content": [*clusters, *vms]}))

    assert (
        "two clusters of this name, in different folders, export each of them to files" in message
    )


def test_results_of_a_loop_and_of_the_modules_of_old_releases_are_read(
    run_module: RunModule,
) -> None:
    rules = content(rule("r", "apart", "a", "b"))["drs_rule_info"]
    loop = {"results": [{"drs_rule_info": rules}, {"drs_rule_info": {"Lab": []}}]}
    for given in (loop, {"drs_rule_facts": rules}):
        result = run_module(drs_import.main, {"content": given, "cluster": "Production"})

        assert rules_of(result) == {
            "default": [{"name": "r", "workloads": ["a", "b"], "keep_apart": "node"}]
        }


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
def test_file_as_powershell_writes_it_is_read(
    run_module: RunModule, tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "drs.json"
    path.write_text(json.dumps(content(rule("größe", "apart", "a", "b"))), encoding=encoding)
    result = run_module(drs_import.main, {"files": [str(path)]})

    assert rules_of(result)["default"][0]["name"] == "grosse"


def test_text_may_begin_with_a_byte_order_mark(run_module: RunModule) -> None:
    text = "\ufeff" + json.dumps(content(rule("r", "apart", "a", "b")))

    assert rules_of(run_module(drs_import.main, {"content": text}))["default"]


def test_cluster_that_is_not_in_the_export_is_named(run_module: RunModule) -> None:
    wrong = imported(run_module, *COMMUNITY, cluster="Producton")
    several = imported(run_module, *COMMUNITY, cluster=None)

    assert messages(wrong) == [
        "cluster: 'Producton' is not in the export, which has Production, Test; did you mean 'Production'?"
    ]
    assert "the export has 2 clusters, Production, Test" in messages(several)[0]


def test_rule_that_is_neither_must_nor_should_is_refused(run_module: RunModule) -> None:
    unclear = rule("r", "licensed", "a", rule_mandatory=None)
    (message,) = messages(of_content(run_module, unclear, host_groups={"licensed": ["w1"]}))
    assert "rule 'r': the export does not say whether it is a must or a should" in message


def test_empty_host_group_to_avoid_does_not_take_the_other_one_with_it(
    run_module: RunModule,
) -> None:
    none = {"rule_anti_affine_host_group_name": "gpu", "rule_anti_affine_hosts": []}
    rules = (rule("r", "licensed", "a", **none), rule("s", None, "a", **none))
    result = of_content(run_module, *rules, host_groups={"licensed": ["w1"]})

    place = {"run_on": {"drs.placement.virt/licensed": "true"}}
    assert rules_of(result)["shop"] == [{"name": "r", "workloads": ["a"], **place}]
    (decided,) = result["report"]["decisions"]
    assert codes(decided) == ["left_out"]
    empty = "Its host group 'gpu' is empty or does not exist."
    assert empty in decided["decisions"][0]["taken"]
    assert [x["reason"] for x in result["report"]["no_counterpart"] if x["kind"] == "rule"] == [
        empty
    ]


def test_value_that_is_nested_too_deeply_is_no_export(run_module: RunModule) -> None:
    deep: t.Any = []
    for _level in range(400):
        deep = [deep]
    (message,) = messages(run_module(drs_import.main, {"content": {"items": deep}}))
    assert message.startswith("content: is no export of rules that is known here")


def test_rules_that_are_given_twice_are_refused(run_module: RunModule) -> None:
    (message,) = messages(imported(run_module, *COMMUNITY, "export_drs_rule.json"))
    assert "hold the rules of one cluster more than once" in message


@pytest.mark.parametrize("names", FORMATS.values(), ids=FORMATS)
def test_two_exports_of_one_cluster_are_refused_with_both_files(
    run_module: RunModule, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Rules that were deleted between the two would come back."""
    again = tmp_path / "monday.json"
    again.write_bytes((EXPORTS / names[0]).read_bytes())
    given = {**OPTIONS, "files": [str(again), *files(*names)]}
    (message,) = messages(run_module(drs_import.main, given))

    assert "hold the rules of one cluster more than once" in message
    assert str(again) in message and str(EXPORTS / names[0]) in message


def exported(name: str, kind: str, *vms: str, **fields: t.Any) -> dict[str, t.Any]:
    """An entry as Export-DrsRule writes it."""
    common = {"Name": name, "Cluster": "Production", "ClusterId": "domain-c8", "Enabled": True}
    return {**common, "Type": f"Cluster{kind}", "VM": [*vms], **fields}


def test_file_without_a_rule_of_the_cluster_is_an_export_of_it_too(run_module: RunModule) -> None:
    of_rule = [exported("web", "AntiAffinityRuleSpec", "a", "b")]
    only_group = [exported("g", "VmGroup", "a")]
    (message,) = messages(
        run_module(drs_import.main, {"content": json.dumps(of_rule) + json.dumps(only_group)})
    )

    assert "(content, document 1 and content, document 2)" in message


@pytest.mark.parametrize("kind", ["AntiAffinityRuleSpec", "VmGroup"])
def test_two_clusters_of_one_name_in_one_file_of_export_drs_rule_are_refused(
    run_module: RunModule, kind: str
) -> None:
    """Groups have no id of their cluster, and their names are unique in a cluster."""
    entries = [
        exported("web", kind, "a", "b"),
        exported("web", kind, "c", "d", ClusterId="domain-c9"),
    ]
    (message,) = messages(run_module(drs_import.main, {"content": entries}))

    assert message.startswith("content: has two clusters of the name 'Production', in different")


def test_group_with_other_members_in_another_file_is_named(run_module: RunModule) -> None:
    group = {"group_name": "licensed", "type": "host", "hosts": ["esx1", "esx3"]}
    groups = {"drs_group_info": {"Production": [group]}}
    given = [content(rule("r", "licensed", "a")), groups]
    (message,) = messages(run_module(drs_import.main, {"content": given}))

    assert "different members of the host group 'licensed' (content[0], drs_rule_info." in message
    assert "esx2, esx3 in one of them only" in message


def test_all_faults_are_named_at_once(run_module: RunModule) -> None:
    vms = [
        {"name": "a", "namespace": "one"},
        {"name": "a", "namespace": "two"},
        {"name": "b"},
        {"name": "c"},
        {"name": "d"},
        {"name": "x", "display_name": "D"},
        {"name": "y", "display_name": "D"},
    ]
    result = of_content(
        run_module,
        rule("twice in cluster", "apart", "a", "b"),
        rule("twice in vCenter", "apart", "c", "c"),
        rule("marked twice", "apart", "D", "b"),
        rule("one", "together", "b", "c"),
        rule("two", "together", "c", "d"),
        rule("circle", "together", "d", "b"),
        rule("contrary", "apart", "b", "d"),
        rule("hosts", "licensed", "b"),
        vms=vms,
        nodes=["w1"],
        skip_rules=["contrarry"],
        vm_names={"z": "b"},
        host_groups={"gpu": ["w1"]},
    )

    found = messages(result)
    expected = [
        "host_groups.gpu: is not in the export",
        "skip_rules: 'contrarry' is not in the export; did you mean 'contrary'?",
        "vm_names: 'z' is not in the export",
        "rule 'twice in cluster': VM 'a' exists twice on the cluster by their name, one/a and two/a",
        "rule 'twice in vCenter': VM 'c' occurs twice",
        "rule 'marked twice': VM 'D' exists twice on the cluster by their annotations of Forklift, shop/x and shop/y",
        "rule 'contrary': keeps b and d apart, which affinity rules keep together",
        "rule 'circle': its VMs d and b are kept together already by 'one', 'two': a cycle of affinity",
        "rule 'hosts': host group 'licensed': it is not known which nodes its hosts esx1, esx2 are",
    ]
    assert len(found) == len(expected), "\n".join(found)
    for part in expected:
        assert any(part in message for message in found), (part, found)


OPTION_FAULTS: dict[str, tuple[dict[str, t.Any], str]] = {
    "namespace in capitals": (
        {"namespace": "Shop"},
        "namespace: must be the name of a namespace, such as shop, not 'Shop'",
    ),
    "namespace": (
        {"namespace": "a/b"},
        "namespace: must be the name of a namespace, such as shop, not 'a/b'",
    ),
    "prefix": ({"label_prefix": "No_DNS"}, "label_prefix: must be a DNS name such as example.com"),
    "vm_names": ({"vm_names": {"a": "x/y/z"}}, "vm_names.a: must be a name, or namespace/name"),
    "vms": ({"vms": [{"nam": "a"}]}, "vms[0]: unknown option 'nam'; did you mean 'name'?"),
    "group": ({"host_groups": {"licensed": []}}, "host_groups.licensed: is an empty list"),
    "labels": (
        {"host_groups": {"licensed": {"labels": {"zone": "a", "rack": "b"}}}},
        "host_groups.licensed, labels: must be a map of one label key",
    ),
    "node": (
        {"nodes": ["w1"], "host_groups": {"licensed": ["w2"]}},
        "host_groups.licensed: node 'w2' is not on the cluster",
    ),
    "hosts": ({"host_names": {"esx9": "w1"}}, "host_names.esx9: is not in the export"),
    "enable": ({"enable_rules": ["x"]}, "enable_rules: 'x' is not in the export"),
    "leader": ({"leaders": ["q"]}, "leaders: 'q' is not in the export"),
    "table": (
        {"vms": [{"name": "a", "display_name": "a"}, {"name": "b"}], "vm_names": {"a": "b"}},
        "vm_names has another VM for 'a' than the annotations of Forklift",
    ),
}


@pytest.mark.parametrize(("options", "expected"), OPTION_FAULTS.values(), ids=OPTION_FAULTS)
def test_bad_option_is_named(
    run_module: RunModule, options: dict[str, t.Any], expected: str
) -> None:
    given = {"host_names": {"esx1": "w1", "esx2": "w1"}, **options}
    result = of_content(run_module, rule("r", "licensed", "a"), **given)

    assert any(expected in message for message in messages(result)), messages(result)


def test_nothing_to_read_is_an_error(run_module: RunModule) -> None:
    assert messages(run_module(drs_import.main, {})) == [
        "files: names no export, and content is empty"
    ]
    (message,) = messages(run_module(drs_import.main, {"files": ["/nowhere/drs.json"]}))
    assert message == "/nowhere/drs.json: cannot be read: No such file or directory"


def test_device_is_no_export(run_module: RunModule) -> None:
    (message,) = messages(run_module(drs_import.main, {"files": ["/dev/zero"]}))
    assert message == "/dev/zero: cannot be read: it is a device and no regular file"
