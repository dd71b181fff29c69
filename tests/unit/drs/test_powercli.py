# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of three commands of PowerCLI as JSON, each in a file or together, whole or cut off by -Depth."""

from __future__ import annotations

import copy
import json
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.virt.placement.plugins.modules import drs_import
from tests.conftest import RunModule

JSON = t.Any
DOCS = Path(__file__).resolve().parents[3] / "docs" / "from-vsphere.md"
CLUSTER = {"Name": "Prod", "Id": "ClusterComputeResource-domain-c8", "DrsEnabled": True}
SNIPPET: JSON = {
    "cluster": "Prod",
    "rules": [
        {
            "Name": "web apart",
            "Enabled": True,
            "KeepTogether": False,
            "VMIds": ["VirtualMachine-vm-1", "VirtualMachine-vm-2"],
            "VMs": ["WEB_1", "web%2f2"],
        },
        {
            "Name": "app with db",
            "Enabled": False,
            "KeepTogether": True,
            "VMIds": ["VirtualMachine-vm-3", "VirtualMachine-vm-4"],
            "VMs": ["app", "db"],
        },
    ],
    "hostRules": [
        {
            "Name": "db licensed",
            "Enabled": True,
            "Type": "MustRunOn",
            "VMGroup": "dbs",
            "VMHostGroup": "licensed",
        },
        {
            "Name": "app not on gpu",
            "Enabled": True,
            "Type": "ShouldNotRunOn",
            "VMGroup": "apps",
            "VMHostGroup": "gpu hosts",
        },
    ],
    "groups": [
        {"Name": "dbs", "GroupType": "VMGroup", "Member": ["db"]},
        {"Name": "apps", "GroupType": "VMGroup", "Member": ["app"]},
        {"Name": "licensed", "GroupType": "VMHostGroup", "Member": ["esx1", "esx2"]},
        {"Name": "gpu hosts", "GroupType": "VMHostGroup", "Member": ["esx3"]},
    ],
}
HOSTS = {f"esx{i}": f"w{i}" for i in (1, 2, 3)}
RULES = [
    {"name": "web-apart", "workloads": ["web-1", "web-2"], "keep_apart": "node"},
    {
        "name": "app-with-db",
        "workloads": ["app"],
        "keep_together": {"topology_key": "node", "with": "db"},
        "enabled": False,
    },
    {
        "name": "db-licensed",
        "workloads": ["db"],
        "run_on": {"drs.placement.virt/licensed": "true"},
    },
    {
        "name": "app-not-on-gpu",
        "workloads": ["app"],
        "avoid": {"drs.placement.virt/gpu-hosts": "true"},
        "preferred": True,
    },
]
LABELS = {
    "drs.placement.virt/licensed": {"true": ["w1", "w2"]},
    "drs.placement.virt/gpu-hosts": {"true": ["w3"]},
}
IDS = {
    "WEB_1": "VirtualMachine-vm-1",
    "web/2": "VirtualMachine-vm-2",
    "app": "VirtualMachine-vm-3",
    "db": "VirtualMachine-vm-4",
    **{host: f"HostSystem-host-{n}" for n, host in enumerate(HOSTS)},
}


def objects(*, enums: bool = False) -> dict[str, list[JSON]]:
    """As the commands return them with -Depth 4, with the numbers of enumerations unless `enums`."""
    made = copy.deepcopy(SNIPPET)
    groups = {}
    for group in made["groups"]:
        kind = "VirtualMachineImpl" if group["GroupType"] == "VMGroup" else "VMHostImpl"
        members = [{"Name": x, "Id": IDS[x], "Uid": f"/{kind}"} for x in group["Member"]]
        number = int(group["GroupType"] == "VMHostGroup")
        group |= {"Member": members, "Cluster": CLUSTER, "Uid": "/VIServer=vc:443"}
        group["GroupType"] = group["GroupType"] if enums else number
        groups[group["Name"]] = group
    for rule in made["rules"]:
        del rule["VMs"]
        rule |= {"Cluster": CLUSTER, "Type": 1, "Uid": "/VIServer=vc:443"}
    for rule in made["hostRules"]:
        affine = "Not" not in rule["Type"]
        rule["ExtensionData"] = {
            "VmGroupName": rule["VMGroup"],
            "AffineHostGroupName": rule["VMHostGroup"] if affine else None,
            "AntiAffineHostGroupName": None if affine else rule["VMHostGroup"],
            "Mandatory": rule["Type"].startswith("Must"),
        }
        rule["Type"] = rule["Type"] if enums else 2
        for name in ("VMGroup", "VMHostGroup"):
            rule[name] = groups[rule[name]]
        rule["Cluster"] = CLUSTER
    return {key: made[key] for key in ("rules", "hostRules", "groups")}


WEB = {"vm-1": "shop/web-1", "vm-2": "shop/web-2"}
"""Only the id of a VM in no group is in the objects of Get-DrsRule."""


def run(run_module: RunModule, *values: JSON, folder: Path, **options: JSON) -> JSON:
    paths = []
    for number, value in enumerate(values):
        path = folder / f"{number}.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        paths.append(str(path))
    given = {"namespace": "shop", "host_names": HOSTS, **options}
    return run_module(drs_import.main, {"files": paths, **given})


def is_imported(result: JSON) -> None:
    assert result.get("errors") is None, result["errors"]
    assert result["namespaces"] == [{"namespace": "shop", "rules": RULES}]
    assert (result["node_labels"], result["drs_cluster"]) == (LABELS, "Prod")


def messages(result: JSON) -> list[str]:
    return [error["message"] for error in result["errors"]]


def test_file_of_the_snippet(run_module: RunModule, tmp_path: Path) -> None:
    is_imported(run(run_module, SNIPPET, folder=tmp_path))


def wrapped(value: JSON) -> JSON:
    """Each list as Windows PowerShell 5 may write it."""
    if isinstance(value, list):
        return {"value": [wrapped(item) for item in value], "Count": len(value)}
    return {key: wrapped(x) for key, x in value.items()} if isinstance(value, dict) else value


def as_text(value: JSON) -> JSON:
    """With its flags as text."""
    if isinstance(value, list):
        return [as_text(item) for item in value]
    if isinstance(value, dict):
        return {key: as_text(item) for key, item in value.items()}
    return str(value) if isinstance(value, bool) else value


SHAPES = {
    "lists with their count": wrapped(SNIPPET),
    "flags as text": as_text(SNIPPET),
    "list of one": [SNIPPET],
    "list of one with its count": wrapped([SNIPPET]),
    "members of one": {
        **SNIPPET,
        "groups": [{**x, "Member": x["Member"][0]} for x in SNIPPET["groups"][:2]]
        + SNIPPET["groups"][2:],
    },
    "cluster as an object": {**SNIPPET, "cluster": CLUSTER},
    "more beside it": {**SNIPPET, "exported": "2026-11-29", "tool": 7},
}


@pytest.mark.parametrize("value", SHAPES.values(), ids=SHAPES)
def test_shapes_that_powershell_writes(run_module: RunModule, tmp_path: Path, value: JSON) -> None:
    is_imported(run(run_module, value, folder=tmp_path))


@pytest.mark.parametrize("files", [1, 3])
def test_objects_in_lists_with_their_count(
    run_module: RunModule, tmp_path: Path, files: int
) -> None:
    made = objects()
    values = [made] if files == 1 else list(made.values())
    is_imported(run(run_module, *map(wrapped, values), folder=tmp_path, vm_names=WEB))


NONE = [[], {}, None, "", [None], {"value": [], "Count": 0}]


@pytest.mark.parametrize("none", NONE, ids=map(str, NONE))
def test_commands_that_return_nothing(run_module: RunModule, tmp_path: Path, none: JSON) -> None:
    value = {**SNIPPET, "hostRules": none, "groups": none}
    result = run(run_module, value, folder=tmp_path, host_names={})
    assert [rule["name"] for rule in result["namespaces"][0]["rules"]] == [
        "web-apart",
        "app-with-db",
    ]
    without = {**SNIPPET, "rules": none}
    assert run(run_module, without, folder=tmp_path)["counts"]["rules"] == 2
    empty = {**value, "rules": none}
    assert run(run_module, empty, folder=tmp_path, host_names={})["counts"]["rules"] == 0


@pytest.mark.parametrize("enums", [True, False], ids=["EnumsAsStrings", "numbers"])
@pytest.mark.parametrize("files", [1, 3])
def test_objects_of_the_commands(
    run_module: RunModule, tmp_path: Path, enums: bool, files: int
) -> None:
    made = objects(enums=enums)
    values = [made] if files == 1 else list(made.values())
    result = run(run_module, *values, folder=tmp_path, vm_names=WEB)
    is_imported(result)


def test_objects_cut_to_names_are_read(run_module: RunModule, tmp_path: Path) -> None:
    """By a small -Depth members, groups and clusters are their names, and a list of ids is one text."""
    made = objects(enums=True)
    for item in (x for listed in made.values() for x in listed):
        item["Cluster"] = "Prod"
    for rule in made["rules"]:
        rule["VMIds"] = " ".join(rule["VMIds"])
    for rule in made["hostRules"]:
        rule |= {name: rule[name]["Name"] for name in ("VMGroup", "VMHostGroup")}
        del rule["ExtensionData"]
    for group in made["groups"]:
        group["Member"] = [member["Name"] for member in group["Member"]]
    vms = [
        {"name": name, "original_id": moref, "display_name": display, "namespace": "shop"}
        for name, moref, display in (
            ("web-1", "vm-1", "WEB_1"),
            ("web-2", "vm-2", "web/2"),
            ("app", "vm-3", "app"),
            ("db", "vm-4", "db"),
        )
    ]
    result = run(run_module, made, folder=tmp_path, vms=vms)
    faults = messages(result)
    assert faults and all("would both be" in x for x in faults), faults
    named = copy.deepcopy(made)
    for group in named["groups"]:
        if group["GroupType"] == "VMGroup":
            group["Member"] = [{"Name": x, "Id": IDS[x]} for x in group["Member"]]
    is_imported(run(run_module, named, folder=tmp_path, vms=vms))


def test_cluster_without_rules(run_module: RunModule, tmp_path: Path) -> None:
    result = run(
        run_module,
        {"cluster": "Prod", "rules": [], "hostRules": [], "groups": []},
        folder=tmp_path,
        host_names={},
    )
    assert (result["drs_cluster"], result["counts"]["rules"]) == ("Prod", 0)
    assert result["namespaces"] == []


def changed(key: str, number: int, **fields: JSON) -> JSON:
    value = copy.deepcopy(SNIPPET)
    value[key][number] |= fields
    return value


SAVED = "export with the snippet for PowerCLI in docs/from-vsphere.md"
CUT = {
    "number of a type": (
        changed("hostRules", 0, Type=0),
        "0.json, hostRules[0], rule 'db licensed': Type must be MustRunOn, ShouldRunOn, MustNotRunOn, ShouldNotRunOn."
        " ConvertTo-Json writes its number",
    ),
    "type name of members": (
        changed("groups", 0, Member="VMware.VimAutomation.ViCore.Types.V1.Inventory.VIObject[]"),
        "0.json, groups[0], group 'dbs': Member must be a list of names",
    ),
    "members beside each other": (
        changed("groups", 2, Member="esx1 esx2"),
        "0.json, groups[2], group 'licensed': Member must be a list of names",
    ),
    "ids": (
        changed("rules", 0, VMIds="System.String[]"),
        "0.json, rules[0], rule 'web apart': VMIds must be a list of ids such as VirtualMachine-vm-66",
    ),
    "group": (
        changed("hostRules", 0, VMGroup="VMware.VimAutomation.ViCore.Impl.V1.DrsClusterGroupImpl"),
        "0.json, hostRules[0], rule 'db licensed': VMGroup has no name",
    ),
    "objects that were cut off": (
        {**SNIPPET, "rules": [SNIPPET["rules"][0], "System.Collections.Hashtable"]},
        "0.json, rules[1]: must be a map, not 'System.Collections.Hashtable'",
    ),
    "list in a list": (
        {**SNIPPET, "groups": [SNIPPET["groups"]]},
        "0.json, groups[0]: must be a map, not a list",
    ),
    "all objects as one text": (
        {**SNIPPET, "groups": "System.Object[]"},
        "0.json, groups[0]: must be a map, not 'System.Object[]'",
    ),
    "number as a flag": (
        changed("rules", 0, Enabled=1),
        "0.json, rules[0], rule 'web apart': Enabled must be true or false, not the number 1",
    ),
    "count of another number": (
        changed("rules", 0, VMIds={"value": ["VirtualMachine-vm-1"], "Count": 2}, VMs=["WEB_1"]),
        "0.json, rules[0], rule 'web apart': VMIds must be a list of ids",
    ),
    "names of properties in small letters": (
        {**SNIPPET, "groups": [{"name": "dbs"}]},
        "0.json, groups[0]: is no object of Get-DrsRule, Get-DrsVMHostRule, Get-DrsClusterGroup",
    ),
    "two clusters in one list": (
        {**SNIPPET, "cluster": ["Prod", "Test"]},
        "0.json: has the rules of 2 clusters in one list",
    ),
    "fewer names than ids": (
        changed("rules", 0, VMs=["WEB_1"]),
        "0.json, rules[0], rule 'web apart': has 2 VMIds and 1 VMs: export again",
    ),
    "rule of hosts": (
        changed("rules", 0, AffineHostIds=["HostSystem-host-1"]),
        "0.json, rules[0], rule 'web apart': is a rule of VMs and hosts: these come from Get-DrsVMHostRule",
    ),
}


@pytest.mark.parametrize(("value", "fault"), CUT.values(), ids=CUT)
def test_what_convert_to_json_has_cut_off_is_a_fault(
    run_module: RunModule, tmp_path: Path, value: JSON, fault: str
) -> None:
    found = messages(run(run_module, value, folder=tmp_path))
    assert len(found) == 1, found
    assert fault in found[0]
    assert "export again" in found[0] or "come from" in found[0] or SAVED in found[0], found[0]


LACKING = {
    "rules": "lacks the rules of VMs (Get-DrsRule)",
    "hostRules": "lacks the rules of VMs and hosts (Get-DrsVMHostRule)",
    "groups": "lacks the members of groups (Get-DrsClusterGroup)",
}


@pytest.mark.parametrize("key", LACKING)
def test_what_lacks_is_said(run_module: RunModule, tmp_path: Path, key: str) -> None:
    value = {name: items for name, items in objects(enums=True).items() if name != key}
    found = messages(run(run_module, *value.values(), folder=tmp_path))
    assert len(found) == 1 and LACKING[key] in found[0], found
    assert "snippet for PowerCLI in docs/from-vsphere.md" in found[0]

    empty = {**SNIPPET, key: []}
    faults = (
        messages(result)
        if (result := run(run_module, empty, folder=tmp_path)).get("errors")
        else []
    )
    assert not [x for x in faults if "lacks" in x], "the snippet says that there are none"


def test_file_given_twice_is_a_fault(run_module: RunModule, tmp_path: Path) -> None:
    found = messages(run(run_module, SNIPPET, SNIPPET, folder=tmp_path))
    assert len(found) == 8
    assert all(x.endswith("give each export once") for x in found), found


TEST: JSON = {
    **SNIPPET,
    "cluster": "Test",
    "rules": [SNIPPET["rules"][0]],
    "hostRules": [],
    "groups": [],
}
TWO = {
    "two files": [SNIPPET, TEST],
    "list": [[SNIPPET, TEST]],
    "list with its count": [wrapped([SNIPPET, TEST])],
    "by name": [{"Prod": SNIPPET, "Test": TEST}],
    "one without rules": [[SNIPPET, {**TEST, "rules": []}]],
}


@pytest.mark.parametrize("values", TWO.values(), ids=TWO)
def test_two_clusters_need_the_name_of_one(
    run_module: RunModule, tmp_path: Path, values: list[JSON]
) -> None:
    (fault,) = messages(run(run_module, *values, folder=tmp_path))
    assert "is needed: the export has 2 clusters, Prod, Test" in fault
    is_imported(run(run_module, *values, folder=tmp_path, cluster="Prod"))
    other = run(run_module, *values, folder=tmp_path, cluster="Test", host_names={})
    assert other["counts"]["rules"] <= 1


def test_rules_of_two_clusters_without_names_are_not_mixed(
    run_module: RunModule, tmp_path: Path
) -> None:
    other = {**TEST, "rules": [{**SNIPPET["rules"][0], "Name": "other"}]}
    nameless = [{**x, "cluster": None} for x in (SNIPPET, other)]
    is_imported(run(run_module, nameless[0], folder=tmp_path) | {"drs_cluster": "Prod"})
    (fault,) = messages(run(run_module, nameless, folder=tmp_path))
    assert "rules[0], rule 'other': names no cluster, and" in fault and SAVED in fault, fault
    (fault,) = messages(run(run_module, [SNIPPET, nameless[1]], folder=tmp_path))
    assert "hold the rules of one cluster more than once" in fault


def test_snippet_of_the_page_saves_these_keys() -> None:
    """No PowerShell is here to run it: its keys and properties are those that are read."""
    text = DOCS.read_text()
    found = re.search(r"```powershell\n(.*?)```", text, re.DOTALL)
    assert found is not None
    snippet = found[1]
    for key in ("cluster", "rules", "hostRules", "groups"):
        assert re.search(rf"^  {key} = ", snippet, re.MULTILINE), key
    fields = {name for key in ("rules", "hostRules", "groups") for name in SNIPPET[key][0]}
    for name in fields:
        assert re.search(rf"\b{name} = ", snippet), name
    assert "-Depth" in snippet and "-Encoding utf8" in snippet
