# Copyright (c) 2026, virt.placement contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an import are loaded with -e and by kubectl: nothing of an export is evaluated by that."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import yaml

from .plays import RunPlaybook

MARK = "{{ lookup('pipe', 'touch MARK') }}"
RULE = {"rule_type": "vm_vm_rule", "rule_enabled": True, "rule_mandatory": True}


def export(folder: Path) -> Path:
    """Names of VMs, rules and hosts, as an owner of some of the VMs in vCenter may have written them."""
    vms = [f"a {MARK}", "b'; touch MARK; '", "c\n# x: y"]
    rules = [
        {**RULE, "rule_name": f"apart {MARK}", "rule_vms": vms, "rule_affinity": False},
        {
            **RULE,
            "rule_name": "hosts $(touch MARK)",
            "rule_type": "vm_host_rule",
            "rule_vms": vms[:1],
            "rule_vm_group_name": MARK,
            "rule_affine_host_group_name": f"licensed {MARK}",
            "rule_affine_hosts": ["esx1"],
        },
    ]
    path = folder / "rules.json"
    path.write_text(json.dumps({"drs_rule_info": {"Production": rules}}))
    return path


def test_files_of_a_hostile_export_are_loaded_as_they_are(
    tmp_path: Path, warm_playbook: RunPlaybook
) -> None:
    (tmp_path / "imported").mkdir()
    variables: dict[str, t.Any] = {
        "placement_drs_import_files": [str(export(tmp_path))],
        "placement_drs_import_read_cluster": False,
        "placement_drs_import_namespace": "shop",
        "placement_drs_import_host_names": {"esx1": "w1"},
    }

    def play(*arguments: str) -> str:
        done = warm_playbook(tmp_path, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    printed = play("virt.placement.drs_import", "-e", json.dumps(variables))
    assert "published, and written to no folder" in printed
    assert sorted(x.name for x in tmp_path.iterdir()) == ["imported", "log", "rules.json"]

    variables["placement_drs_import_folder"] = str(tmp_path / "imported")
    play("virt.placement.drs_import", "-e", json.dumps(variables))
    names = ["node_labels.yml", "report.txt", "rules-shop.yml", "vm_labels.yml"]
    assert sorted(x.name for x in (tmp_path / "imported").iterdir()) == names
    for name in ("node_labels.yml", "rules-shop.yml", "vm_labels.yml"):
        text = (tmp_path / "imported" / name).read_text()
        assert "{{" not in text
        assert not {"$", "`"} & {*text}
        yaml.safe_load(text)
    seen = {
        "copy": {"content": "{{ placement_apply_rules | to_json }}", "dest": f"{tmp_path}/seen"}
    }
    tasks = [{"ansible.builtin.copy": seen["copy"]}]
    head = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    (tmp_path / "load.yml").write_text(json.dumps([head]))
    play("load.yml", "-e", "@imported/rules-shop.yml", "-e", "@imported/node_labels.yml")
    assert len(json.loads((tmp_path / "seen").read_text())) == 2
    assert not list(tmp_path.rglob("MARK"))
