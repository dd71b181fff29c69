# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Exports as people saved them: YAML, what Ansible printed, Proxmox's own file, and CSV, which is refused by column."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.virt.placement.plugins.modules import drs_import
from tests.conftest import RunModule

JSON = t.Any
HOSTS = {f"esx{i}.dc.example": f"w{i}" for i in (1, 2)}
RESULT: JSON = {
    "changed": False,
    "failed": False,
    "drs_rule_info": {
        "Prod": [
            {
                "rule_enabled": True,
                "rule_name": "dc apart ",
                "rule_mandatory": False,
                "rule_type": "vm_vm_rule",
                "rule_affinity": False,
                "rule_vms": ["DC01", "DC02"],
            },
            {
                "rule_enabled": True,
                "rule_name": "billing licence",
                "rule_mandatory": True,
                "rule_type": "vm_host_rule",
                "rule_vm_group_name": "billing vms",
                "rule_vms": ["BILL01", "bill02"],
                "rule_affine_host_group_name": "Site-A",
                "rule_affine_hosts": ["ESX1.dc.example", "esx2.dc.example"],
                "rule_anti_affine_host_group_name": None,
                "rule_anti_affine_hosts": [],
            },
        ]
    },
}
RULES = [
    {"name": "dc-apart", "workloads": ["dc01", "dc02"], "keep_apart": "node"},
    {
        "name": "billing-licence",
        "workloads": ["bill01", "bill02"],
        "run_on": {"drs.placement.virt/Site-A": "true"},
    },
]
INDENTED = json.dumps(RESULT, indent=4)
LINE = json.dumps(RESULT)
PING = json.dumps({"changed": False, "ping": "pong"}, indent=4)
CALLBACK = {
    "custom_stats": {},
    "plays": [
        {
            "play": {"name": "Export"},
            "tasks": [
                {"task": {"name": "Ping"}, "hosts": {"localhost": {"ping": "pong"}}},
                {"task": {"name": "Rules"}, "hosts": {"localhost": RESULT}},
            ],
        }
    ],
    "stats": {"localhost": {"ok": 2}},
}
EVENTS = [
    {"_event": "v2_playbook_on_start", "_timestamp": "2026-11-29"},
    {"_event": "v2_runner_on_ok", "hosts": {"localhost": RESULT}, "task": {"name": "Rules"}},
]
FORMS = {
    "to_nice_yaml": yaml.safe_dump(RESULT),
    "yaml-with-start": f"---\n{yaml.safe_dump(RESULT)}",
    "adhoc": f"localhost | SUCCESS => {INDENTED}\n",
    "adhoc-with-warning": f"[WARNING]: No inventory\nlocalhost | CHANGED => {INDENTED}\n",
    "oneline": f"localhost | SUCCESS => {LINE}\n",
    "verbose": f"PLAY [Export] ****\n\nok: [localhost] => {PING}\nok: [localhost] => {LINE}\nPLAY RECAP",
    "debug": f"ok: [localhost] => {json.dumps({'rules': RESULT}, indent=4)}\n",
    "json-callback": json.dumps(CALLBACK, indent=4),
    "jsonl-callback": "\n".join(map(json.dumps, EVENTS)),
    "utf-8-with-mark": f"\ufeff{INDENTED}",
}


def run(run_module: RunModule, path: Path, **options: JSON) -> JSON:
    given = {"namespace": "shop", "host_names": HOSTS, **options}
    return run_module(drs_import.main, {"files": [str(path)], **given})


def refusals(run_module: RunModule, path: Path, **options: JSON) -> list[str]:
    result = run(run_module, path, **options)
    return [error["message"].removeprefix(f"{path}: ") for error in result["errors"]]


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_field_83_export_in_another_form_is_read(
    run_module: RunModule, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "export"
    path.write_text(text)
    result = run(run_module, path)

    assert result.get("errors") is None, result["errors"]
    assert result["namespaces"] == [{"namespace": "shop", "rules": RULES}]
    assert result["drs_cluster"] == "Prod"


def test_field_83_utf_16_of_windows_powershell(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(INDENTED, encoding="utf-16")
    assert run(run_module, path)["namespaces"] == [{"namespace": "shop", "rules": RULES}]


def test_results_of_several_hosts_and_one_that_failed(
    run_module: RunModule, tmp_path: Path
) -> None:
    path = tmp_path / "adhoc.txt"
    failed = '{"changed": false, "msg": "no login"}'
    path.write_text(
        f'vc1 | SUCCESS => {INDENTED}\nvc2 | FAILED! => {{"failed": true, "msg": "no login"}}\n'
    )
    assert failed not in path.read_text()
    (fault,) = refusals(run_module, path)
    assert fault.endswith("document 2: is the result of a task that failed: no login")


NO_RESULT = {
    f"localhost | SUCCESS => {PING}\n": "is what Ansible printed, and no result in it has rules as JSON",
    f"{yaml.safe_dump(RESULT)}{yaml.safe_dump(RESULT)}": "is YAML in which a key occurs twice",
    "group: site-a\n\tnodes pve1,pve2\n\trestricted 1\n": "has HA groups of Proxmox VE 8",
    "vm: 100\n\tstate started\n": "has the HA resources of Proxmox, and no rules",
    "resource-affinity: a\n\taffinity negative\nnonsense\n": "line 3: is no line of /etc/pve/ha/rules.cfg",
}


@pytest.mark.parametrize(("text", "fault"), NO_RESULT.items())
def test_text_without_rules_says_what_it_is(
    run_module: RunModule, tmp_path: Path, text: str, fault: str
) -> None:
    path = tmp_path / "export"
    path.write_text(text)
    (found,) = refusals(run_module, path)
    assert fault in found and "rules of VMs and hosts are missing" not in found


SECRET = "Zm9vc2VjcmV0YmFy"
OTHERS = {
    "private key": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n",
    "kubeconfig": f"apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user: {{token: {SECRET}}}\n",
    "words": f"password {SECRET}\n",
    "passwd": f"root:{SECRET}:0:0:root:/root:/bin/bash\n",
    "csv": f"user,password,host\nroot,{SECRET},a\n",
    "semicolons": f"{SECRET};b;c\n",
    "json": json.dumps({"password": SECRET, "auths": {"a": {"auth": SECRET}}}),
    "json twice": f'{{"{SECRET}": 1, "{SECRET}": 2}}',
    "broken json": f'{{"password": "{SECRET}',
    "broken yaml": f"password: *{SECRET}\n",
    "json list": json.dumps([SECRET, "b"]),
    "vault": f"$ANSIBLE_VAULT;1.1;AES256\n{SECRET}\n",
    "section": f"node-affinity: a\n\tnodes b\n{SECRET}\n",
    "env": f"PASSWORD={SECRET}\nUSER=root\n",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_nothing_of_a_file_that_is_no_export_is_printed(
    run_module: RunModule, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "export"
    path.write_text(text)
    result = run(run_module, path)

    assert len(result["errors"]) == 1, result["errors"]
    assert SECRET not in json.dumps(result)


UNREADABLE = {
    "half a character": (LINE.replace("DC01", "\\ud800"), "half a character"),
    "deep json": ('{"a":' * 100_000, "its JSON is nested too deeply"),
    "deep yaml": ("a: " + "[" * 100_000, "is text of 1 line that is no export"),
    "bytes": (b"\xff\xfe\xfd", "is not UTF-16"),
}


@pytest.mark.parametrize(("content", "fault"), UNREADABLE.values(), ids=UNREADABLE)
def test_text_that_cannot_be_read_is_one_error(
    run_module: RunModule, tmp_path: Path, content: str | bytes, fault: str
) -> None:
    path = tmp_path / "export"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (found,) = refusals(run_module, path)
    assert fault in found


def test_workbook_of_excel_is_refused(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "RVTools.xlsx"
    path.write_bytes(b"PK\x03\x04\x14\x00")
    (fault,) = refusals(run_module, path)
    assert fault.startswith("is an archive, such as a workbook of Excel")


TYPED = '#TYPE VMware.VimAutomation.ViCore.Impl.V1.Cluster.DrsVMAffinityRuleImpl\n"Name","Enabled",'
CSV = {
    "Get-DrsRule": (
        f'{TYPED}"KeepTogether","VMIds"\n"web","True","False","System.String[]"\n',
        "is CSV with the rules of VMs (Get-DrsRule): its column VMIds has the name of a type in place of the members;"
        " the rules of VMs and hosts and the members of groups are missing.",
    ),
    "Get-DrsVMHostRule": (
        '"Name","VMGroup","VMHostGroup"\n"licensed","db","esx"\n',
        "is CSV with the rules of VMs and hosts (Get-DrsVMHostRule): it has no column Enabled; it has no column Type;"
        " the rules of VMs and the members of groups are missing.",
    ),
    "Get-DrsClusterGroup": (
        "Name;Cluster;GroupType;Member\ndb;Prod;VMGroup;VMware.VimAutomation.Types.Vm[]\n",
        "is CSV with the members of groups (Get-DrsClusterGroup): its column Member has the name of a type in place of"
        " the members; the rules of VMs and the rules of VMs and hosts are missing.",
    ),
    "own select": (
        "Name,KeepTogether,VMnames\nweb,True,a b\n",
        "it has no column Enabled; its column VMnames has a list as one text;",
    ),
    "RVTools": (
        "VM,Powerstate,Cluster,Host,VI SDK Server,VI SDK UUID\nweb,poweredOn,Prod,esx1,vc,1\n",
        "is CSV of RVTools, and no tab of RVTools has rules of DRS;",
    ),
    "VMs": (
        "VM,Powerstate,Host\nweb,poweredOn,esx1\n",
        "is CSV without the columns of rules: for the rules of VMs Name, Enabled, KeepTogether, VMIds; for the rules",
    ),
    "others": (
        "a,b,c\n1,2,3\n",
        "is CSV without the columns of rules: for the rules of VMs Name, Enabled, KeepTogether, VMIds; for the rules",
    ),
}


@pytest.mark.parametrize(("text", "fault"), CSV.values(), ids=CSV)
def test_csv_is_refused_by_what_its_columns_lack(
    run_module: RunModule, tmp_path: Path, text: str, fault: str
) -> None:
    path = tmp_path / "export.csv"
    path.write_text(text)
    (found,) = refusals(run_module, path)
    assert fault in found
    assert "docs/from-vsphere.md" in found


RULES_CFG = """\
# rules of the cluster
node-affinity: licensed
\tnodes pve2:1,pve1:2
\tresources vm:100
\tstrict 1
\tcomment the database

resource-affinity: dc-apart
\taffinity negative
\tresources vm:101,vm:102,ct:200
\tdisable
"""


def test_rules_cfg_of_proxmox_is_read_like_its_api(run_module: RunModule, tmp_path: Path) -> None:
    path = tmp_path / "rules.cfg"
    path.write_text(RULES_CFG)
    names = {f"vm:{number}": f"shop/vm-{number}" for number in (100, 101, 102)}
    hosts = {"pve1": "w1", "pve2": "w2"}
    result = run(run_module, path, vm_names=names, host_names=hosts)
    rules = [
        {
            "rule": "licensed",
            "type": "node-affinity",
            "nodes": "pve2:1,pve1:2",
            "resources": "vm:100",
            "strict": 1,
        },
        {
            "rule": "dc-apart",
            "type": "resource-affinity",
            "affinity": "negative",
            "resources": "vm:101,vm:102,ct:200",
            "disable": 1,
        },
    ]
    path.write_text(json.dumps(rules))
    of_api = run(run_module, path, vm_names=names, host_names=hosts)

    assert result.get("errors") is None, result["errors"]
    assert result == of_api
    assert [rule["name"] for rule in result["namespaces"][0]["rules"]] == ["licensed", "dc-apart"]
